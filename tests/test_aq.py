"""AQ is private: proved exhaustively on tiny grids, then tied to the sampler in use."""

import functools
import inspect
import itertools
import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from dpq_sklearn import DPKBinsDiscretizer
from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.accounting.optimal_composition import adaptive_delta
from dpq_sklearn.engine.exponential import Scores, StepMeasure
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.pairs import DistanceSlopes, Line, PairScores
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.engine.weighted_ranks import WeightedRanks
from dpq_sklearn.mechanisms import aq as aq_module
from dpq_sklearn.mechanisms import level_shares
from dpq_sklearn.mechanisms.aq import quantile_nodes
from dpq_sklearn.mechanisms.base_measure import step_measure
from dpq_sklearn.mechanisms.level_shares import level_pattern
from dpq_sklearn.reading.groups import weights_of_rows
from dpq_sklearn.reading.summaries import Summary, summarize
from tests.enumeration import (
    AQ,
    aq_distribution,
    aq_draws,
    cell_distribution,
    column_of,
    datasets,
    hockey_stick,
    joint_distribution,
    levels_of,
    lumpy_grid,
    pair_weights,
    place_weights,
    ranks_around,
    ranks_of_weights,
    renyi_divergence,
    rows_of,
    side_by_side,
    split_in_the_middle,
    summary_of,
    tiny_grid,
    with_neighbours,
    worst_eps,
    worst_log_ratio,
    worst_range_rho,
    worst_rho,
)
from tests.marks import slow

QUARTILES = [0.25, 0.5, 0.75]
QUANTILES = {
    "median": [0.5],
    "near 0": [0.02],
    "near 1": [0.999],
    "thirds": [1 / 3, 2 / 3],
    "close pair": [0.7, 0.71],
    "quartiles": QUARTILES,
    "skewed three": [0.01, 0.05, 0.9],
    "fifths": [0.2, 0.4, 0.6, 0.8],
    "extreme four": [0.001, 0.3, 0.31, 0.995],
    "eighths": np.arange(1, 8) / 8,
}
ORDERS = [1.01, 1.5, 2.0, 3.0, 8.0, 32.0, 200.0]

# Atoms beside gaps and single records: 7 cells.
NASTY = [
    (8, 30, 8, 0, 0, 3, 3),
    (0, 0, 0, 30, 0, 0, 0),
    (30, 0, 0, 0, 0, 0, 30),
    (0, 1, 30, 1, 0, 0, 29),
    (1, 0, 0, 29, 1, 0, 0),
    (0, 30, 0, 1, 0, 30, 0),
    (15, 0, 1, 30, 0, 1, 14),
    (29, 0, 0, 1, 0, 0, 0),
    (3, 3, 3, 3, 3, 3, 3),
    (1, 0, 0, 0, 0, 0, 0),
    (0, 0, 0, 0, 0, 0, 0),
]


def nasty_measure(seed=0, spread=6.0):
    """A base measure whose densities jump by factors of up to 10^spread with what was released."""

    def step_measure(grid, columns, lo, hi, beyond, is_open, is_released, guesses=None):
        n_cells = int(grid.end.max())
        cuts = np.clip(np.arange(n_cells + 1), lo[:, None], hi[:, None] + 1)
        released, which = np.unique(np.array((lo, hi, beyond)).T, axis=0, return_inverse=True)
        streams = (np.random.default_rng(zlib.crc32(bytes(row)) + seed) for row in released)
        densities = 10.0 ** np.array([stream.uniform(-spread, 0, n_cells) for stream in streams])
        before = grid.measure_before(cuts, columns[:, None])
        return StepMeasure(cuts=cuts, before=before, densities=densities[which])

    return step_measure


def put_in_place(monkeypatch, measure):
    """Let nodes have this base measure, roots too: theirs are not remembered."""
    monkeypatch.setattr(aq_module, "step_measure", measure)
    not_remembered = inspect.unwrap(aq_module.measure_of_a_root)
    monkeypatch.setattr(aq_module, "measure_of_a_root", not_remembered)


@pytest.fixture
def nasty(monkeypatch):
    put_in_place(monkeypatch, nasty_measure())


def test_roots_that_are_alike_have_the_base_measure_of_any_node():
    ranks = SortedRanks.of_rows(np.arange(12.0).reshape(3, 4), make_grid([(0.0, np.inf)] * 3))
    levels = aq_module.levels_of_columns(AQ, ((0.3, 0.7),) * 3, (Budget(1.0, "eps"),) * 3)
    estimates = aq_module.Estimates.before_the_first_draw(ranks, np.array([2, 2, 2]))
    nodes = aq_module.nodes_of_level(ranks.grid, levels[0], estimates, levels[0].column)

    grid = ranks.grid
    cells = grid.first, grid.end - 1, grid.first
    is_open = np.array([[False] * 3, [True] * 3])
    of_each = step_measure(grid, np.arange(3), *cells, is_open, np.zeros_like(is_open))
    for name, expected in vars(of_each).items():
        assert np.array_equal(getattr(nodes.measure, name), expected[[0, 1, 2, 0, 1, 2]])


@pytest.fixture
def single_draws(monkeypatch):
    """Trees without pairs, even if pairs would reduce the error. Many have early leaves."""
    monkeypatch.setattr(
        aq_module, "best_tree", lambda probabilities, _: quantile_nodes(probabilities)
    )
    aq_module.levels_of_columns.cache_clear()
    yield
    aq_module.levels_of_columns.cache_clear()


def of_counts(all_counts, grid):
    """The ranks of datasets and of all that have one record more, and the pairs of these."""
    counts, pairs = with_neighbours(all_counts)
    return ranks_of_weights(np.array(counts) * RECORD_WEIGHT, grid), pairs


# Every dataset, neighbour and output


