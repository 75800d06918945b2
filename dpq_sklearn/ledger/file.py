"""The file of a ledger: SQLite, one durable transaction per spend, sealed against silent damage.

- Every operation opens its own connection, under a lock of its own (`ledger.locks`). Nothing else
  here opens the file while a connection is open: on POSIX, closing any other handle would drop
  SQLite's locks of the whole process. A fork waits until no connection is open, because the child
  would inherit SQLite's record of these locks.
- A rollback journal, unlike a write-ahead log, keeps everything in one file without shared memory.
  With ``synchronous=EXTRA`` a commit and the name of the file survive a power cut right after it.
- SQLite notices damage to its structure but not to its contents. Each release therefore stores a
  SHA-256 of itself and of the hash before it, and the head stores the totals and a SHA-256 of the
  head. They protect against accidents, not against forgers.
- SQLite finds the journal, and this package finds the lock, by the name of the file. A file with a
  second name is refused. A journal that was left behind by a crash is rolled back only if the file
  is not a whole ledger without it: otherwise it may belong to an earlier state of the file.
- After every commit, the number of releases and the last hash are written into the lock's file
  (`Seal`), which no rollback of the ledger changes. A ledger that holds less than its seal is
  refused.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dpq_sklearn.ledger.contents import Caps, Contents, LedgerError, Row, Summary, Totals
from dpq_sklearn.ledger.locks import NO_FORK, LockFile, locked
from dpq_sklearn.ledger.store import NextRow

APPLICATION_ID = 0x4450514C  # "DPQL", in the header of the file
FORMAT = 2
SECONDS_TO_WAIT_FOR_THE_LOCK = 60.0
# Up to this many releases, every spend verifies all of them. Beyond, a spend verifies the totals
# and the last release, and the others are verified whenever all of them are read.
MOST_RELEASES_VERIFIED_BY_A_SPEND = 1000

_NEW_TABLES = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE head (
    ledger_id TEXT, created TEXT, neighbours TEXT, eps REAL, delta REAL, rho REAL, totals TEXT,
    chain TEXT, seal TEXT);
CREATE TABLE releases (
    id INTEGER PRIMARY KEY, eps REAL, delta REAL, rho REAL, pure_eps REAL, os_randomness INTEGER,
    facts TEXT, chain TEXT);
"""
_INSERT_RELEASE = "INSERT INTO releases VALUES (?, ?, ?, ?, ?, ?, ?, ?)"

# Raised by locks, and by SQLite on a damaged file with invalid text or impossible sizes.
_FAILURES = (OSError, sqlite3.Error, UnicodeDecodeError, MemoryError, OverflowError)
# Raised if tables hold other values than a ledger's.
_UNEXPECTED_VALUES = (ValueError, TypeError, AttributeError, struct.error, RecursionError)


class Seal(NamedTuple):
    """The state of a ledger after its last commit, kept outside of its file."""

    ledger_id: str
    n_releases: int
    chain: str


class _State(NamedTuple):
    """A ledger without its rows, but with the hash of the last one, which covers all of them."""

    summary: Summary
    chain: str

    @property
    def seal(self) -> Seal:
        return Seal(self.summary.ledger_id, self.summary.totals.n_releases, self.chain)

    def plus(self, row: Row) -> "_State":
        totals = self.summary.totals.plus(row)
        return _State(self.summary._replace(totals=totals), _next_chain(self.chain, row))


