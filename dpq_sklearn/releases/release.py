"""The path from data to released numbers: plan -> pay -> read -> draw.

1. A plan (`releases.plans`) states the release and its price, from public facts.
2. `pay` charges the ledger, or raises. No data have been read so far.
3. `release` lets the plan read a source and draw.

Everything that follows, such as bin edges and tails, is computed from released numbers and public
facts only.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np

from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.engine.random import Randomness
from dpq_sklearn.ledger.ledger import charge


class AnyPlan(Protocol):
    """The methods that every plan has (`releases.plans`)."""

    @property
    def loss(self) -> PrivacyLoss:
        """The price."""

    def read(self, source: Any) -> Any:
        """Return the records that the plan needs from a source."""

    def draw(self, records: Any, randomness: Randomness) -> Any:
        """Return the released numbers."""


@dataclass(frozen=True)
class PaidPlan:
    """A plan with a paid price. `release` accepts nothing else."""

    plan: AnyPlan
    randomness: Randomness
    loss: PrivacyLoss  # as charged


def pay(plan: AnyPlan, ledger: Any, randomness: Randomness, **description: Any) -> PaidPlan:
    """Charge the ledger, if there is one, or raise before any data are read.

    The `description` is public. It names the release and its columns, with details. A plan that
    reads nothing costs nothing, and the ledger records a cost of 0.
    """
    price = replace(plan.loss, os_randomness=randomness.from_os, time=_now())
    loss = charge(ledger, price, **description)
    return PaidPlan(plan, randomness, loss)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def release(paid: PaidPlan, source: Any) -> Any:
    """Read the data and draw. This is the only place where a mechanism sees data."""
    try:
        with np.errstate(all="ignore"):  # callers may turn NumPy's warnings into errors
            records = paid.plan.read(source)
            return paid.plan.draw(records, paid.randomness)
    except Exception as error:
        if paid.loss.ledger is not None:
            error.add_note("Nothing was released, but the privacy ledger stays charged.")
        raise
