"""Access to a ledger: how a release is checked against the budget, reserved and committed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from dpq_sklearn.accounting.losses import PrivacyLoss, amounts_of, compose, half_of_delta
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.ledger.contents import (
    Contents,
    LedgerError,
    Row,
    Summary,
    new_row,
    readable_facts,
)
from dpq_sklearn.ledger.store import Store
from dpq_sklearn.ledger.views import (
    BudgetLeft,
    budget_left,
    eps_in_ledger,
    in_words,
    spent_of_caps,
)

_Amounts = tuple[float, float, float, float]  # eps, delta, rho and pure eps
_INFINITE: _Amounts = (math.inf,) * 4

# Ten releases of 0.1 must fit into 1.0 although neither is exact in binary. A mechanism spends
# 2^-16 less than it states, which is far more than the 2^-40 allowed here.
_SLACK = 2.0**-40
# By store, the id of the ledger that this process first met there, since a path holds no id.
_FIRST_MET: dict[Store, str] = {}
# By store, the reservations of the with blocks that this process is in.
_ACTIVE: dict[Store, list[str]] = {}


class BudgetExceededError(ValueError):
    """The remaining budget of a ledger does not suffice for a release. Nothing was read or spent.

    Its attributes are `asked`, the :class:`PrivacyLoss` of the release, and `left`, the result of
    :meth:`PrivacyLedger.remaining`.

    See Also
    --------
    PrivacyLedger : The budget that is exceeded.
    plan_search : The cost of a search, before it starts.
    """

    def __init__(
        self, message: str, asked: PrivacyLoss | None = None, left: BudgetLeft | None = None
    ) -> None:
        super().__init__(message)
        self.asked = asked
        self.left = left


@dataclass(frozen=True)
class LedgerAccess:
    """The store of a ledger, the id that the ledger must have, and a note for its records.

    Two objects are equal if they spend from the same budget.
    """

    store: Store
    ledger_id: str | None = field(default=None, compare=False)  # None: the first ledger met there
    note: str | None = field(default=None, compare=False)
    reservation: str | None = field(default=None, compare=False)  # the id of its release

    def contents(self) -> Contents:
        """Return all contents of the ledger."""
        contents = self.store.read()
        self.refuse_other(contents)
        return contents

    def summary(self) -> Summary:
        """Return the budget and the totals of the ledger."""
        summary = self.store.summary()
        self.refuse_other(summary)
        return summary

    def refuse_other(self, contents: Contents | Summary, neighbours: str | None = None) -> None:
        """Raise if the contents belong to another ledger, or to a ledger with other neighbours."""
        expected = self.ledger_id or _FIRST_MET.setdefault(self.store, contents.ledger_id)
        if expected != contents.ledger_id:
            raise LedgerError(
                f"the privacy ledger {self.store.location} is not the ledger that was there "
                "before: it was deleted and created anew, so it does not contain earlier spends. "
                f"If that is intended, use PrivacyLedger({self.store.location}) instead."
            )

        of_ledger = Neighbours(contents.neighbours)
        if neighbours not in (of_ledger, None):
            raise ValueError(
                f"the privacy ledger {self.store.location} is for neighbours that differ by "
                f"{of_ledger!r}, got {neighbours!r}. Their costs do not add up: use one "
                'ledger with neighbours="rows" and another with neighbours="people".'
            )

    def refusal(
        self, losses: Sequence[PrivacyLoss], what: str, summary: Summary | None = None
    ) -> BudgetExceededError | None:
        """Return the error that refuses releases of these losses; None if the ledger can pay."""
        summary = summary or self.summary()
        totals = spent_of_caps(summary, losses)
        if all(total <= cap * (1 + _SLACK) for _, total, cap in totals):
            return None

        asked = replace(compose(losses), neighbours=summary.neighbours)
        caps = summary.caps
        left = budget_left(summary)
        words = f"eps={left.eps:g}"
        if caps.eps is None:
            words = f"rho={left.rho:g}"
        elif left.rho:  # neither None nor 0
            words += f" (or rho={left.rho:g})"

        message = (
            f"the privacy ledger {self.store.location} cannot pay for {what}, which would cost "
            f"{in_words(asked)}: of its budget ({in_words(caps)}) only {words} is left."
        )
        if advice := _advice_about_delta(asked, summary):
            message += f" {advice}"
        return BudgetExceededError(message, asked, left)

    def commit(
        self, loss: PrivacyLoss, facts: dict[str, Any], *, from_reservation: bool = True
    ) -> PrivacyLoss:
        """Record a release with public facts, and return its loss with the eps that was counted.

        If this raises, nothing may be read.
        """
        counted: list[float] = []
        reservation = self.active_reservation() if from_reservation else None

        def next_row(summary: Summary, read_rows: Callable[[], Sequence[Row]]) -> Row:
            self.refuse_other(summary, loss.neighbours)

            # Everything that could fail happens before the commit.
            counted[:] = [eps_in_ledger([loss], summary.caps)]
            if reservation is not None and covers(read_rows(), reservation, loss):
                return new_row(summary, *reserved_release(loss, facts, reservation))
            if error := self.refusal([loss], facts["what"], summary):
                raise error
            return new_row(summary, loss, facts)

        paid = replace(loss, ledger=self.store.location)
        self.store.append(str(loss.release_id), next_row)
        return replace(paid, eps_in_ledger=counted[0])

    def active_reservation(self) -> str | None:
        """Return the id of the reservation that currently pays for releases, or None.

        It is the reservation of an object that was pickled inside a ``with`` block, or that of the
        innermost block in this process.
        """
        return self.reservation or next(reversed(_ACTIVE.get(self.store, [])), None)

    def note_about_eps(self, losses: Sequence[PrivacyLoss]) -> str | None:
        """Return a sentence if the ledger counts more eps for these losses than they state."""
        caps = self.summary().caps
        stated = compose(losses).eps
        counted = eps_in_ledger(losses, caps)
        if not counted > stated * (1 + _SLACK):
            return None
        return (
            f"the privacy ledger {self.store.location} counts eps={counted:g} for it instead of "
            f"{stated:g}, because it states its total at delta={caps.delta:g}."
        )


def _advice_about_delta(asked: PrivacyLoss, summary: Summary) -> str | None:
    """Return advice if a release was refused because of its delta, or None."""
    delta = summary.caps.delta or 0.0
    if asked.delta == 0:
        return None
    if delta == 0 and summary.caps.eps is not None:
        return (
            "A ledger with delta=0 counts the pure eps of a release, which is larger than its eps "
            "at a positive delta. Create the ledger with a delta."
        )

    failure = amounts_of(asked).failure
    left = max(half_of_delta(delta) - summary.totals.amounts().failure, 0.0)
    if failure <= left:
        return None
    return (
        "Its delta has to fit into half of the ledger's delta, together with the deltas of all "
        f"other releases that have no rho, such as private categories: {left:g} of it is left, "
        f"and the release needs {failure:g}."
    )


class Reservation:
    """A budget that :meth:`PrivacyLedger.reserve` has charged, for the releases in a with block.

    Its attribute `privacy` is the :class:`PrivacyLoss` that was charged.
    """

    def __init__(self, store: Store, privacy: PrivacyLoss) -> None:
        self.privacy = privacy
        self._store = store
        self._release_id = str(privacy.release_id)

    def __enter__(self) -> "Reservation":
        _ACTIVE.setdefault(self._store, []).append(self._release_id)
        return self

    def __exit__(self, *error: object) -> None:
        _ACTIVE[self._store].remove(self._release_id)


def covers(rows: Sequence[Row], reservation: str, loss: PrivacyLoss) -> bool:
    """Return whether a reservation has enough left for a release of this loss."""
    facts = [(row, readable_facts(row)) for row in rows]
    reserved = [row for row, known in facts if known.get("release_id") == reservation]
    used = [_cost_in(known) for _, known in facts if known.get("reservation") == reservation]
    if not reserved:
        return False

    amounts = [_amounts(loss), *used]
    return all(
        sum(each) <= most * (1 + _SLACK)
        for each, most in zip(zip(*amounts, strict=True), _amounts(reserved[0]), strict=True)
    )


def reserved_release(
    loss: PrivacyLoss, facts: dict[str, Any], reservation: str
) -> tuple[PrivacyLoss, dict[str, Any]]:
    """Return the further cost, which is zero, and the facts of a release that was reserved."""
    cost = _amounts(loss)
    words = f"{in_words(loss)}, paid by a reservation"
    detail = words if facts["detail"] is None else f"{words}; {facts['detail']}"
    nothing = replace(loss, eps=0.0, delta=0.0, rho=0.0, pure_eps=0.0)
    # As texts: JSON has no infinity.
    more = {"detail": detail, "reservation": reservation, "cost": list(map(repr, cost))}
    return nothing, facts | more


def _amounts(cost: PrivacyLoss | Row) -> _Amounts:
    return cost.eps, cost.delta, cost.rho, cast(float, cost.pure_eps)


def _cost_in(facts: dict[str, Any]) -> _Amounts:
    """Return the amounts of a reserved release; infinite if they cannot be read."""
    try:
        eps, delta, rho, pure_eps = map(float, facts["cost"])
    except (KeyError, TypeError, ValueError):
        return _INFINITE
    amounts = (eps, delta, rho, pure_eps)
    return amounts if all(amount >= 0 for amount in amounts) else _INFINITE


def remember(store: Store, ledger_id: str) -> None:
    """Expect this ledger at its store from now on, unless the process has met another there."""
    _FIRST_MET.setdefault(store, ledger_id)
