"""Budgets and their arithmetic: known values, laws, and never on the optimistic side."""

import itertools
import math
import pickle
from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from dpq_sklearn import PrivacyLoss
from dpq_sklearn.accounting.budgets import (
    DRAW_ERROR,
    Budget,
    BudgetTooSmall,
    TotalBudget,
    Unit,
    exponential_cost,
    feature_shares,
)
from dpq_sklearn.accounting.compositions import basic_compositions
from dpq_sklearn.accounting.conversions import (
    eps_of_pure,
    eps_of_zcdp,
    rho_of_approximate_dp,
    rho_of_pure,
)
from dpq_sklearn.accounting.losses import (
    amounts_of,
    compose,
    most_of_each,
    stated_at,
    sum_of_amounts,
)
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.checks import shown
from tests.enumeration import hockey_stick
from tests.mechanism_helpers import spent

amounts = st.floats(1e-6, 1e6)
deltas = st.floats(1e-15, 0.5)


def test_known_conversion():
    assert rho_of_approximate_dp(1.0, 1e-6) == pytest.approx(0.02436, abs=5e-6)


@given(amounts, deltas)
def test_conversion_is_never_optimistic_against_a_brute_force_minimum(eps, delta):
    """Every order gives a valid bound, so compare with the best order of a dense grid."""
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
        TotalBudget(eps, delta, rho)


def test_possible_budgets_are_floats():
    for asked, wanted in [
        ((np.float32(0.5), np.float64(0.0), None), (0.5, 0.0, None)),
        ((np.int64(2), 0, None), (2.0, 0.0, None)),
        ((1, 1e-6, None), (1.0, 1e-6, None)),
        ((None, 0, np.float16(0.5)), (None, 0.0, 0.5)),
    ]:
        found = astuple(TotalBudget(*asked))
        assert found == wanted
        assert list(map(type, found)) == list(map(type, wanted))


def test_numbers_of_numpy_are_shown_as_numbers():
    assert shown(np.int64(-3)) == "-3"
    assert shown(np.float32(0.5)) == "0.5"
    assert shown(np.str_("aq")) == "'aq'"


@pytest.mark.parametrize(
    "fields", [(0.0, "eps"), (-1.0, "rho"), (math.inf, "eps"), (math.nan, "draw"), (1.0, "delta")]
)
def test_budgets_check_themselves(fields):
    with pytest.raises(ValueError, match="a budget is a positive amount"):
        Budget(*fields)


@given(st.lists(st.floats(1e-2, 1e2), min_size=1, max_size=50), st.floats(1e-3, 1e6))
def test_shares_of_features_sum_to_at_most_the_budget(weights, eps):
    shares = feature_shares(weights)
    parts = [Budget(eps, "eps").scaled(share).before_rounding(1).amount for share in shares]
    assert math.fsum(parts) <= eps


def test_a_budget_that_nobody_gives_is_an_eps_of_1():
    assert TotalBudget() == TotalBudget(1.0)
    assert TotalBudget(delta=1e-6) == TotalBudget(1.0, 1e-6)
    assert TotalBudget(rho=0.5).eps is None


@given(st.integers(1, 3000), st.floats(1e-3, 1e6))
def test_equal_shares_sum_to_at_most_the_budget(n, eps):
    parts = [
        Budget(eps, "eps").scaled(s).before_rounding(1).amount for s in feature_shares(np.ones(n))
    ]
    assert math.fsum(parts) <= eps


@given(amounts, st.integers(1, 1000))
def test_what_an_ideal_mechanism_may_spend_leaves_enough_for_rounding(amount, n_draws):
    for unit in ("eps", "rho", "draw"):
        budget = Budget(amount, unit)
        ideal = budget.before_rounding(n_draws)
        per_draw = [ideal.scaled(1 / n_draws).exponential_eps()] * n_draws
        assert spent(exponential_cost(per_draw, n_draws), budget) <= amount
        assert ideal.amount >= 0.98 * amount


def cost_with_errors(eps_of_draws, error):
    """The cost of draws whose log probabilities are wrong by `error`: four times in the range."""
    with_errors = [eps + 4 * error for eps in eps_of_draws]
    return math.fsum(with_errors), math.fsum(eps**2 for eps in with_errors) / 8