@dataclass(frozen=True)
class FileStore:
    """A ledger in a file, given by its absolute path. Symbolic links to it are the same store."""

    path: str = field(compare=False)
    real_path: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "real_path", os.path.realpath(self.path))

    @property
    def location(self) -> str:
        """The location as messages name it."""
        return repr(self.path)

    def exists(self) -> bool:
        """Return whether a file, a folder or a link has this path."""
        return os.path.lexists(self.path)

    def create(self, new: Summary) -> None:
        """Create the file, completely or not at all. An existing file is left unchanged."""
        journal = _journal(self.path)
        if os.path.exists(journal):  # SQLite would roll it back into the new file
            raise LedgerError(
                f"the privacy ledger {self.path!r} cannot be created next to {journal!r}, which "
                "belongs to a ledger that was deleted or moved. Restore that ledger, or delete its "
                "journal too."
            )

        draft = f"{self.path}.new-{secrets.token_hex(8)}"  # nobody ever sees half a ledger
        try:
            with _connection(self.path, new_file=draft) as connection:
                connection.execute("BEGIN IMMEDIATE")
                _write_all(connection, Contents(*new[:4], ()))
                connection.execute("COMMIT")
            _give_name(draft, self.path)
        except OSError as error:
            raise LedgerError(
                f"the privacy ledger {self.path!r} cannot be created: {error}."
            ) from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(draft)

    def read(self) -> Contents:
        """Return all contents after verifying them."""
        with _locked_for_reading(self.path) as lock, _connection(self.path) as connection:
            connection.execute("BEGIN")
            contents = _verified_contents(connection, self.path)
            state = _verified_head(connection, self.path) or _state_of(contents)
            _refuse_loss(connection, self.path, lock, state)
            return contents

    def summary(self) -> Summary:
        """Return the budget and the verified totals."""
        with _locked_for_reading(self.path) as lock, _connection(self.path) as connection:
            connection.execute("BEGIN")
            state = _verified_state(connection, self.path)
            _refuse_loss(connection, self.path, lock, state)
            return state.summary

    def append(self, release_id: str, next_row: NextRow) -> Summary:
        """Commit the row that `next_row` returns; if this raises, release nothing."""
        with _lock(self.path, exclusive=True) as lock:
            try:
                return self._commit(lock, next_row).summary
            except LedgerError as failure:
                self._refuse_if_recorded(release_id, failure)
                raise

    def accept(self) -> None:
        """Seal the ledger as it is, although it may hold less than was sealed before."""
        with _lock(self.path, exclusive=True) as lock, _connection(self.path) as connection:
            connection.execute("BEGIN")
            _write_seal(lock, _state_of(_verified_contents(connection, self.path)))

    def _commit(self, lock: LockFile | None, next_row: NextRow) -> _State:
        with _connection(self.path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            before = _verified_state(connection, self.path)
            seal_before = _seal_in_head(connection)
            _refuse_loss(connection, self.path, lock, before)
            row = next_row(before.summary, lambda: _verified_contents(connection, self.path).rows)

            # Before the commit: a disk that is too full for the seal must not fail after it.
            _write_seal(lock, before)

            after = before.plus(row)
            _insert_last_release(connection, self.path, row, after)

            # Only a program that does not know our lock can have written since, after SQLite's
            # lock was lost. Its release would be overwritten.
            with _connection(self.path) as another:
                is_unchanged = _seal_in_head(another) == seal_before
            if not is_unchanged:
                raise LedgerError(
                    f"the privacy ledger {self.path!r} was written to while it was locked. Nothing "
                    "was spent. No other program, and no older version of this one, may write to "
                    "it."
                )
            connection.execute("COMMIT")

        if _state_on_disk(self.path) != after:
            raise _damaged(self.path, "it does not hold the release that was committed")
        _write_seal(lock, after)
        return after

    def _refuse_if_recorded(self, release_id: str, failure: LedgerError) -> None:
        """Raise a `LedgerError` if a release was recorded although its commit has failed.

        The disk may still lose the record, so the release does not count as paid. The record cannot
        be removed either.
        """
        try:
            with _connection(self.path) as connection:
                connection.execute("BEGIN")
                is_recorded = _verified_contents(connection, self.path).holds(release_id)
        except LedgerError:
            return
        if is_recorded:
            raise LedgerError(
                f"the privacy ledger {self.path!r} has recorded the release {release_id}, but "
                "reported an error meanwhile. Its budget is spent. Nothing was read, and nothing "
                "is released."
            ) from failure


# Names, locks and journals


def _give_name(draft: str, path: str) -> None:
    """Give a finished file its name, unless another file has it."""
    if os.name == "nt":
        with contextlib.suppress(FileExistsError):
            os.rename(draft, path)
        return

    # Of two processes that create a ledger, one has the lock. A hard link would need no lock, but
    # the file would have two names for a moment, or for good after a crash.
    with locked(path, exclusive=True, seconds=SECONDS_TO_WAIT_FOR_THE_LOCK, is_new=True):
        if not os.path.lexists(path):
            os.rename(draft, path)


@contextlib.contextmanager
def _lock(path: str, exclusive: bool) -> Iterator[LockFile | None]:
    """Hold the lock of a ledger that has one name and no journal of another state."""
    with (
        _failures_explained(path),
        locked(path, exclusive=exclusive, seconds=SECONDS_TO_WAIT_FOR_THE_LOCK) as lock,
    ):
        _refuse_second_name(path)
        if exclusive:
            _settle_journal(path)
        yield lock


def _locked_for_reading(path: str) -> contextlib.AbstractContextManager[LockFile | None]:
    return _lock(path, exclusive=os.path.exists(_journal(path)))


def _refuse_second_name(path: str) -> None:
    """Raise if the file has a second name. Its users would not share the journal and the lock."""
    n_names = os.stat(path).st_nlink
    if n_names > 1:
        raise LedgerError(
            f"the privacy ledger {path!r} must have one name, got {n_names} hard links to the "
            "file: spends could be lost. Delete the other names, or copy the file and continue "
            "with the copy only."
        )
    if os.path.realpath(path) in _mount_points():
        raise LedgerError(
            f"the privacy ledger {path!r} is mounted as a single file, so its journal and its lock "
            "stay behind and spends could be lost. Mount its folder instead."
        )


def _mount_points() -> set[str]:
    """Return the mount points of this process; none where the system does not list them."""
    try:
        with open("/proc/self/mountinfo", "rb") as lines:
            fields = [line.split()[4] for line in lines]
    except (OSError, IndexError):
        return set()
    # White space and backslashes are written as octal numbers, such as \040.
    return {os.fsdecode(re.sub(rb"\\([0-7]{3})", _byte, field)) for field in fields}


def _byte(octal: re.Match[bytes]) -> bytes:
    return bytes([int(octal[1], 8)])


def _journal(path: str) -> str:
    return f"{os.path.realpath(path)}-journal"


def _settle_journal(path: str) -> None:
    """Delete the journal of an interrupted commit if the file is a whole ledger without it.

    The file may have been used under another name since, and a rollback would undo these spends.
    If it was not, the interrupted release is in the file or it is not, and either is correct.
    """
    if not os.path.exists(_journal(path)) or not _would_be_rolled_back(path):
        return

    try:
        with _connection(path, options="mode=ro&immutable=1") as connection:  # without the journal
            _verified_contents(connection, path)
            is_whole = _has_sound_structure(connection)
    except LedgerError:
        return

    if is_whole:
        handle = os.open(path, os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        os.unlink(_journal(path))


def _would_be_rolled_back(path: str) -> bool:
    """Return whether SQLite would roll back the journal: after a crash, if nobody uses the file."""
    try:
        with _connection(path, options="mode=ro") as connection:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except LedgerError as error:
        code = getattr(error.__cause__, "sqlite_errorcode", None)
        return code == sqlite3.SQLITE_READONLY_ROLLBACK
    return False


# The seal, which is stored outside of the file


def _write_seal(lock: LockFile | None, state: _State) -> None:
    """Seal the ledger in this state. Windows has no lock file, hence no seal."""
    if lock is not None and _read_seal(lock) != state.seal:
        lock.write(json.dumps(state.seal))


def _read_seal(lock: LockFile) -> Seal | str | None:
    """Return the seal, None if the ledger was never sealed, or a text that is not a seal."""
    text = lock.read()
    try:
        seal = Seal(*json.loads(text)) if text else None
    except (ValueError, TypeError):
        return text
    is_seal = seal is None or list(map(type, seal)) == [str, int, str]
    return seal if is_seal else text


def _refuse_loss(
    connection: sqlite3.Connection, path: str, lock: LockFile | None, state: _State
) -> None:
    """Raise if the ledger does not hold all releases that were sealed.

    It may hold one more, if a process was killed between the commit and the seal.
    """
    seal = None if lock is None else _read_seal(lock)
    if seal is None or seal == state.seal:
        return

    advice = (
        "Restore the file that holds all releases. If this one is meant to replace it, accept it "
        f"with: python -m dpq_sklearn.ledger accept {path!r}"
    )
    if isinstance(seal, str):
        raise LedgerError(
            f"the privacy ledger {path!r} has a seal in {path + '-lock'!r} that cannot be read. "
            + advice
        )
    if seal.ledger_id != state.summary.ledger_id:
        return  # of a ledger that was deleted or moved away

    n_releases = state.summary.totals.n_releases
    if seal.n_releases > n_releases or _chain_at(connection, state, seal.n_releases) != seal.chain:
        raise LedgerError(
            f"the privacy ledger {path!r} has lost releases: {seal.n_releases} were recorded when "
            f"it was last sealed, and the file with {n_releases} does not hold them all. " + advice
        )


def _chain_at(connection: sqlite3.Connection, state: _State, n_releases: int) -> str | None:
    """Return the hash of the first `n_releases` releases."""
    if _pragma(connection, "user_version") == 1:
        chain = _first_chain(state.summary)
        for row in _rows(connection, n_releases):
            chain = _next_chain(chain, row)
        return chain

    if n_releases == 0:
        return _first_chain(state.summary)
    query = "SELECT chain FROM releases WHERE id = ?"
    (found,) = connection.execute(query, (n_releases,)).fetchone() or (None,)
    return found


# Writing


def _write_all(connection: sqlite3.Connection, contents: Contents) -> None:
    """Write a ledger into a file without tables, inside the open transaction."""
    for statement in _NEW_TABLES.split(";"):
        connection.execute(statement)

    state = _State(contents.summary._replace(totals=Totals()), _first_chain(contents))
    for row in contents.rows:
        state = state.plus(row)
        connection.execute(_INSERT_RELEASE, (*row, state.chain))

    columns = (*_head_columns(state), _seal_of_head(state))
    connection.execute("INSERT INTO head VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", columns)


def _insert_last_release(
    connection: sqlite3.Connection, path: str, row: Row, after: _State
) -> None:
    """Insert a release, update the head, and read both back."""
    if _pragma(connection, "user_version") == 1:
        contents = _verified_contents(connection, path)
        connection.execute("DROP TABLE head")
        connection.execute("DROP TABLE releases")
        _write_all(connection, contents)

    connection.execute(_INSERT_RELEASE, (*row, after.chain))
    connection.execute(
        "UPDATE head SET totals = ?, chain = ?, seal = ?",
        (_text_of(after.summary.totals), after.chain, _seal_of_head(after)),
    )

    # If the structure of the file is damaged where nothing is stored, the insertion may have
    # overwritten older records.
    if _verified_state(connection, path) != after:
        raise _damaged(path, "it does not return what was written")
    is_small = after.summary.totals.n_releases <= MOST_RELEASES_VERIFIED_BY_A_SPEND
    if is_small and not _has_sound_structure(connection):
        raise _damaged(path, "its structure is not sound")


# Reading


def _state_on_disk(path: str) -> _State:
    """Return the state that a new connection, without a cache, finds on disk."""
    with _connection(path) as connection:
        connection.execute("BEGIN")
        return _verified_state(connection, path)


@contextlib.contextmanager
def _connection(
    path: str, *, new_file: str | None = None, options: str = "mode=rw"
) -> Iterator[sqlite3.Connection]:
    """Open the ledger, or a new file for it. Uncommitted changes are undone at the end."""
    options = "mode=rwc" if new_file else options
    uri = f"{Path(new_file or path).as_uri()}?{options}"

    with NO_FORK, _failures_explained(path, is_new=new_file is not None):
        connection = sqlite3.connect(
            uri, uri=True, timeout=SECONDS_TO_WAIT_FOR_THE_LOCK, isolation_level=None
        )
        with contextlib.closing(connection):
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA cell_size_check = ON")
            yield connection


@contextlib.contextmanager
def _failures_explained(path: str, is_new: bool = False) -> Iterator[None]:
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
                f"cannot be used: {error}. The file, its folder and its lock must be readable and "
                "writable, and no process may keep it locked."
            )
        raise LedgerError(f"the privacy ledger {path!r} {reason}") from error


def _verified_state(connection: sqlite3.Connection, path: str) -> _State:
    """Return the state of the ledger, after verifying its head and all rows or the last one."""
    state = _verified_head(connection, path)
    if state is None or _needs_all_rows(state.summary.totals):
        return _state_of(_verified_contents(connection, path))

    last = connection.execute("SELECT id, chain FROM releases ORDER BY id DESC LIMIT 1").fetchone()
    if last != (state.summary.totals.n_releases, state.chain):
        raise _damaged(path, "its last release does not match its totals")
    return state


def _verified_contents(connection: sqlite3.Connection, path: str) -> Contents:
    """Return all contents of the file if it is an intact ledger."""
    state = _verified_head(connection, path)
    try:
        if state is None:
            return _verified_contents_of_format_1(connection)
        query = "SELECT * FROM releases ORDER BY id"
        records = connection.execute(query).fetchall()
        contents = Contents(*state.summary[:4], tuple(Row._make(r[:-1]) for r in records))
        chains = _chains(contents)
        totals = contents.summary.totals
        is_intact = (
            chains[1:] == [r[-1] for r in records]
            and chains[-1] == state.chain
            and state.summary.totals in (totals, _with_infinite_sums(totals))
        )
    except _UNEXPECTED_VALUES:
        is_intact = False

    if not is_intact:
        raise _damaged(path, "its contents do not match their seal")
    return contents


def _verified_head(connection: sqlite3.Connection, path: str) -> _State | None:
    """Return the state that the head of the file states; None for a ledger of format 1."""
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise LedgerError(
            f"{path!r} is not a privacy ledger, or it is damaged. Nothing was changed."
        )
    version = _pragma(connection, "user_version")
    if version not in (1, FORMAT):
        raise LedgerError(
            f"the privacy ledger {path!r} has format {version}, this version of dpq_sklearn knows "
            f"formats up to {FORMAT}: it was written by another version."
        )

    # Views and triggers could do anything, such as never end.
    query = "SELECT type || substr(sql, 1, 12) || name FROM sqlite_schema ORDER BY name LIMIT 3"
    things = [thing for (thing,) in connection.execute(query)]
    if things != ["tableCREATE TABLEhead", "tableCREATE TABLEreleases"]:
        raise _damaged(path, "it does not hold the two tables of a ledger")
    if _pragma(connection, "journal_mode") != "delete":  # as it was created
        raise _damaged(path, "its journal mode was changed")
    if version == 1:
        return None

    try:
        ((ledger_id, created, neighbours, *caps, totals, chain, seal),) = connection.execute(
            "SELECT * FROM head LIMIT 2"
        )
        summary = Summary(ledger_id, created, neighbours, Caps(*caps), _totals_of(totals))
        state = _State(summary, chain)
        is_intact = seal == _seal_of_head(state)
    except _UNEXPECTED_VALUES:
        is_intact = False

    if not is_intact:
        raise _damaged(path, "its contents do not match their seal")
    return state


def _verified_contents_of_format_1(connection: sqlite3.Connection) -> Contents:
    """Return the contents of a ledger that an earlier version wrote, with one digest for all."""
    ((ledger_id, created, neighbours, *caps, seal),) = connection.execute(
        "SELECT * FROM head LIMIT 2"
    )
    rows = tuple(_rows(connection))
    contents = Contents(ledger_id, created, neighbours, Caps(*caps), rows)

    texts = "\n".join([json.dumps(contents[:-1]), *(row.facts for row in contents.rows)])
    numbers = [number for row in contents.rows for number in row[:-1]]
    digest = hashlib.sha256(texts.encode())
    digest.update(struct.pack(f"<{len(numbers)}d", *numbers))
    if seal != digest.hexdigest():
        raise ValueError("the digest differs")
    return contents


def _rows(connection: sqlite3.Connection, at_most: int = -1) -> list[Row]:
    query = (
        "SELECT id, eps, delta, rho, pure_eps, os_randomness, facts FROM releases ORDER BY id "
        "LIMIT ?"
    )
    return list(map(Row._make, connection.execute(query, (at_most,))))


def _totals_of(text: str) -> Totals:
    fields: list[Any] = [tuple(x) if isinstance(x, list) else x for x in json.loads(text)]
    return Totals(*fields)


def _text_of(totals: Totals) -> str:
    """Return the totals as they are stored. Ledgers of earlier versions store no failures."""
    return json.dumps(totals if totals.failure else totals[:-1])


def _with_infinite_sums(totals: Totals) -> Totals:
    """Return the totals that earlier versions stored after a release without rho and pure eps."""
    return totals._replace(rho=(math.inf,), pure_eps=(math.inf,), failure=())


def _needs_all_rows(totals: Totals) -> bool:
    """Return whether a spend reads all rows: they are few, or the sums may be too large."""
    is_small = totals.n_releases <= MOST_RELEASES_VERIFIED_BY_A_SPEND
    return is_small or totals == _with_infinite_sums(totals)


def _has_sound_structure(connection: sqlite3.Connection) -> bool:
    return connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)


