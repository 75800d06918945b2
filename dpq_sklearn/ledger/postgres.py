"""Ledgers on a PostgreSQL server, for a team that works on several machines.

- One transaction locks the row of the ledger, reads the releases, adds one, and commits. Readers
  see a snapshot and wait for nobody.
- What makes the total exact is not the lock alone: a release has its number as a key, so two
  clients can never both append the same one.
- A connection may be lost after COMMIT was sent, and before the answer came. The next attempt waits
  for the lock, hence for the end of the lost transaction, and looks for the id of the release.
- Every wait ends: for a connection, for the lock, and for a server that does not answer.
"""

import contextlib
import os
import socket
import threading
import time
from dataclasses import dataclass
from typing import NamedTuple

from dpq_sklearn.ledger.addresses import Address, secrets_of
from dpq_sklearn.ledger.contents import Caps, Contents, LedgerError, Row, Summary, Totals
from dpq_sklearn.ledger.sql import SAFE_SEARCH_PATH, VERSION, table_statements
from dpq_sklearn.optional import optional_module

SECONDS_TO_CONNECT = 10
SECONDS_TO_WAIT_FOR_THE_LOCK = 60.0
# A server that hangs sends no timeout either. After so long the line is cut on our side.
SECONDS_TO_WAIT_FOR_AN_ANSWER = 75.0
# After a lost connection: enough for a server that restarts, and soon over if there is none.
PAUSES_BEFORE_RETRIES = (0.1, 0.3, 1.0, 3.0)

_CREATION_LOCK = 0x4450514C  # "DPQL", a number that no other program should lock

_LEDGER = "SELECT ledger_id, created, neighbours, eps, delta, rho FROM dpq_ledger.ledgers"
_RELEASES = """
SELECT id, eps, delta, rho, pure_eps, os_randomness::integer, facts FROM dpq_ledger.releases
WHERE ledger_id = %s AND id >= %s ORDER BY id
"""
_NUMBER_OF_RELEASES = "SELECT count(*) FROM dpq_ledger.releases WHERE ledger_id = %s"
_HAS_RELEASE = "SELECT EXISTS (SELECT FROM dpq_ledger.releases WHERE release_id = %s)"
_APPEND = """
INSERT INTO dpq_ledger.releases
(ledger_id, id, eps, delta, rho, pure_eps, os_randomness, facts, release_id)
VALUES (%s, %s, %s, %s, %s, %s, %s::integer::boolean, %s, %s)
"""


class _Known(NamedTuple):
    """The totals of a ledger up to the last release that this process has read.

    Releases can only be appended, so the next spend reads newer releases only.
    """

    ledger_id: str | None = None
    last: Row | None = None
    totals: Totals = Totals()


_KNOWN: dict["PostgresStore", _Known] = {}


