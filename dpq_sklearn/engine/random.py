"""Randomness: random words from the operating system, or seeded words for tests.

All random numbers of the package are made here from 64-bit words, so a test can pass words of its
own. Uniform and exponential numbers have full *relative* precision down to 2^-1000, because
outcomes with a probability of 2^-96 must be exact. An ordinary ``random()`` has a resolution of
2^-53.
"""

import os

import numpy as np

from dpq_sklearn.checks import checked_random_state

LN2 = float(np.log(2.0))


class Randomness:
    """Independent uniform 64-bit words, and other random numbers made of them.

    ``words(n)`` returns `n` words as a uint64 array. `from_os` says whether they come from the
    cryptographic generator of the operating system.
    """

    def __init__(self, words, from_os=False):
        self.words = words
        self.from_os = from_os

    def geometric(self, n):
        """Return `n` counts of tails before the first head of a fair coin."""
        coins = self.words(-(-n // 2)).view(np.uint32)[:n]
        lowest_bits = (coins & -coins).astype(np.float64)
        tails = np.frexp(lowest_bits)[1] - 1
        is_empty = coins == 0
        if is_empty.any():  # 32 tails (probability 2^-32): continue with new coins
            tails[is_empty] = 32 + self.geometric(np.count_nonzero(is_empty))
        return tails

    def uniforms(self, n):
        """Return `n` floats in (0, 1) with P(U < p) = p *exactly* for every float p.

        The binary exponent is geometric, and the 52 bits of the mantissa are fair coins. So U is a
        real uniform number, rounded down to a float of any size.
        """
        return self._uniforms(self.geometric(n))

    def _uniforms(self, tails):
        mantissas = (self.words(tails.size) >> np.uint64(12)) * 2.0**-52 + 1.0
        return np.ldexp(mantissas, -1 - tails)

    def integers_below(self, bounds):
        """Return a uniform integer from 0 up to each bound (at most 2^63 - 2^10), excluded."""
        n_bits = np.frexp((bounds - 1).astype(np.float64))[1]
        shifts = np.minimum(64 - n_bits, 63).astype(np.uint64)
        integers = np.zeros(bounds.shape, dtype=np.int64)
        rows = (bounds > 1).nonzero()[0]
        while rows.size:  # at most half of the integers are too large: take the first of four
            four = (self.words(4 * rows.size).reshape(4, -1) >> shifts[rows]).astype(np.int64)
            fits = four < bounds[rows]
            integers[rows] = four[fits.argmax(axis=0), np.arange(rows.size)]
            rows = rows[~fits.any(axis=0)]
        return integers

    def exponentials(self, n):
        """Return `n` standard exponentials, each within a few ulps of an ideal one.

        The exponential distribution has no memory. So the number of whole ln 2 is geometric, and
        independent of the remainder, an exponential below ln 2: ``-log1p(-U / 2)``. Tiny values
        have the full mantissa of U.
        """
        tails = self.geometric(2 * n)
        return tails[:n] * LN2 - np.log1p(self._uniforms(tails[n:]) * -0.5)


def system_words(n):
    """Return `n` words of the operating system's generator, which are not stored or shared."""
    return np.frombuffer(os.urandom(8 * n), dtype=np.uint64)


def make_randomness(random_state):
    """Return the randomness that a `random_state` parameter stands for.

    None is the generator of the operating system. An int gives the same stream each time, and a
    RandomState gives a new stream each time. Use both for tests only, because a known seed removes
    the protection. NumPy's global generator is never used.
    """
    if checked_random_state(random_state) is None:
        return Randomness(system_words, from_os=True)
    if isinstance(random_state, np.random.RandomState):
        seed = random_state.randint(0, 2**32, size=4, dtype=np.uint32)
    else:
        seed = int(random_state)
    return Randomness(np.random.PCG64(seed).random_raw)
