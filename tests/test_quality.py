"""The fit says privately whether the data are enough: one rule, from the release alone."""

import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPQuantileTransformer,
    PrivacyLedger,
    PrivacyNoiseWarning,
    suggest_n_bins,
)
from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.quality import AUTO_BINS, TOO_FAR_OFF, cautious_count, errors_in_bins, verdict

both = pytest.mark.parametrize("Transformer", [DPKBinsDiscretizer, DPQuantileTransformer])


def warnings_of(estimator, X):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X)
    return [str(w.message) for w in caught if issubclass(w.category, PrivacyNoiseWarning)]


def test_enough_data_never_warn(rng):
    X = rng.normal(size=(10_000, 10))
    assert not [text for _ in range(10) for text in warnings_of(DPKBinsDiscretizer(), X)]


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_diabetes, load_digits])
def test_small_tables_warn_or_have_bins_that_work(load):
    X = load().data
    (text,) = warnings_of(DPKBinsDiscretizer(n_bins=16), X)
    assert "rows" in text and "bins off. Use " in text and "a larger eps" in text
    automatic = DPKBinsDiscretizer("auto", delta=1e-6, eps=3.0)
    assert not warnings_of(automatic, X) or automatic.n_bins_[0] == AUTO_BINS[0]


def test_warning_points_at_the_line_of_the_user():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DPKBinsDiscretizer().fit(np.zeros((30, 5)))
    assert caught[0].filename == __file__


def test_edges_piled_up_on_a_bound_are_told(rng):
    X = rng.normal(50, 1, size=(5000, 2))
    (text,) = warnings_of(DPKBinsDiscretizer(bounds=(0, 10)), X)
    assert "lie on a bound in 2 of 2 features" in text
    zeros = np.where(rng.random((5000, 1)) < 0.9, 0.0, 5.0)
    assert not warnings_of(DPKBinsDiscretizer(bounds=(0, 10)), zeros)


@both
def test_side_outputs_are_functions_of_the_release_alone(Transformer, monkeypatch, rng):
    """With frozen released numbers, other data change neither warning nor attributes."""
    small, large = rng.normal(size=(40, 5)), rng.lognormal(size=(4000, 5))

    def outputs(X):
        estimator = Transformer(random_state=0)
        texts = warnings_of(estimator, X)
        return texts, estimator.quality_report().to_dict(), repr(estimator), estimator.n_rows_

    monkeypatch.setattr(CountNoise, "draw", lambda self, randomness: np.array([0]))
    monkeypatch.setattr("dpq_sklearn.data.sources.Records.n_rows", 77, raising=False)
    from dpq_sklearn.data import sources

    original = sources.Table.read

    def frozen(self, grid):
        records = original(sources.Table(small, None), grid)
        return sources.Records(records.ranks, 77)

    monkeypatch.setattr(sources.Table, "read", frozen)
    assert outputs(small) == outputs(large)


def test_auto_takes_more_bins_for_more_rows_and_budget(rng):
    X = rng.normal(size=(20_000, 3))
    few = DPKBinsDiscretizer("auto", eps=0.02).fit(X).n_bins_
    many = DPKBinsDiscretizer("auto", eps=2.0).fit(X).n_bins_
    assert few.shape == (3,) and few[0] < many[0] <= 27  # the cube root of the rows
    assert DPKBinsDiscretizer("auto", eps=2.0).fit(X[:300]).n_bins_[0] <= 4


@both
def test_auto_works_in_clones_batches_searches_and_ledgers(Transformer, rng):
    X = rng.normal(size=(2000, 2))
    name = "n_bins" if Transformer is DPKBinsDiscretizer else "n_quantiles"
    ledger = PrivacyLedger(eps=20.0)
    estimator = Transformer(**{name: "auto"}, ledger=ledger)
    clone(estimator).fit(X)
    batches = clone(estimator).fit_batches(np.array_split(X, 4))
    assert batches.n_rows_ > 500
    pipeline = make_pipeline(estimator, DecisionTreeClassifier())
    step = f"{Transformer.__name__.lower()}__eps"
    GridSearchCV(pipeline, {step: [0.5, 1.0]}, cv=2).fit(X, X[:, 0] > 0)
    assert len(ledger.records()) == 7
    assert ledger.spent().eps == pytest.approx(1 + 1 + 2 * 1.5 + ledger.records()[-1].eps)


