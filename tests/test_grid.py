"""The grid is monotone, inverts itself, and knows nothing but the value."""

import sys
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpq_sklearn.checks import checked_bounds
from dpq_sklearn.engine.grid import (
    FULL_RESOLUTION,
    MOST_MEASURE,
    POSITIONS_PER_CELL,
    make_grid,
)
from dpq_sklearn.releases.values import shortest_decimals
from tests.enumeration import tiny_grid

INF, LARGEST = np.inf, sys.float_info.max
BOUNDS = [
    (-INF, INF),
    (0.0, INF),
    (-INF, 100.0),
    (-3.5, INF),
    (-100.0, 100.0),
    (0.0, 120.0),
    (1e9, 1e9 + 1),
    (-1e9 - 1, -1e9),
    (1e15, 1e15 + 4),
    (0.0, 1e-20),
    (-1e-300, 1e-290),
    (-1e300, 1e300),
    (-8e307, 8e307),
    (1e308, LARGEST),
    (-LARGEST, -1e308),
    (-5e-324, 5e-324),
]
# All of them as the columns of one grid, and coarser.
GRIDS = {"fine": make_grid(BOUNDS), "coarse": make_grid(BOUNDS, 24), "few": make_grid(BOUNDS, 4)}
with_column = pytest.mark.parametrize("column", range(len(BOUNDS)), ids=map(str, BOUNDS))
of_all_grids = pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
floats = st.floats(allow_nan=False, allow_infinity=True)
# Overflows are as quiet as in a release.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def some_floats(grid, column):
    """Floats of all sizes inside and outside the bounds, each with a few that are next to it."""
    rng = np.random.default_rng(column)
    low, high = grid.low[column], grid.high[column]
    cells = rng.integers(grid.first[column], grid.end[column], 300)
    values = [low, high, 0.0, -0.0, 5e-324, -5e-324, 1.0, -1.0, 2.0**-10, -(2.0**-10), INF, -INF]
    values = [*values, *low + (high / 2 - low / 2) * rng.random(100) * 2]
    edges = grid.lower_edges(np.array((cells, cells + 1)), column)
    values = np.array([*values, *edges[0], *edges.mean(axis=0)])
    values = np.concatenate((values, 10.0 ** rng.uniform(-320, 308, 100)))
    values = np.concatenate((values, -values))
    for _ in range(3):
        values = np.concatenate((values, np.nextafter(values, INF), np.nextafter(values, -INF)))
    return np.unique(values)


@with_column
@of_all_grids
def test_cells_are_on_the_grid_and_monotone_from_one_float_to_the_next(grid, column):
    values = some_floats(grid, column)
    cells = grid.cells_of(values, column)
    assert cells.dtype == np.int64
    assert cells[0] == grid.first[column] and cells[-1] == grid.end[column] - 1
    steps = np.diff(cells)
    assert np.all(steps >= 0)
    are_neighbours = np.nextafter(values[:-1], INF) == values[1:]
    assert np.all(steps[are_neighbours] <= 1)


@with_column
@of_all_grids
def test_lower_edge_is_the_least_value_of_its_cell(grid, column):
    """So the values below an edge are the values in the cells before it."""
    values = some_floats(grid, column)
    values = values[(values >= grid.low[column]) & (values <= grid.high[column])]
    cells = grid.cells_of(values, column)
    assert np.all(values >= grid.lower_edges(cells, column))
    is_last = cells + 1 == grid.end[column]
    assert np.all((values < grid.lower_edges(cells + 1, column)) | is_last)
    inner = cells[cells > grid.first[column]]
    edges = grid.lower_edges(inner, column)
    assert np.array_equal(grid.cells_of(edges, column), inner)
    assert np.array_equal(grid.cells_of(np.nextafter(edges, -INF), column), inner - 1)


@with_column
@of_all_grids
def test_columns_of_a_grid_do_not_disturb_each_other(grid, column):
    alone, values = grid[[column]], some_floats(grid, column)
    cells = alone.cells_of(values, 0)
    assert np.array_equal(grid.cells_of(values, column), cells)
    rng = np.random.default_rng(0)
    others = rng.integers(0, len(BOUNDS), cells.size)
    columns = np.concatenate((np.full(cells.size, column), others))
    together = grid.cells_of(np.concatenate((values, values)), columns)
    assert np.array_equal(together[: cells.size], cells)
    measures = grid.measure_before(together, columns)
    assert np.array_equal(measures[: cells.size], alone.measure_before(cells, 0))
    decimals, _ = shortest_decimals(grid, together[::17], columns[::17])
    of_column, _ = shortest_decimals(alone, cells[::17], np.zeros_like(cells[::17]))
    assert np.array_equal(decimals[: of_column.size], of_column)


