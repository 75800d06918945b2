"""The exponential mechanism for two quantiles at once.

A *pair node* draws two quantiles q1 < q2 of its range. They should divide the weight of the node
into three ranges with the shares p = (q1, q2 - q1, 1 - q2). Two places v1 <= v2 divide it into
ranges with the weights n1, n2, n3. The *distance* of these places from the quantiles is the weight
that must be added or removed until they are exact:

    D = min over M of sum_j |n_j - p_j M|.

The probability of two places is proportional to
``measure(v1) * measure(v2) * affinity(v1, v2) * (exp(-eta * D) + 2^-192)`` with eta = eps / 2. (In
the same sense a single quantile has the distance ``|F(v) - r| / max(q, 1 - q)``, and is drawn with
this eta.) The first three factors are the base measure of the pair. The affinity lets each quantile
indicate the scale of the other: places at very different distances from a released value are
unlikely.

With the errors a = F(v1) - r1 and b = F(v2) - r2, the weights of the three ranges are off by
c = (a, b - a, -b). By duality D is the largest ``sum_j u_j c_j`` over all u in [-1, 1]^3 with
``sum_j p_j u_j = 0``, which is a maximum of a few linear functions of a and b. A place covers an
interval of ranks, so two places cover a box of errors. Their distance is the least distance in the
box.

The draw is a rejection sampler. Each of the two quantiles has runs of its own
(`exponential.node_runs`). D is at least a slope times |a| + |b|, so a product of two factors bounds
the weight of two places. The sampler first chooses the two runs independently, each by its factor.
It keeps them with the probability that corrects the bound for the distance of the box of both runs.
Then it draws a place in each run by grid measure, and keeps both with the probability that corrects
for the distance of the places. Most data need few rounds. For the others, the sampler chooses a run
of v1 and then a run of v2 by the distance of the box of both. Each rejection improves the bound of
the run of v1.

Arrays of (2 * n_pairs,) or more have a row for each quantile: first all lower quantiles, then all
upper quantiles.
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
    draw_in_runs,
    kept_by_chance,
    middle_ranks,
    node_runs,
    proposals_each,
)
from dpq_sklearn.engine.random import LN2
from dpq_sklearn.engine.ranks import RECORD_WEIGHT

# Two places have to be found, so the floor is squared, and ranks are looked up twice as far away.
PAIR_FLOOR = FLOOR**2
# The affinity of two places by the distance of their rings (octaves). From a distance of two on,
# each further ring divides it by 16. Powers of two are exact.
_AFFINITIES = np.exp2([0, -1, -4, -8, -12, -16, -20, -24])
LEAST_AFFINITY = _AFFINITIES[-1]
# The distances at which ranks are looked up, as in `exponential`.
_AHEAD = np.array([0.3, 0.8, 1.4, 2.2, 3.5, 5.5, 8.5, 13, 20, 30, 45, 72])
_LOOK_UPS = np.concatenate((-_AHEAD[::-1], [0.0], _AHEAD))
# If the runs of a pair are chosen independently, a quarter of the proposals is kept on large data.
_INDEPENDENT_ROUNDS = 4
_INDEPENDENT_AT_ONCE = 512
_MOST_INDEPENDENT = 20
# If a run of v2 is chosen after a run of v1, many more ranks are looked up. They are so dense that
# the number of rounds is small for all data.
_DENSE_LOOK_UPS = np.arange(-72.0, 72.1, 0.75)
_DEPENDENT_AT_ONCE = 256
_MOST_DEPENDENT = 4


@dataclass(frozen=True, kw_only=True)
class PairScores:
    """The scores ``eta * D`` of pairs of places, which are the exponents of their weights."""

    eta: np.ndarray  # (n_pairs,)
    slopes: "DistanceSlopes"
    least_slope: np.ndarray  # (n_pairs,): D is at least this slope times |a| + |b|
    targets: Scores  # (2 * n_pairs,): the scores of each quantile alone

    @classmethod
    def of(cls, nodes, positions_per_cell):
        """Return the scores of pair nodes."""
        n_pairs = nodes.lo.size // 2
        q1, q2 = (np.rint(nodes.q * Q_STEPS) / Q_STEPS).reshape(2, n_pairs)
        eta = nodes.eps[:n_pairs] / 2 / (RECORD_WEIGHT * positions_per_cell)
        return cls(
            eta=np.minimum(eta, 2 * FLOOR_BITS * LN2),
            slopes=distance_slopes(q1, q2),
            # The lower bound must be at most 1 at the corners of the polygon D = 1, where one
            # record is in one of the three ranges.
            least_slope=1 / np.maximum(np.maximum(2 - q1 - q2, q1 + q2), 1 - (q2 - q1)),
            targets=Scores.of(nodes, positions_per_cell),
        )

    def errors(self, low, high, rows):
        """Return the errors of the ranks `low` and `high`: their distances from the targets."""
        target = self.targets.target[rows]
        remainder = self.targets.remainder[rows]
        return np.array(((low - target) - remainder, (high - target) - remainder))

    def of_boxes(self, a, b, pairs):
        """Return the least score in boxes of errors from a[0] to a[1] and from b[0] to b[1].

        All steps are monotone in floating point, too, so the score of a box is at least the score
        of a box that contains it.
        """
        a_low, a_high = a
        b_low, b_high = b
        slopes = self.slopes.of_pairs(pairs)
        up_down = slopes.up_down
        up_up = slopes.up_up
        down_up = slopes.down_up

        # A linear function has its minimum at a corner of the box: at the low end of each error
        # with which it rises, and at the high end of each error with which it falls. It has its
        # maximum at the opposite corner.
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
    """Linear functions of the errors a and b, given by their slopes; arrays (n_pairs,)."""

    a: np.ndarray
    b: np.ndarray

    def at(self, a, b):
        """Return the values at these errors."""
        return self.a * a + self.b * b


@dataclass(frozen=True, kw_only=True)
class DistanceSlopes:
    """Five linear functions of the errors. D is the maximum of these functions and their negatives.

    The last two matter only for the least distance in a box.
    """

    up_down: Line  # rises with a and falls with b
    up_up: Line  # rises with both
    down_up: Line  # falls with a and rises with b
    a_alone: np.ndarray  # (n_pairs,), the slope of a function of a alone
    b_alone: np.ndarray  # (n_pairs,), the slope of a function of b alone

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

    The privacy proof requires that every function is ``sum_j u_j c_j`` for a u in [-1, 1]^3 with
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

    The entry `rising` of u is 1 and the entry `falling` is -1, so ``sum_j p_j u_j = 0`` determines
    the third entry. If that is not in [-1, 1], it is clipped, and the entry of the largest share is
    computed from the other two.
    """
    u = np.empty_like(shares)
    u[rising] = 1.0
    u[falling] = -1.0
    exact = (shares[falling] - shares[rising]) / np.maximum(shares[third], 1 / Q_STEPS)
    u[third] = np.clip(exact, -1.0, 1.0)

    largest = shares.argmax(axis=0), np.arange(shares.shape[1])
    u[largest] = 0.0
    u[largest] = -(shares * u).sum(axis=0) / shares[largest]
    return Line(a=u[0] - u[1], b=u[1] - u[2])