def _pragma(connection: sqlite3.Connection, name: str) -> Any:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _seal_in_head(connection: sqlite3.Connection) -> str | None:
    (seal,) = connection.execute("SELECT seal FROM head LIMIT 1").fetchone() or (None,)
    return seal


# Hashes


def _state_of(contents: Contents) -> _State:
    return _State(contents.summary, _chains(contents)[-1])


def _head_columns(state: _State) -> tuple[Any, ...]:
    summary = state.summary
    return (*summary[:3], *summary.caps, _text_of(summary.totals), state.chain)


def _seal_of_head(state: _State) -> str:
    return hashlib.sha256(json.dumps(_head_columns(state)).encode()).hexdigest()


def _chains(contents: Contents) -> list[str]:
    """Return the hash of the empty ledger, and after each release."""
    chains = [_first_chain(contents)]
    for row in contents.rows:
        chains.append(_next_chain(chains[-1], row))
    return chains


def _first_chain(contents: Contents | Summary) -> str:
    return hashlib.sha256(json.dumps(contents[:4]).encode()).hexdigest()


def _next_chain(chain: str, row: Row) -> str:
    """Return the hash of a release and of the hash before it."""
    numbers = struct.pack("<6d", *row[:-1])
    return hashlib.sha256(chain.encode() + numbers + row.facts.encode()).hexdigest()


def _damaged(path: str, reason: str) -> LedgerError:
    return LedgerError(
        f"the privacy ledger {path!r} is damaged: {reason}. Restore a copy that holds everything "
        "spent so far; do not start a new ledger for the same data."
    )
