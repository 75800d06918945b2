"""Compositions: ways to divide a total budget among the columns, and the cost of the result."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dpq_sklearn.accounting.budgets import Budget, Cost, TotalBudget, Unit
from dpq_sklearn.accounting.conversions import rho_of_approximate_dp, rho_of_pure
from dpq_sklearn.accounting.losses import PrivacyLoss, half_of_delta
from dpq_sklearn.accounting.neighbours import Neighbours


@dataclass(frozen=True)
class Composition:
    """One way to keep a whole release within a total budget."""

    budgets: tuple[Budget, ...]  # one for each column
    count_budget: Budget | None  # for the number of rows
    delta: float
    name: str

    def loss(
        self, costs: Sequence[Cost], total: TotalBudget, neighbours: Neighbours
    ) -> PrivacyLoss:
        """Return the loss of a whole release that this composition keeps within `total`.

        `costs` has the cost of each mechanism by itself. Their sum is the cost of the release in
        the units that this composition does not use. A release whose eps sum to at most the total
        eps spends no delta, even if the composition could.
        """
        spent = Cost(*map(math.fsum, zip(*costs, strict=True)))  # exact in any order
        needs_delta = self.delta > 0 and total.eps is not None and spent.eps > total.eps
        is_pure = total.eps is not None and not needs_delta

        return PrivacyLoss(
            eps=spent.eps if total.eps is None else total.eps,
            delta=self.delta if needs_delta else 0.0,
            rho=spent.rho if total.rho is None else total.rho,
            pure_eps=total.eps if is_pure else spent.eps,
            neighbours=neighbours,
            account="sum of eps" if is_pure else self.name,
        )


def basic_compositions(
    total: TotalBudget,
    shares: Sequence[float],
    count_budget: Budget | None = None,
    count_is_apart: bool = False,
    n_segments: int = 1,
    has_ledger: bool = False,
) -> list[Composition]:
    """Return the compositions that add costs up: in eps or rho, and with a delta also in rho.

    With a ledger, the rho belongs to half of the delta, because a ledger converts rho at half of
    its delta (`stated_at`). So a release fits into a ledger that has the same eps and delta.

    The count gets its budget first, and the columns divide the rest by their `shares`. If the count
    is apart, its eps is subtracted before eps and delta are converted to rho, because no
    composition covers it. If the rows are divided into several segments, a column has the same
    budget in each of them.
    """
    whole = total.without_delta
    left = whole.amount if count_budget is None else whole.amount - count_budget.amount
    budget = Budget(left, whole.unit, n_segments)
    compositions = [_basic_composition(budget, shares, count_budget)]

    if total.delta > 0:
        delta = half_of_delta(total.delta) if has_ledger else total.delta
        rho = _rho_beside_count(replace(total, delta=delta), count_budget, count_is_apart)
        if rho > 0:
            budget = Budget(rho, Unit.RHO, n_segments)
            compositions.append(_basic_composition(budget, shares, count_budget, total.delta))

    return compositions


def _basic_composition(
    budget: Budget, shares: Sequence[float], count_budget: Budget | None, delta: float = 0.0
) -> Composition:
    name = "zCDP" if budget.unit is Unit.RHO else "sum of eps"
    return Composition(tuple(map(budget.scaled, shares)), count_budget, delta, name)


def _rho_beside_count(
    total: TotalBudget, count_budget: Budget | None, count_is_apart: bool
) -> float:
    """Return the rho that (eps, delta) leaves for the columns."""
    eps = total.without_delta.amount
    count_eps = 0.0 if count_budget is None else count_budget.amount
    if count_is_apart:
        return rho_of_approximate_dp(eps - count_eps, total.delta)
    return rho_of_approximate_dp(eps, total.delta) - rho_of_pure(count_eps)


def optimal_composition(
    total: TotalBudget,
    compose: Callable[[float, float, float], tuple[Budget, ...] | None],
    count_budget: Budget | None = None,
    count_is_apart: bool = False,
) -> Composition | None:
    """Return the optimal composition for a total budget with a delta, or None if it does not apply.

    ``compose(eps, delta, count_eps)`` returns the budgets of the columns if a count costs
    `count_eps` before them (`Mechanism.composed_budgets`).
    """
    eps = total.without_delta.amount
    count_eps = 0.0 if count_budget is None else count_budget.amount
    if count_is_apart:
        budgets = compose(eps - count_eps, total.delta, 0.0)
    else:
        budgets = compose(eps, total.delta, count_eps)

    if budgets is None:
        return None
    return Composition(budgets, count_budget, total.delta, "optimal composition")
