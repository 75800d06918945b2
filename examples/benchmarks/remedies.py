"""What each remedy makes of a fit that warns: the report before and after, and what is true.

python examples/benchmarks/measured.py remedies
"""

import warnings
from collections import Counter

import numpy as np
from results import Number, Table
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


def measure(trials):
    """Return what the report says and what is true, for each remedy."""
    data = load_breast_cancer().data
    shuffled = np.random.default_rng(0).permutation(data)
    public, X = shuffled[:100], shuffled[100:]

    rows = {}
    for remedy, options in REMEDIES.items():
        fits = [fit(X, public, random_state=seed, **options) for seed in range(trials)]
        verdicts = Counter(binner.quality_report()["verdict"][0] for binner, _, _ in fits)
        rows[remedy] = [
            Number.of([binner.error_in_bins_.mean() for binner, _, _ in fits], 2),
            Number.of([measured_errors(binner, seen).mean() for binner, _, seen in fits], 2),
            verdicts.most_common(1)[0][0].split(";")[0],
            f"{np.mean([warned for _, warned, _ in fits]):.0%}",
        ]

    return Table(
        title="breast_cancer, 469 private rows of 30 features: the error of an edge in bins.",
        columns=["", "expected", "measured", "most frequent verdict", "fits that warn"],
        rows=rows,
        trials=trials,
    )
