"""AggTree is private: its noise and its counts are enumerated, the rest is post-processing."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare

from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.engine.grid import BoundedGrid, UnboundedGrid
from dpq_sklearn.engine.random import SeededRandomness, SystemRandomness
from dpq_sklearn.engine.ranks import SortedColumn
from dpq_sklearn.mechanisms.agg_tree import (
    AggregateTree,
    consistent,
    leaf_edges,
    tree_counts,
    walk_down,
)
from dpq_sklearn.mechanisms.noise import discrete_gaussian, discrete_laplace, geometrics
from tests.enumeration import column_of, neighbour_pairs, summary_of, tiny_grid

TREE = AggregateTree(height=2, branching=2)
SUPPORT = np.arange(-2000, 2001)


def laplace_pmf(rate):
    weights = np.exp(-rate * np.abs(SUPPORT))
    return weights / math.fsum(weights)


def gaussian_pmf(variance):
    weights = np.exp(-(SUPPORT**2) / (2 * variance))
    return weights / math.fsum(weights)


def log_ratio_of_shifted(pmf):
    """The largest |log P(x) / P(x - 1)| where neither underflows."""
    usable = pmf[pmf > 1e-290]
    return np.abs(np.diff(np.log(usable))).max()


def renyi_of_shifted(pmf, order):
    p, q = pmf[1:], pmf[:-1]
    usable = (p > 1e-250) & (q > 1e-250)
    p, q = p[usable], q[usable]
    return math.log(math.fsum(q * np.exp(order * np.log(p / q)))) / (order - 1)


def changed_counts(one, other, height, branching, grid):
    """By how much each noisy count of two datasets differs."""
    trees = [
        np.concatenate(tree_counts(column_of(counts, grid), height, branching))
        for counts in (one, other)
    ]
    return trees[1] - trees[0]


@pytest.mark.parametrize(
    ("height", "branching", "n_cells"), [(1, 3, 3), (2, 2, 4), (2, 2, 3), (3, 2, 5), (1, 5, 3)]
)
def test_a_record_is_counted_once_a_level(height, branching, n_cells):
    """For every dataset and neighbour: so a level's noise is what a record pays on it."""
    grid = tiny_grid(n_cells, 1)
    for one, other in neighbour_pairs(n_cells, 1):
        change = changed_counts(one, other, height, branching, grid)
        assert sorted(change[change != 0]) == [1] * height


@pytest.mark.parametrize("eps", [0.1, 1.0, 6.0])
def test_every_neighbour_and_every_noisy_tree_is_within_eps(eps):
    budget = Budget(eps, "eps")
    worst = log_ratio_of_shifted(laplace_pmf(TREE._rate(budget)))
    for one, other in neighbour_pairs(4, 2):
        change = changed_counts(one, other, 2, 2, tiny_grid(4, 1))
        loss = worst * np.abs(change).sum()  # the noises are independent: log ratios add up
        assert 0.999 * eps < loss <= eps
        assert loss <= TREE.cost([0.5], budget)["eps"] <= eps


@pytest.mark.parametrize("unit", ["eps", "rho"])
def test_every_renyi_divergence_is_within_rho(unit):
    budget = Budget(1.0, unit)
    pmf = laplace_pmf(TREE._rate(budget)) if unit == "eps" else gaussian_pmf(TREE._variance(budget))
    rho = TREE.cost([0.5], budget)["rho"]
    for order in (1.01, 1.5, 2.0, 5.0, 10.0):
        assert 2 * renyi_of_shifted(pmf, order) <= rho * order
    if unit == "rho":  # and Gaussian noise wastes nothing
        assert rho <= 1.0
        assert 2 * renyi_of_shifted(pmf, 2.0) > 0.999 * rho * 2.0


def test_the_cost_of_laplace_noise_is_never_that_of_an_exponential_mechanism():
    """eps^2 / 2 a level; with eps^2 / 8 the divergence above would break its bound."""
    budget = Budget(1.0, "eps")
    pmf = laplace_pmf(TREE._rate(budget))
    assert 2 * renyi_of_shifted(pmf, 1.01) > 2 * (0.5**2 / 8) * 1.01 * 2
    assert TREE.cost([0.5], budget)["rho"] == pytest.approx(2 * 0.5**2 / 2, rel=1e-4)


