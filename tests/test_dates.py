"""Dates and durations: numbers inside, dates outside, in all containers."""

import datetime as dt
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from dpq_sklearn import (
    DPDescribeDisplay,
    DPKBinsDiscretizer,
    DPQuantileDisplay,
    DPQuantileTransformer,
    DPRobustScaler,
    PrivacyLedger,
    dp_describe,
    dp_histogram,
    dp_quantiles,
    privacy_statement,
    sanitize,
)
from dpq_sklearn.dates import (
    ColumnKind,
    dates_of,
    days_of,
    days_of_scalar,
    kind_of,
    nearest_dates,
)
from dpq_sklearn.estimators.bin_labels import labels_of_bins
from dpq_sklearn.reading.describe_format import make_description, read_description

MUCH = 1e6
FIRST = np.datetime64("2007-11-11", "us")
BOUNDS = (dt.date(2000, 1, 1), dt.date(2020, 1, 1))


@pytest.fixture
def seen(rng):
    """The days on which penguins were seen: three seasons, and a missing day."""
    seen = FIRST + rng.integers(0, 750, size=344).astype("m8[D]")
    seen[3] = "NaT"
    return seen


@pytest.fixture
def penguins(rng, seen):
    return pd.DataFrame(
        {
            "island": "Biscoe",
            "mass": rng.normal(4200, 800, size=344).round(),
            "seen": seen,
            "stay": (rng.exponential(3600, size=344) * 1e6).astype("m8[us]"),
        }
    )


def containers(seen):
    """The same dates in all containers, and their kind."""
    as_pandas = pd.Series(seen)
    as_polars = pl.Series("seen", seen)
    zoned = as_pandas.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    of_arrow = pd.ArrowDtype(pa.timestamp("us"))
    return {
        "numpy": seen,
        "nanoseconds": seen.astype("M8[ns]"),
        "days": seen.astype("M8[D]"),
        "big-endian": seen.astype(">M8[us]"),
        "masked": np.ma.array(np.where(np.isnat(seen), FIRST, seen), mask=np.isnat(seen)),
        "pandas": as_pandas,
        "pandas zoned": zoned,
        "pandas Arrow": as_pandas.astype(of_arrow),
        "pandas Index": pd.DatetimeIndex(seen),
        "polars": as_polars,
        "polars dates": as_polars.cast(pl.Date),
        "polars zoned": as_polars.dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"),
        "Arrow": pa.array(seen),
        "Arrow dates": pa.array(seen).cast(pa.date32()),
        "Arrow zoned": pa.array(seen).cast(pa.timestamp("us", "Asia/Tokyo")),
    }


NAMES = list(containers(np.array([FIRST, FIRST])))


# Numbers inside


@given(st.integers(-62_135_596_800_000_000, 253_402_214_400_000_000))
def test_an_instant_has_the_same_number_in_all_units(microseconds):
    instant = np.array([microseconds]).view("M8[us]")
    (days,) = days_of(instant)
    for unit in ("ms", "s", "m", "h", "D"):
        coarse = instant.astype(f"M8[{unit}]")
        assert days_of(coarse) == days_of(coarse.astype("M8[us]"))
        assert days_of(coarse) <= days
    if abs(microseconds) < 2**60 // 1000:
        assert days_of(instant.astype("M8[ns]")) == days


@given(st.lists(st.integers(0, 2_000_000_000_000_000), min_size=2, unique=True))
def test_numbers_ascend_as_instants_do_and_come_back(microseconds):
    instants = np.sort(np.array(microseconds)).view("M8[us]")
    days = days_of(instants)
    assert (np.diff(days) > 0).all()
    np.testing.assert_array_equal(dates_of(days, ColumnKind.INSTANT), instants)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.integers(-800_000, 800_000))
def test_whole_days_are_on_the_same_side_of_a_number_and_of_its_date(edges, day):
    edges = np.sort(np.clip(edges, -700_000, 800_000))
    dates = days_of(dates_of(edges, ColumnKind.DATE))
    is_moved = np.append(False, np.diff(np.ceil(edges)) == 0) & np.append(False, np.diff(edges) > 0)
    if not is_moved.any():
        np.testing.assert_array_equal(day < edges, day < dates)
    assert (np.diff(dates)[np.diff(edges) > 0] > 0).all()


