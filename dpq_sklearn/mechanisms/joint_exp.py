"""JointExp: all quantiles in one draw (Gillenwater, Joseph, Kulesza 2021), exactly and windowed.

One exponential mechanism chooses m positions in any order. With v_j the j-th smallest, F(v) the
number of records below v and q_j n the rank wanted, let e_j = F(v_j) - q_j n be the error of v_j,
and e_0 = e_{m+1} = 0. The score of the positions is

    u(v) = -sum_{j=1}^{m+1} |(F(v_j) - F(v_{j-1})) - (q_j - q_{j-1}) n| = -sum_j |e_j - e_{j-1}|,

minus the length of the walk of the error from 0 back to 0. Their weight is ``exp(eta * u) + floor``
with a public floor. Where some |e_j| exceeds cutoff / 2, u is below -cutoff and its term is next to
nothing beside the floor. So only the records within cutoff / 2 of their targets, in *windows*, are
ever looked at: the time does not depend on n.

Inside the windows the term factors: a forward pass adds up all placements of the first j quantiles
with the j-th in a given interval between records, and backward sampling chooses one of them. The
kernel ``exp(-eta |e_j - e_{j-1}|)`` is exponential on both sides, so that sums with it are running
sums of positive terms: no Fourier transform, whose absolute error would drown improbable positions.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpq_sklearn.accounting.budgets import DRAW_ERROR, exponential_cost
from dpq_sklearn.engine.grid import FULL_RESOLUTION
from dpq_sklearn.engine.random import LN2
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.mechanisms.protocol import Mechanism


@dataclass(frozen=True)
class JointExponential(Mechanism):
    """The JointExp mechanism.

    A column has at most 2^grid_bits cells, and a cell 2^cell_bits positions: as many as there can
    be records, so that no two of them share a position. The floors of all choices together weigh
    at most 2^-spare_bits of a perfect one.
    """

    grid_bits: int = FULL_RESOLUTION
    cell_bits: int = 34
    spare_bits: float = 34.0

    # A record is at one position; parts of records would need their own intervals.
    takes_weights = False

    def release(self, ranks, quantiles, budgets, randomness):
        """Return the cells of positions that are drawn at once.

        Privacy
        -------
        Neighbours differ in one record. One record more takes one position more and leaves all
        others where they are (`spread_places`), so it adds 1 to the count of one of the m + 1 gaps
        between v_j, and d_i = q_i - q_{i-1} to the count wanted in gap i. The score changes by at
        most ``(1 - d_j) + sum_{i != j} d_i = 2 (1 - d_j) <= 2 (1 - min d)``, and with a public
        floor the logarithm of a weight by at most eta times that. So with
        ``eta = eps / (4 (1 - min d))`` this is an exponential mechanism of cost eps,
        eps-bounded-range, hence eps^2 / 8-zCDP.
        """
        released = []
        for column, (q, budget) in enumerate(zip(quantiles, budgets, strict=True)):
            positions = draw_positions(self.weights(ranks, column, q, budget), randomness)
            cells = np.array([position >> self.cell_bits for position in positions])
            released.append(ranks.grid.first[column] + cells)
        return released

    def weights(self, ranks, column, quantiles, budget):
        """Return the weights of all positions inside the windows of one column."""
        score = self.score(quantiles, budget)
        return JointWeights(score, ranks, column, quantiles, self.cell_bits)

    def score(self, quantiles, budget):
        """Return the public constants of the mechanism for this budget."""
        error = self._error(quantiles, budget)
        return self._score(quantiles, budget.before_rounding(1, error).exponential_eps())

    def _score(self, quantiles, eps):
        m = len(quantiles)
        smallest_gap = float(np.diff([0.0, *quantiles, 1.0]).min())
        clip = (m * (self.grid_bits + self.cell_bits) + self.spare_bits) * LN2
        # A perfect choice need not exist, but ranks are integers: one with u >= -(m + 1) does. A
        # larger eps is not spent in full.
        eta = min(eps / (4 * (1 - smallest_gap)), clip / (8 * (m + 1)))
        return JointScore(eta, clip, 4 * (1 - smallest_gap) * eta)

    def _error(self, quantiles, budget):
        """Return the largest error of the logarithm of an outcome's probability.

        Logarithms of weights are added in at most 2 clip / eta steps for each quantile, each with
        the rounding error of a number below 4 clip. To it comes what is beyond the windows. A
        budget reduced by the error has larger windows: at least half is left of it
        (`Budget.before_rounding`).
        """
        m = len(quantiles)
        score = self._score(quantiles, budget.part(1 / 2).exponential_eps())
        steps = (m + 1) * (2 * score.clip / score.eta + m + 64)
        return 2 * DRAW_ERROR + steps * (4 * score.clip + 100) * 2.0**-53

    def cost(self, quantiles, budget):
        error = self._error(quantiles, budget)
        return exponential_cost([self.score(quantiles, budget).eps], 1, error)

    def n_log_weights(self, quantiles, budget):
        """Return about how many logarithms of weights a release adds up: its time and memory."""
        score = self._score(quantiles, budget.exponential_eps())
        return len(quantiles) ** 2 * score.clip / score.eta

    def rank_errors(self, quantiles, budget):
        """Return the standard deviation of the rank of each quantile, for untied data.

        The errors are a walk with m + 1 two-sided exponential steps that comes back to 0. A step
        has variance m (2m + 1) / ((m + 1) (m + 2)) / eta^2 given that, so the j-th error has
        j (m + 1 - j) (2m + 1) / ((m + 1) (m + 2)) / eta^2.
        """
        m, eta = len(quantiles), self.score(quantiles, budget).eta
        j = np.arange(1, m + 1)
        return np.sqrt(j * (m + 1 - j) * (2 * m + 1) / ((m + 1) * (m + 2))) / eta


@dataclass(frozen=True)
class JointScore:
    """The weight of positions is exp(eta * u) + exp(-clip), which costs eps."""

    eta: float
    clip: float
    eps: float

    @property
    def cutoff(self):
        """Where u is below -cutoff, exp(eta * u) is less than `DRAW_ERROR` of the floor."""
        return (self.clip - math.log(DRAW_ERROR)) / self.eta


def interval_edges(ranks, column, records, cell_bits):
    """Return the cells (from 0) of records, counted from 0, and their places in these cells.

    F is i behind record i - 1 up to the position of record i. So what would be records before all
    or behind all stand for the ends: the position before the first, and the last one.
    """
    n_records = int(ranks.total_weights[column]) // RECORD_WEIGHT
    first, end = ranks.grid.first[column], ranks.grid.end[column]
    existing = np.clip(records, 0, max(n_records - 1, 0))
    cells, *around = ranks.around_ranks(np.array([column]), existing * RECORD_WEIGHT)
    before, behind = (weight // RECORD_WEIGHT for weight in around)
    places = spread_places(existing - before, behind - before, cell_bits)
    is_before, is_behind = records < 0, records >= n_records
    cells = np.where(is_before, -1, np.where(is_behind, end - first - 1, cells - first))
    return cells, np.where(is_before | is_behind, (1 << cell_bits) - 1, places)


def interval_lengths(cells, places, cell_bits):
    """Return how far each edge is from the one before it, rounded once: positions have 74 bits."""
    return np.ldexp(np.diff(cells).astype(float), cell_bits) + np.diff(places)


def spread_places(numbers, counts, n_bits):
    """Return the places in their cells of records with these `numbers`, of so many in the cell.

    The records of a cell take the first terms of the van der Corput sequence, among 2^n_bits
    places: half of them, rounded up, are in the lower half, and so on. So they are spread evenly,
    one record more leaves the places of all others as they are, and the place of any record is
    found without looking at the others.
    """
    places = np.zeros_like(numbers)
    for bit in range(n_bits - 1, -1, -1):
        if counts.max(initial=0) <= 1:  # a single record is at the lowest place
            break
        in_lower = (counts + 1) // 2
        is_upper = numbers >= in_lower
        places += is_upper.astype(np.int64) << bit
        numbers = np.where(is_upper, numbers - in_lower, numbers)
        counts = np.where(is_upper, counts - in_lower, in_lower)
    return places


class JointWeights:
    """Logarithms of the sums of exp(eta * u) over positions inside the windows.

    The window of the j-th quantile has the ranks around ``floors[j]``, and index i in it is the
    i-th of them. Ranks that do not exist have intervals of length 0.

    Quantiles in the same interval are a *group*. `starts[j][i]` adds up all placements of the
    quantiles 0 .. j in which the j-th begins a group in interval i, but for the choice of its
    position there; `totals[j][i]` all placements with the j-th in interval i. A group of k has
    length^k choices of positions, of which k! differ in their order only.
    """

    def __init__(self, score, ranks, column, quantiles, cell_bits):
        self.score, self.cell_bits = score, cell_bits
        self.n_positions = int(ranks.grid.end[column] - ranks.grid.first[column]) << cell_bits
        n_records = int(ranks.total_weights[column]) // RECORD_WEIGHT
        targets = [Fraction(float(q)) * n_records for q in quantiles]
        self.floors = np.array([math.floor(target) for target in targets])
        self.remainders = np.array([float(target % 1) for target in targets])
        half = math.floor(min(score.cutoff / 2, n_records)) + 1
        self.errors = np.arange(-half, half + 1) - self.remainders[:, None]
        records = self.floors[:, None] + np.arange(-half - 1, half + 1)
        self.edges = interval_edges(ranks, column, records, cell_bits)
        with np.errstate(divide="ignore"):
            self.log_lengths = np.log(interval_lengths(*self.edges, cell_bits))
        self.starts, self.totals = [], []
        for j in range(len(quantiles)):
            self.starts.append(self._starts(j))
            self.totals.append(self._totals(j))

    def edge(self, j, index):
        """Return the position before an interval in the j-th window, as a whole number."""
        cell, place = (int(of_edges[j, index]) for of_edges in self.edges)
        return (cell << self.cell_bits) + place

    def gap(self, first, last):
        """Return how much larger the index of a rank is in one window than in a later one."""
        return int(self.floors[last] - self.floors[first])

    def _starts(self, j):
        """Return log sum_i' exp(totals[j-1][i'] - eta |e_j(i) - e_{j-1}(i')|) for all i.

        The sum is over all i' whose rank is below that of i: ``i' < i + gap``.
        """
        eta = self.score.eta
        if j == 0:
            return -eta * np.abs(self.errors[0])
        gap, remainder = self.gap(j - 1, j), self.remainders[j] - self.remainders[j - 1]
        # The error climbs by i - i' - remainder where i' <= i - lag, and falls elsewhere.
        lag = int(remainder > 0 or gap == 0)
        least_climb = lag - remainder
        size = self.totals[j - 1].size
        totals = np.pad(self.totals[j - 1], 1, constant_values=-np.inf)
        climbs = decaying_sums(totals, eta)[1 - lag :][:size] - eta * least_climb
        width = min(gap + lag - 1, totals.size)
        if width == 0:
            return climbs
        falls = sliding_sums(totals, eta, width)[2 - lag :][:size] - eta * (1 - least_climb)
        return np.logaddexp(climbs, falls)

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
        # Between quantiles with the same rank the error falls by the rank wanted between them.
        length = gap + self.remainders[j] - self.remainders[first]
        return starts + choices - self.score.eta * length

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


def decaying_sums(log_terms, eta):
    """Return log sum_{s <= i} exp(log_terms[s] - eta (i - s)) for each i."""
    tilt = eta * np.arange(log_terms.size)
    return np.logaddexp.accumulate(log_terms + tilt) - tilt


def sliding_sums(log_terms, eta, width):
    """Return log sum_{i <= s < i + width} exp(log_terms[s] - eta (s - i)) for each i.

    In blocks as wide as the sum, every sum is the end of one block and the beginning of the next:
    nothing is subtracted.
    """
    n_blocks = -(-log_terms.size // width)
    blocks = np.full((n_blocks + 1, width), -np.inf)
    blocks.flat[: log_terms.size] = log_terms
    tilt = eta * np.arange(width)
    blocks -= tilt
    sums = np.logaddexp.accumulate(blocks[:-1, ::-1], axis=1)[:, ::-1]
    of_next = np.logaddexp.accumulate(blocks[1:], axis=1)
    sums[:, 1:] = np.logaddexp(sums[:, 1:], of_next[:, :-1] - eta * width)
    sums += tilt
    return sums.ravel()[: log_terms.size]


def draw_positions(weights, randomness):
    """Draw ascending positions with probability proportional to exp(eta * u) + floor."""
    m, last = len(weights.floors), weights.last_intervals()
    of_floors = m * math.log(weights.n_positions) - math.lgamma(m + 1) - weights.score.clip
    index = log_race(np.append(last, of_floors), randomness)
    if index == last.size:
        return sorted(_integer_below(weights.n_positions, randomness) for _ in range(m))
    positions, j = [], m - 1
    while j >= 0:
        size = 1 + log_race(weights.group_sizes(j, index), randomness)
        left, right = weights.edge(j, index), weights.edge(j, index + 1)
        positions += [left + 1 + _integer_below(right - left, randomness) for _ in range(size)]
        first = j - size + 1
        index += weights.gap(first, j)
        j = first - 1
        if j >= 0:
            index = log_race(weights.intervals_before(j, index), randomness)
    return sorted(positions)


def log_race(log_weights, randomness):
    """Return index i with probability proportional to exp(log_weights[i]): the race of `race`."""
    return int(np.argmin(np.log(randomness.exponentials(log_weights.size)) - log_weights))


def _integer_below(bound, randomness):
    """Return a number in 0 .. bound - 1, of any size, all equally likely."""
    n_bits = (bound - 1).bit_length()
    while True:
        words = randomness.words(n_bits // 64 + 1)
        number = int.from_bytes(words.tobytes(), "little") % (1 << n_bits)
        if number < bound:
            return number
