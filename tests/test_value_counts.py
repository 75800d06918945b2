"""dp_value_counts: exact distributions, public and private keys, people."""

import itertools
import math
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import chisquare

from dpq_sklearn import PrivacyLedger, dp_value_counts
from dpq_sklearn.accounting.budgets import BudgetTooSmall
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.mechanisms import counted_selection
from dpq_sklearn.mechanisms.counted_selection import CountedSelection
from dpq_sklearn.mechanisms.noise import truncated_laplace
from dpq_sklearn.mechanisms.partition_selection import ONE, PartitionSelection
from tests.test_partition_selection import N_SAMPLES, least_eps

SMALL_DELTAS = [(1.0, 1e-6), (0.05, 1e-9), (0.3, 0.01), (3.0, 1e-12)]
BUDGETS = [*SMALL_DELTAS, (10.0, 0.5), (0.2, 0.9)]
TOWNS = ["Bern"] * 500 + ["Basel"] * 300 + [None] * 100 + ["Ardez"]


def noise_probabilities(selection):
    """The probability of each noise from -k to k."""
    noise = np.arange(-selection.reach, selection.reach + 1)
    weights = np.exp(-selection.rate * np.abs(noise))
    return weights / math.fsum(weights)


def outcomes(n, selection, n_most):
    """The probability of each noisy count from 0 on, where 0 is no release."""
    found = np.zeros(n_most)
    reach = selection.reach
    for noise, chance in enumerate(noise_probabilities(selection), -reach):
        noisy = n + noise
        found[noisy if noisy > reach else 0] += chance
    return found


def excess(one, other, eps):
    return max(
        math.fsum(np.maximum(p - math.exp(eps) * q, 0)) for p, q in ((one, other), (other, one))
    )


@pytest.mark.parametrize(("eps", "delta"), BUDGETS)
def test_one_record_more_stays_within_eps_and_delta_for_every_count(eps, delta):
    selection = CountedSelection(eps, delta)
    n_most = 4 * selection.reach + 4
    distributions = [outcomes(n, selection, n_most) for n in range(2 * selection.reach + 3)]
    assert distributions[0][0] == pytest.approx(1.0, abs=1e-12)
    assert not distributions[0][1:].any()
    for one, other in itertools.pairwise(distributions):
        assert excess(one, other, eps) <= delta


@pytest.mark.parametrize(("eps", "delta"), SMALL_DELTAS)
def test_the_enumeration_notices_1_3_eps(eps, delta):
    selection = CountedSelection(1.3 * eps, delta)
    n_most = 4 * selection.reach + 4
    counts = range(2 * selection.reach + 3)
    distributions = [outcomes(n, selection, n_most) for n in counts]
    worst = max(excess(*pair, eps) for pair in itertools.pairwise(distributions))
    assert worst > delta


@pytest.mark.parametrize(("eps", "delta"), BUDGETS)
def test_the_largest_noise_is_the_least_that_delta_allows(eps, delta):
    selection = CountedSelection(eps, delta)
    reach = selection.reach
    assert noise_probabilities(selection)[-1] == pytest.approx(
        selection.largest_noise_probability(reach), rel=1e-9
    )
    assert selection.largest_noise_probability(reach) <= delta
    assert reach == 1 or selection.largest_noise_probability(reach - 1) > delta * (1 - 1e-5)


@pytest.mark.parametrize(("eps", "delta"), SMALL_DELTAS)
def test_labels_are_found_at_most_as_often_as_is_optimal_and_at_most_two_records_later(eps, delta):
    selection = CountedSelection(eps, delta)
    best = PartitionSelection(eps, delta).thresholds
    best = [*(q / ONE for q in best), *[1.0] * (2 * selection.reach + 2)]
    for n in range(1, 2 * selection.reach + 2):
        found = 1 - outcomes(n, selection, 4 * selection.reach + 4)[0]
        assert found <= best[n - 1] + 1e-12
        assert n < 3 or found >= best[n - 3]


def test_draws_follow_the_distribution():
    rate, reach, n = 0.5, 4, 200_000
    drawn = truncated_laplace(rate, reach, n, make_randomness(0)) + reach
    weights = np.exp(-rate * np.abs(np.arange(-reach, reach + 1)))
    counts = np.bincount(drawn, minlength=2 * reach + 1)
    assert chisquare(counts, weights / weights.sum() * n).pvalue > 1e-6


@pytest.mark.parametrize("n_records", [1, 2])
def test_samples_stay_within_eps_and_notice_1_3_eps(n_records):
    """Compare how often a label is released with n records and with one more."""
    eps = 1.0
    # So that the largest noise has exactly this probability, and nothing is left of delta.
    delta = CountedSelection(eps, 0.1).largest_noise_probability(2) * (1 + 1e-5)

    def measured(eps_spent):
        randomness = make_randomness(n_records)
        selection = CountedSelection(eps_spent, delta)
        kept = [
            np.count_nonzero(selection.draw(np.full(N_SAMPLES, n), randomness))
            for n in (n_records, n_records + 1)
        ]
        return least_eps(*kept, N_SAMPLES, delta)

    assert measured(eps) <= eps
    assert n_records > 1 or measured(1.3 * eps) > eps


