"""The exponential mechanism for two quantiles at once: distances, bounds, the draws.

A *pair node* asks for two quantiles q1 < q2 of its range. They divide its weight into three parts,
of which they want the shares p = (q1, q2 - q1, 1 - q2). Places v1 <= v2 divide it into n1, n2, n3.
The *distance* of these places is how much weight must come or go until they are exact,

    D = min over M of sum_j |n_j - p_j M|,

and they are drawn with probability proportional to
``measure(v1) * measure(v2) * affinity(v1, v2) * (exp(-eta * D) + 2^-192)`` with eta = eps / 2. (In
the same sense a single quantile has the distance ``|F(v) - r| / max(q, 1 - q)``, and is drawn with
this eta.) The first three factors are the base measure of the pair. The affinity says that one
quantile tells the scale of the other: places at very different distances from a released value are
unlikely.

With the errors a = F(v1) - r1 and b = F(v2) - r2, the parts are off by c = (a, b - a, -b). By
duality D is the largest ``sum_j u_j c_j`` over all u in [-1, 1]^3 with ``sum_j p_j u_j = 0``: a
maximum of a few linear functions of a and b. As a place covers an interval of ranks, two of them
cover a box of errors, and their distance is the least one in it.

To draw, each of the two quantiles cuts the node into runs of its own (`exponential.node_runs`). D
is at least a slope times |a| + |b|, which bounds the weight of two places by a product. First the
two runs are chosen apart, each by its factor of this bound. They are kept with the probability that
the distance of the box of both runs leaves of it; then a place in each is drawn by grid measure,
and kept for the distance of the places. Few data need more than a few rounds of that. For those
that do, a run of v2 is chosen beside a run of v1, by the distance of the box of both, and what is
turned down makes the bound of that run of v1 better.

Arrays of (2 * n_pairs,) or more have a row for each quantile: all lower ones, then all upper ones.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpq_sklearn.engine.exponential import (
    FLOOR,
    FLOOR_BITS,
    Q_STEPS,
    Scores,
    ascending_shares,
    chosen,
    draw_by_measure,
    kept_by_chance,
    node_runs,
    proposals_each,
    rank_intervals,
)
from dpq_sklearn.engine.random import LN2
from dpq_sklearn.engine.ranks import RECORD_WEIGHT

# Two places have to be found, so the floor and how far away ranks are looked up go twice as far.
PAIR_FLOOR = FLOOR**2
# The affinity of two places by how many rings (octaves) they are apart: from the second one on,
# each has a sixteenth of the one before. Powers of two are exact.
_AFFINITIES = np.exp2([0, -1, -4, -8, -12, -16, -20, -24])
LEAST_AFFINITY = _AFFINITIES[-1]
# As in `exponential`.
_AHEAD = np.array([0.3, 0.8, 1.4, 2.2, 3.5, 5.5, 8.5, 13, 20, 30, 45, 72])
_LOOK_UPS = np.concatenate((-_AHEAD[::-1], [0.0], _AHEAD))
# When the runs of a pair are chosen apart: a quarter of the proposals is kept if data are plenty.
_ROUNDS_APART = 4
_APART_AT_ONCE = 512
_MOST_APART = 20
# When one is chosen beside the other. Many more ranks are looked up, so densely that no data make
# very many rounds.
_DENSE_LOOK_UPS = np.arange(-72.0, 72.1, 0.75)
_TOGETHER_AT_ONCE = 256
_MOST_TOGETHER = 4


@dataclass(frozen=True, kw_only=True)
class PairScores:
    """``eta * D``, the exponent in the weight of a pair of places, for each pair node."""

    eta: np.ndarray  # (n_pairs,)
    slopes: "DistanceSlopes"
    least_slope: np.ndarray  # (n_pairs,): D is at least that times |a| + |b|
    targets: Scores  # those of the two quantiles, each on its own: (2 * n_pairs,)

    @classmethod
    def of(cls, nodes, positions_per_cell):
        """Return the scores of pair nodes."""
        n_pairs = nodes.lo.size // 2
        q1, q2 = (np.rint(nodes.q * Q_STEPS) / Q_STEPS).reshape(2, n_pairs)
        eta = nodes.eps[:n_pairs] / 2 / (RECORD_WEIGHT * positions_per_cell)
        return cls(
            eta=np.minimum(eta, 2 * FLOOR_BITS * LN2),
            slopes=distance_slopes(q1, q2),
            # At the corners of the polygon D = 1, which are those of one record in one part, it
            # must be at most 1.
            least_slope=1 / np.maximum(np.maximum(2 - q1 - q2, q1 + q2), 1 - (q2 - q1)),
            targets=Scores.of(nodes, positions_per_cell),
        )

    def errors(self, low, high, rows):
        """Return how far the ranks `low` and `high` are beyond the targets of these rows."""
        target = self.targets.target[rows]
        remainder = self.targets.remainder[rows]
        return np.array(((low - target) - remainder, (high - target) - remainder))

    def of_boxes(self, a, b, pairs):
        """Return the least score with errors from a[0] to a[1] and from b[0] to b[1].

        All steps are monotone, also in floating point: a box inside another box has no lower score.
        """
        a_low, a_high = a
        b_low, b_high = b
        slopes = self.slopes.of_pairs(pairs)
        up_down = slopes.up_down
        up_up = slopes.up_up
        down_up = slopes.down_up

        # A linear function is least at the corner where an error is low if the function rises with
        # it, and high if it falls. It is greatest at the opposite corner.
        least_and_greatest = (
            (slopes.a_alone * a_low, slopes.a_alone * a_high),
            (slopes.b_alone * b_low, slopes.b_alone * b_high),
            (up_down.at(a_low, b_high), up_down.at(a_high, b_low)),
            (up_up.at(a_low, b_low), up_up.at(a_high, b_high)),
            (down_up.at(a_high, b_low), down_up.at(a_low, b_high)),
        )
        distance = 0.0
        for least, greatest in least_and_greatest:
            distance = np.maximum(distance, np.maximum(least, -greatest))

        return self.eta[pairs] * distance


class Line(NamedTuple):
    """A linear function of the errors a and b, by its slopes: arrays (n_pairs,)."""

    a: np.ndarray
    b: np.ndarray

    def at(self, a, b):
        """Return its value at these errors."""
        return self.a * a + self.b * b


@dataclass(frozen=True, kw_only=True)
class DistanceSlopes:
    """Five linear functions of the errors. D is the largest of them and of their opposites.

    The last two matter only for the least distance in a box.
    """

    up_down: Line  # rises with a and falls with b
    up_up: Line  # rises with both
    down_up: Line  # falls with a and rises with b
    a_alone: np.ndarray  # (n_pairs,), the slope in a of a function of a
    b_alone: np.ndarray  # (n_pairs,)

    def of_pairs(self, pairs):
        """Return the functions of these pairs."""
        return DistanceSlopes(
            up_down=Line(self.up_down.a[pairs], self.up_down.b[pairs]),
            up_up=Line(self.up_up.a[pairs], self.up_up.b[pairs]),
            down_up=Line(self.down_up.a[pairs], self.down_up.b[pairs]),
            a_alone=self.a_alone[pairs],
            b_alone=self.b_alone[pairs],
        )


def distance_slopes(q1, q2):
    """Return the `DistanceSlopes` of pairs of probabilities; arrays (n_pairs,).

    What privacy rests on: every function is ``sum_j u_j c_j`` for a u in [-1, 1]^3 with
    ``sum_j p_j u_j = 0`` (`_corner`).
    """
    shares = np.array((q1, q2 - q1, 1 - q2))
    return DistanceSlopes(
        up_down=_corner(shares, rising=0, falling=1, third=2),
        up_up=_corner(shares, rising=0, falling=2, third=1),
        down_up=_corner(shares, rising=1, falling=2, third=0),
        a_alone=1 / np.maximum(q1, 1 - q1),
        b_alone=1 / np.maximum(q2, 1 - q2),
    )


def _corner(shares, *, rising, falling, third):
    """Return ``sum_j u_j c_j`` at a corner of the polygon of all u, as a function of a and b.

    One entry of u is 1 and another one -1, so the third follows from ``sum_j p_j u_j = 0``. If it
    is not in [-1, 1], it is set to the nearer end, and the entry of the largest share follows.
    """
    u = np.empty_like(shares)
    u[rising] = 1.0
    u[falling] = -1.0
    of_third = (shares[falling] - shares[rising]) / np.maximum(shares[third], 1 / Q_STEPS)
    u[third] = np.clip(of_third, -1.0, 1.0)

    largest = shares.argmax(axis=0), np.arange(shares.shape[1])
    u[largest] = 0.0
    u[largest] = -(shares * u).sum(axis=0) / shares[largest]
    return Line(a=u[0] - u[1], b=u[1] - u[2])


def draw(ranks, nodes, randomness):
    """Draw two places v1 <= v2 in each pair node; return positions and their ranks.

    Both rows of a pair must have the same range, eps and kind of places; q1 < q2.

    Privacy
    -------
    Neighbours differ in one record. With w the weight that it has in the node, it adds to n1, n2
    and n3 weights that sum to w, wherever in their places v1 <= v2 are. So every sum |n_j - p_j M|
    changes by at most w, and so does the least of them over all M and over all that the places
    cover. (Places may stick out of the node, or both be one cell. The least distance is where the
    three parts are not negative: docs/privacy.md.) With eta = eps / 2 the draw costs this record
    ``w * eps`` and is w * eps bounded-range, like one of `exponential.draw`.
    """
    found = _Found.nothing(nodes)
    _Proposals(ranks, nodes, _LOOK_UPS, randomness).of_runs_apart(found)

    left = np.concatenate((found.left, nodes.lo.size // 2 + found.left))
    if left.size:
        rest = _Found.nothing(nodes[left])
        _Proposals(ranks, nodes[left], _DENSE_LOOK_UPS, randomness).of_runs_together(rest)
        found.places[left] = rest.places
        found.split_ranks[left] = rest.split_ranks

    positions_per_place = ranks.grid.positions_per_cell // nodes.places_per_cell
    return positions_per_place * found.places, found.split_ranks


@dataclass(kw_only=True)
class _Found:
    """The places drawn so far, and the pairs that are left.

    Both kinds of proposals may fill it: a pair of places that is kept has a probability
    proportional to its weight, regardless of the proposals that were rejected before.
    """

    places: np.ndarray  # (2 * n_pairs,)
    split_ranks: np.ndarray  # (2 * n_pairs,)
    left: np.ndarray  # pairs, ascending

    @classmethod
    def nothing(cls, nodes):
        """Return an empty result: all pairs are left."""
        return cls(
            places=np.empty_like(nodes.lo),
            split_ranks=np.empty_like(nodes.lo),
            left=np.arange(nodes.lo.size // 2),
        )

    def keep(self, pairs, places, split_ranks):
        """Keep the first proposal of each of these ascending `pairs`, some of which may repeat.

        The other arrays have a row for v1 and one for v2.
        """
        pairs, first = np.unique(pairs, return_index=True)
        rows = np.array((pairs, self.places.size // 2 + pairs))
        self.places[rows] = places[:, first]
        self.split_ranks[rows] = split_ranks[:, first]
        self.left = np.setdiff1d(self.left, pairs, assume_unique=True)


class _Proposals:
    """Proposals of places for pairs: two ways to choose runs, and one to choose places in them."""

    def __init__(self, ranks, nodes, look_ups, randomness):
        self.ranks = ranks
        self.nodes = nodes
        self.randomness = randomness
        self.n_pairs = nodes.lo.size // 2
        self.scores = PairScores.of(nodes, ranks.grid.positions_per_cell)
        self.runs = node_runs(ranks, nodes, self.scores.targets, look_ups)
        self.errors = self.scores.errors(self.runs.low_ranks, self.runs.high_ranks, np.s_[:, None])

    def of_runs_apart(self, found):
        """Propose a few times: each run is chosen by its factor of a bound of their weight."""
        factors = factors_of_runs(self.scores, self.errors)
        order, shares = ascending_shares(self.runs.measures * factors)

        for _ in range(_ROUNDS_APART):
            left = found.left
            if left.size == 0:
                return
            n_proposals = proposals_each(left.size, _APART_AT_ONCE, _MOST_APART)
            pairs = np.repeat(left, n_proposals)
            rows = np.concatenate((left, self.n_pairs + left))
            run = chosen(order[rows], shares[rows], n_proposals, self.randomness)
            lower, upper = run.reshape(2, -1)

            least_scores = self._least_scores(pairs, lower, upper)
            bounds = factors[pairs, lower] * factors[self.n_pairs + pairs, upper]
            chances = (np.exp(-least_scores) + PAIR_FLOOR) / bounds
            chances *= affinity(self.runs, pairs, lower, self.n_pairs + pairs, upper)
            chances[self._is_below(pairs, upper, lower)] = 0.0
            self._place(found, pairs, lower, upper, least_scores, chances)

    def of_runs_together(self, found):
        """Propose until no pair is left: a run of v2 is chosen beside that of v1."""
        measures = self.runs.measures
        bounds = bounds_of_lower_runs(self.scores, measures, self.errors, self.runs.rings)

        while found.left.size:
            n_proposals = proposals_each(found.left.size, _TOGETHER_AT_ONCE, _MOST_TOGETHER)
            pairs = np.repeat(found.left, n_proposals)
            order, shares = ascending_shares(bounds[found.left])
            lower = chosen(order, shares, n_proposals, self.randomness)
            box_scores, weights = weights_of_upper_runs(
                self.scores, self.runs, self.errors, pairs, lower
            )
            upper = chosen(*ascending_shares(weights), 1, self.randomness)

            # All that the run of v1 may weigh is known by now: a better bound for the next round.
            known = measures[pairs, lower] * weights.sum(axis=1)
            chances = known / bounds[pairs, lower]
            bounds[pairs, lower] = known
            least_scores = box_scores[np.arange(pairs.size), upper]
            self._place(found, pairs, lower, upper, least_scores, chances)

    def _least_scores(self, pairs, lower, upper):
        """Return the score of the box of two runs."""
        a = self.errors[:, pairs, lower]
        b = self.errors[:, self.n_pairs + pairs, upper]
        return self.scores.of_boxes(a, b, pairs)

    def _is_below(self, pairs, upper, lower):
        """Return whether the run of v2 ends before that of v1 begins."""
        cuts = self.runs.cuts
        return cuts[self.n_pairs + pairs, upper + 1] <= cuts[pairs, lower]

    def _place(self, found, pairs, lower, upper, least_scores, chances):
        """Keep proposed runs with these chances, and draw places in those that are kept."""
        is_kept = kept_by_chance(chances, self.randomness)
        if is_kept.any():
            run = np.concatenate((lower[is_kept], upper[is_kept]))
            self._place_in_runs(found, pairs[is_kept], run, least_scores[is_kept])

    def _place_in_runs(self, found, pairs, run, least_scores):
        """Draw places in runs by grid measure, and keep them with probability weight / bound.

        `run` has the runs of v1 of all pairs, then those of v2.
        """
        rows = np.concatenate((pairs, self.n_pairs + pairs))
        start, end = self.runs.cuts[rows, [run, run + 1]]
        per_cell = self.nodes.places_per_cell[rows]
        columns = self.nodes.column[rows]
        places = draw_by_measure(start, end, per_cell, self.ranks.grid, columns, self.randomness)

        low, high = rank_intervals(self.ranks, self.nodes, rows, places)
        a, b = np.split(self.scores.errors(low, high, rows), 2, axis=1)
        chances = chances_to_keep(least_scores, self.scores.of_boxes(a, b, pairs))

        places = places.reshape(2, -1)
        middles = (low + (high - low) // 2).reshape(2, -1)
        is_kept = kept_by_chance(chances, self.randomness) & (places[0] <= places[1])
        found.keep(pairs[is_kept], places[:, is_kept], middles[:, is_kept])


def affinity(runs, lower_rows, lower, upper_rows, upper):
    """Return the affinity of the places of two runs of a pair: at most 1, at least 2^-24.

    It depends on the base measures of the pair alone.
    """
    if runs.rings is None:
        return 1.0
    return affinity_of_rings(runs.rings[lower_rows, lower], runs.rings[upper_rows, upper])


def affinity_of_rings(one, other):
    """Return the affinity of places in these rings. Ring 0 says nothing about the other place."""
    n_apart = np.minimum(np.abs(one - other), _AFFINITIES.size - 1)
    return np.where((one == 0) | (other == 0), 1.0, _AFFINITIES[n_apart])


def factors_of_runs(scores, errors):
    """Return factors of runs (2 * n_pairs, n_runs), whose products bound what places weigh.

    As D is at least ``least_slope * (|a| + |b|)``, the weights are at most those of two draws that
    do not look at each other. Base measures are left out.
    """
    rates = np.tile(scores.eta * scores.least_slope, 2)[:, None]
    distances = np.maximum(np.maximum(errors[0], -errors[1]), 0.0)
    return np.exp(-rates * distances) + FLOOR


def bounds_of_lower_runs(scores, measures, errors, rings=None):
    """Return bounds on the weight of all places whose v1 is in a run: (n_pairs, n_runs).

    `rings` are those of the runs, if there are any: then the bounds know of affinities.
    """
    n_pairs = scores.eta.size
    alone = measures * factors_of_runs(scores, errors)
    lower, upper = alone[:n_pairs], alone[n_pairs:]
    if rings is None:
        return lower * upper.sum(axis=1, keepdims=True)

    every = np.arange(n_pairs)[:, None]
    n_rings = rings.max() + 1
    of_rings = np.zeros((n_pairs, n_rings))
    np.add.at(of_rings, (every, rings[n_pairs:]), upper)

    ring = np.arange(n_rings)
    beside_rings = of_rings @ affinity_of_rings(ring[:, None], ring)
    return lower * beside_rings[every, rings[:n_pairs]] * (1 + 1e-12)


def weights_of_upper_runs(scores, runs, errors, pairs, lower):
    """Return the least scores and the bounds of all runs of v2, beside the run `lower` of v1.

    The arrays are (n_proposals, n_runs). Runs that end before the other one begins weigh nothing.
    """
    rows = scores.eta.size + pairs
    a = errors[:, pairs, lower][:, :, None]
    box_scores = scores.of_boxes(a, errors[:, rows], pairs[:, None])
    weights = runs.measures[rows] * (np.exp(-box_scores) + PAIR_FLOOR)
    every = np.arange(weights.shape[1])
    weights *= affinity(runs, pairs[:, None], lower[:, None], rows[:, None], every)
    weights[runs.cuts[rows, 1:] <= runs.cuts[pairs, lower][:, None]] = 0.0
    return box_scores, weights


def chances_to_keep(least_scores, scores):
    """Return weight / bound for pairs of places from pairs of runs with these least scores."""
    return (np.exp(-scores) + PAIR_FLOOR) / (np.exp(-least_scores) + PAIR_FLOOR)
