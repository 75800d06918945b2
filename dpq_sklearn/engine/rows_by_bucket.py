"""Rows by bucket: which bucket every number of a table is in, and the rows of some buckets.

There are two ways to the rows of a bucket. `Scan` passes over the columns. `Pool` has copied the
rows of some buckets, and passes over these.
"""

from functools import reduce
from typing import NamedTuple

import numpy as np

# What is worked on at once stays in the cache.
_NUMBERS_AT_ONCE = 2**15
_FEWEST_ROWS_AT_ONCE = 2**8
_ROWS_COUNTED_AT_ONCE = 2**17
# Up to so many ranges of buckets, comparing is faster than looking up every row's bucket.
_MOST_COMPARED = 4


class FoundRows(NamedTuple):
    """Rows of some buckets, in any order; arrays (n,)."""

    buckets: np.ndarray
    rows: np.ndarray
    values: np.ndarray  # float64


class Scan:
    """A table, (n_rows, n_columns) of any real type, and the buckets of its numbers.

    Bucket b of a column is ``column * n_buckets + b``. ``in_threads(function, arguments)`` returns
    a list of results.
    """

    def __init__(self, X, buckets, in_threads):
        self.X = X
        self.n_buckets = buckets.n_buckets  # of a column
        self.in_threads = in_threads
        self.buckets_of_rows = np.empty(X.shape[::-1], dtype=np.uint16)  # (n_columns, n_rows)
        self._fill(buckets)

    def _fill(self, buckets):
        """Find the bucket of every number."""
        n_rows, n_columns = self.X.shape
        of_columns = buckets.at(np.arange(n_columns)[:, None])

        def fill(rows):
            numbers = self.X[rows].T
            if numbers.dtype not in (np.float32, np.float64):
                numbers = numbers.astype(np.float64)
            self.buckets_of_rows[:, rows] = of_columns.of_values(numbers)

        n_rows_at_once = max(_NUMBERS_AT_ONCE // n_columns, _FEWEST_ROWS_AT_ONCE)
        self.in_threads(fill, stretches(n_rows, n_rows_at_once))

    def sums(self, weights):
        """Return the weight in each bucket of each column: (n_columns, n_buckets)."""
        n_columns, n_rows = self.buckets_of_rows.shape
        sums = np.zeros((n_columns, self.n_buckets), dtype=np.int64)

        def add_up(column):
            for rows in stretches(n_rows, _ROWS_COUNTED_AT_ONCE):
                buckets = self.buckets_of_rows[column, rows]
                sums[column] += weights.in_groups(buckets, rows, self.n_buckets)

        self.in_threads(add_up, range(n_columns))
        return sums

    def find(self, buckets):
        """Return the rows of these buckets: a pass over the columns that have them."""
        is_wanted = flags_of(buckets, self.buckets_of_rows.shape[0] * self.n_buckets)
        is_wanted = is_wanted.reshape(-1, self.n_buckets)

        def find_in(column):
            of_rows = self.buckets_of_rows[column]
            is_in = membership(is_wanted[column])
            found = [
                rows.start + np.flatnonzero(is_in(of_rows[rows]))
                for rows in stretches(of_rows.size, _NUMBERS_AT_ONCE)
            ]
            return self.rows_of_column(column, np.concatenate(found))

        columns = np.flatnonzero(is_wanted.any(axis=1))
        return concatenated(self.in_threads(find_in, columns))

    def rows_of_column(self, column, rows):
        """Return these rows of a column."""
        return FoundRows(
            buckets=self.buckets_of_rows[column, rows] + column * self.n_buckets,
            rows=rows,
            values=self.X[:, column][rows].astype(np.float64, copy=False),
        )


class Pool:
    """Copies of the rows of some buckets."""

    def __init__(self, scan, buckets):
        n_all = scan.buckets_of_rows.shape[0] * scan.n_buckets
        self._scan = scan
        self._is_copied = flags_of(buckets, n_all)
        self._copies = scan.find(buckets)

    def find(self, buckets):
        """Return the rows of these buckets: a pass over the copies, if they are there."""
        if not self._is_copied[buckets].all():
            return self._scan.find(buckets)
        is_wanted = flags_of(buckets, self._is_copied.size)
        found = np.flatnonzero(is_wanted.take(self._copies.buckets))
        return FoundRows(*(part[found] for part in self._copies))


def concatenated(parts):
    """Return all rows that several `FoundRows` have."""
    return FoundRows(*map(np.concatenate, zip(*parts, strict=True)))


def membership(is_wanted):
    """Return a function that tells which of some buckets are wanted: at least one."""
    changes = np.flatnonzero(np.diff(is_wanted, prepend=False, append=False)).tolist()
    ranges = list(zip(changes[::2], changes[1::2], strict=True))
    if len(ranges) > _MOST_COMPARED:
        return is_wanted.take

    def is_in(buckets):
        # Below a range the difference wraps around, beyond all that it may be.
        return reduce(np.logical_or, (buckets - first < end - first for first, end in ranges))

    return is_in


def flags_of(numbers, size):
    """Return an array of so many booleans that are true at these numbers."""
    flags = np.zeros(size, dtype=bool)
    flags[numbers] = True
    return flags


def stretches(size, length):
    """Return slices of so many rows, the last of fewer."""
    return [slice(start, start + length) for start in range(0, size, length)]
