"""A real server: nothing is paid twice, nothing is read unpaid, and every wait ends."""

import contextlib
import multiprocessing
import os
import pickle
import random
import secrets
import signal
import threading
import time

import numpy as np
import pytest

from dpq_sklearn import BudgetExceededError, DPKBinsDiscretizer, LedgerError, PrivacyLedger
from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.ledger import access as ledger_access
from dpq_sklearn.ledger import postgres
from dpq_sklearn.ledger.__main__ import main
from dpq_sklearn.ledger.ledger import charge, opened, store_at
from dpq_sklearn.ledger.postgres import PostgresStore, owner_statements, role_statements
from tests.marks import slow
from tests.postgres import Line, Server

LOSS = PrivacyLoss(0.125, 0.0, 0.002)
ONE_COLUMN = np.arange(20.0).reshape(-1, 1)


@pytest.fixture
def own_server():
    """A server that may be stopped."""
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def address(server):
    return server.new_ledger()


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.test_ledger_server", "psycopg"])
    return context


@pytest.fixture
def line(server):
    line = Line(server)
    yield line
    line.close()


# A connection that is lost


@pytest.mark.parametrize("cut_at", ["before", "after"])
@pytest.mark.parametrize("n_cuts", [1, *slow(3)])
def test_a_commit_without_an_answer_is_paid_once(line, address, cut_at, n_cuts):
    """The release is read only after the client knows that it was paid."""
    name = address.partition("#")[2]
    ledger = PrivacyLedger(line.url, name=name, eps=1.0)
    line.cut_at = cut_at
    line.n_cuts_left = n_cuts
    fitted = DPKBinsDiscretizer(2, eps=0.5, ledger=ledger).fit(ONE_COLUMN)
    assert line.n_cuts_left == (n_cuts - 1 if cut_at == "after" else 0)
    (record,) = PrivacyLedger(address).records()
    assert record.release_id == fitted.privacy_.release_id


@pytest.mark.parametrize("cut_at", ["before", "after"])
def test_a_commit_that_never_gets_an_answer_is_an_error_and_nothing_is_read(
    line, address, cut_at, monkeypatch
):
    monkeypatch.setattr(postgres, "PAUSES_BEFORE_RETRIES", ())
    ledger = PrivacyLedger(line.url, name=address.partition("#")[2], eps=1.0)
    line.cut_at = cut_at
    line.n_cuts_left = 1
    is_read = []

    def batches():
        yield ONE_COLUMN
        is_read.append(True)

    with pytest.raises(LedgerError, match="not known whether it was paid") as caught:
        DPKBinsDiscretizer(2, eps=0.5, ledger=ledger).fit_batches(batches())
    assert not is_read and "Nothing was read" in str(caught.value)
    records = PrivacyLedger(address).records()
    assert len(records) == (1 if cut_at == "after" else 0)
    assert all(record.release_id in str(caught.value) for record in records)


def test_a_lost_connection_before_the_commit_is_tried_again(line, address, server, monkeypatch):
    """An administrator ends the connection during the transaction."""
    ledger = PrivacyLedger(line.url, name=address.partition("#")[2], eps=1.0)
    new_row = ledger_access.new_row
    n_attempts = []

    def ended_once(*arguments):
        n_attempts.append(1)
        if len(n_attempts) == 1:
            server.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'dpq_sklearn ledger'"
            )
        return new_row(*arguments)

    monkeypatch.setattr(ledger_access, "new_row", ended_once)
    charge(ledger, LOSS, what="fit")
    assert len(n_attempts) == 2 and len(ledger.records()) == 1


def test_the_budget_may_be_used_up_between_two_attempts(line, address, monkeypatch):
    ledger = PrivacyLedger(line.url, name=address.partition("#")[2], eps=1.0)
    line.cut_at = "before"
    line.n_cuts_left = 1
    sleep = time.sleep

    def spend_meanwhile(seconds):
        charge(address, PrivacyLoss(1.0, 0.0, 0.125), what="somebody else")
        sleep(seconds)

    monkeypatch.setattr(postgres.time, "sleep", spend_meanwhile)
    with pytest.raises(BudgetExceededError):
        charge(ledger, LOSS, what="fit")
    assert [record.what for record in ledger.records()] == ["somebody else"]


# Many clients


