"""Nobody but its holder can drop a ledger's lock, and no ledger comes back with its old budget."""

import contextlib
import multiprocessing
import os
import pathlib
import pickle
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

from dpq_sklearn import DPKBinsDiscretizer
from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.ledger import access as ledger_access
from dpq_sklearn.ledger import file as ledger_file
from dpq_sklearn.ledger import locks
from dpq_sklearn.ledger import store as ledger_memory
from dpq_sklearn.ledger.contents import LedgerError
from dpq_sklearn.ledger.ledger import PrivacyLedger, charge
from tests.marks import slow

ROOT = pathlib.Path(__file__).parents[1]
ALL = PrivacyLoss(1.0, 0.0, 0.125)

needs_flock = pytest.mark.skipif(locks.fcntl is None, reason="needs POSIX locks")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
needs_kill = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "budget.sqlite")


@pytest.fixture(scope="module")
def processes():
    """A way to start processes that is quick, and does not fork a process that has threads."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        pytest.skip("needs the forkserver start method")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.test_ledger_locks", "tests.test_ledger_processes"])
    return context


def answer_of(function, path, connection):
    """Say that the work begins, and how it ended."""
    connection.send("begins")
    try:
        connection.send(("done", function(path)))
    except Exception as error:
        connection.send((type(error).__name__, str(error)))


def spend_all(path):
    charge(path, ALL, what="elsewhere")


def number_of_records(path):
    return len(PrivacyLedger(path).records())


def started(processes, function, path):
    """Let another process call a function of this module; return where it answers."""
    receiver, sender = processes.Pipe(duplex=False)
    worker = processes.Process(target=answer_of, args=(function, path, sender), daemon=True)
    worker.start()
    sender.close()
    assert receiver.recv() == "begins"
    return receiver


@contextlib.contextmanager
def stopped_spend(patch):
    """Let a spend stop between its check and its commit: (it is there, it may go on)."""
    is_there = threading.Event()
    may_go_on = threading.Event()
    new_row = ledger_access.new_row

    def slow_release(*arguments, **keywords):
        is_there.set()
        assert may_go_on.wait(60)
        return new_row(*arguments, **keywords)

    patch.setattr(ledger_access, "new_row", slow_release)
    yield is_there, may_go_on
    may_go_on.set()


@pytest.fixture
def in_the_middle(monkeypatch):
    with stopped_spend(monkeypatch) as events:
        yield events


@needs_flock
@pytest.mark.parametrize("files", ["all files beside it", *slow("the ledger")])
def test_reading_the_file_in_the_same_process_drops_no_lock(
    processes, path, tmp_path, in_the_middle, files
):
    ledger = PrivacyLedger(path, eps=1.0)
    is_there, may_go_on = in_the_middle
    here = threading.Thread(target=charge, args=(ledger, ALL), kwargs={"what": "here"})
    here.start()
    assert is_there.wait(60)

    for file in [pathlib.Path(path)] if files == "the ledger" else tmp_path.iterdir():
        file.read_bytes()  # a backup in another thread, which closes the file behind it
    elsewhere = started(processes, spend_all, path)
    assert not elsewhere.poll(0.5)

    may_go_on.set()
    here.join(60)
    assert elsewhere.recv()[0] == "BudgetExceededError"
    assert [record.what for record in ledger.records()] == ["here"]


@needs_flock
def test_a_reader_does_not_look_at_a_commit_whose_lock_was_dropped(processes, path, monkeypatch):
    """Without a lock the journal looks like that of a crash, and a reader would roll it back."""
    ledger = PrivacyLedger(path, eps=1.0)
    insert = ledger_file._insert_last_release
    readers = []

    def insert_and_lose_the_lock(*arguments):
        insert(*arguments)
        pathlib.Path(path).read_bytes()
        readers.append(started(processes, number_of_records, path))
        assert not readers[0].poll(0.5)

    monkeypatch.setattr(ledger_file, "_insert_last_release", insert_and_lose_the_lock)
    charge(ledger, ALL, what="fit")
    assert readers[0].recv() == ("done", 1)


def test_a_spend_that_would_overwrite_another_one_is_refused(path, monkeypatch):
    """A program that does not use our lock spends after SQLite's lock was lost."""
    ledger = PrivacyLedger(path, eps=4.0)
    more = path + "2"
    shutil.copyfile(path, more)
    charge(more, ALL, what="by another program")
    insert = ledger_file._insert_last_release

    def insert_late(*arguments):
        insert(*arguments)
        shutil.copyfile(more, path)

    monkeypatch.setattr(ledger_file, "_insert_last_release", insert_late)
    with pytest.raises(LedgerError, match="was written to while it was locked"):
        charge(ledger, ALL, what="here")
    assert [record.what for record in ledger.records()] == ["by another program"]


