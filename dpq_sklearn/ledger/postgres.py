"""Ledgers on a PostgreSQL server, for a team that works on several machines.

- One transaction locks the row of the ledger, reads the releases, adds one, and commits. Readers
  see a snapshot and never wait.
- The lock alone does not make the total exact. A release has its number as a key, so two clients
  can never both append the same release.
- A connection may be lost after COMMIT was sent and before the answer came. The next attempt waits
  for the lock, hence for the end of the lost transaction, and looks for the id of the release.
- Every wait ends: for a connection, for the lock, and for a server that does not answer.
- All tables are in one schema, ``dpq_ledger``. They can only be appended to: triggers refuse every
  other statement from every role, and every release that is not the next in its ledger. The owner
  of the tables could drop the triggers, so nobody should fit models as the owner.
- Names are resolved in ``pg_catalog`` alone. Otherwise a function or an operator that somebody else
  has planted in a schema of the owner's search path could run with the owner's rights, or end up in
  the constraints of the tables.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from dpq_sklearn.ledger.addresses import Address, secrets_of
from dpq_sklearn.ledger.contents import Caps, Contents, LedgerError, Row, Summary, Totals
from dpq_sklearn.ledger.store import NextRow
from dpq_sklearn.optional import optional_module

_T = TypeVar("_T")

SECONDS_TO_CONNECT = 10
SECONDS_TO_WAIT_FOR_THE_LOCK = 60.0
# A server that hangs does not report a timeout. After this time the client cuts the connection.
SECONDS_TO_WAIT_FOR_AN_ANSWER = 75.0
# After a lost connection: long enough for a server to restart, short if there is no server.
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

# Raised whenever a table changes. A migration locks the table `version` in ACCESS EXCLUSIVE mode
# first: every transaction of a client holds a share of it until its end.
VERSION = 1

SAFE_SEARCH_PATH = "SET LOCAL search_path = pg_catalog, pg_temp"

_TABLES = f"""\
CREATE SCHEMA dpq_ledger;

CREATE TABLE dpq_ledger.version (version integer NOT NULL);
INSERT INTO dpq_ledger.version VALUES ({VERSION});

CREATE TABLE dpq_ledger.ledgers (
    name text PRIMARY KEY,
    ledger_id text NOT NULL UNIQUE,
    created text NOT NULL,
    neighbours text NOT NULL CHECK (neighbours IN ('rows'::text, 'people'::text)),
    eps float8 CHECK (eps > 0::float8 AND eps < 'Infinity'::float8),
    delta float8 CHECK (delta >= 0::float8 AND delta < 1::float8),
    rho float8 CHECK (rho > 0::float8 AND rho < 'Infinity'::float8)
);

CREATE TABLE dpq_ledger.releases (
    ledger_id text NOT NULL REFERENCES dpq_ledger.ledgers (ledger_id),
    id integer NOT NULL CHECK (id > 0),
    eps float8 NOT NULL CHECK (eps >= 0::float8 AND eps <> 'NaN'::float8),
    delta float8 NOT NULL CHECK (delta >= 0::float8 AND delta < 1::float8),
    rho float8 NOT NULL CHECK (rho >= 0::float8 AND rho <> 'NaN'::float8),
    pure_eps float8 NOT NULL CHECK (pure_eps >= 0::float8 AND pure_eps <> 'NaN'::float8),
    os_randomness boolean NOT NULL,
    release_id text NOT NULL UNIQUE,
    facts text NOT NULL CHECK (json_typeof(facts::json) = 'object'::text),
    PRIMARY KEY (ledger_id, id)
);

CREATE FUNCTION dpq_ledger.refuse_change() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'a privacy ledger can only be appended to: % of % is refused',
        TG_OP, TG_TABLE_NAME;
END
$$;

CREATE FUNCTION dpq_ledger.refuse_gap() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.id <> 1 AND NOT EXISTS (
        SELECT FROM dpq_ledger.releases WHERE ledger_id = NEW.ledger_id AND id = NEW.id - 1
    ) THEN
        RAISE EXCEPTION 'the releases of a privacy ledger are numbered 1, 2, 3, ...: % is refused',
            NEW.id;
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON dpq_ledger.version
    FOR EACH STATEMENT EXECUTE FUNCTION dpq_ledger.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON dpq_ledger.ledgers
    FOR EACH STATEMENT EXECUTE FUNCTION dpq_ledger.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON dpq_ledger.releases
    FOR EACH STATEMENT EXECUTE FUNCTION dpq_ledger.refuse_change();
CREATE TRIGGER no_gap BEFORE INSERT ON dpq_ledger.releases
    FOR EACH ROW EXECUTE FUNCTION dpq_ledger.refuse_gap();