def test_a_number_cannot_be_given_twice_even_without_the_lock(server, address, monkeypatch):
    """Two clients that read the same total cannot both append to it."""
    ledger = PrivacyLedger(address, eps=1.0)
    contents = postgres.PostgresStore._contents
    monkeypatch.setattr(postgres.PostgresStore, "_contents", lambda *a, lock="": contents(*a))
    both_have_read = threading.Barrier(2)
    new_row = ledger_access.new_row
    outcomes = []

    def together(*arguments):
        with contextlib.suppress(threading.BrokenBarrierError):
            both_have_read.wait(2)
        return new_row(*arguments)

    monkeypatch.setattr(ledger_access, "new_row", together)

    def spend():
        try:
            charge(ledger, PrivacyLoss(1.0, 0.0, 0.125), what="fit")
            outcomes.append("paid")
        except BudgetExceededError:
            outcomes.append("refused")

    threads = [threading.Thread(target=spend) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["paid", "refused"]
    assert ledger.spent().eps == 1.0


def charge_in_turn(address, n_times, barrier, results):
    """Ask again and again, and report how often it was granted."""
    barrier.wait(60)
    granted = 0
    for _ in range(n_times):
        with contextlib.suppress(BudgetExceededError):
            charge(address, LOSS, what="fit", note=f"process {os.getpid()}")
            granted += 1
    results.put(granted)


@pytest.mark.slow
@pytest.mark.parametrize("repetition", range(5))
def test_eight_processes_that_ask_for_ten_times_the_cap_spend_exactly_the_cap(
    processes, address, repetition
):
    ledger = PrivacyLedger(address, eps=1.0)
    barrier = processes.Barrier(8)
    results = processes.Queue()
    arguments = (address, 10, barrier, results)
    workers = [processes.Process(target=charge_in_turn, args=arguments) for _ in range(8)]
    for worker in workers:
        worker.start()
    granted = [results.get(timeout=240) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert sum(granted) == len(ledger.records()) == 8
    assert ledger.spent().eps == 1.0


def create_at_once(url, name, barrier, results):
    barrier.wait(240)  # processes that start on a busy machine take their time
    results.put(PrivacyLedger(url, name=name, eps=1.0)._access.ledger_id)


@pytest.mark.slow
def test_processes_that_create_one_ledger_at_once_share_it(processes, server):
    for _ in range(2):
        url = server.new_database()  # without tables
        barrier = processes.Barrier(4)
        results = processes.Queue()
        arguments = (url, "a", barrier, results)
        workers = [processes.Process(target=create_at_once, args=arguments) for _ in range(4)]
        for worker in workers:
            worker.start()
        ids = {results.get(timeout=240) for _ in workers}
        for worker in workers:
            worker.join(60)
        assert len(ids) == 1


def test_tables_that_a_snapshot_does_not_hold_are_not_there(server):
    """Else whoever looks while another one creates them finds tables without a version."""
    url = server.new_database()
    store = store_at(f"{url}#a")
    with store._transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY") as cursor:
        PrivacyLedger(url, name="a", eps=1.0)
        assert not postgres._has_tables(cursor)
    assert store.exists()


def test_clients_wait_for_each_other_and_need_no_second_attempt(address, monkeypatch):
    monkeypatch.setattr(postgres, "PAUSES_BEFORE_RETRIES", ())
    ledger = PrivacyLedger(address, eps=9.0)
    failures = []

    def spend():
        try:
            for _ in range(4):
                charge(ledger, LOSS, what="fit")
        except LedgerError as error:
            failures.append(error)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(ledger.records()) == 16


def test_no_connection_stays_open(address, monkeypatch):
    connections = []
    connect = postgres._connect

    def connect_and_remember(url):
        connections.append(connect(url))
        return connections[-1]

    monkeypatch.setattr(postgres, "_connect", connect_and_remember)
    ledger = PrivacyLedger(address, eps=1.0)
    charge(ledger, LOSS, what="fit")
    with pytest.raises(BudgetExceededError):
        charge(ledger, PrivacyLoss(9.0, 0.0, 9.0), what="fit")
    assert len(connections) >= 4 and all(connection.closed for connection in connections)


# Clients that are killed


def fit_until_killed(address, connection):
    """Fit again and again; tell before each fit, and when its data are read."""
    ledger = PrivacyLedger(address)
    discretizer = DPKBinsDiscretizer(2, eps=0.125, ledger=ledger)

    def batches():
        connection.send("asks")
        yield ONE_COLUMN
        connection.send("reads")
        yield ONE_COLUMN

    while True:
        discretizer.fit_batches(batches())


def charge_slowly_until_killed(address, connection):
    """Charge again and again; tell before each, when it is in the transaction, and when it paid."""
    new_row = ledger_access.new_row
    moments = random.Random()

    def slow_release(*arguments):
        connection.send("is inside")
        time.sleep(moments.uniform(0.0, 0.01))
        return new_row(*arguments)

    ledger_access.new_row = slow_release
    while True:
        connection.send("asks")
        charge(address, LOSS, what="fit")
        connection.send("paid")


def said_until_killed(processes, target, address, last_word, moments):
    """Start a worker, kill it after it has said a word for some time; return all it said."""
    receiver, sender = processes.Pipe(duplex=False)
    worker = processes.Process(target=target, args=(address, sender))
    worker.start()
    sender.close()
    said = []
    n_times = moments.randint(1, 3)
    while said.count(last_word) < n_times:
        said.append(receiver.recv())
    time.sleep(moments.uniform(0.0, 0.012))
    os.kill(worker.pid, signal.SIGKILL)
    worker.join(60)
    with contextlib.suppress(EOFError):
        while True:
            said.append(receiver.recv())
    receiver.close()
    return said


@pytest.mark.slow
def test_25_kills_between_commit_and_reading_leave_nothing_unpaid(processes, address):
    ledger = PrivacyLedger(address, eps=1e9)
    moments = random.Random(4)
    n_before = 0
    for _ in range(25):
        said = said_until_killed(processes, fit_until_killed, address, "asks", moments)
        n_paid = len(ledger.records()) - n_before
        assert said.count("reads") <= n_paid <= said.count("asks")
        n_before += n_paid
    assert ledger.spent().eps == n_before * 0.125


@pytest.mark.slow
def test_25_kills_in_the_transaction_lose_nothing(processes, address):
    ledger = PrivacyLedger(address, eps=1e9)
    moments = random.Random(5)
    n_before = 0
    n_undone = 0
    for _ in range(25):
        said = said_until_killed(
            processes, charge_slowly_until_killed, address, "is inside", moments
        )
        charge(ledger, LOSS, what="fit")  # the lock of the dead is free, and what it began is over
        n_paid = len(ledger.records()) - n_before - 1
        assert said.count("paid") <= n_paid <= said.count("is inside")
        n_undone += said.count("is inside") - n_paid
        n_before += n_paid + 1
    assert n_undone > 0
    assert ledger.spent().eps == n_before * LOSS.eps


# Servers that stop, hang, or are not there


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_clients_go_on_after_a_restart(own_server, mode):
    ledger = PrivacyLedger(own_server.new_ledger(), eps=1e9)
    n_paid = [0] * 3
    failures = []
    is_over = threading.Event()

    def spend(number):
        while not is_over.is_set():
            try:
                charge(ledger, LOSS, what="fit", note=str(number))
                n_paid[number] += 1
            except LedgerError as error:
                failures.append(str(error))

    threads = [threading.Thread(target=spend, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.7)
    n_before = sum(n_paid)
    for _ in range(2):
        own_server.stop(mode)
        own_server.start()
        time.sleep(0.7)
    is_over.set()
    for thread in threads:
        thread.join(60)

    records = ledger.records()
    assert sum(n_paid) > n_before > 0
    # Whatever a client was told, it is so. Only those that were told nothing may be there besides.
    in_doubt = sum("not known whether" in failure for failure in failures)
    assert sum(n_paid) <= len(records) <= sum(n_paid) + in_doubt
    assert len({record.release_id for record in records}) == len(records)


@pytest.mark.parametrize("url", ["postgresql://u@127.0.0.1:1/d", "postgresql://u@/d?host=/nowhere"])
def test_a_server_that_is_not_there_is_a_clear_error_in_bounded_time(url, monkeypatch):
    pytest.importorskip("psycopg")
    assert sum(postgres.PAUSES_BEFORE_RETRIES) < 10
    monkeypatch.setattr(postgres, "PAUSES_BEFORE_RETRIES", (0.01, 0.01))
    start = time.monotonic()
    for attempt in (lambda: PrivacyLedger(url, eps=1.0), lambda: charge(url, LOSS, what="fit")):
        with pytest.raises(LedgerError, match="cannot be used: connection") as caught:
            attempt()
        assert "#default" in str(caught.value) and "reachable" in str(caught.value)
    assert time.monotonic() - start < 30


@pytest.mark.slow
def test_a_server_that_hangs_is_a_clear_error_in_bounded_time(own_server, monkeypatch):
    """This holds during a transaction, and for later clients."""
    monkeypatch.setattr(postgres, "SECONDS_TO_WAIT_FOR_AN_ANSWER", 1.5)
    monkeypatch.setattr(postgres, "SECONDS_TO_CONNECT", 2)
    monkeypatch.setattr(postgres, "PAUSES_BEFORE_RETRIES", (0.1,))
    ledger = PrivacyLedger(own_server.new_ledger(), eps=1.0)
    new_row = ledger_access.new_row

    def release_and_hang(*arguments):
        own_server.hang()
        return new_row(*arguments)

    try:
        with monkeypatch.context() as patched:
            patched.setattr(ledger_access, "new_row", release_and_hang)
            start = time.monotonic()
            with pytest.raises(LedgerError, match="cannot be used"):
                charge(ledger, LOSS, what="fit")
        with pytest.raises(LedgerError, match="cannot be used"):
            charge(ledger, LOSS, what="fit")
        assert time.monotonic() - start < 30
    finally:
        own_server.wake()
    for _ in range(100):
        with contextlib.suppress(LedgerError):
            assert ledger.records() == []
            break


def test_a_lock_that_is_held_too_long_is_an_error(server, address, monkeypatch):
    monkeypatch.setattr(postgres, "SECONDS_TO_WAIT_FOR_THE_LOCK", 0.2)
    ledger = PrivacyLedger(address, eps=1.0)
    with server.psycopg.connect(server.url) as connection:
        connection.execute("SELECT * FROM dpq_ledger.ledgers FOR UPDATE")
        assert ledger.spent().eps == 0.0  # readers do not wait
        with pytest.raises(LedgerError, match="locked by another client"):
            charge(ledger, LOSS, what="fit")
    charge(ledger, LOSS, what="fit")


@pytest.mark.parametrize(
    "statement",
    [
        "LOCK TABLE dpq_ledger.releases IN ACCESS EXCLUSIVE MODE",
        "LOCK TABLE dpq_ledger.version IN ACCESS EXCLUSIVE MODE",
        "LOCK TABLE dpq_ledger.ledgers IN ACCESS EXCLUSIVE MODE",
        "SELECT * FROM dpq_ledger.ledgers FOR KEY SHARE",
        "INSERT INTO dpq_ledger.releases SELECT ledger_id, 1, 0, 0, 0, 0, true, 'r', '{}' "
        "FROM dpq_ledger.ledgers",
    ],
)
def test_every_lock_that_another_client_holds_ends_in_a_clear_error(server, statement, monkeypatch):
    url = server.new_database()
    ledger = PrivacyLedger(url, eps=1.0)
    monkeypatch.setattr(postgres, "SECONDS_TO_WAIT_FOR_THE_LOCK", 0.2)
    with server.psycopg.connect(url) as connection:
        connection.execute(statement)
        with pytest.raises(LedgerError, match=r"locked by another client.*pg_stat_activity"):
            charge(ledger, LOSS, what="fit")
        connection.rollback()
    charge(ledger, LOSS, what="fit")


def test_a_client_that_hangs_in_its_transaction_is_put_out(address, monkeypatch):
    ledger = PrivacyLedger(address, eps=1.0)
    new_row = ledger_access.new_row
    is_inside = threading.Event()
    may_go_on = threading.Event()

    def hang(*arguments):
        if not is_inside.is_set():
            is_inside.set()
            may_go_on.wait(60)
        return new_row(*arguments)

    monkeypatch.setattr(postgres, "SECONDS_TO_WAIT_FOR_THE_LOCK", 1.0)
    monkeypatch.setattr(ledger_access, "new_row", hang)
    hanging = threading.Thread(target=charge, args=(ledger, LOSS), kwargs={"what": "late"})
    hanging.start()
    assert is_inside.wait(60)
    monkeypatch.setattr(postgres, "SECONDS_TO_WAIT_FOR_THE_LOCK", 60.0)
    charge(ledger, LOSS, what="early")
    may_go_on.set()
    hanging.join(60)
    assert [record.what for record in ledger.records()] == ["early", "late"]


# The tables


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dpq_ledger.releases SET eps = 0",
        "DELETE FROM dpq_ledger.releases",
        "TRUNCATE dpq_ledger.releases",
        "UPDATE dpq_ledger.ledgers SET eps = 1e9",
        "DELETE FROM dpq_ledger.ledgers",
        "TRUNCATE dpq_ledger.ledgers CASCADE",
        "UPDATE dpq_ledger.version SET version = 1",
        "DELETE FROM dpq_ledger.version",
    ],
)
def test_tables_can_only_be_appended_to(server, address, statement):
    ledger = PrivacyLedger(address, eps=1.0)
    charge(ledger, LOSS, what="fit")
    with pytest.raises(server.psycopg.errors.RaiseException, match="can only be appended to"):
        server.run(statement)
    assert ledger.spent().eps == LOSS.eps


def test_a_deleted_release_is_noticed(server):
    url = server.new_database()
    ledger = PrivacyLedger(url, eps=1.0)
    for _ in range(3):
        charge(ledger, LOSS, what="fit")
    server.run("ALTER TABLE dpq_ledger.releases DISABLE TRIGGER append_only", url)
    server.run("DELETE FROM dpq_ledger.releases WHERE id = 2", url)
    for attempt in (ledger.spent, lambda: charge(ledger, LOSS, what="fit")):
        with pytest.raises(LedgerError, match="is damaged"):
            attempt()


def test_tables_that_were_dropped_and_made_anew_are_another_ledger(server):
    url = server.new_database()
    ledger = PrivacyLedger(url, eps=1.0)
    charge(url, LOSS, what="fit")
    server.run("DROP SCHEMA dpq_ledger CASCADE", url)
    for attempt in (ledger.spent, lambda: charge(url, LOSS, what="fit")):
        with pytest.raises(LedgerError, match="is missing"):
            attempt()
    PrivacyLedger(url, eps=1.0)
    for old in (ledger, url):
        with pytest.raises(LedgerError, match="created anew"):
            charge(old, LOSS, what="fit")


@pytest.mark.parametrize("version", [0, 2])
def test_tables_of_another_version_are_refused(server, version):
    url = server.new_database()
    ledger = PrivacyLedger(url, eps=1.0)
    charge(ledger, LOSS, what="fit")
    server.run("ALTER TABLE dpq_ledger.version DISABLE TRIGGER append_only", url)
    server.run(f"UPDATE dpq_ledger.version SET version = {version}", url)
    for attempt in (
        ledger.spent,
        lambda: charge(ledger, LOSS, what="fit"),
        lambda: PrivacyLedger(url),
        lambda: PrivacyLedger(url, name="another", eps=1.0),
    ):
        with pytest.raises(LedgerError, match=f"version {version} of the tables.* version 1"):
            attempt()
    server.run("UPDATE dpq_ledger.version SET version = 1", url)
    assert len(ledger.records()) == 1


def test_two_clients_of_different_versions_never_both_spend(server, monkeypatch):
    """The newer one brings the tables to its version while the older one is in a transaction."""
    url = server.new_database()
    ledger = PrivacyLedger(url, eps=1.0)
    new_row = ledger_access.new_row
    migrations = []

    def migrate(*arguments):
        def run():
            with server.psycopg.connect(url) as connection:
                connection.execute("LOCK TABLE dpq_ledger.version IN ACCESS EXCLUSIVE MODE")
                connection.execute("ALTER TABLE dpq_ledger.version DISABLE TRIGGER append_only")
                connection.execute("UPDATE dpq_ledger.version SET version = 2")
                (n_releases,) = connection.execute(
                    "SELECT count(*) FROM dpq_ledger.releases"
                ).fetchone()
            migrations.append(n_releases)

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.3)
        assert migrations == []  # it waits until the older client has committed
        threads.append(thread)
        return new_row(*arguments)

    threads = []
    monkeypatch.setattr(ledger_access, "new_row", migrate)
    charge(ledger, LOSS, what="by the older client")
    threads[0].join(60)
    assert migrations == [1]
    with pytest.raises(LedgerError, match="version 2 of the tables"):
        charge(ledger, LOSS, what="by the older client")
    monkeypatch.setattr(postgres, "VERSION", 2)
    monkeypatch.setattr(ledger_access, "new_row", new_row)
    charge(ledger, LOSS, what="by the newer client")
    assert len(ledger.records()) == 2


