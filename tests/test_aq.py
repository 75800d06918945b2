"""AQ is private: proved exhaustively on tiny grids, then tied to the sampler in use."""

import functools
import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

from dpq_sklearn.accounting import Budget
from dpq_sklearn.engine.grid import BoundedGrid, UnboundedGrid
from dpq_sklearn.engine.random import SeededRandomness, SystemRandomness
from dpq_sklearn.engine.ranks import SortedColumn
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles, quantile_tree
from tests.enumeration import (
    aq_distribution,
    cell_distribution,
    column_of,
    datasets,
    lumpy_grid,
    neighbour_pairs,
    renyi_divergence,
    summary_of,
    tiny_grid,
    worst_log_ratio,
)

AQ = ApproximateQuantiles()

QUANTILES = {
    "median": [0.5],
    "near 0": [0.02],
    "near 1": [0.999],
    "thirds": [1 / 3, 2 / 3],
    "close pair": [0.7, 0.71],
    "quartiles": [0.25, 0.5, 0.75],
    "skewed three": [0.01, 0.05, 0.9],
    "fifths": [0.2, 0.4, 0.6, 0.8],
    "extreme four": [0.001, 0.3, 0.31, 0.995],
}


def distributions(grid, most, quantiles, budget, source):
    return {
        counts: aq_distribution(source(counts, grid), quantiles, budget)
        for counts in datasets(grid.n_cells, most)
    }


@pytest.mark.parametrize("source", [column_of, summary_of])
@pytest.mark.parametrize("quantiles", QUANTILES.values(), ids=QUANTILES)
@pytest.mark.parametrize("eps", [0.3, 3.0])
def test_every_neighbour_and_every_output_is_within_eps(quantiles, eps, source):
    grid, most = tiny_grid(3, 2), 3
    exact = distributions(grid, most, quantiles, Budget(eps, "eps"), source)
    worst = max(
        worst_log_ratio(exact[one], exact[other]) for one, other in neighbour_pairs(3, most)
    )
    assert worst <= eps


@pytest.mark.parametrize(("grid", "most"), [(tiny_grid(4, 2), 3), (tiny_grid(5, 1), 3)])
def test_the_enumeration_would_betray_a_mechanism_that_overspends(grid, most):
    """On the very grids on which the promised eps is kept."""

    def worst(eps):
        exact = distributions(grid, most, [0.5], Budget(eps, "eps"), summary_of)
        pairs = neighbour_pairs(grid.n_cells, most)
        return max(worst_log_ratio(exact[one], exact[other]) for one, other in pairs)

    assert worst(1.0) <= 1.0
    assert worst(1.3) > 1.0


@pytest.mark.parametrize("grid", [tiny_grid(4, 2), tiny_grid(4, 1), tiny_grid(2, 4), lumpy_grid(2)])
@pytest.mark.parametrize("quantiles", [[0.3, 0.6], [0.25, 0.5, 0.75]])
def test_other_grids_are_within_eps(grid, quantiles):
    exact = distributions(grid, 2, quantiles, Budget(1.0, "eps"), column_of)
    for one, other in neighbour_pairs(grid.n_cells, 2):
        assert worst_log_ratio(exact[one], exact[other]) <= 1.0


@pytest.mark.parametrize("quantiles", QUANTILES.values(), ids=QUANTILES)
@pytest.mark.parametrize("rho", [0.01, 1.0])
def test_every_renyi_divergence_is_within_rho(quantiles, rho):
    grid, most = tiny_grid(3, 2), 3
    exact = distributions(grid, most, quantiles, Budget(rho, "rho"), column_of)
    orders = [1.01, 1.5, 2.0, 3.0, 8.0, 32.0, 200.0]
    for pair, order in itertools.product(neighbour_pairs(3, most), orders):
        for one, other in (pair, pair[::-1]):
            assert renyi_divergence(exact[one], exact[other], order) <= rho * order


def test_the_enumeration_would_betray_a_mechanism_that_overspends_its_rho():
    exact = distributions(tiny_grid(5, 1), 3, [0.5], Budget(0.014, "rho"), summary_of)
    pairs = neighbour_pairs(5, 3)
    worst = max(renyi_divergence(exact[one], exact[other], 1.01) for one, other in pairs)
    assert worst > 0.01 * 1.01


@pytest.mark.parametrize("budget", [Budget(1.0, "eps"), Budget(0.3, "rho")])
def test_cost_in_both_units_holds_on_the_exact_distributions(budget):
    """A release bought with eps also has a rho, and the other way round."""
    quantiles = [0.2, 0.4, 0.6, 0.8]
    cost = AQ.cost(quantiles, budget)
    assert cost[budget.unit] <= budget.amount
    exact = distributions(tiny_grid(3, 2), 3, quantiles, budget, column_of)
    for one, other in neighbour_pairs(3, 3):
        assert worst_log_ratio(exact[one], exact[other]) <= cost["eps"]
        for order in (1.1, 2.0, 10.0):
            assert renyi_divergence(exact[one], exact[other], order) <= cost["rho"] * order


