"""Summaries: (cell, count) pairs of a column, built from parts of it and merged in any order.

A summary holds all that a mechanism can ask about a column, and the sum of two summaries is the
summary of both parts together. So batches, threads and workers of a cluster can each count their
own rows, and the release sees the same ranks as if all rows had been in one place. How fine the
cells are is public: the *resolution*, the binary logarithm of their number, fixed before any data
are seen.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpq_sklearn.engine.grid import N_CELLS
from dpq_sklearn.engine.ranks import CellCounts

FULL_RESOLUTION = N_CELLS.bit_length() - 1
# Without bounds a cell is about 2^-17 of its value, five digits; with bounds 2^-24 of them.
SUMMARY_RESOLUTION = 24
# Beyond this many records the ranks, in units, would not fit into 64 bits.
MOST_RECORDS = 2**40

# A table of counts is used instead of sorting if it is at most so many times as long as its input.
_TABLE_PER_ENTRY = 8
# A builder keeps a table of all cells from the time on that 1/32 of them are occupied, unless the
# table would take more than 512 MB.
_OCCUPIED_SHARE_OF_TABLE = 32
_LARGEST_TABLE = 2**26
_LEAST_PENDING = 2**16
_VALUES_AT_ONCE = 2**15


@dataclass(frozen=True)
class Summary:
    """Distinct ascending cells of one column, and the number of records in each (int64)."""

    cells: np.ndarray
    counts: np.ndarray

    @property
    def n_records(self):
        """How many records were counted; private, like all the rest."""
        return int(self.counts.sum())

    def __reduce__(self):
        # On its way between workers every number takes as few bytes as its array allows.
        return _unpacked, (_packed(self.cells), _packed(self.counts))


def with_resolution(grid, resolution):
    """Return the grid whose 2^resolution cells are unions of neighbouring cells of `grid`.

    A cell keeps its number of positions: what counts is how they divide a cell, not how many
    there are in all.
    """
    return replace(grid, n_cells=2**resolution)


def empty_summary():
    """Return the summary of no records, which changes nothing when it is merged."""
    return Summary(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def summarize(values, grid):
    """Return the summary of a float64 column; NaN are ignored."""
    return _summary_of_cells(_all_cells(values, grid))


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
            table[summary.cells - first] += summary.counts  # distinct cells: nothing gets lost
        return _summary_of_table(table, first)
    cells = np.concatenate([summary.cells for summary in summaries])
    counts = np.concatenate([summary.counts for summary in summaries])
    order = np.argsort(cells, kind="stable")  # takes advantage of the ascending runs
    cells, starts = _runs(cells[order])
    return Summary(cells, np.add.reduceat(counts[order], starts))


def merge_columns(summaries_of_parts):
    """Return one summary a column from a list of parts, each a list with one summary a column."""
    return [merge(*column) for column in zip(*summaries_of_parts, strict=True)]


def ranks_of_summary(summary, grid):
    """Return the ranks that a mechanism reads, from a summary of this grid.

    The only limit is the width of the integers.
    """
    if summary.n_records >= MOST_RECORDS:
        raise OverflowError(f"a column may have at most {MOST_RECORDS - 1} records.")
    return CellCounts(summary.cells, summary.counts, grid)


class SummaryBuilder:
    """Counts a column batch by batch, in memory that is bounded by the number of cells.

    Few cells are kept as pairs: new records wait until there are as many of them as pairs, then
    they are merged, so that every record is sorted a few times at most. Once many cells are
    occupied, a table with one count for each cell is as small and much faster. The operating
    system provides memory only for those parts of it that are used.
    """

    def __init__(self, grid):
        self._grid = grid
        self._summary = empty_summary()
        self._pending = []
        self._n_pending = 0
        self._table = None

    def add(self, values):
        """Count a float64 column; NaN are ignored, and the values are not kept."""
        if self._table is not None:
            for cells in _some_cells(values, self._grid):
                np.add.at(self._table, cells, 1)
            return
        cells = _all_cells(values, self._grid)
        self._pending.append(cells)
        self._n_pending += cells.size
        if self._n_pending > max(_LEAST_PENDING, self._summary.cells.size):
            self._settle()

    def _settle(self):
        """Count the cells that wait."""
        waiting = _summary_of_cells(np.concatenate([self._summary.cells[:0], *self._pending]))
        self._pending, self._n_pending = [], 0
        self._summary = merge(self._summary, waiting)
        n_cells = self._grid.n_cells
        many = self._summary.cells.size > n_cells // _OCCUPIED_SHARE_OF_TABLE
        if many and n_cells <= _LARGEST_TABLE:
            self._table = np.zeros(n_cells, dtype=np.int64)
            self._table[self._summary.cells] = self._summary.counts
            self._summary = empty_summary()

    def summary(self):
        """Return the summary of all that was added."""
        if self._table is None:
            self._settle()
        return self._summary if self._table is None else _summary_of_table(self._table, 0)


def _packed(numbers):
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _unpacked(cells, counts):
    return Summary(cells.astype(np.int64), counts.astype(np.int64))


def _some_cells(values, grid):
    """Yield the cells of a few values at a time, which stay in the cache; NaN have none."""
    for start in range(0, values.size, _VALUES_AT_ONCE):
        some = values[start : start + _VALUES_AT_ONCE]
        missing = np.isnan(some)
        yield grid.cells_of(some[~missing] if missing.any() else some)


def _all_cells(values, grid):
    """Return the cells of all values but NaN."""
    all_cells = np.empty(values.size, dtype=np.int64)
    n_found = 0
    for cells in _some_cells(values, grid):
        all_cells[n_found : n_found + cells.size] = cells
        n_found += cells.size
    return all_cells[:n_found]


def _summary_of_cells(cells):
    """Return the summary of cells in any order, one a record; overwrites them."""
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
    """Return the summary of a table of counts that begins with the cell `first`."""
    occupied = np.flatnonzero(table > 0)  # several times as fast as of integers
    counts = table[occupied]
    occupied += first
    return Summary(occupied, counts)


def _runs(ascending):
    """Return the distinct ones of ascending numbers, and where each of them begins."""
    begins = np.empty(ascending.size, dtype=bool)
    begins[:1] = True
    np.not_equal(ascending[1:], ascending[:-1], out=begins[1:])
    starts = np.flatnonzero(begins)
    return ascending[starts], starts