@with_column
def test_numbers_of_positions_and_measures_fit_into_64_bits(column):
    grid = GRIDS["fine"]
    ends = np.array([grid.first[column], grid.end[column]])
    assert np.all(np.abs(ends) <= 2**FULL_RESOLUTION + 1)
    measures = grid.measure_before(ends, column)
    assert measures[0] == 0 and ends[1] - ends[0] <= measures[1]
    assert int(measures[1]) * POSITIONS_PER_CELL < MOST_MEASURE


@with_column
@of_all_grids
def test_a_released_number_lies_in_its_cell(grid, column):
    rng, first, end = np.random.default_rng(column), grid.first[column], grid.end[column]
    cells = np.unique([first, end - 1, *rng.integers(first, end, 50)])
    values, _ = shortest_decimals(grid, cells, np.full(cells.size, column))
    assert np.isfinite(values).all() and np.all(np.diff(values) >= 0)
    assert np.array_equal(grid.cells_of(values, column), cells)
    assert np.all((grid.low[column] <= values) & (values <= grid.high[column]))


@given(st.floats(1e-9, 1e12), st.integers(1, 9))
def test_a_number_of_few_digits_is_found_again(value, digits):
    """What people write down: nine digits at most are told apart without bounds."""
    grid = GRIDS["fine"]
    value = float(f"{value:.{min(digits, 3 if value < 1e-3 else digits) - 1}e}")
    for number in (value, -value):
        assert released(grid, number) == number


def released(grid, number, column=0):
    cells = grid.cells_of(np.array([number]), column)
    return shortest_decimals(grid, cells, np.array([column]))[0][0]


def test_zero_is_exactly_zero_and_shares_no_cell_with_negative_numbers():
    grid = GRIDS["fine"]
    cells = grid.cells_of(np.array([0.0, -0.0, 5e-324, -5e-324]), 0)
    assert cells.tolist() == [0, 0, 0, -1]
    assert released(grid, 0.0) == 0.0 and not np.signbit(released(grid, -0.0))


@pytest.mark.parametrize("value", [37.0, 1999.99, -0.25, 1e18, 2.0**63, 1.7e18, 123456789.0])
def test_everyday_numbers_survive(value):
    assert released(GRIDS["fine"], value) == pytest.approx(value, rel=1e-9)


def test_bounds_are_the_ends_of_the_grid():
    grid = make_grid([(-3.0, 17.5), (1e9, 1e9 + 1)])
    assert [released(grid, x, 0) for x in (-INF, -3.0, 17.5, 1e300)] == [-3.0, -3.0, 17.5, 17.5]
    assert [released(grid, x, 1) for x in (0.0, 1e9, 1e9 + 2)] == [1e9, 1e9, 1e9 + 1]


def test_narrow_bounds_far_from_zero_tell_all_floats_apart():
    grid = make_grid([(1e9, 1e9 + 1), (1e15, 1e15 + 4)])
    values = 1e9 + np.arange(100) * 2.0**-23
    assert np.array_equal(grid.cells_of(values, 0), np.arange(100))
    assert grid.end.tolist() == [2**23 + 1, 33]


def test_relative_width_of_cells_is_small_without_bounds_and_with():
    grid = make_grid([(-INF, INF), (-1e300, 1e300), (0.0, 1.0)])
    for column, values in enumerate(([1e-2, 1.0, 1e15], [1e298, -1e299], [0.01, 0.7])):
        cells = grid.cells_of(np.array(values), column)
        edges = grid.lower_edges(np.array((cells, cells + 1)), column)
        assert np.all(np.diff(edges, axis=0)[0] / np.abs(values) < 2e-9)


@pytest.mark.parametrize("resolution", [1, 8, 13, 24, 39])
@with_column
def test_coarse_cells_are_unions_of_fine_ones(resolution, column):
    fine, coarse = GRIDS["fine"], make_grid(BOUNDS, resolution)
    n_cells = coarse.end[column] - coarse.first[column]
    assert n_cells <= 2**resolution + 1
    n_edges, rng = int(n_cells) - 1, np.random.default_rng(column)
    inner = np.arange(n_edges) if n_edges < 300 else rng.integers(0, n_edges, 300)
    edges = coarse.lower_edges(coarse.first[column] + 1 + inner, column)
    before = fine.cells_of(np.array((edges, np.nextafter(edges, -INF))), column)
    assert np.all(before[0] == before[1] + 1)


