"""The base measure of a draw: where the data may be, judged by what is already released.

The exponential mechanism chooses among cells by ``measure(cell) * exp(-score)``. Its privacy rests
on the score alone. The base measure may be any function of public facts and of cells released by
earlier draws; a good one is large where the data are, so that little budget is spent on telling
them from the rest of the number line. Here it is the grid measure of the cell times a density that
is constant on a few dozen segments of the node: a mixture of

- *octaves*, as long as an end is open or a bound, which may be far from the data, and no scale is
  known: most of their share is for numbers of everyday size;
- *rings* around a released end, if the other one is open or a bound: their widths double. Two
  distinct released values tell a scale. Beyond them each further ring has a quarter of the one
  before, and hardly anything is left for the rest of the number line;
- *parts* of equal width between two released ends or bounds;
- *points*, single cells in which many records may be: released ends, bounds, and 0, 1, 2, 3;
- where a column has a prior, *rings* around the quantile of it that the node wants (`prior`);
- the plain grid measure, so that no cell is out of reach.

A node that ends at a bound has a share of all that it would have without it, so that bounds which
say little cost little.

Two quantiles that are drawn at once, where no scale is known, tell each other's: the *rings* of
their places should not be far apart (`engine.pairs.affinity`).

The constants were tuned on the data named in docs/accuracy.md.
"""

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dpq_sklearn.engine.exponential import RingMeasure, StepMeasure, taken_by_node

# Shares for each kind of node: both ends open, one of them, none. A kind is how many are closed.
_BOTH_CLOSED = 2
PLAIN_SHARES = np.array([0.05, 0.1, 0.002])
_OCTAVE_SHARES = np.array([1.0, 0.3, 0.0])
# No node has less of the plain grid measure than nodes beyond two distinct released values.
LEAST_PLAIN_SHARE = 1e-4
_END_SHARES = np.array([0.0, 0.05, 0.02])
_INTEGER_END_SHARES = np.array([0.0, 0.2, 0.1])
_LARGEST_INTEGER = 1e6
# What a node that ends at bounds has of the measure that it would have without them.
_SHARE_WITHOUT_BOUNDS = 0.35
_BOUND_SHARE = 0.03
# What the parts between such values and a bound have.
_PART_SHARE_BEYOND = 0.03
# Where a scale is known, 0, 1, 2, 3 and bounds that are further away have so much of their shares.
_NEAR = 16.0
_SHARE_IF_FAR = 0.01
# The share of 0; that of 1 is a half of it, of 2 a third. On a lattice without bounds they are
# several times as large, as there is nothing beside them that they could be mistaken for.
_LANDMARKS = np.arange(4.0)
_LANDMARK_SHARES = np.array([0.02, 0.03, 0.015])
_LANDMARK_SHARE_AT_BOUNDS = 0.035
_TIMES_ON_A_LATTICE = 4.0
# A prior that is wrong by orders of magnitude costs a node half a nat.
_PRIOR_SHARE = 0.4

# Between two of these powers of two all octaves have one weight; all below the first has 0.2.
_POWERS = np.array([-10, -4, 10, 20, 32, 64])
_POSITIVE_WEIGHTS = np.append(0.2, (0.25, 1.0, 0.25, 0.05, 0.02) * np.diff(_POWERS))
_SHARE_OF_NEGATIVE, _SHARE_OF_NEGATIVE_ON_A_LATTICE = 0.5, 0.25
# Years are narrow columns far from zero, and common ones.
_YEARS = np.array([1900.0, 2048.0])
_YEAR_WEIGHT = 1.0  # that of an octave of everyday size
# A segment of a lattice is even in the value, not in its logarithm: so octaves have cuts of their
# own there, wide ones only where the numbers are large or negative.
_LATTICE_POWERS = np.array([-10, -7, -4, -2, *range(21), *range(22, 33, 2), 36, 40, 48, 64])
_NEGATIVE_LATTICE_POWERS = np.array([-10, -4, -1, 0, 1, 2, 3, *range(4, 17, 2), 20, 24, 32, 64])


