"""The base measure of a draw: the weights of all cells before the draw looks at the data.

The exponential mechanism chooses a cell with a probability proportional to
``measure(cell) * exp(-score)``. Its privacy guarantee rests on the score alone, so the base measure
may be any function of public facts and of cells that earlier draws released. A good base measure is
large where the data are likely to be: then the draw spends little budget on finding them.

The base measure of a node is the grid measure times a density that is constant on a few dozen
pieces of the node. The density is a mixture of these components:

- *octaves* of the number line, if a node has an open end or a bound, which may be far from the
  data, and no scale is known. Numbers of everyday size have most of the share;
- *rings* around a released end, if the other end is open or a bound. The width doubles from ring
  to ring. Two distinct released values indicate a scale: beyond them each ring has a quarter of the
  weight of the ring before, and the rest of the number line has hardly any;
- *slices* of equal width between two ends that are released or bounds;
- *points*: single cells that may hold many records. These are released ends, bounds, 0, 1, 2, 3;
- *rings* around the quantile that the prior of a column has for the node (`prior`);
- the plain grid measure, so that every cell can be drawn.

A node that ends at a bound gives a share of its measure to the components that it would have
without the bound. So bounds that are far from the data cost little accuracy.

If a pair of quantiles is drawn where no scale is known, each quantile indicates the scale of the
other: pairs of places in distant *rings* have less measure (`engine.pairs.affinity`).

The constants were tuned on the data named in docs/accuracy.md.
"""

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dpq_sklearn.engine.exponential import RingMeasure, StepMeasure, taken_by_node

# Shares by the number of closed ends of a node: 0, 1 or 2.
PLAIN_SHARES = np.array([0.05, 0.1, 0.002])
_OCTAVE_SHARES = np.array([1.0, 0.3, 0.0])
# The least plain share: that of nodes beyond two distinct released values.
LEAST_PLAIN_SHARE = 1e-4
_END_SHARES = np.array([0.0, 0.05, 0.02])
_INTEGER_END_SHARES = np.array([0.0, 0.2, 0.1])
_LARGEST_INTEGER = 1e6
# The share of the components that a node at bounds would have without them.
_SHARE_WITHOUT_BOUNDS = 0.35
_RING_SHARE_TO_BOUNDS = _SHARE_WITHOUT_BOUNDS * (1 - _OCTAVE_SHARES[1])
_BOUND_SHARE = 0.03
# The share of the slices between two distinct released values and a bound.
_SLICE_SHARE_BEYOND = 0.03
# If a scale is known, bounds and the points 0, 1, 2, 3 that are more than 16 scales away keep only
# 1% of their shares.
_NEAR = 16.0
_SHARE_IF_FAR = 0.01
# These are the shares of the point 0. The points 1, 2, 3 have a half, a third and a quarter of it.
# On a lattice without bounds the shares are larger, because no other value is close to a point.
_LANDMARKS = np.arange(4.0)
_LANDMARK_SHARES = np.array([0.02, 0.03, 0.015])
_LANDMARK_SHARE_AT_BOUNDS = 0.035
_TIMES_ON_A_LATTICE = 4.0
# A prior that is wrong by orders of magnitude costs a node half a nat.
_PRIOR_SHARE = 0.4

# All octaves between two of these powers of two have the same weight. All positive numbers below
# the first power have 0.2 together.
_POWERS = np.array([-10, -4, 10, 20, 32, 64])
_POSITIVE_WEIGHTS = np.append(0.2, (0.25, 1.0, 0.25, 0.05, 0.02) * np.diff(_POWERS))
_SHARE_OF_NEGATIVE, _SHARE_OF_NEGATIVE_ON_A_LATTICE = 0.5, 0.25
# Years are a narrow range far from zero, and columns of years are common.
_YEARS = np.array([1900.0, 2048.0])
_YEAR_WEIGHT = 1.0  # the weight of an octave of everyday size
# On a lattice the measure of a piece is even in the value, not in its logarithm. So lattices have
# octaves of their own, which are wide only for large or negative numbers.
_LATTICE_POWERS = np.array([-10, -7, -4, -2, *range(21), *range(22, 33, 2), 36, 40, 48, 64])
_NEGATIVE_LATTICE_POWERS = np.array([-10, -4, -1, 0, 1, 2, 3, *range(4, 17, 2), 20, 24, 32, 64])


