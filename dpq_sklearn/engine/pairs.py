"""The exponential mechanism for two quantiles at once: distances, bounds, the draws.

A *pair node* asks for two quantiles q1 < q2 of its range. They divide its weight into three parts,
of which they want the shares p = (q1, q2 - q1, 1 - q2). Places v1 <= v2 divide it into n1, n2, n3.
The *distance* of these places is how much weight must come or go until they are exact,

    D = min over M of sum_j |n_j - p_j M|,

and they are drawn with probability proportional to
``measure(v1) * measure(v2) * (exp(-eta * D) + 2^-192)`` with eta = eps / 2. (In the same sense a
single quantile has the distance ``|F(v) - r| / max(q, 1 - q)``, and is drawn with this eta.)

With the errors a = F(v1) - r1 and b = F(v2) - r2, the parts are off by c = (a, b - a, -b). By
duality D is the largest ``sum_j u_j c_j`` over all u in [-1, 1]^3 with ``sum_j p_j u_j = 0``: a
maximum of a few linear functions of a and b. As a place covers an interval of ranks, two of them
cover a box of errors, and their distance is the least one in it.

To draw, each of the two quantiles cuts the node into runs of its own (`exponential.node_runs`). A
run of v1 is chosen by a bound of all that it may weigh, a run of v2 by the distance of the box of
both runs, then a place in each by grid measure. They are kept with probability weight / bound, and
otherwise all begins again with a better bound of that run of v1.

Arrays of (2 * n_pairs,) or more have a row for each quantile: all lower ones, then all upper ones.
"""

from dataclasses import dataclass
from itertools import count

import numpy as np

from dpq_sklearn.engine import exponential
from dpq_sklearn.engine.exponential import (
    FLOOR,
    FLOOR_BITS,
    Q_STEPS,
    Scores,
    ascending_shares,
    draw_by_measure,
    node_runs,
    rank_intervals,
)
from dpq_sklearn.engine.random import LN2
from dpq_sklearn.engine.ranks import RECORD_WEIGHT

# Two places have to be found, so the floor and how far away ranks are looked up go twice as far.
PAIR_FLOOR = FLOOR**2
# As in `exponential`; few data need more than a few rounds. For those that do many more ranks are
# looked up, so densely that no data make very many rounds.
_AHEAD = np.array([0.3, 0.8, 1.4, 2.2, 3.5, 5.5, 8.5, 13, 20, 30, 45, 72])
_LOOK_UPS = np.concatenate((-_AHEAD[::-1], [0.0], _AHEAD))
_DENSE_LOOK_UPS = np.arange(-72.0, 72.1, 0.75)
_ROUNDS = 6
_PROPOSALS_AT_ONCE = 256
_MOST_PROPOSALS = 4