@pytest.mark.parametrize("resolution", [0, 41, -3])
def test_impossible_resolutions_raise(resolution):
    with pytest.raises(ValueError, match="resolution must be an integer from 1 to 40"):
        make_grid([(0.0, 1.0)], resolution)


@pytest.mark.parametrize(
    "bounds",
    [(1, 1), (2, 1), (0, INF), (np.nan, 1), (0,), (0, 1, 2), "01", ("0", "1"), 5, (True, 2),
     (-1e308, 1e308), (None, INF), (10**400, None), (1e30, None), (None, -(2.0**64))],
    ids=str,
)  # fmt: skip
def test_impossible_bounds_raise_and_are_shown(bounds):
    with pytest.raises(ValueError, match=r"bounds must (be None or a pair|have)") as error:
        checked_bounds(bounds)
    assert str(error.value).endswith(f"got {bounds!r}.")


def test_one_bound_may_be_missing():
    assert checked_bounds((0, None)) == (0.0, INF)
    assert checked_bounds([None, np.float32(2)]) == (-INF, 2.0)
    assert checked_bounds((None, None)) == (-INF, INF)


@pytest.mark.parametrize("bounds", [(0.0, 1e18), (0.0, 1e300), (-1e300, 1e300), (1.0, 1e300)])
def test_everyday_numbers_have_cells_of_their_own_between_far_bounds(bounds):
    grid = make_grid([bounds])
    numbers = np.array([1.5, 37.0, 37.001, 22_000.0])
    cells = grid.cells_of(numbers, 0)
    assert np.all(np.diff(cells) > 1000)
    np.testing.assert_allclose(grid.lower_edges(cells, 0), numbers, rtol=1e-8)


# Measures


def measure_of(grid, cells, column):
    cells = np.asarray(cells)
    return grid.measure_before(cells + 1, column) - grid.measure_before(cells, column)


@with_column
@of_all_grids
def test_every_cell_has_a_measure(grid, column):
    cells = np.unique(grid.cells_of(some_floats(grid, column), column))
    assert np.all(measure_of(grid, cells, column) >= 1)
    before = grid.measure_before(cells, column)
    assert np.all(np.diff(before) >= np.diff(cells))


def test_tiny_grid_of_the_enumeration_is_even():
    grid = tiny_grid(7, 2)
    assert measure_of(grid, np.arange(7), 0).tolist() == [1] * 7
    assert grid.cells_of(np.array([0.0, 0.9, 1.0, 6.4, 100.0]), 0).tolist() == [0, 0, 1, 6, 6]


@pytest.mark.parametrize(
    ("bounds", "resolution", "rounder", "rough"),
    [
        ((-INF, INF), 40, [37.0, 0.25, -7.5, 1e6, 0.0, 0.003, 1999.0, 0.1], [37.0001, 0.251323]),
        ((0.0, INF), 40, [37.0, 0.25, 1e6, 0.0, 1999.0, 0.1], [37.0001, 0.251323, 1000001.3]),
        ((0.0, 120.0), 40, [37.0, 0.5, 120.0], [37.0001, 36.99995]),
        ((-1e4, 1e4), 40, [-7.5, 9999.99, -1e4], [9999.99013]),
        ((-INF, INF), 24, [37.0, -0.5, 1e6], [3.7123]),
        ((1e9, 1e9 + 1), 40, [1e9, 1e9 + 0.5], [1e9 + 0.123456]),
    ],
    ids=str,
)
def test_round_numbers_have_more_measure_the_rounder_they_are(bounds, resolution, rounder, rough):
    grid = make_grid([bounds], resolution)

    def measure(number):
        return measure_of(grid, grid.cells_of(np.array([number]), 0), 0)[0]

    assert min(map(measure, rounder)) > 5 * max(map(measure, rough))
    if grid.low[0] < np.pi < grid.high[0]:
        assert measure(np.pi) == 1
        assert measure(30.0) > measure(37.0) or measure(30.0) == measure(37.0) > measure(37.5)


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [
        ("20240101", "20241231", "1"),
        ("1700000000", "1700086400", "1"),
        ("1700000000000", "1700086400000", "1000"),
        ("2000", "2001", "0.01"),
        ("100000", "100100", "1"),
        ("0.1", "0.3", "0.01"),
        ("0.07", "1.07", "0.01"),
        ("0", "1", "0.0001"),
        ("-3", "17.5", "0.25"),
        ("-inf", "inf", "0.25"),
    ],
)
def test_round_numbers_are_in_the_cells_that_have_their_measure(low, high, step):
    grid = make_grid([(float(low), float(high))])
    low, high = (Decimal("-50"), Decimal("50")) if low == "-inf" else (Decimal(low), Decimal(high))
    step = Decimal(step)
    values = np.array([float(low + i * step) for i in range(int((high - low) / step) + 1)])
    assert measure_of(grid, grid.cells_of(values, 0), 0).min() > 1


