"""The ledger's file: nothing is lost, nothing is reset, and every failure names the file."""

import contextlib
import itertools
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pytest

from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.ledger import file as ledger_file
from dpq_sklearn.ledger.__main__ import main
from dpq_sklearn.ledger.contents import Caps, LedgerError, new_summary
from dpq_sklearn.ledger.file import FileStore
from dpq_sklearn.ledger.ledger import PrivacyLedger, charge
from dpq_sklearn.ledger.locks import LockFile

ROOT = pathlib.Path(__file__).parents[1]
LOSS = PrivacyLoss(0.25, 0.0, 0.0078125)
FACTS = {"what": "fit", "columns": ["age", "income"], "detail": "n_bins=5"}
NOBODY = 65534

needs_posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files and limits")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "budget.sqlite")


def make_ledger(path, n_records):
    ledger = PrivacyLedger(path, eps=100.0)
    for _ in range(n_records):
        charge(ledger, LOSS, **FACTS)
    return ledger


def remove(path):
    for suffix in ("", "-journal", "-wal", "-shm", "-lock"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + suffix)


def run_script(script, *arguments, before=()):
    """Run a script in a new Python process and return its output."""
    command = [*before, sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Missing, of another kind, of another time


def test_path_in_a_missing_folder_raises(tmp_path):
    path = str(tmp_path / "missing" / "budget.sqlite")
    for attempt in (lambda: PrivacyLedger(path, eps=1.0), lambda: charge(path, LOSS, what="fit")):
        with pytest.raises(LedgerError, match="folder") as caught:
            attempt()
        assert repr(path) in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_file_deleted_between_two_fits_is_an_error_and_no_new_budget(path):
    ledger = make_ledger(path, 2)
    os.unlink(path)
    for target in (ledger, path):
        with pytest.raises(LedgerError, match="is missing"):
            charge(target, LOSS, what="fit")
    with pytest.raises(LedgerError, match="is missing"):
        ledger.spent()
    assert not os.path.exists(path)


def test_file_deleted_just_before_it_is_opened_is_not_created(path, monkeypatch):
    ledger, connect = make_ledger(path, 2), sqlite3.connect

    def connect_too_late(*arguments, **options):
        os.unlink(path)
        return connect(*arguments, **options)

    monkeypatch.setattr(sqlite3, "connect", connect_too_late)
    with pytest.raises(LedgerError, match="is missing"):
        charge(ledger, LOSS, what="fit")
    assert not os.path.exists(path)


def test_file_deleted_and_created_anew_is_not_the_ledger_of_an_older_object(path):
    ledger = make_ledger(path, 2)
    os.unlink(path)
    PrivacyLedger(path, eps=100.0)
    for attempt in (ledger.spent, ledger.records, lambda: charge(ledger, LOSS, what="fit")):
        with pytest.raises(LedgerError, match="created anew"):
            attempt()
    assert PrivacyLedger(path).records() == []


def test_newer_format_raises(path):
    make_ledger(path, 1)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 3")
    before = pathlib.Path(path).read_bytes()
    for attempt in (lambda: PrivacyLedger(path), lambda: charge(path, LOSS, what="fit")):
        with pytest.raises(LedgerError, match=r"has format 3, .* knows formats up to 2") as caught:
            attempt()
        assert repr(path) in str(caught.value)
    assert pathlib.Path(path).read_bytes() == before


def other_database(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE cookies (name TEXT)")


@pytest.mark.parametrize(
    "make",
    [
        lambda path: pathlib.Path(path).touch(),
        lambda path: pathlib.Path(path).write_bytes(b"not a ledger" * 1000),
        lambda path: pathlib.Path(path).write_bytes(b"SQLite format 3\0"),
        other_database,
        os.mkdir,
    ],
    ids=["empty", "text", "header only", "another database", "folder"],
)
def test_file_of_another_kind_raises_and_stays_as_it_is(path, make):
    make(path)
    before = None if os.path.isdir(path) else pathlib.Path(path).read_bytes()
    for attempt in (
        lambda: PrivacyLedger(path),
        lambda: PrivacyLedger(path, eps=1.0),
        lambda: charge(path, LOSS, what="fit"),
    ):
        with pytest.raises(LedgerError) as caught:
            attempt()
        assert repr(path) in str(caught.value)
    assert before is None or pathlib.Path(path).read_bytes() == before


@needs_posix
def test_link_to_a_ledger_is_the_ledger_and_a_dangling_one_is_an_error(path, tmp_path):
    link = str(tmp_path / "link.sqlite")
    os.symlink(path, link)
    with pytest.raises(LedgerError, match="is missing"):
        PrivacyLedger(link, eps=1.0)
    ledger = make_ledger(path, 1)
    charge(link, LOSS, what="fit")
    assert len(ledger.records()) == 2


def test_journal_of_a_deleted_ledger_is_not_rolled_back_into_a_new_one(path):
    pathlib.Path(path + "-journal").write_bytes(b"old")
    with pytest.raises(LedgerError, match="journal"):
        PrivacyLedger(path, eps=1.0)
    assert not os.path.exists(path)


def test_creation_leaves_nothing_but_the_ledger(path, tmp_path):
    make_ledger(path, 3)
    assert sorted(os.listdir(tmp_path)) == ["budget.sqlite", "budget.sqlite-lock"]


def test_creation_works_without_hard_links_and_never_replaces_a_ledger(path, monkeypatch):
    def no_links(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    ledger = make_ledger(path, 1)
    FileStore(path).create(new_summary(ledger.caps, Neighbours.ROWS))
    assert len(ledger.records()) == 1


def test_the_first_of_two_that_create_wins(path):
    ledger = make_ledger(path, 1)
    caps = Caps(7.0, 0.0, None)
    FileStore(path).create(new_summary(caps, Neighbours.ROWS))
    assert PrivacyLedger(path).caps == ledger.caps


# Locks


def locked(path, released):
    """Hold the lock of a ledger until an event is set."""
    held = threading.Event()

    def hold():
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            held.set()
            released.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    return thread


def test_a_locked_file_waits(path):
    ledger, released = make_ledger(path, 1), threading.Event()
    holder = locked(path, released)
    waiting = threading.Thread(target=charge, args=(path, LOSS), kwargs={"what": "fit"})
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    released.set()
    waiting.join(60)
    holder.join(60)
    assert len(ledger.records()) == 2


def test_a_file_that_stays_locked_is_an_error(path, monkeypatch):
    ledger, released = make_ledger(path, 1), threading.Event()
    monkeypatch.setattr(ledger_file, "SECONDS_TO_WAIT_FOR_THE_LOCK", 0.05)
    holder = locked(path, released)
    for attempt in (lambda: charge(path, LOSS, what="fit"), ledger.spent):
        with pytest.raises(LedgerError, match="locked") as caught:
            attempt()
        assert repr(path) in str(caught.value)
    released.set()
    holder.join(60)
    assert len(ledger.records()) == 1


def test_threads_share_a_budget(path):
    ledger = PrivacyLedger(path, eps=1.0)
    admitted = []

    def spend():
        for _ in range(5):
            with contextlib.suppress(ValueError):
                charge(ledger, PrivacyLoss(0.125, 0.0, 0.01), what="fit")
                admitted.append(1)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == len(ledger.records()) == 8


# A commit that reports an error


def connections_that_fail_at_commit(monkeypatch, commits):
    """Let a commit raise, after it was done or instead of it."""

    class Failing(sqlite3.Connection):
        def execute(self, statement, *arguments):
            if statement != "COMMIT":
                return super().execute(statement, *arguments)
            if commits:
                super().execute(statement)
            raise sqlite3.OperationalError("disk I/O error")

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Failing))


def test_failed_commit_spends_nothing(path, monkeypatch):
    ledger = make_ledger(path, 1)
    connections_that_fail_at_commit(monkeypatch, commits=False)
    with pytest.raises(LedgerError, match="disk I/O error") as caught:
        charge(ledger, LOSS, what="fit")
    assert "has recorded" not in str(caught.value)
    assert len(ledger.records()) == 1


def test_failed_commit_that_was_recorded_all_the_same_is_an_error_that_says_so(path, monkeypatch):
    """The disk may still lose the record, so nothing may be read."""
    ledger = make_ledger(path, 1)
    connections_that_fail_at_commit(monkeypatch, commits=True)
    with pytest.raises(LedgerError, match="has recorded the release") as caught:
        charge(ledger, LOSS, what="fit")
    records = ledger.records()
    assert len(records) == 2 and records[-1].release_id in str(caught.value)


# Permissions, as a user whom they bind

AS_ORDINARY_USER = """
import os, sqlite3, sys
from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.ledger.ledger import PrivacyLedger, charge
from dpq_sklearn.ledger.contents import LedgerError

path, file_mode, folder_mode = sys.argv[1], int(sys.argv[2], 8), int(sys.argv[3], 8)
if os.geteuid() == 0:
    os.chown(os.path.dirname(path), 65534, 65534)
    os.setgid(65534)
    os.setuid(65534)
ledger = PrivacyLedger(path, eps=1.0)
loss = PrivacyLoss(0.25, 0.0, 0.01)
charge(ledger, loss, what="fit")
os.chmod(path, file_mode)
os.chmod(os.path.dirname(path), folder_mode)

def attempt(action):
    try:
        return action()
    except LedgerError as error:
        assert path in str(error), error
        return f"refused: {error}"

print(attempt(lambda: charge(path, loss, what="fit")))
print(attempt(lambda: ledger.spent().eps))
print(attempt(lambda: PrivacyLedger(path + "2", eps=1.0) and "created"))
os.chmod(os.path.dirname(path), 0o755)
os.chmod(path, 0o644)
print(ledger.spent().eps)
"""


@pytest.mark.slow
@needs_posix
@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "charged", "read", "created"),
    [
        ("444", "755", "refused", "0.25", "created"),
        ("644", "555", "refused", "0.25", "refused"),
        ("000", "755", "refused", "refused", "created"),
        ("644", "000", "refused", "refused", "refused"),
    ],
    ids=["read-only file", "read-only folder", "unreadable file", "closed folder"],
)
def test_permission_denied_is_an_error_before_anything_is_spent(
    file_mode, folder_mode, charged, read, created
):
    folder = tempfile.mkdtemp()  # not in tmp_path, which other users may not enter
    try:
        path = os.path.join(folder, "budget.sqlite")
        lines = run_script(AS_ORDINARY_USER, path, file_mode, folder_mode).splitlines()
    finally:
        shutil.rmtree(folder)
    assert [line.split(":")[0] for line in lines] == [charged, read, created, "0.25"]


