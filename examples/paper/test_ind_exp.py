"""AppIndExp is private: enumerated for every kind of budget, and tied to the sampler."""

import itertools
import math
from unittest import mock

import numpy as np
import pytest
from ind_exp import IndependentExponential

from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.accounting.conversions import rho_of_approximate_dp
from dpq_sklearn.accounting.optimal_composition import adaptive_delta
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.mechanisms import aq as aq_module
from tests.enumeration import (
    datasets,
    hockey_stick,
    lumpy_grid,
    neighbour_pairs,
    place_weights,
    ranks_of_weights,
    tiny_grid,
)
from tests.mechanism_helpers import (
    ERROR_BUDGETS,
    QUANTILES,
    assert_predicts_its_errors,
    assert_refuses,
    assert_releases_ascending_cells,
    assert_within,
    nonadaptive_delta,
    p_value,
    sample,
    spent,
    uniform_quantiles,
    worst_eps_of,
    worst_rho_of,
)
from tests.test_own_enumeration import QUANTILES as SOME
from tests.test_own_enumeration import (
    all_datasets,
    largest_log_ratio,
    own_chances,
    with_one_more,
)

IND = IndependentExponential()


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def cell_chances(weights, grid, quantiles, budget):
    """The chance of each cell, of each quantile, of each dataset (a row of weights of cells)."""
    n_datasets = len(weights)
    ranks = ranks_of_weights(weights, grid)
    with mock.patch.object(aq_module.exponential, "draw") as draw:
        draw.side_effect = lambda ranks, nodes, randomness: (nodes.lo, nodes.lo_rank)
        IND.draw(ranks, [quantiles] * n_datasets, [budget] * n_datasets, None)
    pieces = [place_weights(ranks, call.args[1]) for call in draw.call_args_list]
    of_cells = np.concatenate(pieces)[:, :: grid.positions_per_cell]
    chances = of_cells / of_cells.sum(axis=1, keepdims=True)
    return chances.reshape(n_datasets, len(quantiles), -1)


def joint(chances):
    """{cells of all quantiles, not yet sorted: probability}."""
    outcomes = itertools.product(*(enumerate(of_quantile) for of_quantile in chances.tolist()))
    return {
        tuple(cell for cell, _ in outcome): math.prod(chance for _, chance in outcome)
        for outcome in outcomes
    }


def distributions(grid, most, quantiles, budget):
    """The exact distribution of every small dataset."""
    counts = datasets(int(grid.end[0]), most)
    chances = cell_chances(np.array(counts) * RECORD_WEIGHT, grid, quantiles, budget)
    return dict(zip(counts, map(joint, chances), strict=True))


@pytest.mark.parametrize("quantiles", QUANTILES.values(), ids=QUANTILES)
@pytest.mark.parametrize(
    "budget", [Budget(0.3, "eps"), Budget(3.0, "eps"), Budget(0.5, "rho")], ids=str
)
def test_every_neighbour_and_every_output_is_within_the_cost(quantiles, budget):
    cost = IND.cost(quantiles, budget)
    assert 0.999 * budget.amount < spent(cost, budget) <= budget.amount
    for grid in (tiny_grid(3, 2), lumpy_grid(2, n_cells=3)):
        exact = distributions(grid, 3, quantiles, budget)
        assert_within(cost, exact, neighbour_pairs(3, 3))


@pytest.mark.parametrize("is_open", [(True, True), (True, False), (False, True)], ids=str)
def test_columns_without_bounds_are_within_the_cost_too(is_open):
    budget = Budget(2.0, "eps")
    exact = distributions(tiny_grid(4, 2, is_open), 2, [0.3, 0.6], budget)
    assert_within(IND.cost([0.3, 0.6], budget), exact, neighbour_pairs(4, 2))


