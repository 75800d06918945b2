"""The base measure of a draw: where the data may be, judged by what is already released.

The exponential mechanism chooses among cells by ``measure(cell) * exp(score)``. Its privacy rests
on the score alone. The base measure may be any function of public facts and of cells released by
earlier draws; a good one puts much of its mass where the data are, so that little budget is spent
on telling them from the rest of the number line. Here it is

    measure(cell) = grid measure(cell) * density(cell)

with a density that is constant on a few dozen segments of the node, a mixture of

- *segments*: at the root (nothing released) by powers of two, most of them for numbers of everyday
  size; around a released end, if the other one is open, rings whose widths double; between two
  released ends, or bounds, equal parts of the values;
- *points*: single cells in which many records may be: the released ends themselves, 0 and 1, and
  the next integers if an end is an integer;
- the plain grid measure, so that no cell is out of reach.

The constants were tuned on the data named in docs/accuracy_and_speed.md.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

# Kinds of nodes: both ends open, one of them, none.
_ROOT, _ONE_END, _BOTH_ENDS = 0, 1, 2
# The share of the plain grid measure for each kind.
PLAIN_SHARES = np.array([0.05, 0.1, 0.2])

# Rings end at these powers of two, in multiples of a scale.
_RING_POWERS = np.array([-12, -10, -8, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12, 20, 40])
# Halves of powers: data that are spread evenly have quantiles at whole ones.
_RING_ENDS = np.exp2(_RING_POWERS - 0.5)
N_SEGMENTS = _RING_ENDS.size + 1

# At the root numbers between 2^-4 and 2^8 are alike; beyond, octaves count for less and less.
_ROOT_POWERS = np.array([-10.0, -6, -4, 8, 10, 14, 22, 38])
_NEGATIVE_SHARE = 0.5
# The masses of 0 and of 1 at the root; elsewhere, if a released end is an integer, and if not.
_ROOT_LANDMARKS, _INTEGER_LANDMARKS, _OTHER_LANDMARKS = (0.1, 0.05), (0.15, 0.04), (0.06, 0.005)
# The masses of a released end, if it is an integer, and if not, and of the next two integers.
_INTEGER_END, _OTHER_END, _NEXT_INTEGERS = 0.2, 0.1, (0.1, 0.05)
_LARGEST_INTEGER = 1e6


def _octave_masses(powers, falloff):
    """Return the sums of ``falloff(power)`` over the octaves between powers of two."""
    return np.array([falloff(np.arange(begin, end)).sum() for begin, end in pairwise(powers)])


def _root_segments():
    """Return the N - 1 values between the segments of the root, and the masses of these."""

    def falloff(power):
        away = np.maximum(-4 - power, 0) + 1.5 * np.maximum(power - 7, 0)
        return 1 / (1 + away)

    masses = _octave_masses(np.concatenate((_ROOT_POWERS, [64])), falloff)
    masses = np.concatenate(([falloff(-11.0)], masses))
    ends = np.exp2(_ROOT_POWERS)
    ends = np.concatenate((-ends[::-1], [0.0], ends))
    masses = np.concatenate((_NEGATIVE_SHARE * masses[::-1], masses))
    missing = N_SEGMENTS - masses.size  # segments without cells at the upper end
    return np.append(ends, [np.inf] * missing), np.append(masses, [0.0] * missing)


def _ring_masses(centre, decay, least):
    """Return the masses of the rings from the released end outwards; even below `least`."""
    powers = np.concatenate((_RING_POWERS, [60]))
    outer = _octave_masses(powers, lambda power: (1 + abs(power - centre)) ** -decay)
    masses = np.concatenate(([outer[0] / 2], outer))
    inner = powers[:-1] < least
    n_inner = 1 + np.count_nonzero(inner)
    widths = np.diff(np.concatenate(([0.0], _RING_ENDS[:n_inner])))
    masses[:n_inner] = widths / widths.sum() * (1 + abs(least - 1 - centre)) ** -decay
    return masses


_ROOT_ENDS, _ROOT_MASSES = _root_segments()
# With one value a known, the scale is |a|; with a second one, it is their distance.
_ONE_VALUE = _ring_masses(centre=-1, decay=1.0, least=-12)
_TWO_VALUES = _ring_masses(centre=1, decay=1.5, least=-3)


@dataclass(frozen=True)
class StepMeasure:
    """Segments of each node, and the density on each.

    `cuts` are the ascending ends of segments, as cells; `before` is the grid measure before each.
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
    kinds = np.where(is_open_lo | is_open_hi, _ONE_END, _BOTH_ENDS)
    kinds[is_open_lo & is_open_hi] = _ROOT
    ends, is_integer = _ends(grid, np.array((lo, hi, neighbour)), columns)
    is_integer = is_integer[:2] & ~np.array((is_open_lo, is_open_hi))
    inner, masses = _segments(kinds, is_open_lo, *ends)
    values, point_masses = _points(kinds, is_open_lo, is_open_hi, ends, is_integer)
    inner = grid.cells_of(inner, columns[:, None])
    points = grid.cells_of(values, columns[:, None])
    points = np.concatenate((lo[:, None], hi[:, None], points), axis=1)
    is_inside = (points >= lo[:, None]) & (points <= hi[:, None])
    point_masses = np.where(is_inside, point_masses, 0.0)

    n_cuts = N_SEGMENTS + 1
    cuts = np.concatenate((lo[:, None], inner, hi[:, None] + 1, points, points + 1), axis=1)
    cuts = np.minimum(np.maximum(cuts, lo[:, None]), hi[:, None] + 1)
    before = grid.measure_before(cuts, columns[:, None])
    plain = PLAIN_SHARES[kinds][:, None]
    densities = _densities(np.diff(before[:, :n_cuts]), masses, point_masses, plain)
    own = np.maximum(
        before[:, n_cuts + points.shape[1] :] - before[:, n_cuts : -points.shape[1]], 1
    )
    of_points = (1 - plain) * point_masses / own

    order = np.argsort(cuts, axis=1, kind="stable")
    segments = np.cumsum(order < n_cuts, axis=1)[:, :-1] - 1
    densities = np.take_along_axis(densities, np.minimum(segments, N_SEGMENTS - 1), axis=1)
    cuts = np.take_along_axis(cuts, order, axis=1)
    for point, density in zip(points.T, of_points.T, strict=True):
        densities += np.where(cuts[:, :-1] == point[:, None], density[:, None], 0.0)
    return StepMeasure(cuts, np.take_along_axis(before, order, axis=1), densities)


