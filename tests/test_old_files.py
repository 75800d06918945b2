"""Pickles and ledger files that an earlier version has written."""

import base64
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from dpq_sklearn import BudgetExceededError, PrivacyLedger
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.ledger import file
from tests.recorded import columns

DATA = Path(__file__).parent / "data"
PICKLES = json.loads((DATA / "pickles_0.1.json").read_text())

needs_a_new_numpy = pytest.mark.skipif(
    tuple(map(int, np.__version__.split(".")[:2])) < (1, 26),
    reason="NumPy below 1.26 cannot read arrays that NumPy 2 has pickled",
)


def _load(name):
    return pickle.loads(base64.b64decode(PICKLES[name]))


@needs_a_new_numpy
@pytest.mark.filterwarnings("ignore:Trying to unpickle")
def test_fitted_transformers_of_an_earlier_version_load_and_work():
    X = columns()[:, :3]
    discretizer, transformer = _load("discretizer"), _load("transformer")
    for edges, recorded in zip(discretizer.bin_edges_, PICKLES["edges"], strict=True):
        np.testing.assert_array_equal(edges, recorded)
    np.testing.assert_array_equal(transformer.quantiles_, PICKLES["quantiles"])
    assert discretizer.transform(X).shape == (len(X), 9)
    assert transformer.transform(X).shape == X.shape
    assert len(discretizer.quality_report()["verdict"]) == 3
    assert discretizer.get_params()["decimals"] is None  # that version did not have it
    assert discretizer.privacy_.eps == 1.0
    assert discretizer.privacy_.neighbours == Neighbours.PEOPLE


@needs_a_new_numpy
def test_losses_of_an_earlier_version_load():
    loss = _load("loss")
    assert (loss.eps, loss.delta) == (1.0, 1e-6)
    assert loss.neighbours is Neighbours.ROWS
    assert _load("plan_total").eps == 1.0


def test_a_ledger_file_of_an_earlier_version_is_read_and_charged(tmp_path):
    path = tmp_path / "ledger.db"
    shutil.copyfile(DATA / "ledger_0.1.sqlite", path)
    ledger = PrivacyLedger(path)
    assert ledger.caps == (5.0, 1e-5, None)
    assert ledger.spent().eps == 1.5
    assert [record.what for record in ledger.records()] == ["elsewhere", "DPKBinsDiscretizer.fit"]
    assert [record.release_id for record in ledger.records()] == [None, None]
    ledger.spend(eps=0.25, what="one more")
    assert PrivacyLedger(path, eps=5, delta=1e-5, neighbours="people").spent().eps == 1.75


@pytest.mark.parametrize("most_verified", [0, 1000])
def test_a_ledger_file_of_an_earlier_version_with_releases_without_rho_is_read_and_charged(
    tmp_path, monkeypatch, most_verified
):
    # That version stored infinite sums of rho and pure eps after such a release.
    monkeypatch.setattr(file, "MOST_RELEASES_VERIFIED_BY_A_SPEND", most_verified)
    path = tmp_path / "ledger.db"
    shutil.copyfile(DATA / "ledger_with_deltas_0.1.sqlite", path)
    ledger = PrivacyLedger(path)
    assert ledger.caps == (2.0, 1e-6, None)
    assert (ledger.spent().eps, ledger.spent().delta) == (1.0, 2e-7)

    ledger.spend(eps=0.25, what="one more")
    assert PrivacyLedger(path).spent().eps == 1.25
    with pytest.raises(BudgetExceededError, match="needs 4e-07"):
        ledger.spend(eps=0.25, delta=4e-7, what="more than half of the delta")


@pytest.mark.parametrize("note", [{}, {"_note": "a project"}])
def test_a_ledger_object_that_an_earlier_version_pickled_spends_from_its_file(tmp_path, note):
    path = tmp_path / "ledger.db"
    shutil.copyfile(DATA / "ledger_0.1.sqlite", path)
    ledger_id = PrivacyLedger(path).__getstate__()["_ledger_id"]
    old = PrivacyLedger.__new__(PrivacyLedger)
    old.__setstate__({"_path": str(path), "_ledger_id": ledger_id, **note})
    old.spend(eps=0.25, what="one more")
    assert old.records()[-1].note == note.get("_note")
