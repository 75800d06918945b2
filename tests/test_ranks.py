"""Ranks of numbers and of summaries agree with counting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpq_sklearn.engine.exponential import rank_intervals
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.lazy_columns import LazyColumns
from dpq_sklearn.engine.ranks import (
    MOST_RECORDS,
    RECORD_WEIGHT,
    first_at_least,
)
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.engine.weighted_ranks import WeightedRanks
from dpq_sklearn.reading.summaries import Summary, summarize
from tests.enumeration import around_cells, middle_rank, tiny_grid, whole_node

INF = np.inf
numbers = st.one_of(
    st.floats(allow_nan=True),
    st.sampled_from([0.0, -0.0, 5e-324, -1e-3, 1.0, 2.0, 37.0, np.nan, INF, -INF]),
)
tables = st.integers(0, 30).flatmap(
    lambda n_rows: st.lists(
        st.lists(numbers, min_size=n_rows, max_size=n_rows), min_size=1, max_size=4
    )
)
some_bounds = st.sampled_from(
    [(-INF, INF), (-1.0, 1.0), (0.0, INF), (-INF, 1.0), (0.0, 40.0), (-1e300, 1e300)]
)


def run_in_turn(function, arguments):
    return list(map(function, arguments))


def sources(table, bounds, resolution):
    """All kinds of ranks, and the ascending cells of the records of each column."""
    grid = make_grid(bounds, resolution)
    values = np.array(table, dtype=float).reshape(len(table), -1)
    summaries = [summarize(row, grid, column) for column, row in enumerate(values)]
    cells = [
        np.sort(grid.cells_of(row[~np.isnan(row)], column)) for column, row in enumerate(values)
    ]
    return (
        SortedRanks.of_rows(np.sort(values), grid),
        SortedRanks(LazyColumns.of_arrays(list(values), run_in_turn), grid),
        WeightedRanks.of_summaries(summaries, grid),
    ), cells


@given(table=tables, data=st.data(), resolution=st.sampled_from([2, 8, 24, 40]))
def test_columns_and_summaries_are_counts(table, data, resolution):
    """Ties, NaN, infinities, empty columns; other bounds for each column; in any shape."""
    bounds = [data.draw(some_bounds) for _ in table]
    kinds, cells = sources(table, bounds, resolution)
    n_rows, grid = len(table[0]), kinds[0].grid
    columns = np.array(data.draw(st.lists(st.integers(0, len(table) - 1), max_size=8)), dtype=int)
    asked = data.draw(st.lists(st.integers(0, (n_rows + 1) * RECORD_WEIGHT), max_size=5))
    asked = np.array([*asked, 0, n_rows * RECORD_WEIGHT, RECORD_WEIGHT - 1, RECORD_WEIGHT])
    for ranks in kinds:
        assert ranks.total_weights.tolist() == [RECORD_WEIGHT * of_one.size for of_one in cells]
        found = ranks.locate(columns[:, None], asked)
        assert all(array.shape == (columns.size, asked.size) for array in found)
        for row, column in enumerate(columns):
            of_one = cells[column]
            for col, weight in enumerate(asked):
                here = (int(array[row, col]) for array in found)
                if of_one.size == 0:
                    assert tuple(here) == (grid.first[column], 0, 0)
                    continue
                cell = of_one[min(weight // RECORD_WEIGHT, of_one.size - 1)]
                counts = np.searchsorted(of_one, cell), np.searchsorted(of_one, cell + 1)
                assert tuple(here) == (cell, *(RECORD_WEIGHT * count for count in counts))
    for column, of_one in enumerate(cells):
        around = np.unique(np.concatenate((of_one, of_one + 1, [grid.first[column]])))
        around = around[around < grid.end[column]]
        before, behind = (
            RECORD_WEIGHT * np.searchsorted(of_one, around + further) for further in (0, 1)
        )
        for ranks in kinds:
            found = around_cells(ranks, np.full(around.size, column), around)
            assert np.array_equal(found, (before, behind))
            assert np.array_equal(ranks.weights_below(column, around), before)
            assert ranks.weights_below(column, grid.end[column : column + 1]) == (
                of_one.size * RECORD_WEIGHT
            )


def test_some_of_the_columns_have_the_ranks_that_they_have_among_all(rng):
    table = np.round(rng.normal(size=(4, 50)), 1)
    table[1, :20] = table[3] = np.nan
    bounds = [(-INF, INF), (0.0, 1.0), (-1.0, INF), (0.0, 5.0)]
    columns, asked = np.array([[1], [0]]), np.arange(0, 50) * RECORD_WEIGHT
    for ranks in sources(table, bounds, 40)[0]:
        part = ranks.of_columns([3, 1])
        assert np.array_equal(part.total_weights, ranks.total_weights[[3, 1]])
        found = part.locate(columns, asked)
        assert np.array_equal(found, ranks.locate(np.array([[1], [3]]), asked))


@given(st.lists(st.integers(0, 3 * RECORD_WEIGHT), min_size=1, max_size=12), st.data())
def test_weights_of_cells_add_up(weights, data):
    """Weights need not be whole records, and a cell may have none."""
    grid = tiny_grid(12, 2)
    summary = Summary(np.arange(len(weights)), np.array(weights))
    ranks = WeightedRanks.of_summaries([summary], grid)
    below = np.cumsum([0, *weights])
    zero = np.zeros(1, dtype=int)
    for cell in range(len(weights)):
        around = around_cells(ranks, zero, np.array([cell]))
        assert (around[0][0], around[1][0]) == (below[cell], below[cell + 1])
    weight = data.draw(st.integers(0, int(below[-1])))
    cell, before, behind = (int(found[0]) for found in ranks.locate(zero, np.array([weight])))
    assert (before, behind) == (below[cell], below[cell + 1])
    assert before <= weight < behind or weight == below[-1] == behind


def test_rank_is_spread_evenly_over_the_positions_of_the_cell():
    grid = tiny_grid(2, 4)
    ranks = WeightedRanks.of_summaries(
        [Summary(np.array([1]), np.array([2 * RECORD_WEIGHT]))], grid
    )
    middles = [middle_rank(ranks, position) / RECORD_WEIGHT for position in range(8)]
    assert middles == [0, 0, 0, 0, 1, 3, 5, 7]  # 2 records = 8 ticks, half a step at each end
    node = whole_node(ranks, 0.5, 1.0)
    low, high = rank_intervals(ranks, node, np.zeros(8, dtype=int), np.arange(8))
    assert (low / RECORD_WEIGHT).tolist() == [0, 0, 0, 0, 0, 2, 4, 6]
    assert (high / RECORD_WEIGHT).tolist() == [0, 0, 0, 0, 2, 4, 6, 8]
    leaf = whole_node(ranks, 0.5, 1.0, is_leaf=True)
    low, high = rank_intervals(ranks, leaf, np.zeros(2, dtype=int), np.arange(2))
    assert (low / RECORD_WEIGHT).tolist() == [0, 0]
    assert (high / RECORD_WEIGHT).tolist() == [0, 8]


def test_ranks_are_exact_for_very_many_records():
    grid = make_grid([(-INF, INF)])
    counts = np.array([2**33, 2**33 - 1])
    ranks = WeightedRanks.of_summaries([Summary(np.array([5, 9]), counts * RECORD_WEIGHT)], grid)
    position = 9 * grid.positions_per_cell + 1
    exact = RECORD_WEIGHT * (2**33 * grid.positions_per_cell + 3 * (2**33 - 1) // 2)
    assert abs(middle_rank(ranks, position) - exact) <= RECORD_WEIGHT // 2
    assert int(ranks.total_weights[0]) * grid.positions_per_cell < 2**62


def test_more_records_than_64_bits_can_count_are_refused():
    grid = make_grid([(0.0, 1.0), (0.0, 1.0)])
    few = Summary(np.array([1]), np.array([RECORD_WEIGHT]))
    for n, column in ((MOST_RECORDS, 0), (MOST_RECORDS, 1)):
        summaries = [few, few]
        summaries[column] = Summary(np.array([1, 2]), np.array([5, n - 5]) * RECORD_WEIGHT)
        with pytest.raises(OverflowError, match="at most 17179869183 records"):
            WeightedRanks.of_summaries(summaries, grid)
    WeightedRanks.of_summaries(
        [few, Summary(np.array([1]), np.array([(MOST_RECORDS - 1) * RECORD_WEIGHT]))], grid
    )


def test_values_one_bit_from_an_edge_are_counted_in_their_cell():
    grid = make_grid([(-0.1, 0.2), (-INF, INF)], 3)
    for column in (0, 1):
        edges = grid.lower_edges(np.arange(grid.first[column], grid.end[column]), column)
        values = [edges]
        for direction in (-INF, INF):
            near = edges
            for _ in range(3):
                near = np.nextafter(near, direction)
                values.append(near)
        values = np.sort(np.concatenate(values))
        ranks = SortedRanks.of_rows(values[None], grid[[column]])
        cells = grid.cells_of(values, column)
        for cell in range(int(grid.first[column]), int(grid.end[column])):
            before, behind = around_cells(ranks, np.array([0]), np.array([cell]))
            assert before[0] == np.count_nonzero(cells < cell) * RECORD_WEIGHT
            assert behind[0] == np.count_nonzero(cells <= cell) * RECORD_WEIGHT


@given(
    parts=st.lists(st.lists(st.integers(0, 9), max_size=9), min_size=1, max_size=5),
    wanted=st.lists(st.integers(-1, 10), max_size=10),
)
def test_search_in_many_parts_at_once(parts, wanted):
    parts = [sorted(part) for part in parts]
    keys = np.array([key for part in parts for key in part], dtype=np.int64)
    sizes = np.array([len(part) for part in parts])
    starts = np.cumsum(sizes) - sizes
    asked = np.array(wanted, dtype=np.int64)
    for part, start, size in zip(parts, starts, sizes, strict=True):
        found = first_at_least(keys, np.full(asked.size, start), np.full(asked.size, size), asked)
        assert np.array_equal(found, np.searchsorted(part, asked))