@pytest.mark.parametrize("quantiles", QUANTILES.values(), ids=QUANTILES)
@pytest.mark.parametrize("eps", [0.3, 3.0])
def test_every_neighbour_and_every_output_is_within_eps_whatever_the_base_measure(quantiles, eps):
    """Check the worst base measure, and the base measure in use."""
    ranks, pairs = of_counts(datasets(3, 3), tiny_grid(3, 2))
    draws = aq_draws(ranks, quantiles, Budget(eps, "eps"))
    assert worst_eps(draws, pairs, any_measure=True) <= eps
    assert 0.2 * eps < worst_eps(draws, pairs) <= eps


@pytest.mark.slow
@pytest.mark.parametrize("quantiles", [*list(QUANTILES.values())[:7]], ids=list(QUANTILES)[:7])
@pytest.mark.parametrize(("n_cells", "per_cell"), [(4, 2), (5, 1)])
def test_every_output_is_within_eps_on_four_and_five_cells(quantiles, n_cells, per_cell):
    ranks, pairs = of_counts(datasets(n_cells, 3), tiny_grid(n_cells, per_cell))
    assert worst_eps(aq_draws(ranks, quantiles, Budget(1.0, "eps")), pairs, True) <= 1.0


@pytest.mark.parametrize("per_cell", [1, 4, *slow(2)])
@pytest.mark.parametrize("eps", [1.0, *slow(0.1, 8.0)])
@pytest.mark.parametrize("quantiles", ["close pair", "thirds", "quartiles", "fifths"])
def test_atoms_beside_gaps_are_within_eps(quantiles, per_cell, eps):
    quantiles = QUANTILES[quantiles]
    if per_cell == 4 and len(quantiles) == 4:
        quantiles = [0.1, 0.6, 0.8]  # two of them at once, then one
    ranks, pairs = of_counts(NASTY, tiny_grid(7, per_cell))
    worst = worst_eps(aq_draws(ranks, quantiles, Budget(eps, "eps")), pairs, True)
    assert 0.999 * eps < worst <= eps
    rho = eps**2 / 8
    worst = worst_range_rho(aq_draws(ranks, quantiles, Budget(rho, "rho")), pairs)
    assert 0.999 * rho < worst <= rho


@pytest.mark.parametrize(
    "grid",
    [
        tiny_grid(5, 2, is_open=(True, True)),
        tiny_grid(5, 2, is_open=(False, True)),
        tiny_grid(5, 2, is_open=(True, False)),
        tiny_grid(2, 4),
        lumpy_grid(2),
        lumpy_grid(1, 6),
    ],
    ids=["no bounds", "open above", "open below", "two cells", "lumpy", "lumpy cells"],
)
@pytest.mark.parametrize("quantiles", [[0.3, 0.6], QUARTILES, QUANTILES["fifths"]])
def test_other_grids_are_within_eps(grid, quantiles):
    counts = [*datasets(int(grid.end[0]), 1), (30, *[0] * int(grid.end[0] - 2), 7)]
    ranks, pairs = of_counts(counts, grid)
    draws = aq_draws(ranks, quantiles, Budget(1.0, "eps"))
    assert worst_eps(draws, pairs, any_measure=True) <= 1.0
    assert 0.2 < worst_eps(draws, pairs) <= 1.0


@pytest.mark.parametrize("quantiles", QUANTILES.values(), ids=QUANTILES)
def test_base_measures_that_jump_with_what_was_released_cost_nothing(quantiles, nasty):
    ranks, pairs = of_counts([*datasets(4, 1), (8, 30, 0, 8), (0, 30, 1, 0)], tiny_grid(4, 2))
    assert 0.3 < worst_eps(aq_draws(ranks, quantiles, Budget(1.0, "eps")), pairs) <= 1.0
    draws = aq_draws(ranks, quantiles, Budget(0.1, "rho"))
    assert 0.003 < worst_rho(draws, pairs, ORDERS) <= 0.1


@pytest.mark.parametrize("quantiles", QUANTILES.values(), ids=QUANTILES)
@pytest.mark.parametrize("rho", [0.01, 1.0])
def test_every_renyi_divergence_is_within_rho(quantiles, rho):
    ranks, pairs = of_counts([*datasets(3, 2), (30, 0, 3), (2, 30, 2)], tiny_grid(3, 2))
    orders = [order for order in ORDERS if rho * order**2 < 700]  # beyond, moments overflow
    draws = aq_draws(ranks, quantiles, Budget(rho, "rho"))
    assert worst_rho(draws, pairs, orders) <= worst_range_rho(draws, pairs) <= rho


@pytest.mark.parametrize("budget", [Budget(1.0, "eps"), Budget(0.3, "rho"), Budget(0.4, "draw")])
def test_cost_in_both_units_holds_on_the_exact_distributions(budget):
    """A release with a budget in eps also has a rho, and vice versa."""
    quantiles = QUANTILES["fifths"]
    cost = AQ.cost(quantiles, budget)
    if budget.unit != "draw":
        assert getattr(cost, budget.unit) <= budget.amount
    ranks, pairs = of_counts([*datasets(3, 2), (9, 30, 0)], tiny_grid(3, 2))
    draws = aq_draws(ranks, quantiles, budget)
    assert 0.6 * cost.eps < worst_eps(draws, pairs, any_measure=True) <= cost.eps
    assert worst_rho(draws, pairs, ORDERS) <= worst_range_rho(draws, pairs) <= cost.rho


