"""The one way from data to released numbers: plan -> pay -> read -> draw.

1. `plan_release` works out from public facts what will be released, and at what price.
2. `pay` charges the ledger, or raises. Nothing has been read so far.
3. `release` reads the data (a *source* has one method, `read`) and draws.

What follows, such as edges and tails, is computed from released numbers and public facts alone.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpq_sklearn.accounting.budgets import (
    Budget,
    Cost,
    checked_request,
    feature_shares,
)
from dpq_sklearn.accounting.conversions import rho_of_approximate_dp, rho_of_pure
from dpq_sklearn.accounting.losses import Neighbours, PrivacyLoss
from dpq_sklearn.engine.grid import FULL_RESOLUTION, Grid, make_grid, shortest_decimals
from dpq_sklearn.engine.random import Randomness, make_randomness
from dpq_sklearn.ledger.ledger import charge
from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.mechanisms.registry import checked_mechanism

# The share of a fit's budget that its count of rows gets: it costs 1.6% of accuracy.
COUNT_SHARE = 1 / 64


@dataclass(frozen=True)
class ReleasePlan:
    """What will be released and at what price; public facts only.

    Attributes
    ----------
    mechanism : Mechanism
    quantiles : tuple, the ascending distinct quantiles of each column
    bounds : tuple, a pair of floats for each column, infinite where there is no bound
    grid : Grid
    budgets : tuple, the budget of each column
    count_budget : Budget or None, that of the number of rows
    loss : PrivacyLoss
    """

    mechanism: object
    quantiles: tuple
    bounds: tuple
    grid: Grid
    budgets: tuple
    count_budget: Budget | None
    loss: PrivacyLoss


@dataclass(frozen=True)
class Account:
    """One way to satisfy a request: the budgets, the delta that they cost, and its name."""

    budgets: tuple
    count_budget: Budget | None
    delta: float
    name: str


def plan_release(
    quantiles,
    *,
    eps,
    delta,
    rho,
    bounds,
    mechanism="aq",
    weights=None,
    resolution=FULL_RESOLUTION,
    with_count=False,
    neighbours=Neighbours.ROWS,
    adds_up=False,
):
    """Return the plan for columns with these ascending distinct quantiles and checked bounds.

    Of the accounts that satisfy the request, the one that promises the least error is taken.
    Releases that are added up later (`adds_up`, in a ledger) do without optimal composition: it
    buys accuracy at one delta with more rho.
    """
    engine = checked_mechanism(mechanism)
    eps, delta, rho = checked_request(eps, delta, rho)
    shares = feature_shares(len(quantiles), weights)
    accounts = _accounts(engine, quantiles, shares, eps, delta, rho, with_count)
    if adds_up:
        accounts = [account for account in accounts if account.name != "optimal composition"]

    def predicted_error(account):
        return sum(map(engine.typical_error, quantiles, account.budgets))

    account = min(accounts, key=predicted_error)
    costs = list(map(engine.cost, quantiles, account.budgets))
    if account.count_budget is not None:
        costs.append(CountNoise(account.count_budget).cost())
    total = Cost(*map(sum, zip(*costs, strict=True)))
    loss = PrivacyLoss(
        eps=total.eps if eps is None else eps,  # the parts add up to what was asked for, or less
        delta=account.delta,
        rho=total.rho if rho is None else rho,
        pure_eps=total.eps if account.delta or eps is None else eps,
        neighbours=neighbours,
        account=account.name,
    )
    bounds = tuple(bounds)
    grid = make_grid(bounds, resolution)
    return ReleasePlan(
        engine, tuple(quantiles), bounds, grid, account.budgets, account.count_budget, loss
    )


def _accounts(engine, quantiles, shares, eps, delta, rho, with_count):
    """Return the accounts that satisfy a request for eps, (eps, delta) or rho, each on its own."""
    if rho is not None:
        count = Budget(COUNT_SHARE * rho, "rho") if with_count else None
        rest = Budget(rho - (count.amount if with_count else 0.0), "rho")
        return [Account(_shared(rest, shares), count, 0.0, "zCDP")]
    count = Budget(COUNT_SHARE * eps, "eps") if with_count else None
    eps_left = eps - (count.amount if with_count else 0.0)
    accounts = [Account(_shared(Budget(eps_left, "eps"), shares), count, 0.0, "sum of eps")]
    if delta > 0:
        rho = rho_of_approximate_dp(eps, delta) - (rho_of_pure(count.amount) if with_count else 0.0)
        if rho > 0:
            accounts.append(Account(_shared(Budget(rho, "rho"), shares), count, delta, "zCDP"))
        composed = engine.composed_budgets(quantiles, shares, eps_left, delta)
        if composed is not None:
            accounts.append(Account(composed, count, delta, "optimal composition"))
    return accounts


def _shared(budget, shares):
    return tuple(budget.part(share) for share in shares.tolist())


@dataclass(frozen=True)
class PaidPlan:
    """A plan whose price is paid: the only thing that `release` takes."""

    plan: ReleasePlan
    randomness: Randomness


def pay(plan, ledger, random_state, **facts):
    """Charge the ledger, if there is one, or raise; before any data are read.

    `facts` are public words for the ledger: what is released, of which columns, in which detail.
    """
    randomness = make_randomness(random_state)
    plan = replace(plan, loss=replace(plan.loss, os_randomness=randomness.from_os))
    charge(ledger, plan.loss, **facts)
    return PaidPlan(plan, randomness)


@dataclass(frozen=True)
class Release:
    """Released numbers, and the plan that they follow.

    `quantiles` has an array for each column; `n_rows` is None if the plan has no count.
    """

    quantiles: list
    n_rows: int | None
    plan: ReleasePlan


def release(paid, source):
    """Read the data and draw: the one place where data meet a mechanism.

    Nothing but the result may depend on the numbers. So NumPy's warnings, which callers can turn
    into errors, are off.
    """
    plan = paid.plan
    with np.errstate(all="ignore"):
        records = source.read(plan.grid)
        n_rows = _noisy_count(records.n_rows, plan.count_budget, paid.randomness)
        cells = plan.mechanism.release(records.ranks, plan.quantiles, plan.budgets, paid.randomness)
        return Release(_decimals(plan.grid, cells), n_rows, plan)


def _noisy_count(n_rows, budget, randomness):
    return None if budget is None else n_rows + int(CountNoise(budget).draw(randomness)[0])


def _decimals(grid, cells):
    """Return the released numbers of each column: the shortest decimals in the cells."""
    sizes = [found.size for found in cells]
    columns = np.repeat(np.arange(len(sizes)), sizes)
    values = shortest_decimals(grid, np.concatenate(cells), columns)
    return np.split(values, np.cumsum(sizes)[:-1])
