"""Summaries: however a column is divided, its counts are those of the whole."""

import functools
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.engine import summaries as summaries_module
from dpq_sklearn.engine.grid import BoundedGrid, UnboundedGrid
from dpq_sklearn.engine.summaries import (
    MOST_RECORDS,
    Summary,
    SummaryBuilder,
    empty_summary,
    merge,
    merge_columns,
    ranks_of_summary,
    summarize,
    with_resolution,
)
from tests.enumeration import (
    aq_distribution,
    column_of,
    neighbour_pairs,
    tiny_grid,
    worst_log_ratio,
)

GRIDS = [
    UnboundedGrid(),
    UnboundedGrid(2**24),
    UnboundedGrid(2),
    BoundedGrid(-1.0, 1.0),
    BoundedGrid(0.0, 40.0, 8, 4),
]
columns = st.lists(
    st.one_of(st.floats(allow_nan=True), st.sampled_from([0.0, 1.0, 2.0, 37.0])), max_size=40
)


def summary_of(values, grid):
    return summarize(np.array(values, dtype=np.float64), grid)


def reference(values, grid):
    """Cells and counts by NumPy's own means."""
    values = np.array([value for value in values if value == value], dtype=np.float64)
    return np.unique(grid.cells_of(values), return_counts=True)


def assert_same(summary, cells, counts):
    assert summary.cells.dtype == summary.counts.dtype == np.int64
    assert np.array_equal(summary.cells, cells)
    assert np.array_equal(summary.counts, counts)


@pytest.fixture(params=["tables", "sorting", "both"])
def ways(request, monkeypatch):
    """Force each of the ways to count: they must agree."""
    if request.param == "tables":
        monkeypatch.setattr(summaries_module, "_TABLE_PER_ENTRY", 2**16)
    elif request.param == "sorting":
        monkeypatch.setattr(summaries_module, "_TABLE_PER_ENTRY", 0)


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
@given(values=columns)
def test_summary_counts_the_records_of_each_cell(grid, values):
    assert_same(summary_of(values, grid), *reference(values, grid))


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
@given(one=columns, two=columns, three=columns)
def test_merge_is_associative_and_commutative_and_has_a_neutral_element(grid, one, two, three):
    a, b, c = (summary_of(values, grid) for values in (one, two, three))
    whole = reference([*one, *two, *three], grid)
    assert_same(merge(a, merge(b, c)), *whole)
    assert_same(merge(merge(a, b), c), *whole)
    for order in itertools.permutations((a, b, c)):
        assert_same(merge(*order), *whole)
    assert_same(merge(a, empty_summary()), a.cells, a.counts)
    assert_same(merge(), [], [])


def test_all_ways_to_count_and_to_merge_agree(ways, rng):
    grid = BoundedGrid(0.0, 1.0, 2**12)
    parts = [rng.beta(2, 5, size=size) for size in (1, 10, 1000, 0, 300)]
    summaries = [summarize(part, grid) for part in parts]
    assert_same(merge(*summaries), *reference(np.concatenate(parts), grid))


def test_counts_of_the_same_cell_add_up_to_large_numbers():
    large = Summary(np.array([3, 5]), np.array([2**38, 1]))
    assert_same(merge(large, large, large), [3, 5], [3 * 2**38, 3])


@pytest.mark.parametrize("largest", [0, 255, 256, 2**16, 2**31, 2**40 - 1])
def test_pickles_are_small_and_exact(largest):
    summary = Summary(np.arange(1000) + largest, np.full(1000, largest))
    restored = pickle.loads(pickle.dumps(summary))
    assert_same(restored, summary.cells, summary.counts)
    assert len(pickle.dumps(summary)) < 1000 * (8 if largest < 2**31 else 16) + 1000
    assert_same(pickle.loads(pickle.dumps(empty_summary())), [], [])


def test_merge_columns_merges_column_by_column():
    grid = tiny_grid(4, 1)
    parts = [[summary_of([0.5], grid), summary_of([1.5], grid)] for _ in range(3)]
    first, second = merge_columns(parts)
    assert_same(first, [0], [3])
    assert_same(second, [1], [3])


@pytest.mark.parametrize("resolution", [1, 8, 13, 40])
@pytest.mark.parametrize("grid", [UnboundedGrid(), BoundedGrid(-0.1, 0.7)], ids=repr)
def test_coarse_cells_are_unions_of_fine_ones(grid, resolution, rng):
    values = np.concatenate((rng.normal(size=1000), 10.0 ** rng.uniform(-15, 21, size=1000)))
    coarse = with_resolution(grid, resolution)
    assert coarse.positions_per_cell == grid.positions_per_cell
    assert np.array_equal(coarse.cells_of(values), grid.cells_of(values) >> (40 - resolution))