def test_a_restored_dump_keeps_the_total(server):
    source = server.new_database()
    target = server.new_database()
    ledger = PrivacyLedger(source, name="a", eps=1e6, delta=1e-7)
    draws = random.Random(0)
    for _ in range(20):
        eps = draws.uniform(0.001, 1.0)
        charge(ledger, PrivacyLoss(eps, 0.0, eps**2 / 7), what="fit", columns=["é"], note="'\\")
    dump = server.tool("pg_dump", "--dbname", source)
    restore(server, target, dump)
    restored = PrivacyLedger(target, name="a")
    assert restored.spent() == ledger.spent()
    assert opened(restored).contents() == opened(ledger).contents()
    charge(restored, LOSS, what="fit")
    with pytest.raises(server.psycopg.errors.RaiseException):
        server.run("DELETE FROM dpq_ledger.releases", target)


def restore(server, url, dump):
    path = os.path.join(server.folder, f"{secrets.token_hex(4)}.sql")
    with open(path, "wb") as file:
        file.write(dump)
    os.chmod(path, 0o644)
    server.tool("psql", "--quiet", "-v", "ON_ERROR_STOP=1", "--dbname", url, "--file", path)


# Owner and role


@pytest.fixture
def two_roles(server):
    """A database with the statements of the docs run: URLs of its owner and of an analyst."""
    suffix = secrets.token_hex(4)
    owner = f"owner_{suffix}"
    analyst = f"An {suffix}"
    admin = server.new_database()
    database = admin.partition("@/")[2].partition("?")[0]
    server.run(f'CREATE ROLE {owner} LOGIN; CREATE ROLE "{analyst}" LOGIN')
    server.run(f"GRANT CREATE ON DATABASE {database} TO {owner}")
    as_owner = server.url_of(database, owner)
    server.run(owner_statements(), as_owner)
    server.run(role_statements(analyst), as_owner)
    return as_owner, server.url_of(database, analyst.replace(" ", "%20"))


