"""AppIndExp is private: enumerated for every kind of budget, and tied to the sampler."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare

from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.accounting.conversions import rho_of_approximate_dp
from dpq_sklearn.engine.grid import UnboundedGrid
from dpq_sklearn.engine.random import SeededRandomness, SystemRandomness
from dpq_sklearn.engine.ranks import SortedColumn
from dpq_sklearn.mechanisms.ind_exp import (
    MOST_DRAWS_COMPOSED,
    IndependentExponential,
    nonadaptive_delta,
    nonadaptive_eps,
)
from tests.enumeration import (
    cell_distribution,
    column_of,
    datasets,
    neighbour_pairs,
    one_node,
    position_weights,
    renyi_divergence,
    tiny_grid,
    worst_log_ratio,
)

IND = IndependentExponential()
QUANTILES = {
    "median": [0.5],
    "near 1": [0.999],
    "thirds": [1 / 3, 2 / 3],
    "close pair": [0.7, 0.71],
    "skewed three": [0.01, 0.05, 0.9],
}


def ind_distribution(ranks, quantiles, budget):
    """Return {positions of all quantiles, not yet sorted: probability}, exactly."""
    grid = ranks.grid
    last = grid.n_cells * grid.positions_per_cell - 1
    all_units = 2 * grid.positions_per_cell * ranks.n_records
    eps = IND.least_eps(quantiles, budget)
    chances = []
    for q in quantiles:
        weights = position_weights(ranks, one_node(0, last, 0, all_units, q), eps)
        chances.append(weights / math.fsum(weights))
    outputs = itertools.product(range(last + 1), repeat=len(quantiles))
    return {
        output: math.prod(chance[p] for chance, p in zip(chances, output, strict=True))
        for output in outputs
    }


def distributions(grid, most, quantiles, budget):
    return {
        counts: ind_distribution(column_of(counts, grid), quantiles, budget)
        for counts in datasets(grid.n_cells, most)
    }


@pytest.mark.parametrize("quantiles", QUANTILES.values(), ids=QUANTILES)
@pytest.mark.parametrize("eps", [0.3, 3.0])
def test_every_neighbour_and_every_output_is_within_eps(quantiles, eps):
    exact = distributions(tiny_grid(3, 2), 3, quantiles, Budget(eps, "eps"))
    for one, other in neighbour_pairs(3, 3):
        assert worst_log_ratio(exact[one], exact[other]) <= eps


def test_the_enumeration_would_betray_a_mechanism_that_overspends():
    exact = distributions(tiny_grid(5, 1), 3, [0.49, 0.51], Budget(1.3 * 2.0, "eps"))
    pairs = neighbour_pairs(5, 3)
    assert max(worst_log_ratio(exact[one], exact[other]) for one, other in pairs) > 2.0


@pytest.mark.parametrize("quantiles", QUANTILES.values(), ids=QUANTILES)
def test_every_renyi_divergence_is_within_rho(quantiles):
    rho = 0.5
    exact = distributions(tiny_grid(3, 2), 2, quantiles, Budget(rho, "rho"))
    for pair, order in itertools.product(neighbour_pairs(3, 2), [1.01, 2.0, 8.0, 200.0]):
        for one, other in (pair, pair[::-1]):
            assert renyi_divergence(exact[one], exact[other], order) <= rho * order


@pytest.mark.parametrize("budget", [Budget(1.0, "eps"), Budget(0.3, "rho")])
def test_cost_in_both_units_holds_on_the_exact_distributions(budget):
    quantiles = [0.3, 0.6]
    cost = IND.cost(quantiles, budget)
    assert 0.999 * budget.amount < cost[budget.unit] <= budget.amount
    exact = distributions(tiny_grid(3, 2), 3, quantiles, budget)
    for one, other in neighbour_pairs(3, 3):
        assert worst_log_ratio(exact[one], exact[other]) <= cost["eps"]
        for order in (1.1, 2.0, 10.0):
            assert renyi_divergence(exact[one], exact[other], order) <= cost["rho"] * order


def hockey_stick(one, other, eps):
    """Return the smallest delta for which `one` is within (eps, delta) of `other`."""
    return math.fsum(max(one[key] - math.exp(eps) * other[key], 0.0) for key in one)


@pytest.mark.parametrize(("eps", "delta"), [(0.5, 1e-3), (1.0, 0.02), (2.0, 1e-6)])
@pytest.mark.parametrize("quantiles", [[0.5], [1 / 3, 2 / 3], [0.3, 0.5, 0.6]], ids=str)
def test_composed_budgets_keep_the_promised_delta(quantiles, eps, delta):
    (budget,) = IND.composed_budgets([quantiles], [1.0], eps, delta)
    assert budget.amount > eps  # more than pure DP would allow
    exact = distributions(tiny_grid(3, 2), 3, quantiles, budget)
    for pair in neighbour_pairs(3, 3):
        for one, other in (pair, pair[::-1]):
            assert hockey_stick(exact[one], exact[other], eps) <= delta


def test_the_test_above_has_power():
    (budget,) = IND.composed_budgets([[0.5]], [1.0], 1.0, 0.1)
    worst = {}
    for factor in (1.0, 1.3):
        exact = distributions(tiny_grid(3, 4), 3, [0.5], Budget(factor * budget.amount, "eps"))
        pairs = [order for pair in neighbour_pairs(3, 3) for order in (pair, pair[::-1])]
        worst[factor] = max(hockey_stick(exact[one], exact[other], 1.0) for one, other in pairs)
    assert worst[1.0] <= 0.1 < worst[1.3]


def worst_of_two_point_mechanisms(n_draws, eps_draw, eps):
    """The same delta by brute force over the position t of the range of the privacy loss."""
    worst = 0.0
    for t in np.linspace(0, eps_draw, 2001):
        p = (math.exp(-t) - math.exp(-eps_draw)) / (1 - math.exp(-eps_draw))
        excesses = (
            math.comb(n_draws, i)
            * p ** (n_draws - i)
            * (1 - p) ** i
            * max(math.exp(n_draws * t - i * eps_draw) - math.exp(eps), 0.0)
            for i in range(n_draws + 1)
        )
        worst = max(worst, math.fsum(excesses))
    return worst


@pytest.mark.parametrize(
    ("n_draws", "eps_draw", "eps"), [(1, 1.3, 1.0), (3, 0.6, 1.0), (8, 0.5, 1.5), (20, 0.2, 0.5)]
)
def test_optimal_composition_is_the_worst_of_all_two_point_mechanisms(n_draws, eps_draw, eps):
    brute = worst_of_two_point_mechanisms(n_draws, eps_draw, eps)
    assert brute <= nonadaptive_delta(n_draws, eps_draw, eps) <= brute * 1.001


@pytest.mark.parametrize("n_draws", [1, 2, 7, 40, 200])
@pytest.mark.parametrize(("eps", "delta"), [(0.01, 1e-9), (1.0, 1e-6), (20.0, 1e-6)])
def test_optimal_composition_beats_pure_and_concentrated_accounting(n_draws, eps, delta):
    best = nonadaptive_eps(n_draws, eps, delta)
    assert best >= eps / n_draws
    assert best >= math.sqrt(8 * rho_of_approximate_dp(eps, delta) / n_draws)
    assert nonadaptive_delta(n_draws, best, eps) <= delta
    assert nonadaptive_delta(n_draws, best * 1.0001, eps) > delta


def test_equal_columns_are_composed_together_and_others_by_their_shares():
    three = [[0.25, 0.5, 0.75]] * 2
    together = IND.composed_budgets(three, [0.5, 0.5], 1.0, 1e-6)
    assert together == (Budget(3 * nonadaptive_eps(6, 1.0, 1e-6), "eps"),) * 2
    apart = IND.composed_budgets(three, [0.25, 0.75], 1.0, 1e-6)
    assert apart[0].amount == 3 * nonadaptive_eps(3, 0.25, 0.25e-6)
    assert apart[1].amount == 3 * nonadaptive_eps(3, 0.75, 0.75e-6)
    assert (
        IND.composed_budgets([[0.5]] * (MOST_DRAWS_COMPOSED + 1), [0.001] * 257, 1.0, 1e-6) is None
    )


def chi_square(sampled_eps, exact_eps, seed, n_draws=3000):
    grid, quantiles = tiny_grid(3, 2), [0.3, 0.8]
    ranks = column_of((2, 1, 3), grid)
    exact = ind_distribution(ranks, quantiles, Budget(exact_eps, "eps"))
    sorted_cells = {}
    for key, chance in cell_distribution(exact, 2).items():
        ascending = tuple(sorted(key))
        sorted_cells[ascending] = sorted_cells.get(ascending, 0.0) + chance
    randomness = SeededRandomness(np.random.SeedSequence(seed))
    drawn = dict.fromkeys(sorted_cells, 0)
    for _ in range(n_draws):
        released = IND.release(ranks, quantiles, Budget(sampled_eps, "eps"), randomness)
        drawn[tuple(released.tolist())] += 1
    expected = np.array(list(sorted_cells.values())) * n_draws
    return chisquare(list(drawn.values()), expected * n_draws / expected.sum()).pvalue


def test_sampler_follows_the_exact_distribution_and_would_betray_a_wrong_eps():
    assert chi_square(3.0, 3.0, seed=1) > 1e-3
    assert chi_square(3.9, 3.0, seed=2) < 1e-3
    assert chi_square(3.0, 3.9, seed=3) < 1e-3


@pytest.mark.parametrize("eps", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("values", [[], [0.0], [np.inf, -np.inf, 1.0], [7.0] * 1000], ids=len)
def test_release_always_gives_ascending_cells(values, eps):
    ranks = SortedColumn(np.array(values, dtype=float), UnboundedGrid())
    for m in (1, 2, 30):
        quantiles = np.arange(1, m + 1) / (m + 1)
        cells = IND.release(ranks, quantiles, Budget(eps, "eps"), SystemRandomness())
        assert cells.shape == (m,)
        assert np.all(np.diff(cells) >= 0)
