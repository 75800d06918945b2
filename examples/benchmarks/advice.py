"""What does each step buy that the warning after a fit names? Errors, and a model behind the bins.

    python examples/benchmarks/measured.py advice

Tables with 12 columns of different kinds, and a label that goes by the ranks of their values. The
bins are fitted on so many private rows, and the logistic regression behind them as well; accuracy
is that on 5,000 other rows. Errors are in bins: the mean of the errors in rank, and what the rule
of enough data predicts for so many rows.
"""

import numpy as np
from results import Number, Table
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from dpq_sklearn import DPKBinsDiscretizer
from dpq_sklearn.forecast.enough_data import errors_in_bins

N_ROWS, EPS = 300, 1.0
N_OTHER_ROWS = 5000
N_PUBLIC_ROWS = 100
# How each column is drawn, its decimals if they are known, and bounds that a person would name.
COLUMNS = {
    "N(0, 1)": (lambda rng, n: rng.normal(size=n), None, (-10, 10)),
    "N(100, 15)": (lambda rng, n: rng.normal(100, 15, n), None, (0, 300)),
    "logistic(-3, 2)": (lambda rng, n: rng.logistic(-3, 2, n), None, (-100, 100)),
    "lognormal(3, 1)": (lambda rng, n: rng.lognormal(3, 1, n), None, (0, 10_000)),
    "exponential": (lambda rng, n: rng.exponential(size=n), None, (0, 100)),
    "uniform on (50, 60)": (lambda rng, n: rng.uniform(50, 60, n), None, (0, 100)),
    "shares": (lambda rng, n: rng.beta(2, 5, n), None, (0, 1)),
    "salaries, cents": (lambda rng, n: rng.lognormal(11, 0.7, n).round(2), 2, (0, 10**7)),
    "ages": (lambda rng, n: rng.normal(42, 16, n).clip(17, 90).round(), 0, (0, 120)),
    "heights": (lambda rng, n: rng.normal(170, 10, n).round(), 0, (50, 250)),
    "Poisson(3)": (lambda rng, n: rng.poisson(3, n), 0, (0, 50)),
    "zeros and counts": (
        lambda rng, n: np.where(rng.random(n) < 0.4, 0, rng.geometric(0.1, n)),
        0,
        (0, 1000),
    ),
}
BOUNDS = [bounds for _, _, bounds in COLUMNS.values()]
DECIMALS = [decimals for _, decimals, _ in COLUMNS.values()]


def rows_of(rng, n_rows):
    return np.column_stack([make(rng, n_rows) for make, _, _ in COLUMNS.values()])


def labelled_rows(rng, n_rows):
    """Return rows, and labels whose odds go by ranks, in three columns by extreme ones."""
    X = rows_of(rng, n_rows)
    ranks = rankdata(X, axis=0) / n_rows - 0.5
    signs = np.resize([1.0, -1.0], len(COLUMNS))
    effects = np.where(np.arange(len(COLUMNS)) % 4 == 3, 4 * np.abs(ranks) - 1, 2 * ranks)
    return X, rng.random(n_rows) < 1 / (1 + np.exp(-(effects * signs).sum(axis=1)))


def steps(eps, public_rows):
    """Return the parameters of the discretizer by step."""
    start = {"n_bins": 5, "eps": eps}
    return {
        "5 bins": start,
        "delta=1e-6": start | {"delta": 1e-6},
        "public bounds": start | {"bounds": BOUNDS},
        "decimals": start | {"decimals": DECIMALS},
        "bounds and decimals": start | {"bounds": BOUNDS, "decimals": DECIMALS},
        "100 public rows as prior": start | {"prior": public_rows},
        "4 bins": start | {"n_bins": 4},
        "3 bins": start | {"n_bins": 3},
        "2 bins": start | {"n_bins": 2},
        "half of the features": start,
        "twice the eps": start | {"eps": 2 * eps},
    }


def mean_error(X, edges):
    """Return the mean error in rank of all edges, in bins."""
    errors = []
    for values, of_column in zip(np.sort(X.T), edges, strict=True):
        n_bins = of_column.size - 1
        wanted = np.arange(1, n_bins) / n_bins * values.size
        below = np.searchsorted(values, of_column[1:-1], side="left")
        up_to = np.searchsorted(values, of_column[1:-1], side="right")
        off = np.maximum(np.maximum(below - wanted, wanted - up_to), 0)
        errors.append(np.mean(off) / values.size * n_bins)
    return np.mean(errors)


def results(n_rows, eps, n_fits):
    """Return accuracies, errors in bins and predicted ones of each step."""
    found = {}
    for fit in range(n_fits):
        rng = np.random.default_rng(fit)
        X, y = labelled_rows(rng, n_rows + N_OTHER_ROWS)
        for step, parameters in steps(eps, rows_of(rng, N_PUBLIC_ROWS)).items():
            used = slice(None, None, 2 if step == "half of the features" else 1)
            binner = DPKBinsDiscretizer(random_state=fit, **parameters)
            model = make_pipeline(binner, LogisticRegression(C=0.3, max_iter=1000))
            model.fit(X[:n_rows, used], y[:n_rows])

            n_features = binner.n_features_in_
            plan = binner._plan(n_features, binner._total_budget())
            found.setdefault(step, []).append(
                (
                    model.score(X[n_rows:, used], y[n_rows:]),
                    mean_error(X[:n_rows, used], binner.bin_edges_),
                    errors_in_bins(plan, n_rows).mean(),
                )
            )
    return found


def measure(trials):
    """Return the accuracy of the model and the errors in bins, after each step."""
    rows = {}
    for step, of_fits in results(N_ROWS, EPS, trials).items():
        accuracy, measured, predicted = np.transpose(of_fits)
        rows[step] = [
            Number.of(accuracy, 3),
            Number.of(measured, 2),
            Number(predicted[0], 0.0, 2),
        ]

    return Table(
        title=f"{N_ROWS} rows of {len(COLUMNS)} features, eps={EPS:g}: a logistic regression "
        "behind the bins, and the error of an edge in bins.",
        columns=["", "accuracy", "measured error", "expected error"],
        rows=rows,
        trials=trials,
    )
