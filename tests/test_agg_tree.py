"""AggTree is private: its noise and its counts are enumerated, the rest is post-processing."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from dpq_sklearn.accounting.budgets import DRAW_ERROR, Budget
from dpq_sklearn.engine.random import Randomness, make_randomness
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.mechanisms import agg_tree
from dpq_sklearn.mechanisms.agg_tree import (
    AggregateTree,
    consistent,
    leaf_edges,
    tree_counts,
    walk_down,
)
from dpq_sklearn.mechanisms.noise import (
    CountNoise,
    discrete_gaussian,
    discrete_laplace,
    geometrics,
)
from tests.enumeration import (
    column_of,
    neighbour_pairs,
    ranks_of_weights,
    summary_of,
    tiny_grid,
)
from tests.mechanism_helpers import (
    UNBOUNDED,
    assert_refuses,
    assert_releases_ascending_cells,
    p_value,
    sorted_column,
    spent,
)

SUPPORT = np.arange(-2000, 2001)
# All that the weight of one record can do to a few counts, if it is shared by rows: in quarters.
SHARED_WEIGHTS = [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]


def laplace_pmf(rate):
    weights = np.exp(-rate * np.abs(SUPPORT))
    return weights / math.fsum(weights)


def gaussian_pmf(variance):
    weights = np.exp(-(SUPPORT**2) / (2 * variance))
    return weights / math.fsum(weights)


def pmf_of(noise):
    """The exact distribution of the noise of one count."""
    is_laplace = noise._budget.unit == "eps"
    return laplace_pmf(noise._rate) if is_laplace else gaussian_pmf(noise._variance)


def log_ratio_of_shifted(pmf, shift):
    """The largest |log P(x) / P(x - shift)| where neither underflows."""
    usable = pmf[pmf > 1e-290]
    return np.abs(np.log(usable[shift:] / usable[:-shift])).max()


def renyi_of_shifted(pmf, shift, order):
    p, q = pmf[shift:], pmf[:-shift]
    usable = (p > 1e-250) & (q > 1e-250)
    p, q = p[usable], q[usable]
    return math.log(math.fsum(q * np.exp(order * np.log(p / q)))) / (order - 1)


def changed_counts(one, other, height, branching, grid):
    """By how much the noisy counts of two datasets differ, level by level."""
    levels = zip(
        *(tree_counts(column_of(counts, grid), 0, height, branching) for counts in (one, other)),
        strict=True,
    )
    return [after - before for before, after in levels]


@pytest.mark.parametrize(
    ("height", "branching", "n_cells"), [(1, 3, 3), (2, 2, 4), (2, 2, 3), (3, 2, 5), (1, 5, 3)]
)
def test_a_record_is_counted_once_on_each_level(height, branching, n_cells):
    """Check all datasets and neighbours. So the noise of a level bounds the cost of a record."""
    grid = tiny_grid(n_cells, 1)
    for one, other in neighbour_pairs(n_cells, 1):
        changes = changed_counts(one, other, height, branching, grid)
        assert [change[change != 0].tolist() for change in changes] == [[RECORD_WEIGHT]] * height


def test_the_rows_of_a_person_change_a_level_by_one_record_in_all(rng):
    grid, tree = tiny_grid(9, 1), AggregateTree(height=2, branching=3)
    for _ in range(50):
        others = rng.integers(0, 3 * RECORD_WEIGHT, size=9)
        person = rng.multinomial(RECORD_WEIGHT, rng.dirichlet(np.full(9, 0.3)))
        without, with_person = (
            tree_counts(ranks_of_weights([weights], grid), 0, tree.height, tree.branching)
            for weights in (others, others + person)
        )
        for before, after in zip(without, with_person, strict=True):
            assert np.abs(after - before).sum() == RECORD_WEIGHT
            assert np.linalg.norm(after - before) <= RECORD_WEIGHT


@pytest.mark.parametrize("shares", SHARED_WEIGHTS, ids=str)
@pytest.mark.parametrize("eps", [0.1, 1.0, 6.0])
def test_noise_of_counts_is_within_eps_however_a_person_shares_its_weight(eps, shares):
    noise = CountNoise(Budget(eps, "eps"), n_counts=len(shares), sensitivity=4)
    pmf = pmf_of(noise)
    loss = sum(log_ratio_of_shifted(pmf, share) for share in shares)  # the noises are independent
    assert 0.999 * eps < loss <= noise.cost().eps <= eps


@pytest.mark.parametrize("shares", SHARED_WEIGHTS, ids=str)
@pytest.mark.parametrize("unit", ["eps", "rho"])
def test_noise_of_counts_is_within_rho_however_a_person_shares_its_weight(unit, shares):
    noise = CountNoise(Budget(0.5, unit), n_counts=len(shares), sensitivity=4)
    assert spent(noise.cost(), Budget(0.5, unit)) <= 0.5
    for order in (1.01, 1.5, 2.0, 5.0, 10.0):
        divergence = sum(renyi_of_shifted(pmf_of(noise), share, order) for share in shares)
        assert divergence <= noise.cost().rho * order
        if unit == "rho" and len(shares) == 1:  # Gaussian noise wastes nothing
            assert divergence > 0.999 * noise.cost().rho * order


@pytest.mark.parametrize("unit", ["eps", "rho"])
def test_the_tests_above_notice_1_3_of_a_budget(unit):
    budget = Budget(1.0, unit)
    pmf = (
        pmf_of(CountNoise(budget.scaled(1.0), sensitivity=4)),
        pmf_of(CountNoise(Budget(1.3, unit), sensitivity=4)),
    )
    if unit == "eps":
        losses = [log_ratio_of_shifted(p, 4) for p in pmf]
    else:
        losses = [renyi_of_shifted(p, 4, 2.0) / 2.0 for p in pmf]
    assert losses[0] <= 1.0 < losses[1]


@pytest.mark.parametrize("n_counts", [1, 16, 16**4])
@pytest.mark.parametrize("rho", [1e-5, 0.1, 100.0])
def test_what_errors_of_gaussian_noise_add_to_rho_is_reserved(rho, n_counts):
    """The largest divergence of all orders, if all probabilities have their largest errors."""
    noise = CountNoise(Budget(rho, "rho"), n_counts)
    ideal, error = 1 / (2 * noise._variance), n_counts * DRAW_ERROR / 2
    orders = 1 + np.geomspace(1e-9, 1e6, 2000)
    divergences = ideal * orders + (2 + 1 / (orders - 1)) * error
    # Divergences increase with the order, so each is at most that of any larger one.
    at_most = np.minimum.accumulate(divergences[::-1])[::-1]
    assert np.all(at_most / orders <= noise.cost().rho)
    assert noise.cost().rho <= rho


def test_the_cost_of_laplace_noise_is_never_that_of_an_exponential_mechanism():
    """The cost is eps^2 / 2. With eps^2 / 8, the divergence would exceed its bound."""
    noise = CountNoise(Budget(0.5, "eps"))
    assert renyi_of_shifted(pmf_of(noise), 1, 1.01) > 2 * (0.5**2 / 8) * 1.01
    assert noise.cost().rho == pytest.approx(0.5**2 / 2, rel=1e-4)


@pytest.mark.parametrize("budget", [Budget(1.0, "eps"), Budget(0.5, "rho")], ids=str)
def test_the_cost_is_that_of_all_levels(budget):
    tree = AggregateTree(height=3, branching=4)
    noise = CountNoise(budget.scaled(1 / 3), 64, RECORD_WEIGHT)
    cost = tree.cost([0.5], budget)
    assert 0.999 * budget.amount < spent(cost, budget) <= budget.amount
    assert spent(cost, budget) == pytest.approx(3 * spent(noise.cost(), budget), rel=1e-4)


def test_gaussian_noise_is_chosen_where_it_is_better():
    """It has half the variance of Laplace noise at the same rho, but no finite eps."""
    tree, budget = AggregateTree(), Budget(0.5, "rho")
    assert tree.typical_error([0.5], budget) == pytest.approx(
        math.sqrt(1 / (2 * 0.5 / 4)), rel=1e-3
    )
    assert tree.cost([0.5], budget).eps == math.inf


@pytest.mark.parametrize("eps", [0.01, 0.3, 1.0])
def test_parts_of_records_make_the_noise_hardly_larger(eps):
    """Noise in fractions of a record is about as accurate as noise in whole records."""
    pmf = laplace_pmf(CountNoise(Budget(eps, "eps"))._rate)
    in_records = math.sqrt(math.fsum(pmf * SUPPORT.astype(float) ** 2))
    in_parts = CountNoise(Budget(eps, "eps"), sensitivity=RECORD_WEIGHT).deviation()
    assert in_parts == pytest.approx(in_records, rel=0.05)


def noise_p_value(noise, pmf):
    values, counts = np.unique(noise, return_counts=True)
    drawn = dict(zip(values.tolist(), counts.tolist(), strict=True))
    return p_value(drawn, dict(zip(SUPPORT.tolist(), pmf.tolist(), strict=True)))


@pytest.mark.parametrize("rate", [0.02, 0.25, 1.3, 4.0])
def test_discrete_laplace_is_exact_and_the_test_has_power(rate):
    noise = discrete_laplace(rate, 20_000, make_randomness(1))
    assert noise_p_value(noise, laplace_pmf(rate)) > 1e-3
    assert noise_p_value(noise, laplace_pmf(1.3 * rate)) < 1e-3
    assert noise_p_value(noise, laplace_pmf(rate / 1.3)) < 1e-3


@pytest.mark.parametrize("variance", [0.3, 4.0, 400.0])
def test_discrete_gaussian_is_exact_and_the_test_has_power(variance):
    noise = discrete_gaussian(variance, 20_000, make_randomness(2))
    assert noise_p_value(noise, gaussian_pmf(variance)) > 1e-3
    assert noise_p_value(noise, gaussian_pmf(1.3 * variance)) < 1e-3
    assert noise_p_value(noise, gaussian_pmf(variance / 1.3)) < 1e-3


class Scripted(Randomness):
    """Uniforms, words and exponentials that a test hands in, one for each call."""

    def __init__(self, uniforms=(), words=(), exponentials=()):
        self._scripts = {"u": list(uniforms), "w": list(words), "e": list(exponentials)}

    def uniforms(self, n):
        return np.array([self._scripts["u"].pop(0)])

    def words(self, n):
        return np.array([self._scripts["w"].pop(0)], dtype=np.uint64)

    def exponentials(self, n):
        return np.array([self._scripts["e"].pop(0)])


def test_geometrics_are_found_among_thresholds_and_go_on_beyond_the_last():
    """Rate 1: thresholds exp(-1) .. exp(-16). Passing all of them, the count starts anew."""

    def geometric(*uniforms):
        return geometrics(1.0, 1, Scripted(uniforms, words=[0], exponentials=[1.0]))

    just_below = np.exp(-3.0) * (1 - 1e-12)
    assert geometric(just_below) == 3
    assert geometric(np.exp(-3.0)) == 2
    assert geometric(1e-300, just_below) == 16 + 3


def test_low_parts_of_geometrics_are_proposed_evenly_and_kept_by_their_weight():
    """Rate 1/16: high parts of rate 1/4, and low parts 0 .. 3 with weights exp(-low / 16)."""
    kept = Scripted([0.9], words=[2**40 + 3], exponentials=[3 / 16 + 1e-9])
    assert geometrics(1 / 16, 1, kept) == 3
    not_kept = Scripted([0.9], words=[3, 1], exponentials=[3 / 16 - 1e-9, 9.0])
    assert geometrics(1 / 16, 1, not_kept) == 1
    with_high = Scripted([np.exp(-2.5 / 4)], words=[2], exponentials=[9.0])
    assert geometrics(1 / 16, 1, with_high) == 4 * 2 + 2


@pytest.mark.parametrize(("height", "branching"), [(1, 3), (2, 2), (2, 3), (3, 2)])
def test_consistent_counts_are_the_least_squares_solution(height, branching, rng):
    sizes = [branching**level for level in range(1, height + 1)]
    noisy = [rng.integers(-5, 30, size=size) for size in sizes]
    n_leaves = sizes[-1]
    design = np.concatenate([np.kron(np.eye(n), np.ones(n_leaves // n)) for n in sizes])
    leaves = np.linalg.lstsq(design, np.concatenate(noisy), rcond=None)[0]
    np.testing.assert_allclose(np.concatenate(consistent(noisy)), design @ leaves)


def test_without_noise_the_quantile_is_right_to_a_leaf(rng):
    values = rng.normal(size=5000)
    ranks, quantiles = sorted_column(values, (-10.0, 10.0)), np.arange(1, 20) / 20
    first, end = int(ranks.grid.first[0]), int(ranks.grid.end[0])
    levels = tree_counts(ranks, 0, 4, 16)
    cells = first + walk_down(consistent(levels), quantiles, leaf_edges(16**4, end - first))
    wanted = np.sort(values)[np.ceil(quantiles * 5000).astype(int) - 1]
    distance = np.abs(cells - ranks.grid.cells_of(wanted, 0))
    assert distance.max() <= (end - first) / 16**4 + 1


def test_counts_of_all_levels_are_those_of_the_data():
    counts = (2, 0, 1, 3)
    for source in (column_of, summary_of):
        top, leaves = tree_counts(source(counts, tiny_grid(4, 2)), 0, 2, 2)
        assert (leaves // RECORD_WEIGHT).tolist() == [2, 0, 1, 3]
        assert (top // RECORD_WEIGHT).tolist() == [2, 4]


@pytest.mark.parametrize("bounds", [UNBOUNDED, (-1.0, 3.0), (0.0, np.inf)])
def test_every_record_is_counted(bounds):
    values = [np.inf, -np.inf, 1e300, 3.0, -1.0, 0.0, 2.9999, 5e-324]
    for level in tree_counts(sorted_column(values, bounds), 0, 4, 16):
        assert level.sum() == 8 * RECORD_WEIGHT


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
        cells = walk_down(consistent(noisy), quantiles, leaf_edges(noisy[-1].size, 1000))
        assert np.all(np.diff(cells) >= 0)
        assert cells[0] >= 0 and cells[-1] < 1000


def release_distribution(counts, quantiles, budget, most):
    """The exact distribution of released cells for a tree of height 1, noise cut at `most`."""
    noises = np.arange(-most, most + 1)
    pmf = pmf_of(CountNoise(budget, len(counts)))[SUPPORT.size // 2 + noises]
    exact = {}
    for which in itertools.product(range(noises.size), repeat=len(counts)):
        noisy = [np.array(counts) + noises[list(which)]]
        released = tuple(
            walk_down(
                consistent(noisy), quantiles, leaf_edges(noisy[-1].size, len(counts))
            ).tolist()
        )
        exact[released] = exact.get(released, 0.0) + math.prod(pmf[list(which)])
    return exact


@pytest.mark.slow
def test_release_follows_the_exact_distribution_and_betrays_a_wrong_eps(monkeypatch):
    """With records of weight 1 all outcomes of the noise can be enumerated."""
    monkeypatch.setattr(agg_tree, "RECORD_WEIGHT", 1)
    tree, quantiles, counts = AggregateTree(height=1, branching=3), [0.3, 0.8], (2, 1, 3)
    exact = release_distribution(counts, quantiles, Budget(2.0, "eps"), most=7)
    assert math.fsum(exact.values()) > 0.9999
    ranks = ranks_of_weights([counts] * 2500, tiny_grid(3, 2))

    def p_value_of(eps, seed):
        budgets = [Budget(eps, "eps")] * 2500
        released = tree.draw(ranks, [quantiles] * 2500, budgets, make_randomness(seed))
        cells, n_drawn = np.unique(np.array(released), axis=0, return_counts=True)
        return p_value(dict(zip(map(tuple, cells.tolist()), n_drawn, strict=True)), exact)

    assert p_value_of(2.0, seed=1) > 1e-3
    assert p_value_of(2.6, seed=2) < 1e-3


@pytest.mark.slow
def test_noise_of_weights_is_that_of_their_records(rng):
    """Compare with noise from a floating-point generator, in records."""
    tree, counts, n_draws = AggregateTree(height=1, branching=3), np.array([2, 1, 3]), 4000
    ranks = ranks_of_weights([counts * RECORD_WEIGHT] * n_draws, tiny_grid(3, 2))
    budgets = [Budget(2.0, "eps")] * n_draws
    released = tree.draw(ranks, [[0.5]] * n_draws, budgets, make_randomness(0))

    def p_value_at(eps):
        noisy = counts + rng.laplace(scale=1 / eps, size=(n_draws, 3))
        simulated = [walk_down([row], [0.5], leaf_edges(row.size, 3)) for row in noisy]
        table = [np.bincount(np.concatenate(cells), minlength=3) for cells in (released, simulated)]
        return chi2_contingency(table).pvalue

    assert p_value_at(2.0) > 1e-3
    assert p_value_at(2.6) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("budget", [Budget(1e-5, "eps"), Budget(1e6, "eps"), Budget(1e6, "rho")])
def test_release_always_gives_ascending_cells(budget):
    assert_releases_ascending_cells(AggregateTree(), budget, numbers_of_quantiles=(30,))


def test_a_budget_too_small_to_be_guaranteed_is_refused():
    for budget in (Budget(1e-13, "eps"), Budget(1e-13, "rho")):
        assert_refuses(AggregateTree(), [0.5], budget)


def test_budgets_of_single_draws_are_left_to_mechanisms_that_make_some():
    assert AggregateTree().composed_budgets([[0.5]], [1.0], 1.0, 1e-6) is None
