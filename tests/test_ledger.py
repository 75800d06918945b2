"""The ledger counts right: totals, caps, refusals, and what a record holds."""

import contextlib
import copy
import json
import math
import os
import pathlib
import pickle
import sys
import threading
import time
import traceback
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpq_sklearn import dp_count
from dpq_sklearn.accounting.conversions import eps_of_zcdp, rho_of_approximate_dp
from dpq_sklearn.accounting.losses import (
    PrivacyLoss,
    amounts_of,
    compose,
    stated_at,
    sum_of_amounts,
)
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.ledger.access import BudgetExceededError
from dpq_sklearn.ledger.contents import (
    Caps,
    LedgerError,
    Row,
    Summary,
    Totals,
    new_row,
    new_summary,
)
from dpq_sklearn.ledger.ledger import PrivacyLedger, charge, opened
from dpq_sklearn.ledger.views import BudgetLeft, budget_left, spent_of_caps


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "budget.sqlite")


def pure(eps):
    """The loss of one exponential mechanism."""
    return PrivacyLoss(eps=eps, delta=0.0, rho=eps**2 / 8)


# The one rule of composition


def stated(releases, delta):
    return stated_at(sum_of_amounts(map(amounts_of, releases)), delta)


def test_the_total_of_few_pure_releases_is_their_sum():
    total = stated([pure(0.5), pure(0.25)], delta=1e-6)
    assert (total.eps, total.delta) == (0.75, 0.0)


def test_the_total_of_many_releases_is_their_rho_converted_at_half_of_delta():
    total = stated([pure(0.1)] * 400, delta=1e-6)
    assert total.rho == pytest.approx(400 * 0.1**2 / 8)
    assert total.eps == eps_of_zcdp(total.rho, 5e-7) < 40.0
    assert (total.delta, total.account) == (5e-7, "zCDP")


def test_an_uncapped_ledger_adds_up_eps_and_delta():
    ledger = PrivacyLedger()
    releases = [pure(1.0), PrivacyLoss(1.0, 1e-7, 0.02), ONLY_APPROXIMATE]
    for loss in releases:
        ledger.spend(loss, what="a release")
    assert (ledger.spent().eps, ledger.spent().delta) == (2.5, 5e-7)
    assert ledger.spent() == compose(releases)


def test_releases_with_a_delta_and_a_rho_count_by_their_rho_alone():
    """Their eps may not be added up: the other half of the delta is for releases without rho."""
    known = [PrivacyLoss(0.5, 1e-7, 0.005)] * 2
    assert stated(known, delta=1e-6).eps == eps_of_zcdp(0.01, 5e-7)
    assert stated(known, delta=0.0).eps == math.inf


ONLY_APPROXIMATE = PrivacyLoss(0.5, 4e-7, math.inf)


def test_a_release_with_neither_rho_nor_pure_eps_counts_as_pure_up_to_its_delta():
    total = stated([ONLY_APPROXIMATE, pure(0.25)], 1e-6)
    assert (total.eps, total.delta) == (0.75, 4e-7)
    assert total.rho == total.pure_eps == math.inf  # there is no pure eps, and no zCDP

    many = stated([ONLY_APPROXIMATE] + [pure(0.05)] * 1_000, 1e-6)
    assert many.eps == pytest.approx(eps_of_zcdp(0.5**2 / 2 + 1_000 * 0.05**2 / 8, 5e-7))
    assert many.delta == pytest.approx(9e-7)


def test_deltas_of_releases_without_rho_add_up_to_half_of_the_delta_at_most():
    assert stated([ONLY_APPROXIMATE], 8e-7).eps == 0.5
    assert stated([ONLY_APPROXIMATE], 7.9e-7).eps == math.inf
    assert stated([ONLY_APPROXIMATE] * 2, 1e-6).eps == math.inf
    assert stated([ONLY_APPROXIMATE], 0.0).eps == math.inf


@pytest.mark.parametrize("first", [pure(0.1), ONLY_APPROXIMATE])
def test_a_ledger_takes_releases_with_and_without_rho_in_any_order(path, first):
    ledger = PrivacyLedger(path, eps=2.0, delta=2e-6)
    for loss in (first, ONLY_APPROXIMATE, pure(0.25), PrivacyLoss(0.1, 1e-7, 0.001, pure_eps=0.2)):
        ledger.spend(loss, what="a release")
    assert ledger.spent().eps == pytest.approx(first.eps + 0.95)
    assert ledger.remaining().eps == pytest.approx(2.0 - ledger.spent().eps)
    assert "delta (half of the ledger's) spent in 4 releases" in repr(ledger)
    reopened = PrivacyLedger(path)
    assert reopened.spent() == ledger.spent()
    assert reopened.records()[1].eps_in_ledger == 0.5


def test_a_release_without_rho_is_refused_once_half_of_the_delta_is_spent(path):
    ledger = PrivacyLedger(path, eps=9.0, delta=1e-6)
    ledger.spend(ONLY_APPROXIMATE, what="categories")
    with pytest.raises(BudgetExceededError, match=r"1e-07 of it is left, and .* needs 4e-07"):
        ledger.spend(ONLY_APPROXIMATE, what="categories")
    assert ledger.check(pure(8.0)) and len(ledger.records()) == 1


