"""Ranks near a few quantiles of one long column: the rows around them are kept, others counted.

A sample of the rows tells where the quantiles are, about. A *window* around each is wide enough
for the error of the sample and for all that a mechanism looks at. One pass over the column counts
the rows beside the windows and copies those inside. What lies in a window is then looked up among
few rows. A look-up elsewhere, which hardly ever happens, is left to ranks of the whole column.

The sample decides how long look-ups take, and nothing else.
"""

from typing import NamedTuple

import numpy as np

from dpq_sklearn.engine.ranks import RECORD_WEIGHT, checked_totals
from dpq_sklearn.engine.rows_by_bucket import stretches
from dpq_sklearn.engine.selected_ranks import SelectedRanks

_SAMPLED_ROWS = 2**14
# How far a window reaches, in standard deviations of a quantile of the sample.
_DEVIATIONS = 5.0
# Windows pay if they are few and hold few of the rows.
_MOST_WINDOWS = 4
_FEWEST_ROWS = 200_000
_MOST_KEPT = 0.25
_ROWS_AT_ONCE = 2**16  # they stay in the cache


class Windows(NamedTuple):
    """Ranges of cells, ascending and apart; arrays (n_windows,).

    A row is inside if, rounded to single precision, it is from `low` to `high`: so are all rows of
    the cells from `first` to `last`, and a few others.
    """

    first: np.ndarray
    last: np.ndarray
    low: np.ndarray  # float32
    high: np.ndarray

    @classmethod
    def between(cls, grid, first, last):
        """Return the windows that hold these ranges of cells of column 0, in any order."""
        order = np.argsort(first)
        first, last = first[order], np.maximum.accumulate(last[order])
        lower, upper = grid.lower_edges(np.array((first, last + 1)), 0)
        # The outermost cells have what is beyond them, too. Rounding keeps the order.
        low = np.where(first <= grid.first[0], -np.inf, lower).astype(np.float32)
        high = np.where(last >= grid.end[0] - 1, np.inf, upper).astype(np.float32)

        is_apart = low[1:] > high[:-1]
        begins = np.append(True, is_apart)
        ends = np.append(is_apart, True)
        return cls(first=first[begins], last=last[ends], low=low[begins], high=high[ends])

    @classmethod
    def around(cls, grid, column, probabilities, reach):
        """Return windows around quantiles of a column, or None if they do not pay.

        `reach` is how many records beside them have to be inside; arrays (n,).
        """
        if probabilities.size > _MOST_WINDOWS or len(column) < _FEWEST_ROWS:
            return None

        every = -(-len(column) // _SAMPLED_ROWS)
        sample = column[::every].astype(np.float64)
        sample = sample[~np.isnan(sample)]
        if sample.size == 0:
            return None

        deviations = np.sqrt(probabilities * (1 - probabilities) / sample.size)
        beside = _DEVIATIONS * deviations + reach / (every * sample.size)
        ends = np.clip((probabilities - beside, probabilities + beside), 0.0, 1.0)
        ranks = np.rint(ends * (sample.size - 1)).astype(np.int64)
        sample.partition(np.unique(ranks))
        windows = cls.between(grid, *grid.cells_of(sample[ranks], 0))
        return windows if windows.share_of(sample) <= _MOST_KEPT else None

    def share_of(self, values):
        """Return which share of values is inside."""
        rounded = values.astype(np.float32)
        n_inside = (rounded[:, None] <= self.high).sum() - (rounded[:, None] < self.low).sum()
        return n_inside / values.size


class LongColumnRanks(SelectedRanks):
    """One column, whose rows are records: `Ranks` that take windows where these pay.

    ``rank_some(rows)`` returns the ranks of some rows of it, and ``in_threads(function,
    arguments)`` a list of results.
    """

    def __init__(self, column, *, rank_some, in_threads, **of_selected):
        super().__init__(columns=np.arange(1), n_rows=len(column), **of_selected)
        self._column = column
        self._rank_some = rank_some
        self._in_threads = in_threads

    def near(self, columns, probabilities, reach):
        """Return ranks that are quick near these quantiles, as `Ranks` promises."""
        windows = Windows.around(self.grid, self._column, probabilities, reach)
        if windows is None:
            return super().near(columns, probabilities, reach)
        return WindowedRanks(self._column, windows, self, self._rank_some, self._in_threads)


class WindowedRanks:
    """A column and windows in it: `Ranks`, beside the windows those of the whole column."""

    def __init__(self, column, windows, ranks_of_all, rank_some, in_threads):
        self.grid = ranks_of_all.grid
        self._windows = windows
        self._ranks_of_all = ranks_of_all

        def count(rows):
            return _count_and_keep(column[rows], windows)

        counts, kept = zip(*in_threads(count, stretches(len(column), _ROWS_AT_ONCE)), strict=True)
        below, up_to, beyond = np.sum(counts, axis=0).reshape(3, -1) * RECORD_WEIGHT
        self._kept = rank_some(np.concatenate(kept))
        self.total_weights = checked_totals(up_to[-1:] + beyond[-1:])

        # Where each window begins and ends in weight, and the weight that is not kept before it.
        self._begins = below
        self._ends = up_to
        self._left_out = np.cumsum(below - np.append(0, up_to[:-1]))

    def of_columns(self, columns):
        """Return the ranks of a list of the columns: this one."""
        return self

    def near(self, columns, probabilities, reach):
        """Return ranks that are quick near these quantiles, as `Ranks` promises."""
        return self._ranks_of_all.near(columns, probabilities, reach)

    def around_ranks(self, columns, weights):
        """Return cells and the weights before and after them, as `Ranks` promises."""
        wanted = np.minimum(weights, self.total_weights - 1)
        window = np.maximum(self._begins.searchsorted(wanted, side="right") - 1, 0)
        if np.all((wanted >= self._begins[window]) & (wanted < self._ends[window])):
            left_out = self._left_out[window]
            cells, before, after = self._kept.around_ranks(0, wanted - left_out)
            if self._are_kept(cells, cells, window):
                return cells, before + left_out, after + left_out
        return self._ranks_of_all.around_ranks(columns, weights)

    def weights_below(self, columns, cells):
        """Return the weight in the cells before each of the given ones."""
        window = np.maximum(self._windows.first.searchsorted(cells, side="right") - 1, 0)
        if self._are_kept(cells, cells - 1, window):
            return self._kept.weights_below(0, cells) + self._left_out[window]
        return self._ranks_of_all.weights_below(columns, cells)

    def _are_kept(self, first, last, window):
        """Return whether all cells from `first` to `last` lie in their windows."""
        windows = self._windows
        return bool(np.all((first >= windows.first[window]) & (last <= windows.last[window])))


def _count_and_keep(values, windows):
    """Return how many values are below, up to, and beyond each window, and those inside.

    NaN are nowhere.
    """
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    rounded = values.astype(np.float32)
    is_inside = np.zeros(values.size, dtype=bool)
    below, up_to = [], []
    for low, high in zip(windows.low, windows.high, strict=True):
        is_below = rounded < low
        is_up_to = rounded <= high
        below.append(np.count_nonzero(is_below))
        up_to.append(np.count_nonzero(is_up_to))
        is_inside |= is_below ^ is_up_to

    n_beyond = np.count_nonzero(rounded > windows.high[-1])
    counts = np.array((below, up_to, [n_beyond] * len(below)))
    kept = values.take(np.flatnonzero(is_inside))  # several times as fast as a mask
    return counts, kept.astype(np.float64, copy=False)
