"""The base measure of a draw: where the data may be, judged by what is already released.

The exponential mechanism chooses among cells by ``measure(cell) * exp(score)``. Its privacy rests
on the score alone. The base measure may be any function of public facts and of cells released by
earlier draws; a good one puts much of its mass where the data are, so that little budget is spent
on telling them from the rest of the number line. Here it is

    measure(cell) = grid measure(cell) * density(cell)

with a density that is constant on a few dozen *segments* of the node:

- nothing released (the root): by powers of two, most of them for numbers of everyday size;
- one end released and the other open: rings around the released end, whose widths double;
- both ends released, or bounds: equal parts of the values between them.

A share of each measure is plain grid measure, so that no cell is out of reach.

The constants were tuned on the data named in docs/accuracy_and_speed.md.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

# Rings end at these powers of two, in multiples of a scale s, and weigh (1 + |k - centre|)^-decay.
N_SEGMENTS = 32
# The share of the plain grid measure: at the root, with one end released, and with both.
PLAIN_SHARES = np.array([0.1, 0.25, 0.2])
_ROOT, _ONE_END, _BOTH_ENDS = 0, 1, 2

_RING_POWERS = np.array([*range(-8, 15), 16, 18, 21, 25, 30, 37, 46, 60], dtype=np.float64)


def _ring_masses(centre, decay, least):
    """Return the masses of the rings, from the released value outwards."""
    bounds = np.concatenate((_RING_POWERS, [_RING_POWERS[-1] + 15]))
    masses = np.zeros(N_SEGMENTS)
    for power in np.arange(_RING_POWERS[0], bounds[-1]):
        ring = np.searchsorted(bounds, power + 1)
        masses[ring] += (1 + abs(power - centre)) ** -decay * (power >= least)
    masses[0] = (1 + abs(max(least, _RING_POWERS[0]) - 1 - centre)) ** -decay
    return masses


# With one value a known, s = |a|; with a second one, s is their distance.
_ONE_VALUE = _ring_masses(centre=-1, decay=1.0, least=-8)
_TWO_VALUES = _ring_masses(centre=0, decay=1.5, least=-3)


def _root_segments():
    """Return the ends between segments and their masses: octaves, in pairs far from 1."""
    magnitudes = np.exp2([-4, 0, 2, 4, 6, 8, 10, 12, 14, 17, 21, 27, 35, 47, 60])
    positive = np.empty(16)
    exponents = np.concatenate(([-10], np.log2(magnitudes), [64]))
    for index, (begin, end) in enumerate(pairwise(exponents)):
        octaves = np.arange(begin, end)
        away = np.maximum(np.maximum(-4 - octaves, octaves - 11), 0)
        positive[index] = (1 / (1 + away)).sum()
    positive[0] += 1.0
    ends = np.concatenate((-magnitudes[::-1], [0.0], magnitudes))
    return ends, np.concatenate((0.5 * positive[::-1], positive))


_ROOT_ENDS, _ROOT_MASSES = _root_segments()


@dataclass(frozen=True)
class StepMeasure:
    """Segments of each node, and the density on each.

    `cuts` are the N + 1 ends of N segments, as cells; `before` is the grid measure before each.
    """

    cuts: np.ndarray
    before: np.ndarray
    densities: np.ndarray

    def __getitem__(self, nodes):
        """Return the measure of a slice of the nodes."""
        return StepMeasure(self.cuts[nodes], self.before[nodes], self.densities[nodes])


def step_measure(grid, columns, lo, hi, neighbour, is_open_lo, is_open_hi):
    """Return the base measure of nodes that reach from the cell `lo` to the cell `hi`.

    Parameters
    ----------
    grid : Grid
    columns, lo, hi : int64 arrays of shape (n_nodes,)
        The column of each node and its outermost cells.
    neighbour : int64 array of shape (n_nodes,)
        A released cell beyond the closed end of a node with one open end; that end itself if
        there is none.
    is_open_lo, is_open_hi : bool arrays of shape (n_nodes,)
        Whether that end is the end of the scale, and neither released nor a bound.
    """
    kinds = np.where(
        is_open_lo & is_open_hi, _ROOT, np.where(is_open_lo | is_open_hi, _ONE_END, _BOTH_ENDS)
    )
    low, high, beyond = grid.lower_edges(np.array((lo, hi, neighbour)), columns)
    ends, masses = _segments(kinds, is_open_lo, low, high, beyond)
    cuts = np.empty((lo.size, N_SEGMENTS + 1), dtype=np.int64)
    cuts[:, 1:-1] = grid.cells_of(ends, columns[:, None])
    cuts[:, 0], cuts[:, -1] = lo, hi + 1
    cuts = np.minimum(np.maximum(cuts, lo[:, None]), hi[:, None] + 1)
    before = grid.measure_before(cuts, columns[:, None])
    return StepMeasure(cuts, before, _densities(np.diff(before, axis=1), masses, kinds))


def _segments(kinds, is_open_lo, low, high, beyond):
    """Return the N - 1 values between the segments of each node, and the masses of these."""
    end = np.where(is_open_lo, high, low)
    distance = np.abs(end - beyond)
    scale = np.where(distance > 0, distance, np.where(end != 0, np.abs(end), 1.0))
    rings = scale[:, None] * np.exp2(_RING_POWERS)
    inner = np.arange(1, N_SEGMENTS) / N_SEGMENTS
    ends = low[:, None] + (high - low)[:, None] * inner  # both ends
    masses = np.ones((low.size, N_SEGMENTS))
    ring_masses = np.where((distance > 0)[:, None], _TWO_VALUES, _ONE_VALUE)
    upwards, downwards = (kinds == _ONE_END) & ~is_open_lo, (kinds == _ONE_END) & is_open_lo
    ends[upwards] = low[upwards, None] + rings[upwards]
    masses[upwards] = ring_masses[upwards]
    ends[downwards] = high[downwards, None] - rings[downwards, ::-1]
    masses[downwards] = ring_masses[downwards, ::-1]
    ends[kinds == _ROOT] = _ROOT_ENDS
    masses[kinds == _ROOT] = _ROOT_MASSES
    return ends, masses


def _densities(grid_measures, masses, kinds):
    """Return mass / grid measure of each segment, mixed with the plain grid measure."""
    is_there = grid_measures > 0
    masses = np.where(is_there, masses, 0.0)
    total = masses.sum(axis=1, keepdims=True)
    plain = np.where(total > 0, PLAIN_SHARES[kinds][:, None], 1.0)
    shaped = (1 - plain) * masses / np.where(total > 0, total, 1.0)
    return shaped / np.where(is_there, grid_measures, 1) + plain / grid_measures.sum(
        axis=1, keepdims=True
    )
