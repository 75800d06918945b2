"""Ranks of rows that are records: the entries of a column are its values in ascending order."""

from typing import Protocol

import numpy as np

from dpq_sklearn.engine.ranks import (
    RECORD_WEIGHT,
    checked_totals,
    entries_around,
    entries_below,
)


class Columns(Protocol):
    """The float64 values of several columns in ascending order, without NaN.

    In all methods `columns` is an array that broadcasts with the entries or edges, or the number of
    one column.
    """

    sizes: np.ndarray  # (n_columns,), the number of values of each column

    def __getitem__(self, columns):
        """Return the columns with these numbers."""

    def values_at(self, columns, entries):
        """Return the values of entries, numbered from 0, or any value for an empty column."""

    def entries_below(self, columns, edges):
        """Return the number of values of its column below each edge."""


class SortedColumns:
    """Columns with sorted values, an implementation of `Columns`.

    ``values[starts[column] :][: sizes[column]]`` are the values of a column. The array has at least
    one value, even if all columns are empty.
    """

    def __init__(self, *, values, starts, sizes):
        self._values = values
        self._starts = starts
        self.sizes = sizes

    @classmethod
    def of_rows(cls, rows):
        """Return the columns that are the rows of a matrix, each ascending with NaN at the end."""
        n_columns, n_rows = rows.shape
        sizes = np.full(n_columns, n_rows)
        if np.isnan(rows[:, -1:]).any():
            sizes -= np.isnan(rows).sum(axis=1)

        values = rows.ravel() if rows.size else np.zeros(1)
        return cls(values=values, starts=np.arange(n_columns) * n_rows, sizes=sizes)

    def __getitem__(self, columns):
        """Return the columns with these numbers."""
        return SortedColumns(
            values=self._values, starts=self._starts[columns], sizes=self.sizes[columns]
        )

    def values_at(self, columns, entries):
        """Return the values of these entries, as described in `Columns`."""
        return self._values[np.minimum(self._starts[columns] + entries, self._values.size - 1)]

    def entries_below(self, columns, edges):
        """Return the number of values of its column below each edge."""
        return entries_below(self._values, self._starts, self.sizes, columns, edges)


class SortedRanks:
    """The ranks of `Columns` in which each value is a record, an implementation of `Ranks`."""

    def __init__(self, columns: Columns, grid):
        self.grid = grid
        self._columns = columns
        self.total_weights = checked_totals(columns.sizes * RECORD_WEIGHT)

    @classmethod
    def of_rows(cls, rows, grid):
        """Return the ranks of the rows of a matrix, each ascending with NaN at the end."""
        return cls(SortedColumns.of_rows(rows), grid)

    def of_columns(self, columns):
        """Return the ranks of the columns with these numbers."""
        return SortedRanks(self._columns[columns], self.grid[columns])

    def locate(self, columns, weights):
        """Return cells and the weights before and after them, as described in `Ranks`."""
        last = self._columns.sizes[columns] - 1
        entries = np.maximum(np.minimum(weights // RECORD_WEIGHT, last), 0)
        around = np.array((entries - 1, entries, entries + 1))
        around = np.maximum(np.minimum(around, last), 0)
        previous, value, following = self._columns.values_at(columns, around)

        first_cell = self.grid.first[columns]
        cells = self.grid.cells_of(value, columns)
        cells = np.where(last < 0, first_cell, cells)

        # A cell with one entry needs no search. The outermost cells also hold clipped values.
        lower, upper = self.grid.lower_edges(np.array((cells, cells + 1)), columns)
        is_shared = (cells <= first_cell) | (cells + 1 >= self.grid.end[columns])
        is_shared |= (entries > 0) & (previous >= lower)
        is_shared |= (entries < last) & (following < upper)

        before, after = entries_around(entries, cells, columns, is_shared, self._entries_before)
        return cells, before * RECORD_WEIGHT, after * RECORD_WEIGHT

    def weights_below(self, columns, cells):
        """Return the total weight of the cells before each cell."""
        return self._entries_before(columns, cells) * RECORD_WEIGHT

    def _entries_before(self, columns, cells):
        """Return the number of values of its column in the cells before each cell."""
        edges = self.grid.lower_edges(cells, columns)
        before = self._columns.entries_below(columns, edges)

        # Values beyond the ends are clipped into the outermost cells.
        before = np.where(cells <= self.grid.first[columns], 0, before)
        return np.where(cells >= self.grid.end[columns], self._columns.sizes[columns], before)
