"""Ranks: the weight below a position of the grid.

A record has the weight `RECORD_WEIGHT`, a whole number that several rows can share
(`reading.groups`). The weight of a cell is spread evenly over its positions, so each record adds a
ramp to all ranks, which rises by at most one record inside its cell, even for ties. Ranks are exact
integers in *rank ticks*: one unit of weight is ``positions_per_cell`` ticks.

Mechanisms access data through `Ranks` only. `sorted_ranks` is for rows that are records, and
`weighted_ranks` for cells with weights.
"""

from typing import Protocol

import numpy as np

from dpq_sklearn.engine.grid import Grid

RECORD_WEIGHT = 2**18
# With more records the ranks in ticks would not fit into 64 bits.
MOST_RECORDS = 2**34


class Ranks(Protocol):
    """The weights of the records of several columns by cell.

    In all methods `columns` is an array that broadcasts with the weights or cells, or the number of
    one column. All implementations return the same numbers for the same records, bit by bit, so a
    release does not depend on how the records are stored.
    """

    grid: Grid
    total_weights: np.ndarray  # (n_columns,)

    def locate(self, columns, weights):
        """Return the cell in which the weight from the left first exceeds each of `weights`.

        Also returns the weights before and after this cell. For weights beyond the total it is the
        last cell with a record. In a column without records it is the first cell, and both weights
        are 0.
        """

    def weights_below(self, columns, cells):
        """Return the total weight of the cells before each cell."""

    def of_columns(self, columns):
        """Return the ranks of the columns with these numbers."""


def sums_of_weights(numbers, weights, n_numbers=0):
    """Return the total weight of the rows with each of the numbers 0, 1, 2, ... as integers.

    The result has at least `n_numbers` entries. Each row counts 1 if `weights` is None.
    """
    # Sums of weights are below 2^53, so the floats in which NumPy adds them up are exact.
    return np.bincount(numbers, weights, n_numbers).astype(np.int64, copy=False)


def checked_totals(total_weights):
    """Return the total weights of columns, or raise if their ranks would not fit into 64 bits."""
    if np.any(total_weights >= MOST_RECORDS * RECORD_WEIGHT):
        raise OverflowError(f"a column may have at most {MOST_RECORDS - 1} records.")
    return total_weights


def entries_below(keys, starts, sizes, columns, wanted):
    """Return the number of entries below each wanted key in its column.

    ``keys[starts[column] :][: sizes[column]]`` are the ascending entries of a column. `columns`
    broadcasts with `wanted`. The result has the shape of `wanted`.
    """
    n_steps = int(sizes.max()).bit_length()  # of a binary search in all columns at once
    if sizes.size > n_steps:
        return first_at_least(keys, starts[columns], sizes[columns], wanted)

    # With few columns, separate searches are faster.
    below = np.empty(wanted.shape, dtype=np.int64)
    columns = columns + np.zeros_like(below)
    for column, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        here = columns == column
        below[here] = keys[start : start + size].searchsorted(wanted[here])
    return below


def entries_around(entries, cells, columns, is_shared, entries_before):
    """Return the number of entries before each cell, and up to its end.

    ``entries[i]`` is an entry of ``cells[i]``. Only cells that several entries share are searched,
    by ``entries_before(columns, cells)``.
    """
    before = entries.copy()
    after = entries + 1
    if is_shared.any():
        columns = (columns + np.zeros_like(cells))[is_shared]
        ends = np.array((cells, cells + 1))[:, is_shared]
        before[is_shared], after[is_shared] = entries_before(columns, ends)
    return before, after


def first_at_least(keys, starts, sizes, wanted):
    """Return the number of ascending ``keys[start : start + size]`` below each wanted key."""
    found = np.zeros(np.broadcast(starts, wanted).shape, dtype=np.int64)
    if found.size == 0:
        return found

    step = 1 << int(sizes.max()).bit_length() >> 1
    while step:
        candidates = found + step
        probes = starts + np.minimum(candidates, sizes) - 1
        is_below = keys[np.maximum(probes, 0)] < wanted
        is_below &= candidates <= sizes
        found = np.where(is_below, candidates, found)
        step >>= 1
    return found
