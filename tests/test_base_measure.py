"""The base measure of a node is one, leaves no cell out, and sees released cells only."""

import inspect
from itertools import pairwise

import numpy as np
import pytest

from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.engine.exponential import RingMeasure
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles
from dpq_sklearn.mechanisms.base_measure import (
    LEAST_PLAIN_SHARE,
    PLAIN_SHARES,
    ring_measure,
    step_measure,
)

INF = np.inf
BOUNDS = [
    (-INF, INF),
    (0.0, INF),
    (-INF, 100.0),
    (0.0, 1.0),
    (-50.0, 1e6),
    (1e9, 1e9 + 1),
    (-8e307, 8e307),
    (0.0, 1e-300),
]
GRID = make_grid(BOUNDS)
# Overflows are as quiet as in a release.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def some_nodes(seed, n_nodes=600, grid=GRID):
    """The arguments of `step_measure` for random nodes of all kinds in all columns."""
    rng = np.random.default_rng(seed)
    column = rng.integers(0, grid.low.size, n_nodes)
    first, last = grid.first[column], grid.end[column] - 1
    numbers = np.concatenate((rng.lognormal(3, 5, 200), np.arange(20.0), [0.1, 1e18, 0.5]))
    numbers = np.concatenate((numbers, -numbers, 1e9 + rng.random(50), rng.random(50)))
    drawn = rng.choice(numbers, (3, n_nodes))
    drawn[:, rng.random(n_nodes) < 0.1] = 37.0  # all in one cell
    lo, hi, beyond = np.sort(grid.cells_of(drawn, column), axis=0)
    is_first, is_last = rng.random((2, n_nodes)) < 0.4
    lo, hi = np.where(is_first, first, lo), np.where(is_last, last, hi)
    is_open_lo, is_open_hi = (
        grid.is_open_low[column] & is_first,
        grid.is_open_high[column] & is_last,
    )
    # A neighbour lies beyond the closed end, or is that end.
    neighbour = np.where(is_open_lo, np.maximum(hi, beyond), np.where(is_open_hi, first, lo))
    neighbour = np.where(rng.random(n_nodes) < 0.3, np.where(is_open_lo, hi, lo), neighbour)
    is_open = np.array((is_open_lo, is_open_hi))
    return column, lo, hi, neighbour, is_open, ~np.array((is_first, is_last))


def know_a_scale(nodes):
    """Whether a value, not zero, is released beyond the only released end of each node."""
    column, lo, hi, beyond, _, is_released = nodes
    is_other = (beyond != np.where(is_released[0], lo, hi)) & (beyond != GRID.cells_of(0.0, column))
    return (is_released[0] != is_released[1]) & is_other


def densities_at(cells, measure, row):
    """The densities of a node at some of its cells."""
    return measure.densities[row, np.searchsorted(measure.cuts[row], cells, side="right") - 1]


def measures_of(measure):
    return np.diff(measure.before, axis=1) * measure.densities


@pytest.mark.parametrize("seed", range(5))
def test_measure_of_a_node_is_one_and_every_cell_has_a_part_of_it(seed):
    nodes = some_nodes(seed)
    column, lo, hi, _, is_open, _ = nodes
    measure = step_measure(GRID, *nodes)
    assert np.isfinite(measure.densities).all()
    np.testing.assert_allclose(measures_of(measure).sum(axis=1), 1.0, rtol=1e-12)
    whole = GRID.measure_before(hi + 1, column) - GRID.measure_before(lo, column)
    plain = np.where(know_a_scale(nodes), LEAST_PLAIN_SHARE, PLAIN_SHARES[2 - is_open.sum(axis=0)])
    is_there = np.diff(measure.cuts, axis=1) > 0
    least = np.where(is_there, measure.densities, INF).min(axis=1)
    assert np.all(least * whole >= plain * (1 - 1e-6))  # steps up and down cancel but for rounding


@pytest.mark.parametrize("seed", range(5))
def test_segments_ascend_from_the_first_cell_to_the_last(seed):
    nodes = some_nodes(seed)
    column, lo, hi = nodes[:3]
    measure = step_measure(GRID, *nodes)
    assert measure.cuts.dtype == measure.before.dtype == np.int64
    assert np.array_equal(measure.cuts[:, 0], lo) and np.array_equal(measure.cuts[:, -1], hi + 1)
    assert np.all(np.diff(measure.cuts, axis=1) >= 0)
    assert np.array_equal(measure.before, GRID.measure_before(measure.cuts, column[:, None]))
    assert measure.densities.shape == (lo.size, measure.cuts.shape[1] - 1)