# A full disk

ON_A_LIMITED_DISK = """
import resource, sys
from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.ledger.ledger import PrivacyLedger, charge
from dpq_sklearn.ledger.contents import LedgerError

ledger = PrivacyLedger(sys.argv[1], eps=1000.0)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
n_charged = 0
try:
    while True:
        charge(ledger, PrivacyLoss(0.25, 0.0, 0.01), what="fit")
        n_charged += 1
except LedgerError as error:
    assert sys.argv[1] in str(error), error
assert len(ledger.records()) == n_charged, (len(ledger.records()), n_charged)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
charge(ledger, PrivacyLoss(0.25, 0.0, 0.01), what="fit")
assert len(ledger.records()) == n_charged + 1
print(n_charged)
"""


@pytest.mark.slow
@needs_posix
@pytest.mark.parametrize("most_bytes", [1, 4096, 14_000, 20_480])
def test_file_that_may_not_grow_is_an_error_and_loses_nothing(path, most_bytes):
    n_charged = int(run_script(ON_A_LIMITED_DISK, path, most_bytes))
    assert n_charged == 0 if most_bytes <= 4096 else n_charged > 5


ON_A_FULL_DISK = """
import os, subprocess, sys
from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.ledger.ledger import PrivacyLedger, charge
from dpq_sklearn.ledger.contents import LedgerError

folder = sys.argv[1]
mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder]
if subprocess.run(mount, capture_output=True).returncode:
    print("cannot mount")
    sys.exit()
path, filler = os.path.join(folder, "budget.sqlite"), os.path.join(folder, "filler")
ledger = PrivacyLedger(path, eps=1000.0)
n_charged = n_refused = 0
for free_pages in [8, 7, 6, 5, 4, 3, 2, 1, 0] * 2:
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(max(file.tell() - 4096 * free_pages, 0))
    for _ in range(5):
        try:
            charge(ledger, PrivacyLoss(0.25, 0.0, 0.01), what="fit")
            n_charged += 1
        except LedgerError as error:
            assert path in str(error), error
            n_refused += 1
        assert len(ledger.records()) == n_charged
    try:
        PrivacyLedger(path + "2", eps=1.0)
        os.unlink(path + "2")
    except LedgerError as error:
        assert path in str(error), error
    files = {"budget.sqlite", "budget.sqlite-lock", "budget.sqlite2-lock", "filler"}
    assert set(os.listdir(folder)) <= files, os.listdir(folder)
    os.unlink(filler)
charge(ledger, PrivacyLoss(0.25, 0.0, 0.01), what="fit")
assert len(ledger.records()) == n_charged + 1
print(n_charged, n_refused)
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare to mount a small disk")
def test_full_disk_is_an_error_and_loses_nothing(tmp_path):
    """On a small disk of its own, mounted where only the script sees it."""
    options = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    if subprocess.run(["unshare", *options, "true"], capture_output=True).returncode:
        pytest.skip("this system does not let us mount a small disk")
    printed = run_script(ON_A_FULL_DISK, tmp_path, before=["unshare", *options])
    if "cannot mount" in printed:
        pytest.skip("this system does not let us mount a small disk")
    n_charged, n_refused = map(int, printed.split())
    assert n_charged > 5 and n_refused > 5


# A second name, a journal of another state, and a seal that shows what was lost

KILLED_IN_A_COMMIT = """
import os, signal, sqlite3, sys

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE head SET created = ?", ("x" * 100_000,))
connection.execute("CREATE TABLE more AS SELECT * FROM head")
os.kill(os.getpid(), signal.SIGKILL)
"""


def leave_a_hot_journal(path):
    """Leave the file as a process does that is killed after it has written its journal."""
    before = pathlib.Path(path).read_bytes()
    subprocess.run([sys.executable, "-c", KILLED_IN_A_COMMIT, path])
    assert os.path.getsize(path + "-journal") > 512
    pathlib.Path(path).write_bytes(before)


@needs_posix
def test_hard_links_to_a_ledger_are_refused(path, tmp_path):
    ledger = make_ledger(path, 1)
    second = str(tmp_path / "second.sqlite")
    os.link(path, second)
    for attempt in (
        ledger.spent,
        lambda: PrivacyLedger(second),
        lambda: charge(path, LOSS, what="fit"),
        lambda: charge(second, LOSS, what="fit"),
    ):
        with pytest.raises(LedgerError, match="must have one name, got 2 hard links"):
            attempt()
    os.unlink(second)
    charge(path, LOSS, what="fit")
    assert len(ledger.records()) == 2


@needs_posix
def test_a_ledger_that_is_mounted_as_a_single_file_is_refused(path, monkeypatch):
    ledger = make_ledger(path, 1)
    monkeypatch.setattr(ledger_file, "_mount_points", lambda: {"/", os.path.realpath(path)})
    for attempt in (ledger.spent, lambda: charge(path, LOSS, what="fit")):
        with pytest.raises(LedgerError, match="Mount its folder instead"):
            attempt()


MOUNTED_TWICE = """
import os, subprocess, sys
from dpq_sklearn.ledger.contents import LedgerError
from dpq_sklearn.ledger.ledger import PrivacyLedger

