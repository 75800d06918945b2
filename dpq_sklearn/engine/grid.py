"""The public grid: value <-> cell, with bounds and without, fixed before any data are seen.

Every number belongs to one of `n_cells` cells, and every cell has `positions_per_cell`
positions, the integers among which the mechanisms choose. Only cells are ever released, as
the number with the fewest decimal digits inside them, so an output has no low-order bits that
could betray the data.

Cells have *masses*: a cell that holds a round number (37, 0.25, 1e6) has more than another, as
people write down round numbers, and many records may share one. Between two of them lie millions
of empty cells, which would otherwise win against the one that the records are in.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

N_CELLS = 2**40
POSITIONS_PER_CELL = 2**21
# More than the mass of all positions of a grid, which so are 64-bit integers.
MOST_MASS = 2**63
# The multiples of a power of ten share a tenth of the mass that all cells have without them,
# unless so few of them would be too attractive for records that are just near.
ROUND_SHARE = 0.1
# Powers of ten that are less than this many cells apart have nothing to stand out from.
_CELLS_BETWEEN = 100

# The unbounded grid is logarithmic from 2^-10 to 2^64, which holds every 64-bit integer, and
# linear below: there its cells are 1.3e-13 wide. A logarithm that went on would fill the gap
# around zero with most of the cells and draw the quantiles of centred data to it.
SMALLEST = 2.0**-10
LARGEST = 2.0**64
_OCTAVES = 1 + 10 + 64  # one for everything below SMALLEST, then one for each power of two
_STEPS_PER_OCTAVE = 2**52  # floats in an octave
_SMALLEST_BITS = int(np.float64(SMALLEST).view(np.int64))
_LARGEST_BELOW = float(np.nextafter(LARGEST, 0.0))
_FIRST_DECADE = -4
_POWERS = np.array([float(f"1e{power}") for power in range(_FIRST_DECADE, 20)])


class _Decimals(NamedTuple):
    """How many powers of ten have masses, how many cells the multiples of the least are apart, and
    the largest mass of a multiple.
    """

    n_powers: int
    apart: float
    most: float


class _Masses:
    """The public masses of the cells, shared by both grids.

    A grid numbers the numbers of its finest decimal by whole *heights*, those of ten times that
    size by multiples of 10, and so on. The mass before a cell is the number of cells before it,
    and for each power of ten the number of its multiples before it times their mass.
    """

    @cached_property
    def _round_masses(self):
        """The powers of ten, in heights, and the masses of a multiple of each: whole numbers."""
        n_powers, apart, most = self._decimals
        powers = 10 ** np.arange(max(n_powers, 0), dtype=np.int64)
        return powers, np.minimum(ROUND_SHARE * apart * powers, most).astype(np.int64)

    def masses(self, cells):
        """Return the mass of all cells before each of the given ones, and that of each itself."""
        powers, of_multiples = self._round_masses
        if powers.size == 0:
            return cells, np.ones_like(cells)
        flat = cells.ravel()
        heights, next_heights = self._heights_before(np.array((flat, flat + 1)))
        before = flat + of_multiples @ _multiples(powers, heights)
        own = np.ones_like(flat)
        round_ones = np.flatnonzero(next_heights > heights)
        ends = _multiples(powers, next_heights[round_ones])
        own[round_ones] += of_multiples @ (ends - _multiples(powers, heights[round_ones]))
        return before.reshape(cells.shape), own.reshape(cells.shape)

    def cells_by_mass(self, first, last, masses):
        """Return cells in [first, last): each for as many of the masses 0, 1, ... as it has.

        In an order of its own: first all cells, then the multiples of each power of ten.
        """
        cells = first + masses
        beyond = np.flatnonzero(cells >= last)
        if beyond.size:
            powers, round_masses = self._round_masses
            begin = _multiples(powers, self._heights_before(first[beyond]))
            end = _multiples(powers, self._heights_before(last[beyond]))
            of_powers = round_masses[:, None] * (end - begin)
            up_to = np.cumsum(of_powers, axis=0)
            rest = cells[beyond] - last[beyond]
            which = (rest >= up_to).sum(axis=0)
            chosen = which, np.arange(beyond.size)
            rest -= (up_to - of_powers)[chosen]
            multiples = begin[chosen] + rest // round_masses[which]
            cells[beyond] = self._cells_of_heights(multiples * powers[which])
        return cells

    def _cells_of_heights(self, heights):
        """Return the cell that holds the number of each height, as `_heights_before` has it."""
        cells = self.cells_of(self._numbers_at(heights))
        at, behind = self._heights_before(np.array((cells, cells + 1)))
        for index in np.flatnonzero((at > heights) | (behind <= heights)):  # off by a last bit
            cells[index] = bisect_right(_HeightsBefore(self), heights[index]) - 1
        return cells


def _multiples(powers, heights):
    """Return how many multiples of each power lie from 0 up to each height."""
    return -(-heights // powers[:, None])


class _HeightsBefore:
    """The heights before the cells of a grid as an ascending sequence."""

    def __init__(self, grid):
        self._grid = grid

    def __len__(self):
        return self._grid.n_cells + 1

    def __getitem__(self, cell):
        return self._grid._heights_before(np.array([cell]))[0]


@dataclass(frozen=True)
class UnboundedGrid(_Masses):
    """Cells of equal width in a signed logarithm of the value: fine near 0, coarse far away.

    A magnitude's steps are the number of floats below it, that is, its bit pattern: the
    logarithm, taken linearly between powers of two. Below 2^-10 the steps are linear down to 0.
    This costs no logarithm, and it is exact, monotone and alike on every machine, which no
    library's ``log`` promises. Zero is the lower end of the cell ``n_cells / 2``.
    """

    n_cells: int = N_CELLS
    positions_per_cell: int = POSITIONS_PER_CELL
    #: whether `lower_edges` are, to the last bit, the least values of the cells
    edges_are_exact = True

    @property
    def _steps_per_cell(self):
        return _OCTAVES * _STEPS_PER_OCTAVE // (self.n_cells // 2)

    def cells_of(self, values):
        """Return the cell of each value (no NaN); what lies beyond +-2^64 is clipped."""
        with np.errstate(all="ignore"):
            return self._cells_of(values)

    def _cells_of(self, values):
        magnitudes = np.minimum(np.abs(values), _LARGEST_BELOW)
        steps = magnitudes.view(np.int64) - (_SMALLEST_BITS - _STEPS_PER_OCTAVE)
        signs = values.view(np.int64) >> 63  # -1 or 0; negates without a branch for each value
        steps ^= signs
        steps -= signs
        tiny = magnitudes < SMALLEST
        if tiny.any():
            steps[tiny] = np.floor(values[tiny] * (_STEPS_PER_OCTAVE / SMALLEST))
        steps //= self._steps_per_cell
        steps += self.n_cells // 2
        return steps

    def contain(self, cells, values):
        """Return whether each value lies in its cell, not clipped to it."""
        return (self.cells_of(values) == cells) & (np.abs(values) <= LARGEST)

    def lower_edges(self, cells):
        """Return the lower end of each cell as a float."""
        steps = (np.asarray(cells) - self.n_cells // 2) * self._steps_per_cell
        return self._values_at(steps)

    def middles(self, cells):
        """Return the middle of each cell as a float."""
        steps = (np.asarray(cells) - self.n_cells // 2) * self._steps_per_cell
        return self._values_at(steps + self._steps_per_cell // 2)

    @cached_property
    def _decimals(self):
        """Numbers of up to so many digits that two of them are far enough apart."""
        cells = self.n_cells / 2 / _OCTAVES * np.log2(10.0)  # between powers of ten
        digits = int(np.floor(np.log10(cells / (9 * _CELLS_BETWEEN)))) + 1
        return _Decimals(digits, cells / (9 * 10.0 ** (digits - 1)), cells / 200)

    def _heights_before(self, cells):
        """Return the least height not below each cell; see `_decades`."""
        edges = self.lower_edges(cells)
        decades = np.maximum(np.searchsorted(_POWERS, np.abs(edges), side="right") - 1, 0)
        factors, divisors = self._decades
        heights = np.ceil(edges * factors[decades] / divisors[decades]).astype(np.int64)
        return heights + np.sign(edges).astype(np.int64) * decades * self._heights_a_decade

    def _numbers_at(self, heights):
        magnitudes = np.abs(heights)
        decades = np.maximum(magnitudes - self._heights_a_decade // 9, 0) // self._heights_a_decade
        factors, divisors = self._decades
        mantissas = np.sign(heights) * (magnitudes - decades * self._heights_a_decade)
        return mantissas * divisors[decades] / factors[decades]

    @property
    def _heights_a_decade(self):
        return 9 * 10 ** (self._decimals.n_powers - 1)

    @cached_property
    def _decades(self):
        """Factors and divisors, one of them 1, that make whole numbers of those with few digits.

        So the height is linear from 0 to the first power of ten, and then in each decade.
        """
        powers = self._decimals.n_powers - 1 - _FIRST_DECADE - np.arange(_POWERS.size)
        return 10.0 ** np.maximum(powers, 0), 10.0 ** np.maximum(-powers, 0)

    def _values_at(self, steps):
        levels = np.abs(steps)
        bits = levels + (_SMALLEST_BITS - _STEPS_PER_OCTAVE)
        tiny = levels * (SMALLEST / _STEPS_PER_OCTAVE)
        magnitudes = np.where(levels < _STEPS_PER_OCTAVE, tiny, bits.view(np.float64))
        return np.copysign(magnitudes, steps)


@dataclass(frozen=True)
class BoundedGrid(_Masses):
    """Cells of equal width between two public bounds; what lies outside is clipped."""

    low: float
    high: float
    n_cells: int = N_CELLS
    positions_per_cell: int = POSITIONS_PER_CELL
    edges_are_exact = False

    def cells_of(self, values):
        """Return the cell of each value (no NaN)."""
        with np.errstate(all="ignore"):
            shares = np.minimum(np.maximum(values, self.low), self.high)
            shares -= self.low
            shares /= self.high - self.low
            shares *= self.n_cells
            return np.minimum(shares.astype(np.int64), self.n_cells - 1)

    def contain(self, cells, values):
        """Return whether each value lies in its cell, not clipped to it."""
        return (self.cells_of(values) == cells) & (self.low <= values) & (values <= self.high)

    def lower_edges(self, cells):
        """Return the lower end of each cell as a float."""
        return self._values_at(np.asarray(cells) / self.n_cells)

    def middles(self, cells):
        """Return the middle of each cell as a float."""
        return self._values_at((np.asarray(cells) + 0.5) / self.n_cells)

    @cached_property
    def _decimals(self):
        apart = 10.0**self._power if abs(self._power) < 300 else np.inf  # else it is no float
        n_apart = max((self.high - self.low) / apart, 0.1)
        n_powers = int(np.floor(np.log10(n_apart))) + 1
        return _Decimals(n_powers, self.n_cells / n_apart, self.n_cells / 4000)

    @cached_property
    def _power(self):
        """The least power of ten whose multiples are far enough apart, and can be told apart."""
        far_enough = _CELLS_BETWEEN * ((self.high - self.low) / self.n_cells)
        told_apart = max(abs(self.low), abs(self.high)) * 2.0**-50
        return int(np.ceil(np.log10(max(far_enough, told_apart, 1e-300))))

    def _heights_before(self, cells):
        """Return the least height whose number is not before each cell: multiples of a power."""
        edges = self._scaled(self.lower_edges(cells), -self._power)
        heights = np.ceil(edges).astype(np.int64) - self._first_height
        # An edge is off by some last bits. Where that matters, the cells of the numbers decide.
        doubtful = np.abs(edges - np.rint(edges)) <= self._doubt
        if doubtful.any():
            numbers = self._numbers_at(np.array((heights[doubtful] - 1, heights[doubtful])))
            one_less, as_is = self.cells_of(numbers)
            heights[doubtful] += as_is < cells[doubtful]
            heights[doubtful] -= (one_less >= cells[doubtful]) & (numbers[0] >= self.low)
        # The last cell holds the upper bound.
        heights[cells >= self.n_cells] = self._last_height + 1
        return heights

    @cached_property
    def _doubt(self):
        """More than the error of an edge and of a cell together, in heights."""
        return self._scaled(max(abs(self.low), abs(self.high)) * 2.0**-48, -self._power)

    def _numbers_at(self, heights):
        return self._scaled((heights + self._first_height).astype(np.float64), self._power)

    @cached_property
    def _first_height(self):
        """A multiple of all powers below the lower bound: heights are counted from there."""
        largest = 10 ** (self._decimals.n_powers - 1)
        return int(np.floor(self._scaled(self.low, -self._power))) // largest * largest

    @cached_property
    def _last_height(self):
        height = int(np.floor(self._scaled(self.high, -self._power))) - self._first_height
        return height + int(self._numbers_at(np.array([height + 1]))[0] <= self.high)

    @staticmethod
    def _scaled(values, power):
        return values * 10.0**power if power >= 0 else values / 10.0**-power

    def _values_at(self, shares):
        values = self.low + shares * (self.high - self.low)
        return np.minimum(np.maximum(values, self.low), self.high)


def make_grid(bounds):
    """Return the grid for `bounds`: None, or a pair of finite numbers low < high."""
    if bounds is None:
        return UnboundedGrid()
    low, high = checked_bounds(bounds)
    return BoundedGrid(low, high)


def checked_bounds(bounds):
    """Return `bounds` as two floats, or raise a ValueError that says what is wrong with them."""
    message = f"bounds must be None or a pair of finite numbers low < high, got {bounds!r}."
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(message) from None
    if any(isinstance(bound, (str, bytes, bool, np.bool_)) for bound in bounds):
        raise ValueError(message)
    if not low < high or not np.isfinite(high - low):
        raise ValueError(message.replace("low < high", "low < high with a finite width"))
    return low, high


def shortest_decimals(grid, cells):
    """Return for each cell the number with the fewest decimal digits that lies in it.

    An age's cell gives 37.0, zero's cell gives 0.0. Where no float of up to 17 digits maps back
    (a grid finer than floats) it is the cell's middle. A function of the cell alone.
    """
    cells = np.asarray(cells, dtype=np.int64)
    middles = grid.middles(cells)
    # A number of d digits in the cell, if there is one, is the middle rounded to d digits; and
    # d + 1 digits can say what d digits can. So the fewest digits are found by bisection.
    fewest = np.ones(cells.shape, dtype=int)
    most = np.full(cells.shape, 17)
    while np.any(fewest < most):
        digits = (fewest + most) // 2
        inside = grid.contain(cells, _rounded(middles, digits))
        most = np.where(inside, digits, most)
        fewest = np.where(inside, fewest, digits + 1)
    rounded = _rounded(middles, most)
    values = np.where(grid.contain(cells, rounded), rounded, middles)
    return np.where(grid.contain(cells, np.zeros(cells.shape)), 0.0, values)


def _rounded(values, digits):
    """Return each value rounded to its number of significant decimal digits."""
    pairs = zip(values.tolist(), digits.tolist(), strict=True)
    return np.array([float(f"{value:.{digit - 1}e}") for value, digit in pairs], dtype=np.float64)
