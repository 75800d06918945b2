"""The exponential mechanism at one node: its segments, their weights, one draw.

A node asks for the position p in ``[lo, hi]`` whose rank F(p) is nearest to a target. The
mechanism draws p with probability proportional to ``exp(-eta * min(|F(p) - target|, reach))``.
F is piecewise linear, so the positions fall into a few *segments* whose weights are geometric
sequences; one segment is chosen by a race, then a position inside it. Weights are pure
functions of the ranks, the draw is the only place that uses randomness, and every outcome's
probability, however small, has a relative error below 2^-42 (docs/privacy.md has the argument).
"""

from dataclasses import dataclass

import numpy as np

from dpq_sklearn._ranks import rank_units_at

# No weight is less than 2^-96 of the best: scores are clipped there.
REACH = 96 * float(np.log(2.0))


@dataclass(frozen=True)
class Node:
    """A range of positions, the ranks at its two ends, and the quantile wanted between them."""

    lo: int
    hi: int
    lo_units: int
    hi_units: int
    q: float

    def target(self):
        """Return the rank wanted, as a whole number of units and an exact remainder in [0, 1).

        ``lo + q (hi - lo)`` in rational arithmetic: a rounded target would move by a rounding
        error even for records of no weight in this node.
        """
        numerator, denominator = self.q.as_integer_ratio()
        whole, rest = divmod(numerator * (self.hi_units - self.lo_units), denominator)
        return self.lo_units + whole, rest / denominator


@dataclass(frozen=True)
class Segments:
    """Runs of positions whose weights are geometric, walked from their end nearest the target.

    The j-th position of a run, j = 0 .. length - 1, weighs ``exp(-(nearest + slope * j))``; it
    is ``start + j`` where `forward`, else ``start + length - 1 - j``.
    """

    start: np.ndarray
    length: np.ndarray
    nearest: np.ndarray
    slope: np.ndarray
    forward: np.ndarray

    def weights(self):
        """Return the total weight of each run, to a few ulps.

        exp(-nearest) * (1 - exp(-slope * length)) / (1 - exp(-slope)), and its limit `length`.
        """
        sums = self.length.astype(np.float64)
        sloped = self.slope > 0
        decay = self.slope[sloped]
        sums[sloped] = np.expm1(-decay * sums[sloped]) / np.expm1(-decay)
        return np.exp(-self.nearest) * sums


def node_segments(ranks, node, eps):
    """Return the segments of the exponential mechanism at `node` with budget `eps`.

    Privacy
    -------
    Neighbours differ in one record. Its ramp g in [0, 1] is added to F; with
    ``w = g(hi) - g(lo)``, F(p) - target changes by something in [-q w, (1 - q) w]. So the score
    has sensitivity ``w * max(q, 1 - q)``, also when clipped, and with
    ``eta = eps / (2 max(q, 1 - q))`` the draw costs this record ``w * eps`` (McSherry, Talwar
    2007), and is w * eps bounded-range (Durfee, Rogers 2019).
    """
    units = 2 * ranks.grid.positions_per_cell
    # Beyond this eta the clipped score is less than one unit; a smaller eps is spent then.
    eta = min(eps / (2 * max(node.q, 1 - node.q)) / units, REACH)
    reach = int(min(np.ceil(REACH / eta), 2.0**61))
    target, remainder = node.target()

    # Only the records within reach matter: before them and after them the score is clipped.
    first = max(target - reach, node.lo_units) // units
    last = min(-((-target - reach - 1) // units), -(-node.hi_units // units))
    cells, below = ranks.occupied(first, max(first, last))
    start, length = _runs(
        node, cells, below, ranks.grid.positions_per_cell, target, reach, remainder
    )

    rank, step = rank_units_at(start, cells, below, ranks.grid.positions_per_cell)
    from_start = (rank - target) - remainder
    from_end = (rank + step * (length - 1) - target) - remainder
    forward = from_start >= 0
    distance = np.where(forward, from_start, -from_end)
    clipped = (from_start < -reach) | (distance >= reach)
    return Segments(
        start=start,
        length=length,
        nearest=eta * np.where(clipped, reach, distance),
        slope=eta * np.where(clipped, 0, step),
        forward=forward,
    )


def _runs(node, cells, below, positions_per_cell, target, reach, remainder):
    """Cut the node's positions where F changes slope, passes the target or gets out of reach."""
    points = [node.lo, node.hi + 1]
    if cells.size:
        at_target = target + (remainder > 0)  # F is an integer: F >= the target from here on
        points += [
            _first_position_at(rank, cells, below, positions_per_cell)
            for rank in (at_target - reach, at_target, at_target + reach)
        ]
    cell_starts = cells * positions_per_cell
    cell_ends = cell_starts + positions_per_cell
    cuts = np.concatenate((np.array(points, dtype=np.int64), cell_starts, cell_ends))
    cuts = np.sort(np.clip(cuts, node.lo, node.hi + 1))
    lengths = np.diff(cuts)
    return cuts[:-1][lengths > 0], lengths[lengths > 0]


def _first_position_at(rank, cells, below, positions_per_cell):
    """Return the first position of the occupied cells at which F is at least `rank` units."""
    units = 2 * positions_per_cell
    index = int(np.searchsorted(below[:-1], rank // units, side="right")) - 1
    index = max(index, 0)
    count = int(below[index + 1] - below[index])
    sub = -((units * int(below[index]) + count - rank) // (2 * count))
    return int(cells[index]) * positions_per_cell + min(max(sub, 0), positions_per_cell)


def draw_position(segments, randomness):
    """Draw one position of a node: race for a segment, then a geometric step inside it."""
    winner = race(segments.weights(), randomness)
    length = int(segments.length[winner])
    j = truncated_geometric(float(segments.slope[winner]), length, randomness)
    return int(segments.start[winner]) + (j if segments.forward[winner] else length - 1 - j)


def race(weights, randomness):
    """Return index i with probability ``weights[i] / weights.sum()``.

    The smallest Exp(1) / weight wins. A relative error of an exponential acts like the same
    relative error of its weight, so improbable outcomes are as accurate as probable ones; a
    cumulative sum would lose all below 2^-53. Many weights race in blocks, then in the block.
    """
    if weights.size <= 64:
        return int(np.argmin(randomness.exponentials(weights.size) / weights))
    block_size = int(np.sqrt(weights.size))
    block_starts = np.arange(0, weights.size, block_size)
    start = block_size * race(np.add.reduceat(weights, block_starts), randomness)
    return start + race(weights[start : start + block_size], randomness)


def truncated_geometric(slope, length, randomness):
    """Return j in 0 .. length - 1 with probability proportional to ``exp(-slope * j)``.

    Below a power of two the bits of j are independent: bit k is set with odds
    ``exp(-slope * 2^k)``. Larger j than asked for are drawn again, at most every second time.
    """
    bit_values = 2 ** np.arange((length - 1).bit_length(), dtype=np.int64)
    odds = np.exp(-slope * bit_values)
    chances = odds / (1 + odds)
    while True:
        j = int(bit_values[randomness.uniforms(bit_values.size) < chances].sum())
        if j < length:
            return j
