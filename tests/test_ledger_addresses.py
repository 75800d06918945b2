"""Addresses of ledgers: what they mean, and that no password is ever shown."""

import copy
import html
import pickle
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from dpq_sklearn import DPKBinsDiscretizer, LedgerError, PrivacyLedger
from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.ledger import postgres
from dpq_sklearn.ledger.__main__ import main
from dpq_sklearn.ledger.addresses import is_address, secrets_of, split_address
from dpq_sklearn.ledger.ledger import charge, opened, store_at

LOSS = PrivacyLoss(0.25, 0.0, 0.01)
NOWHERE = "127.0.0.1:1"  # where no server listens


@pytest.fixture
def no_retries(monkeypatch):
    monkeypatch.setattr(postgres, "PAUSES_BEFORE_RETRIES", ())


@pytest.mark.parametrize(
    ("text", "url", "name", "secrets"),
    [
        ("postgresql://h/d", "postgresql://h/d", "default", {}),
        ("postgres://u@h:5432/d#a b", "postgresql://u@h:5432/d", "a b", {}),
        ("postgresql://u:pw@h/d#a", "postgresql://u@h/d", "a", {"password": "pw"}),
        ("postgresql://u:p%40%2F%23@h/d", "postgresql://u@h/d", "default", {"password": "p@/#"}),
        ("postgresql://u:@h/d", "postgresql://u@h/d", "default", {}),
        ("postgresql:///d?host=/tmp&password=x", "postgresql:///d?host=%2Ftmp", "default", {}),
        ("postgresql://u@h1:1,h2:2/d#%C3%A9", "postgresql://u@h1:1,h2:2/d", "é", {}),
        ("postgresql://[::1]:5432/d", "postgresql://[::1]:5432/d", "default", {}),
        ("postgresql://?service=s", "postgresql://?service=s", "default", {}),
        ("POSTGRESQL://h/d?sslpassword=x", "postgresql://h/d", "default", {"sslpassword": "x"}),
    ],
)
def test_parts_of_an_address(text, url, name, secrets):
    address, found = split_address(text)
    if "password=x" in text and "sslpassword" not in text:
        secrets = {"password": "x"}
    assert is_address(text)
    assert (address.url, address.name, found) == (url, name, secrets)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:geheim#1@h/d",
        "postgresql://u:geheim/1@h/d",
        "postgresql://u:geheim?1@h/d",
        "postgresql://u:geheim@1@h/d",
        "postgresql://u:geheim:1",
        "postgresql://u:geheim",
        "postgresql://u:geheim h/d",
        "postgresql://u:[geheim@h/d",
        "postgresql://u:geheim\u2100@h/d",
        "postgresql+psycopg2://u:geheim@h/d",
        " postgresql://u:geheim@h/d",
        "\npostgresql://u:geheim@h/d",
        "jdbc:postgresql://h/d?user=u&password=geheim",
        "postgresql://u@h/d?Password=geheim",
        "postgresql://u@h/d?pwd=geheim",
        "mysql://u:geheim@h/d",
        "sqlite:///geheim.sqlite",
        "host=h password=geheim dbname=d",
        "dbname = d  password = geheim",
        "Server=h;Pwd=geheim",
        "u:geheim@h/d",
        "postgres:geheim@h",
        Path("postgresql://u:geheim@h/d"),
    ],
)
def test_an_address_that_hides_a_password_is_refused_without_showing_it(
    text, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for attempt in (lambda: PrivacyLedger(text), lambda: charge(text, LOSS, what="fit")):
        with pytest.raises(ValueError, match=r"must have the form postgresql://") as caught:
            attempt()
        shown = "".join(traceback.format_exception(caught.value))
        assert "geheim" not in str(caught.value)
        assert "geheim" not in shown.replace(f'"{text}"', "")
    assert not list(tmp_path.iterdir())  # no file of that name was created


@pytest.mark.parametrize("key", ["password", "oauth_client_secret", "scram_client_key"])
def test_every_secret_of_libpq_is_removed_from_an_address(key):
    address, secrets = split_address(f"postgresql://u@h/d?{key}=geheim&sslmode=require")
    assert str(address) == "postgresql://u@h/d?sslmode=require#default"
    assert secrets == {key: "geheim"}


@pytest.mark.parametrize(
    "path",
    [
        "/data/budget.sqlite",
        "budget.sqlite",
        "../a b/budget (copy).sqlite",
        "C:\\data\\budget.sqlite",
        "D:/budget.sqlite",
        "/data/eps=1/budget@home.sqlite",
        "/backups/2026-11-18T12:00:00/budget.sqlite",
    ],
)
def test_ordinary_paths_are_not_taken_for_addresses(path):
    assert not is_address(path)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=12))