def chi_square(sampled_eps, exact_eps, randomness, n_draws=5000):
    """The p-value of draws at one eps against the exact distribution at another."""
    grid, quantiles = lumpy_grid(2), [0.3, 0.5, 0.8]
    ranks = column_of((2, 1, 0, 3), grid)
    exact = aq_distribution(ranks, quantiles, Budget(exact_eps, "eps"))
    cells = cell_distribution(exact, grid.positions_per_cell)
    budget = Budget(sampled_eps, "eps")
    drawn = dict.fromkeys(cells, 0)
    for _ in range(n_draws):
        drawn[tuple(AQ.release(ranks, quantiles, budget, randomness).tolist())] += 1
    expected = np.array([cells[key] * n_draws for key in cells])
    observed = np.array([drawn[key] for key in cells])
    return chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


def test_sampler_follows_the_exact_distribution_and_would_betray_a_wrong_eps():
    assert chi_square(2.0, 2.0, SeededRandomness(np.random.SeedSequence(1))) > 1e-3
    assert chi_square(2.6, 2.0, SeededRandomness(np.random.SeedSequence(2))) < 1e-3
    assert chi_square(2.0, 2.6, SeededRandomness(np.random.SeedSequence(3))) < 1e-3


@pytest.mark.parametrize("m", range(1, 40))
@pytest.mark.parametrize("unit", ["eps", "rho"])
def test_every_path_of_the_tree_spends_at_most_the_budget(m, unit):
    tree = quantile_tree(np.arange(1, m + 1) / (m + 1), Budget(0.7, unit))

    def paths(tree):
        if tree is None:
            return [[]]
        return [[tree.eps, *rest] for child in (tree.left, tree.right) for rest in paths(child)]

    spent = [sum(eps if unit == "eps" else eps**2 / 8 for eps in path) for path in paths(tree)]
    assert 0.699 < max(spent) <= 0.7
    assert max(map(len, paths(tree))) == m.bit_length()


def test_tree_of_a_power_of_two_less_one_asks_for_medians_with_equal_shares():
    tree = quantile_tree(np.arange(1, 8) / 8, Budget(3.0, "eps"))
    for node in (tree, tree.left, tree.right, tree.left.left, tree.right.right):
        assert node.q == pytest.approx(0.5)
        assert node.eps == pytest.approx(1.0, rel=1e-4)


def reachable_cells(values, bounds_grid, quantiles):
    """The set of joint outputs with positive probability, on a grid of few cells."""
    ranks = SortedColumn(np.array(values), bounds_grid)
    exact = aq_distribution(ranks, quantiles, Budget(1.0, "eps"))
    return {key for key, chance in exact.items() if chance > 0}


@pytest.mark.parametrize("grid", [BoundedGrid(-1.0, 1.0, 8, 2), UnboundedGrid(16, 2)])
def test_possible_outputs_do_not_depend_on_the_data(grid):
    """The low bits that give other implementations away: here all datasets reach all outputs."""
    without = reachable_cells([-1.0, 1.0], grid, [0.3, 0.6])
    with_one_more = reachable_cells([-1.0, 1.0, 0.7], grid, [0.3, 0.6])
    assert without == with_one_more
    n_positions = grid.n_cells * grid.positions_per_cell
    assert len(without) == n_positions * (n_positions + 1) // 2


@pytest.mark.parametrize("eps", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(
    "values",
    [[], [0.0], [5e-324] * 3, [1e18, -1e18], [np.inf, -np.inf, 1.0], [7.0] * 1000],
    ids=["empty", "one zero", "subnormal", "huge", "infinite", "constant"],
)
def test_release_always_gives_ascending_cells(values, eps):
    grid = UnboundedGrid()
    ranks = SortedColumn(np.array(values, dtype=float), grid)
    for m in (1, 2, 5, 100):
        quantiles = np.arange(1, m + 1) / (m + 1)
        cells = AQ.release(ranks, quantiles, Budget(eps, "eps"), SystemRandomness())
        assert cells.shape == (m,)
        assert np.all(np.diff(cells) >= 0)
        assert cells[0] >= 0 and cells[-1] < grid.n_cells


def test_ten_thousand_quantiles_of_a_thousand_records(rng):
    ranks = SortedColumn(rng.normal(size=1000), UnboundedGrid())
    quantiles = np.arange(1, 10_001) / 10_001
    cells = AQ.release(ranks, quantiles, Budget(1.0, "eps"), SystemRandomness())
    assert np.all(np.diff(cells) >= 0)


def test_distribution_of_weights_is_the_same_from_column_and_summary():
    grid = tiny_grid(3, 2)
    budget = Budget(1.0, "eps")
    of_source = functools.partial(aq_distribution, quantiles=[0.2, 0.9], budget=budget)
    for counts in datasets(3, 2):
        assert of_source(column_of(counts, grid)) == of_source(summary_of(counts, grid))
