"""Ranks of sorted columns: each entry is a record, and its cell is worked out where one looks."""

import numpy as np

from dpq_sklearn.engine.ranks import RECORD_WEIGHT, checked_totals, entries_below


class SortedRanks:
    """The ascending float64 values of several columns: `Ranks`.

    ``values[starts[column] :][: sizes[column]]`` are those of a column, without NaN. There is at
    least one value, though no column need have it.
    """

    def __init__(self, *, grid, values, starts, sizes):
        self.grid = grid
        self._values = values
        self._starts = starts
        self._sizes = sizes
        self.total_weights = checked_totals(sizes * RECORD_WEIGHT)

    @classmethod
    def of_rows(cls, rows, grid):
        """Return the ranks of columns that are the rows of a matrix: each ascending, NaN last."""
        n_columns, n_rows = rows.shape
        sizes = np.full(n_columns, n_rows)
        if np.isnan(rows[:, -1:]).any():
            sizes -= np.isnan(rows).sum(axis=1)

        values = rows.ravel() if rows.size else np.zeros(1)
        return cls(grid=grid, values=values, starts=np.arange(n_columns) * n_rows, sizes=sizes)

    def of_columns(self, columns):
        """Return the ranks of a list of the columns."""
        return SortedRanks(
            grid=self.grid[columns],
            values=self._values,
            starts=self._starts[columns],
            sizes=self._sizes[columns],
        )

    def near(self, columns, probabilities, reach):
        """Return these ranks: all look-ups are equally quick."""
        return self

    def around_ranks(self, columns, weights):
        """Return cells and the weights before and after them, as `Ranks` promises."""
        last = self._sizes[columns] - 1
        entries = np.maximum(np.minimum(weights // RECORD_WEIGHT, last), 0)
        index = np.minimum(self._starts[columns] + entries, self._values.size - 1)

        first_cell = self.grid.first[columns]
        cells = self.grid.cells_of(self._values[index], columns)
        cells = np.where(last < 0, first_cell, cells)

        # A cell with one entry needs no search. Those at the ends hold what is clipped.
        cell_ends = np.array((cells, cells + 1))
        lower, upper = self.grid.lower_edges(cell_ends, columns)
        following = np.minimum(index + 1, self._values.size - 1)
        is_shared = (cells <= first_cell) | (cells + 1 >= self.grid.end[columns])
        is_shared |= (entries > 0) & (self._values[index - 1] >= lower)
        is_shared |= (entries < last) & (self._values[following] < upper)

        before = entries
        after = entries + 1
        if is_shared.any():
            columns_of_shared = (columns + np.zeros_like(cells))[is_shared]
            of_shared = self._entries_before(columns_of_shared, cell_ends[:, is_shared])
            before[is_shared], after[is_shared] = of_shared
        return cells, before * RECORD_WEIGHT, after * RECORD_WEIGHT

    def weights_below(self, columns, cells):
        """Return the weight in the cells before each of the given ones."""
        return self._entries_before(columns, cells) * RECORD_WEIGHT

    def _entries_before(self, columns, cells):
        edges = self.grid.lower_edges(cells, columns)
        before = entries_below(self._values, self._starts, self._sizes, columns, edges)

        # Numbers beyond the ends are clipped to the outermost cells.
        before = np.where(cells <= self.grid.first[columns], 0, before)
        return np.where(cells >= self.grid.end[columns], self._sizes[columns], before)