def test_a_cap_on_rho_needs_a_delta_for_releases_without_rho(path):
    with pytest.raises(BudgetExceededError, match="half of the ledger's delta"):
        PrivacyLedger(path, rho=10.0).spend(ONLY_APPROXIMATE, what="categories")
    with pytest.raises(BudgetExceededError, match="Create the ledger with a delta"):
        PrivacyLedger(eps=10.0).spend(ONLY_APPROXIMATE, what="categories")
    ledger = PrivacyLedger(delta=1e-6, rho=0.2)
    ledger.spend(ONLY_APPROXIMATE, what="categories")
    assert ledger.remaining().rho == pytest.approx(0.2 - 0.5**2 / 2)
    assert not ledger.check(PrivacyLoss(0.1, 4e-7, math.inf))


def test_nothing_is_left_if_half_of_the_delta_does_not_cover_the_failures():
    # Ledgers of an earlier version allowed failures up to the whole delta.
    rows = [Row(1, 0.5, 8e-7, math.inf, math.inf, 1, "{}")]
    for caps in (Caps(2.0, 1e-6, None), Caps(None, 1e-6, 2.0), Caps(2.0, 0.0, None)):
        left = budget_left(Summary("id", "now", "rows", caps, Totals.of(rows)))
        assert left.eps == 0.0 and not left.rho


@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_a_release_with_an_enormous_eps_is_recorded_by_an_uncapped_ledger_only(delta):
    enormous = PrivacyLoss(1e200, delta, math.inf)
    assert not PrivacyLedger(eps=1.0, delta=0.5).check(enormous)
    ledger = PrivacyLedger(uncapped=True)
    ledger.spend(enormous, what="nearly everything")
    assert ledger.spent().eps == 1e200


def test_a_ledger_with_the_smallest_delta_counts_pure_eps():
    smallest = math.ulp(0.0)  # half of it is rounded to 0
    ledger = PrivacyLedger(eps=1.0, delta=smallest)
    assert ledger.remaining() == (1.0, 0.0)
    dp_count(np.zeros(10), eps=1.0, delta=smallest, ledger=ledger)
    assert ledger.spent().eps == 1.0


def test_a_cap_on_eps_that_another_tool_stored_without_a_delta_has_none():
    summary = new_summary(Caps(2.0, None, None), Neighbours.ROWS)
    assert spent_of_caps(summary, [ONLY_APPROXIMATE]) == [("eps", math.inf, 2.0)]
    assert spent_of_caps(summary, [pure(0.5)]) == [("eps", 0.5, 2.0)]
    assert budget_left(summary) == (2.0, None)


def test_known_pure_eps_of_releases_with_a_delta_counts():
    """What they cost without a delta is one of the bounds, whatever they were asked for."""
    known = [PrivacyLoss(0.5, 1e-7, 10.0, pure_eps=0.75)] * 2
    for delta in (0.0, 1e-9, 1e-6):
        total = stated(known, delta)
        assert (total.eps, total.delta) == (1.5, 0.0)


# A release whose eps and delta were found by a better account than its rho alone allows.
OPTIMAL = PrivacyLoss(1.0, 1e-6, 1.3 * rho_of_approximate_dp(1.0, 1e-6), pure_eps=4.0)


@given(
    st.lists(st.floats(1e-3, 2.0), max_size=30),
    st.sampled_from([0.0, 1e-9, 1e-6, 1e-2]),
    st.floats(0.1, 5.0),
)
@settings(max_examples=100, deadline=None)
def test_total_never_falls_with_one_more_release(epsilons, delta, more):
    before = [pure(eps) for eps in epsilons]
    after = stated([*before, pure(more)], delta)
    slack = 1e-9  # of the numerical minimum over the order
    assert after.eps >= stated(before, delta).eps * (1 - slack)


@pytest.mark.parametrize(
    "amounts",
    [
        (0.0, 1e-12, 0.0, -1.0),
        (1.0, 1e-6, 0.1, math.nan),
        (1.0, 1e-6, 0.1, 0.5),
        (1.0, 0.0, 0.1, 0.5),
        (math.nan, 0.0, 0.1, None),
        (-1.0, 0.0, 0.1, None),
        (1.0, 1.0, 0.1, None),
        (1.0, -0.1, 0.1, None),
        (1.0, 0.0, math.nan, None),
        (1.0, 0.0, -1.0, None),
    ],
)
def test_a_loss_refuses_amounts_that_no_release_has(amounts):
    eps, delta, rho, pure_eps = amounts
    with pytest.raises(ValueError, match="PrivacyLoss needs"):
        PrivacyLoss(eps, delta, rho, pure_eps=pure_eps)


@given(st.lists(st.floats(0.0, 1e300), max_size=20))
@settings(max_examples=200, deadline=None)
def test_running_totals_equal_totals_that_are_computed_at_once(amounts):
    rows = [Row(i, x, 0.0, x / 3, x, 1, "{}") for i, x in enumerate(amounts, 1)]
    running = Totals()
    for row in rows:
        running = running.plus(row)
    assert running == Totals.of(rows)
    assert running.amounts().eps == math.fsum(amounts)
    assert math.fsum((*running.rho, *(-row.rho for row in rows))) == 0.0