@given(
    st.lists(st.floats(1e-4, 10.0), min_size=1, max_size=20),
    st.integers(0, 20),
    st.floats(-45, -10).map(lambda bits: 2.0**bits),
)
def test_costs_are_those_of_draws_with_rounding_errors(eps_of_draws, n_more, error):
    """This includes draws in which a record has no weight, because they have errors as well."""
    cost = exponential_cost(eps_of_draws, len(eps_of_draws) + n_more, error)
    eps, rho = cost_with_errors(eps_of_draws + [0.0] * n_more, error)
    assert eps <= cost.eps <= eps * (1 + 1e-4)
    assert rho <= cost.rho


@given(amounts, st.integers(1, 200), st.floats(-45, -12).map(lambda bits: 2.0**bits))
def test_what_is_left_of_a_budget_spends_it_with_rounding_errors(amount, n_draws, error):
    """Check one draw with a large error, and many draws with a small error."""
    for unit in ("eps", "rho"):
        budget = Budget(amount, unit)
        try:
            ideal = budget.before_rounding(n_draws, error)
        except ValueError:  # refused: rounding could cost about half of it
            per_draw = [budget.scaled(1 / n_draws).exponential_eps()] * n_draws
            assert spent_with_errors(per_draw, error, unit) > 1.2 * amount
            continue
        per_draw = [ideal.scaled(1 / n_draws).exponential_eps()] * n_draws
        assert spent_with_errors(per_draw, error, unit) <= amount


def spent_with_errors(eps_of_draws, error, unit):
    return cost_with_errors(eps_of_draws, error)[unit == "rho"]


def test_one_draw_of_a_large_error_costs_more_than_many_of_a_small_one():
    """100 k sqrt(8 rho) + 2 (100 k)^2 for one draw, but 10 k sqrt(8 rho) + 2 * 100 k^2 for 100."""
    rho, k = 1e-6, 1e-6
    one = rho - Budget(rho, "rho").before_rounding(1, 100 * k).amount
    many = rho - Budget(rho, "rho").before_rounding(100, k).amount
    reserve = rho * 2.0**-16
    assert one - reserve == pytest.approx(100 * k * math.sqrt(8 * rho) + 2 * (100 * k) ** 2)
    assert many - reserve == pytest.approx(10 * k * math.sqrt(8 * rho) + 2 * 100 * k**2)


def test_too_little_to_be_guaranteed_raises():
    with pytest.raises(ValueError, match=r"eps must be larger .* 1e-09 per feature is too small"):
        Budget(1e-9, "eps").before_rounding(10_000)
    with pytest.raises(ValueError, match="rho must be larger"):
        Budget(1e-6, "rho").before_rounding(1, 1e-3)
    with pytest.raises(ValueError, match=r"^eps must be larger .* 1e-09 per draw is too small"):
        Budget(1e-9, "draw").before_rounding(10_000)


def test_an_exponential_mechanism_is_bounded_range():
    assert Budget(0.5, "rho").exponential_eps() == pytest.approx(2.0)  # eps^2 / 8 = rho
    assert exponential_cost([2.0], 1).rho == pytest.approx(0.5, rel=1e-4)
    assert Budget(0.5, "draw").exponential_eps() == Budget(0.5, "eps").exponential_eps() == 0.5
    assert exponential_cost([2.0], 1).eps - 2.0 >= 4 * DRAW_ERROR


@given(amounts)
def test_any_pure_release_has_a_rho(eps):
    assert rho_of_pure(eps) == pytest.approx(eps**2 / 2)
    assert eps_of_pure(rho_of_pure(eps)) == pytest.approx(eps)


losses = st.builds(
    PrivacyLoss,
    eps=st.floats(0, 10),
    delta=st.floats(0, 0.1),
    rho=st.floats(0, 10),
    pure_eps=st.one_of(st.none(), st.floats(10, 20)),
)


def numbers_of(loss):
    return loss.eps, loss.delta, loss.rho, loss.pure_eps


