"""What a ledger holds: as totals, as records and in words."""

import json
import math
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from dpq_sklearn.accounting.conversions import eps_of_pure, rho_of_approximate_dp
from dpq_sklearn.accounting.losses import best_composition, compose
from dpq_sklearn.accounting.neighbours import Neighbours


class BudgetLeft(NamedTuple):
    """What surely still fits: a release of so much pure eps, or one of so much rho.

    The rho is None where a release fits by its eps alone, as with a cap on eps and ``delta=0``.
    """

    eps: float
    rho: float | None


class LedgerRecord(NamedTuple):
    """One release in a ledger: public facts only."""

    time: datetime
    what: str
    columns: tuple | int | None
    detail: str | None
    eps: float
    delta: float
    rho: float
    pure_eps: float
    account: str
    seeded: bool
    note: str | None
    release_id: str | None  # None if it was recorded before releases had ids
    eps_in_ledger: float  # what the ledger counts for it alone, at its own delta


def total_of(contents, more=()):
    """Return what all releases of a ledger cost together, and those of `more` losses too."""
    total = best_composition((*contents.rows, *more), contents.caps.delta)
    return replace(total, neighbours=contents.neighbours)


def spent_of_caps(contents, more=()):
    """Return the unit of each cap, the total in it, and the cap."""
    total = total_of(contents, more)
    caps = contents.caps
    amounts = (("eps", total.eps, caps.eps), ("rho", total.rho, caps.rho))
    return [amount for amount in amounts if amount[-1] is not None]


def eps_in_ledger(losses, caps):
    """Return the eps that a ledger with these caps counts for releases, if there are no others."""
    return best_composition(losses, caps.delta).eps


def budget_left(contents):
    """Return the largest pure eps, and the largest rho, that are not refused."""
    caps = contents.caps
    sums = compose(contents.rows)
    is_pure = caps.eps is not None and caps.delta == 0
    eps = math.inf
    rho = math.inf

    if is_pure:
        eps = max(caps.eps - sums.pure_eps, 0.0)
    elif caps.eps is not None:
        rho = max(rho_of_approximate_dp(caps.eps, caps.delta) - sums.rho, 0.0)
        eps = max(caps.eps - sums.pure_eps, eps_of_pure(rho))

    if caps.rho is not None:
        rho_left = max(caps.rho - sums.rho, 0.0)
        rho = min(rho, rho_left)
        eps = min(eps, eps_of_pure(rho_left))

    return BudgetLeft(eps, None if is_pure else rho)


def record_of(row, caps):
    """Return a stored row as people read it."""
    facts = {"release_id": None} | json.loads(row.facts)
    facts["time"] = datetime.fromisoformat(facts["time"])
    if isinstance(facts["columns"], list):
        facts["columns"] = tuple(facts["columns"])

    return LedgerRecord(
        eps=row.eps,
        delta=row.delta,
        rho=row.rho,
        pure_eps=row.pure_eps,
        seeded=not row.os_randomness,
        eps_in_ledger=eps_in_ledger([row], caps),
        **facts,
    )


def sentence(contents):
    """Return how much of which budget was spent in how many releases."""
    parts = [f"{spent:g} of {cap:g} {unit}" for unit, spent, cap in spent_of_caps(contents)]
    spent = " and ".join(parts) or in_words(total_of(contents))

    n_releases = len(contents.rows)
    releases = "1 release" if n_releases == 1 else f"{n_releases} releases"
    is_about_people = Neighbours(contents.neighbours) is Neighbours.PEOPLE
    return f"{spent} spent in {releases}{' about people' * is_about_people}"


def in_words(cost):
    """Return a cost, or those caps that there are, with their names."""
    amounts = [(name, getattr(cost, name)) for name in ("eps", "delta", "rho")]
    words = [f"{name}={amount:g}" for name, amount in amounts if amount is not None]
    return ", ".join(words) or "no caps"


def plot_totals(contents, title, ax):
    """Draw the total after each release, and the cap, into Matplotlib's `ax`."""
    from matplotlib.ticker import MaxNLocator

    caps = contents.caps
    unit = "rho" if caps.eps is None and caps.rho is not None else "eps"
    cap = getattr(caps, unit)
    numbers = range(len(contents.rows) + 1)
    totals = [getattr(best_composition(contents.rows[:n], caps.delta), unit) for n in numbers]

    ax.stairs(totals, [-0.5, *(n + 0.5 for n in numbers)], fill=True, alpha=0.6)
    if cap is not None:
        ax.axhline(cap, color="black", linestyle="--", label=f"cap: {unit} = {cap:g}")
        ax.legend(loc="lower right")

    ax.set(xlabel="releases", ylabel=f"total {unit}", title=title)
    ax.set(xlim=(0, max(len(contents.rows), 1) + 0.5), ylim=(0, None))
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))  # there are no half releases
