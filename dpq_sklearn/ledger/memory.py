"""Ledgers in the memory of the process that created them. Copies and pickles only hold an id."""

import os
import threading
from dataclasses import dataclass

from dpq_sklearn.ledger.contents import Contents, LedgerError, Row, Summary
from dpq_sklearn.ledger.store import NextRow

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
    """A ledger in memory."""

    ledger_id: str

    @property
    def place(self) -> str:
        """The place as messages name it."""
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
                "another one. PrivacyLedger(path, eps=...) keeps a budget in a file that processes "
                "share."
            ) from None

    @property
    def _key(self) -> tuple[int, str]:
        return os.getpid(), self.ledger_id
