"""The exponential mechanism at many nodes at once: segments, their weights, the draws.

A node asks for the position p in ``[lo, hi]`` whose ranks are nearest to a target. A position
stands for the ranks from its lower to its upper edge, an interval I(p) around F(p), and the
mechanism draws p with probability proportional to
``mass(p) * (exp(-eta * dist(target, I(p))) + 2^-96)``, with the public mass of its cell.

A node looks at some hundred records only. They cut it into *segments*: the cells of these
records, where the weights are geometric sequences, and the runs between them, where the nearest
rank bounds the weights. One segment is chosen by a race, then a position inside it; a position
of a run is kept with probability weight / bound, else all begins again. The draw is the only
place that uses randomness, and every outcome's probability, however small, has a relative error
below 2^-41 (docs/privacy.md has the argument).

The nodes of a level do not depend on each other. All arrays have one row for each node.
"""

from dataclasses import dataclass

import numpy as np

from dpq_sklearn.engine.random import LN2
from dpq_sklearn.engine.ranks import rank_spans

# No position has less than 2^-96 of the weight of one that holds the target.
FLOOR_BITS = 96
FLOOR = 2.0**-FLOOR_BITS
# A node looks at the records this far from the target, in multiples of 1 / eta: densely near the
# target, where most positions are drawn, so that most of them are kept.
_AHEAD = np.concatenate(
    (np.arange(0, 2, 0.125), np.arange(2, 6, 0.5), [*range(6, 18, 2), *range(18, 50, 4)])
)
# How many weights make a block of a race.
_BLOCK = 16


@dataclass(frozen=True)
class Nodes:
    """Ranges of positions, the ranks at their two ends, and the quantiles wanted in between."""

    lo: np.ndarray
    hi: np.ndarray
    lo_units: np.ndarray
    hi_units: np.ndarray
    q: np.ndarray


@dataclass(frozen=True)
class Scores:
    """``eta * dist(target, I)``, the negative logarithm of a position's weight, for each node.

    All ranks are in units. The target ``lo + q (hi - lo)`` is exact, a whole number and a
    remainder in [0, 1]: a rounded one would move by a rounding error even for records of no
    weight in the node.
    """

    eta: np.ndarray
    target: np.ndarray
    remainder: np.ndarray

    @classmethod
    def at(cls, nodes, eps, grid):
        """Return the scores of `nodes` with budgets `eps`."""
        target, remainder = [], []
        widths = (nodes.hi_units - nodes.lo_units).tolist()
        for q, low, width in zip(nodes.q.tolist(), nodes.lo_units.tolist(), widths, strict=True):
            numerator, denominator = q.as_integer_ratio()
            whole, rest = divmod(numerator * width, denominator)
            target.append(low + whole)
            remainder.append(rest / denominator)
        eta = eps / (2 * np.maximum(nodes.q, 1 - nodes.q)) / (2 * grid.positions_per_cell)
        # Beyond this one unit more or less is all that counts: spend less, and nothing overflows.
        return cls(np.minimum(eta, FLOOR_BITS * LN2), np.array(target), np.array(remainder))

    def __getitem__(self, rows):
        return Scores(self.eta[rows], self.target[rows], self.remainder[rows])

    def beyond(self, units):
        """Return how far ranks lie beyond the target; negative if before it."""
        return ((units.T - self.target) - self.remainder).T

    def of_span(self, low, high):
        """Return the score of the ranks from `low` to `high`."""
        distance = np.maximum(np.maximum(self.beyond(low), -self.beyond(high)), 0.0)
        return (distance.T * self.eta).T


@dataclass(frozen=True)
class Segments:
    """Ranges of positions, walked from their end nearest the target. In any order; some empty.

    The j-th position of the segment ``[start, end)``, j = 0, 1, ..., is drawn with its mass times
    ``exp(-(nearest + slope * j))``; it is ``start + j`` where `forward`, else ``end - 1 - j``.
    That is what the position weighs, or, in the first `n_runs` segments, a bound on it. `mass` is
    that of all positions together where the slope is 0, else that of each.
    """

    start: np.ndarray
    end: np.ndarray
    mass: np.ndarray
    nearest: np.ndarray
    slope: np.ndarray
    forward: np.ndarray
    n_runs: int

    def weights(self):
        """Return the total weight of each segment, to a few ulps.

        mass * exp(-nearest), with a slope times (1 - exp(-slope * length)) / (1 - exp(-slope)).
        """
        weights = self.mass * np.exp(-self.nearest)
        sloped = np.nonzero(self.slope)
        decay = -self.slope[sloped]
        lengths = np.maximum(self.end - self.start, 0)[sloped]
        weights[sloped] *= np.expm1(decay * lengths) / np.expm1(decay)
        return weights


