"""Noise for counts: the discrete Laplace and the discrete Gaussian distribution on the integers.

Noisy counts are integers, so they have no low-order bits that could betray the count. Every
value's probability is right up to a relative error below 2^-42, down to probabilities of e^-100.
Beyond, the error of the Gaussian grows with the exponent, like a change of the variance by 2^-52.
"""

import math

import numpy as np

from dpq_sklearn.accounting.budgets import DRAW_ERROR, Cost, Unit, exponential_cost
from dpq_sklearn.accounting.events import Event, EventKind

# Less noise than this has outcomes so improbable that a float cannot hold their probability.
# A larger budget is not spent in full.
LARGEST_RATE = 512.0
LEAST_VARIANCE = 2.0**-10


class CountNoise:
    """Noise for `n_counts` integers that a neighbour changes by at most `sensitivity` in all.

    Privacy
    -------
    With a budget of eps the noise is discrete Laplace of rate eps / sensitivity, which costs eps,
    or eps^2 / 2 in zCDP (noise that is no exponential mechanism has no better). With rho it is
    discrete Gaussian of variance sensitivity^2 / (2 rho), which costs rho (Canonne, Kamath, Steinke
    2020, Theorem 4) at half the variance of Laplace, and has no finite eps. Rounding is reserved
    for each count.

    A relative error of k in all, k = n_counts * DRAW_ERROR / 2, adds at most (2 + 1 / (a - 1)) k to
    the divergence of order a. That increases with a, so below a = 1 + t its value at 1 + t serves:
    rho t + (2 + 1 / t) k more than rho. The best t is sqrt(k / rho). So Gaussian noise costs
    2 sqrt(k rho) + 2 k more, less than n_counts draws with errors of sqrt(DRAW_ERROR / 2) do.
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
        """Return what it costs in eps and in rho."""
        n_counts = self._n_counts * self._budget.n_segments
        if self._budget.unit is Unit.RHO:
            eps_of_rho = 2 * self._sensitivity / math.sqrt(self._variance)  # sqrt(8 rho)
            return Cost(math.inf, exponential_cost([eps_of_rho], n_counts, self._error).rho)
        eps = exponential_cost([self._rate * self._sensitivity], n_counts).eps
        return Cost(eps, eps**2 / 2)

    def event(self):
        """Return what runs: the noise of all counts together."""
        kind = EventKind.GAUSSIAN if self._budget.unit is Unit.RHO else EventKind.LAPLACE
        return Event(kind, *self.cost())

    def deviation(self):
        """Return the standard deviation of the noise, in multiples of `sensitivity`."""
        return math.sqrt(self._variance) / self._sensitivity


def geometrics(rate, n, randomness):
    """Return `n` independent counts G with P(G >= k) = exp(-rate * k).

    G = high * 2^shift + low with independent parts. `low` is below 2^shift, where the
    probabilities differ by a factor of at most e^(1/2), and `high` is geometric with a rate of 1/4
    or more. That one is found among the thresholds exp(-rate k), which a uniform number passes
    with exactly that probability, and started anew (it has no memory) where it passes the last one.
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

    def low_parts(size):
        proposed = randomness.words(size).astype(np.int64) & ((1 << shift) - 1)
        return proposed, randomness.exponentials(size) > rate * proposed

    return (high << shift) + _kept(low_parts, n)


def _kept(propose, n):
    """Return `n` integers: `propose(size)` gives proposals and whether to keep each of them."""
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

    Rejection from the discrete Laplace distribution (Canonne, Kamath, Steinke 2020, Algorithm
    3). Acceptance compares an exponential with its exponent, so no value is out of reach.
    """
    width = math.floor(math.sqrt(variance)) + 1

    def proposals(size):
        proposed = discrete_laplace(1 / width, size, randomness)
        exponents = (np.abs(proposed) - variance / width) ** 2 / (2 * variance)
        return proposed, randomness.exponentials(size) > exponents

    return _kept(proposals, n)
