"""Budgets and their arithmetic: known values, laws, and never on the optimistic side."""

import math

import numpy as np
import pytest
from dpq_sklearn.accounting.MISSING import budgets_for, exponential_cost, feature_shares
from hypothesis import given
from hypothesis import strategies as st

from dpq_sklearn import PrivacyLoss
from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.accounting.conversions import eps_of_zcdp, rho_of_approximate_dp
from dpq_sklearn.accounting.losses import compose

amounts = st.floats(1e-6, 1e6)
deltas = st.floats(1e-15, 0.5)


def test_known_conversion():
    assert rho_of_approximate_dp(1.0, 1e-6) == pytest.approx(0.02436, abs=5e-6)


@given(amounts, deltas)
def test_conversion_is_never_optimistic_against_a_brute_force_minimum(eps, delta):
    """Every order is valid, so no rho may exceed the best one of a dense grid of orders."""
    a = 1 + np.exp(np.linspace(-14, 30, 20_001))
    term = (a * np.log1p(-1 / a) - np.log(a - 1) - math.log(delta)) / (a - 1)
    best_rho = np.max((eps - term) / a)
    rho = rho_of_approximate_dp(eps, delta)
    assert rho <= best_rho * (1 + 1e-4)  # the grid of orders is a little coarse
    assert rho >= best_rho * (1 - 1e-6)
    assert eps_of_zcdp(rho, delta) <= eps * (1 + 1e-9)


@given(amounts, amounts, deltas)
def test_conversion_is_monotone(eps, other, delta):
    low, high = sorted((eps, other))
    assert rho_of_approximate_dp(low, delta) <= rho_of_approximate_dp(high, delta) * (1 + 1e-9)
    assert eps_of_zcdp(low, delta) <= eps_of_zcdp(high, delta) * (1 + 1e-9)


def test_conversion_beats_the_textbook():
    for eps, delta in [(0.1, 1e-6), (1.0, 1e-6), (5.0, 1e-9)]:
        log_term = math.log(1 / delta)
        textbook = (math.sqrt(log_term + eps) - math.sqrt(log_term)) ** 2
        assert rho_of_approximate_dp(eps, delta) > textbook


@pytest.mark.parametrize(
    ("eps", "delta", "rho", "match"),
    [
        (0, 0, None, "eps must be"),
        (-1.0, 0, None, "eps must be"),
        (math.nan, 0, None, "eps must be"),
        (math.inf, 0, None, "eps must be"),
        (True, 0, None, "eps must be"),
        ("1", 0, None, "eps must be"),
        (1 + 0j, 0, None, "eps must be"),
        (None, 0, None, "one of eps and rho"),
        (1.0, 0, 0.5, "rho excludes eps"),
        (None, 1e-6, 0.5, "rho excludes eps"),
        (None, 0, 0.0, "rho must be"),
        (None, 0, math.nan, "rho must be"),
        (None, 0, False, "rho must be"),
        (1.0, 1.0, None, "delta must be"),
        (1.0, -1e-9, None, "delta must be"),
        (1.0, math.nan, None, "delta must be"),
        (1.0, "0", None, "delta must be"),
        (1.0, None, None, "delta must be"),
        (1.0, False, None, "delta must be"),
    ],
)
def test_impossible_budgets_raise(eps, delta, rho, match):
    with pytest.raises(ValueError, match=match):
        budgets_for(eps, delta, rho)


def test_numpy_numbers_are_numbers():
    assert budgets_for(np.float32(0.5), np.float64(0.0), None) == (Budget(0.5, "eps"),)
    assert budgets_for(np.int64(2), 0, None) == (Budget(2.0, "eps"),)


def test_approximate_dp_offers_both_kinds():
    pure, concentrated = budgets_for(1.0, 1e-6, None)
    assert pure == Budget(1.0, "eps")
    assert concentrated.unit == "rho"


@given(st.lists(st.floats(1e-2, 1e2), min_size=1, max_size=50), st.floats(1e-3, 1e6))
def test_shares_of_features_sum_to_at_most_the_budget(weights, eps):
    shares = feature_shares(len(weights), weights)
    parts = [Budget(eps, "eps").part(share).before_rounding(1).amount for share in shares]
    assert math.fsum(parts) <= eps


@given(st.integers(1, 3000), st.floats(1e-3, 1e6))
def test_equal_shares_sum_to_at_most_the_budget(n, eps):
    parts = [Budget(eps, "eps").part(s).before_rounding(1).amount for s in feature_shares(n)]
    assert math.fsum(parts) <= eps


@given(amounts, st.integers(1, 1000))
def test_what_an_ideal_mechanism_may_spend_leaves_room_for_rounding(eps, n_draws):
    for unit in ("eps", "rho"):
        budget = Budget(eps, unit)
        ideal = budget.before_rounding(n_draws)
        per_draw = [Budget(ideal.amount / n_draws, unit).exponential_eps()] * n_draws
        assert exponential_cost(per_draw, n_draws)[unit] <= eps
        assert ideal.amount >= 0.98 * eps


def test_too_little_to_be_guaranteed_raises():
    with pytest.raises(ValueError, match=r"eps must be larger for 10000 private numbers: 1e-09"):
        Budget(1e-9, "eps").before_rounding(10_000)


def test_exponential_mechanism_in_zcdp_is_bounded_range():
    assert Budget(0.5, "rho").exponential_eps() == pytest.approx(2.0)  # eps^2 / 8 = rho
    assert exponential_cost([2.0], 1)["rho"] == pytest.approx(0.5, rel=1e-4)


losses = st.builds(PrivacyLoss, eps=st.floats(0, 10), delta=st.floats(0, 0.1), rho=st.floats(0, 10))


@given(st.lists(losses, min_size=1, max_size=8))
def test_composition_adds_up_in_any_order(some):
    total = compose(some)
    assert total == compose(reversed(some))
    assert total.eps == pytest.approx(sum(loss.eps for loss in some))
    assert total.delta == pytest.approx(min(sum(loss.delta for loss in some), 1))
    assert total.rho == pytest.approx(sum(loss.rho for loss in some))


@given(st.lists(losses, min_size=1, max_size=4), st.lists(losses, min_size=1, max_size=4))
def test_composition_of_parts_is_the_composition_of_the_whole(some, more):
    whole, parts = compose(some + more), compose([compose(some), compose(more)])
    assert (whole.eps, whole.delta, whole.rho) == pytest.approx((parts.eps, parts.delta, parts.rho))


def test_one_seeded_part_marks_the_whole():
    seeded = PrivacyLoss(1.0, 0.0, 0.1, os_randomness=False)
    assert not compose([seeded, PrivacyLoss(1.0, 0.0, 0.1)]).os_randomness


def test_eps_at_takes_the_better_account():
    loss = PrivacyLoss(eps=10.0, delta=0.0, rho=0.05)
    assert loss.eps_at(1e-6) < 2.0
    assert loss.eps_at(0.0) == 10.0
    assert PrivacyLoss(eps=1.0, delta=1e-5, rho=math.inf).eps_at(1e-6) == math.inf


@pytest.mark.parametrize(
    "fields", [(-1, 0, 0), (1, 1.0, 0), (1, 0, -1), (math.nan, 0, 0), (1, 0, math.nan)]
)
def test_privacy_loss_checks_itself(fields):
    with pytest.raises(ValueError, match="PrivacyLoss needs"):
        PrivacyLoss(*fields)


def test_privacy_loss_is_frozen():
    with pytest.raises(AttributeError):
        PrivacyLoss(1.0, 0.0, 0.1).eps = 2.0
