"""Displays draw what was released, and data only where the caller calls them public."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from dpq_sklearn import (
    DPDescribeDisplay,
    DPKBinsDiscretizer,
    DPQuantileDisplay,
    DPQuantileTransformer,
    DPRobustScaler,
    dp_describe,
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


# Descriptions


@pytest.mark.parametrize("as_polars", [False, True])
def test_a_description_is_drawn_as_one_box_per_column(frame, as_polars):
    frame["constant"] = 3.0
    description = dp_describe(pl.from_pandas(frame) if as_polars else frame, random_state=0)
    display = DPDescribeDisplay.from_description(description)
    assert display.names == ["age", "income", "constant"]
    assert display.axes_.size == 3 and display.figure_ is display.axes_[0].figure
    numbers = description.drop("statistic") if as_polars else description
    assert np.array_equal(display.values, numbers.to_numpy()[1:])

    for ax, name, count, values in zip(
        display.axes_, display.names, display.counts, display.values.T, strict=True
    ):
        assert f"{name}, {count:,.0f} ± " in ax.get_title(loc="left")
        *bands, box = ax.patches
        assert len(bands) == 5
        for band, value in zip(bands, values, strict=True):
            assert band.get_x() <= value <= band.get_x() + band.get_width()
        assert box.get_x() == values[1] and box.get_width() == pytest.approx(values[3] - values[1])
    assert "5%, 25%, 50%, 75%, 95%" in display.figure_._suptitle.get_text()


@pytest.mark.parametrize("price", [{"eps": 0.5}, {"eps": 1.0, "delta": 1e-5}, {"rho": 0.1}])
def test_bands_of_a_description_are_as_wide_as_its_noise(price):
    """Of even numbers the width in values is that in ranks; of round ones it would be less."""
    n = 20_000
    price = {"eps": None} | price
    table = np.tile(1234.567 + 777.77 * np.arange(n)[:, None] / n, 3)
    found = [dp_describe(table, random_state=seed, **price) for seed in range(40)]
    display = DPDescribeDisplay.from_description(found[0], **price)
    widths = [patch.get_width() for patch in display.axes_[0].patches[:5]]
    errors = np.std([described[1:] for described in found], axis=(0, 2))
    assert np.array(widths) / (4 * errors) == pytest.approx(1, abs=0.3)

    counts = [described.loc["count"] for described in found]
    assert display.count_error / (2 * np.std(counts)) == pytest.approx(1, abs=0.3)


def test_a_description_of_few_values_is_called_noise(frame):
    frame.loc[20:, "income"] = np.nan
    description = dp_describe(frame, random_state=0)
    titles = [
        ax.get_title(loc="left") for ax in DPDescribeDisplay.from_description(description).axes_
    ]
    assert ["mostly noise" in title for title in titles] == [False, True]


def test_unknown_noise_of_a_description_has_no_bands(frame):
    description = dp_describe(frame, mechanism="agg_tree")
    display = DPDescribeDisplay.from_description(description, mechanism="agg_tree")
    assert display.rank_errors is None and len(display.axes_[0].patches) == 1


@pytest.mark.parametrize("percentiles", [[0.5], [0.2, 0.8], np.arange(1, 20) / 20])
def test_any_number_of_quantiles_is_drawn(percentiles, frame):
    description = dp_describe(frame, percentiles=percentiles)
    display = DPDescribeDisplay.from_description(description)
    display.figure_.canvas.draw()
    assert display.values.shape == (len(percentiles), 2)


def test_what_is_no_description_or_has_no_place_is_refused(frame):
    for other in (frame, frame.to_numpy(), None):
        with pytest.raises(ValueError, match="description must be a table of dp_describe"):
            DPDescribeDisplay.from_description(other)
    description = dp_describe(frame)
    with pytest.raises(ValueError, match="eps must be"):
        DPDescribeDisplay.from_description(description, eps=-1)
    figure, axes = matplotlib.pyplot.subplots(3)
    with pytest.raises(ValueError, match="axes must have an item for each of the 2 columns, got 3"):
        DPDescribeDisplay.from_description(description, axes=axes)
    display = DPDescribeDisplay.from_description(description, axes=axes[:2])
    assert display.figure_ is figure


# Descriptions by segment


@pytest.fixture
def regions(frame):
    frame["region"] = np.where(np.arange(len(frame)) % 4 == 0, "south", "north")
    return frame


@pytest.mark.parametrize("as_polars", [False, True])
def test_segments_of_a_column_are_drawn_side_by_side_on_one_scale(regions, as_polars):
    table = pl.from_pandas(regions) if as_polars else regions
    options = {"keys": ["south", "north"], "eps": 2.0}
    description = dp_describe(table, by="region", random_state=0, **options)
    display = DPDescribeDisplay.from_description(description, column="income", **options)
    assert display.names == ["south", "north"] and display.column == "income"
    assert display.figure_._suptitle.get_text().startswith("income: private quantiles 5%")

    in_pandas = dp_describe(regions, by="region", random_state=0, **options)["income"]
    assert display.counts.tolist() == in_pandas["count"].tolist()
    assert np.array_equal(display.values.T, in_pandas.drop(columns="count").to_numpy())
    first, second = display.axes_
    assert first.get_xlim() == second.get_xlim()
    assert first.get_xlim()[0] < display.values.min() < display.values.max() < first.get_xlim()[1]

    # Two columns share the budget, the segments do not.
    plain = dp_describe(regions[["age", "income"]], eps=2.0, random_state=0)
    plain = DPDescribeDisplay.from_description(plain, eps=2.0)
    assert display.count_error == pytest.approx(plain.count_error, rel=1e-4)
    assert display.rank_errors == pytest.approx(plain.rank_errors, rel=1e-4)


def test_keys_of_several_columns_and_dates_are_drawn(regions):
    regions["year"] = 2020 + np.arange(len(regions)) % 2
    regions["day"] = np.datetime64("2020-01-01") + np.arange(len(regions)) % 300
    keys = [("north", 2021), ("south", 2020)]
    description = dp_describe(regions, by=["region", "year"], keys=keys, random_state=0)
    display = DPDescribeDisplay.from_description(description, column="day")
    assert display.names == ["north, 2021", "south, 2020"] and display.are_dates == [True, True]
    days = np.array(["2020-01-01", "2020-10-30"], dtype="datetime64[D]").astype(int)
    assert days[0] < display.values[2, 0] < days[1]


@pytest.mark.filterwarnings("ignore::dpq_sklearn.PrivacyNoiseWarning")
def test_small_segments_are_called_noise_and_do_not_set_the_scale(regions):
    keys = ["north", "nowhere"]
    description = dp_describe(regions, by="region", keys=keys, random_state=0)
    display = DPDescribeDisplay.from_description(description, column="age")
    noisy = ["mostly noise" in ax.get_title(loc="left") for ax in display.axes_]
    assert noisy == [False, True]
    low, high = display.values[0, 0], display.values[-1, 0]
    assert display.axes_[0].get_xlim() == display.axes_[1].get_xlim()
    assert display.axes_[1].get_xlim() == pytest.approx(
        (low - 0.05 * (high - low), high + 0.05 * (high - low))
    )


def test_keys_that_were_found_privately_leave_four_fifths_of_eps(regions):
    price = {"eps": 2.0, "delta": 1e-6}
    options = {"keys": "private", **price}
    description = dp_describe(regions, by="region", random_state=0, **options)
    display = DPDescribeDisplay.from_description(description, column="age", **options)
    rest = DPDescribeDisplay.from_description(description, column="age", eps=1.6)
    assert display.count_error == pytest.approx(rest.count_error, rel=1e-3)


def test_wrong_columns_of_a_description_by_segment_are_refused(regions):
    keys = ["north", "south"]
    description = dp_describe(regions, by="region", keys=keys)
    for column in (None, "region", "count"):
        with pytest.raises(ValueError, match=r"column must be .* one of 'age', 'income', got"):
            DPDescribeDisplay.from_description(description, column=column)
    with pytest.raises(ValueError, match='keys must be a list, "private" or None'):
        DPDescribeDisplay.from_description(description, column="age", keys="public")
    with pytest.raises(
        ValueError, match="axes must have an item for each of the 2 segments, got 1"
    ):
        DPDescribeDisplay.from_description(
            description, column="age", axes=matplotlib.pyplot.subplots()[1]
        )
    with pytest.raises(ValueError, match="description must have at least one segment"):
        DPDescribeDisplay.from_description(description[:0], column="age")

    plain = dp_describe(regions[["age"]])
    with pytest.raises(ValueError, match="column must be None for a description without segments"):
        DPDescribeDisplay.from_description(plain, column="age")


@pytest.mark.parametrize("value", [12.0, 0.0, -3e7])
def test_a_tied_column_has_a_readable_axis(value):
    """The ticks were numbers such as -0.002, beside an offset of +1.199e1."""
    fitted = DPKBinsDiscretizer(4, eps=1e4, random_state=0).fit(np.full((500, 1), value))
    ax = DPQuantileDisplay.from_estimator(fitted).ax_
    ax.figure.canvas.draw()
    assert ax.xaxis.get_offset_text().get_text() in ("", "1e7", "\u00d710^7") or value == -3e7
    labels = [text.get_text() for text in ax.get_xticklabels()]
    assert len(set(labels)) == len(labels)
    low, high = ax.get_xlim()
    assert low < value < high
    assert not ax.xaxis.get_major_formatter().get_useOffset()
