"""Plans: what will be drawn, with which budgets and at what price. Public facts alone.

`plan_quantiles` follows one request. With `plan_choice` a released count chooses one of several
plans, at the price of the dearest. `plan_description` counts the values of each column as well, and
`plan_counts` is for counts alone. A plan knows what it has to read of a source, and how to draw
from that.
"""

import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import compress

import numpy as np

from dpq_sklearn.accounting.accounts import optimal_composition, sums
from dpq_sklearn.accounting.budgets import Budget, BudgetTooSmall
from dpq_sklearn.accounting.events import counted
from dpq_sklearn.accounting.losses import PrivacyLoss, most_of_each
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.engine.grid import Grid, make_grid
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.mechanisms.protocol import draw_columns, of_column
from dpq_sklearn.releases.request import CountRole, Request
from dpq_sklearn.releases.values import (
    PART_OF_A_GAP,
    noise_in_gaps,
    parts_of_gaps,
    values_of_columns,
)

# The share of a fit's budget that its count of rows gets: it costs 1.6% of accuracy.
COUNT_SHARE = 1 / 64
# The share of a column's budget that the count of its values gets, beside its quantiles. With five
# of them it makes the sum of the six errors least, in eps and in rho.
VALUE_COUNT_SHARE = 1 / 5
# A delta is spent if it makes the predicted error so many times smaller.
WORTH_A_DELTA = 1.02


@dataclass(frozen=True)
class Release:
    """Released numbers, and the plan that they follow."""

    values: list  # an array for each column
    n_rows: int | None  # None if the plan has no count
    plan: "Plan"


@dataclass(frozen=True)
class Plan:
    """The quantiles of a request, and a count of the rows if it wants one."""

    request: Request
    grid: Grid
    budgets: tuple  # one for each column; None if nothing is drawn from it
    count_budget: Budget | None  # that of the number of rows
    loss: PrivacyLoss

    @cached_property
    def kinds(self):
        """Columns are mostly alike: one (mechanism, column, budget) of each kind, and all kinds.

        A list, and for each column the index of its kind.
        """
        columns = zip(self.request.mechanisms, self.request.columns, self.budgets, strict=True)
        numbers = {}
        of_columns = [numbers.setdefault(column, len(numbers)) for column in columns]
        return list(numbers), of_columns

    def map_columns(self, function):
        """Return ``function(column, rank deviations)`` of each column; called once for a kind."""
        kinds, of_columns = self.kinds
        values = [
            function(column, of_column(mechanism.rank_deviations, column.probabilities, budget))
            for mechanism, column, budget in kinds
        ]
        return [values[kind] for kind in of_columns]

    def read(self, source):
        """Return the records of a source: ranks on the grid of this plan, and their number.

        A plan that releases nothing reads nothing: the result is None then.
        """
        return None if self.request.is_free else source.read(self.grid)

    def draw(self, records, randomness):
        """Return the `Release`: the count first, then the quantiles.

        Privacy
        -------
        Neighbours are those of the request. The count and the columns together cost at most
        `loss`, by the account that the plan was made with.
        """
        n_rows = self.draw_count(records, randomness)
        return self.draw_quantiles(records, n_rows, randomness)

    def draw_count(self, records, randomness):
        """Return the number of rows with noise, at least 1; None if the plan has no count."""
        if self.count_budget is None:
            return None
        noise = CountNoise(self.count_budget).draw(randomness)
        return max(records.n_rows + int(noise[0]), 1)

    def draw_quantiles(self, records, n_rows, randomness, counts=None):
        """Return the `Release` of the quantiles with counts that were drawn before them.

        `n_rows` is that of all rows and `counts` are those of columns, or None.
        """
        request = self.request
        if not any(request.is_drawn):
            return Release([np.empty(0) for _ in request.columns], n_rows, self)

        cells = draw_columns(
            self.in_segments(request.mechanisms),
            records.ranks,
            self.in_segments(request.probabilities),
            self.in_segments(self.budgets),
            randomness,
            None if request.priors is None else self.in_segments(request.priors),
        )
        n_in_columns = n_rows if counts is None else counts
        is_counted = n_in_columns is not None
        noise = self.in_segments(self._noise)
        parts = parts_of_gaps(noise, n_in_columns) if is_counted else PART_OF_A_GAP
        return Release(values_of_columns(records.ranks.grid, cells, parts), n_rows, self)

    def in_segments(self, per_column):
        """Return facts of the columns for the columns of `records`: each once for each segment."""
        n_segments = self.request.n_segments
        if isinstance(per_column, np.ndarray):
            return np.repeat(per_column, n_segments, axis=0)
        return [fact for fact in per_column for _ in range(n_segments)]

    @cached_property
    def _noise(self):
        """The noise of each column, as `parts_of_gaps` wants it."""
        return np.array(
            self.map_columns(
                lambda column, found: (
                    noise_in_gaps(column.probabilities, found) if found.size else np.nan
                )
            )
        )


