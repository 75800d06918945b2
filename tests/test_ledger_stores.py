"""One suite for all stores: a ledger means the same in memory, in a file and on a server."""

import contextlib
import copy
import csv
import io
import json
import math
import os
import pickle
import random
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from dpq_sklearn import (
    BudgetExceededError,
    DPKBinsDiscretizer,
    LedgerError,
    PrivacyLedger,
    dp_count,
    plan_search,
)
from dpq_sklearn.accounting.losses import PrivacyLoss, amounts_of, stated_at, sum_of_amounts
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.ledger import __main__ as command_line
from dpq_sklearn.ledger import access as ledger_access
from dpq_sklearn.ledger import ledger as ledger_module
from dpq_sklearn.ledger.__main__ import main
from dpq_sklearn.ledger.ledger import charge, opened, store_at
from dpq_sklearn.ledger.postgres import owner_statements, role_statements

ROOT = Path(__file__).parents[1]
STORES = ["memory", "file", "server"]
SHARED = ["file", "server"]


@pytest.fixture(params=STORES)
def place(request, tmp_path):
    """The path or address for a new ledger in each store."""
    return new_place(request.param, request, tmp_path)


@pytest.fixture(params=SHARED)
def shared_place(request, tmp_path):
    """The path or address for a new ledger in stores that other processes can use."""
    return new_place(request.param, request, tmp_path)


def new_place(kind, request, tmp_path):
    if kind == "server":
        return request.getfixturevalue("server").new_ledger()
    return None if kind == "memory" else str(tmp_path / "budget.sqlite")


def pure(eps):
    """The loss of one exponential mechanism."""
    return PrivacyLoss(eps=eps, delta=0.0, rho=eps**2 / 8)


# The budget


def test_spends_until_exactly_the_cap_and_no_further(place):
    ledger = PrivacyLedger(place, eps=1.0)
    for _ in range(10):
        charge(ledger, pure(0.1), what="fit")
    assert ledger.spent().eps == 1.0 and ledger.remaining().eps == 0.0
    with pytest.raises(BudgetExceededError):
        charge(ledger, pure(1e-9), what="fit")
    assert len(ledger.records()) == 10


def test_a_refusal_says_what_is_left_and_changes_nothing(place):
    ledger = PrivacyLedger(place, eps=1.0)
    charge(ledger, pure(0.75), what="fit")
    before = opened(ledger).contents()
    with pytest.raises(BudgetExceededError, match=r"eps=0\.25 is left") as caught:
        charge(ledger, pure(0.5), what="fit")
    assert opened(ledger).store.location in str(caught.value)
    assert caught.value.left.eps == 0.25 and caught.value.asked == pure(0.5)
    assert opened(ledger).contents() == before


def test_a_failure_inside_spends_nothing(place, monkeypatch):
    ledger = PrivacyLedger(place, eps=1.0)

    def failing(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ledger_access, "new_row", failing)
        with pytest.raises(KeyboardInterrupt):
            charge(ledger, pure(0.5), what="fit")
    assert ledger.records() == []
    charge(ledger, pure(1.0), what="fit")  # no lock was left behind


@pytest.mark.parametrize(
    "caps",
    [
        {},
        {"eps": 1.0},
        {"eps": 0.1, "delta": 1e-300},
        {"rho": 5e-324},
        {"eps": 9.9e99, "delta": 0.0, "rho": 0.1},
    ],
)
def test_caps_are_kept_as_they_were_given(shared_place, caps):
    ledger = PrivacyLedger(shared_place, **caps, uncapped=not caps)
    again = PrivacyLedger(shared_place)
    eps = caps.get("eps")
    delta = caps.get("delta", None if eps is None else 0.0)
    assert again.caps == ledger.caps == (eps, delta, caps.get("rho"))
    PrivacyLedger(shared_place, **caps)


def test_caps_are_fixed_at_creation(shared_place):
    PrivacyLedger(shared_place, eps=1.0, delta=1e-6)
    for other in ({"eps": 2.0}, {"rho": 1.0}, {"eps": 1.0, "delta": 1e-5}):
        with pytest.raises(ValueError, match=r"cannot be changed.*eps=1, delta=1e-06, got"):
            PrivacyLedger(shared_place, **other)