def test_totals_beyond_the_largest_float_are_infinite():
    rows = [Row(i, 1e308, 0.0, 1.0, 1e308, 1, "{}") for i in (1, 2)]
    assert Totals.of(rows).amounts().eps == compose(rows).eps == math.inf
    assert Totals.of(rows).plus(rows[0]).amounts().rho == 3.0


@pytest.mark.parametrize("bad", [-1.0, math.nan, None, "much"])
def test_a_row_with_an_impossible_amount_counts_as_infinite(bad):
    rows = [Row(1, 0.5, 0.0, 0.1, 0.5, 1, "{}"), Row(2, 0.5, 0.0, bad, 0.5, 1, "{}")]
    totals = Totals.of(rows)
    assert totals.amounts().eps == totals.amounts().rho == math.inf
    assert (totals.n_releases, totals.n_invalid) == (2, 1)


@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-6, 0.1])
def test_records_count_each_release_as_it_was_charged(delta):
    ledger = PrivacyLedger(eps=1e9, delta=delta)
    draws = np.random.default_rng(0)
    paid = []
    for eps in 10 ** draws.uniform(-6, 2, 50):
        loss = PrivacyLoss(eps, 0.0, eps**2 * draws.uniform(0.01, 0.5))
        paid.append(charge(ledger, loss, what="fit").eps_in_ledger)
    counted = [record.eps_in_ledger for record in ledger.records()]
    np.testing.assert_allclose(counted, paid, rtol=1e-12)


# Caps


def test_spends_until_exactly_the_cap_and_no_further(path):
    ledger = PrivacyLedger(path, eps=1.0)
    for _ in range(10):
        charge(ledger, pure(0.1), what="fit")
    assert ledger.spent().eps == 1.0
    assert ledger.remaining().eps == 0.0
    with pytest.raises(BudgetExceededError):
        charge(ledger, pure(1e-9), what="fit")
    assert len(ledger.records()) == 10


@pytest.mark.parametrize("n", [3, 7, 11, 26, 49])
@pytest.mark.parametrize("cap", [0.3, 1.0, 2.6])
def test_parts_of_a_cap_fit_although_they_are_not_exact_in_binary(path, n, cap):
    ledger = PrivacyLedger(path, eps=cap)
    for _ in range(n):
        charge(ledger, pure(cap / n), what="fit")
    assert ledger.spent().eps == pytest.approx(cap, rel=1e-12)
    assert not ledger.check(cap * 1e-6)


def test_refusal_says_what_is_left_and_changes_nothing(path):
    ledger = PrivacyLedger(path, eps=1.0)
    charge(ledger, pure(0.75), what="DPKBinsDiscretizer.fit")
    before = pathlib.Path(path).read_bytes()
    with pytest.raises(BudgetExceededError) as caught:
        charge(ledger, pure(0.5), what="DPKBinsDiscretizer.fit")
    message = str(caught.value)
    for part in ("DPKBinsDiscretizer.fit", "eps=0.25 is left", "eps=1", repr(path)):
        assert part in message
    assert len(message.splitlines()) == 1
    assert caught.value.asked == pure(0.5)
    assert caught.value.left == BudgetLeft(eps=0.25, rho=None)
    assert pathlib.Path(path).read_bytes() == before


def test_traceback_of_a_refusal_does_not_lead_through_the_file(path):
    with pytest.raises(BudgetExceededError) as caught:
        charge(PrivacyLedger(path, eps=1.0), pure(2.0), what="fit")
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames[1:]] == ["charge"]
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_refusal_survives_pickling(path):
    ledger = PrivacyLedger(path, eps=1.0)
    with pytest.raises(BudgetExceededError) as caught:
        charge(ledger, pure(2.0), what="fit")
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, BudgetExceededError)
    assert str(again) == str(caught.value)
    assert (again.asked, again.left) == (caught.value.asked, caught.value.left)


def test_zcdp_total_counts_where_it_is_smaller():
    ledger = PrivacyLedger(eps=1.0, delta=1e-6)
    assert ledger.remaining().rho == rho_of_approximate_dp(1.0, 5e-7)
    most = math.floor(rho_of_approximate_dp(1.0, 5e-7) / (0.02**2 / 8))
    for _ in range(most):
        charge(ledger, pure(0.02), what="fit")
    assert most * 0.02 > 9.0  # nine times what a sum of eps would have allowed
    assert 0.99 < ledger.spent().eps <= 1.0
    with pytest.raises(BudgetExceededError, match=r"only eps=[\d.]+ \(or rho=[\d.e-]+\) is left"):
        charge(ledger, pure(0.02), what="fit")


def test_release_of_the_whole_eps_and_delta_fits_into_an_equal_cap(path):
    ledger = PrivacyLedger(path, eps=1.0, delta=1e-6)
    charge(ledger, PrivacyLoss(1.0, 1e-6, rho_of_approximate_dp(1.0, 5e-7)), what="fit")
    assert ledger.remaining().eps < 1e-4


