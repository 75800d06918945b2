"""Binning: from values to bin numbers and indicators, and back, in threads and block by block."""

import math
from itertools import pairwise

import numpy as np
from scipy import sparse

from dpq_sklearn.reading.threads import blocks_of_rows, in_threads

# The values of a block stay in the cache while they are compared with every edge.
_VALUES_PER_BLOCK = 2**17
# Up to this number of edges, counting the edges below a value is faster than a binary search,
# because there are no branches to mispredict.
_MOST_COUNTED_EDGES = 64


def edges_of_values(values, bounds, decimals):
    """Return the edges of all bins of a feature from its ascending private quantiles."""
    edges = with_outer_edges(values, bounds)
    edges[1:-1] = with_equal_ones_apart(values, bounds, decimals)
    return np.maximum.accumulate(edges)


def with_outer_edges(inner, bounds):
    """Return the inner edges with an outer edge at each end: the bound, or one bin width away.

    An infinite bound is a missing bound. With a single inner edge, a missing bound is replaced by a
    number as far from the edge as the other bound or, without bounds, as far from it as zero.
    """
    low, high = bounds
    values = inner.tolist()

    if len(values) > 1:
        below = values[1] - values[0]
        above = values[-1] - values[-2]
    else:
        to_bound = min(values[0] - low, high - values[0])
        below = above = to_bound if 0 < to_bound < np.inf else abs(values[0]) or 1.0

    first = low if math.isfinite(low) else _without_last_bits(values[0] - below, below)
    last = high if math.isfinite(high) else _without_last_bits(values[-1] + above, above)
    return np.array((first, *values, last))


def _without_last_bits(edge, width):
    """Return an outer edge without the rounding error of its sum: 6.78, not 6.7800001."""
    if not 0 < width < np.inf:
        return edge
    return round(edge, 9 - math.floor(math.log10(width)))


def with_equal_ones_apart(inner, bounds, decimals):
    """Return ascending inner edges, with the last of several equal edges moved to the next point.

    A value at an edge is in the bin above. If several edges were equal, the bins between them would
    be empty, and the repeated value would share a bin with larger values. The next point is the
    next number of the declared precision, but at least the next float32, because rows and exported
    edges may be float32. An edge at the upper bound is not moved.
    """
    is_repeated = inner[1:] == inner[:-1]
    if not is_repeated.any():
        return inner

    following = next_float32(inner)
    if decimals is not None:
        points = [round(edge + 10.0**-decimals, decimals) for edge in inner.tolist()]
        following = np.maximum(following, points)  # far from 0, floats are further apart

    is_repeated = np.append(False, is_repeated)
    is_last = np.append(inner[1:] > following[:-1], following[-1] <= bounds[1])
    return np.where(is_repeated & is_last, following, inner)


def next_float32(values: np.ndarray) -> np.ndarray:
    """Return the next float32 above each value and above its rounding to float32.

    Subnormal numbers are skipped, because some processors read them as zero. Beyond the range of
    float32, the result is the next float64.
    """
    with np.errstate(over="ignore", under="ignore"):
        following = np.nextafter(values.astype(np.float32), np.float32(np.inf)).astype(np.float64)

    following[values == 0] = np.finfo(np.float32).tiny
    return np.where(np.isfinite(following), following, np.nextafter(values, np.inf))


def bin_numbers(X, edges, offsets, *, missing, dtype, n_jobs):
    """Return the number of the bin of each value, plus the offset of its feature.

    The inner `edges` of each feature are ascending, and a value at an edge is in the bin above.
    NaN becomes `missing`. The result has the shape of `X`, (n_rows, n_features).
    """
    numbers = np.empty(X.shape, dtype=dtype)
    offsets = np.asarray(offsets, dtype=dtype)[:, None]

    # levels[i] has edge i of each feature, or NaN if the feature has fewer edges.
    levels = np.full((max(map(len, edges)), len(edges), 1), np.nan)
    for index, edges_of_feature in enumerate(edges):
        levels[: edges_of_feature.size, index, 0] = edges_of_feature

    def number(rows):
        columns = np.ascontiguousarray(X[rows].T, dtype=np.float64)

        if len(levels) <= _MOST_COUNTED_EDGES:
            bins = np.zeros(columns.shape, dtype=np.uint8)
            for level in levels:
                bins += (columns >= level).view(np.uint8)
        else:
            pairs = zip(edges, columns, strict=True)
            bins = np.stack([np.searchsorted(*pair, side="right") for pair in pairs])

        numbers_of_block = np.add(bins, offsets, dtype=dtype)
        numbers_of_block[np.isnan(columns)] = missing
        numbers[rows] = numbers_of_block.T

    height = max(1, _VALUES_PER_BLOCK // X.shape[1])
    in_threads(number, blocks_of_rows(X.shape[0], height), n_jobs)
    return numbers


def sparse_indicators(numbers, n_indicators, dtype):
    """Return a sparse matrix of shape (n_rows, n_indicators) with ones at the numbers of each row.

    `numbers` has the shape (n_rows, n_features). Negative numbers are missing values.
    """
    n_rows, n_features = numbers.shape
    if numbers.min(initial=0) >= 0:
        indices = numbers.ravel()
        row_ends = np.arange(0, n_rows * n_features + 1, n_features)
    else:
        present = numbers >= 0
        indices = numbers[present]
        row_ends = np.concatenate(([0], np.cumsum(present.sum(axis=1))))

    if indices.size < 2**31:  # otherwise SciPy needs 64-bit indices
        row_ends = row_ends.astype(np.int32)
    ones = np.ones(indices.size, dtype=dtype)
    return sparse.csr_array((ones, indices, row_ends), shape=(n_rows, n_indicators))


def bins_of_indicators(X, offsets):
    """Return the bin numbers of rows of indicators, NaN if a feature has no indicator."""
    bins = np.empty((X.shape[0], len(offsets) - 1))
    for index, (start, stop) in enumerate(pairwise(offsets)):
        indicators = X[:, start:stop]
        if sparse.issparse(indicators):
            indicators = indicators.toarray()
        bins[:, index] = np.where(indicators.any(axis=1), indicators.argmax(axis=1), np.nan)

    return bins


def bin_centres(bins, edges, dtype):
    """Return the centre of each bin, given all edges of each feature. NaN stays NaN."""
    centres = np.full(bins.shape, np.nan, dtype=dtype)
    for index, edges_of_feature in enumerate(edges):
        present = ~np.isnan(bins[:, index])
        numbers = bins[present, index].astype(np.int64)
        last_bin = edges_of_feature.size - 2
        if np.any((numbers < 0) | (numbers > last_bin)):
            raise ValueError(f"column {index} of X must hold bin numbers, 0 to {last_bin}.")

        centres_of_feature = (edges_of_feature[1:] + edges_of_feature[:-1]) * 0.5
        centres[present, index] = centres_of_feature[numbers]

    return centres
