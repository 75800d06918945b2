"""A lattice that somebody vouches for: cells are its points, and nothing lies between them."""

import numpy as np
import pytest

from dpq_sklearn import DPRobustScaler, PrivacyLedger, dp_quantiles
from dpq_sklearn.engine.grid import make_grid, units_between
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.reading.sources import memory
from dpq_sklearn.reading.sources.batches import Batches
from dpq_sklearn.reading.sources.memory import MemorySource
from dpq_sklearn.releases.values import shortest_decimals, values_of_columns

pytestmark = pytest.mark.filterwarnings("ignore::dpq_sklearn.PrivacyNoiseWarning")
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


# Cells and edges, to the last bit


def random_lattices(n_lattices, seed):
    """Yield grids of one column with random decimals, bounds and resolutions, and its bounds."""
    rng = np.random.default_rng(seed)
    for _ in range(n_lattices):
        decimals = int(rng.integers(-15, 16))
        farthest = 2.0**64 if decimals == 0 else 2.0**51
        middle = rng.choice([-1, 1]) * farthest * 2.0 ** -rng.uniform(0, 60)
        width = rng.choice([10.0, 2.0**20, 2.0**45, abs(middle) / 100, 4 * abs(middle)])
        units = np.clip((middle - width, middle + width), -farthest, farthest)
        low, high = (float(end) for end in units / 10.0**decimals)
        low, high = [(low, high), (-INF, high), (low, INF), (-INF, INF)][rng.integers(4)]
        resolution = int(rng.choice([1, 4, 9, 24, 33, 40]))
        try:
            first, last = units_between(low, high, decimals)
        except ValueError as error:
            assert "within" in str(error)  # the division moved a bound beyond the farthest
            continue
        if first <= last:
            yield lattice((low, high), decimals, resolution), low, high


