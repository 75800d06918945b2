"""The base measure of a draw: where the data may be, judged by what is already released.

The exponential mechanism chooses among cells by ``measure(cell) * exp(score)``. Its privacy rests
on the score alone. The base measure may be any function of public facts and of cells released by
earlier draws; a good one puts much of its mass where the data are, so that little budget is spent
on telling them from the rest of the number line. Here it is

    measure(cell) = grid measure(cell) * density(cell)

with a density that is constant on a few dozen segments of the node. It is a mixture of

- *octaves*, as long as an end is open or a bound, which may be far from the data: most of their
  mass is for numbers of everyday size;
- *rings* around a released end, if the other one is open: their widths double;
- *parts* of equal width between two released ends or bounds;
- *points*, single cells in which many records may be: the released ends and 0, 1, 2, 3;
- the plain grid measure, so that no cell is out of reach.

The constants were tuned on the data named in docs/accuracy_and_speed.md.
"""

import numpy as np

from dpq_sklearn.engine.exponential import StepMeasure

# Shares for each kind of node: both ends open, one of them, none. A kind is how many are closed.
_BOTH_CLOSED = 2
PLAIN_SHARES = np.array([0.05, 0.1, 0.002])
_OCTAVE_SHARES, _OCTAVE_SHARE_AT_A_BOUND = np.array([1.0, 0.3, 0.0]), 0.05
_LANDMARK_MASSES = np.array([0.02, 0.03, 0.015])
_END_MASSES, _INTEGER_END_MASSES = np.array([0.0, 0.05, 0.02]), np.array([0.0, 0.2, 0.1])

# Octaves between these powers of two have one mass each; so has all that is below the first.
_POWERS, _OCTAVE_MASSES = np.array([-10, -4, 10, 20, 32, 64]), (0.25, 1.0, 0.25, 0.05, 0.02)
_MASS_BELOW, _NEGATIVE_SHARE = 0.2, 0.5
_LANDMARKS = np.arange(4.0)
_LARGEST_INTEGER = 1e6
_N_PARTS = 16
_LEAST_TOTAL = 1e-290  # of masses: a share of less would overflow


def _octaves():
    """Return the ends of the groups of octaves, and their masses."""
    masses = np.append(_MASS_BELOW, _OCTAVE_MASSES * np.diff(_POWERS))
    ends = np.append(0.0, np.exp2(_POWERS))
    masses = np.concatenate((_NEGATIVE_SHARE * masses[::-1], masses))
    return np.concatenate((-ends[:0:-1], ends)), masses / masses.sum()


def _rings(first, last, centre):
    """Return the ends of rings, in multiples of a scale, and the mass up to each end."""
    powers = np.arange(first, last + 1)
    masses = (1.0 + abs(powers - centre)) ** -1.5
    return np.append(0.0, np.exp2(powers)), np.append(0.0, np.cumsum(masses) / masses.sum())


_OCTAVE_ENDS, _OCTAVE_GROUP_MASSES = _octaves()
_OCTAVE_ENDS_AND_LANDMARKS = np.concatenate((_OCTAVE_ENDS, _LANDMARKS))
# Around one released value a the scale is |a|, if a second one is known it is their distance, and
# between two ends it is the width of a part.
_AROUND_ONE, _AROUND_TWO, _BETWEEN = 0, 1, 2
_PART_ENDS = np.minimum(np.arange(_N_PARTS + 2), _N_PARTS)
_SHAPES = (
    _rings(-12, 4, centre=-1),
    _rings(-11, 5, centre=1),
    (_PART_ENDS.astype(np.float64), _PART_ENDS / _N_PARTS),
)
_SHAPE_ENDS, _SHAPE_MASSES = map(np.array, zip(*_SHAPES, strict=True))
# Where a segment spans octaves it is cut towards zero, so that it stays even in the value. The
# cuts are at decades, where the measure of round numbers jumps.
_CUTS_ABOVE_ZERO = np.array([0.0002, 0.001, 0.01, 0.04, 0.1, 0.2])
_TOWARDS_ZERO = np.concatenate((-_CUTS_ABOVE_ZERO[::-1], [0.0], _CUTS_ABOVE_ZERO))