def draw(ranks, nodes, randomness):
    """Draw two places v1 <= v2 in each pair node; return positions and their ranks.

    Both rows of a pair must have the same range, eps and kind of places; q1 < q2.

    Privacy
    -------
    Neighbours differ in one record. If the record has the weight w in the node, it adds weights to
    n1, n2 and n3 that sum to w, wherever in their places v1 <= v2 are. So every sum |n_j - p_j M|
    changes by at most w, and so does its minimum over all M and over the box of the places. (Places
    may extend beyond the node, and both may be the same cell. At the least distance the weights of
    the three ranges are not negative: docs/privacy.md.) With eta = eps / 2 the draw costs this
    record ``w * eps`` and is w * eps bounded-range, like a draw of `exponential.draw`.
    """
    found = _Found.nothing(nodes)
    _Proposals(ranks, nodes, _LOOK_UPS, randomness).with_independent_runs(found)

    left = np.concatenate((found.left, nodes.lo.size // 2 + found.left))
    if left.size:
        rest = _Found.nothing(nodes[left])
        _Proposals(ranks, nodes[left], _DENSE_LOOK_UPS, randomness).with_dependent_runs(rest)
        found.places[left] = rest.places
        found.split_ranks[left] = rest.split_ranks

    positions_per_place = ranks.grid.positions_per_cell // nodes.places_per_cell
    return positions_per_place * found.places, found.split_ranks


@dataclass(kw_only=True)
class _Found:
    """The places drawn so far, and the pairs that are left.

    Both kinds of proposals may add places. A pair of places that is kept has a probability
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
        """Keep the first proposal for each pair. `pairs` ascend, and may repeat.

        The other arrays have a row for v1 and a row for v2.
        """
        pairs, first = np.unique(pairs, return_index=True)
        rows = np.array((pairs, self.places.size // 2 + pairs))
        self.places[rows] = places[:, first]
        self.split_ranks[rows] = split_ranks[:, first]
        self.left = np.setdiff1d(self.left, pairs, assume_unique=True)


class _Proposals:
    """Proposals of places for pair nodes, with independent or with dependent runs."""

    def __init__(self, ranks, nodes, look_ups, randomness):
        self.ranks = ranks
        self.nodes = nodes
        self.randomness = randomness
        self.n_pairs = nodes.lo.size // 2
        self.scores = PairScores.of(nodes, ranks.grid.positions_per_cell)
        self.runs = node_runs(ranks, nodes, self.scores.targets, look_ups)
        self.errors = self.scores.errors(self.runs.low_ranks, self.runs.high_ranks, np.s_[:, None])

    def with_independent_runs(self, found):
        """Make a few rounds of proposals; each run is chosen by its factor of a bound."""
        factors = factors_of_runs(self.scores, self.errors)
        order, shares = ascending_shares(self.runs.measures * factors)

        for _ in range(_INDEPENDENT_ROUNDS):
            left = found.left
            if left.size == 0:
                return
            n_proposals = proposals_each(left.size, _INDEPENDENT_AT_ONCE, _MOST_INDEPENDENT)
            pairs = np.repeat(left, n_proposals)
            rows = np.concatenate((left, self.n_pairs + left))
            run = chosen(order[rows], shares[rows], n_proposals, self.randomness)
            lower, upper = run.reshape(2, -1)

            least_scores = self._least_scores(pairs, lower, upper)
            bounds = factors[pairs, lower] * factors[self.n_pairs + pairs, upper]
            chances = (np.exp(-least_scores) + PAIR_FLOOR) / bounds
            chances *= affinity(self.runs, pairs, lower, self.n_pairs + pairs, upper)
            chances[self._is_below(pairs, upper, lower)] = 0.0
            self._propose(found, pairs, lower, upper, least_scores, chances)

    def with_dependent_runs(self, found):
        """Make proposals until no pair is left; a run of v2 is chosen given the run of v1."""
        measures = self.runs.measures
        bounds = bounds_of_lower_runs(self.scores, measures, self.errors, self.runs.rings)

        while found.left.size:
            n_proposals = proposals_each(found.left.size, _DEPENDENT_AT_ONCE, _MOST_DEPENDENT)
            pairs = np.repeat(found.left, n_proposals)
            order, shares = ascending_shares(bounds[found.left])
            lower = chosen(order, shares, n_proposals, self.randomness)
            box_scores, weights = weights_of_upper_runs(
                self.scores, self.runs, self.errors, pairs, lower
            )
            upper = chosen(*ascending_shares(weights), 1, self.randomness)

            # The sum over all runs of v2 is a better bound of the run of v1 for the next round.
            better = measures[pairs, lower] * weights.sum(axis=1)
            chances = better / bounds[pairs, lower]
            bounds[pairs, lower] = better
            least_scores = box_scores[np.arange(pairs.size), upper]
            self._propose(found, pairs, lower, upper, least_scores, chances)

    def _least_scores(self, pairs, lower, upper):
        """Return the least scores of pairs of runs."""
        a = self.errors[:, pairs, lower]
        b = self.errors[:, self.n_pairs + pairs, upper]
        return self.scores.of_boxes(a, b, pairs)

    def _is_below(self, pairs, upper, lower):
        """Return whether the run of v2 ends before the run of v1 begins."""
        cuts = self.runs.cuts
        return cuts[self.n_pairs + pairs, upper + 1] <= cuts[pairs, lower]

    def _propose(self, found, pairs, lower, upper, least_scores, chances):
        """Keep proposed runs with the probabilities `chances`, and propose places in them."""
        is_kept = kept_by_chance(chances, self.randomness)
        if is_kept.any():
            runs = np.concatenate((lower[is_kept], upper[is_kept]))
            self._propose_places(found, pairs[is_kept], runs, least_scores[is_kept])

    def _propose_places(self, found, pairs, run, least_scores):
        """Draw places in runs by grid measure, and keep them with probability weight / bound.

        `run` has the runs of v1 for all pairs, then the runs of v2.
        """
        rows = np.concatenate((pairs, self.n_pairs + pairs))
        places, low, high = draw_in_runs(
            self.ranks, self.nodes, self.runs, rows, run, self.randomness
        )
        a, b = np.split(self.scores.errors(low, high, rows), 2, axis=1)
        chances = chances_to_keep(least_scores, self.scores.of_boxes(a, b, pairs))

        places = places.reshape(2, -1)
        middles = middle_ranks(low, high).reshape(2, -1)
        is_kept = kept_by_chance(chances, self.randomness) & (places[0] <= places[1])
        found.keep(pairs[is_kept], places[:, is_kept], middles[:, is_kept])


def affinity(runs, lower_rows, lower, upper_rows, upper):
    """Return the affinity of the places of two runs, a number from 2^-24 to 1.

    The affinity depends on the base measures of the pair alone.
    """
    if runs.rings is None:
        return 1.0
    return affinity_of_rings(runs.rings[lower_rows, lower], runs.rings[upper_rows, upper])


def affinity_of_rings(ring, other):
    """Return the affinity of places in these rings. Places without a ring (0) have affinity 1."""
    n_apart = np.minimum(np.abs(ring - other), _AFFINITIES.size - 1)
    return np.where((ring == 0) | (other == 0), 1.0, _AFFINITIES[n_apart])


def factors_of_runs(scores, errors):
    """Return factors of runs, (2 * n_pairs, n_runs): their products bound the weights of places.

    D is at least ``least_slope * (|a| + |b|)``, so the weights are at most those of two independent
    draws. The factors do not include the base measures.
    """
    rates = np.tile(scores.eta * scores.least_slope, 2)[:, None]
    distances = np.maximum(np.maximum(errors[0], -errors[1]), 0.0)
    return np.exp(-rates * distances) + FLOOR


def bounds_of_lower_runs(scores, measures, errors, rings=None):
    """Return bounds on the weight of all pairs of places with v1 in a run, (n_pairs, n_runs).

    If the runs have `rings`, the bounds take affinities into account.
    """
    n_pairs = scores.eta.size
    weights = measures * factors_of_runs(scores, errors)
    lower, upper = weights[:n_pairs], weights[n_pairs:]
    if rings is None:
        return lower * upper.sum(axis=1, keepdims=True)

    every = np.arange(n_pairs)[:, None]
    n_rings = rings.max() + 1
    upper_of_rings = np.zeros((n_pairs, n_rings))
    np.add.at(upper_of_rings, (every, rings[n_pairs:]), upper)

    ring = np.arange(n_rings)
    upper_given_ring = upper_of_rings @ affinity_of_rings(ring[:, None], ring)
    return lower * upper_given_ring[every, rings[:n_pairs]] * (1 + 1e-12)


def weights_of_upper_runs(scores, runs, errors, pairs, lower):
    """Return the least scores and the bounds of all runs of v2, given the run `lower` of v1.

    The arrays are (n_proposals, n_runs). Runs that end before the run of v1 begins have weight 0.
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
    """Return weight / bound of pairs of places from pairs of runs with these least scores."""
    return (np.exp(-scores) + PAIR_FLOOR) / (np.exp(-least_scores) + PAIR_FLOOR)