def test_numbers_far_outside_of_the_calendar_become_its_ends():
    ends = nearest_dates([-1e300, 1e300, np.nan], ColumnKind.DATE)
    assert ends.astype(str).tolist() == ["0001-01-01", "9999-12-31", "NaT"]


@pytest.mark.parametrize("unit", ["Y", "2Y", "M", "W", "7D", "D", "25s", "ns", "ps"])
def test_no_date_overflows(unit):
    largest = np.iinfo(np.int64).max
    days = days_of(np.array([-largest, -40, 0, 40, largest]).view(f"M8[{unit}]"))
    assert (np.diff(days) >= 0).all() and days[0] < days[2] == 0 < days[4] < np.inf
    if unit not in ("Y", "2Y", "M"):
        np.testing.assert_array_equal(
            np.sign(days_of(np.array([-largest]).view(f"m8[{unit}]"))), -1
        )


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Kiritimati", "Asia/Manila"])
@pytest.mark.parametrize("as_table", [pd.DataFrame, pl.DataFrame])
def test_the_ends_of_the_calendar_are_shown_in_every_time_zone(zone, as_table):
    table = as_table({"seen": pd.to_datetime(["2020-01-01"]).tz_localize("UTC").tz_convert(zone)})
    values = [np.array([-1e300, 0.0, 1e300])]
    description = make_description(table, np.array([0.05, 0.5, 0.95]), [1], values)
    years = [str(cell)[:4] for cell in list(description["seen"])[1:]]
    assert (years[0], years[2]) in (("0001", "9999"), ("1677", "9999"))  # 1677 with pytz


@pytest.mark.parametrize(
    ("bound", "days"),
    [
        (dt.date(1970, 1, 3), 2.0),
        (dt.datetime(1970, 1, 1, 12), 0.5),
        (dt.datetime(1970, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=6))), 0.25),
        (pd.Timestamp("1970-01-02"), 1.0),
        (pd.Timestamp("1970-01-02", tz="UTC"), 1.0),
        (np.datetime64("1970-02"), 31.0),
        (dt.timedelta(hours=6), 0.25),
        (pd.Timedelta("36h"), 1.5),
        (np.timedelta64(2, "D"), 2.0),
    ],
)
def test_bounds_become_days(bound, days):
    assert days_of_scalar(bound) == days


def test_bounds_that_are_missing_or_have_no_length_are_refused(seen):
    for end in (pd.NaT, np.datetime64("NaT", "D"), np.timedelta64(1, "M")):
        with pytest.raises(ValueError, match="bounds must"):
            dp_quantiles(seen, 0.5, bounds=(end, None))


# Dates outside


@pytest.mark.parametrize("name", NAMES)
def test_quantiles_of_dates_are_dates(name, seen):
    x = containers(seen)[name]
    quantiles = dp_quantiles(x, [0.25, 0.5], eps=MUCH, bounds=BOUNDS)
    assert quantiles.dtype == ("M8[D]" if "days" in name or "dates" in name else "M8[us]")
    days = np.nanquantile(days_of(seen), [0.25, 0.5])
    assert days_of(quantiles) == pytest.approx(days, abs=3)
    median = dp_quantiles(x, 0.5, eps=MUCH, bounds=BOUNDS)
    assert isinstance(median, np.datetime64)
    assert sanitize(x, 3, eps=MUCH).dtype.kind == "M"


def test_quantiles_of_durations_are_durations(penguins):
    expected = np.median(penguins["stay"]).astype("m8[us]")
    for x in (penguins["stay"], pl.Series(penguins["stay"]), pa.array(penguins["stay"])):
        median = dp_quantiles(x, 0.5, eps=MUCH, bounds=(dt.timedelta(0), dt.timedelta(days=2)))
        assert isinstance(median, np.timedelta64)
        assert abs(median - expected) < np.timedelta64(5, "m")


