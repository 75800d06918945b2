"""Both sources of ranks agree with counting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpq_sklearn.engine.grid import BoundedGrid, UnboundedGrid
from dpq_sklearn.engine.ranks import CellCounts, SortedColumn
from tests.enumeration import rank_units, tiny_grid

columns = st.lists(
    st.one_of(st.floats(allow_nan=True), st.sampled_from([0.0, 1.0, 2.0, 37.0])), max_size=60
)
GRIDS = [UnboundedGrid(), BoundedGrid(-1.0, 1.0), BoundedGrid(0.0, 40.0, 8, 4)]


def sources(values, grid):
    values = np.array(values, dtype=float)
    cells, counts = np.unique(grid.cells_of(values[~np.isnan(values)]), return_counts=True)
    return SortedColumn(values.copy(), grid), CellCounts(cells, counts, grid)


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
@given(values=columns, share=st.floats(0, 1, exclude_max=True))
def test_counts_below_are_counts(grid, values, share):
    cells_of_values = grid.cells_of(np.array([v for v in values if v == v], dtype=float))
    asked = np.unique(np.append(cells_of_values, int(share * grid.n_cells)))
    asked = np.concatenate((asked, asked + 1))
    expected = [np.count_nonzero(cells_of_values < cell) for cell in asked]
    for ranks in sources(values, grid):
        assert ranks.counts_below(asked).tolist() == expected
        assert ranks.n_records == cells_of_values.size


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
@given(values=columns, data=st.data())
def test_occupied_gives_whole_cells_with_their_counts(grid, values, data):
    column, summary = sources(values, grid)
    first = data.draw(st.integers(0, column.n_records))
    last = data.draw(st.integers(first, column.n_records))
    cells_of_values = np.sort(grid.cells_of(np.array([v for v in values if v == v], dtype=float)))
    for ranks in (column, summary):
        cells, below = ranks.occupied(first, last)
        assert np.array_equal(cells, np.unique(cells_of_values[first:last]))
        assert below.size == cells.size + 1
        if cells.size:
            starts = np.searchsorted(cells_of_values, cells, side="left")
            ends = np.searchsorted(cells_of_values, cells, side="right")
            assert np.array_equal(below, np.append(starts, ends[-1]))


def test_rank_is_spread_evenly_over_the_cell():
    grid = tiny_grid(2, 4)
    ranks = CellCounts([1], [2], grid)
    units = [rank_units(ranks, position) for position in range(8)]
    assert units == [0, 0, 0, 0, 2, 6, 10, 14]  # 2 records = 16 units, half a step at each end


def test_bounded_edges_that_are_off_by_a_bit_are_set_right():
    """Every float near an edge of a grid whose edges are not floats."""
    grid = BoundedGrid(-0.1, 0.2, 7, 2)
    values = []
    for edge in grid.lower_edges(np.arange(1, 7)):
        for direction in (-np.inf, np.inf):
            value = edge
            for _ in range(4):
                values.append(value)
                value = np.nextafter(value, direction)
    column = SortedColumn(np.array(values), grid)
    cells = grid.cells_of(np.array(values))
    for cell in range(8):
        assert column.counts_below(np.array([cell]))[0] == np.count_nonzero(cells < cell)


def test_ranks_are_exact_for_very_many_records():
    grid = UnboundedGrid()
    ranks = CellCounts([5, 9], [2**39, 2**39 - 1], grid)
    position = 9 * grid.positions_per_cell + 1
    per_record = 2 * grid.positions_per_cell
    assert rank_units(ranks, position) == per_record * 2**39 + 3 * (2**39 - 1)
