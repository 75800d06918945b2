"""
What does privacy cost a model behind the bins?

Test accuracy and AUC of one pipeline on 20,000 rows of 15 features of mixed kind, with exact
bins of scikit-learn and with private ones, over repeated fits on the same split.

    python examples/benchmarks/measured.py model_cost
"""

import warnings

import numpy as np
from results import Number, Table
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer

from dpq_sklearn import DPKBinsDiscretizer

N_BINS = 8


def mixed_data(rng, n=20_000):
    """Return 15 features, 5 kinds, and a label that depends on most of them, not linearly."""
    normal = rng.normal(size=(n, 3))
    skewed = rng.lognormal(9, 1.2, size=(n, 3))
    integers = rng.integers(18, 90, size=(n, 3)).astype(float)
    inflated = rng.gamma(2.0, 50.0, size=(n, 3)) * (rng.random((n, 3)) < 0.4)
    heavy = rng.standard_t(1.5, size=(n, 3)) * 1000
    logit = (
        np.sin(2 * normal[:, 0])
        + 0.8 * (np.log(skewed[:, 0]) - 9)
        - 1.2 * (np.abs(integers[:, 0] - 50) < 12)
        + 0.9 * (inflated[:, 0] > 0)
        + np.arctan(heavy[:, 0] / 1000)
        + 0.4 * (normal[:, 1] > 0.5)
        + 0.5 * np.tanh(np.log(skewed[:, 1]) - 9)
    )
    return np.hstack((normal, skewed, integers, inflated, heavy)), rng.random(n) < 1 / (
        1 + np.exp(-logit)
    )


def scores(discretizer, split):
    X_train, X_test, y_train, y_test = split
    model = make_pipeline(discretizer, LogisticRegression(C=0.3, max_iter=2000)).fit(
        X_train, y_train
    )
    return model.score(X_test, y_test), roc_auc_score(y_test, model.decision_function(X_test))


def measure(trials):
    """Return the scores with exact bins, and with private ones for several eps."""
    X, y = mixed_data(np.random.default_rng(0))
    split = train_test_split(X, y, test_size=0.5, random_state=0)
    exact = KBinsDiscretizer(N_BINS, strategy="quantile", subsample=None)
    if "quantile_method" in exact.get_params():
        exact.set_params(quantile_method="averaged_inverted_cdf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # bins that the exact one drops
        of_exact = np.array(scores(exact, split))

    rows = {"exact bins": [Number(score, 0.0, 4) for score in of_exact] + ["-"]}
    for eps in (0.1, 0.3, 1, 3, 10):
        binners = [DPKBinsDiscretizer(N_BINS, eps=eps, random_state=i) for i in range(trials)]
        accuracy, auc = np.transpose([scores(binner, split) for binner in binners])
        behind = 100 * (of_exact[0] - accuracy)
        rows[f"eps={eps}"] = [Number.of(accuracy, 4), Number.of(auc, 4), Number.of(behind, 2)]

    return Table(
        title=f"A logistic regression behind {N_BINS} bins of 15 features: 10,000 rows to learn "
        "from, 10,000 to test with.",
        columns=["bins", "accuracy", "AUC", "points behind exact bins"],
        rows=rows,
        trials=trials,
    )
