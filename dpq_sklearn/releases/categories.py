"""Plans for releases of the categories of columns, with or without their counts."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpq_sklearn.accounting.budgets import TotalBudget, feature_shares
from dpq_sklearn.accounting.events import counted
from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.checks import shown
from dpq_sklearn.engine.random import Randomness
from dpq_sklearn.mechanisms.counted_selection import CountedSelection
from dpq_sklearn.mechanisms.partition_selection import PartitionSelection
from dpq_sklearn.reading.categories import order_of

# The shares of the columns are rounded to nearest, and may sum to a little more than 1.
_ROUNDING = 2.0**-40


@dataclass(frozen=True)
class CategoryPlan:
    """A selection among the categories of each column."""

    selections: tuple[PartitionSelection, ...]  # one for each column
    loss: PrivacyLoss

    def read(self, source: Any) -> list[Counter[Hashable]]:
        """Return the exact number of records with each category, for each column."""
        return source.count_categories()

    def draw(self, counts: list[Counter[Hashable]], randomness: Randomness) -> list[list[Hashable]]:
        """Return the categories of each column that are released, in the public order.

        Privacy
        -------
        Neighbours: one row, or all rows of a person, added or removed. Such a record counts for at
        most one category of each column, so the selection of a column costs the (eps, delta) of
        that column, and all selections together cost at most `loss`, the sums of both.
        """
        pairs = zip(self.selections, counts, strict=True)
        return [_drawn(selection, of_column, randomness) for selection, of_column in pairs]


def _drawn(
    selection: PartitionSelection, counts: Counter[Hashable], randomness: Randomness
) -> list[Hashable]:
    ordered = sorted(counts, key=order_of)
    n_records = np.array([counts[category] for category in ordered], dtype=np.int64)
    is_kept = selection.draw(n_records, randomness)
    return [category for category, kept in zip(ordered, is_kept, strict=True) if kept]


@dataclass(frozen=True)
class ValueCountPlan:
    """A selection among the labels of one column, with their counts."""

    selection: CountedSelection
    loss: PrivacyLoss

    def read(self, source: Any) -> Counter[Hashable]:
        """Return the exact number of records with each label."""
        counts: Counter[Hashable]
        (counts,) = source.count_categories()
        return counts

    def draw(self, counts: Counter[Hashable], randomness: Randomness) -> dict[Hashable, int]:
        """Return the noisy counts of the labels that are released, in the public order.

        Privacy
        -------
        Neighbours: one row, or all rows of a person, added or removed. Such a record counts for at
        most one label, so the release costs the (eps, delta) of the selection.
        """
        ordered = sorted(counts, key=order_of)
        n_records = np.array([counts[label] for label in ordered], dtype=np.int64)
        noisy = self.selection.draw(n_records, randomness).tolist()
        return {label: count for label, count in zip(ordered, noisy, strict=True) if count}


@dataclass(frozen=True)
class PublicCategories:
    """A plan for public categories, which reads nothing and spends nothing."""

    categories: list[list[Hashable]]  # of each column
    loss: PrivacyLoss

    def read(self, source: Any) -> None:
        """Read nothing."""

    def draw(self, counts: None, randomness: Randomness) -> list[list[Hashable]]:
        """Return the public categories."""
        return self.categories


def plan_categories(
    n_columns: int,
    budget: TotalBudget,
    *,
    weights: Sequence[float] | None = None,
    neighbours: Neighbours = Neighbours.ROWS,
) -> CategoryPlan:
    """Return the plan of a release of the categories of columns, which share eps and delta."""
    _refuse_no_delta(budget, "categories")

    eps = budget.without_delta.amount
    shares = feature_shares(weights or [1.0] * n_columns) * (1 - _ROUNDING)
    selections = tuple(
        PartitionSelection(eps * share, budget.delta * share) for share in shares.tolist()
    )
    return CategoryPlan(selections, _loss(budget, selections, neighbours))


def plan_value_counts(budget: TotalBudget, neighbours: Neighbours) -> ValueCountPlan:
    """Return the plan of a release of the labels of one column and of their counts."""
    _refuse_no_delta(budget, "keys")
    selection = CountedSelection(budget.without_delta.amount, budget.delta)
    return ValueCountPlan(selection, _loss(budget, [selection], neighbours))


def _refuse_no_delta(budget: TotalBudget, what: str) -> None:
    if not budget.delta > 0:
        raise ValueError(
            f"delta must be > 0 to find {what} privately, because the label of a single record "
            f"must not be released with certainty, got delta={shown(budget.delta)}. Public {what} "
            "do not need a delta."
        )


def _loss(
    budget: TotalBudget,
    selections: Iterable[PartitionSelection | CountedSelection],
    neighbours: Neighbours,
) -> PrivacyLoss:
    return PrivacyLoss(
        eps=budget.without_delta.amount,
        delta=budget.delta,
        rho=math.inf,
        neighbours=neighbours,
        mechanism="partition selection",
        events=counted(selection.event() for selection in selections),
    )


def public_categories(
    categories: list[list[Hashable]], neighbours: Neighbours = Neighbours.ROWS
) -> PublicCategories:
    """Return the plan for public categories, which costs nothing."""
    return PublicCategories(categories, PrivacyLoss(0.0, 0.0, 0.0, neighbours=neighbours))