def test_atoms_are_within_eps():
    """Up to 30 records in one of 7 cells."""
    pairs = [
        (one, tuple(np.add(one, np.eye(7, dtype=int)[cell]).tolist()))
        for one in ((8, 30, 8, 0, 0, 3, 3), (0, 0, 30, 0, 30, 0, 0), (29, 0, 0, 1, 0, 0, 2))
        for cell in range(7)
    ]
    quantiles, budget = [0.25, 0.5, 0.75], Budget(1.0, "eps")
    for one, other in pairs:
        weights = np.array([one, other]) * RECORD_WEIGHT
        p, q = np.log(cell_chances(weights, tiny_grid(7, 4), quantiles, budget))
        assert np.abs(p - q).max(axis=1).sum() <= 1.0  # the draws are independent


def test_the_enumeration_notices_1_3_eps():
    quantiles, pairs = [0.49, 0.51], list(neighbour_pairs(5, 3))
    worst = [
        worst_eps_of(distributions(tiny_grid(5, 1), 3, quantiles, Budget(eps, "eps")), pairs)
        for eps in (2.0, 1.3 * 2.0)
    ]
    assert worst[0] <= 2.0 < worst[1]


def test_the_enumeration_notices_1_3_rho():
    pairs = list(neighbour_pairs(7, 1))
    worst = [
        worst_rho_of(distributions(tiny_grid(7, 1), 1, [0.5], Budget(rho, "rho")), pairs)
        for rho in (0.01, 1.3 * 0.01)
    ]
    assert worst[0] <= 0.01 < worst[1]


@pytest.mark.parametrize("budget", [Budget(2.0, "eps"), Budget(0.5, "rho")], ids=str)
def test_a_person_whose_rows_share_the_weight_of_one_record_is_within_the_cost(budget, rng):
    """The rows of a person: any weights in any cells whose sum is one record."""
    quantiles = [0.3, 0.6]
    cost = IND.cost(quantiles, budget)
    others = rng.integers(0, 3 * RECORD_WEIGHT, size=(200, 4))
    person = rng.multinomial(RECORD_WEIGHT, rng.dirichlet(np.full(4, 0.3), size=200))
    without, with_person = (
        np.log(cell_chances(weights, tiny_grid(4, 2), quantiles, budget))
        for weights in (others, others + person)
    )
    assert np.abs(without - with_person).max(axis=2).sum(axis=1).max() <= cost.eps
    for order in (1.1, 2.0, 10.0):
        for p, q in ((without, with_person), (with_person, without)):
            moments = np.exp(q + order * (p - q)).sum(axis=2)
            assert (np.log(moments).sum(axis=1) / (order - 1)).max() <= cost.rho * order


@pytest.mark.parametrize(("eps", "delta"), [(0.5, 1e-3), (1.0, 0.02), (2.0, 1e-6)])
@pytest.mark.parametrize("quantiles", [[0.5], [1 / 3, 2 / 3], [0.3, 0.5, 0.6]], ids=str)
def test_composed_budgets_keep_the_promised_delta(quantiles, eps, delta):
    (budget,) = IND.composed_budgets([quantiles], [1.0], eps, delta)
    assert budget.unit == "draw"
    if len(quantiles) > 1:  # for one draw, such a delta buys next to nothing
        assert budget.amount * len(quantiles) > eps  # more than pure DP would allow
    exact = distributions(tiny_grid(3, 2), 3, quantiles, budget)
    for pair in neighbour_pairs(3, 3):
        for one, other in (pair, pair[::-1]):
            assert hockey_stick(exact[one], exact[other], eps) <= delta


def test_the_test_of_composed_budgets_notices_1_3_of_them():
    (budget,) = IND.composed_budgets([[0.5]], [1.0], 1.0, 0.1)
    worst = {}
    for factor in (1.0, 1.3):
        exact = distributions(tiny_grid(5, 1), 3, [0.5], budget.scaled(factor))
        pairs = [order for pair in neighbour_pairs(5, 3) for order in (pair, pair[::-1])]
        worst[factor] = max(hockey_stick(exact[one], exact[other], 1.0) for one, other in pairs)
    assert worst[1.0] <= 0.1 < worst[1.3]


