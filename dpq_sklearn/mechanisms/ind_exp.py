"""Independent quantiles: every quantile by an exponential mechanism of its own (AppIndExp).

The simplest way to many quantiles, and the yardstick for the others: all draws see all records,
so the budget is shared by all quantiles and not only by the levels of a tree.
"""

import numpy as np

from dpq_sklearn.accounting.budgets import Budget, exponential_cost
from dpq_sklearn.accounting.composition import largest_scale
from dpq_sklearn.engine.base_measure import step_measure
from dpq_sklearn.engine.exponential import Nodes, draw
from dpq_sklearn.mechanisms.protocol import Mechanism


class IndependentExponential(Mechanism):
    """The AppIndExp mechanism."""

    def release(self, ranks, quantiles, budgets, randomness):
        """Return the cells: every quantile is drawn over its whole column.

        Privacy
        -------
        Neighbours differ in one record, which has weight 1 in every draw (`exponential.draw`): with
        m draws of eps each a column costs m eps, or m eps^2 / 8 in zCDP. Sorting the results is
        post-processing.
        """
        positions, _ = draw(ranks, self.nodes(ranks, quantiles, budgets), randomness)
        cells = positions // ranks.grid.positions_per_cell
        return list(map(np.sort, np.split(cells, np.cumsum([len(q) for q in quantiles])[:-1])))

    def nodes(self, ranks, quantiles, budgets):
        """Return a node for each quantile of each column; all are leaves over the whole column."""
        grid, per_cell = ranks.grid, ranks.grid.positions_per_cell
        sizes = [len(q) for q in quantiles]
        column = np.repeat(np.arange(len(sizes)), sizes)
        eps = np.repeat(list(map(self._eps_of_draw, quantiles, budgets)), sizes)
        first, last = grid.first[column], grid.end[column] - 1
        is_open = np.array((grid.is_open_low[column], grid.is_open_high[column]))
        is_any, closed_end = np.ones_like(is_open), np.where(is_open[0], last, first)
        return Nodes(
            column=column,
            lo=per_cell * first,
            hi=per_cell * last + per_cell - 1,
            lo_rank=np.zeros_like(first),
            hi_rank=per_cell * ranks.total_weights[column],
            q=np.concatenate(quantiles).astype(np.float64),
            eps=eps,
            is_leaf=np.ones(column.size, dtype=bool),
            measure=step_measure(grid, column, first, last, closed_end, is_open, ~is_any),
        )

    def cost(self, quantiles, budget):
        n_draws = len(quantiles)
        return exponential_cost([self._eps_of_draw(quantiles, budget)] * n_draws, n_draws)

    def _eps_of_draw(self, quantiles, budget):
        n_draws = len(quantiles)
        if budget.unit == "draw":
            return budget.before_rounding(1).amount
        return budget.before_rounding(n_draws).part(1 / n_draws).exponential_eps()

    def rank_errors(self, quantiles, budget):
        q = np.asarray(quantiles)
        return 2 * np.sqrt(2) * np.maximum(q, 1 - q) / self._eps_of_draw(quantiles, budget)

    def composed_budgets(self, quantiles, shares, eps, delta, count_eps=0.0):
        weights = np.sqrt(np.asarray(shares) / max(shares))  # as zCDP would share
        # The draws do not look at each other: any order is right.
        pattern = np.sort(np.repeat(weights, [len(q) for q in quantiles]))[::-1]
        scale = largest_scale(tuple(pattern.tolist()), eps, delta, first=2 * count_eps)
        return tuple(Budget(scale * weight, "draw") for weight in weights.tolist())
