"""What each remedy makes of a fit that warns: the report before and after, and what is true.

python examples/benchmarks/remedies.py --fits 20
"""

import argparse
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer

from dpq_sklearn import DPKBinsDiscretizer, PrivacyNoiseWarning

REMEDIES = {
    "as it was: 5 bins, eps=1": {},
    "2 bins": {"n_bins": 2},
    "6 of the 30 features": {"n_features": 6},
    "delta=1e-6": {"delta": 1e-6},
    "public bounds": {"with_bounds": True},
    "100 public rows as prior": {"with_prior": True},
    "eps=3": {"eps": 3.0},
    "delta=1e-6 and the prior": {"delta": 1e-6, "with_prior": True},
}


def measured_errors(binner, X):
    """Return how far the inner edges are off, in bins, for each feature."""
    errors = []
    for edges, column in zip(binner.bin_edges_, np.sort(X.T), strict=True):
        inner = edges[1:-1]
        wanted = np.arange(1, inner.size + 1) / (inner.size + 1) * column.size
        below = np.searchsorted(column, inner, "left")
        up_to = np.searchsorted(column, inner, "right")
        off = np.maximum(np.maximum(below - wanted, wanted - up_to), 0)
        errors.append(off.mean() / (column.size / (inner.size + 1)))
    return np.array(errors)


def fit(X, public, n_bins=5, n_features=30, with_bounds=False, with_prior=False, **budget):
    """Fit once; return the transformer, whether it warned, and the rows that it saw."""
    X, public = X[:, :n_features], public[:, :n_features]
    known = {"encode": "ordinal"}
    if with_bounds:  # what a textbook might say: not negative, and at most so large
        known["bounds"] = [(0, 10.0 ** np.ceil(np.log10(column.max()))) for column in public.T]
    if with_prior:
        known["prior"] = public
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrivacyNoiseWarning)
        binner = DPKBinsDiscretizer(n_bins, **known, **budget).fit(X)
    return binner, any(w.category is PrivacyNoiseWarning for w in caught), X


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=20)
    n_fits = parser.parse_args().fits

    data = load_breast_cancer().data
    shuffled = np.random.default_rng(0).permutation(data)
    public, X = shuffled[:100], shuffled[100:]
    print("| | report: error in bins | verdict | warns | measured |")
    print("|---|---:|---|---:|---:|")
    for remedy, options in REMEDIES.items():
        fits = [fit(X, public, **options) for _ in range(n_fits)]
        reported = np.median([binner.error_in_bins_.mean() for binner, _, _ in fits])
        middle = fits[np.argsort([b.error_in_bins_.mean() for b, _, _ in fits])[n_fits // 2]][0]
        verdict = middle.quality_report()["verdict"][0].split(";")[0]
        warned = np.mean([warned for _, warned, _ in fits])
        errors = np.array([measured_errors(binner, rows).mean() for binner, _, rows in fits])
        deviation = errors.std(ddof=1) / np.sqrt(n_fits)
        print(
            f"| {remedy} | {reported:.2g} | {verdict} | {warned:.0%} "
            f"| {errors.mean():.2f} ± {deviation:.2f} |"
        )


if __name__ == "__main__":
    main()
