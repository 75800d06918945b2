"""Ledgers in memory, with the interface of `ledger.file`; copies and pickles only hold an id."""

import os
import threading

from dpq_sklearn.ledger.file import LedgerError

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


def create(contents):
    """Make a new ledger with these contents."""
    _LEDGERS[os.getpid(), contents.ledger_id] = contents


def read(ledger_id):
    """Return the contents of a ledger that this process has made."""
    try:
        return _LEDGERS[os.getpid(), ledger_id]
    except KeyError:
        raise LedgerError(
            "the privacy ledger in memory belongs to the process that made it, and this is another "
            "one. PrivacyLedger(path, eps=...) keeps a budget in a file that processes share."
        ) from None


def append(ledger_id, add_release):
    """Keep what `add_release(contents)` returns, unless it raises."""
    with _LOCK:
        _LEDGERS[os.getpid(), ledger_id] = add_release(read(ledger_id))