def test_release_of_a_better_account_counts_by_its_rho():
    ledger = PrivacyLedger(eps=1.0, delta=1e-6)
    assert not ledger.check(OPTIMAL)
    assert PrivacyLedger(eps=1.2, delta=1e-6).check(OPTIMAL)


def test_record_holds_the_cost_in_every_unit_and_the_account(path):
    ledger = PrivacyLedger(path, eps=5.0, delta=1e-6)
    charge(ledger, replace(OPTIMAL, account="optimal composition"), what="fit")
    charge(ledger, PrivacyLoss(0.1, 1e-6, 1e-6), what="fit")
    one, two = PrivacyLedger(path).records()
    assert (one.eps, one.delta, one.rho) == (OPTIMAL.eps, OPTIMAL.delta, OPTIMAL.rho)
    assert (one.pure_eps, one.account) == (4.0, "optimal composition")
    assert (two.pure_eps, two.account) == (math.inf, "sum of eps")
    assert PrivacyLedger(path).spent().eps == eps_of_zcdp(OPTIMAL.rho + 1e-6, 5e-7)


def test_release_with_a_delta_fits_into_a_pure_budget_by_its_pure_eps_alone():
    ledger = PrivacyLedger(eps=5.0)
    charge(ledger, OPTIMAL, what="fit")
    assert (ledger.spent().eps, ledger.remaining().eps) == (4.0, 1.0)
    with pytest.raises(BudgetExceededError):
        charge(ledger, OPTIMAL, what="fit")


def test_release_with_a_delta_never_fits_into_a_pure_budget(path):
    ledger = PrivacyLedger(path, eps=1.0)
    with pytest.raises(BudgetExceededError, match="delta=0 counts the pure eps"):
        charge(ledger, PrivacyLoss(0.1, 1e-6, 0.001), what="fit")


def test_rho_cap_counts_rho(path):
    ledger = PrivacyLedger(path, rho=0.5)
    charge(ledger, PrivacyLoss(1.0, 0.0, 0.3), what="fit")
    assert ledger.remaining().rho == pytest.approx(0.2)
    assert ledger.check(rho=0.2) and not ledger.check(rho=0.21)
    with pytest.raises(BudgetExceededError, match=r"rho=0\.2 is left"):
        charge(ledger, PrivacyLoss(0.1, 0.0, math.inf), what="fit")


def test_every_cap_must_hold(path):
    ledger = PrivacyLedger(path, eps=1.0, rho=0.01)
    assert not ledger.check(PrivacyLoss(0.5, 0.0, 0.02))
    assert not ledger.check(PrivacyLoss(1.5, 0.0, 0.001))
    assert ledger.check(PrivacyLoss(0.5, 0.0, 0.01))


def test_without_caps_it_only_keeps_a_record(path):
    ledger = PrivacyLedger(path, uncapped=True)
    charge(ledger, pure(1e6), what="fit")
    charge(ledger, PrivacyLoss(1.0, 1e-6, math.inf), what="fit")
    assert ledger.spent() == PrivacyLoss(1e6 + 1.0, 1e-6, math.inf)
    assert ledger.remaining() == BudgetLeft(math.inf, math.inf)
    assert ledger.check(1e9)


@given(
    st.lists(st.floats(1e-3, 0.6), max_size=12),
    st.sampled_from([(1.0, None, None), (2.0, 1e-6, None), (None, None, 0.1), (1.0, 1e-3, 0.05)]),
)
@settings(max_examples=60, deadline=None)
def test_what_remains_fits_and_a_little_more_in_either_unit_does_not(eps, caps):
    ledger = PrivacyLedger(None, *caps)
    for amount in eps:
        if ledger.check(amount):
            ledger.spend(amount, what="release")
    left = ledger.remaining()
    if left.eps > 1e-6:
        assert ledger.check(left.eps) and not ledger.check(left.eps * 1.001)
    if left.rho is None:
        assert not ledger.check(PrivacyLoss(math.inf, 0.0, 1e-9))
    elif left.rho > 1e-9:
        assert ledger.check(rho=left.rho) and not ledger.check(rho=left.rho * 1.001)


@pytest.mark.parametrize(
    ("caps", "left"),
    [
        ({"eps": 1.0}, BudgetLeft(1.0, None)),
        ({"eps": 1.0, "rho": 0.125}, BudgetLeft(0.5, None)),
        ({"rho": 0.125}, BudgetLeft(0.5, 0.125)),
    ],
)
def test_what_remains_has_no_rho_where_only_pure_eps_counts(caps, left):
    ledger = PrivacyLedger(**caps)
    assert ledger.remaining() == left
    assert ledger.check(PrivacyLoss(math.inf, 1e-6, 1e-3)) is (left.rho is not None)


def test_folder_is_no_ledger(tmp_path):
    words = r"must be a file, got a folder: add a name, such as 'budget\.sqlite'"
    with pytest.raises(LedgerError, match=words):
        PrivacyLedger(tmp_path, eps=1.0)
    with pytest.raises(LedgerError, match=words):
        charge(str(tmp_path), pure(0.1), what="fit")