def test_gaussian_noise_is_chosen_where_it_is_better():
    """Half the variance of Laplace at the same rho, and no finite eps."""
    tree, budget = AggregateTree(), Budget(0.5, "rho")
    assert tree.least_eps([0.5], budget) == pytest.approx(
        math.sqrt(2) * math.sqrt(2 * 0.5 / 4), rel=1e-4
    )
    assert tree.cost([0.5], budget)["eps"] == math.inf


def noise_chi_square(sample, pmf):
    """The p-value of sampled integers against their exact distribution, tails lumped."""
    expected = pmf * sample.size
    inner = np.flatnonzero(expected >= 10)
    low, high = SUPPORT[inner[0]], SUPPORT[inner[-1]]
    observed = np.bincount(np.clip(sample, low, high) - low, minlength=high - low + 1)
    expected = expected[inner[0] : inner[-1] + 1].copy()
    expected[0] += pmf[: inner[0]].sum() * sample.size
    expected[-1] += pmf[inner[-1] + 1 :].sum() * sample.size
    return chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


@pytest.mark.parametrize("rate", [0.02, 0.25, 1.3, 4.0])
def test_discrete_laplace_is_exact_and_the_test_has_power(rate):
    randomness = SeededRandomness(np.random.SeedSequence(1))
    sample = discrete_laplace(rate, 20_000, randomness)
    assert noise_chi_square(sample, laplace_pmf(rate)) > 1e-3
    assert noise_chi_square(sample, laplace_pmf(1.3 * rate)) < 1e-3
    assert noise_chi_square(sample, laplace_pmf(rate / 1.3)) < 1e-3


@pytest.mark.parametrize("variance", [0.3, 4.0, 400.0])
def test_discrete_gaussian_is_exact_and_the_test_has_power(variance):
    randomness = SeededRandomness(np.random.SeedSequence(2))
    sample = discrete_gaussian(variance, 20_000, randomness)
    assert noise_chi_square(sample, gaussian_pmf(variance)) > 1e-3
    assert noise_chi_square(sample, gaussian_pmf(1.3 * variance)) < 1e-3
    assert noise_chi_square(sample, gaussian_pmf(variance / 1.3)) < 1e-3


class Scripted(SeededRandomness):
    """Uniforms that a test hands in, one array a call."""

    def __init__(self, *uniforms):
        self._uniforms = list(uniforms)

    def uniforms(self, n):
        taken = np.asarray(self._uniforms.pop(0), dtype=float)
        assert taken.size == n
        return taken


def test_geometrics_are_found_among_thresholds_and_go_on_beyond_the_last():
    """Rate 1: thresholds exp(-1) .. exp(-16). Passing all of them, the count starts anew."""
    just_below = np.exp(-3.0) * (1 - 1e-12)
    assert geometrics(1.0, 1, Scripted([just_below])) == 3
    assert geometrics(1.0, 1, Scripted([np.exp(-3.0)])) == 2
    assert geometrics(1.0, 1, Scripted([1e-300], [just_below])) == 16 + 3
    # Rate 1/8 has one low bit, set with odds exp(-1/8).
    chance = 1 / (1 + math.exp(1 / 8))
    assert geometrics(0.125, 1, Scripted([0.9], [chance * 0.999])) == 1
    assert geometrics(0.125, 1, Scripted([0.9], [chance * 1.001])) == 0


