"""
How accurate are the quantiles, beside the mechanisms as they were published?

Mean number of records between estimate and truth, averaged over the quantiles i / (m + 1), for
n = 1000 records of three shapes.

    python examples/benchmarks/measured.py published
"""

import numpy as np
from joblib import Parallel, delayed
from published_aq import as_written_aq, published_aq
from published_joint_exp import published_joint_exp
from results import Number, Table

from dpq_sklearn import dp_quantiles

N_RECORDS = 1000
NUMBERS = (1, 4, 9, 31)
SHAPES = {
    "N(0, 5)": (lambda rng: rng.normal(0, 5, N_RECORDS), (-100.0, 100.0)),
    "uniform(-5, 5)": (lambda rng: rng.uniform(-5, 5, N_RECORDS), (-100.0, 100.0)),
    "lognormal(3, 1)": (lambda rng: rng.lognormal(3, 1, N_RECORDS), (0.0, 10_000.0)),
}
BUDGETS = {"eps = 1": {"eps": 1.0}, "rho = 1/2": {"eps": None, "rho": 0.5}}
METHODS = ("ours", "ours, no bounds", "AQ, published", "AQ, as written", "JointExp")
PURE_ONLY = "JointExp"  # at its published cost


def estimates(method, x, q, bounds, budget, rng, seed):
    if method == "ours":
        return dp_quantiles(x, q, bounds=bounds, random_state=seed, **budget)
    if method == "ours, no bounds":
        return dp_quantiles(x, q, random_state=seed, **budget)
    if method == "JointExp":
        return published_joint_exp(np.sort(x), q, *bounds, budget["eps"], rng)
    reading = published_aq if method == "AQ, published" else as_written_aq
    return reading(np.sort(x), q, *bounds, budget["eps"], rng, budget.get("rho"))


def mean_rank_error(method, m, shape, budget, seed):
    rng = np.random.default_rng((m, seed))
    sample, bounds = SHAPES[shape]
    x, q = sample(rng), np.arange(1, m + 1) / (m + 1)
    below = np.searchsorted(np.sort(x), estimates(method, x, q, bounds, budget, rng, seed))
    return np.abs(below - np.floor(q * N_RECORDS)).mean()


def table(shape, budget, methods, numbers, trials, jobs):
    cells = [(m, method) for m in numbers for method in methods]
    errors = Parallel(n_jobs=jobs, batch_size=50)(
        delayed(mean_rank_error)(method, m, shape, budget, seed)
        for m, method in cells
        for seed in range(trials)
    )
    errors = np.reshape(errors, (len(numbers), len(methods), trials))
    return errors.mean(axis=2), errors.std(axis=2, ddof=1) / np.sqrt(trials)


def measure(trials):
    """Return the rank errors of all methods, for some numbers of quantiles."""
    rows = {}
    for shape in SHAPES:
        for name, budget in BUDGETS.items():
            methods = [m for m in METHODS if budget["eps"] is not None or m != PURE_ONLY]
            means, errors = table(shape, budget, methods, NUMBERS, trials, jobs=1)
            for row, m in enumerate(NUMBERS):
                cells = [Number(*pair, 2) for pair in zip(means[row], errors[row], strict=True)]
                rows[f"{shape}, {name}, m={m}"] = cells + ["-"] * (len(METHODS) - len(cells))
    return Table(
        title=f"Rows between the estimate and the exact quantile, {N_RECORDS:,} rows, m quantiles.",
        columns=["", *METHODS],
        rows=rows,
        trials=trials,
    )