def _octaves(powers, negative_powers, share_of_negative):
    """Return ascending values that bound octaves, or groups of them, and the weights between."""

    def weights(ends):
        up_to = np.interp(np.log2(ends), _POWERS, _POSITIVE_WEIGHTS.cumsum())
        return np.diff(up_to, prepend=0.0)

    positive = np.union1d(np.exp2(powers), _YEARS)
    negative = np.exp2(negative_powers)
    is_year = (positive > _YEARS[0]) & (positive <= _YEARS[1])
    positive_weights = weights(positive) + _YEAR_WEIGHT * is_year
    all_weights = np.append(share_of_negative * weights(negative)[::-1], positive_weights)
    ends = np.concatenate((-negative[::-1], [0.0], positive))
    return ends, all_weights / all_weights.sum()


_OCTAVE_ENDS, _OCTAVE_WEIGHTS = _octaves(_POWERS, _POWERS, _SHARE_OF_NEGATIVE)
_LATTICE_OCTAVE_ENDS, _LATTICE_OCTAVE_WEIGHTS = _octaves(
    _LATTICE_POWERS, _NEGATIVE_LATTICE_POWERS, _SHARE_OF_NEGATIVE_ON_A_LATTICE
)
# Padded with empty octaves to the number on lattices, so that both can be in the same array.
_N_ADDED = _LATTICE_OCTAVE_ENDS.size - _OCTAVE_ENDS.size
_PADDED_OCTAVE_ENDS = np.pad(_OCTAVE_ENDS, (0, _N_ADDED), mode="edge")
_PADDED_OCTAVE_WEIGHTS = np.pad(_OCTAVE_WEIGHTS, (0, _N_ADDED))


def _heavy_rings(first, last, centre):
    """Return the ends of rings in units of a scale, and the weight up to each end.

    The weights fall slowly on both sides of the ring that ends at ``2**centre``.
    """
    powers = np.arange(first, last + 1)
    weights = (1.0 + abs(powers - centre)) ** -1.5
    return np.append(0.0, np.exp2(powers)), np.append(0.0, np.cumsum(weights) / weights.sum())


def _light_rings(first, last, centre):
    """Return the same as `_heavy_rings` for weights that fall quickly.

    The density is even up to ``2**centre``. Each further ring has a quarter of the previous weight.
    """
    powers = np.arange(first, last + 1)
    weights = np.where(powers > centre, 4.0 ** (centre - powers), 2.0 ** (powers - centre))
    return np.append(0.0, np.exp2(powers)), np.append(0.0, np.cumsum(weights) / weights.sum())


# The shapes of rings and slices: their ends in units of a scale, and the weight up to each end. The
# scale around a released value a is |a|, or the distance of a second released value. Between two
# ends the scale is the width of a slice. A lattice is even without slices.
_BEYOND_ONE, _BEYOND_TWO, _BETWEEN, _BETWEEN_ON_A_LATTICE = range(4)
_N_SLICES = 16
_SLICE_ENDS = np.minimum(np.arange(_N_SLICES + 2.0), _N_SLICES)  # as many ends as rings have
_ONE_SLICE = np.where(_SLICE_ENDS > 0, float(_N_SLICES), 0.0)
_SHAPES = (
    _heavy_rings(-12, 4, centre=-1),
    _light_rings(-7, 9, centre=1),
    (_SLICE_ENDS, _SLICE_ENDS / _N_SLICES),
    (_ONE_SLICE, _ONE_SLICE / _N_SLICES),
)
_SHAPE_ENDS, _SHAPE_WEIGHTS = map(np.array, zip(*_SHAPES, strict=True))
# The ends of the rings of pairs, in multiples of |a|.
_PAIR_RING_ENDS = np.exp2(np.arange(-12, 21))
# A piece that spans octaves is cut towards zero, so that its measure stays even in the value. The
# cuts are at decades, where the measure of round numbers jumps.
_CUTS_ABOVE_ZERO = np.array([0.0002, 0.001, 0.01, 0.04, 0.1, 0.2])
_TOWARDS_ZERO = np.concatenate((-_CUTS_ABOVE_ZERO[::-1], [0.0], _CUTS_ABOVE_ZERO))


