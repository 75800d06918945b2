"""Independent quantiles: every quantile by an exponential mechanism of its own (AppIndExp).

The simplest way to many quantiles, and the yardstick for the others: all draws see all records,
so the budget is shared by all quantiles and not only by the levels of a tree.
"""

import functools

import numpy as np
from scipy.special import gammaln, xlogy

from dpq_sklearn.accounting.budgets import ROUNDING, Budget, exponential_cost
from dpq_sklearn.engine.base_measure import step_measure
from dpq_sklearn.engine.exponential import Nodes, draw
from dpq_sklearn.mechanisms.protocol import Defaults

# The optimal composition takes time quadratic in the number of draws; beyond this many of them
# zCDP gives each draw only some 7% less.
MOST_DRAWS_COMPOSED = 256


class IndependentExponential(Defaults):
    """The AppIndExp mechanism."""

    def release(self, ranks, quantiles, budgets, randomness):
        """Return one cell for each of the ascending distinct quantiles of each column, ascending.

        Privacy
        -------
        Neighbours differ in one record, which has weight 1 in every draw (`exponential.draw`): with
        m draws of eps each a column costs m eps, or m eps^2 / 8 in zCDP. No draw looks at the
        result of another, so the optimal composition of non-adaptive exponential mechanisms
        applies as well (`composed_budgets`). Sorting the results is post-processing.
        """
        grid, per_cell = ranks.grid, ranks.grid.positions_per_cell
        sizes = [len(q) for q in quantiles]
        column = np.repeat(np.arange(len(sizes)), sizes)
        eps = np.repeat(list(map(self._eps_of_draw, quantiles, budgets)), sizes)
        first, last = grid.first[column], grid.end[column] - 1
        is_open = np.array((grid.is_open_low[column], grid.is_open_high[column]))
        is_any, closed_end = np.ones_like(is_open), np.where(is_open[0], last, first)
        nodes = Nodes(
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
        positions, _ = draw(ranks, nodes, randomness)
        return [np.sort(cells) for cells in np.split(positions // per_cell, np.cumsum(sizes)[:-1])]

    def cost(self, quantiles, budget):
        """Return what `release` costs: all draws, for every record."""
        n_draws = len(quantiles)
        return exponential_cost([self._eps_of_draw(quantiles, budget)] * n_draws, n_draws)

    def _eps_of_draw(self, quantiles, budget):
        n_draws = len(quantiles)
        if budget.unit == "draw":
            return budget.before_rounding(1).amount
        return budget.before_rounding(n_draws).part(1 / n_draws).exponential_eps()

    def rank_errors(self, quantiles, budget):
        """Return the standard deviation of the rank of each quantile, for untied data."""
        q = np.asarray(quantiles)
        return 2 * np.sqrt(2) * np.maximum(q, 1 - q) / self._eps_of_draw(quantiles, budget)

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
        return tuple(
            Budget(
                nonadaptive_eps(n, eps * float(share) * (1 - ROUNDING), delta * float(share)),
                "draw",
            )
            for n, share in zip(n_draws_composed, shares, strict=True)
        )


def nonadaptive_delta(n_draws, eps_draw, eps):
    """Return delta such that `n_draws` exponential mechanisms together are (eps, delta)-DP.

    Each has budget `eps_draw`, and none sees what another released. The optimum for bounded-range
    mechanisms (Dong, Durfee, Rogers 2020, Theorem 3): with k draws and
    t_l = clip((eps + (l + 1) eps_draw) / (k + 1), 0, eps_draw), the largest over l = 0 .. k of
    sum_i C(k, i) p^(k-i) (1-p)^i (exp(k t_l - i eps_draw) - exp(eps))_+,
    p = (exp(-t_l) - exp(-eps_draw)) / (1 - exp(-eps_draw)). Rounded up.
    """
    k = n_draws
    i = np.arange(k + 1)
    t = np.clip((eps + (i + 1) * eps_draw) / (k + 1), 0.0, eps_draw)[:, None]
    whole = -np.expm1(-eps_draw)
    p, rest = np.exp(-t) * -np.expm1(t - eps_draw) / whole, -np.expm1(-t) / whole
    loss = k * t - i * eps_draw
    counted = loss > eps
    log_choices = gammaln(k + 1) - gammaln(i + 1) - gammaln(k - i + 1)
    # The larger of the two distributions is p^(k-i) (1-p)^i exp(loss): no term exceeds 1.
    log_terms = log_choices + xlogy(k - i, p) + xlogy(i, rest) + loss
    excess = -np.expm1(np.where(counted, eps - loss, 0.0))
    terms = np.where(counted, np.exp(np.where(counted, log_terms, 0.0)) * excess, 0.0)
    return float(terms.sum(axis=1).max()) * (1 + 2.0**-20)


@functools.lru_cache(maxsize=256)
def nonadaptive_eps(n_draws, eps, delta):
    """Return the largest eps a draw for which `nonadaptive_delta` is at most `delta`."""
    low = high = eps / n_draws
    while nonadaptive_delta(n_draws, high, eps) <= delta:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        fits = nonadaptive_delta(n_draws, middle, eps) <= delta
        low, high = (middle, high) if fits else (low, middle)
    return low
