"""Accounts: the ways to share out what a whole release may cost, and what it then costs."""

import math
from dataclasses import dataclass

from dpq_sklearn.accounting.budgets import Budget, Cost, Unit
from dpq_sklearn.accounting.conversions import rho_of_approximate_dp, rho_of_pure
from dpq_sklearn.accounting.losses import PrivacyLoss


@dataclass(frozen=True)
class Account:
    """One way to keep within a total budget."""

    budgets: tuple  # one for each column
    count_budget: Budget | None  # that of the number of rows
    delta: float  # what it costs
    name: str

    def loss(self, costs, total, neighbours):
        """Return the loss of a whole release that keeps within `total` by this account.

        `costs` are those of its mechanisms, each on its own. Their sum is what the release costs in
        the units that the account does not count in. Where they sum to at most the total eps, the
        release spends no delta, whatever the account may.
        """
        spent = Cost(*map(math.fsum, zip(*costs, strict=True)))  # in any order
        needs_delta = self.delta > 0 and spent.eps > total.eps
        is_pure = total.eps is not None and not needs_delta

        return PrivacyLoss(
            eps=spent.eps if total.eps is None else total.eps,
            delta=self.delta if needs_delta else 0.0,
            rho=spent.rho if total.rho is None else total.rho,
            pure_eps=total.eps if is_pure else spent.eps,
            neighbours=neighbours,
            account="sum of eps" if is_pure else self.name,
        )


def sums(total, shares, count_budget=None, count_is_apart=False, n_segments=1):
    """Return the accounts in which costs simply add up: as eps or rho, with a delta also as rho.

    The columns get their `shares` of what a count leaves. If the count is apart, its eps is set
    aside before the rest is converted: no composition covers it. If the rows are divided into
    several segments, a column has the same budget in each.
    """
    whole = total.without_delta
    left = whole.amount if count_budget is None else whole.amount - count_budget.amount
    accounts = [_sum(Budget(left, whole.unit, n_segments), shares, count_budget)]

    if total.delta > 0:
        rho = _rho_beside_count(total, count_budget, count_is_apart)
        if rho > 0:
            budget = Budget(rho, Unit.RHO, n_segments)
            accounts.append(_sum(budget, shares, count_budget, total.delta))

    return accounts


def _sum(budget, shares, count_budget, delta=0.0):
    name = "zCDP" if budget.unit is Unit.RHO else "sum of eps"
    return Account(tuple(map(budget.part, shares)), count_budget, delta, name)


def _rho_beside_count(total, count_budget, count_is_apart):
    """Return the rho that (eps, delta) leaves for the columns."""
    count_eps = 0.0 if count_budget is None else count_budget.amount
    if count_is_apart:
        return rho_of_approximate_dp(total.eps - count_eps, total.delta)
    return rho_of_approximate_dp(total.eps, total.delta) - rho_of_pure(count_eps)


def optimal_composition(total, compose, count_budget=None, count_is_apart=False):
    """Return the account of the best that delta can buy, or None where there is none.

    ``compose(eps, delta, count_eps)`` returns the budgets of the columns, beside a count
    that costs `count_eps` (`Mechanism.composed_budgets`).
    """
    count_eps = 0.0 if count_budget is None else count_budget.amount
    if count_is_apart:
        budgets = compose(total.eps - count_eps, total.delta, 0.0)
    else:
        budgets = compose(total.eps, total.delta, count_eps)

    if budgets is None:
        return None
    return Account(budgets, count_budget, total.delta, "optimal composition")
