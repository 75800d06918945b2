"""A lattice that somebody vouches for: cells are its points, and nothing lies between them."""

import numpy as np
import pytest

from dpq_sklearn.engine.grid import make_grid, units_between
from dpq_sklearn.engine.sorted_ranks import SortedRanks

INF = np.inf


def lattice(bounds=(-INF, INF), decimals=0, resolution=40):
    return make_grid([bounds], resolution, [decimals])


def cells_and_edges(grid, values):
    cells = grid.cells_of(np.asarray(values, dtype=float), 0)
    return cells, grid.lower_edges(cells, 0)


@pytest.mark.parametrize("decimals", [-3, 0, 2, 4])
@pytest.mark.parametrize("bounds", [(-INF, INF), (0.0, INF), (-5e6, 5e6)], ids=str)
def test_each_point_is_a_cell_of_measure_one(decimals, bounds):
    grid = lattice(bounds, decimals)
    units = np.array([0, 1, 2, 3, 10, 99, 100, 4321])
    values = np.array([float(f"{unit}e{-decimals}") for unit in units])
    cells, edges = cells_and_edges(grid, values)
    assert np.array_equal(cells - cells[0], units)
    assert np.array_equal(edges, values)  # 0.07, and not 0.07000000000000001
    ends = grid.measure_before(np.array((cells, cells + 1)), 0)
    assert np.all(ends[1] - ends[0] == 1)


def test_a_value_beside_the_lattice_is_rounded_to_the_nearest_point():
    grid = lattice(decimals=1)
    values = np.array([0.04, 0.06, -0.04, -0.06, 17.349, np.inf, -np.inf, np.nan])
    on_lattice = grid.on_lattices(values, 0)
    assert np.array_equal(
        on_lattice, [0.0, 0.1, 0.0, -0.1, 17.3, np.inf, -np.inf, np.nan], equal_nan=True
    )
    assert not np.signbit(on_lattice[2])
    assert np.array_equal(grid.cells_of(values[:7], 0), grid.cells_of(on_lattice[:7], 0))


@pytest.mark.parametrize(
    ("bounds", "decimals", "expected"),
    [
        ((0.0, 3.0), 0, (0, 3)),
        ((0.4, 3.6), 0, (1, 3)),
        ((-0.4, 0.4), 0, (0, 0)),
        ((1.1, 1.29), 2, (110, 129)),
        ((0.29, 0.57), 2, (29, 57)),
        ((-2500.0, 1500.0), -3, (-2, 1)),
        ((0.2, 0.4), 0, (1, 0)),
    ],
)
def test_bounds_leave_the_points_between_them(bounds, decimals, expected):
    assert units_between(*bounds, decimals) == expected


def test_between_bounds_there_are_as_many_cells_as_points():
    grid = make_grid([(1.0, 5.0), (0.0, 0.99), (1e15, 1e15 + 9)], 40, [0, 2, 0])
    assert (grid.end - grid.first).tolist() == [5, 100, 10]
    assert np.array_equal(grid.low, [1.0, 0.0, 1e15]) and np.array_equal(
        grid.high, [5.0, 0.99, 1e15 + 9]
    )


@pytest.mark.parametrize("resolution", [5, 24, 40])
@pytest.mark.parametrize(
    "bounds", [(-INF, INF), (0.0, INF), (0.0, 1e9), (-1e18, 1e18), (1e15, 2e15)], ids=str
)
def test_a_lattice_with_more_points_than_cells_is_coarser_far_from_zero(bounds, resolution):
    grid = lattice(bounds, resolution=resolution)
    n_cells = int(grid.end[0] - grid.first[0])
    assert n_cells <= 2**resolution + 2
    if bounds == (-INF, INF):
        assert n_cells > 2 ** (resolution - 2)

    values = np.array([0.0, 1.0, 12345.0, 2.0**31 + 1, 1e12 + 7, 1.5e15])
    values = values[(grid.low[0] <= values) & (values <= grid.high[0])]
    cells, edges = cells_and_edges(grid, values)
    assert np.all(edges <= values)
    assert np.all(values < grid.lower_edges(cells + 1, 0))
    if resolution >= 24:
        assert np.all((values - edges == 0) | (values > 1e5))
        assert np.all(values - edges <= 1e-5 * values)


def test_timestamps_are_not_clipped():
    grid = lattice()
    stamps = np.array([1.7e9, 1.7e12, 1.7e18])
    edges = cells_and_edges(grid, stamps)[1]
    assert np.all((edges <= stamps) & (stamps - edges < 1e-9 * stamps))


def test_a_table_may_have_lattices_beside_other_columns():
    alone = make_grid([(-INF, INF)])
    beside = make_grid([(-INF, INF), (0.0, 10.0)], 40, [None, 0])
    values = np.array([-3.7, 0.0, 1e-3, 2.5, 1e10])
    assert np.array_equal(alone.cells_of(values, 0), beside.cells_of(values, 0))
    cells = alone.cells_of(values, 0)
    assert np.array_equal(alone.lower_edges(cells, 0), beside.lower_edges(cells, 0))
    assert np.array_equal(alone.measure_before(cells, 0), beside.measure_before(cells, 0))
    assert beside.is_lattice.tolist() == [False, True]
    assert beside[[1]].is_lattice.tolist() == [True]


def test_ranks_count_what_was_rounded():
    grid = lattice((0.0, 5.0))
    values = np.array([[0.2, 0.7, 1.1, 1.4, 3.6, 9.0]])
    ranks = SortedRanks.of_rows(grid.on_lattices(values, 0), grid)
    below = ranks.weights_below(0, np.arange(7)) // (ranks.total_weights[0] // 6)
    assert below.tolist() == [0, 1, 4, 4, 4, 5, 6]
