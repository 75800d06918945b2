"""Counts and histograms: NumPy's numbers, noise of the promised distribution, one price for all."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import chisquare, kstest, laplace, norm

from dpq_sklearn import BudgetExceededError, PrivacyLedger, dp_count, dp_histogram
from dpq_sklearn.accounting.budgets import Budget, TotalBudget
from dpq_sklearn.accounting.conversions import rho_of_approximate_dp
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.reading.groups import weights_of_rows
from dpq_sklearn.releases.plans import plan_counts
from dpq_sklearn.releases.request import CountRole
from tests.enumeration import (
    aq_draws,
    datasets,
    joint_distribution,
    ranks_of_weights,
    tiny_grid,
    with_neighbours,
)
from tests.planning import plan_of_columns
from tests.test_aq import OTHERS, with_person

NO_NOISE = 1e12  # an eps so large that no draw is different from 0
ORDERS = [1.01, 1.5, 2.0, 3.0, 8.0, 32.0]
PRICES = {"eps": {"eps": 1.0}, "rho": {"eps": None, "rho": 0.5}}
each_price = pytest.mark.parametrize("price", PRICES.values(), ids=PRICES)


# What is counted


numbers = st.one_of(
    st.floats(-10, 10), st.integers(-10, 10).map(float), st.sampled_from([np.nan, np.inf, -np.inf])
)


@given(
    st.lists(numbers, max_size=40),
    st.lists(st.integers(-40, 40).map(lambda i: i / 4), min_size=2, max_size=9, unique=True),
)
def test_without_noise_a_histogram_is_that_of_numpy(x, edges):
    x, edges = np.array(x, dtype=float), sorted(edges)
    expected, _ = np.histogram(x[np.isfinite(x)], edges)
    counts, found = dp_histogram(x, edges, eps=NO_NOISE)
    assert np.array_equal(counts, expected) and counts.dtype == np.int64
    assert np.array_equal(found, edges) and found.dtype == np.float64


def test_bins_have_their_lower_ends_and_the_last_one_both():
    x = [0.0, 1.0, 1.0, np.nextafter(2.0, 0), 2.0, 3.0, np.nextafter(3.0, 4), -1e-300, np.nan]
    counts, _ = dp_histogram(x, [0, 1, 2, 3], eps=NO_NOISE)
    assert counts.tolist() == [1, 3, 2]


@given(st.lists(st.tuples(st.integers(-1, 4), st.integers(0, 5)), max_size=40))
def test_without_noise_people_weigh_one_in_all_bins_together(rows):
    x = np.array([row[0] for row in rows], dtype=float)
    x[x == 4] = np.nan
    groups = [row[1] for row in rows]
    counts, _ = dp_histogram(x, [0, 1, 2, 3], eps=1e12, groups=groups)
    assert counts.dtype == np.float64
    expected = [Fraction(0)] * 3
    for value, person in zip(x, groups, strict=True):
        if 0 <= value <= 3:
            expected[min(int(value), 2)] += Fraction(1, groups.count(person))
    # What is left over when RECORD_WEIGHT is shared goes to one row: less than k parts of it.
    assert np.abs(counts - np.array(expected, dtype=float)).max() <= 40 * 6 / RECORD_WEIGHT
    inside = {person for value, person in zip(x, groups, strict=True) if 0 <= value <= 3}
    assert counts.sum() <= len(inside)


def test_whole_people_are_counted_exactly():
    x, groups = [1.5, 1.5, 1.5, 0.5, 2.5], ["a", "a", "a", "b", None]
    counts, _ = dp_histogram(x, [0, 1, 2, 3], eps=1e12, groups=groups)
    assert counts.tolist() == [1.0, 1.0, 1.0]


ROWS = {
    "list": [1, 2, 3],
    "text": ["a", "b", "c"],
    "array": np.zeros(3),
    "matrix": np.zeros((3, 7)),
    "sparse": sparse.csr_array(np.zeros((3, 7))),
    "pandas": pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"]}),
    "Series": pd.Series([1, None, 3]),
    "polars": pl.DataFrame({"a": [1, 2, 3]}),
    "Arrow": pa.table({"a": [1, 2, 3]}),
    "Arrow array": pa.array([None, 2, 3]),
}


@pytest.mark.parametrize("x", ROWS.values(), ids=ROWS)
def test_rows_of_every_container_are_counted(x):
    count = dp_count(x, eps=NO_NOISE)
    assert count == 3 and type(count) is int
    assert dp_count(x, eps=NO_NOISE, groups=["a", "b", "a"]) == 2


def test_rows_of_a_dask_collection_are_counted():
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(pd.DataFrame({"a": [1, 2, 3]}), npartitions=2)
    test_rows_of_every_container_are_counted(frame)


def test_a_missing_label_is_a_person_who_counts():
    assert dp_count(range(6), eps=NO_NOISE, groups=["a", None, "a", np.nan, "b", None]) == 5


@pytest.mark.parametrize("x", [[1, 2.5, None], pd.Series([1, 2.5, pd.NA], dtype="Float64")])
def test_histograms_take_what_quantiles_take(x):
    assert dp_histogram(x, [0, 2, 3], eps=NO_NOISE)[0].tolist() == [1, 1]
    with pytest.raises(TypeError, match="x must hold real numbers"):
        dp_histogram(["secret"], [0, 1])


# The noise


def laplace_logs(rate, support):
    """The logarithm of the discrete Laplace distribution, by its definition."""
    return -rate * np.abs(support) + math.log(math.tanh(rate / 2))


def gaussian_logs(variance, support):
    logs = -(support.astype(float) ** 2) / (2 * variance)
    wide = np.arange(-10_000, 10_001)
    return logs - math.log(math.fsum(np.exp(-(wide**2) / (2 * variance))))


def log_chances(noise, support):
    """The logarithms of the probabilities of a count's noise."""
    if noise._budget.unit == "eps":
        return laplace_logs(noise._rate, support)
    return gaussian_logs(noise._variance, support)


