"""The base measure of a draw: where the data may be, judged by what is already released.

The exponential mechanism chooses among cells by ``measure(cell) * exp(-score)``. Its privacy rests
on the score alone. The base measure may be any function of public facts and of cells released by
earlier draws; a good one is large where the data are, so that little budget is spent on telling
them from the rest of the number line. Here it is the grid measure of the cell times a density that
is constant on a few dozen segments of the node: a mixture of

- *octaves*, as long as an end is open or a bound, which may be far from the data: most of their
  share is for numbers of everyday size;
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
_LANDMARKS, _LANDMARK_SHARES = np.arange(4.0), np.array([0.02, 0.03, 0.015])
_END_SHARES, _INTEGER_END_SHARES = np.array([0.0, 0.05, 0.02]), np.array([0.0, 0.2, 0.1])
_LARGEST_INTEGER = 1e6

# Between two of these powers of two all octaves have one weight; all below the first has 0.2.
_POWERS = np.array([-10, -4, 10, 20, 32, 64])
_POSITIVE_WEIGHTS = np.append(0.2, (0.25, 1.0, 0.25, 0.05, 0.02) * np.diff(_POWERS))
_OCTAVE_WEIGHTS = np.concatenate((_POSITIVE_WEIGHTS[::-1] / 2, _POSITIVE_WEIGHTS))
_OCTAVE_WEIGHTS /= _OCTAVE_WEIGHTS.sum()
_OCTAVE_ENDS = np.concatenate((-np.exp2(_POWERS[::-1]), [0.0], np.exp2(_POWERS)))


def _rings(first, last, centre):
    """Return the ends of rings, in multiples of a scale, and the weight up to each end."""
    powers = np.arange(first, last + 1)
    weights = (1.0 + abs(powers - centre)) ** -1.5
    return np.append(0.0, np.exp2(powers)), np.append(0.0, np.cumsum(weights) / weights.sum())


# Around one released value a the scale is |a|, if a second one is known it is their distance, and
# between two ends it is the width of a part.
_AROUND_ONE, _AROUND_TWO, _BETWEEN = 0, 1, 2
_N_PARTS = 16
_PART_ENDS = np.minimum(np.arange(_N_PARTS + 2.0), _N_PARTS)  # as many as the rings have
_SHAPES = _rings(-12, 4, centre=-1), _rings(-11, 5, centre=1), (_PART_ENDS, _PART_ENDS / _N_PARTS)
_SHAPE_ENDS, _SHAPE_WEIGHTS = map(np.array, zip(*_SHAPES, strict=True))
# Where a segment spans octaves it is cut towards zero, so that it stays even in the value. The
# cuts are at decades, where the measure of round numbers jumps.
_CUTS_ABOVE_ZERO = np.array([0.0002, 0.001, 0.01, 0.04, 0.1, 0.2])
_TOWARDS_ZERO = np.concatenate((-_CUTS_ABOVE_ZERO[::-1], [0.0], _CUTS_ABOVE_ZERO))


def step_measure(grid, columns, lo, hi, beyond, is_open, is_released):
    """Return the base measure of nodes that reach from the cell `lo` to the cell `hi`.

    `beyond` is a released cell beyond the closed end of a node with one open end, or that end
    itself if there is none. `is_open` and `is_released` tell of the lower and of the upper ends
    whether they are the end of the scale, or released. An end that is neither is a bound.
    """
    # Each part of the mixture is kept as the rises of its density at its cuts. When all cuts are
    # sorted, the cumulative sum of the rises is the density of the mixture. The columns of `cuts`
    # are those of rings or parts, of octaves, the begins of points, and the ends of points.
    kinds = _BOTH_CLOSED - is_open.sum(axis=0)
    (low, high, known), is_integer = _values(grid, np.array((lo, hi, beyond)), columns)
    shaped, weights = _rings_or_parts(kinds, is_open[0], low, high, known)
    n_shaped, n_cuts = shaped.shape[1], shaped.shape[1] + _OCTAVE_ENDS.size
    values = np.empty((lo.size, n_cuts + _LANDMARKS.size))
    values[:, :n_shaped] = shaped
    values[:, n_shaped:n_cuts] = _OCTAVE_ENDS
    values[:, n_cuts:] = _LANDMARKS
    cells = grid.cells_of(values, columns[:, None])
    lo, hi = lo[:, None], hi[:, None]
    points = np.concatenate((cells[:, n_cuts:], lo, hi), axis=1)
    cuts = np.concatenate((cells[:, :n_cuts], points, points + 1), axis=1)
    cuts = np.maximum(np.minimum(cuts, hi + 1), lo)
    before = grid.measure_before(cuts, columns[:, None])

    n_points, ends_at_bound = points.shape[1], ~(is_open | is_released).all(axis=0)
    point_shares = _point_shares(kinds, ends_at_bound, is_released, is_integer[:2])
    point_shares[(points < lo) | (points > hi)] = 0.0
    measures = before[:, -n_points:] - before[:, n_cuts:-n_points]
    point_densities = point_shares / np.maximum(measures, 1)
    octave_share = np.maximum(_OCTAVE_SHARES[kinds], ends_at_bound * _OCTAVE_SHARE_AT_A_BOUND)
    rest = 1 - point_shares.sum(axis=1)
    steps = (
        _steps(before[:, :n_shaped], weights, rest * (1 - octave_share)),
        _steps(before[:, n_shaped:n_cuts], _OCTAVE_WEIGHTS, rest * octave_share),
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
    return StepMeasure(cuts=cuts, before=before, densities=densities)


def _values(grid, cells, columns):
    """Return the integer in each cell, else its lower end, and whether it is an integer."""
    begin, end = grid.lower_edges(np.array((cells, cells + 1)), columns)
    integers = np.ceil(begin)
    is_integer = (integers < end) & (np.abs(integers) < _LARGEST_INTEGER)
    edges = np.maximum(begin, grid.low[columns])  # stay finite
    return np.where(is_integer, integers, edges), is_integer


def _rings_or_parts(kinds, is_open_lo, low, high, known):
    """Return ascending values in each node, and the weights between them, even in the value."""
    is_between = kinds == _BOTH_CLOSED
    end, direction = np.where(is_open_lo, high, low), np.where(is_open_lo, -1.0, 1.0)
    size, distance = np.abs(end), np.abs(end - known)
    shapes = np.where(is_between, _BETWEEN, np.where(distance > 0, _AROUND_TWO, _AROUND_ONE))
    scale = np.where(distance > 0, distance, size)
    scale = np.where(is_between, (high - low) / _N_PARTS, scale)
    scale = np.where(scale > 0, scale, 1.0)
    refined = 2 * np.where(is_between, scale, np.maximum(scale, size))
    next_decade = 10.0 ** np.ceil(np.log10(np.maximum(np.minimum(refined, 1e300), 1e-300)))
    end, scale, direction = end[:, None], (scale * direction)[:, None], direction[:, None]
    towards_zero = next_decade[:, None] * _TOWARDS_ZERO
    values = np.concatenate((end + scale * _SHAPE_ENDS[shapes], towards_zero), axis=1)
    outwards, up_to = (towards_zero - end) / scale, np.empty_like(towards_zero)
    for shape, ends_and_weights in enumerate(_SHAPES):
        rows = shapes == shape
        up_to[rows] = np.interp(outwards[rows], *ends_and_weights)
    up_to = np.concatenate((_SHAPE_WEIGHTS[shapes], up_to), axis=1) * direction
    values.sort(axis=1)
    up_to.sort(axis=1)  # it ascends with the value
    return values, up_to[:, 1:] - up_to[:, :-1]


def _point_shares(kinds, ends_at_bound, is_released, is_integer):
    """Return the shares of the landmarks and of the two ends of each node."""
    # A node up to a bound may be far wider than the data: landmarks would win against them.
    of_landmarks = np.where(ends_at_bound, 0.0, _LANDMARK_SHARES[kinds])[:, None] / (1 + _LANDMARKS)
    of_ends = np.where(is_integer, _INTEGER_END_SHARES[kinds], _END_SHARES[kinds]) * is_released
    return np.concatenate((of_landmarks, of_ends.T), axis=1)


def _steps(before, weights, share):
    """Return by how much the density rises at each end of adjacent segments.

    The segments that have cells have `share` together, in proportion to their `weights`.
    """
    measures = before[:, 1:] - before[:, :-1]
    weights = np.where(measures > 0, weights, 0.0)
    total = weights.sum(axis=1)
    total = np.where(total > 1e-290, total, 1.0)  # the quotient must not overflow
    shares = weights * (share / total)[:, None]
    densities = shares / np.maximum(measures, 1)
    steps = np.zeros(before.shape)
    steps[:, :-1] = densities
    steps[:, 1:] -= densities
    return steps
