"""
What does privacy cost a model behind the bins?

Test accuracy and AUC of one pipeline on 20,000 rows of 15 features of mixed kind, with exact
bins of scikit-learn and with private ones, over repeated fits on the same split.

    python examples/benchmarks/utility.py [--trials 20]
"""

import argparse
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer

from dpq_sklearn import DPKBinsDiscretizer, PrivacyNoiseWarning

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--trials", type=int, default=20)
    trials = parser.parse_args().trials
    warnings.simplefilter("ignore", PrivacyNoiseWarning)  # the table says how noisy it is
    X, y = mixed_data(np.random.default_rng(0))
    split = train_test_split(X, y, test_size=0.5, random_state=0)
    exact = KBinsDiscretizer(N_BINS, strategy="quantile", subsample=None)
    if "quantile_method" in exact.get_params():
        exact.set_params(quantile_method="averaged_inverted_cdf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # bins that the exact one drops
        accuracy, auc = scores(exact, split)
    print(f"20,000 rows, half for training, 15 features, {N_BINS} bins, {trials} private fits each")
    print(f"{'bins':>12} {'accuracy':>18} {'AUC':>20} {'accuracy - exact':>18}")
    print(f"{'exact':>12} {accuracy:>18.4f} {auc:>20.4f}")
    for eps in (0.1, 0.3, 1, 3, 10):
        runs = np.array([scores(DPKBinsDiscretizer(N_BINS, eps=eps), split) for _ in range(trials)])
        mean, error = runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(trials)
        cells = [f"{value:.4f} +- {e:.4f}" for value, e in zip(mean, error, strict=True)]
        points = 100 * (mean[0] - accuracy)
        print(f"{f'eps = {eps}':>12} {cells[0]:>18} {cells[1]:>20} {points:>+11.2f} points")


if __name__ == "__main__":
    main()