@dataclass(frozen=True)
class PlanChoice:
    """Several plans, each finer than the one before: a released count chooses one of them."""

    candidates: tuple  # of plans, with the same columns, bounds and count
    choose: Callable  # (candidates, n_rows) -> one of them
    loss: PrivacyLoss  # covers each of them

    def __post_init__(self):
        if any(plan.request.count is not CountRole.CHOOSES for plan in self.candidates):
            raise ValueError("all candidates of a choice must leave the choice to the count.")

    def read(self, source):
        """Return the records of a source, which are the same for all candidates."""
        return self.candidates[0].read(source)

    def draw(self, records, randomness):
        """Return the `Release` of the plan that the count chooses.

        Privacy
        -------
        Neighbours are those of the requests. The choice depends on the released count and on public
        facts alone, and the eps of the count is set aside in each of the candidates (or added up
        with theirs by a ledger). So the price is that of the dearest.
        """
        n_rows = self.candidates[0].draw_count(records, randomness)
        plan = self.choose(self.candidates, n_rows)
        return plan.draw_quantiles(records, n_rows, randomness)


@dataclass(frozen=True)
class Description:
    """What is released of columns: the counts of their values, and their quantiles.

    All segments of the first column come first, then those of the second, and so on.
    """

    counts: np.ndarray  # (n_columns * n_segments,) whole numbers, at least 0
    values: list  # an array for each segment of each column


