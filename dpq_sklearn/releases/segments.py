"""Plans of descriptions by segment: with public keys, or with keys that are found privately."""

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.accounting.events import counted
from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.checks import shown
from dpq_sklearn.engine.random import Randomness
from dpq_sklearn.mechanisms.partition_selection import PartitionSelection
from dpq_sklearn.reading.segments import MOST_SEGMENTS, SegmentedSource, Segments
from dpq_sklearn.releases.plans import Description, DescriptionPlan, Records, plan_description
from dpq_sklearn.releases.request import Request

# The share of eps that finds the keys. With eps=1 and delta=1e-6, it finds segments of about 65
# records. In smaller segments, quantiles would be mostly noise.
KEY_SHARE = 1 / 5


@dataclass(frozen=True)
class SegmentedDescription:
    """The keys of the segments, and the released counts and quantiles of each segment."""

    keys: tuple[tuple[Hashable, ...], ...]
    description: Description


@dataclass(frozen=True)
class PublicSegmentPlan:
    """A description of each segment, with public keys."""

    segments: Segments
    description: DescriptionPlan

    @property
    def loss(self) -> PrivacyLoss:
        """The loss of a single description, by the proof of `DescriptionPlan.draw`."""
        return self.description.loss

    def read(self, source: SegmentedSource) -> Records:
        """Return the records of all segments."""
        return source.read_segments(self.description.quantiles.grid, self.segments)

    def draw(self, records: Records, randomness: Randomness) -> SegmentedDescription:
        """Return the description of each segment.

        Privacy
        -------
        The guarantee is that of `DescriptionPlan.draw`.
        """
        return SegmentedDescription(self.segments.keys, self.description.draw(records, randomness))


@dataclass(frozen=True)
class PrivateSegmentPlan:
    """A selection among the keys that occur, and a description of each segment that it finds."""

    selection: PartitionSelection
    description: DescriptionPlan
    loss: PrivacyLoss

    def read(self, source: SegmentedSource) -> SegmentedSource:
        """Return the source. It is read later, because the segments depend on the found keys."""
        return source

    def draw(self, source: SegmentedSource, randomness: Randomness) -> SegmentedDescription:
        """Return the keys that are found, and the description of each segment.

        Privacy
        -------
        A record counts for one key, so the selection costs its (eps, delta). The released keys
        determine the segments of the description, which adaptive composition allows. The costs of
        both add up. If more keys are found than rounding is reserved for, only the first of them
        are kept.
        """
        grid = self.description.quantiles.grid
        counts = source.key_counts(grid)
        is_kept = self.selection.draw(_array_of(counts), randomness)
        found = [key for key, kept in zip(counts, is_kept, strict=True) if kept]
        segments = Segments(tuple(found[:MOST_SEGMENTS]))
        if not segments.keys:
            return SegmentedDescription((), Description(_array_of({}), []))

        records = source.read_segments(grid, segments)
        return SegmentedDescription(segments.keys, self.description.draw(records, randomness))


def _array_of(counts: dict[tuple[Hashable, ...], int]) -> np.ndarray:
    return np.array(list(counts.values()), dtype=np.int64)


def plan_public_segments(request: Request, segments: Segments) -> PublicSegmentPlan:
    """Return the plan of a request for each of these segments."""
    request = replace(request, n_segments=len(segments.keys))
    return PublicSegmentPlan(segments, plan_description(request))


def plan_private_segments(request: Request) -> PrivateSegmentPlan:
    """Return the plan of a request for segments with keys that are found privately."""
    total = request.budget
    if total.eps is None or not total.delta > 0:
        raise ValueError(
            'keys="private" requires eps and delta > 0, because the key of a single record must '
            f"not be released with certainty, got eps={shown(total.eps)} and "
            f"delta={shown(total.delta)}. A list of public keys does not need a delta."
        )

    selection = PartitionSelection(total.eps * KEY_SHARE, total.delta)
    budget = TotalBudget(total.eps * (1 - KEY_SHARE))
    description = plan_description(replace(request, budget=budget, n_segments=MOST_SEGMENTS))
    loss = replace(
        description.loss,
        eps=total.eps,
        delta=total.delta,
        rho=math.inf,
        pure_eps=math.inf,
        events=counted((selection.event(), *description.loss.events)),
    )
    return PrivateSegmentPlan(selection, description, loss)