def test_check_spends_nothing(path):
    ledger = PrivacyLedger(path, eps=1.0)
    assert ledger.check(1.0) and ledger.check(eps=0.5, rho=0.01) and not ledger.check(1.1)
    assert not ledger.check(0.5, delta=1e-9)
    assert ledger.records() == []


@pytest.mark.parametrize("bad", [{}, {"eps": 0}, {"eps": math.nan}, {"eps": 1, "delta": 1}])
def test_check_refuses_impossible_costs(path, bad):
    with pytest.raises(ValueError, match=r"eps|delta"):
        PrivacyLedger(path, eps=1.0).check(**bad)


@pytest.mark.parametrize(
    "caps",
    [
        {"eps": 0.0},
        {"eps": -1.0},
        {"eps": math.inf},
        {"eps": "1"},
        {"eps": True},
        {"rho": 0},
        {"rho": math.nan},
        {"eps": 1.0, "delta": 1.0},
        {"eps": 1.0, "delta": -1e-6},
    ],
)
def test_impossible_caps_raise_and_create_no_file(path, caps):
    with pytest.raises(ValueError, match=f"{list(caps)[-1]} must be"):
        PrivacyLedger(path, **caps)
    assert not os.path.exists(path)


# The caps belong to the file


def test_caps_are_those_of_the_file(path):
    PrivacyLedger(path, eps=1.0, delta=1e-6)
    for again in (PrivacyLedger(path), PrivacyLedger(path, eps=1.0, delta=1e-6)):
        assert again.caps == (1.0, 1e-6, None)
    with pytest.raises(BudgetExceededError):
        charge(path, pure(5.0), what="fit")


@pytest.mark.parametrize(
    "other", [{"eps": 2.0}, {"eps": 1.0}, {"rho": 1.0}, {"eps": 1.0, "delta": 1e-5}]
)
def test_other_caps_for_an_existing_file_raise(path, other):
    PrivacyLedger(path, eps=1.0, delta=1e-6)
    with pytest.raises(ValueError, match=r"cannot be changed.*eps=1, delta=1e-06, got"):
        PrivacyLedger(path, **other)


def test_a_cap_cannot_be_put_on_a_record_afterwards(path):
    PrivacyLedger(path, uncapped=True)
    with pytest.raises(ValueError, match="created with no caps"):
        PrivacyLedger(path, eps=1.0)


@pytest.mark.parametrize("options", [{}, {"delta": 1e-6}, {"neighbours": "people"}])
def test_a_path_without_a_ledger_is_not_a_new_ledger_without_caps(path, options):
    with pytest.raises(LedgerError, match=r"there is no privacy ledger.*eps=1.0.*uncapped=True"):
        PrivacyLedger(path, **options)
    assert not os.path.exists(path)
    assert PrivacyLedger(path, **options, uncapped=True).remaining().eps == math.inf


def test_uncapped_is_not_for_a_ledger_with_caps(path):
    with pytest.raises(ValueError, match="must be given without eps and rho, got eps=1, delta=0"):
        PrivacyLedger(path, eps=1.0, uncapped=True)
    assert not os.path.exists(path)
    PrivacyLedger(path, rho=1.0)
    with pytest.raises(ValueError, match="caps of a ledger cannot be changed"):
        PrivacyLedger(path, uncapped=True)


# In memory


def test_ledger_without_a_path_is_in_memory_and_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger(eps=1.0)
    charge(ledger, pure(0.75), what="fit")
    assert ledger.path is None and ledger.caps == (1.0, 0.0, None)
    assert "in memory, for this process only: 0.75 of 1 eps spent" in repr(ledger)
    assert "in memory" in ledger._repr_html_()
    with pytest.raises(BudgetExceededError, match=r"ledger in memory .* eps=0\.25 is left"):
        charge(ledger, pure(0.5), what="fit")
    assert [record.eps for record in ledger.records()] == [0.75]
    assert os.listdir(tmp_path) == []


def test_ledgers_in_memory_are_apart():
    one, other = PrivacyLedger(eps=1.0), PrivacyLedger(eps=1.0)
    charge(one, pure(1.0), what="fit")
    assert other.remaining().eps == 1.0 and one != other


def test_threads_share_a_ledger_in_memory(monkeypatch):
    def slow_release(*arguments):
        time.sleep(0.001)  # let the other threads look at what is left in the meantime
        return new_row(*arguments)

    monkeypatch.setattr("dpq_sklearn.ledger.access.new_row", slow_release)
    ledger = PrivacyLedger(eps=1.0)
    granted = []

    def spend():
        for _ in range(5):
            with contextlib.suppress(BudgetExceededError):
                charge(ledger, pure(0.125), what="fit")
                granted.append(1)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == len(ledger.records()) == 8


# Objects and paths


@pytest.mark.parametrize("make", [str, pathlib.Path, PrivacyLedger])
def test_charge_takes_a_ledger_or_its_path(path, make):
    ledger = PrivacyLedger(path, eps=1.0)
    charge(make(path), pure(0.5), what="fit")
    assert ledger.spent().eps == 0.5