def test_the_cost_of_composed_budgets_is_that_of_all_their_draws():
    budget, quantiles = Budget(0.4, "draw"), [0.2, 0.5, 0.7]
    cost = IND.cost(quantiles, budget)
    assert cost.eps == pytest.approx(3 * 0.4, rel=1e-4)
    assert cost.rho == pytest.approx(3 * 0.4**2 / 8, rel=1e-4)
    exact = distributions(tiny_grid(3, 2), 3, quantiles, budget)
    assert_within(cost, exact, neighbour_pairs(3, 3))


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
def test_optimum_without_adaptivity_is_the_worst_of_all_two_point_mechanisms(
    n_draws, eps_draw, eps
):
    brute = worst_of_two_point_mechanisms(n_draws, eps_draw, eps)
    assert brute <= nonadaptive_delta(n_draws, eps_draw, eps) <= brute * 1.001


@pytest.mark.parametrize("n_draws", [1, 2, 7, 40, 400])
@pytest.mark.parametrize(("eps", "delta"), [(0.01, 1e-9), (1.0, 1e-6), (20.0, 1e-6)])
def test_composed_budgets_are_near_the_optimum_and_beat_other_accounts(n_draws, eps, delta):
    """The draws are not adaptive, which would allow a hundredth more at best."""
    (budget,) = IND.composed_budgets([uniform_quantiles(n_draws)], [1.0], eps, delta)
    assert budget.amount >= eps / n_draws * (1 - 1e-9)
    rho = rho_of_approximate_dp(eps, delta)
    assert budget.amount >= 0.999 * math.sqrt(8 * rho / n_draws)
    assert nonadaptive_delta(n_draws, budget.amount, eps) <= delta
    assert nonadaptive_delta(n_draws, budget.amount * 1.015, eps) > delta


def test_columns_are_composed_together_and_have_their_shares():
    three, two = [0.25, 0.5, 0.75], [0.3, 0.6]
    alike = IND.composed_budgets([three, three], [0.5, 0.5], 1.0, 1e-6)
    assert alike == IND.composed_budgets([uniform_quantiles(6)], [1.0], 1.0, 1e-6) * 2
    unlike = IND.composed_budgets([three, two], [0.2, 0.8], 1.0, 1e-6)
    assert unlike[1].amount == pytest.approx(2 * unlike[0].amount)
    draws = [unlike[0].amount] * 3 + [unlike[1].amount] * 2
    assert 0.95e-6 < adaptive_delta(draws, 1.0) <= 1e-6


def test_sampler_follows_the_exact_distribution_and_betrays_a_wrong_eps():
    grid, quantiles, counts = tiny_grid(3, 2), [0.3, 0.8], (2, 1, 3)
    chances = cell_chances([np.array(counts) * RECORD_WEIGHT], grid, quantiles, Budget(3.0, "eps"))
    exact = {}
    for cells, chance in joint(chances[0]).items():
        exact[tuple(sorted(cells))] = exact.get(tuple(sorted(cells)), 0.0) + chance

    def p_value_of(eps, seed):
        return p_value(sample(IND, counts, grid, quantiles, Budget(eps, "eps"), seed, 9000), exact)

    assert p_value_of(3.0, seed=1) > 1e-3
    assert p_value_of(3.9, seed=2) < 1e-3
    assert p_value_of(3.0 / 1.3, seed=3) < 1e-3


@pytest.mark.parametrize("budget", ERROR_BUDGETS, ids=str)
def test_rank_errors_are_those_of_plentiful_data(budget):
    assert_predicts_its_errors(IND, 4, budget, n_columns=1500)


@pytest.mark.parametrize("eps", [1e-6, 1.0, 1e6])
def test_release_always_gives_ascending_cells(eps):
    assert_releases_ascending_cells(IND, Budget(eps, "eps"))


