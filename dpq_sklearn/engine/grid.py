"""The public grid: the cell of each number, and the grid measure of each cell.

Every number belongs to one cell. Every cell has `positions_per_cell` positions, over which its
records are spread. The grid is fixed before any data are read. Only cells are released, so the
released values have no low-order bits that could reveal the data.

The engine uses the interface `Grid`. The cells of a `FloatGrid` have equal width in a signed
logarithm of the value: the number of floats between zero and the value, which is the bit pattern of
the float. It is exact, monotone and the same on every machine, unlike the ``log`` of a library.
Below a smallest power of two the scale is linear through zero. Cell 0 begins at zero, and negative
numbers have negative cells. Between two bounds, cell 0 contains the lower bound.

If the user declares `decimals`, the values of a column lie on a *lattice*, the multiples of a power
of ten, and the cells are the points of the lattice. If there are too many points, cells far from
zero have two points, four points, and so on.

A point is a whole number of *units* (of the last decimal). Values are rounded to units, and edges
are computed in units, so the two conversions must agree to the last bit. Units with at most 51
significant bits survive the conversion to a float and back: the error of dividing by an exact power
of ten and multiplying again is less than half of the last of 51 bits. So every whole number up to
2^51 units is a point. Beyond, only numbers with 51 significant bits are points, and bounds must not
lie there. With 0 decimals nothing is rounded, and every whole float is a point.

The *grid measure* of a cell is 1, or larger if the cell contains a round number (`round_numbers`).
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np

from dpq_sklearn.checks import LARGEST_EXPONENT
from dpq_sklearn.engine.round_numbers import round_numbers_of, times_ten_to

FULL_RESOLUTION = 40  # at most 2^40 cells in a column
POSITIONS_PER_CELL = 2**10
# An upper bound of the grid measure of a column: 2^50 positions, and round numbers.
MOST_MEASURE = 2**53

_STEPS_PER_OCTAVE = 2**52  # floats in an octave
_LARGEST_BITS = np.array(np.finfo(np.float64).max).view(np.int64)  # an edge is never infinite
# Without bounds the scale is logarithmic from two to this power up to `LARGEST_EXPONENT`.
_SMALLEST_EXPONENT = -10
# With bounds it is logarithmic over this number of octaves below the larger bound, or down to
# 2^-10.
_OCTAVES_BETWEEN_BOUNDS = 20
_MOST_OCTAVES = 1000  # so that the number of floats on both sides of zero fits into 64 bits
_LEAST_EXPONENT = -900  # so that no power of ten overflows
# The value of `decimals` for a column without a lattice.
_NO_LATTICE = -(2**15)
_LARGEST_UNIT_EXPONENT = 52  # beyond, floats are further apart than units
_UNIT_BITS = 51  # significant bits of units that survive the conversion to a float and back


class Grid(Protocol):
    """The grids of several columns, as the engine and the mechanisms use them.

    The arrays have the shape (n_columns,). The argument `columns` of the methods has the column of
    each cell or value, and broadcasts with them.

    The proofs require that `cells_of` is monotone and depends on the value alone, that all cells
    from `first` up to `end` have a grid measure of at least 1, and that `cells_at` returns each
    cell for as many units as its measure.
    """

    low: np.ndarray  # values are clipped to [low, high]
    high: np.ndarray
    is_open_low: np.ndarray  # whether `low` is the end of the scale, and not a bound
    is_open_high: np.ndarray
    is_lattice: np.ndarray  # whether the cells are the points of a lattice
    are_columns_alike: bool  # whether all columns have the same grid
    first: np.ndarray  # the first cell
    end: np.ndarray  # one past the last cell
    positions_per_cell: int

    def __getitem__(self, columns):
        """Return the grids of a slice or a list of the columns."""

    def on_lattices(self, values, columns):
        """Return each float64 value, or the nearest point of its lattice; NaN stays NaN."""

    def cells_of(self, values, columns):
        """Return the cell of each float64 value; the result for NaN is arbitrary."""

    def lower_edges(self, cells, columns):
        """Return the least value in each cell, exact to the last bit.

        On a lattice it is the least point.
        """

    def upper_edges(self, cells, columns):
        """Return the upper end of each cell; on a lattice, the last point of the cell."""

    def measure_before(self, cells, columns):
        """Return the total grid measure of the cells before each cell."""

    def cells_at(self, first, last, units, columns):
        """Return the cells in [first, last) to which the given units of their measure belong.

        All arrays have the shape (n,). Each unit is at least 0, and below the measure of its range.
        """


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatGrid:
    """Grids with cells that are ranges of floats, an implementation of `Grid`."""

    low: np.ndarray
    high: np.ndarray
    is_open_low: np.ndarray
    is_open_high: np.ndarray
    smallest_exponent: np.ndarray  # the scale is linear below this power of two
    steps_per_cell: np.ndarray  # the number of floats in a cell
    decimals: np.ndarray | None = None  # of the lattices; None if no column has a lattice
    positions_per_cell: int = POSITIONS_PER_CELL

    def __getitem__(self, columns):
        """Return the grids of a slice or a list of the columns."""
        fields = {name: field[columns] for name, field in self._fields_of_columns().items()}
        return type(self)(**fields, positions_per_cell=self.positions_per_cell)

    def _fields_of_columns(self):
        """Return the fields that have an entry for each column."""
        return {
            "low": self.low,
            "high": self.high,
            "is_open_low": self.is_open_low,
            "is_open_high": self.is_open_high,
            "smallest_exponent": self.smallest_exponent,
            "steps_per_cell": self.steps_per_cell,
            **({} if self.decimals is None else {"decimals": self.decimals}),
        }

    def _index(self, columns):
        """Return `columns`, or 0 if all columns have the same grid, because a scalar is faster."""
        return 0 if self.are_columns_alike else columns

    @cached_property
    def are_columns_alike(self):
        """Whether all columns have the same grid."""
        return all((field == field[0]).all() for field in self._fields_of_columns().values())

    @cached_property
    def is_lattice(self):
        """Whether the cells of each column are the points of a lattice."""
        if self.decimals is None:
            return np.zeros(self.low.size, dtype=bool)
        return self.decimals != _NO_LATTICE

    def on_lattices(self, values, columns):
        """Return each value, or the nearest point of its lattice; NaN stays NaN."""
        with np.errstate(over="ignore"):  # values beyond the largest float become infinite
            return self._in_values(self._in_units(values, columns), columns)

    def _in_units(self, values, columns):
        """Return values on lattices as whole numbers of units, and other values unchanged.

        ``_in_units(_in_values(units)) == units`` for the units of all points (`_UNIT_BITS`).
        """
        if self.decimals is None:
            return values

        decimals = self._n_decimals[columns]
        units = np.rint(times_ten_to(values, decimals)) + 0.0  # no negative zero
        is_far = (np.abs(units) > 2.0**_UNIT_BITS) & (decimals != 0)
        if is_far.any():
            units = np.where(is_far, _with_unit_bits(units), units)
        return np.where(self.is_lattice[columns], units, values)

    def _in_values(self, units, columns):
        """Return the values of units on lattices, and other values unchanged."""
        if self.decimals is None:
            return units
        return times_ten_to(units, -self._n_decimals[columns])

    @cached_property
    def _n_decimals(self):
        """The number of decimals of each lattice, and 0 for other columns."""
        return np.where(self.is_lattice, self.decimals, 0)

    @cached_property
    def first(self):
        """The first cell of each column."""
        return self.cells_of(self.low, slice(None))

    @cached_property
    def end(self):
        """One past the last cell of each column."""
        return self.cells_of(self.high, slice(None)) + 1

    def cells_of(self, values, columns):
        """Return the cell of each float64 value; the result for NaN is arbitrary."""
        columns = self._index(columns)
        clipped = np.minimum(np.maximum(values, self.low[columns]), self.high[columns])
        steps = self._steps_of(self._in_units(clipped, columns), columns)
        return steps // self.steps_per_cell[columns] - self._origin[columns]

    def lower_edges(self, cells, columns):
        """Return the least value in each cell, exact to the last bit."""
        columns = self._index(columns)
        return self._in_values(self._least_units(cells, columns), columns)

    def upper_edges(self, cells, columns):
        """Return the upper end of each cell; on a lattice, the last point of the cell."""
        columns = self._index(columns)
        following = self._least_units(cells + 1, columns)
        if self.decimals is None:
            return following

        # The distance to the previous point is 1, or the last bit of units far from zero.
        last_bits = np.spacing(np.abs(np.nextafter(following, -np.inf)))
        times = np.where(self._n_decimals[columns] == 0, 1.0, 2.0 ** (53 - _UNIT_BITS))
        distances = np.maximum(1.0, times * last_bits)
        last = following - np.where(self.is_lattice[columns], distances, 0.0)
        return self._in_values(last, columns)

    def _least_units(self, cells, columns):
        """Return the least number of units in each cell, or the least value without a lattice."""
        from_zero = cells + self._origin[columns]
        return self._values_at(from_zero * self.steps_per_cell[columns], columns)

    @cached_property
    def _origin(self):
        """The number of cells from zero to cell 0."""
        # Between bounds far from zero, cells are so fine that their numbers from zero would
        # overflow.
        lowest = self._in_units(self.low, slice(None))
        cells = self._steps_of(lowest, slice(None)) // self.steps_per_cell
        return np.where(self.is_open_low | self.is_open_high, 0, cells)

    def _steps_of(self, values, columns):
        """Return the signed number of floats from zero to each value.

        Below the smallest power of two, linear steps replace floats.
        """
        magnitudes = np.abs(values)
        steps = magnitudes.view(np.int64) - self._bits_at_zero[columns]
        signs = values.view(np.int64) >> 63  # -1 or 0, to negate without a branch
        steps ^= signs
        steps -= signs
        is_tiny = magnitudes < self._smallest[columns]
        if is_tiny.any():
            of_smallest = np.where(is_tiny, values, 0.0) / self._smallest[columns]
            whole = np.floor(of_smallest[is_tiny] * _STEPS_PER_OCTAVE)
            # A negative number stays below zero even if the quotient is too small for a float.
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
        """The bit pattern at which steps begin: an octave below the smallest power of two."""
        return self._smallest.view(np.int64) - _STEPS_PER_OCTAVE

    @cached_property
    def _smallest(self):
        return np.ldexp(1.0, self.smallest_exponent)

    def measure_before(self, cells, columns):
        """Return the total grid measure of the cells before each cell."""
        columns = self._index(columns)
        return self._measure_from_zero(cells, columns) - self._measure_before_first[columns]

    @cached_property
    def _measure_before_first(self):
        return self._measure_from_zero(self.first, slice(None))

    def _measure_from_zero(self, cells, columns):
        serials = self._serials_before(cells, columns)
        return cells + self._round_numbers.measure_up_to(serials, columns)

    def cells_at(self, first, last, units, columns):
        """Return the cells in [first, last) to which the given units of their measure belong.

        The first units belong to the cells, one to each. The others belong to round numbers.
        """
        cells = first + units
        beyond = (cells >= last).nonzero()[0]
        if beyond.size == 0:
            return cells

        columns = columns[beyond]
        ends = np.array((first[beyond], last[beyond]))
        serials = self._round_numbers.serials_at(
            *self._serials_before(ends, columns), (cells - last)[beyond], columns
        )
        cells[beyond] = self._cells_of_serials(serials, columns)
        return cells

    @cached_property
    def _round_numbers(self):
        cells_a_decade = _STEPS_PER_OCTAVE * np.log2(10.0) / self.steps_per_cell
        return round_numbers_of(
            smallest_exponent=self.smallest_exponent,
            cells_a_decade=cells_a_decade,
            n_cells=self.end - self.first,
            ends=self.lower_edges(np.array((self.first, self.end)), slice(None)),
            is_lattice=self.is_lattice,
        )

    def _serials_before(self, cells, columns):
        """Return the last serial of a round number before each cell."""
        columns = self._index(columns)
        return self._round_numbers.serials_below(self.lower_edges(cells, columns), columns)

    def _cells_of_serials(self, serials, columns):
        """Return the cell of each serial, consistent with `_serials_before`."""
        values = self._round_numbers.values_of(serials, columns)
        # The relative error of less than 2^-50 matters only if the edge of a cell is that near.
        around = np.array((values * (1 - 2.0**-50), values * (1 + 2.0**-50)))
        cells, others = self.cells_of(around, columns)
        if (cells == others).all():
            return cells

        while True:
            before, up_to = self._serials_before(np.array((cells, cells + 1)), columns)
            steps = (up_to < serials).astype(np.int64) - (before >= serials)
            if not steps.any():
                return cells
            cells += steps


def make_grid(bounds_of_columns, resolution=FULL_RESOLUTION, decimals_of_columns=None):
    """Return the grids of columns with checked bounds, which are infinite at open ends.

    A column has about ``2**resolution`` cells, unless there are fewer floats, or points of its
    lattice, between its bounds. `decimals_of_columns` are checked (`checked_decimals`), with None
    for a column without a lattice.
    """
    if not 1 <= resolution <= FULL_RESOLUTION:
        raise ValueError(
            f"resolution must be an integer from 1 to {FULL_RESOLUTION}, got {resolution}."
        )

    decimals = decimals_of_columns or [None] * len(bounds_of_columns)
    return _grid_of_columns(tuple(map(tuple, bounds_of_columns)), resolution, tuple(decimals))


@lru_cache(maxsize=32)  # so that the next fit reuses the cached properties of a grid
def _grid_of_columns(bounds_of_columns, resolution, decimals_of_columns):
    """Return the same as `make_grid` for hashable arguments."""
    columns = [
        _fields_of_column(*bounds, resolution)
        if decimals is None
        else _fields_of_lattice(*bounds, resolution, decimals)
        for bounds, decimals in zip(bounds_of_columns, decimals_of_columns, strict=True)
    ]
    fields = {name: np.array([fields[name] for fields in columns]) for name in columns[0]}
    if all(decimals is None for decimals in decimals_of_columns):
        fields["decimals"] = None
    for array in fields.values():
        if array is not None:
            array.flags.writeable = False
    return FloatGrid(**fields)


@lru_cache(maxsize=1024)  # most columns have the same bounds, or none
def _fields_of_column(low, high, resolution):
    """Return the fields of a `FloatGrid` for one column."""
    is_open_low = bool(np.isinf(low))
    is_open_high = bool(np.isinf(high))

    if is_open_low or is_open_high:
        largest = float(np.nextafter(2.0**LARGEST_EXPONENT, 0.0))
        low = min(max(low, -largest), largest)
        high = max(min(high, largest), -largest)
        exponent = _SMALLEST_EXPONENT
        n_octaves = 1 + LARGEST_EXPONENT - _SMALLEST_EXPONENT
        steps_per_cell = n_octaves * _STEPS_PER_OCTAVE >> (resolution - 1)
    else:
        top = int(np.frexp(max(abs(low), abs(high)))[1])
        exponent = min(top - _OCTAVES_BETWEEN_BOUNDS, _SMALLEST_EXPONENT)
        exponent = max(exponent, top - _MOST_OCTAVES, _LEAST_EXPONENT)
        # A power of two, so that coarser cells are unions of finer ones.
        n_floats = _n_floats_between(low, high, exponent)
        steps_per_cell = 1 << max((n_floats - 1).bit_length() - resolution, 0)

    return {
        "low": float(low),
        "high": float(high),
        "is_open_low": is_open_low,
        "is_open_high": is_open_high,
        "smallest_exponent": exponent,
        "steps_per_cell": steps_per_cell,
        "decimals": _NO_LATTICE,
    }


@lru_cache(maxsize=1024)
def _fields_of_lattice(low, high, resolution, decimals):
    """Return the fields of a `FloatGrid` for a column on a lattice, with steps of units."""
    first, last = units_between(low, high, decimals)

    def n_cells(exponent):
        return _cells_from_zero(last, exponent) - _cells_from_zero(first, exponent) + 1

    # As many points as possible are single cells.
    exponents = range(_LARGEST_UNIT_EXPONENT, 0, -1)
    exponent = next((e for e in exponents if n_cells(e) <= 1 << resolution), 0)
    coarser = 1 << max((n_cells(exponent) - 1).bit_length() - resolution, 0)

    lowest, highest = times_ten_to(np.array([first, last], dtype=np.float64), np.array(-decimals))
    return {
        "low": float(lowest),
        "high": float(highest),
        "is_open_low": bool(np.isinf(low)),
        "is_open_high": bool(np.isinf(high)),
        "smallest_exponent": exponent,
        "steps_per_cell": (_STEPS_PER_OCTAVE >> exponent) * coarser,
        "decimals": decimals,
    }


def _with_unit_bits(units):
    """Return units rounded to `_UNIT_BITS` significant bits."""
    mantissas, exponents = np.frexp(units)
    return np.ldexp(np.rint(np.ldexp(mantissas, _UNIT_BITS)), exponents - _UNIT_BITS)


def _n_unit_bits(decimals):
    """Return the number of significant bits that the units of a lattice may have."""
    return 53 if decimals == 0 else _UNIT_BITS


def _farthest_bound(decimals):
    """Return the largest distance of a bound from zero, in units."""
    return 2.0**LARGEST_EXPONENT if decimals == 0 else 2.0**_UNIT_BITS


def _cells_from_zero(units, exponent):
    """Return the number of cells from zero to a number of units.

    The scale is linear up to ``2**exponent``, and has ``2**exponent`` cells per octave beyond.
    """
    octaves_beyond = max(abs(units).bit_length() - 1 - exponent, 0)
    cells = (octaves_beyond << exponent) + (abs(units) >> octaves_beyond)
    return cells if units >= 0 else -cells


def units_between(low, high, decimals):
    """Return the first and the last point of a lattice between two bounds, in units.

    An open end is 2^64 units from zero. The first point is above the last if there are no points.
    Raises a ValueError if a bound is so far from zero that floats cannot represent the decimals.
    """
    with np.errstate(over="ignore"):
        ends = np.rint(times_ten_to(np.array([low, high]), np.array(decimals)))
    values = times_ten_to(ends, np.array(-decimals))

    farthest = _farthest_bound(decimals)
    if np.any(np.isfinite((low, high)) & (np.abs(ends) > farthest)):
        raise ValueError(
            f"bounds must lie within {times_ten_to(farthest, np.array(-decimals)):g} of 0 if "
            f"decimals={decimals}, got {(low, high)!r}. Further from 0, floating-point numbers are "
            "less precise than that: pass fewer decimals, or decimals=None."
        )

    largest = 2**LARGEST_EXPONENT - 2 ** (LARGEST_EXPONENT - _n_unit_bits(decimals))
    first = -largest if np.isinf(low) else int(ends[0]) + bool(values[0] < low)
    last = largest if np.isinf(high) else int(ends[1]) - bool(values[1] > high)
    return first, last


def _n_floats_between(low, high, smallest_exponent):
    """Return the number of cells between two bounds if every float is a cell."""
    floats = FloatGrid(
        low=np.array([low]),
        high=np.array([high]),
        is_open_low=np.array([False]),
        is_open_high=np.array([False]),
        smallest_exponent=np.array([smallest_exponent]),
        steps_per_cell=np.array([1]),
    )
    return int(floats.end[0] - floats.first[0])
