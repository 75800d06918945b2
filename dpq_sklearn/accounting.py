"""Accounting: what a budget is, what a release cost, and how costs add up.

Composition happens here and nowhere else, and everything is rounded against ourselves.
"""

import functools
import math
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, xlogy

# Which datasets are neighbours. The costs of the two kinds do not add up.
ROWS = "add or remove one row"
PEOPLE = "add or remove one person (all rows of a group)"

# Every outcome of a draw has its right probability up to a factor of e^(+-DRAW_ERROR): see
# docs/privacy.md. The ratio of two datasets' probabilities then moves by at most twice that, and
# the range of the ratios, which is what both kinds of accounting use, by at most four times.
DRAW_ERROR = 2.0**-41
# For the rounding of sums, products and square roots of public numbers in this file.
ROUNDING = 2.0**-16


@dataclass(frozen=True)
class PrivacyLoss:
    """What a release cost: it is (eps, delta)-DP, and also rho-zCDP.

    Parameters
    ----------
    eps, delta : float
        The release is (eps, delta)-differentially private.
    rho : float
        The release is rho-zero-concentrated differentially private; infinite if nothing better
        is known.
    neighbours : str
        Which datasets count as neighbours: `ROWS` or `PEOPLE`.
    os_randomness : bool
        Whether the noise came from the operating system's generator. With a seed the promise
        holds only against those who do not know the seed.
    pure_eps : float or None
        The release is also (pure_eps, 0)-DP. With ``delta=0`` that is `eps`; otherwise None says
        that nothing is known, and becomes infinity.
    account : str or None
        In words, by which composition the cost was worked out.

    Examples
    --------
    >>> from dpq_sklearn import PrivacyLoss
    >>> loss = PrivacyLoss(eps=1.0, delta=0.0, rho=0.125)
    >>> round(loss.eps_at(delta=1e-6), 3)
    1.0
    """

    eps: float
    delta: float
    rho: float
    neighbours: str = ROWS
    os_randomness: bool = True
    pure_eps: float | None = None
    account: str | None = None

    def __post_init__(self):
        known = math.inf if self.pure_eps is None else self.pure_eps
        object.__setattr__(self, "pure_eps", self.eps if self.delta == 0 else known)
        if not self.eps >= 0 or not 0 <= self.delta < 1 or not self.rho >= 0:
            raise ValueError(
                "PrivacyLoss needs eps >= 0, 0 <= delta < 1 and rho >= 0, got "
                f"eps={self.eps!r}, delta={self.delta!r}, rho={self.rho!r}."
            )
        if self.neighbours not in (ROWS, PEOPLE):
            raise ValueError(f"neighbours must be {ROWS!r} or {PEOPLE!r}, got {self.neighbours!r}.")

    def eps_at(self, delta):
        """Return the smallest eps known for which the release is (eps, `delta`)-DP."""
        delta = checked_delta(delta)
        without_own_delta = min(self.pure_eps, eps_of_zcdp(self.rho, delta))
        return min(self.eps, without_own_delta) if delta >= self.delta else without_own_delta


def compose(losses):
    """Return the cost of several releases on the same rows: everything adds up."""
    losses = list(losses)
    return PrivacyLoss(
        eps=math.fsum(loss.eps for loss in losses),
        delta=min(math.fsum(loss.delta for loss in losses), math.nextafter(1.0, 0.0)),
        rho=math.fsum(loss.rho for loss in losses),
        os_randomness=all(loss.os_randomness for loss in losses),
        pure_eps=math.fsum(loss.pure_eps for loss in losses),
    )


def best_composition(releases, delta=None, cap=None):
    """Return the cost of several releases on the same rows, stated at `delta` if one is given.

    The sum of pure eps is one bound, the sum of rho converted at `delta` another; the smaller
    one counts. That stays valid when the choice of a release depends on the outcomes of earlier
    ones: a sequence of outcomes that ends within a sum of pure eps has a likelihood ratio of at
    most e^eps, and all others end within the rho of a zCDP filter (Whitehouse et al. 2023), so
    only these need the delta. Sums of (eps, delta) would need another delta on top, unless no
    sequence can end within the `cap` on eps by the two other bounds: see `counts_by_sums`.
    """
    releases = list(releases)
    total = compose(releases)
    if delta is None or counts_by_sums(releases, delta, cap):
        return total
    from_rho = eps_of_zcdp(total.rho, delta)
    if total.pure_eps <= from_rho:
        return replace(total, eps=total.pure_eps, delta=0.0)
    return replace(total, eps=from_rho, delta=delta)


def counts_by_sums(releases, delta, cap):
    """Return whether eps and delta of the releases add up (basic composition) under a `cap`.

    The first release decides, for it depends on no outcome. If its pure eps and its rho both
    exceed the cap, they do so in every sequence that starts with it, so `delta` is all theirs
    whose eps and delta add up to at most the cap and `delta` (Rogers et al. 2016: basic
    composition is a valid filter).
    """
    if cap is None or delta is None or not releases:
        return False
    first, total_delta = releases[0], math.fsum(release.delta for release in releases)
    if total_delta > delta * (1 + 2.0**-40):  # parts of delta are not exact in binary
        return False
    return first.pure_eps > cap and eps_of_zcdp(first.rho, delta) > cap


def rho_of_pure(eps):
    """Return a rho that every eps-DP release has, whatever its mechanism (Bun, Steinke 2016)."""
    return eps**2 / 2


def eps_of_pure(rho):
    """Return the largest eps such that every eps-DP release is also rho-zCDP."""
    return math.sqrt(2 * rho)


