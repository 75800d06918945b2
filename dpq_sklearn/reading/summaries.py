"""Summaries: (cell, weight) pairs of rows of a column, merged in any order.

A summary answers every question that a mechanism can ask about a column, and the sum of two
summaries is the summary of all their rows. Batches, threads and workers of a cluster can therefore
count their own rows, and the release is the same as from one table. The *resolution*, which is the
binary logarithm of the number of cells, is public and fixed before any data are read.
"""

from dataclasses import dataclass

import numpy as np

from dpq_sklearn.engine.ranks import RECORD_WEIGHT, sums_of_weights
from dpq_sklearn.reading.threads import blocks_of_rows

# Without bounds a cell is about 2^-17 of its value, five digits.
SUMMARY_RESOLUTION = 24

# A table of weights replaces sorting if it is at most this many times as long as its input.
_TABLE_PER_ENTRY = 16
# A builder switches to a table of all cells once 1/32 of them are occupied, unless the table would
# take more than 512 MB.
_OCCUPIED_SHARE_OF_TABLE = 32
_LARGEST_TABLE = 2**26
_LEAST_PENDING = 2**16
# A summary of few cells, such as that of a small segment, takes as much memory as this many cells.
_LEAST_PENDING_CELLS = 32
_VALUES_AT_ONCE = 2**15
_WEIGHT_BITS = RECORD_WEIGHT.bit_length()
_NO_CELLS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Summary:
    """Distinct ascending cells of one column, and the weight of the records in each (int64)."""

    cells: np.ndarray
    weights: np.ndarray

    def __reduce__(self):
        # Workers send arrays of the smallest integer type that holds all numbers.
        first = self.cells[:1]
        unit = np.bitwise_or.reduce(self.weights, initial=0)
        unit = max(int(unit & -unit), 1)  # the largest power of two in all weights
        return _unpacked, (_packed(self.cells - first), first, _packed(self.weights // unit), unit)


EMPTY_SUMMARY = Summary(_NO_CELLS, _NO_CELLS)


def summarize(values, grid, column, weights=None):
    """Return the summary of a float64 column without its NaN; rows are records by default."""
    pieces = list(_cells_in_pieces(values, weights, grid, column))
    cells = np.concatenate([*(cells for cells, _ in pieces), _NO_CELLS])
    if weights is not None:
        weights = np.concatenate([*(of_cells for _, of_cells in pieces), _NO_CELLS])
    if cells.size == 0:
        return EMPTY_SUMMARY

    first = int(cells.min())
    n_cells = int(cells.max()) + 1 - first
    cells -= first
    if n_cells <= _TABLE_PER_ENTRY * cells.size:
        table = sums_of_weights(cells, weights)
        return _summary_of_table(table * RECORD_WEIGHT if weights is None else table, first)
    if weights is None:
        cells, counts = np.unique(cells, return_counts=True)
        return Summary(cells + first, counts * RECORD_WEIGHT)

    cells, weights = _sorted_pairs(cells, weights)
    has_weight = weights > 0
    return _summary_of_runs(cells[has_weight] + first, weights[has_weight])


def _sorted_pairs(cells, weights):
    """Return cells from 0 on, ascending, and their weights in this order; overwrites the cells."""
    # Cell and weight are packed into one number, which is sorted several times as fast as a pair.
    cells <<= _WEIGHT_BITS
    cells |= weights
    cells.sort()
    weights = cells & (2**_WEIGHT_BITS - 1)
    cells >>= _WEIGHT_BITS
    return cells, weights


def sorted_by_cell(values, weights, grid, column):
    """Return the ascending cells of a float64 column, and the weights of its rows in this order.

    NaN, and rows of weight 0, are in the first cell and weigh nothing.
    """
    first = grid.first[column]
    cells = np.empty(values.size, dtype=np.int64)
    of_rows = weights.copy()
    for piece in blocks_of_rows(values.size, _VALUES_AT_ONCE):
        np.subtract(grid.cells_of(values[piece], column), first, out=cells[piece])
        is_nothing = np.isnan(values[piece])
        is_nothing |= weights[piece] == 0
        if is_nothing.any():
            cells[piece][is_nothing] = 0
            of_rows[piece][is_nothing] = 0

    cells, of_rows = _sorted_pairs(cells, of_rows)
    cells += first
    return cells, of_rows


def merge(*summaries):
    """Return the summary of all records of several summaries. Associative and commutative."""
    summaries = [summary for summary in summaries if summary.cells.size] or [EMPTY_SUMMARY]
    if len(summaries) == 1:
        return summaries[0]

    first = min(int(summary.cells[0]) for summary in summaries)
    width = max(int(summary.cells[-1]) for summary in summaries) + 1 - first
    if width <= _TABLE_PER_ENTRY * sum(summary.cells.size for summary in summaries):
        table = np.zeros(width, dtype=np.int64)
        for summary in summaries:
            table[summary.cells - first] += (
                summary.weights
            )  # cells are distinct, so no addition is lost
        return _summary_of_table(table, first)

    cells = np.concatenate([summary.cells for summary in summaries])
    weights = np.concatenate([summary.weights for summary in summaries])
    order = np.argsort(cells, kind="stable")  # takes advantage of the ascending runs
    return _summary_of_runs(cells[order], weights[order])


class SummaryBuilder:
    """Summarizes a column batch by batch, in memory that is bounded by the number of cells.

    Few cells are kept as pairs. New pairs wait until there are as many of them as merged pairs, so
    every record is sorted a few times at most. Once many cells are occupied, a table with a weight
    for each cell is as small and much faster.
    """

    def __init__(self, grid, column):
        self._grid = grid
        self._column = column
        self._first = int(grid.first[column])
        self._pending = []
        self._capacity = _LEAST_PENDING
        self._table = None

    def add(self, values, weights=None):
        """Add values of a float64 column, which are not kept; NaN are ignored."""
        if self._table is not None:
            pieces = _cells_in_pieces(values, weights, self._grid, self._column)
            for cells, of_cells in pieces:
                np.add.at(self._table, cells - self._first, of_cells)
            return

        self._pending.append(summarize(values, self._grid, self._column, weights))
        self._capacity -= max(self._pending[-1].cells.size, _LEAST_PENDING_CELLS)
        if self._capacity < 0:
            self._merge_pending()

    def _merge_pending(self):
        """Merge the pending summaries into one, or into a table."""
        merged = merge(*self._pending)
        self._pending = [merged]
        self._capacity = max(_LEAST_PENDING, merged.cells.size)

        n_cells = int(self._grid.end[self._column]) - self._first
        if n_cells // _OCCUPIED_SHARE_OF_TABLE < merged.cells.size and n_cells <= _LARGEST_TABLE:
            self._table = np.zeros(
                n_cells, dtype=np.int64
            )  # memory is allocated only where it is used
            self._table[merged.cells - self._first] = merged.weights
            self._pending = []

    def summary(self):
        """Return the summary of all values that were added."""
        if self._table is None:
            return merge(*self._pending)
        return _summary_of_table(self._table, self._first)


def _packed(numbers):
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _unpacked(cells, first, weights, unit):
    return Summary(cells.astype(np.int64) + first, weights.astype(np.int64) * unit)


def _cells_in_pieces(values, weights, grid, column):
    """Yield the cells and weights of a few values at a time, to stay in the cache; no NaN."""
    for piece in blocks_of_rows(values.size, _VALUES_AT_ONCE):
        is_number = ~np.isnan(values[piece])
        kept = slice(None) if is_number.all() else is_number  # a slice copies nothing
        of_cells = RECORD_WEIGHT if weights is None else weights[piece][kept]
        yield grid.cells_of(values[piece][kept], column), of_cells


def _summary_of_table(table, first):
    """Return the summary of a table of weights that begins with the cell `first`."""
    occupied = np.flatnonzero(table > 0)  # several times as fast as for integers
    weights = table[occupied]
    occupied += first
    return Summary(occupied, weights)


def _summary_of_runs(cells, weights):
    """Return the summary of ascending cells, which may be repeated, with their weights."""
    starts = np.flatnonzero(np.diff(cells, prepend=cells[:1] - 1) > 0)
    return Summary(cells[starts], np.add.reduceat(weights, starts))
