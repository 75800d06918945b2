"""JointExp is private and windowed exactly: proved by enumeration, then tied to the sampler."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare

from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.engine.grid import BoundedGrid, UnboundedGrid
from dpq_sklearn.engine.random import SeededRandomness, SystemRandomness
from dpq_sklearn.engine.ranks import CellCounts, SortedColumn
from dpq_sklearn.mechanisms.joint_exp import (
    JointExponential,
    JointWeights,
    Targets,
    acceptance,
    decaying_sums,
    interval_edges,
    rank_windows,
    sliding_sums,
)
from tests.enumeration import (
    cell_distribution,
    column_of,
    datasets,
    neighbour_pairs,
    renyi_divergence,
    summary_of,
    tiny_grid,
    worst_log_ratio,
)

JOINT = JointExponential()
FIFTHS = [0.2, 0.4, 0.6, 0.8]


def tuples_of(n_positions, m):
    return list(itertools.combinations_with_replacement(range(n_positions), m))


def direct_distribution(counts, quantiles, score):
    """All tuples one by one, from the definition of the score; one position a cell."""
    n = sum(counts)
    below = np.concatenate(([0], np.cumsum(counts)))  # F at the position of each cell
    gaps = np.diff([0.0, *quantiles, 1.0])
    weights = {}
    for positions in tuples_of(len(counts), len(quantiles)):
        ranks = np.array([0, *(below[p] for p in positions), n])
        score_of_tuple = -np.abs(np.diff(ranks) - gaps * n).sum()
        weights[positions] = math.exp(score.eta * max(score_of_tuple, -score.reach))
    whole = math.fsum(weights.values())
    return {key: weight / whole for key, weight in weights.items()}


def normalised(log_weights):
    weights = np.exp(log_weights - log_weights.max())
    return weights / math.fsum(weights)


def windowed_distribution(ranks, quantiles, mechanism, budget):
    """The distribution of `release`, from the very weights that it draws with.

    For grids with one position a cell, where the records have no choice of position.
    """
    n_positions = ranks.grid.n_cells
    score = mechanism.score(quantiles, budget, n_positions)
    targets = Targets.of(quantiles, ranks.n_records)
    windows = rank_windows(targets, ranks.n_records, score.reach)
    edges = interval_edges(ranks, windows, n_positions, SystemRandomness())
    weights = JointWeights(score, targets, windows, edges)

    memory = {}

    def ways(j, log_weights, key):
        """Every tuple of positions of the quantiles up to the j-th, with its probability."""
        if key not in memory:
            found = {}
            for index in np.flatnonzero(log_weights > -np.inf):
                rank, chance = windows[j][0] + int(index), normalised(log_weights)[index]
                left, right = edges[j][index : index + 2].tolist()
                for k, share in enumerate(normalised(weights.shared(j, rank)), start=1):
                    inside = tuples_of(right - left, k)
                    rest = {(): 1.0}
                    if k <= j:
                        before = weights.before(j - k, rank)
                        rest = ways(j - k, before, (j - k, rank)) if share > 0 else {}
                    for head, tail in itertools.product(rest, inside):
                        positions = (*head, *(left + 1 + p for p in tail))
                        more = chance * share * rest[head] / len(inside)
                        found[positions] = found.get(positions, 0.0) + more
            memory[key] = found
        return memory[key]

    inside = ways(len(quantiles) - 1, weights.last(), "last")
    everything = tuples_of(n_positions, len(quantiles))
    total = np.logaddexp.reduce(weights.last())
    floor = -score.eta * score.reach
    proposed = {key: inside.get(key, 0.0) * math.exp(total) + math.exp(floor) for key in everything}
    kept = {key: weight * acceptance(weights, np.array(key)) for key, weight in proposed.items()}
    whole = math.fsum(kept.values())
    return {key: weight / whole for key, weight in kept.items()}


QUANTILES = {
    "median": [0.5],
    "near 1": [0.999],
    "thirds": [1 / 3, 2 / 3],
    "close pair": [0.7, 0.71],
    "skewed three": [0.01, 0.05, 0.9],
    "fifths": FIFTHS,
}


@pytest.mark.parametrize("spare_bits", [34.0, -1.5])
@pytest.mark.parametrize("quantiles", QUANTILES.values(), ids=QUANTILES)
@pytest.mark.parametrize(
    "counts",
    [(0, 0, 0), (1, 0, 2, 1), (40, 0, 3, 60, 1), (0, 90, 0, 0, 90), (7, 11, 0, 25, 80, 2)],
    ids=str,
)
def test_windowed_and_direct_distributions_are_the_same(counts, quantiles, spare_bits):
    """Also where windows cut records off, and where most tuples are clipped."""
    mechanism = JointExponential(spare_bits)
    ranks = summary_of(counts, tiny_grid(len(counts), 1))
    budget = Budget(2.0, "eps")
    direct = direct_distribution(counts, quantiles, mechanism.score(quantiles, budget, len(counts)))
    windowed = windowed_distribution(ranks, quantiles, mechanism, budget)
    assert worst_log_ratio(direct, windowed) < 1e-10


def test_windows_cut_records_off_in_the_test_above():
    score = JointExponential(-1.5).score(FIFTHS, Budget(2.0, "eps"), 5)
    targets = Targets.of(FIFTHS, 180)
    windows = rank_windows(targets, 180, score.reach)
    assert all(0 < last - first < 60 for first, last in windows)
    assert windows[0][0] > 0 and windows[-1][1] < 181


@pytest.mark.parametrize("quantiles", QUANTILES.values(), ids=QUANTILES)
@pytest.mark.parametrize("eps", [0.3, 3.0])
def test_every_neighbour_and_every_output_is_within_eps(quantiles, eps):
    grid, most, budget = tiny_grid(4, 1), 3, Budget(eps, "eps")
    exact = {
        counts: direct_distribution(counts, quantiles, JOINT.score(quantiles, budget, 4))
        for counts in datasets(grid.n_cells, most)
    }
    for one, other in neighbour_pairs(grid.n_cells, most):
        assert worst_log_ratio(exact[one], exact[other]) <= eps


@pytest.mark.parametrize("spare_bits", [34.0, -1.5])
@pytest.mark.parametrize("quantiles", [[0.3, 0.6], [0.25, 0.5, 0.75]])
def test_windowed_weights_are_within_eps(quantiles, spare_bits):
    """The same from the weights in use, for few records and for more than a window holds."""
    budget, mechanism = Budget(2.0, "eps"), JointExponential(spare_bits)
    few = list(neighbour_pairs(3, 2))
    many = [((40, 5, 70), (41, 5, 70)), ((40, 5, 70), (40, 6, 70)), ((0, 80, 30), (0, 80, 31))]
    for pair in few + many:
        one, other = (
            windowed_distribution(column_of(counts, tiny_grid(3, 1)), quantiles, mechanism, budget)
            for counts in pair
        )
        assert worst_log_ratio(one, other) <= 2.0


@pytest.mark.parametrize("quantiles", QUANTILES.values(), ids=QUANTILES)
def test_every_renyi_divergence_is_within_rho(quantiles):
    rho, most = 0.5, 3
    budget = Budget(rho, "rho")
    score = JOINT.score(quantiles, budget, 4)
    exact = {counts: direct_distribution(counts, quantiles, score) for counts in datasets(4, most)}
    for pair, order in itertools.product(neighbour_pairs(4, most), [1.01, 2.0, 8.0, 200.0]):
        for one, other in (pair, pair[::-1]):
            assert renyi_divergence(exact[one], exact[other], order) <= rho * order


@pytest.mark.parametrize("name", ["median", "thirds"])
def test_the_enumeration_would_betray_a_mechanism_that_overspends_by_a_tenth(name):
    quantiles = QUANTILES[name]
    score = JointExponential(400.0).score(quantiles, Budget(11.0, "eps"), 3)
    exact = {counts: direct_distribution(counts, quantiles, score) for counts in datasets(3, 6)}
    pairs = neighbour_pairs(3, 6)
    assert max(worst_log_ratio(exact[one], exact[other]) for one, other in pairs) > 10.0


def distribution_over_random_positions(counts, grid, quantiles, budget):
    """The mixture over all positions of the records in their cells."""
    per_cell = grid.positions_per_cell
    n_positions = grid.n_cells * per_cell
    cells = np.repeat(np.arange(grid.n_cells), counts)
    subs_of_all = list(itertools.product(range(per_cell), repeat=cells.size))
    score = JOINT.score(quantiles, budget, n_positions)
    mixture = dict.fromkeys(tuples_of(n_positions, len(quantiles)), 0.0)
    for subs in subs_of_all:
        fine = np.bincount(cells * per_cell + np.array(subs), minlength=n_positions)
        for key, chance in direct_distribution(tuple(fine), quantiles, score).items():
            mixture[key] += chance / len(subs_of_all)
    return cell_distribution(mixture, per_cell)


def chi_square(sampled_eps, exact_eps, seed, n_draws=3000):
    grid, quantiles, counts = tiny_grid(3, 2), [0.3, 0.5, 0.8], (2, 1, 3)
    cells = distribution_over_random_positions(counts, grid, quantiles, Budget(exact_eps, "eps"))
    randomness = SeededRandomness(np.random.SeedSequence(seed))
    ranks = column_of(counts, grid)
    drawn = dict.fromkeys(cells, 0)
    for _ in range(n_draws):
        released = JOINT.release(ranks, quantiles, Budget(sampled_eps, "eps"), randomness)
        drawn[tuple(released.tolist())] += 1
    expected = np.array([cells[key] * n_draws for key in cells])
    observed = np.array([drawn[key] for key in cells])
    return chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


def test_sampler_follows_the_exact_distribution_and_would_betray_a_wrong_eps():
    assert chi_square(2.0, 2.0, seed=1) > 1e-3
    assert chi_square(2.6, 2.0, seed=2) < 1e-3
    assert chi_square(2.0, 2.6, seed=3) < 1e-3


def test_sampler_draws_clipped_tuples_as_often_as_it_should():
    """With a high floor most tuples come from it, inside the windows and outside of them."""
    mechanism, counts, quantiles = JointExponential(2.0), (20, 3, 4, 31, 2), [0.3, 0.6]
    ranks, budget = summary_of(counts, tiny_grid(5, 1)), Budget(2.0, "eps")
    exact = direct_distribution(counts, quantiles, mechanism.score(quantiles, budget, 5))
    randomness = SeededRandomness(np.random.SeedSequence(4))
    drawn = dict.fromkeys(exact, 0)
    for _ in range(6000):
        drawn[tuple(mechanism.release(ranks, quantiles, budget, randomness).tolist())] += 1
    clipped = [key for key in exact if exact[key] < 1.01 * min(exact.values())]
    assert 500 < sum(drawn[key] for key in clipped) < 5500
    expected = np.array(list(exact.values())) * 6000
    assert chisquare(list(drawn.values()), expected * (6000 / expected.sum())).pvalue > 1e-3


@pytest.mark.parametrize("budget", [Budget(1.0, "eps"), Budget(0.3, "rho")])
def test_cost_in_both_units_holds_on_the_exact_distributions(budget):
    cost = JOINT.cost(FIFTHS, budget)
    assert 0.999 * budget.amount < cost[budget.unit] <= budget.amount
    score = JOINT.score(FIFTHS, budget, 4)
    exact = {counts: direct_distribution(counts, FIFTHS, score) for counts in datasets(4, 2)}
    for one, other in neighbour_pairs(4, 2):
        assert worst_log_ratio(exact[one], exact[other]) <= cost["eps"]
        for order in (1.1, 2.0, 10.0):
            assert renyi_divergence(exact[one], exact[other], order) <= cost["rho"] * order


@pytest.mark.parametrize("width", [1, 3, 4, 7, 30])
def test_running_sums_add_up_what_they_should(width, rng):
    terms, eta = rng.normal(scale=20, size=11), 0.4
    starts = np.arange(-35, 20)
    sliding = [
        [terms[s] - eta * (s - a) for s in range(max(a, 0), min(a + width, 11))] for a in starts
    ]
    decaying = [[terms[s] - eta * (a - s) for s in range(min(a + 1, 11))] for a in starts]
    for found, wanted in (
        (sliding_sums(terms, eta, starts, width), sliding),
        (decaying_sums(terms, eta, starts), decaying),
    ):
        sums = np.array([np.logaddexp.reduce(terms or [-np.inf]) for terms in wanted])
        np.testing.assert_array_equal(np.isinf(found), np.isinf(sums))
        finite = np.isfinite(sums)
        np.testing.assert_allclose(found[finite], sums[finite], rtol=1e-13, atol=1e-12)


def test_sources_of_ranks_give_the_same_release(rng):
    """A column and its (cell, count) summary; with atoms on the borders of windows."""
    grid = UnboundedGrid()
    values = np.concatenate((rng.normal(size=3000), np.full(2000, 0.5), np.full(900, -1.0)))
    cells, counts = np.unique(grid.cells_of(values), return_counts=True)
    released = [
        JOINT.release(
            ranks, FIFTHS, Budget(1.0, "eps"), SeededRandomness(np.random.SeedSequence(5))
        )
        for ranks in (SortedColumn(values, grid), CellCounts(cells, counts, grid))
    ]
    np.testing.assert_array_equal(*released)


@pytest.mark.parametrize("windows", [[(0, 1001)], [(0, 10), (300, 320)], [(5, 700), (300, 1001)]])
def test_ends_of_intervals_are_exact(windows, rng):
    """Positions have 62 bits, more than a float: any rounding would show in the low bits."""
    grid = UnboundedGrid()
    n_positions = grid.n_cells * grid.positions_per_cell
    values = np.sort(rng.normal(size=1000).round(1))
    ranks = SortedColumn(values.copy(), grid)
    edges = interval_edges(ranks, windows, n_positions, SystemRandomness())
    for (a, b), ends in zip(windows, edges, strict=True):
        assert ends.dtype == np.int64
        assert ends.size == b - a + 1
        assert (ends[0] == -1) == (a == 0) and (ends[-1] == n_positions - 1) == (b == 1001)
        assert np.unique(ends % 512).size > 5
        inner = ends[a == 0 : ends.size - (b == 1001)]
        records = values[max(a - 1, 0) : min(b, 1000)]
        np.testing.assert_array_equal(inner // grid.positions_per_cell, grid.cells_of(records))
    if len(windows) == 2 and windows[0][1] > windows[1][0]:  # both see the same positions
        np.testing.assert_array_equal(edges[0][300 - 5 : 700 - 5], edges[1][: 700 - 300])


@pytest.mark.parametrize("eps", [0.01, 1.0, 1e6])
@pytest.mark.parametrize(
    "values",
    [[], [0.0], [1e18, -1e18], [np.inf, -np.inf, 1.0], [7.0] * 1000],
    ids=["empty", "one zero", "huge", "infinite", "constant"],
)
def test_release_always_gives_ascending_cells(values, eps):
    for grid in (UnboundedGrid(), BoundedGrid(0.0, 1.0)):
        ranks = SortedColumn(np.array(values, dtype=float), grid)
        for m in (1, 2, 5, 30):
            quantiles = np.arange(1, m + 1) / (m + 1)
            cells = JOINT.release(ranks, quantiles, Budget(eps, "eps"), SystemRandomness())
            assert cells.shape == (m,)
            assert np.all(np.diff(cells) >= 0)
            assert cells[0] >= 0 and cells[-1] < grid.n_cells


def test_a_large_budget_finds_the_quantiles(rng):
    values = rng.normal(size=2001)
    ranks = SortedColumn(values.copy(), UnboundedGrid())
    cells = JOINT.release(ranks, FIFTHS, Budget(1000.0, "eps"), SystemRandomness())
    found = np.searchsorted(np.sort(values), ranks.grid.middles(cells))
    np.testing.assert_allclose(found, np.array(FIFTHS) * 2001, atol=2)


def test_an_atom_with_most_of_the_records_is_hit(rng):
    values = np.concatenate((np.full(600, 40.0), rng.uniform(0, 100, size=400)))
    grid = BoundedGrid(-100.0, 100.0)
    cells = JOINT.release(
        SortedColumn(values, grid), [0.4, 0.6], Budget(1.0, "eps"), SystemRandomness()
    )
    np.testing.assert_array_equal(cells, grid.cells_of(np.array([40.0, 40.0])))


def test_far_records_are_never_looked_at(rng):
    """The work does not grow with n: only records within reach are asked for."""

    class Watched(SortedColumn):
        asked = 0

        def occupied(self, first, last):
            self.asked += last - first
            return super().occupied(first, last)

    ranks = Watched(rng.normal(size=200_000), UnboundedGrid())
    JOINT.release(ranks, FIFTHS, Budget(1.0, "eps"), SystemRandomness())
    assert 0 < ranks.asked < 4000
