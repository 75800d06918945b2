"""Released cells as numbers of few digits. Functions of the cells and of public facts alone."""

import numpy as np

from dpq_sklearn.engine.round_numbers import FIRST_POWER, POWERS_OF_TEN, times_ten_to

_MOST_DIGITS = 16
_EXACT_POWER = 22  # 10^22 is the largest power of ten that is a float
# Values are rounded within a part of the distance to the next one: a tenth of what noise moves them
# by, as far as that is known, and never more than a thousandth.
_PART_OF_THE_NOISE = 0.1
_MOST_OF_A_GAP = 1e-3
# Without a count of rows nobody knows how many lie between two values: for up to a million or so.
PART_OF_A_GAP = 1e-5
# A cell that holds a number of so few digits may have been drawn because people write it down.
_MOST_DIGITS_OF_A_ROUND_NUMBER = 6


def noise_in_gaps(probabilities, deviations):
    """Return how far noise moves the values of a column, in distances between two, times the rows.

    `deviations` are those of their ranks, and NaN where they depend on the data.
    """
    return np.min(deviations) / np.diff([0.0, *probabilities, 1.0]).max()


def parts_of_gaps(noise, n_rows):
    """Return within which part of the distance between two values those of a column are rounded.

    `noise` is that of each column (`noise_in_gaps`), and `n_rows` are released counts.
    """
    parts = np.minimum(_PART_OF_THE_NOISE * noise / np.maximum(n_rows, 1), _MOST_OF_A_GAP)
    return np.where(np.isnan(parts), PART_OF_A_GAP, parts)


def values_of_columns(grid, cells, parts):
    """Return the numbers of a list of ascending released cells of each column: ascending.

    They are rounded within these parts of the distances between them: one for each column, or one
    for all.
    """
    sizes = [found.size for found in cells]
    columns = np.repeat(np.arange(len(sizes)), sizes)
    values, n_digits = shortest_decimals(grid, np.concatenate(cells), columns)

    is_noise = (n_digits > _MOST_DIGITS_OF_A_ROUND_NUMBER) & ~grid.is_lattice[columns]
    if is_noise.any():
        within = (_least_gaps(values, columns) * np.broadcast_to(parts, len(cells))[columns])[
            is_noise
        ]
        ends = grid.low[columns[is_noise]], grid.high[columns[is_noise]]
        values[is_noise] = _within_gaps(values[is_noise], within, *ends)
    return np.split(values, np.cumsum(sizes)[:-1])


def _least_gaps(values, columns):
    """Return the distance of each value to the nearest one beside it in its column, or 0."""
    gaps = np.where(columns[1:] == columns[:-1], np.diff(values), np.inf)
    least = np.minimum(np.append(np.inf, gaps), np.append(gaps, np.inf))
    return np.where(np.isfinite(least), least, 0.0)


def _within_gaps(values, parts, low, high):
    """Return the shortest decimals within these parts of the gaps, and within bounds.

    They ascend as the values do, since neighbours together move by less than their distance.
    """
    lower = np.maximum(values - parts, low)
    upper = np.minimum(values + parts, high)
    candidates = np.vstack((np.zeros(values.shape), _rounded((lower + upper) / 2), values))
    is_inside = (lower <= candidates) & (candidates <= upper)
    return candidates[is_inside.argmax(axis=0), np.arange(values.size)]


def shortest_decimals(grid, cells, columns):
    """Return the number with the fewest digits in each cell, and how many digits it has.

    The cell of an age gives 37.0, and the cell of zero gives 0.0. If a cell holds no float of up
    to 16 digits (on a grid as fine as floats), its number is its lower end. On a lattice it is a
    point.
    """
    ends = np.array((grid.lower_edges(cells, columns), grid.upper_edges(cells, columns)))
    lower, upper = np.clip(ends, grid.low[columns], grid.high[columns])

    # A number of d digits in the cell, if there is one, is the middle rounded to d digits.
    rounded = _rounded(lower + (upper - lower) / 2)
    candidates = np.vstack((np.zeros(cells.shape), rounded, lower))

    is_inside = (lower <= candidates) & (candidates <= upper)
    is_inside &= grid.cells_of(candidates, columns) == cells
    is_inside[-1] = True  # the least value of a cell lies in it
    n_digits = is_inside.argmax(axis=0)
    return candidates[n_digits, np.arange(cells.size)], n_digits


def _rounded(values):
    """Return the values rounded to 1 significant decimal digit, to 2, 3, ... in a row each.

    A value times an exact power of ten is rounded to an integer, which is divided by the power.
    Python's own conversion, which is slower, takes care of values that are too far from 1.
    """
    decades = np.searchsorted(POWERS_OF_TEN, np.abs(values), side="right") - 1 + FIRST_POWER
    powers = np.arange(_MOST_DIGITS)[:, None] - decades
    exact = np.clip(powers, -_EXACT_POWER, _EXACT_POWER)
    rounded = times_ten_to(np.rint(times_ten_to(values, exact)), -exact)

    for row, column in np.argwhere(np.abs(powers) > _EXACT_POWER):
        rounded[row, column] = float(f"{values[column]:.{row}e}")

    return rounded
