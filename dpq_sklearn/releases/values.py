"""Released cells as numbers with few digits, computed from the cells and public facts only."""

from collections.abc import Sequence

import numpy as np

from dpq_sklearn.engine.grid import Grid
from dpq_sklearn.engine.round_numbers import FIRST_POWER, POWERS_OF_TEN, times_ten_to

_MOST_DIGITS = 16
_EXACT_POWER = 22  # 10^22 is the largest power of ten that is a float
# Rounding moves a value by at most this share of its noise, and by at most this share of the
# distance to the next value.
_SHARE_OF_NOISE = 0.1
_LARGEST_TOLERANCE = 1e-3
# Used if no count of rows is released. It suits up to about a million rows.
TOLERANCE_WITHOUT_COUNT = 1e-5
# A cell with such a short number may have been drawn because people write this number down.
_MOST_DIGITS_OF_A_ROUND_NUMBER = 6


def noise_in_gaps(probabilities: Sequence[float], deviations: np.ndarray) -> float:
    """Return the distance by which noise moves the values of a column, in gaps, times the rows.

    `deviations` has the standard deviation of each rank, or NaN if it depends on the data.
    """
    return float(np.min(deviations) / np.max(np.diff([0.0, *probabilities, 1.0])))


def tolerances_in_gaps(noise: np.ndarray, n_rows: np.ndarray | int) -> np.ndarray:
    """Return the largest distance by which rounding may move the values of a column, in gaps.

    `noise` has the noise of each column (`noise_in_gaps`), and `n_rows` has released counts.
    """
    tolerances = np.minimum(_SHARE_OF_NOISE * noise / np.maximum(n_rows, 1), _LARGEST_TOLERANCE)
    return np.where(np.isnan(tolerances), TOLERANCE_WITHOUT_COUNT, tolerances)


def values_of_columns(
    grid: Grid, cells: Sequence[np.ndarray], tolerances: np.ndarray | float
) -> list[np.ndarray]:
    """Return an ascending array of numbers for the ascending released cells of each column.

    `tolerances` has the largest distance by which rounding may move the numbers of each column, or
    of all columns, as a share of the distance to the nearest other number.
    """
    sizes = [found.size for found in cells]
    columns = np.repeat(np.arange(len(sizes)), sizes)
    values, n_digits = shortest_decimals(grid, np.concatenate(cells), columns)

    is_noise = (n_digits > _MOST_DIGITS_OF_A_ROUND_NUMBER) & ~grid.is_lattice[columns]
    if is_noise.any():
        tolerance = np.broadcast_to(tolerances, len(cells))[columns]
        distances = _least_gaps(values, columns) * tolerance
        values[is_noise] = _within(
            values[is_noise],
            distances[is_noise],
            low=grid.low[columns[is_noise]],
            high=grid.high[columns[is_noise]],
        )
    return np.split(values, np.cumsum(sizes)[:-1])


def _least_gaps(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the distance of each value to the nearest value in its column, or 0 if it is alone."""
    gaps = np.where(columns[1:] == columns[:-1], np.diff(values), np.inf)
    least = np.minimum(np.append(np.inf, gaps), np.append(gaps, np.inf))
    return np.where(np.isfinite(least), least, 0.0)


def _within(
    values: np.ndarray, distances: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Return the shortest decimals within these distances of the values, and within bounds.

    They keep the order of the values, because two neighbours together move by less than the
    distance between them.
    """
    lower = np.maximum(values - distances, low)
    upper = np.minimum(values + distances, high)
    candidates = np.vstack((np.zeros(values.shape), _rounded((lower + upper) / 2), values))
    is_inside = (lower <= candidates) & (candidates <= upper)
    return candidates[is_inside.argmax(axis=0), np.arange(values.size)]


def shortest_decimals(
    grid: Grid, cells: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number with the fewest digits in each cell, and the number of its digits.

    The cell of an age gives 37.0, and the cell of zero gives 0.0. If a cell holds no float of up
    to 16 digits (on a grid as fine as floats), its number is its lower end. On a lattice it is a
    point of the lattice.
    """
    ends = np.array((grid.lower_edges(cells, columns), grid.upper_edges(cells, columns)))
    lower, upper = np.clip(ends, grid.low[columns], grid.high[columns])

    # If the cell holds a number of d digits, that is the middle rounded to d digits.
    rounded = _rounded(lower + (upper - lower) / 2)
    candidates = np.vstack((np.zeros(cells.shape), rounded, lower))

    is_inside = (lower <= candidates) & (candidates <= upper)
    is_inside &= grid.cells_of(candidates, columns) == cells
    is_inside[-1] = True  # the smallest value of a cell lies in it
    n_digits = is_inside.argmax(axis=0)
    return candidates[n_digits, np.arange(cells.size)], n_digits


def _rounded(values: np.ndarray) -> np.ndarray:
    """Return the values rounded to 1, 2, 3, ... significant decimal digits, one row for each.

    A value times an exact power of ten is rounded to an integer, which is divided by the power.
    Values too far from 1 use Python's own conversion, which is slower.
    """
    decades = np.searchsorted(POWERS_OF_TEN, np.abs(values), side="right") - 1 + FIRST_POWER
    powers = np.arange(_MOST_DIGITS)[:, None] - decades
    exact = np.clip(powers, -_EXACT_POWER, _EXACT_POWER)
    rounded = times_ten_to(np.rint(times_ten_to(values, exact)), -exact)

    for row, column in np.argwhere(np.abs(powers) > _EXACT_POWER):
        rounded[row, column] = float(f"{values[column]:.{row}e}")

    return rounded
