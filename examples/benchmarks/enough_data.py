"""Does the rule of enough data say how far off edges are? Measured errors beside expected ones.

    python examples/benchmarks/measured.py enough_data

For each kind of columns, what is publicly known of them, some numbers of bins and some budgets: the
mean of the errors in rank of many columns of this kind, in bins, over what the rule expects.
Budgets range from one with which most draws miss the data to one with which all find them; errors
below a tenth of a bin are left out. The constants of the rule were fitted to the first kinds; the
others, and the tables of scikit-learn, were left out of the fit.
"""

import numpy as np
from results import Number, Table
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer
from dpq_sklearn.forecast.enough_data import errors_in_bins

# How columns are drawn, their decimals if they have any, and bounds that a person would name.
FITTED = {
    "Poisson(3)": (lambda rng, n: rng.poisson(3, n), 0, (0, 50)),
    "ages": (lambda rng, n: rng.normal(42, 16, n).clip(17, 90).round(), 0, (0, 120)),
    "ratings": (lambda rng, n: rng.choice(5, n, p=[0.05, 0.1, 0.2, 0.35, 0.3]) + 1, 0, (1, 5)),
    "zeros, counts": (
        lambda rng, n: np.where(rng.random(n) < 0.6, 0, rng.geometric(0.1, n)),
        0,
        (0, 1000),
    ),
    "years": (lambda rng, n: rng.normal(2005, 8, n).round(), 0, (1900, 2030)),
    "hours": (
        lambda rng, n: np.where(
            rng.random(n) < 0.45, 40, rng.normal(40, 13, n).clip(1, 99).round()
        ),
        0,
        (0, 168),
    ),
    "large counts": (lambda rng, n: rng.lognormal(8, 1, n).round(), 0, (0, 10**6)),
    "0 and 1": (lambda rng, n: rng.random(n) < 0.3, 0, (0, 1)),
    "salaries": (lambda rng, n: rng.lognormal(11, 0.7, n).round(2), 2, (0, 10**7)),
    "prices": (lambda rng, n: np.floor(rng.lognormal(3, 1, n)) + 0.99, 2, (0, 10**4)),
    "thousands": (lambda rng, n: rng.lognormal(12, 0.6, n).round(-3), -3, (0, 10**7)),
    "N(0, 1)": (lambda rng, n: rng.normal(size=n), None, (-10, 10)),
    "N(100, 15)": (lambda rng, n: rng.normal(100, 15, n), None, (0, 300)),
    "uniform on (50, 60)": (lambda rng, n: rng.uniform(50, 60, n), None, (0, 100)),
    "exponential": (lambda rng, n: rng.exponential(size=n), None, (0, 100)),
    "lognormal(0, 1)": (lambda rng, n: rng.lognormal(size=n), None, (0, 1000)),
    "Cauchy": (lambda rng, n: rng.standard_cauchy(n), None, (-(10**4), 10**4)),
    "shares": (lambda rng, n: rng.beta(2, 5, n), None, (0, 1)),
    "N(1e6, 1e5)": (lambda rng, n: rng.normal(1e6, 1e5, n), None, (0, 10**7)),
    "N(0, 0.01)": (lambda rng, n: rng.normal(0, 0.01, n), None, (-1, 1)),
}
LEFT_OUT = {
    "Poisson(0.5)": (lambda rng, n: rng.poisson(0.5, n), 0, (0, 10)),
    "binomial(20, 0.3)": (lambda rng, n: rng.binomial(20, 0.3, n), 0, (0, 20)),
    "working ages": (lambda rng, n: rng.integers(18, 66, n), 0, (16, 80)),
    "scores": (
        lambda rng, n: rng.choice(7, n, p=[0.02, 0.05, 0.08, 0.15, 0.5, 0.15, 0.05]) + 1,
        0,
        (1, 7),
    ),
    "incomes": (lambda rng, n: rng.lognormal(9, 1.5, n).round(2), 2, (0, 10**8)),
    "temperatures": (lambda rng, n: rng.normal(37, 0.6, n).round(1), 1, (30, 45)),
    "heights": (lambda rng, n: rng.normal(170, 10, n).round(), 0, (50, 250)),
    "gamma(2, 5)": (lambda rng, n: rng.gamma(2, 5, n), None, (0, 200)),
    "logistic(-3, 2)": (lambda rng, n: rng.logistic(-3, 2, n), None, (-100, 100)),
    "triangular(0, 10)": (lambda rng, n: rng.triangular(0, 3, 10, n), None, (0, 10)),
    "Student t, 2 degrees": (lambda rng, n: rng.standard_t(2, n), None, (-1000, 1000)),
    "Weibull(0.7)": (lambda rng, n: 1e4 * rng.weibull(0.7, n), None, (0, 10**6)),
}
KNOWN = ("nothing", "bounds", "decimals", "bounds and decimals", "100 public rows")
# The eps of a column times the rows, for numbers of bins.
BUDGETS = {2: (4, 8, 16, 32), 5: (8, 16, 32, 64, 128), 16: (32, 64, 128)}
LEAST_ERROR = 0.1
N_ROWS = 300