def test_the_role_may_read_and_spend(two_roles):
    as_owner, as_analyst = two_roles
    ledger = PrivacyLedger(as_owner, name="a", eps=1.0)
    charge(f"{as_analyst}#a", LOSS, what="fit")
    assert PrivacyLedger(as_analyst, name="a").spent() == ledger.spent()
    assert ledger.spent().eps == LOSS.eps


def test_the_role_may_do_nothing_else(two_roles, server):
    as_owner, as_analyst = two_roles
    ledger = PrivacyLedger(as_owner, name="a", eps=1.0)
    charge(f"{as_analyst}#a", LOSS, what="fit")
    refusals = (server.psycopg.errors.InsufficientPrivilege, server.psycopg.errors.RaiseException)
    for statement in (
        "UPDATE dpq_ledger.releases SET eps = 0",
        "DELETE FROM dpq_ledger.releases",
        "TRUNCATE dpq_ledger.releases",
        "UPDATE dpq_ledger.ledgers SET name = 'b'",
        "UPDATE dpq_ledger.ledgers SET eps = 1e9",
        "DELETE FROM dpq_ledger.ledgers",
        "INSERT INTO dpq_ledger.ledgers SELECT 'b', 'b', '', 'rows'",
        "UPDATE dpq_ledger.version SET version = 2",
        "ALTER TABLE dpq_ledger.releases DISABLE TRIGGER append_only",
        "DROP TABLE dpq_ledger.releases",
        "CREATE TABLE dpq_ledger.more (x integer)",
    ):
        with pytest.raises(refusals):
            server.run(statement, as_analyst)
    with pytest.raises(LedgerError, match=r"permission denied.*Ask the owner of the tables"):
        PrivacyLedger(as_analyst, name="another", eps=1.0)
    assert ledger.spent().eps == LOSS.eps