@pytest.mark.parametrize(("eps", "delta"), [(1.0, 1e-3), (1.0, 0.05), (0.3, 0.01)])
@pytest.mark.parametrize(
    ("quantiles", "share"),
    [((0.5,), 0.3), (tuple(QUARTILES), 0.3), ((0.2, 0.4, 0.6, 0.8), 0.0)],
    ids=["1", "3", "4"],
)
@pytest.mark.parametrize("tree", ["best", "single"])
def test_composed_budgets_keep_the_promised_delta(
    tree, quantiles, share, eps, delta, monkeypatch, request
):
    """Some base measures nearly reach it. Single draws of 4 quantiles have an early leaf."""
    if tree == "single":
        request.getfixturevalue("single_draws")
    (budget,) = AQ.composed_budgets([quantiles], [1.0], eps, delta)
    counts, pairs = with_neighbours([(0, 1, 0, 0), (0, 2, 2, 0), (1, 1, 1, 1)])
    ranks = ranks_of_weights(np.array(counts) * RECORD_WEIGHT, tiny_grid(4, 1))
    worst = 0.0
    for seed in range(20):
        put_in_place(monkeypatch, nasty_measure(seed, spread=3.0))
        draws = aq_draws(ranks, quantiles, budget)
        joint = [joint_distribution(draws, dataset) for dataset in range(len(counts))]
        for one, other in [*pairs.tolist(), *pairs[:, ::-1].tolist()]:
            worst = max(worst, hockey_stick(joint[one], joint[other], eps))
    assert share * delta <= worst <= delta


@pytest.mark.parametrize("eps", [0.5, 1.19, 1.21, 2.0])
def test_composed_budgets_reserve_for_all_rounding_errors_or_there_are_none(eps, monkeypatch):
    """3 draws of an error of 0.05 move the logarithm of a ratio by up to 0.6."""
    monkeypatch.setattr(aq_module, "DRAW_ERROR", 0.05)
    budgets = AQ.composed_budgets([QUARTILES], [1.0], eps, 1e-3)
    if eps < 1.2:
        assert budgets is None
        return
    levels, early = AQ.eps_of_levels(QUARTILES, *budgets)
    assert early == 0
    assert adaptive_delta(levels, eps - 0.6) <= 1e-3 * (1 - 0.6)


def test_an_eps_below_the_errors_of_rounding_has_no_composition():
    many = [i / 2048 for i in range(1, 2048)]
    assert AQ.composed_budgets([many], [1.0], 1.4e-8, 0.01) is None
    assert AQ.composed_budgets([many], [1.0], 1.4e-7, 0.01) is not None


@pytest.mark.parametrize("count_eps", [0.0, 0.1])
@pytest.mark.parametrize("tree", ["best", "single"])
def test_composed_budgets_of_several_columns_use_up_the_delta(count_eps, tree, request):
    """A count first: a draw of twice its eps. Then levels, of which an early leaf replaces two."""
    if tree == "single":
        request.getfixturevalue("single_draws")
    quantiles = [(0.2, 0.4, 0.6, 0.8), (0.25, 0.5, 0.75), (0.2, 0.4, 0.6, 0.8, 0.9)]
    budgets = AQ.composed_budgets(quantiles, [0.5, 0.3, 0.2], 1.0, 1e-6, count_eps)
    draws, early_leaves = ([2 * count_eps], [0.0]) if count_eps else ([], [])
    for nodes, eps in map(AQ.nodes_and_eps, quantiles, budgets):
        n_levels = nodes[-1].depth + 1
        levels, early = [set() for _ in range(n_levels)], [0.0] * n_levels
        for node, of_node in zip(nodes, eps, strict=True):
            if node.is_leaf and node.depth < n_levels - 1:
                early[node.depth] = of_node
            else:
                levels[node.depth].add(of_node)
        draws += [of_level for (of_level,) in levels]
        early_leaves += early
    assert 0.975e-6 < adaptive_delta(draws, 1.0, early_leaves) <= 1e-6


# The enumeration has power


@pytest.mark.parametrize("grid", [tiny_grid(4, 2), tiny_grid(5, 1)])
def test_the_enumeration_would_betray_a_mechanism_that_overspends(grid):
    """On the same data, it detects a mechanism that overspends by 30%, and even by 0.1%."""
    ranks, pairs = of_counts(datasets(int(grid.end[0]), 2), grid)

    def worst(eps, any_measure):
        return worst_eps(aq_draws(ranks, [0.5], Budget(eps, "eps")), pairs, any_measure)

    assert worst(1.0, any_measure=False) <= 1.0 < worst(1.3, any_measure=False)
    assert worst(1.0, any_measure=True) <= 1.0 < worst(1.001, any_measure=True)


def test_the_enumeration_would_betray_a_mechanism_that_overspends_its_rho(nasty):
    ranks, pairs = of_counts(datasets(4, 2), tiny_grid(4, 2))
    assert worst_rho(aq_draws(ranks, [0.5], Budget(0.01, "rho")), pairs, [1.01]) <= 0.01
    assert worst_rho(aq_draws(ranks, [0.5], Budget(0.014, "rho")), pairs, [1.01]) > 0.01
    assert worst_range_rho(aq_draws(ranks, [0.5], Budget(0.01001, "rho")), pairs) > 0.01


@pytest.mark.parametrize("quantiles", [[0.3], [0.2, 0.9]])
def test_the_enumeration_would_betray_a_wrong_sensitivity(quantiles, single_draws, monkeypatch):
    """max(q, 1 - q) is one half at the median only."""
    ranks, pairs = of_counts(datasets(4, 2), tiny_grid(4, 2))
    right = Scores.of.__func__

    def wrong(cls, nodes, per_cell):
        scores = right(cls, nodes, per_cell)
        return replace(scores, eta=scores.eta * 2 * np.maximum(nodes.q, 1 - nodes.q))

    assert worst_eps(aq_draws(ranks, quantiles, Budget(1.0, "eps")), pairs, True) <= 1.0
    monkeypatch.setattr(Scores, "of", classmethod(wrong))
    assert worst_eps(aq_draws(ranks, quantiles, Budget(1.0, "eps")), pairs, True) > 1.05


def clipped_target(ranks, nodes, positions):
    """A split rank that is tempting: the target, clipped to the ranks of the cell."""
    low, high = ranks_around(ranks, nodes, positions)
    return np.clip(Scores.of(nodes, ranks.grid.positions_per_cell).target, low, high)


