"""Readable views of a ledger: totals, records, sentences and a plot."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from dpq_sklearn.accounting.conversions import (
    eps_of_pure,
    eps_of_zcdp_each,
    rho_of_approximate_dp,
)
from dpq_sklearn.accounting.losses import (
    Amounts,
    PrivacyLoss,
    amounts_of,
    covers_failures,
    half_of_delta,
    stated_at,
    sum_of_amounts,
)
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.ledger.contents import (
    Caps,
    Contents,
    Row,
    Summary,
    Totals,
    has_valid_amounts,
    readable_facts,
)


class BudgetLeft(NamedTuple):
    """The guaranteed remaining budget: a release of this pure eps, or of this rho, still fits.

    The rho is None if the ledger counts the eps of a release only, which is the case with a cap on
    eps and ``delta=0``.
    """

    eps: float
    rho: float | None


class LedgerRecord(NamedTuple):
    """A release in a ledger: public facts only."""

    time: datetime | None  # None if the record cannot be read
    what: str
    columns: tuple[str, ...] | int | None
    detail: str | None
    eps: float
    delta: float
    rho: float
    pure_eps: float
    account: str
    seeded: bool
    note: str | None
    release_id: str | None  # None if it was recorded before releases had ids
    eps_in_ledger: float  # the eps that the ledger counts for it alone, at the ledger's delta


UNREADABLE = "(a record that cannot be read)"


def total_of(summary: Summary, more: Sequence[PrivacyLoss] = ()) -> PrivacyLoss:
    """Return the cost of all releases of a ledger together, and of `more` losses."""
    total = _stated(_amounts(summary, more), summary.caps)
    os_randomness = summary.totals.n_seeded == 0 and all(loss.os_randomness for loss in more)
    return replace(total, neighbours=summary.neighbours, os_randomness=os_randomness)


def _amounts(summary: Summary, more: Sequence[PrivacyLoss]) -> Amounts:
    return sum_of_amounts([summary.totals.amounts(), *map(amounts_of, more)])


def _stated(total: Amounts, caps: Caps) -> PrivacyLoss:
    """Return the loss that a ledger states. Without a cap on eps and a delta, amounts add up."""
    if caps.eps is None and caps.delta is None:
        return total.loss()
    return stated_at(total, caps.delta or 0.0)


def spent_of_caps(
    summary: Summary, more: Sequence[PrivacyLoss] = ()
) -> list[tuple[str, float, float]]:
    """Return the unit of each cap, the total in this unit, and the cap."""
    caps = summary.caps
    total = _amounts(summary, more)
    eps = _stated(total, caps).eps
    rho = total.rho if covers_failures(caps.delta or 0.0, total) else math.inf
    amounts = (("eps", eps, caps.eps), ("rho", rho, caps.rho))
    return [(unit, spent, cap) for unit, spent, cap in amounts if cap is not None]


def eps_in_ledger(losses: Iterable[PrivacyLoss], caps: Caps) -> float:
    """Return the eps that a ledger with these caps counts for releases if there are no others."""
    return _stated(sum_of_amounts(map(amounts_of, losses)), caps).eps


def budget_left(summary: Summary) -> BudgetLeft:
    """Return the largest pure eps and the largest rho that the ledger does not refuse."""
    caps = summary.caps
    spent = summary.totals.amounts()
    is_pure = caps.eps is not None and not caps.delta
    if caps.is_set and not covers_failures(caps.delta or 0.0, spent):
        return BudgetLeft(0.0, None if is_pure else 0.0)

    eps = math.inf
    rho = math.inf

    if caps.eps is not None and not caps.delta:
        eps = max(caps.eps - spent.pure_eps, 0.0)
    elif caps.eps is not None:
        rho = max(rho_of_approximate_dp(caps.eps, half_of_delta(caps.delta)) - spent.rho, 0.0)
        eps = max(caps.eps - spent.pure_eps, eps_of_pure(rho))

    if caps.rho is not None:
        rho_left = max(caps.rho - spent.rho, 0.0)
        rho = min(rho, rho_left)
        eps = min(eps, eps_of_pure(rho_left))

    return BudgetLeft(eps, None if is_pure else rho)


def records_of(contents: Contents) -> list[LedgerRecord]:
    """Return all rows in the form in which people read them."""
    each_eps = _eps_of_each(contents.rows, contents.caps.delta)
    return [_record_of(row, eps) for row, eps in zip(contents.rows, each_eps, strict=True)]


def _eps_of_each(rows: Sequence[Row], delta: float | None) -> list[float]:
    """Return the eps that a ledger with this delta counts for each row alone."""
    rows = [row if has_valid_amounts(row) else _infinitely_expensive(row) for row in rows]
    if delta is None:
        return [row.eps for row in rows]

    return _eps_of_amounts(list(map(amounts_of, rows)), delta)


def _eps_of_amounts(amounts: Sequence[Amounts], delta: float) -> list[float]:
    """Return the eps of `stated_at` for each of several amounts alone."""
    from_rho = eps_of_zcdp_each(np.array([each.rho for each in amounts]), half_of_delta(delta))
    return [
        min(each.pure_eps, eps) if covers_failures(delta, each) else math.inf
        for each, eps in zip(amounts, from_rho.tolist(), strict=True)
    ]


def _infinitely_expensive(row: Row) -> Row:
    return row._replace(eps=math.inf, delta=0.0, rho=math.inf, pure_eps=math.inf)


def _record_of(row: Row, eps_in_ledger: float) -> LedgerRecord:
    facts = readable_facts(row)
    columns = facts.get("columns")

    return LedgerRecord(
        time=_time_of(facts.get("time")),
        what=_text_of(facts.get("what"), UNREADABLE),
        columns=tuple(map(str, columns)) if isinstance(columns, list) else _count_of(columns),
        detail=_text_of(facts.get("detail"), None),
        eps=row.eps,
        delta=row.delta,
        rho=row.rho,
        pure_eps=row.pure_eps,
        account=_text_of(facts.get("account"), ""),
        seeded=not row.os_randomness,
        note=_text_of(facts.get("note"), None),
        release_id=_text_of(facts.get("release_id"), None),
        eps_in_ledger=eps_in_ledger,
    )


def _time_of(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None


def _text_of(value: Any, default: Any) -> Any:
    return value if isinstance(value, str) else default


def _count_of(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def sentence(summary: Summary) -> str:
    """Return a sentence with the amount spent of each cap and the number of releases."""
    parts = [f"{spent:g} of {cap:g} {unit}" for unit, spent, cap in spent_of_caps(summary)]
    failure = summary.totals.amounts().failure
    if parts and failure > 0:
        half = half_of_delta(summary.caps.delta)
        parts.append(f"{failure:g} of {half:g} delta (half of the ledger's)")
    spent = " and ".join(parts) or in_words(total_of(summary))

    totals = summary.totals
    releases = "1 release" if totals.n_releases == 1 else f"{totals.n_releases} releases"
    is_about_people = Neighbours(summary.neighbours) is Neighbours.PEOPLE
    text = f"{spent} spent in {releases}{' about people' * is_about_people}"

    if not parts:
        text += " from an uncapped ledger, which refuses nothing"
    if totals.n_invalid:
        text += f"; {totals.n_invalid} with impossible amounts, which count as infinite"
    return text


def in_words(cost: Caps | PrivacyLoss) -> str:
    """Return the amounts of a cost, or the caps that are set, with their names."""
    amounts = [(name, getattr(cost, name)) for name in ("eps", "delta", "rho")]
    words = [f"{name}={amount:g}" for name, amount in amounts if amount is not None]
    return ", ".join(words) or "no caps"


def plot_totals(contents: Contents, title: str, ax: Any) -> None:
    """Draw the total after each release, and the cap, into Matplotlib's `ax`."""
    from matplotlib.ticker import MaxNLocator

    caps = contents.caps
    unit = "rho" if caps.eps is None and caps.rho is not None else "eps"
    cap = getattr(caps, unit)
    totals = _running_totals(contents, unit)

    ax.stairs(totals, [-0.5, *(n + 0.5 for n in range(len(totals)))], fill=True, alpha=0.6)
    if cap is not None:
        ax.axhline(cap, color="black", linestyle="--", label=f"cap: {unit} = {cap:g}")
        ax.legend(loc="lower right")

    ax.set(xlabel="releases", ylabel=f"total {unit}", title=title)
    ax.set(xlim=(0, max(len(contents.rows), 1) + 0.5), ylim=(0, None))
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))  # whole numbers of releases


def _running_totals(contents: Contents, unit: str) -> list[float]:
    """Return the total in this unit before the first release and after each release."""
    steps = accumulate(contents.rows, Totals.plus, initial=Totals())
    amounts = [totals.amounts() for totals in steps]
    if unit == "rho" or contents.caps.delta is None:
        return [getattr(each, unit) for each in amounts]

    return _eps_of_amounts(amounts, contents.caps.delta)