"""

_GRANTS = """\
GRANT USAGE ON SCHEMA dpq_ledger TO {role};
GRANT SELECT ON ALL TABLES IN SCHEMA dpq_ledger TO {role};
GRANT INSERT ON dpq_ledger.releases TO {role};
-- PostgreSQL requires the right to update of a role that locks a row. A trigger refuses updates.
GRANT UPDATE (name) ON dpq_ledger.ledgers TO {role};
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
    def path(self) -> str:
        """The address, which may be the `ledger` of an estimator."""
        return str(self.address)

    @property
    def location(self) -> str:
        """The location as messages name it."""
        return repr(self.path)

    def exists(self) -> bool:
        """Return whether there is a ledger of this name."""
        return self._retried(self._exists_once)

    def create(self, new: Summary) -> None:
        """Create the ledger, and the tables if there are none; leave an existing one unchanged."""
        self._retried(lambda: self._create_once(new))

    def read(self) -> Contents:
        """Return all contents at one moment."""
        return self._retried(self._read_once)

    def summary(self) -> Summary:
        """Return the budget and the totals, after reading the releases that are new."""
        return self._retried(self._summary_once)

    def append(self, release_id: str, next_row: NextRow) -> Summary:
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

    def _exists_once(self) -> bool:
        with self._transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY") as cursor:
            if not _has_tables(cursor):
                return False
            self._refuse_other_version(cursor)
            return self._ledger(cursor) is not None

    def _create_once(self, new: Summary) -> None:
        with self._transaction() as cursor:
            cursor.execute(
                "SELECT pg_catalog.pg_advisory_xact_lock(%s::pg_catalog.int8)", (_CREATION_LOCK,)
            )
            if not _has_tables(cursor):
                self._refuse_other_encoding(cursor)
                cursor.connection.execute(_TABLES)
            self._refuse_other_version(cursor)
            cursor.execute(
                "INSERT INTO dpq_ledger.ledgers VALUES (%s, %s, %s, %s, %s, %s, %s) "
                "ON CONFLICT (name) DO NOTHING",
                (self.address.name, *new[:3], *new.caps),
            )
            _commit(cursor)

    def _read_once(self) -> Contents:
        with self._transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY") as cursor:
            return self._contents(cursor)

    def _summary_once(self) -> Summary:
        known = self._known()  # before the snapshot, so that the snapshot holds all of it
        with self._transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY") as cursor:
            return self._summary(cursor, known)

    def _known(self) -> _Known:
        return _KNOWN.get(self, _Known())

    def _contents(self, cursor: Any) -> Contents:
        """Return all contents."""
        head = self._head(cursor)
        rows = self._rows(cursor, head.ledger_id, 1)
        self._refuse_gaps(rows, 1)
        return Contents(*head[:4], rows)

    def _summary(self, cursor: Any, known: _Known, lock: str = "") -> Summary:
        """Return the budget and the totals: those that are known, and the releases after them."""
        head = self._head(cursor, lock)
        if known.ledger_id != head.ledger_id:
            known = _Known(head.ledger_id)

        # Separate statements, which see the commits that were made while we waited for the lock.
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

    def _rows(self, cursor: Any, ledger_id: str, first: int) -> tuple[Row, ...]:
        return tuple(map(Row._make, cursor.execute(_RELEASES, (ledger_id, first))))

    def _refuse_gaps(self, rows: tuple[Row, ...], first: int) -> None:
        if [row.id for row in rows] != list(range(first, first + len(rows))):
            raise self._damaged()

    def _damaged(self) -> LedgerError:
        return LedgerError(
            f"the privacy ledger {self.location} is damaged: the numbers of its releases are not "
            "1, 2, 3 and so on, or releases were changed. Restore the deleted or changed releases. "
            "Do not start a new ledger for the same data."
        )

    def _head(self, cursor: Any, lock: str = "") -> Summary:
        """Return the ledger without releases, if its tables are those of this version."""
        self._refuse_other_version(cursor)

        ledger = self._ledger(cursor, lock)
        if ledger is None:
            raise self._missing()
        ledger_id, created, neighbours, *caps = ledger
        return Summary(ledger_id, created, neighbours, Caps(*caps), Totals())

    def _ledger(self, cursor: Any, lock: str = "") -> tuple[Any, ...] | None:
        query = f"{_LEDGER} WHERE name = %s {lock}"
        return cursor.execute(query, (self.address.name,)).fetchone()

    def _refuse_other_version(self, cursor: Any) -> None:
        versions = cursor.execute("SELECT version FROM dpq_ledger.version").fetchall()
        if versions != [(VERSION,)]:
            found = ", ".join(str(version) for (version,) in versions) or "none"
            raise LedgerError(
                f"the privacy ledger {self.location} has version {found} of the tables, and this "
                f"version of dpq_sklearn knows version {VERSION}: another version created them."
            )

    def _refuse_other_encoding(self, cursor: Any) -> None:
        """Raise unless the database stores every text, and stores it as text."""
        encoding = cursor.connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise LedgerError(
                f"the privacy ledger {self.location} cannot be created: its database must have the "
                f"encoding UTF8, got {encoding}. Create another one with CREATE DATABASE ... "
                "ENCODING 'UTF8' TEMPLATE template0."
            )

    def _missing(self) -> LedgerError:
        return LedgerError(
            f"the privacy ledger {self.location} is missing: it has not been created by "
            "PrivacyLedger(address, name=..., eps=...) or by python -m dpq_sklearn.ledger create."
        )

    @contextlib.contextmanager
    def _transaction(self, mode: str = "ISOLATION LEVEL READ COMMITTED") -> Iterator[Any]:
        """Yield a cursor in a transaction. Uncommitted changes are undone at the end."""
        connection = _connect(self.address.url)
        with contextlib.closing(connection), _line_cut_after(connection):
            cursor = connection.cursor(binary=True)  # numbers travel as their eight bytes
            cursor.execute(f"BEGIN {mode}")
            cursor.execute(SAFE_SEARCH_PATH)
            cursor.execute(
                # The server or the role may have other defaults.
                "SELECT set_config('synchronous_commit', 'on', true), "
                "set_config('lock_timeout', %s::text, true), "
                "set_config('idle_in_transaction_session_timeout', %s::text, true)",
                (
                    _milliseconds(SECONDS_TO_WAIT_FOR_THE_LOCK),
                    # A client that hangs is ended before those who wait for its lock give up.
                    _milliseconds(SECONDS_TO_WAIT_FOR_THE_LOCK / 2),
                ),
            )
            yield cursor

    def _retried(self, attempt: Callable[[], _T]) -> _T:
        """Return the result of `attempt()`; after a lost connection, try again a few times."""
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
                break
            time.sleep(pause)
        raise explained  # not from the driver's error: its frames hold the password

    def _explained(self, error: Exception) -> LedgerError:
        """Return a LedgerError that names the ledger, for an error of the driver."""
        errors = _psycopg().errors
        if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
            return self._missing()

        if isinstance(error, errors.InsufficientPrivilege):
            advice = (
                "Ask the owner of the tables for the privileges that python -m dpq_sklearn.ledger "
                "sql prints."
            )
        elif isinstance(error, errors.LockNotAvailable | errors.QueryCanceled):
            advice = (
                "It is locked by another client. Nothing was spent. If the lock stays, end the "
                "session that holds it: SELECT pg_blocking_pids(pid), query FROM pg_stat_activity."
            )
        else:
            advice = (
                "The server must be reachable and accept the connection. Pickles do not carry the "
                "password of an address: use PGPASSWORD, ~/.pgpass or a service file."
            )
        words = " ".join(str(error).split()).rstrip("?.")
        return LedgerError(f"the privacy ledger {self.location} cannot be used: {words}. {advice}")


