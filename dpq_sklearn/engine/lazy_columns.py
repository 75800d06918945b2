"""Long columns that are sorted only where a mechanism looks.

A mechanism looks up a few ranks around each quantile, so most values of a long column never need to
be sorted. A `LazyColumn` keeps its values in their order. The first look-up near a quantile makes a
window: a sample shows roughly where the values lie, one pass over the column counts the values
below the window and copies the values inside, and only the copies are sorted.

The results are those of a full sort, bit by bit. The running time depends on the data, as for every
sort.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

_MOST_SAMPLED = 2**14
# A window reaches this far around a rank, in standard deviations of the rank of a sampled value.
_DEVIATIONS = 3.0
# A column that needs more or wider windows is sorted.
_MOST_WINDOWS = 6
_MOST_IN_WINDOWS = 0.25
# A column is also sorted if more edges than this are looked up outside of its windows at once.
_MOST_COUNTED_EDGES = 16
_VALUES_AT_ONCE = 2**16  # so that they fit into the CPU cache


class LazyColumns:
    """Several long columns, an implementation of `Columns`.

    ``run(function, arguments)`` returns a list of results. It may use threads.
    """

    def __init__(self, columns: list["LazyColumn"], run: Callable):
        self._columns = columns
        self._run = run
        self.sizes = np.array([column.size for column in columns])

    @classmethod
    def of_arrays(cls, arrays: list[np.ndarray], run: Callable) -> "LazyColumns":
        """Return columns of these float64 values in any order. The arrays are not changed."""
        return cls(run(LazyColumn, arrays), run)

    def __getitem__(self, columns):
        """Return the columns with these numbers."""
        return LazyColumns([self._columns[column] for column in columns], self._run)

    def values_at(self, columns, entries):
        """Return the values of these entries, as described in `Columns`."""
        return self._ask_columns(LazyColumn.values_at, columns, entries, np.float64)

    def entries_below(self, columns, edges):
        """Return the number of values of its column below each edge."""
        return self._ask_columns(LazyColumn.entries_below, columns, edges, np.int64)

    def _ask_columns(self, method, columns, wanted, dtype):
        """Return ``method(column, wanted)`` for each column, in the shape of `wanted`."""
        columns, wanted = np.broadcast_arrays(columns, wanted)
        order = np.argsort(columns, axis=None, kind="stable")
        in_order = columns.ravel()[order]
        starts = np.flatnonzero(np.diff(in_order, prepend=-1))
        groups = np.split(order, starts[1:])
        flat = wanted.ravel()

        def ask(group):
            return method(self._columns[columns.flat[group[0]]], flat[group])

        answers = np.empty(wanted.size, dtype=dtype)
        if wanted.size:
            answers[order] = np.concatenate(self._run(ask, groups))
        return answers.reshape(wanted.shape)


class Window(NamedTuple):
    """All values of one column between `low` and `high`, both excluded."""

    low: float
    high: float
    start: int  # the number of values up to `low`
    values: np.ndarray  # ascending

    def has_entries(self, entries: np.ndarray) -> np.ndarray:
        """Return for each entry of the column whether its value is in the window."""
        return (entries >= self.start) & (entries < self.start + self.values.size)

    def has_edges(self, edges: np.ndarray) -> np.ndarray:
        """Return for each edge whether the window determines the number of values below it."""
        return (edges > self.low) & (edges <= self.high)


class LazyColumn:
    """The values of one column, and the windows that have been looked at so far.

    A look-up outside of all windows adds windows. If there would be too many or too wide windows,
    or if they do not contain the look-up, the column is sorted.
    """

    def __init__(self, values: np.ndarray):
        self._values = values  # NaN included
        self._windows: list[Window] = []
        self.size = values.size - sum(
            np.count_nonzero(np.isnan(block)) for block in _blocks(values)
        )

    def values_at(self, entries: np.ndarray) -> np.ndarray:
        """Return the values of these entries in ascending order, or 0 for an empty column."""
        values = np.zeros(entries.shape)
        if self.size == 0:
            return values

        missing = entries[~self._are_entries_known(entries)]
        if missing.size:
            self._add_windows(np.unique(missing))
            if not self._are_entries_known(missing).all():
                self._sort()

        for window in self._windows:
            is_inside = window.has_entries(entries)
            values[is_inside] = window.values[entries[is_inside] - window.start]
        return values

    def entries_below(self, edges: np.ndarray) -> np.ndarray:
        """Return the number of values below each edge."""
        is_known = self._are_edges_known(edges)
        unknown = np.unique(edges[~is_known])
        if unknown.size > _MOST_COUNTED_EDGES:
            self._sort()
            return self.entries_below(edges)

        counts = np.zeros(edges.shape, dtype=np.int64)
        if unknown.size:
            counts_of_unknown = np.array([_count_below(self._values, edge) for edge in unknown])
            counts[~is_known] = counts_of_unknown[unknown.searchsorted(edges[~is_known])]

        for window in self._windows:
            is_inside = window.has_edges(edges)
            counts[is_inside] = window.start + window.values.searchsorted(edges[is_inside])
        return counts

    def _are_entries_known(self, entries):
        is_known = np.zeros(entries.shape, dtype=bool)
        for window in self._windows:
            is_known |= window.has_entries(entries)
        return is_known

    def _are_edges_known(self, edges):
        is_known = np.zeros(edges.shape, dtype=bool)
        for window in self._windows:
            is_known |= window.has_edges(edges)
        return is_known

    @cached_property
    def _sample(self):
        """An ascending sample of the values. It only affects the speed of look-ups."""
        step = -(-self._values.size // _MOST_SAMPLED)
        sample = np.sort(self._values[::step])
        return sample[: sample.size - np.count_nonzero(np.isnan(sample))]

    def _add_windows(self, entries):
        """Add windows that probably contain these ascending entries, if they are few and narrow."""
        sample = self._sample
        if sample.size == 0:
            return

        first, last = window_ends(sample.size, (entries + 0.5) / self.size)
        # Windows of equal values need no sort.
        is_sorted_later = sample[first] < sample[last]
        n_to_sort = np.sum((last - first)[is_sorted_later])
        if n_to_sort > _MOST_IN_WINDOWS * sample.size:
            return
        if len(self._windows) + first.size > _MOST_WINDOWS:
            return

        # The ends are other values of the sample, so a window contains all ties of its values.
        with_ends = np.concatenate(([-np.inf], sample, [np.inf]))
        lows = with_ends[sample.searchsorted(sample[first])]
        highs = with_ends[sample.searchsorted(sample[last], side="right") + 1]
        for low, high in zip(lows, highs, strict=True):
            self._windows.append(_window_between(self._values, low, high))

    def _sort(self):
        """Replace all windows by a single window with the whole column."""
        values = np.sort(self._values)[: self.size]
        self._windows = [Window(low=-np.inf, high=np.inf, start=0, values=values)]


def window_ends(n_sampled: int, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last entry of a sorted sample for windows around some quantiles.

    `shares` are the ascending probabilities of the quantiles. Overlapping windows are merged, so
    the results may be shorter.
    """
    beside = _DEVIATIONS * np.sqrt(shares * (1 - shares) * n_sampled) + 1
    low = np.floor(shares * n_sampled - beside)
    high = np.ceil(shares * n_sampled + beside)

    low = np.minimum.accumulate(low[::-1])[::-1]
    high = np.maximum.accumulate(high)
    is_apart = low[1:] > high[:-1]
    ends = low[np.append(True, is_apart)], high[np.append(is_apart, True)]
    low, high = np.clip(ends, 0, n_sampled - 1).astype(np.int64)
    return low, high


def _window_between(values, low, high):
    """Return the window of the values between `low` and `high`."""
    start = 0
    inside = []
    for block in _blocks(values):
        is_below = block <= low
        start += np.count_nonzero(is_below)
        inside.append(block.compress((block < high) ^ is_below))

    values_inside = np.concatenate(inside)
    if values_inside.size and values_inside.min() < values_inside.max():
        values_inside.sort()
    return Window(low=low, high=high, start=start, values=values_inside)


def _count_below(values, edge):
    return sum(np.count_nonzero(block < edge) for block in _blocks(values))


def _blocks(values):
    """Yield the values in blocks."""
    for start in range(0, values.size, _VALUES_AT_ONCE):
        yield values[start : start + _VALUES_AT_ONCE]
