"""The one way from data to released numbers: plan -> pay -> read -> draw.

1. A plan (`releases.plans`) says from public facts what will be released, and at what price.
2. `pay` charges the ledger, or raises. Nothing has been read so far.
3. `release` lets the plan read a source, and draw.

What follows, such as edges and tails, is computed from released numbers and public facts alone.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.engine.random import Randomness
from dpq_sklearn.ledger.ledger import charge
from dpq_sklearn.releases.categories import CategoryPlan, PublicCategories, ValueCountPlan
from dpq_sklearn.releases.plans import CountPlan, DescriptionPlan, Plan, PlanChoice

AnyPlan = (
    Plan
    | PlanChoice
    | DescriptionPlan
    | CountPlan
    | CategoryPlan
    | PublicCategories
    | ValueCountPlan
)


@dataclass(frozen=True)
class PaidPlan:
    """A plan whose price is paid: the only thing that `release` takes."""

    plan: AnyPlan
    randomness: Randomness
    loss: PrivacyLoss  # what was paid


def pay(plan, ledger, randomness, **description):
    """Charge the ledger, if there is one, or raise; before data are read.

    The `description` is public: what is released, of which columns, and details. A plan that reads
    nothing costs nothing, and the ledger says so.
    """
    price = replace(plan.loss, os_randomness=randomness.from_os, time=_now())
    loss = charge(ledger, price, **description)
    return PaidPlan(plan, randomness, loss)


def _now():
    return datetime.now(UTC).isoformat(timespec="seconds")


def release(paid, source):
    """Read the data and draw: the one place where data meet a mechanism."""
    try:
        with np.errstate(all="ignore"):  # callers could turn NumPy's warnings into errors
            records = paid.plan.read(source)
            return paid.plan.draw(records, paid.randomness)
    except Exception as error:
        if paid.loss.ledger is not None:
            error.add_note("Nothing was released, but the privacy ledger stays charged.")
        raise