def test_charge_without_a_ledger_only_gives_an_id():
    assert charge(None, pure(1.0), what="fit") == pure(1.0)


def test_plain_path_without_a_ledger_raises_and_creates_nothing(path):
    with pytest.raises(LedgerError, match=r"is missing.*PrivacyLedger\(path"):
        charge(path, pure(1.0), what="fit")
    assert not os.path.exists(path)


@pytest.mark.parametrize("bad", [1, 1.0, b"budget.sqlite", "", ":memory:", "a\0b", object()])
def test_what_is_no_path_raises(bad):
    with pytest.raises(ValueError, match="ledger must"):
        charge(bad, pure(1.0), what="fit")
    with pytest.raises(ValueError, match="path must"):
        PrivacyLedger(bad)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
@pytest.mark.parametrize("in_memory", [False, True])
def test_copies_spend_from_the_same_budget(path, copied, in_memory):
    ledger = PrivacyLedger(None if in_memory else path, eps=1.0).with_note("the copy")
    again = copied(ledger)
    assert again == ledger and hash(again) == hash(ledger)
    charge(again, pure(0.75), what="fit")
    assert ledger.remaining().eps == 0.25
    assert ledger.records()[0].note == "the copy"
    with pytest.raises(BudgetExceededError):
        charge(ledger, pure(0.75), what="fit")


@pytest.mark.parametrize("in_memory", [False, True])
def test_pickle_does_not_change_when_something_is_spent(path, in_memory):
    """Otherwise a cache with the pickled estimator as its key would miss, and spend again."""
    ledger = PrivacyLedger(None if in_memory else path, eps=1.0)
    before = pickle.dumps(ledger)
    charge(ledger, pure(0.5), what="fit")
    assert pickle.dumps(ledger) == before


def test_relative_path_keeps_its_place_when_the_working_directory_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger("budget.sqlite", eps=1.0)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    charge(ledger, pure(0.5), what="fit")
    assert ledger.path == str(tmp_path / "budget.sqlite")
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("make", [str, pathlib.Path])
def test_relative_path_without_an_object_is_refused(tmp_path, monkeypatch, make):
    """It would mean another file after a change of the working directory."""
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger("budget.sqlite", eps=1.0)
    with pytest.raises(ValueError, match=r"absolute path.*PrivacyLedger\('budget.sqlite'\)"):
        charge(make("budget.sqlite"), pure(0.5), what="fit")
    assert ledger.records() == []


def test_objects_are_equal_if_they_spend_from_the_same_budget(path):
    ledger = PrivacyLedger(path, eps=1.0)
    assert ledger == PrivacyLedger(path) == ledger.with_note("a note")
    assert opened(ledger) == opened(path)
    assert len({ledger, PrivacyLedger(path), PrivacyLedger(path + "2", uncapped=True)}) == 2


@pytest.mark.parametrize(
    "name", ["a b.sqlite", "100%25.sqlite", "q?mode=ro.sqlite", "#.db", "é.db"]
)
def test_any_file_name_works(tmp_path, name):
    ledger = PrivacyLedger(tmp_path / name, eps=1.0)
    charge(str(tmp_path / name), pure(0.5), what="fit")
    assert ledger.spent().eps == 0.5
    assert sorted(os.listdir(tmp_path)) == [name, f"{name}-lock"]


# Rows and people


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize(
    ("word", "own", "other"),
    [("rows", Neighbours.ROWS, Neighbours.PEOPLE), ("people", Neighbours.PEOPLE, Neighbours.ROWS)],
)
def test_rows_and_people_do_not_add_up_under_one_cap(path, in_memory, word, own, other):
    ledger = PrivacyLedger(None if in_memory else path, eps=1.0, neighbours=word)
    charge(ledger, replace(pure(0.25), neighbours=own), what="fit")
    for attempt in (
        lambda: charge(ledger, replace(pure(0.25), neighbours=other), what="fit"),
        lambda: ledger.check(replace(pure(0.25), neighbours=other)),
        lambda: ledger.spend(replace(pure(0.25), neighbours=other), what="fit"),
    ):
        with pytest.raises(ValueError, match="use one ledger") as caught:
            attempt()
        assert own in str(caught.value) and other in str(caught.value)
    assert len(ledger.records()) == 1
    assert ledger.neighbours == ledger.spent().neighbours == own


def test_refusal_of_a_release_about_people_says_people():
    ledger = PrivacyLedger(eps=1.0, neighbours="people")
    with pytest.raises(BudgetExceededError) as caught:
        ledger.spend(2.0, what="a histogram")
    assert caught.value.asked.neighbours is Neighbours.PEOPLE


def test_new_ledger_counts_rows_and_keeps_what_it_was_made_for(path):
    assert PrivacyLedger(path, eps=1.0).neighbours == Neighbours.ROWS
    PrivacyLedger(path, eps=1.0, neighbours="rows")
    with pytest.raises(ValueError, match="neighbours that differ by"):
        PrivacyLedger(path, neighbours="people")
    people = PrivacyLedger(path + "2", eps=1.0, neighbours="people")
    assert PrivacyLedger(path + "2").neighbours == Neighbours.PEOPLE
    assert "about people" in repr(people)