def _octaves(powers, negative_powers, share_of_negative):
    """Return the ends of octaves, or of several of them, and the weight between two ends."""

    def weights(ends):
        up_to = np.interp(np.log2(ends), _POWERS, _POSITIVE_WEIGHTS.cumsum())
        return np.diff(up_to, prepend=0.0)

    positive = np.union1d(np.exp2(powers), _YEARS)
    negative = np.exp2(negative_powers)
    is_of_years = (positive > _YEARS[0]) & (positive <= _YEARS[1])
    of_positive = weights(positive) + _YEAR_WEIGHT * is_of_years
    of_all = np.append(share_of_negative * weights(negative)[::-1], of_positive)
    ends = np.concatenate((-negative[::-1], [0.0], positive))
    return ends, of_all / of_all.sum()


_OCTAVE_ENDS, _OCTAVE_WEIGHTS = _octaves(_POWERS, _POWERS, _SHARE_OF_NEGATIVE)
_LATTICE_OCTAVE_ENDS, _LATTICE_OCTAVE_WEIGHTS = _octaves(
    _LATTICE_POWERS, _NEGATIVE_LATTICE_POWERS, _SHARE_OF_NEGATIVE_ON_A_LATTICE
)
# As many as on lattices, so that nodes of both kinds can stand beside each other: what is added
# has no cells.
_N_ADDED = _LATTICE_OCTAVE_ENDS.size - _OCTAVE_ENDS.size
_PADDED_OCTAVE_ENDS = np.pad(_OCTAVE_ENDS, (0, _N_ADDED), mode="edge")
_PADDED_OCTAVE_WEIGHTS = np.pad(_OCTAVE_WEIGHTS, (0, _N_ADDED))


def _rings(first, last, centre):
    """Return the ends of rings, in multiples of a scale, and the weight up to each end."""
    powers = np.arange(first, last + 1)
    weights = (1.0 + abs(powers - centre)) ** -1.5
    return np.append(0.0, np.exp2(powers)), np.append(0.0, np.cumsum(weights) / weights.sum())


def _light_rings(first, last, centre):
    """Return what `_rings` does, even in the value up to the centre, and light beyond it."""
    powers = np.arange(first, last + 1)
    weights = np.where(powers > centre, 4.0 ** (centre - powers), 2.0 ** (powers - centre))
    return np.append(0.0, np.exp2(powers)), np.append(0.0, np.cumsum(weights) / weights.sum())


# Around one released value a the scale is |a|, if a second one is known it is their distance, and
# between two ends it is the width of a part. A lattice needs no parts, since it is even by itself.
_BEYOND_ONE, _BEYOND_TWO, _BETWEEN, _BETWEEN_ON_A_LATTICE = range(4)
_N_PARTS = 16
_PART_ENDS = np.minimum(np.arange(_N_PARTS + 2.0), _N_PARTS)  # as many as the rings have
_ONE_PART = np.where(_PART_ENDS > 0, float(_N_PARTS), 0.0)
_SHAPES = (
    _rings(-12, 4, centre=-1),
    _light_rings(-7, 9, centre=1),
    (_PART_ENDS, _PART_ENDS / _N_PARTS),
    (_ONE_PART, _ONE_PART / _N_PARTS),
)
_SHAPE_ENDS, _SHAPE_WEIGHTS = map(np.array, zip(*_SHAPES, strict=True))
# The ends of the rings that say how far apart two places are, in multiples of |a|.
_PAIR_RING_ENDS = np.exp2(np.arange(-12, 21))
# Where a segment spans octaves it is cut towards zero, so that it stays even in the value. The
# cuts are at decades, where the measure of round numbers jumps.
_CUTS_ABOVE_ZERO = np.array([0.0002, 0.001, 0.01, 0.04, 0.1, 0.2])
_TOWARDS_ZERO = np.concatenate((-_CUTS_ABOVE_ZERO[::-1], [0.0], _CUTS_ABOVE_ZERO))


class _Ends(NamedTuple):
    """What is known about the two ends of each node; arrays (n_nodes,) or (2, n_nodes)."""

    kinds: np.ndarray  # how many ends are closed
    is_open: np.ndarray
    is_released: np.ndarray
    is_bound: np.ndarray
    is_lattice: np.ndarray
    is_integer: np.ndarray
    low: np.ndarray  # the lower end, as a value
    high: np.ndarray  # the upper one
    known: np.ndarray  # a value that tells the scale of a node with an open end
    released: np.ndarray  # the released end, of two the lower one
    is_one_sided: np.ndarray  # whether one end is released, the other one open or a bound
    is_scale_known: np.ndarray  # whether another value, not zero, is released beyond that end