@given(st.lists(losses, min_size=1, max_size=8))
def test_composition_adds_up_in_any_order(releases):
    total = compose(releases)
    assert total == compose(reversed(releases))
    assert total.eps == pytest.approx(sum(loss.eps for loss in releases))
    assert total.delta == pytest.approx(min(sum(loss.delta for loss in releases), 1))
    assert total.rho == pytest.approx(sum(loss.rho for loss in releases))
    assert total.pure_eps == pytest.approx(sum(loss.pure_eps for loss in releases))


@given(st.lists(losses, min_size=1, max_size=4), st.lists(losses, min_size=1, max_size=4))
def test_composition_of_parts_is_the_composition_of_all(some, more):
    together, parts = compose(some + more), compose([compose(some), compose(more)])
    assert numbers_of(together) == pytest.approx(numbers_of(parts))


@given(st.lists(losses, min_size=1, max_size=4))
def test_the_largest_cost_of_each_kind_covers_every_release(releases):
    most = numbers_of(most_of_each(releases))
    assert most == tuple(map(max, zip(*map(numbers_of, releases), strict=True)))


def test_the_largest_cost_is_named_after_the_release_with_the_most_delta():
    pure, other = PrivacyLoss(2.0, 0.0, 0.1), PrivacyLoss(1.0, 1e-6, 0.2, account="zCDP")
    most = most_of_each([pure, replace(other, neighbours=Neighbours.PEOPLE)])
    assert (most.account, most.neighbours) == ("zCDP", Neighbours.PEOPLE)


def test_one_seeded_part_marks_the_sum():
    seeded = PrivacyLoss(1.0, 0.0, 0.1, os_randomness=False)
    assert not compose([seeded, PrivacyLoss(1.0, 0.0, 0.1)]).os_randomness


def test_pure_eps_is_eps_unless_there_is_a_delta():
    assert PrivacyLoss(1.0, 0.0, 0.1).pure_eps == 1.0
    assert PrivacyLoss(1.0, 1e-6, 0.1).pure_eps == math.inf
    assert PrivacyLoss(1.0, 1e-6, 0.1, pure_eps=1.5).pure_eps == 1.5


def test_a_sum_names_each_mechanism_once():
    one, other = (PrivacyLoss(1.0, 0.0, 0.1, mechanism=name) for name in ("aq", "agg_tree"))
    assert (one + other + one).mechanism == "aq, agg_tree"


def test_eps_at_takes_the_best_account():
    loss = PrivacyLoss(eps=10.0, delta=0.0, rho=0.05)
    assert loss.eps_at(1e-6) < 2.0
    assert loss.eps_at(0.0) == 10.0
    assert PrivacyLoss(eps=1.0, delta=1e-5, rho=math.inf).eps_at(1e-6) == math.inf
    composed = PrivacyLoss(eps=1.0, delta=1e-5, rho=0.2, pure_eps=1.3)
    assert composed.eps_at(0.0) == composed.eps_at(1e-6) == 1.3
    assert composed.eps_at(1e-5) == 1.0


@given(st.lists(losses, min_size=1, max_size=8), deltas)
def test_knowing_the_pure_eps_of_releases_never_makes_them_cost_more(releases, delta):
    unknown = [PrivacyLoss(loss.eps, loss.delta, loss.rho) for loss in releases]
    known, before = stated(releases, delta), stated(unknown, delta)
    assert known.eps <= before.eps
    if known.eps < math.inf:
        assert known.delta <= delta * (1 + 1e-9)


def test_a_sum_of_pure_eps_counts_also_for_releases_with_a_delta():
    release = PrivacyLoss(eps=1.0, delta=1e-6, rho=0.15, pure_eps=1.2)
    total = stated([release, release], 1e-9)
    assert (total.eps, total.delta) == (2.4, 0.0)
    assert stated([release] * 40, 1e-9).delta == 5e-10  # rho is better for many


def stated(releases, delta):
    return stated_at(sum_of_amounts(map(amounts_of, releases)), delta)


