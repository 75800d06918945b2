"""Ranks: how much weight lies below a position of the grid.

A record weighs `RECORD_WEIGHT`, a whole number that several rows can share (`reading.groups`). The
weight of a cell is spread evenly over its positions, so a record adds to all ranks a ramp that
climbs by at most one record inside its cell, whatever the ties. Ranks are exact integers in *rank
ticks*: ``positions_per_cell`` ticks are one unit of weight.

Mechanisms see data through `Ranks` only. `sorted_ranks` has those of rows that are records, and
`weighted_ranks` those of cells with weights.
"""

from typing import Protocol

import numpy as np

from dpq_sklearn.engine.grid import Grid

RECORD_WEIGHT = 2**18
# Beyond this many records the ranks, in ticks, would not fit into 64 bits.
MOST_RECORDS = 2**34


class Ranks(Protocol):
    """The weights of the records of several columns, by the cells that they are in.

    In all methods `columns` is an array that broadcasts with the weights or cells beside it, or the
    number of one column. Two kinds of ranks of the same records return the same numbers, bit by
    bit: what a mechanism releases does not depend on how records are kept.
    """

    grid: Grid
    total_weights: np.ndarray  # (n_columns,)

    def locate(self, columns, weights):
        """Return the cell in which the weight from the left first exceeds each of `weights`.

        With it come the weights before and after it. Beyond the total weight it is the last cell
        with a record; in a column without records, the first cell, between weights of 0.
        """

    def weights_below(self, columns, cells):
        """Return the weight in the cells before each of the given ones."""

    def of_columns(self, columns):
        """Return the ranks of a list of the columns."""


def sums_of_weights(numbers, weights, n_numbers=0):
    """Return the total weight of the rows with the number 0, 1, 2, ... as whole numbers.

    The result has at least `n_numbers` entries. Each row counts 1 if `weights` is None.
    """
    # Sums of weights are below 2^53: floats, which NumPy adds up, hold them exactly.
    return np.bincount(numbers, weights, n_numbers).astype(np.int64, copy=False)


def checked_totals(total_weights):
    """Return the total weights of columns, or raise if ranks would not fit into 64 bits."""
    if np.any(total_weights >= MOST_RECORDS * RECORD_WEIGHT):
        raise OverflowError(f"a column may have at most {MOST_RECORDS - 1} records.")
    return total_weights


def entries_below(keys, starts, sizes, columns, wanted):
    """Return how many entries of its column are below each wanted key.

    ``keys[starts[column] :][: sizes[column]]`` are the ascending entries of a column. `columns`
    broadcasts with `wanted`, whose shape the result has.
    """
    n_steps = int(sizes.max()).bit_length()  # of a binary search in all columns at once
    if sizes.size > n_steps:
        return first_at_least(keys, starts[columns], sizes[columns], wanted)

    # Few columns are searched faster one by one.
    below = np.empty(wanted.shape, dtype=np.int64)
    columns = columns + np.zeros_like(below)
    for column, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        here = columns == column
        below[here] = keys[start : start + size].searchsorted(wanted[here])
    return below


def first_at_least(keys, starts, sizes, wanted):
    """Return how many of the ascending ``keys[start : start + size]`` are below each wanted key."""
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