class _Scale(NamedTuple):
    """A part of the mixture: adjacent segments in each node."""

    values: np.ndarray  # (n_nodes, n_segments + 1) or (n_segments + 1,), their ends
    weights: np.ndarray  # (n_nodes, n_segments) or (n_segments,)
    share: np.ndarray  # (n_nodes,), of the whole mixture


def step_measure(grid, columns, lo, hi, beyond, is_open, is_released, guesses=None):
    """Return the base measure of nodes that reach from the cell `lo` to the cell `hi`.

    `beyond` is a released cell beyond the closed end of a node with one open end, or that end
    itself if there is none. `is_open` and `is_released` (2, n_nodes) tell of the lower and of the
    upper ends whether they are the end of the scale, or released. An end that is neither is a
    bound. `guesses` are what priors say about the nodes.

    What none of the nodes has is left out: so nodes that are alike have few segments. Whatever
    nodes stand beside it, the densities of a node are the same but for their last bits. The
    accounts ask for that: no column may look at another.
    """
    ends = _ends(grid, columns, np.array((lo, hi, beyond)), is_open, is_released)
    scales = _scales(ends)
    landmarks = _landmark_cells(grid)[columns]
    lo, hi = lo[:, None], hi[:, None]
    if not _has_landmark(landmarks, lo, hi).any():
        landmarks = landmarks[:, :0]

    # Cells of all values are looked up at once, and so are the measures before all cuts.
    n_nodes = columns.size
    widths = [scale.values.shape[-1] for scale in scales]
    values = [np.broadcast_to(scale.values, (n_nodes, scale.values.shape[-1])) for scale in scales]
    values = np.concatenate(values, axis=1)
    # The last segment has the last cell, too.
    is_last = (values >= ends.high[:, None]) & ~is_open[1][:, None]
    points = np.concatenate((landmarks, lo, hi), axis=1)
    cuts = [np.where(is_last, hi + 1, grid.cells_of(values, columns[:, None])), points, points + 1]
    widths += [points.shape[1], points.shape[1]]
    if guesses is not None:
        ring_cells = grid.cells_of(guesses.values, columns[:, None])
        cuts += [ring_cells[:, :-1], ring_cells[:, 1:] + 1]
    cuts = np.maximum(np.minimum(np.concatenate(cuts, axis=1), hi + 1), lo)
    before = grid.measure_before(cuts, columns[:, None])
    *before_scales, before_points, behind_points = _side_by_side(before, widths)

    # Each part of the mixture is kept as the rises of its density at its cuts.
    point_shares = _point_shares(ends, landmarks.shape[1])
    point_shares[(points < lo) | (points > hi)] = 0.0
    of_points = point_shares / np.maximum(behind_points - before_points, 1)
    rest = 1 - _sums(point_shares)[:, 0]
    rises = [
        _rises(before_scale, scale.weights, rest * scale.share)
        for before_scale, scale in zip(before_scales, scales, strict=True)
    ]
    rises = np.concatenate((*rises, of_points, -of_points), axis=1)
    if guesses is not None:
        of_rings = _ring_densities(before[:, rises.shape[1] :], guesses.weights)
        share = np.where(of_rings.any(axis=1), _PRIOR_SHARE, 0.0)[:, None]
        rises = np.concatenate(((1 - share) * rises, share * of_rings, -share * of_rings), axis=1)

    plain_share = np.where(ends.is_scale_known, LEAST_PLAIN_SHARE, PLAIN_SHARES[ends.kinds])
    return _mixture(cuts, before, rises, plain_share[:, None])