def two_points(eps, t):
    """A pair of neighbours under an exponential mechanism: log(P/Q) is t or t - eps."""
    p = (math.exp(-t) - math.exp(-eps)) / (1 - math.exp(-eps))  # of the first outcome, under Q
    return {0: p * math.exp(t), 1: 1 - p * math.exp(t)}, {0: p, 1: 1 - p}


def product(distributions):
    return {
        outcome: math.prod(part[index] for part, index in zip(distributions, outcome, strict=True))
        for outcome in itertools.product(*distributions)
    }


@given(
    st.lists(st.tuples(st.floats(0.05, 2.0), st.floats(0.02, 0.98)), min_size=1, max_size=8),
    st.floats(1e-8, 0.1),
)
def test_composition_never_claims_less_than_the_truth(draws, delta):
    """Against the exact hockey-stick divergence of releases that are one draw each."""
    releases = [PrivacyLoss(eps, 0.0, eps**2 / 8) for eps, _ in draws]
    total = stated(releases, delta)
    ones, others = zip(*(two_points(eps, share * eps) for eps, share in draws), strict=True)
    assert hockey_stick(product(ones), product(others), total.eps) <= total.delta + 1e-12
    assert hockey_stick(product(others), product(ones), total.eps) <= total.delta + 1e-12


def worst_approximate(eps, delta):
    """The worst pair of neighbours of an (eps, delta)-DP release (Kairouz, Oh, Viswanath)."""
    high, low = math.exp(eps) / (1 + math.exp(eps)), 1 / (1 + math.exp(eps))
    rest = 1 - delta
    return (
        {"this": delta, 0: rest * high, 1: rest * low, "other": 0.0},
        {"this": 0.0, 0: rest * low, 1: rest * high, "other": delta},
    )


@given(
    st.lists(st.tuples(st.floats(0.05, 2.0), st.floats(0.02, 0.98)), max_size=5),
    st.lists(st.tuples(st.floats(0.05, 2.0), st.floats(1e-6, 0.1)), min_size=1, max_size=3),
    st.floats(1e-3, 0.3),
)
@settings(deadline=None)
def test_composition_with_releases_without_rho_never_claims_less_than_the_truth(
    draws, approximate, delta
):
    """Against the exact hockey-stick divergence of draws and of the worst (eps, delta) pairs."""
    releases = [PrivacyLoss(eps, 0.0, eps**2 / 8) for eps, _ in draws]
    releases += [PrivacyLoss(eps, own, math.inf) for eps, own in approximate]
    total = stated(releases, delta)

    pairs = [two_points(eps, share * eps) for eps, share in draws]
    pairs += [worst_approximate(*each) for each in approximate]
    ones, others = zip(*pairs, strict=True)
    if total.eps < math.inf:
        assert hockey_stick(product(ones), product(others), total.eps) <= total.delta + 1e-12
        assert total.delta <= delta * (1 + 1e-9)


def worst_delta_of_choices(eps, *, rho, failure, n_draws):
    """The exact delta at `eps` of a history in which outcomes choose the kind of releases.

    First come `n_draws` draws that use half of `rho`. If their loss is large, draws follow that use
    the other half. If it is small, a release follows that fails with probability `failure`.
    """
    step = math.sqrt(8 * rho / (2 * n_draws))
    one, other = two_points(step, step / 2)
    up, down = one[0], one[1]

    def delta_after(loss, n):
        """The hockey-stick divergence of n more draws, given the loss so far."""
        n_up = np.arange(n + 1)
        log_p = binom.logpmf(n_up, n, up)
        losses = loss + n_up * math.log(up / other[0]) + (n - n_up) * math.log(down / other[1])
        return float(np.sum(np.exp(log_p) * np.maximum(-np.expm1(eps - losses), 0)))

    n_up = np.arange(n_draws + 1)
    log_p = binom.logpmf(n_up, n_draws, up)
    first = n_up * math.log(up / other[0]) + (n_draws - n_up) * math.log(down / other[1])
    return sum(
        math.exp(log_p[k])
        * max(
            delta_after(loss, n_draws),
            failure + (1 - failure) * max(-math.expm1(eps - loss), 0),
        )
        for k, loss in enumerate(first)
    )


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_outcomes_that_choose_the_kind_of_releases_gain_nothing(delta):
    """A ledger whose halves were not fixed would spend its delta twice."""
    eps = 1.0
    half = delta / 2
    fixed = worst_delta_of_choices(
        eps, rho=rho_of_approximate_dp(eps, half), failure=half, n_draws=200
    )
    assert fixed <= delta

    # Either all of delta for the draws, or all of it for the release that can fail.
    whole = rho_of_approximate_dp(eps, delta)
    chosen = worst_delta_of_choices(eps, rho=whole, failure=delta, n_draws=200)
    assert chosen > delta


