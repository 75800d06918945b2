"""Ranks: how much weight lies below a position of the grid.

A record weighs `RECORD_WEIGHT`, a whole number that several rows can share (`data.groups`). The
weight of a cell is spread evenly over its positions, so a record adds to all ranks a ramp that
climbs by at most one record inside its cell, whatever the ties. Ranks are exact integers in *rank
ticks*: ``positions_per_cell`` ticks are one unit of weight.

Two sources of ranks answer the same two questions: sorted columns, and (cell, weight) summaries,
which can be merged. Neither splits the data for the mechanisms. Both hold many columns, and are
asked about many places in many columns at once.
"""

import numpy as np

RECORD_WEIGHT = 2**18
# Beyond this many records the ranks, in ticks, would not fit into 64 bits.
MOST_RECORDS = 2**34


class SortedColumns:
    """Ranks of columns of numbers. Cells are worked out only where a mechanism looks."""

    def __init__(self, values, grid):
        """Take over float64 `values` of shape (n_columns, n_rows), each row ascending, NaN last."""
        n_columns, self._n_rows = values.shape
        self._counts = np.full(n_columns, self._n_rows)
        if np.isnan(values[:, -1:]).any():
            self._counts -= np.isnan(values).sum(axis=1)
        self._values, self._matrix, self.grid = values.ravel(), values, grid
        self.total_weights = self._counts * RECORD_WEIGHT

    def of_columns(self, columns):
        """Return the ranks of a list of the columns."""
        return SortedColumns(self._matrix[columns], self.grid[columns])

    def around_ranks(self, columns, weights):
        """Return the cells in which the weights below are reached: cells, weight before and behind.

        `columns` and `weights` broadcast. A column without records has a cell without weight.
        """
        if self._n_rows == 0:
            nothing = np.zeros_like(columns + weights)
            return self.grid.first[columns] + nothing, nothing, nothing
        last = self._counts[columns] - 1
        records = np.maximum(np.minimum(weights // RECORD_WEIGHT, last), 0)
        places = columns * self._n_rows + records
        values = np.where(last < 0, self.grid.low[columns], self._values[places])
        cells = self.grid.cells_of(values, columns)
        # A cell that holds one record needs no search. Those at the ends hold what is clipped.
        begin_edge, end_edge = self.grid.lower_edges(np.array((cells, cells + 1)), columns)
        is_shared = (cells <= self.grid.first[columns]) | (cells + 1 >= self.grid.end[columns])
        is_shared |= (records > 0) & (self._values[places - 1] >= begin_edge)
        behind = np.minimum(places + 1, self._values.size - 1)
        is_shared |= (records < last) & (self._values[behind] < end_edge)
        begin, end = records, records + 1
        if is_shared.any():
            columns = places[is_shared] // self._n_rows
            begin[is_shared], end[is_shared] = self._records_of_cells(columns, cells[is_shared])
        return cells, begin * RECORD_WEIGHT, end * RECORD_WEIGHT

    def around_cells(self, columns, cells):
        """Return the weight before and behind each cell."""
        begin, end = self._records_of_cells(columns, cells)
        return begin * RECORD_WEIGHT, end * RECORD_WEIGHT

    def weights_below(self, column, cells):
        """Return the weight in the cells of one column before each of the given ones."""
        columns = np.full(cells.shape, column)
        return self._records_before(columns, cells) * RECORD_WEIGHT

    def _records_of_cells(self, columns, cells):
        two = np.array((cells, cells + 1))
        return self._records_before(np.array((columns, columns)), two)

    def _records_before(self, columns, cells):
        """Return how many records lie in the cells before each of the given ones."""
        edges = self.grid.lower_edges(cells, columns)
        counts = self._counts[columns]
        before = first_at_least(self._values, columns * self._n_rows, counts, edges)
        # Values beyond the ends are clipped to the outermost cells.
        before[cells <= self.grid.first[columns]] = 0
        is_end = cells >= self.grid.end[columns]
        before[is_end] = counts[is_end]
        return before


class CellWeights:
    """Ranks of summaries: the distinct ascending cells of each column and the weight in each."""

    def __init__(self, summaries, grid):
        sizes = np.array([summary.cells.size for summary in summaries])
        self._summaries, self._sizes, self.grid = summaries, sizes, grid
        self._starts = np.cumsum(sizes) - sizes
        self._cells = np.concatenate([*(summary.cells for summary in summaries), [0]])
        # One entry more for each column: the weight before its first cell is 0.
        below = [np.concatenate(([0], np.cumsum(summary.weights))) for summary in summaries]
        self._below = np.concatenate(below)
        self._starts_of_below = self._starts + np.arange(sizes.size)
        self.total_weights = self._below[self._starts_of_below + sizes]
        if np.any(self.total_weights >= MOST_RECORDS * RECORD_WEIGHT):
            raise OverflowError(f"a column may have at most {MOST_RECORDS - 1} records.")

    def of_columns(self, columns):
        """Return the ranks of a list of the columns."""
        return CellWeights([self._summaries[column] for column in columns], self.grid[columns])

    def around_ranks(self, columns, weights):
        """Return what `SortedColumns.around_ranks` returns."""
        columns, weights = np.broadcast_arrays(columns, weights)
        starts, sizes = self._starts_of_below[columns], self._sizes[columns]
        which = first_at_least(self._below, starts, sizes + 1, weights + 1) - 1
        which = np.maximum(np.minimum(which, sizes - 1), 0)
        is_empty = sizes == 0
        # A column without records borrows any cell, and its first one counts.
        cells = self._cells[np.minimum(self._starts[columns] + which, self._cells.size - 1)]
        cells = np.where(is_empty, self.grid.first[columns], cells)
        return cells, self._below[starts + which], self._below[starts + which + ~is_empty]

    def around_cells(self, columns, cells):
        """Return the weight before and behind each cell."""
        two = np.array((cells, cells + 1))
        return tuple(self._weights_below(np.broadcast_to(columns, two.shape), two))

    def weights_below(self, column, cells):
        """Return the weight in the cells of one column before each of the given ones."""
        return self._weights_below(np.full(cells.shape, column), cells)

    def _weights_below(self, columns, cells):
        found = first_at_least(self._cells, self._starts[columns], self._sizes[columns], cells)
        return self._below[self._starts_of_below[columns] + found]


class WeightedColumns(CellWeights):
    """Ranks of columns whose rows share records: a pair for each row, so a cell may occur again."""

    def __init__(self, cells, below, grid):
        """Take over ascending `cells` of shape (n_columns, n_rows), n_rows > 0.

        `below` are the weights before each of them, and in one more column the total.
        """
        (n_columns, n_rows), columns = cells.shape, np.arange(len(cells))
        self._sizes, self.grid = np.full(n_columns, n_rows), grid
        self._cells, self._starts = cells.ravel(), columns * n_rows
        self._below, self._starts_of_below = below.ravel(), columns * (n_rows + 1)
        self.total_weights = below[:, -1]

    def around_ranks(self, columns, weights):
        """Return what `SortedColumns.around_ranks` returns."""
        cells, _, _ = super().around_ranks(columns, weights)
        return cells, *self.around_cells(columns, cells)


def first_at_least(keys, starts, sizes, wanted):
    """Return how many of the ascending ``keys[start : start + size]`` are below each wanted key.

    A binary search in many parts of `keys` at once.
    """
    found = np.zeros(wanted.shape, dtype=np.int64)
    if keys.size == 0 or wanted.size == 0:
        return found
    step = 1 << int(sizes.max()).bit_length() >> 1
    while step:
        candidates = found + step
        probes = starts + np.minimum(candidates, sizes) - 1
        below = keys[np.maximum(probes, 0)] < wanted
        below &= candidates <= sizes
        found = np.where(below, candidates, found)
        step >>= 1
    return found