def _ends(grid, cells, columns):
    """Return a value in each cell, and whether it is an integer: then it is that."""
    integers = np.rint(grid.middles(cells, columns))
    is_integer = (grid.cells_of(integers, columns) == cells) & (np.abs(integers) < _LARGEST_INTEGER)
    return np.where(is_integer, integers, grid.lower_edges(cells, columns)), is_integer


def _segments(kinds, is_open_lo, low, high, beyond):
    """Return the N - 1 values between the segments of each node, and the masses of these."""
    end = np.where(is_open_lo, high, low)
    distance = np.abs(end - beyond)
    scale = np.where(distance > 0, distance, np.where(end != 0, np.abs(end), 1.0))
    rings = scale[:, None] * _RING_ENDS
    inner = low[:, None] + (high - low)[:, None] * (np.arange(1, N_SEGMENTS) / N_SEGMENTS)
    masses = np.ones((low.size, N_SEGMENTS))
    ring_masses = np.where((distance > 0)[:, None], _TWO_VALUES, _ONE_VALUE)
    upwards, downwards = (kinds == _ONE_END) & ~is_open_lo, (kinds == _ONE_END) & is_open_lo
    inner[upwards] = low[upwards, None] + rings[upwards]
    masses[upwards] = ring_masses[upwards]
    inner[downwards] = high[downwards, None] - rings[downwards, ::-1]
    masses[downwards] = ring_masses[downwards, ::-1]
    inner[kinds == _ROOT] = _ROOT_ENDS
    masses[kinds == _ROOT] = _ROOT_MASSES
    return inner, masses


def _points(kinds, is_open_lo, is_open_hi, ends, is_integer):
    """Return the values 0, 1 and the next integers of each node; and the masses of both ends and
    of these values."""
    # That an end is 0 does not tell that the numbers are integers.
    is_any = (is_integer & (ends[:2] != 0)).any(axis=0)[:, None]
    landmarks = np.where(is_any, _INTEGER_LANDMARKS, _OTHER_LANDMARKS)
    landmarks[kinds == _ROOT] = _ROOT_LANDMARKS
    of_ends = np.where(is_integer, _INTEGER_END, _OTHER_END)
    of_ends[0, is_open_lo] = of_ends[1, is_open_hi] = 0.0
    end, step = np.where(
        is_open_lo, (ends[1], -np.ones(kinds.size)), (ends[0], np.ones(kinds.size))
    )
    values = np.zeros((kinds.size, 4))
    values[:, 1] = 1.0
    values[:, 2], values[:, 3] = end + step, end + 2 * step
    has_next = (kinds == _ONE_END)[:, None] & is_any
    masses = np.concatenate((of_ends.T, landmarks, np.where(has_next, _NEXT_INTEGERS, 0.0)), axis=1)
    return values, masses


def _densities(grid_measures, masses, point_masses, plain):
    """Return the density of each segment without its points: what these leave over, and the plain
    grid measure."""
    is_there = grid_measures > 0
    masses = np.where(is_there, masses, 0.0)
    total = masses.sum(axis=1, keepdims=True)
    left_over = (1 - plain) * (1 - point_masses.sum(axis=1, keepdims=True))
    shaped = left_over * masses / np.where(total > 0, total, 1.0)
    whole = grid_measures.sum(axis=1, keepdims=True)
    return shaped / np.where(is_there, grid_measures, 1) + plain / whole