first, second = sys.argv[1:3]
open(second, "w").close()
if subprocess.run(["mount", "--bind", first, second], capture_output=True).returncode:
    print("cannot mount")
    sys.exit()
try:
    PrivacyLedger(second)
    print("opened")
except LedgerError as error:
    print(error)
folder = os.path.dirname(second) + "/folder"
os.mkdir(folder)
subprocess.run(["mount", "--bind", os.path.dirname(first), folder], check=True)
PrivacyLedger(os.path.join(folder, os.path.basename(first))).spend(eps=0.25, what="fit")
print(len(PrivacyLedger(first).records()))
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare to mount a file")
def test_a_bind_mount_of_the_file_is_refused_and_one_of_its_folder_is_not(tmp_path):
    options = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    if subprocess.run(["unshare", *options, "true"], capture_output=True).returncode:
        pytest.skip("this system does not let us mount a file")
    (tmp_path / "data").mkdir()
    path = str(tmp_path / "data" / "a budget.sqlite")
    make_ledger(path, 1)
    second = tmp_path / "second budget.sqlite"
    printed = run_script(MOUNTED_TWICE, path, second, before=["unshare", *options])
    if "cannot mount" in printed:
        pytest.skip("this system does not let us mount a file")
    refusal, n_records = printed.splitlines()
    assert "Mount its folder instead" in refusal
    assert n_records == "2"