def test_a_description_in_pandas_has_dates_among_numbers(penguins):
    penguins["zoned"] = penguins["seen"].dt.tz_localize("Asia/Tokyo")
    description = dp_describe(penguins, eps=MUCH)
    assert list(description.columns) == ["mass", "seen", "stay", "zoned"]
    assert description["mass"].dtype == np.float64
    assert description.loc["count"].astype(int).tolist() == [344, 343, 344, 343]
    for name in ("seen", "stay", "zoned"):
        median = penguins[name].quantile(0.5)
        assert type(description.loc["50%", name]) is type(median)
        assert abs(description.loc["50%", name] - median) < pd.Timedelta(days=5)
    assert str(description.loc["50%", "zoned"].tz) == "Asia/Tokyo"


def test_a_description_in_polars_has_dates_as_text_as_polars_has(penguins):
    table = pl.from_pandas(penguins).with_columns(pl.col("seen").cast(pl.Date).alias("day"))
    description = dp_describe(table, eps=MUCH)
    own = table.select("mass", "seen", "stay", "day").describe()
    assert description.schema == own.schema
    cells = dict(zip(description["statistic"], description["day"], strict=True))
    assert cells["count"] == "343"
    median = dt.date.fromisoformat(cells["50%"])
    exact = sorted(table["day"].drop_nulls().to_list())
    assert abs(median - exact[len(exact) // 2]) < dt.timedelta(days=5)


@pytest.mark.parametrize("as_table", [lambda frame: frame, pl.from_pandas])
def test_a_description_with_dates_is_a_prior_and_is_drawn(as_table, penguins):
    table = as_table(penguins[["mass", "seen"]])
    description = dp_describe(table, eps=MUCH)
    described = read_description(description)
    assert described.names == ["mass", "seen"]
    assert described.are_dates == [False, True]
    with_prior = dp_describe(table, eps=0.5, prior=description, random_state=0)
    found = read_description(with_prior).values[2, 1]
    assert found == pytest.approx(described.values[2, 1], abs=60)

    pytest.importorskip("matplotlib").use("Agg")
    display = DPDescribeDisplay.from_description(description)
    labels = [text.get_text() for text in display.axes_[1].get_xticklabels()]
    assert any(label.startswith("200") for label in labels)


def test_a_histogram_counts_between_dates(seen):
    edges = np.array(["2007", "2008", "2009", "2010"], dtype="M8[Y]")
    expected = np.histogram(days_of(seen), days_of(edges.astype("M8[D]")))[0].tolist()
    for bins in (edges, edges.astype("M8[us]").tolist(), pd.DatetimeIndex(edges)):
        counts, given_edges = dp_histogram(pd.Series(seen), bins, eps=MUCH)
        assert counts.tolist() == expected
        np.testing.assert_array_equal(given_edges, edges)
    counts, edges = dp_histogram(seen, 2, range=(dt.date(2007, 1, 1), dt.date(2009, 1, 1)))
    assert edges.astype("M8[D]").astype(str).tolist() == ["2007-01-01", "2008-01-01", "2009-01-01"]


# Dates as features


@pytest.mark.parametrize("name", NAMES)
def test_edges_of_dates_are_dates_and_bins_are_those_of_the_dates(name, seen):
    column = containers(seen)[name]
    if isinstance(column, np.ndarray):
        X = column[:, None]
    elif "Arrow" in name and "pandas" not in name:
        X = pa.table({"seen": column})
    else:
        X = column.to_frame("seen") if "pandas" in name else column.to_frame()

    bins = DPKBinsDiscretizer(4, eps=50, encode="ordinal", random_state=0).fit(X)
    edges = bins.bin_edges_[0]
    assert edges.dtype.kind == "M"
    is_known = ~np.isnat(seen)
    numbers = bins.transform(X)[:, 0]
    np.testing.assert_array_equal(np.isnan(numbers), ~is_known)
    expected = np.searchsorted(edges[1:-1], seen[is_known], side="right")
    np.testing.assert_array_equal(numbers[is_known], expected)
    assert np.bincount(expected).min() > 60


def test_edges_are_shown_as_dates(penguins):
    table = pl.from_pandas(penguins).select("mass", pl.col("seen").cast(pl.Date))
    bins = DPKBinsDiscretizer(
        2, eps=50, encode="onehot-dense", feature_name_combiner="interval", random_state=0
    ).fit(table)
    edge = bins.bin_edges_[1][1]
    assert edge.dtype == "M8[D]"
    assert bins.bin_labels()[1] == [f"(-inf, {edge})", f"[{edge}, inf)"]
    assert bins.get_feature_names_out().tolist()[2:] == [
        f"seen_(-inf, {edge})",
        f"seen_[{edge}, inf)",
    ]
    assert bins.quality_report()["edges"][1] == [edge.item()]

    pytest.importorskip("matplotlib").use("Agg")
    display = DPQuantileDisplay.from_estimator(bins, feature="seen")
    assert any(text.get_text()[:2] == "20" for text in display.ax_.get_xticklabels())


@pytest.mark.parametrize(
    "estimator",
    [
        DPKBinsDiscretizer(4, encode="ordinal", eps=20),
        DPQuantileTransformer(7, eps=20),
        DPRobustScaler(eps=20),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_transformer_of_dates_agrees_with_one_of_days(estimator, penguins):
    X = penguins[["mass", "seen", "stay"]]
    days = X.assign(seen=days_of(X["seen"].to_numpy()), stay=days_of(X["stay"].to_numpy()))
    transformed = estimator.set_params(random_state=0).fit(X).transform(X)
    estimator = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(estimator.transform(pl.from_pandas(X)), transformed)

    plain = estimator.to_sklearn()
    is_known = X.notna().all(axis=1)
    known = X[is_known]
    np.testing.assert_allclose(plain.transform(known), transformed[is_known])
    np.testing.assert_allclose(plain.transform(pl.from_pandas(known)), transformed[is_known])
    np.testing.assert_allclose(
        plain[2:].transform(days[is_known].to_numpy()), transformed[is_known]
    )
    of_days = estimator.fit(days).transform(days)
    np.testing.assert_allclose(of_days, transformed, atol=1e-6)


def as_polars_dates(penguins):
    return pl.from_pandas(penguins[["mass", "seen", "stay"]]).with_columns(
        pl.col("seen").cast(pl.Date)
    )


def in_a_time_zone(penguins):
    zoned = penguins["seen"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    return penguins[["mass", "stay"]].assign(seen=zoned)


@pytest.mark.parametrize("container", ["default", "pandas", "polars"])
@pytest.mark.parametrize("table_of", [as_polars_dates, in_a_time_zone])
@pytest.mark.parametrize(
    "estimator",
    [
        DPKBinsDiscretizer(4, encode="onehot-dense", eps=20, feature_name_combiner="interval"),
        DPQuantileTransformer(7, eps=20, output_distribution="normal"),
        DPRobustScaler(eps=20, clip=1.0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_exports_take_dates_and_return_what_the_private_transformer_returns(
    estimator, table_of, container, penguins
):
    X = table_of(penguins.dropna())
    fitted = clone(estimator).set_params(random_state=0).set_output(transform=container).fit(X)
    plain = pickle.loads(pickle.dumps(fitted.to_sklearn()))
    expected, found = fitted.transform(X), plain.transform(X)
    assert type(found) is type(expected)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-9, atol=1e-12)
    if container != "default":
        assert list(found.columns) == list(expected.columns)


@pytest.mark.parametrize("estimator", [DPQuantileTransformer(7), DPRobustScaler()])
def test_exports_keep_missing_dates(estimator, seen):
    X = pd.DataFrame({"seen": seen})
    fitted = clone(estimator).set_params(eps=20, random_state=0).fit(X)
    plain = fitted.to_sklearn()
    assert np.isnan(plain.transform(X)[3, 0])
    np.testing.assert_allclose(plain.transform(X), fitted.transform(X), rtol=1e-9)


def test_exported_bins_refuse_missing_dates_or_put_them_into_the_first_bin(seen):
    X = pd.DataFrame({"seen": seen})
    fitted = DPKBinsDiscretizer(4, encode="ordinal", eps=20, random_state=0).fit(X)
    with pytest.raises(ValueError, match="NaN"):
        fitted.to_sklearn().transform(X)
    bins = fitted.to_sklearn(missing="first_bin").transform(X)[:, 0]
    assert bins[3] == 0
    np.testing.assert_array_equal(np.delete(bins, 3), np.delete(fitted.transform(X)[:, 0], 3))


def test_an_exported_edge_is_on_the_same_side_of_a_date():
    # The numbers of days of these depend on the order in which they are computed.
    edges = ["1975-07-27T17:42:33.945742", "1990-09-10T13:20:37.993250"]
    edges += ["1994-05-30T20:37:46.486592", "1997-03-17T04:29:11.452651"]
    edges = np.array(edges, dtype="M8[us]")[:, None]
    fitted = DPKBinsDiscretizer(5, encode="ordinal", eps=100, random_state=0).fit(edges)
    fitted.bin_edges_[0][1:-1] = edges[:, 0]

    step = np.timedelta64(1, "us")
    near = np.concatenate((edges - step, edges, edges + step))
    np.testing.assert_array_equal(fitted.transform(near)[:, 0], [0, 1, 2, 3] + 2 * [1, 2, 3, 4])
    np.testing.assert_array_equal(fitted.to_sklearn().transform(near), fitted.transform(near))


@pytest.mark.parametrize("name", ["pandas", "pandas zoned", "polars", "polars dates", "days"])
@pytest.mark.parametrize("encode", ["ordinal", "onehot"])
def test_the_centre_of_a_bin_of_dates_is_a_date_in_the_bin(name, encode, seen):
    column = containers(seen[~np.isnat(seen)])[name]
    X = column[:, None] if isinstance(column, np.ndarray) else column.to_frame()
    fitted = DPKBinsDiscretizer(8, encode=encode, eps=20, random_state=0).fit(X)
    bins = fitted.transform(X)
    centres = fitted.inverse_transform(bins)
    assert centres.dtype == fitted.bin_edges_[0].dtype
    again = fitted.transform(centres if not hasattr(X, "columns") else _like(X, centres))
    assert (again != bins).sum() == 0


def test_the_centre_of_a_single_day_is_that_day():
    X = np.repeat(np.arange("2024-02-27", "2024-03-03", dtype="M8[D]"), 500)[:, None]
    fitted = DPKBinsDiscretizer(10, encode="ordinal", eps=1e5, random_state=0).fit(X)
    bins = fitted.transform(X)
    np.testing.assert_array_equal(fitted.transform(fitted.inverse_transform(bins)), bins)


def _like(X, dates):
    """Return dates in the container and with the names of a table."""
    if isinstance(X, pd.DataFrame):
        return pd.DataFrame(dates, columns=X.columns)
    return pl.DataFrame(dates, schema=X.columns)


def test_values_of_numbers_and_dates_are_objects(penguins):
    X = penguins[["mass", "seen", "stay"]]
    fitted = DPQuantileTransformer(63, eps=500, random_state=0).fit(X)
    back = fitted.inverse_transform(fitted.transform(X))
    assert back.dtype == object and back[3, 1] is None
    found = pd.DataFrame(back, columns=X.columns).infer_objects()
    assert found.dtypes.map(lambda dtype: dtype.kind).tolist() == ["f", "M", "m"]
    distance = (found["seen"] - X["seen"]).abs().max()
    assert distance < pd.Timedelta("30 D")

    as_objects = fitted.quantiles_
    assert isinstance(as_objects[9, 1], dt.datetime) and isinstance(as_objects[9, 2], dt.timedelta)
    assert as_objects.shape == (fitted.references_.size, 3)


def test_a_scaler_of_dates_is_read_as_dates(penguins):
    X = penguins[["seen"]]
    scaler = DPRobustScaler(eps=500, random_state=0).fit(X)
    assert scaler.center_.dtype == scaler.quantiles_.dtype == "M8[us]"
    assert scaler.scale_.dtype == "m8[us]"
    assert abs(scaler.center_[0] - X["seen"].median()) < pd.Timedelta("20 D")
    by_hand = (X.to_numpy().astype("M8[us]") - scaler.center_) / scaler.scale_
    np.testing.assert_allclose(scaler.transform(X), by_hand)

    mixed = DPRobustScaler(eps=500, random_state=0).fit(penguins[["mass", "seen"]])
    assert isinstance(mixed.center_[1], dt.datetime) and isinstance(mixed.scale_[1], dt.timedelta)
    same = DPRobustScaler(eps=500, random_state=0).fit(np.full((900, 1), FIRST))
    assert (same.scale_ > np.timedelta64(0, "us")).all()
    assert np.isfinite(same.transform(np.full((9, 1), FIRST))).all()


@pytest.mark.parametrize("estimator", [DPKBinsDiscretizer(8), DPQuantileTransformer(7)])
def test_a_release_of_dates_and_its_export_are_priors(estimator, seen):
    X = pd.DataFrame({"seen": seen})
    earlier = clone(estimator).set_params(eps=100, random_state=0).fit(X)
    for prior in (earlier, earlier.to_sklearn()):
        later = DPKBinsDiscretizer(2, eps=0.5, prior=prior, random_state=0).fit(X)
        assert abs(later.bin_edges_[0][1] - np.datetime64("2008-11-20")) < np.timedelta64(150, "D")


@pytest.mark.parametrize(
    ("edge", "label"),
    [
        ("2013-02-02T13:06:14.400000", "2013-02-02 13:06:14.4"),
        ("2013-02-02T13:10:00", "2013-02-02 13:10:00"),
        ("2013-02-20", "2013-02-20"),
    ],
)
def test_labels_have_no_needless_zeros(edge, label):
    assert labels_of_bins(np.array([edge], dtype="M8[us]")) == [
        f"(-inf, {label})",
        f"[{label}, inf)",
    ]


def test_a_statement_shows_dates(penguins):
    table = pl.from_pandas(penguins).select("mass", pl.col("seen").cast(pl.Date))
    for estimator in (DPKBinsDiscretizer(2, eps=50), DPQuantileTransformer(3, eps=50)):
        statement = privacy_statement(estimator.fit(table))
        assert re.search(r"\| seen \| 200[789]-\d\d-\d\d", statement)


def test_bounds_and_names_of_dates(penguins):
    X = penguins[["mass", "seen"]]
    bins = DPKBinsDiscretizer(2, bounds={"seen": BOUNDS}, decimals={"seen": 0}, eps=50).fit(X)
    days = bins.bin_edges_[1].astype("M8[D]")
    assert days[[0, -1]].tolist() == list(BOUNDS)
    np.testing.assert_array_equal(bins.bin_edges_[1], days)


def test_declared_dates_are_whole_days(penguins):
    table = pl.from_pandas(penguins).select(pl.col("seen").cast(pl.Date))
    bins = DPKBinsDiscretizer(4, decimals="schema", mechanism="agg_tree", bounds=BOUNDS)
    assert bins.fit(table).bin_edges_[0].dtype == "M8[D]"


def test_tied_dates_have_a_bin_of_their_own():
    same = np.full((500, 1), FIRST)
    later = same + np.timedelta64(1, "D")
    for unit in ("us", "D"):
        X = np.concatenate((same, later)).astype(f"M8[{unit}]")
        bins = DPKBinsDiscretizer(8, eps=MUCH, encode="ordinal", random_state=0).fit(X)
        first, second = np.unique(bins.transform(X))
        assert first < second


def test_batches_have_dates_too(penguins):
    whole = DPKBinsDiscretizer(4, eps=20, random_state=0)
    edges = whole.fit_batches([penguins[["seen"]]]).bin_edges_[0]
    parts = [penguins[["seen"]][:100], penguins[["seen"]][100:]]
    np.testing.assert_array_equal(whole.fit_batches(iter(parts)).bin_edges_[0], edges)
    with pytest.raises(ValueError, match="feature 'seen' must hold dates as in fit, got numbers"):
        whole.fit_batches([parts[0], parts[1].assign(seen=1.0)])


@pytest.mark.slow
def test_partitions_of_dask_have_dates_too(penguins):
    dd = pytest.importorskip("dask.dataframe")
    X = penguins[["mass", "seen", "stay"]]
    expected = DPKBinsDiscretizer(4, encode="ordinal", eps=20, resolution=24, random_state=0).fit(X)
    partitions = dd.from_pandas(X, npartitions=3)
    fitted = DPKBinsDiscretizer(4, encode="ordinal", eps=20, random_state=0).fit(partitions)
    for edges, of_dask in zip(expected.bin_edges_, fitted.bin_edges_, strict=True):
        np.testing.assert_array_equal(of_dask, edges)
    rows = fitted.transform(partitions).compute()
    np.testing.assert_array_equal(rows, expected.transform(X))
    assert list(dp_describe(partitions, eps=MUCH).columns) == ["mass", "seen", "stay"]


# Mistakes


def test_dates_and_numbers_are_not_taken_for_each_other(penguins, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", eps=10.0)
    paid = {"ledger": ledger}
    numbers, dates = penguins[["mass"]], penguins[["seen"]]
    with pytest.raises(ValueError, match=r"bounds of a column of dates must be dates, got \(1900"):
        dp_quantiles(dates["seen"], 0.5, bounds=(1900, 2100), **paid)
    with pytest.raises(ValueError, match=r"must be numbers, got \(date, date\)"):
        DPKBinsDiscretizer(bounds=BOUNDS, **paid).fit(numbers)
    with pytest.raises(ValueError, match="two numbers, two dates or two durations"):
        DPKBinsDiscretizer(bounds=(BOUNDS[0], 5), **paid).fit(dates)
    with pytest.raises(ValueError, match="bins of a column of dates must be dates, got numbers"):
        dp_histogram(dates["seen"], [0, 1], **paid)
    with pytest.raises(ValueError, match="prior must hold dates as x does, got numbers"):
        dp_quantiles(dates["seen"], 0.5, prior=[1.0, 2.0], **paid)
    assert ledger.records() == []

    fitted = DPKBinsDiscretizer(**paid).fit(numbers)
    with pytest.raises(ValueError, match="feature 'mass' must hold numbers as in fit, got dates"):
        fitted.transform(dates.rename(columns={"seen": "mass"}))
    with pytest.raises(ValueError, match="feature 'seen' must hold dates as in fit, got durations"):
        fitted.fit(dates).transform(penguins[["stay"]].rename(columns={"stay": "seen"}))


def test_a_container_that_tells_no_dtype_holds_no_dates(seen):
    class Untold:
        def __array__(self, dtype=None, copy=None):
            return seen

        def __len__(self):
            return len(seen)

    with pytest.raises(TypeError, match="dates must be in a container with a dtype"):
        dp_quantiles(Untold(), 0.5)


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("datetime64[ns]", ColumnKind.INSTANT),
        ("datetime64[D]", ColumnKind.DATE),
        ("timedelta64[h]", ColumnKind.DURATION),
        ("timedelta64[Y]", ColumnKind.NUMBER),
        ("float64", ColumnKind.NUMBER),
        (pd.DatetimeTZDtype("ns", "UTC"), ColumnKind.INSTANT),
        (pd.PeriodDtype("D"), ColumnKind.NUMBER),
        (pl.Time, ColumnKind.NUMBER),
        (pl.Duration("ms"), ColumnKind.DURATION),
        (pa.date64(), ColumnKind.DATE),
        (pa.time32("s"), ColumnKind.NUMBER),
        (pa.duration("s"), ColumnKind.DURATION),
        (pd.ArrowDtype(pa.date32()), ColumnKind.DATE),
    ],
    ids=str,
)
def test_the_type_tells_the_kind(dtype, kind):
    assert kind_of(np.dtype(dtype) if isinstance(dtype, str) else dtype) is kind


@pytest.mark.parametrize("strategy", ["uniform", "auto"])
def test_bins_of_equal_width_have_dates_too(strategy, penguins):
    bins = DPKBinsDiscretizer(4, strategy=strategy, bounds=BOUNDS, eps=0.1, random_state=0)
    bins.fit(penguins[["seen"]])
    assert bins.bin_edges_[0].dtype.kind == "M"
    assert isinstance(bins.quality_report()["edges"][0][0], dt.date)
    assert bins.to_sklearn()[-1].bin_edges_[0].dtype == np.float64