def step_measure(grid, columns, lo, hi, neighbour, is_open, is_released):
    """Return the base measure of nodes that reach from the cell `lo` to the cell `hi`.

    Parameters
    ----------
    grid : Grid
    columns, lo, hi : int64 arrays of shape (n_nodes,)
        The column of each node and its outermost cells.
    neighbour : int64 array of shape (n_nodes,)
        A released cell beyond the closed end of a node with one open end; that end itself if
        there is none.
    is_open, is_released : bool arrays of shape (2, n_nodes)
        Whether the lower and the upper end are the end of the scale, or released. An end that is
        neither is a bound.
    """
    is_open_lo = is_open[0]
    kinds = _BOTH_CLOSED - is_open.sum(axis=0)
    ends = np.array((lo, hi, neighbour))
    (low, high, at_neighbour), is_integer = _values(grid, ends, columns)
    shaped, masses = _rings_or_parts(kinds, is_open_lo, low, high, at_neighbour)
    n_shaped, n_octaves = shaped.shape[1], _OCTAVE_ENDS.size
    values = np.empty((lo.size, n_shaped + n_octaves + _LANDMARKS.size))
    values[:, :n_shaped], values[:, n_shaped:] = shaped, _OCTAVE_ENDS_AND_LANDMARKS
    cells = grid.cells_of(values, columns[:, None])
    points = np.concatenate((cells[:, -_LANDMARKS.size :], lo[:, None], hi[:, None]), axis=1)
    ends = cells[:, : -_LANDMARKS.size], points, points + 1
    cuts = np.maximum(np.minimum(np.concatenate(ends, axis=1), hi[:, None] + 1), lo[:, None])
    before = grid.measure_before(cuts, columns[:, None])

    # A node up to a bound may be far wider than the data.
    ends_at_bound = ~(is_open | is_released).all(axis=0)
    point_masses = _point_masses(kinds, ends_at_bound, is_released, is_integer[:2])
    point_masses[(points < lo[:, None]) | (points > hi[:, None])] = 0.0
    octave_share = np.maximum(_OCTAVE_SHARES[kinds], ends_at_bound * _OCTAVE_SHARE_AT_A_BOUND)
    rest = 1 - point_masses.sum(axis=1)
    n_both, n_points = n_shaped + n_octaves, points.shape[1]
    measures = before[:, -n_points:] - before[:, n_both:-n_points]
    point_densities = point_masses / np.maximum(measures, 1)
    steps = (
        _steps(before[:, :n_shaped], masses, rest * (1 - octave_share)),
        _steps(before[:, n_shaped:n_both], _OCTAVE_GROUP_MASSES, rest * octave_share),
        point_densities,
        -point_densities,
    )
    order, each = cuts.argsort(axis=1, kind="stable"), np.arange(lo.size)[:, None]
    cuts, before = cuts[each, order], before[each, order]
    steps = np.concatenate(steps, axis=1)[each, order]
    densities = np.maximum(steps.cumsum(axis=1)[:, :-1], 0.0)
    plain = PLAIN_SHARES[kinds][:, None]
    densities = (1 - plain) * densities + plain / (before[:, -1:] - before[:, :1])
    densities /= (densities * (before[:, 1:] - before[:, :-1])).sum(axis=1, keepdims=True)
    return StepMeasure(cuts, before, densities)


def _values(grid, cells, columns):
    """Return the integer in each cell, else its lower end, and whether it is an integer."""
    begin, end = grid.lower_edges(np.array((cells, cells + 1)), columns)
    integers = np.ceil(begin)
    is_integer = (integers < end) & (np.abs(integers) < _LARGEST_INTEGER)
    edges = np.maximum(begin, grid.low[columns])  # stay finite
    return np.where(is_integer, integers, edges), is_integer


def _rings_or_parts(kinds, is_open_lo, low, high, neighbour):
    """Return ascending values in each node, and the masses between them, even in the value."""
    is_between = kinds == _BOTH_CLOSED
    end, direction = np.where(is_open_lo, high, low), np.where(is_open_lo, -1.0, 1.0)
    distance = np.abs(end - neighbour)
    shapes = np.where(is_between, _BETWEEN, np.where(distance > 0, _AROUND_TWO, _AROUND_ONE))
    of_end = np.where(end != 0, np.abs(end), 1.0)
    width = (high - low) / _N_PARTS
    width = np.where(width > 0, width, 1.0)
    scale = np.where(is_between, width, np.where(distance > 0, distance, of_end))
    refined = 2 * np.where(is_between, width, np.maximum(scale, np.abs(end)))
    next_decade = 10.0 ** np.ceil(np.log10(np.maximum(np.minimum(refined, 1e300), 1e-300)))
    end, scale = end[:, None], (scale * direction)[:, None]
    towards_zero = next_decade[:, None] * _TOWARDS_ZERO
    values = np.concatenate((end + scale * _SHAPE_ENDS[shapes], towards_zero), axis=1)
    outwards, mass_up_to = (towards_zero - end) / scale, np.empty_like(towards_zero)
    for shape, (ends, masses) in enumerate(_SHAPES):
        rows = shapes == shape
        mass_up_to[rows] = np.interp(outwards[rows], ends, masses)
    masses = np.concatenate((_SHAPE_MASSES[shapes], mass_up_to), axis=1) * direction[:, None]
    values.sort(axis=1)
    masses.sort(axis=1)  # it ascends with the value
    return values, masses[:, 1:] - masses[:, :-1]


def _point_masses(kinds, ends_at_bound, is_released, is_integer):
    """Return the masses of the landmarks and of the two ends of each node.

    In a node up to a bound landmarks would win against the data: it has none.
    """
    landmarks = np.where(ends_at_bound, 0.0, _LANDMARK_MASSES[kinds])[:, None] / (1 + _LANDMARKS)
    ends = np.where(is_integer, _INTEGER_END_MASSES[kinds], _END_MASSES[kinds]) * is_released
    return np.concatenate((landmarks, ends.T), axis=1)


def _steps(before, masses, share):
    """Return by how much the density rises at each end of adjacent segments.

    `masses` are shared by the segments that have cells, together `share`.
    """
    measures = before[:, 1:] - before[:, :-1]
    masses = np.where(measures > 0, masses, 0.0)
    total = masses.sum(axis=1)
    masses = masses * (share / np.where(total > _LEAST_TOTAL, total, 1.0))[:, None]
    densities = masses / np.where(measures > 0, measures, 1)
    steps = np.zeros(before.shape)
    steps[:, :-1] = densities
    steps[:, 1:] -= densities
    return steps
