"""The one way from data to released numbers: plan -> pay -> read -> draw.

1. `plan_release`, or `plan_fit` for a transformer, works out from public facts what will be
   released, and at what price.
2. `pay` charges the ledger, or raises. Nothing has been read so far.
3. `release` reads the data (a *source* has one method, `read`) and draws.

What follows, such as edges and tails, is computed from released numbers and public facts alone.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dpq_sklearn.accounting.budgets import Budget, BudgetTooSmall, Cost, feature_shares
from dpq_sklearn.accounting.conversions import rho_of_approximate_dp, rho_of_pure
from dpq_sklearn.accounting.losses import PrivacyLoss, most_of_each
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.checks import checked_request
from dpq_sklearn.engine.grid import FULL_RESOLUTION, Grid, make_grid
from dpq_sklearn.engine.random import Randomness, make_randomness
from dpq_sklearn.forecast.enough_data import chosen_plan
from dpq_sklearn.ledger.ledger import charge
from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.mechanisms.protocol import Mechanism, of_column
from dpq_sklearn.mechanisms.registry import checked_mechanism
from dpq_sklearn.releases.values import decimals_of_columns

# The share of a fit's budget that its count of rows gets: it costs 1.6% of accuracy.
COUNT_SHARE = 1 / 64


@dataclass(frozen=True)
class ReleasePlan:
    """What will be released and at what price; public facts only."""

    mechanism: Mechanism
    quantiles: tuple  # ascending and distinct, for each column
    bounds: tuple  # a pair for each column, infinite where there is no bound
    grid: Grid
    budgets: tuple  # one for each column
    count_budget: Budget | None  # that of the number of rows
    loss: PrivacyLoss
    finer_plans: tuple = ()  # with more quantiles; of a chosen plan too, to tell that it is "auto"

    def chosen(self, n_rows):
        """Return the plan that the released number of rows asks for."""
        if not self.finer_plans:
            return self
        plan = chosen_plan((self, *self.finer_plans), n_rows)
        return replace(plan, loss=self.loss, finer_plans=self.finer_plans)

    def draw(self, records, randomness):
        """Return the `Release`: the count first, then the quantiles."""
        n_rows = None
        if self.count_budget is not None:
            n_rows = max(records.n_rows + int(CountNoise(self.count_budget).draw(randomness)[0]), 1)
        plan = self.chosen(n_rows)
        cells = plan.mechanism.draw(records.ranks, plan.quantiles, plan.budgets, randomness)
        return Release(decimals_of_columns(plan.grid, cells), n_rows, plan)


@dataclass(frozen=True)
class CountPlan:
    """Counts with noise, which one record, or all rows of a person, change by at most 1 in all."""

    noise: CountNoise
    parts: int  # of a record, in which counts are whole numbers: more than 1 if rows share it
    loss: PrivacyLoss
    grid: None = None  # what `release` hands to a source

    def draw(self, counts, randomness):
        """Return the counts, which may be negative: integers, or floats if rows share a record."""
        noisy = counts + self.noise.draw(randomness)
        return noisy if self.parts == 1 else noisy / self.parts


@dataclass(frozen=True)
class Account:
    """One way to satisfy a request: the budgets, the delta that they cost, and its name."""

    budgets: tuple
    count_budget: Budget | None
    delta: float
    name: str

    def loss(self, costs, eps, rho, neighbours):
        """Return the loss of releases whose costs add up to the eps or rho asked for, or less."""
        total = Cost(*map(sum, zip(*costs, strict=True)))
        return PrivacyLoss(
            eps=total.eps if eps is None else eps,
            delta=self.delta,
            rho=total.rho if rho is None else rho,
            pure_eps=total.eps if self.delta or eps is None else eps,
            neighbours=neighbours,
            account=self.name,
        )


def plan_release(quantiles, *, bounds, eps, delta, rho, mechanism="aq", weights=None, **facts):
    """Return the plan for columns with these ascending distinct quantiles and checked bounds."""
    checked_mechanism(mechanism)
    quantiles = tuple(tuple(map(float, column)) for column in quantiles)
    weights = None if weights is None else tuple(weights)
    budget = checked_request(eps, delta, rho)
    return _plan(quantiles, tuple(bounds), *budget, mechanism, weights, **facts)


@lru_cache(maxsize=64)  # a fit is repeated many times in a search, and warnings try out other plans
def _plan(
    quantiles,
    bounds,
    eps,
    delta,
    rho,
    mechanism,
    weights,
    resolution=FULL_RESOLUTION,
    with_count=False,
    count_decides=False,
    neighbours=Neighbours.ROWS,
    adds_up=False,
):
    """Return the plan by the account that promises the least error.

    Releases that are added up later (`adds_up`, in a ledger) do without optimal composition: it
    buys accuracy at one delta with more rho. If the count decides which plan is followed, plans may
    have different accounts, and no composition covers the choice: its eps is set aside first. In a
    ledger eps or rho add up whatever earlier releases decided, so there nothing is set aside.
    """
    mechanism = checked_mechanism(mechanism, with_groups=neighbours == Neighbours.PEOPLE)
    shares = tuple(feature_shares(len(quantiles), weights).tolist())
    count_is_apart = count_decides and not adds_up
    share_of_count = COUNT_SHARE if with_count else 0.0
    accounts = _accounts(shares, eps, delta, rho, share_of_count, count_is_apart)
    if delta > 0 and not adds_up:
        count = accounts[0].count_budget
        count_eps = 0.0 if count is None else count.amount
        budget = (eps - count_eps, delta, 0.0) if count_is_apart else (eps, delta, count_eps)
        composed = mechanism.composed_budgets(quantiles, shares, *budget)
        if composed is not None:
            accounts.append(Account(composed, count, delta, "optimal composition"))

    def predicted_error(account):
        """Return the predicted error, a little more if a delta is spent for it."""
        columns = Counter(zip(quantiles, account.budgets, strict=True)).items()
        error = sum(of_column(mechanism.typical_error, *column) * n for column, n in columns)
        return error * (1.02 if account.delta else 1.0)

    account = min(accounts, key=predicted_error)
    columns = zip(quantiles, account.budgets, strict=True)
    costs = [of_column(mechanism.cost, *column) for column in columns]
    if account.count_budget is not None:
        costs.append(CountNoise(account.count_budget).cost())
    loss = account.loss(costs, eps, rho, neighbours)
    grid, budgets = make_grid(bounds, resolution), (account.budgets, account.count_budget)
    return ReleasePlan(mechanism, quantiles, bounds, grid, *budgets, loss)


def _accounts(shares, eps, delta, rho, share_of_count=0.0, count_is_apart=False):
    """Return sums that satisfy a request for eps, (eps, delta) or rho, each on its own."""

    def account(amount, unit, delta=0.0):
        budgets = tuple(map(Budget(amount, unit).part, shares))
        return Account(budgets, count, delta, "zCDP" if unit == "rho" else "sum of eps")

    asked, unit = (eps, "eps") if rho is None else (rho, "rho")
    of_count = share_of_count * asked
    count = Budget(of_count, unit) if of_count > 0 else None
    accounts = [account(asked - of_count, unit)]
    if delta > 0:
        if count_is_apart:
            rho_left = rho_of_approximate_dp(eps - of_count, delta)
        else:
            rho_left = rho_of_approximate_dp(eps, delta) - rho_of_pure(of_count)
        if rho_left > 0:
            accounts.append(account(rho_left, "rho", delta))
    return accounts


def plan_fit(candidates, **request):
    """Return the plan of a fit, which has a count.

    It will choose one of several candidates, each finer than the one before
    (`ReleasePlan.chosen`), so the price is the highest of all.
    """
    request |= {"with_count": True, "count_decides": len(candidates) > 1}
    plans = [plan_release(candidates[0], **request)]
    with suppress(
        BudgetTooSmall
    ):  # floats cannot guarantee so many quantiles: the plans before stay
        plans.extend(plan_release(quantiles, **request) for quantiles in candidates[1:])
    price = most_of_each([plan.loss for plan in plans])
    return replace(plans[0], loss=price, finer_plans=tuple(plans[1:]))


def plan_counts(n_counts, *, eps, delta, rho, parts=1, neighbours=Neighbours.ROWS):
    """Return the plan for counts that a record changes by at most 1 in all: the least noise."""
    eps, delta, rho = checked_request(eps, delta, rho)
    plans = [
        (CountNoise(account.budgets[0], n_counts, parts), account)
        for account in _accounts((1.0,), eps, delta, rho)
    ]
    noise, account = min(plans, key=lambda plan: plan[0].deviation())
    return CountPlan(noise, parts, account.loss([noise.cost()], eps, rho, neighbours))


@dataclass(frozen=True)
class PaidPlan:
    """A plan whose price is paid: the only thing that `release` takes."""

    plan: ReleasePlan | CountPlan
    randomness: Randomness


def pay(plan, ledger, random_state, **facts):
    """Charge the ledger, if there is one, with public `facts`, or raise; before data are read."""
    randomness = make_randomness(random_state)
    plan = replace(plan, loss=replace(plan.loss, os_randomness=randomness.from_os))
    charge(ledger, plan.loss, **facts)
    return PaidPlan(plan, randomness)


@dataclass(frozen=True)
class Release:
    """Released numbers, and the plan that they follow."""

    quantiles: list  # an array for each column
    n_rows: int | None  # None if the plan has no count
    plan: ReleasePlan


def release(paid, source):
    """Read the data and draw: the one place where data meet a mechanism."""
    with np.errstate(all="ignore"):  # callers could turn NumPy's warnings into errors
        return paid.plan.draw(source.read(paid.plan.grid), paid.randomness)
