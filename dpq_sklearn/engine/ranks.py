"""Ranks: how many records lie below a position of the grid.

The records of a cell are spread evenly over its positions, so the rank

    F(position) = records in cells before + records in the cell * (sub + 1/2) / positions_per_cell

is piecewise linear, whatever the ties. It is kept as an *exact integer* in units of
``1 / (2 * positions_per_cell)`` of a record (int64 holds that up to 2^40 records). Two sources
of ranks answer the same three questions: a sorted column, and (cell, count) pairs, which can be
merged. Neither copies or splits the data for the mechanisms.
"""

from bisect import bisect_left

import numpy as np


class SortedColumn:
    """Ranks of a column of numbers. Cells are worked out only where a mechanism looks."""

    def __init__(self, values, grid):
        """Take the column over: `values`, a float64 array that may be reordered; NaN ignored."""
        values.sort()
        self._values = values[: np.searchsorted(values, np.nan)]  # NaN are sorted last
        self.grid = grid
        self.n_records = self._values.size

    def counts_below(self, cells):
        """Return for each cell the number of records in the cells before it."""
        edges = self.grid.lower_edges(cells)
        edges[cells <= 0] = -np.inf  # what is clipped lies in the outermost cells
        edges[cells >= self.grid.n_cells] = np.nan  # NaN is sorted last
        counts = np.searchsorted(self._values, edges)
        if not self.grid.edges_are_exact and self.n_records:
            for index in np.flatnonzero(self._is_off(counts, cells)):
                counts[index] = bisect_left(self._values, cells[index], key=self._cell_of)
        return counts

    def _is_off(self, counts, cells):
        """Return where an edge was off by its last bit: the cells of the records beside it tell."""
        beside = np.array((np.maximum(counts - 1, 0), np.minimum(counts, self.n_records - 1)))
        before, after = self.grid.cells_of(self._values[beside])
        return ((before >= cells) & (counts > 0)) | ((after < cells) & (counts < self.n_records))

    def _cell_of(self, value):
        return self.grid.cells_of(np.array([value]))[0]

    def occupied(self, first, last):
        """Return the cells of the records `first` to `last - 1`, counted in ascending order.

        Returns
        -------
        cells : int64 array of the distinct cells
        below : int64 array, one longer: the number of records before each cell, and before
            the end of the last one. Complete, also for records outside the range.
        """
        # With the records beside the range, which tell whether its outermost cells are complete.
        begin = max(first - 1, 0)
        with_neighbours = self.grid.cells_of(self._values[begin : last + 1])
        cells_of_records = with_neighbours[first - begin : last - begin]
        if cells_of_records.size == 0:
            return cells_of_records, np.array([first])
        starts = (cells_of_records[1:] != cells_of_records[:-1]).nonzero()[0] + 1
        cells = cells_of_records[np.concatenate(([0], starts))]
        below = np.concatenate(([first], first + starts, [last]))
        if with_neighbours[0] == cells[0] and first > 0:
            below[0] = self.counts_below(cells[:1])[0]
        if with_neighbours[-1] == cells[-1] and last < self.n_records:
            below[-1] = self.counts_below(cells[-1:] + 1)[0]
        return cells, below

    def cells_of_records(self, records):
        """Return the cells of records, counted in ascending order, and the ranks at their ends.

        Returns
        -------
        cells, below, above : int64 arrays in the shape of `records`
            The cell of each record, the number of records before the cell, and before its end.
        """
        if self.n_records == 0:
            return np.zeros_like(records), np.zeros_like(records), np.ones_like(records)
        last = self.n_records - 1
        three = np.array((records - 1, records, records + 1))
        np.minimum(np.maximum(three, 0, out=three), last, out=three)
        before, cells, after = self.grid.cells_of(self._values[three])
        below, above = three[1], three[1] + 1
        shared = ((before == cells) & (below > 0)) | ((after == cells) & (below < last))
        if shared.any():
            distinct, which = np.unique(cells[shared], return_inverse=True)
            below[shared] = self.counts_below(distinct)[which]
            above[shared] = self.counts_below(distinct + 1)[which]
        return cells, below, above


class CellCounts:
    """Ranks of a summary: distinct ascending cells and the number of records in each."""

    def __init__(self, cells, counts, grid):
        self._cells = np.asarray(cells, dtype=np.int64)
        self._below = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        self.grid = grid
        self.n_records = int(self._below[-1])

    def counts_below(self, cells):
        """Return for each cell the number of records in the cells before it."""
        return self._below[np.searchsorted(self._cells, cells)]

    def occupied(self, first, last):
        """Return what `SortedColumn.occupied` returns."""
        if first >= last:
            return self._cells[:0], np.array([first])
        begin = np.searchsorted(self._below, first, side="right") - 1
        end = np.searchsorted(self._below, last, side="left")
        return self._cells[begin:end], self._below[begin : end + 1]

    def cells_of_records(self, records):
        """Return what `SortedColumn.cells_of_records` returns."""
        if self.n_records == 0:
            return np.zeros_like(records), np.zeros_like(records), np.ones_like(records)
        records = np.clip(records, 0, self.n_records - 1)
        which = np.searchsorted(self._below, records, side="right") - 1
        return self._cells[which], self._below[which], self._below[which + 1]


def rank_spans(ranks, positions):
    """Return the ranks at the two edges of each position, in units."""
    positions_per_cell = ranks.grid.positions_per_cell
    cells, subs = np.divmod(positions, positions_per_cell)
    before, after = ranks.counts_below(np.concatenate((cells, cells + 1))).reshape(2, -1)
    low = 2 * positions_per_cell * before + 2 * (after - before) * subs
    return low, low + 2 * (after - before)