def draw(ranks, nodes, eps, randomness):
    """Draw the nodes' positions by the exponential mechanism; return them and their ranks in units.

    A position p is proposed with a probability proportional to its bound b(p), and kept with
    probability w(p) / b(p): it comes out with a probability proportional to w(p).

    Privacy
    -------
    That of `node_segments`, which gives the weights w.
    """
    with np.errstate(all="ignore"):
        return _draw(ranks, nodes, eps, randomness)


def _draw(ranks, nodes, eps, randomness):
    scores = Scores.at(nodes, eps, ranks.grid)
    segments = node_segments(ranks, nodes, scores)
    weights = segments.weights()
    positions, units = np.empty_like(nodes.lo), np.empty_like(nodes.lo)
    rows = np.arange(nodes.lo.size)
    while rows.size:
        winners = race(weights[rows], randomness)
        proposed = draw_inside(segments, (rows, winners), ranks.grid, randomness)
        low, high = rank_spans(ranks, proposed)
        chances = chances_to_keep(segments, (rows, winners), scores[rows].of_span(low, high))
        kept = randomness.uniforms(rows.size) < chances
        positions[rows[kept]] = proposed[kept]
        units[rows[kept]] = (low + (high - low) // 2)[kept]
        rows = rows[~kept]
    return positions, units


def chances_to_keep(segments, chosen, scores):
    """Return weight / bound for positions with these scores, proposed from the chosen segments."""
    missed = scores - segments.nearest[chosen]
    missed[chosen[1] >= segments.n_runs] = 0.0
    return np.exp(-missed)


def node_segments(ranks, nodes, scores):
    """Return the segments of the exponential mechanism at `nodes`.

    Privacy
    -------
    Neighbours differ in one record. Its ramp g in [0, 1] is added to all ranks; with
    ``w = g(hi) - g(lo)``, a rank of the node less the target changes by something in
    [-q w, (1 - q) w]. The score is a maximum of such differences (the ends of I(p) may be taken
    inside the node, where the target is), so it has sensitivity ``w * max(q, 1 - q)``. So has the
    logarithm of a weight, whose second term is a constant. With ``eta = eps / (2 max(q, 1 - q))``
    the draw costs this record ``w * eps`` (McSherry, Talwar 2007), and is w * eps bounded-range
    (Durfee, Rogers 2019).
    """
    seen = Seen.at(ranks, nodes, scores)
    groups = (
        _runs(seen, nodes, scores, ranks.grid),
        _whole_cells(seen, nodes, scores, ranks.grid),
        _target_cell(seen, nodes, scores, ranks.grid),
        _floor(seen, nodes, scores),
    )
    start, end, mass, distance, step, forward = (
        np.concatenate(fields, axis=1) for fields in zip(*groups, strict=True)
    )
    eta = scores.eta[:, None]
    n_runs = groups[0][0].shape[1]
    return Segments(start, end, mass, eta * distance, eta * step, forward, n_runs)


@dataclass(frozen=True)
class Seen:
    """What each node sees of the data: the cells of some ascending records, some of them equal.

    `below` and `above` are the numbers of records before a cell and before its end. `mass` is that
    of each position of a cell, and `mass_below` that of all positions before the cell; the last two
    are the masses of all positions before the ends of the node. A node without records has one run,
    up to a cell behind its end.
    """

    is_empty: np.ndarray
    cells: np.ndarray
    below: np.ndarray
    above: np.ndarray
    mass: np.ndarray
    mass_below: np.ndarray
    lo_mass: np.ndarray
    end_mass: np.ndarray

    @classmethod
    def at(cls, ranks, nodes, scores):
        grid, per_cell = ranks.grid, ranks.grid.positions_per_cell
        records, is_empty = _records_to_look_at(nodes, scores, 2 * per_cell)
        cells, below, above = ranks.cells_of_records(records)
        cells[is_empty] = nodes.hi[is_empty, None] // per_cell + 1
        ends = np.array((nodes.lo, nodes.hi + 1)).T
        cells_and_ends = np.concatenate((cells, ends // per_cell), axis=1)
        mass_below, mass = grid.masses(cells_and_ends)
        mass_below = per_cell * mass_below
        lo_mass, end_mass = (mass_below[:, -2:] + mass[:, -2:] * (ends % per_cell)).T[:, :, None]
        mass, mass_below = mass[:, :-2], mass_below[:, :-2]
        return cls(is_empty, cells, below, above, mass, mass_below, lo_mass, end_mass)


def _records_to_look_at(nodes, scores, units):
    """Return ascending records for each node, repeated if there are too few, and which has none.

    The records are counted from 0. The first and the last in the node are among them, or others
    as far from the target as any look goes; and the record at the target is.
    """
    first, last = nodes.lo_units // units, -(-nodes.hi_units // units) - 1
    at_target = np.maximum(np.minimum(scores.target // units, last), first)[:, None]
    steps = np.minimum(np.ceil(_AHEAD / (units * scores.eta[:, None])), 2.0**60).astype(np.int64)
    behind = _distinct_columns(np.minimum(steps, at_target - first[:, None]))
    ahead = _distinct_columns(np.minimum(steps, np.maximum(last[:, None] - at_target, 0)))
    records = np.concatenate((at_target - behind[:, :0:-1], at_target + ahead), axis=1)
    return records, first > last


def _distinct_columns(ascending):
    """Return the columns but those that equal the one before in every row."""
    differs = (ascending[:, 1:] != ascending[:, :-1]).any(axis=0)
    return ascending[:, np.concatenate(([True], differs))]


def _runs(seen, nodes, scores, grid):
    """Return the runs between the cells: start, end, mass, distance, step of ranks, forward.

    Ranks in a run lie between those behind the cell before it and before the cell after it.
    """
    units, end_of_node = 2 * grid.positions_per_cell, nodes.hi[:, None] + 1
    first = seen.cells * grid.positions_per_cell
    start = np.concatenate((nodes.lo[:, None], first + grid.positions_per_cell), axis=1)
    end = np.concatenate((np.minimum(first, end_of_node), end_of_node), axis=1)
    mass_above = seen.mass_below + seen.mass * grid.positions_per_cell
    mass_start = np.concatenate((seen.lo_mass, mass_above), axis=1)
    mass_end = np.concatenate((np.minimum(seen.mass_below, seen.end_mass), seen.end_mass), axis=1)
    distance = np.zeros(start.shape)
    np.maximum(scores.beyond(units * seen.above), 0.0, out=distance[:, 1:])
    np.maximum(distance[:, :-1], -scores.beyond(units * seen.below), out=distance[:, :-1])
    distance[seen.is_empty] = 0.0
    mass = np.maximum(mass_end - mass_start, 0)
    return start, end, mass, distance, np.zeros_like(start), np.ones(start.shape, dtype=bool)


def _whole_cells(seen, nodes, scores, grid):
    """Return the cells in the same way, except for that of the target."""
    units, first = 2 * grid.positions_per_cell, seen.cells * grid.positions_per_cell
    start = np.maximum(first, nodes.lo[:, None])
    end = np.minimum(first + grid.positions_per_cell, nodes.hi[:, None] + 1)
    step = 2 * (seen.above - seen.below)
    is_past = units * seen.below > scores.target[:, None]
    counts = (is_past | (units * seen.above <= scores.target[:, None])) & (start < end)
    counts[:, 1:] &= seen.cells[:, 1:] != seen.cells[:, :-1]  # once, if several records share it
    nearest = units * seen.below + step * (np.where(is_past, start, end) - first)
    distance = np.where(counts, np.abs(scores.beyond(nearest)), 0.0)
    return start, end, np.where(counts, seen.mass, 0), distance, step, is_past


def _target_cell(seen, nodes, scores, grid):
    """Return the parts of the target's cell before, at and behind the position that holds it."""
    units, target = 2 * grid.positions_per_cell, scores.target
    its_own = np.arange(target.size), (units * seen.above > target[:, None]).argmax(axis=1)
    first = seen.cells[its_own] * grid.positions_per_cell
    below, above = seen.below[its_own], seen.above[its_own]
    step = 2 * (above - below)
    sub = (target - units * below) // step
    holds, rank = first + sub, units * below + step * sub
    stop = np.minimum(first + grid.positions_per_cell, nodes.hi + 1)
    start = np.array((np.maximum(first, nodes.lo), holds, holds + 1)).T
    end = np.array((holds, holds + 1, stop)).T
    exists = (start < end) & ~seen.is_empty[:, None]
    mass = np.where(exists, seen.mass[its_own][:, None], 0)
    distance = np.zeros(start.shape)
    distance[:, 0], distance[:, 2] = -scores.beyond(rank), scores.beyond(rank + step)
    forward = np.array([False, True, True]) | np.zeros_like(exists)
    return start, end, mass, distance, step[:, None] + np.zeros_like(start), forward


def _floor(seen, nodes, scores):
    """Return the whole node, with the weight that every position has at least."""
    start, end = nodes.lo[:, None], nodes.hi[:, None] + 1
    distance = FLOOR_BITS * LN2 / scores.eta[:, None]
    mass = seen.end_mass - seen.lo_mass
    return start, end, mass, distance, np.zeros_like(start), np.ones(start.shape, dtype=bool)


def race(weights, randomness):
    """Return in each row index i with probability ``weights[i] / weights.sum()``.

    The smallest Exp(1) / weight wins. A relative error of an exponential acts like the same
    relative error of its weight, so improbable outcomes are as accurate as probable ones; a
    cumulative sum would lose all below 2^-53. Many weights race in blocks, then in the block.
    """
    n_rows, n_weights = weights.shape
    if n_weights <= 2 * _BLOCK:
        return _winners(weights, randomness)
    blocks = np.zeros((n_rows, -(-n_weights // _BLOCK), _BLOCK))
    blocks.reshape(n_rows, -1)[:, :n_weights] = weights
    chosen = _winners(blocks.sum(axis=2), randomness)
    return _BLOCK * chosen + _winners(blocks[np.arange(n_rows), chosen], randomness)


def _winners(weights, randomness):
    exponentials = randomness.exponentials(weights.size).reshape(weights.shape)
    with np.errstate(all="ignore"):  # no weight: never arrives
        return (exponentials / weights).argmin(axis=1)


def draw_inside(segments, chosen, grid, randomness):
    """Draw a position in each of the chosen segments."""
    start, end = segments.start[chosen], segments.end[chosen]
    slope, forward = segments.slope[chosen], segments.forward[chosen]
    positions = np.empty_like(start)
    flat = slope == 0
    if flat.any():
        positions[flat] = draw_by_mass(start[flat], end[flat], grid, randomness)
    if not flat.all():
        start, end, slope, forward = (field[~flat] for field in (start, end, slope, forward))
        j = truncated_geometric(slope, end - start, randomness)
        positions[~flat] = np.where(forward, start + j, end - 1 - j)
    return positions


def draw_by_mass(start, end, grid, randomness):
    """Draw a position in each range ``[start, end)`` with probability proportional to its mass."""
    per_cell = grid.positions_per_cell
    first, last = start // per_cell, (end - 1) // per_cell
    (first_mass, last_mass), (of_first, of_last) = grid.masses(np.array((first, last)))
    # Masses 0, 1, ... are those of the first cell, of the last one, then of all between.
    n_first = np.minimum(end, (first + 1) * per_cell) - start
    n_last = np.where(last > first, end - last * per_cell, 0)
    n_between = per_cell * np.maximum(last_mass - first_mass - of_first, 0)
    drawn = randomness.integers_below(of_first * n_first + of_last * n_last + n_between)
    positions = start + drawn // of_first
    drawn -= of_first * n_first
    in_last = drawn >= 0
    positions[in_last] = (last * per_cell + drawn // of_last)[in_last]
    drawn -= of_last * n_last
    between = drawn >= 0
    if between.any():
        drawn = drawn[between]
        cells = grid.cells_by_mass((first + 1)[between], last[between], drawn // per_cell)
        positions[between] = cells * per_cell + drawn % per_cell
    return positions


def truncated_geometric(slopes, lengths, randomness):
    """Return each j in 0 .. length - 1 with probability proportional to ``exp(-slope * j)``.

    Below a power of two the bits of j are independent: bit k is set with odds
    ``exp(-slope * 2^k)``. Larger j than asked for are drawn again, at most every second time.
    """
    j = lengths.copy()
    rows = np.arange(lengths.size)
    while rows.size:
        n_bits = int(lengths[rows].max() - 1).bit_length()
        bit_values = 2 ** np.arange(n_bits, dtype=np.int64)
        is_asked = bit_values < lengths[rows, None]
        odds = np.exp(-slopes[rows, None] * bit_values)
        bits = randomness.uniforms(odds.size).reshape(odds.shape) < odds / (1 + odds)
        j[rows] = (bit_values * (bits & is_asked)).sum(axis=1)
        rows = rows[j[rows] >= lengths[rows]]
    return j
