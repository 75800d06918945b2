"""Conversions between pure DP, zCDP and (eps, delta)-DP."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar


def rho_of_pure(eps: float) -> float:
    """Return rho such that every eps-DP release is rho-zCDP (Bun, Steinke 2016)."""
    return eps**2 / 2 if eps < 1e150 else math.inf  # the square of a large float overflows


def eps_of_pure(rho: float) -> float:
    """Return the largest eps such that every eps-DP release is also rho-zCDP."""
    return math.sqrt(2 * rho)


def eps_of_zcdp(rho: float, delta: float) -> float:
    """Return eps such that rho-zCDP implies (eps, delta)-DP (Canonne, Kamath, Steinke 2020).

    eps = inf over a > 1 of  a rho + (a ln(1 - 1/a) - ln(a - 1) - ln delta) / (a - 1).
    Every a gives a valid eps, so an inexact minimum never understates the loss.
    """
    if delta == 0 or rho == math.inf:
        return math.inf if rho > 0 else 0.0
    return max(_least(lambda a: a * rho + _delta_term(a, delta)), 0.0)


def eps_of_zcdp_each(rhos: np.ndarray, delta: float) -> np.ndarray:
    """Return `eps_of_zcdp` of each rho, up to differences in the last digits.

    The derivative of the bound by a is  rho - (ln(1/delta) - ln a) / (a - 1)^2,  which changes its
    sign once, so the best order is found by bisection for all rhos at the same time.
    """
    if delta == 0:
        return np.where(rhos > 0, math.inf, 0.0)

    low = np.full(rhos.shape, -14.0)
    high = np.full(rhos.shape, 40.0)
    for _ in range(50):
        middle = (low + high) / 2
        above_one = np.exp(middle)
        falls = rhos * above_one**2 < -math.log(delta) - np.log1p(above_one)
        low = np.where(falls, middle, low)
        high = np.where(falls, high, middle)

    orders = 1 + np.exp(high)
    terms = orders * np.log1p(-1 / orders) - np.log(orders - 1) - math.log(delta)
    return np.maximum(orders * rhos + terms / (orders - 1), 0.0)


@lru_cache(maxsize=256)
def rho_of_approximate_dp(eps: float, delta: float) -> float:
    """Return the largest rho such that rho-zCDP implies (eps, delta)-DP by `eps_of_zcdp`."""
    if delta == 0:
        return 0.0
    return -_least(lambda a: -(eps - _delta_term(a, delta)) / a) * (1 - 2.0**-40)


def _delta_term(a: float, delta: float) -> float:
    return (a * math.log1p(-1 / a) - math.log(a - 1) - math.log(delta)) / (a - 1)


def _least(function: Callable[[float], float]) -> float:
    """Return the smallest value of a quasi-convex function of the order a > 1."""
    result = minimize_scalar(
        lambda t: function(1 + math.exp(t)),
        bounds=(-14.0, 40.0),
        method="bounded",
        options={"xatol": 1e-10, "maxiter": 500},
    )
    return float(result.fun)