def test_a_role_without_rights_is_told_whom_to_ask(two_roles, server):
    as_owner, _ = two_roles
    PrivacyLedger(as_owner, name="a", eps=1.0)
    stranger = f"stranger_{secrets.token_hex(4)}"
    server.run(f"CREATE ROLE {stranger} LOGIN")
    url = as_owner.replace(as_owner.partition("//")[2].partition("@")[0], stranger)
    with pytest.raises(LedgerError, match=r"permission denied.*dpq_sklearn.ledger sql"):
        charge(f"{url}#a", LOSS, what="fit")


# Traps that a role without rights has set in the owner's search path

PLANTED_LOCK = """
CREATE FUNCTION public.pg_advisory_xact_lock(integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    CREATE TABLE public.stolen AS SELECT current_user::text AS victim;
END $$;
"""
PLANTED_OPERATORS = """
CREATE FUNCTION public.yes(float8, integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE OPERATOR public.> (LEFTARG = float8, RIGHTARG = integer, FUNCTION = public.yes);
CREATE OPERATOR public.>= (LEFTARG = float8, RIGHTARG = integer, FUNCTION = public.yes);
"""
NEGATIVE_RELEASE = """
INSERT INTO dpq_ledger.releases
SELECT ledger_id, 1, -1, 0, 0, 0, true, 'r', '{}' FROM dpq_ledger.ledgers
"""


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_planted_function_does_not_run_as_the_owner(server, by_hand):
    url = server.new_database()
    server.run(PLANTED_LOCK, url)
    if by_hand:
        server.run(owner_statements(), url)
    PrivacyLedger(url, eps=1.0)
    assert server.run("SELECT to_regclass('public.stolen')", url) == [(None,)]


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_planted_operator_is_not_bound_into_the_constraints(server, by_hand):
    url = server.new_database()
    server.run(PLANTED_OPERATORS, url)
    if by_hand:
        server.run(owner_statements(), url)
    PrivacyLedger(url, eps=1.0)
    with pytest.raises(server.psycopg.errors.CheckViolation):
        server.run(NEGATIVE_RELEASE, url)