def test_a_commit_that_the_file_does_not_hold_is_an_error(path, monkeypatch):
    ledger = PrivacyLedger(path, eps=4.0)
    earlier = pathlib.Path(path).read_bytes()
    read = ledger_file._state_on_disk

    def read_what_was_put_back(path):
        pathlib.Path(path).write_bytes(earlier)
        return read(path)

    monkeypatch.setattr(ledger_file, "_state_on_disk", read_what_was_put_back)
    with pytest.raises(LedgerError, match="does not hold the release that was committed"):
        charge(ledger, ALL, what="fit")


@needs_flock
def test_threads_wait_for_each_other_and_give_up_in_the_end(path, monkeypatch, in_the_middle):
    ledger = PrivacyLedger(path, eps=4.0)
    is_there, _ = in_the_middle
    here = threading.Thread(target=charge, args=(ledger, ALL), kwargs={"what": "here"})
    here.start()
    assert is_there.wait(60)
    monkeypatch.setattr(ledger_file, "SECONDS_TO_WAIT_FOR_THE_LOCK", 0.05)
    for attempt in (ledger.spent, lambda: charge(path, ALL, what="there")):
        with pytest.raises(LedgerError, match="locked") as caught:
            attempt()
        assert repr(path) in str(caught.value)


@needs_flock
def test_readers_share_the_lock(path):
    ledger = PrivacyLedger(path, eps=4.0)
    with locks.locked(path, exclusive=False, seconds=1):
        assert ledger.spent().eps == 0.0


@needs_flock
def test_a_lock_that_is_deleted_while_one_waits_for_it_is_made_anew(path):
    PrivacyLedger(path, eps=4.0)
    order = []

    def wait():
        with locks.locked(path, exclusive=True, seconds=60):
            order.append(os.path.exists(locks.lock_path(path)))

    with locks.locked(path, exclusive=True, seconds=1):
        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.1)
        os.unlink(locks.lock_path(path))
    waiting.join(60)
    assert order == [True]


@needs_flock
def test_links_to_one_ledger_have_one_lock(path, tmp_path):
    PrivacyLedger(path, eps=4.0)
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link"
    os.symlink(path, link)
    assert locks.lock_path(link) == locks.lock_path(path)
    PrivacyLedger(link)
    assert os.listdir(tmp_path / "folder") == ["link"]


@needs_flock
def test_the_lock_has_the_permissions_of_the_ledger(path):
    PrivacyLedger(path, eps=4.0)
    os.unlink(locks.lock_path(path))
    os.chmod(path, 0o660)
    charge(path, ALL, what="fit")
    assert os.stat(locks.lock_path(path)).st_mode & 0o777 == 0o660