def cells_at(grid, first, last, units, column):
    """Call `cells_at` as a draw does, with the same ends and column for all units."""
    return grid.cells_at(*(np.full(units.size, same) for same in (first, last)), units,
                         np.full(units.size, column))  # fmt: skip


def counts_of_cells_at(grid, column, first, last):
    """How many units of measure `cells_at` gives to each of the cells in [first, last).

    Units of one multiple of a power of ten are equal: their first and their last one are asked.
    """
    begin, end = (int(n) for n in grid._serials_before(np.array([first, last]), column))
    lengths = [1] * (last - first)
    measures = grid._round_numbers.measures[:, column].tolist()
    for power, measure in zip(grid._round_numbers.powers.tolist(), measures, strict=True):
        n_multiples = end // power - begin // power
        lengths += [measure] * (n_multiples if measure else 0)
    starts = np.cumsum([0, *lengths])
    found = [cells_at(grid, first, last, asked, column) for asked in (starts[:-1], starts[1:] - 1)]
    assert np.array_equal(*found) and found[0].min() >= first and found[0].max() < last
    counts = np.zeros(last - first, dtype=np.int64)
    np.add.at(counts, found[0] - first, np.array(lengths))
    return counts


@pytest.mark.parametrize("resolution", [8, 11, 13])
@with_column
def test_measures_of_a_whole_grid_are_found_unit_by_unit(resolution, column):
    grid = make_grid(BOUNDS, resolution)
    first, last = int(grid.first[column]), int(grid.end[column])
    measures = measure_of(grid, np.arange(first, last), column)
    assert np.array_equal(counts_of_cells_at(grid, column, first, last), measures)
    total = int(measures.sum())
    found = cells_at(grid, first, last, np.arange(total), column)
    assert np.array_equal(np.bincount(found - first, minlength=last - first), measures)


@pytest.mark.slow
@settings(max_examples=60)
@with_column
@given(data=st.data())
def test_measures_of_a_run_of_cells_are_found_unit_by_unit(column, data):
    grid = GRIDS[data.draw(st.sampled_from(["fine", "coarse"]))]
    number = data.draw(
        st.one_of(st.sampled_from([0.0, 0.5, 1.0, -0.25, 7.0, 1e9 + 0.5, 1e15, -1e299]), floats)
    )
    middle = int(grid.cells_of(np.array([number]), column)[0])
    first = max(middle - data.draw(st.integers(0, 3)), int(grid.first[column]))
    last = min(middle + data.draw(st.integers(1, 300)), int(grid.end[column]))
    measures = measure_of(grid, np.arange(first, last), column)
    assert np.array_equal(counts_of_cells_at(grid, column, first, last), measures)


@pytest.mark.parametrize("bounds", [(-INF, INF), (0.0, 1.0), (1e9, 1e9 + 1), (1.7e9, 1.7e9 + 1e5)])
def test_a_round_number_one_bit_from_the_edge_of_its_cell_goes_where_its_measure_is(bounds, rng):
    """Where cells are as fine as floats, a number may lie beside the cell with its measure."""
    grid = make_grid([bounds])
    ends = grid._serials_before(np.array([grid.first[0], grid.end[0]]), 0)
    numbers = rng.integers(*ends, 3000) + 1
    numbers = np.append(numbers, 3_539_844_395) if bounds == (0.0, 1.0) else numbers
    cells = grid._cells_of_serials(numbers, np.zeros_like(numbers))
    assert np.all(grid._serials_before(cells, 0) < numbers)
    assert np.all(grid._serials_before(cells + 1, 0) >= numbers)