def test_a_budget_too_small_to_be_guaranteed_is_refused():
    assert IND.typical_error([0.3, 0.6], Budget(1e-10, "eps")) < math.inf
    for unit in ("eps", "rho", "draw"):
        assert_refuses(IND, [0.3, 0.6], Budget(1e-13 if unit != "rho" else 1e-25, unit))


# The same from the definition: plain loops of their own.


def own_joint(counts, measures, quantiles, eps):
    """{ascending cells: probability}, with an equal part of eps for each quantile."""
    of_quantiles = [own_chances(counts, measures, q, eps / len(quantiles)) for q in quantiles]
    joint = {}
    for cells in itertools.product(range(len(counts)), repeat=len(quantiles)):
        chance = math.prod(of[cell] for of, cell in zip(of_quantiles, cells, strict=True))
        outcome = tuple(sorted(cells))
        joint[outcome] = joint.get(outcome, 0.0) + chance
    return joint


@pytest.mark.parametrize("quantiles", SOME, ids=str)
@pytest.mark.parametrize("grid", [tiny_grid(4, 2), lumpy_grid(2, n_cells=4)], ids=["even", "lumpy"])
def test_weights_of_ind_exp_are_those_of_the_definition(quantiles, grid):
    """The base measure is what the mechanism draws by where there are no records."""
    small = all_datasets(4, 2)
    weights = np.array(small) * RECORD_WEIGHT
    found = cell_chances(weights, grid, quantiles, Budget(2.0, "eps"))
    measures = found[0, 0]
    for counts, of_dataset in zip(small, found, strict=True):
        for q, chances in zip(quantiles, of_dataset, strict=True):
            expected = own_chances(counts, measures, q, 2.0 / len(quantiles))
            np.testing.assert_allclose(chances, expected, rtol=1e-3)


@pytest.mark.parametrize("quantiles", SOME, ids=str)
@pytest.mark.parametrize("measures", [(1, 1, 1, 1), (4, 1, 4, 1), (1e-6, 1, 1, 1e-3)], ids=str)
@pytest.mark.parametrize("eps", [0.3, 2.0])
def test_ind_exp_is_within_eps_by_its_definition(quantiles, measures, eps):
    worst = max(
        largest_log_ratio(
            own_joint(counts, measures, quantiles, eps), own_joint(more, measures, quantiles, eps)
        )
        for counts in all_datasets(4, 2)
        for more in with_one_more(counts)
    )
    assert worst <= eps * (1 + 1e-12)


def test_the_definition_of_ind_exp_comes_near_to_eps():
    """So the test above would notice 1.3 eps: the record leads away from a likely cell."""
    measures = (1.0, 1e-9, 1e-9, 1e-9)
    one, other = (own_joint((0, 0, 5, n), measures, [0.5], 2.0) for n in (0, 1))
    assert 0.999 * 2.0 < largest_log_ratio(one, other) <= 2.0


def test_draws_of_ind_exp_follow_the_definition_and_betray_another_eps():
    counts, quantiles, n_draws = (2, 0, 3, 1), [0.25, 0.5], 8000
    grid = tiny_grid(4, 2)
    ranks = ranks_of_weights([np.array(counts) * RECORD_WEIGHT] * n_draws, grid)
    nothing = np.zeros((1, 4), dtype=np.int64)
    measures = cell_chances(nothing, grid, quantiles, Budget(2.0, "eps"))[0, 0]

    def p_value_of(eps, seed):
        drawn = IND.draw(
            ranks, [quantiles] * n_draws, [Budget(eps, "eps")] * n_draws, make_randomness(seed)
        )
        cells, n_drawn = np.unique(np.array(drawn), axis=0, return_counts=True)
        expected = own_joint(counts, measures, quantiles, 2.0)
        return p_value(dict(zip(map(tuple, cells.tolist()), n_drawn, strict=True)), expected)

    assert p_value_of(2.0, seed=1) > 1e-3
    assert p_value_of(2.6, seed=2) < 1e-3
