"""Round numbers: decimal numbers with few digits, and the grid measure of each of them.

People write down round numbers (37, 0.25, 1e6), so many records may share a round number. Between
two round numbers there are millions of empty cells. Without additional measure for round numbers,
these cells would be drawn instead of the one cell that holds the records.

Every decimal number of up to 13 digits has a *serial* number: 0, 1, 2, ... from zero upwards. The
serials of numbers with up to 12 digits are divisible by 10, with up to 11 digits by 100, and so on.
"""

from dataclasses import dataclass

import numpy as np

# The multiples of each power of ten have a tenth of the measure that all cells have without them.
# A single number has at most a small share of a decade and of a column, so that it does not attract
# draws from the cells around it. If bounds leave few multiples, these may have a larger share of
# the column together, and the largest share if there are at most 16: the integers between 1 and 7
# are probably the points of a rating scale.
ROUND_SHARE = 0.1
MOST_OF_A_DECADE = 1 / 200
MOST_OF_A_COLUMN = 1 / 4000
MOST_TOGETHER = 0.07
FEW = 16
FEW_TOGETHER = 0.2
# Round numbers that are fewer cells apart need no additional measure.
_CELLS_BETWEEN = 100

_MOST_DIGITS = 13
_SERIALS_A_DECADE = 9 * 10 ** (_MOST_DIGITS - 1)