def p_value(noises, request):
    """The p-value of sampled integers against the noise of a budget, with merged tails."""
    support = np.arange(-2000, 2001)
    plan = plan_counts(1, TotalBudget(**request), neighbours=Neighbours.ROWS)
    expected = np.exp(log_chances(plan.noise, support)) * noises.size
    inner = np.flatnonzero(expected >= 20)
    low, high = support[inner[0]], support[inner[-1]]
    observed = np.bincount(np.clip(noises, low, high) - low, minlength=high - low + 1)
    lumped = expected[inner].copy()
    lumped[0] += expected[: inner[0]].sum()
    lumped[-1] += expected[inner[-1] + 1 :].sum()
    return chisquare(observed, lumped * observed.sum() / lumped.sum()).pvalue


@each_price
def test_the_noise_of_a_histogram_is_that_of_the_price_and_of_no_other(price):
    """20,000 empty bins show 20,000 independent noises."""
    noises, _ = dp_histogram([], np.arange(20_001.0), random_state=0, **price)
    assert p_value(noises, {"delta": 0.0, "rho": None, **price}) > 1e-3
    for factor in (0.9, 1.1):
        other = {unit: amount and factor * amount for unit, amount in price.items()}
        assert p_value(noises, {"delta": 0.0, "rho": None, **other}) < 1e-4