def test_the_price_of_auto_covers_every_choice(rng):
    automatic = DPKBinsDiscretizer("auto", eps=1.0, delta=1e-6)._planned_loss(n_features=5)
    for n_bins in AUTO_BINS:
        fixed = DPKBinsDiscretizer(n_bins, eps=1.0, delta=1e-6)._planned_loss(n_features=5)
        assert automatic.rho >= fixed.rho and automatic.delta >= fixed.delta
        assert automatic.pure_eps >= fixed.pure_eps


def test_the_count_is_near_and_costs_a_64th(rng):
    X = rng.normal(size=(5000, 1))
    counts = np.array([DPKBinsDiscretizer(2, eps=4.0).fit(X).n_rows_ for _ in range(60)])
    assert abs(counts.mean() - 5000) < 4 * np.sqrt(2) * 16 / np.sqrt(60)
    assert 8 < counts.std() < 45  # sqrt(2) * 64 / 4 is 23
    assert DPKBinsDiscretizer(2, eps=0.001).fit(X[:3]).n_rows_ >= 1


def test_caution_takes_off_the_noise_of_the_count():
    plan = DPKBinsDiscretizer(4)._plan(3)
    deviation = CountNoise(plan.count_budget).deviation()
    assert deviation == pytest.approx(64 * np.sqrt(2), rel=1e-3)
    assert cautious_count(1000, plan.count_budget) == pytest.approx(1000 - deviation)
    assert cautious_count(10, plan.count_budget) == 1.0


def test_errors_in_bins_fall_with_rows_and_are_told_in_words():
    plan = DPKBinsDiscretizer(5)._plan(3)
    errors = [errors_in_bins(plan, n).mean() for n in (30, 300, 3000, 30_000)]
    assert np.all(np.diff(errors) < 0) and errors[0] > TOO_FAR_OFF > errors[-1]
    assert verdict(errors[0]) == "mostly noise" and verdict(errors[-1]) == "good"


@both
def test_report_is_a_frame_or_without_pandas_a_dict(Transformer, rng, monkeypatch):
    fitted = Transformer(eps=5.0).fit(rng.normal(size=(500, 3)))
    frame = fitted.quality_report()
    assert list(frame.columns) == ["feature", "bins", "edges", "error_in_bins", "verdict"]
    assert list(frame["feature"]) == ["x0", "x1", "x2"]
    assert all(len(edges) + 1 == n for edges, n in zip(frame["edges"], frame["bins"], strict=True))
    monkeypatch.setitem(sys.modules, "pandas", None)
    report = fitted.quality_report()
    assert isinstance(report, dict) and list(report) == list(frame.columns)


def test_parameters_by_column_name(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rng.normal(size=(3000, 3)), columns=list("abc"))
    fitted = DPKBinsDiscretizer({"b": 8}, feature_weights={"a": 2.0}).fit(frame)
    assert fitted.n_bins_.tolist() == [5, 8, 5]
    assert fitted.rank_error_[0].mean() < 0.6 * fitted.rank_error_[2].mean()
    with pytest.raises(ValueError, match="n_bins as a dict must have feature names"):
        DPKBinsDiscretizer({"d": 8}).fit(frame)
    with pytest.raises(ValueError, match="feature_weights as a dict"):
        DPKBinsDiscretizer(feature_weights={"d": 8}).fit(frame)


def test_bounds_that_could_be_lows_and_highs_are_refused(rng):
    X = rng.normal(size=(100, 2))
    with pytest.raises(ValueError, match="could also be all lows and all highs"):
        DPKBinsDiscretizer(bounds=((-1, 2), (3, 4))).fit(X)
    DPKBinsDiscretizer(bounds=[(-1, 2), (3, 4)]).fit(X)
    DPKBinsDiscretizer(bounds=((-1, 2), (-1, 1))).fit(X)  # as lows and highs: -1 < -1 is wrong


def test_suggestion_keeps_its_promise():
    assert suggest_n_bins(1e4, n_features=10, eps=1.0) >= 4
    with pytest.raises(ValueError, match="eps"):
        suggest_n_bins(10_000, eps=1.0, rho=1.0)
