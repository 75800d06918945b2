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
from timing import compare, header, print_machine

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer

SHAPES = [(10**6, 10), (10**5, 10), (10**4, 30), (1000, 30), (1000, 100), (200, 5)]
LARGEST_OF_FEW = 5000  # rows: quantiles of fewer are not compared


def compare_fits(n_rows, n_columns):
    """Print the times of both transformers for a table of this shape."""
    X = np.random.default_rng(0).normal(0, 5, (n_rows, n_columns))
    repetitions = 3 if n_rows == 10**6 else 9 if n_rows > LARGEST_OF_FEW else 51
    shape = f"{n_rows:,} x {n_columns}"
    compare(
        f"DPKBinsDiscretizer(5), {shape}",
        lambda: DPKBinsDiscretizer(5).fit(X),
        lambda: KBinsDiscretizer(5, subsample=None).fit(X),
        repetitions,
    )
    if n_rows > LARGEST_OF_FEW:
        compare(
            f"DPQuantileTransformer(63), {shape}",
            lambda: DPQuantileTransformer(63).fit(X),
            lambda: QuantileTransformer(n_quantiles=65, subsample=None).fit(X),
            repetitions,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**6, help="of the largest table")
    rows = parser.parse_args().rows
    warnings.simplefilter("ignore")  # scikit-learn's on its defaults, ours on small tables
    print_machine()

    header("fit of float64", "scikit-learn")
    for shape in SHAPES:
        if shape[0] <= rows:
            compare_fits(*shape)

    X = np.random.default_rng(0).normal(0, 5, (rows, 10))
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