class _Spend:
    """A release that is paid once, however many attempts it takes."""

    def __init__(self, store: PostgresStore, release_id: str, next_row: NextRow) -> None:
        self.store = store
        self.release_id = release_id
        self.next_row = next_row
        self.is_in_doubt = False

    def attempt(self) -> Summary:
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

    def _is_recorded(self, cursor: Any) -> bool:
        (is_recorded,) = cursor.execute(_HAS_RELEASE, (self.release_id,)).fetchone()
        return is_recorded


def _commit(cursor: Any) -> None:
    cursor.execute("COMMIT")
    if cursor.statusmessage != "COMMIT":  # a server answers ROLLBACK if something had failed before
        raise _psycopg().OperationalError(f"the server answered {cursor.statusmessage} to COMMIT")


def _has_tables(cursor: Any) -> bool:
    # A query sees only tables in the transaction's snapshot. to_regclass also sees later tables,
    # but their rows are not in the snapshot.
    (found,) = cursor.execute(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c "
        "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'dpq_ledger' AND c.relname = 'version')"
    ).fetchone()
    return found


def _connect(url: str) -> Any:
    psycopg = _psycopg()
    try:
        known = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error as error:
        raise LedgerError(f"PostgreSQL does not understand the address {url!r}.") from error

    options: dict[str, Any] = {"application_name": "dpq_sklearn ledger"}
    if "connect_timeout" not in known and "PGCONNECT_TIMEOUT" not in os.environ:
        options["connect_timeout"] = SECONDS_TO_CONNECT

    return psycopg.connect(
        url,
        autocommit=True,
        prepare_threshold=None,  # connection pools may not support prepared statements
        **options,
        **secrets_of(url),
    )


@contextlib.contextmanager
def _line_cut_after(connection: Any) -> Iterator[None]:
    """Cut the connection if it is still used after `SECONDS_TO_WAIT_FOR_AN_ANSWER`."""
    number = connection.fileno()

    def cut() -> None:
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


def _psycopg() -> Any:
    return optional_module("psycopg", "a ledger on a server", "dpq-sklearn[postgres]")


def _milliseconds(seconds: float) -> str:
    return f"{round(1000 * seconds)}ms"


# Statements for the owner of the tables


def owner_statements() -> str:
    """Return the statements that the owner runs once in a database."""
    return f"BEGIN;\n{SAFE_SEARCH_PATH};\n\n{_TABLES}\nCOMMIT;\n"


def role_statements(role: str) -> str:
    """Return the statements with which the owner lets a role read ledgers and spend from them."""
    quoted = '"' + role.replace('"', '""') + '"'
    return _GRANTS.format(role=quoted)
