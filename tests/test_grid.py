"""The grid is monotone, inverts itself, and knows nothing but the value."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpq_sklearn.engine.grid import (
    MOST_MASS,
    BoundedGrid,
    UnboundedGrid,
    make_grid,
    shortest_decimals,
)
from tests.enumeration import mass_before

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


WITH_MASSES = [grid for grid in GRIDS if grid._round_masses[0].size] + [
    UnboundedGrid(2**24),
    BoundedGrid(0.0, 1.0, 2**13, 2),
    BoundedGrid(-0.3, 7.77, 2**16),
]


@pytest.mark.parametrize("grid", GRIDS + WITH_MASSES, ids=repr)
@given(share=st.floats(0, 1, exclude_max=True))
def test_every_cell_has_a_mass_and_all_together_fit_into_64_bits(grid, share):
    cell = int(share * grid.n_cells)
    masses = np.diff(mass_before(grid, np.array([0, cell, cell + 1, grid.n_cells])))
    assert masses[1] >= 1 and np.all(masses >= 0)
    assert masses[1] == grid.masses(np.array([cell]))[1]
    assert int(masses.sum()) * grid.positions_per_cell < MOST_MASS
    first, last = (int(mass) for mass in mass_before(grid, np.array([0, grid.n_cells])))
    assert max(abs(first), abs(last)) * grid.positions_per_cell < MOST_MASS


@pytest.mark.parametrize(
    ("grid", "rounder", "rough"),
    [
        (UnboundedGrid(), [37.0, 0.25, -7.5, 1e6, 0.0, 0.0003], [37.01, 0.2513, 1000001.0]),
        (BoundedGrid(0.0, 120.0), [37.0, 0.5, 120.0], [37.01, 36.995]),
        (BoundedGrid(-1e4, 1e4), [-7.5, 9999.99, -1e4], [9999.9901]),
        (UnboundedGrid(2**24), [37.0, -0.5, 1e6], [3.7123]),
    ],
    ids=repr,
)
def test_round_numbers_have_more_mass_the_rounder_they_are(grid, rounder, rough):
    def mass(number):
        cell = grid.cells_of(np.array([number]))
        return (mass_before(grid, cell + 1) - mass_before(grid, cell))[0]

    assert min(map(mass, rounder)) > 5 * max(map(mass, rough))
    assert mass(np.pi) == 1
    assert mass(30.0) > mass(37.0) or mass(30.0) == mass(37.0) > mass(37.5)


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
        ("1000000000000000", "1000000000000004", "1"),
    ],
)
def test_round_numbers_are_in_the_cells_that_have_their_mass(low, high, step):
    """Also where the edges of cells are no floats, and cells are finer than floats."""
    grid = BoundedGrid(float(low), float(high))
    low, high, step = Decimal(low), Decimal(high), Decimal(step)
    values = np.array([float(low + i * step) for i in range(int((high - low) / step) + 1)])
    cells = grid.cells_of(values)
    assert (mass_before(grid, cells + 1) - mass_before(grid, cells)).min() > 1


@pytest.mark.parametrize(
    "bounds", [(0, 1e-315), (-5e-324, 5e-324), (-8e307, 8e307), (1e308, 1.1e308)]
)
def test_grids_at_the_ends_of_the_floats_have_cells_and_masses(bounds):
    grid = make_grid(bounds)
    masses = mass_before(grid, np.array([0, 1, grid.n_cells // 2, grid.n_cells]))
    assert np.all(np.diff(masses) >= 1)


@pytest.mark.parametrize("grid", WITH_MASSES, ids=repr)
@given(data=st.data())
def test_every_unit_of_mass_belongs_to_its_cell(grid, data):
    """All masses of a few cells, and of those with round numbers in a wide range."""
    number = data.draw(st.sampled_from([0.0, 0.5, 1.0, -0.25, 7.0, 1e15, 1e299]))
    middle = int(grid.cells_of(np.array([number]))[0])
    first = max(middle - data.draw(st.integers(0, 3)), 0)
    last = min(middle + data.draw(st.integers(1, 400)), grid.n_cells)
    cells = np.arange(first, last)
    masses = np.diff(mass_before(grid, np.arange(first, last + 1)))
    asked = np.unique(np.linspace(0, masses.sum() - 1, 4000).astype(np.int64))
    if masses.sum() < 100_000:
        asked = np.arange(masses.sum())
    ends = (np.full(asked.size, end) for end in (first, last))
    found = grid.cells_by_mass(*ends, asked)
    assert found.min() >= first and found.max() < last
    if asked.size == masses.sum():
        assert np.array_equal(np.bincount(found - first, minlength=cells.size), masses)


@pytest.mark.parametrize("grid", [BoundedGrid(0.0, 1.0, 2**13, 2), BoundedGrid(0.0, 3.0, 2**12)])
def test_masses_of_a_whole_grid_are_found_cell_by_cell(grid):
    cells = np.arange(grid.n_cells)
    masses = np.diff(mass_before(grid, np.arange(grid.n_cells + 1)))
    total = int(masses.sum())
    assert total > grid.n_cells
    ends = np.zeros(total, dtype=np.int64), np.full(total, grid.n_cells)
    found = grid.cells_by_mass(*ends, np.arange(total))
    assert np.array_equal(np.bincount(found, minlength=cells.size), masses)


def test_a_number_one_bit_from_the_edge_of_its_cell_goes_where_its_mass_is():
    """Found by a search: the height of the edge, rounded, is that of a number just before it."""
    grid = UnboundedGrid()
    heights = np.array([433_799_755, 379_850_864, 548_798_358])
    cells = grid._cells_of_heights(heights)
    assert not np.array_equal(cells, grid.cells_of(grid._numbers_at(heights)))
    assert np.all(grid._heights_before(cells) <= heights)
    assert np.all(grid._heights_before(cells + 1) > heights)
    first, last = cells - 2, cells + 3
    masses = mass_before(grid, last) - mass_before(grid, first)
    for low, high, cell, mass in zip(first, last, cells, masses, strict=True):
        ends = np.full(mass, low), np.full(mass, high)
        found = np.bincount(grid.cells_by_mass(*ends, np.arange(mass)) - low, minlength=5)
        assert np.array_equal(found, np.diff(mass_before(grid, np.arange(low, high + 1))))
        assert found[cell - low] > 1