# One statement of a role that may append must not make a ledger unusable


@pytest.mark.parametrize(
    "values",
    [
        "1000, 0, 0, 0, 0, true, 'r', '{}'",
        "2147483647, 0, 0, 0, 0, true, 'r', '{}'",
        "2, 0, 0, 0, 0, true, 'r', 'no JSON'",
        "2, 0, 0, 0, 0, true, 'r', '[]'",
        "2, -1, 0, 0, 0, true, 'r', '{}'",
        "2, 0, 0, 'NaN', 0, true, 'r', '{}'",
        "1, 0, 0, 0, 0, true, 'r', '{}'",
    ],
)
def test_a_malformed_release_is_refused_by_the_tables(two_roles, server, values):
    as_owner, as_analyst = two_roles
    ledger = PrivacyLedger(as_owner, name="a", eps=1.0)
    charge(ledger, LOSS, what="fit")
    with pytest.raises(server.psycopg.Error):
        server.run(
            f"INSERT INTO dpq_ledger.releases SELECT ledger_id, {values} FROM dpq_ledger.ledgers",
            as_analyst,
        )
    charge(f"{as_analyst}#a", LOSS, what="fit")
    assert len(ledger.records()) == 2


# Tables that an earlier version made have fewer constraints


@pytest.fixture
def loose_tables(server):
    """The address of a database whose tables accept any numbers and texts."""
    url = server.new_database()
    PrivacyLedger(url, eps=1.0)
    for constraint in ("eps", "delta", "rho", "pure_eps", "facts"):
        server.run(
            f"ALTER TABLE dpq_ledger.releases DROP CONSTRAINT releases_{constraint}_check", url
        )
    return url


