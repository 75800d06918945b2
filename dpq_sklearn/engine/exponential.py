"""The exponential mechanism for many nodes at once.

A node draws a place in a range of one column, with ranks as close as possible to a target. A place
is a position of the grid or, in a node without children (a *leaf*), a whole cell. It covers the
interval I of the ranks from its lower to its upper edge. The probability of a place is proportional
to ``measure * (exp(-eta * dist(target, I)) + 2^-96)``, where ``measure`` is its base measure.

The draw is a rejection sampler. A node looks up a few ranks around its target. The places that hold
these ranks, and the pieces of the base measure, divide the node into *runs*. The density is
constant in a run, and the nearest rank of the run bounds the weights of all its places. The sampler
chooses a run by the sum of its bounds, and a place of the run by grid measure. It keeps the place
with probability weight / bound, or starts again. The relative error of the probability of every
outcome, however small, is below 2^-39 (docs/privacy.md has the argument).

The nodes of all columns are drawn together: all arrays have a row for each node.
"""

from dataclasses import dataclass

import numpy as np

from dpq_sklearn.engine.random import LN2
from dpq_sklearn.engine.ranks import RECORD_WEIGHT

# Every place has at least 2^-96 of the weight of a place that holds the target.
FLOOR_BITS = 96
FLOOR = 2.0**-FLOOR_BITS
# The distances from the target at which ranks are looked up, in multiples of 1 / eta. They are
# dense near the target, where most places are drawn, so that most proposals are kept. The gaps
# further away limit the number of rounds for all data. All places beyond 36 together weigh less
# than those at the target.
_AHEAD = np.array([0.3, 0.8, 1.4, 2.2, 3.5, 5.5, 8.5, 12, 16, 20, 25, 30, 36])
_LOOK_UPS = np.concatenate((-_AHEAD[::-1], [0.0], _AHEAD))
# The probability of a node is rounded to a multiple of 1 / Q_STEPS, so that targets are exact.
Q_STEPS = 2**30
_MOST_CHANCE = 1 + 1e-9  # a probability can exceed 1 by rounding errors only
# If there are few nodes, each gets several proposals at once, so a second round is rare.
_PROPOSALS_AT_ONCE = 512
_MOST_PROPOSALS = 4


@dataclass(frozen=True, kw_only=True)
class StepMeasure:
    """The base measures of nodes: grid measure times a piecewise constant density.

    A base measure may be any function of public facts and of cells that earlier draws released.
    """

    cuts: np.ndarray  # (n_nodes, n_pieces + 1), the ascending ends of the pieces, as cells
    before: np.ndarray  # (n_nodes, n_pieces + 1), the grid measure before each cut
    densities: np.ndarray  # (n_nodes, n_pieces)

    def __getitem__(self, rows):
        """Return the base measures of these nodes."""
        return StepMeasure(
            cuts=self.cuts[rows], before=self.before[rows], densities=self.densities[rows]
        )