def ring_measure(measure, grid, columns, lo, hi, beyond, is_open, is_released, guesses=None):
    """Return a base measure that also tells how far from its released end a place is.

    It is for nodes of pairs; the arguments are those of `step_measure`, which made `measure`. The
    places of a pair belong to rings around the released end of their node if its other end is
    open or a bound and no scale is known: neither by a second released value nor by a prior.
    """
    ends = _ends(grid, columns, np.array((lo, hi, beyond)), is_open, is_released)
    has_rings = ends.is_one_sided & ~ends.is_scale_known
    if guesses is not None:
        has_rings &= ~guesses.weights.any(axis=1)
    if not has_rings.any():
        return measure

    # Ring 0 is the cell of the released end itself. It tells no scale.
    is_upwards = ends.is_released[0]
    size = np.abs(ends.released)
    size = np.where(is_upwards, 1.0, -1.0) * np.where(size > 0, size, 1.0)
    values = ends.released[:, None] + size[:, None] * _PAIR_RING_ENDS
    begins = np.maximum(grid.cells_of(values, columns[:, None]), (lo + 1)[:, None])
    begins = np.where(is_upwards[:, None], begins, np.minimum(begins, hi[:, None]))
    first = np.where(is_upwards, lo + 1, hi)
    begins = np.concatenate((first[:, None], begins), axis=1)
    begins = np.where(has_rings[:, None], np.minimum(begins, hi[:, None] + 1), lo[:, None])

    cuts = np.concatenate((measure.cuts, begins), axis=1)
    before = grid.measure_before(begins, columns[:, None])
    before = np.concatenate((measure.before, before), axis=1)
    order = cuts.argsort(axis=1, kind="stable")

    n_begins = (order >= measure.cuts.shape[1]).cumsum(axis=1)[:, :-1]
    segment = np.arange(order.shape[1] - 1) - n_begins
    segment = np.minimum(segment, measure.densities.shape[1] - 1)
    rings = np.where(is_upwards[:, None], n_begins, begins.shape[1] - n_begins)
    return RingMeasure(
        cuts=taken_by_node(cuts, order),
        before=taken_by_node(before, order),
        densities=taken_by_node(measure.densities, segment),
        rings=np.where(has_rings[:, None], rings, 0),
    )


def _mixture(cuts, before, rises, plain_share):
    """Return the measure whose density rises so at these cuts, in any order, with a plain share."""
    order = cuts.argsort(axis=1, kind="stable")
    cuts = taken_by_node(cuts, order)
    before = taken_by_node(before, order)
    densities = np.maximum(taken_by_node(rises, order).cumsum(axis=1)[:, :-1], 0.0)

    densities *= 1 - plain_share
    densities += plain_share / (before[:, -1:] - before[:, :1])
    densities /= _sums(densities * (before[:, 1:] - before[:, :-1]))
    return StepMeasure(cuts=cuts, before=before, densities=densities)


def _sums(array):
    """Return the sum of each row, in a column; zeros in it, however many, change no bit of it."""
    return array.cumsum(axis=1)[:, -1:]


def _side_by_side(array, widths):
    """Return parts of an array, which have so many columns."""
    ends = np.cumsum(widths).tolist()
    return [array[:, start:end] for start, end in pairwise([0, *ends])]


def have_few_segments(grid, columns, lo, hi, is_released):
    """Return which nodes have nothing but parts of equal width, and points at both ends."""
    (low, high), _ = _values(grid, np.array((lo, hi)), columns)
    is_cut = _is_near_zero(low, high, _next_decade(_width_of_parts(low, high)))
    is_cut &= ~grid.is_lattice[columns]
    has_landmark = _has_landmark(_landmark_cells(grid)[columns], lo[:, None], hi[:, None])
    return is_released.all(axis=0) & ~is_cut & ~has_landmark


@lru_cache(maxsize=32)
def _landmark_cells(grid):
    """Return the cells of 0, 1, 2 and 3 in each column, (n_columns, n_landmarks)."""
    columns = np.arange(grid.low.size)[:, None]
    return grid.cells_of(_LANDMARKS + np.zeros_like(columns), columns)


def _has_landmark(landmarks, lo, hi):
    """Return whether one of its landmarks is in each node; cells with a row for each node."""
    return ((landmarks >= lo) & (landmarks <= hi)).any(axis=1)


