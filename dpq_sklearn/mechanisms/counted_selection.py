"""Counted selection: labels of a column and their noisy counts, without a public list of labels.

Each count gets discrete Laplace noise that is truncated to [-k, k]. A label with a noisy count
above k is released with this count. The labels are kept nearly as often as by partition selection,
which is optimal, and their counts have no additional cost (Desfontaines, Voss, Gipson, Mandayam,
PoPETs 2022).
"""

import math

import numpy as np

from dpq_sklearn.accounting.budgets import Budget, BudgetTooSmall, Unit
from dpq_sklearn.accounting.events import Event, EventKind
from dpq_sklearn.engine.random import Randomness
from dpq_sklearn.mechanisms.noise import LARGEST_RATE, truncated_laplace
from dpq_sklearn.mechanisms.partition_selection import LEAST_DELTA, LEAST_EPS

# A reserve for the rounding error of the probability of the largest noise.
_ROUNDING = 2.0**-20


class CountedSelection:
    """The mechanism that releases labels with their noisy counts, if these are large enough.

    Privacy
    -------
    Neighbours are lists of counts that differ by 1 in one label. The cost is (eps, delta). The
    probabilities of a noisy count for n and for n + 1 records are within a factor of e^eps, except
    for two outcomes: only n records can have the noisy count n - k, and only n + 1 records can have
    n + 1 + k. Each has the probability of the largest noise, which is at most delta. A label
    without records has a noisy count of at most k, so it is never released, and leaving out counts
    up to k is post-processing. The other labels have the same distribution in both lists, including
    rounding errors. So the reserve for rounding errors is that of a single draw.

    Parameters
    ----------
    eps, delta : float
        The budget of the column.
    """

    def __init__(self, eps: float, delta: float):
        if eps < LEAST_EPS or delta < LEAST_DELTA:
            raise BudgetTooSmall(
                "eps and delta must be larger to find keys privately: they need "
                f"eps >= {LEAST_EPS:.1g} and delta >= {LEAST_DELTA:.1g}, got {eps:.3g} and "
                f"{delta:.3g}."
            )

        self.eps = eps
        self.delta = delta
        self.rate = min(Budget(eps, Unit.EPS).before_rounding(1).amount, LARGEST_RATE)

    @property
    def reach(self) -> int:
        """The largest noise k: the least integer with a probability of at most delta."""
        most = self.delta * (1 - _ROUNDING)
        # Without truncation, k has the probability e^(-rate k) (1 - e^-rate) / (1 + e^-rate).
        factor = math.tanh(self.rate / 2)
        reach = max(math.floor(math.log(factor / most) / self.rate), 1)
        while self.largest_noise_probability(reach) > most:
            reach += 1
        return reach

    def largest_noise_probability(self, reach: int) -> float:
        """Return the probability that the noise is `reach`, if it is truncated there."""
        outside = -math.expm1(-self.rate)
        both_sides = 1 + math.exp(-self.rate) - 2 * math.exp(-self.rate * (reach + 1))
        return math.exp(-self.rate * reach) * outside / both_sides

    def draw(self, counts: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Return the noisy count of each label, or 0 if the label is not released."""
        reach = self.reach
        noisy = counts + truncated_laplace(self.rate, reach, counts.size, randomness)
        return np.where(noisy > reach, noisy, 0)

    def event(self) -> Event:
        """Return the event of the selection among all labels of a column."""
        return Event(EventKind.SELECTION, self.eps, math.inf)