def insert_release(server, url, values):
    server.run(
        f"INSERT INTO dpq_ledger.releases SELECT ledger_id, {values} FROM dpq_ledger.ledgers", url
    )


@pytest.mark.parametrize(
    "facts", ["no JSON", "[]", "{}", '{"time": 5, "what": 7, "columns": {}, "note": []}', "["]
)
def test_a_release_whose_facts_cannot_be_read_counts_and_is_shown(
    server, loose_tables, facts, capsys
):
    ledger = PrivacyLedger(loose_tables)
    insert_release(server, loose_tables, f"1, 0.5, 0, 0.1, 0.5, true, 'r', '{facts}'")
    assert ledger.records()[0].what == "(a record that cannot be read)"
    for arguments in (["show"], ["check"], ["export"], ["export", "--format", "csv"]):
        assert main([arguments[0], loose_tables, *arguments[1:]]) == 0
    assert "0.5 of 1 eps spent in 1 release" in capsys.readouterr().out
    charge(ledger, LOSS, what="fit")
    assert ledger.spent().eps == 0.625
    with pytest.raises(BudgetExceededError):
        charge(ledger, PrivacyLoss(0.5, 0.0, 0.1), what="fit")


@pytest.mark.parametrize("amounts", ["-1, 0, 0, 0", "0, 0, 0, 'NaN'", "0, 2, 0, 0", "0, 0, -1, 0"])
def test_a_release_with_impossible_amounts_counts_as_infinite(
    server, loose_tables, amounts, capsys
):
    ledger = PrivacyLedger(loose_tables)
    charge(ledger, LOSS, what="fit")
    insert_release(server, loose_tables, f"2, {amounts}, true, 'r', '{{}}'")
    assert "1 with impossible amounts, which count as infinite" in repr(ledger)
    assert ledger.remaining().eps == 0.0
    for arguments in (["show"], ["export"], ["export", "--format", "csv"]):
        assert main([arguments[0], loose_tables, *arguments[1:]]) == 0
    assert "NaN" not in amounts or '"NaN"' in capsys.readouterr().out
    for _ in range(2):  # the second attempt knows the first releases already
        with pytest.raises(BudgetExceededError):
            charge(ledger, LOSS, what="fit")


def test_two_huge_releases_count_as_infinite(server, loose_tables):
    ledger = PrivacyLedger(loose_tables)
    for number in (1, 2):
        insert_release(
            server, loose_tables, f"{number}, 1e308, 0, 1e308, 1e308, true, '{number}', '{{}}'"
        )
    assert ledger.spent().eps == float("inf")
    with pytest.raises(BudgetExceededError):
        charge(ledger, LOSS, what="fit")


# Only new releases are read


def test_a_spend_reads_only_releases_that_are_new_to_the_process(address, monkeypatch):
    ledger = PrivacyLedger(address, eps=2.0)
    for _ in range(3):
        charge(ledger, LOSS, what="here")
    with monkeypatch.context() as patched:
        patched.setattr(postgres, "_KNOWN", {})  # as in another process
        charge(ledger, LOSS, what="elsewhere")

    n_read = []
    read = PostgresStore._rows
    monkeypatch.setattr(
        PostgresStore, "_rows", lambda *a: n_read.append(len(rows := read(*a))) or rows
    )
    charge(ledger, LOSS, what="here")
    assert n_read == [3]  # the last known one, the one before this spend, and the other process's
    assert ledger.spent().eps == 5 * LOSS.eps


@pytest.mark.parametrize("deleted", ["id = 1", "id = 2", "id = 3", "true"])
def test_a_deleted_release_that_was_read_before_is_noticed(server, deleted):
    url = server.new_database()
    ledger = PrivacyLedger(url, eps=1.0)
    for _ in range(3):
        charge(ledger, LOSS, what="fit")
    assert ledger.spent().eps == 3 * LOSS.eps
    server.run("ALTER TABLE dpq_ledger.releases DISABLE TRIGGER append_only", url)
    server.run(f"DELETE FROM dpq_ledger.releases WHERE {deleted}", url)
    for attempt in (ledger.spent, lambda: charge(ledger, LOSS, what="fit")):
        with pytest.raises(LedgerError, match="is damaged"):
            attempt()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_every_text_is_refused(server, encoding):
    name = f"test_{secrets.token_hex(6)}"
    server.run(
        f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' "
        "TEMPLATE template0"
    )
    url = server.url_of(name)
    with pytest.raises(LedgerError, match=f"must have the encoding UTF8, got {encoding}"):
        PrivacyLedger(url, eps=1.0)
    assert server.run("SELECT to_regnamespace('dpq_ledger')", url) == [(None,)]