class _Ends(NamedTuple):
    """The public facts about the two ends of each node.

    Arrays are (n_nodes,), or (2, n_nodes) if they have a row for the lower ends and a row for the
    upper ends.
    """

    columns: np.ndarray
    lo: np.ndarray  # the first cell
    hi: np.ndarray  # the last cell
    n_closed: np.ndarray  # the number of closed ends
    is_between: np.ndarray  # whether both ends are closed
    has_bound: np.ndarray
    is_open: np.ndarray  # (2, n_nodes)
    is_released: np.ndarray  # (2, n_nodes)
    is_bound: np.ndarray  # (2, n_nodes)
    is_integer: np.ndarray  # (2, n_nodes)
    is_lattice: np.ndarray
    low: np.ndarray  # the lower end, as a value
    high: np.ndarray  # the upper end, as a value
    known: np.ndarray  # the value that indicates the scale of a node with an open end
    released: np.ndarray  # the released end, or the lower one of two, as a value
    is_one_sided: np.ndarray  # whether one end is released and the other is open or a bound
    is_scale_known: np.ndarray  # whether another value, not zero, is released beyond that end


class _Adjacent(NamedTuple):
    """A component of adjacent pieces: octaves, rings or slices.

    The non-empty pieces divide the share of the component in proportion to their weights.
    """

    cuts: np.ndarray  # (n_nodes, n_pieces + 1), the ends of the pieces, as cells
    weights: np.ndarray  # (n_nodes, n_pieces) or (n_pieces,)
    share: np.ndarray  # (n_nodes,)

    def rises(self, before):
        """Return how much the density rises at each cut, given the grid measure before it."""
        measures = before[:, 1:] - before[:, :-1]
        weights = np.where(measures > 0, self.weights, 0.0)
        total = _sums(weights)
        total = np.where(total > 1e-290, total, 1.0)  # the quotient must not overflow
        densities = weights * (self.share[:, None] / total) / np.maximum(measures, 1)

        rises = np.zeros(before.shape)
        rises[:, :-1] = densities
        rises[:, 1:] -= densities
        return rises


class _Points(NamedTuple):
    """A component of single cells, each with a share of its own."""

    cuts: np.ndarray  # (n_nodes, 2 * n_points): the cells, then the cells after them
    shares: np.ndarray  # (n_nodes, n_points), 0 for points outside of the node

    def rises(self, before):
        """Return how much the density rises at each cut, given the grid measure before it."""
        begins, ends = _halves(before)
        densities = self.shares / np.maximum(ends - begins, 1)
        return np.concatenate((densities, -densities), axis=1)


class _PriorRings(NamedTuple):
    """A component of rings around the quantile of a prior, which may overlap by a cell.

    The whole component has a measure of 1 in a node, or of 0 if no ring has cells there.
    """

    cuts: np.ndarray  # (n_nodes, 2 * n_rings): the first cells, then the cells after the last ones
    weights: np.ndarray  # (n_nodes, n_rings)

    def rises(self, before):
        """Return how much the density rises at each cut, given the grid measure before it."""
        begins, ends = _halves(before)
        measures = ends - begins
        weights = np.where(measures > 0, self.weights, 0.0)
        total = _sums(weights)
        densities = weights / np.where(total > 1e-290, total, np.inf) / np.maximum(measures, 1)
        return np.concatenate((densities, -densities), axis=1)


def step_measure(grid, columns, lo, hi, beyond, is_open, is_released, guesses=None):
    """Return the `StepMeasure` of nodes that reach from the cell `lo` to the cell `hi`.

    `beyond` is a released cell beyond the closed end of a node with one open end, or that end if
    there is no such cell. `is_open` and `is_released` are (2, n_nodes), with a row for the lower
    ends and a row for the upper ends: an open end is the end of the number line, and an end that is
    neither open nor released is a bound. `guesses` are the `Guesses` of priors.

    Components that no node has are left out, so similar nodes have few pieces. The densities of a
    node do not depend on the nodes beside it, except for their last bits. The composition theorems
    require this: the draws of a column must not depend on another column.
    """
    ends = _ends(grid, columns, lo, hi, beyond, is_open, is_released)
    points = _points(grid, ends)
    rest = 1 - _sums(points.shares)[:, 0]
    components = [*_adjacent_components(grid, ends, _divisions(ends), rest), points]
    if guesses is not None:
        components.append(_prior_rings(grid, columns, guesses))

    # The grid measures before the cuts of all components are looked up at once.
    cuts = np.concatenate([component.cuts for component in components], axis=1)
    cuts = np.maximum(np.minimum(cuts, hi[:, None] + 1), lo[:, None])
    before = grid.measure_before(cuts, columns[:, None])
    before_components = _split_columns(before, [component.cuts for component in components])

    rises = [
        component.rises(before_component)
        for component, before_component in zip(components, before_components, strict=True)
    ]
    if guesses is not None:
        rises = _mixed_with_prior(*rises)

    plain_shares = np.where(ends.is_scale_known, LEAST_PLAIN_SHARE, PLAIN_SHARES[ends.n_closed])
    return _mixture(cuts, before, np.concatenate(rises, axis=1), plain_shares[:, None])


