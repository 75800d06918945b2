"""The exponential mechanism at one node: its segments, their weights, one draw.

A node asks for the position p in ``[lo, hi]`` whose ranks are nearest to a target. A position
stands for the ranks from its lower to its upper edge, an interval I(p) around F(p), and the
mechanism draws p with probability proportional to ``exp(-eta * min(dist(target, I(p)), reach))``.
F is piecewise linear, so the positions fall into a few *segments* whose weights are geometric
sequences; one segment is chosen by a race, then a position inside it. Weights are pure
functions of the ranks, the draw is the only place that uses randomness, and every outcome's
probability, however small, has a relative error below 2^-41 (docs/privacy.md has the argument).
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from dpq_sklearn._random import LN2
from dpq_sklearn._ranks import rank_span

# No weight is less than 2^-96 of the best: scores are clipped there.
REACH_BITS = 96
# A draw first looks at so many records around the target, within the bits given here, and seldom
# need look further. Beside a wide empty end of the grid many small weights add up: more bits there.
NEAR_RECORDS = 1000
NEAR_BITS = 16, 32
NEAR_BITS_AT_ENDS = 24, 32
# start, length, nearest, step of ranks, forward
_PART = np.dtype("i8, i8, f8, i8, ?")


@dataclass(frozen=True)
class Node:
    """A range of positions, the ranks at its two ends, and the quantile wanted between them."""

    lo: int
    hi: int
    lo_units: int
    hi_units: int
    q: float


@dataclass(frozen=True)
class Score:
    """``eta * min(dist(target, I), reach)``, the negative logarithm of a position's weight.

    All ranks are in units. The target ``lo + q (hi - lo)`` is exact, a whole number and a
    remainder in [0, 1): a rounded one would move by a rounding error even for records of no
    weight in the node.
    """

    eta: float
    target: int
    remainder: float

    @classmethod
    def at(cls, node, eps, grid):
        """Return the score of `node` with budget `eps`."""
        numerator, denominator = node.q.as_integer_ratio()
        whole, rest = divmod(numerator * (node.hi_units - node.lo_units), denominator)
        eta = eps / (2 * max(node.q, 1 - node.q)) / (2 * grid.positions_per_cell)
        # Beyond this a single unit is out of reach: spend less, so that no weight underflows.
        return cls(min(eta, REACH_BITS * LN2), node.lo_units + whole, rest / denominator)

    def reach(self, bits=REACH_BITS):
        """Return the distance, a whole number of units, at which weights are 2^-bits."""
        return int(min(np.ceil(bits * LN2 / self.eta), 2.0**61))

    def beyond(self, units):
        """Return how far a rank lies beyond the target; negative if before it."""
        return (units - self.target) - self.remainder

    def distance(self, low, high):
        """Return how far the target is from the ranks between `low` and `high`."""
        return max(self.beyond(low), -self.beyond(high), 0.0)


@dataclass(frozen=True)
class Segments:
    """Runs of positions whose weights are geometric, walked from their end nearest the target.

    The j-th position of a run, j = 0 .. length - 1, weighs ``exp(-(nearest + slope * j))``; it
    is ``start + j`` where `forward`, else ``start + length - 1 - j``. In any order; some empty.
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
        sloped = np.flatnonzero(self.slope)
        decay = -self.slope[sloped]
        sums[sloped] = np.expm1(decay * sums[sloped]) / np.expm1(decay)
        sums *= np.exp(-self.nearest)
        return sums


def draw(ranks, node, eps, randomness, near_bits=None):
    """Draw the node's position by the exponential mechanism; return it and its rank in units.

    The first draw is from an envelope, in which scores are clipped nearer to the target. It is
    kept with probability weight / envelope, which is 1 but where the envelope is clipped, else
    replaced by a draw from the weights themselves. So each position p has probability
    ``w(p) / E + (1 - W / E) w(p) / W = w(p) / W``, with W and E the two sums.

    Privacy
    -------
    That of `node_segments`, which gives the weights w.
    """
    score = Score.at(node, eps, ranks.grid)
    if near_bits is None:
        near_bits = _near_bits(node, score, ranks.grid)
    position = draw_position(node_segments(ranks, node, eps, near_bits), randomness)
    low, high = rank_span(ranks, position)
    excess = min(score.distance(low, high), score.reach()) - score.reach(near_bits)
    if excess > 0 and randomness.uniforms(1)[0] >= np.exp(-score.eta * excess):
        position = draw_position(node_segments(ranks, node, eps), randomness)
        low, high = rank_span(ranks, position)
    return position, (low + high) // 2


def _near_bits(node, score, grid):
    """Return how many bits the envelope of a draw goes down: public facts, and only about speed."""
    last = grid.n_cells * grid.positions_per_cell - 1
    at_end = node.lo == 0 or node.hi == last
    least, most = NEAR_BITS_AT_ENDS if at_end else NEAR_BITS
    of_records = NEAR_RECORDS * grid.positions_per_cell * score.eta / LN2
    return min(max(of_records, least), most)


