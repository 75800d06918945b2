"""
How fast are the transformers beside scikit-learn's exact ones?

`fit` against the exact `fit` without subsampling, `transform` against the exported plain object
with the same edges and knots. One thread.

    python examples/benchmarks/transformers.py [--rows 1000000]
"""

import argparse
import warnings
from functools import partial

import numpy as np
from sklearn.preprocessing import KBinsDiscretizer, QuantileTransformer
from timing import compare, header

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**6)
    rows = parser.parse_args().rows
    warnings.simplefilter("ignore", FutureWarning)  # of scikit-learn, on its own defaults
    X = np.random.default_rng(0).normal(0, 5, (rows, 10))

    header(f"fit of {rows:,} x 10 float64", "scikit-learn")
    exact_bins = KBinsDiscretizer(5, subsample=None)
    exact_cdf = QuantileTransformer(n_quantiles=65, subsample=None)
    compare(
        "DPKBinsDiscretizer(5)", lambda: DPKBinsDiscretizer(5).fit(X), lambda: exact_bins.fit(X), 3
    )
    compare(
        "DPQuantileTransformer(63)",
        lambda: DPQuantileTransformer(63).fit(X),
        lambda: exact_cdf.fit(X),
        3,
    )

    header(f"transform of {rows:,} x 10 float64", "scikit-learn")
    discretizers = {
        e: DPKBinsDiscretizer(5, encode=e) for e in ("ordinal", "onehot", "onehot-dense")
    }
    cdfs = {o: DPQuantileTransformer(63, output_distribution=o) for o in ("uniform", "normal")}
    for name, ours in (discretizers | cdfs).items():
        plain = ours.fit(X).to_sklearn()
        transform, plain_transform = (partial(e.transform, X) for e in (ours, plain))
        compare(f"{type(ours).__name__}, {name}", transform, plain_transform, 3)


if __name__ == "__main__":
    main()
