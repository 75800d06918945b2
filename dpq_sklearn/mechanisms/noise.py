"""Noise for counts: the discrete Laplace and the discrete Gaussian distribution on the integers.

Noisy counts are integers, so they have no low-order bits that could betray the count. Every
value's probability is right up to a relative error below 2^-42, down to probabilities of e^-1000.
Beyond, the error of the Gaussian grows with the exponent, like a change of the variance by 2^-52.
"""

import math

import numpy as np


def geometrics(rate, n, randomness):
    """Return `n` independent counts G with P(G >= k) = exp(-rate * k).

    G = high * 2^shift + low with independent parts: `low` has independent bits, bit s set with
    odds exp(-rate * 2^s), and `high` is geometric with a rate of 1/4 or more. That one is found
    among the thresholds exp(-rate k), which a uniform number passes with exactly that
    probability, and started anew (it has no memory) where it passes the last one.
    """
    shift = max(0, math.ceil(math.log2(0.25 / rate)))
    high_rate = math.ldexp(rate, shift)
    most = max(1, math.ceil(16 / high_rate))
    thresholds = np.exp(-high_rate * np.arange(most, 0, -1))
    high = np.zeros(n, dtype=np.int64)
    unfinished = np.arange(n)
    while unfinished.size:
        uniforms = randomness.uniforms(unfinished.size)
        steps = most - np.searchsorted(thresholds, uniforms, side="right")
        high[unfinished] += steps
        unfinished = unfinished[steps == most]
    counts = high << shift
    for bit in range(shift):
        odds = math.exp(-math.ldexp(rate, bit))
        counts += (randomness.uniforms(n) < odds / (1 + odds)).astype(np.int64) << bit
    return counts


def discrete_laplace(rate, n, randomness):
    """Return `n` integers X with P(X = x) proportional to exp(-rate * |x|)."""
    return geometrics(rate, n, randomness) - geometrics(rate, n, randomness)


def discrete_gaussian(variance, n, randomness):
    """Return `n` integers X with P(X = x) proportional to exp(-x^2 / (2 * variance)).

    Rejection from the discrete Laplace distribution (Canonne, Kamath, Steinke 2020, Algorithm
    3). Acceptance compares an exponential with its exponent, so no value is out of reach.
    """
    width = math.floor(math.sqrt(variance)) + 1
    noise = np.empty(n, dtype=np.int64)
    unfinished = np.arange(n)
    while unfinished.size:
        proposed = discrete_laplace(1 / width, unfinished.size, randomness)
        exponents = (np.abs(proposed) - variance / width) ** 2 / (2 * variance)
        accepted = randomness.exponentials(unfinished.size) > exponents
        noise[unfinished[accepted]] = proposed[accepted]
        unfinished = unfinished[~accepted]
    return noise
