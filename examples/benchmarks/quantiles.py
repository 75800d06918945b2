"""
How fast is dp_quantiles beside numpy.quantile, and how much memory does it take?

    python examples/benchmarks/quantiles.py
"""

import tracemalloc
from functools import partial

import numpy as np
from timing import best_seconds, compare, header, print_machine

from dpq_sklearn import dp_quantiles
from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles


def uniform_quantiles(m):
    return np.arange(1, m + 1) / (m + 1)


def sorted_ranks(rng, n):
    """Return the ranks of one sorted column without bounds."""
    values = np.sort(rng.normal(0, 5, (1, n)), axis=1)
    return SortedRanks.of_rows(values, make_grid([(-np.inf, np.inf)]))


def release_of(mechanism, ranks, q):
    """Return a function that draws the quantiles of one column with eps = 1."""
    return partial(mechanism.draw, ranks, [tuple(q)], [Budget(1.0, "eps")], make_randomness(None))


def peak_in_columns(function, column):
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / column.nbytes


def main():
    print_machine()
    rng = np.random.default_rng(0)
    x = rng.normal(0, 5, 10**6)
    header("1e6 float64, one thread", "np.quantile")
    for m in (1, 4, 63):
        q = uniform_quantiles(m)
        compare(f"{m} quantiles", lambda q=q: dp_quantiles(x, q), lambda q=q: np.quantile(x, q))

    print("\nfrom the sorted column to 63 quantiles")
    q = uniform_quantiles(63)
    for n in (10**5, 10**6, 10**7):
        release = release_of(ApproximateQuantiles(), sorted_ranks(rng, n), q)
        (after_sorting,) = best_seconds((release,))
        print(f"n = {n:<10,} {after_sorting * 1e3:6.1f} ms")

    x = rng.normal(0, 5, 10**7)
    for m in (1, 63):
        q = uniform_quantiles(m)
        peak = peak_in_columns(partial(dp_quantiles, x, q), x)
        print(f"peak memory beside a column of 1e7, {m} quantiles: {peak:.2f} columns")


if __name__ == "__main__":
    main()