@dataclass(frozen=True)
class DescriptionPlan:
    """The quantiles of a request, and in each column a count of the values that are there.

    Both are drawn for each segment of the rows.
    """

    quantiles: Plan
    count_noises: tuple  # one for each column
    parts: int  # of a record, in which counts are whole numbers: more than 1 if rows share it
    loss: PrivacyLoss

    def read(self, source):
        """Return the records of a source: ranks on the grid of this plan."""
        return self.quantiles.read(source)

    def draw(self, records, randomness):
        """Return the `Description`: the counts first, then the quantiles.

        Privacy
        -------
        Neighbours are those of the request. One record, or all rows of a person, adds weights to
        the segments of a column that sum to at most `RECORD_WEIGHT`: what it misses adds nothing.
        So the totals of all segments of a column change by at most `parts` together, which is the
        sensitivity of their noise. Likewise its weights in all draws of a level of the trees of a
        column, in all segments, sum to at most 1. So the segments cost what one costs, and all
        columns together at most `loss`, by the account that the plan was made with.
        """
        noises = self.quantiles.in_segments(self.count_noises)
        noise = np.concatenate([of_column.draw(randomness) for of_column in noises])
        counts = np.maximum(self.totals(records.ranks) + noise, 0)
        counts = (counts + self.parts // 2) // self.parts

        released = self.quantiles.draw_quantiles(records, None, randomness, counts)
        return Description(counts, released.values)

    def totals(self, ranks):
        """Return the exact weight of the values in each segment of each column, in parts."""
        return ranks.total_weights // (RECORD_WEIGHT // self.parts)


@dataclass(frozen=True)
class CountPlan:
    """Counts with noise, which one record, or all rows of a person, change by at most 1 in all."""

    noise: CountNoise
    parts: int  # of a record, in which counts are whole numbers: more than 1 if rows share it
    loss: PrivacyLoss

    def read(self, source):
        """Return the exact counts of a source."""
        return source.count()

    def draw(self, counts, randomness):
        """Return the counts, which may be negative: integers, or floats if rows share a record.

        Privacy
        -------
        That of `CountNoise`, whose sensitivity is `parts`: one record.
        """
        noisy = counts + self.noise.draw(randomness)
        return noisy if self.parts == 1 else noisy / self.parts


@lru_cache(maxsize=64)  # a fit is repeated many times in a search, and warnings try out other plans
def plan_quantiles(request):
    """Return the plan of a request by the account that promises the least error."""
    if request.is_free:
        return _free_plan(request)

    account = min(_accounts(request), key=partial(_predicted_error, request))
    return _plan_by(request, account)


def _plan_by(request, account):
    count_budget = account.count_budget
    count_noises = [] if count_budget is None else [CountNoise(count_budget)]
    return _plan(request, account, account.budgets, count_noises)


def losses_by_account(request: Request) -> list[PrivacyLoss]:
    """Return the loss of a request by each account that its budget suffices for."""
    losses = []
    for account in _accounts(request):
        with suppress(BudgetTooSmall):
            losses.append(_plan_by(request, account).loss)
    return losses


def _free_plan(request):
    """Return the plan that releases nothing, and costs nothing."""
    return Plan(
        request=request,
        grid=_grid(request),
        budgets=(None,) * len(request.columns),
        count_budget=None,
        loss=PrivacyLoss(eps=0.0, delta=0.0, rho=0.0, neighbours=request.neighbours),
    )


def _grid(request):
    return make_grid(request.bounds, request.resolution, request.decimals)


def _plan(request, account, budgets_of_drawn, count_noises):
    """Return the plan of the quantiles, whose loss is theirs and that of counts with these noises.

    `budgets_of_drawn` are those of the quantiles of each column that is drawn.
    """
    next_budget = iter(budgets_of_drawn)
    budgets = tuple(next(next_budget) if is_drawn else None for is_drawn in request.is_drawn)

    columns = list(zip(request.mechanisms, request.probabilities, budgets, strict=True))
    costs = [of_column(mechanism.cost, *column) for mechanism, *column in columns]
    events = [
        event for mechanism, *column in columns for event in of_column(mechanism.events, *column)
    ]
    costs += [noise.cost() for noise in count_noises]
    events += [noise.event() for noise in count_noises]
    loss = account.loss(costs, request.budget, request.neighbours)

    return Plan(
        request=request,
        grid=_grid(request),
        budgets=budgets,
        count_budget=account.count_budget,
        loss=replace(loss, mechanism=request.mechanism_name, events=counted(events)),
    )


def _accounts(request):
    """Return all accounts that keep within the budget of a request.

    Releases that a ledger adds up do without optimal composition: it buys accuracy at one delta
    with more rho. If the count chooses the plan, plans may have different accounts, and no
    composition covers the choice: its eps is set aside first. In a ledger eps or rho add up
    whatever earlier releases decided, so there nothing is set aside.
    """
    total = request.budget
    shares = request.shares

    count_budget = None
    if request.count is not CountRole.NONE:
        count_budget = total.without_delta.part(COUNT_SHARE)
    count_is_apart = request.count is CountRole.CHOOSES and not request.is_added_up

    accounts = sums(total, shares, count_budget, count_is_apart)
    if total.delta > 0 and shares and not request.is_added_up:
        probabilities = tuple(filter(None, request.probabilities))
        compose = partial(request.mechanism.composed_budgets, probabilities, shares)
        composed = optimal_composition(total, compose, count_budget, count_is_apart)
        if composed is not None:
            accounts.append(composed)

    return accounts


def _predicted_error(request, account):
    """Return the sum of the errors of all columns, a little more if a delta is spent for it."""
    columns = zip(request.mechanisms, request.probabilities, strict=True)
    drawn = compress(columns, request.is_drawn)
    # The budgets of counts may follow those of quantiles.
    columns = Counter(
        (*column, budget) for column, budget in zip(drawn, account.budgets, strict=False)
    )
    error = math.fsum(
        of_column(mechanism.typical_error, *column) * n
        for (mechanism, *column), n in columns.items()
    )
    return error * WORTH_A_DELTA if account.delta else error


def plan_choice(requests, choose):
    """Return the choice among the plans of several requests, each finer than the one before.

    ``choose(plans, n_rows)`` returns one of them by the released count.
    """
    plans = [plan_quantiles(requests[0])]
    with suppress(BudgetTooSmall):  # for so many quantiles: the plans before stay
        plans.extend(map(plan_quantiles, requests[1:]))

    return PlanChoice(
        candidates=tuple(plans),
        choose=choose,
        loss=most_of_each([plan.loss for plan in plans]),
    )


@lru_cache(maxsize=64)
def plan_description(request):
    """Return the plan of a request that counts the values of each column as well.

    The count of a column is one more release of it, with a part of the column's budget. So costs
    add up as those of twice as many columns: the quantiles of all first, then the counts of all.
    (Optimal composition would take the counts for one release of all their eps, and lose by that
    what it gains in the quantiles.)
    """
    n_columns = len(request.columns)
    shares = [
        part * share
        for part in (1 - VALUE_COUNT_SHARE, VALUE_COUNT_SHARE)
        for share in request.shares
    ]
    accounts = sums(request.budget, shares, n_segments=request.n_segments)
    account = min(accounts, key=partial(_predicted_error, request))

    parts = parts_of_records(request.neighbours)
    count_budgets = account.budgets[n_columns:]
    noises = tuple(CountNoise(budget, sensitivity=parts) for budget in count_budgets)
    quantiles = _plan(request, account, account.budgets[:n_columns], noises)
    return DescriptionPlan(quantiles, noises, parts, quantiles.loss)


def parts_of_records(neighbours):
    """Return in how many parts of a record weights are counted: the rows of a person share one."""
    return RECORD_WEIGHT if neighbours is Neighbours.PEOPLE else 1


def plan_counts(n_counts, budget, *, neighbours, parts=1):
    """Return the plan for counts that a record changes by at most 1 in all: the least noise.

    They are whole numbers of `parts` of a record.
    """
    choices = [
        (CountNoise(account.budgets[0], n_counts, parts), account)
        for account in sums(budget, shares=(1.0,))
    ]
    noise, account = min(choices, key=lambda choice: choice[0].deviation())

    loss = account.loss([noise.cost()], budget, neighbours)
    return CountPlan(noise, parts, loss=replace(loss, events=(noise.event(),)))
