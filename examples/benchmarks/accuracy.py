"""
How accurate are the quantiles, beside the mechanisms as they were published?

Mean number of records between estimate and truth, averaged over the quantiles i / (m + 1), for
n = 1000 records of three shapes. Prints a table for each shape and budget, with standard errors
over the trials, then how far ours is from the best of all at its worst m, and the ratios of the
means over all m.

    python examples/benchmarks/accuracy.py [--trials 300] [--jobs 2] [--most 31]
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from dpq_sklearn import dp_quantiles

sys.path.insert(0, str(Path(__file__).parents[1] / "paper"))
from published_aq import as_written_aq, published_aq
from published_joint_exp import published_joint_exp

N_RECORDS = 1000
SHAPES = {
    "N(0, 5)": (lambda rng: rng.normal(0, 5, N_RECORDS), (-100.0, 100.0)),
    "uniform(-5, 5)": (lambda rng: rng.uniform(-5, 5, N_RECORDS), (-100.0, 100.0)),
    "lognormal(3, 1)": (lambda rng: rng.lognormal(3, 1, N_RECORDS), (0.0, 10_000.0)),
}
BUDGETS = {"eps = 1": {"eps": 1.0}, "rho = 1/2": {"eps": None, "rho": 0.5}}
METHODS = ("ours", "ours, no bounds", "AQ, published", "AQ, as written", "JointExp")
PURE_ONLY = "JointExp"  # at its published cost


def estimates(method, x, q, bounds, budget, rng):
    if method == "ours":
        return dp_quantiles(x, q, bounds=bounds, **budget)
    if method == "ours, no bounds":
        return dp_quantiles(x, q, **budget)
    if method == "JointExp":
        return published_joint_exp(np.sort(x), q, *bounds, budget["eps"], rng)
    reading = published_aq if method == "AQ, published" else as_written_aq
    return reading(np.sort(x), q, *bounds, budget["eps"], rng, budget.get("rho"))


def mean_rank_error(method, m, shape, budget, seed):
    rng = np.random.default_rng((m, seed))
    sample, bounds = SHAPES[shape]
    x, q = sample(rng), np.arange(1, m + 1) / (m + 1)
    below = np.searchsorted(np.sort(x), estimates(method, x, q, bounds, budget, rng))
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


def print_table(shape, name, numbers, options):
    budget = BUDGETS[name]
    methods = [m for m in METHODS if budget["eps"] is not None or m != PURE_ONLY]
    means, errors = table(shape, budget, methods, numbers, options.trials, options.jobs)
    print(f"\n{name}, n = {N_RECORDS}, {shape}, {options.trials} trials: mean rank error")
    print("   m " + "".join(f"{method:>17}" for method in methods))
    for row, m in enumerate(numbers):
        cells = (f"{a:.2f} +- {b:.2f}" for a, b in zip(means[row], errors[row], strict=True))
        print(f"{m:4} " + "".join(f"{cell:>17}" for cell in cells))

    of_best = means[:, 0] / means[:, 2:].min(axis=1)
    at = of_best.argmax()
    print(f"ours over the best published one: at most {of_best[at]:.2f}, at m = {numbers[at]}")
    overall = means.mean(axis=0)
    for column in range(2, len(methods)):
        ratios = ", ".join(f"{methods[i]} {overall[i] / overall[column]:.2f}" for i in (0, 1))
        print(f"times the error of {methods[column]}, over all m: {ratios}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most", type=int, default=31)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES))
    options = parser.parse_args()
    for shape in options.shapes:
        for name in BUDGETS:
            print_table(shape, name, range(1, options.most + 1), options)


if __name__ == "__main__":
    main()
