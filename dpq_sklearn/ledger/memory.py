"""Ledgers in memory, with the interface of `ledger.file`; copies and pickles only hold an id."""

import os
import threading

from dpq_sklearn.ledger.file import LedgerError, new_contents, with_release

# By process and ledger id: a forked process inherits the dict, but not its parent's number.
_LEDGERS = {}
_LOCK = threading.Lock()


def create(caps, neighbours):
    """Make a new ledger in memory and return its id."""
    contents = new_contents(caps, neighbours)
    _LEDGERS[os.getpid(), contents.ledger_id] = contents
    return contents.ledger_id


def read(ledger_id):
    """Return the contents of a ledger that this process has made."""
    try:
        return _LEDGERS[os.getpid(), ledger_id]
    except KeyError:
        raise LedgerError(
            "the privacy ledger in memory belongs to the process that made it, and this is another "
            "one. PrivacyLedger(path, eps=...) keeps a budget in a file that processes share."
        ) from None


def append(ledger_id, loss, facts, admit):
    """Record one release of this loss, unless `admit(contents)` raises to refuse it."""
    read(ledger_id)  # a forked process must be refused before it waits for a lock it inherited
    with _LOCK:
        before = read(ledger_id)
        admit(before)
        _LEDGERS[os.getpid(), ledger_id] = with_release(before, loss, facts)