def ring_measure(measure, grid, columns, lo, hi, beyond, is_open, is_released, guesses=None):
    """Return a `RingMeasure` for nodes of pairs, or `measure` itself if no node has rings.

    `measure` is the result of `step_measure` for the other arguments. A node has rings around its
    released end if its other end is open or a bound, and if neither a second released value nor a
    prior indicates a scale.
    """
    ends = _ends(grid, columns, lo, hi, beyond, is_open, is_released)
    has_rings = ends.is_one_sided & ~ends.is_scale_known
    if guesses is not None:
        has_rings &= ~guesses.weights.any(axis=1)
    if not has_rings.any():
        return measure

    begins = np.where(has_rings[:, None], _cuts_of_pair_rings(grid, ends), lo[:, None])
    cuts = np.concatenate((measure.cuts, begins), axis=1)
    before = grid.measure_before(begins, columns[:, None])
    before = np.concatenate((measure.before, before), axis=1)
    order = cuts.argsort(axis=1, kind="stable")

    n_begins = (order >= measure.cuts.shape[1]).cumsum(axis=1)[:, :-1]
    piece = np.arange(order.shape[1] - 1) - n_begins
    piece = np.minimum(piece, measure.densities.shape[1] - 1)
    rings = np.where(ends.is_released[0][:, None], n_begins, begins.shape[1] - n_begins)
    return RingMeasure(
        cuts=taken_by_node(cuts, order),
        before=taken_by_node(before, order),
        densities=taken_by_node(measure.densities, piece),
        rings=np.where(has_rings[:, None], rings, 0),
    )


def have_few_pieces(grid, columns, lo, hi, is_released):
    """Return for each node whether it consists of slices and of the points at its two ends."""
    (low, high), _ = _values(grid, np.array((lo, hi)), columns)
    is_cut = _is_near_zero(low, high, _next_decade(_width_of_slices(low, high)))
    is_cut &= ~grid.is_lattice[columns]
    has_landmark = _has_landmark(_landmark_cells(grid)[columns], lo[:, None], hi[:, None])
    return is_released.all(axis=0) & ~is_cut & ~has_landmark


def _ends(grid, columns, lo, hi, beyond, is_open, is_released):
    """Return the `_Ends` of nodes; the arguments are those of `step_measure`."""
    (low, high, known), is_integer = _values(grid, np.array((lo, hi, beyond)), columns)
    n_closed = 2 - is_open.sum(axis=0)
    is_bound = ~(is_open | is_released)
    is_one_sided = is_released[0] != is_released[1]
    released = np.where(is_released[0], low, high)
    return _Ends(
        columns=columns,
        lo=lo,
        hi=hi,
        n_closed=n_closed,
        is_between=n_closed == 2,
        has_bound=is_bound[0] | is_bound[1],
        is_open=is_open,
        is_released=is_released,
        is_bound=is_bound,
        is_integer=is_integer[:2],
        is_lattice=grid.is_lattice[columns],
        low=low,
        high=high,
        known=known,
        released=released,
        is_one_sided=is_one_sided,
        # Many records may be zero, so zero says little about the scale of the others.
        is_scale_known=is_one_sided & (released != known) & (known != 0),
    )


def _values(grid, cells, columns):
    """Return the integer in each cell, or its lower end, and whether the value is an integer.

    Every point of a lattice counts as an integer.
    """
    begin, end = grid.lower_edges(np.array((cells, cells + 1)), columns)
    integers = np.ceil(begin)
    is_lattice = grid.is_lattice[columns]
    is_integer = (integers < end) & (np.abs(integers) < _LARGEST_INTEGER) & ~is_lattice

    edges = np.maximum(begin, grid.low[columns])  # stay finite
    return np.where(is_integer, integers, edges), is_integer | is_lattice


