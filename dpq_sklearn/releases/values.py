"""Released cells as numbers: the shortest decimals in them. Functions of the cells alone."""

import numpy as np

from dpq_sklearn.engine.round_numbers import FIRST_POWER, POWERS_OF_TEN, times_ten_to

_MOST_DIGITS = 16
_EXACT_POWER = 22  # 10^22 is the largest power of ten that is a float


def decimals_of_columns(grid, cells):
    """Return the numbers of a list of released cells of each column."""
    sizes = [found.size for found in cells]
    columns = np.repeat(np.arange(len(sizes)), sizes)
    values = shortest_decimals(grid, np.concatenate(cells), columns)
    return np.split(values, np.cumsum(sizes)[:-1])


def shortest_decimals(grid, cells, columns):
    """Return for each cell the number with the fewest decimal digits that lies in it.

    An age's cell gives 37.0, zero's cell gives 0.0. Where no float of up to 16 digits maps back
    (a grid as fine as floats) it is the cell's lower end. On a lattice it is a point.
    """
    ends = np.array((grid.lower_edges(cells, columns), grid.upper_edges(cells, columns)))
    lower, upper = np.clip(ends, grid.low[columns], grid.high[columns])

    # A number of d digits in the cell, if there is one, is the middle rounded to d digits.
    rounded = _rounded(lower + (upper - lower) / 2)
    candidates = np.vstack((np.zeros(cells.shape), rounded, lower))

    is_inside = (lower <= candidates) & (candidates <= upper)
    is_inside &= grid.cells_of(candidates, columns) == cells
    return candidates[is_inside.argmax(axis=0), np.arange(cells.size)]


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
