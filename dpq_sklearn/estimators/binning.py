"""Binning: values to bin numbers, bin numbers to indicators, and back; in threads, by blocks."""

from itertools import pairwise

import numpy as np
from scipy import sparse

from dpq_sklearn.data.threads import blocks_of_rows, in_threads

_VALUES_PER_BLOCK = 2**17
_EDGES_PER_STEP = 8
# Up to so many edges, counting the edges below a value beats searching: no branch to mispredict.
_MOST_COUNTED_EDGES = 64


def with_outer_edges(inner, bounds):
    """Return the inner edges with one more at each end: the bound, or a bin's width away.

    Infinite bounds are none. A single inner edge tells no width: an open end is as far from
    it as the bound at the other end is or, without any bound, as zero is.
    """
    low, high = bounds
    if inner.size > 1:
        below, above = inner[1] - inner[0], inner[-1] - inner[-2]
    else:
        to_bound = min(inner[0] - low, high - inner[0])
        below = above = to_bound if 0 < to_bound < np.inf else abs(inner[0]) or 1.0
    first = low if np.isfinite(low) else inner[0] - below
    last = high if np.isfinite(high) else inner[-1] + above
    return np.concatenate(([first], inner, [last]))


def bin_numbers(X, edges, offsets, missing, dtype, n_jobs):
    """Return for each value the number of its bin plus the offset of its feature.

    The inner `edges` of each feature are ascending, and a value at an edge is in the bin above.
    NaN become `missing`.
    """
    numbers = np.empty(X.shape, dtype=dtype)
    offsets = np.asarray(offsets, dtype=dtype)[:, None]
    counted = max(of_feature.size for of_feature in edges) <= _MOST_COUNTED_EDGES

    def number(rows):
        blocks = _blocks(rows, X.shape)
        # One buffer serves all blocks: new memory would cost more than the work.
        shape = (X.shape[1], max((block.stop - block.start for block in blocks), default=0))
        dtypes = (np.float64, np.uint8 if counted else np.int64, dtype)
        buffers = [np.empty(shape, dtype=of_buffer) for of_buffer in dtypes]
        flag_buffer = np.empty((_EDGES_PER_STEP, *shape), dtype=bool)
        for block in blocks:
            n_rows = block.stop - block.start
            columns, bins, block_numbers = (buffer[:, :n_rows] for buffer in buffers)
            flags = flag_buffer[:, :, :n_rows]
            columns[:] = X[block].T
            if counted:
                _count_edges(columns, edges, bins, flags)
            else:
                _search_edges(columns, edges, bins)
            np.add(bins, offsets, out=block_numbers, dtype=dtype)
            is_missing = np.isnan(columns, out=flags[0])
            if is_missing.any():
                block_numbers[is_missing] = missing
            numbers[block] = block_numbers.T

    in_threads(number, blocks_of_rows(X.shape[0], n_jobs), n_jobs)
    return numbers


def _search_edges(columns, edges, bins):
    """Write how many of its column's edges are at most each value; anything for NaN."""
    for values, of_feature, found in zip(columns, edges, bins, strict=True):
        found[:] = np.searchsorted(of_feature, values, side="right")


def _count_edges(columns, edges, bins, flags):
    """Write what `_search_edges` writes, by one comparison of all values with each edge."""
    bins[:] = 0
    if len({of_feature.size for of_feature in edges}) == 1:
        # All columns and several edges at once: threads seldom need Python's lock.
        levels = np.stack(edges, axis=1)[:, :, None]
        for start in range(0, len(levels), _EDGES_PER_STEP):
            step = levels[start : start + _EDGES_PER_STEP]
            reached = np.greater_equal(columns, step, out=flags[: len(step)])
            bins += np.add.reduce(reached.view(np.uint8), axis=0, dtype=np.uint8)
        return
    for values, of_feature, found, reached in zip(columns, edges, bins, flags[0], strict=True):
        for edge in of_feature:
            np.greater_equal(values, edge, out=reached)
            found += reached.view(np.uint8)


def sparse_indicators(places, n_indicators, dtype, n_jobs):
    """Return a sparse matrix with a one at the places of each row; negative ones are missing."""
    n_rows, n_features = places.shape
    ones = np.empty(places.size, dtype=dtype)

    def fill(rows):
        ones[n_features * rows.start : n_features * rows.stop] = 1
        return places[rows].min(initial=0) >= 0

    if all(in_threads(fill, blocks_of_rows(n_rows, n_jobs), n_jobs)):
        places = places.ravel()
        row_ends = np.arange(0, n_rows * n_features + 1, n_features)
    else:
        present = places >= 0
        places = places[present]
        ones = ones[: places.size]
        row_ends = np.concatenate(([0], np.cumsum(present.sum(axis=1))))
    if places.size < 2**31:  # else SciPy takes wider indices for all
        row_ends = row_ends.astype(np.int32)
    return sparse.csr_array((ones, places, row_ends), shape=(n_rows, n_indicators))


def dense_indicators(places, n_indicators, dtype, n_jobs):
    """Return a dense matrix with a one at the places of each row; negative ones are missing."""
    indicators = np.zeros((places.shape[0], n_indicators), dtype=dtype)

    def fill(rows):
        for block in _blocks(rows, places.shape):
            of_block = places[block]
            flat = of_block + np.arange(of_block.shape[0])[:, None] * n_indicators
            target = indicators[block].reshape(-1)  # a view
            target[flat[of_block >= 0] if of_block.min() < 0 else flat.ravel()] = 1

    in_threads(fill, blocks_of_rows(places.shape[0], n_jobs), n_jobs)
    return indicators


def bins_of_indicators(X, offsets):
    """Return the bin numbers of rows of indicators, NaN where a feature has none."""
    bins = np.empty((X.shape[0], len(offsets) - 1))
    for index, (start, stop) in enumerate(pairwise(offsets)):
        of_feature = X[:, start:stop]
        of_feature = of_feature.toarray() if sparse.issparse(of_feature) else of_feature
        bins[:, index] = np.where(of_feature.any(axis=1), of_feature.argmax(axis=1), np.nan)
    return bins


def bin_centres(bins, edges, dtype):
    """Return the centre of each bin, given all edges of each feature; NaN stays NaN."""
    centres = np.full(bins.shape, np.nan, dtype=dtype)
    for index, of_feature in enumerate(edges):
        present = ~np.isnan(bins[:, index])
        numbers = bins[present, index].astype(np.int64)
        last_bin = of_feature.size - 2
        if np.any((numbers < 0) | (numbers > last_bin)):
            raise ValueError(f"column {index} of X must hold bin numbers, 0 to {last_bin}.")
        centres[present, index] = ((of_feature[1:] + of_feature[:-1]) * 0.5)[numbers]
    return centres


def _blocks(rows, shape):
    """Return slices of a slice of rows that are small enough for the cache."""
    height, stop = max(1, _VALUES_PER_BLOCK // shape[1]), min(rows.stop, shape[0])
    return [slice(start, min(start + height, stop)) for start in range(rows.start, stop, height)]