def test_zcdp_total_counts_where_it_is_smaller(place):
    ledger = PrivacyLedger(place, eps=1.0, delta=1e-6)
    for _ in range(60):
        charge(ledger, pure(0.05), what="fit")
    assert ledger.spent().eps < 1.0 and ledger.spent().account == "zCDP"
    assert ledger.check(0.05) and not ledger.check(2.0)


def test_rows_and_people_do_not_add_up(place):
    ledger = PrivacyLedger(place, eps=1.0, neighbours="people")
    charge(ledger, replace(pure(0.25), neighbours="people"), what="fit")
    with pytest.raises(ValueError, match="use one ledger"):
        charge(ledger, pure(0.25), what="fit")
    assert len(ledger.records()) == 1
    assert ledger.neighbours is Neighbours.PEOPLE
    assert "about people" in repr(ledger)
    if place is not None:
        with pytest.raises(ValueError, match="neighbours that differ by"):
            PrivacyLedger(place, neighbours="rows")


def test_threads_share_a_budget(place):
    ledger = PrivacyLedger(place, eps=1.0)
    granted = []

    def spend():
        for _ in range(4):
            with contextlib.suppress(BudgetExceededError):
                charge(ledger, pure(0.125), what="fit")
                granted.append(1)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == len(ledger.records()) == 8
    assert ledger.spent().eps == 1.0


# What is recorded


def test_records_hold_the_public_facts(place):
    ledger = PrivacyLedger(place, eps=2.0)
    seeded = PrivacyLoss(0.5, 0.0, 0.03, os_randomness=False, account="some account")
    charge(ledger, seeded, what="DPKBinsDiscretizer.fit", columns=["age", "größe"], detail="x=5")
    charge(ledger.with_note("try 2"), pure(0.25), what="dp_quantiles", columns=1)
    charge(ledger, pure(0.25), what="a 'quoted' \\ \"text\" %s", note="📈", columns=["\ud800\n"])
    first, second, third = ledger.records()
    assert (first.what, first.columns) == ("DPKBinsDiscretizer.fit", ("age", "größe"))
    assert (first.detail, first.seeded, first.account) == ("x=5", True, "some account")
    assert (first.note, first.time.utcoffset().total_seconds()) == (None, 0)
    assert (second.columns, second.seeded, second.note) == (1, False, "try 2")
    assert (third.what, third.note) == ("a 'quoted' \\ \"text\" %s", "📈")
    assert third.columns == ("\ud800\n",)
    assert len({record.release_id for record in ledger.records()}) == 3


@pytest.mark.parametrize(
    "numbers",
    [
        (0.1 + 0.2, 0.0, 1 / 3),
        (5e-324, 0.0, 0.0),
        (1.7976931348623157e308, 1e-300, 2.5e-308),
        (math.nextafter(1.0, 2.0), math.nextafter(1.0, 0.0), math.inf),
        (math.inf, 0.0, 0.5),
        (0.0, 0.0, -0.0),
    ],
)
def test_numbers_travel_exactly(place, numbers):
    ledger = PrivacyLedger(place, uncapped=True)
    eps, delta, rho = numbers
    loss = PrivacyLoss(eps, delta, rho, pure_eps=max(eps, math.pi * 1e7))
    charge(ledger, loss, what="fit")
    (record,) = ledger.records()
    assert (record.eps, record.delta, record.rho) == numbers
    assert record.pure_eps == loss.pure_eps
    assert math.copysign(1.0, record.rho) == 1.0


def changed_after_its_check(**amounts):
    """A loss that does not check itself again, such as one from a pickle of an earlier version."""
    loss = PrivacyLoss(0.25, 1e-9, 0.01)
    vars(loss).update(amounts)
    return loss