@needs_posix
def test_a_journal_is_not_rolled_back_over_spends_under_another_name(path):
    ledger = make_ledger(path, 1)
    leave_a_hot_journal(path)
    os.rename(path, path + "2")
    charge(path + "2", LOSS, what="under another name")
    os.rename(path + "2", path)
    assert [record.what for record in ledger.records()] == ["fit", "under another name"]
    charge(path, LOSS, what="fit")
    assert len(ledger.records()) == 3


@needs_posix
@pytest.mark.parametrize("reads_first", [False, True])
def test_a_journal_is_rolled_back_if_the_file_needs_it(path, reads_first):
    ledger = make_ledger(path, 2)
    subprocess.run([sys.executable, "-c", KILLED_IN_A_COMMIT, path])
    assert os.path.exists(path + "-journal")
    if reads_first:
        assert len(ledger.records()) == 2
    charge(path, LOSS, what="fit")
    assert len(ledger.records()) == 3


@needs_posix
def test_a_file_that_lost_releases_is_refused_until_it_is_accepted(path, capsys):
    ledger = make_ledger(path, 1)
    earlier = pathlib.Path(path).read_bytes()
    charge(path, LOSS, what="fit")
    pathlib.Path(path).write_bytes(earlier)
    for attempt in (ledger.spent, ledger.records, lambda: charge(path, LOSS, what="fit")):
        with pytest.raises(LedgerError, match=r"has lost releases: 2 were .*ledger accept"):
            attempt()
    assert pathlib.Path(path).read_bytes() == earlier

    assert main(["accept", path]) == 0
    assert "0.25 of 100 eps spent in 1 release" in capsys.readouterr().out
    charge(path, LOSS, what="fit")
    assert len(ledger.records()) == 2