@pytest.mark.parametrize("least_pending", [0, 50, 10**6])
@pytest.mark.parametrize("occupied", [2, 32, 2**30])
@pytest.mark.parametrize("n_cells", [2**8, 2**12, 2**40])
def test_builder_equals_the_summary_of_the_whole(
    least_pending, occupied, n_cells, monkeypatch, rng
):
    """With and without a table, with many and with few merges."""
    monkeypatch.setattr(summaries_module, "_LEAST_PENDING", least_pending)
    monkeypatch.setattr(summaries_module, "_OCCUPIED_SHARE_OF_TABLE", occupied)
    grid = BoundedGrid(-3.0, 3.0, n_cells)
    builder = SummaryBuilder(grid)
    values = rng.normal(size=2000)
    values[::9] = np.nan
    for part in np.split(values, [0, 1, 2, 500, 501, 1500]):
        builder.add(part)
    assert_same(builder.summary(), *reference(values, grid))
    builder.add(np.array([0.1, np.nan]))  # asking changes nothing
    assert_same(builder.summary(), *reference([*values, 0.1], grid))


def test_builder_turns_to_a_table_only_where_a_table_is_small_and_well_used(rng):
    values = rng.normal(size=2**17)
    for n_cells, expected in ((2**20, True), (2**24, False), (2**40, False)):
        builder = SummaryBuilder(BoundedGrid(-3.0, 3.0, n_cells))
        builder.add(values)
        assert (builder._table is not None) == expected


def test_builder_does_not_change_or_keep_what_it_is_given(rng):
    values = rng.normal(size=1000)
    before = values.copy()
    builder = SummaryBuilder(UnboundedGrid())
    builder.add(values)
    assert np.array_equal(values, before)
    values[:] = 0
    assert_same(builder.summary(), *reference(before, UnboundedGrid()))


def test_builder_of_nothing():
    assert_same(SummaryBuilder(UnboundedGrid()).summary(), [], [])


def test_ranks_beyond_the_integers_are_refused():
    with pytest.raises(OverflowError, match="at most"):
        ranks_of_summary(Summary(np.array([1]), np.array([MOST_RECORDS])), UnboundedGrid())
    ranks_of_summary(Summary(np.array([1]), np.array([MOST_RECORDS - 1])), UnboundedGrid())


def built_in_batches(counts, grid, n_batches):
    """The ranks of a dataset whose records were dealt out to batches."""
    middles = grid.middles(np.arange(grid.n_cells))
    records = np.repeat(middles, counts)
    builder = SummaryBuilder(grid)
    for index in range(n_batches):
        builder.add(records[index::n_batches])
    return ranks_of_summary(builder.summary(), grid)


@pytest.mark.parametrize("n_batches", [1, 2, 5])
@pytest.mark.parametrize("quantiles", [[0.5], [0.02], [0.7, 0.71], [0.25, 0.5, 0.75]])
@pytest.mark.parametrize("eps", [0.3, 3.0])
def test_every_neighbour_and_every_output_is_within_eps_through_batches(quantiles, eps, n_batches):
    grid, budget = tiny_grid(3, 2), Budget(eps, "eps")

    @functools.cache
    def exact(counts):
        return aq_distribution(built_in_batches(counts, grid, n_batches), quantiles, budget)

    pairs = neighbour_pairs(grid.n_cells, 3)
    assert max(worst_log_ratio(exact(one), exact(other)) for one, other in pairs) <= eps


def test_the_enumeration_through_batches_would_betray_a_record_that_is_counted_twice():
    grid, budget = tiny_grid(4, 2), Budget(1.0, "eps")

    def exact(counts):
        ranks = built_in_batches(tuple(2 * count for count in counts), grid, 2)
        return aq_distribution(ranks, [0.5], budget)

    pairs = neighbour_pairs(grid.n_cells, 2)
    assert max(worst_log_ratio(exact(one), exact(other)) for one, other in pairs) > 1.0


def test_distribution_through_batches_is_that_of_the_column():
    grid, budget = tiny_grid(3, 2), Budget(1.0, "eps")
    for counts in itertools.product(range(3), repeat=3):
        of_column = aq_distribution(column_of(counts, grid), [0.2, 0.9], budget)
        of_batches = aq_distribution(built_in_batches(counts, grid, 3), [0.2, 0.9], budget)
        assert of_column == of_batches