@pytest.mark.parametrize(
    "amounts",
    [
        {"pure_eps": -1.0},
        {"eps": -1.0},
        {"rho": -1.0},
        {"rho": math.nan},
        {"delta": math.nan},
        {"delta": 1.0},
        {"eps": math.inf, "rho": math.inf, "pure_eps": math.inf},
    ],
)
def test_an_impossible_cost_is_refused_before_anything_is_committed(place, amounts):
    ledger = PrivacyLedger(place, eps=1.0, delta=1e-6)
    for spend in (ledger.spend, lambda loss, what: charge(ledger, loss, what=what)):
        with pytest.raises(ValueError, match=r"needs|must|cannot pay"):
            spend(changed_after_its_check(**amounts), what="a refill")
    assert ledger.records() == [] and ledger.spent().eps == 0.0


def test_order_is_that_of_the_commits_when_the_clock_is_set_back(place, monkeypatch):
    ledger = PrivacyLedger(place, eps=1.0)
    years = iter(["2031", "2030", "1970"])
    now = lambda: f"{next(years)}-01-01T00:00:00.123+00:00"  # noqa: E731
    monkeypatch.setattr("dpq_sklearn.ledger.contents._now", now)
    for eps in (0.5, 0.25, 0.125):
        charge(ledger, pure(eps), what="fit")
    records = ledger.records()
    assert [record.eps for record in records] == [0.5, 0.25, 0.125]
    assert [record.time.year for record in records] == [2031, 2030, 1970]
    assert {record.time.microsecond for record in records} == {123_000}


def random_losses(n, seed):
    """Yield losses of all kinds."""
    draws = random.Random(seed)
    for _ in range(n):
        delta = draws.choice([0.0, 0.0, 10 ** draws.uniform(-12, -3)])
        eps = 10 ** draws.uniform(-6, 1)
        pure_eps = draws.choice([None, eps * draws.uniform(1, 3)])
        yield PrivacyLoss(eps, delta, eps**2 * draws.uniform(0.01, 0.5), pure_eps=pure_eps)


