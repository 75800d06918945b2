"""Released cells become numbers of no more digits than they carry."""

import numpy as np
import pytest

from dpq_sklearn import DPKBinsDiscretizer, dp_quantiles
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.releases.values import (
    noise_in_gaps,
    shortest_decimals,
    tolerances_in_gaps,
    values_of_columns,
)

INF = np.inf
BOUNDS = [(-INF, INF), (0.0, INF), (-1.0, 1.0), (0.00123456789, 0.00123456999), (1e6, 1e9)]


def n_digits(value):
    return len(repr(float(value)).split("e")[0].replace(".", "").replace("-", "").strip("0"))


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_values_ascend_within_bounds_and_near_their_cells(bounds, seed):
    rng = np.random.default_rng(seed)
    grid = make_grid([bounds] * 3)
    columns = []
    for column, size in enumerate((1, 2, 40)):
        low, high = max(bounds[0], -1e9), min(bounds[1], 1e9)
        numbers = np.sort(rng.uniform(low, high, size) ** rng.choice([1, 3]))
        numbers[size // 2 :][:3] = numbers[size // 2]  # some are equal
        columns.append(np.sort(grid.cells_of(numbers, column)))
    for column, values in enumerate(values_of_columns(grid, columns, 1e-3)):
        exact, _ = shortest_decimals(grid, columns[column], np.full(values.size, column))
        assert np.all(np.diff(values) >= 0)
        assert np.all((bounds[0] <= values) & (values <= bounds[1]))
        gaps = np.diff(exact)
        assert np.all(np.abs(values - exact)[1:] <= 1.001e-3 * gaps)
        assert np.all(np.abs(values - exact)[:-1] <= 1.001e-3 * gaps)


def test_noise_has_no_digits():
    grid = make_grid([(-INF, INF)])
    cells = grid.cells_of(np.array([0.0031415926535, 0.0074399654983, 1.2345678912, 20312.3884]), 0)
    (values,) = values_of_columns(grid, [cells], 1e-3)
    assert values.tolist() == [0.00314, 0.00744, 1.235, 20300.0]


def test_numbers_that_people_write_down_stay():
    grid = make_grid([(-INF, INF)])
    numbers = [0.0, 0.25, 999.0, 1999.0, 20345.5, 123456.0, 1e9]
    (values,) = values_of_columns(grid, [grid.cells_of(np.array(numbers), 0)], 1e-3)
    assert values.tolist() == numbers


def test_a_single_value_knows_no_distance_and_keeps_its_digits():
    grid = make_grid([(-INF, INF)])
    cells = grid.cells_of(np.array([22548.7244513]), 0)
    (values,) = values_of_columns(grid, [cells], 1e-3)
    assert np.array_equal(grid.cells_of(values, 0), cells)


def test_error_in_rank_of_rounding_is_below_one_in_a_hundred_thousand_of_a_bin():
    x = np.random.default_rng(0).lognormal(3, 2, 1_000_000)
    values = dp_quantiles(x, np.arange(1, 10) / 10, eps=500.0, random_state=0)
    assert max(map(n_digits, values)) <= 9
    below = np.searchsorted(np.sort(x), values) / x.size
    np.testing.assert_allclose(below, np.arange(1, 10) / 10, atol=5e-6)


@pytest.mark.parametrize("n_rows", [1_000, 100_000])
def test_a_fit_rounds_within_a_tenth_of_its_noise(n_rows):
    """The released count determines the rounding, so more rows give more digits."""
    x = np.random.default_rng(0).lognormal(3, 2, (n_rows, 1))
    fitted = DPKBinsDiscretizer(5, eps=1.0, random_state=0).fit(x)
    inner = fitted.bin_edges_[0][1:-1]
    assert 3 <= max(map(n_digits, inner)) <= 5 + np.log10(n_rows / 1_000)

    # The next number of as many digits is within a fifth of the noise, in rows.
    steps = [10.0 ** np.floor(np.log10(edge) + 1 - n_digits(edge)) for edge in inner]
    rows = np.searchsorted(np.sort(x[:, 0]), inner + steps) - np.searchsorted(
        np.sort(x[:, 0]), inner
    )
    assert np.median(rows / fitted.rank_error_[0]) < 1.0


def test_how_coarsely_values_may_be_rounded():
    noise = noise_in_gaps((0.2, 0.4, 0.6, 0.8), np.array([4.0, 5.0, 5.0, 4.0]))
    assert noise == pytest.approx(20.0)
    parts = tolerances_in_gaps(np.array([noise, noise, np.nan]), np.array([100_000, 0, 100]))
    assert parts.tolist() == pytest.approx([2e-5, 1e-3, 1e-5])
