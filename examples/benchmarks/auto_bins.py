"""Does n_bins="auto" choose well? Cross-validated accuracy of a model behind private bins.

    python examples/benchmarks/measured.py auto_bins

A logistic regression behind `DPKBinsDiscretizer(encode="onehot")` in repeated 3-fold
cross-validation, the same folds for every number of bins. The target of diabetes is whether y is
above its median.
"""

import numpy as np
from results import Number, Table
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline

from dpq_sklearn import DPKBinsDiscretizer

FIXED = (2, 3, 5, 8)
BUDGETS = [{"eps": eps, "delta": delta} for delta in (0.0, 1e-6) for eps in (1.0, 3.0)]


def tables():
    """Return the rows and labels of each table by name."""
    diabetes, target = load_diabetes(return_X_y=True)
    return {
        "breast_cancer": load_breast_cancer(return_X_y=True),
        "wine": load_wine(return_X_y=True),
        "diabetes": (diabetes, target > np.median(target)),
    }


def accuracies(X, y, n_bins, budget, n_repeats):
    """Return the mean accuracy of each repetition, and the number of bins of each fit."""
    pipeline = make_pipeline(
        DPKBinsDiscretizer(n_bins, **budget),
        LogisticRegression(C=0.3, max_iter=1000),
    )
    folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=n_repeats, random_state=0)
    found = cross_validate(pipeline, X, y, cv=folds, return_estimator=True)
    n_bins_found = [int(model[0].n_bins_[0]) for model in found["estimator"]]
    return found["test_score"].reshape(n_repeats, -1).mean(axis=1), n_bins_found


def measure(n_repeats):
    """Return the accuracy of "auto" and of the best fixed number of bins."""
    rows = {}
    for name, (X, y) in tables().items():
        for budget in BUDGETS:
            fixed = {n: accuracies(X, y, n, budget, n_repeats)[0] for n in FIXED}
            best = max(fixed, key=lambda n: fixed[n].mean())
            of_auto, chosen = accuracies(X, y, "auto", budget, n_repeats)
            with_delta = ", delta=1e-6" if budget["delta"] else ""
            rows[f"{name}, eps={budget['eps']:g}{with_delta}"] = [
                Number.of(100 * of_auto, 1),
                Number.of(100 * fixed[best], 1),
                f"{best}",
                f"{max(set(chosen), key=chosen.count)}",
            ]
    return Table(
        title="Accuracy in percent of a logistic regression behind the bins, in repeated 3-fold "
        "cross-validation.",
        columns=["", '`n_bins="auto"`', "best of 2, 3, 5 and 8 bins", "which", '"auto" chose'],
        rows=rows,
        trials=n_repeats,
    )
