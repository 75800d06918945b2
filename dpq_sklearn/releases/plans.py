"""Plans of releases: the draws, their budgets and the price, from public facts only.

`plan_quantiles` plans one request. In `plan_choice`, a released count chooses one of several plans,
at the price of the most expensive plan. `plan_description` also counts the values of each column,
and `plan_counts` plans only counts. A plan reads a source and draws from its records.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import compress
from typing import Protocol, TypeVar

import numpy as np

from dpq_sklearn.accounting.budgets import Budget, BudgetTooSmall, TotalBudget
from dpq_sklearn.accounting.compositions import Composition, basic_compositions, optimal_composition
from dpq_sklearn.accounting.events import counted
from dpq_sklearn.accounting.losses import PrivacyLoss, most_of_each
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.engine.grid import Grid, make_grid
from dpq_sklearn.engine.random import Randomness
from dpq_sklearn.engine.ranks import RECORD_WEIGHT, Ranks
from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.mechanisms.protocol import Mechanism, computed_once, draw_columns
from dpq_sklearn.reading.sources.protocol import Records, Source
from dpq_sklearn.releases.request import Column, CountRole, Request
from dpq_sklearn.releases.values import (
    TOLERANCE_WITHOUT_COUNT,
    noise_in_gaps,
    tolerances_in_gaps,
    values_of_columns,
)

# The count of the rows gets this share of a fit's budget, which costs 1.6% of accuracy.
COUNT_SHARE = 1 / 64
# The count of a column's values gets this share of the column's budget. With five quantiles, it
# minimizes the sum of the six errors, in eps and in rho.
VALUE_COUNT_SHARE = 1 / 5
# A delta is spent if it divides the predicted error by at least this factor.
WORTH_A_DELTA = 1.02

T = TypeVar("T")


class CountedSource(Protocol):
    """A column that can be counted (`reading.counted`)."""

    def count(self) -> np.ndarray:
        """Return the exact counts."""


@dataclass(frozen=True)
class Release:
    """Released numbers, and the plan behind them."""

    values: list[np.ndarray]  # one array for each column
    n_rows: int | None  # None if the plan has no count
    plan: "Plan"


@dataclass(frozen=True)
class Plan:
    """The plan of the quantiles of a request, and of a count of the rows if it is requested."""

    request: Request
    grid: Grid
    budgets: tuple[Budget | None, ...]  # one for each column; None if nothing is drawn from it
    count_budget: Budget | None  # for the number of rows
    loss: PrivacyLoss

    @cached_property
    def kinds(self) -> tuple[list[tuple[Mechanism, Column, Budget | None]], list[int]]:
        """The distinct columns as (mechanism, column, budget), and the index of each column's kind.

        Most columns are alike, so work for a kind is done once.
        """
        columns = zip(self.request.mechanisms, self.request.columns, self.budgets, strict=True)
        numbers: dict[tuple[Mechanism, Column, Budget | None], int] = {}
        of_columns = [numbers.setdefault(column, len(numbers)) for column in columns]
        return list(numbers), of_columns

    def map_columns(self, function: Callable[[Column, np.ndarray], T]) -> list[T]:
        """Return ``function(column, rank_deviations)`` of each column, called once for a kind."""
        kinds, of_columns = self.kinds
        values = [
            function(column, computed_once(mechanism.rank_deviations, column.probabilities, budget))
            for mechanism, column, budget in kinds
        ]
        return [values[kind] for kind in of_columns]

    def read(self, source: Source) -> Records | None:
        """Return the records of a source: ranks on the grid of this plan, and their number.

        A plan that releases nothing reads nothing and returns None.
        """
        return None if self.request.is_free else source.read(self.grid)

    def draw(self, records: Records | None, randomness: Randomness) -> Release:
        """Return the `Release`: the count is drawn first, then the quantiles.

        Privacy
        -------
        Neighbours are those of the request. The count and the columns together cost at most
        `loss`, by the composition that the plan was made with.
        """
        n_rows = self.draw_count(records, randomness)
        return self.draw_quantiles(records, n_rows, randomness)

    def draw_count(self, records: Records | None, randomness: Randomness) -> int | None:
        """Return the noisy number of rows, at least 1, or None if the plan has no count."""
        if self.count_budget is None or records is None:
            return None
        noise = CountNoise(self.count_budget).draw(randomness)
        return max(records.n_rows + int(noise[0]), 1)

    def draw_quantiles(
        self,
        records: Records | None,
        n_rows: int | None,
        randomness: Randomness,
        counts: np.ndarray | None = None,
    ) -> Release:
        """Return the `Release` of the quantiles.

        `n_rows` is the released number of rows, and `counts` has the released number of values of
        each column. Either may be None.
        """
        request = self.request
        if records is None or not any(request.is_drawn):
            return Release([np.empty(0) for _ in request.columns], n_rows, self)

        n_segments = self.n_segments_of(records)
        priors = request.priors
        cells = draw_columns(
            in_segments(request.mechanisms, n_segments),
            records.ranks,
            in_segments(request.probabilities, n_segments),
            in_segments(self.budgets, n_segments),
            randomness,
            None if priors is None else in_segments(priors, n_segments),
        )
        n_in_columns = n_rows if counts is None else counts
        tolerances = (
            TOLERANCE_WITHOUT_COUNT
            if n_in_columns is None
            else tolerances_in_gaps(np.array(in_segments(self._noise, n_segments)), n_in_columns)
        )
        return Release(values_of_columns(records.ranks.grid, cells, tolerances), n_rows, self)

    def n_segments_of(self, records: Records) -> int:
        """Return the number of segments of the records, or raise if there are too many."""
        n_segments = records.ranks.total_weights.size // len(self.request.columns)
        if n_segments > self.request.n_segments:
            raise ValueError("the rows have more segments than the plan reserves rounding for.")
        return n_segments

    @cached_property
    def _noise(self) -> np.ndarray:
        """The noise of each column, as `tolerances_in_gaps` expects it."""
        return np.array(
            self.map_columns(
                lambda column, found: (
                    noise_in_gaps(column.probabilities, found) if found.size else np.nan
                )
            )
        )


def in_segments(per_column: Iterable[T], n_segments: int) -> list[T]:
    """Return the fact about each column once for each of its segments, column by column."""
    return [fact for fact in per_column for _ in range(n_segments)]


@dataclass(frozen=True)
class PlanChoice:
    """Several plans, sorted from coarse to fine. A released count chooses one of them."""

    candidates: tuple[Plan, ...]  # with the same columns, bounds and count
    choose: Callable[[tuple[Plan, ...], int | None], Plan]  # (candidates, n_rows) -> a candidate
    loss: PrivacyLoss  # covers each of them

    def __post_init__(self) -> None:
        if any(plan.request.count is not CountRole.CHOOSES for plan in self.candidates):
            raise ValueError("all candidates of a choice must leave the choice to the count.")

    def read(self, source: Source) -> Records | None:
        """Return the records of a source, which are the same for all candidates."""
        return self.candidates[0].read(source)

    def draw(self, records: Records | None, randomness: Randomness) -> Release:
        """Return the `Release` of the plan that the count chooses.

        Privacy
        -------
        Neighbours are those of the requests. The choice depends on the released count and on public
        facts only, and each candidate reserves the eps of the count (or a ledger adds it to the
        candidate's). So the price is the price of the most expensive candidate.
        """
        n_rows = self.candidates[0].draw_count(records, randomness)
        plan = self.choose(self.candidates, n_rows)
        return plan.draw_quantiles(records, n_rows, randomness)


@dataclass(frozen=True)
class Description:
    """The released counts and quantiles of columns.

    All segments of the first column come first, then all segments of the second, and so on.
    """

    counts: np.ndarray  # (n_columns * n_segments,) whole numbers, at least 0
    values: list[np.ndarray]  # one array for each segment of each column


@dataclass(frozen=True)
class DescriptionPlan:
    """The plan of the quantiles of a request, and of the number of values in each column.

    Both are drawn for each segment of the rows.
    """

    quantiles: Plan
    count_noises: tuple[CountNoise, ...]  # one for each column
    units_per_record: int  # more than 1 if the rows of a person share the weight of a record
    loss: PrivacyLoss

    def read(self, source: Source) -> Records | None:
        """Return the records of a source: ranks on the grid of this plan."""
        return self.quantiles.read(source)

    def draw(self, records: Records | None, randomness: Randomness) -> Description:
        """Return the `Description`: the counts are drawn first, then the quantiles.

        Privacy
        -------
        Neighbours are those of the request. One record, or all rows of a person, adds weights to
        the segments of a column that sum to at most `RECORD_WEIGHT`, because missing values add
        nothing. So the totals of all segments of a column together change by at most
        `units_per_record`, which is the sensitivity of their noise. Likewise, the weights of the
        record in all draws of a level of the trees of a column, in all segments, sum to at most 1.
        So all segments cost as much as a single segment, and all columns together cost at most
        `loss`, by the composition that the plan was made with.
        """
        assert records is not None  # a description is never free
        noises = in_segments(self.count_noises, self.quantiles.n_segments_of(records))
        noise = np.concatenate([count_noise.draw(randomness) for count_noise in noises])
        counts = np.maximum(self.totals(records.ranks) + noise, 0)
        counts = (counts + self.units_per_record // 2) // self.units_per_record

        released = self.quantiles.draw_quantiles(records, None, randomness, counts)
        return Description(counts, released.values)

    def totals(self, ranks: Ranks) -> np.ndarray:
        """Return the exact weight of the values in each segment of each column, in units."""
        return ranks.total_weights // (RECORD_WEIGHT // self.units_per_record)


@dataclass(frozen=True)
class CountPlan:
    """The plan of noisy counts. One record or one person changes their sum by at most 1."""

    noise: CountNoise
    units_per_record: int  # more than 1 if the rows of a person share the weight of a record
    loss: PrivacyLoss

    def read(self, source: CountedSource) -> np.ndarray:
        """Return the exact counts of a source, in units."""
        return source.count()

    def draw(self, counts: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Return the noisy counts of records, which may be negative.

        They are integers, or floats if rows share a record.

        Privacy
        -------
        The guarantee of `CountNoise`, whose sensitivity is `units_per_record`: one record.
        """
        noisy: np.ndarray = counts + self.noise.draw(randomness)
        return noisy if self.units_per_record == 1 else noisy / self.units_per_record


@lru_cache(maxsize=64)  # searches repeat a fit many times, and warnings try out other plans
def plan_quantiles(request: Request) -> Plan:
    """Return the plan of a request, by the composition with the smallest predicted error."""
    if request.is_free:
        return _free_plan(request)

    composition = min(_compositions(request), key=partial(_predicted_error, request))
    return _plan_by(request, composition)


def _plan_by(request: Request, composition: Composition) -> Plan:
    count_budget = composition.count_budget
    count_noises = [] if count_budget is None else [CountNoise(count_budget)]
    return _plan(request, composition, composition.budgets, count_noises)


def losses_by_composition(request: Request) -> list[PrivacyLoss]:
    """Return the loss of a request by each composition that its budget suffices for."""
    losses = []
    for composition in _compositions(request):
        with suppress(BudgetTooSmall):
            losses.append(_plan_by(request, composition).loss)
    return losses


def _free_plan(request: Request) -> Plan:
    """Return the plan that releases nothing and costs nothing."""
    return Plan(
        request=request,
        grid=_grid(request),
        budgets=(None,) * len(request.columns),
        count_budget=None,
        loss=PrivacyLoss(eps=0.0, delta=0.0, rho=0.0, neighbours=request.neighbours),
    )


def _grid(request: Request) -> Grid:
    return make_grid(request.bounds, request.resolution, request.decimals)


def _plan(
    request: Request,
    composition: Composition,
    budgets_of_drawn: tuple[Budget, ...],
    count_noises: Sequence[CountNoise],
) -> Plan:
    """Return the plan of the quantiles. Its loss includes counts with the given noises.

    `budgets_of_drawn` has a budget for each column that quantiles are drawn from.
    """
    next_budget = iter(budgets_of_drawn)
    budgets = tuple(next(next_budget) if is_drawn else None for is_drawn in request.is_drawn)

    columns = list(zip(request.mechanisms, request.probabilities, budgets, strict=True))
    costs = [computed_once(mechanism.cost, *column) for mechanism, *column in columns]
    events = [
        event
        for mechanism, *column in columns
        for event in computed_once(mechanism.events, *column)
    ]
    costs += [noise.cost() for noise in count_noises]
    events += [noise.event() for noise in count_noises]
    loss = composition.loss(costs, request.budget, request.neighbours)

    return Plan(
        request=request,
        grid=_grid(request),
        budgets=budgets,
        count_budget=composition.count_budget,
        loss=replace(loss, mechanism=request.mechanism_name, events=counted(events)),
    )


def _compositions(request: Request) -> list[Composition]:
    """Return all compositions that keep within the budget of a request.

    Releases with a ledger do not use optimal composition, which gains accuracy at one delta by
    spending more rho. If the count chooses the plan, the candidates may have different
    compositions, and none of them covers the choice, so the eps of the count is subtracted first.
    With a ledger this is not necessary: its eps and rho add up even if earlier outcomes decided
    about later releases.
    """
    total = request.budget
    shares = request.shares

    count_budget = None
    if request.count is not CountRole.NONE:
        count_budget = total.without_delta.scaled(COUNT_SHARE)
    count_is_apart = request.count is CountRole.CHOOSES and not request.has_ledger

    compositions = basic_compositions(
        total, shares, count_budget, count_is_apart, has_ledger=request.has_ledger
    )
    if total.delta > 0 and shares and not request.has_ledger:
        probabilities = tuple(filter(None, request.probabilities))
        compose = partial(request.mechanism.composed_budgets, probabilities, shares)
        optimal = optimal_composition(total, compose, count_budget, count_is_apart)
        if optimal is not None:
            compositions.append(optimal)

    return compositions


def _predicted_error(request: Request, composition: Composition) -> float:
    """Return the sum of the errors of all columns, increased a little if a delta is spent."""
    all_columns = zip(request.mechanisms, request.probabilities, strict=True)
    drawn = compress(all_columns, request.is_drawn)
    # The budgets of counts may follow those of quantiles.
    columns = Counter(
        (*column, budget) for column, budget in zip(drawn, composition.budgets, strict=False)
    )
    error = math.fsum(
        computed_once(mechanism.typical_error, *column) * n
        for (mechanism, *column), n in columns.items()
    )
    return error * WORTH_A_DELTA if composition.delta else error


def plan_choice(
    requests: Sequence[Request], choose: Callable[[tuple[Plan, ...], int | None], Plan]
) -> PlanChoice:
    """Return the choice among the plans of several requests, which are sorted from coarse to fine.

    ``choose(plans, n_rows)`` returns one of them, given the released count.
    """
    plans = [plan_quantiles(requests[0])]
    with suppress(BudgetTooSmall):  # the coarser plans remain if the budget is too small
        plans.extend(map(plan_quantiles, requests[1:]))

    return PlanChoice(
        candidates=tuple(plans),
        choose=choose,
        loss=most_of_each([plan.loss for plan in plans]),
    )


@lru_cache(maxsize=64)
def plan_description(request: Request) -> DescriptionPlan:
    """Return the plan of a request that also counts the values of each column.

    The count of a column is a second release with a share of the column's budget. So the costs add
    up as those of twice as many columns: first the quantiles of all columns, then the counts of
    all. (Optimal composition would treat the counts as one release with the sum of their eps, and
    lose as much by it as it gains in the quantiles.)
    """
    n_columns = len(request.columns)
    shares = [
        share_of_release * share
        for share_of_release in (1 - VALUE_COUNT_SHARE, VALUE_COUNT_SHARE)
        for share in request.shares
    ]
    compositions = basic_compositions(
        request.budget, shares, n_segments=request.n_segments, has_ledger=request.has_ledger
    )
    composition = min(compositions, key=partial(_predicted_error, request))

    units = units_of_neighbours(request.neighbours)
    count_budgets = composition.budgets[n_columns:]
    noises = tuple(CountNoise(budget, sensitivity=units) for budget in count_budgets)
    quantiles = _plan(request, composition, composition.budgets[:n_columns], noises)
    return DescriptionPlan(quantiles, noises, units, quantiles.loss)


def units_of_neighbours(neighbours: Neighbours) -> int:
    """Return the number of units per record. The rows of a person divide a record among them."""
    return RECORD_WEIGHT if neighbours is Neighbours.PEOPLE else 1


def plan_counts(
    n_counts: int,
    budget: TotalBudget,
    *,
    neighbours: Neighbours,
    units_per_record: int = 1,
    has_ledger: bool = False,
) -> CountPlan:
    """Return the plan with the least noise for counts, if a record changes their sum by at most 1.

    The counts are whole numbers of units.
    """
    choices = [
        (CountNoise(composition.budgets[0], n_counts, units_per_record), composition)
        for composition in basic_compositions(budget, shares=(1.0,), has_ledger=has_ledger)
    ]
    noise, composition = min(choices, key=lambda choice: choice[0].deviation())

    loss = composition.loss([noise.cost()], budget, neighbours)
    return CountPlan(noise, units_per_record, loss=replace(loss, events=(noise.event(),)))
