"""
How fast is dp_quantiles beside numpy.quantile, and how much memory does it take?

    python examples/benchmarks/quantiles.py
"""

import tracemalloc
from functools import partial

import numpy as np
from timing import best_seconds, compare, header

from dpq_sklearn import dp_quantiles
from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.random import SystemRandomness
from dpq_sklearn.engine.ranks import SortedColumn
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles
from dpq_sklearn.mechanisms.joint_exp import JointExponential


def uniform_quantiles(m):
    return np.arange(1, m + 1) / (m + 1)


def peak_in_columns(function, column):
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / column.nbytes


def main():
    rng = np.random.default_rng(0)
    x = rng.normal(0, 5, 10**6)
    header("1e6 float64, one thread", "np.quantile")
    for m in (4, 63):
        q = uniform_quantiles(m)
        compare(f"{m} quantiles", lambda q=q: dp_quantiles(x, q), lambda q=q: np.quantile(x, q))

    print("\nfrom the sorted column to 63 quantiles")
    q = uniform_quantiles(63)
    for n in (10**5, 10**6, 10**7):
        ranks = SortedColumn(rng.normal(0, 5, n), make_grid(None))
        release = partial(
            ApproximateQuantiles().release, ranks, q, Budget(1.0, "eps"), SystemRandomness()
        )
        (after_sorting,) = best_seconds((release,))
        print(f"n = {n:<10,} {after_sorting * 1e3:6.1f} ms")

    ranks = SortedColumn(rng.normal(0, 5, 10**5), make_grid(None))
    header("JointExp, n = 1e5, from the sorted column to 4 quantiles", "all records")
    compare(
        "only records within reach of their targets",
        *(
            partial(
                mechanism.release,
                ranks,
                uniform_quantiles(4),
                Budget(1.0, "eps"),
                SystemRandomness(),
            )
            for mechanism in (JointExponential(), JointExponential(spare_bits=3e5))
        ),
    )

    x = rng.normal(0, 5, 10**6)
    peak = peak_in_columns(lambda: dp_quantiles(x, q), x)
    print(f"\npeak memory beside the column itself: {peak:.2f} columns")


if __name__ == "__main__":
    main()