def measured_and_expected(X, n_bins, rows_times_eps, n_fits=1, **known):
    """Return the mean errors of columns in bins, and what is expected."""
    n_rows, n_columns = X.shape
    # A quantile transformer has the quantiles as they are; bins move edges that are equal.
    estimator = DPQuantileTransformer(n_bins - 1) if n_bins > 2 else DPKBinsDiscretizer(2)
    estimator.set_params(eps=rows_times_eps / n_rows * n_columns, **known)

    errors = []
    for seed in range(n_fits):
        values = estimator.set_params(random_state=seed).fit(X)._private_values()
        errors += [mean_error(x, q) for x, q in zip(np.sort(X.T), values, strict=True)]
    plan = estimator._plan(n_columns, estimator._total_budget())
    return np.mean(errors), errors_in_bins(plan, n_rows).mean()


def mean_error(x, released):
    """Return the mean error in rank of released quantiles, in bins."""
    n_bins = released.size + 1
    wanted = np.arange(1, n_bins) / n_bins * x.size
    below = np.searchsorted(x, released, side="left")
    up_to = np.searchsorted(x, released, side="right")
    off = np.maximum(np.maximum(below - wanted, wanted - up_to), 0)
    return np.mean(off) / x.size * n_bins


def ratios_of_kind(kind, n_rows, n_columns):
    """Yield what is known, and measured over expected errors."""
    make, decimals, bounds = kind
    rng = np.random.default_rng(0)
    X = np.asarray(make(rng, (n_rows, n_columns)), dtype=float)
    public_rows = np.asarray(make(rng, (100, n_columns)), dtype=float)
    parameters = {
        "nothing": {},
        "bounds": {"bounds": bounds},
        "decimals": {"decimals": decimals},
        "bounds and decimals": {"bounds": bounds, "decimals": decimals},
        "100 public rows": {"prior": public_rows},
    }
    for known in KNOWN:
        if "decimals" in known and decimals is None:
            continue
        for n_bins, budgets in BUDGETS.items():
            for budget in budgets:
                yield known, *measured_and_expected(X, n_bins, budget, **parameters[known])


def cells_of(found, known):
    """Return how measured over expected errors are distributed, for what is known."""
    ratios = [
        measured / expected
        for known_here, measured, expected in found
        if known_here == known and max(measured, expected) > LEAST_ERROR
    ]
    if not ratios:
        return None
    quantiles = np.quantile(ratios, [0.05, 0.25, 0.5, 0.75, 0.95])
    return [f"{len(ratios)}", *(Number(quantile, 0.0, 2) for quantile in quantiles)]


def ratios_of_tables():
    """Yield what `ratios_of_kind` does, for tables of scikit-learn."""
    tables = (
        load_breast_cancer().data,
        load_wine().data,
        load_diabetes(scaled=False).data,
        load_iris().data,
        load_digits().data[:, 10:40],
    )
    for X in tables:
        for n_bins, budgets in BUDGETS.items():
            for budget in budgets:
                n_fits = max(3, 60 // X.shape[1])
                yield "nothing", *measured_and_expected(X, n_bins, budget, n_fits)


def measure(n_columns):
    """Return the quantiles of measured over expected errors, by what is known."""
    found = {
        title: [
            entry for kind in kinds.values() for entry in ratios_of_kind(kind, N_ROWS, n_columns)
        ]
        for title, kinds in (("kinds fitted to", FITTED), ("kinds left out", LEFT_OUT))
    }
    found["tables of scikit-learn"] = list(ratios_of_tables())

    rows = {}
    for title, of_kinds in found.items():
        for known in KNOWN:
            cells = cells_of(of_kinds, known)
            if cells is not None:
                rows[f"{title}; known: {known}"] = cells
    return Table(
        title="Measured over expected error in bins: quantiles over the cases.",
        columns=["", "cases", "5%", "25%", "50%", "75%", "95%"],
        rows=rows,
        trials=n_columns,
    )
