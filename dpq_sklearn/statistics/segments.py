"""Descriptions by segment, for `by` and `keys` of `dp_describe` and `dp_quantiles`."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.checks import shown
from dpq_sklearn.reading.segments import checked_keys
from dpq_sklearn.releases.plans import Description, DescriptionPlan
from dpq_sklearn.releases.release import pay, release
from dpq_sklearn.releases.request import Request
from dpq_sklearn.releases.segments import (
    PrivateSegmentPlan,
    PublicSegmentPlan,
    plan_private_segments,
    plan_public_segments,
)

PRIVATE = "private"


@dataclass(frozen=True)
class ReleasedSegments:
    """The keys as the caller gave them, or as they were found, and the description of each."""

    keys: list[tuple[Hashable, ...]]
    description: Description
    plan: DescriptionPlan  # of one segment
    loss: PrivacyLoss


def check_by_and_keys(by: object, keys: object) -> None:
    """Raise if only one of the two is given."""
    if by is None and keys is not None:
        raise ValueError(f"by must be given with keys, got by=None and keys={shown(keys)}.")
    if by is not None and keys is None:
        raise ValueError(
            "keys must be given with by: a list of the public keys, never taken from the data, or "
            f'"private" to find them privately, got by={shown(by)} and keys=None.'
        )
    if isinstance(keys, str) and keys != PRIVATE:
        raise ValueError(f'keys must be a list of public keys or "private", got {shown(keys)}.')


def release_segments(
    request: Request, keys, names: Sequence[str], source, ledger, randomness, *, detail, **facts
) -> ReleasedSegments:
    """Plan, pay, read and draw the description of each segment.

    `names` are the names of the columns of labels.
    """
    by = " and ".join(map(str, names))
    plan: PrivateSegmentPlan | PublicSegmentPlan
    if isinstance(keys, str):
        plan = plan_private_segments(request)
        words = f"segments by {by}, found privately"
        about_keys = f"for {words}"
    else:
        keys = list(keys) if isinstance(keys, Iterator) else keys  # they are read twice
        segments = checked_keys(keys, len(names))
        plan = plan_public_segments(request, segments)
        words = f"{len(segments.keys)} segments by {by}"
        about_keys = f"for each of {words}"

    paid = pay(plan, ledger, randomness, detail=f"{detail} {about_keys}", **facts)
    released = release(paid, source)

    found: Sequence = released.keys if isinstance(keys, str) else list(keys)
    is_tuple = len(names) > 1 or isinstance(keys, str)
    return ReleasedSegments(
        keys=[tuple(key) if is_tuple else (key,) for key in found],
        description=released.description,
        plan=plan.description,
        loss=replace(paid.loss, segments=words),
    )
