"""Round numbers: decimal numbers of few digits, and how much grid measure each of them has.

People write down round numbers (37, 0.25, 1e6), and many records may share one. Between two of
them lie millions of empty cells, which would otherwise win against the one cell that the records
are in.

Every decimal number of up to 13 digits has a *serial*: 0, 1, 2, ... from zero upwards. The serials
of those with up to 12 digits are divisible by 10, of those with up to 11 by 100, and so on.
"""

from dataclasses import dataclass

import numpy as np

# The multiples of each power of ten share a tenth of the measure that all cells have without them.
# None has more than a part of a decade or of a column: it would attract draws from around it.
# Between bounds that leave not many of them, they may have a part of the column together, and more
# if they are few: between 1 and 7 there are the points of a scale.
ROUND_SHARE = 0.1
MOST_OF_A_DECADE = 1 / 200
MOST_OF_A_COLUMN = 1 / 4000
MOST_TOGETHER = 0.07
FEW = 16
FEW_TOGETHER = 0.2
# Round numbers that are less than this many cells apart have nothing to stand out from.
_CELLS_BETWEEN = 100

_MOST_DIGITS = 13
_SERIALS_A_DECADE = 9 * 10 ** (_MOST_DIGITS - 1)

FIRST_POWER = -308
POWERS_OF_TEN = np.array([float(f"1e{power}") for power in range(FIRST_POWER, 309)])
# By the power, from -308 to 308: the float to multiply by, and that to divide by.
_MULTIPLIERS = np.maximum(POWERS_OF_TEN, 1.0)
_DIVISORS = _MULTIPLIERS[::-1].copy()
# By the exponent of a float: the largest power of ten up to 2^exponent; subnormal floats have 0.
_MANTISSA_BITS = 52
_EXPONENTS = np.ldexp(1.0, np.maximum(np.arange(2047) - 1023, -1022))
_POWERS_OF_EXPONENTS = POWERS_OF_TEN.searchsorted(_EXPONENTS, side="right") - 1 + FIRST_POWER


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundNumbers:
    """The round numbers of several columns, and their measures.

    Methods take the column of each number as `columns`, an index into the columns that broadcasts
    with it.
    """

    first_decade: np.ndarray  # (n_columns,), the power of ten below which serials are linear
    powers: np.ndarray  # (n_powers,), of ten, each 10 times the one before: serials with a measure
    # are multiples of one of them
    measures: np.ndarray  # (n_powers, n_columns), of a multiple of each power: whole numbers

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
        """Return the serials behind `begin` and up to `end` to which units of measure belong.

        The units 0, 1, ... are those of the multiples of the first power, then of the next, and so
        on. All arrays have the shape (n,).
        """
        begins, ends = self._multiples_up_to(np.array((begin, end))).swapaxes(0, 1)
        measures = self.measures[:, columns]

        of_powers = measures * (ends - begins)
        before = of_powers.cumsum(axis=0) - of_powers
        power = (before <= units).sum(axis=0) - 1

        found = power, np.arange(units.size)
        multiples = begins[found] + 1 + (units - before[found]) // measures[found]
        return multiples * self.powers[power]

    def _multiples_up_to(self, serials):
        """Return for each power its last multiple up to each serial, divided by it.

        NumPy divides by one number several times as fast as by many, and rounding down in steps
        comes to the same.
        """
        multiples = np.empty((self.powers.size, *np.shape(serials)), dtype=np.int64)
        quotient = serials
        divisor = self.powers[0]
        for index in range(self.powers.size):
            quotient = np.floor_divide(quotient, divisor, out=multiples[index, ...])
            divisor = 10
        return multiples


def round_numbers_of(*, smallest_exponent, cells_a_decade, n_cells, ends, is_lattice):
    """Return the round numbers of columns with so many cells, in all and in a decade.

    The arguments have the shape (n_columns,). Decades are counted from `smallest_exponent`, a power
    of two. `ends` are the lower edge of the first cell and the upper edge of the last one. All
    points of a lattice are alike: it has no round numbers.
    """
    first_decade = np.floor(smallest_exponent * np.log10(2.0)).astype(np.int64)

    powers = 10 ** np.arange(_MOST_DIGITS)[:, None]
    apart = cells_a_decade / _SERIALS_A_DECADE * powers
    begin, end = (_serials_below(edges, first_decade) // powers for edges in ends)
    cells_of_each = n_cells / np.maximum(end - begin, 1)

    most_of_column = np.maximum(MOST_OF_A_COLUMN * n_cells, MOST_TOGETHER * cells_of_each)
    most = np.minimum(most_of_column, MOST_OF_A_DECADE * cells_a_decade)
    measures = np.minimum(ROUND_SHARE * apart, most)
    of_few = np.minimum(apart, FEW_TOGETHER * cells_of_each)
    measures = np.where(end - begin <= FEW, of_few, measures).astype(np.int64)
    stands_out = np.minimum(apart, cells_of_each) >= _CELLS_BETWEEN
    measures = np.where(stands_out & ~is_lattice, measures, 0)

    first_power = int(measures.any(axis=1).argmax()) if measures.any() else _MOST_DIGITS - 1
    return RoundNumbers(
        first_decade=first_decade,
        powers=10 ** np.arange(first_power, _MOST_DIGITS),
        measures=measures[first_power:],
    )


def _serials_below(values, first_decade):
    """Return the last serial below each value, in columns with these first decades."""
    decades = np.maximum(_powers_up_to(np.abs(values)) - first_decade, 0)

    digits_after = _MOST_DIGITS - 1 - first_decade - decades
    mantissas = np.ceil(times_ten_to(values, digits_after)) - 1

    signs = np.sign(values).astype(np.int64)
    return mantissas.astype(np.int64) + signs * decades * _SERIALS_A_DECADE


def _powers_up_to(magnitudes):
    """Return the largest power of ten up to each finite magnitude; -308 for the smallest ones."""
    powers = _POWERS_OF_EXPONENTS.take(magnitudes.view(np.int64) >> _MANTISSA_BITS)
    # An octave holds at most one more power of ten.
    following = POWERS_OF_TEN.take(powers + (1 - FIRST_POWER), mode="clip")
    return powers + ((magnitudes >= following) & (powers < -FIRST_POWER))


def times_ten_to(values, powers):
    """Return values times powers of ten; powers below 1 divide, which rounds only once."""
    index = powers - FIRST_POWER
    return values * _MULTIPLIERS.take(index) / _DIVISORS.take(index)