@pytest.mark.parametrize(("height", "branching"), [(1, 3), (2, 2), (2, 3), (3, 2)])
def test_consistent_counts_are_the_least_squares_solution(height, branching, rng):
    sizes = [branching**level for level in range(1, height + 1)]
    noisy = [rng.integers(-5, 30, size=size) for size in sizes]
    n_leaves = sizes[-1]
    design = np.concatenate([np.kron(np.eye(n), np.ones(n_leaves // n)) for n in sizes])
    leaves = np.linalg.lstsq(design, np.concatenate(noisy), rcond=None)[0]
    np.testing.assert_allclose(np.concatenate(consistent(noisy, branching)), design @ leaves)


def test_without_noise_the_quantile_is_right_to_a_leaf(rng):
    values = rng.normal(size=5000)
    grid, quantiles = BoundedGrid(-10.0, 10.0), np.arange(1, 20) / 20
    levels = tree_counts(SortedColumn(values.copy(), grid), 4, 16)
    cells = walk_down(consistent(levels, 16), quantiles, grid.n_cells)
    leaf_width = 20.0 / 16**4
    wanted = np.sort(values)[np.ceil(quantiles * 5000).astype(int) - 1]
    np.testing.assert_allclose(grid.middles(cells), wanted, atol=leaf_width)


def test_counts_of_all_levels_are_those_of_the_data():
    counts = (2, 0, 1, 3)
    for source in (column_of, summary_of):
        top, leaves = tree_counts(source(counts, tiny_grid(4, 2)), 2, 2)
        assert leaves.tolist() == [2, 0, 1, 3]
        assert top.tolist() == [2, 4]


@pytest.mark.parametrize("grid", [UnboundedGrid(), BoundedGrid(-1.0, 3.0)])
def test_every_record_is_counted(grid):
    values = np.array([np.inf, -np.inf, 1e300, 3.0, -1.0, 0.0, 2.9999, 5e-324])
    for level in tree_counts(SortedColumn(values, grid), 4, 16):
        assert level.sum() == 8


def test_leaves_cover_the_grid():
    for n_leaves, n_cells in itertools.product((1, 4, 9, 16**4), (3, 7, 2**40)):
        edges = leaf_edges(n_leaves, n_cells)
        assert edges[0] == 0 and edges[-1] == n_cells
        assert np.all(np.diff(edges) >= 0)
        assert np.ptp(np.diff(edges)) <= 1


def test_walk_is_monotone_whatever_the_noise(rng):
    quantiles = np.arange(1, 200) / 200
    for _ in range(200):
        noisy = [rng.integers(-9, 12, size=size) for size in (3, 9, 27)]
        cells = walk_down(consistent(noisy, 3), quantiles, 1000)
        assert np.all(np.diff(cells) >= 0)
        assert cells[0] >= 0 and cells[-1] < 1000


def release_distribution(counts, quantiles, tree, budget, most):
    """The exact distribution of released cells for a tree of height 1, noise cut at `most`."""
    noises = np.arange(-most, most + 1)
    pmf = laplace_pmf(tree._rate(budget))[SUPPORT.size // 2 + noises]
    exact = {}
    for which in itertools.product(range(noises.size), repeat=len(counts)):
        noisy = [np.array(counts) + noises[list(which)]]
        released = tuple(
            walk_down(consistent(noisy, tree.branching), quantiles, len(counts)).tolist()
        )
        exact[released] = exact.get(released, 0.0) + math.prod(pmf[list(which)])
    return exact


def chi_square(sampled_eps, exact, seed, n_draws=3000):
    tree, quantiles, counts = AggregateTree(height=1, branching=3), [0.3, 0.8], (2, 1, 3)
    ranks = column_of(counts, tiny_grid(3, 2))
    randomness = SeededRandomness(np.random.SeedSequence(seed))
    drawn = dict.fromkeys(exact, 0)
    for _ in range(n_draws):
        released = tree.release(ranks, quantiles, Budget(sampled_eps, "eps"), randomness)
        drawn[tuple(released.tolist())] += 1
    expected = np.array(list(exact.values())) * n_draws
    return chisquare(list(drawn.values()), expected * n_draws / expected.sum()).pvalue


def test_release_follows_the_exact_distribution_and_would_betray_a_wrong_eps():
    tree = AggregateTree(height=1, branching=3)
    exact = release_distribution((2, 1, 3), [0.3, 0.8], tree, Budget(1.0, "eps"), most=12)
    assert math.fsum(exact.values()) > 0.99999
    assert chi_square(1.0, exact, seed=1) > 1e-3
    assert chi_square(1.3, exact, seed=2) < 1e-3


@pytest.mark.parametrize("budget", [Budget(1e-6, "eps"), Budget(1e6, "eps"), Budget(1e6, "rho")])
@pytest.mark.parametrize("values", [[], [0.0], [np.inf, -np.inf, 1.0], [7.0] * 1000], ids=len)
def test_release_always_gives_ascending_cells(values, budget):
    tree, quantiles = AggregateTree(), np.arange(1, 31) / 31
    ranks = SortedColumn(np.array(values, dtype=float), UnboundedGrid())
    cells = tree.release(ranks, quantiles, budget, SystemRandomness())
    assert cells.shape == (30,)
    assert np.all(np.diff(cells) >= 0)
    assert cells[0] >= 0 and cells[-1] < ranks.grid.n_cells
    assert tree.cost(quantiles, budget)[budget.unit] <= budget.amount


def test_a_budget_too_small_to_be_guaranteed_is_refused():
    for budget in (Budget(1e-13, "eps"), Budget(1e-13, "rho")):
        with pytest.raises(ValueError, match="must be larger"):
            AggregateTree().cost([0.5], budget)
