"""Many processes and one ledger: together never more than the cap, and no record is ever lost."""

import contextlib
import multiprocessing
import os
import random
import signal
import sys
import time

import pytest

from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.ledger.access import BudgetExceededError
from dpq_sklearn.ledger.contents import LedgerError
from dpq_sklearn.ledger.ledger import PrivacyLedger, charge

LOSS = PrivacyLoss(0.125, 0.0, 0.002)


@pytest.fixture(scope="module")
def processes():
    """A way to start processes that is quick, and does not fork a process that has threads."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        pytest.skip("needs the forkserver start method")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.test_ledger_processes"])
    return context


def charge_in_turn(path, n_times, barrier, results):
    """Ask again and again, and report how often it was granted."""
    barrier.wait(60)
    granted = 0
    for _ in range(n_times):
        with contextlib.suppress(BudgetExceededError):
            charge(path, LOSS, what="fit", note=f"process {os.getpid()}")
            granted += 1
    results.put(granted)


@pytest.mark.slow
@pytest.mark.parametrize("repetition", range(20))
def test_eight_processes_that_ask_for_ten_times_the_cap_spend_exactly_the_cap(
    processes, tmp_path, repetition
):
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", eps=1.0)
    barrier, results = processes.Barrier(8), processes.Queue()
    workers = [
        processes.Process(target=charge_in_turn, args=(ledger.path, 10, barrier, results))
        for _ in range(8)
    ]
    for worker in workers:
        worker.start()
    granted = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 8
    assert sum(granted) == len(ledger.records()) == 8
    assert ledger.spent().eps == 1.0


def create_and_charge(path, barrier, results):
    barrier.wait(60)
    ledger = PrivacyLedger(path, eps=1.0)
    charge(ledger, LOSS, what="fit")
    results.put(ledger)


@pytest.mark.slow
@pytest.mark.parametrize("repetition", range(5))
def test_processes_that_create_one_ledger_at_once_share_it(processes, tmp_path, repetition):
    path = str(tmp_path / "budget.sqlite")
    barrier, results = processes.Barrier(4), processes.Queue()
    workers = [
        processes.Process(target=create_and_charge, args=(path, barrier, results)) for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    ledgers = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert len({hash(ledger) for ledger in ledgers}) == 1
    assert all(len(ledger.records()) == 4 for ledger in ledgers)
    assert sorted(os.listdir(tmp_path)) == ["budget.sqlite", "budget.sqlite-lock"]


def charge_until_killed(path, connection):
    """Say so before every spend and after it; the end comes at any moment between."""
    number = 0
    while True:
        number += 1
        connection.send(("asks", number))
        charge(path, LOSS, what="fit", note=f"{os.getpid()} {number}")
        connection.send(("paid", number))


def killed_worker(processes, path, moments):
    """Start a worker, kill it at a random moment of its work; return its id and what it said."""
    receiver, sender = processes.Pipe(duplex=False)
    worker = processes.Process(target=charge_until_killed, args=(path, sender))
    worker.start()
    sender.close()
    said = [receiver.recv() for _ in range(moments.randint(1, 4))]  # from now on it is at work
    time.sleep(moments.uniform(0.0, 0.006))
    os.kill(worker.pid, signal.SIGKILL)
    worker.join(60)
    with contextlib.suppress(EOFError):
        while True:
            said.append(receiver.recv())
    receiver.close()
    return worker.pid, said


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_no_spend_is_missing_after_a_kill_at_any_of_200_moments(processes, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", eps=1e9)
    moments = random.Random(0)
    n_before = 0
    for _ in range(200):
        pid, said = killed_worker(processes, ledger.path, moments)
        records = ledger.records()
        notes = [record.note for record in records[n_before:]]
        paid = [f"{pid} {number}" for word, number in said if word == "paid"]
        asked = [f"{pid} {number}" for word, number in said if word == "asks"]
        # Everything that was paid is there; of what was asked for last, either all or nothing.
        assert notes in (paid, asked)
        assert ledger.spent().eps == len(records) * LOSS.eps
        n_before = len(records)
    assert n_before > 0
    charge(ledger, LOSS, what="fit")  # clears away what the last one that was killed left
    assert sorted(os.listdir(tmp_path)) == ["budget.sqlite", "budget.sqlite-lock"]


def create_until_killed(folder, connection):
    number = 0
    while True:
        connection.send(number)
        PrivacyLedger(os.path.join(folder, f"{number}.sqlite"), eps=1.0)
        number += 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_ledger_is_created_whole_or_not_at_all(processes, tmp_path):
    moments = random.Random(1)
    for attempt in range(40):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        receiver, sender = processes.Pipe(duplex=False)
        worker = processes.Process(target=create_until_killed, args=(str(folder), sender))
        worker.start()
        sender.close()
        receiver.recv()
        time.sleep(moments.uniform(0.0, 0.01))
        os.kill(worker.pid, signal.SIGKILL)
        worker.join(60)
        receiver.close()
        for path in folder.glob("*.sqlite"):
            assert PrivacyLedger(path).caps == (1.0, 0.0, None)


def fork_and_charge(path, results):
    """Charge in a child and in its parent after a fork, through the same object."""
    ledger = PrivacyLedger(path)
    charge(ledger, LOSS, what="before the fork")
    child = os.fork()
    for _ in range(5):
        charge(ledger, LOSS, what="child" if child == 0 else "parent")
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    results.put(True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_an_object_may_be_used_on_both_sides_of_a_fork(processes, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", eps=100.0)
    results = processes.Queue()
    worker = processes.Process(target=fork_and_charge, args=(ledger.path, results))
    worker.start()
    assert results.get(timeout=60)
    worker.join(60)
    assert sorted({record.what for record in ledger.records()}) == [
        "before the fork",
        "child",
        "parent",
    ]
    assert len(ledger.records()) == 11


def attempts_elsewhere(ledger):
    """Return what a ledger in memory says that comes from another process."""
    with pytest.raises(LedgerError) as unread:
        ledger.spent()
    with pytest.raises(LedgerError) as unpaid:
        charge(ledger, LOSS, what="fit")
    return [str(unread.value), str(unpaid.value), repr(ledger)]


def report_attempts(ledger, results):
    results.put(attempts_elsewhere(ledger))


def fork_in_memory(results):
    """Use a ledger in memory in a forked child, whose memory holds a copy of it."""
    ledger = PrivacyLedger(eps=1.0)
    if os.fork() == 0:
        results.put(attempts_elsewhere(ledger))
        results.close()
        results.join_thread()
        os._exit(0)
    os.wait()
    results.put(ledger.spent().eps)


def test_ledger_in_memory_is_refused_in_a_process_that_it_is_sent_to(processes):
    ledger, results = PrivacyLedger(eps=1.0), processes.Queue()
    worker = processes.Process(target=report_attempts, args=(ledger, results))
    worker.start()
    outcomes = results.get(timeout=60)
    worker.join(60)
    assert all("belongs to the process that made it" in outcome for outcome in outcomes)
    assert ledger.records() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_ledger_in_memory_is_refused_in_a_forked_process(processes):
    results = processes.Queue()
    worker = processes.Process(target=fork_in_memory, args=(results,))
    worker.start()
    outcomes, spent_by_parent = results.get(timeout=60), results.get(timeout=60)
    worker.join(60)
    assert all("belongs to the process that made it" in outcome for outcome in outcomes)
    assert spent_by_parent == 0.0


@pytest.mark.slow
def test_caps_hold_in_a_new_python_that_knows_only_the_path(tmp_path):
    import subprocess

    ledger = PrivacyLedger(tmp_path / "budget.sqlite", eps=0.125)
    script = (
        "import sys; from tests.test_ledger_processes import LOSS, charge\n"
        "charge(sys.argv[1], LOSS, what='another day')"
    )
    command = [sys.executable, "-c", script, ledger.path]
    assert subprocess.run(command, capture_output=True).returncode == 0
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 1 and "BudgetExceededError" in again.stderr
    assert [record.what for record in ledger.records()] == ["another day"]
