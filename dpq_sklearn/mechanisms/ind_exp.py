"""Independent quantiles: every quantile by an exponential mechanism of its own (AppIndExp).

The simplest way to many quantiles, and the yardstick for the others: all draws see all records,
so the budget is shared by all quantiles and not only by the levels of a tree.
"""

import numpy as np

from dpq_sklearn.accounting import Budget, exponential_cost, nonadaptive_eps
from dpq_sklearn.engine.exponential import Nodes, draw

# The optimal composition takes time quadratic in the number of draws; beyond this many of them
# zCDP gives each draw only some 7% less.
MOST_DRAWS_COMPOSED = 256


class IndependentExponential:
    """The AppIndExp mechanism behind the seam that all mechanisms share."""

    def release(self, ranks, quantiles, budget, randomness):
        """Return one cell for each of the ascending distinct `quantiles`, ascending.

        Privacy
        -------
        Neighbours differ in one record, which has weight 1 in every draw (`node_segments`): with
        m draws of eps each the release costs m eps, or m eps^2 / 8 in zCDP. No draw looks at the
        result of another, so the optimal composition of non-adaptive exponential mechanisms
        applies as well (`composed_budgets`). Sorting the results is post-processing.
        """
        grid = ranks.grid
        lo = lo_units = np.zeros(len(quantiles), dtype=np.int64)
        hi = lo + (grid.n_cells * grid.positions_per_cell - 1)
        hi_units = lo_units + 2 * grid.positions_per_cell * ranks.n_records
        nodes = Nodes(lo, hi, lo_units, hi_units, np.asarray(quantiles, dtype=np.float64))
        positions, _ = draw(ranks, nodes, self.least_eps(quantiles, budget), randomness)
        return np.sort(positions) // grid.positions_per_cell

    def cost(self, quantiles, budget):
        """Return what `release` costs in eps and in rho: all draws, for every record."""
        n_draws = len(quantiles)
        return exponential_cost([self.least_eps(quantiles, budget)] * n_draws, n_draws)

    def least_eps(self, quantiles, budget):
        """Return the eps of each draw."""
        n_draws = len(quantiles)
        return budget.before_rounding(n_draws).part(1 / n_draws).exponential_eps()

    def rank_errors(self, quantiles, budget):
        """Return the standard deviation of the rank of each quantile, for untied data."""
        q = np.asarray(quantiles)
        return 2 * np.sqrt(2) * np.maximum(q, 1 - q) / self.least_eps(quantiles, budget)

    def composed_budgets(self, quantiles, shares, eps, delta):
        """Return the budget of each column by optimal composition, or None for too many draws.

        All columns together are then (eps, delta)-DP. Columns with equal shares and equally many
        quantiles are one run of equal draws. Others each get their share of eps and of delta.
        """
        n_draws = [len(q) for q in quantiles]
        if len(set(n_draws)) == len(set(shares)) == 1:
            n_draws_composed, shares = [sum(n_draws)] * len(n_draws), [1.0] * len(n_draws)
        else:
            n_draws_composed = n_draws
        if max(n_draws_composed) > MOST_DRAWS_COMPOSED:
            return None
        eps_of_draws = [
            nonadaptive_eps(n, eps * float(share), delta * float(share))
            for n, share in zip(n_draws_composed, shares, strict=True)
        ]
        return tuple(Budget(n * e, "eps") for n, e in zip(n_draws, eps_of_draws, strict=True))
