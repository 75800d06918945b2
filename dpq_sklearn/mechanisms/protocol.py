"""What every mechanism for quantiles offers."""

import math

from dpq_sklearn.accounting.budgets import DRAW_ERROR, exponential_cost

# A mechanism does not volunteer for a budget of which rounding could cost more than this share.
LARGEST_SHARE_OF_ROUNDING = 0.4


class Mechanism:
    """A way to release the quantiles of columns.

    Everything but `release` is a function of public facts: of `quantiles`, the ascending distinct
    quantiles of one column, and of the budget of that column.
    """

    #: whether records may share the weight of one, as the rows of a person do
    takes_weights = True

    def release(self, ranks, quantiles, budgets, randomness):
        """Return a list with the ascending cells of the quantiles of each column.

        `ranks` are `SortedColumns` or `CellWeights`; there is a list of quantiles and a budget for
        each of their columns.
        """
        raise NotImplementedError

    def cost(self, quantiles, budget):
        """Return the `Cost` of the release of one column."""
        raise NotImplementedError

    def rank_errors(self, quantiles, budget):
        """Return the standard deviation of the rank of each quantile in records, for untied data.

        NaN where it depends on the data.
        """
        raise NotImplementedError

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

    def composed_budgets(self, quantiles, shares, eps, delta):
        """Return the budgets of columns that together are (eps, delta)-DP, by optimal composition.

        `quantiles` and `shares` of the budget have one entry for each column. None where the
        mechanism has no composition of its own.
        """
        return None


Defaults = Mechanism


def is_enough(budget, n_draws, error=DRAW_ERROR):
    """Return whether so many exponential draws with this error leave most of the budget."""
    cost = exponential_cost([budget.exponential_eps()], n_draws, error)
    spent = cost.rho if budget.unit == "rho" else cost.eps
    return spent < (1 + LARGEST_SHARE_OF_ROUNDING) * budget.amount
