"""What every mechanism for quantiles offers."""

from typing import Protocol

import numpy as np


class Mechanism(Protocol):
    """A way to release the quantiles of columns.

    Everything but `release` is a function of public facts: of `quantiles`, the ascending distinct
    quantiles of one column, and of the budget of that column.
    """

    def release(self, ranks, quantiles, budgets, randomness) -> list[np.ndarray]:
        """Return the ascending cells of the quantiles of each column.

        `ranks` are `SortedColumns` or `CellWeights`; there is a list of quantiles and a budget for
        each of their columns.
        """

    def cost(self, quantiles, budget):
        """Return the `Cost` of the release of one column."""

    def rank_errors(self, quantiles, budget) -> np.ndarray:
        """Return the standard deviation of the rank of each quantile in records, for untied data.

        NaN where it depends on the data.
        """

    def typical_error(self, quantiles, budget) -> float:
        """Return one number by which accounts and mechanisms can be compared: less is better."""

    def composed_budgets(self, quantiles, shares, eps, delta):
        """Return the budgets of columns that together are (eps, delta)-DP, by optimal composition.

        `quantiles` and `shares` of the budget have one entry for each column. None where the
        mechanism has no composition of its own.
        """


class Defaults:
    """What mechanisms share unless they know better."""

    def typical_error(self, quantiles, budget):
        """Return the mean error in rank."""
        return float(self.rank_errors(quantiles, budget).mean())

    def composed_budgets(self, quantiles, shares, eps, delta):
        """Return None: pure eps and zCDP are all that is known."""
        return None