@dataclass(frozen=True)
class PostgresStore:
    """A ledger on a server, given by its address, which holds no password."""

    address: Address

    @property
    def path(self):
        """What an estimator's `ledger` may be."""
        return str(self.address)

    @property
    def place(self):
        """The place as messages name it."""
        return repr(self.path)

    def exists(self):
        """Return whether there is a ledger of this name."""
        return self._retried(self._exists_once)

    def create(self, contents):
        """Make the ledger, and the tables if there are none. An existing ledger stays as it is."""
        self._retried(lambda: self._create_once(contents))

    def read(self):
        """Return the contents: a snapshot of one moment."""
        return self._retried(self._read_once)

    def summary(self):
        """Return the budget and the totals, after reading what is new to this process."""
        return self._retried(self._summary_once)

    def append(self, release_id, next_row):
        """Commit the row that `next_row` returns, once; or raise."""
        spend = _Spend(self, release_id, next_row)
        try:
            return self._retried(spend.attempt)
        except LedgerError as error:
            if not spend.is_in_doubt:
                raise
            raise LedgerError(
                f"{error} The connection was lost while the release {release_id} was committed, so "
                "it is not known whether it was paid: look for it in the records. Nothing was "
                "read, and nothing is released."
            ) from error

    def _exists_once(self):
        with self._transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY") as cursor:
            if not _has_tables(cursor):
                return False
            self._refuse_other_version(cursor)
            return self._ledger(cursor) is not None

    def _create_once(self, contents):
        with self._transaction() as cursor:
            cursor.execute(
                "SELECT pg_catalog.pg_advisory_xact_lock(%s::pg_catalog.int8)", (_CREATION_LOCK,)
            )
            if not _has_tables(cursor):
                self._refuse_other_encoding(cursor)
                cursor.connection.execute(table_statements())
            self._refuse_other_version(cursor)
            cursor.execute(
                "INSERT INTO dpq_ledger.ledgers VALUES (%s, %s, %s, %s, %s, %s, %s) "
                "ON CONFLICT (name) DO NOTHING",
                (self.address.name, *contents[:3], *contents.caps),
            )
            _commit(cursor)

    def _read_once(self):
        with self._transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY") as cursor:
            return self._contents(cursor)

    def _summary_once(self):
        known = self._known()  # before the snapshot, so that the snapshot holds all of it
        with self._transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY") as cursor:
            return self._summary(cursor, known)

    def _known(self):
        return _KNOWN.get(self, _Known())

    def _contents(self, cursor):
        """Return all contents."""
        head = self._head(cursor)
        rows = self._rows(cursor, head.ledger_id, 1)
        self._refuse_gaps(rows, 1)
        return Contents(*head[:4], rows)

    def _summary(self, cursor, known, lock=""):
        """Return the budget and the totals: those that are known, and the releases after them."""
        head = self._head(cursor, lock)
        if known.ledger_id != head.ledger_id:
            known = _Known(head.ledger_id)

        # Statements of their own: they see what was committed while we waited for the lock.
        first = known.totals.n_releases
        rows = self._rows(cursor, head.ledger_id, first)
        (n_releases,) = cursor.execute(_NUMBER_OF_RELEASES, (head.ledger_id,)).fetchone()

        if known.last is not None:
            if not rows or (rows[0].id, rows[0].facts) != (known.last.id, known.last.facts):
                raise self._damaged()
            rows = rows[1:]
        self._refuse_gaps(rows, first + 1)
        totals = known.totals.plus(*rows)
        if n_releases != totals.n_releases:
            raise self._damaged()

        if rows:
            _KNOWN[self] = _Known(head.ledger_id, rows[-1], totals)
        return head._replace(totals=totals)

    def _rows(self, cursor, ledger_id, first):
        return tuple(map(Row._make, cursor.execute(_RELEASES, (ledger_id, first))))

    def _refuse_gaps(self, rows, first):
        if [row.id for row in rows] != list(range(first, first + len(rows))):
            raise self._damaged()

    def _damaged(self):
        return LedgerError(
            f"the privacy ledger {self.place} is damaged: the numbers of its releases are not 1, "
            "2, 3 and so on, or releases were changed. Restore what was deleted; do not start a "
            "new ledger for the same data."
        )

    def _head(self, cursor, lock=""):
        """Return the ledger without releases, if its tables are those of this version."""
        self._refuse_other_version(cursor)

        ledger = self._ledger(cursor, lock)
        if ledger is None:
            raise self._missing()
        *head, eps, delta, rho = ledger
        return Summary(*head, Caps(eps, delta, rho), Totals())

    def _ledger(self, cursor, lock=""):
        query = f"{_LEDGER} WHERE name = %s {lock}"
        return cursor.execute(query, (self.address.name,)).fetchone()

    def _refuse_other_version(self, cursor):
        versions = cursor.execute("SELECT version FROM dpq_ledger.version").fetchall()
        if versions != [(VERSION,)]:
            found = ", ".join(str(version) for (version,) in versions) or "none"
            raise LedgerError(
                f"the privacy ledger {self.place} has version {found} of the tables, this version "
                f"of dpq_sklearn knows version {VERSION}: they were made by another version."
            )

    def _refuse_other_encoding(self, cursor):
        """Raise unless the database stores every text, and stores it as text."""
        encoding = cursor.connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise LedgerError(
                f"the privacy ledger {self.place} cannot be created: its database must have the "
                f"encoding UTF8, got {encoding}. Create another one with CREATE DATABASE ... "
                "ENCODING 'UTF8' TEMPLATE template0."
            )

    def _missing(self):
        return LedgerError(
            f"the privacy ledger {self.place} is missing: it has not been created by "
            "PrivacyLedger(address, name=..., eps=...) or by python -m dpq_sklearn.ledger create."
        )

    @contextlib.contextmanager
    def _transaction(self, mode="ISOLATION LEVEL READ COMMITTED"):
        """Yield a cursor in a transaction; what is not committed at the end is undone."""
        connection = _connect(self.address.url)
        with contextlib.closing(connection), _line_cut_after(connection):
            cursor = connection.cursor(binary=True)  # numbers travel as their eight bytes
            cursor.execute(f"BEGIN {mode}")
            cursor.execute(SAFE_SEARCH_PATH)
            cursor.execute(
                # Whatever the server or the role have as their defaults.
                "SELECT set_config('synchronous_commit', 'on', true), "
                "set_config('lock_timeout', %s::text, true), "
                "set_config('idle_in_transaction_session_timeout', %s::text, true)",
                (
                    _milliseconds(SECONDS_TO_WAIT_FOR_THE_LOCK),
                    # A client that hangs is put out before those who wait for its lock give up.
                    _milliseconds(SECONDS_TO_WAIT_FOR_THE_LOCK / 2),
                ),
            )
            yield cursor

    def _retried(self, attempt):
        """Return what `attempt()` returns; after a lost connection try again, a few times."""
        psycopg = _psycopg()
        errors = psycopg.errors
        lasting = (errors.LockNotAvailable, errors.QueryCanceled, errors.DiskFull)
        passing = (
            psycopg.OperationalError,
            psycopg.InterfaceError,
            errors.IdleInTransactionSessionTimeout,
            errors.UniqueViolation,  # of the number of a release: another client was faster
        )

        for pause in (*PAUSES_BEFORE_RETRIES, None):
            try:
                return attempt()
            except psycopg.Error as error:
                is_passing = isinstance(error, passing) and not isinstance(error, lasting)
                explained = self._explained(error)
            if pause is None or not is_passing:
                raise explained  # not from the driver's error, whose frames know the password
            time.sleep(pause)

    def _explained(self, error):
        """Return an error of the driver as one that names the ledger."""
        errors = _psycopg().errors
        if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
            return self._missing()

        if isinstance(error, errors.InsufficientPrivilege):
            advice = (
                "The owner of the tables grants what is needed: see python -m dpq_sklearn.ledger "
                "sql."
            )
        elif isinstance(error, errors.LockNotAvailable | errors.QueryCanceled):
            advice = (
                "It is locked by another client. Nothing was spent. If the lock stays, end the "
                "session that holds it: SELECT pg_blocking_pids(pid), query FROM pg_stat_activity."
            )
        else:
            advice = (
                "The server must be reachable and willing. A password that stood in an address "
                "does not travel with pickles: use PGPASSWORD, ~/.pgpass or a service file."
            )
        words = " ".join(str(error).split()).rstrip("?.")
        return LedgerError(f"the privacy ledger {self.place} cannot be used: {words}. {advice}")


