"""JointExp: all quantiles in one draw (Gillenwater, Joseph, Kulesza 2021), exactly and windowed.

One exponential mechanism chooses m positions in any order. With v_j the j-th smallest, F(v) the
number of records below v and q_j n the rank wanted, let e_j = F(v_j) - q_j n be the error of v_j,
and e_0 = e_{m+1} = 0. The score is minus the length of the walk of the error from 0 back to 0,

    u(v) = -sum_{j=1}^{m+1} |(F(v_j) - F(v_{j-1})) - (q_j - q_{j-1}) n| = -sum_j |e_j - e_{j-1}|.

The weight is ``exp(eta * u) + floor`` with a public floor. Where some |e_j| exceeds cutoff / 2, its
first term is next to nothing beside the floor. So only the records within cutoff / 2 of their
targets, in *windows*, are ever looked at: the time does not depend on n.

A forward pass adds up all placements of the first j quantiles with the j-th in a given interval
between records, and backward sampling chooses one of them. The kernel exp(-eta |e_j - e_{j-1}|) is
exponential on both sides, so that sums with it are running sums of positive terms: the absolute
error of a Fourier transform would drown improbable positions.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from dpq_sklearn.accounting.budgets import DRAW_ERROR, exponential_cost
from dpq_sklearn.accounting.events import exponential_draw
from dpq_sklearn.engine.grid import FULL_RESOLUTION
from dpq_sklearn.engine.random import LN2
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.mechanisms.protocol import Mechanism


class JointScore(NamedTuple):
    """The weight of positions is exp(eta * u) + exp(-clip)."""

    eta: float
    clip: float
    cutoff: float  # where u is below -cutoff, exp(eta * u) is less than DRAW_ERROR of exp(-clip)
    eps: float  # what it costs
    error: float  # the largest one of the logarithm of an outcome's probability


@dataclass(frozen=True)
class JointExponential(Mechanism):
    """The JointExp mechanism."""

    grid_bits: int = FULL_RESOLUTION  # a column has at most 2^grid_bits cells
    cell_bits: int = 34  # a cell has 2^cell_bits positions: no two records share one
    spare_bits: float = 34.0  # all floors together weigh at most 2^-spare_bits of a perfect choice

    takes_priors = False

    def draw(self, ranks, probabilities, budgets, randomness, priors=None):
        """Return the cells of positions that are drawn at once.

        Every record must have weight 1: each is at one position, and parts of records would need
        intervals of their own.

        Privacy
        -------
        Neighbours differ in one record. One record more takes one position more and leaves all
        others where they are (`spread_offsets`), so it adds 1 to the count of one of the m + 1 gaps
        between v_j, and d_i = q_i - q_{i-1} to the count wanted in gap i. The score changes by at
        most ``(1 - d_j) + sum_{i != j} d_i = 2 (1 - d_j) <= 2 (1 - min d)``, and with a public
        floor the logarithm of a weight by at most eta times that. So with
        ``eta = eps / (4 (1 - min d))`` this is an exponential mechanism of cost eps,
        eps-bounded-range, hence eps^2 / 8-zCDP.
        """
        scores = list(map(self.score, probabilities, budgets))

        cells_of_columns = []
        for column, (of_column, score) in enumerate(zip(probabilities, scores, strict=True)):
            weights = JointWeights(score, ranks, column, of_column, self.cell_bits)
            cells = [position >> self.cell_bits for position in weights.draw(randomness)]
            cells_of_columns.append(ranks.grid.first[column] + np.array(cells))
        return cells_of_columns

    def score(self, probabilities, budget):
        """Return the public constants of the mechanism for this budget."""
        m = len(probabilities)
        clip = (m * (self.grid_bits + self.cell_bits) + self.spare_bits) * LN2
        eps_of_eta = 4 * (1 - float(np.diff([0.0, *probabilities, 1.0]).min()))

        # A perfect choice need not exist, but ranks are integers: one with u >= -(m + 1) does. A
        # larger eps is not spent in full.
        largest_eta = clip / (8 * (m + 1))
        # The error takes at most half of the budget (`Budget.before_rounding`).
        least_eta = min(budget.scaled(1 / 2).exponential_eps() / eps_of_eta, largest_eta)

        # Logarithms of weights are added in at most 2 clip / eta steps for each quantile, each with
        # the rounding error of a number below 4 clip. To it comes what is beyond the windows.
        steps = (m + 1) * (2 * clip / least_eta + m + 64)
        error = 2 * DRAW_ERROR + steps * (4 * clip + 100) * 2.0**-53

        eta = min(budget.before_rounding(1, error).exponential_eps() / eps_of_eta, largest_eta)
        cutoff = (clip - math.log(DRAW_ERROR)) / eta
        return JointScore(eta, clip, cutoff, eps_of_eta * eta, error)

    def cost(self, probabilities, budget):
        score = self.score(probabilities, budget)
        return exponential_cost([score.eps], 1, score.error)

    def events(self, probabilities, budget):
        return [exponential_draw(self.score(probabilities, budget).eps)]

    def rank_deviations(self, probabilities, budget):
        """Return the standard deviation of the rank of each quantile, for untied data.

        The errors are a walk with m + 1 two-sided exponential steps that comes back to 0. A step
        has variance m (2m + 1) / ((m + 1) (m + 2)) / eta^2 given that, so the j-th error has
        j (m + 1 - j) (2m + 1) / ((m + 1) (m + 2)) / eta^2.
        """
        m = len(probabilities)
        eta = self.score(probabilities, budget).eta
        j = np.arange(1, m + 1)
        return np.sqrt(j * (m + 1 - j) * (2 * m + 1) / ((m + 1) * (m + 2))) / eta


def record_offsets(ranks, column, records, cell_bits):
    """Return the cells (from 0) of records, counted from 0, and their offsets in these cells.

    Records before all others are at the position before the first, those behind all at the last.
    """
    n_records = int(ranks.total_weights[column]) // RECORD_WEIGHT
    first = ranks.grid.first[column]
    last = ranks.grid.end[column] - 1

    existing = np.clip(records, 0, max(n_records - 1, 0))
    cells, before, behind = ranks.locate(np.array([column]), existing * RECORD_WEIGHT)
    counts = (behind - before) // RECORD_WEIGHT
    offsets = spread_offsets(existing - before // RECORD_WEIGHT, counts, cell_bits)

    is_before = records < 0
    is_behind = records >= n_records
    cells = np.where(is_before, -1, np.where(is_behind, last - first, cells - first))
    return cells, np.where(is_before | is_behind, (1 << cell_bits) - 1, offsets)


def spread_offsets(numbers, counts, n_bits):
    """Return the offsets in their cells of records with these `numbers`, of so many in the cell.

    The largest power of 2 among the records cuts the 2^n_bits offsets of the cell into equal gaps,
    and all others halve the first of these gaps. So the records are spread over the cell, and one
    record more leaves the offsets of all others as they are.
    """
    n_gaps = 1 << (np.frexp(np.maximum(counts, 1))[1].astype(np.int64) - 1)
    n_halved = counts - n_gaps
    half_gaps = np.maximum(numbers, 2 * (numbers - n_halved))
    return (half_gaps * (2.0 ** (n_bits - 1) / n_gaps)).astype(np.int64)


class JointWeights:
    """Logarithms of the sums of exp(eta * u) over positions inside the windows.

    Index i in the window of the j-th quantile is the i-th of the ranks around ``anchors[j]``, which
    is at most m below the target. Ranks that do not exist have intervals of length 0.

    Quantiles in the same interval are a *group*. `starts[j][i]` adds up all placements of the
    quantiles 0 .. j in which the j-th begins a group in interval i, but for the choice of its
    position there; `totals[j][i]` all placements with the j-th in interval i. A group of k has
    length^k choices of positions, of which k! differ in their order only.
    """

    def __init__(self, score, ranks, column, probabilities, cell_bits):
        self.score = score
        self.cell_bits = cell_bits
        self.n_positions = int(ranks.grid.end[column] - ranks.grid.first[column]) << cell_bits
        n_records = int(ranks.total_weights[column]) // RECORD_WEIGHT
        targets = [Fraction(float(q)) * n_records for q in probabilities]

        # Anchors are as far apart as their targets, rounded down.
        steps = [math.floor(high - low) for low, high in pairwise((0, *targets))]
        self.anchors = list(accumulate(steps))

        half = math.floor(min(score.cutoff / 2, n_records)) + len(probabilities)
        errors = [float(a - target) for a, target in zip(self.anchors, targets, strict=True)]
        self.errors = np.array(errors)[:, None] + np.arange(-half, half + 1)

        # F is i behind record i - 1 up to the position of record i.
        records = np.array(self.anchors)[:, None] + np.arange(-half - 1, half + 1)
        self.cells, self.offsets = record_offsets(ranks, column, records, cell_bits)
        lengths = np.ldexp(np.diff(self.cells).astype(float), cell_bits) + np.diff(self.offsets)
        with np.errstate(divide="ignore"):
            self.log_lengths = np.log(lengths)

        self.starts = []
        self.totals = []
        for j in range(len(probabilities)):
            self.starts.append(self._starts(j))
            self.totals.append(self._totals(j))

    def edge(self, j, index):
        """Return the position before an interval in the j-th window: exactly, as it has 74 bits."""
        return (int(self.cells[j, index]) << self.cell_bits) + int(self.offsets[j, index])

    def gap(self, first, last):
        """Return how much larger the index of a rank is in one window than in a later one."""
        return self.anchors[last] - self.anchors[first]

    def _starts(self, j):
        """Return log sum_i' exp(totals[j-1][i'] - eta |e_j(i) - e_{j-1}(i')|) for all i.

        The sum is over all i' whose rank is below that of i: ``i' < i + gap``. With a remainder
        in [0, 1), the error climbs by i - i' - remainder where i' < i, and falls elsewhere.
        """
        eta = self.score.eta
        if j == 0:
            return -eta * np.abs(self.errors[0])

        totals = self.totals[j - 1]
        gap = self.gap(j - 1, j)
        remainder = self.errors[j - 1, 0] - self.errors[j, 0]

        sums = np.full(totals.size, -np.inf)
        up_to = sliding_sums(totals[::-1], eta, totals.size)[::-1]
        sums[1:] = up_to[:-1] - eta * (1 - remainder)

        if gap > 0:
            falls = sliding_sums(totals, eta, min(gap, totals.size)) - eta * remainder
            np.logaddexp(sums, falls, out=sums)
        return sums

    def _totals(self, j):
        """Add up the sizes of all groups that can end with the j-th quantile."""
        totals = np.full(self.starts[j].size, -np.inf)
        for size in range(1, j + 2):
            of_size = self._groups(j, size, 0, totals.size)
            if of_size.size == 0:
                break
            np.logaddexp(totals[: of_size.size], of_size, out=totals[: of_size.size])
        return totals

    def _groups(self, j, size, begin, end):
        """Return the log weights of the group of the quantiles j - size + 1 .. j in intervals.

        They have indices from `begin` to `end`, or to where the window of its first quantile ends.
        """
        first = j - size + 1
        gap = self.gap(first, j)
        starts = self.starts[first][begin + gap : end + gap]
        choices = size * self.log_lengths[j, begin : begin + starts.size] - math.lgamma(size + 1)
        # By so much the error falls between quantiles of the same rank.
        fall = self.errors[first, 0] + gap - self.errors[j, 0]
        return starts + choices - self.score.eta * fall

    def last_intervals(self):
        """Return the log weights of the intervals of the last quantile."""
        return self.totals[-1] - self.score.eta * np.abs(self.errors[-1])

    def group_sizes(self, j, index):
        """Return the log weights of the sizes 1, 2, ... of the j-th quantile's group, if last."""
        return np.concatenate([self._groups(j, k, index, index + 1) for k in range(1, j + 2)])

    def intervals_before(self, j, index):
        """Return the log weights of the intervals of the j-th, given that of the next quantile."""
        below = slice(index + self.gap(j, j + 1))
        step = self.errors[j + 1, index] - self.errors[j, below]
        return self.totals[j][below] - self.score.eta * np.abs(step)

    def draw(self, randomness):
        """Draw ascending positions with probability proportional to exp(eta * u) + floor."""
        m = len(self.anchors)
        last = self.last_intervals()
        of_floors = m * math.log(self.n_positions) - math.lgamma(m + 1) - self.score.clip
        index = log_race(np.append(last, of_floors), randomness)
        if index == last.size:
            return sorted(draw_between(-1, self.n_positions - 1, m, randomness))

        positions = []
        j = m - 1
        while j >= 0:
            size = 1 + log_race(self.group_sizes(j, index), randomness)
            edges = self.edge(j, index), self.edge(j, index + 1)
            positions += draw_between(*edges, size, randomness)

            index += self.gap(j - size + 1, j)
            j -= size
            if j >= 0:
                index = log_race(self.intervals_before(j, index), randomness)
        return sorted(positions)


def sliding_sums(log_terms, eta, width):
    """Return log sum_{i <= s < i + width} exp(log_terms[s] - eta (s - i)) for each i.

    In blocks of `width` terms, every sum is the end of one block and the beginning of the next:
    nothing is subtracted.
    """
    blocks = np.full((-(-log_terms.size // width), width), -np.inf)
    blocks.flat[: log_terms.size] = log_terms
    tilt = eta * np.arange(width)
    blocks -= tilt

    sums = np.logaddexp.accumulate(blocks[:, ::-1], axis=1)[:, ::-1]
    of_next = np.logaddexp.accumulate(blocks[1:], axis=1)
    sums[:-1, 1:] = np.logaddexp(sums[:-1, 1:], of_next[:, :-1] - eta * width)
    return (sums + tilt).ravel()[: log_terms.size]


def log_race(log_weights, randomness):
    """Return index i with probability proportional to exp(log_weights[i]).

    It wins an exponential race: i arrives after an exponential time with rate exp(log_weights[i]).
    Logarithms of the times are compared, as weights may underflow.
    """
    return int(np.argmin(np.log(randomness.exponentials(log_weights.size)) - log_weights))


def draw_between(left, right, n, randomness):
    """Return `n` positions behind `left` and up to `right`, all equally likely.

    Each is a random number of 192 bits times the number of positions: none of fewer than 2^74
    positions has a probability that is wrong by more than 2^-118 of it.
    """
    numbers = [int.from_bytes(randomness.words(3).tobytes(), "little") for _ in range(n)]
    return [left + 1 + (number * (right - left) >> 192) for number in numbers]
