"""JointExp: all quantiles in one draw (Gillenwater, Joseph, Kulesza 2021), exactly and windowed.

One exponential mechanism chooses a whole tuple of positions v_1 <= ... <= v_m. With F(v) the
number of records below v and q_j n the rank wanted, let e_j = F(v_j) - q_j n be the error of
v_j, and e_0 = e_{m+1} = 0. The tuple's score is

    u(v) = -sum_{j=1}^{m+1} |(F(v_j) - F(v_{j-1})) - (q_j - q_{j-1}) n| = -sum_j |e_j - e_{j-1}|,

minus the way that the error goes on its walk from 0 back to 0. The score is clipped at a public
`-reach`. Where some |e_j| exceeds reach / 2 it is clipped for certain, so that only the records
within reach / 2 of their targets are ever looked at: the time does not depend on n.

The draw. Weights ``exp(eta * max(u, -reach))`` do not factor, but they are at most the sum of
``exp(eta * u)`` inside the windows and the constant ``exp(-eta * reach)``, and at least half of it.
So a tuple is drawn from that sum, and kept with the ratio of the two. Inside the windows the
weights do factor: a forward pass adds up all ways to place the first j quantiles with the j-th in
a given interval between records, and backward sampling walks through them. The kernel
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
from dpq_sklearn.mechanisms.protocol import Defaults

# A record is put at one of so many positions of its cell, so that few of them coincide.
POSITIONS_PER_CELL = 2**21
N_POSITIONS = 2**FULL_RESOLUTION * POSITIONS_PER_CELL


@dataclass(frozen=True)
class JointExponential(Defaults):
    """The JointExp mechanism.

    `spare_bits`: no tuple has less than 2^-(spare_bits + bits of all its positions) of the weight
    of a perfect one. So all imperfect tuples together weigh at most 2^-spare_bits of one.
    """

    spare_bits: float = 34.0

    def release(self, ranks, quantiles, budgets, randomness):
        """Return one cell for each of the ascending distinct quantiles of each column, ascending.

        Privacy
        -------
        Neighbours differ in one record. Each record is put at a random position of its cell,
        independently of all else; given these positions, it adds a step g to F (0 up to its
        position, 1 beyond) and 1 to n. With w_j = g(v_j) - g(v_{j-1}) >= 0 and d_j = q_j - q_{j-1},
        both of sum 1 over the m + 1 gaps, term j of the score changes by at most |w_j - d_j|.
        One w_j is 1 and the others are 0, so the score changes by at most
        ``(1 - d_j) + sum_{i != j} d_i = 2 (1 - d_j) <= 2 (1 - min d)``. Clipping at a public
        constant keeps that. With ``eta = eps / (4 (1 - min d))`` this is an exponential mechanism
        of cost eps, eps-bounded-range, hence eps^2 / 8-zCDP, for any positions of the records;
        mixing over these does no harm, since both kinds of divergence are quasi-convex.
        """
        return [
            self._release_column(ranks, column, q, budget, randomness)
            for column, (q, budget) in enumerate(zip(quantiles, budgets, strict=True))
        ]

    def _release_column(self, ranks, column, quantiles, budget, randomness):
        first = int(ranks.grid.first[column])
        n_positions = (int(ranks.grid.end[column]) - first) * POSITIONS_PER_CELL
        n_records = int(ranks.total_weights[column]) // RECORD_WEIGHT
        score = self.score(quantiles, budget, n_positions)
        targets = Targets.of(quantiles, n_records)
        windows = rank_windows(targets, n_records, score.reach)
        edges = interval_edges(ranks, column, windows, n_records, n_positions, randomness)
        weights = JointWeights(score, targets, windows, edges)
        return first + draw_tuple(weights, n_positions, randomness) // POSITIONS_PER_CELL

    def score(self, quantiles, budget, n_positions=N_POSITIONS):
        """Return the public constants of the mechanism for this budget."""
        error = self._error(quantiles, budget, n_positions)
        eps = budget.before_rounding(1, error).exponential_eps()
        return self._score(quantiles, eps, n_positions)

    def _score(self, quantiles, eps, n_positions):
        m = len(quantiles)
        smallest_gap = float(np.diff([0.0, *quantiles, 1.0]).min())
        clip = (m * math.log2(n_positions) + self.spare_bits) * LN2
        # A perfect tuple need not exist, but ranks are integers: one with u >= -(m + 1) does, if
        # no two records share a position. A larger eps is not spent in full.
        eta = min(eps / (4 * (1 - smallest_gap)), clip / (8 * (m + 1)))
        return JointScore(eta, clip / eta, 4 * (1 - smallest_gap) * eta)

    def _error(self, quantiles, budget, n_positions):
        """Return the largest error of the logarithm of an outcome's probability.

        Logarithms of weights are added in at most `reach` steps for each quantile, each with the
        rounding error of a number below four times the clipping score.
        """
        m = len(quantiles)
        score = self._score(quantiles, budget.exponential_eps(), n_positions)
        steps = (m + 1) * (2 * score.reach + m + 64)
        largest = 4 * score.eta * score.reach + 100
        return DRAW_ERROR + steps * largest * 2.0**-53

    def cost(self, quantiles, budget):
        """Return what `release` costs: one draw."""
        error = self._error(quantiles, budget, N_POSITIONS)
        return exponential_cost([self.score(quantiles, budget).eps], 1, error)

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
    """The weight of a tuple is exp(eta * max(u, -reach)), which costs eps."""

    eta: float
    reach: float
    eps: float


@dataclass(frozen=True)
class Targets:
    """The ranks q_j n, exactly: whole numbers and remainders in [0, 1)."""

    whole: list
    rest: list

    @classmethod
    def of(cls, quantiles, n_records):
        ratios = [float(q).as_integer_ratio() for q in quantiles]
        parts = [(*divmod(top * n_records, bottom), bottom) for top, bottom in ratios]
        return cls([whole for whole, _, _ in parts], [rest / b for _, rest, b in parts])

    def errors(self, j, ranks):
        """Return e_j for the given ranks of v_j."""
        return (ranks - self.whole[j]) - self.rest[j]

    def between(self, i, j):
        """Return the rank wanted between v_i and v_j."""
        return (self.whole[j] - self.whole[i]) + (self.rest[j] - self.rest[i])


def rank_windows(targets, n_records, reach):
    """Return for each quantile the ranks [first, last) that hold all with |e_j| <= reach / 2."""
    half = math.floor(min(reach, 2.0**60) / 2) + 2
    return [(max(w - half, 0), min(w + half, n_records) + 1) for w in targets.whole]


def interval_edges(ranks, column, windows, n_records, n_positions, randomness):
    """Return for each window [a, b) the b - a + 1 ends of its intervals.

    The interval of rank i are the positions behind record i - 1 up to that of record i, counted
    from 0: F is i there. Every record has a random position in its cell, the same for all windows.
    """
    touched = [np.arange(max(a - 1, 0), min(b, n_records)) for a, b in windows]
    records = np.unique(np.concatenate(touched)) * RECORD_WEIGHT
    cells, before, behind = ranks.around_ranks(np.array([column]), records)
    cells, first_seen = np.unique(cells - ranks.grid.first[column], return_index=True)
    before, behind = before[first_seen] // RECORD_WEIGHT, behind[first_seen] // RECORD_WEIGHT
    counts = behind - before

    per_cell = POSITIONS_PER_CELL
    n_found = int(counts.sum())
    subs = (randomness.words(n_found) & np.uint64(per_cell - 1)).astype(np.int64)
    positions = np.sort(np.repeat(cells * per_cell, counts) + subs)
    ends = np.cumsum(counts)
    numbers = np.arange(n_found) + np.repeat(before - (ends - counts), counts)

    edges = []
    for a, b in windows:
        start = int(np.searchsorted(numbers, max(a - 1, 0)))
        inside = positions[start : start + min(b, n_records) - max(a - 1, 0)]
        left = np.full(int(a == 0), -1)
        right = np.full(int(b == n_records + 1), n_positions - 1)
        edges.append(np.concatenate((left, inside, right)))
    return edges


class JointWeights:
    """Logarithms of the weights exp(eta * u) of all tuples inside the windows.

    `entry[j][i]` adds up all ways to place the quantiles 0 .. j when the j-th is the first one in
    interval i, without the choice of its position; `total[j][i]` all ways with the j-th in
    interval i. Both are indexed from the start of the j-th window.
    """

    def __init__(self, score, targets, windows, edges):
        self.score, self.targets, self.windows, self.edges = score, targets, windows, edges
        with np.errstate(divide="ignore"):
            self.choices = [_log_multisets(np.diff(e), len(windows)) for e in edges]
        self.entry = [-score.eta * np.abs(self._errors(0))]
        self.total = []
        for j in range(len(windows)):
            if j > 0:
                self.entry.append(self._transition(j))
            self.total.append(self._all_sharings(j))

    def _errors(self, j):
        return self.targets.errors(j, np.arange(*self.windows[j]))

    def _all_sharings(self, j):
        """Add up all numbers k of quantiles that can share the interval of the j-th."""
        total = np.full(self.entry[j].size, -np.inf)
        for k in range(1, j + 2):
            sharing = self._sharing(j, k, *self.windows[j])
            if sharing.size == 0:
                break
            np.logaddexp(total[: sharing.size], sharing, out=total[: sharing.size])
        return total

    def _sharing(self, j, k, begin, end):
        """Return the weights of the ways in which interval i holds exactly quantiles j-k+1 .. j.

        For the ranks i from `begin` to `end`, or to where the window of quantile j-k+1 ends.
        """
        first = j - k + 1
        end = max(min(end, self.windows[first][1]), begin)
        of_first = slice(begin - self.windows[first][0], end - self.windows[first][0])
        of_last = slice(begin - self.windows[j][0], end - self.windows[j][0])
        skipped = self.score.eta * self.targets.between(first, j)
        return self.entry[first][of_first] + self.choices[j][k - 1, of_last] - skipped

    def _transition(self, j):
        """Return log sum_{i' < i} exp(total[j-1][i'] - eta |e_j(i) - e_{j-1}(i')|) for all i."""
        a, (a_next, b_next) = self.windows[j - 1][0], self.windows[j]
        whole = self.targets.whole[j] - self.targets.whole[j - 1]
        rest = self.targets.rest[j] - self.targets.rest[j - 1]
        # The gap i - i' counts from `enough` as too large or just right, before as too small.
        enough = max(whole + math.ceil(rest), 1)
        over = (enough - whole) - rest
        ranks = np.arange(a_next, b_next)
        eta, total = self.score.eta, self.total[j - 1]
        large = decaying_sums(total, eta, ranks - enough - a) - eta * over
        if enough == 1:
            return large
        small = sliding_sums(total, eta, ranks - (enough - 1) - a, enough - 1)
        return np.logaddexp(large, small - eta * (1 - over))

    def last(self):
        """Return the log weights of the interval of the last quantile."""
        return self.total[-1] - self.score.eta * np.abs(self._errors(len(self.windows) - 1))

    def shared(self, j, rank):
        """Return the log weights of k = 1, 2, ... quantiles, up to the j-th, in this interval."""
        ways = [self._sharing(j, k, rank, rank + 1) for k in range(1, j + 2)]
        return np.concatenate(ways)

    def before(self, j, rank):
        """Return the log weights of the interval of the j-th, given that of the next quantile."""
        a, b = self.windows[j]
        ranks = np.arange(a, min(b, rank))
        gap = self.targets.errors(j + 1, rank) - self.targets.errors(j, ranks)
        return self.total[j][: ranks.size] - self.score.eta * np.abs(gap)


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
    """Draw ascending positions with probability proportional to exp(eta * max(u, -reach))."""
    m, last = len(weights.windows), weights.last()
    log_all_tuples = math.fsum(math.log((n_positions + k) / (k + 1)) for k in range(m))
    floor = log_all_tuples - weights.score.eta * weights.score.reach
    parts = np.array([np.logaddexp.reduce(last), floor])
    while True:
        if log_race(parts, randomness) == 0:
            positions = _draw_inside(weights, last, randomness)
        else:
            positions = _multiset(n_positions, m, randomness)
        if randomness.uniforms(1)[0] < acceptance(weights, positions):
            return positions


def acceptance(weights, positions):
    """Return max(x, 1) / (x + 1), x = exp(eta * (u + reach)); 1 for a tuple outside the windows."""
    ranks = [
        a + int(np.searchsorted(edges, position)) - 1
        for (a, _), edges, position in zip(weights.windows, weights.edges, positions, strict=True)
    ]
    if not all(a <= rank < b for rank, (a, b) in zip(ranks, weights.windows, strict=True)):
        return 1.0
    errors = [weights.targets.errors(j, rank) for j, rank in enumerate(ranks)]
    way = float(np.abs(np.diff([0.0, *errors, 0.0])).sum())
    return 1 / (1 + math.exp(-abs(weights.score.eta * (weights.score.reach - way))))


def _draw_inside(weights, last, randomness):
    """Draw a tuple inside the windows with probability proportional to exp(eta * u)."""
    positions = np.empty(len(weights.windows), dtype=np.int64)
    j, log_weights = len(weights.windows) - 1, last
    while True:
        rank = weights.windows[j][0] + log_race(log_weights, randomness)
        k = 1 + log_race(weights.shared(j, rank), randomness)
        left, right = weights.edges[j][rank - weights.windows[j][0] :][:2].tolist()
        positions[j - k + 1 : j + 1] = left + 1 + _multiset(right - left, k, randomness)
        j -= k
        if j < 0:
            return positions
        log_weights = weights.before(j, rank)


def log_race(log_weights, randomness):
    """Return index i with probability proportional to exp(log_weights[i]): the race of `race`."""
    return int(np.argmin(np.log(randomness.exponentials(log_weights.size)) - log_weights))


def _multiset(length, k, randomness):
    """Return k ascending numbers in 0 .. length - 1, every such choice equally likely.

    They are a set of k among length + k - 1 (by Floyd's algorithm), less 0, 1, ..., k - 1.
    """
    chosen = set()
    for top in range(length - 1, length + k - 1):
        number = int(randomness.integers_below(np.array([top + 1]))[0])
        chosen.add(top if number in chosen else number)
    return np.array(sorted(chosen), dtype=np.int64) - np.arange(k)
