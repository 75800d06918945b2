"""Budgets of mechanisms and of whole releases, with a reserve for rounding errors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from dpq_sklearn.checks import checked_delta, checked_positive, shown

# The probability of every outcome of a draw is right up to a factor of e^(+-DRAW_ERROR), see
# docs/privacy.md. The log ratio for two datasets is then off by at most twice that, and the range
# of the log ratios by at most four times, which every composition reserves.
DRAW_ERROR = 2.0**-39
# The default budget of a release.
DEFAULT_EPS = 1.0
# Covers the rounding of sums, products and square roots of public numbers in compositions.
ROUNDING = 2.0**-16


class Unit(StrEnum):
    """The unit of a budget."""

    EPS = "eps"  # pure DP
    RHO = "rho"  # zCDP
    DRAW = "draw"  # the smallest eps of the draws that a record meets, by optimal composition


class BudgetTooSmall(ValueError):
    """The budget does not cover the rounding errors of the requested private numbers."""


class Cost(NamedTuple):
    """The cost of a mechanism: it is eps-DP, and also rho-zCDP."""

    eps: float
    rho: float


@dataclass(frozen=True)
class Budget:
    """The budget of a mechanism for one column: an amount and its unit.

    A budget in draws is the smallest eps of the exponential draws that a record meets. Optimal
    composition has computed it from the joint cost of all of them.

    The mechanism may run on several segments of the rows with the same budget. The weight of a
    record is divided among them, so only the reserve for rounding grows with their number.
    """

    amount: float
    unit: Unit
    n_segments: int = 1

    def __post_init__(self) -> None:
        if self.unit not in tuple(Unit) or not 0 < self.amount < math.inf:
            raise ValueError(
                f"a budget is a positive amount of {', '.join(Unit)}, got {self.amount} of "
                f"{self.unit!r}."
            )

        object.__setattr__(self, "unit", Unit(self.unit))

    @property
    def norm(self) -> int:
        """The norm of the eps of several exponential mechanisms that the budget limits: 1 or 2."""
        return 1 if self.unit is Unit.EPS else 2

    def scaled(self, share: float) -> "Budget":
        """Return a share of the budget, which is at most 1."""
        return replace(self, amount=self.amount * share)

    def exponential_eps(self) -> float:
        """Return the eps of one exponential mechanism that spends the whole budget.

        An exponential mechanism with eps is eps-bounded-range, hence eps^2/8-zCDP (Cesar, Rogers
        2021, Lemma 3.2). This does not hold for other kinds of mechanisms.
        """
        return math.sqrt(8 * self.amount) if self.unit is Unit.RHO else self.amount

    def before_rounding(self, n_draws: int, error: float = DRAW_ERROR) -> "Budget":
        """Return the budget for an exact mechanism, reduced by a reserve for rounding errors.

        The floating-point version of a mechanism with the returned budget spends at most this
        budget. `n_draws` counts all draws in a segment, and `error` bounds the error of the
        logarithm of a probability.
        """
        n_draws = n_draws * self.n_segments
        ideal = self.amount * (1 - ROUNDING) - _rounding_cost(self, n_draws, error)

        if not ideal > self.amount / 2:
            is_draw = self.unit is Unit.DRAW  # users have no parameter with this name
            raise BudgetTooSmall(
                f"{Unit.EPS if is_draw else self.unit} must be larger for {n_draws} private "
                f"numbers: {self.amount:.3g} per {'draw' if is_draw else 'feature'} is too small "
                "for a guarantee in floating point."
            )

        return replace(self, amount=ideal)


@dataclass(frozen=True)
class TotalBudget:
    """The budget of a whole release: eps, (eps, delta) or rho. The default is eps=1."""

    eps: float | None = None
    delta: float = 0.0
    rho: float | None = None

    def __post_init__(self) -> None:
        delta = checked_delta(self.delta)

        if self.rho is not None and (self.eps is not None or delta > 0):
            raise ValueError(
                "rho excludes eps and delta: set eps=None and delta=0 with rho, got "
                f"eps={shown(self.eps)}, delta={shown(self.delta)}, rho={shown(self.rho)}."
            )
        if self.rho is None and self.eps is None:
            object.__setattr__(self, "eps", DEFAULT_EPS)

        unit = Unit.EPS if self.rho is None else Unit.RHO
        amount = checked_positive(getattr(self, unit), unit)
        object.__setattr__(self, unit.value, amount)
        object.__setattr__(self, "delta", delta)

    @property
    def without_delta(self) -> Budget:
        """The eps or the rho, as a budget that can be divided."""
        if self.eps is not None:
            return Budget(self.eps, Unit.EPS)
        assert self.rho is not None  # checked by __post_init__
        return Budget(self.rho, Unit.RHO)


def _rounding_cost(budget: Budget, n_draws: int, error: float) -> float:
    """Return the most that the errors of `n_draws` draws can add to a cost, in the budget's unit.

    With e_i the eps of draw i and w_i the weight of a record in it, rounding makes the cost
    sum(w_i e_i + 4k), or in zCDP sum((w_i e_i + 4k)^2 / 8), where k is the error of one draw. The
    mixed term of the square is at most k sqrt(n) sqrt(8 rho) by Cauchy-Schwarz.
    """
    if budget.unit is Unit.RHO:
        return error * math.sqrt(8 * n_draws * budget.amount) + 2 * n_draws * error**2
    return 4 * n_draws * error


def exponential_cost(
    eps_of_draws: Sequence[float], n_draws: int, error: float = DRAW_ERROR
) -> Cost:
    """Return the cost of exponential mechanisms, given the eps of those that one record meets.

    `n_draws` counts all of them, because a record may have a small weight in others as well.
    """
    ideal = {
        Unit.EPS: math.fsum(eps_of_draws),
        Unit.RHO: math.fsum(eps**2 for eps in eps_of_draws) / 8,
    }
    costs = [
        amount + _rounding_cost(Budget(amount, unit), n_draws, error)
        for unit, amount in ideal.items()
    ]

    return Cost(*(cost * (1 + ROUNDING / 2) for cost in costs))  # below the budget's reserve


def feature_shares(weights: Sequence[float]) -> np.ndarray:
    """Return the share of the budget of each feature. The shares sum to at most 1."""
    given = np.asarray(weights, dtype=np.float64)
    shares: np.ndarray = given / np.max(given)
    return shares / math.fsum(shares)  # ROUNDING covers the rounding to nearest