class _Spend:
    """One release that is to be paid once, however many attempts it takes."""

    def __init__(self, store, release_id, next_row):
        self.store = store
        self.release_id = release_id
        self.next_row = next_row
        self.is_in_doubt = False

    def attempt(self):
        """Append the release, unless an earlier attempt has done so; return the totals."""
        known = self.store._known()
        with self.store._transaction() as cursor:
            before = self.store._summary(cursor, known, lock="FOR UPDATE")
            if self.is_in_doubt and self._is_recorded(cursor):
                return before
            self.is_in_doubt = False

            row = self.next_row(before, lambda: self.store._rows(cursor, before.ledger_id, first=1))
            after = before._replace(totals=before.totals.plus(row))
            cursor.execute(_APPEND, (after.ledger_id, *row, self.release_id))
            self.is_in_doubt = True
            _commit(cursor)
            self.is_in_doubt = False
            return after

    def _is_recorded(self, cursor):
        (is_recorded,) = cursor.execute(_HAS_RELEASE, (self.release_id,)).fetchone()
        return is_recorded


def _commit(cursor):
    cursor.execute("COMMIT")
    if cursor.statusmessage != "COMMIT":  # a server answers ROLLBACK if something had failed before
        raise _psycopg().OperationalError(f"the server answered {cursor.statusmessage} to COMMIT")


def _has_tables(cursor):
    # By a query, which sees what the transaction's snapshot holds. to_regclass sees later tables
    # too, whose rows the snapshot does not have.
    (found,) = cursor.execute(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c "
        "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'dpq_ledger' AND c.relname = 'version')"
    ).fetchone()
    return found


def _connect(url):
    psycopg = _psycopg()
    try:
        known = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error as error:
        raise LedgerError(f"PostgreSQL does not understand the address {url!r}.") from error

    options = {"application_name": "dpq_sklearn ledger"}
    if "connect_timeout" not in known and "PGCONNECT_TIMEOUT" not in os.environ:
        options["connect_timeout"] = SECONDS_TO_CONNECT

    return psycopg.connect(
        url,
        autocommit=True,
        prepare_threshold=None,  # connection pools on the way may not know prepared statements
        **options,
        **secrets_of(url),
    )


@contextlib.contextmanager
def _line_cut_after(connection):
    """Cut the connection if it is still used after so many seconds."""
    number = connection.fileno()

    def cut():
        line = socket.socket(fileno=number)
        with contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
        line.detach()

    timer = threading.Timer(SECONDS_TO_WAIT_FOR_AN_ANSWER, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _psycopg():
    return optional_module("psycopg", "a ledger on a server", "dpq-sklearn[postgres]")


def _milliseconds(seconds):
    return f"{round(1000 * seconds)}ms"
