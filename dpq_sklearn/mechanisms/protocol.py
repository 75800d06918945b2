"""What every mechanism for quantiles offers."""

import math
from abc import ABC, abstractmethod

from dpq_sklearn.accounting.budgets import DRAW_ERROR, exponential_cost

# A mechanism does not volunteer for a budget of which rounding could cost more than this share.
LARGEST_SHARE_OF_ROUNDING = 0.4


class Mechanism(ABC):
    """A way to release the quantiles of columns.

    Everything but `release` is a function of public facts: of `quantiles`, the ascending distinct
    quantiles of one column, and of the budget of that column.
    """

    #: whether records may share the weight of one, as the rows of a person do
    takes_weights = True

    @abstractmethod
    def release(self, ranks, quantiles, budgets, randomness):
        """Return a list with the ascending cells of the quantiles of each column.

        `ranks` are `SortedColumns` or `CellWeights`; there is a list of quantiles and a budget for
        each of their columns.
        """

    @abstractmethod
    def cost(self, quantiles, budget):
        """Return the `Cost` of the release of one column."""

    @abstractmethod
    def rank_errors(self, quantiles, budget):
        """Return the standard deviation of the rank of each quantile in records, for untied data.

        NaN where it depends on the data.
        """

    def can_serve(self, quantiles, budget):
        """Return whether the budget is of a known unit and large beside the errors of rounding.

        By default there is one draw for each quantile.
        """
        return is_enough(budget, len(quantiles))

    def typical_error(self, quantiles, budget):
        """Return one number by which accounts and mechanisms can be compared: less is better.

        By default it is the mean error in rank. Infinite where the mechanism cannot serve the
        budget.
        """
        if not self.can_serve(quantiles, budget):
            return math.inf
        return float(self.rank_errors(quantiles, budget).mean())

    def composed_budgets(self, quantiles, shares, eps, delta, count_eps=0.0):
        """Return the budgets of columns that together are (eps, delta)-DP, by optimal composition.

        `quantiles` and `shares` of the budget have one entry for each column. A count that is
        `count_eps`-DP comes before them: it is a draw with a range of twice that. None where the
        mechanism has no composition of its own.
        """
        return None


def is_enough(budget, n_draws, error=DRAW_ERROR):
    """Return whether so many exponential draws with this error leave most of the budget."""
    cost = exponential_cost([budget.exponential_eps()], n_draws, error)
    spent = cost.rho if budget.unit == "rho" else cost.eps
    return spent < (1 + LARGEST_SHARE_OF_ROUNDING) * budget.amount
