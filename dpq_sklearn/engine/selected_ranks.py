"""Ranks by selection: rows are counted by bucket, and sorted only where a mechanism looks.

AQ looks up a few dozen ranks around each of its targets. One pass over the table counts the rows in
all `Buckets` of all columns: then the ranks at the ends of the buckets are known. A second pass
copies the rows around the targets. Of these, only the buckets that hold a rank that is looked up
are taken out and sorted. What is looked up elsewhere costs one more pass.

The answers are those of sorted columns, bit by bit. How long they take depends on the data, as it
does in sorting.
"""

import time
from functools import cache, cached_property

import numpy as np

from dpq_sklearn.engine.buckets import Buckets
from dpq_sklearn.engine.ranks import (
    RECORD_WEIGHT,
    checked_totals,
    first_at_least,
    sums_of_weights,
)
from dpq_sklearn.engine.rows_by_bucket import Pool, Scan, stretches

_SAMPLED_ROWS = 1024
# Of a bucket with more than this part of all rows, so many atoms are counted and not sorted.
_CROWDED_PART = 64
_MOST_ATOMS = 3
# Numbers of buckets and of cells together have 63 bits.
_BUCKETS_AT_ONCE = 2**20
_CELLS_AT_ONCE = 2**14  # they stay in the cache
# Where sorting takes less than so many times as long as counting, it is fast.
_FAST_SORT = 12
# Buckets between two that are taken out are taken out too, if there are fewer than so many.
_SMALL_GAP = 4


class SelectedRanks:
    """The rows of a table in memory, which is not changed meanwhile: `Ranks`.

    `select` returns the `Selection` of the table, always the same one, and `columns` are those of
    its columns that these ranks have. `sort` returns ranks of the whole table that are sorted, for
    mechanisms that look at most of it. Neither is called before it is needed.
    """

    def __init__(self, *, grid, columns, n_rows, weights, select, sort):
        self.grid = grid
        self._columns = columns
        self._n_rows = n_rows
        self._weights = weights  # `EachARecord` or `SharedRecords`
        self._select = select
        self._sort = sort

    def of_columns(self, columns):
        """Return the ranks of a list of the columns."""
        return SelectedRanks(
            grid=self.grid[columns],
            columns=self._columns[columns],
            n_rows=self._n_rows,
            weights=self._weights,
            select=self._select,
            sort=self._sort,
        )

    @cached_property
    def total_weights(self):
        """The weight of each column."""
        return checked_totals(self._select().total_weights[self._columns])

    def near(self, columns, probabilities, reach):
        """Return ranks that are quick near these quantiles, as `Ranks` promises."""
        n_records = self._weights.n_records(self._n_rows)
        share = np.minimum(2 * reach / n_records, 1.0).sum() / self._columns.size
        if not self._weights.are_selected(self._n_rows, share):
            return self._sort().of_columns(self._columns)

        totals = self.total_weights[columns]
        targets = probabilities * totals
        low = np.maximum(targets - reach * RECORD_WEIGHT, 0.0).astype(np.int64)
        high = np.minimum(targets + reach * RECORD_WEIGHT, totals - 1.0).astype(np.int64)
        some = totals > 0
        if some.any():
            self._select().prepare(self._columns[columns[some]], low[some], high[some])
        return self

    def around_ranks(self, columns, weights):
        """Return cells and the weights before and after them, as `Ranks` promises."""
        columns, weights = np.broadcast_arrays(columns, weights)
        cells = self.grid.first[columns]
        before = np.zeros_like(cells)
        after = np.zeros_like(cells)

        has_rows = self.total_weights[columns] > 0
        if has_rows.any():
            found = self._around_ranks(columns[has_rows], weights[has_rows])
            cells[has_rows], before[has_rows], after[has_rows] = found
        return cells, before, after

    def _around_ranks(self, columns, weights):
        """Return the same for columns that have rows; arrays (n,)."""
        weights = np.minimum(weights, self.total_weights[columns] - 1)
        found = self._select().entries_at(self._columns[columns], weights)
        cells, before, after, is_inside = found

        # A cell at the end of its bucket may reach into the next one.
        rest = np.flatnonzero(~is_inside)
        if rest.size:
            ends = np.array((cells[rest], cells[rest] + 1))
            before[rest], after[rest] = self.weights_below(columns[rest], ends)
        return cells, before, after

    def weights_below(self, columns, cells):
        """Return the weight in the cells before each of the given ones."""
        columns, cells = np.broadcast_arrays(columns, cells)
        is_behind = cells >= self.grid.end[columns]
        below = np.where(is_behind, self.total_weights[columns], 0)

        inside = (cells > self.grid.first[columns]) & ~is_behind
        if inside.any():
            columns = columns[inside]
            cells = cells[inside]
            edges = self.grid.lower_edges(cells, columns)
            below[inside] = self._select().weights_below(self._columns[columns], cells, edges)
        return below


