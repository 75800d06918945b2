"""Does n_bins="auto" choose well? Cross-validated accuracy of a model behind private bins.

    python examples/benchmarks/auto_bins.py [--repeats 5] [--data wine ...]

A logistic regression behind `DPKBinsDiscretizer(encode="onehot")` in repeated 3-fold
cross-validation, the same folds for every number of bins. The target of diabetes is whether y is
above its median. "behind" is how many points "auto" is below the best fixed number of bins, and
"chosen" the number that it took most often.
"""

import argparse
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline

from dpq_sklearn import DPKBinsDiscretizer, PrivacyNoiseWarning

FIXED = (2, 3, 5, 8)
BUDGETS = [{"eps": eps, "delta": delta} for delta in (0.0, 1e-6) for eps in (0.5, 1.0, 3.0, 10.0)]


def tables():
    """Return the rows and labels of each table by name."""
    diabetes, target = load_diabetes(return_X_y=True)
    return {
        "breast_cancer": load_breast_cancer(return_X_y=True),
        "wine": load_wine(return_X_y=True),
        "diabetes": (diabetes, target > np.median(target)),
        "digits": load_digits(return_X_y=True),
    }


def accuracies(X, y, n_bins, budget, n_repeats):
    """Return the mean accuracy of each repetition, and the number of bins of each fit."""
    pipeline = make_pipeline(
        DPKBinsDiscretizer(n_bins, **budget), LogisticRegression(C=0.3, max_iter=1000)
    )
    folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=n_repeats, random_state=0)
    found = cross_validate(pipeline, X, y, cv=folds, return_estimator=True)
    n_bins_found = [int(model[0].n_bins_[0]) for model in found["estimator"]]
    return found["test_score"].reshape(n_repeats, -1).mean(axis=1), n_bins_found


def print_table(name, X, y, n_repeats):
    print(f"{name}, {X.shape[0]} x {X.shape[1]}, most frequent class {most_frequent(y):.3f}")
    print(f"{'eps':>5} {'delta':>6}", *(f"{f'{n} bins':>9}" for n in FIXED), end="")
    print(f" {'auto':>9} {'s.e.':>6} {'chosen':>6} {'behind':>7}")
    for budget in BUDGETS:
        fixed = [accuracies(X, y, n, budget, n_repeats)[0].mean() for n in FIXED]
        of_auto, chosen = accuracies(X, y, "auto", budget, n_repeats)
        error = of_auto.std(ddof=1) / np.sqrt(n_repeats)
        behind = 100 * (max(fixed) - of_auto.mean())
        print(
            f"{budget['eps']:5g} {budget['delta']:6g}", *(f"{mean:9.3f}" for mean in fixed), end=""
        )
        typical = max(set(chosen), key=chosen.count)
        print(f" {of_auto.mean():9.3f} {error:6.3f} {typical:6} {behind:7.1f}", flush=True)


def most_frequent(y):
    return np.unique(y, return_counts=True)[1].max() / y.size


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="of the 3-fold cross-validation")
    parser.add_argument("--data", nargs="*", default=list(tables()), choices=list(tables()))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyNoiseWarning)
    for name in arguments.data:
        print_table(name, *tables()[name], arguments.repeats)


if __name__ == "__main__":
    main()