def some_cells(grid, rng, n=300):
    """Cells of all magnitudes, those at the ends among them."""
    first, end = int(grid.first[0]), int(grid.end[0])
    if end - first <= n:
        return np.arange(first, end)
    inside = rng.integers(first, end, n // 3)
    at_ends = np.concatenate((first + np.arange(n // 6), end - 1 - np.arange(n // 6)))
    octaves = np.exp2(rng.uniform(0, 64, n)) / 10.0 ** int(grid.decimals[0])
    by_value = grid.cells_of(octaves * rng.choice([-1, 1], n), 0)
    return np.unique(np.concatenate((inside, at_ends, by_value)))


def floats_near(values):
    """Return values and up to three floats on both sides of each: (7, n_values)."""
    below = [values]
    above = [values]
    for _ in range(3):
        below.append(np.nextafter(below[-1], -INF))
        above.append(np.nextafter(above[-1], INF))
    return np.array((*below[:0:-1], *above))


@pytest.mark.parametrize("seed", range(4))
def test_cells_and_edges_agree_for_every_cell_and_every_float_near_an_edge(seed):
    rng = np.random.default_rng(seed)
    for grid, _, _ in random_lattices(150, seed):
        cells = some_cells(grid, rng)
        lower = grid.lower_edges(cells, 0)
        upper = grid.upper_edges(cells, 0)
        assert np.array_equal(grid.cells_of(lower, 0), cells)
        assert np.array_equal(grid.cells_of(upper, 0), cells)
        assert np.all(lower <= upper)
        assert np.all(lower < grid.lower_edges(cells + 1, 0))

        # What counts by cells, and what compares rounded values with edges.
        middles = lower - (lower - grid.upper_edges(cells - 1, 0)) / 2
        near = floats_near(np.concatenate((lower, upper, middles)))
        rounded = grid.on_lattices(near, 0)
        of_near = grid.cells_of(near, 0)
        assert np.array_equal(grid.cells_of(rounded, 0), of_near)
        assert np.array_equal(grid.on_lattices(rounded, 0), rounded)
        assert np.all(np.diff(of_near, axis=0) >= 0) and np.all(np.diff(rounded, axis=0) >= 0)
        is_inside = (of_near > grid.first[0]) & (of_near < grid.end[0] - 1)
        assert np.all((rounded >= grid.lower_edges(of_near, 0))[is_inside])
        assert np.all((rounded < grid.lower_edges(of_near + 1, 0))[is_inside])
        assert np.all((rounded <= grid.upper_edges(of_near, 0))[is_inside])


@pytest.mark.parametrize("seed", range(4))
def test_released_values_of_lattices_lie_in_their_cells_and_bounds_and_ascend(seed):
    rng = np.random.default_rng(seed)
    for grid, low, high in random_lattices(150, seed):
        cells = some_cells(grid, rng)
        values, _ = shortest_decimals(grid, cells, np.zeros_like(cells))
        assert np.array_equal(grid.cells_of(values, 0), cells)
        assert np.all((low <= values) & (values <= high))
        assert np.all(np.diff(values) > 0)
        (released,) = values_of_columns(grid, [cells], 1e-3)
        assert np.array_equal(released, values)


def ranks_of_all_kinds(x, grid, monkeypatch):
    """Return ranks of one column: sorted, selected, of people, of batches, of a summary."""
    column = x[:, None]
    people = np.arange(x.size)
    found = []
    for first_lazy in (1, 10**9):
        monkeypatch.setattr(memory, "LAZILY_SORTED_ROWS", first_lazy)
        for groups in (None, people):
            for table, its_grid in (
                (column, grid),
                (np.repeat(column, 2, axis=1), grid[[0, 0]]),
            ):
                found.append(MemorySource(table, groups=groups).read(its_grid).ranks)
    batches = Batches.of(iter([(column[:50], None), (column[50:], None)]))
    return [*found, batches.read(grid).ranks]


@pytest.mark.parametrize("seed", range(3))
def test_all_kinds_of_ranks_of_lattices_are_equal(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    for grid, _, _ in random_lattices(8, seed):
        cells = some_cells(grid, rng, n=60)
        near = floats_near(np.concatenate((grid.lower_edges(cells, 0), grid.upper_edges(cells, 0))))
        x = rng.permutation(near.ravel())
        of_rows = np.sort(grid.cells_of(x, 0))
        ends = np.concatenate((cells, cells + 1))
        wanted = np.arange(0, x.size, 7)
        found = of_rows[wanted]
        for ranks in ranks_of_all_kinds(x, grid, monkeypatch):
            below = ranks.weights_below(0, ends) // RECORD_WEIGHT
            assert np.array_equal(below, np.searchsorted(of_rows, ends))
            of_ranks = ranks.locate(np.zeros_like(wanted), wanted * RECORD_WEIGHT)
            before, after = np.searchsorted(of_rows, (found, found + 1))
            assert np.array_equal(of_ranks[0], found)
            assert np.array_equal(of_ranks[1] // RECORD_WEIGHT, before)
            assert np.array_equal(of_ranks[2] // RECORD_WEIGHT, after)


@pytest.mark.parametrize(
    ("bounds", "decimals"),
    [
        ((71e12, 73e12), 2),
        ((90e12, 90.00000000001e12), 2),
        ((1233.7733242028423, 1233.7733242028442), 13),
        ((-5e307, 5e307), 5),
        ((None, 1e14), 2),
        ((1.7e9, 1.7e9 + 86_400), 7),
        ((-1e30, 1e30), -8),
        ((1e30, 1e31), 0),
    ],
)
def test_decimals_that_floats_do_not_hold_between_the_bounds_are_refused_unpaid(bounds, decimals):
    ledger = PrivacyLedger(eps=1.0)
    with pytest.raises(ValueError, match=r"bounds must lie within .* decimals="):
        dp_quantiles([1.0], 0.5, bounds=bounds, decimals=decimals, ledger=ledger)
    with pytest.raises(ValueError, match=r"bounds must lie within .* decimals="):
        DPRobustScaler(eps=1.0, bounds=bounds, decimals=decimals, ledger=ledger).fit([[1.0]])
    assert ledger.records() == []


@pytest.mark.parametrize(
    ("value", "decimals", "tolerance"),
    [(70374410066329.6, 2, 1e-9), (8.0003, 15, 1e-9), (8192.0, 12, 1e-9), (-1.7e26, -8, 1e-9)],
)
def test_values_beyond_the_exact_units_of_open_lattices_are_found(value, decimals, tolerance):
    found = dp_quantiles(np.full(1000, value), 0.5, decimals=decimals, random_state=0)
    assert abs(found - value) <= tolerance * abs(value)
