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
        """Return a node for each quantile, a leaf over the whole column, and the eps of each."""
        m = len(quantiles)
        nodes = [QuantileNode(0, i, 0, m + 1, -1, q, True) for i, q in enumerate(quantiles, 1)]
        share = 1.0 if budget.unit == "draw" else 1 / m
        return nodes, [budget.before_rounding(m).part(share).exponential_eps()] * m

    def cost(self, quantiles, budget):
        _, eps = self.nodes_and_eps(quantiles, budget)
        return exponential_cost(eps, len(eps))

    def composed_budgets(self, quantiles, shares, eps, delta, count_eps=0.0):
        weights = np.sqrt(np.asarray(shares) / max(shares))  # as zCDP would share
        # The draws do not look at each other: any order is right.
        pattern = np.sort(np.repeat(weights, [len(q) for q in quantiles]))[::-1]
        scale = largest_scale(tuple(pattern.tolist()), eps, delta, first=2 * count_eps)
        return tuple(Budget(scale * weight, "draw") for weight in weights.tolist())