class Selection:
    """The rows of a table: the weights of all buckets, and what is in those taken out so far.

    `X` is (n_rows, n_columns), of any real type. Buckets of all columns are numbered one after
    another. The rows of a bucket that is taken out become *entries*, ascending: a cell, and the
    weight of the bucket's rows in it.
    """

    def __init__(self, X, *, grid, weights, in_threads):
        self._n_rows = len(X)
        self._grid = grid
        self._weights = weights  # `EachARecord` or `SharedRecords`

        every = -(-len(X) // _SAMPLED_ROWS)
        self._buckets = Buckets.for_table(X[::every].astype(np.float64).T, len(X))
        self._scan = Scan(X, self._buckets, in_threads)
        self._finder = self._scan
        sums = self._scan.sums(weights)
        sums[:, 0] = 0  # of NaN
        self._weights_before = np.append(0, np.cumsum(sums))  # (n_columns * n_buckets + 1,)

        # A bucket that is taken out has a number, from 0 on; others have -1. Its entries are
        # ``starts[number]`` and the following ones, and the weight `below` each of them goes on to
        # that behind the last one.
        self._numbers = np.full(sums.size, -1, dtype=np.int64)
        self._starts = np.empty(0, dtype=np.int64)
        self._sizes = np.empty(0, dtype=np.int64)
        self._cells = np.empty(0, dtype=np.int64)
        self._below = np.empty(0, dtype=np.int64)

    @property
    def total_weights(self):
        """The weight of each column, (n_columns,)."""
        return np.diff(self._weights_before[:: self._buckets.n_buckets])

    def prepare(self, columns, low, high):
        """Get ready for weights from `low` to `high` of columns; arrays (n,)."""
        steps = np.zeros(self._weights_before.size, dtype=np.int64)
        np.add.at(steps, self._bucket_at(columns, low), 1)
        np.add.at(steps, self._bucket_at(columns, high) + 1, -1)
        is_wanted = steps.cumsum()[:-1] > 0
        self._finder = Pool(self._scan, np.flatnonzero(is_wanted & self._has_weight))

    def entries_at(self, columns, weights):
        """Return where the weight of a column first exceeds each of `weights`, less than all of it.

        These are a cell, the weights before and after what its bucket has of it, and whether that
        is the whole cell for sure. All arrays are (n,).
        """
        buckets = self._bucket_at(columns, weights)
        self._take_out(buckets)
        numbers = self._numbers[buckets]
        starts = self._starts[numbers]
        sizes = self._sizes[numbers]

        before_column = self._weights_before[columns * self._buckets.n_buckets]
        before_bucket = self._weights_before[buckets] - before_column
        before_entries = self._below[starts]
        wanted = before_entries + (weights - before_bucket)
        entries = first_at_least(self._below, starts, sizes + 1, wanted + 1) - 1

        found = starts + entries
        before = before_bucket + self._below[found] - before_entries
        after = before_bucket + self._below[found + 1] - before_entries
        is_inside = (entries > 0) & (entries < sizes - 1)
        return self._cells[found], before, after, is_inside

    def weights_below(self, columns, cells, edges):
        """Return the weight of a column in the cells before these, which begin at `edges`."""
        before_column = columns * self._buckets.n_buckets
        buckets = before_column + self._buckets.at(columns).of_values(edges)
        below = self._weights_before[buckets] - self._weights_before[before_column]

        inside = np.flatnonzero(self._weights_before[buckets + 1] > self._weights_before[buckets])
        if inside.size:
            buckets = buckets[inside]
            self._take_out(buckets)
            numbers = self._numbers[buckets]
            starts = self._starts[numbers]
            entries = first_at_least(self._cells, starts, self._sizes[numbers], cells[inside])
            below[inside] += self._below[starts + entries] - self._below[starts]
        return below

    def _bucket_at(self, columns, weights):
        """Return the bucket that holds each weight of its column."""
        before_column = self._weights_before[columns * self._buckets.n_buckets]
        return self._weights_before.searchsorted(before_column + weights, side="right") - 1

    @cached_property
    def _has_weight(self):
        """Whether a bucket is not empty."""
        return self._weights_before[1:] > self._weights_before[:-1]

    def _take_out(self, buckets):
        """Take out these buckets, none of which is empty, if they are not out already."""
        missing = np.unique(buckets[self._numbers[buckets] < 0])
        if missing.size == 0:
            return

        # Draws look between look-ups, and should not need another pass.
        gaps = np.diff(missing)
        between = [
            missing[:-1][(gaps > step) & (gaps <= _SMALL_GAP)] + step
            for step in range(1, _SMALL_GAP)
        ]
        missing = np.unique(np.concatenate((missing, *between)))
        missing = missing[self._has_weight[missing] & (self._numbers[missing] < 0)]
        for start in range(0, missing.size, _BUCKETS_AT_ONCE):
            self._take_out_missing(missing[start : start + _BUCKETS_AT_ONCE])

    def _take_out_missing(self, buckets):
        """Take out these buckets, ascending and distinct."""
        found = self._finder.find(buckets)
        first_number = self._starts.size
        self._numbers[buckets] = first_number + np.arange(buckets.size)
        numbers = self._numbers[found.buckets] - first_number
        columns = buckets // self._buckets.n_buckets
        self._append(*self._entries(numbers, found.rows, found.values, columns), columns)

    def _entries(self, numbers, rows, values, columns):
        """Return distinct addresses of numbers, ascending, and the weights at them.

        `numbers` are those of the buckets, and `columns` the columns of each bucket. An *address*
        is the number of the bucket, and in the lowest bits the cell, from the first one on.
        """
        atoms = []
        for _ in range(_MOST_ATOMS):
            n_rows_of = np.bincount(numbers, minlength=columns.size)
            is_crowded = n_rows_of > self._n_rows // _CROWDED_PART
            if not is_crowded.any():
                break

            # Any row of a bucket is one of its atom, most likely.
            some_value = np.zeros(columns.size)
            some_value[numbers] = values
            is_atom = is_crowded[numbers] & (values == some_value[numbers])
            weights = self._weights.in_groups(numbers[is_atom], rows[is_atom], columns.size)
            crowded = np.flatnonzero(is_crowded)
            addresses = self._addresses(crowded, some_value[crowded], columns)
            atoms.append((addresses, weights[crowded]))
            numbers = numbers[~is_atom]
            rows = rows[~is_atom]
            values = values[~is_atom]

        entries = self._weights.merged(self._addresses(numbers, values, columns), rows)
        if not atoms:
            return entries
        addresses, weights = map(np.concatenate, zip(entries, *atoms, strict=True))
        return _merged_pairs(addresses, weights)

    def _addresses(self, numbers, values, columns):
        """Return the addresses of values in buckets with these numbers."""
        addresses = np.empty(values.size, dtype=np.int64)
        for block in stretches(values.size, _CELLS_AT_ONCE):
            columns_of_block = columns[numbers[block]]
            cells = self._grid.cells_of(values[block], columns_of_block)
            cells -= self._grid.first[columns_of_block]
            addresses[block] = (numbers[block] << self._cell_bits) + cells
        return addresses

    @cached_property
    def _cell_bits(self):
        """How many bits the cells of a column have, counted from its first one."""
        return int((self._grid.end - self._grid.first).max()).bit_length()

    def _append(self, addresses, weights, columns):
        """Add entries of buckets that have the next numbers, and are in these columns."""
        ends = np.arange(columns.size + 1) << self._cell_bits
        starts = np.searchsorted(addresses, ends)
        sizes = np.diff(starts)
        cells = addresses & ((1 << self._cell_bits) - 1)
        cells += np.repeat(self._grid.first[columns], sizes)

        self._starts = np.append(self._starts, self._cells.size + starts[:-1])
        self._sizes = np.append(self._sizes, sizes)
        self._cells = np.concatenate((self._cells, cells, [0]))
        self._below = np.concatenate((self._below, [0], np.cumsum(weights)))


@cache
def sorting_is_fast():
    """Return whether NumPy sorts fast on this CPU, compared to counting: tried out once.

    It is 5 to 60 times as slow, as the CPU is. Which way ranks are found changes no answer.
    """
    shuffled = np.arange(2**15) * 40503 % 2**15
    values = shuffled.astype(np.float64)

    def seconds(function):
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    sorting = min(seconds(lambda: np.sort(values)) for _ in range(3))
    counting = min(seconds(lambda: np.bincount(shuffled)) for _ in range(3))
    return sorting < _FAST_SORT * counting


class EachARecord:
    """The weights of rows that are records."""

    def n_records(self, n_rows):
        """Return how many records so many rows are."""
        return n_rows

    def are_selected(self, n_rows, share):
        """Return whether selection is faster than sorting, if so large a share is looked at."""
        if sorting_is_fast():
            return n_rows >= 200_000 and share <= 0.02
        return n_rows >= 20_000 and share <= 0.8

    def in_groups(self, groups, rows, n_groups):
        """Return the weight of each of so many groups; `groups` are those of the rows."""
        return np.bincount(groups, minlength=n_groups) * RECORD_WEIGHT

    def merged(self, addresses, rows):
        """Return distinct ascending addresses, and the weight of the rows at each of them."""
        addresses = np.sort(addresses)
        starts = _starts_of_runs(addresses)
        n_rows_at = np.diff(starts, append=addresses.size)
        return addresses[starts], n_rows_at * RECORD_WEIGHT


class SharedRecords:
    """The weights of rows that share records: (n_rows,)."""

    def __init__(self, weights):
        self._weights = weights.astype(np.float64)  # which are added up faster, and exactly

    def n_records(self, n_rows):
        """Return how many records so many rows are: all of them."""
        return self._weights.sum() / RECORD_WEIGHT

    def are_selected(self, n_rows, share):
        """Return whether selection is faster than sorting, if so large a share is looked at."""
        if sorting_is_fast():
            return n_rows >= 200_000 and share <= 0.2
        return n_rows >= 20_000 and share <= 0.8

    def in_groups(self, groups, rows, n_groups):
        """Return the weight of each of so many groups; `groups` are those of the rows."""
        return sums_of_weights(groups, self._weights[rows], n_groups)

    def merged(self, addresses, rows):
        """Return distinct ascending addresses, and the weight of the rows at each of them."""
        return _merged_pairs(addresses, self._weights[rows].astype(np.int64))


def _merged_pairs(addresses, weights):
    """Return distinct ascending addresses, and the sums of their weights."""
    order = np.argsort(addresses)  # sums are exact, so equal ones may come in any order
    addresses = addresses[order]
    starts = _starts_of_runs(addresses)
    return addresses[starts], np.add.reduceat(weights[order], starts)


def _starts_of_runs(ascending):
    """Return where each distinct number begins."""
    return np.flatnonzero(np.diff(ascending, prepend=ascending[:1] - 1))
