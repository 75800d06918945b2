"""The grid is monotone, inverts itself, and knows nothing but the value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpq_sklearn._grid import BoundedGrid, UnboundedGrid, make_grid, shortest_decimals

GRIDS = [
    UnboundedGrid(),
    UnboundedGrid(16, 2),
    BoundedGrid(-100.0, 100.0),
    BoundedGrid(0.0, 1e-300),
    BoundedGrid(-1e300, 1e300),
    BoundedGrid(0.0, 3.0, 3, 2),
    BoundedGrid(1e15, 1e15 + 4),
]
finite = st.floats(allow_nan=False, allow_infinity=True)


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
@given(values=st.lists(finite, min_size=2, max_size=20))
def test_cells_are_on_the_grid_and_monotone(grid, values):
    cells = grid.cells_of(np.sort(np.array(values)))
    assert cells.dtype == np.int64
    assert cells.min() >= 0 and cells.max() < grid.n_cells
    assert np.all(np.diff(cells) >= 0)


@given(st.floats(-1.8e19, 1.8e19), st.integers(-3, 3))
def test_unbounded_cells_are_monotone_from_one_float_to_the_next(value, steps):
    grid = UnboundedGrid()
    other = value
    for _ in range(abs(steps)):
        other = np.nextafter(other, np.inf * np.sign(steps))
    low, high = sorted((value, other))
    cells = grid.cells_of(np.array([low, high]))
    assert cells[0] <= cells[1] <= cells[0] + 1


@given(st.integers(0, UnboundedGrid().n_cells - 2))
def test_unbounded_lower_edge_is_where_the_cell_begins(cell):
    grid = UnboundedGrid()
    edge = grid.lower_edges(np.array([cell]))
    outside = np.nextafter(edge, -np.inf)
    assert grid.cells_of(edge)[0] == cell
    assert grid.cells_of(outside)[0] in (cell - 1, 0)


@pytest.mark.parametrize("grid", [UnboundedGrid(), BoundedGrid(-100.0, 100.0)], ids=repr)
@given(share=st.floats(0, 1, exclude_max=True))
def test_middle_lies_in_its_cell(grid, share):
    cells = np.array([int(share * grid.n_cells)])
    assert grid.cells_of(grid.middles(cells)) == cells


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
@given(share=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=8))
def test_released_numbers_are_finite_ascending_and_inside_the_cell(grid, share):
    cells = np.sort((np.array(share) * grid.n_cells).astype(np.int64))
    values = shortest_decimals(grid, cells)
    assert np.isfinite(values).all() and np.all(np.diff(values) >= 0)
    if grid.n_cells == 2**40 and grid != BoundedGrid(1e15, 1e15 + 4):
        assert np.array_equal(grid.cells_of(values), cells)


@given(st.floats(1e-9, 1e12), st.integers(1, 9))
def test_a_number_of_few_digits_is_found_again(value, digits):
    """What people write down: nine digits at most are told apart by the unbounded grid."""
    grid = UnboundedGrid()
    value = float(f"{value:.{min(digits, 3 if value < 1e-3 else digits) - 1}e}")
    for number in (value, -value):
        assert shortest_decimals(grid, grid.cells_of(np.array([number])))[0] == number


def test_zero_is_exactly_zero_and_shares_no_cell_with_negative_numbers():
    grid = UnboundedGrid()
    zero = grid.cells_of(np.array([0.0, -0.0, 5e-324]))
    assert np.all(zero == grid.n_cells // 2)
    assert shortest_decimals(grid, zero[:1])[0] == 0.0
    assert grid.cells_of(np.array([-1e-3]))[0] < zero[0]


@pytest.mark.parametrize("value", [37.0, 1999.99, -0.25, 1e18, 2.0**63, 1.7e18, 123456789.0])
def test_everyday_numbers_survive(value):
    grid = UnboundedGrid()
    found = shortest_decimals(grid, grid.cells_of(np.array([value])))[0]
    assert found == pytest.approx(value, rel=1e-9)


def test_infinities_and_giants_are_clipped_to_the_ends():
    values = np.array([-np.inf, -1e300, 1e300, np.inf])
    for grid in (UnboundedGrid(), BoundedGrid(-1.0, 1.0)):
        last = grid.n_cells - 1
        assert grid.cells_of(values).tolist() == [0, 0, last, last]


def test_bounds_are_the_ends_of_the_bounded_grid():
    grid = make_grid((-3, 17.5))
    assert shortest_decimals(grid, np.array([0, grid.n_cells - 1])).tolist() == [-3.0, 17.5]


@pytest.mark.parametrize(
    "bounds",
    [(1, 1), (2, 1), (0, np.inf), (np.nan, 1), (0,), (0, 1, 2), "01", ("0", "1"), 5, (True, 2),
     (-1e308, 1e308), (None, 1)],
)  # fmt: skip
def test_impossible_bounds_raise_and_are_shown(bounds):
    with pytest.raises(ValueError, match="bounds must be None or a pair") as error:
        make_grid(bounds)
    assert repr(bounds) in str(error.value)
