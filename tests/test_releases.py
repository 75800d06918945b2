"""Requests and plans: checked where they are made, made of public facts alone."""

import math
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.reading.sources.memory import MemorySource
from dpq_sklearn.releases.plans import PlanChoice, plan_choice, plan_quantiles
from dpq_sklearn.releases.release import pay, release
from dpq_sklearn.releases.request import Column, CountRole, even_probabilities
from tests.planning import plan_of_columns, plan_of_fit, request_of

CANDIDATES = [[even_probabilities(n)] * 2 for n in (2, 4, 8)]


@pytest.mark.parametrize(
    "probabilities",
    [[0.0], [1.0], [0.5, 0.5], [0.5, 0.2], [math.nan], [0.2, math.nan], [-0.1, 0.5], [2.0]],
)
def test_columns_refuse_what_the_proofs_do_not_cover(probabilities):
    with pytest.raises(ValueError, match="ascending, distinct and strictly between 0 and 1"):
        Column(probabilities)


def test_columns_and_requests_are_values():
    assert Column(np.array([0.25, 0.5])) == Column([0.25, 0.5]) == Column((0.25, 0.5))
    one, other = (request_of([[0.5]], eps=eps, weights=[2.0]) for eps in (1.0, 1))
    assert one == other and hash(one) == hash(other)
    assert plan_quantiles(one) is plan_quantiles(other)
    assert one != replace(one, count=CountRole.BESIDE)
    with pytest.raises(FrozenInstanceError):
        one.count = CountRole.BESIDE


def test_requests_check_themselves_also_when_one_is_made_of_another():
    request = request_of([[0.5]])
    with pytest.raises(ValueError, match="mechanism must be one of"):
        replace(request, mechanism_name="laplace")
    with pytest.raises(ValueError, match="eps must be"):
        replace(request, budget=TotalBudget(-1.0))


def test_shares_of_a_request_follow_the_weights():
    request = request_of([[0.5]] * 3, weights=[2.0, 1.0, 1.0])
    assert request.shares == pytest.approx([0.5, 0.25, 0.25])
    assert sum(request.shares) <= 1


@pytest.mark.parametrize("role", [CountRole.NONE, CountRole.BESIDE])
def test_a_choice_takes_only_plans_that_have_paid_for_it(role):
    """With a fixed plan the count is composed with the quantiles, which no choice may follow."""
    plan = plan_of_columns([[0.5]], count=role)
    with pytest.raises(ValueError, match="must leave the choice to the count"):
        PlanChoice((plan,), lambda plans, n_rows: plans[0], plan.loss)


@pytest.mark.parametrize("number", range(3))
def test_a_choice_releases_what_its_rule_says_for_the_released_count(number, rng):
    seen = []

    def rule(plans, n_rows):
        seen.append(n_rows)
        return plans[number]

    requests = [request_of(each, count=CountRole.CHOOSES, eps=50.0) for each in CANDIDATES]
    choice = plan_choice(requests, rule)
    paid = pay(choice, None, make_randomness(3), what="a test")
    released = release(paid, MemorySource(rng.normal(size=(1000, 2))))
    assert seen == [released.n_rows] and abs(released.n_rows - 1000) < 50
    assert released.plan is choice.candidates[number]
    assert [values.size for values in released.values] == [len(CANDIDATES[number][0])] * 2
    assert paid.loss.eps == 50.0 and not paid.loss.os_randomness


def test_the_price_of_a_choice_covers_every_candidate():
    choice = plan_of_fit(CANDIDATES, eps=1.0, delta=1e-6)
    for plan in choice.candidates:
        for kind in ("eps", "delta", "rho", "pure_eps"):
            assert getattr(choice.loss, kind) >= getattr(plan.loss, kind)


def test_candidates_that_floats_cannot_guarantee_are_left_out():
    many = [[tuple(np.arange(1, 20_000) / 20_000)]]
    little = {"eps": 1e-8}
    choice = plan_of_fit([[[0.5]], *many], **little)
    assert len(choice.candidates) == 1
    with pytest.raises(ValueError, match="too small for a guarantee"):
        plan_of_fit(many, **little)


def test_a_plan_without_count_releases_none(rng):
    plan = plan_of_columns([[0.5]], eps=50.0)
    paid = pay(plan, None, make_randomness(None), what="a test")
    released = release(paid, MemorySource(rng.normal(size=(500, 1))))
    assert released.n_rows is None and abs(released.values[0][0]) < 0.5


def test_a_release_that_sums_to_less_than_its_eps_spends_no_delta():
    """zCDP gives columns of small weight more eps, so the sum of all can be below the total."""
    plan = plan_of_columns(
        [(0.5,), (0.5,)],
        eps=0.03,
        delta=1e-9,
        mechanism_name="agg_tree",
        weights=(0.1, 1.0),
    )
    loss = plan.loss
    assert (loss.eps, loss.delta, loss.pure_eps, loss.account) == (0.03, 0.0, 0.03, "sum of eps")