def test_numbers_count_for_whomever_the_ledger_protects():
    ledger = PrivacyLedger(eps=1.0, neighbours="people")
    assert ledger.check(0.5)
    ledger.spend(0.5, what="a histogram")
    assert ledger.spent() == PrivacyLoss(0.5, 0.0, 0.125, neighbours=Neighbours.PEOPLE)


@pytest.mark.parametrize("bad", ["users", Neighbours.ROWS.upper(), 1, ["rows"]])
def test_other_neighbours_are_refused(path, bad):
    with pytest.raises(ValueError, match='neighbours must be "rows" or "people"'):
        PrivacyLedger(path, neighbours=bad)
    with pytest.raises(ValueError, match="neighbours must be"):
        PrivacyLoss(1.0, 0.0, 0.1, neighbours=bad)
    assert not os.path.exists(path)


# Records


def test_records_hold_the_public_facts(path):
    ledger = PrivacyLedger(path, eps=2.0)
    loss = PrivacyLoss(0.5, 0.0, 0.03, os_randomness=False)
    charge(ledger, loss, what="DPKBinsDiscretizer.fit", columns=["age", "größe"], detail="n_bins=5")
    charge(ledger.with_note("try 2"), pure(0.25), what="dp_quantiles", columns=1)
    first, second = ledger.records()
    assert first.what == "DPKBinsDiscretizer.fit"
    assert first.columns == ("age", "größe")
    assert first.detail == "n_bins=5"
    assert (first.eps, first.delta, first.rho) == (0.5, 0.0, 0.03)
    assert first.seeded and first.note is None and first.pure_eps == 0.5
    assert (second.columns, second.seeded, second.note) == (1, False, "try 2")
    assert first.time.utcoffset().total_seconds() == 0


def test_every_release_has_an_id_of_its_own(path):
    ledger = PrivacyLedger(path, eps=2.0)
    for _ in range(3):
        charge(ledger, pure(0.5), what="fit")
    ids = [record.release_id for record in ledger.records()]
    assert len(set(ids)) == 3 and all(len(release_id) == 32 for release_id in ids)


def test_a_release_that_counts_for_more_eps_than_was_asked_says_so(path):
    ledger = PrivacyLedger(path, eps=5.0)
    loss = PrivacyLoss(1.0, 1e-6, 0.01, pure_eps=1.5)
    paid = charge(ledger, loss, what="fit")
    assert paid == loss and paid.eps_in_ledger == 1.5
    assert "eps_in_ledger=1.5" in repr(paid)
    assert ledger.records()[0].eps_in_ledger == 1.5
    plain = charge(ledger, pure(1.0), what="fit")
    assert plain.eps_in_ledger == 1.0 and "eps_in_ledger" not in repr(plain)


def test_names_of_very_many_columns_are_counted(path):
    ledger = PrivacyLedger(path, uncapped=True)
    charge(ledger, pure(1.0), what="fit", columns=[f"x{i}" for i in range(5000)])
    assert ledger.records()[0].columns == 5000


def test_frame_has_a_row_a_release(path):
    ledger = PrivacyLedger(path, uncapped=True)
    charge(ledger, pure(0.5), what="fit", columns=["a"], detail="n_bins=5")
    charge(ledger, pure(0.25), what="fit")
    frame = ledger.to_frame()
    assert list(frame.columns) == [
        *("time", "what", "columns", "detail", "eps", "delta", "rho"),
        *("pure_eps", "account", "seeded", "note", "release_id", "eps_in_ledger"),
    ]
    assert frame["eps"].sum() == 0.75
    assert str(frame["time"].dtype).startswith("datetime64")
    assert PrivacyLedger(path + "2", uncapped=True).to_frame().shape == (0, 13)


@pytest.mark.parametrize("text", ["a\0b", "\ud800", 3])
@pytest.mark.parametrize("name", ["what", "detail", "note"])
def test_texts_that_cannot_be_stored_raise_before_anything_is_spent(path, name, text):
    ledger = PrivacyLedger(path, eps=1.0)
    with pytest.raises(ValueError, match=f"{name} must be"):
        charge(ledger, pure(0.5), **{"what": "fit", name: text})
    assert ledger.records() == []


@pytest.mark.parametrize("detail", [f"n_bins={np.full(60, 4)}", f"n_bins={[4] * 500}"])
def test_long_details_are_kept_on_one_line_and_cut(detail):
    ledger = PrivacyLedger(eps=1.0)
    charge(ledger, pure(0.5), what="fit", detail=detail)
    recorded = ledger.records()[0].detail
    assert recorded.startswith("n_bins=[4") and recorded.isprintable() and len(recorded) <= 300