@dataclass(frozen=True, kw_only=True)
class RingMeasure(StepMeasure):
    """Base measures for pairs, which also number the rings around a released value.

    Two places in distant rings have less base measure (`pairs.affinity`).
    """

    rings: np.ndarray  # (n_nodes, n_pieces), the ring of each piece, or 0 if it has no ring

    def __getitem__(self, rows):
        """Return the base measures of these nodes."""
        return RingMeasure(**{name: array[rows] for name, array in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """Ranges of positions in columns, and the quantiles to draw there; arrays (n_nodes,)."""

    column: np.ndarray
    lo: np.ndarray  # the first position
    hi: np.ndarray  # the last position
    lo_rank: np.ndarray  # the rank of the first position, in ticks
    hi_rank: np.ndarray  # the rank of the last position, in ticks
    q: np.ndarray  # the share of the node's weight that lies below its quantile
    eps: np.ndarray
    places_per_cell: np.ndarray  # 1 in a leaf, where cells are places; else `positions_per_cell`
    measure: StepMeasure

    def __getitem__(self, rows):
        """Return these nodes."""
        return Nodes(**{name: array[rows] for name, array in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The scores ``eta * dist(target, I)`` of places, which are the exponents of their weights.

    The target ``lo + q (hi - lo)`` is exact: whole ticks and a remainder in [0, 1). A rounded
    target would move by a rounding error even for records without weight in the node.
    """

    eta: np.ndarray
    target: np.ndarray
    remainder: np.ndarray

    @classmethod
    def of(cls, nodes, positions_per_cell):
        """Return the scores of `nodes`."""
        q_steps = np.rint(nodes.q * Q_STEPS).astype(np.int64)
        high, low = np.divmod(nodes.hi_rank - nodes.lo_rank, Q_STEPS)  # the product overflows
        ticks, rest = np.divmod(low * q_steps, Q_STEPS)
        target = nodes.lo_rank + high * q_steps + ticks

        sensitivity = np.maximum(q_steps, Q_STEPS - q_steps) / Q_STEPS
        eta = nodes.eps / (2 * sensitivity) / (RECORD_WEIGHT * positions_per_cell)
        # With this eta a distance of one tick reaches the floor. A larger eta changes nothing.
        eta = np.minimum(eta, FLOOR_BITS * LN2)
        return cls(eta=eta, target=target, remainder=rest / Q_STEPS)

    def of_interval(self, low, high, rows=np.s_[:, None]):
        """Return the scores of intervals of ranks, for all nodes or for the nodes `rows`."""
        target = self.target[rows]
        remainder = self.remainder[rows]

        beyond = (low - target) - remainder
        short = (target - high) + remainder
        return self.eta[rows] * np.maximum(np.maximum(beyond, short), 0.0)


@dataclass(frozen=True, kw_only=True)
class Runs:
    """The runs of nodes: ranges of places with a constant density, and bounds on their ranks."""

    cuts: np.ndarray  # (n_nodes, n_runs + 1): run j has the places [cuts[j], cuts[j + 1])
    measures: np.ndarray  # (n_nodes, n_runs): their base measures
    low_ranks: np.ndarray  # (n_nodes, n_runs): no place of the run begins at a lower rank
    high_ranks: np.ndarray  # (n_nodes, n_runs): no place of the run ends at a higher rank
    rings: np.ndarray | None  # (n_nodes, n_runs): the rings of a `RingMeasure`


def draw(ranks, nodes, randomness):
    """Draw a place in each node by the exponential mechanism; return positions and their ranks.

    Places are proposed with probabilities proportional to their bounds and kept with probability
    weight / bound, so the result has a probability proportional to its weight.

    Privacy
    -------
    Neighbours differ in one record. The record adds its ramp g in [0, 1] to all ranks. With
    ``w = g(hi) - g(lo)``, the difference between a rank of the node and the target changes by a
    number in [-q w, (1 - q) w]. The distance is a maximum of such differences, so it has
    sensitivity ``w * max(q, 1 - q)``. (A place may extend beyond the node. The target does not, so
    clipping the place to the node changes no score.) The logarithm of a weight has the same
    sensitivity times eta, because the base measure and 2^-96 do not depend on the data. With
    ``eta = eps / (2 max(q, 1 - q))`` the draw costs this record ``w * eps`` (McSherry, Talwar
    2007), and is w * eps bounded-range (Durfee, Rogers 2019).

    Preconditions: `lo_rank` and `hi_rank` are the ranks at the ends of the node, and each of these
    ends is an end of the column or the middle of a place that was drawn before. The base measure
    covers all cells of the node, and depends on records only through cells that were drawn before.
    """
    grid = ranks.grid
    scores = Scores.of(nodes, grid.positions_per_cell)
    runs = node_runs(ranks, nodes, scores, _LOOK_UPS)
    least_scores, bounds = run_bounds(scores, runs)
    order, shares = ascending_shares(bounds)

    places = np.empty_like(nodes.lo)
    split_ranks = np.empty_like(nodes.lo)
    left = np.arange(nodes.lo.size)
    while left.size:
        n_proposals = proposals_each(left.size, _PROPOSALS_AT_ONCE, _MOST_PROPOSALS)
        rows = np.repeat(left, n_proposals)
        run = chosen(order, shares, n_proposals, randomness)
        proposed, low, high = draw_in_runs(ranks, nodes, runs, rows, run, randomness)
        chances = chances_to_keep(least_scores[rows, run], scores.of_interval(low, high, rows))
        is_kept = kept_by_chance(chances, randomness).reshape(left.size, n_proposals)

        # The result of a node is its first proposal that is kept.
        is_found = is_kept.any(axis=1)
        first = n_proposals * is_found.nonzero()[0] + is_kept.argmax(axis=1)[is_found]
        places[left[is_found]] = proposed[first]
        split_ranks[left[is_found]] = middle_ranks(low[first], high[first])
        left = left[~is_found]
        order = order[~is_found]
        shares = shares[~is_found]

    return grid.positions_per_cell // nodes.places_per_cell * places, split_ranks


def draw_in_runs(ranks, nodes, runs, rows, run, randomness):
    """Draw a place by grid measure in each given run of the nodes `rows`.

    Returns the places, and the ranks at their lower and upper edges.
    """
    start, end = runs.cuts[rows, [run, run + 1]]
    per_cell = nodes.places_per_cell[rows]
    places = draw_by_measure(start, end, per_cell, ranks.grid, nodes.column[rows], randomness)
    return places, *rank_intervals(ranks, nodes, rows, places)


def middle_ranks(low, high):
    """Return the ranks at which drawn places split their nodes.

    The middle moves with the ranks at the edges. The target does not: docs/privacy.md, A trap.
    """
    return low + (high - low) // 2


def run_bounds(scores, runs):
    """Return the least score and the sum of the bounds of each run; both (n_nodes, n_runs)."""
    least_scores = scores.of_interval(runs.low_ranks, runs.high_ranks)
    return least_scores, runs.measures * (np.exp(-least_scores) + FLOOR)


def chances_to_keep(least_scores, scores):
    """Return weight / bound of places with these scores, from runs with these least scores."""
    return (np.exp(-scores) + FLOOR) / (np.exp(-least_scores) + FLOOR)


def kept_by_chance(chances, randomness):
    """Return whether to keep each proposal, given the probabilities of keeping them.

    A probability above 1 would silently distort the distribution. It means that a bound does not
    hold, because ranks that were looked up disagree with the ranks of places. This is a bug in
    the package, whatever the data are, so nothing may be released.
    """
    if np.any(chances > _MOST_CHANCE):
        raise RuntimeError(
            "internal error of dpq_sklearn: ranks of the same column disagree, so nothing was "
            "released. Please report it with the version and the parameters, but without data."
        )
    return randomness.uniforms(chances.size) < chances


def rank_intervals(ranks, nodes, rows, places):
    """Return the ranks at the lower and upper edge of each place in the nodes `rows`."""
    per_cell = nodes.places_per_cell[rows]
    cells, subs = np.divmod(places, per_cell)
    before, after = ranks.weights_below(nodes.column[rows], np.array((cells, cells + 1)))
    return _ranks_at_edges(before, after, subs, per_cell, ranks.grid.positions_per_cell)


def _ranks_at_edges(before, after, subs, per_cell, ticks_per_weight):
    """Return the ranks at the edges of the place `subs` of a cell with evenly spread weight."""
    ticks_of_place = (after - before) * (ticks_per_weight // per_cell)
    low = ticks_per_weight * before + ticks_of_place * subs
    return low, low + ticks_of_place


def node_runs(ranks, nodes, scores, look_ups):
    """Return the runs of nodes, cut by their look-ups and by the pieces of their base measures.

    A node has ``n_cuts_of_look_ups - 1 + n_pieces - 1`` runs, and many of them are empty.
    """
    measure = nodes.measure
    per_cell = nodes.places_per_cell[:, None]
    look_up_cuts, cut_ranks = _cuts_of_look_ups(ranks, nodes, scores, look_ups)
    measure_before = _measure_before(ranks.grid, look_up_cuts, per_cell, nodes.column[:, None])

    # A node may begin or end inside a cell. Pieces consist of whole cells, so they are clipped.
    cuts = _append_clipped(look_up_cuts, per_cell * measure.cuts[:, 1:-1])
    before = _append_clipped(measure_before, per_cell * measure.before[:, 1:-1])
    order = cuts.argsort(axis=1, kind="stable")
    before = taken_by_node(before, order)

    look_up, piece = _look_ups_and_pieces(order, n_look_ups=look_up_cuts.shape[1])
    has_rings = isinstance(measure, RingMeasure)
    return Runs(
        cuts=taken_by_node(cuts, order),
        measures=(before[:, 1:] - before[:, :-1]) * taken_by_node(measure.densities, piece),
        low_ranks=taken_by_node(cut_ranks, look_up),
        high_ranks=taken_by_node(cut_ranks, look_up + 1),
        rings=taken_by_node(measure.rings, piece) if has_rings else None,
    )


def _look_ups_and_pieces(order, n_look_ups):
    """Return the last look-up at or before each run, and the piece that contains the run.

    `order` sorts the cuts of each node. The first `n_look_ups` cuts are look-ups, and the others
    are the starts of pieces. All arrays have a row for each node.
    """
    n_before = (order < n_look_ups).cumsum(axis=1)[:, :-1]
    look_up = np.minimum(n_before - 1, n_look_ups - 2)
    piece = np.arange(1, order.shape[1]) - n_before
    return look_up, piece


def taken_by_node(array, index):
    """Return ``array[i, index[i, j]]`` for all i and j."""
    n_nodes, length = array.shape
    return array.ravel().take(index + length * np.arange(n_nodes)[:, None])


def _append_clipped(ascending, others):
    """Return both arrays side by side, with the second clipped to the range of the first."""
    first = ascending[:, :1]
    last = ascending[:, -1:]
    inside = np.maximum(np.minimum(others, last), first)
    return np.concatenate((ascending, inside), axis=1)


def _cuts_of_look_ups(ranks, nodes, scores, look_ups):
    """Return ascending places that cut the nodes, and the ranks at their lower edges.

    The cuts are the ends of each node, and the ends of each place that holds a looked-up rank. Both
    arrays are (n_nodes, 2 + 2 * n_ranks).
    """
    wanted = _ranks_to_look_up(nodes, scores, look_ups)
    places, low, high = _places_at_ranks(ranks, nodes, wanted)

    positions_per_place = ranks.grid.positions_per_cell // nodes.places_per_cell
    start = nodes.lo // positions_per_place
    end = nodes.hi // positions_per_place + 1

    # Several look-ups may find the same place, and a place may extend beyond its node. Clipping
    # makes empty runs of such cuts.
    cuts = _in_turns(start, places, places + 1, end)
    cuts = np.minimum(np.maximum(cuts, start[:, None]), end[:, None])
    cut_ranks = _in_turns(nodes.lo_rank, low, high, nodes.hi_rank)
    return np.maximum.accumulate(cuts, axis=1), np.maximum.accumulate(cut_ranks, axis=1)


def _places_at_ranks(ranks, nodes, wanted):
    """Return the places that hold these ranks, and the ranks at their edges; (n_nodes, n_ranks)."""
    ticks = ranks.grid.positions_per_cell
    cells, before, after = ranks.locate(nodes.column[:, None], wanted // ticks)

    # The weight of a cell is spread evenly over its places.
    per_cell = nodes.places_per_cell[:, None]
    ticks_of_place = (after - before) * (ticks // per_cell)
    subs = (wanted - ticks * before) // np.maximum(ticks_of_place, 1)
    subs = np.minimum(np.maximum(subs, 0), per_cell - 1)

    low, high = _ranks_at_edges(before, after, subs, per_cell, ticks)
    return per_cell * cells + subs, low, high


def _ranks_to_look_up(nodes, scores, look_ups):
    """Return ascending ranks around the target of each node, in ticks; (n_nodes, n_ranks)."""
    target = scores.target[:, None]
    offsets = np.minimum(np.abs(look_ups) / scores.eta[:, None], 2.0**62).astype(np.int64)
    wanted = np.where(
        look_ups < 0,
        target - np.minimum(offsets, target - nodes.lo_rank[:, None]),
        target + np.minimum(offsets, nodes.hi_rank[:, None] - target),
    )

    # Ranks that repeat the previous rank in all nodes are left out. Narrow nodes have many.
    is_new = np.ones(wanted.shape[1], dtype=bool)
    is_new[1:] = (wanted[:, 1:] != wanted[:, :-1]).any(axis=0)
    return wanted[:, is_new]


def _in_turns(first, odd, even, last):
    """Return ``first, odd[0], even[0], odd[1], even[1], ..., last`` for each node.

    `first` and `last` are (n_nodes,), `odd` and `even` are (n_nodes, n).
    """
    together = np.empty((len(odd), 2 * odd.shape[1] + 2), dtype=np.int64)
    together[:, 0] = first
    together[:, 1:-1:2] = odd
    together[:, 2:-1:2] = even
    together[:, -1] = last
    return together


def _measure_before(grid, places, per_cell, columns):
    """Return the grid measure before each place. Each place has the measure of its cell."""
    cells = places // per_cell
    subs = places - per_cell * cells
    if not subs.any():
        return per_cell * grid.measure_before(cells, columns)

    before, after = grid.measure_before(np.array((cells, cells + 1)), columns)
    return per_cell * before + subs * (after - before)


def ascending_shares(weights):
    """Return the ascending order of the weights in each row, and their cumulative shares.

    The first cumulative share above a uniform number belongs to the index i with probability
    ``weights[i] / weights.sum()``. Small weights are added first, so improbable outcomes have the
    same relative accuracy as probable outcomes.
    """
    order = weights.argsort(axis=1, kind="stable")
    sums = taken_by_node(weights, order).cumsum(axis=1)
    return order, sums / sums[:, -1:]


def proposals_each(n_left, at_once, most):
    """Return the number of proposals for each of `n_left` nodes: more if there are few nodes."""
    return min(max(at_once // n_left, 1), most)


def chosen(order, shares, n_times, randomness):
    """Return `n_times` random indices for each row of `ascending_shares`, flat."""
    uniforms = randomness.uniforms(n_times * len(order)).reshape(-1, n_times, 1)
    n_passed = (shares[:, None, :] <= uniforms).sum(axis=2)
    return np.take_along_axis(order, n_passed, axis=1).ravel()


def _random_units(units_of_zones, randomness):
    """Return the zone of a uniform unit, and the number of the unit in its zone; both (n,).

    `units_of_zones` is (n_zones, n). The zones of a column follow each other.
    """
    ends = units_of_zones.cumsum(axis=0)
    unit = randomness.integers_below(ends[-1])
    zone = (ends[:-1] <= unit).sum(axis=0)
    begins = ends - units_of_zones
    return zone, unit - begins[zone, np.arange(unit.size)]


def draw_by_measure(start, end, per_cell, grid, columns, randomness):
    """Draw a place in each range ``[start, end)`` with probability proportional to grid measure.

    All arrays have the shape (n,). No range is empty.
    """
    first = start // per_cell
    last = (end - 1) // per_cell
    before_first, after_first, before_last, after_last = grid.measure_before(
        np.array((first, first + 1, last, last + 1)), columns
    )

    # The units 0, 1, ... of measure belong to the places of the first cell, then to the places of
    # the last cell if it is another cell, then to the places of all cells between.
    measure_of_first = after_first - before_first
    measure_of_last = after_last - before_last
    units_of_zones = (
        measure_of_first * (np.minimum(end, (first + 1) * per_cell) - start),
        measure_of_last * np.where(last > first, end - last * per_cell, 0),
        per_cell * np.maximum(before_last - after_first, 0),
    )
    zone, unit = _random_units(np.array(units_of_zones), randomness)

    places = np.where(
        zone == 0, start + unit // measure_of_first, last * per_cell + unit // measure_of_last
    )
    between = np.flatnonzero(zone == 2)
    if between.size:
        units_of_cells, subs = np.divmod(unit[between], per_cell[between])
        cells = grid.cells_at(first[between] + 1, last[between], units_of_cells, columns[between])
        places[between] = cells * per_cell[between] + subs
    return places
