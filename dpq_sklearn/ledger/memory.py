"""Ledgers in the memory of the process that made them; copies and pickles only hold an id."""

import os
import threading
from dataclasses import dataclass

from dpq_sklearn.ledger.contents import LedgerError

# By process and ledger id: a forked process inherits the dict, but not its parent's number. Numbers
# come back, though, and a grandchild may have its grandparent's: each child forgets all ledgers.
_LEDGERS = {}
_LOCK = threading.Lock()


def _forget():
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
    def place(self):
        """The place as messages name it."""
        return "in memory"

    def exists(self):
        """Return whether this process has made the ledger."""
        return self._key in _LEDGERS

    def create(self, contents):
        """Make a new ledger with these contents."""
        _LEDGERS[self._key] = contents

    def read(self):
        """Return the contents of a ledger that this process has made."""
        try:
            return _LEDGERS[self._key]
        except KeyError:
            raise LedgerError(
                "the privacy ledger in memory belongs to the process that made it, and this is "
                "another one. PrivacyLedger(path, eps=...) keeps a budget in a file that processes "
                "share."
            ) from None

    def append(self, release_id, add_release):
        """Keep and return what `add_release(contents)` returns, unless it raises."""
        with _LOCK:
            contents = add_release(self.read())
            _LEDGERS[self._key] = contents
        return contents

    @property
    def _key(self):
        return os.getpid(), self.ledger_id
