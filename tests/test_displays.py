"""DPQuantileDisplay draws what was released, and data only where the caller calls them public."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPQuantileDisplay,
    DPQuantileTransformer,
    DPRobustScaler,
)

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
BOTH = [DPKBinsDiscretizer(8, random_state=0), DPQuantileTransformer(15, random_state=0)]


@pytest.fixture
def frame(rng):
    return pd.DataFrame({"age": rng.gamma(9, 4, 2000), "income": rng.lognormal(10, 1, 2000)})


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("estimator", BOTH, ids=lambda e: type(e).__name__)
def test_draws_the_released_numbers(estimator, frame):
    fitted = estimator.fit(frame)
    display = DPQuantileDisplay.from_estimator(fitted, feature="income", n_rows=2000)
    if hasattr(fitted, "bin_edges_"):
        assert np.array_equal(display.values, fitted.bin_edges_[1][1:-1])
        assert display.shares.tolist() == [k / 8 for k in range(1, 8)]
        assert np.allclose(display.errors, 2 * fitted.rank_error_[1] / 2000)
    else:
        assert np.array_equal(display.values, fitted.quantiles_[:, 1])
        assert np.array_equal(display.shares, fitted.references_)
    assert display.errors.shape == display.values.shape
    assert display.ax_.get_xlabel() == "income"
    assert display.figure_ is display.ax_.figure
    assert display.ax_.get_title() and display.ax_.get_ylabel()


@pytest.mark.parametrize("estimator", BOTH, ids=lambda e: type(e).__name__)
def test_band_is_drawn_from_the_released_number_of_rows(estimator, frame):
    fitted = estimator.fit(frame.to_numpy())
    display = DPQuantileDisplay.from_estimator(fitted, feature=1)
    guessed = DPQuantileDisplay.from_estimator(fitted, feature=1, n_rows=fitted.n_rows_)
    assert np.array_equal(display.errors, guessed.errors) and (display.errors > 0).all()

    display = DPQuantileDisplay.from_estimator(fitted, feature=1, X_public=frame[:100].to_numpy())
    assert np.array_equal(display.errors, guessed.errors)


def test_unknown_noise_has_no_band(frame):
    fitted = DPKBinsDiscretizer(8, mechanism="agg_tree").fit(frame)
    display = DPQuantileDisplay.from_estimator(fitted)
    assert display.errors is None and "noise" not in display.ax_.get_legend().get_texts()[0]._text


def test_other_estimators_are_named(frame):
    private = DPKBinsDiscretizer(3).fit(frame)
    plain = private.to_sklearn()
    for other in (plain, Pipeline([("bins", private)]), DPKBinsDiscretizer, None):
        words = "must be a fitted transformer of dpq_sklearn, got an object of type "
        with pytest.raises(TypeError, match=words + type(other).__name__):
            DPQuantileDisplay.from_estimator(other)
    with pytest.raises(NotFittedError):
        DPQuantileDisplay.from_estimator(DPKBinsDiscretizer(3))


def test_scaler_has_a_display(frame):
    fitted = DPRobustScaler().fit(frame)
    display = DPQuantileDisplay.from_estimator(fitted)
    assert np.array_equal(display.values, fitted.quantiles_[:, 0])
    assert display.shares.tolist() == [0.25, 0.5, 0.75] and display.errors.shape == (3,)


@pytest.mark.parametrize("estimator", BOTH, ids=lambda e: type(e).__name__)
def test_no_histogram_without_public_data(estimator, frame):
    display = DPQuantileDisplay.from_estimator(estimator.fit(frame.to_numpy()), feature=1)
    assert display.x_public is None
    assert len(display.figure_.axes) == 1
    assert display.ax_.get_xlabel() == "x1"


@pytest.mark.parametrize("estimator", BOTH, ids=lambda e: type(e).__name__)
def test_public_rows_give_a_histogram(estimator, frame):
    _, ax = matplotlib.pyplot.subplots()
    public = frame.iloc[:100]
    display = DPQuantileDisplay.from_estimator(estimator.fit(frame), X_public=public, ax=ax)
    assert display.ax_ is ax and len(display.figure_.axes) == 2
    assert np.array_equal(display.x_public, public["age"])


@pytest.mark.parametrize("feature", ["height", 2, -1, 1.5, None])
def test_unknown_features_raise(feature, frame):
    fitted = DPKBinsDiscretizer(3).fit(frame)
    with pytest.raises(ValueError, match="feature must be"):
        DPQuantileDisplay.from_estimator(fitted, feature=feature)
    with pytest.raises(ValueError, match="got ndarray of shape"):  # a column by mistake
        DPQuantileDisplay.from_estimator(fitted, feature=frame["age"].to_numpy())


@pytest.mark.parametrize(
    ("column", "bounds", "note"),
    [
        (lambda rng: rng.normal(100, 5, 500), None, None),
        (lambda rng: rng.exponential(20, 500), None, "negative tail"),
        (lambda rng: rng.exponential(20, 500), (0, 1000), None),
        (lambda rng: np.r_[rng.normal(size=400), np.full(100, 1e9)], None, "far from the others"),
    ],
)
def test_says_so_when_released_numbers_are_implausible(column, bounds, note, rng):
    X = column(rng)[:, None]
    fitted = DPQuantileTransformer(15, bounds=bounds, eps=1e6).fit(X)
    display = DPQuantileDisplay.from_estimator(fitted)
    title = display.ax_.get_title()
    assert (display.note is None and "\n" not in title) if note is None else note in title
    edges = DPQuantileDisplay.from_estimator(DPKBinsDiscretizer(8, eps=1e6).fit(X))
    assert edges.note is None or "far from the others" in edges.note == display.note


@pytest.mark.filterwarnings("ignore::dpq_sklearn.PrivacyNoiseWarning")
def test_says_so_when_the_noise_drowns_the_rows(frame):
    for eps, is_noise in ((0.02, True), (20.0, False)):
        fitted = DPKBinsDiscretizer(8, eps=eps, random_state=0).fit(frame)
        note = DPQuantileDisplay.from_estimator(fitted).note
        assert (note == "too much noise for so few rows") == is_noise
        assert (fitted.quality_report()["verdict"][0] == "mostly noise") == is_noise


@pytest.mark.parametrize("factor", [1.0, -1.0, 1e-12])
@pytest.mark.parametrize("n_bins", [3, 5, 8, 64])
def test_no_ordinary_shape_is_called_implausible(factor, n_bins, rng):
    columns = [
        rng.normal(size=5000),
        rng.lognormal(10, 2, 5000),
        rng.standard_cauchy(5000),
        rng.lognormal(size=5000) * (rng.random(5000) < 0.5),
        rng.normal(2005, 8, 5000).round(),
        np.full(5000, 7.0),
    ]
    fitted = DPKBinsDiscretizer(n_bins, eps=1e6).fit(factor * np.column_stack(columns))
    for feature in range(len(columns)):
        assert DPQuantileDisplay.from_estimator(fitted, feature=feature).note is None
        matplotlib.pyplot.close("all")
