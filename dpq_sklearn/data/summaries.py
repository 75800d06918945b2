"""Summaries: (cell, weight) pairs of a column, built from parts of it and merged in any order.

A summary holds all that a mechanism can ask about a column, and the sum of two summaries is the
summary of both parts together. So batches, threads and workers of a cluster can each count their
own rows, and the release sees the same ranks as if all rows had been in one place. How fine the
cells are is public: the *resolution*, the binary logarithm of their number, fixed before any data
are seen.
"""

from dataclasses import dataclass

import numpy as np

from dpq_sklearn.engine.ranks import RECORD_WEIGHT

# Without bounds a cell is about 2^-17 of its value, five digits.
SUMMARY_RESOLUTION = 24

# A table of weights is used instead of sorting if it is at most so many times as long as its input.
_TABLE_PER_ENTRY = 8
# A builder keeps a table of all cells from the time on that 1/32 of them are occupied, unless the
# table would take more than 512 MB.
_OCCUPIED_SHARE_OF_TABLE = 32
_LARGEST_TABLE = 2**26
_LEAST_PENDING = 2**16
_VALUES_AT_ONCE = 2**15
_WEIGHT_BITS = RECORD_WEIGHT.bit_length()


@dataclass(frozen=True)
class Summary:
    """Distinct ascending cells of one column, and the weight of the records in each (int64)."""

    cells: np.ndarray
    weights: np.ndarray

    def __reduce__(self):
        # On its way between workers every number takes as few bytes as its array allows.
        first = int(self.cells[0]) if self.cells.size else 0
        unit = np.bitwise_or.reduce(self.weights, initial=0)
        unit = max(int(unit & -unit), 1)  # the largest power of two in all weights
        return _unpacked, (_packed(self.cells - first), first, _packed(self.weights // unit), unit)


def empty_summary():
    """Return the summary of no records, which changes nothing when it is merged."""
    return Summary(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def summarize(values, grid, column, weights=None):
    """Return the summary of a float64 column; NaN are ignored.

    `weights` are those of the values; None is one record each.
    """
    if weights is None:
        counted = _summary_of_cells(_all_cells(values, grid, column))
        return Summary(counted.cells, counted.weights * RECORD_WEIGHT)
    cells = np.empty(values.size, dtype=np.int64)
    weights = sort_weighted(values, weights, grid, column, cells)
    distinct, starts = _runs(cells)
    totals = np.add.reduceat(weights, starts) if starts.size else weights
    is_occupied = totals > 0
    return Summary(distinct[is_occupied], totals[is_occupied])


def sort_weighted(values, weights, grid, column, cells):
    """Fill `cells` with the ascending cells of a float64 column; return the weights in this order.

    `cells` may be the memory of the values. NaN weigh nothing, in the first cell.
    """
    # Cell and weight in one number, which is sorted several times as fast as a pair.
    first = grid.first[column]
    for start in range(0, values.size, _VALUES_AT_ONCE):
        piece = slice(start, start + _VALUES_AT_ONCE)
        packed = grid.cells_of(values[piece], column) - first
        packed <<= _WEIGHT_BITS
        packed |= weights[piece]
        packed[np.isnan(values[piece])] = 0
        cells[piece] = packed
    cells.sort()
    weights = cells & (2**_WEIGHT_BITS - 1)
    cells >>= _WEIGHT_BITS
    cells += first
    return weights


def merge(*summaries):
    """Return the summary of all records of several summaries. Associative and commutative."""
    summaries = [summary for summary in summaries if summary.cells.size] or [empty_summary()]
    if len(summaries) == 1:
        return summaries[0]
    first = min(int(summary.cells[0]) for summary in summaries)
    width = max(int(summary.cells[-1]) for summary in summaries) + 1 - first
    if width <= _TABLE_PER_ENTRY * sum(summary.cells.size for summary in summaries):
        table = np.zeros(width, dtype=np.int64)
        for summary in summaries:
            table[summary.cells - first] += summary.weights  # distinct cells: nothing gets lost
        return _summary_of_table(table, first)
    cells = np.concatenate([summary.cells for summary in summaries])
    weights = np.concatenate([summary.weights for summary in summaries])
    order = np.argsort(cells, kind="stable")  # takes advantage of the ascending runs
    cells, starts = _runs(cells[order])
    return Summary(cells, np.add.reduceat(weights[order], starts))


def merge_columns(summaries_of_parts):
    """Return one summary a column from a list of parts, each a list with one summary a column."""
    return [merge(*column) for column in zip(*summaries_of_parts, strict=True)]


class SummaryBuilder:
    """Summarizes a column batch by batch, in memory that is bounded by the number of cells.

    Few cells are kept as pairs: new records wait until there are as many of them as pairs, then
    they are merged, so that every record is sorted a few times at most. Once many cells are
    occupied, a table with one weight for each cell is as small and much faster. The operating
    system provides memory only for those parts of it that are used.
    """

    def __init__(self, grid, column):
        self._grid, self._column = grid, column
        self._first = int(grid.first[column])
        self._n_cells = int(grid.end[column]) - self._first
        self._summary = empty_summary()
        self._pending = []
        self._n_pending = 0
        self._table = None

    def add(self, values, weights=None):
        """Add a float64 column; NaN are ignored, and the values are not kept."""
        if self._table is not None and weights is None:
            for cells in _cells_in_pieces(values, self._grid, self._column):
                np.add.at(self._table, cells - self._first, RECORD_WEIGHT)
            return
        summary = summarize(values, self._grid, self._column, weights)
        self._pending.append(summary)
        self._n_pending += summary.cells.size
        if self._n_pending > max(_LEAST_PENDING, self._summary.cells.size):
            self._settle()

    def _settle(self):
        """Merge what is pending."""
        merged = merge(self._summary, *self._pending)
        self._pending, self._n_pending = [], 0
        if self._table is not None:
            self._table[merged.cells - self._first] += merged.weights
            return
        self._summary = merged
        many = merged.cells.size > self._n_cells // _OCCUPIED_SHARE_OF_TABLE
        if many and self._n_cells <= _LARGEST_TABLE:
            self._table = np.zeros(self._n_cells, dtype=np.int64)
            self._table[merged.cells - self._first] = merged.weights
            self._summary = empty_summary()

    def summary(self):
        """Return the summary of all that was added."""
        self._settle()
        if self._table is None:
            return self._summary
        return _summary_of_table(self._table, self._first)


def _packed(numbers):
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _unpacked(cells, first, weights, unit):
    return Summary(cells.astype(np.int64) + first, weights.astype(np.int64) * unit)


def _cells_in_pieces(values, grid, column):
    """Yield the cells of a few values at a time, which stay in the cache; NaN have none."""
    for start in range(0, values.size, _VALUES_AT_ONCE):
        piece = values[start : start + _VALUES_AT_ONCE]
        missing = np.isnan(piece)
        yield grid.cells_of(piece[~missing] if missing.any() else piece, column)


def _all_cells(values, grid, column):
    """Return the cells of all values but NaN."""
    all_cells = np.empty(values.size, dtype=np.int64)
    n_found = 0
    for cells in _cells_in_pieces(values, grid, column):
        all_cells[n_found : n_found + cells.size] = cells
        n_found += cells.size
    return all_cells[:n_found]


def _summary_of_cells(cells):
    """Return the distinct ones of cells in any order and how often each occurs; overwrites them."""
    if cells.size == 0:
        return empty_summary()
    first, last = int(cells.min()), int(cells.max())
    if last - first < _TABLE_PER_ENTRY * cells.size:
        cells -= first
        return _summary_of_table(np.bincount(cells), first)
    cells.sort()
    distinct, starts = _runs(cells)
    return Summary(distinct, np.diff(starts, append=cells.size))


def _summary_of_table(table, first):
    """Return the summary of a table of weights that begins with the cell `first`."""
    occupied = np.flatnonzero(table > 0)  # several times as fast as of integers
    weights = table[occupied]
    occupied += first
    return Summary(occupied, weights)


def _runs(ascending):
    """Return the distinct ones of ascending numbers, and where each of them begins."""
    begins = np.empty(ascending.size, dtype=bool)
    begins[:1] = True
    np.not_equal(ascending[1:], ascending[:-1], out=begins[1:])
    starts = np.flatnonzero(begins)
    return ascending[starts], starts