# Components.


def _points(grid, ends):
    """Return the points of each node: 0, 1, 2, 3, if a node has one of them, and the two ends."""
    lo = ends.lo[:, None]
    hi = ends.hi[:, None]
    landmarks = _landmark_cells(grid)[ends.columns]
    if not _has_landmark(landmarks, lo, hi).any():
        landmarks = landmarks[:, :0]

    cells = np.concatenate((landmarks, lo, hi), axis=1)
    shares = _point_shares(ends, landmarks.shape[1])
    shares[(cells < lo) | (cells > hi)] = 0.0
    return _Points(np.concatenate((cells, cells + 1), axis=1), shares)


@lru_cache(maxsize=32)
def _landmark_cells(grid):
    """Return the cells of 0, 1, 2 and 3 in each column, (n_columns, n_landmarks)."""
    columns = np.arange(grid.low.size)[:, None]
    return grid.cells_of(_LANDMARKS + np.zeros_like(columns), columns)


def _has_landmark(landmarks, lo, hi):
    """Return for each node whether it holds a landmark; cells have a row for each node."""
    return ((landmarks >= lo) & (landmarks <= hi)).any(axis=1)


def _point_shares(ends, n_landmarks):
    """Return the shares of the landmarks and of the two ends of each node, (n_nodes, n_points)."""
    n_closed = ends.n_closed
    times = np.where(ends.is_lattice, _TIMES_ON_A_LATTICE, 1.0)
    landmark_shares = np.where(
        ends.has_bound, _LANDMARK_SHARE_AT_BOUNDS, times * _LANDMARK_SHARES[n_closed]
    )

    released_shares = np.where(
        ends.is_integer, _INTEGER_END_SHARES[n_closed], _END_SHARES[n_closed]
    )
    end_shares = np.where(ends.is_bound, _BOUND_SHARE, released_shares * ends.is_released)
    shares = np.concatenate(
        (landmark_shares[:, None] / (1 + _LANDMARKS[:n_landmarks]), end_shares.T), axis=1
    )

    values = np.broadcast_to(_LANDMARKS[:n_landmarks], (n_closed.size, n_landmarks))
    values = np.concatenate((values, ends.low[:, None], ends.high[:, None]), axis=1)
    distances = np.abs(values - ends.released[:, None])
    reach = _NEAR * np.abs(ends.released - ends.known)
    is_far = ends.is_scale_known[:, None] & (distances > reach[:, None])
    return np.where(is_far, _SHARE_IF_FAR * shares, shares)


def _prior_rings(grid, columns, guesses):
    """Return the component of the rings of priors."""
    cells = grid.cells_of(guesses.values, columns[:, None])
    cuts = np.concatenate((cells[:, :-1], cells[:, 1:] + 1), axis=1)
    return _PriorRings(cuts, guesses.weights)


class _Division(NamedTuple):
    """A division of each node at ascending values, before the cells of the values are looked up."""

    values: np.ndarray  # (n_nodes, n_pieces + 1)
    weights: np.ndarray  # (n_nodes, n_pieces) or (n_pieces,)
    share: np.ndarray  # (n_nodes,), of the measure that points leave


def _adjacent_components(grid, ends, divisions, rest):
    """Return an `_Adjacent` component for each division; the cells are looked up at once."""
    values = np.concatenate([division.values for division in divisions], axis=1)
    cells = grid.cells_of(values, ends.columns[:, None])

    # The last piece includes the last cell.
    is_last = (values >= ends.high[:, None]) & ~ends.is_open[1][:, None]
    cells = np.where(is_last, ends.hi[:, None] + 1, cells)
    cuts_of_divisions = _split_columns(cells, [division.values for division in divisions])
    return [
        _Adjacent(cuts, division.weights, rest * division.share)
        for cuts, division in zip(cuts_of_divisions, divisions, strict=True)
    ]


