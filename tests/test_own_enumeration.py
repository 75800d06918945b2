"""AggTree and AQ on lattices from their definitions: plain loops of their own.

Every small dataset, every neighbour, every outcome. The package's weights and draws have to follow
these distributions, and these have to keep the promise. At the end the package's own weights of AQ
are enumerated on lattices, within bounds, and with priors of the nastiest kind.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.engine.exponential import Scores
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.pairs import PairScores
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.mechanisms import agg_tree
from dpq_sklearn.mechanisms.agg_tree import AggregateTree
from dpq_sklearn.mechanisms.prior import Prior
from tests.enumeration import (
    AQ,
    aq_draws,
    ranks_of_weights,
    tiny_grid,
    with_neighbours,
    worst_eps,
    worst_range_rho,
)
from tests.mechanism_helpers import p_value

RECORD_WEIGHT = 2**18
QUANTILES = [[0.5], [0.25, 0.5], [0.1, 0.45, 0.9]]


def all_datasets(n_cells, most):
    return list(itertools.product(range(most + 1), repeat=n_cells))


def with_one_more(counts):
    """All datasets that have one record more."""
    for cell in range(len(counts)):
        yield tuple(n + (other == cell) for other, n in enumerate(counts))


def largest_log_ratio(one, other):
    assert one.keys() == other.keys()
    return max(abs(math.log(one[outcome] / other[outcome])) for outcome in one)


def own_chances(counts, measures, q, eps):
    """The exponential mechanism over cells: how far the rank q n is from the ranks of a cell."""
    target = q * sum(counts)
    rate = eps / (2 * max(q, 1 - q))
    weights = []
    below = 0
    for count, measure in zip(counts, measures, strict=True):
        distance = max(below - target, target - below - count, 0)
        weights.append(measure * math.exp(-rate * distance))
        below += count
    return [weight / math.fsum(weights) for weight in weights]


# AggTree


def own_counts(counts, height, branching):
    """The counts of all levels of a tree, whose leaves are the cells."""
    levels = []
    for depth in range(1, height + 1):
        width = len(counts) // branching**depth
        levels += [sum(counts[i : i + width]) for i in range(0, len(counts), width)]
    return levels


def own_noise(rate, value):
    """The discrete Laplace distribution."""
    return (1 - math.exp(-rate)) / (1 + math.exp(-rate)) * math.exp(-rate * abs(value))


def own_walk(noisy, quantiles):
    """Cells of a tree of height 1 with a leaf for each cell: where the sum first reaches q n."""
    cells = []
    for q in quantiles:
        sums = list(itertools.accumulate(noisy))
        wanted = min(q * max(sums[-1], 0), max(sums))
        cells.append(next(cell for cell, so_far in enumerate(sums) if so_far >= wanted))
    return tuple(cells)


def own_release(counts, quantiles, eps, most):
    """{cells: probability} for a tree of height 1, over all noises up to `most`."""
    noises = range(-most, most + 1)
    chances = [own_noise(eps, noise) for noise in noises]
    joint = {}
    for which in itertools.product(range(len(noises)), repeat=len(counts)):
        noisy = [n + noises[i] for n, i in zip(counts, which, strict=True)]
        outcome = own_walk(noisy, quantiles)
        joint[outcome] = joint.get(outcome, 0.0) + math.prod(chances[i] for i in which)
    return joint


@pytest.mark.parametrize(("height", "branching"), [(1, 3), (2, 2), (3, 2)])
def test_noisy_counts_of_agg_tree_are_within_eps_by_their_definition(height, branching):
    """Every neighbour, every outcome; each level has an equal part of eps."""
    eps, worst = 2.0, 0.0
    n_leaves = branching**height
    for counts in all_datasets(n_leaves, 1):
        for more in with_one_more(counts):
            before, after = (own_counts(data, height, branching) for data in (counts, more))
            # The noises are independent, so the worst outcome is the worst of each count.
            loss = sum(
                max(
                    abs(math.log(own_noise(eps / height, x - a) / own_noise(eps / height, x - b)))
                    for x in range(-8, 9)
                )
                for a, b in zip(before, after, strict=True)
            )
            worst = max(worst, loss)
    assert worst == pytest.approx(eps, rel=1e-12)


@pytest.mark.parametrize("quantiles", [[0.5], [0.3, 0.8]], ids=str)
def test_releases_of_agg_tree_are_within_eps_by_their_definition(quantiles):
    eps, releases = 2.0, {}
    for counts in all_datasets(3, 2):
        for data in (counts, *with_one_more(counts)):
            if data not in releases:
                releases[data] = own_release(data, quantiles, eps, most=7)
    worst = 0.0
    for counts in all_datasets(3, 2):
        for more in with_one_more(counts):
            worst = max(worst, largest_log_ratio(releases[counts], releases[more]))
    assert eps / 2 < worst <= eps * (1 + 1e-3)  # noises beyond 7 are left out


def test_draws_of_agg_tree_follow_the_definition_and_betray_another_eps(monkeypatch):
    """With records of weight 1, whose noise can be enumerated."""
    monkeypatch.setattr(agg_tree, "RECORD_WEIGHT", 1)
    counts, quantiles, n_draws = (2, 1, 3), [0.3, 0.8], 4000
    tree = AggregateTree(height=1, branching=3)
    ranks = ranks_of_weights([counts] * n_draws, tiny_grid(3, 1))
    expected = own_release(counts, quantiles, 2.0, most=9)

    def p_value_of(eps, seed):
        budgets = [Budget(eps, "eps")] * n_draws
        drawn = tree.draw(ranks, [quantiles] * n_draws, budgets, make_randomness(seed))
        cells, n_drawn = np.unique(np.array(drawn), axis=0, return_counts=True)
        return p_value(dict(zip(map(tuple, cells.tolist()), n_drawn, strict=True)), expected)

    assert p_value_of(2.0, seed=1) > 1e-3
    assert p_value_of(2.6, seed=2) < 1e-3


# AQ on lattices, within bounds, with priors

# What bounds and decimals leave: five cells at most, of a grid as a release has it.
LATTICES = {
    "whole numbers": ((0, 3), 0, 24),
    "ratings": ((1, 4), 0, 24),
    "tenths": ((0.0, 0.3), 1, 24),
    "thousands": ((0, 3000), -3, 24),
    "0/1": ((0, 1), 0, 24),
    "several points a cell": ((0, 15), 0, 2),
}
# Where the data are not, and as surely as a prior can say it.
PRIORS = {
    "none": None,
    "one number": Prior.of_numbers(np.zeros(10**6)),
    "the last number": Prior.of_numbers(np.full(10**6, 3.0)),
    "far beyond": Prior.of_numbers(np.full(10**6, -1e300)),
    "two far apart": Prior.of_numbers(np.repeat([-1e9, 1e9], 10**5)),
    "an equal release": Prior.of_release([0.2, 0.4, 0.6, 0.8], [2.0, 2.0, 2.0, 2.0]),
    "a huge release": Prior.of_release([0.5], [1e308]),
}
AQ_QUANTILES = [
    [0.5],
    [0.02],
    [0.2, 0.9],
    pytest.param([0.3, 0.31, 0.9], marks=pytest.mark.slow),
    pytest.param([0.2, 0.4, 0.6, 0.8], marks=pytest.mark.slow),
]


def lattice_grid(name, positions_per_cell=2):
    bounds, decimals, resolution = LATTICES[name]
    grid = make_grid([tuple(map(float, bounds))], resolution, [decimals])
    return replace(grid, positions_per_cell=positions_per_cell)


def datasets_on(grid):
    """Counts of every dataset of up to 1 record in each cell, and atoms beside gaps."""
    first, end = int(grid.first[0]), int(grid.end[0])
    before = (0,) * first
    small = [(*before, *counts) for counts in all_datasets(end - first, 1)]
    atoms = [(*before, *[0] * (end - first - 1), 30), (*before, 30, *[1] * (end - first - 1))]
    return small + atoms


def draws_on(grid, quantiles, budget, priors=(None,)):
    """AQ on all these datasets and their neighbours, and the pairs of neighbours."""
    counts, pairs = with_neighbours(datasets_on(grid))
    ranks = ranks_of_weights(np.array(counts) * RECORD_WEIGHT, grid)
    return aq_draws(ranks, quantiles, budget, priors=list(priors) * len(counts)), pairs


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("quantiles", AQ_QUANTILES, ids=str)
@pytest.mark.parametrize("lattice", LATTICES)
def test_aq_on_lattices_with_priors_is_within_its_budget(lattice, quantiles, prior):
    """Check the base measure in use, and the worst base measure."""
    grid = lattice_grid(lattice)
    draws, pairs = draws_on(grid, quantiles, Budget(1.0, "eps"), [prior])
    assert worst_eps(draws, pairs) <= worst_eps(draws, pairs, any_measure=True) <= 1.0
    draws, pairs = draws_on(grid, quantiles, Budget(0.1, "rho"), [prior])
    assert worst_range_rho(draws, pairs) <= 0.1


@pytest.mark.parametrize("prior", ["one number", "the last number", "an equal release"])
def test_a_nasty_prior_moves_the_distribution(prior):
    """So the test above depends on the prior."""
    grid = lattice_grid("whole numbers")
    budget = Budget(1.0, "eps")
    with_prior, _ = draws_on(grid, [0.2, 0.9], budget, [PRIORS[prior]])
    without, _ = draws_on(grid, [0.2, 0.9], budget)
    assert np.abs(with_prior.chances - without.chances).max() > 0.05


def test_the_enumeration_would_betray_a_prior_made_of_the_private_rows():
    grid = lattice_grid("whole numbers")
    counts, pairs = with_neighbours(datasets_on(grid))
    ranks = ranks_of_weights(np.array(counts) * RECORD_WEIGHT, grid)
    rows = [np.repeat(np.arange(4.0), n) for n in counts]
    priors = [Prior.of_numbers(x) for x in rows]
    draws = aq_draws(ranks, [0.5], Budget(1.0, "eps"), priors=priors)
    assert worst_eps(draws, pairs) > 1.5


@pytest.mark.parametrize("prior", ["none", "one number", "an equal release"])
@pytest.mark.parametrize("lattice", ["whole numbers", "ratings", "several points a cell"])
@pytest.mark.parametrize(("quantiles", "scores"), [([0.5], Scores), ([0.2, 0.9], PairScores)])
def test_the_enumeration_on_lattices_would_betray_a_wrong_sensitivity(
    quantiles, scores, lattice, prior, monkeypatch
):
    """A score that is a tenth too steep, as a sensitivity would be that is too small."""
    right = scores.of.__func__

    def wrong(cls, nodes, per_cell):
        found = right(cls, nodes, per_cell)
        return replace(found, eta=1.1 * found.eta)

    def worst():
        draws, pairs = draws_on(
            lattice_grid(lattice), quantiles, Budget(1.0, "eps"), [PRIORS[prior]]
        )
        return worst_eps(draws, pairs, any_measure=True)

    assert 0.9 < worst() <= 1.0
    monkeypatch.setattr(scores, "of", classmethod(wrong))
    assert worst() > 1.0


# Values on, between and beyond the points 0, 1, 2, 3.
BESIDE = (-7.0, 0.4, 0.6, 1.5, 2.0, 2.5, 3.4, 1e30)


def own_counts_on_lattice(rows):
    """Each row by itself: into the bounds, then to the nearest point, halves to the even one."""
    counts = [0, 0, 0, 0]
    for value in rows:
        counts[round(min(max(value, 0.0), 3.0))] += 1
    return counts


def all_rows(most):
    return [
        rows for n in range(most + 1) for rows in itertools.combinations_with_replacement(BESIDE, n)
    ]


def ranks_of_rows(datasets, grid):
    """The ranks of rows as they come, each dataset by itself."""
    found = []
    for rows in datasets:
        values = np.array([rows], dtype=np.float64).reshape(1, -1)
        found.append(SortedRanks.of_rows(grid.on_lattices(values, np.array([[0]])), grid))
    return found


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("q", [0.5, 0.1])
def test_aq_on_a_lattice_follows_the_definition(q, prior):
    """The base measure is what the mechanism draws by where there are no rows."""
    grid = lattice_grid("whole numbers")
    datasets = all_rows(2)
    found = [
        aq_draws(ranks, [q], Budget(2.0, "eps"), priors=[prior]).chances[0, 0, ::2]
        for ranks in ranks_of_rows(datasets, grid)
    ]
    measures = found[datasets.index(())]
    for rows, chances in zip(datasets, found, strict=True):
        expected = own_chances(own_counts_on_lattice(rows), measures, q, 2.0)
        np.testing.assert_allclose(chances, expected, rtol=1e-4)


@pytest.mark.parametrize("measures", [(1, 1, 1, 1), (1e-9, 1, 1e-9, 1e-9)], ids=str)
def test_rounding_row_by_row_keeps_eps_by_its_definition(measures):
    worst = max(
        largest_log_ratio(
            dict(enumerate(own_chances(own_counts_on_lattice(rows), measures, 0.3, 1.0))),
            dict(enumerate(own_chances(own_counts_on_lattice((*rows, one)), measures, 0.3, 1.0))),
        )
        for rows in all_rows(3)
        for one in BESIDE
    )
    assert 0.5 < worst <= 1.0 + 1e-12


def test_draws_of_aq_with_a_prior_follow_the_definition_and_betray_another_eps():
    counts, q, n_draws = (2, 0, 3, 1), 0.3, 8000
    grid = lattice_grid("whole numbers")
    prior = PRIORS["the last number"]
    nothing = ranks_of_weights(np.zeros((1, 4), dtype=np.int64), grid)
    measures = aq_draws(nothing, [q], Budget(2.0, "eps"), priors=[prior]).chances[0, 0, ::2]
    expected = dict(enumerate(own_chances(counts, measures, q, 2.0)))
    ranks = ranks_of_weights([np.array(counts) * RECORD_WEIGHT] * n_draws, grid)

    def p_value_of(eps, seed):
        budgets = [Budget(eps, "eps")] * n_draws
        randomness = make_randomness(seed)
        drawn = AQ.draw(ranks, [(q,)] * n_draws, budgets, randomness, priors=[prior] * n_draws)
        cells, n_drawn = np.unique(np.array(drawn), return_counts=True)
        return p_value(dict(zip(cells.tolist(), n_drawn, strict=True)), expected)

    assert p_value_of(2.0, seed=1) > 1e-3
    assert p_value_of(2.6, seed=2) < 1e-3