def test_whole_cells_in_all_nodes_would_not_be_private(monkeypatch):
    """The trap: a record outside the cell moves the split, but not the ranks of the child.

    The middle rank of a whole cell would do; it is biased, so AQ splits inside the cell.
    """
    ranks, pairs = of_counts([(8, 30, 8, 0, 0, 3, 3), (7, 30, 8, 0, 0, 3, 3)], tiny_grid(7, 2))
    aq_module.levels_of_columns.cache_clear()
    monkeypatch.setattr(aq_module, "level_pattern", lambda nodes, norm: (np.ones(2), 0.0))

    def worst(**rules):
        return worst_eps(aq_draws(ranks, QUARTILES, Budget(1.0, "eps"), **rules), pairs, True)

    assert worst(split_rank=clipped_target, all_leaves=True) > 1.12
    assert worst(split_rank=split_in_the_middle, all_leaves=True) <= 1.0
    assert worst() <= 1.0
    aq_module.levels_of_columns.cache_clear()


def spread_slopes(q1, q2, sensitivity):
    """Another distance of a pair: the largest of |a|, |b| and |b - a|, over its sensitivity."""
    steep = np.ones_like(q1) / sensitivity
    return DistanceSlopes(
        up_down=Line(steep, -steep),
        up_up=Line(steep, 0 * steep),
        down_up=Line(0 * steep, steep),
        a_alone=steep,
        b_alone=steep,
    )


@pytest.mark.parametrize("quantiles", [[0.2, 0.9], [0.3, 0.4], [0.2, 0.4, 0.6, 0.8]])
def test_the_enumeration_would_betray_a_wrong_sensitivity_of_pairs(quantiles, monkeypatch):
    """A record changes |a|, |b| and |b - a| by at most 1 - min(p), and by more than 1 - max(p)."""
    ranks, pairs = of_counts(datasets(4, 2), tiny_grid(4, 2))
    right = PairScores.of.__func__

    def worst(of_shares):
        def other(cls, nodes, per_cell):
            q1, q2 = nodes.q.reshape(2, -1)
            sensitivity = 1 - of_shares((q1, q2 - q1, 1 - q2), axis=0)
            slopes = spread_slopes(q1, q2, sensitivity)
            scores = right(cls, nodes, per_cell)
            return replace(scores, slopes=slopes, least_slope=np.zeros_like(q1))

        monkeypatch.setattr(PairScores, "of", classmethod(other))
        return worst_eps(aq_draws(ranks, quantiles, Budget(1.0, "eps")), pairs, True)

    assert 0.99 < worst_eps(aq_draws(ranks, quantiles, Budget(1.0, "eps")), pairs, True) <= 1.0
    assert worst(np.min) <= 1.0
    assert worst(np.max) > 1.05


@pytest.mark.parametrize("quantiles", [[0.2, 0.9], [0.3, 0.4], [0.2, 0.4, 0.6, 0.8]])
def test_the_enumeration_would_betray_pairs_that_overspend_by_a_thousandth(quantiles):
    ranks, pairs = of_counts(datasets(4, 2), tiny_grid(4, 2))
    assert worst_eps(aq_draws(ranks, quantiles, Budget(1.001, "eps")), pairs, True) > 1.0
    assert worst_range_rho(aq_draws(ranks, quantiles, Budget(0.1001, "rho")), pairs) > 0.1


def climb(score, start, change, rng, n_steps):
    """Return the best of random changes, each kept if it is no worse."""
    best, found = score(start), start
    for _ in range(n_steps):
        candidate = change(found, rng)
        value = score(candidate)
        if value >= best:
            best, found = value, candidate
    return best


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_climber_finds_data_quantiles_and_base_measure_beyond_eps(seed):
    """The same climber finds the trap."""
    rng = np.random.default_rng(seed)
    grid, eps = tiny_grid(7, 2), float(rng.choice([0.1, 1.0, 5.0]))
    quantiles = (
        np.sort(rng.choice(np.arange(1, 20) / 20, 3, replace=False)) if seed % 2 else QUARTILES
    )

    def change(counts, rng):
        counts = list(counts)
        counts[rng.integers(7)] = int(rng.choice([0, 0, 1, 2, 3, 8, 15, 29]))
        return tuple(counts)

    def worst(counts, **rules):
        ranks, pairs = of_counts([counts], grid)
        return worst_eps(aq_draws(ranks, quantiles, Budget(eps, "eps"), **rules), pairs, True) / eps

    assert 0.99 < climb(worst, (1,) * 7, change, rng, 60) <= 1.0
    if quantiles is QUARTILES:
        trap = functools.partial(worst, split_rank=clipped_target, all_leaves=True)
        assert climb(trap, (1,) * 7, change, rng, 100) > 1.05


# People: the rows of a person share the weight of a record


def shares_of(k):
    """The weights of a person's k rows."""
    weights, n_people = weights_of_rows(np.zeros(k))
    assert weights.sum() == RECORD_WEIGHT and n_people == 1
    return weights.tolist()


def placements(k, n_cells):
    """The weight in each cell of one person with k rows, for every way to place them.

    Rows without a value (in the cell -1) take their share with them.
    """
    found = set()
    for cells in itertools.product(range(-1, n_cells), repeat=k):
        weights = [0] * (n_cells + 1)
        for cell, share in zip(cells, shares_of(k), strict=True):
            weights[cell] += share
        found.add(tuple(weights[:-1]))
    return np.array(sorted(found))


def with_person(others, k, grid):
    """The ranks of datasets without and with one person of k rows in any cells, and the pairs."""
    of_person = placements(k, int(grid.end[0]))
    others = np.asarray(others)
    weights = np.concatenate((others, (others[:, None] + of_person).reshape(-1, others.shape[1])))
    ones = np.repeat(np.arange(len(others)), len(of_person))
    pairs = np.column_stack((ones, len(others) + np.arange(ones.size)))
    return ranks_of_weights(weights, grid), pairs


THIRD, FOURTH = RECORD_WEIGHT // 3, RECORD_WEIGHT // 4
OTHERS = [
    (0, 0, 0),
    (0, RECORD_WEIGHT, 0),
    (2 * RECORD_WEIGHT, 0, RECORD_WEIGHT),
    (THIRD, RECORD_WEIGHT, THIRD + 1),
    (30 * RECORD_WEIGHT, THIRD, 3 * RECORD_WEIGHT + FOURTH),
    (1, 0, RECORD_WEIGHT - 1),
]


