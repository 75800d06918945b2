"""The file of a ledger: SQLite, one durable transaction per spend, sealed against silent damage.

- Every operation opens its own connection: threads, forks and worker processes share nothing but
  the file and its locks (`ledger.locks`). Nothing else here opens the file: on POSIX, closing any
  other handle would drop SQLite's locks of the whole process.
- A rollback journal, unlike a write-ahead log, leaves all in one file without shared memory. With
  ``synchronous=EXTRA`` a commit, and the name of the file, outlast a power cut right after it.
- SQLite notices damage to its structure but not to its contents. A SHA-256 over caps and records
  is checked at every opening: against accidents, not against forgers.
"""

import contextlib
import hashlib
import json
import os
import secrets
import sqlite3
import struct
from dataclasses import dataclass
from pathlib import Path

from dpq_sklearn.ledger.contents import Caps, Contents, LedgerError, Row
from dpq_sklearn.ledger.locks import locked

APPLICATION_ID = 0x4450514C  # "DPQL", in the header of the file
FORMAT = 1
SECONDS_TO_WAIT_FOR_THE_LOCK = 60.0

_NEW_FILE = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE head (
    ledger_id TEXT, created TEXT, neighbours TEXT, eps REAL, delta REAL, rho REAL, seal TEXT);
CREATE TABLE releases (
    id INTEGER PRIMARY KEY, eps REAL, delta REAL, rho REAL, pure_eps REAL, os_randomness INTEGER,
    facts TEXT);