@pytest.mark.slow
@needs_flock
@needs_fork
def test_a_lock_does_not_live_on_in_a_forked_child(path):
    """The child of a holder that is killed would keep all others out."""
    PrivacyLedger(path, eps=4.0)
    script = (
        "import os, sys, time\n"
        "from dpq_sklearn.ledger import locks\n"
        "with locks.locked(sys.argv[1], exclusive=True, seconds=1):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        time.sleep(60)\n"
        "    print(child, flush=True)\n"
        "    time.sleep(60)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, path], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    child = int(holder.stdout.readline())
    try:
        with pytest.raises(TimeoutError), locks.locked(path, exclusive=True, seconds=0.1):
            pass
        holder.kill()
        holder.wait()
        with locks.locked(path, exclusive=True, seconds=5):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        holder.stdout.close()


@needs_flock
def test_no_handle_stays_open(path):
    ledger = PrivacyLedger(path, eps=4.0)
    charge(ledger, ALL, what="fit")
    with contextlib.suppress(ValueError):
        charge(ledger, PrivacyLoss(9.0, 0.0, 9.0), what="fit")
    assert set() == locks._HANDLES


@needs_flock
def test_older_versions_are_kept_out_as_before(path, in_the_middle):
    """Older versions only use SQLite's lock."""
    ledger = PrivacyLedger(path, eps=1.0)
    is_there, _ = in_the_middle
    here = threading.Thread(target=charge, args=(ledger, ALL), kwargs={"what": "here"})
    here.start()
    assert is_there.wait(60)
    older = sqlite3.connect(path, timeout=0.05)
    with contextlib.closing(older), pytest.raises(sqlite3.OperationalError, match="locked"):
        older.execute("BEGIN IMMEDIATE")


@needs_flock
@pytest.mark.parametrize("target", ["nothing", "a file"])
def test_a_symbolic_link_as_the_lock_is_an_error(path, tmp_path, target):
    ledger = PrivacyLedger(path, eps=4.0)
    os.unlink(locks.lock_path(path))
    if target == "a file":
        (tmp_path / "target").touch()
    os.symlink(tmp_path / "target", locks.lock_path(path))
    assert "must be a file, not a symbolic link" in repr(ledger)
    with pytest.raises(LedgerError, match="must be a file, not a symbolic link"):
        charge(ledger, ALL, what="fit")


def spend_in_a_child_that_is_forked_while_a_thread_spends(path):
    """Return the exit code of the child, and what the ledger holds."""
    ledger = PrivacyLedger(path, eps=4.0)
    is_there = threading.Event()
    new_row = ledger_access.new_row

    def slow_release(*arguments, **keywords):
        is_there.set()
        time.sleep(0.3)
        return new_row(*arguments, **keywords)

    ledger_file.SECONDS_TO_WAIT_FOR_THE_LOCK = 5.0
    ledger_access.new_row = slow_release
    here = threading.Thread(target=charge, args=(ledger, ALL), kwargs={"what": "here"})
    here.start()
    assert is_there.wait(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            charge(ledger, ALL, what="in the child")
            os._exit(0)
        os._exit(1)

    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    here.join(60)
    return code, sorted(record.what for record in ledger.records())


@needs_fork
def test_a_child_that_is_forked_while_a_thread_spends_can_spend_too(processes, path):
    """It would inherit SQLite's record of locks that it does not hold, and wait for them."""
    answers = started(processes, spend_in_a_child_that_is_forked_while_a_thread_spends, path)
    assert answers.recv() == ("done", (0, ["here", "in the child"]))


# Ledgers in memory


def charge_in_a_grandchild_with_the_number_of_the_maker(_):
    """Return what the grandchild is told, and what is left for the maker."""
    ledger = PrivacyLedger(eps=1.0)
    number = os.getpid()
    receiver, sender = os.pipe()
    if (child := os.fork()) == 0:
        if os.fork() == 0:
            ledger_memory.os.getpid = lambda: number
            try:
                charge(ledger, ALL, what="fit")
                os.write(sender, b"paid")
            except LedgerError as error:
                os.write(sender, str(error).encode())
        else:
            os.wait()
        os._exit(0)

    os.close(sender)
    with os.fdopen(receiver) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said, ledger.remaining().eps


@needs_fork
def test_a_grandchild_with_the_number_of_the_maker_has_no_budget(processes):
    """Process ids are reused, and the memory of the grandchild holds the maker's unspent ledger."""
    answers = started(processes, charge_in_a_grandchild_with_the_number_of_the_maker, None)
    state, (said, remaining_eps) = answers.recv()
    assert state == "done"
    assert "belongs to the process that made it" in said
    assert remaining_eps == 1.0


def charge_in_a_child_of_a_busy_parent(_):
    """Return the exit code of a child that is forked while a thread of its parent spends."""
    ledger = PrivacyLedger(eps=1.0)
    with pytest.MonkeyPatch.context() as patch, stopped_spend(patch) as (is_there, may_go_on):
        here = threading.Thread(target=charge, args=(ledger, ALL), kwargs={"what": "here"})
        here.start()
        assert is_there.wait(60)
        with warnings.catch_warnings():
            # Python warns of a fork beside threads, and such a fork is what is tested here.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            may_go_on.set()
            signal.alarm(20)  # if it waits for a lock that it inherited
            with contextlib.suppress(BaseException):
                charge(PrivacyLedger(eps=1.0), ALL, what="in the child")
                os._exit(0)
            os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_fork
def test_a_child_of_a_busy_parent_can_have_ledgers_of_its_own(processes):
    answers = started(processes, charge_in_a_child_of_a_busy_parent, None)
    assert answers.recv() == ("done", 0)


# A path whose file was replaced


@pytest.mark.parametrize("first_use", ["object", "path"])
def test_a_path_means_the_ledger_that_was_there_first(path, first_use):
    ledger = PrivacyLedger(path, eps=1.0)
    if first_use == "path":
        ledger_access._FIRST_MET.clear()
    charge(path, ALL, what="fit")
    os.unlink(path)
    new = PrivacyLedger(path, eps=1.0)
    for old in (ledger, path):
        with pytest.raises(LedgerError, match=r"created anew.*use PrivacyLedger\("):
            charge(old, ALL, what="fit")
    assert new.records() == []
    charge(new, ALL, what="a new dataset")


# A kill between the payment and the first look at the data


def watched_batches(ledger, connection):
    """Yield batches; the second one is asked for when the data are read."""
    connection.send(("asks", len(ledger.records())))
    yield np.arange(20.0).reshape(-1, 1)
    connection.send(("reads", len(ledger.records())))
    yield np.arange(20.0).reshape(-1, 1)


def fit_until_killed(path, connection):
    """Fit again and again. `path` is None for a ledger in memory."""
    ledger = PrivacyLedger(path, eps=1e9)
    connection.send(pickle.dumps(ledger))
    discretizer = DPKBinsDiscretizer(2, eps=0.125, ledger=ledger)
    while True:
        discretizer.fit_batches(watched_batches(ledger, connection))


@pytest.mark.slow
@needs_kill
@pytest.mark.parametrize("in_memory", [False, True])
def test_no_kill_between_payment_and_reading_leaves_a_reading_unpaid(processes, path, in_memory):
    moments = random.Random(2)
    reads_seen = 0
    n_before = 0

    for _ in range(25):
        receiver, sender = processes.Pipe(duplex=False)
        arguments = (None if in_memory else path, sender)
        worker = processes.Process(target=fit_until_killed, args=arguments)
        worker.start()
        sender.close()
        ledger = pickle.loads(receiver.recv())
        said = [receiver.recv() for _ in range(moments.randint(1, 6))]
        time.sleep(moments.uniform(0.0, 0.02))
        os.kill(worker.pid, signal.SIGKILL)
        worker.join(60)
        with contextlib.suppress(EOFError):
            while True:
                said.append(receiver.recv())
        receiver.close()

        paid_at_reads = [n_records - n_before for word, n_records in said if word == "reads"]
        assert paid_at_reads == list(range(1, len(paid_at_reads) + 1))
        if in_memory:
            with pytest.raises(LedgerError, match="belongs to the process that made it"):
                charge(ledger, ALL, what="fit")
        else:
            n_asked = sum(word == "asks" for word, _ in said)
            n_paid = len(ledger.records()) - n_before
            assert len(paid_at_reads) <= n_paid <= n_asked
            n_before += n_paid
        reads_seen += len(paid_at_reads)
    assert reads_seen > 25