@each_price
def test_the_noise_of_a_count_is_that_of_a_histogram_with_one_bin(price):
    for seed in range(20):
        options = {"random_state": seed, **price}
        (noise,), _ = dp_histogram([], [0, 1], **options)
        assert dp_count(np.zeros(1000), **options) == 1000 + noise
        assert dp_count(np.zeros(1000), groups=np.arange(1000) // 2, **options) == 500 + noise


@each_price
def test_the_noise_of_people_is_as_large_and_comes_in_parts_of_a_record(price):
    options = {"groups": [], "random_state": 0}
    noises, _ = dp_histogram([], np.arange(20_001.0), **options, **price)
    parts = noises * RECORD_WEIGHT
    assert np.array_equal(parts, np.rint(parts))
    assert len({int(part) % 1000 for part in parts}) == 1000  # down to the last part
    smooth = laplace(scale=1 / price["eps"]) if price["eps"] else norm(scale=1)
    assert kstest(noises, smooth.cdf).pvalue > 1e-3
    assert kstest(1.1 * noises, smooth.cdf).pvalue < 1e-4


def test_delta_buys_gaussian_noise_where_that_is_less():
    for eps, delta in itertools.product([0.1, 1.0, 10.0], [1e-9, 1e-3, 0.3]):
        noise = plan_counts(4, TotalBudget(eps, delta), neighbours=Neighbours.ROWS).noise
        both = [
            CountNoise(Budget(eps, "eps"), 4).deviation(),
            CountNoise(Budget(rho_of_approximate_dp(eps, delta), "rho"), 4).deviation(),
        ]
        assert noise.deviation() == min(both)
        _, _, loss = dp_histogram([], range(5), eps=eps, delta=delta, return_privacy=True)
        assert loss.delta == (delta if both[1] < both[0] else 0.0)


# The price


@pytest.mark.parametrize(("eps", "of_five_rows"), [(0.1, 3.3), (1.0, 5.9)])
def test_several_rows_cost_more_than_so_many_times_the_delta(eps, of_five_rows):
    """The delta of k rows at k eps, enumerated, is within what the privacy page says of them."""
    delta = 0.1
    plan = plan_counts(1, TotalBudget(eps, delta), neighbours=Neighbours.ROWS)
    assert plan.loss.delta == delta
    chances = np.exp(log_chances(plan.noise, np.arange(-3000, 3001)))
    for k in range(1, 6):
        excess = chances - math.exp(k * eps) * np.roll(chances, -k)
        ratio = excess[excess > 0].sum() / delta
        assert ratio <= (math.exp(k * eps) - 1) / (math.exp(eps) - 1)
    assert ratio > of_five_rows


def shares_of(k, parts):
    """The ways in which k rows can share a record, with all orders of the remainder."""
    share, left_over = divmod(parts, k)
    shares = [share + 1] * left_over + [share] * (k - left_over)
    return set(itertools.permutations(shares))


def placements(k, n_bins, parts):
    """How one person changes the bins, for all places of k rows; some are in no bin."""
    changes = set()
    for bins in itertools.product(range(n_bins + 1), repeat=k):
        for shares in shares_of(k, parts):
            change = [0] * (n_bins + 1)
            for place, share in zip(bins, shares, strict=True):
                change[place] += share
            changes.add(tuple(change[:n_bins]))
    return changes


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 3, 4])
@each_price
def test_every_placement_of_the_rows_of_a_person_costs_at_most_the_price(k, price):
    """A record of 10 parts, noises enumerated; those of two bins are independent."""
    parts, n_bins = 10, 2
    plan = plan_counts(
        n_bins, TotalBudget(**price), neighbours=Neighbours.PEOPLE, units_per_record=parts
    )
    support = np.arange(-3000, 3001)
    logs = log_chances(plan.noise, support)
    usable = logs > -600

    def shifted(by):
        return np.roll(logs, by)[parts:-parts], logs[parts:-parts], usable[parts:-parts]

    worst_eps = worst_rho = 0.0
    for change in placements(k, n_bins, parts):
        assert sum(change) <= parts
        both = [shifted(part) for part in change]
        worst_eps = max(worst_eps, sum(np.abs(p - q)[inner].max() for p, q, inner in both))
        for order in ORDERS:
            moments = [
                math.log(math.fsum(np.exp(order * p + (1 - order) * q)[inner]))
                for p, q, inner in both
            ]
            worst_rho = max(worst_rho, sum(moments) / (order - 1) / order)
    assert 0.99 * plan.loss.rho * (0.5 if price["eps"] else 1.0) < worst_rho <= plan.loss.rho
    if price["eps"]:
        assert 0.999 * price["eps"] < worst_eps <= price["eps"] == plan.loss.eps


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=25), st.integers(0, 3))
def test_a_person_more_changes_a_histogram_by_one_at_most(rows, person):
    """Compare the exact counts before noise is added with the sensitivity of the noise."""
    x, groups = (np.array([row[part] for row in rows], dtype=int) for part in (0, 1))
    others = groups != person
    counts = [
        dp_histogram(x[rows], [0, 1, 2, 3], eps=1e12, groups=groups[rows])[0] * RECORD_WEIGHT
        for rows in (np.ones(x.size, dtype=bool), others)
    ]
    assert np.abs(counts[0] - counts[1]).sum() == RECORD_WEIGHT * (~others).any()


@pytest.mark.parametrize("with_groups", [False, True])
@pytest.mark.parametrize("eps", [1e-3, 1.0, 600.0, 1e6, 1e9])
def test_the_rho_of_a_histogram_is_that_of_the_noise_that_it_gets(eps, with_groups):
    """Noise in parts of a record is not capped where that of whole rows is."""
    options = {"groups": [] if with_groups else None, "return_privacy": True}
    _, _, loss = dp_histogram([], [0, 1], eps=eps, **options)
    largest = 512 * (RECORD_WEIGHT if with_groups else 1)
    assert loss.eps == loss.pure_eps == eps and loss.delta == 0
    assert loss.rho == pytest.approx(min(eps, largest) ** 2 / 2, rel=1e-3)