def _divisions(ends):
    """Return the divisions into rings or slices, into rings up to bounds, and into octaves."""
    octave_shares = _octave_shares(ends)
    ring_shares = _shares_of_rings_to_bounds(ends)
    main_shares = 1 - octave_shares - ring_shares

    divisions = [_rings_or_slices(ends, main_shares, ends.is_between, ends.is_open[0])]
    if ring_shares.any():
        is_between = ends.is_between & (ring_shares == 0)
        divisions.append(_rings_or_slices(ends, ring_shares, is_between, ends.is_bound[0]))
    if octave_shares.any():
        divisions.append(_octaves_of_nodes(ends.is_lattice, octave_shares))
    return divisions


def _octave_shares(ends):
    """Return the share of octaves in each node."""
    shares = _OCTAVE_SHARES[ends.n_closed]
    n_released = ends.is_released.sum(axis=0)
    without_bounds = _SHARE_WITHOUT_BOUNDS * _OCTAVE_SHARES[n_released]
    shares = np.where(ends.is_between, without_bounds, shares)
    return np.where(ends.is_scale_known, 0.0, shares)


def _shares_of_rings_to_bounds(ends):
    """Return the share of the rings between a released end and a bound, 0 in other nodes."""
    shares = np.where(ends.is_scale_known, 1 - _SLICE_SHARE_BEYOND, _RING_SHARE_TO_BOUNDS)
    return shares * (ends.is_one_sided & ends.has_bound)


def _octaves_of_nodes(is_lattice, share):
    """Return the division into octaves, which are finer for nodes on lattices."""
    if not is_lattice.any():
        values = np.broadcast_to(_OCTAVE_ENDS, (share.size, _OCTAVE_ENDS.size))
        return _Division(values, _OCTAVE_WEIGHTS, share)
    values = np.where(is_lattice[:, None], _LATTICE_OCTAVE_ENDS, _PADDED_OCTAVE_ENDS)
    weights = np.where(is_lattice[:, None], _LATTICE_OCTAVE_WEIGHTS, _PADDED_OCTAVE_WEIGHTS)
    return _Division(values, weights, share)


class _Layout(NamedTuple):
    """How rings or slices lie in each node; arrays (n_nodes,)."""

    shape: np.ndarray  # an index of `_SHAPES`
    scale: np.ndarray  # the value of one unit of the shape
    extent: np.ndarray  # the cuts towards zero are at decades next to this size


def _layout(ends, is_between, origin):
    """Return the layout of slices in the nodes that are `is_between`, and of rings in others."""
    if is_between.all():
        return _slices(ends)
    if not is_between.any():
        return _rings(ends, origin)
    both = zip(_slices(ends), _rings(ends, origin), strict=True)
    return _Layout(*(np.where(is_between, *fields) for fields in both))


def _slices(ends):
    """Return the layout of slices of equal width between the two ends."""
    shape = np.where(ends.is_lattice, _BETWEEN_ON_A_LATTICE, _BETWEEN)
    width = _width_of_slices(ends.low, ends.high)
    return _Layout(shape, width, extent=width)


def _rings(ends, origin):
    """Return the layout of rings that begin at `origin`, one of the ends."""
    size = np.abs(origin)
    distance = np.abs(origin - ends.known)
    is_second_known = distance > 0
    shape = np.where(is_second_known, _BEYOND_TWO, _BEYOND_ONE)

    scale = np.where(is_second_known, distance, size)
    scale = np.where(scale > 0, scale, 1.0)
    return _Layout(shape, scale, extent=np.maximum(scale, size))


def _rings_or_slices(ends, share, is_between, is_downwards):
    """Return the division into slices in the nodes that are `is_between`, and into rings in others.

    Pieces near zero are cut once more, so that their measure stays even in the value.
    """
    origin = np.where(is_downwards, ends.high, ends.low)
    layout = _layout(ends, is_between, origin)

    origin = origin[:, None]
    direction = np.where(is_downwards, -1.0, 1.0)[:, None]
    unit = layout.scale[:, None] * direction
    values = origin + unit * _SHAPE_ENDS[layout.shape]
    weights_up_to = _SHAPE_WEIGHTS[layout.shape]

    added = _cuts_near_zero(ends, layout, otherwise=origin)
    if added.size:
        weights_added = _weights_up_to((added - origin) / unit, layout.shape)
        values = np.concatenate((values, added), axis=1)
        weights_up_to = np.concatenate((weights_up_to, weights_added), axis=1)

    # Downwards, the negative weights ascend with the values.
    weights_up_to *= direction
    values.sort(axis=1)
    weights_up_to.sort(axis=1)
    return _Division(values, weights_up_to[:, 1:] - weights_up_to[:, :-1], share)


