"""JointExp: all quantiles in one draw (Gillenwater, Joseph, Kulesza 2021), exactly and windowed.

One exponential mechanism chooses a tuple of positions v_1 <= ... <= v_m. With F(v) the number of
records below v and q_j n the rank wanted, let e_j = F(v_j) - q_j n be the error of v_j, and
e_0 = e_{m+1} = 0. The tuple's score is

    u(v) = -sum_{j=1}^{m+1} |(F(v_j) - F(v_{j-1})) - (q_j - q_{j-1}) n| = -sum_j |e_j - e_{j-1}|,

minus the length of the walk of the error from 0 back to 0. The score is clipped at a public
`-cutoff`. Where some |e_j| exceeds cutoff / 2 it is clipped for certain, so that only the records
within cutoff / 2 of their targets are ever looked at: the time does not depend on n.

The draw. Weights ``exp(eta * max(u, -cutoff))`` do not factor, but they are at most the sum of
``exp(eta * u)`` inside the windows and the constant ``exp(-eta * cutoff)``, and at least half of
it. So a tuple is drawn from that sum, and kept with the ratio of the two. Inside the windows the
weights do factor: a forward pass adds up all placements of the first j quantiles with the j-th in
a given interval between records, and backward sampling chooses one of them. The kernel
``exp(-eta |e_j - e_{j-1}|)`` is exponential on both sides, so that sums with it are running sums of
positive terms: no Fourier transform, whose absolute error would drown improbable tuples.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpq_sklearn.accounting.budgets import DRAW_ERROR, exponential_cost
from dpq_sklearn.engine.grid import FULL_RESOLUTION
from dpq_sklearn.engine.random import LN2
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.mechanisms.protocol import Defaults, is_enough


@dataclass(frozen=True)
class JointExponential(Defaults):
    """The JointExp mechanism.

    A column has at most 2^grid_bits cells, and a cell 2^cell_bits positions: as many as there can
    be records, so that no two of them share a position. No tuple has less than
    2^-(spare_bits + bits of all its positions) of the weight of a perfect one. So all imperfect
    tuples together weigh at most 2^-spare_bits of one.
    """

    grid_bits: int = FULL_RESOLUTION
    cell_bits: int = 34
    spare_bits: float = 34.0

    # A record is at one position; parts of records would need their own intervals.
    takes_weights = False

    def release(self, ranks, quantiles, budgets, randomness):
        """Return one cell for each of the ascending distinct quantiles of each column, ascending.

        Privacy
        -------
        Neighbours differ in one record. Where the records of a cell lie in it depends only on
        their number, and one record more takes one position more (`spread_places`). So it adds
        to F a step g (0 up to that position, 1 beyond) and 1 to n. With
        w_j = g(v_j) - g(v_{j-1}) >= 0 and d_j = q_j - q_{j-1}, both of sum 1 over the m + 1 gaps,
        term j of the score changes by at most |w_j - d_j|. One w_j is 1 and the others are 0, so
        the score changes by at most
        ``(1 - d_j) + sum_{i != j} d_i = 2 (1 - d_j) <= 2 (1 - min d)``. Clipping at a public
        constant keeps that. With ``eta = eps / (4 (1 - min d))`` this is an exponential mechanism
        of cost eps, eps-bounded-range, hence eps^2 / 8-zCDP.
        """
        return [
            self._release_column(ranks, column, q, budget, randomness)
            for column, (q, budget) in enumerate(zip(quantiles, budgets, strict=True))
        ]

    def _release_column(self, ranks, column, quantiles, budget, randomness):
        first, end = int(ranks.grid.first[column]), int(ranks.grid.end[column])
        weights = self.weights(ranks, column, quantiles, budget)
        positions = draw_tuple(weights, (end - first) << self.cell_bits, randomness)
        return first + np.array([position >> self.cell_bits for position in positions])

    def weights(self, ranks, column, quantiles, budget):
        """Return the weights of all tuples inside the windows of one column."""
        score = self.score(quantiles, budget)
        n_records = int(ranks.total_weights[column]) // RECORD_WEIGHT
        targets = Targets.of(quantiles, n_records)
        windows = rank_windows(targets, n_records, score.cutoff)
        edges = [
            interval_edges(ranks, column, window, n_records, self.cell_bits) for window in windows
        ]
        return JointWeights(score, targets, windows, edges)

    def score(self, quantiles, budget):
        """Return the public constants of the mechanism for this budget."""
        error = self._error(quantiles, budget)
        return self._score(quantiles, budget.before_rounding(1, error).exponential_eps())

    def _score(self, quantiles, eps):
        m = len(quantiles)
        smallest_gap = float(np.diff([0.0, *quantiles, 1.0]).min())
        clip = (m * (self.grid_bits + self.cell_bits) + self.spare_bits) * LN2
        # A perfect tuple need not exist, but ranks are integers: one with u >= -(m + 1) does. A
        # larger eps is not spent in full.
        eta = min(eps / (4 * (1 - smallest_gap)), clip / (8 * (m + 1)))
        return JointScore(eta, clip / eta, 4 * (1 - smallest_gap) * eta)

    def _error(self, quantiles, budget):
        """Return the largest error of the logarithm of an outcome's probability.

        Logarithms of weights are added in at most 2 `cutoff` steps for each quantile, each with
        the rounding error of a number below four times the clipped score. With what is left of the
        budget the cutoff grows; at least half is left (`Budget.before_rounding`).
        """
        m = len(quantiles)
        score = self._score(quantiles, budget.part(1 / 2).exponential_eps())
        steps = (m + 1) * (2 * score.cutoff + m + 64)
        largest = 4 * score.eta * score.cutoff + 100
        return DRAW_ERROR + steps * largest * 2.0**-53

    def cost(self, quantiles, budget):
        """Return what `release` costs: one draw."""
        error = self._error(quantiles, budget)
        return exponential_cost([self.score(quantiles, budget).eps], 1, error)

    def can_serve(self, quantiles, budget):
        """Return whether the budget is enough for one draw, whose error grows with the windows."""
        return budget.unit != "draw" and is_enough(budget, 1, self._error(quantiles, budget))

    def n_log_weights(self, quantiles, budget):
        """Return how many logarithms of weights a release adds up at most: its time and memory."""
        return len(quantiles) ** 2 * self._score(quantiles, budget.exponential_eps()).cutoff

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
    """The weight of a tuple is exp(eta * max(u, -cutoff)), which costs eps."""

    eta: float
    cutoff: float
    eps: float


@dataclass(frozen=True)
class Targets:
    """The ranks q_j n, exactly: whole numbers and remainders in [0, 1)."""

    floors: list
    remainders: list

    @classmethod
    def of(cls, quantiles, n_records):
        ratios = [float(q).as_integer_ratio() for q in quantiles]
        parts = [(*divmod(top * n_records, bottom), bottom) for top, bottom in ratios]
        return cls([floor for floor, _, _ in parts], [rest / bottom for _, rest, bottom in parts])

    def errors(self, j, ranks):
        """Return e_j for the given ranks of v_j."""
        return (ranks - self.floors[j]) - self.remainders[j]

    def between(self, i, j):
        """Return the rank wanted between v_i and v_j: a whole number and what is to be added."""
        return self.floors[j] - self.floors[i], self.remainders[j] - self.remainders[i]


def rank_windows(targets, n_records, cutoff):
    """Return for each quantile the ranks [first, last) that hold all with |e_j| <= cutoff / 2."""
    half = math.floor(min(cutoff, 2.0**60) / 2) + 2
    return [(max(t - half, 0), min(t + half, n_records) + 1) for t in targets.floors]


@dataclass(frozen=True)
class Edges:
    """Ascending positions, each as a cell (from 0) and a position in it: together 74 bits."""

    cells: np.ndarray
    places: np.ndarray
    cell_bits: int

    def at(self, index):
        """Return one of the positions as a whole number."""
        return (int(self.cells[index]) << self.cell_bits) + int(self.places[index])

    def lengths(self):
        """Return how far each position is from the one before it, rounded once."""
        return np.ldexp(np.diff(self.cells).astype(float), self.cell_bits) + np.diff(self.places)

    def n_below(self, position):
        """Return how many of the positions are below this one."""
        cell, place = divmod(position, 1 << self.cell_bits)
        begin, end = np.searchsorted(self.cells, (cell, cell + 1)).tolist()
        return begin + int(np.searchsorted(self.places[begin:end], place))


def interval_edges(ranks, column, window, n_records, cell_bits):
    """Return for a window [a, b) the b - a + 1 ends of its intervals.

    The interval of rank i are the positions behind record i - 1 up to that of record i, counted
    from 0: F is i there.
    """
    (a, b), first, end = window, ranks.grid.first[column], ranks.grid.end[column]
    records = np.arange(max(a - 1, 0), min(b, n_records))
    cells, *around = ranks.around_ranks(np.array([column]), records * RECORD_WEIGHT)
    before, behind = (weight // RECORD_WEIGHT for weight in around)
    places = spread_places(records - before, behind - before, cell_bits)
    # The ends of the first and the last interval are the position before all, and the last one.
    is_end = np.array([a == 0, b == n_records + 1])
    cell_of_end = np.array([-1, end - first - 1])[is_end]
    where = np.array([0, records.size])[is_end]
    last_place = (1 << cell_bits) - 1
    return Edges(
        np.insert(cells - first, where, cell_of_end),
        np.insert(places, where, last_place),
        cell_bits,
    )


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
    """Logarithms of the weights exp(eta * u) of all tuples inside the windows.

    Quantiles in the same interval are a *group*. `starts[j][i]` adds up all placements of the
    quantiles 0 .. j in which the j-th begins a group in interval i, but for the choice of its
    position there; `totals[j][i]` all placements with the j-th in interval i. Both are indexed from
    the start of the j-th window. `choices[j][k - 1][i]` counts the positions of a group of k.
    """

    def __init__(self, score, targets, windows, edges):
        self.score, self.targets, self.windows, self.edges = score, targets, windows, edges
        with np.errstate(divide="ignore"):
            self.choices = [_log_multisets(e.lengths(), len(windows)) for e in edges]
        self.starts = [-score.eta * np.abs(self._errors(0))]
        self.totals = []
        for j in range(len(windows)):
            if j > 0:
                self.starts.append(self._starts(j))
            self.totals.append(self._totals(j))

    def _errors(self, j):
        return self.targets.errors(j, np.arange(*self.windows[j]))

    def _starts(self, j):
        """Return log sum_{i' < i} exp(totals[j-1][i'] - eta |e_j(i) - e_{j-1}(i')|) for all i."""
        a, (a_next, b_next) = self.windows[j - 1][0], self.windows[j]
        floor, remainder = self.targets.between(j - 1, j)
        # The gap i - i' is too large, or just right, from `enough` on, and too small before.
        enough = max(floor + math.ceil(remainder), 1)
        excess = (enough - floor) - remainder
        ranks = np.arange(a_next, b_next)
        eta, totals = self.score.eta, self.totals[j - 1]
        large = decaying_sums(totals, eta, ranks - enough - a) - eta * excess
        if enough == 1:
            return large
        small = sliding_sums(totals, eta, ranks - (enough - 1) - a, enough - 1)
        return np.logaddexp(large, small - eta * (1 - excess))

    def _totals(self, j):
        """Add up the sizes of all groups that can end with the j-th quantile."""
        totals = np.full(self.starts[j].size, -np.inf)
        for size in range(1, j + 2):
            of_size = self._groups(j, size, *self.windows[j])
            if of_size.size == 0:
                break
            np.logaddexp(totals[: of_size.size], of_size, out=totals[: of_size.size])
        return totals

    def _groups(self, j, size, begin, end):
        """Return the log weights of the group of the quantiles j - size + 1 .. j in interval i.

        For the ranks i from `begin` to `end`, or to where the window of its first quantile ends.
        """
        first = j - size + 1
        end = max(min(end, self.windows[first][1]), begin)
        of_first = slice(begin - self.windows[first][0], end - self.windows[first][0])
        of_last = slice(begin - self.windows[j][0], end - self.windows[j][0])
        # Between quantiles with the same rank the error falls by the rank wanted between them.
        length = sum(self.targets.between(first, j))
        choices = self.choices[j][size - 1, of_last]
        return self.starts[first][of_first] + choices - self.score.eta * length

    def last_intervals(self):
        """Return the log weights of the intervals of the last quantile."""
        return self.totals[-1] - self.score.eta * np.abs(self._errors(len(self.windows) - 1))

    def group_sizes(self, j, rank):
        """Return the log weights of the sizes 1, 2, ... of the j-th quantile's group, if last."""
        return np.concatenate([self._groups(j, k, rank, rank + 1) for k in range(1, j + 2)])

    def intervals_before(self, j, rank):
        """Return the log weights of the intervals of the j-th, given that of the next quantile."""
        a, b = self.windows[j]
        ranks = np.arange(a, min(b, rank))
        step = self.targets.errors(j + 1, rank) - self.targets.errors(j, ranks)
        return self.totals[j][: ranks.size] - self.score.eta * np.abs(step)


def _log_multisets(lengths, most):
    """Return log C(L + k - 1, k) for every length L and k = 1 .. most: k positions of L, sorted."""
    k = np.arange(most)[:, None]
    return np.cumsum(np.log((lengths + k) / (k + 1.0)), axis=0)


def decaying_sums(log_terms, eta, ends):
    """Return log sum_{s <= end} exp(log_terms[s] - eta (end - s)) for each end."""
    index = np.arange(log_terms.size)
    sums = np.logaddexp.accumulate(log_terms + eta * index) - eta * index
    inside = np.clip(ends, 0, log_terms.size - 1)
    return np.where(ends >= 0, sums[inside] - eta * (ends - inside), -np.inf)


def sliding_sums(log_terms, eta, starts, width):
    """Return log sum_{start <= s < start + width} exp(log_terms[s] - eta (s - start)), each start.

    In blocks as wide as the sum, every sum is the end of one block and the beginning of the next:
    nothing is subtracted.
    """
    n = log_terms.size
    block = min(width, n)
    padded = np.full(-(-n // block) * block, -np.inf)
    padded[:n] = log_terms
    offset = np.arange(block)
    tilted = padded.reshape(-1, block) - eta * offset
    to_end = np.logaddexp.accumulate(tilted[:, ::-1], axis=1)[:, ::-1] + eta * offset
    from_begin = np.logaddexp.accumulate(tilted, axis=1)
    to_end, from_begin = to_end.ravel(), from_begin.ravel()

    first, last = np.maximum(starts, 0), np.minimum(starts + width - 1, n - 1)
    empty = first > last
    first, last = np.where(empty, 0, first), np.where(empty, 0, last)
    last_block = last // block * block
    # A sum within one block is cut off by an end of the terms, or it is the whole block.
    head = np.where(first == last_block, -np.inf, to_end[first])
    tail = np.where(first > last_block, -np.inf, from_begin[last] - eta * (last_block - first))
    sums = np.logaddexp(head, tail) - eta * (first - starts)
    return np.where(empty, -np.inf, sums)


def draw_tuple(weights, n_positions, randomness):
    """Draw ascending positions with probability proportional to exp(eta * max(u, -cutoff))."""
    m, last = len(weights.windows), weights.last_intervals()
    log_all_tuples = math.fsum(math.log((n_positions + k) / (k + 1)) for k in range(m))
    floor = log_all_tuples - weights.score.eta * weights.score.cutoff
    parts = np.array([np.logaddexp.reduce(last), floor])
    while True:
        if log_race(parts, randomness) == 0:
            positions = _draw_inside(weights, last, randomness)
        else:
            positions = _multiset(n_positions, m, randomness)
        if randomness.uniforms(1)[0] < acceptance(weights, positions):
            return positions


def acceptance(weights, positions):
    """Return max(x, 1) / (x + 1) with x = exp(eta * (u + cutoff)), or 1 outside the windows."""
    ranks = [
        a + edges.n_below(position) - 1
        for (a, _), edges, position in zip(weights.windows, weights.edges, positions, strict=True)
    ]
    if not all(a <= rank < b for rank, (a, b) in zip(ranks, weights.windows, strict=True)):
        return 1.0
    errors = [weights.targets.errors(j, rank) for j, rank in enumerate(ranks)]
    length = float(np.abs(np.diff([0.0, *errors, 0.0])).sum())
    return 1 / (1 + math.exp(-abs(weights.score.eta * (weights.score.cutoff - length))))


def _draw_inside(weights, last, randomness):
    """Draw a tuple inside the windows with probability proportional to exp(eta * u)."""
    positions, j, log_weights = [], len(weights.windows) - 1, last
    while True:
        index = log_race(log_weights, randomness)
        rank = weights.windows[j][0] + index
        size = 1 + log_race(weights.group_sizes(j, rank), randomness)
        left, right = weights.edges[j].at(index), weights.edges[j].at(index + 1)
        group = _multiset(right - left, size, randomness)
        positions = [left + 1 + number for number in group] + positions
        j -= size
        if j < 0:
            return positions
        log_weights = weights.intervals_before(j, rank)


def log_race(log_weights, randomness):
    """Return index i with probability proportional to exp(log_weights[i]): the race of `race`."""
    return int(np.argmin(np.log(randomness.exponentials(log_weights.size)) - log_weights))


def _multiset(length, k, randomness):
    """Return k ascending numbers in 0 .. length - 1, every such choice equally likely.

    They are a set of k among length + k - 1 (by Floyd's algorithm), less 0, 1, ..., k - 1.
    """
    chosen = set()
    for top in range(length - 1, length + k - 1):
        number = _integer_up_to(top, randomness)
        chosen.add(top if number in chosen else number)
    return [number - index for index, number in enumerate(sorted(chosen))]


def _integer_up_to(largest, randomness):
    """Return a number in 0 .. largest, of any size, all equally likely."""
    n_bits = largest.bit_length()
    while True:
        words = randomness.words(n_bits // 64 + 1).tolist()
        number = sum(word << 64 * index for index, word in enumerate(words)) % (1 << n_bits)
        if number <= largest:
            return number