def test_measure_of_a_node_depends_on_its_own_cells_alone():
    """It does not depend on the nodes beside it, or on data, which it never receives."""
    nodes = some_nodes(1, 200)
    together = step_measure(GRID, *nodes)
    for row in range(200):
        alone = step_measure(GRID, *(argument[..., row : row + 1] for argument in nodes))
        assert np.array_equal(alone.cuts[0, [0, -1]], together.cuts[row, [0, -1]])
        begins = together.cuts[row, :-1][np.diff(together.cuts[row]) > 0]
        densities = densities_at(begins, alone, 0)
        # But for the last bit of the sum by which they are divided.
        np.testing.assert_allclose(densities, densities_at(begins, together, row), rtol=1e-15)
    names = ["grid", "columns", "lo", "hi", "beyond", "is_open", "is_released", "guesses"]
    assert list(inspect.signature(step_measure).parameters) == names


def test_measure_beside_nodes_of_lattices_is_that_of_a_node_alone():
    """Octaves were fine ones for all nodes as soon as one of them was on a lattice."""
    bounds = [(-INF, INF), (-INF, INF), (0.0, INF), (0.0, 1e6), (-INF, 100.0), (0.0, INF)]
    grid = make_grid(bounds, 40, [None, 0, None, 2, None, 1])
    nodes = some_nodes(2, 300, grid)
    together = step_measure(grid, *nodes)
    pairs_together = ring_measure(together, grid, *nodes)
    assert isinstance(pairs_together, RingMeasure)

    for row in range(300):
        node = [argument[..., row : row + 1] for argument in nodes]
        alone = step_measure(grid, *node)
        begins = together.cuts[row, :-1][np.diff(together.cuts[row]) > 0]
        expected = densities_at(begins, alone, 0)
        np.testing.assert_allclose(densities_at(begins, together, row), expected, rtol=1e-15)

        pairs_alone = ring_measure(alone, grid, *node)
        begins = pairs_together.cuts[row, :-1][np.diff(pairs_together.cuts[row]) > 0]
        densities = densities_at(begins, pairs_together, row)
        np.testing.assert_allclose(densities, densities_at(begins, alone, 0), rtol=1e-15)
        rings = getattr(pairs_alone, "rings", np.zeros_like(pairs_alone.cuts[:, 1:]))
        segments = np.searchsorted(pairs_alone.cuts[0], begins, side="right") - 1
        segments_together = np.searchsorted(pairs_together.cuts[row], begins, side="right") - 1
        assert np.array_equal(rings[0, segments], pairs_together.rings[row, segments_together])


def test_rings_that_a_bound_cuts_off_do_not_depend_on_nodes_of_other_columns():
    """The ring at the bound 220 would be cut at 200, outside of its node, for the other one."""
    grid = make_grid([(220.0, INF), (-INF, INF)])
    column = np.array([0, 1])
    lo = np.array([grid.first[0], grid.cells_of(-10.0, 1)])
    hi = grid.cells_of(np.array([500.0, 10.0]), column)
    is_open = np.zeros((2, 2), dtype=bool)
    is_released = np.array([[False, True], [True, True]])
    nodes = column, lo, hi, hi, is_open, is_released

    together = step_measure(grid, *nodes)
    alone = step_measure(grid, *(argument[..., :1] for argument in nodes))
    assert together.cuts.shape[1] > alone.cuts.shape[1]
    begins = together.cuts[0, :-1][np.diff(together.cuts[0]) > 0]
    found = densities_at(begins, alone, 0)
    np.testing.assert_allclose(found, densities_at(begins, together, 0), rtol=1e-15)


def one_node(lo, hi, neighbour=None, column=0, grid=GRID):
    """The measure of a node between two released numbers; None is the open end."""
    ends = grid.low[column] if lo is None else lo, grid.high[column] if hi is None else hi
    neighbour = (hi if lo is None else lo) if neighbour is None else neighbour
    numbers = np.array([*ends, 0.0 if neighbour is None else neighbour])
    cells = grid.cells_of(numbers, column)[:, None]
    is_open = np.array([[lo is None], [hi is None]])
    return step_measure(grid, np.array([column]), *cells, is_open, ~is_open)


def measure_between(measure, low, high, column=0, grid=GRID):
    """The measure of the cells between two numbers."""
    ends = grid.measure_before(grid.cells_of(np.array([low, high]), column), column)
    inside = np.clip(measure.before[0], *ends)
    return float(np.diff(inside) @ measure.densities[0])


def test_root_prefers_numbers_of_everyday_size_and_positive_ones():
    root = one_node(None, None)
    assert measure_between(root, 1.0, 2.0) > 3 * measure_between(root, 2.0**30, 2.0**31)
    assert measure_between(root, 1.0, 2.0) > 3 * measure_between(root, 2.0**-9.5, 2.0**-8.5)
    assert measure_between(root, 0.0, 1e18) > 1.5 * measure_between(root, -1e18, 0.0)
    assert measure_between(root, 1e-3, 1e5) > 0.4