def test_no_password_stays_in_an_address(password):
    text = f"postgresql://u:{password}@h/d"
    try:
        address, secrets = split_address(text)
    except ValueError as error:
        assert password not in str(error)
        return
    assert password not in str(address) or password in "postgresql://u@h/d#default"
    assert secrets.get("password") or ":" not in str(address).removeprefix("postgresql:")


def test_a_name_is_given_once():
    assert store_at("postgresql://h/d", "a") == store_at("postgresql://h/d#a")
    assert store_at("postgresql://h/d#a", "a") == store_at("postgresql://h/d#a")
    with pytest.raises(ValueError, match="name must be the name in the address"):
        store_at("postgresql://h/d#a", "b")
    for bad in ("", 3, "a\nb"):
        with pytest.raises(ValueError, match="name must be"):
            store_at("postgresql://h/d", bad)


def test_only_a_server_has_names(tmp_path):
    for path in (None, tmp_path / "budget.sqlite"):
        with pytest.raises(ValueError, match="name must be None"):
            PrivacyLedger(path, eps=1.0, name="a")


def test_an_estimators_address_holds_no_password(no_retries):
    discretizer = DPKBinsDiscretizer(ledger=f"postgresql://u:geheim@{NOWHERE}/d#a")
    with pytest.raises(ValueError, match="without a password") as caught:
        discretizer.fit(np.zeros((5, 1)))
    assert "geheim" not in str(caught.value) and "PGPASSWORD" in str(caught.value)


def ledger_elsewhere(monkeypatch):
    """Return an object for a server that cannot be reached, as if it had been once."""
    ledger = PrivacyLedger(eps=1.0)
    text = f"postgresql://u:geheim@{NOWHERE}/d?sslpassword=geheim2#a"
    ledger._access = type(ledger._access)(store_at(text), "some id")
    return ledger


def test_a_password_is_in_no_repr_message_or_pickle(no_retries, monkeypatch, capsys):
    pytest.importorskip("psycopg")
    ledger = ledger_elsewhere(monkeypatch)
    assert secrets_of(ledger._access.store.address.url)["password"] == "geheim"
    estimator = DPKBinsDiscretizer(ledger=ledger)
    shown = [
        repr(ledger),
        str(ledger),
        ledger._repr_html_(),
        repr(estimator),
        estimator._repr_html_(),
        repr(vars(ledger)),
        repr(pickle.dumps(ledger)),
        repr(pickle.loads(pickle.dumps(ledger))),
        repr(copy.deepcopy(ledger)),
        repr(clone(estimator)),
        ledger.path,
    ]
    for attempt in (ledger.spent, lambda: charge(ledger, LOSS, what="fit")):
        with pytest.raises(LedgerError) as caught:
            attempt()
        error = caught.value
        assert error.__cause__ is None and error.__context__ is None
        frames = traceback.TracebackException.from_exception(error, capture_locals=True)
        shown += ["".join(frames.format()), repr(pickle.dumps(error))]
    assert main(["show", f"postgresql://u:geheim@{NOWHERE}/d"]) == 3
    shown += [*capsys.readouterr()]
    assert not [text for text in shown if "geheim" in html.unescape(text)]
    assert "127.0.0.1" in repr(ledger)


def test_copies_in_the_same_process_know_the_password():
    store = store_at("postgresql://v:geheim@h/d#a")
    again = pickle.loads(pickle.dumps(store))
    assert again == store and secrets_of(again.address.url) == {"password": "geheim"}
    assert "geheim" not in repr(store) and b"geheim" not in pickle.dumps(store)


def test_without_psycopg_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for attempt in (
        lambda: PrivacyLedger("postgresql://h/d", eps=1.0),
        lambda: charge("postgresql://h/d", LOSS, what="fit"),
    ):
        with pytest.raises(ImportError, match=r"pip install 'dpq-sklearn\[postgres\]'"):
            attempt()
    assert main(["show", "postgresql://h/d"]) == 3


def test_an_option_that_libpq_does_not_know_is_an_error():
    with pytest.raises(ValueError, match="options of libpq only") as caught:
        charge("postgresql://h/d?nonsense=1", LOSS, what="fit")
    assert "nonsense" not in str(caught.value)


def test_addresses_are_told_from_paths(tmp_path):
    path = tmp_path / "postgresql"
    assert not is_address(str(path)) and not is_address(path) and not is_address(None)
    assert opened("postgresql://h/d") == opened("postgres://h/d#default")
    assert opened("postgresql://h/d") != opened("postgresql://h/d#other")