def test_messages_show_no_arrays(path):
    private = np.array([123.456, 789.012])
    for attempt in (
        lambda: PrivacyLedger(private),
        lambda: PrivacyLedger(neighbours=private),
        lambda: PrivacyLedger(path, uncapped=True).with_note(private),
        lambda: charge(private, pure(1.0), what="fit"),
        lambda: charge(PrivacyLedger(path, uncapped=True), pure(1.0), what="fit", detail=private),
    ):
        with pytest.raises(ValueError, match="ndarray") as caught:
            attempt()
        assert "123" not in str(caught.value)


def test_column_names_may_be_anything(path):
    names = ["a\nb", "\ud800", "x" * 1000, ""]
    ledger = PrivacyLedger(path, uncapped=True)
    charge(ledger, pure(0.5), what="fit", columns=names)
    assert ledger.records()[0].columns == tuple(names)


def test_spend_records_what_was_made_elsewhere(path):
    ledger = PrivacyLedger(path, eps=10.0, delta=1e-6)
    ledger.spend(0.5, what="a histogram", note="by another library", columns=["age"])
    ledger.spend(rho=0.001, what="a mean")
    one, two = ledger.records()
    assert (one.eps, one.rho) == (0.5, 0.125)  # eps^2 / 2: all that is known of a pure release
    assert (two.eps, two.rho) == (math.inf, 0.001)


def test_order_is_that_of_the_commits_when_the_clock_is_set_back(path, monkeypatch):
    ledger = PrivacyLedger(path, eps=1.0)
    years = iter(["2031", "2030", "1970"])
    now = lambda: f"{next(years)}-01-01T00:00:00.000+00:00"  # noqa: E731
    monkeypatch.setattr("dpq_sklearn.ledger.contents._now", now)
    for eps in (0.5, 0.25, 0.125):
        charge(ledger, pure(eps), what="fit")
    assert [record.eps for record in ledger.records()] == [0.5, 0.25, 0.125]
    assert [record.time.year for record in ledger.records()] == [2031, 2030, 1970]
    assert ledger.spent().eps == 0.875


# What it looks like


def test_repr_says_what_is_spent_of_what(path):
    ledger = PrivacyLedger(path, eps=2.0)
    assert repr(ledger) == f"<PrivacyLedger {path!r}: 0 of 2 eps spent in 0 releases>"
    charge(ledger, pure(0.5), what="fit")
    assert repr(ledger) == f"<PrivacyLedger {path!r}: 0.5 of 2 eps spent in 1 release>"
    record_only = PrivacyLedger(path + "2", uncapped=True)
    assert "rho=0 spent in 0 releases from an uncapped ledger" in repr(record_only)


def test_repr_of_a_ledger_without_its_file_says_so(path):
    ledger = PrivacyLedger(path, eps=2.0)
    os.unlink(path)
    assert "is missing" in repr(ledger)
    assert "is missing" in ledger._repr_html_()


def test_html_has_a_bar_and_no_markup_of_others(tmp_path):
    ledger = PrivacyLedger(tmp_path / "<b>&.sqlite", eps=2.0, rho=1.0)
    charge(ledger, pure(0.5), what="fit")
    html = ledger._repr_html_()
    assert "<b>" not in html and "&lt;b&gt;&amp;" in html
    assert '<meter value="0.250">' in html
    assert "0.5 of 2 eps and 0.03125 of 1 rho spent" in html
    assert "<meter" not in PrivacyLedger()._repr_html_()


@pytest.mark.parametrize("caps", [{}, {"eps": 1.0}, {"eps": 1.0, "delta": 1e-6}, {"rho": 1.0}])
def test_plot_draws_the_totals(path, caps):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ledger = PrivacyLedger(path, **caps, uncapped=not caps)
    ax = ledger.plot()
    for _ in range(3):
        charge(ledger, pure(0.1), what="fit")
    assert ledger.plot(ax=ax) is ax
    unit = "rho" if "rho" in caps else "eps"
    heights = ax.patches[-1].get_data().values
    assert heights[-1] == getattr(ledger.spent(), unit)
    assert len(ax.lines) == (2 if caps else 0)
    plt.close("all")


@pytest.mark.parametrize("n_releases", [0, 1, 2, 3, 25])
def test_plot_has_whole_releases_on_its_axis(n_releases):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ledger = PrivacyLedger(eps=10.0)
    for _ in range(n_releases):
        ledger.spend(0.1, what="fit")
    ticks = ledger.plot().get_xticks()
    assert ticks.size > 1 and (ticks % 1 == 0).all()
    plt.close("all")


@pytest.mark.parametrize(
    ("module", "method", "hint"),
    [("pandas", "to_frame", "'pandas'"), ("matplotlib.pyplot", "plot", r"'dpq-sklearn\[plot\]'")],
)
def test_missing_optional_package_is_named(path, monkeypatch, module, method, hint):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=hint):
        getattr(PrivacyLedger(path, uncapped=True), method)()


def test_file_can_be_read_with_any_sqlite_tool(path):
    import sqlite3

    ledger = PrivacyLedger(path, eps=2.0)
    charge(ledger, pure(0.5), what="fit", detail="n_bins=5")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        ((eps, facts),) = connection.execute("SELECT eps, facts FROM releases").fetchall()
    assert eps == 0.5
    assert json.loads(facts)["detail"] == "n_bins=5"