def _cuts_near_zero(ends, layout, otherwise):
    """Return values near zero at which pieces are cut, (n_nodes, n_cuts), or an empty array.

    Nodes that need no such cuts have the value `otherwise`, (n_nodes, 1).
    """
    next_decade = _next_decade(layout.extent)
    is_cut = _is_near_zero(ends.low, ends.high, next_decade)
    is_cut &= layout.shape != _BETWEEN_ON_A_LATTICE
    if not is_cut.any():
        return np.empty((is_cut.size, 0))
    return np.where(is_cut[:, None], next_decade[:, None] * _TOWARDS_ZERO, otherwise)


def _width_of_slices(low, high):
    """Return the width of slices between two values, or 1 if the values are equal."""
    width = (high - low) / _N_SLICES
    return np.where(width > 0, width, 1.0)


def _next_decade(extent):
    """Return the least power of ten that is at least twice the extent."""
    twice = np.maximum(np.minimum(2 * extent, 1e300), 1e-300)
    return 10.0 ** np.ceil(np.log10(twice))


def _is_near_zero(low, high, next_decade):
    """Return for each node whether it overlaps the range of the cuts towards zero."""
    reach = _TOWARDS_ZERO[-1] * next_decade
    return (low < reach) & (high > -reach)


def _weights_up_to(multiples, shapes):
    """Return the weight of each node's shape up to these multiples of its unit.

    `multiples` is (n_nodes, n), and so is the result.
    """
    weights = np.empty_like(multiples)
    for shape, ends_and_weights in enumerate(_SHAPES):
        rows = shapes == shape
        weights[rows] = np.interp(multiples[rows], *ends_and_weights)
    return weights


def _cuts_of_pair_rings(grid, ends):
    """Return ascending or descending cells where the rings of pairs begin, (n_nodes, n_rings + 1).

    Ring 0 is the cell of the released end. It indicates no scale.
    """
    lo = ends.lo[:, None]
    hi = ends.hi[:, None]
    is_upwards = ends.is_released[0][:, None]

    size = np.abs(ends.released)[:, None]
    unit = np.where(is_upwards, 1.0, -1.0) * np.where(size > 0, size, 1.0)
    values = ends.released[:, None] + unit * _PAIR_RING_ENDS

    cells = np.maximum(grid.cells_of(values, ends.columns[:, None]), lo + 1)
    cells = np.where(is_upwards, cells, np.minimum(cells, hi))
    first = np.where(is_upwards, lo + 1, hi)
    return np.minimum(np.concatenate((first, cells), axis=1), hi + 1)


# The mixture.


def _mixed_with_prior(*rises):
    """Return the rises of the density if the last component, from a prior, gets its share.

    A node without rings of a prior keeps its density.
    """
    *others, prior = rises
    share = np.where(prior.any(axis=1), _PRIOR_SHARE, 0.0)[:, None]
    return [*((1 - share) * other for other in others), share * prior]


def _mixture(cuts, before, rises, plain_shares):
    """Return the measure with a density that rises at these cuts, and the plain grid measure.

    Cuts may be in any order. `plain_shares` is (n_nodes, 1).
    """
    order = cuts.argsort(axis=1, kind="stable")
    cuts = taken_by_node(cuts, order)
    before = taken_by_node(before, order)
    densities = np.maximum(taken_by_node(rises, order).cumsum(axis=1)[:, :-1], 0.0)

    densities *= 1 - plain_shares
    densities += plain_shares / (before[:, -1:] - before[:, :1])
    densities /= _sums(densities * (before[:, 1:] - before[:, :-1]))
    return StepMeasure(cuts=cuts, before=before, densities=densities)


def _sums(array):
    """Return the sum of each row as (n_nodes, 1). Zeros in a row do not change the last bit."""
    return array.cumsum(axis=1)[:, -1:]


def _halves(array):
    """Return the first and the second half of the columns of an array."""
    middle = array.shape[1] // 2
    return array[:, :middle], array[:, middle:]


def _split_columns(array, like):
    """Return blocks of columns of an array, as wide as the arrays `like`."""
    ends = np.cumsum([other.shape[1] for other in like]).tolist()
    return [array[:, start:end] for start, end in pairwise([0, *ends])]