@dataclass(frozen=True)
class Budget:
    """What a mechanism may spend on one column: so much `eps` (pure DP) or `rho` (zCDP)."""

    amount: float
    unit: str

    def __post_init__(self):
        if self.unit not in ("eps", "rho") or not 0 < self.amount < math.inf:
            raise ValueError(f"a budget is a positive amount of 'eps' or 'rho', got {self!r}.")

    def part(self, share):
        """Return this share (at most 1) of the budget."""
        return Budget(self.amount * share, self.unit)

    def exponential_eps(self):
        """Return the eps of one exponential mechanism that spends the whole budget.

        An exponential mechanism with eps is eps-bounded-range, hence eps^2/8-zCDP (Cesar, Rogers
        2021, Lemma 3.2). This holds for no other kind of mechanism.
        """
        return self.amount if self.unit == "eps" else math.sqrt(8 * self.amount)

    def before_rounding(self, n_draws):
        """Return the budget of an ideal mechanism whose floating-point twin spends this one.

        With e_i the eps of draw i and w_i the weight of a record in it, the twin costs
        sum(w_i e_i + 4k), or in zCDP sum((w_i e_i + 4k)^2 / 8), where k is DRAW_ERROR. The mixed
        term of the square is at most k sqrt(n) sqrt(8 rho) by Cauchy-Schwarz.
        """
        ideal = self.amount * (1 - ROUNDING) - draw_errors(n_draws, self.amount)[self.unit]
        if not ideal > self.amount / 2:
            raise ValueError(
                f"{self.unit} must be larger for {n_draws} private numbers: {self.amount:.3g} a "
                "feature is too little to be guaranteed in floating point."
            )
        return Budget(ideal, self.unit)


def draw_errors(n_draws, rho):
    """Return what the errors of `n_draws` draws can add to a cost in eps and in (a given) rho."""
    return {
        "eps": 4 * n_draws * DRAW_ERROR,
        "rho": DRAW_ERROR * math.sqrt(8 * n_draws * rho) + 2 * n_draws * DRAW_ERROR**2,
    }


def exponential_cost(eps_of_draws, n_draws):
    """Return the cost as {"eps": ..., "rho": ...} of exponential mechanisms that meet one record.

    `eps_of_draws` are those that one record of full weight meets, `n_draws` is how many there
    are in all (a record may have a little weight in more of them).
    """
    rho = math.fsum(eps**2 for eps in eps_of_draws) / 8
    errors = draw_errors(n_draws, rho)
    return {
        "eps": (math.fsum(eps_of_draws) + errors["eps"]) * (1 + ROUNDING / 2),
        "rho": (rho + errors["rho"]) * (1 + ROUNDING / 2),
    }


def budgets_for(eps, delta, rho):
    """Return the budgets that satisfy a request for eps, (eps, delta) or rho, each on its own.

    Raises before any data are touched if the request is contradictory or impossible.
    """
    delta = checked_delta(delta)
    if rho is not None:
        if eps is not None or delta > 0:
            raise ValueError(
                f"rho excludes eps and delta: set eps=None and delta=0 with rho, got eps={eps!r}, "
                f"delta={delta!r}, rho={rho!r}."
            )
        return (Budget(checked_positive(rho, "rho"), "rho"),)
    if eps is None:
        raise ValueError("one of eps and rho must be given, got eps=None and rho=None.")
    eps = checked_positive(eps, "eps")
    if delta == 0:
        return (Budget(eps, "eps"),)
    return (Budget(eps, "eps"), Budget(rho_of_approximate_dp(eps, delta), "rho"))


def feature_shares(n_features, weights=None):
    """Return the share of the budget of each feature; the sum of the shares is at most 1."""
    if weights is None:
        return np.full(n_features, 1.0 / n_features)  # rounded to nearest: ROUNDING covers it
    weights = np.asarray(weights, dtype=np.float64)
    shares = weights / weights.max()
    shares /= math.fsum(shares)
    return shares


def checked_positive(value, name):
    """Return `value` as a float if it is a finite positive number."""
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}.")
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}.")
    return float(value)


def checked_delta(value):
    """Return `value` as a float if it is a number in [0, 1)."""
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)) or not 0 <= value < 1:
        raise ValueError(f"delta must be a number in [0, 1), got {value!r}.")
    return float(value)


def eps_of_zcdp(rho, delta):
    """Return eps such that rho-zCDP implies (eps, delta)-DP (Canonne, Kamath, Steinke 2020).

    eps = inf over a > 1 of  a rho + (a ln(1 - 1/a) - ln(a - 1) - ln delta) / (a - 1).
    Every a is valid, so an inexact minimum is never optimistic.
    """
    if delta == 0 or rho == math.inf:
        return math.inf if rho > 0 else 0.0
    return max(_least(lambda a: a * rho + _delta_term(a, delta)), 0.0)


def rho_of_approximate_dp(eps, delta):
    """Return the largest rho such that rho-zCDP implies (eps, delta)-DP by `eps_of_zcdp`."""
    return -_least(lambda a: -(eps - _delta_term(a, delta)) / a) * (1 - 2.0**-40)


def _delta_term(a, delta):
    return (a * math.log1p(-1 / a) - math.log(a - 1) - math.log(delta)) / (a - 1)


def _least(function):
    """Return the least value of a quasi-convex function of the order a > 1."""
    result = minimize_scalar(
        lambda t: function(1 + math.exp(t)),
        bounds=(-14.0, 40.0),
        method="bounded",
        options={"xatol": 1e-10, "maxiter": 500},
    )
    return float(result.fun)


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