@needs_posix
def test_a_file_with_other_releases_of_the_same_ledger_is_refused(path):
    make_ledger(path, 1)
    earlier = pathlib.Path(path).read_bytes()
    charge(path, LOSS, what="fit")
    pathlib.Path(path + "2").write_bytes(earlier)
    for _ in range(2):
        charge(path + "2", LOSS, what="in a copy")
    os.rename(path + "2", path)
    with pytest.raises(LedgerError, match="has lost releases"):
        charge(path, LOSS, what="fit")


@needs_posix
@pytest.mark.parametrize("moment", ["before the seal", "after the seal"])
def test_a_process_that_is_killed_around_the_seal_loses_nothing(path, monkeypatch, moment):
    ledger = make_ledger(path, 1)
    write = LockFile.write

    def killed(lock, text):
        if moment == "after the seal":
            write(lock, text)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(LockFile, "write", killed)
        charge(path, LOSS, what="fit")
    assert len(ledger.records()) == 2
    charge(path, LOSS, what="fit")
    assert len(ledger.records()) == 3


@needs_posix
def test_a_copy_without_a_seal_is_accepted_and_sealed_by_its_first_spend(path, tmp_path):
    make_ledger(path, 2)
    copied = str(tmp_path / "copied.sqlite")
    shutil.copyfile(path, copied)
    earlier = pathlib.Path(copied).read_bytes()
    assert len(PrivacyLedger(copied).records()) == 2
    charge(copied, LOSS, what="fit")
    pathlib.Path(copied).write_bytes(earlier)
    with pytest.raises(LedgerError, match="has lost releases"):
        PrivacyLedger(copied)