def _scales(ends):
    """Return the parts of the mixture that are adjacent segments."""
    of_octaves = _octave_shares(ends)
    scales = [_rings_or_parts(ends, ends.kinds, ends.is_open[0], 1 - of_octaves)]

    has_rings_too = ends.is_one_sided & ends.is_bound.any(axis=0)
    if has_rings_too.any():
        without_scale = _SHARE_WITHOUT_BOUNDS * (1 - _OCTAVE_SHARES[1])
        of_rings = np.where(ends.is_scale_known, 1 - _PART_SHARE_BEYOND, without_scale)
        of_rings = np.where(has_rings_too, of_rings, 0.0)
        as_if_open = np.where(has_rings_too, 1, ends.kinds)
        scales[0] = scales[0]._replace(share=scales[0].share - of_rings)
        scales.append(_rings_or_parts(ends, as_if_open, ends.is_bound[0], of_rings))

    if of_octaves.any():
        scales.append(_octaves_of_nodes(ends.is_lattice, of_octaves))
    return scales


def _ring_densities(before, weights):
    """Return the densities of the rings of a prior in each node, whose measures sum to 1, or 0.

    `before` has the grid measure before the begin of each ring, then before the end of each. Rings
    may overlap by a cell, and those outside of the node have no cells.
    """
    begins, ends = np.split(before, 2, axis=1)
    measures = ends - begins
    weights = np.where(measures > 0, weights, 0.0)
    total = _sums(weights)
    return weights / np.where(total > 1e-290, total, np.inf) / np.maximum(measures, 1)


def _octave_shares(ends):
    """Return the share of octaves in each node: at bounds, a part of what it is without them."""
    kinds = ends.kinds
    as_if_open = kinds - ends.is_bound.sum(axis=0)
    without_bounds = _SHARE_WITHOUT_BOUNDS * _OCTAVE_SHARES[np.maximum(as_if_open, 0)]
    shares = np.where(kinds == _BOTH_CLOSED, without_bounds, _OCTAVE_SHARES[kinds])
    return np.where(ends.is_scale_known, 0.0, shares)


def _octaves_of_nodes(is_lattice, share):
    """Return the octaves of all nodes, for each of them by itself: fine ones on lattices."""
    if not is_lattice.any():
        return _Scale(_OCTAVE_ENDS, _OCTAVE_WEIGHTS, share)
    values = np.where(is_lattice[:, None], _LATTICE_OCTAVE_ENDS, _PADDED_OCTAVE_ENDS)
    weights = np.where(is_lattice[:, None], _LATTICE_OCTAVE_WEIGHTS, _PADDED_OCTAVE_WEIGHTS)
    return _Scale(values, weights, share)


def _ends(grid, columns, cells, is_open, is_released):
    """Return what is known about the ends of nodes; `cells` are (lo, hi, beyond)."""
    values, is_integer = _values(grid, cells, columns)
    is_one_sided = is_released[0] != is_released[1]
    released = np.where(is_released[0], values[0], values[1])
    return _Ends(
        kinds=_BOTH_CLOSED - is_open.sum(axis=0),
        is_open=is_open,
        is_released=is_released,
        is_bound=~(is_open | is_released),
        is_lattice=grid.is_lattice[columns],
        is_integer=is_integer[:2],
        low=values[0],
        high=values[1],
        known=values[2],
        released=released,
        is_one_sided=is_one_sided,
        # Many records may be at zero: the next value says little about the scale of the others.
        is_scale_known=is_one_sided & (released != values[2]) & (values[2] != 0),
    )


def _values(grid, cells, columns):
    """Return the integer in each cell, else its lower end, and whether it is an integer.

    Every point of a lattice counts as one.
    """
    begin, end = grid.lower_edges(np.array((cells, cells + 1)), columns)
    integers = np.ceil(begin)
    is_lattice = grid.is_lattice[columns]
    is_integer = (integers < end) & (np.abs(integers) < _LARGEST_INTEGER) & ~is_lattice

    edges = np.maximum(begin, grid.low[columns])  # stay finite
    return np.where(is_integer, integers, edges), is_integer | is_lattice


def _width_of_parts(low, high):
    """Return the width of parts between two values, or 1 where they are one value."""
    width = (high - low) / _N_PARTS
    return np.where(width > 0, width, 1.0)


def _next_decade(scale):
    """Return the power of ten next to twice the scale, or above it."""
    twice = np.maximum(np.minimum(2 * scale, 1e300), 1e-300)
    return 10.0 ** np.ceil(np.log10(twice))


def _is_near_zero(low, high, next_decade):
    """Return which nodes have some of what cuts towards zero cut."""
    reach = _TOWARDS_ZERO[-1] * next_decade
    return (low < reach) & (high > -reach)


