"""Partition selection: a private choice of the labels of a column that may be released.

A label with n records is kept with probability p(n), where p(0) = 0 and

    p(n) = min(e^eps p(n-1) + delta,  1 - e^-eps (1 - p(n-1) - delta),  1).

No (eps, delta)-DP mechanism keeps a label with a higher probability (Desfontaines, Voss, Gipson,
Mandayam, PoPETs 2022, Theorem 1).
"""

import math
from bisect import bisect_left
from functools import lru_cache

import numpy as np

from dpq_sklearn.accounting.budgets import BudgetTooSmall
from dpq_sklearn.accounting.events import Event, EventKind
from dpq_sklearn.engine.random import Randomness

# Probabilities are multiples of 2^-64, so random 64-bit words realize them exactly.
ONE = 1 << 64
# A smaller eps would make the list of probabilities too long. A smaller delta would be rounded too
# coarsely.
LEAST_EPS = 2.0**-14
LEAST_DELTA = 2.0**-50
# A larger eps is not spent in full.
GREATEST_EPS = 64.0

_FACTOR_BITS = 52


class PartitionSelection:
    """The mechanism that keeps each label with a probability that depends on its number of records.

    Privacy
    -------
    Neighbours are lists of counts that differ by 1 in one label. A label with 0 records is never
    kept. The cost is (eps, delta), and rounding adds nothing to it. There is no finite rho, because
    a label that is kept certainly has a record. With whole numbers q(n) = 2^64 p(n) the guarantee
    requires

        q(n) <= e^eps q(n-1) + 2^64 delta   and   2^64 - q(n-1) <= e^eps (2^64 - q(n)) + 2^64 delta,

    because q(n) never decreases. Both hold exactly, because e^eps, 2^64 delta and each q(n) are
    rounded down. A word is below q(n) in exactly q(n) of 2^64 cases. Checked by
    `tests/test_partition_selection.py`, which enumerates all neighbours and outcomes.

    Parameters
    ----------
    eps, delta : float
        The budget of the column.
    """

    def __init__(self, eps: float, delta: float):
        if eps < LEAST_EPS or delta < LEAST_DELTA:
            raise BudgetTooSmall(
                "eps and delta must be larger to find categories privately: a feature needs "
                f"eps >= {LEAST_EPS:.1g} and delta >= {LEAST_DELTA:.1g}, got {eps:.3g} and "
                f"{delta:.3g}."
            )

        self.eps = eps
        self.delta = delta

    @property
    def thresholds(self) -> tuple[int, ...]:
        """The whole numbers q(1), q(2), ... up to the first value of 2^64."""
        return _thresholds(min(self.eps, GREATEST_EPS), self.delta)

    def draw(self, counts: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Return for each label whether it is kept; `counts` are positive integers."""
        highest_kept_words = np.array([q - 1 for q in self.thresholds], dtype=np.uint64)
        index = np.minimum(counts, highest_kept_words.size) - 1
        return randomness.words(counts.size) <= highest_kept_words[index]

    def n_records_needed(self, probability: float = 0.99) -> int:
        """Return the least number of records with which a label is kept with this probability."""
        return bisect_left(self.thresholds, int(probability * ONE)) + 1

    def event(self) -> Event:
        """Return the event of the selection among all labels of a column."""
        return Event(EventKind.SELECTION, self.eps, math.inf)


@lru_cache(maxsize=64)
def _thresholds(eps: float, delta: float) -> tuple[int, ...]:
    """Return 2^64 p(n) for n = 1, 2, ... as whole numbers, rounded down."""
    # `exp` has an error of a few ulps, so this factor is below e^eps, and above 1.
    factor = int(math.exp(eps) * (1 - 2.0**-50) * 2**_FACTOR_BITS)
    units_of_delta = int(delta * 2.0**64)

    found = []
    kept = 0
    while kept < ONE:
        grown = (factor * kept >> _FACTOR_BITS) + units_of_delta
        left = max(ONE - kept - units_of_delta, 0)
        shrunk = -((-left << _FACTOR_BITS) // factor)  # left / factor, rounded up
        kept = min(grown, ONE - shrunk)
        found.append(kept)

    return tuple(found)