@needs_posix
def test_an_unreadable_seal_is_an_error_until_the_file_is_accepted(path):
    make_ledger(path, 2)
    pathlib.Path(path + "-lock").write_text("[1, 2]")
    with pytest.raises(LedgerError, match=r"seal .* cannot be read"):
        PrivacyLedger(path)
    assert main(["accept", path]) == 0
    charge(path, LOSS, what="fit")


def test_a_spend_into_a_long_ledger_reads_the_last_release_only(path, monkeypatch):
    ledger = make_ledger(path, 4)
    monkeypatch.setattr(ledger_file, "MOST_RELEASES_VERIFIED_BY_A_SPEND", 3)
    monkeypatch.setattr(ledger_file, "_verified_contents", None)
    charge(path, LOSS, **FACTS)
    assert ledger.spent().eps == 1.25

    monkeypatch.undo()
    assert len(ledger.records()) == 5


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE head SET totals = replace(totals, '1.25', '0.25')",
        "UPDATE head SET chain = ''",
        "DELETE FROM releases WHERE id = 5",
        "UPDATE releases SET chain = '' WHERE id = 5",
        "UPDATE releases SET id = 9 WHERE id = 5",
    ],
)
def test_a_spend_into_a_long_ledger_notices_changed_totals(path, monkeypatch, statement):
    ledger = make_ledger(path, 5)
    monkeypatch.setattr(ledger_file, "MOST_RELEASES_VERIFIED_BY_A_SPEND", 3)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)
    for attempt in (ledger.spent, lambda: charge(path, LOSS, what="fit")):
        with pytest.raises(LedgerError, match="is damaged"):
            attempt()


@pytest.mark.parametrize("table", ["head", "releases"])
def test_a_file_with_an_endless_view_is_refused(path, table):
    make_ledger(path, 2)
    columns = {"head": 9, "releases": 8}[table]
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"DROP TABLE {table}")
        connection.execute(
            f"CREATE VIEW {table} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
            f"FROM n) SELECT {', '.join(['i'] * columns)} FROM n"
        )
    with pytest.raises(LedgerError, match="does not hold the two tables"):
        PrivacyLedger(path)


# Damage


def outcome_of_damage(path, original):
    """Return whether damage was noticed. If not, everything must still be there, to the digit."""
    try:
        contents = FileStore(path).read()
        assert contents == original
        charge(path, LOSS, **FACTS)
        after = FileStore(path).read()
        assert after[:-1] == original[:-1]
        assert after.rows[:-1] == original.rows and after.rows[-1][1:4] == (0.25, 0.0, 0.0078125)
        return "harmless"
    except LedgerError as error:
        assert path in str(error)
    with contextlib.suppress(LedgerError):  # noticed when written to: all is there or it is noticed
        contents = FileStore(path).read()
        assert contents.rows[: len(original.rows)] == original.rows
    return "noticed"


def damaged_copies(intact, n_copies, seed):
    """Yield the bytes of a file with one damage each."""
    rng = np.random.default_rng(seed)
    starts = [page + offset for page in range(0, len(intact), 4096) for offset in range(12)]
    positions = [*range(100), *starts, *rng.integers(len(intact), size=n_copies)]
    for position in positions:
        changed = bytearray(intact)
        changed[position] ^= int(rng.integers(1, 256))
        yield bytes(changed)


@pytest.mark.slow
def test_changed_bytes_anywhere_are_noticed_or_harmless(path, tmp_path):
    make_ledger(path, 45)
    original, intact = FileStore(path).read(), pathlib.Path(path).read_bytes()
    victim = str(tmp_path / "victim.sqlite")
    counts = {"noticed": 0, "harmless": 0}
    for damaged in damaged_copies(intact, 1200, seed=0):
        pathlib.Path(victim).write_bytes(damaged)
        counts[outcome_of_damage(victim, original)] += 1
        remove(victim)
    assert counts["noticed"] > 500


