"""What every mechanism for quantiles offers."""

import math
from typing import Protocol

import numpy as np

from dpq_sklearn.accounting.budgets import DRAW_ERROR, exponential_cost

# A mechanism does not volunteer for a budget of which rounding could cost more than this share.
LARGEST_SHARE_OF_ROUNDING = 0.4


class Mechanism(Protocol):
    """A way to release the quantiles of columns.

    Everything but `release` is a function of public facts: of `quantiles`, the ascending distinct
    quantiles of one column, and of the budget of that column.
    """

    #: whether records may share the weight of one, as the rows of a person do
    takes_weights: bool

    def release(self, ranks, quantiles, budgets, randomness) -> list[np.ndarray]:
        """Return the ascending cells of the quantiles of each column.

        `ranks` are `SortedColumns` or `CellWeights`; there is a list of quantiles and a budget for
        each of their columns.
        """

    def cost(self, quantiles, budget):
        """Return the `Cost` of the release of one column."""

    def can_serve(self, quantiles, budget) -> bool:
        """Return whether the budget is of a known unit and large beside the errors of rounding."""

    def rank_errors(self, quantiles, budget) -> np.ndarray:
        """Return the standard deviation of the rank of each quantile in records, for untied data.

        NaN where it depends on the data.
        """

    def typical_error(self, quantiles, budget) -> float:
        """Return one number by which accounts and mechanisms can be compared: less is better.

        Infinite where the mechanism cannot serve the budget.
        """

    def composed_budgets(self, quantiles, shares, eps, delta):
        """Return the budgets of columns that together are (eps, delta)-DP, by optimal composition.

        `quantiles` and `shares` of the budget have one entry for each column. None where the
        mechanism has no composition of its own.
        """


class Defaults:
    """What mechanisms share unless they know better."""

    takes_weights = True

    def can_serve(self, quantiles, budget):
        """Return whether the budget is enough for one draw for each quantile."""
        return is_enough(budget, len(quantiles))

    def typical_error(self, quantiles, budget):
        """Return the mean error in rank, infinite where the mechanism cannot serve the budget."""
        if not self.can_serve(quantiles, budget):
            return math.inf
        return float(self.rank_errors(quantiles, budget).mean())

    def composed_budgets(self, quantiles, shares, eps, delta):
        """Return None: pure eps and zCDP are all that is known."""
        return None


def is_enough(budget, n_draws, error=DRAW_ERROR):
    """Return whether so many exponential draws with this error leave most of the budget."""
    cost = exponential_cost([budget.exponential_eps()], n_draws, error)
    spent = cost.rho if budget.unit == "rho" else cost.eps
    return spent < (1 + LARGEST_SHARE_OF_ROUNDING) * budget.amount
