"""Buckets: numbers are counted by the leading bits of their floats, without a sort.

A float without its low bits is a *key*: a whole number that never falls where the value rises.
Numbers with one key share a bucket. So the numbers below a value are those in all buckets before
its own, and some of its own: that is the only one to be looked into.

Which bits are leading is taken from a sample of the rows. It decides how many records share a
bucket, hence how long look-ups take, and nothing else.
"""

from dataclasses import dataclass, replace

import numpy as np

_KEY_TYPES = {np.float32: np.int32, np.float64: np.int64}
# One number in so many of a sample is nearer to zero than `least`, and one further than `most`.
_OUTER_PART = 256
# If single precision has fewer floats than this between them, buckets need double.
_FEWEST_FLOATS = 2**10
_ROWS_PER_KEY = 64
_MOST_BITS = 14  # of a key, beside its sign: buckets fit into 16


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """How each of several columns is cut into buckets; arrays have the shape (n_columns,).

    Magnitudes are clipped to the range from `least` to `most` and counted in floats from `least`
    on. Without `shift` low bits that is a key from 0 to ``2**n_bits - 1``, which gets the sign of
    the number. Zeros of both signs have the key 0. Bucket 0 is that of NaN, and the others are
    ``key + 2**n_bits``.
    """

    precision: type  # np.float32 or np.float64
    least: np.ndarray  # of that precision
    most: np.ndarray
    bits_of_least: np.ndarray
    shift: np.ndarray
    n_bits: int

    @classmethod
    def for_table(cls, sample, n_rows):
        """Return buckets for columns of so many rows, some of which are in `sample`.

        `sample` is (n_columns, n_sampled) with at least one row. Any numbers may be in it.
        """
        magnitudes = np.abs(sample)
        is_counted = (magnitudes > 0) & (magnitudes < np.inf)
        magnitudes = np.sort(np.where(is_counted, magnitudes, np.inf), axis=1)

        n_counted = is_counted.sum(axis=1)
        last = np.maximum(n_counted - 1, 0)
        every = np.arange(last.size)
        least = magnitudes[every, last // _OUTER_PART]
        most = magnitudes[every, last - last // _OUTER_PART]

        n_bits = min(max((n_rows // _ROWS_PER_KEY).bit_length(), 1), _MOST_BITS)
        single = cls._between(np.float32, least, most, n_bits)
        n_floats = single.most.view(np.int32) - single.bits_of_least
        is_fine = (n_floats >= _FEWEST_FLOATS) | (least == most)
        return single if is_fine.all() else cls._between(np.float64, least, most, n_bits)

    @classmethod
    def _between(cls, precision, least, most, n_bits):
        least = least.astype(precision)
        most = most.astype(precision)
        bits_of_least = least.view(_KEY_TYPES[precision])
        n_floats = most.view(_KEY_TYPES[precision]) - bits_of_least
        shift = np.maximum(np.frexp(n_floats.astype(np.float64))[1] - n_bits, 0)
        return cls(
            precision=precision,
            least=least,
            most=most,
            bits_of_least=bits_of_least,
            shift=shift.astype(bits_of_least.dtype),
            n_bits=n_bits,
        )

    @property
    def n_buckets(self):
        """How many buckets a column has, that of NaN among them."""
        return 2 << self.n_bits

    def at(self, columns):
        """Return the same buckets for an array of columns, in its shape."""
        return replace(
            self,
            least=self.least[columns],
            most=self.most[columns],
            bits_of_least=self.bits_of_least[columns],
            shift=self.shift[columns],
        )

    def of_values(self, values):
        """Return the bucket of each value; the arrays of this object broadcast with the values."""
        floats = values.astype(self.precision, order="C")  # a copy, which is worked on
        signs = floats.view(self.bits_of_least.dtype) >> (8 * floats.itemsize - 1)  # -1 or 0
        np.abs(floats, out=floats)
        np.maximum(floats, self.least, out=floats)
        np.minimum(floats, self.most, out=floats)

        keys = floats.view(signs.dtype)
        has_nan = floats.size > 0 and np.isnan(floats.max())
        is_nan = np.isnan(floats) if has_nan else None
        keys -= self.bits_of_least
        keys >>= self.shift
        keys ^= signs
        keys -= signs
        keys += 1 << self.n_bits
        if has_nan:
            keys[is_nan] = 0
        return keys