def test_every_changed_byte_of_caps_and_records_is_noticed(path, tmp_path):
    make_ledger(path, 5)
    original, intact = FileStore(path).read(), pathlib.Path(path).read_bytes()
    victim = str(tmp_path / "victim.sqlite")
    texts = [original.ledger_id, original.created, original.neighbours]
    texts += [row.facts for row in original.rows]
    for text in texts:
        start = intact.index(text.encode())
        for position in range(start, start + len(text), 7):
            changed = bytearray(intact)
            changed[position] ^= 1
            pathlib.Path(victim).write_bytes(changed)
            assert outcome_of_damage(victim, original) == "noticed"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE releases SET eps = 0.125 WHERE id = 3",
        "UPDATE releases SET rho = 0 WHERE id = 5",
        "UPDATE releases SET pure_eps = 0.125 WHERE id = 2",
        "UPDATE releases SET os_randomness = 0 WHERE id = 1",
        "UPDATE releases SET eps = 'much'",
        "UPDATE releases SET eps = NULL",
        "UPDATE releases SET id = 9 WHERE id = 5",
        "DELETE FROM releases WHERE id = 5",
        "DELETE FROM releases WHERE id = 1",
        "DELETE FROM releases",
        "DELETE FROM head",
        "INSERT INTO head SELECT * FROM head",
        "UPDATE head SET eps = 1e9",
        "UPDATE head SET eps = NULL",
        "UPDATE head SET delta = 0.5",
        "UPDATE head SET seal = ''",
        "DROP TABLE releases",
        "DROP TABLE head",
        "ALTER TABLE releases ADD COLUMN more",
        "PRAGMA journal_mode = WAL",
        "PRAGMA application_id = 0",
    ],
)
def test_changed_contents_are_noticed(path, statement):
    ledger = make_ledger(path, 5)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement).fetchall()
    for attempt in (
        ledger.spent,
        lambda: PrivacyLedger(path),
        lambda: charge(path, LOSS, what="x"),
    ):
        with pytest.raises(LedgerError) as caught:
            attempt()
        assert repr(path) in str(caught.value)


def test_a_shortened_file_is_noticed(path, tmp_path):
    make_ledger(path, 40)
    original, intact = FileStore(path).read(), pathlib.Path(path).read_bytes()
    victim = str(tmp_path / "victim.sqlite")
    for length in [*range(0, len(intact), 499), len(intact) - 1]:
        pathlib.Path(victim).write_bytes(intact[:length])
        assert outcome_of_damage(victim, original) == "noticed"
        remove(victim)


def test_blocks_of_zeros_are_noticed_or_harmless(path, tmp_path):
    make_ledger(path, 40)
    original, intact = FileStore(path).read(), pathlib.Path(path).read_bytes()
    victim = str(tmp_path / "victim.sqlite")
    for start in range(0, len(intact), 512):
        pathlib.Path(victim).write_bytes(intact[:start] + bytes(512) + intact[start + 512 :])
        outcome_of_damage(victim, original)
        remove(victim)


def test_pages_of_two_moments_mixed_are_noticed(path, tmp_path):
    """A crash during a write leaves such a file if somebody deletes the journal."""
    make_ledger(path, 30)
    earlier, old = FileStore(path).read(), pathlib.Path(path).read_bytes()
    charge(path, LOSS, **FACTS)
    later, new = FileStore(path).read(), pathlib.Path(path).read_bytes()
    assert len(old) == len(new)
    victim = str(tmp_path / "victim.sqlite")
    pages, n_whole = range(0, len(old), 4096), 0
    for from_new in itertools.product([False, True], repeat=len(pages)):
        mixed = b"".join(
            (new if is_new else old)[page : page + 4096]
            for page, is_new in zip(pages, from_new, strict=True)
        )
        pathlib.Path(victim).write_bytes(mixed)
        try:
            contents = FileStore(victim).read()
        except LedgerError:
            continue
        assert contents in (earlier, later)
        n_whole += 1
    assert 0 < n_whole < 2 ** len(pages)