def test_frequent_labels_are_counted_largest_first():
    counts, privacy = dp_value_counts(TOWNS, return_privacy=True)
    assert counts.index[:2].tolist() == ["Bern", "Basel"] and np.isnan(counts.index[2])
    assert len(counts) == 3 and counts.name == "count" and counts.dtype == np.int64
    assert np.abs(counts.to_numpy() - [500, 300, 100]).max() < 40
    assert (privacy.eps, privacy.delta, privacy.rho) == (1.0, 1e-6, math.inf)


def test_public_keys_are_all_counted_at_a_pure_eps():
    counts, privacy = dp_value_counts(
        TOWNS, keys=["Bern", "Zug", None], eps=2.0, return_privacy=True
    )
    assert set(counts.index[:1]) == {"Bern"} and len(counts) == 3
    assert abs(counts["Bern"] - 500) < 20 and abs(counts["Zug"]) < 20
    assert (privacy.eps, privacy.delta, privacy.pure_eps) == (2.0, 0.0, 2.0)
    assert privacy.rho == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize(
    "x",
    [
        TOWNS,
        np.array(TOWNS, dtype=object),
        pd.Series(TOWNS),
        pd.Series(TOWNS, dtype="category"),
        pl.Series(TOWNS),
        pl.Series(TOWNS).to_arrow(),
    ],
    ids=lambda x: f"{type(x).__module__}.{type(x).__name__}",
)
def test_all_containers_agree(x):
    expected = dp_value_counts(np.array(TOWNS, dtype=object), random_state=3)
    pd.testing.assert_series_equal(dp_value_counts(x, random_state=3), expected)


def test_a_person_counts_once():
    assert len(dp_value_counts(TOWNS, groups=np.zeros(len(TOWNS)))) == 0
    people = np.arange(len(TOWNS)) // 2
    counts, privacy = dp_value_counts(
        TOWNS, keys=["Bern"], groups=people, eps=5.0, return_privacy=True
    )
    assert abs(counts["Bern"] - 250) < 10 and privacy.neighbours.value == "people"


def test_without_pandas_it_is_a_dict(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    counts = dp_value_counts(np.array(["a"] * 100), eps=10.0)
    assert isinstance(counts, dict) and list(counts) == ["a"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 0.0}, "delta must be > 0 to find keys privately"),
        ({"eps": 0}, "eps must be"),
        ({"keys": []}, "keys must be distinct texts or numbers"),
        ({"keys": "Bern"}, "keys must be distinct"),
        ({"keys": [1, 1.0]}, "keys must be distinct"),
        ({"keys": [(1, 2)]}, "keys must be distinct"),
        ({"random_state": "x"}, "random_state must be"),
        ({"groups": [1]}, "groups must have one label"),
    ],
)
def test_wrong_arguments_raise_and_spend_nothing(arguments, message):
    ledger = PrivacyLedger()
    with pytest.raises(ValueError, match=message):
        dp_value_counts(np.array(TOWNS, dtype=object), ledger=ledger, **arguments)
    assert ledger.records() == []


def test_tables_and_dates_are_refused():
    with pytest.raises(ValueError, match="x must be one-dimensional"):
        dp_value_counts(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="x must hold text, numbers or booleans"):
        dp_value_counts(np.array(["2020-01-01"], dtype="datetime64[D]"))


def test_a_ledger_records_the_release_before_the_column_is_read():
    ledger = PrivacyLedger()
    dp_value_counts(TOWNS, ledger=ledger)
    (record,) = ledger.records()
    assert (record.what, record.detail, record.delta) == ("dp_value_counts", "private keys", 1e-6)


def test_budgets_that_are_too_small_are_refused():
    with pytest.raises(BudgetTooSmall, match="eps and delta must be larger"):
        CountedSelection(1e-9, 1e-6)


def test_a_label_is_released_from_the_first_count_on_that_no_label_without_records_can_have(
    monkeypatch,
):
    selection = CountedSelection(1.0, 1e-6)
    reach = selection.reach
    noise = np.array([reach, reach - 1, 0, 1, -reach])
    monkeypatch.setattr(counted_selection, "truncated_laplace", lambda *arguments: noise)
    counts = np.array([1, 1, reach, reach, 2 * reach + 1])
    assert selection.draw(counts, None).tolist() == [reach + 1, 0, 0, reach + 1, reach + 1]


def test_text_that_is_not_valid_unicode_is_released_like_any_other():
    x = np.array(["\ud800", "a"] * 300, dtype=object)
    assert set(dp_value_counts(x, random_state=0).index) == {"\ud800", "a"}
