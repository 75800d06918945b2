"""The contents of a ledger, independent of where it is stored: a budget and a row per release."""

import json
import math
import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from dpq_sklearn.accounting.losses import Amounts, PrivacyLoss, amounts_of
from dpq_sklearn.accounting.neighbours import Neighbours


class LedgerError(RuntimeError):
    """A ledger cannot be used, for example because it is missing, locked, damaged or unreachable.

    See Also
    --------
    PrivacyLedger : The ledger that raises this error.
    BudgetExceededError : Raised by a ledger that works but cannot afford a release.
    """


class Caps(NamedTuple):
    """The budget of a ledger. None means no cap."""

    eps: float | None
    delta: float | None  # the delta at which the total eps is stated
    rho: float | None

    @property
    def is_set(self) -> bool:
        """Whether there is a cap."""
        return self.eps is not None or self.rho is not None


class Row(NamedTuple):
    """A recorded release, as it is stored."""

    id: int  # the number of the release in this ledger: 1, 2, 3, ...
    eps: float
    delta: float
    rho: float
    pure_eps: float
    os_randomness: int
    facts: str  # a JSON object: time, release id, and other public facts about the release

    @property
    def release_id(self) -> str | None:
        """The id of the release; None if an earlier version recorded it, or if it is unreadable."""
        return readable_facts(self).get("release_id")


class Totals(NamedTuple):
    """Running totals of all releases, exact: adding a row never rounds.

    Each sum of `Amounts` is a tuple of floats that add up to it exactly, largest first. The tuple
    depends on the value of the sum only, so totals that were updated row by row equal totals that
    were computed at once.
    """

    n_releases: int = 0
    eps: tuple[float, ...] = ()
    delta: tuple[float, ...] = ()
    rho: tuple[float, ...] = ()
    pure_eps: tuple[float, ...] = ()
    n_seeded: int = 0
    n_invalid: int = 0  # rows with impossible amounts, which count as infinite
    failure: tuple[float, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "Totals":
        """Return the totals of several rows."""
        return cls().plus(*rows)

    def plus(self, *rows: Row) -> "Totals":
        """Return the totals with more rows."""
        counted = list(map(_counted_amounts, rows))
        sums = {
            name: exact_sum((*getattr(self, name), *(getattr(each, name) for each in counted)))
            for name in Amounts._fields
        }

        return Totals(
            n_releases=self.n_releases + len(rows),
            n_seeded=self.n_seeded + sum(not row.os_randomness for row in rows),
            n_invalid=self.n_invalid + sum(not has_valid_amounts(row) for row in rows),
            **sums,
        )

    def amounts(self) -> Amounts:
        """Return the sums, each rounded once."""
        return Amounts(*(math.fsum(getattr(self, name)) for name in Amounts._fields))


class Summary(NamedTuple):
    """A ledger without its rows: all that is needed to decide on the next release."""

    ledger_id: str
    created: str
    neighbours: str  # "rows" or "people"; earlier versions stored a sentence instead
    caps: Caps
    totals: Totals


class Contents(NamedTuple):
    """A ledger with all its rows."""

    ledger_id: str
    created: str
    neighbours: str
    caps: Caps
    rows: tuple[Row, ...]

    @property
    def summary(self) -> Summary:
        """The same ledger with totals instead of rows."""
        return Summary(*self[:4], Totals.of(self.rows))

    def holds(self, release_id: str) -> bool:
        """Return whether the release with this id is recorded."""
        return any(row.release_id == release_id for row in self.rows)


def exact_sum(amounts: Sequence[float]) -> tuple[float, ...]:
    """Return floats that add up exactly to the sum of the amounts, which are not negative.

    The first float is the correctly rounded sum, the second is the correctly rounded remainder, and
    so on. A sum beyond the largest float is infinite.
    """
    parts: list[float] = []

    try:
        while rest := math.fsum((*amounts, *(-part for part in parts))):
            if rest == math.inf:
                return (math.inf,)
            parts.append(rest)
    except OverflowError:
        return (math.inf,)
    return tuple(parts)


def has_valid_amounts(row: Row) -> bool:
    """Return whether a row holds amounts that a release can have."""
    try:
        _checked_amounts(row)
    except (TypeError, ValueError):
        return False
    return True


def _counted_amounts(row: Row) -> Amounts:
    """Return the amounts of a row; a row with impossible amounts counts as infinitely expensive."""
    if has_valid_amounts(row):
        return amounts_of(row)
    return Amounts(math.inf, math.nextafter(1.0, 0.0), math.inf, math.inf, failure=0.0)


def readable_facts(row: Row) -> dict[str, Any]:
    """Return the facts of a row; an empty dict if they are not a JSON object."""
    try:
        facts = json.loads(row.facts)
    except (TypeError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def new_summary(caps: Caps, neighbours: Neighbours) -> Summary:
    """Return a ledger from which nothing was spent."""
    return Summary(
        ledger_id=secrets.token_hex(16),
        created=_now(),
        neighbours=neighbours.value,
        caps=caps,
        totals=Totals(),
    )


def new_row(summary: Summary, loss: PrivacyLoss, facts: dict[str, Any]) -> Row:
    """Return the row of the next release, which has this loss and these public facts.

    It raises a ValueError if the loss is not a possible cost, for example if it was changed after
    it had checked itself: a negative amount would refill the budget.
    """
    eps, delta, rho, pure_eps = _checked_amounts(loss)

    return Row(
        # Numbers follow the order of the commits, which a clock that is set back does not change.
        id=summary.totals.n_releases + 1,
        eps=eps,
        delta=delta,
        rho=rho,
        pure_eps=pure_eps,
        os_randomness=int(loss.os_randomness),
        facts=json.dumps({"time": _now(), "release_id": loss.release_id, **facts}),
    )


def _checked_amounts(cost: PrivacyLoss | Row) -> tuple[float, float, float, float]:
    """Return eps, delta, rho and pure_eps as floats that a release can have."""
    # Adding 0.0 turns -0.0 into 0.0: SQLite drops the sign.
    given = (cost.eps, cost.delta, cost.rho, cost.pure_eps)
    eps, delta, rho, pure_eps = (float(cast(float, amount)) + 0.0 for amount in given)

    if not (eps >= 0 and 0 <= delta < 1 and rho >= 0 and pure_eps >= 0):
        raise ValueError(
            "the cost of a release must satisfy eps >= 0, 0 <= delta < 1, rho >= 0 and "
            f"pure_eps >= 0, got eps={eps}, delta={delta}, rho={rho}, pure_eps={pure_eps}."
        )
    if eps == rho == pure_eps == math.inf:
        raise ValueError(
            "the cost of a release must be finite in eps, rho or pure_eps, got infinity for all of "
            "them: such a release has no privacy guarantee that a ledger could add up."
        )
    return eps, delta, rho, pure_eps


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
