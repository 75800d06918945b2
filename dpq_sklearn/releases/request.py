"""Requests: what is asked for, in public facts alone. A request checks itself where it is made."""

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
    """What a private count of the rows does in a release."""

    NONE = "none"  # there is no count
    BESIDE = "beside"  # it is released as well
    CHOOSES = "chooses"  # it is released first, and chooses one of several plans


@dataclass(frozen=True)
class Column:
    """What is wanted of a column, and what is publicly known about it.

    The quantiles are edges of bins. With ``n_widths > 1`` there are also the edges of so many bins
    of equal width, which reach from bound to bound. Where a bound is missing, the outermost
    quantile is the end of their range and not an edge. If both bounds are given, a column may do
    without quantiles: nothing is drawn then.
    """

    probabilities: tuple  # which quantiles: ascending, distinct, strictly between 0 and 1
    bounds: tuple = UNBOUNDED  # checked (`checked_bounds`): infinite where an end is open
    decimals: int | None = None  # those of a lattice on which all values lie; None is unknown
    prior: Prior | None = None  # where public numbers or an earlier release have its quantiles
    n_widths: int = 1  # how many bins of equal width there are; 1 if there are none

    def __post_init__(self):
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
    def n_open_ends(self):
        """How many of the two bounds are missing."""
        return 2 - int(np.isfinite(self.bounds).sum())

    @property
    def n_bins(self):
        """How many bins there are: one more than edges."""
        n_ends = self.n_open_ends if self.n_widths > 1 else 0  # quantiles that are no edges
        return len(self.probabilities) - n_ends + self.n_widths

    @property
    def share_of_private_edges(self):
        """The share of the edges that depend on the data; 0 between bounds without quantiles."""
        if self.n_widths == 1 or self.n_open_ends:
            return 1.0
        return len(self.probabilities) / (self.n_bins - 1)

    @property
    def n_points(self):
        """How many points of its lattice are between the bounds; None if nobody knows."""
        if self.decimals is None or not np.isfinite(self.bounds).all():
            return None
        first, last = units_between(*self.bounds, self.decimals)
        return last - first + 1


@lru_cache(maxsize=256)  # columns mostly want the same quantiles
def _are_ascending(probabilities):
    steps = np.diff([0.0, *probabilities, 1.0])
    return bool(np.all(steps > 0))


@lru_cache(maxsize=256)
def even_probabilities(n_bins):
    """Return the probabilities of the quantiles between bins that hold equally many rows."""
    return tuple((np.arange(1, n_bins) / n_bins).tolist())


@dataclass(frozen=True)
class Request:
    """Quantiles of columns, and what they may cost together.

    `dataclasses.replace` makes another one of it, which is checked as well.
    """

    columns: tuple
    budget: TotalBudget
    mechanism_name: str = "aq"
    weights: tuple | None = None  # by which the columns share the budget; None is equal shares
    resolution: int = FULL_RESOLUTION
    neighbours: Neighbours = Neighbours.ROWS
    count: CountRole = CountRole.NONE
    is_added_up: bool = False  # whether a ledger adds its cost to that of other releases
    n_segments: int = 1  # of the rows: the quantiles of each are wanted, for one price
    mechanism: Mechanism = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        mechanism = checked_mechanism(self.mechanism_name)

        object.__setattr__(self, "mechanism", mechanism)
        object.__setattr__(self, "columns", tuple(self.columns))
        if self.priors is not None and not mechanism.takes_priors:
            raise ValueError(f"prior must be None for mechanism={self.mechanism_name!r}, got one.")
        if self.weights is not None:
            object.__setattr__(self, "weights", tuple(self.weights))

    @property
    def probabilities(self):
        """The probabilities of each column."""
        return tuple(column.probabilities for column in self.columns)

    @property
    def bounds(self):
        """The bounds of each column."""
        return tuple(column.bounds for column in self.columns)

    @property
    def decimals(self):
        """The decimals of the lattice of each column, or None."""
        return tuple(column.decimals for column in self.columns)

    @property
    def priors(self):
        """The prior of each column, or None; None if no column has one."""
        priors = tuple(column.prior for column in self.columns)
        return priors if any(priors) else None

    @cached_property
    def mechanisms(self):
        """The mechanism of each column: bounds and a lattice may leave few points."""
        return tuple(
            self.mechanism.for_points(column.n_points) if column.probabilities else NOTHING
            for column in self.columns
        )

    @property
    def is_drawn(self):
        """Whether quantiles are drawn, for each column."""
        return tuple(bool(column.probabilities) for column in self.columns)

    @property
    def shares(self):
        """The share of the budget of each column that is drawn; they sum to at most 1."""
        weights = (1.0,) * len(self.columns) if self.weights is None else self.weights
        of_drawn = list(compress(weights, self.is_drawn))
        return tuple(feature_shares(of_drawn).tolist()) if of_drawn else ()

    @property
    def is_free(self):
        """Whether nothing is released: the data need not be read."""
        return self.count is CountRole.NONE and not any(self.is_drawn)
