"""Requests: quantiles of columns, described by public facts only. They validate themselves."""

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, lru_cache
from itertools import compress

import numpy as np

from dpq_sklearn.accounting.budgets import TotalBudget, feature_shares
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.checks import UNBOUNDED, shown
from dpq_sklearn.engine.grid import FULL_RESOLUTION, units_between
from dpq_sklearn.mechanisms.nothing import NOTHING
from dpq_sklearn.mechanisms.prior import Prior
from dpq_sklearn.mechanisms.protocol import Mechanism
from dpq_sklearn.mechanisms.registry import checked_mechanism


class CountRole(Enum):
    """The role of a private count of the rows in a release."""

    NONE = "none"  # there is no count
    BESIDE = "beside"  # the count is released together with the quantiles
    CHOOSES = "chooses"  # the count is released first and chooses one of several plans


@dataclass(frozen=True)
class Column:
    """The quantiles that are requested of a column, and the public facts about it.

    The quantiles are bin edges. With ``n_widths > 1`` there are also the edges of `n_widths` bins
    of equal width between the bounds. If a bound is missing, the outermost quantile is the end of
    their range and not an edge. If both bounds are given, a column may have no quantiles, and then
    nothing is drawn from it.
    """

    probabilities: tuple[float, ...]  # ascending, distinct, strictly between 0 and 1
    bounds: tuple[float, float] = UNBOUNDED  # checked (`checked_bounds`); infinite if open
    decimals: int | None = None  # the declared precision, or None
    prior: Prior | None = None  # the quantiles of public numbers or of an earlier release
    n_widths: int = 1  # the number of bins of equal width; 1 means no such bins

    def __post_init__(self) -> None:
        given = self.probabilities
        is_tuple = isinstance(given, tuple)
        probabilities = given if is_tuple else tuple(np.asarray(given, dtype=float).tolist())

        if not _are_ascending(probabilities):
            raise ValueError(
                "the probabilities of a column must be ascending, distinct and strictly between 0 "
                f"and 1, got {shown(given)}."
            )
        object.__setattr__(self, "probabilities", probabilities)

        if not probabilities and self.n_widths == 1:
            raise ValueError("a column must have quantiles or bins of equal width, got neither.")
        if self.n_widths > 1 and len(probabilities) < self.n_open_ends:
            raise ValueError(
                "bins of equal width need a bound or a quantile at each end of their range, got "
                f"bounds={self.bounds!r} and {len(probabilities)} quantiles."
            )

        if self.decimals is not None:
            first, last = units_between(*self.bounds, self.decimals)
            if first > last:
                raise ValueError(
                    "bounds must have a number with the given decimals between them, got "
                    f"{self.bounds!r} and decimals={self.decimals}."
                )

    @property
    def n_open_ends(self) -> int:
        """The number of missing bounds."""
        return 2 - int(np.isfinite(self.bounds).sum())

    @property
    def n_bins(self) -> int:
        """The number of bins: one more than the number of inner edges."""
        n_ends = self.n_open_ends if self.n_widths > 1 else 0  # quantiles that are not edges
        return len(self.probabilities) - n_ends + self.n_widths

    @property
    def share_of_private_edges(self) -> float:
        """The share of the edges that depend on the data: 0 between bounds without quantiles."""
        if self.n_widths == 1 or self.n_open_ends:
            return 1.0
        return len(self.probabilities) / (self.n_bins - 1)

    @property
    def n_points(self) -> int | None:
        """The number of possible values, or None without a declared precision and two bounds."""
        if self.decimals is None or not np.isfinite(self.bounds).all():
            return None
        first, last = units_between(*self.bounds, self.decimals)
        return last - first + 1


@lru_cache(maxsize=256)  # most columns have the same quantiles
def _are_ascending(probabilities: tuple[float, ...]) -> bool:
    steps = np.diff([0.0, *probabilities, 1.0])
    return bool(np.all(steps > 0))


@lru_cache(maxsize=256)
def even_probabilities(n_bins: int) -> tuple[float, ...]:
    """Return the probabilities of the quantiles that separate bins with equal numbers of rows."""
    return tuple((np.arange(1, n_bins) / n_bins).tolist())


@dataclass(frozen=True)
class Request:
    """Quantiles of columns, and the budget that they share.

    `dataclasses.replace` returns a changed request, which is validated as well.
    """

    columns: tuple[Column, ...]
    budget: TotalBudget
    mechanism_name: str = "aq"
    weights: tuple[float, ...] | None = None  # of the columns in the budget; None: equal shares
    resolution: int = FULL_RESOLUTION
    neighbours: Neighbours = Neighbours.ROWS
    count: CountRole = CountRole.NONE
    has_ledger: bool = False  # whether a ledger adds the cost to the cost of other releases
    n_segments: int = 1  # at most; all segments together have the price of one
    mechanism: Mechanism = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        mechanism = checked_mechanism(self.mechanism_name)

        object.__setattr__(self, "mechanism", mechanism)
        object.__setattr__(self, "columns", tuple(self.columns))
        if self.priors is not None and not mechanism.takes_priors:
            raise ValueError(
                f"prior must be None for mechanism={self.mechanism_name!r}, got a prior."
            )
        if self.weights is not None:
            object.__setattr__(self, "weights", tuple(self.weights))

    @property
    def probabilities(self) -> tuple[tuple[float, ...], ...]:
        """The probabilities of each column."""
        return tuple(column.probabilities for column in self.columns)

    @property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """The bounds of each column."""
        return tuple(column.bounds for column in self.columns)

    @property
    def decimals(self) -> tuple[int | None, ...]:
        """The declared precision of each column, or None."""
        return tuple(column.decimals for column in self.columns)

    @property
    def priors(self) -> tuple[Prior | None, ...] | None:
        """The prior of each column, or None if no column has a prior."""
        priors = tuple(column.prior for column in self.columns)
        return priors if any(priors) else None

    @cached_property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The mechanism of each column, adapted to the number of its points."""
        return tuple(
            self.mechanism.for_points(column.n_points) if column.probabilities else NOTHING
            for column in self.columns
        )

    @property
    def is_drawn(self) -> tuple[bool, ...]:
        """Whether quantiles are drawn from each column."""
        return tuple(bool(column.probabilities) for column in self.columns)

    @property
    def shares(self) -> tuple[float, ...]:
        """The budget share of each column that quantiles are drawn from. They sum to at most 1."""
        weights = (1.0,) * len(self.columns) if self.weights is None else self.weights
        of_drawn = list(compress(weights, self.is_drawn))
        return tuple(feature_shares(of_drawn).tolist()) if of_drawn else ()

    @property
    def is_free(self) -> bool:
        """Whether nothing is released, so that the data need not be read."""
        return self.count is CountRole.NONE and not any(self.is_drawn)
