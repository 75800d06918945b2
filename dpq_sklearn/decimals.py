"""Released cells as numbers: the shortest decimals in them. Functions of the cells alone."""

import numpy as np

from dpq_sklearn.engine.grid import FIRST_POWER, POWERS_OF_TEN

_EXACT_POWER = 22  # 10^22 is the largest power of ten that is a float


def shortest_decimals(grid, cells, columns):
    """Return for each cell the number with the fewest decimal digits that lies in it.

    An age's cell gives 37.0, zero's cell gives 0.0. Where no float of up to 16 digits maps back
    (a grid as fine as floats) it is the cell's middle.
    """
    middles = grid.middles(cells, columns)
    # A number of d digits in the cell, if there is one, is the middle rounded to d digits; and
    # d + 1 digits can say what d digits can. So the fewest digits are found by bisection.
    fewest = np.ones(cells.shape, dtype=int)
    most = np.full(cells.shape, 16)
    while np.any(fewest < most):
        digits = (fewest + most) // 2
        inside = grid.contain(cells, _rounded(middles, digits), columns)
        most = np.where(inside, digits, most)
        fewest = np.where(inside, fewest, digits + 1)
    rounded = _rounded(middles, most)
    values = np.where(grid.contain(cells, rounded, columns), rounded, middles)
    return np.where(grid.contain(cells, np.zeros(cells.shape), columns), 0.0, values)


def _rounded(values, digits):
    """Return each value rounded to its number of significant decimal digits.

    A value times an exact power of ten is rounded to an integer, which is divided by the power.
    Python's own conversion, which is slower, takes care of values that are too far from 1.
    """
    decades = np.searchsorted(POWERS_OF_TEN, np.abs(values), side="right") - 1 + FIRST_POWER
    powers = digits - 1 - decades
    factors = POWERS_OF_TEN[np.minimum(np.abs(powers), _EXACT_POWER) - FIRST_POWER]
    up, down = np.where(powers > 0, factors, 1.0), np.where(powers > 0, 1.0, factors)
    rounded = np.rint(values * up / down) * down / up
    for index in np.flatnonzero(np.abs(powers) > _EXACT_POWER):
        rounded[index] = float(f"{values[index]:.{digits[index] - 1}e}")
    return rounded
