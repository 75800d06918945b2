"""Ranks of cells with weights, from summaries or from rows that share the weight of a person."""

import numpy as np

from dpq_sklearn.engine.ranks import (
    checked_totals,
    entries_around,
    entries_below,
    first_at_least,
)


class WeightedRanks:
    """The ascending cells of several columns and the weights before them: `Ranks`.

    ``cells[starts[column] :][: sizes[column]]`` are the cells of a column, which may repeat.
    ``below[starts_of_below[column] :][: sizes[column] + 1]`` are the weights before each of them,
    and the total weight. There is at least one cell, even if all columns are empty.
    """

    def __init__(self, *, grid, cells, starts, sizes, below, starts_of_below):
        self.grid = grid
        self._cells = cells
        self._starts = starts
        self._sizes = sizes
        self._below = below
        self._starts_of_below = starts_of_below
        self.total_weights = checked_totals(below[starts_of_below + sizes])

    @classmethod
    def of_rows(cls, cells, below, grid):
        """Return the ranks of columns that are the rows of two matrices.

        `cells` is (n_columns, n_rows), each row ascending, and `below` (n_columns, n_rows + 1).
        """
        n_columns, n_rows = cells.shape
        columns = np.arange(n_columns)
        return cls(
            grid=grid,
            cells=_at_least_one(cells.ravel()),
            starts=columns * n_rows,
            sizes=np.full(n_columns, n_rows),
            below=below.ravel(),
            starts_of_below=columns * (n_rows + 1),
        )

    @classmethod
    def of_summaries(cls, summaries, grid):
        """Return the ranks of (cell, weight) summaries, one for each column."""
        sizes = np.array([summary.cells.size for summary in summaries])
        starts = np.cumsum(sizes) - sizes
        cells = np.concatenate([summary.cells for summary in summaries])
        below = np.concatenate([np.append(0, np.cumsum(summary.weights)) for summary in summaries])
        return cls(
            grid=grid,
            cells=_at_least_one(cells),
            starts=starts,
            sizes=sizes,
            below=below,
            starts_of_below=starts + np.arange(sizes.size),
        )

    def of_columns(self, columns):
        """Return the ranks of the columns with these numbers."""
        return WeightedRanks(
            grid=self.grid[columns],
            cells=self._cells,
            starts=self._starts[columns],
            sizes=self._sizes[columns],
            below=self._below,
            starts_of_below=self._starts_of_below[columns],
        )

    def locate(self, columns, weights):
        """Return cells and the weights before and after them, as described in `Ranks`."""
        last = self._sizes[columns] - 1
        starts_of_below = self._starts_of_below[columns]
        up_to = first_at_least(self._below, starts_of_below, last + 2, weights + 1)
        entries = np.maximum(np.minimum(up_to - 1, last), 0)
        index = np.minimum(self._starts[columns] + entries, self._cells.size - 1)
        cells = np.where(last < 0, self.grid.first[columns], self._cells[index])

        # A cell with one entry needs no search.
        following = np.minimum(index + 1, self._cells.size - 1)
        is_shared = (entries > 0) & (self._cells[index - 1] == cells)
        is_shared |= (entries < last) & (self._cells[following] == cells)
        is_shared |= last < 0

        before, after = entries_around(entries, cells, columns, is_shared, self._entries_before)
        return cells, self._below[starts_of_below + before], self._below[starts_of_below + after]

    def weights_below(self, columns, cells):
        """Return the total weight of the cells before each cell."""
        return self._below[self._starts_of_below[columns] + self._entries_before(columns, cells)]

    def _entries_before(self, columns, cells):
        return entries_below(self._cells, self._starts, self._sizes, columns, cells)


def _at_least_one(cells):
    return cells if cells.size else np.zeros(1, dtype=np.int64)