def node_segments(ranks, node, eps, bits=REACH_BITS):
    """Return the segments of the exponential mechanism at `node` with budget `eps`.

    Privacy
    -------
    Neighbours differ in one record. Its ramp g in [0, 1] is added to all ranks; with
    ``w = g(hi) - g(lo)``, a rank of the node less the target changes by something in
    [-q w, (1 - q) w]. The score is a maximum of such differences (the ends of I(p) may be taken
    inside the node, where the target is), so it has sensitivity ``w * max(q, 1 - q)``, also when
    clipped, and with ``eta = eps / (2 max(q, 1 - q))`` the draw costs this record ``w * eps``
    (McSherry, Talwar 2007), and is w * eps bounded-range (Durfee, Rogers 2019).
    """
    score = Score.at(node, eps, ranks.grid)
    reach = score.reach(bits)
    units = 2 * ranks.grid.positions_per_cell
    # Only the records within reach matter: before them and after them the score is clipped.
    first = max(score.target - reach, node.lo_units) // units
    last = min(-((-score.target - reach - 1) // units), -(-node.hi_units // units))
    cells, below = ranks.occupied(first, max(first, last))

    run_beyond = score.beyond(units * below)
    groups = [_empty_runs(node, cells, run_beyond, ranks.grid.positions_per_cell)]
    if cells.size:
        turns = (score.target - reach, score.target, score.target + reach)
        records = np.array([turn // units for turn in turns])
        turning_cells = below[1:-1].searchsorted(records, side="right").tolist()
        whole = _whole_cells(cells, below, run_beyond, turning_cells[1], ranks.grid)
        ends = {0} if whole[0][0] < node.lo else set()
        ends |= {cells.size - 1} if whole[0][-1] + units // 2 > node.hi + 1 else set()
        cut = sorted({*ends, *turning_cells})
        whole[1][cut] = 0
        groups.append(whole)
        groups.append(_parts_of_cells(cut, cells, below, reach, node, score, ranks.grid))
    start, length, nearest, step, forward = (
        np.concatenate(fields) for fields in zip(*groups, strict=True)
    )
    step[nearest >= reach] = 0
    nearest = np.minimum(nearest, reach)
    return Segments(start, length, score.eta * nearest, score.eta * step, forward)


def _empty_runs(node, cells, beyond, positions_per_cell):
    """Return the runs between occupied cells: start, length, nearest, step of ranks, forward."""
    start = np.empty(cells.size + 1, dtype=np.int64)
    end = np.empty_like(start)
    start[0], end[-1] = node.lo, node.hi + 1
    if cells.size:
        np.multiply(cells, positions_per_cell, out=end[:-1])
        np.add(end[:-1], positions_per_cell, out=start[1:])
        end[0] = max(end[0], node.lo)
        start[-1] = min(start[-1], node.hi + 1)
    flat = np.zeros_like(start)
    return start, end - start, np.abs(beyond), flat, flat == 0


def _whole_cells(cells, below, run_beyond, target_cell, grid):
    """Return the occupied cells in the same way, all of them whole; the target's is to be cut."""
    nearest = np.zeros(cells.size)
    nearest[:target_cell] = -run_beyond[1 : target_cell + 1]
    nearest[target_cell + 1 :] = run_beyond[target_cell + 1 : -1]
    length = np.full(cells.size, grid.positions_per_cell)
    forward = np.arange(cells.size) > target_cell
    return cells * grid.positions_per_cell, length, nearest, 2 * np.diff(below), forward


def _parts_of_cells(cut, cells, below, reach, node, score, grid):
    """Return the parts of the cells that the node's ends or the turns of the score cut.

    The score turns where ranks come within reach, before and after the position that holds the
    target, and where ranks get out of reach.
    """
    past = score.target + (score.remainder > 0)  # the first whole number not before the target
    parts = []
    for index in cut:
        start = int(cells[index]) * grid.positions_per_cell
        step = 2 * int(below[index + 1] - below[index])
        rank = 2 * grid.positions_per_cell * int(below[index])  # at the lower edge of the cell
        turns = (
            (score.target - reach - rank) // step,
            (score.target - rank) // step,
            -((rank - past) // step),
            -((rank - past - reach) // step),
        )
        subs = (0, *(min(max(turn, 0), grid.positions_per_cell) for turn in turns))
        points = [min(max(start + sub, node.lo), node.hi + 1) for sub in subs]
        points.append(min(start + grid.positions_per_cell, node.hi + 1))
        for here, there in itertools.pairwise(points):
            if here < there:
                low, high = rank + step * (here - start), rank + step * (there - start)
                nearest = score.distance(low, high)
                parts.append((here, there - here, nearest, step, score.beyond(low) >= 0))
    fields = np.array(parts, dtype=_PART)
    return [fields[name] for name in _PART.names]


def draw_position(segments, randomness):
    """Draw one position: race for a segment, then a geometric step inside it."""
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
    if weights.size <= 128:
        return _winner(randomness.exponentials(weights.size), weights)
    block_size = math.isqrt(weights.size)
    sums = np.add.reduceat(weights, np.arange(0, weights.size, block_size))
    exponentials = randomness.exponentials(sums.size + block_size)
    start = block_size * _winner(exponentials[: sums.size], sums)
    block = weights[start : start + block_size]
    return start + _winner(exponentials[sums.size :][: block.size], block)


def _winner(exponentials, weights):
    with np.errstate(divide="ignore"):  # no weight: never arrives
        return int((exponentials / weights).argmin())


def truncated_geometric(slope, length, randomness):
    """Return j in 0 .. length - 1 with probability proportional to ``exp(-slope * j)``.

    Below a power of two the bits of j are independent: bit k is set with odds
    ``exp(-slope * 2^k)``, which are fair for slope 0. Larger j than asked for are drawn again, at
    most every second time.
    """
    n_bits = (length - 1).bit_length()
    j = length
    if slope == 0:
        while j >= length:
            j = int(randomness.words(1)[0]) >> (64 - n_bits)
        return j
    bit_values = 2 ** np.arange(n_bits, dtype=np.int64)
    odds = np.exp(-slope * bit_values)
    while j >= length:
        j = int(bit_values[randomness.uniforms(n_bits) < odds / (1 + odds)].sum())
    return j