@pytest.mark.parametrize("price", [*PRICES.values(), {"eps": 0.5, "delta": 1e-2}])
def test_the_loss_is_what_was_asked_for_and_what_the_ledger_records(price, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db", uncapped=True)
    _, of_count = dp_count([1, 2], return_privacy=True, ledger=ledger, **price)
    _, _, of_bins = dp_histogram([1, 2], [0, 1, 2], return_privacy=True, ledger=ledger, **price)
    records = ledger.records()
    assert [record.what for record in records] == ["dp_count", "dp_histogram"]
    assert [record.detail for record in records] == ["1 count", "2 bins"]
    for loss, record in zip((of_count, of_bins), records, strict=True):
        assert loss.os_randomness and loss.account in ("sum of eps", "zCDP")
        assert (record.eps, record.delta, record.rho) == (loss.eps, loss.delta, loss.rho)
        if price["eps"] is None:
            assert loss.rho == price["rho"] and loss.pure_eps == math.inf and loss.delta == 0
        else:
            assert loss.eps == price["eps"] and loss.delta <= price.get("delta", 0.0)
    assert not dp_count([1], return_privacy=True, random_state=0)[1].os_randomness


def test_a_ledger_that_is_used_up_refuses_before_anything_is_read(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db", eps=1.0)
    dp_count([1, 2], eps=0.7, ledger=ledger)
    unreadable = np.array(["secret"], dtype=object)
    with pytest.raises(BudgetExceededError):
        dp_histogram(unreadable, [0, 1], eps=0.7, ledger=ledger)
    with pytest.raises(BudgetExceededError):
        dp_count(unreadable, eps=0.7, ledger=ledger)


# A fit: the count and the quantiles together


def neighbours_by_rows(grid):
    """Every dataset of the grid: ranks, pairs of neighbours, and the numbers of rows."""
    all_counts, pairs = with_neighbours(datasets(3, 1))
    ranks = ranks_of_weights(np.array(all_counts) * RECORD_WEIGHT, grid)
    return ranks, pairs, [sum(counts) for counts in all_counts]


def neighbours_by_people(k, grid):
    """One person with k rows more in all places: ranks, pairs, and the numbers of people."""
    ranks, pairs = with_person(OTHERS[2:4], k, grid)
    n_people = np.full(ranks.total_weights.size, 40)
    n_people[pairs[:, 1]] += 1
    return ranks, pairs, n_people.tolist()


NEIGHBOURS = {
    "rows": neighbours_by_rows,
    **{f"people of {k}": functools.partial(neighbours_by_people, k) for k in (1, 2)},
}


@pytest.mark.slow
@each_price
@pytest.mark.parametrize("quantiles", [[0.5], [0.25, 0.75]], ids=["median", "two"])
@pytest.mark.parametrize("neighbours", NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_a_count_and_quantiles_together_cost_at_most_the_price(price, quantiles, neighbours):
    """Enumerate all neighbours, counts and pairs of cells, with the budgets of a fit."""
    plan = plan_of_columns([quantiles], bounds=(0.0, 3.0), count=CountRole.BESIDE, **price)
    ranks, pairs, n_records = neighbours(tiny_grid(3, 1))
    draws = aq_draws(ranks, quantiles, plan.budgets[0])
    distributions = [joint_distribution(draws, data) for data in range(len(n_records))]
    outputs = list(distributions[0])
    support = np.arange(-1500, 1500)
    of_counts = [log_chances(CountNoise(plan.count_budget), support - n) for n in n_records]
    usable = np.min(of_counts, axis=0) > -600
    worst_eps = worst_rho = 0.0
    for one, other in [*pairs, *pairs[:, ::-1]]:
        p, q = (
            np.add.outer(of_counts[data][usable], np.log([distributions[data][o] for o in outputs]))
            for data in (one, other)
        )
        worst_eps = max(worst_eps, np.abs(p - q).max())
        for order in ORDERS:
            moment = math.fsum(np.exp(order * p + (1 - order) * q).ravel())
            worst_rho = max(worst_rho, math.log(moment) / (order - 1) / order)
    assert 0.1 * plan.loss.rho < worst_rho <= plan.loss.rho
    if price["eps"]:
        assert 0.2 * price["eps"] < worst_eps <= price["eps"]


@each_price
def test_the_count_and_the_columns_of_a_plan_cost_no_more_than_was_asked_for(price):
    quantiles = [(0.5,), (0.2, 0.4, 0.6, 0.8)]
    plan = plan_of_columns(quantiles, bounds=(0.0, 3.0), count=CountRole.BESIDE, **price)
    costs = [*map(plan.request.mechanism.cost, quantiles, plan.budgets)]
    costs.append(CountNoise(plan.count_budget).cost())
    eps, rho = map(sum, zip(*costs, strict=True))
    spent, asked = (rho, 0.5) if price["eps"] is None else (eps, 1.0)
    assert 0.99 * asked < spent <= asked


def test_a_person_counts_as_one_whatever_the_rows():
    """So a fit with groups releases the count at the price of rows."""
    for k in range(1, 5):
        assert weights_of_rows(["a"] * k + ["b"])[1] == 2


# Refusals


@pytest.mark.parametrize(
    "bins",
    [
        "auto",
        [1.0],
        [],
        [[0, 1], [1, 2]],
        [0, 1, 1],
        [1, 0],
        [0, np.nan],
        [0, np.inf],
        [0, "secret"],
        [0, None],
        [[0], [1, 2]],
        [2**53, 2**53 + 1],
        np.array([3, 2], dtype=np.uint64),
        np.array([1, 2j]),
        np.array(["1970-01-02", "1970-01-01"], dtype="M8[D]"),
        np.array(["1970-01-01", "NaT"], dtype="M8[D]"),
    ],
    ids=str,
)
def test_edges_are_two_or_more_ascending_finite_numbers(bins, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db", uncapped=True)
    with pytest.raises(ValueError, match="bins must be two or more ascending finite edges"):
        dp_histogram([1.0], bins, ledger=ledger)
    assert list(ledger.records()) == []


def test_no_message_prints_an_array():
    private = np.array([31337.5, 31338.5, 31339.5, 7.0])
    calls = [
        lambda: dp_histogram([0, 1], private),
        lambda: dp_histogram([0, 1], private.tolist()),
        lambda: dp_histogram(private.astype(str), [0, 1]),
        lambda: dp_histogram(private[:, None], [0, 1]),
        lambda: dp_histogram(private, [0, 1], eps=private),
        lambda: dp_count([0, 1], eps=private),
        lambda: dp_count([0, 1], delta=private),
        lambda: dp_count([0, 1], rho=private),
        lambda: dp_count(dict(enumerate(private))),
        lambda: dp_count([1, 2], random_state=private),
        lambda: dp_count(31337.5),
        lambda: dp_count("31337"),
        lambda: dp_count(np.array(31337.5)),
        lambda: dp_count(iter(private)),
    ]
    for call in calls:
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
        assert "3133" not in str(caught.value) and "3133" not in str(caught.value.__context__)


@pytest.mark.parametrize(
    ("price", "match"),
    [
        ({"eps": 0}, "eps must be"),
        ({"eps": 1.0, "rho": 1.0}, "rho excludes eps"),
        ({"delta": 1.0}, "delta must be"),
        ({"random_state": "x"}, "random_state"),
        ({"ledger": 5}, "ledger"),
    ],
)
def test_bad_arguments_raise_before_anything_is_read(price, match):
    unreadable = np.array(["secret"], dtype=object)
    for call in (dp_count, lambda x, **kwargs: dp_histogram(x, [0, 1], **kwargs)):
        with pytest.raises((ValueError, TypeError), match=match):
            call(unreadable, **price)


def test_a_number_of_bins_and_a_range_are_the_edges_of_numpy():
    x = np.arange(20.0)
    counts, edges = dp_histogram(x, 5, (0, 18), eps=NO_NOISE)
    expected, expected_edges = np.histogram(x, 5, (0, 18))
    assert counts.tolist() == expected.tolist()
    assert edges.tolist() == expected_edges.tolist()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((5,), r"range must be given .*np\.linspace\(low, high, 6\)"),
        ((0, (0, 1)), "bins must be at least 1, got 0"),
        ((5, (1, 0)), "low < high, got tuple of length 2"),
        ((5, (0, np.inf)), "pair .* of finite numbers"),
        ((5, 3), "pair .* of finite numbers"),
        ((5, ("a", "b")), "pair .* of finite numbers"),
        (([0, 1], (0, 1)), "range must be None if bins are edges"),
        ((["a", "b"],), "They are not real numbers"),
        ((True, (0, 1)), "range must be None"),
        ((True,), "bins must be two or more"),
    ],
)
def test_bins_that_mean_no_edges_are_refused_before_payment(arguments, words):
    ledger = PrivacyLedger(eps=1.0)
    with pytest.raises(ValueError, match=words):
        dp_histogram([1.0], *arguments, ledger=ledger)
    assert ledger.spent().eps == 0.0


def test_a_huge_number_of_bins_is_refused():
    with pytest.raises(ValueError, match="bins must be at most"):
        dp_histogram([1.0], 10**12, (0, 1))
