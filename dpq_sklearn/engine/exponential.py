"""The exponential mechanism at many nodes at once: runs, their weights, the draws.

A node asks for the place in a range of one column whose ranks are nearest to a target. A place
is a position of the grid, or, in a node without children (a *leaf*), a whole cell. It stands for
the ranks from its lower to its upper edge, an interval I, and is drawn with probability
proportional to ``measure * (exp(-eta * dist(target, I)) + 2^-96)``, with its base measure.

A node looks up a few ranks around its target. The places that hold them, and the segments of the
base measure, cut the node into *runs*. In a run the density is constant, and the nearest rank
bounds all weights. One run is chosen by its bound, then a place in it by grid measure; it is kept
with probability weight / bound, otherwise all begins again. Every outcome's probability, however
small, has a relative error below 2^-39 (docs/privacy.md has the argument).

Nodes of all columns are drawn together: all arrays have one row for each node.
"""

from dataclasses import dataclass

import numpy as np

from dpq_sklearn.engine.random import LN2
from dpq_sklearn.engine.ranks import RECORD_WEIGHT

# No place has less than 2^-96 of the weight of one that holds the target.
FLOOR_BITS = 96
FLOOR = 2.0**-FLOOR_BITS
# Ranks are looked up this far from the target, in multiples of 1 / eta: densely near the target,
# where most places are drawn, so that most of them are kept. The gaps further away are such that
# no data make very many rounds; beyond 36, all places together weigh less than the target's.
_AHEAD = np.array([0.3, 0.8, 1.4, 2.2, 3.5, 5.5, 8.5, 12, 16, 20, 25, 30, 36])
_LOOK_UPS = np.concatenate((-_AHEAD[::-1], [0.0], _AHEAD))
# The probability of a node is rounded to a multiple of 1 / Q_STEPS, so that targets are exact.
Q_STEPS = 2**30
_MOST_CHANCE = 1 + 1e-9  # of a proposal to be kept; above 1 only by rounding errors
# Each node gets several proposals at once, if there are few: hardly any needs another round.
_PROPOSALS_AT_ONCE = 512
_MOST_PROPOSALS = 4


@dataclass(frozen=True, kw_only=True)
class StepMeasure:
    """The base measure of each node: grid measure times a density that is constant on segments.

    It may be any function of public facts and of cells that earlier draws have released.
    """

    cuts: np.ndarray  # (n_nodes, n_segments + 1), the ascending ends of the segments, as cells
    before: np.ndarray  # (n_nodes, n_segments + 1), the grid measure before each
    densities: np.ndarray  # (n_nodes, n_segments)

    def __getitem__(self, rows):
        """Return the base measures of some nodes."""
        return StepMeasure(
            cuts=self.cuts[rows], before=self.before[rows], densities=self.densities[rows]
        )


