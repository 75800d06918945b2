"""Independent quantiles: every quantile by an exponential mechanism of its own (AppIndExp).

The simplest way to many quantiles, and the yardstick for the others: all draws see all records,
so the budget is shared by all quantiles and not only by the levels of a tree.
"""

import numpy as np

from dpq_sklearn.accounting.budgets import Budget, exponential_cost
from dpq_sklearn.accounting.composition import largest_scale
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles, QuantileNode


class IndependentExponential(ApproximateQuantiles):
    """The AppIndExp mechanism."""

    def release(self, ranks, quantiles, budgets, randomness):
        """Return the cells: every quantile is drawn over its whole column.

        Privacy
        -------
        Neighbours differ in one record, which has weight 1 in every draw (`exponential.draw`): with
        m draws of eps each a column costs m eps, or m eps^2 / 8 in zCDP. Sorting the results is
        post-processing.
        """
        return list(map(np.sort, super().release(ranks, quantiles, budgets, randomness)))

    def nodes_and_eps(self, quantiles, budget):
        """Return a node for each quantile: leaves over the whole column."""
        end = len(quantiles) + 1
        nodes = [QuantileNode(0, i, 0, end, -1, q, True) for i, q in enumerate(quantiles, 1)]
        return nodes, [self._eps_of_draw(quantiles, budget)] * len(quantiles)

    def cost(self, quantiles, budget):
        n_draws = len(quantiles)
        return exponential_cost([self._eps_of_draw(quantiles, budget)] * n_draws, n_draws)

    def _eps_of_draw(self, quantiles, budget):
        n_draws = len(quantiles)
        if budget.unit == "draw":
            return budget.before_rounding(1).amount
        return budget.before_rounding(n_draws).part(1 / n_draws).exponential_eps()

    def composed_budgets(self, quantiles, shares, eps, delta, count_eps=0.0):
        weights = np.sqrt(np.asarray(shares) / max(shares))  # as zCDP would share
        # The draws do not look at each other: any order is right.
        pattern = np.sort(np.repeat(weights, [len(q) for q in quantiles]))[::-1]
        scale = largest_scale(tuple(pattern.tolist()), eps, delta, first=2 * count_eps)
        return tuple(Budget(scale * weight, "draw") for weight in weights.tolist())
