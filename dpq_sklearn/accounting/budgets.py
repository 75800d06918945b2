"""Budgets: what a mechanism may spend, and how much of it rounding needs."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from dpq_sklearn.checks import checked_delta, checked_positive, shown

# Every outcome of a draw has its right probability up to a factor of e^(+-DRAW_ERROR): see
# docs/privacy.md. The ratio of two datasets' probabilities then moves by at most twice that, and
# the range of the ratios by at most four times, for which all accounts reserve.
DRAW_ERROR = 2.0**-39
# For the rounding of sums, products and square roots of public numbers in accounts.
ROUNDING = 2.0**-16


class Unit(StrEnum):
    """What a budget is counted in."""

    EPS = "eps"  # pure DP
    RHO = "rho"  # zCDP
    DRAW = "draw"  # the least eps of the draws that a record meets, by optimal composition


class BudgetTooSmall(ValueError):
    """A budget is too little for so many private numbers to be guaranteed in floating point."""


class Cost(NamedTuple):
    """What a mechanism costs: it is eps-DP, and also rho-zCDP."""

    eps: float
    rho: float


@dataclass(frozen=True)
class Budget:
    """What a mechanism may spend on one column: so much of a unit.

    A budget of draws is the least eps of the exponential draws that a record meets, if optimal
    composition has worked out what all of them cost together.

    The mechanism may run on several segments of the rows with the same budget. A record is spread
    over all of them, so only the reserve for rounding grows with their number.
    """

    amount: float
    unit: Unit
    n_segments: int = 1

    def __post_init__(self):
        if self.unit not in tuple(Unit) or not 0 < self.amount < math.inf:
            raise ValueError(
                f"a budget is a positive amount of {', '.join(Unit)}, got {self.amount} of "
                f"{self.unit!r}."
            )

        object.__setattr__(self, "unit", Unit(self.unit))

    @property
    def norm(self):
        """Which norm of the eps of several exponential mechanisms it limits: sum, or squares."""
        return 1 if self.unit is Unit.EPS else 2

    def part(self, share):
        """Return this share (at most 1) of the budget."""
        return replace(self, amount=self.amount * share)

    def exponential_eps(self):
        """Return the eps of one exponential mechanism that spends the whole budget.

        An exponential mechanism with eps is eps-bounded-range, hence eps^2/8-zCDP (Cesar, Rogers
        2021, Lemma 3.2). This holds for no other kind of mechanism.
        """
        return math.sqrt(8 * self.amount) if self.unit is Unit.RHO else self.amount

    def before_rounding(self, n_draws, error=DRAW_ERROR):
        """Return the budget of an ideal mechanism whose floating-point twin spends this one.

        `n_draws` counts all draws in a segment, and `error` is the largest one of a logarithm of a
        probability.
        """
        n_draws = n_draws * self.n_segments
        ideal = self.amount * (1 - ROUNDING) - _rounding_cost(self, n_draws, error)

        if not ideal > self.amount / 2:
            is_draw = self.unit is Unit.DRAW  # no parameter is called so
            raise BudgetTooSmall(
                f"{Unit.EPS if is_draw else self.unit} must be larger for {n_draws} private "
                f"numbers: {self.amount:.3g} a {'draw' if is_draw else 'feature'} is too little to "
                "be guaranteed in floating point."
            )

        return replace(self, amount=ideal)


@dataclass(frozen=True)
class TotalBudget:
    """What a whole release may cost: eps, (eps, delta) or rho."""

    eps: float | None
    delta: float = 0.0
    rho: float | None = None

    def __post_init__(self):
        delta = checked_delta(self.delta)

        if self.rho is not None and (self.eps is not None or delta > 0):
            raise ValueError(
                "rho excludes eps and delta: set eps=None and delta=0 with rho, got "
                f"eps={shown(self.eps)}, delta={shown(self.delta)}, rho={shown(self.rho)}."
            )
        if self.rho is None and self.eps is None:
            raise ValueError("one of eps and rho must be given, got eps=None and rho=None.")

        unit = Unit.EPS if self.rho is None else Unit.RHO
        amount = checked_positive(getattr(self, unit), unit)
        object.__setattr__(self, unit.value, amount)
        object.__setattr__(self, "delta", delta)

    @property
    def without_delta(self):
        """The eps or the rho, as a budget that parts can be taken of."""
        if self.rho is None:
            return Budget(self.eps, Unit.EPS)
        return Budget(self.rho, Unit.RHO)


def _rounding_cost(budget, n_draws, error):
    """Return what the errors of `n_draws` draws can add to a cost, in the unit of the budget.

    With e_i the eps of draw i and w_i the weight of a record in it, rounding makes the cost
    sum(w_i e_i + 4k), or in zCDP sum((w_i e_i + 4k)^2 / 8), where k is the error of one draw. The
    mixed term of the square is at most k sqrt(n) sqrt(8 rho) by Cauchy-Schwarz.
    """
    if budget.unit is Unit.RHO:
        return error * math.sqrt(8 * n_draws * budget.amount) + 2 * n_draws * error**2
    return 4 * n_draws * error


def exponential_cost(eps_of_draws, n_draws, error=DRAW_ERROR):
    """Return the cost of exponential mechanisms, of which one record meets those listed.

    `n_draws` is how many there are in all: a record may have a little weight in more of them.
    """
    ideal = {
        Unit.EPS: math.fsum(eps_of_draws),
        Unit.RHO: math.fsum(eps**2 for eps in eps_of_draws) / 8,
    }
    costs = [
        amount + _rounding_cost(Budget(amount, unit), n_draws, error)
        for unit, amount in ideal.items()
    ]

    return Cost(*(cost * (1 + ROUNDING / 2) for cost in costs))  # less than the budget's reserve


def feature_shares(weights):
    """Return the share of the budget of each feature; the sum of the shares is at most 1."""
    weights = np.asarray(weights, dtype=np.float64)
    shares = weights / weights.max()
    return shares / math.fsum(shares)  # ROUNDING covers the rounding to nearest