"""

# What locks raise, and SQLite on a damaged file, where bytes are no text or sizes are impossible.
_FAILURES = (OSError, sqlite3.Error, UnicodeDecodeError, MemoryError, OverflowError)


@dataclass(frozen=True)
class FileStore:
    """A ledger in a file, given by its absolute path."""

    path: str

    @property
    def place(self):
        """The place as messages name it."""
        return repr(self.path)

    def exists(self):
        """Return whether anything has this path."""
        return os.path.lexists(self.path)

    def create(self, new):
        """Make the file, complete or not at all. An existing file stays as it is."""
        journal = f"{self.path}-journal"
        if os.path.exists(journal):  # SQLite would roll it back into the new file
            raise LedgerError(
                f"the privacy ledger {self.path!r} cannot be created beside {journal!r}, which "
                "belongs to a ledger that was deleted or moved: bring that one back, or delete its "
                "journal too."
            )

        draft = f"{self.path}.new-{secrets.token_hex(8)}"  # nobody ever sees half a ledger
        try:
            with _connection(self.path, draft) as connection:
                connection.executescript(_NEW_FILE)
                contents = Contents(*new[:4], ())
                head = (*new[:3], *new.caps, _seal(contents))
                connection.execute("INSERT INTO head VALUES (?, ?, ?, ?, ?, ?, ?)", head)
                connection.execute("COMMIT")
            _give_name(draft, self.path)
        except OSError as error:
            raise LedgerError(
                f"the privacy ledger {self.path!r} cannot be created: {error}."
            ) from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(draft)

    def read(self):
        """Return the contents, verified."""
        with _lock(self.path, exclusive=False):
            return _read_locked(self.path)

    def summary(self):
        """Return the budget and the totals, verified."""
        return self.read().summary

    def append(self, release_id, next_row):
        """Commit the row that `next_row(summary)` returns; or raise, and release nothing."""
        with _lock(self.path, exclusive=True):
            try:
                return self._commit(next_row).summary
            except LedgerError as failure:
                self._refuse_if_recorded(release_id, failure)
                raise

    def _commit(self, next_row):
        with _connection(self.path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            before = _verified_contents(connection, self.path)
            after = before._replace(rows=(*before.rows, next_row(before.summary)))
            _insert_last_release(connection, self.path, after)

            # Only somebody who does not know our lock can have written since, after SQLite's lock
            # was lost. What they added would be overwritten.
            if _seal_on_disk(self.path) != _seal(before):
                raise LedgerError(
                    f"the privacy ledger {self.path!r} was written to while it was locked. Nothing "
                    "was spent. No other program, and no older version of this one, may write to "
                    "it."
                )
            connection.execute("COMMIT")

        if _read_locked(self.path) != after:
            raise _damaged(self.path, "it does not hold what was committed")
        return after

    def _refuse_if_recorded(self, release_id, failure):
        """Say so if a release was recorded although its commit has failed.

        The disk may still lose it, so it does not count as paid; nor can it be taken back.
        """
        try:
            is_recorded = _read_locked(self.path).holds(release_id)
        except LedgerError:
            return
        if is_recorded:
            raise LedgerError(
                f"the privacy ledger {self.path!r} has recorded the release {release_id}, but "
                "reported an error meanwhile. Its budget is spent. Nothing was read, and nothing "
                "is released."
            ) from failure


def _give_name(draft, path):
    """Give a finished file its name, unless another one has it: of two that create, one wins."""
    with contextlib.suppress(FileExistsError):
        try:
            os.link(draft, path)
        except OSError:  # taken, or no hard links: reserve the name and replace it
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            os.replace(draft, path)


def _insert_last_release(connection, path, contents):
    connection.execute("INSERT INTO releases VALUES (?, ?, ?, ?, ?, ?, ?)", contents.rows[-1])
    connection.execute("UPDATE head SET seal = ?", (_seal(contents),))

    # If the structure of the file is damaged where nothing is stored, the insertion may have
    # overwritten older records: all is read back, and the whole structure is checked.
    structure = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if _verified_contents(connection, path) != contents or structure != ("ok",):
        raise _damaged(path, "it does not give back what was written")


def _read_locked(path):
    """Return the contents on the disk, by a connection that has nothing in its memory."""
    with _connection(path) as connection:
        connection.execute("BEGIN")
        return _verified_contents(connection, path)


def _seal_on_disk(path):
    """Return the seal alone, likewise by a connection of its own."""
    with _connection(path) as connection:
        return connection.execute("SELECT seal FROM head").fetchone()[0]


@contextlib.contextmanager
def _lock(path, exclusive):
    with (
        _failures_explained(path),
        locked(path, exclusive=exclusive, seconds=SECONDS_TO_WAIT_FOR_THE_LOCK),
    ):
        yield


@contextlib.contextmanager
def _connection(path, new_file=None):
    """Open the ledger, or a new file for it; what is not committed at the end is undone."""
    uri = f"{Path(new_file or path).as_uri()}?mode={'rwc' if new_file else 'rw'}"

    with _failures_explained(path, is_new=new_file is not None):
        connection = sqlite3.connect(
            uri, uri=True, timeout=SECONDS_TO_WAIT_FOR_THE_LOCK, isolation_level=None
        )
        with contextlib.closing(connection):
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA cell_size_check = ON")
            yield connection


@contextlib.contextmanager
def _failures_explained(path, is_new=False):
    """Turn failures of SQLite and of the system into errors that name the ledger."""
    try:
        yield
    except _FAILURES as error:
        folder = os.path.dirname(path)
        if os.path.isdir(path):
            reason = "must be a file, got a folder: add a name, such as 'budget.sqlite'."
        elif not os.path.isdir(folder):
            reason = f"needs its folder: {folder!r} is missing."
        elif not is_new and not os.path.isfile(path):
            reason = (
                "is missing: the file was deleted or moved, or has not been created by "
                "PrivacyLedger(path, eps=...) yet."
            )
        else:
            reason = (
                f"cannot be used: {error}. It and its folder must be readable and writable, and no "
                "process may keep it locked."
            )
        raise LedgerError(f"the privacy ledger {path!r} {reason}") from error


def _verified_contents(connection, path):
    """Return what the file holds if it is a ledger of this format, and intact."""
    kind = _pragma(connection, "application_id")
    version = _pragma(connection, "user_version")
    if kind != APPLICATION_ID:
        raise LedgerError(
            f"{path!r} is not a privacy ledger. If it was one, it is damaged; nothing was changed."
        )
    if version != FORMAT:
        raise LedgerError(
            f"the privacy ledger {path!r} has format {version}, this version of dpq_sklearn knows "
            f"format {FORMAT}: it was written by another version."
        )

    try:
        ((*head, seal),) = connection.execute("SELECT * FROM head")
        rows = tuple(map(Row._make, connection.execute("SELECT * FROM releases ORDER BY id")))
        contents = Contents(*head[:3], Caps(*head[3:]), rows)
        is_intact = seal == _seal(contents)
    except (ValueError, TypeError, struct.error):
        is_intact = False

    if not is_intact or _pragma(connection, "journal_mode") != "delete":  # as it was created
        raise _damaged(path, "its contents do not match their seal, or its journal mode is another")
    return contents


def _pragma(connection, name):
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _seal(contents):
    """Return a digest of everything in the ledger: JSON texts line by line, numbers as doubles."""
    texts = "\n".join([json.dumps(contents[:-1]), *(row.facts for row in contents.rows)])
    numbers = [number for row in contents.rows for number in row[:-1]]

    digest = hashlib.sha256(texts.encode())
    digest.update(struct.pack(f"<{len(numbers)}d", *numbers))
    return digest.hexdigest()


def _damaged(path, reason):
    return LedgerError(
        f"the privacy ledger {path!r} is damaged: {reason}. Bring back a copy that holds "
        "everything spent so far; do not start a new one for the same data."
    )