FIRST_POWER = -308
POWERS_OF_TEN = np.array([float(f"1e{power}") for power in range(FIRST_POWER, 309)])
# For each power from -308 to 308: the float to multiply by, and the float to divide by.
_MULTIPLIERS = np.maximum(POWERS_OF_TEN, 1.0)
_DIVISORS = _MULTIPLIERS[::-1].copy()
# For each exponent of a float: the largest power of ten up to 2^exponent. Subnormal floats have 0.
_MANTISSA_BITS = 52
_EXPONENTS = np.ldexp(1.0, np.maximum(np.arange(2047) - 1023, -1022))
_POWERS_OF_EXPONENTS = POWERS_OF_TEN.searchsorted(_EXPONENTS, side="right") - 1 + FIRST_POWER


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundNumbers:
    """The round numbers of several columns, and their measures.

    The argument `columns` of the methods has the column of each number, and broadcasts with the
    numbers.
    """

    first_decade: np.ndarray  # (n_columns,), the power of ten below which serials are linear
    powers: np.ndarray  # (n_powers,), ascending powers of ten: serials with a measure are multiples
    measures: np.ndarray  # (n_powers, n_columns), the measure of a multiple of each power, int64

    def serials_below(self, values, columns):
        """Return the last serial below each value."""
        return _serials_below(values, self.first_decade[columns])

    def values_of(self, serials, columns):
        """Return the number of each serial, with a relative error below 2^-50."""
        magnitudes = np.abs(serials)
        decades = np.maximum(magnitudes - _SERIALS_A_DECADE // 9, 0) // _SERIALS_A_DECADE
        mantissas = np.sign(serials) * (magnitudes - decades * _SERIALS_A_DECADE)

        digits_after = _MOST_DIGITS - 1 - self.first_decade[columns] - decades
        return times_ten_to(mantissas.astype(np.float64), -digits_after)

    def measure_up_to(self, serials, columns):
        """Return the measure of all round numbers up to each serial; below zero it is negative."""
        multiples = self._multiples_up_to(serials)
        return np.einsum("p...,p...->...", multiples, self.measures[:, columns])

    def serials_at(self, begin, end, units, columns):
        """Return the serials after `begin` and up to `end` to which units of measure belong.

        The units 0, 1, ... belong to the multiples of the first power, then to those of the next
        power, and so on. All arrays have the shape (n,).
        """
        begins, ends = self._multiples_up_to(np.array((begin, end))).swapaxes(0, 1)
        measures = self.measures[:, columns]

        units_of_powers = measures * (ends - begins)
        before = units_of_powers.cumsum(axis=0) - units_of_powers
        power = (before <= units).sum(axis=0) - 1

        found = power, np.arange(units.size)
        multiples = begins[found] + 1 + (units - before[found]) // measures[found]
        return multiples * self.powers[power]

    def _multiples_up_to(self, serials):
        """Return ``serial // power`` for all powers: (n_powers, *shape of the serials).

        NumPy divides by a scalar several times as fast as by an array. Repeated division by 10,
        rounded down, gives the same result.
        """
        multiples = np.empty((self.powers.size, *np.shape(serials)), dtype=np.int64)
        quotient = serials
        divisor = self.powers[0]
        for index in range(self.powers.size):
            quotient = np.floor_divide(quotient, divisor, out=multiples[index, ...])
            divisor = 10
        return multiples


def round_numbers_of(*, smallest_exponent, cells_a_decade, n_cells, ends, is_lattice):
    """Return the round numbers of columns.

    The arguments have the shape (n_columns,). `cells_a_decade` and `n_cells` are numbers of cells.
    The scale is linear below two to the power `smallest_exponent`. `ends` are the lower edge of the
    first cell and the upper edge of the last cell. All points of a lattice are alike, so a lattice
    has no round numbers.
    """
    first_decade = np.floor(smallest_exponent * np.log10(2.0)).astype(np.int64)
    powers = 10 ** np.arange(_MOST_DIGITS)
    begin, end = (_serials_below(edges, first_decade) // powers[:, None] for edges in ends)

    cells_a_serial = cells_a_decade / _SERIALS_A_DECADE
    measures = _measures_of_multiples(
        n_multiples=end - begin,
        spacing=cells_a_serial * powers[:, None],
        cells_a_decade=cells_a_decade,
        n_cells=n_cells,
    )
    measures[:, is_lattice] = 0

    has_measure = measures.any(axis=1)
    first = int(has_measure.argmax()) if has_measure.any() else _MOST_DIGITS - 1
    return RoundNumbers(first_decade=first_decade, powers=powers[first:], measures=measures[first:])


def _measures_of_multiples(*, n_multiples, spacing, cells_a_decade, n_cells):
    """Return the measure of each multiple of a power of ten, (n_powers, n_columns).

    `n_multiples` and `spacing` have the same shape: the number of multiples in a column, and the
    mean number of cells from one to the next in a decade.
    """
    mean_spacing = n_cells / np.maximum(n_multiples, 1)

    most_in_column = np.maximum(MOST_OF_A_COLUMN * n_cells, MOST_TOGETHER * mean_spacing)
    most = np.minimum(most_in_column, MOST_OF_A_DECADE * cells_a_decade)
    if_many = np.minimum(ROUND_SHARE * spacing, most)
    if_few = np.minimum(spacing, FEW_TOGETHER * mean_spacing)
    measures = np.where(n_multiples <= FEW, if_few, if_many).astype(np.int64)

    is_sparse = np.minimum(spacing, mean_spacing) >= _CELLS_BETWEEN
    return np.where(is_sparse, measures, 0)


def _serials_below(values, first_decade):
    """Return the last serial below each value, in columns with these first decades."""
    decades = np.maximum(_powers_up_to(np.abs(values)) - first_decade, 0)

    digits_after = _MOST_DIGITS - 1 - first_decade - decades
    mantissas = np.ceil(times_ten_to(values, digits_after)) - 1

    signs = np.sign(values).astype(np.int64)
    return mantissas.astype(np.int64) + signs * decades * _SERIALS_A_DECADE


def _powers_up_to(magnitudes):
    """Return the exponent of the largest power of ten up to each magnitude, at least -308."""
    powers = _POWERS_OF_EXPONENTS.take(magnitudes.view(np.int64) >> _MANTISSA_BITS)
    # An octave contains at most one further power of ten.
    following = POWERS_OF_TEN.take(powers + (1 - FIRST_POWER), mode="clip")
    return powers + ((magnitudes >= following) & (powers < -FIRST_POWER))


def times_ten_to(values, powers):
    """Return ``values * 10**powers``. Negative powers divide, so the result is rounded once."""
    index = powers - FIRST_POWER
    return values * _MULTIPLIERS.take(index) / _DIVISORS.take(index)