@dataclass(frozen=True, kw_only=True)
class RingMeasure(StepMeasure):
    """A base measure that also tells how far from a released value each segment is.

    Places of a pair in rings that are far apart have less base measure (`pairs.affinity`).
    """

    rings: np.ndarray  # (n_nodes, n_segments), whole numbers; 0 says nothing

    def __getitem__(self, rows):
        """Return the base measures of some nodes."""
        return RingMeasure(**{name: of_all[rows] for name, of_all in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """Ranges of positions in columns, and which quantile is wanted there; arrays (n_nodes,)."""

    column: np.ndarray
    lo: np.ndarray  # the first position
    hi: np.ndarray  # the last one
    lo_rank: np.ndarray  # in ticks
    hi_rank: np.ndarray
    q: np.ndarray  # the probability: the share of the node's weight that lies below its quantile
    eps: np.ndarray
    places_per_cell: np.ndarray  # 1 in a leaf; else each position is a place
    measure: StepMeasure

    def __getitem__(self, rows):
        """Return some of the nodes."""
        return Nodes(**{name: of_all[rows] for name, of_all in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class Scores:
    """``eta * dist(target, I)``, the exponent in a place's weight, for each node.

    The target ``lo + q (hi - lo)`` is exact, ticks and a remainder in [0, 1): a rounded one would
    move by a rounding error even for records of no weight in the node.
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
        # Then one tick already leads down to the floor: a larger eta would change nothing.
        eta = np.minimum(eta, FLOOR_BITS * LN2)
        return cls(eta=eta, target=target, remainder=rest / Q_STEPS)

    def of_interval(self, low, high, rows=np.s_[:, None]):
        """Return the score of the ranks from `low` to `high`, of all nodes or those of `rows`."""
        target = self.target[rows]
        remainder = self.remainder[rows]

        beyond = (low - target) - remainder
        short = (target - high) + remainder
        return self.eta[rows] * np.maximum(np.maximum(beyond, short), 0.0)


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Ranges of places ``[cuts[j], cuts[j + 1])`` with one density and bounds of their ranks."""

    cuts: np.ndarray  # (n_nodes, n_runs + 1)
    measures: np.ndarray  # (n_nodes, n_runs): their base measures
    low_ranks: np.ndarray  # (n_nodes, n_runs): no place of the run begins at a lower rank
    high_ranks: np.ndarray  # (n_nodes, n_runs): nor ends at a higher one
    rings: np.ndarray | None  # (n_nodes, n_runs): those of a `RingMeasure`


def draw(ranks, nodes, randomness):
    """Draw a place in each node by the exponential mechanism; return positions and their ranks.

    A place is proposed with a probability proportional to its bound, and kept with probability
    weight / bound: so it comes out with a probability proportional to its weight.

    Privacy
    -------
    Neighbours differ in one record. Its ramp g in [0, 1] is added to all ranks; with
    ``w = g(hi) - g(lo)``, a rank of the node less the target changes by something in
    [-q w, (1 - q) w]. The distance is a maximum of such differences, so it has sensitivity
    ``w * max(q, 1 - q)``. (A place may stick out of the node. The target does not, so cutting the
    place off at the node's ends changes no score.) The logarithm of a weight has the same
    sensitivity: the base measure and 2^-96 do not depend on the data. With
    ``eta = eps / (2 max(q, 1 - q))`` the draw costs this record ``w * eps`` (McSherry, Talwar
    2007), and is w * eps bounded-range (Durfee, Rogers 2019).

    What that rests on: `lo_rank` and `hi_rank` are the ranks at the node's ends, of which each is
    an end of the column or the middle of a place drawn before; the base measure covers all cells
    of the node, and depends on no record but through cells drawn before.
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
        # The first of several proposals that is kept counts.
        n_proposals = proposals_each(left.size, _PROPOSALS_AT_ONCE, _MOST_PROPOSALS)
        rows = np.repeat(left, n_proposals)
        run = chosen(order, shares, n_proposals, randomness)
        start, end = runs.cuts[rows, [run, run + 1]]
        per_cell = nodes.places_per_cell[rows]
        proposed = draw_by_measure(start, end, per_cell, grid, nodes.column[rows], randomness)

        low, high = rank_intervals(ranks, nodes, rows, proposed)
        chances = chances_to_keep(least_scores[rows, run], scores.of_interval(low, high, rows))
        is_kept = kept_by_chance(chances, randomness).reshape(left.size, n_proposals)

        is_found = is_kept.any(axis=1)
        first = n_proposals * is_found.nonzero()[0] + is_kept.argmax(axis=1)[is_found]
        places[left[is_found]] = proposed[first]
        # The middle moves with the ranks around it. The target would not: docs/privacy.md, A trap.
        split_ranks[left[is_found]] = (low + (high - low) // 2)[first]
        left = left[~is_found]
        order = order[~is_found]
        shares = shares[~is_found]

    return grid.positions_per_cell // nodes.places_per_cell * places, split_ranks


def run_bounds(scores, runs):
    """Return the least score of each run, and the sum of its bounds; both (n_nodes, n_runs)."""
    least_scores = scores.of_interval(runs.low_ranks, runs.high_ranks)
    return least_scores, runs.measures * (np.exp(-least_scores) + FLOOR)


def chances_to_keep(least_scores, scores):
    """Return weight / bound for places with these scores, from runs with these least scores."""
    return (np.exp(-scores) + FLOOR) / (np.exp(-least_scores) + FLOOR)


def kept_by_chance(chances, randomness):
    """Return whether each proposal is kept, which has this probability.

    A chance above 1 would silently distort the distribution. It means that a bound is no bound:
    ranks that were looked up disagree with those of the places. That is an error of this package,
    whatever the data are, so nothing may be released.
    """
    if np.any(chances > _MOST_CHANCE):
        raise RuntimeError(
            "internal error of dpq_sklearn: ranks of the same column disagree, so nothing was "
            "released. Please report it with the version and the parameters, but without data."
        )
    return randomness.uniforms(chances.size) < chances


def rank_intervals(ranks, nodes, rows, places):
    """Return the ranks at the two edges of each place, which lies in the node of that row."""
    per_cell = nodes.places_per_cell[rows]
    cells, subs = np.divmod(places, per_cell)
    before, after = ranks.weights_below(nodes.column[rows], np.array((cells, cells + 1)))
    return _ranks_at_edges(before, after, subs, per_cell, ranks.grid.positions_per_cell)


def _ranks_at_edges(before, after, subs, per_cell, ticks_per_weight):
    """Return the ranks at the edges of place `subs` of a cell: its weight is spread evenly."""
    of_place = (after - before) * (ticks_per_weight // per_cell)
    low = ticks_per_weight * before + of_place * subs
    return low, low + of_place


def node_runs(ranks, nodes, scores, look_ups):
    """Return the runs of each node, which its look-ups and the segments of its base measure cut.

    A node has ``n_look_ups - 1 + n_segments - 1`` runs, many of them empty.
    """
    measure = nodes.measure
    per_cell = nodes.places_per_cell[:, None]
    look_up_cuts, cut_ranks = _cuts_of_look_ups(ranks, nodes, scores, look_ups)
    measure_before = _measure_before(ranks.grid, look_up_cuts, per_cell, nodes.column[:, None])

    # A node may begin or end inside a cell. Segments consist of whole cells, so they are clipped.
    cuts = _append_clipped(look_up_cuts, per_cell * measure.cuts[:, 1:-1])
    before = _append_clipped(measure_before, per_cell * measure.before[:, 1:-1])
    order = cuts.argsort(axis=1, kind="stable")
    before = taken_by_node(before, order)

    look_up, segment = _look_ups_and_segments(order, n_look_ups=look_up_cuts.shape[1])
    has_rings = isinstance(measure, RingMeasure)
    return Runs(
        cuts=taken_by_node(cuts, order),
        measures=(before[:, 1:] - before[:, :-1]) * taken_by_node(measure.densities, segment),
        low_ranks=taken_by_node(cut_ranks, look_up),
        high_ranks=taken_by_node(cut_ranks, look_up + 1),
        rings=taken_by_node(measure.rings, segment) if has_rings else None,
    )


def _look_ups_and_segments(order, n_look_ups):
    """Return the last look-up at or before each run, and the segment that contains the run.

    `order` sorts the cuts of each node, of which the first `n_look_ups` are look-ups and the others
    begin segments. All arrays have a row for each node.
    """
    n_before = (order < n_look_ups).cumsum(axis=1)[:, :-1]
    look_up = np.minimum(n_before - 1, n_look_ups - 2)
    segment = np.arange(1, order.shape[1]) - n_before
    return look_up, segment


def taken_by_node(array, index):
    """Return ``array[i, index[i, j]]`` for all i and j."""
    n_nodes, length = array.shape
    return array.ravel().take(index + length * np.arange(n_nodes)[:, None])


def _append_clipped(of_look_ups, of_segments):
    """Return both side by side, the second clipped to the first and the last of the first."""
    first = of_look_ups[:, :1]
    last = of_look_ups[:, -1:]
    inside = np.maximum(np.minimum(of_segments, last), first)
    return np.concatenate((of_look_ups, inside), axis=1)


def _cuts_of_look_ups(ranks, nodes, scores, look_ups):
    """Return ascending places that cut the nodes, and the ranks at their lower edges.

    The cuts are the two ends of each node, and the two ends of each place that holds a looked-up
    rank. Both arrays are (n_nodes, 2 + 2 * n_ranks).
    """
    wanted = _ranks_to_look_up(nodes, scores, look_ups)
    places, low, high = _places_at_ranks(ranks, nodes, wanted)

    positions_per_place = ranks.grid.positions_per_cell // nodes.places_per_cell
    start = nodes.lo // positions_per_place
    end = nodes.hi // positions_per_place + 1

    # Several look-ups may fall on one place, and a place may stick out of its node. Such cuts make
    # empty runs: cuts and ranks are clipped in the same way.
    cuts = _in_turns(start, places, places + 1, end)
    cuts = np.minimum(np.maximum(cuts, start[:, None]), end[:, None])
    cut_ranks = _in_turns(nodes.lo_rank, low, high, nodes.hi_rank)
    return np.maximum.accumulate(cuts, axis=1), np.maximum.accumulate(cut_ranks, axis=1)


def _places_at_ranks(ranks, nodes, wanted):
    """Return the places that hold these ranks, and the ranks at their edges: (n_nodes, n_ranks)."""
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
    """Return ascending ranks around the target of each node, in ticks: (n_nodes, n_ranks)."""
    target = scores.target[:, None]
    offsets = np.minimum(np.abs(look_ups) / scores.eta[:, None], 2.0**62).astype(np.int64)
    wanted = np.where(
        look_ups < 0,
        target - np.minimum(offsets, target - nodes.lo_rank[:, None]),
        target + np.minimum(offsets, nodes.hi_rank[:, None] - target),
    )

    # Look-ups that repeat the one before in all nodes are left out: narrow nodes have many.
    is_new = np.ones(wanted.shape[1], dtype=bool)
    is_new[1:] = (wanted[:, 1:] != wanted[:, :-1]).any(axis=0)
    return wanted[:, is_new]


def _in_turns(first, odd, even, last):
    """Return ``first, odd[0], even[0], odd[1], even[1], ..., last`` for each node.

    `first` and `last` are (n_nodes,), the other two (n_nodes, n).
    """
    together = np.empty((len(odd), 2 * odd.shape[1] + 2), dtype=np.int64)
    together[:, 0] = first
    together[:, 1:-1:2] = odd
    together[:, 2:-1:2] = even
    together[:, -1] = last
    return together


def _measure_before(grid, places, per_cell, columns):
    """Return the grid measure before each place: that of a cell counts for each of its places."""
    cells = places // per_cell
    subs = places - per_cell * cells
    if not subs.any():
        return per_cell * grid.measure_before(cells, columns)

    before, after = grid.measure_before(np.array((cells, cells + 1)), columns)
    return per_cell * before + subs * (after - before)


def ascending_shares(weights):
    """Return the order of the weights in each row, and the share of all up to each of them.

    The first share above a uniform number belongs to index i with probability
    ``weights[i] / weights.sum()``. The smallest weights come first, so that each is a sizeable part
    of its sum and improbable outcomes are as accurate as probable ones.
    """
    order = weights.argsort(axis=1, kind="stable")
    sums = taken_by_node(weights, order).cumsum(axis=1)
    return order, sums / sums[:, -1:]


def proposals_each(n_left, at_once, most):
    """Return the number of proposals for each of `n_left` nodes. A few more take little time."""
    return min(max(at_once // n_left, 1), most)


def chosen(order, shares, n_times, randomness):
    """Return so many indices for each row of `ascending_shares`, one after another."""
    uniforms = randomness.uniforms(n_times * len(order)).reshape(-1, n_times, 1)
    n_passed = (shares[:, None, :] <= uniforms).sum(axis=2)
    return np.take_along_axis(order, n_passed, axis=1).ravel()


def draw_by_measure(start, end, per_cell, grid, columns, randomness):
    """Draw a place of each range ``[start, end)`` in proportion to the grid measure.

    All arrays have the shape (n,). No range is empty.
    """
    first = start // per_cell
    last = (end - 1) // per_cell
    before_first, after_first, before_last, after_last = grid.measure_before(
        np.array((first, first + 1, last, last + 1)), columns
    )

    # The units of measure 0, 1, ... belong to the places of the first cell, then to those of the
    # last cell if it is another one, then to those of all cells between.
    of_first = after_first - before_first
    of_last = after_last - before_last
    units_of_first = of_first * (np.minimum(end, (first + 1) * per_cell) - start)
    units_of_last = of_last * np.where(last > first, end - last * per_cell, 0)
    units_between = per_cell * np.maximum(before_last - after_first, 0)
    ends = np.cumsum((units_of_first, units_of_last, units_between), axis=0)

    # A search for the unit among the ends of these three stretches.
    unit = randomness.integers_below(ends[-1])
    stretch = (ends[:-1] <= unit).sum(axis=0)
    unit -= np.choose(stretch, (0, ends[0], ends[1]))

    places = np.where(stretch == 0, start + unit // of_first, last * per_cell + unit // of_last)
    between = np.flatnonzero(stretch == 2)
    if between.size:
        units_of_cells, subs = np.divmod(unit[between], per_cell[between])
        cells = grid.cells_at(first[between] + 1, last[between], units_of_cells, columns[between])
        places[between] = cells * per_cell[between] + subs
    return places