@pytest.mark.parametrize("k", [1, 2, 3, *slow(4)])
@pytest.mark.parametrize(
    "quantiles", [[0.5], [0.1, 0.7], QUARTILES, QUANTILES["fifths"]], ids=["1", "2", "3", "4"]
)
def test_one_person_costs_what_one_row_costs_wherever_the_rows_are(k, quantiles):
    ranks, pairs = with_person(OTHERS, k, tiny_grid(3, 2))
    draws = aq_draws(ranks, quantiles, Budget(1.0, "eps"))
    assert 0.6 < worst_eps(draws, pairs, any_measure=True) <= 1.0
    draws = aq_draws(ranks, quantiles, Budget(0.1, "rho"))
    assert worst_rho(draws, pairs, ORDERS) <= worst_range_rho(draws, pairs) <= 0.1


def test_the_enumeration_would_betray_a_person_whose_rows_weigh_too_much():
    ranks, pairs = with_person([tuple(2 * RECORD_WEIGHT for _ in range(3))], 1, tiny_grid(3, 2))
    assert worst_eps(aq_draws(ranks, [0.5], Budget(1.0, "eps")), pairs, True) <= 1.0
    others = np.full((1, 3), 2 * RECORD_WEIGHT)
    heavy = np.concatenate((others, others + np.array([0, 0, RECORD_WEIGHT * 101 // 100])))
    ranks = ranks_of_weights(heavy, tiny_grid(3, 2))
    draws = aq_draws(ranks, [0.5], Budget(1.0, "eps"))
    assert worst_eps(draws, np.array([[0, 1]]), True) > 1.0


@pytest.mark.parametrize("k", [2, 3, 4, 7])
def test_equal_rows_of_a_person_are_one_row(k):
    grid, people = tiny_grid(3, 2), np.array([0.5, 2.5, 1.5, 2.5])
    weights, _ = weights_of_rows(np.repeat(np.arange(4), k))
    shared = summarize(np.repeat(people, k), grid, 0, weights)
    alone = summarize(people, grid, 0)
    distributions = [
        aq_distribution(WeightedRanks.of_summaries([summary], grid), QUARTILES, Budget(1.0, "eps"))
        for summary in (shared, alone)
    ]
    assert distributions[0] == distributions[1]


# The release is what was enumerated


def spied_release(monkeypatch, ranks, quantiles, budgets, seed):
    """Return the cells that a release gave, and its nodes with what was drawn in them."""
    seen = []

    def spy_on(draw):
        def spy(ranks, nodes, randomness):
            drawn = draw(ranks, nodes, randomness)
            seen.append((nodes, drawn[0]))
            return drawn

        return spy

    for engine in (aq_module.exponential, aq_module.pairs):
        monkeypatch.setattr(engine, "draw", spy_on(engine.draw))
    return AQ.draw(ranks, quantiles, budgets, make_randomness(seed)), seen


@pytest.mark.parametrize("seed", range(12))
def test_release_draws_from_the_nodes_that_are_enumerated(seed, monkeypatch):
    """Compare all nodes along the drawn path, for columns that differ in all respects."""
    open_ends = (False, False), (True, True), (False, True), (True, False)
    grids = [tiny_grid(n, 2, ends) for n, ends in zip((5, 4, 3, 4), open_ends, strict=True)]
    counts = [(2, 1, 0, 3, 1), (0, 30, 8, 1), (1, 0, 0), (0, 0, 0, 0)]
    summaries = [Summary(np.arange(len(c)), np.array(c) * RECORD_WEIGHT) for c in counts]
    ranks = WeightedRanks.of_summaries(summaries, side_by_side(grids))
    quantiles = [QUANTILES["fifths"], QUANTILES["eighths"], [0.3], QUARTILES]
    budgets = [Budget(2.0, "eps"), Budget(0.3, "rho"), Budget(0.5, "eps"), Budget(0.7, "draw")]
    cells, seen = spied_release(monkeypatch, ranks, quantiles, budgets, seed)
    trees = [
        aq_draws(ranks.of_columns([column]), quantiles[column], budgets[column])
        for column in range(4)
    ]
    at = {(column, *tree.quantiles): (tree, 0) for column, tree in enumerate(trees)}
    for level, (nodes, drawn) in zip(levels_of(quantiles, budgets), seen, strict=True):
        weights = (pair_weights if level.is_of_pairs else place_weights)(ranks, nodes)
        n_positions = 2 * int(ranks.grid.end.max())
        columns = level.column[: len(weights)]
        of_nodes = (field.reshape(-1, len(weights)).T for field in (level.index, drawn))
        for column, indices, positions, row in zip(columns, *of_nodes, weights, strict=True):
            tree, history = at.pop((column, *indices.tolist()))
            here = tree.positions @ n_positions ** np.arange(indices.size)[::-1]
            np.testing.assert_allclose(row[here], tree.weights[0, history], rtol=1e-14)
            assert np.count_nonzero(row) == np.count_nonzero(row[here])
            assert np.array_equal(cells[column][indices - 1], positions // 2)
            if tree.children:
                (outcome,) = np.flatnonzero((tree.positions == positions).all(axis=1))
                history = tree.next_history[history, outcome]
                at |= {(column, *child.quantiles): (child, history) for child in tree.children}
    assert not at


def chi_square(exact_budgets, sampled_budgets, seed):
    """The least p-value of draws with some budgets against the exact distribution of others.

    Three kinds of columns with other data, quantiles and budgets are released at once.
    """
    grid, n_draws = lumpy_grid(2), 3000
    counts = [(2, 1, 0, 3), (0, 9, 1, 0), (1, 1, 1, 1)]
    quantiles = [[0.2, 0.3, 0.5, 0.8], [0.4, 0.9], [0.3, 0.5, 0.7]]
    all_weights = np.tile(counts, (n_draws, 1)) * RECORD_WEIGHT
    released = AQ.draw(
        ranks_of_weights(all_weights, grid),
        quantiles * n_draws,
        sampled_budgets * n_draws,
        make_randomness(seed),
    )
    p_values = []
    for kind, budget in enumerate(exact_budgets):
        exact = aq_distribution(summary_of(counts[kind], grid), quantiles[kind], budget)
        exact = cell_distribution(exact, grid.positions_per_cell)
        drawn = dict.fromkeys(exact, 0)
        for cells in released[kind::3]:
            drawn[tuple(cells.tolist())] += 1
        expected = np.array([exact[key] for key in exact])
        observed = np.array([drawn[key] for key in exact])
        expected *= observed.sum() / expected.sum()
        # Rare outcomes count together with the most probable one: the statistic needs five of each.
        is_rare, most = expected < 5, expected.argmax()
        expected[most] += expected[is_rare].sum()
        observed[most] += observed[is_rare].sum()
        p_values.append(chisquare(observed[~is_rare], expected[~is_rare]).pvalue)
    return p_values


def test_sampler_follows_the_exact_distribution_and_would_betray_a_wrong_eps():
    right = [Budget(2.0, "eps"), Budget(1.0, "eps"), Budget(0.5, "rho")]
    wrong = [Budget(2.6, "eps"), Budget(1.4, "eps"), Budget(0.9, "rho")]
    assert min(chi_square(right, right, 1)) > 1e-3
    assert max(chi_square(right, wrong, 2)) < 1e-3
    assert max(chi_square(wrong, right, 3)) < 1e-3


def test_sampler_follows_the_exact_distribution_in_pieces_and_with_a_nasty_measure(
    nasty, monkeypatch
):
    monkeypatch.setattr(aq_module, "NODES_AT_ONCE", 37)
    aq_module.levels_of_columns.cache_clear()
    budgets = [Budget(2.0, "eps"), Budget(1.0, "eps"), Budget(0.5, "rho")]
    assert min(chi_square(budgets, budgets, 4)) > 1e-3
    aq_module.levels_of_columns.cache_clear()


def test_distribution_is_the_same_from_column_and_summary():
    grid, budget = tiny_grid(3, 2), Budget(1.0, "eps")
    for counts in datasets(3, 2):
        one, other = (
            aq_distribution(source(counts, grid), [0.2, 0.9], budget)
            for source in (column_of, summary_of)
        )
        assert one == other


def test_batched_ratios_are_those_of_the_joint_distribution(nasty):
    """Compare the enumeration itself with all joint outcomes, one by one."""
    counts, pairs = with_neighbours([(1, 2, 0), (0, 9, 1)])
    ranks = ranks_of_weights(np.array(counts) * RECORD_WEIGHT, tiny_grid(3, 2))
    draws = aq_draws(ranks, QUANTILES["fifths"], Budget(3.0, "eps"))
    joint = [joint_distribution(draws, dataset) for dataset in range(len(counts))]
    assert all(math.fsum(of_one.values()) == pytest.approx(1.0) for of_one in joint)
    ratios = [worst_log_ratio(joint[one], joint[other]) for one, other in pairs]
    assert worst_eps(draws, pairs) == pytest.approx(max(ratios))
    both = np.concatenate((pairs, pairs[:, ::-1])).tolist()
    rhos = [renyi_divergence(joint[one], joint[other], 3.0) / 3.0 for one, other in both]
    assert worst_rho(draws, pairs, [3.0]) == pytest.approx(max(rhos))
    assert worst_eps(draws, pairs) < worst_eps(draws, pairs, any_measure=True)


# Trees


@pytest.mark.parametrize("m", range(1, 40))
@pytest.mark.parametrize("unit", ["eps", "rho"])
def test_every_path_of_the_tree_spends_at_most_the_budget(m, unit):
    quantiles = tuple(np.arange(1, m + 1) / (m + 1))
    paths = {(0, m + 1): []}
    for node, eps in zip(*AQ.nodes_and_eps(quantiles, Budget(0.7, unit)), strict=True):
        path = [*paths.pop((node.below, node.above)), eps]
        paths |= dict.fromkeys(itertools.pairwise((node.below, *node.indices, node.above)), path)
    spent = [sum(eps if unit == "eps" else eps**2 / 8 for eps in path) for path in paths.values()]
    assert 0.699 < max(spent) <= 0.7
    assert max(map(len, paths.values())) <= m.bit_length()


def test_tree_of_a_power_of_two_less_one_asks_for_medians_with_about_equal_shares():
    quantiles = tuple(np.arange(1, 8) / 8)
    nodes, eps = AQ.nodes_and_eps(quantiles, Budget(3 / 8, "rho"))
    assert [q for node in nodes for q in node.q] == pytest.approx([0.5] * 7)
    assert eps == pytest.approx([1.0] * 7, rel=0.15)


@pytest.mark.parametrize(("m", "n_early"), [(11, 0), (9, 2), (4, 1), (19, 4), (7, 0)])
def test_single_draws_of_a_level_have_one_eps(m, n_early, single_draws):
    assert n_early_leaves_with_an_eps_of_their_own(m) == n_early


@pytest.mark.parametrize("m", [2, 4, 5, 7])
def test_draws_of_a_level_have_one_eps(m):
    assert n_early_leaves_with_an_eps_of_their_own(m) == 0


def n_early_leaves_with_an_eps_of_their_own(m):
    """All others have that of their level, as composition was told; the least is that of a draw."""
    quantiles = tuple(np.arange(1, m + 1) / (m + 1))
    pattern, early_leaf = AQ.pattern(quantiles, 2)
    assert min(pattern) == 1.0
    n_found = 0
    for level in levels_of([quantiles], [Budget(0.4, "draw")]):
        (depth,) = set(level.depth.tolist())
        is_early = level.is_leaf & (depth == len(pattern) - 2)
        assert np.array_equal(level.is_early, is_early)
        expected = 0.4 * np.where(is_early, early_leaf, pattern[depth])
        np.testing.assert_allclose(level.eps, expected, rtol=1e-4)
        assert np.all(level.eps < expected)
        n_found += is_early.sum()
    if n_found:
        assert early_leaf**2 == pytest.approx(pattern[-2] ** 2 + pattern[-1] ** 2)
    return n_found


@pytest.mark.parametrize("n_pair_levels", range(4))
@pytest.mark.parametrize("m", [*range(1, 30), 63, 64])
def test_all_leaves_of_a_tree_are_in_its_last_two_levels(m, n_pair_levels):
    nodes = quantile_nodes(tuple(np.arange(1, m + 1) / (m + 1)), n_pair_levels)
    assert sorted(index for node in nodes for index in node.indices) == list(range(1, m + 1))
    last = max(node.depth for node in nodes)
    assert nodes[-1].depth == last
    for node in nodes:
        assert node.is_leaf == (node.above - node.below - 1 == len(node.indices))
        assert not node.is_leaf or node.depth >= last - 1
        assert node.is_early == (node.is_leaf and node.depth < last)


@pytest.mark.parametrize("norm", [1, 2])
def test_a_tree_has_pairs_where_they_promise_a_tenth_less(norm):
    """This is the case where single draws would need one more level."""
    for m in range(1, 32):
        quantiles = tuple(np.arange(1, m + 1) / (m + 1))
        nodes = AQ.nodes(quantiles, norm)
        promised = level_shares.expected_deviation(nodes, norm)
        single, *with_pairs = (
            level_shares.expected_deviation(quantile_nodes(quantiles, n), norm) for n in range(6)
        )
        if any(len(node.indices) == 2 for node in nodes):
            assert promised == min(with_pairs) < 0.9 * single
        else:
            assert promised == single <= min(with_pairs) / 0.9
        if m in (2, 4, 5, 6, 8) and norm == 1:
            assert promised < 0.8 * single


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("m", [2, 4, 5, 9, 19, 32])
def test_the_pattern_of_levels_has_the_least_variances_for_its_norm(m, norm, rng, monkeypatch):
    """No other pattern with the same sum (of squares), and early leaves that match, is better.

    But for what the root gets in addition, which costs next to nothing.
    """
    quantiles = tuple(np.arange(1, m + 1) / (m + 1))
    in_use, _ = level_pattern(quantile_nodes(quantiles), norm)
    monkeypatch.setattr(level_shares, "MORE_FOR_THE_ROOT", 1.0)
    levels, _ = level_pattern.__wrapped__(quantile_nodes(quantiles), norm)
    in_use = in_use * (np.linalg.norm(levels, norm) / np.linalg.norm(in_use, norm))
    variances = [sum_of_variances(quantiles, each, norm) for each in (levels, in_use)]
    assert variances[0] < variances[1] < 1.025 * variances[0]
    best = sum_of_variances(quantiles, levels, norm)
    for _ in range(20):
        other = levels * np.exp(0.1 * rng.normal(size=len(levels)))
        other *= np.linalg.norm(levels, norm) / np.linalg.norm(other, norm)
        assert sum_of_variances(quantiles, other, norm) >= best * (1 - 1e-9)


def sum_of_variances(quantiles, levels, norm):
    """That of all quantiles if levels have these eps, and early leaves those of two levels."""

    def visit(first, last, q_below, q_above, of_low, of_high, of_both, depth):
        if first == last:
            return 0.0
        middle = (first + last) // 2
        q = (quantiles[middle] - q_below) / (q_above - q_below)
        eps = levels[depth]
        if last - first == 1 and depth == len(levels) - 2:
            eps = (eps**norm + levels[-1] ** norm) ** (1 / norm)
        here = 8 * max(q, 1 - q) ** 2 / eps**2
        here += q**2 * of_high + (1 - q) ** 2 * of_low + 2 * q * (1 - q) * of_both
        of_left, of_right = q * of_both + (1 - q) * of_low, q * of_high + (1 - q) * of_both
        q = quantiles[middle]
        below = visit(first, middle, q_below, q, of_low, here, of_left, depth + 1)
        return (
            here + below + visit(middle + 1, last, q, q_above, here, of_high, of_right, depth + 1)
        )

    return visit(0, len(quantiles), 0.0, 1.0, 0.0, 0.0, 0.0, 0)


def test_levels_have_every_quantile_once_between_those_that_are_known():
    sizes = (5, 12)
    known = {(column, end) for column, m in enumerate(sizes) for end in (0, m + 1)}
    quantiles = [np.arange(1, m + 1) / (m + 1) for m in sizes]
    depth, now = 0, set()
    for level in levels_of(quantiles, [Budget(1.0, "eps"), Budget(0.5, "rho")]):
        if level.depth[0] > depth:  # a level may come in two pieces, single draws and pairs
            depth, known, now = level.depth[0], known | now, set()
        new = set()
        for node in rows_of(level):
            (column, below, above, beyond, is_leaf), *others = zip(
                *(
                    getattr(node, name).tolist()
                    for name in ("column", "below", "above", "beyond", "is_leaf")
                ),
                strict=True,
            )
            assert all(other == (column, below, above, beyond, is_leaf) for other in others)
            indices = node.index.tolist()
            assert [below, *indices, above] == sorted({below, *indices, above})
            assert {(column, below), (column, above)} <= known
            assert is_leaf == (above - below == 1 + len(indices))
            if below == 0 or above == sizes[column] + 1:
                assert beyond == next_known(known, column, below, above, sizes[column])
            new |= {(column, index) for index in indices}
        assert new.isdisjoint(known)
        now |= new
    assert len(known | now) == 7 + 14


def next_known(known, column, below, above, m):
    """The quantile known already that is next to an outermost node, beyond its closed end."""
    indices = [index for of, index in sorted(known) if of == column and 0 < index <= m]
    beyond_above = [index for index in indices if index > above]
    beyond_below = [index for index in indices if index < below]
    return beyond_above[0] if beyond_above else beyond_below[-1] if beyond_below else -1


# What may come out


@pytest.mark.parametrize("is_open", [(False, False), (True, True), (True, False)])
@pytest.mark.parametrize("m", [2, 3, 4])
def test_possible_outputs_do_not_depend_on_the_data(m, is_open):
    """Low bits reveal data in other implementations. Here all datasets can have all outputs."""
    grid = tiny_grid(4, 2, is_open)
    quantiles = np.arange(1, m + 1) / (m + 1)
    roots = {2: None, 3: (1,), 4: (1, 2)}[m]  # a leaf has cells
    for counts in [(1, 0, 0, 1), (1, 0, 1, 1), (0, 0, 0, 0), (0, 30, 0, 0)]:
        exact = aq_distribution(summary_of(counts, grid), quantiles, Budget(1.0, "eps"))
        reached = {key for key, chance in exact.items() if chance > 0}
        cells = cell_distribution(dict.fromkeys(reached, 1.0), 2)
        assert len(cells) == math.comb(4 + m - 1, m)
        if roots:
            positions = itertools.combinations_with_replacement(range(8), len(roots))
            assert {tuple(key[root] for root in roots) for key in reached} == set(positions)


@pytest.mark.parametrize("eps", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (-1.0, 1e3), (0.0, np.inf)])
def test_release_always_gives_ascending_cells(bounds, eps):
    """Columns of all kinds of numbers, with all numbers of quantiles, in one release."""
    numbers = [[], [0.0], [5e-324] * 3, [-1e18, 1e18], [-np.inf, 1.0, np.inf], [7.0] * 1000]
    values = np.full((len(numbers), 1000), np.nan)
    for row, column in zip(values, numbers, strict=True):
        row[: len(column)] = column
    values = np.repeat(values, 4, axis=0)
    quantiles = [np.arange(1, m + 1) / (m + 1) for m in (1, 2, 5, 100)] * len(numbers)
    grid = make_grid([bounds] * len(values))
    with np.errstate(all="ignore"):
        ranks = SortedRanks.of_rows(values, grid)
        released = AQ.draw(
            ranks, quantiles, [Budget(eps, "eps")] * len(values), make_randomness(None)
        )
    for cells, q, first, end in zip(released, quantiles, grid.first, grid.end, strict=True):
        assert cells.shape == q.shape
        assert np.all(np.diff(cells) >= 0)
        assert cells[0] >= first and cells[-1] < end


def test_ten_thousand_quantiles_of_a_thousand_records(rng):
    values = np.sort(rng.normal(size=(2, 1000)))
    ranks = SortedRanks.of_rows(values, make_grid([(-np.inf, np.inf)] * 2))
    quantiles = [np.arange(1, 10_001) / 10_001, [0.5]]
    budgets = [Budget(1.0, "eps")] * 2
    cells, _ = AQ.draw(ranks, quantiles, budgets, make_randomness(None))
    assert cells.size == 10_000 and np.all(np.diff(cells) >= 0)


def test_a_budget_without_end_gives_the_exact_quantiles():
    values = np.sort(np.arange(1.0, 1000.0))[None]
    ranks = SortedRanks.of_rows(values, make_grid([(-np.inf, np.inf)]))
    quantiles = np.arange(1, 100) / 100
    (cells,) = AQ.draw(ranks, [quantiles], [Budget(1e9, "eps")], make_randomness(0))
    edges = ranks.grid.lower_edges(np.array((cells, cells + 1)), np.zeros_like(cells))
    ranks_of_edges = np.searchsorted(values[0], edges)
    assert np.all(ranks_of_edges[0] <= quantiles * 999 + 1e-6)
    assert np.all(ranks_of_edges[1] >= quantiles * 999 - 1e-6)


def test_a_seed_repeats_the_release_and_another_does_not(rng):
    ranks = SortedRanks.of_rows(
        np.sort(rng.normal(size=(3, 500))), make_grid([(-np.inf, np.inf)] * 3)
    )
    budgets = [Budget(1.0, "eps")] * 3
    one, same, other = (
        np.concatenate(AQ.draw(ranks, [QUARTILES] * 3, budgets, make_randomness(seed)))
        for seed in (5, 5, 6)
    )
    assert np.array_equal(one, same)
    assert not np.any(one == other)
    assert np.unique(one).size == 9  # columns have noise of their own


def test_result_does_not_depend_on_the_number_of_threads(rng):
    X = rng.normal(size=(3000, 7))
    edges = [
        DPKBinsDiscretizer(n_bins=6, eps=2.0, random_state=1, n_jobs=n_jobs).fit(X).bin_edges_
        for n_jobs in (1, 2, 5)
    ]
    for others in edges[1:]:
        assert all(map(np.array_equal, edges[0], others))


def test_more_records_than_ranks_can_count_are_refused():
    many = Summary(np.array([1]), np.array([2**34 * RECORD_WEIGHT]))
    with pytest.raises(OverflowError, match="at most"):
        WeightedRanks.of_summaries([many], make_grid([(0.0, 1.0)]))


@pytest.mark.parametrize("eps", [1e-9, 1.0, 1e9])
def test_the_largest_datasets_do_not_overflow(eps):
    """2^34 - 1 records: ranks in ticks are just below 2^62."""
    counts = np.array([2**33, 1, 2**33 - 2])
    summary = Summary(np.array([3, 10**9, 2 * 10**9]), counts * RECORD_WEIGHT)
    ranks = WeightedRanks.of_summaries([summary], make_grid([(-np.inf, np.inf)]))
    quantiles = np.arange(1, 32) / 32
    (cells,) = AQ.draw(ranks, [quantiles], [Budget(eps, "eps")], make_randomness(0))
    assert np.all(np.diff(cells) >= 0)
    if eps >= 1:
        assert set(cells[:15].tolist()) == {3} and set(cells[16:].tolist()) == {2 * 10**9}
