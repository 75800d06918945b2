"""The methods of a ledger's store, and the simplest store: the memory of the process.

The other stores are a file (`ledger.file`) and a server (`ledger.postgres`).
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dpq_sklearn.ledger.contents import Contents, LedgerError, Row, Summary

# Called under the lock of a ledger with its totals and a function that reads all rows; returns the
# next row, or raises.
NextRow = Callable[[Summary, Callable[[], Sequence[Row]]], Row]


class Store(Protocol):
    """A location that holds one ledger. Two stores are equal if their locations are.

    A store has no state except its location, so copies and pickles refer to the same ledger. All
    failures are raised as a `LedgerError` that names the location.
    """

    @property
    def location(self) -> str:
        """The location as messages name it, without a password."""

    def exists(self) -> bool:
        """Return whether a ledger is there."""

    def create(self, new: Summary) -> None:
        """Create a ledger without releases, completely or not at all.

        A ledger that exists already is left unchanged.
        """

    def read(self) -> Contents:
        """Return all contents after verifying them."""

    def summary(self) -> Summary:
        """Return the budget and the verified totals, without reading every row if possible."""

    def append(self, release_id: str, next_row: NextRow) -> Summary:
        """Commit the row that `next_row` returns, durably and once; return the new totals.

        The store reads the totals, adds the row and commits under one lock. If this method raises,
        nothing may be released; if `next_row` raises, nothing was spent either.
        """


# Keyed by process and ledger id: a forked process inherits the dict, but has another process id.
# Process ids are reused, and a grandchild may have its grandparent's id, so each child forgets all
# ledgers.
_LEDGERS: dict[tuple[int, str], tuple[Summary, list[Row]]] = {}
_LOCK = threading.Lock()


def _forget() -> None:
    global _LOCK
    _LEDGERS.clear()
    _LOCK = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@dataclass(frozen=True)
class MemoryStore:
    """A ledger in the memory of the process that created it. Copies and pickles only hold an id."""

    ledger_id: str

    @property
    def location(self) -> str:
        """The location as messages name it."""
        return "in memory"

    def exists(self) -> bool:
        """Return whether this process has created the ledger."""
        return self._key in _LEDGERS

    def create(self, new: Summary) -> None:
        """Create the ledger."""
        _LEDGERS[self._key] = (new, [])

    def read(self) -> Contents:
        """Return all contents of a ledger that this process has created."""
        with _LOCK:
            summary, rows = self._entry()
            return Contents(*summary[:-1], tuple(rows[: summary.totals.n_releases]))

    def summary(self) -> Summary:
        """Return the budget and the totals."""
        return self._entry()[0]

    def append(self, release_id: str, next_row: NextRow) -> Summary:
        """Keep the row that `next_row` returns, unless it raises."""
        with _LOCK:
            before, rows = self._entry()
            row = next_row(before, lambda: rows[: before.totals.n_releases])
            after = before._replace(totals=before.totals.plus(row))

            # The row that is not counted yet is cut off if an interrupt hits between the two lines.
            del rows[before.totals.n_releases :]
            rows.append(row)
            _LEDGERS[self._key] = (after, rows)
        return after

    def _entry(self) -> tuple[Summary, list[Row]]:
        try:
            return _LEDGERS[self._key]
        except KeyError:
            raise LedgerError(
                "the privacy ledger in memory belongs to the process that made it, and this is "
                "another process. To share a budget between processes, keep it in a file with "
                "PrivacyLedger(path, eps=...)."
            ) from None

    @property
    def _key(self) -> tuple[int, str]:
        return os.getpid(), self.ledger_id
