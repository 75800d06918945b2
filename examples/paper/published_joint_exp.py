"""JointExp at its published cost: all records, all numbers of repeats, products by FFT.

Written plainly after Gillenwater, Joseph, Kulesza (2021), to measure its time and to have a second
opinion on the distribution. It takes O(m n log n + m^2 n) steps. Not safe to release: floats,
and the absolute error of the FFT changes the probability of unlikely tuples.
"""

import numpy as np
from scipy.special import logsumexp


def published_joint_exp(x_sorted, quantiles, low, high, eps, rng):
    """Return the quantiles by JointExp over the intervals between all records."""
    ends = np.concatenate(([low], np.clip(x_sorted, low, high), [high])) + 0.0  # no -0.0
    n, m = len(x_sorted), len(quantiles)
    gaps = np.diff([0.0, *quantiles, 1.0])
    eta = eps / (4 * (1 - gaps.min()))
    # step[j, d]: the weight of gap j (from 0 to m) when d records lie in it.
    step = -eta * np.abs(np.arange(n + 1) - gaps[:, None] * n)
    with np.errstate(divide="ignore"):
        log_widths = np.log(np.diff(ends))
        placed = _placed(step, log_widths, m)
    return _backward(placed, step, ends, rng)


def _placed(step, log_widths, m):
    """placed[j, i, k]: all ways to place quantiles 0 .. j, the last k + 1 of them in interval i."""
    placed = np.full((m, log_widths.size, m), -np.inf)
    placed[0, :, 0] = step[0] + log_widths
    for j in range(1, m):
        before = logsumexp(placed[j - 1], axis=1)
        kernel = step[j].copy()
        kernel[0] = -np.inf
        placed[j, 1:, 0] = (log_widths + _log_convolution(kernel, before))[1:]
        repeats = np.log(np.arange(2, j + 2))
        same = placed[j - 1, :, :j] + (step[j, 0] + log_widths)[:, None] - repeats
        placed[j, :, 1 : j + 1] = same
    return placed


def _log_convolution(a, b):
    """Return log of the first terms of the convolution of exp(a) and exp(b), by FFT."""
    largest_a, largest_b = a.max(), b.max()
    size = 2 ** int(np.ceil(np.log2(2 * a.size - 1)))
    product = np.fft.rfft(np.exp(a - largest_a), size) * np.fft.rfft(np.exp(b - largest_b), size)
    return np.log(np.maximum(np.fft.irfft(product)[: a.size], 0)) + largest_a + largest_b


def _backward(placed, step, ends, rng):
    m = len(placed)
    values = np.empty(m)
    j, last = m - 1, ends.size - 2
    while j >= 0:
        log_weights = placed[j, : last + 1] + step[j + 1, : last + 1][::-1, None]
        if j < m - 1:
            log_weights[last] = -np.inf  # repeats in one interval are counted by k
        winner = np.argmax(log_weights + rng.gumbel(size=log_weights.shape))
        last, k = np.unravel_index(winner, log_weights.shape)
        values[j - k : j + 1] = rng.uniform(ends[last], ends[last + 1], size=k + 1)
        j -= k + 1
    return np.sort(values)
