"""Extreme quantiles: a scale is known before they are drawn, so they stay near the data."""

from itertools import combinations

import numpy as np
import pytest

from dpq_sklearn import dp_quantiles
from dpq_sklearn.accounting.budgets import Budget, TotalBudget
from dpq_sklearn.checks import UNBOUNDED
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.mechanisms.extreme_quantiles import (
    TailAwareQuantiles,
    inside_out,
    is_extreme,
    with_helpers,
)
from dpq_sklearn.reading.sources.memory import MemorySource
from dpq_sklearn.releases.plans import plan_quantiles
from dpq_sklearn.releases.release import pay, release
from dpq_sklearn.releases.request import Column, Request
from tests import enumeration
from tests.enumeration import RECORD_WEIGHT as WEIGHT
from tests.enumeration import (
    aq_draws,
    datasets,
    ranks_of_weights,
    tiny_grid,
    with_neighbours,
    worst_eps,
    worst_range_rho,
)

MECHANISM = TailAwareQuantiles()
EPS, RHO = Budget(1.0, "eps"), Budget(0.1, "rho")


@pytest.mark.parametrize(
    ("requested", "drawn"),
    [
        ((0.99,), (0.5, 0.75, 0.99)),
        ((0.01,), (0.01, 0.25, 0.5)),
        ((0.5, 0.99), (0.5, 0.75, 0.99)),
        ((0.01, 0.5, 0.99), (0.01, 0.25, 0.5, 0.75, 0.99)),
        ((0.05, 0.25, 0.75, 0.95), (0.05, 0.25, 0.5, 0.75, 0.95)),
        ((0.2, 0.4, 0.6, 0.8), (0.2, 0.4, 0.6, 0.8)),
        ((0.25,), (0.25,)),
        ((0.1, 0.3, 0.45, 0.7, 0.9), (0.1, 0.3, 0.45, 0.7, 0.9)),
    ],
)
def test_helpers_are_drawn_where_a_request_tells_no_scale(requested, drawn):
    found = with_helpers(requested)
    assert found.probabilities == drawn
    assert tuple(np.take(drawn, found.requested)) == requested


def requests():
    """Some hundred requests, with and without extreme quantiles."""
    probabilities = (0.005, 0.05, 0.2, 0.45, 0.5, 0.7, 0.9, 0.95, 0.99)
    return [chosen for m in range(1, 6) for chosen in combinations(probabilities, m)] + [
        tuple(np.arange(1, m + 1) / (m + 1)) for m in range(1, 70)
    ]


@pytest.mark.parametrize("norm", [1, 2])
def test_no_extreme_quantile_is_drawn_before_a_scale_is_known(norm):
    """Beside a single draw, two released values tell it. Of a pair, the other quantile does."""
    for requested in requests():
        drawn = with_helpers(requested).probabilities
        end = len(drawn) + 1
        for node in MECHANISM.nodes(drawn, norm):
            extreme = [is_extreme(probability) for probability in node.probabilities]
            has_scale = node.beyond > 0 or (node.below > 0 and node.above < end)
            is_told_by_the_pair = len(extreme) == 2 and not all(extreme)
            is_after_the_root = node.below > 0 or node.above < end
            assert not any(extreme) or has_scale or (is_told_by_the_pair and is_after_the_root)


@pytest.mark.parametrize("norm", [1, 2])
def test_trees_with_two_tails_are_mirror_images_of_themselves(norm):
    for requested in requests():
        mirrored = tuple(round(1 - probability, 12) for probability in reversed(requested))
        if mirrored != tuple(round(probability, 12) for probability in requested):
            continue
        if not is_extreme(requested[0]):
            continue
        drawn = with_helpers(requested).probabilities
        nodes = MECHANISM.nodes(drawn, norm)
        end = len(drawn) + 1
        if len(drawn) % 2 == 0 and any(len(n.indices) == 1 and not n.depth for n in nodes):
            continue  # a single root of an even number has no mirror image
        tails = [node for node in nodes if node.below == 0 or node.above == end]
        places = {(node.depth, node.indices) for node in tails}
        images = {(d, tuple(end - index for index in reversed(i))) for d, i in places}
        assert images == places


