"""Summaries: however a column is divided, its weights are those of the whole."""

import functools
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.engine.weighted_ranks import WeightedRanks
from dpq_sklearn.reading import summaries as summaries_module
from dpq_sklearn.reading.sources.partitions import (
    MOST_RANGES,
    PartitionSummary,
    merged_partitions,
    ranges_of_summary,
    summary_of_ranges,
)
from dpq_sklearn.reading.sources.people import summary_of_people
from dpq_sklearn.reading.summaries import (
    EMPTY_SUMMARY,
    SUMMARY_RESOLUTION,
    Summary,
    SummaryBuilder,
    merge,
    summarize,
)
from tests.enumeration import (
    aq_distribution,
    aq_draws,
    column_of,
    datasets,
    tiny_grid,
    with_neighbours,
    worst_eps,
)

INF = np.inf
# (grid, column): the second column of a grid of two, so that a mix-up would show.
GRIDS = {
    f"{bounds}, {resolution}": (make_grid([(-5.0, 3.0), bounds], resolution), 1)
    for bounds in ((-INF, INF), (-1.0, 1.0), (0.0, INF))
    for resolution in (40, SUMMARY_RESOLUTION, 2)
} | {"tiny": (tiny_grid(40, 4), 0)}
of_all_grids = pytest.mark.parametrize(("grid", "column"), GRIDS.values(), ids=GRIDS)
columns = st.lists(
    st.one_of(st.floats(allow_nan=True), st.sampled_from([0.0, 1.0, 2.0, 37.0])), max_size=40
)


def summary_of(values, grid, column, weights=None):
    return summarize(np.array(values, dtype=np.float64), grid, column, weights)


def reference(values, grid, column, weights=None):
    """Cells and weights by counting one by one."""
    values = np.array(values, dtype=np.float64)
    weights = np.full(values.size, RECORD_WEIGHT) if weights is None else np.asarray(weights)
    is_there = ~np.isnan(values)
    table = {}
    cells = grid.cells_of(values[is_there], column).tolist()
    for cell, weight in zip(cells, weights[is_there].tolist(), strict=True):
        table[cell] = table.get(cell, 0) + weight
    return sorted(table), [table[cell] for cell in sorted(table)]


def assert_same(summary, cells, weights):
    assert summary.cells.dtype == summary.weights.dtype == np.int64
    assert np.array_equal(summary.cells, cells)
    assert np.array_equal(summary.weights, weights)


@pytest.fixture(params=["tables", "sorting", "both"])
def ways(request, monkeypatch):
    """Force each of the ways to count: they must agree."""
    if request.param == "tables":
        monkeypatch.setattr(summaries_module, "_TABLE_PER_ENTRY", 2**16)
    elif request.param == "sorting":
        monkeypatch.setattr(summaries_module, "_TABLE_PER_ENTRY", 0)


@of_all_grids
@settings(max_examples=30)
@given(values=columns)
def test_summary_has_the_weight_of_the_records_of_each_cell(grid, column, values):
    before = np.array(values, dtype=np.float64)
    given_values = before.copy()
    assert_same(summarize(given_values, grid, column), *reference(values, grid, column))
    assert np.array_equal(given_values, before, equal_nan=True)


