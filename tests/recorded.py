"""Releases with a seed, recorded: ``python -m tests.recorded`` writes them anew.

Do so only when the engine changes on purpose, and say in the commit why.
"""

import json
import warnings
from pathlib import Path

import numpy as np

from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPQuantileTransformer,
    dp_count,
    dp_histogram,
    dp_quantiles,
    sanitize,
)

PATH = Path(__file__).parent / "data" / "recorded_releases.json"
BUDGETS = {
    "eps": {"eps": 1.0},
    "little": {"eps": 0.1},
    "delta": {"eps": 1.0, "delta": 1e-6},
    "rho": {"eps": None, "rho": 0.05},
}
BOUNDS = {"open": None, "low": (0, None), "both": (-5, 1000)}
MECHANISMS = ("aq", "agg_tree", "auto")


def columns():
    """Return a table of columns of different kinds, with missing values."""
    rng = np.random.default_rng(7)
    n = 700
    X = np.column_stack(
        (
            rng.lognormal(3, 1, n),
            rng.normal(size=n),
            rng.poisson(0.7, n),
            rng.integers(18, 80, n),
            np.round(rng.gamma(2, 15, n), 2),
            np.where(rng.random(n) < 0.6, 0.0, rng.exponential(50, n)),
        )
    )
    X[rng.random(n) < 0.03, 1] = np.nan
    return X


def _edges(estimator):
    return [np.concatenate(estimator.bin_edges_), [estimator.n_rows_]]


def releases():
    """Yield a name and an array for each recorded release."""
    X = columns()
    people = np.arange(len(X)) // 3
    for budget_name, budget in BUDGETS.items():
        for mechanism in MECHANISMS:
            for bounds_name, bounds in BOUNDS.items():
                options = {**budget, "mechanism": mechanism, "bounds": bounds, "random_state": 5}
                name = f"{mechanism} {budget_name} {bounds_name}"
                values = [dp_quantiles(X[:, j], [0.1, 0.5, 0.8], **options) for j in range(6)]
                yield f"dp_quantiles {name}", np.concatenate(values)
            fitted = DPKBinsDiscretizer(**options).fit(X)
            yield f"DPKBinsDiscretizer {name}", np.concatenate(_edges(fitted))
        options = {**budget, "random_state": 6}
        for groups in (None, people):
            name = f"{budget_name}{'' if groups is None else ' people'}"
            fitted = DPKBinsDiscretizer("auto", **options).fit(X, groups=groups)
            yield f"auto {name}", np.concatenate(_edges(fitted))
            fitted = DPQuantileTransformer(15, **options).fit(X, groups=groups)
            yield f"DPQuantileTransformer {name}", fitted.quantiles_.ravel()
            yield f"sanitize {name}", sanitize(X[:, 0], 31, groups=groups, **options)
            yield f"dp_count {name}", np.array([dp_count(X, groups=groups, **options)])
            counts = dp_histogram(X[:, 0], [0, 10, 50, 100], groups=groups, **options)[0]
            yield f"dp_histogram {name}", counts
        parts = np.array_split(X, 5)
        fitted = DPKBinsDiscretizer(7, **options).fit_batches(parts)
        yield f"fit_batches {budget_name}", np.concatenate(_edges(fitted))
    yield "float32", dp_quantiles(X[:, 0].astype(np.float32), [0.2, 0.7], random_state=1)


def as_text():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: [float(x).hex() for x in values] for name, values in releases()}


if __name__ == "__main__":
    lines = (f" {json.dumps(name)}: {json.dumps(values)}" for name, values in as_text().items())
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")