@pytest.mark.parametrize(("end", "neighbour", "scale"), [(2005.3, 1995.0, 10), (1e9, None, 1e9)])
def test_rings_around_a_released_end_have_its_scale(end, neighbour, scale):
    """Without a second value, the scale is the size of the first."""
    for sign in (1, -1):
        beyond = None if neighbour is None else sign * neighbour
        ends = (sign * end, None) if sign > 0 else (None, sign * end)
        measure = one_node(*ends, beyond)

        def around(near, far, sign=sign, measure=measure):
            return measure_between(
                measure, *sorted(sign * (end + scale * at) for at in (near, far))
            )

        assert around(0.01, 64) > 0.4
        assert around(0, 2**-9) < 0.3
        assert around(0.5, 4) > 3 * around(32, 256)


@pytest.mark.parametrize(("column", "high"), [(0, None), (3, 1e6)], ids=["open", "wide bounds"])
def test_beyond_two_released_values_hardly_anything_is_far_away(column, high):
    """This also holds if a bound is far away."""
    grid = make_grid([(-INF, INF), (0.0, INF), (-INF, 0.0), (-1e6, 1e6)])
    ends = grid.cells_of(np.array([12.25, grid.high[column], 10.25]), column)[:, None]
    is_open = np.array([[False], [high is None]])
    is_released = np.array([[True], [False]])
    measure = step_measure(grid, np.array([column]), *ends, is_open, is_released)

    def beyond(far):
        return measure_between(measure, 12.25 + far, 9e5, column, grid)

    assert measure_between(measure, 12.25, 20.25, column, grid) > 0.8
    assert beyond(2 * 16) < 0.05
    assert beyond(2 * 256) < (0.001 if high is None else 0.05)


def test_without_a_scale_the_tails_stay_heavy():
    """Ties say nothing: the next value may be anywhere."""
    tied = one_node(12.25, None, neighbour=12.25)
    assert measure_between(tied, 1e3, 1e12) > 0.1


def test_beyond_zero_the_tails_stay_heavy():
    """The next quantile of a column of many zeros may lie anywhere between these and the others."""
    after_zeros = one_node(0.125, None, neighbour=0.0)
    assert measure_between(after_zeros, 1e2, 1e5) > 0.05


def test_years_have_a_share_of_the_first_draw():
    root = one_node(None, None)
    years = measure_between(root, 1990.0, 2030.0)
    assert years > 10 * measure_between(root, 1090.0, 1130.0)
    assert years < 0.03


def test_rings_of_pairs_are_octaves_around_the_released_end():
    grid = make_grid([(-INF, INF)])
    for end, is_upwards in ((100.0, True), (-100.0, False)):
        ends = (end, grid.high[0], end) if is_upwards else (grid.low[0], end, end)
        cells = grid.cells_of(np.array(ends), 0)[:, None]
        is_open = np.array([[not is_upwards], [is_upwards]])
        node = np.array([0]), *cells, is_open, ~is_open
        measure = ring_measure(step_measure(grid, *node), grid, *node)

        values = end + np.sign(end) * np.array([0.0, 3.5, 6.5, 13.0, 26.0, 900.0])
        segments = np.searchsorted(measure.cuts[0], grid.cells_of(values, 0), side="right") - 1
        rings = measure.rings[0, segments]
        assert rings[0] == 0 and np.array_equal(np.diff(rings[1:]), [1, 1, 1, 5])


def test_measure_between_two_released_ends_is_even_in_the_value():
    for low, high in ((-1.234567, 1.4321), (10.123, 20.456), (-1000.5, 0.33)):
        measure = one_node(low, high)
        parts = np.linspace(low, high, 11)
        measures = [measure_between(measure, *pair) for pair in pairwise(parts[1:-1])]
        assert min(measures) > 0.03 and max(measures) < 0.3


def test_numbers_of_everyday_size_have_a_part_between_bounds_that_are_far_away():
    grid = make_grid([(0.0, 1e9)])
    ends, closed = (grid.first, grid.end - 1), np.zeros((2, 1), dtype=bool)
    measure = step_measure(grid, np.array([0]), *ends, ends[0], closed, closed)
    assert measure_between(measure, 1e2, 1e5, grid=grid) > 0.05
    assert measure_between(measure, 1e8, 9e8, grid=grid) > 0.4


def root_between(bounds, decimals=None):
    """The measure of a root between two bounds, and its grid."""
    grid = make_grid([bounds], 40, [decimals])
    closed = np.zeros((2, 1), dtype=bool)
    is_open = np.array((grid.is_open_low, grid.is_open_high))
    cells = grid.first, grid.end - 1, grid.first
    return step_measure(grid, np.array([0]), *cells, is_open, closed), grid