@of_all_grids
@settings(max_examples=30)
@given(values=columns, data=st.data())
def test_summary_of_weighted_records_has_their_weights(grid, column, values, data):
    sizes = st.sampled_from([RECORD_WEIGHT, RECORD_WEIGHT // 3, RECORD_WEIGHT // 3 + 1, 1])
    weights = [data.draw(sizes) for _ in values]
    found = summary_of(values, grid, column, np.array(weights, dtype=np.int64))
    assert_same(found, *reference(values, grid, column, weights))


@of_all_grids
@settings(max_examples=30)
@given(one=columns, two=columns, three=columns)
def test_merge_is_associative_and_commutative_and_has_a_neutral_element(
    grid, column, one, two, three
):
    a, b, c = (summary_of(values, grid, column) for values in (one, two, three))
    whole = reference([*one, *two, *three], grid, column)
    assert_same(merge(a, merge(b, c)), *whole)
    assert_same(merge(merge(a, b), c), *whole)
    for order in itertools.permutations((a, b, c)):
        assert_same(merge(*order), *whole)
    assert_same(merge(a, EMPTY_SUMMARY), a.cells, a.weights)
    assert_same(merge(), [], [])


def test_all_ways_to_count_and_to_merge_agree(ways, rng):
    grid = make_grid([(0.0, 1.0)], 12)
    parts = [rng.beta(2, 5, size=size) for size in (1, 10, 1000, 0, 300)]
    summaries = [summarize(part, grid, 0) for part in parts]
    assert_same(merge(*summaries), *reference(np.concatenate(parts), grid, 0))


def test_weights_of_the_same_cell_add_up_to_large_numbers():
    large = Summary(np.array([3, 5]), np.array([2**50, 1]))
    assert_same(merge(large, large, large), [3, 5], [3 * 2**50, 3])


@pytest.mark.parametrize("first", [-(2**39), -300, 0, 255, 2**31, 2**40 - 1])
@pytest.mark.parametrize("weight", [1, RECORD_WEIGHT, 255 * RECORD_WEIGHT, 2**50 + 1])
def test_pickles_are_small_and_exact(first, weight):
    summary = Summary(np.arange(1000) + first, np.full(1000, weight))
    restored = pickle.loads(pickle.dumps(summary))
    assert_same(restored, summary.cells, summary.weights)
    bytes_of_weight = 8 if weight == 2**50 + 1 else 1
    assert len(pickle.dumps(summary)) < 1000 * (2 + bytes_of_weight) + 1000
    assert_same(pickle.loads(pickle.dumps(EMPTY_SUMMARY)), [], [])


def test_parts_are_merged_column_by_column():
    grid = tiny_grid(4, 1)
    part = PartitionSummary(2, [summary_of([0.5], grid, 0), summary_of([1.5], grid, 0)])
    merged = merged_partitions([part] * 3)
    first, second = merged.summaries
    assert merged.n_records == 6
    assert_same(first, [0], [3 * RECORD_WEIGHT])
    assert_same(second, [1], [3 * RECORD_WEIGHT])


def test_people_have_the_weights_that_they_had_in_order(rng):
    """What the number of a person's rows does not divide stays with the same row."""
    grid = make_grid([(-INF, INF)], 24)
    values, labels = rng.normal(size=(600, 1)), pd.Series(rng.integers(0, 90, size=600))
    expected = summary_of_people(values, labels, np.arange(600), grid)
    order = rng.permutation(600)
    moved = summary_of_people(values[order], labels.take(order), order, grid)
    assert moved.n_records == expected.n_records == labels.nunique()
    (summary,) = expected.summaries
    assert_same(moved.summaries[0], summary.cells, summary.weights)


def test_ranges_of_a_summary_are_put_together_again(rng):
    for resolution, bounds in [(24, (-INF, INF)), (40, (0.0, 9.0)), (3, (0.0, 9.0))]:
        grid = make_grid([bounds], resolution)
        summary = summary_of(rng.lognormal(size=5000), grid, 0)
        ranges = dict(ranges_of_summary(summary, grid, 0))
        assert len(ranges) > 3 and max(ranges) < MOST_RANGES
        assert list(ranges) == sorted(ranges)
        assert_same(summary_of_ranges(ranges.values()), summary.cells, summary.weights)
    assert list(ranges_of_summary(EMPTY_SUMMARY, grid, 0)) == []
    assert_same(summary_of_ranges([]), [], [])


@pytest.mark.parametrize("with_weights", [False, True])
@pytest.mark.parametrize("least_pending", [0, 50, 10**6])
@pytest.mark.parametrize("occupied", [2, 32, 2**30])
@pytest.mark.parametrize("resolution", [8, 12, 40])
def test_builder_equals_the_summary_of_the_whole(
    least_pending, occupied, resolution, with_weights, monkeypatch, rng
):
    """With and without a table, with many and with few merges."""
    monkeypatch.setattr(summaries_module, "_LEAST_PENDING", least_pending)
    monkeypatch.setattr(summaries_module, "_OCCUPIED_SHARE_OF_TABLE", occupied)
    grid = make_grid([(-3.0, 3.0), (-3.0, INF)], resolution)
    for column in (0, 1):
        builder = SummaryBuilder(grid, column)
        values = rng.normal(size=1500)
        values[::9] = np.nan
        weights = rng.integers(1, RECORD_WEIGHT, values.size)
        whole = RECORD_WEIGHT + 0 * weights
        for part in np.split(np.arange(values.size), [0, 1, 2, 500, 501, 1200]):
            if with_weights and part.size != 1:  # batches of both kinds
                builder.add(values[part], weights[part])
                whole[part] = weights[part]
            else:
                builder.add(values[part])
        assert_same(builder.summary(), *reference(values, grid, column, whole))
        builder.add(np.array([0.1, np.nan]))  # asking changes nothing
        more = [*values, 0.1], grid, column, [*whole, RECORD_WEIGHT]
        assert_same(builder.summary(), *reference(*more))


def test_builder_turns_to_a_table_only_where_a_table_is_small_and_well_used(rng):
    values = rng.normal(size=2**17)
    for resolution, expected in ((20, True), (24, False), (40, False)):
        builder = SummaryBuilder(make_grid([(-3.0, 3.0)], resolution), 0)
        builder.add(values)
        assert (builder._table is not None) == expected


def test_builder_does_not_change_or_keep_what_it_is_given(rng):
    values = rng.normal(size=1000)
    before = values.copy()
    grid = make_grid([(-INF, INF)])
    builder = SummaryBuilder(grid, 0)
    builder.add(values)
    assert np.array_equal(values, before)
    values[:] = 0
    assert_same(builder.summary(), *reference(before, grid, 0))


def test_builder_keeps_few_parts_of_small_batches():
    """Small segments of many batches, also those without rows, do not fill the memory."""
    builder = SummaryBuilder(make_grid([(-INF, INF)]), 0)
    for number in range(5_000):
        builder.add(np.ones(number % 2))
    assert len(builder._pending) <= 2**11 + 1
    assert builder.summary().weights.tolist() == [2_500 * RECORD_WEIGHT]


def test_builder_of_nothing():
    assert_same(SummaryBuilder(make_grid([(-INF, INF)]), 0).summary(), [], [])


def built_in_batches(counts, grid, n_batches):
    """The summary of a dataset with its records divided among batches."""
    cells = np.repeat(np.arange(int(grid.end[0])), counts)
    records = grid.lower_edges(cells, 0)
    builder = SummaryBuilder(grid, 0)
    for index in range(n_batches):
        builder.add(records[index::n_batches])
    return builder.summary()


def draws_in_batches(all_counts, grid, n_batches, quantiles, eps):
    """The exact distributions of AQ for datasets that came in batches."""
    summaries = [built_in_batches(counts, grid, n_batches) for counts in all_counts]
    ranks = WeightedRanks.of_summaries(summaries, grid[np.zeros(len(summaries), dtype=int)])
    return aq_draws(ranks, quantiles, Budget(eps, "eps"))


@pytest.mark.parametrize("n_batches", [1, 2, 5])
@pytest.mark.parametrize("quantiles", [[0.5], [0.02], [0.7, 0.71], [0.25, 0.5, 0.75]])
@pytest.mark.parametrize("eps", [0.3, 3.0])
def test_every_neighbour_and_every_output_is_within_eps_through_batches(quantiles, eps, n_batches):
    counts, pairs = with_neighbours(datasets(3, 2))
    draws = draws_in_batches(counts, tiny_grid(3, 2), n_batches, quantiles, eps)
    assert worst_eps(draws, pairs, any_measure=True) <= eps


def test_the_enumeration_through_batches_would_betray_a_record_that_is_counted_twice():
    counts, pairs = with_neighbours(datasets(3, 2))
    twice = [tuple(2 * count for count in dataset) for dataset in counts]
    draws = draws_in_batches(twice, tiny_grid(3, 2), 2, [0.5], 1.0)
    assert worst_eps(draws, pairs, any_measure=True) > 1.5


def test_distribution_through_batches_is_that_of_the_column():
    grid, budget = tiny_grid(3, 2), Budget(1.0, "eps")
    of_ranks = functools.partial(aq_distribution, quantiles=[0.2, 0.9], budget=budget)
    for counts in datasets(3, 2):
        of_batches = of_ranks(WeightedRanks.of_summaries([built_in_batches(counts, grid, 3)], grid))
        assert of_ranks(column_of(counts, grid)) == of_batches
