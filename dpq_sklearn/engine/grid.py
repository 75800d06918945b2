"""The public grid: which cell a number lies in, and how much grid measure a cell has.

Every number belongs to one cell, and every cell has `positions_per_cell` positions, among which
the records of the cell are spread. The grid is fixed before any data are seen. Only cells are ever
released, so an output has no low-order bits that could betray the data.

Cells have equal width in a signed logarithm of the value: the number of floats between zero and
the value, which is the float's bit pattern. That is exact, monotone and alike on every machine,
which no library's ``log`` promises. Below a smallest power of two the scale is linear, through
zero. Cell 0 begins at zero, and negative numbers have negative cells; between two bounds, cell 0
holds the lower one.

The *grid measure* of a cell is 1, and more if the cell holds a round number (37, 0.25, 1e6):
people write down round numbers, and many records may share one. Between two of them lie millions
of empty cells, which would otherwise win against the one cell that the records are in.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

FULL_RESOLUTION = 40  # at most 2^40 cells in a column
POSITIONS_PER_CELL = 2**10
# More than the grid measure of all positions of a column: 2^50 positions, and round numbers.
MOST_MEASURE = 2**53
# The multiples of each power of ten share a tenth of the measure that all cells have without them.
# None has more than these parts of a decade or a column: it would attract draws from around it.
ROUND_SHARE = 0.1
MOST_OF_A_DECADE, MOST_OF_A_COLUMN = 1 / 200, 1 / 4000
# Round numbers that are less than this many cells apart have nothing to stand out from.
_CELLS_BETWEEN = 100
_MOST_DIGITS = 13
_SERIALS_A_DECADE = 9 * 10 ** (_MOST_DIGITS - 1)

_STEPS_PER_OCTAVE = 2**52  # floats in an octave
_LARGEST_BITS = np.array(np.finfo(np.float64).max).view(np.int64)  # an edge is never infinite
# Without bounds the scale is logarithmic from 2^-10 to 2^64, which holds every 64-bit integer.
_SMALLEST_EXPONENT, _LARGEST_EXPONENT = -10, 64
# With bounds it is logarithmic over the octaves below the larger bound: so many, or down to 2^-10.
_OCTAVES_BETWEEN_BOUNDS = 20
_MOST_OCTAVES = 1000  # so that the floats on both sides of zero can be counted in 64 bits
_LEAST_EXPONENT = -900  # so that no power of ten below overflows
FIRST_POWER = -308
POWERS_OF_TEN = np.array([float(f"1e{power}") for power in range(FIRST_POWER, 309)])


@dataclass(frozen=True, eq=False)
class Grid:
    """The grids of several columns: arrays with one entry for each column.

    Methods take the column of each cell or value as `columns`, an index into these arrays that
    broadcasts with it.
    """

    low: np.ndarray  # values are clipped to it
    high: np.ndarray
    is_open_low: np.ndarray  # whether that is the end of the scale, and not a bound
    is_open_high: np.ndarray
    smallest_exponent: np.ndarray  # the scale is linear below this power of two
    steps_per_cell: np.ndarray  # how many floats are one cell
    positions_per_cell: int = POSITIONS_PER_CELL

    def __getitem__(self, columns):
        """Return the grids of a slice of the columns."""
        return Grid(*(field[columns] for field in self._of_columns()), self.positions_per_cell)

    def _of_columns(self):
        """Return the fields that have one entry for each column."""
        ends = (self.low, self.high, self.is_open_low, self.is_open_high)
        return *ends, self.smallest_exponent, self.steps_per_cell

    def _index(self, columns):
        """Return `columns`, or 0 if all columns have the same grid: looking up one is faster."""
        return 0 if self._are_columns_alike else columns

    @cached_property
    def _are_columns_alike(self):
        return all((field == field[0]).all() for field in self._of_columns())

    @cached_property
    def first(self):
        """The first cell of each column."""
        return self.cells_of(self.low, slice(None))

    @cached_property
    def end(self):
        """One past the last cell of each column."""
        return self.cells_of(self.high, slice(None)) + 1

    def cells_of(self, values, columns):
        """Return the cell of each value (no NaN)."""
        columns = self._index(columns)
        clipped = np.minimum(np.maximum(values, self.low[columns]), self.high[columns])
        steps = self._steps_of(clipped, columns)
        return steps // self.steps_per_cell[columns] - self._origin[columns]

    def lower_edges(self, cells, columns):
        """Return the lower end of each cell: to the last bit, the least value in it."""
        columns = self._index(columns)
        from_zero = cells + self._origin[columns]
        return self._values_at(from_zero * self.steps_per_cell[columns], columns)

    @cached_property
    def _origin(self):
        """The cell, counted from zero, that is cell 0."""
        # Between bounds far from zero cells are so fine that their numbers would overflow.
        cells = self._steps_of(self.low, slice(None)) // self.steps_per_cell
        return np.where(self.is_open_low | self.is_open_high, 0, cells)

    def _steps_of(self, values, columns):
        """Return the number of floats (below the smallest power of two: of steps) from zero."""
        magnitudes = np.abs(values)
        steps = magnitudes.view(np.int64) - self._bits_at_zero[columns]
        signs = values.view(np.int64) >> 63  # -1 or 0; negates without a branch for each value
        steps ^= signs
        steps -= signs
        is_tiny = magnitudes < self._smallest[columns]
        if is_tiny.any():
            of_smallest = np.where(is_tiny, values, 0.0) / self._smallest[columns]
            whole = np.floor(of_smallest[is_tiny] * _STEPS_PER_OCTAVE)
            # A negative number stays below zero, also if the quotient is too small for a float.
            steps[is_tiny] = np.where(values[is_tiny] < 0, np.minimum(whole, -1), whole)
        return steps

    def _values_at(self, steps, columns):
        bits_at_zero = self._bits_at_zero[columns]
        magnitudes = np.minimum(np.abs(steps), _LARGEST_BITS - bits_at_zero)
        bits = magnitudes + bits_at_zero
        tiny = magnitudes * (self._smallest[columns] / _STEPS_PER_OCTAVE)
        values = np.where(magnitudes < _STEPS_PER_OCTAVE, tiny, bits.view(np.float64))
        return np.copysign(values, steps)

    @cached_property
    def _bits_at_zero(self):
        """The bit pattern from which steps are counted: an octave below the smallest power."""
        return self._smallest.view(np.int64) - _STEPS_PER_OCTAVE

    @cached_property
    def _smallest(self):
        return np.ldexp(1.0, self.smallest_exponent)

    def measure_before(self, cells, columns):
        """Return the grid measure before each cell: of cells, and of multiples of powers of ten."""
        return self.measure_of(cells, self.serials_before(cells, columns), columns)

    def measure_of(self, cells, serials, columns):
        """Return `measure_before` cells if their ``serials_before`` is known already."""
        columns = self._index(columns)
        before_first = self._measure_before_first[columns]
        return self._measure_from_zero(cells, serials, columns) - before_first

    @cached_property
    def _measure_before_first(self):
        every = slice(None)
        return self._measure_from_zero(self.first, self.serials_before(self.first, every), every)

    def _measure_from_zero(self, cells, serials, columns):
        multiples, measures = self._multiples_up_to(serials), self._round_measures[:, columns]
        return cells + np.einsum("p...,p...->...", multiples, measures)

    def _multiples_up_to(self, serials):
        """Return for each power of ten its last multiple up to each serial, divided by it."""
        return serials // self._powers.reshape(-1, *(1,) * np.ndim(serials))

    def cells_at(self, first, last, begin, end, measures, columns):
        """Return the cells in [first, last) to which the units 0, 1, ... of their measure belong.

        The units have an order of their own: first one for each cell, then those of the multiples
        of 1, 10, 100, ... `begin` and `end` are the last serials before the two cells.
        """
        cells = first + measures
        beyond = (cells >= last).nonzero()[0]
        if beyond.size == 0:
            return cells
        rest, columns = (cells - last)[beyond], columns[beyond]
        begin, end = self._multiples_up_to(np.array((begin[beyond], end[beyond]))).swapaxes(0, 1)
        of_multiples = self._round_measures[:, columns]
        of_powers = of_multiples * (end - begin)
        before = of_powers.cumsum(axis=0) - of_powers
        power = (before <= rest).sum(axis=0) - 1
        found = power, np.arange(rest.size)
        multiples = begin[found] + 1 + (rest - before[found]) // of_multiples[found]
        cells[beyond] = self._cells_of_serials(multiples * self._powers[power], columns)
        return cells

    # Every number of up to 13 digits has a serial: 0, 1, 2, ... from zero upwards. The serials of
    # those with up to 12 digits are divisible by 10, and so on.

    def serials_before(self, cells, columns):
        """Return the last serial before each cell."""
        columns = self._index(columns)
        edges = self.lower_edges(cells, columns)
        powers = POWERS_OF_TEN.searchsorted(np.abs(edges), side="right") - 1 + FIRST_POWER
        decades = np.maximum(powers - self._first_decade[columns], 0)
        digits_after = _MOST_DIGITS - 1 - self._first_decade[columns] - decades
        mantissas = np.ceil(times_ten_to(edges, digits_after)) - 1
        signs = np.sign(edges).astype(np.int64)
        return mantissas.astype(np.int64) + signs * decades * _SERIALS_A_DECADE

    def _cells_of_serials(self, serials, columns):
        """Return the cell of each serial, as `serials_before` has it."""
        magnitudes = np.abs(serials)
        decades = np.maximum(magnitudes - _SERIALS_A_DECADE // 9, 0) // _SERIALS_A_DECADE
        mantissas = np.sign(serials) * (magnitudes - decades * _SERIALS_A_DECADE)
        digits_after = _MOST_DIGITS - 1 - self._first_decade[columns] - decades
        values = times_ten_to(mantissas.astype(np.float64), -digits_after)
        # Products are off by less than 2^-50. That matters if an edge of a cell is so near.
        around = np.array((values * (1 - 2.0**-50), values * (1 + 2.0**-50)))
        cells, others = self.cells_of(around, columns)
        if (cells == others).all():
            return cells
        while True:
            before, up_to = self.serials_before(np.array((cells, cells + 1)), columns)
            steps = (up_to < serials).astype(np.int64) - (before >= serials)
            if not steps.any():
                return cells
            cells += steps

    @cached_property
    def _first_decade(self):
        """The power of ten from which on decades are counted; below, they are linear."""
        return np.floor(self.smallest_exponent * np.log10(2.0)).astype(np.int64)

    @cached_property
    def _powers(self):
        """The powers of ten by which serials with a measure are divisible."""
        return 10 ** np.arange(_MOST_DIGITS - len(self._round_measures), _MOST_DIGITS)

    @cached_property
    def _round_measures(self):
        """The measure of a multiple of each power of ten, for each column: whole numbers."""
        cells_a_decade = _STEPS_PER_OCTAVE * np.log2(10.0) / self.steps_per_cell
        apart = cells_a_decade / _SERIALS_A_DECADE * 10.0 ** np.arange(_MOST_DIGITS)[:, None]
        most = MOST_OF_A_COLUMN * (self.end - self.first)
        most = np.minimum(most, MOST_OF_A_DECADE * cells_a_decade)
        measures = np.minimum(ROUND_SHARE * apart, most).astype(np.int64)
        measures = np.where(apart >= _CELLS_BETWEEN, measures, 0)
        return measures[measures.any(axis=1).argmax() :]


def times_ten_to(values, powers):
    """Return values times powers of ten; powers below 1 divide, which rounds only once."""
    factors = POWERS_OF_TEN[np.abs(powers) - FIRST_POWER]
    is_up = powers >= 0
    return values * np.where(is_up, factors, 1.0) / np.where(is_up, 1.0, factors)


def make_grid(bounds_of_columns, resolution=FULL_RESOLUTION):
    """Return the grids for checked bounds, a pair for each column; open ends are infinite.

    A column has about ``2**resolution`` cells, unless there are fewer floats between its bounds.
    """
    if not 1 <= resolution <= FULL_RESOLUTION:
        raise ValueError(
            f"resolution must be an integer from 1 to {FULL_RESOLUTION}, got {resolution!r}."
        )
    fields = zip(*(_grid_of_column(*pair, resolution) for pair in bounds_of_columns), strict=True)
    types = (np.float64, np.float64, bool, bool, np.int64, np.int64)
    return Grid(*(np.array(field, dtype=kind) for field, kind in zip(fields, types, strict=True)))


@lru_cache(maxsize=1024)  # most columns have the same bounds, or none
def _grid_of_column(low, high, resolution):
    """Return the fields of `Grid` for one column."""
    is_open_low, is_open_high = np.isinf(low), np.isinf(high)
    if is_open_low or is_open_high:
        largest = float(np.nextafter(2.0**_LARGEST_EXPONENT, 0.0))
        n_octaves = 1 + _LARGEST_EXPONENT - _SMALLEST_EXPONENT
        steps_per_cell = n_octaves * _STEPS_PER_OCTAVE >> (resolution - 1)
        low, high = min(max(low, -largest), largest), max(min(high, largest), -largest)
        return low, high, is_open_low, is_open_high, _SMALLEST_EXPONENT, steps_per_cell
    top = int(np.frexp(max(abs(low), abs(high)))[1])
    exponent = min(top - _OCTAVES_BETWEEN_BOUNDS, _SMALLEST_EXPONENT)
    exponent = max(exponent, top - _MOST_OCTAVES, _LEAST_EXPONENT)
    floats = Grid(*(np.array([x]) for x in (low, high, False, False, exponent, 1)))
    n_cells = int(floats.end[0] - floats.first[0])
    # A power of two, so that coarser cells are unions of finer ones.
    steps_per_cell = 1 << max((n_cells - 1).bit_length() - resolution, 0)
    return low, high, False, False, exponent, steps_per_cell