@pytest.mark.parametrize("n", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_totals_are_the_same_in_all_stores(server, tmp_path, n):
    places = [None, tmp_path / "budget.sqlite", server.new_ledger()]
    ledgers = [PrivacyLedger(place, uncapped=True) for place in places]
    losses = list(random_losses(n, seed=3))

    for ledger in ledgers:
        for loss in losses:
            charge(ledger, loss, what="fit")

    assert ledgers[0].spent() == ledgers[1].spent() == ledgers[2].spent()
    contents = [opened(ledger).contents() for ledger in ledgers]
    costs = [[row[:-1] for row in each.rows] for each in contents]
    assert costs[0] == costs[1] == costs[2] and len(costs[0]) == n
    for delta in (0.0, 1e-6):
        amounts = [sum_of_amounts(map(amounts_of, each.rows)) for each in contents]
        totals = {str(stated_at(each, delta)) for each in amounts}
        assert len(totals) == 1


# Objects


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_spend_from_the_same_budget(place, copied):
    ledger = PrivacyLedger(place, eps=1.0).with_note("the copy")
    again = copied(ledger)
    assert again == ledger and hash(again) == hash(ledger)
    charge(again, pure(0.75), what="fit")
    assert ledger.remaining().eps == 0.25
    assert ledger.records()[0].note == "the copy"


def test_a_pickle_does_not_change_when_something_is_spent(place):
    ledger = PrivacyLedger(place, eps=1.0)
    before = pickle.dumps(ledger)
    charge(ledger, pure(0.5), what="fit")
    assert pickle.dumps(ledger) == before


def test_what_it_looks_like(place):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ledger = PrivacyLedger(place, eps=2.0)
    charge(ledger, pure(0.5), what="fit")
    assert "0.5 of 2 eps spent in 1 release" in repr(ledger)
    assert '<meter value="0.250">' in ledger._repr_html_()
    assert ledger.plot().get_title()
    assert len(ledger.to_frame()) == 1
    matplotlib.pyplot.close("all")


def test_a_missing_ledger_is_an_error_and_nothing_is_created(shared_place):
    with pytest.raises(LedgerError, match="is missing"):
        charge(shared_place, pure(0.5), what="fit")
    assert not store_at(shared_place).exists()


def test_one_that_exists_is_not_created_again(shared_place):
    ledger = PrivacyLedger(shared_place, eps=1.0)
    charge(ledger, pure(0.5), what="fit")
    before = opened(ledger).contents()
    store_at(shared_place).create(before.summary._replace(ledger_id="another"))
    assert opened(ledger).contents() == before


# Releases


def test_a_fit_pays_before_it_reads(place):
    ledger = PrivacyLedger(place, eps=1.5)
    paid_at_reading = []

    def batches():
        yield np.arange(20.0).reshape(-1, 1)
        paid_at_reading.append(len(ledger.records()))

    DPKBinsDiscretizer(2, ledger=ledger).fit_batches(batches())
    with pytest.raises(BudgetExceededError):
        DPKBinsDiscretizer(2, ledger=ledger).fit_batches(batches())
    assert paid_at_reading == [1]


def test_a_place_is_as_good_as_an_object(shared_place):
    ledger = PrivacyLedger(shared_place, eps=3.0)
    discretizer = DPKBinsDiscretizer(2, ledger=shared_place)
    clone(discretizer).fit(np.arange(20.0).reshape(-1, 1))
    _, privacy = dp_count(np.arange(20.0), ledger=shared_place, return_privacy=True)
    assert [record.what for record in ledger.records()] == ["DPKBinsDiscretizer.fit", "dp_count"]
    assert privacy.release_id == ledger.records()[1].release_id
    assert plan_search(discretizer, n_features=1).affordable
    assert not plan_search(discretizer, n_features=1, cv=2).affordable
    assert ledger.check(discretizer)


def test_a_reservation_pays_for_fits_in_every_store(place):
    ledger = PrivacyLedger(place, eps=1.0)
    discretizer = DPKBinsDiscretizer(2, eps=0.5, ledger=ledger)
    X = np.arange(20.0).reshape(-1, 1)
    with ledger.reserve(plan_search(discretizer, cv=2, n_features=1)):
        assert ledger.remaining().eps == 0.0
        for _ in range(2):
            fitted = clone(discretizer).fit(X)
    assert ledger.spent().eps == 1.0
    assert fitted.privacy_.eps == fitted.privacy_.eps_in_ledger == 0.5
    assert [record.eps for record in ledger.records()] == [1.0, 0.0, 0.0]
    assert ledger.records()[-1].release_id == fitted.privacy_.release_id
    with pytest.raises(BudgetExceededError):
        clone(discretizer).fit(X)


# The command line


def run(capsys, *arguments):
    """Return the exit code and the output."""
    try:
        code = main(list(arguments))
    except SystemExit as stop:  # by argparse
        code = stop.code
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_create_show_check_and_export(shared_place, capsys):
    code, _, error = run(capsys, "show", shared_place)
    assert code == 3 and "there is no privacy ledger" in error
    assert not store_at(shared_place).exists()

    code, out, _ = run(capsys, "create", shared_place, "--eps", "2", "--neighbours", "people")
    assert code == 0 and "0 of 2 eps spent" in out
    code, _, error = run(capsys, "create", shared_place, "--eps", "2")
    assert code == 3 and "already" in error

    ledger = PrivacyLedger(shared_place)
    people = Neighbours.PEOPLE
    charge(ledger, PrivacyLoss(0.5, 0.0, 0.03, neighbours=people), what="fit", columns=["a", "b,c"])
    charge(ledger, PrivacyLoss(0.25, 0.0, math.inf, neighbours=people), what="fit", note="x")

    code, out, _ = run(capsys, "show", shared_place)
    assert code == 0 and "0.75 of 2 eps spent in 2 releases about people" in out
    assert "left: eps=1.25\n" in out and "one person" in out
    assert all(record.release_id in out for record in ledger.records())

    assert run(capsys, "check", shared_place)[0] == 0
    assert run(capsys, "check", shared_place, "--eps", "1.25")[0] == 0
    assert run(capsys, "check", shared_place, "--eps", "1.26")[0] == 1
    assert run(capsys, "check", shared_place, "--eps", "-1")[0] == 2
    assert run(capsys, "show", shared_place, "--nothing")[0] == 2

    code, out, _ = run(capsys, "export", shared_place)
    first, second = map(json.loads, out.splitlines())
    assert code == 0 and first["columns"] == ["a", "b,c"] and first["eps"] == 0.5
    assert second["rho"] == "Infinity" and second["note"] == "x"

    code, out, _ = run(capsys, "export", shared_place, "--format", "csv")
    frame = pytest.importorskip("pandas").read_csv(io.StringIO(out))
    assert code == 0 and frame["eps"].sum() == 0.75 and frame["rho"].tolist() == [0.03, math.inf]
    assert json.loads(frame["columns"][0]) == ["a", "b,c"]


def test_an_uncapped_ledger_is_created_on_purpose_and_shown_as_such(shared_place, capsys):
    code, _, error = run(capsys, "create", shared_place)
    assert code == 2 and "--uncapped" in error
    assert not store_at(shared_place).exists()
    code, out, _ = run(capsys, "create", shared_place, "--uncapped")
    assert code == 0 and "uncapped" in out
    code, out, _ = run(capsys, "show", shared_place)
    assert code == 0 and "caps: none, the ledger is uncapped" in out


def test_check_with_a_delta_alone_is_refused(shared_place, capsys):
    PrivacyLedger(shared_place, eps=1.0)
    code, _, error = run(capsys, "check", shared_place, "--delta", "0.1")
    assert code == 2 and "--delta must be given with --eps or --rho" in error


def with_texts(monkeypatch, text):
    """Let a ledger in memory hold a text that no spend accepts, as foreign tools may write it."""
    monkeypatch.setattr(ledger_module, "checked_line", lambda given, name: given)
    ledger = PrivacyLedger(eps=1.0).with_note(text)
    charge(ledger, PrivacyLoss(0.25, 0.0, 0.01), what=text, detail=text, columns=[text])
    monkeypatch.setattr(command_line, "_existing", lambda options: ledger)


@pytest.mark.parametrize("text", ["\x1b[2J", "a\rb", "\x9b1m", "a\nb", "\u202eabc", "\x07"])
def test_texts_that_control_a_terminal_are_shown_escaped(monkeypatch, capsys, text):
    with_texts(monkeypatch, text)
    code, out, _ = run(capsys, "show", "a ledger")
    assert code == 0
    assert all(character.isprintable() for character in out.replace("\n", ""))
    assert len(out.splitlines()) == 6  # three lines about the budget, a blank one, and the table


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\r=1"])
def test_exported_texts_are_no_formulas_in_a_spreadsheet(monkeypatch, capsys, text):
    with_texts(monkeypatch, text)
    code, out, _ = run(capsys, "export", "a ledger", "--format", "csv")
    header, cells = csv.reader(io.StringIO(out, newline=""))
    values = dict(zip(header, cells, strict=True))
    assert code == 0
    assert values["what"] == values["note"] == "'" + text
    assert not any(cell.lstrip().startswith(("=", "+", "-", "@")) for cell in cells)


@pytest.mark.slow
def test_the_command_line_is_a_module(tmp_path):
    path = str(tmp_path / "budget.sqlite")
    for arguments, code in (
        (("create", path, "--eps", "1"), 0),
        (("check", path, "--eps", "2"), 1),
    ):
        command = [sys.executable, "-m", "dpq_sklearn.ledger", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=os.getcwd())
        assert done.returncode == code, done.stderr


def test_the_command_line_prints_the_statements_of_owner_and_role(capsys):
    code, out, _ = run(capsys, "sql", "--role", 'a "role"')
    assert code == 0 and "CREATE TABLE dpq_ledger.releases" in out
    assert 'GRANT INSERT ON dpq_ledger.releases TO "a ""role""";' in out


def test_the_page_shows_the_statements_of_owner_and_role():
    page = (ROOT / "docs" / "team_budget.md").read_text()
    assert f"```sql\n{owner_statements()}```" in page
    assert f"```sql\n{role_statements('analysts')}```" in page
