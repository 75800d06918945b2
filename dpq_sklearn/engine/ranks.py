"""Ranks: how much weight lies below a position of the grid.

A record weighs `RECORD_WEIGHT`, a whole number that several rows can share (`data.groups`). The
weight of a cell is spread evenly over its positions, so a record adds to all ranks a ramp that
climbs by at most one record inside its cell, whatever the ties. Ranks are exact integers in *rank
ticks*: ``positions_per_cell`` ticks are one unit of weight.
"""

import numpy as np

RECORD_WEIGHT = 2**18
# Beyond this many records the ranks, in ticks, would not fit into 64 bits.
MOST_RECORDS = 2**34


class Ranks:
    """The ascending entries of many columns, and the weight before each of them.

    ``keys[start : start + size]`` are the entries of a column: floats, whose cells are worked out
    only where a mechanism looks, or cells. `below` has the weight before each entry, and for each
    column one more number, its total; None if each entry is a record.
    """

    def __init__(self, grid, keys, starts, sizes, below=None, starts_of_below=None):
        self.grid, self._starts, self._sizes = grid, starts, sizes
        self._keys = keys if keys.size else np.zeros(1, dtype=keys.dtype)
        self._below, self._starts_of_below = below, starts_of_below
        self.total_weights = self._weights_before(np.arange(sizes.size), sizes)
        if np.any(self.total_weights >= MOST_RECORDS * RECORD_WEIGHT):
            raise OverflowError(f"a column may have at most {MOST_RECORDS - 1} records.")

    @classmethod
    def of_sorted(cls, values, grid):
        """Return the ranks of float64 columns, the rows of `values`: each ascending, NaN last."""
        n_columns, n_rows = values.shape
        sizes = np.full(n_columns, n_rows)
        if np.isnan(values[:, -1:]).any():
            sizes -= np.isnan(values).sum(axis=1)
        return cls(grid, values.ravel(), np.arange(n_columns) * n_rows, sizes)

    @classmethod
    def of_weighted(cls, cells, below, grid):
        """Return the ranks of ascending cells, a column in each row, with the weights `below`."""
        (n_columns, n_rows), columns = cells.shape, np.arange(len(cells))
        sizes, starts_of_below = np.full(n_columns, n_rows), columns * (n_rows + 1)
        return cls(grid, cells.ravel(), columns * n_rows, sizes, below.ravel(), starts_of_below)

    @classmethod
    def of_summaries(cls, summaries, grid):
        """Return the ranks of (cell, weight) summaries, one for each column."""
        sizes = np.array([summary.cells.size for summary in summaries])
        starts = np.cumsum(sizes) - sizes
        cells = np.concatenate([summary.cells for summary in summaries])
        below = np.concatenate([np.append(0, np.cumsum(summary.weights)) for summary in summaries])
        return cls(grid, cells, starts, sizes, below, starts + np.arange(sizes.size))

    def of_columns(self, columns):
        """Return the ranks of a list of the columns."""
        starts, sizes = self._starts[columns], self._sizes[columns]
        of_below = None if self._below is None else self._starts_of_below[columns]
        return Ranks(self.grid[columns], self._keys, starts, sizes, self._below, of_below)

    def around_ranks(self, columns, weights):
        """Return the cell in which the weight from the left first exceeds each of `weights`.

        With it come the weights before and after it: none if the column has no records.
        """
        last = self._sizes[columns] - 1
        if self._below is None:
            entries = weights // RECORD_WEIGHT
        else:
            starts = self._starts_of_below[columns]
            entries = first_at_least(self._below, starts, last + 2, weights + 1) - 1
        entries = np.maximum(np.minimum(entries, last), 0)
        places = np.minimum(self._starts[columns] + entries, self._keys.size - 1)
        first, end = self.grid.first[columns], self.grid.end[columns]
        cells = np.where(last < 0, first, self._cells_of(self._keys[places], columns))
        # A cell with one entry needs no search. Those at the ends hold what is clipped.
        begin_key, end_key = self._keys_of(np.array((cells, cells + 1)), columns)
        is_shared = (cells <= first) | (cells + 1 >= end)
        is_shared |= (entries > 0) & (self._keys[places - 1] >= begin_key)
        next_places = np.minimum(places + 1, self._keys.size - 1)
        is_shared |= (entries < last) & (self._keys[next_places] < end_key)
        begin, end = entries, entries + 1
        if is_shared.any():
            of_shared = (columns + np.zeros_like(cells))[is_shared]
            two = np.array((cells, cells + 1))[:, is_shared]
            begin[is_shared], end[is_shared] = self._entries_before(of_shared, two)
        return cells, self._weights_before(columns, begin), self._weights_before(columns, end)

    def weights_below(self, columns, cells):
        """Return the weight in the cells before each of the given ones."""
        return self._weights_before(columns, self._entries_before(columns, cells))

    def _entries_before(self, columns, cells):
        sizes, keys = self._sizes[columns], self._keys_of(cells, columns)
        if self._sizes.size > int(self._sizes.max()).bit_length():  # steps of a binary search
            before = first_at_least(self._keys, self._starts[columns], sizes, keys)
        else:  # few columns are searched faster one by one
            before, columns_of_keys = np.empty_like(cells), columns + np.zeros_like(cells)
            for column, (start, size) in enumerate(zip(self._starts, self._sizes, strict=True)):
                here = columns_of_keys == column
                before[here] = self._keys[start : start + size].searchsorted(keys[here])
        # Numbers beyond the ends are clipped to the outermost cells.
        before = np.where(cells <= self.grid.first[columns], 0, before)
        return np.where(cells >= self.grid.end[columns], sizes, before)

    def _weights_before(self, columns, entries):
        if self._below is None:
            return entries * RECORD_WEIGHT
        return self._below[self._starts_of_below[columns] + entries]

    def _keys_of(self, cells, columns):
        return cells if self._keys.dtype == np.int64 else self.grid.lower_edges(cells, columns)

    def _cells_of(self, keys, columns):
        return keys if self._keys.dtype == np.int64 else self.grid.cells_of(keys, columns)


def first_at_least(keys, starts, sizes, wanted):
    """Return how many of the ascending ``keys[start : start + size]`` are below each wanted key."""
    found = np.zeros(np.broadcast(starts, wanted).shape, dtype=np.int64)
    if found.size == 0:
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
