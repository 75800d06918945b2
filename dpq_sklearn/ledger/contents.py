"""What a ledger holds, wherever it is kept: its budget, and a row for each release."""

import json
import secrets
from datetime import UTC, datetime
from typing import NamedTuple


class LedgerError(RuntimeError):
    """A ledger cannot be used, for it is missing, locked, damaged, out of reach or the like.

    See Also
    --------
    PrivacyLedger : What it is about.
    BudgetExceededError : A ledger that can be used, but cannot pay.
    """


class Caps(NamedTuple):
    """The budget of a ledger; None is no cap."""

    eps: float | None
    delta: float | None
    rho: float | None


class Row(NamedTuple):
    """One recorded release, as it is stored."""

    id: int  # the number of the release in this ledger: 1, 2, 3, ...
    eps: float
    delta: float
    rho: float
    pure_eps: float
    os_randomness: int
    facts: str  # a JSON object: time, release id, and whatever else is said about the release

    @property
    def release_id(self):
        """The id of the release; None if an earlier version recorded it."""
        return json.loads(self.facts).get("release_id")


class Contents(NamedTuple):
    """All that a ledger holds."""

    ledger_id: str
    created: str
    neighbours: str  # "rows" or "people"; earlier versions stored a sentence instead
    caps: Caps
    rows: tuple

    def holds(self, release_id):
        """Return whether the release with this id is recorded."""
        return any(row.release_id == release_id for row in self.rows)


def new_contents(caps, neighbours):
    """Return the contents of a ledger that nothing was spent from."""
    return Contents(
        ledger_id=secrets.token_hex(16),
        created=_now(),
        neighbours=neighbours.value,
        caps=caps,
        rows=(),
    )


def new_release_id():
    """Return an id that no other release has."""
    return secrets.token_hex(16)


def with_release(contents, loss, facts):
    """Return the contents with one more release of this loss, and a dict of public facts."""
    row = Row(
        # The order of the commits: the clock may be set back, the order may not.
        id=len(contents.rows) + 1,
        eps=_stored_number(loss.eps),
        delta=_stored_number(loss.delta),
        rho=_stored_number(loss.rho),
        pure_eps=_stored_number(loss.pure_eps),
        os_randomness=int(loss.os_randomness),
        facts=json.dumps({"time": _now(), "release_id": loss.release_id, **facts}),
    )
    return contents._replace(rows=(*contents.rows, row))


def _stored_number(cost):
    return float(cost) + 0.0  # no negative zero: SQLite drops the sign


def _now():
    return datetime.now(UTC).isoformat(timespec="milliseconds")
