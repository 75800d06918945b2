"""Transformers and functions pay their ledger before they look at the data."""

import os
import pickle
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline

from dpq_sklearn import (
    BudgetExceededError,
    DPKBinsDiscretizer,
    DPQuantileTransformer,
    DPRobustScaler,
    LedgerError,
    PrivacyLedger,
    dp_describe,
    dp_quantiles,
    plan_search,
    sanitize,
)

TRANSFORMERS = [DPKBinsDiscretizer, DPQuantileTransformer, DPRobustScaler]
transformers = pytest.mark.parametrize("Transformer", TRANSFORMERS)


@pytest.fixture
def data(rng):
    X = rng.normal(size=(90, 3))
    return X, (X[:, 0] > 0).astype(int)


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(tmp_path / "budget.sqlite", eps=100.0)


@pytest.mark.slow
@transformers
@pytest.mark.parametrize("as_path", [True, False], ids=["path", "object"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_search_over_eps_is_recorded_fit_by_fit_and_costs_its_forecast(
    Transformer, data, ledger, n_jobs, as_path
):
    transformer = Transformer(ledger=ledger.path if as_path else ledger)
    name = Transformer.__name__.lower()
    epsilons = [0.25, 0.5, 1.0, 1.5, 2.0]
    search = GridSearchCV(
        make_pipeline(transformer, LogisticRegression()),
        {f"{name}__eps": epsilons},
        cv=5,
        n_jobs=n_jobs,
        # The dearest is the best, so that the refit is known as well.
        refit=lambda results: int(np.argmax(results[f"param_{name}__eps"])),
    )
    plan = plan_search(search, n_features=3)
    search.fit(*data)
    records = ledger.records()
    assert sorted(record.eps for record in records) == sorted(epsilons * 5 + [2.0])
    assert len(records) == plan.n_fits == 26
    assert sum(record.eps for record in records) == plan.total.eps == ledger.spent().eps
    assert ledger.spent().rho == pytest.approx(plan.total.rho, rel=1e-12)


@transformers
@pytest.mark.parametrize(
    "budget", [{"eps": 0.5}, {"eps": 0.5, "delta": 1e-6}, {"eps": None, "rho": 0.01}]
)
@pytest.mark.parametrize("n_features", [1, 3, 40])
def test_one_fit_costs_its_forecast(Transformer, tmp_path, rng, budget, n_features):
    ledger = PrivacyLedger(tmp_path / "record.sqlite", uncapped=True)
    transformer = Transformer(**budget, ledger=ledger)
    plan = plan_search(transformer, n_features=n_features)
    transformer.fit(rng.normal(size=(50, n_features)))
    (record,) = ledger.records()
    cost = (record.eps, record.delta, record.rho)
    assert cost == (plan.total.eps, plan.total.delta, plan.total.rho)
    assert cost == tuple(getattr(transformer.privacy_, unit) for unit in ("eps", "delta", "rho"))


@transformers
def test_release_with_the_whole_eps_and_delta_fits_into_an_equal_cap(Transformer, tmp_path, data):
    ledger = PrivacyLedger(tmp_path / "small.sqlite", eps=1.0, delta=1e-6)
    Transformer(eps=1.0, delta=1e-6, ledger=ledger).fit(data[0])
    with pytest.raises(BudgetExceededError):
        Transformer(eps=0.1, delta=1e-6, ledger=ledger).fit(data[0])


def test_sparse_rows_in_a_frame_are_refused_before_the_budget_is_spent(ledger, data):
    binner = DPKBinsDiscretizer(ledger=ledger).set_output(transform="pandas")
    for fit in (binner.fit_transform, lambda X: make_pipeline(binner).fit(X)):
        with pytest.raises(ValueError, match="encode must be 'onehot-dense' or 'ordinal' for"):
            fit(data[0])
    assert ledger.spent().eps == 0
    binner.set_params(encode="ordinal").fit_transform(data[0])


def test_plan_with_delta_needs_the_number_of_features():
    with pytest.raises(ValueError, match=r"n_features must be given .* DPKBinsDiscretizer"):
        plan_search(DPKBinsDiscretizer(delta=1e-6))


@transformers
def test_record_says_what_was_fitted(Transformer, ledger, data):
    frame = pd.DataFrame(data[0], columns=["age", "income", "height"])
    Transformer(ledger=ledger.with_note("first try"), random_state=0).fit(frame)
    Transformer(ledger=ledger).fit(data[0])
    named, unnamed = ledger.records()
    assert named.what == unnamed.what == f"{Transformer.__name__}.fit"
    assert named.columns == ("age", "income", "height") and unnamed.columns == 3
    assert named.seeded and not unnamed.seeded
    assert named.note == "first try"
    assert named.detail


@pytest.mark.parametrize("release", [dp_quantiles, sanitize])
def test_functions_pay_too(ledger, data, release):
    argument = [0.25, 0.5] if release is dp_quantiles else 10
    for as_parameter in (ledger, ledger.path):
        release(data[0][:, 0], argument, eps=0.5, ledger=as_parameter)
    assert [record.eps for record in ledger.records()] == [0.5, 0.5]
    assert ledger.records()[0].columns == 1


def test_a_path_stays_a_path(ledger, data):
    transformer = DPKBinsDiscretizer(ledger=ledger.path)
    for copied in (clone(transformer), pickle.loads(pickle.dumps(transformer.fit(data[0])))):
        assert copied.get_params()["ledger"] == ledger.path
        assert type(copied.ledger) is str


class Watched:
    """A column whose numbers tell when they are read."""

    def __init__(self, values):
        self.values, self.n_reads = np.asarray(values), 0

    def __array__(self, dtype=None, copy=None):
        self.n_reads += 1
        return self.values

    def __len__(self):
        return len(self.values)


def test_refused_release_has_not_read_the_data(tmp_path):
    ledger = PrivacyLedger(tmp_path / "small.sqlite", eps=0.5)
    watched = Watched([1.0, 2.0, 3.0])
    with pytest.raises(BudgetExceededError):
        dp_quantiles(watched, 0.5, eps=1.0, ledger=ledger)
    assert watched.n_reads == 0
    assert ledger.records() == []


class WatchedTable(Watched):
    """A table that tells its shape and its dtype without being read, as a file on disk does."""

    @property
    def shape(self):
        return self.values.shape

    @property
    def dtype(self):
        return self.values.dtype


WATCHED = {
    "a table": lambda: WatchedTable(np.arange(6.0).reshape(3, 2)),
    "rows in a list": lambda: [WatchedTable(np.arange(2.0)) for _ in range(3)],
    "rows that tell their length": lambda: [Watched(np.arange(2.0)) for _ in range(3)],
    "cells in a list": lambda: [[Watched(np.array(number)), 1.0] for number in range(3)],
    "a column": lambda: WatchedTable(np.arange(3.0)),
    "cells in a column": lambda: [Watched(np.array(number)) for number in range(3)],
}


def all_watched(thing):
    if isinstance(thing, list):
        return [watched for part in thing for watched in all_watched(part)]
    return [thing] if isinstance(thing, Watched) else []


@pytest.mark.parametrize("name", WATCHED)
def test_containers_that_tell_their_shape_are_read_when_the_price_is_paid(name, tmp_path):
    ledger = PrivacyLedger(tmp_path / "small.sqlite", eps=1.0)
    data = WATCHED[name]()

    def spend(eps):
        if "column" in name:
            return dp_quantiles(data, 0.5, eps=eps, ledger=ledger)
        return DPKBinsDiscretizer(eps=eps, ledger=ledger).fit(data)

    with pytest.raises(BudgetExceededError):
        spend(2.0)
    assert [watched.n_reads for watched in all_watched(data)] == [0] * len(all_watched(data))

    # Cells that only NumPy can read are no numbers, but that is known after the payment.
    with pytest.raises(TypeError, match="type Watched") if "cells" in name else nullcontext():
        spend(1.0)
    assert min(watched.n_reads for watched in all_watched(data)) > 0
    assert [record.eps for record in ledger.records()] == [1.0]


def test_a_table_is_refused_by_the_shape_and_the_dtype_that_it_tells(ledger):
    for values, message in [
        (np.arange(3.0), "Expected 2D array"),
        (np.zeros((2, 2, 2)), "dim 3"),
        (np.array([["text"]]), "got dtype str"),
        (np.zeros((0, 2)), "0 sample"),
    ]:
        watched = WatchedTable(values)
        with pytest.raises(ValueError, match=message):
            DPKBinsDiscretizer(ledger=ledger).fit(watched)
        assert watched.n_reads == 0
    assert ledger.records() == []


def test_a_table_that_is_not_what_it_tells_is_refused(ledger):
    class Liar(WatchedTable):
        shape = (3, 2)
        dtype = np.dtype(float)

    for values in (np.zeros((2, 2)), np.array([["secret"] * 2] * 3)):
        with pytest.raises(ValueError, match=r"must (be readable|hold)") as caught:
            DPKBinsDiscretizer(eps=0.1, ledger=ledger).fit(Liar(values))
        assert "secret" not in str(caught.value)


def test_spend_stays_when_the_data_turn_out_to_be_no_numbers(ledger):
    with pytest.raises((TypeError, ValueError)):
        dp_quantiles(["a", "b"], 0.5, eps=0.5, ledger=ledger)
    assert ledger.spent().eps == 0.5


@transformers
def test_spend_stays_when_fit_fails_after_it(Transformer, ledger, data, monkeypatch):
    def fails(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpq_sklearn.estimators.base.release", fails)
    with pytest.raises(KeyboardInterrupt):
        Transformer(eps=0.5, ledger=ledger).fit(data[0])
    assert ledger.spent().eps == 0.5


@transformers
@pytest.mark.parametrize(
    "bad",
    [
        {"eps": -1.0},
        {"eps": 1.0, "rho": 1.0},
        {"bounds": (3, 1)},
        {"feature_weights": [1, 2]},
        {"mechanism": "none"},
        {"random_state": "seed"},
    ],
)
def test_bad_parameters_cost_nothing(Transformer, ledger, data, bad):
    with pytest.raises(ValueError):
        Transformer(**bad, ledger=ledger).fit(data[0])
    assert ledger.records() == []


def test_record_of_many_columns_with_their_own_numbers_of_bins(ledger, rng):
    n_bins = np.full(60, 4)
    DPKBinsDiscretizer(n_bins=n_bins, ledger=ledger).fit(rng.normal(size=(50, 60)))
    assert ledger.records()[0].detail.startswith("n_bins=[4 4")


@transformers
def test_no_other_file_is_charged_after_a_change_of_the_working_directory(
    Transformer, tmp_path, data, monkeypatch
):
    ledgers = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        ledgers.append(PrivacyLedger("budget.sqlite", eps=5.0))
    with pytest.raises(ValueError, match="absolute path"):
        Transformer(ledger="budget.sqlite").fit(data[0])
    Transformer(ledger=ledgers[0]).fit(data[0])
    assert [len(ledger.records()) for ledger in ledgers] == [1, 0]


@transformers
def test_ledger_in_memory_pays_in_clones_and_searches_of_its_process(Transformer, data):
    ledger = PrivacyLedger(eps=4.0)
    pipeline = make_pipeline(Transformer(eps=0.5, ledger=ledger), LogisticRegression())
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=3)
    assert ledger.check(search) and plan_search(search).affordable
    search.fit(*data)
    assert ledger.spent().eps == 3.5
    fitted = pickle.loads(pickle.dumps(search.best_estimator_))
    assert fitted[0].ledger == ledger


@pytest.mark.slow
def test_ledger_in_memory_is_refused_in_worker_processes(data):
    ledger = PrivacyLedger(eps=4.0)
    pipeline = make_pipeline(DPKBinsDiscretizer(ledger=ledger), LogisticRegression())
    with pytest.raises(LedgerError, match="belongs to the process that made it"):
        cross_validate(pipeline, *data, cv=2, n_jobs=2, error_score="raise")
    assert ledger.records() == []


@transformers
def test_unusable_ledger_stops_a_fit(Transformer, ledger, data, tmp_path):
    transformer = Transformer(ledger=ledger)
    os.unlink(ledger.path)
    for unusable in (ledger, ledger.path, tmp_path, tmp_path / "missing" / "budget.sqlite"):
        transformer.set_params(ledger=unusable)
        with pytest.raises(LedgerError):
            transformer.fit(data[0])
    assert not hasattr(transformer, "privacy_")


@transformers
def test_refitting_spends_again_and_is_refused_when_the_budget_is_empty(
    Transformer, tmp_path, data
):
    ledger = PrivacyLedger(tmp_path / "small.sqlite", eps=1.0)
    transformer = Transformer(eps=0.4, ledger=ledger)
    transformer.fit(data[0]).fit(data[0])
    with pytest.raises(BudgetExceededError, match=r"eps=0\.2 is left"):
        transformer.fit(data[0])
    transformer.transform(data[0])  # what was released stays usable, and is free


@pytest.mark.slow
def test_cross_validation_in_worker_processes_is_refused_for_good(tmp_path, data):
    ledger = PrivacyLedger(tmp_path / "small.sqlite", eps=2.0)
    pipeline = make_pipeline(DPKBinsDiscretizer(eps=0.5, ledger=ledger.path), LogisticRegression())
    assert not ledger.check(plan_search(pipeline, cv=5).total)
    with pytest.raises(BudgetExceededError, match="is left"):
        cross_validate(pipeline, *data, cv=5, n_jobs=2, error_score="raise")
    assert ledger.spent().eps == 2.0


def test_columns_are_charged_apart(ledger, data):
    frame = pd.DataFrame(data[0], columns=["age", "income", "height"])
    transformer = make_column_transformer(
        (DPKBinsDiscretizer(eps=0.5, ledger=ledger), ["age"]),
        (DPQuantileTransformer(eps=0.25, ledger=ledger), ["income", "height"]),
    )
    plan = plan_search(transformer)
    transformer.fit(frame)
    assert [record.columns for record in ledger.records()] == [("age",), ("income", "height")]
    assert ledger.spent().eps == plan.total.eps == 0.75
    assert ledger.spent().rho == pytest.approx(plan.total.rho, rel=1e-12)


def test_the_cheap_way_fits_once(ledger, data):
    X, y = data
    frozen = FrozenEstimator(DPKBinsDiscretizer(ledger=ledger).fit(X))
    pipeline = make_pipeline(frozen, LogisticRegression())
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0, 10.0]}, n_jobs=1)
    assert plan_search(search).n_fits == 0
    search.fit(X, y)
    assert len(ledger.records()) == 1