@pytest.mark.parametrize("requested", [(0.99,), (0.01, 0.5, 0.99), (0.05, 0.95)])
def test_helpers_are_paid_for_and_not_released(requested, rng):
    drawn = with_helpers(requested).probabilities
    for budget in (EPS, RHO):
        assert MECHANISM.cost(requested, budget) == MECHANISM.cost(drawn, budget)
        assert MECHANISM.events(requested, budget) == MECHANISM.events(drawn, budget)
    found = dp_quantiles(rng.normal(size=500), requested, random_state=0)
    assert np.shape(found) == np.shape(requested)
    all_drawn = dp_quantiles(rng.normal(size=500), drawn, random_state=0)
    assert np.shape(all_drawn) == np.shape(drawn)


@pytest.mark.parametrize("is_open", [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("quantiles", [(0.5, 0.75, 0.99), (0.05, 0.25, 0.5, 0.75, 0.95)], ids=str)
def test_trees_that_are_walked_inside_out_are_within_their_budget(quantiles, is_open, monkeypatch):
    """Enumerate exactly, with the affinity of pairs. A budget of 1.05 would be detected."""
    monkeypatch.setattr(enumeration, "AQ", MECHANISM)
    counts, pairs = with_neighbours([(1, 0, 2), (0, 3, 1), (2, 2, 2), (0, 0, 0)])
    ranks = ranks_of_weights(np.array(counts) * WEIGHT, tiny_grid(3, 2, is_open))

    def worst(eps):
        return worst_eps(aq_draws(ranks, quantiles, Budget(eps, "eps")), pairs, any_measure=True)

    assert worst(1.0) <= 1.0 < worst(1.1)
    assert worst_range_rho(aq_draws(ranks, quantiles, RHO), pairs) <= 0.1


@pytest.mark.slow
def test_trees_that_are_walked_inside_out_are_within_their_budget_for_all_data(monkeypatch):
    monkeypatch.setattr(enumeration, "AQ", MECHANISM)
    counts, pairs = with_neighbours(datasets(3, 3))
    ranks = ranks_of_weights(np.array(counts) * WEIGHT, tiny_grid(3, 2, (False, True)))
    draws = aq_draws(ranks, (0.5, 0.75, 0.99), EPS)
    assert worst_eps(draws, pairs) <= worst_eps(draws, pairs, any_measure=True) <= 1.0


def far_share(rows, probabilities, eps, bounds=UNBOUNDED, n_releases=200):
    """The share of released values that are more than a range outside of the data."""
    columns = [Column(probabilities, bounds)] * n_releases
    plan = plan_quantiles(Request(columns=columns, budget=TotalBudget(n_releases * eps, 0.0, None)))
    paid = pay(plan, None, make_randomness(0), what="a test", columns=n_releases, detail="")
    values = np.array(release(paid, MemorySource(np.tile(rows[:, None], n_releases))).values)
    spread = np.ptp(rows)
    return np.mean((values < rows.min() - spread) | (values > rows.max() + spread))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("q", "most"), [(0.99, 0.01), (0.995, 0.03)])
def test_extreme_quantiles_stay_near_the_data(q, most, sign, rng):
    """Without known scales, half of these quantiles were far away."""
    rows = sign * rng.exponential(size=1000)
    q = q if sign > 0 else 1 - q
    bounds = (0.0, np.inf) if sign > 0 else (-np.inf, 0.0)
    assert far_share(rows, (q,), 1.0, bounds) <= most


def test_percentiles_of_few_rows_stay_near_the_data(rng):
    rows = rng.normal(50, 8, size=400)
    assert far_share(rows, (0.05, 0.25, 0.5, 0.75, 0.95), eps=0.3) <= 0.03


def test_inside_out_changes_no_tree_without_extreme_quantiles():
    known = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert inside_out((2, 3), 0, 5, known) == (2, 3)
    assert inside_out((1,), 0, 3, known) == (1,)