@dataclass(frozen=True, kw_only=True)
class PairScores:
    """``eta * D``, the exponent in the weight of a pair of places, for each pair node."""

    eta: np.ndarray  # (n_pairs,)
    slopes: np.ndarray  # (2, 5, n_pairs): see `distance_slopes`
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

        All steps are monotone, also in floating point: a box inside of another has no less.
        """
        of_a, of_b = self.slopes[:, :, pairs]
        distance = np.maximum(of_a[3] * a[0], -of_a[3] * a[1])
        distance = np.maximum(distance, np.maximum(of_b[4] * b[0], -of_b[4] * b[1]))

        # A function is least at the corner where a is low if it rises with a, else high; so is b.
        for which, (of_low_a, of_low_b) in enumerate(((0, 1), (0, 0), (1, 0))):
            least = of_a[which] * a[of_low_a] + of_b[which] * b[of_low_b]
            greatest = of_a[which] * a[1 - of_low_a] + of_b[which] * b[1 - of_low_b]
            distance = np.maximum(distance, np.maximum(least, -greatest))

        return self.eta[pairs] * np.maximum(distance, 0.0)


def distance_slopes(q1, q2):
    """Return the slopes in a and in b of five functions, (2, 5, n_pairs).

    D is the largest of them and of their opposites. Three rise with a and fall with b, rise with
    both, and fall with a and rise with b. They are ``sum_j u_j c_j`` at the corners of the polygon
    of all u, where one entry is 1, another one -1, and the third one follows; or, if that is not
    in [-1, 1], it is the nearer one of these, and the entry of the largest part follows. The other
    two are of a alone and of b alone: they matter only for the least distance in a box.

    What privacy rests on: all entries of u are in [-1, 1], and ``sum_j p_j u_j = 0``.
    """
    shares = np.array((q1, q2 - q1, 1 - q2))
    largest = shares.argmax(axis=0), np.arange(q1.size)

    slopes = np.zeros((2, 5, q1.size))
    for which, (rising, falling, third) in enumerate(((0, 1, 2), (0, 2, 1), (1, 2, 0))):
        u = np.empty_like(shares)
        u[rising] = 1.0
        u[falling] = -1.0
        of_third = (shares[falling] - shares[rising]) / np.maximum(shares[third], 1 / Q_STEPS)
        u[third] = np.clip(of_third, -1.0, 1.0)
        u[largest] = 0.0
        u[largest] = -(shares * u).sum(axis=0) / shares[largest]
        slopes[:, which] = u[0] - u[1], u[1] - u[2]

    slopes[0, 3] = 1 / np.maximum(q1, 1 - q1)
    slopes[1, 4] = 1 / np.maximum(q2, 1 - q2)
    return slopes


def reach_of_draws(q, eps):
    """Return how many records from its target each quantile of a pair looks; arrays (n,)."""
    return 2 * exponential.reach_of_draws(q, eps)


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
    n_pairs = nodes.lo.size // 2
    places = np.empty_like(nodes.lo)
    split_ranks = np.empty_like(nodes.lo)
    left = np.arange(n_pairs)
    for look_ups, n_rounds in ((_LOOK_UPS, _ROUNDS), (_DENSE_LOOK_UPS, None)):
        rows = np.concatenate((left, n_pairs + left))
        drawn = _draw_in_rounds(ranks, nodes[rows], randomness, look_ups, n_rounds)
        places[rows], split_ranks[rows], is_left = drawn
        left = left[is_left]
        if left.size == 0:
            break
    return ranks.grid.positions_per_cell // nodes.places_per_cell * places, split_ranks


def _draw_in_rounds(ranks, nodes, randomness, look_ups, n_rounds):
    """Return places and their ranks (2 * n_pairs,), and for which pairs (n_pairs,) there are none.

    Proposals end after `n_rounds`, or if that is None when each pair has been drawn. That does not
    change what comes out: if it is drawn, a pair of places has a probability proportional to its
    weight, whatever was proposed and turned down before.
    """
    grid = ranks.grid
    n_pairs = nodes.lo.size // 2
    scores = PairScores.of(nodes, grid.positions_per_cell)
    runs = node_runs(ranks, nodes, scores.targets, look_ups)
    errors = scores.errors(runs.low_ranks, runs.high_ranks, np.s_[:, None])
    bounds = bounds_of_lower_runs(scores, runs.measures, errors)

    places = np.zeros_like(nodes.lo)
    split_ranks = np.zeros_like(nodes.lo)
    left = np.arange(n_pairs)
    for _ in count() if n_rounds is None else range(n_rounds):
        n_proposals = min(max(_PROPOSALS_AT_ONCE // left.size, 1), _MOST_PROPOSALS)
        pairs = np.repeat(left, n_proposals)
        rows = np.concatenate((pairs, n_pairs + pairs))

        order, shares = ascending_shares(bounds[left])
        lower = _chosen(order, shares, n_proposals, randomness)
        box_scores, weights = weights_of_upper_runs(scores, runs, errors, pairs, lower)
        order, shares = ascending_shares(weights)
        upper = _chosen(order, shares, 1, randomness)

        run = np.concatenate((lower, upper))
        start, end = runs.cuts[rows, [run, run + 1]]
        per_cell = nodes.places_per_cell[rows]
        proposed = draw_by_measure(start, end, per_cell, grid, nodes.column[rows], randomness)
        low, high = rank_intervals(ranks, nodes, rows, proposed)
        a, b = scores.errors(low, high, rows).reshape(2, 2, -1).swapaxes(0, 1)

        # All that the run of v1 may weigh is known by now: a better bound for the next round.
        known = runs.measures[pairs, lower] * weights.sum(axis=1)
        least_scores = box_scores[np.arange(pairs.size), upper]
        chances = known / bounds[pairs, lower]
        chances *= chances_to_keep(least_scores, scores.of_boxes(a, b, pairs))
        bounds[pairs, lower] = known

        is_ascending = proposed[: pairs.size] <= proposed[pairs.size :]
        is_kept = is_ascending & (randomness.uniforms(pairs.size) < chances)
        is_kept = is_kept.reshape(left.size, n_proposals)
        is_found = is_kept.any(axis=1)
        first = n_proposals * is_found.nonzero()[0] + is_kept.argmax(axis=1)[is_found]
        first = np.concatenate((first, pairs.size + first))
        found = np.concatenate((left[is_found], n_pairs + left[is_found]))
        places[found] = proposed[first]
        split_ranks[found] = (low + (high - low) // 2)[first]
        left = left[~is_found]
        if left.size == 0:
            break

    return places, split_ranks, np.isin(np.arange(n_pairs), left)


def bounds_of_lower_runs(scores, measures, errors):
    """Return bounds on the weight of all pairs of places whose v1 is in a run: (n_pairs, n_runs).

    As D is at least ``least_slope * (|a| + |b|)``, the weights are at most those of two draws that
    do not look at each other.
    """
    n_pairs = scores.eta.size
    rates = np.tile(scores.eta * scores.least_slope, 2)[:, None]
    distances = np.maximum(np.maximum(errors[0], -errors[1]), 0.0)
    alone = measures * (np.exp(-rates * distances) + FLOOR)
    return alone[:n_pairs] * alone[n_pairs:].sum(axis=1, keepdims=True)


def weights_of_upper_runs(scores, runs, errors, pairs, lower):
    """Return the least scores and the bounds of all runs of v2, beside the run `lower` of v1.

    The arrays are (n_proposals, n_runs). Runs that end before the other one begins weigh nothing.
    """
    rows = scores.eta.size + pairs
    a = errors[:, pairs, lower][:, :, None]
    box_scores = scores.of_boxes(a, errors[:, rows], pairs[:, None])
    weights = runs.measures[rows] * (np.exp(-box_scores) + PAIR_FLOOR)
    weights[runs.cuts[rows, 1:] <= runs.cuts[pairs, lower][:, None]] = 0.0
    return box_scores, weights


def chances_to_keep(least_scores, scores):
    """Return weight / bound for pairs of places from pairs of runs with these least scores."""
    return (np.exp(-scores) + PAIR_FLOOR) / (np.exp(-least_scores) + PAIR_FLOOR)


def _chosen(order, shares, n_times, randomness):
    """Return so many indices for each row of ascending shares, one after another."""
    uniforms = randomness.uniforms(n_times * len(order)).reshape(-1, n_times, 1)
    n_passed = (shares[:, None, :] <= uniforms).sum(axis=2)
    return np.take_along_axis(order, n_passed, axis=1).ravel()
