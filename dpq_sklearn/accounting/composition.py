"""Composition of exponential mechanisms at a given delta."""

import functools

import numpy as np
from scipy.special import gammaln, xlogy


def nonadaptive_delta(n_draws, eps_draw, eps):
    """Return delta such that `n_draws` exponential mechanisms together are (eps, delta)-DP.

    Each has budget `eps_draw`, and none sees what another released. The optimum for bounded-range
    mechanisms (Dong, Durfee, Rogers 2020, Theorem 3): with k draws and
    t_l = clip((eps + (l + 1) eps_draw) / (k + 1), 0, eps_draw), the largest over l = 0 .. k of
    sum_i C(k, i) p^(k-i) (1-p)^i (exp(k t_l - i eps_draw) - exp(eps))_+,
    p = (exp(-t_l) - exp(-eps_draw)) / (1 - exp(-eps_draw)). Rounded up.
    """
    k = n_draws
    i = np.arange(k + 1)
    t = np.clip((eps + (i + 1) * eps_draw) / (k + 1), 0.0, eps_draw)[:, None]
    whole = -np.expm1(-eps_draw)
    p, rest = np.exp(-t) * -np.expm1(t - eps_draw) / whole, -np.expm1(-t) / whole
    loss = k * t - i * eps_draw
    counted = loss > eps
    log_choices = gammaln(k + 1) - gammaln(i + 1) - gammaln(k - i + 1)
    # The larger of the two distributions is p^(k-i) (1-p)^i exp(loss): no term exceeds 1.
    log_terms = log_choices + xlogy(k - i, p) + xlogy(i, rest) + loss
    excess = -np.expm1(np.where(counted, eps - loss, 0.0))
    terms = np.where(counted, np.exp(np.where(counted, log_terms, 0.0)) * excess, 0.0)
    return float(terms.sum(axis=1).max()) * (1 + 2.0**-20)


@functools.lru_cache(maxsize=256)
def nonadaptive_eps(n_draws, eps, delta):
    """Return the largest eps a draw for which `nonadaptive_delta` is at most `delta`."""
    low = high = eps / n_draws
    while nonadaptive_delta(n_draws, high, eps) <= delta:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        fits = nonadaptive_delta(n_draws, middle, eps) <= delta
        low, high = (middle, high) if fits else (low, middle)
    return low


def largest_scale(pattern, eps, delta):
    return None
