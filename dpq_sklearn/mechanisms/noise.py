"""Noise for counts: the discrete Laplace and the discrete Gaussian distribution on the integers.

Noisy counts are integers, so they have no low-order bits that could reveal the count. The
probability of every value has a relative error below 2^-42, down to probabilities of e^-100. For
smaller probabilities the error of the Gaussian grows with the exponent, as if the variance had a
relative error of 2^-52.
"""

import math

import numpy as np

from dpq_sklearn.accounting.budgets import DRAW_ERROR, Cost, Unit, exponential_cost
from dpq_sklearn.accounting.events import Event, EventKind

# With less noise, some outcomes would have probabilities that are too small for a float. A budget
# that would allow less noise is not spent in full.
LARGEST_RATE = 512.0
LEAST_VARIANCE = 2.0**-10


class CountNoise:
    """Noise for `n_counts` integers that a neighbour changes by at most `sensitivity` in total.

    Privacy
    -------
    With a budget of eps the noise is discrete Laplace with the rate eps / sensitivity. It costs eps
    or, in zCDP, eps^2 / 2 (the smaller zCDP cost of bounded-range draws does not apply). With a
    budget of rho the noise is discrete Gaussian with the variance sensitivity^2 / (2 rho). It costs
    rho (Canonne, Kamath, Steinke 2020, Theorem 4), has half the variance of Laplace noise, and has
    no finite eps. Each count has a reserve for rounding errors.

    A total relative error of k = n_counts * DRAW_ERROR / 2 adds at most (2 + 1 / (a - 1)) k to the
    divergence of order a. The divergence increases with a, so its value at 1 + t bounds all orders
    below 1 + t: it exceeds rho by rho t + (2 + 1 / t) k. The best t is sqrt(k / rho). So rounding
    adds at most 2 sqrt(k rho) + 2 k to the cost of Gaussian noise, which is less than the reserve
    of n_counts draws with errors of sqrt(DRAW_ERROR / 2).
    """

    def __init__(self, budget, n_counts=1, sensitivity=1):
        self._budget = budget
        self._n_counts = n_counts
        self._sensitivity = sensitivity
        self._error = DRAW_ERROR if budget.unit is Unit.EPS else math.sqrt(DRAW_ERROR / 2)

        ideal = budget.before_rounding(n_counts, self._error).amount
        if budget.unit is Unit.EPS:
            self._rate = min(ideal / sensitivity, LARGEST_RATE)
            self._variance = 2 / self._rate**2
        else:
            self._variance = max(sensitivity**2 / (2 * ideal), LEAST_VARIANCE)

    def draw(self, randomness):
        """Return the noise of all counts: int64."""
        if self._budget.unit is Unit.EPS:
            return discrete_laplace(self._rate, self._n_counts, randomness)
        return discrete_gaussian(self._variance, self._n_counts, randomness)

    def cost(self):
        """Return the cost in eps and in rho."""
        n_counts = self._n_counts * self._budget.n_segments
        if self._budget.unit is Unit.RHO:
            eps_of_rho = 2 * self._sensitivity / math.sqrt(self._variance)  # sqrt(8 rho)
            return Cost(math.inf, exponential_cost([eps_of_rho], n_counts, self._error).rho)
        eps = exponential_cost([self._rate * self._sensitivity], n_counts).eps
        return Cost(eps, eps**2 / 2)

    def event(self):
        """Return the event that adds noise to all counts together."""
        kind = EventKind.GAUSSIAN if self._budget.unit is Unit.RHO else EventKind.LAPLACE
        return Event(kind, *self.cost())

    def deviation(self):
        """Return the standard deviation of the noise, in multiples of `sensitivity`."""
        return math.sqrt(self._variance) / self._sensitivity


def geometrics(rate, n, randomness):
    """Return `n` independent counts G with P(G >= k) = exp(-rate * k).

    G = high * 2^shift + low with independent high and low. `low` is below 2^shift, and its
    probabilities differ by a factor of at most e^(1/2). `high` is geometric with a rate of at least
    1/4. It is the number of thresholds exp(-rate k) that a uniform number is below, which has
    exactly this distribution. A number below all thresholds continues with a new uniform
    number, because the geometric distribution has no memory.
    """
    shift = max(0, math.ceil(math.log2(0.25 / rate)))
    high_rate = math.ldexp(rate, shift)
    most = math.ceil(16 / high_rate)
    thresholds = np.exp(-high_rate * np.arange(most, 0, -1))

    high = np.zeros(n, dtype=np.int64)
    is_unfinished = np.ones(n, dtype=bool)
    while is_unfinished.any():
        steps = most - np.searchsorted(thresholds, randomness.uniforms(n), side="right")
        high += steps * is_unfinished
        is_unfinished &= steps == most

    def propose_low(size):
        proposed = randomness.words(size).astype(np.int64) & ((1 << shift) - 1)
        return proposed, randomness.exponentials(size) > rate * proposed

    return (high << shift) + _kept(propose_low, n)


def _kept(propose, n):
    """Return `n` kept integers; `propose(size)` returns proposals and whether to keep each."""
    integers, is_kept = propose(n)
    if not is_kept.all():
        integers[~is_kept] = _kept(propose, np.count_nonzero(~is_kept))
    return integers


def discrete_laplace(rate, n, randomness):
    """Return `n` integers X with P(X = x) proportional to exp(-rate * |x|)."""
    return geometrics(rate, n, randomness) - geometrics(rate, n, randomness)


def truncated_laplace(rate, reach, n, randomness):
    """Return `n` integers X from -reach to reach with P(X = x) proportional to exp(-rate * |x|)."""

    def proposals(size):
        proposed = discrete_laplace(rate, size, randomness)
        return proposed, np.abs(proposed) <= reach

    return _kept(proposals, n)


def discrete_gaussian(variance, n, randomness):
    """Return `n` integers X with P(X = x) proportional to exp(-x^2 / (2 * variance)).

    The draw is a rejection sampler with discrete Laplace proposals (Canonne, Kamath, Steinke 2020,
    Algorithm 3). It compares a random exponential with the exponent of the acceptance probability,
    so it can return all integers.
    """
    width = math.floor(math.sqrt(variance)) + 1

    def proposals(size):
        proposed = discrete_laplace(1 / width, size, randomness)
        exponents = (np.abs(proposed) - variance / width) ** 2 / (2 * variance)
        return proposed, randomness.exponentials(size) > exponents

    return _kept(proposals, n)