def test_the_truth_betrays_claims_that_are_too_small():
    """Claims of 10% less pure eps for one draw, or of a third of the rho for ten, are rejected."""
    one, other = two_points(1.0, 0.97)
    assert hockey_stick(one, other, 1.0) == 0 < hockey_stick(one, other, 0.9)
    ones, others = zip(*[two_points(0.5, 0.25)] * 10, strict=True)
    at_a_third = eps_of_zcdp(10 * 0.5**2 / 8 / 3, 0.01)
    assert hockey_stick(product(ones), product(others), at_a_third) > 0.01


@pytest.mark.parametrize(
    "fields", [(-1, 0, 0), (1, 1.0, 0), (1, 0, -1), (math.nan, 0, 0), (1, 0, math.nan)]
)
def test_privacy_loss_checks_itself(fields):
    with pytest.raises(ValueError, match="PrivacyLoss needs"):
        PrivacyLoss(*fields)


def test_privacy_loss_names_its_neighbours():
    assert PrivacyLoss(1.0, 0.0, 0.1).neighbours == Neighbours.ROWS
    assert PrivacyLoss(1.0, 0.0, 0.1, neighbours=Neighbours.PEOPLE).neighbours == Neighbours.PEOPLE
    assert PrivacyLoss(1.0, 0.0, 0.1, neighbours="people").neighbours is Neighbours.PEOPLE
    with pytest.raises(ValueError, match="neighbours must be"):
        PrivacyLoss(1.0, 0.0, 0.1, neighbours="row")


@pytest.mark.parametrize("kind", Neighbours)
def test_neighbours_are_known_by_their_value_and_by_their_words(kind):
    loss = PrivacyLoss(1.0, 0.0, 0.1, neighbours=str(kind))
    assert loss.neighbours is kind
    assert str(kind) == f"{kind}" == kind.in_words != kind.value
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert eval(repr(loss)) == loss


def test_pickles_of_losses_name_no_inner_module():
    assert b"accounting" not in pickle.dumps(PrivacyLoss(1.0, 0.0, 0.1))


def test_a_budget_that_is_too_small_has_an_exception_of_its_own():
    with pytest.raises(BudgetTooSmall, match="eps must be larger for 1000 private numbers"):
        Budget(1e-9, "eps").before_rounding(1000)


@pytest.mark.parametrize("unit", Unit)
def test_units_are_known_by_their_values(unit):
    assert Budget(1.0, unit.value).unit is unit
    assert str(unit) == f"{unit}" == unit.value


def test_privacy_loss_is_frozen():
    with pytest.raises(AttributeError):
        PrivacyLoss(1.0, 0.0, 0.1).eps = 2.0


@pytest.mark.parametrize("delta", [1e-6, 1e-2])
def test_a_count_beside_the_columns_leaves_them_less_rho(delta):
    """The columns and the count together cost at most (eps, delta)."""
    total = TotalBudget(1.0, delta)
    count = Budget(0.125, "eps")
    rho = rho_of_approximate_dp(1.0, delta)
    (_, beside) = basic_compositions(total, (0.5, 0.5), count)
    spent = math.fsum(budget.amount for budget in beside.budgets)
    assert spent + rho_of_pure(0.125) <= rho * (1 + 1e-12)
    assert spent > 0.9 * (rho - rho_of_pure(0.125))

    (_, apart) = basic_compositions(total, (0.5, 0.5), count, count_is_apart=True)
    spent = math.fsum(budget.amount for budget in apart.budgets)
    assert spent <= rho_of_approximate_dp(0.875, delta) * (1 + 1e-12)