@transformers
def test_nothing_about_the_data_is_stored(Transformer, ledger, rng):
    for X in (np.zeros((10, 2)), 1e9 + rng.normal(size=(500, 2)), np.full((3, 2), np.nan)):
        Transformer(ledger=ledger).fit(X)
    assert len({record._replace(time=None, release_id=None) for record in ledger.records()}) == 1


@transformers
def test_privacy_and_record_have_the_same_release_id(Transformer, ledger, rng):
    X = rng.normal(size=(50, 2))
    with_ledger = Transformer(ledger=ledger).fit(X)
    assert with_ledger.privacy_.release_id == ledger.records()[-1].release_id
    ids = {Transformer(random_state=0).fit(X).privacy_.release_id for _ in range(2)}
    assert len(ids) == 2


def test_a_fit_with_a_delta_says_what_a_pure_ledger_counts_for_it(tmp_path, rng):
    ledger = PrivacyLedger(tmp_path / "pure.sqlite", eps=5.0)
    discretizer = DPKBinsDiscretizer(eps=1.0, delta=1e-6, ledger=ledger)
    plan = plan_search(discretizer, n_features=12)
    privacy = discretizer.fit(rng.normal(size=(50, 12))).privacy_
    assert privacy.eps == 1.0 and privacy.eps_in_ledger == ledger.spent().eps > 1.5
    assert f"eps_in_ledger={privacy.eps_in_ledger}" in repr(privacy)
    assert ledger.records()[0].eps_in_ledger == privacy.eps_in_ledger
    (note,) = plan.ledger_notes
    assert f"counts eps={privacy.eps_in_ledger:g} for it instead of 1" in note and note in repr(
        plan
    )
    assert plan_search(DPKBinsDiscretizer(ledger=ledger), n_features=12).ledger_notes == ()


@pytest.mark.parametrize("n_jobs", [0, "two", 1.5])
def test_impossible_n_jobs_are_refused_before_anything_is_spent(n_jobs):
    ledger = PrivacyLedger(eps=9.0)
    X = np.arange(40.0).reshape(-1, 2)
    for attempt in (
        lambda: DPKBinsDiscretizer(2, ledger=ledger, n_jobs=n_jobs).fit(X),
        lambda: DPRobustScaler(ledger=ledger, n_jobs=n_jobs).fit_batches([X]),
        lambda: dp_describe(X, ledger=ledger, n_jobs=n_jobs),
    ):
        with pytest.raises(ValueError, match="n_jobs"):
            attempt()
        with (
            config_context(skip_parameter_validation=True),
            pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0"),
        ):
            attempt()
    assert ledger.records() == []