# Settings of the server that must not matter


@pytest.mark.parametrize(
    "setting",
    [
        "default_transaction_isolation = 'serializable'",
        "default_transaction_isolation = 'repeatable read'",
        "extra_float_digits = 0",
        "timezone = 'Asia/Kolkata'",
        "synchronous_commit = off",
        "search_path = 'pg_catalog'",
        "client_encoding = 'LATIN1'",
    ],
)
def test_settings_of_a_database_change_nothing(server, setting):
    url = server.new_database()
    database = url.partition("@/")[2].partition("?")[0]
    ledger = PrivacyLedger(url, eps=2.0)
    server.run(f"ALTER DATABASE {database} SET {setting}")
    loss = PrivacyLoss(0.1 + 0.2, 0.0, 1 / 3)
    threads = [
        threading.Thread(target=charge, args=(ledger, loss), kwargs={"what": "größe €"})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [record.eps for record in ledger.records()] == [0.1 + 0.2] * 4
    assert {record.rho for record in ledger.records()} == {1 / 3}
    assert {record.what for record in ledger.records()} == {"größe €"}
    assert all(record.time.utcoffset().total_seconds() == 0 for record in ledger.records())


def test_commits_wait_for_the_disk_whatever_the_role_prefers(server, monkeypatch):
    url = server.new_database()
    database = url.partition("@/")[2].partition("?")[0]
    ledger = PrivacyLedger(url, eps=1.0)
    server.run(f"ALTER DATABASE {database} SET synchronous_commit = off")
    commit = postgres._commit
    settings = []

    def commit_and_look(cursor):
        settings.append(cursor.execute("SHOW synchronous_commit").fetchone())
        commit(cursor)

    monkeypatch.setattr(postgres, "_commit", commit_and_look)
    charge(ledger, LOSS, what="fit")
    assert settings == [("on",)]


# Passwords


@pytest.fixture
def with_password(own_server):
    """The URL, without and with its password, of a user whom the server asks for one."""
    own_server.run("CREATE ROLE ann LOGIN SUPERUSER PASSWORD 'ge:heim'")
    hba = os.path.join(own_server.folder, "pg_hba.conf")
    with open(hba) as file:
        rules = file.read()
    with open(hba, "w") as file:
        file.write(f"local all ann scram-sha-256\n{rules}")
    own_server.run("SELECT pg_reload_conf()")
    time.sleep(0.5)
    url = own_server.url_of("postgres", "ann")
    return url, url.replace("ann@", "ann:ge%3Aheim@")


@pytest.mark.slow
def test_passwords_come_from_where_psycopg_finds_them(with_password, monkeypatch, tmp_path):
    monkeypatch.setattr(postgres, "PAUSES_BEFORE_RETRIES", ())
    without, with_it = with_password
    with pytest.raises(LedgerError, match="password"):
        PrivacyLedger(without, eps=1.0)

    ledger = PrivacyLedger(with_it, eps=1.0)
    again = pickle.loads(pickle.dumps(ledger))
    charge(again, LOSS, what="in the process that was told")
    assert "heim" not in repr(ledger) + repr(pickle.dumps(ledger))

    monkeypatch.setattr("dpq_sklearn.ledger.addresses._PASSWORDS", {})
    with pytest.raises(LedgerError, match="PGPASSWORD"):
        charge(without, LOSS, what="in another process")
    with monkeypatch.context() as patched:
        patched.setenv("PGPASSWORD", "ge:heim")
        charge(without, LOSS, what="by PGPASSWORD")
    with monkeypatch.context() as patched:
        passfile = tmp_path / "pgpass"
        passfile.write_text("*:*:*:ann:ge\\:heim\n")
        passfile.chmod(0o600)
        patched.setenv("PGPASSFILE", str(passfile))
        charge(without, LOSS, what="by a password file")
    with monkeypatch.context() as patched:
        services = tmp_path / "services.conf"
        host = without.partition("host=")[2].partition("&")[0].replace("%2F", "/")
        services.write_text(
            f"[budgets]\nhost={host}\nuser=ann\npassword=ge:heim\ndbname=postgres\n"
        )
        patched.setenv("PGSERVICEFILE", str(services))
        charge("postgresql://?service=budgets", LOSS, what="by a service")
    monkeypatch.setenv("PGPASSWORD", "ge:heim")
    assert len(ledger.records()) == 4


def test_existing_ledgers_are_found_by_name(server):
    url = server.new_database()
    assert not store_at(url).exists()
    PrivacyLedger(url, name="a", eps=1.0)
    assert store_at(url, "a").exists() and not store_at(url, "b").exists()
    PrivacyLedger(f"{url}#b", rho=1.0)
    assert PrivacyLedger(url, name="a").caps == (1.0, 0.0, None)
    assert PrivacyLedger(url, name="b").caps == (None, None, 1.0)
