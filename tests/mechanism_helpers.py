"""What the tests of several mechanisms share: budgets and costs, samples, simulated errors."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, xlogy
from scipy.stats import chisquare

from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from tests.enumeration import ranks_of_weights, renyi_divergence, worst_log_ratio

UNBOUNDED = (-np.inf, np.inf)
# Budgets that leave an error of some records.
ERROR_BUDGETS = [Budget(0.5, "eps"), Budget(0.02, "rho"), Budget(0.1, "draw")]
ORDERS = [1.01, 2.0, 8.0, 200.0]
QUANTILES = {
    "median": [0.5],
    "near 1": [0.999],
    "thirds": [1 / 3, 2 / 3],
    "close pair": [0.7, 0.71],
    "skewed three": [0.01, 0.05, 0.9],
}


def uniform_quantiles(m):
    return np.arange(1, m + 1) / (m + 1)


def spent(cost, budget):
    """Return a cost in the unit of a budget."""
    return cost.rho if budget.unit == "rho" else cost.eps


def assert_within(cost, exact, pairs, orders=ORDERS):
    """Every pair of neighbours is within the eps and the rho of a cost, in both directions."""
    for one, other in pairs:
        assert worst_log_ratio(exact[one], exact[other]) <= cost.eps
        for p, q in ((exact[one], exact[other]), (exact[other], exact[one])):
            assert all(renyi_divergence(p, q, order) <= cost.rho * order for order in orders)


def worst_eps_of(exact, pairs):
    """The eps that exact distributions have on pairs of neighbours."""
    return max(worst_log_ratio(exact[one], exact[other]) for one, other in pairs)


def worst_rho_of(exact, pairs, orders=(1.01, 2.0)):
    """The rho that exact distributions have on pairs of neighbours, at a few orders."""
    return max(
        renyi_divergence(exact[one], exact[other], order) / order
        for pair in pairs
        for one, other in (pair, pair[::-1])
        for order in orders
    )


def sorted_column(values, bounds=UNBOUNDED):
    """The ranks of one column at full resolution."""
    return SortedRanks.of_rows(np.sort(np.array(values, dtype=float))[None], make_grid([bounds]))


def sample(mechanism, counts, grid, quantiles, budget, seed, n_draws):
    """How often each tuple of cells is released, in `n_draws` columns with the same records."""
    weights = np.tile(np.array(counts) * RECORD_WEIGHT, (n_draws, 1))
    ranks, randomness = ranks_of_weights(weights, grid), make_randomness(seed)
    drawn = {}
    for cells in mechanism.draw(ranks, [quantiles] * n_draws, [budget] * n_draws, randomness):
        drawn[tuple(cells.tolist())] = drawn.get(tuple(cells.tolist()), 0) + 1
    return drawn


def p_value(drawn, exact):
    """The chi-square p-value of a sample against {outcome: probability}; the rare are lumped."""
    n_draws = sum(drawn.values())
    assert drawn.keys() <= exact.keys()
    by_chance = sorted(exact, key=exact.get)
    expected = np.array([exact[key] for key in by_chance]) * n_draws
    observed = np.array([drawn.get(key, 0) for key in by_chance])
    n_rare = int(np.searchsorted(np.cumsum(expected), 10.0)) + 1
    expected = np.append(expected[n_rare:], expected[:n_rare].sum())
    observed = np.append(observed[n_rare:], observed[:n_rare].sum())
    return chisquare(observed, expected * (n_draws / expected.sum())).pvalue


def simulated_rank_errors(mechanism, columns, quantiles, budget, seed=0):
    """The root mean square of the error in rank of each quantile, over columns alike."""
    columns = np.sort(columns, axis=1)
    n_columns, n_rows = columns.shape
    grid = make_grid([UNBOUNDED])[np.zeros(n_columns, dtype=int)]
    released = mechanism.draw(
        SortedRanks.of_rows(columns, grid),
        [quantiles] * n_columns,
        [budget] * n_columns,
        make_randomness(seed),
    )
    values = grid.lower_edges(np.array(released), 0)
    found = [np.searchsorted(column, row) for column, row in zip(columns, values, strict=True)]
    errors = np.array(found) - np.asarray(quantiles) * n_rows
    return np.sqrt((errors**2).mean(axis=0))


def assert_predicts_its_errors(mechanism, m, budget, n_columns):
    """On plentiful data the mean of the predicted errors is right within a tenth.

    Quantiles at round numbers such as 0 would be a quarter more uncertain, as these have more
    measure, and so would errors of one or two records.
    """
    columns = np.random.default_rng(0).normal(73.9182, 7.31, size=(n_columns, 2000))
    quantiles = uniform_quantiles(m)
    found = simulated_rank_errors(mechanism, columns, quantiles, budget).mean()
    assert found == pytest.approx(mechanism.rank_deviations(quantiles, budget).mean(), rel=0.1)


def assert_releases_ascending_cells(mechanism, budget, numbers_of_quantiles=(1, 2, 5, 30)):
    """Check columns without records, with one record, and with huge, infinite or equal records."""
    columns = [[], [0.0], [1e18, -1e18], [np.inf, -np.inf, 1.0], [7.0] * 1000]
    for values, bounds in itertools.product(columns, (UNBOUNDED, (0.0, 1.0), (0.0, np.inf))):
        ranks = sorted_column(values, bounds)
        for quantiles in map(uniform_quantiles, numbers_of_quantiles):
            (cells,) = mechanism.draw(ranks, [quantiles], [budget], make_randomness(None))
            assert cells.shape == quantiles.shape
            assert np.all(np.diff(cells) >= 0)
            assert cells[0] >= ranks.grid.first[0] and cells[-1] < ranks.grid.end[0]
            assert spent(mechanism.cost(quantiles, budget), budget) <= budget.amount


def assert_refuses(mechanism, quantiles, budget):
    """A budget that is too small for a guarantee raises, and no composition or choice uses it."""
    assert mechanism.typical_error(quantiles, budget) == np.inf
    with pytest.raises(ValueError, match="must be larger"):
        mechanism.cost(quantiles, budget)


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
    scale = -np.expm1(-eps_draw)
    p, rest = np.exp(-t) * -np.expm1(t - eps_draw) / scale, -np.expm1(-t) / scale
    loss = k * t - i * eps_draw
    counted = loss > eps
    log_choices = gammaln(k + 1) - gammaln(i + 1) - gammaln(k - i + 1)
    # The larger of the two distributions is p^(k-i) (1-p)^i exp(loss): no term exceeds 1.
    log_terms = log_choices + xlogy(k - i, p) + xlogy(i, rest) + loss
    excess = -np.expm1(np.where(counted, eps - loss, 0.0))
    terms = np.where(counted, np.exp(np.where(counted, log_terms, 0.0)) * excess, 0.0)
    return float(terms.sum(axis=1).max()) * (1 + 2.0**-20)