def measure_of_number(measure, number, grid):
    (cell,) = grid.cells_of(np.array([number]), 0)
    begin, end = grid.measure_before(np.array((cell, cell + 1)), 0)
    return float(np.diff(np.clip(measure.before[0], begin, end)) @ measure.densities[0])


@pytest.mark.parametrize("bounds", [(0.0, 1e9), (-1e4, 1e4), (0.0, 120.0), (-1e15, 1e3)])
@pytest.mark.parametrize("decimals", [None, 0])
def test_bounds_leave_a_part_of_the_measure_without_them_everywhere(bounds, decimals):
    within, grid = root_between(bounds, decimals)
    without, open_grid = root_between((-INF, INF), decimals)
    for low, high in pairwise([-900.0, -40.0, -3.0, 0.5, 2.5, 7.0, 50.0, 119.0, 999.0]):
        if bounds[0] <= low and high <= bounds[1]:
            part = measure_between(within, low, high, grid=grid)
            assert part > 0.2 * measure_between(without, low, high, grid=open_grid)


@pytest.mark.parametrize(
    "bounds", [(0.0, 1.0), (1.0, 5.0), (0.0, 3.0), (1.0, 7.0), (2000.0, 2010.0)]
)
def test_every_whole_number_between_narrow_bounds_is_a_point(bounds):
    """This includes the upper bound."""
    measure, grid = root_between(bounds)
    numbers = np.arange(bounds[0], bounds[1] + 1)
    measures = [measure_of_number(measure, number, grid) for number in numbers]
    assert min(measures) > 3e-4
    assert min(measures[0], measures[-1]) > 0.02


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (1.0, 5.0), (0.0, 120.0)])
def test_a_lattice_between_bounds_is_nearly_even(bounds):
    measure, grid = root_between(bounds, decimals=0)
    numbers = np.arange(bounds[0], bounds[1] + 1)
    measures = np.array([measure_of_number(measure, number, grid) for number in numbers])
    np.testing.assert_allclose(measures.sum(), 1.0)
    assert measures.min() > 0.4 / numbers.size


def test_half_open_bounds_have_rings_at_the_bound():
    measure = one_node(0.0, None, column=1)
    assert measure_between(measure, 2.0**-10, 2.0**10, column=1) > 0.3
    measure = one_node(None, 100.0, column=2)
    assert measure_between(measure, -1000.0, 99.99, column=2) > 0.3


@pytest.mark.parametrize("column", range(len(BOUNDS)), ids=map(str, BOUNDS))
def test_nodes_of_one_cell_or_two_have_a_measure_too(column):
    ends = GRID.first[column], GRID.end[column] - 1
    cells = [(lo, hi) for lo in ends for hi in (lo, lo + 1) if hi < GRID.end[column]]
    lo, hi = np.array(cells).T
    closed = np.zeros((2, lo.size), dtype=bool)
    columns = np.full(lo.size, column)
    measure = step_measure(GRID, columns, lo, hi, lo, closed, ~closed)
    np.testing.assert_allclose(measures_of(measure).sum(axis=1), 1.0, rtol=1e-12)
    is_there = np.diff(measure.cuts, axis=1) > 0
    assert np.all(measure.densities[is_there] > 0)


@pytest.mark.parametrize(
    "bounds",
    [(-1e-310, np.inf), (-5e-324, np.inf), (-5e-324, 5e-324), (-5e-324, 0.0), (0.0, 1e-310)],
)
def test_releases_between_the_smallest_floats_are_ascending_and_in_the_grid(bounds, rng):
    grid = make_grid([bounds])
    values = np.sort(rng.normal(size=(1, 20)), axis=1)
    for seed in range(10):
        (cells,) = ApproximateQuantiles().draw(
            SortedRanks.of_rows(values, grid),
            [(0.25, 0.5, 0.75)],
            [Budget(1.0, "eps")],
            make_randomness(seed),
        )
        assert np.all(np.diff(cells) >= 0) and grid.first[0] <= cells[0] and cells[-1] < grid.end[0]


def test_bounds_at_the_ends_of_the_floats_have_finite_densities():
    grid = make_grid([(-8e307, 8e307)], 5)
    ends = grid.first, grid.end - 1
    closed = np.zeros((2, 1), dtype=bool)
    measure = step_measure(grid, np.array([0]), *ends, ends[0], closed, closed)
    assert np.isfinite(measure.densities).all()
    np.testing.assert_allclose(measures_of(measure).sum(axis=1), 1.0, rtol=1e-12)
