"""The public grid: value <-> cell, with bounds and without, fixed before any data are seen.

Every number belongs to one of `n_cells` cells, and every cell has `positions_per_cell`
positions, the integers among which the mechanisms choose. Only cells are ever released, as
the number with the fewest decimal digits inside them, so an output has no low-order bits that
could betray the data.
"""

from dataclasses import dataclass

import numpy as np

N_CELLS = 2**40
POSITIONS_PER_CELL = 2**22

# The unbounded grid is logarithmic from 2^-10 to 2^64, which holds every 64-bit integer, and
# linear below: there its cells are 1.3e-13 wide. A logarithm that went on would fill the gap
# around zero with most of the cells and draw the quantiles of centred data to it.
SMALLEST = 2.0**-10
LARGEST = 2.0**64
_OCTAVES = 1 + 10 + 64  # one for everything below SMALLEST, then one for each power of two
_STEPS_PER_OCTAVE = 2**52  # floats in an octave
_SMALLEST_BITS = int(np.float64(SMALLEST).view(np.int64))
_LARGEST_BELOW = float(np.nextafter(LARGEST, 0.0))


@dataclass(frozen=True)
class UnboundedGrid:
    """Cells of equal width in a signed logarithm of the value: fine near 0, coarse far away.

    A magnitude's height is the number of floats below it, that is, its bit pattern: the
    logarithm, taken linearly between powers of two. Below 2^-10 the height is linear down to 0.
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

    @np.errstate(all="ignore")
    def cells_of(self, values):
        """Return the cell of each value (no NaN); what lies beyond +-2^64 is clipped."""
        magnitudes = np.minimum(np.abs(values), _LARGEST_BELOW)
        heights = magnitudes.view(np.int64) - (_SMALLEST_BITS - _STEPS_PER_OCTAVE)
        signs = values.view(np.int64) >> 63  # -1 or 0; negates without a branch for each value
        heights ^= signs
        heights -= signs
        tiny = magnitudes < SMALLEST
        if tiny.any():
            heights[tiny] = np.floor(values[tiny] * (_STEPS_PER_OCTAVE / SMALLEST))
        heights //= self._steps_per_cell
        heights += self.n_cells // 2
        return heights

    def contain(self, cells, values):
        """Return whether each value lies in its cell, not clipped to it."""
        return (self.cells_of(values) == cells) & (np.abs(values) <= LARGEST)

    def lower_edges(self, cells):
        """Return the lower end of each cell as a float."""
        heights = (np.asarray(cells) - self.n_cells // 2) * self._steps_per_cell
        return self._values_at(heights)

    def middles(self, cells):
        """Return the middle of each cell as a float."""
        heights = (np.asarray(cells) - self.n_cells // 2) * self._steps_per_cell
        return self._values_at(heights + self._steps_per_cell // 2)

    def _values_at(self, heights):
        levels = np.abs(heights)
        bits = levels + (_SMALLEST_BITS - _STEPS_PER_OCTAVE)
        tiny = levels * (SMALLEST / _STEPS_PER_OCTAVE)
        magnitudes = np.where(levels < _STEPS_PER_OCTAVE, tiny, bits.view(np.float64))
        return np.copysign(magnitudes, heights)


@dataclass(frozen=True)
class BoundedGrid:
    """Cells of equal width between two public bounds; what lies outside is clipped."""

    low: float
    high: float
    n_cells: int = N_CELLS
    positions_per_cell: int = POSITIONS_PER_CELL
    edges_are_exact = False

    @np.errstate(all="ignore")
    def cells_of(self, values):
        """Return the cell of each value (no NaN)."""
        shares = np.clip(values, self.low, self.high)
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

    def _values_at(self, shares):
        return np.clip(self.low + shares * (self.high - self.low), self.low, self.high)


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