def _rings_or_parts(ends, kinds, is_open_lo, share):
    """Return ascending values in each node, and the weights between them, even in the value."""
    is_between = kinds == _BOTH_CLOSED
    end = np.where(is_open_lo, ends.high, ends.low)
    direction = np.where(is_open_lo, -1.0, 1.0)
    size = np.abs(end)
    distance = np.abs(end - ends.known)
    shapes = np.where(is_between, _BETWEEN, np.where(distance > 0, _BEYOND_TWO, _BEYOND_ONE))
    scale = np.where(distance > 0, distance, size)
    scale = np.where(scale > 0, scale, 1.0)
    scale = np.where(is_between, _width_of_parts(ends.low, ends.high), scale)
    next_decade = _next_decade(np.where(is_between, scale, np.maximum(scale, size)))

    is_even = ends.is_lattice & is_between
    shapes = np.where(is_even, _BETWEEN_ON_A_LATTICE, shapes)
    values = end[:, None] + (scale * direction)[:, None] * _SHAPE_ENDS[shapes]
    up_to = _SHAPE_WEIGHTS[shapes]

    is_cut = _is_near_zero(ends.low, ends.high, next_decade) & ~is_even
    if is_cut.any():
        towards_zero = next_decade[:, None] * _TOWARDS_ZERO
        towards_zero = np.where(is_cut[:, None], towards_zero, end[:, None])
        outwards = (towards_zero - end[:, None]) / (scale * direction)[:, None]
        up_to = np.concatenate((up_to, _weights_up_to(outwards, shapes)), axis=1)
        values = np.concatenate((values, towards_zero), axis=1)

    up_to *= direction[:, None]
    values.sort(axis=1)
    up_to.sort(axis=1)  # it ascends with the value
    return _Scale(values, up_to[:, 1:] - up_to[:, :-1], share)


def _weights_up_to(outwards, shapes):
    """Return the weight of each node's shape up to some multiples of its scale, a row for each."""
    up_to = np.empty_like(outwards)
    for shape, ends_and_weights in enumerate(_SHAPES):
        rows = shapes == shape
        up_to[rows] = np.interp(outwards[rows], *ends_and_weights)
    return up_to


def _point_shares(ends, n_landmarks):
    """Return the shares of the landmarks and of the two ends of each node, (n_nodes, n_points)."""
    kinds = ends.kinds
    times = np.where(ends.is_lattice, _TIMES_ON_A_LATTICE, 1.0)
    without_bounds = times * _LANDMARK_SHARES[kinds]
    at_bound = ends.is_bound.any(axis=0)
    of_landmarks = np.where(at_bound, _LANDMARK_SHARE_AT_BOUNDS, without_bounds)

    of_released = np.where(ends.is_integer, _INTEGER_END_SHARES[kinds], _END_SHARES[kinds])
    of_ends = np.where(ends.is_bound, _BOUND_SHARE, of_released * ends.is_released)
    shares = np.concatenate(
        (of_landmarks[:, None] / (1 + _LANDMARKS[:n_landmarks]), of_ends.T), axis=1
    )

    points = np.broadcast_to(_LANDMARKS[:n_landmarks], (kinds.size, n_landmarks))
    points = np.concatenate((points, ends.low[:, None], ends.high[:, None]), axis=1)
    distances = np.abs(points - ends.released[:, None])
    reach = _NEAR * np.abs(ends.released - ends.known)
    is_far = ends.is_scale_known[:, None] & (distances > reach[:, None])
    return np.where(is_far, _SHARE_IF_FAR * shares, shares)


def _rises(before, weights, share):
    """Return by how much the density rises at each end of adjacent segments.

    The segments that have cells have `share` together, in proportion to their `weights`.
    """
    measures = before[:, 1:] - before[:, :-1]
    weights = np.where(measures > 0, weights, 0.0)
    total = _sums(weights)
    total = np.where(total > 1e-290, total, 1.0)  # the quotient must not overflow
    shares = weights * (share[:, None] / total)
    densities = shares / np.maximum(measures, 1)
    rises = np.zeros(before.shape)
    rises[:, :-1] = densities
    rises[:, 1:] -= densities
    return rises
