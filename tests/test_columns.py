"""Containers: what is refused before the price is paid, what is read, and what an error holds."""

import datetime
import fractions
import sys
import traceback
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from scipy import sparse

import dpq_sklearn
from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPQuantileTransformer,
    DPRobustScaler,
    PrivacyLedger,
    dp_count,
    dp_histogram,
    dp_quantiles,
    sanitize,
)
from dpq_sklearn.reading.containers import (
    checked_column,
    checked_table,
    no_data_in_frames,
    read_matrix,
)

SECRET = "123-45-6789"
PACKAGE = str(Path(dpq_sklearn.__file__).parent)
NOW = datetime.datetime(2020, 2, 2)


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(tmp_path / "ledger.sqlite", eps=10.0)


def matrix_of(X):
    return read_matrix(checked_table(X))


# What the dtype says comes before the price.


def frame(column):
    return pd.DataFrame({"age": [1.0, 2.0], "other": column})


def table(*values, type=None):
    return pa.table({"age": [1.0, 2.0], "other": pa.array(values, type=type)})


def polars(*values, dtype=None):
    return pl.DataFrame({"age": [1.0, 2.0], "other": pl.Series(values, dtype=dtype)})


NO_NUMBERS = {
    "numpy text": (np.array([[1.0, SECRET]]), "str"),
    "numpy bytes": (np.array([[b"1", SECRET.encode()]]), "bytes"),
    "numpy months": (np.ones((2, 1), dtype="timedelta64[M]"), "timedelta64[M]"),
    "numpy femtoseconds": (np.ones((2, 1), dtype="datetime64[fs]"), "datetime64[fs]"),
    "polars times": (polars(NOW.time(), None), "Time"),
    "Arrow times": (table(NOW.time(), None), "time64[us]"),
    "numpy complex": (np.array([[1.0, 31337j]]), "complex128"),
    "numpy records": (np.array([[(1.0, SECRET)]], dtype="f8,U11"), "void"),
    "masked text": (np.ma.array([[SECRET], ["1"]], mask=[[1], [0]]), "str"),
    "masked complex": (np.ma.array([[1j], [2j]], mask=True), "complex128"),
    "sparse complex": (sparse.csr_array([[31337j]]), "complex128"),
    "pandas text": (frame(pd.array([SECRET, "x"], dtype="string")), "string"),
    "pandas periods": (frame(pd.period_range("2020", periods=2, freq="D")), "period[D]"),
    "pandas intervals": (frame(pd.interval_range(0, 2)), "interval"),
    "pandas categories of text": (frame(pd.Categorical([SECRET, "x"])), "category"),
    "pandas sparse text": (
        frame(pd.arrays.SparseArray(np.array([SECRET, "x"], dtype=object), fill_value=SECRET)),
        "Sparse",
    ),
    "pandas Arrow text": (frame(pd.array([SECRET, "x"], dtype=pd.ArrowDtype(pa.string()))), "str"),
    "pandas Arrow lists": (
        frame(pd.array([[1.0], [2.0]], dtype=pd.ArrowDtype(pa.list_(pa.float64())))),
        "list",
    ),
    "polars text": (polars(SECRET, "x"), "String"),
    "polars categories": (polars(SECRET, "x", dtype=pl.Categorical), "Categorical"),
    "polars enum": (polars(SECRET, SECRET, dtype=pl.Enum([SECRET])), "Enum"),
    "polars lists": (polars([1.0], [2.0]), "List"),
    "polars structs": (polars({SECRET: 1}, None), "Struct"),
    "Arrow text": (table(SECRET, "x"), "string"),
    "Arrow lists": (table([1.0], [2.0]), "list"),
    "Arrow structs": (table({SECRET: 1.0}, None), "struct"),
    "Arrow text dictionary": (
        table(SECRET, "x", type=pa.dictionary(pa.int8(), pa.string())),
        "dictionary",
    ),
    "Arrow batch": (table(SECRET, "x").to_batches()[0], "string"),
}
if hasattr(np, "dtypes") and hasattr(np.dtypes, "StringDType"):
    text = np.array([[SECRET]], dtype=np.dtypes.StringDType())
    NO_NUMBERS["numpy strings"] = (text, "StringDType")


@pytest.mark.parametrize(("X", "dtype"), NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_a_dtype_of_no_numbers_is_refused_before_the_price_is_paid(X, dtype, ledger):
    column = "column 0 of X" if hasattr(X, "dtype") else "column 'other' of X"
    estimator = DPKBinsDiscretizer(ledger=ledger)
    for method in (estimator.fit, lambda X: estimator.fit_batches([X])):
        with pytest.raises(ValueError) as caught:
            method(X)
        message = str(caught.value)
        assert message.removeprefix("Complex data not supported: ").splitlines()[0] == (
            f"{column} must hold real numbers, got dtype {dtype}."
        )
        assert message.startswith("Complex data not supported") == ("complex" in dtype)
        assert caught.value.__context__ is None
    assert ledger.records() == []


@pytest.mark.parametrize(
    "x",
    [
        np.array([SECRET]),
        pd.Series([SECRET], dtype="category"),
        pl.Series([NOW.time()]),
        pl.Series([SECRET]),
        pa.array([SECRET]),
        pa.chunked_array([[SECRET]]),
        np.ma.array([SECRET], mask=True),
        np.array([1j]),
    ],
    ids=lambda x: f"{type(x).__module__}.{type(x).__name__}",
)
def test_a_column_of_no_numbers_is_refused_before_the_price_is_paid(x, ledger):
    with pytest.raises(ValueError, match="x must hold real numbers, got dtype"):
        dp_quantiles(x, 0.5, ledger=ledger)
    assert ledger.records() == []


@pytest.mark.parametrize("x", [[[1.0], [2.0]], np.ones((2, 2)), polars(1, 2)])
def test_a_column_of_other_dimensions_is_refused_before_the_price_is_paid(x, ledger):
    with pytest.raises(ValueError, match="x must be one-dimensional"):
        dp_quantiles(x, 0.5, ledger=ledger)
    assert ledger.records() == []


@pytest.mark.parametrize("function", [dp_quantiles, dp_histogram])
def test_a_sparse_column_is_refused_before_the_price_is_paid(function, ledger):
    x = sparse.coo_array(np.array([31337.0, 0.0]))
    if x.ndim == 2:
        pytest.skip("this SciPy has no sparse columns")
    for groups in (None, ["a", "b"]):
        with pytest.raises(TypeError, match=r"x must be dense, got a coo_array: pass x\.toarray"):
            function(x, [0.25, 0.5], groups=groups, ledger=ledger)
    assert ledger.records() == []


OBJECTS = {
    "numpy": lambda *cells: np.array([[1.0, cell] for cell in cells], dtype=object),
    "masked": lambda *cells: np.ma.array([[1.0, cell] for cell in cells], dtype=object),
    "list": lambda *cells: [[1.0, cell] for cell in cells],
}
each_container_of_objects = pytest.mark.parametrize("container", OBJECTS.values(), ids=OBJECTS)


@each_container_of_objects
def test_objects_are_paid_for_and_then_read(container, ledger):
    estimator = DPKBinsDiscretizer(ledger=ledger)
    for method in (estimator.fit, lambda X: estimator.fit_batches([X])):
        with pytest.raises(TypeError, match=r"column '?1'? of X .* got a cell of type str\."):
            method(container(2.0, SECRET))
    assert len(ledger.records()) == 2


def frame_of_objects(*cells):
    return pd.DataFrame({"a": 1.0, "b": pd.Series(cells, dtype=object)})


OBJECTS_IN_FRAMES = {
    "text": frame_of_objects("ann", "bob"),
    "numbers": frame_of_objects(1.0, 2.0),
    "missing": frame_of_objects(None, None),
    "categories": pd.DataFrame({"a": 1.0, "b": pd.Categorical([1, "x"])}),
    "polars": pl.DataFrame([pl.Series("a", [1.0]), pl.Series("b", [1.0], dtype=pl.Object)]),
}


@pytest.mark.parametrize("name", OBJECTS_IN_FRAMES)
def test_columns_of_objects_in_frames_are_refused_before_the_price_is_paid(name, ledger):
    X = OBJECTS_IN_FRAMES[name]
    estimator = DPKBinsDiscretizer(ledger=ledger)
    for method in (estimator.fit, lambda X: estimator.fit_batches([X])):
        with pytest.raises(ValueError, match=r"column 'b' of X must hold real numbers, got dtype"):
            method(X)
    with pytest.raises(ValueError, match=r"x must hold real numbers, got dtype"):
        dp_quantiles(X["b"], 0.5, ledger=ledger)
    assert ledger.records() == []


def test_all_wrong_columns_are_named_at_once_with_what_to_do(ledger):
    X = frame_of_objects("ann", "bob").assign(c=pd.Period("2020-01-01", "D"), d=[True, False])
    with pytest.raises(ValueError) as caught:
        DPKBinsDiscretizer(ledger=ledger).fit(X)
    message = str(caught.value)
    assert message.startswith("columns 'b', 'c' of X must hold real numbers, got dtype object, per")
    assert "pd.to_numeric" in message
    assert ledger.records() == []


@pytest.mark.parametrize("dtype", ["object", "string", "category"])
def test_text_is_refused_with_what_to_do(dtype, ledger):
    for X in (pd.DataFrame({"b": pd.Series(["ann", "bob"], dtype=dtype)}), polars("ann", "bob")):
        with pytest.raises(
            ValueError, match=r"got dtype \w+\.\nEncode .* DPOneHotEncoder"
        ) as caught:
            DPKBinsDiscretizer(ledger=ledger).fit(X)
        assert "pd.to_datetime" in str(caught.value) and "ann" not in str(caught.value)
        with pytest.raises(ValueError, match=r"\nCount the categories .* dp_value_counts"):
            dp_quantiles(X[X.columns[-1]], 0.5, ledger=ledger)
    assert ledger.records() == []


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([pd.Period("2020-01", "M")]).to_frame("b"),
        pl.DataFrame({"b": [NOW.time()]}),
        pa.table({"b": pa.array([NOW.time()])}),
    ],
    ids=["periods", "times", "times of Arrow"],
)
def test_periods_and_times_of_day_are_refused_with_what_to_do(column, ledger):
    with pytest.raises(ValueError, match=r"got dtype .*\nConvert periods .* Bin the hour"):
        DPKBinsDiscretizer(ledger=ledger).fit(column)
    assert ledger.records() == []


def test_a_refusal_after_the_payment_says_that_the_ledger_stays_charged(ledger):
    X = np.array([[1.0], ["x"]], dtype=object)
    with pytest.raises(TypeError) as caught:
        DPKBinsDiscretizer(ledger=ledger).fit(X)
    assert any("stays charged" in note for note in caught.value.__notes__)
    with pytest.raises(TypeError) as caught:
        DPKBinsDiscretizer().fit(X)
    assert not getattr(caught.value, "__notes__", [])


# What the numbers are.


@pytest.mark.parametrize(
    "X",
    [
        np.ma.array([[1.0, -999.0], [3.0, 4.0]], mask=[[0, 1], [0, 0]]),
        np.ma.array([[1.0, -999.0], [3.0, 4.0]], mask=[[0, 1], [0, 0]], dtype=np.float32),
        np.ma.array([[1, -999], [3, 4]], mask=[[0, 1], [0, 0]], hard_mask=True),
        np.ma.array([[1, SECRET], [3, 4]], mask=[[0, 1], [0, 0]], dtype=object),
        np.ma.array(np.array([["1", "1e400"], ["3", "4"]], np.longdouble), mask=[[0, 1], [0, 0]]),
        [[1, np.ma.masked], [3, 4]],
        [np.ma.array([1, -999], mask=[0, 1]), [3, 4]],
        np.array([[1, np.ma.masked], [3, 4]], dtype=object),
        [[1, None], [3, 4]],
        [[1, pd.NA], [3, 4]],
        [[1, pd.NaT], [3, 4]],
        [[1, Decimal("sNaN")], [3, 4]],
        [[Decimal(1), Decimal("NaN")], [fractions.Fraction(3), np.float32(4)]],
        pd.DataFrame([[1, np.nan], [3, 4]], dtype="Int64"),
        pd.DataFrame([[1, np.nan], [3, 4]], dtype="category"),
        pd.DataFrame([[1, None], [3, 4]], dtype=pd.ArrowDtype(pa.decimal128(21, 2))),
        pd.DataFrame([[1, None], [3, 4]]).astype(pd.ArrowDtype(pa.int8())),
        pd.DataFrame({"a": pd.array([1, 3]), "b": pd.arrays.SparseArray([np.nan, 4.0])}),
        pl.DataFrame({"a": [1, 3], "b": [None, 4]}),
        pl.DataFrame({"a": [1, 3], "b": pl.Series([None, Decimal(4)])}),
        pa.table({"a": [1, 3], "b": [None, 4]}),
        pa.table({"a": pa.array([1, 3], pa.uint8()), "b": pa.array([None, Decimal(4)])}),
        pa.table({"a": [1, 3], "b": pa.chunked_array([pa.array([None, 4]).dictionary_encode()])}),
        pa.table({"a": [1, 3], "b": pa.array([None, np.float16(4)], pa.float16())}),
        pa.table({"a": [1, 3], "b": [None, 4]}).to_batches()[0],
    ],
    ids=lambda X: f"{type(X).__module__}.{type(X).__name__}",
)
def test_every_kind_of_missing_value_becomes_nan(X):
    with np.errstate(all="raise"):
        matrix = matrix_of(X)
    assert matrix.dtype == getattr(X, "dtype", None) or matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix, [[1.0, np.nan], [3.0, 4.0]])


@pytest.mark.parametrize("value", [True, np.True_, 1, np.int8(1), np.longdouble(1), Decimal(1)])
@each_container_of_objects
def test_objects_that_are_real_numbers_are_read(container, value):
    assert matrix_of(container(value, None)).tolist()[0] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (10**400, np.inf),
        (-(10**400), -np.inf),
        (fractions.Fraction(-(10**400), 3), -np.inf),
        (Decimal("1e400"), np.inf),
        (np.longdouble("-1e400"), -np.inf),
        (np.longdouble("1e-4000"), 0.0),
    ],
    ids=lambda cell: type(cell).__name__,
)
@each_container_of_objects
def test_numbers_beyond_float64_are_infinite_without_a_word(container, cell, expected):
    with np.errstate(all="raise"):
        assert matrix_of(container(2.0, cell))[1, 1] == expected


@pytest.mark.parametrize("X", [np.ones((3, 2)), np.ones((3, 2), dtype=np.float32)])
def test_floats_are_not_copied(X):
    assert matrix_of(X) is X
    frame = pd.DataFrame(X)
    assert np.shares_memory(matrix_of(frame), frame.to_numpy())
    column = read_matrix(checked_column(X[:, 0]))
    assert column.shape == (3, 1) and np.shares_memory(column, X)


@pytest.mark.parametrize(
    "X",
    [
        pl.DataFrame({"a": [None, None]}),
        pa.table({"a": pa.nulls(2)}),
        np.ma.masked_all((2, 1), dtype=object),
    ],
    ids=lambda X: type(X).__module__,
)
def test_columns_of_nothing_but_missing_values_are_read(X):
    assert np.isnan(matrix_of(X)).tolist() == [[True], [True]]


@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="this polars has no such integers")
def test_integers_that_numpy_has_not_are_read():
    X = pl.DataFrame({"a": pl.Series([10**30, None], dtype=pl.Int128)})
    assert matrix_of(X)[0, 0] == 1e30


def test_tables_may_be_wide_or_without_columns():
    for X in (np.ones((2, 200)), pd.DataFrame(np.ones((2, 200))), pl.DataFrame(np.ones((2, 200)))):
        assert np.array_equal(matrix_of(X), np.ones((2, 200)))
    assert matrix_of(pd.DataFrame(index=[0, 1])).shape == (2, 0)


def test_mixed_real_dtypes_become_float64():
    X = pd.DataFrame({"flag": [True, False], "count": [1, 2], "small": np.float32([0.5, 1.5])})
    assert matrix_of(X).dtype == np.float64
    assert matrix_of(X[["small"]]).dtype == np.float32
    assert matrix_of(np.array([[1.0]], dtype=">f4")).dtype == np.float32


def test_columns_may_share_their_name():
    """Columns are found by position. Only scikit-learn 1.9 and later refuse such a frame."""
    X = pd.DataFrame([[1, 2.5], [None, 4]], columns=["a", "a"])
    np.testing.assert_array_equal(matrix_of(X), [[1.0, 2.5], [np.nan, 4.0]])
    if sklearn.__version__ < "1.9":
        assert DPKBinsDiscretizer().fit(X).n_features_in_ == 2


def test_frames_of_narwhals_are_those_that_they_wrap(rng):
    narwhals = pytest.importorskip("narwhals")
    X = pl.DataFrame(rng.normal(size=(50, 2)), schema=["a", "b"])
    fitted = DPKBinsDiscretizer().fit(narwhals.from_native(X))
    assert fitted.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(TypeError, match="collect"):
        fitted.fit(narwhals.from_native(X.lazy()))


# What is told.


class Refusing(float):
    """A number that raises an error with its own text when it is converted."""

    def __init__(self, error):
        self.error = error

    def __new__(cls, error):
        return super().__new__(cls, 31337)

    def __float__(self):
        raise self.error

    __gt__ = __lt__ = __float__


class Convertible:
    """An object that is not a number, but can be converted to one."""

    def __float__(self):
        return 31337.0


STRANGE = [
    SECRET,
    SECRET.encode(),
    np.str_(SECRET),
    31337j,
    np.complex64(31337),
    NOW,
    NOW.date(),
    NOW - NOW,
    np.datetime64("2020-02-02"),
    np.timedelta64(31337, "s"),
    np.timedelta64(31337, "ns"),
    pd.Timestamp(NOW),
    pd.Timedelta(1),
    {SECRET: 1},
    {SECRET},
    object(),
    Convertible(),
    Refusing(ValueError(SECRET)),
    Refusing(OverflowError(SECRET)),
    Refusing(ZeroDivisionError(SECRET)),
    Refusing(RuntimeWarning(SECRET)),
    Refusing(MemoryError(SECRET)),
]


@pytest.mark.parametrize("cell", STRANGE, ids=lambda cell: type(cell).__name__)
@each_container_of_objects
def test_a_strange_cell_is_told_by_column_and_type(container, cell):
    with pytest.raises(TypeError) as caught:
        matrix_of(container(2.0, cell))
    name = list(getattr(container(1.0), "columns", [0, 1]))[1]
    assert str(caught.value).startswith(
        f"column {name!r} of X must hold real numbers, got a cell of type {type(cell).__name__}. "
    )
    assert SECRET not in str(caught.value) and "31337" not in str(caught.value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_of_several_strange_types_the_order_of_the_rows_does_not_tell():
    for cells in ([SECRET, {}], [{}, SECRET], [1.0, SECRET, {}, SECRET]):
        with pytest.raises(TypeError, match="type dict"):
            matrix_of([[cell] for cell in cells])


def frames_of(error):
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]


def holds(value, secret):
    """Whether a local variable is the data, or something that contains them."""
    return SECRET in repr(value) or value is secret


@pytest.mark.parametrize("method", ["fit", "fit_batches"])
@each_container_of_objects
def test_no_frame_below_the_public_method_holds_data_when_a_read_fails(method, container):
    X = container(2.0, SECRET)
    with pytest.raises(TypeError) as caught:
        getattr(DPQuantileTransformer(), method)([X] if method == "fit_batches" else X)
    frames = [f for f in frames_of(caught.value) if f.f_code.co_filename.startswith(PACKAGE)]
    assert frames[0].f_code.co_name == method
    assert len(frames) > 2
    for frame in frames[1:]:
        assert not [name for name, value in frame.f_locals.items() if holds(value, X)]


def test_no_frame_of_a_read_that_fails_holds_data():
    X = checked_table([[1.0, SECRET]])
    with pytest.raises(TypeError) as caught, no_data_in_frames():
        read_matrix(X)
    _, *frames = frames_of(caught.value)
    assert len(frames) > 2
    assert not [frame.f_locals for frame in frames if frame.f_locals]


def test_no_frame_below_dp_quantiles_holds_data_when_a_read_fails():
    x = [1.0, SECRET]
    with pytest.raises(TypeError) as caught:
        dp_quantiles(x, 0.5)
    frames = [f for f in frames_of(caught.value) if f.f_code.co_filename.startswith(PACKAGE)]
    assert frames[0].f_code.co_name == "dp_quantiles" and len(frames) > 1
    inner = [value for frame in frames[1:] for value in frame.f_locals.values()]
    assert not [value for value in inner if holds(value, x)]


TEXT = pd.DataFrame({"a": [SECRET] * 3})
NUMBERS = np.arange(3.0)[:, None]
FAILED_CHECKS = {
    "fit, dtype": lambda: DPKBinsDiscretizer().fit(TEXT),
    "fit, number of labels": lambda: DPKBinsDiscretizer().fit(NUMBERS, groups=[SECRET] * 4),
    "fit, shape of labels": lambda: DPKBinsDiscretizer().fit(NUMBERS, groups=TEXT),
    "fit, type of labels": lambda: DPKBinsDiscretizer().fit(
        NUMBERS, groups=pa.array([[SECRET]] * 3)
    ),
    "fit_batches, dtype": lambda: DPKBinsDiscretizer().fit_batches([TEXT]),
    "fit_batches, labels": lambda: DPKBinsDiscretizer().fit_batches(
        [NUMBERS], groups=[[SECRET] * 4], groups_are_whole=True
    ),
    "dp_quantiles, dtype": lambda: dp_quantiles(TEXT["a"], 0.5),
    "dp_quantiles, labels": lambda: dp_quantiles(NUMBERS[:, 0], 0.5, groups=[SECRET] * 4),
    "sanitize, dtype": lambda: sanitize(TEXT["a"], 3),
    "dp_count, labels": lambda: dp_count(NUMBERS, groups=[SECRET] * 4),
    "dp_histogram, dtype": lambda: dp_histogram(TEXT["a"], [0, 1]),
}


@pytest.mark.parametrize("check", FAILED_CHECKS)
def test_no_frame_below_the_public_method_holds_data_when_a_check_fails(check):
    with pytest.raises((TypeError, ValueError)) as caught:
        FAILED_CHECKS[check]()
    frames = [f for f in frames_of(caught.value) if f.f_code.co_filename.startswith(PACKAGE)]
    assert frames[0].f_code.co_name == check.split(",")[0]
    assert len(frames) > 1
    inner = [value for frame in frames[1:] for value in frame.f_locals.values()]
    assert not [value for value in inner if holds(value, None)]


def test_a_reader_that_breaks_leaves_no_batch_in_the_frames():
    def batches():
        yield np.full((5, 1), 31337.0)
        raise OSError("disk")

    with pytest.raises(OSError, match="disk") as caught:
        DPKBinsDiscretizer().fit_batches(batches())
    frames = frames_of(caught.value)
    inner = frames[[frame.f_code.co_name for frame in frames].index("fit_batches") + 1 :]
    assert len(inner) >= 2
    assert not [f for frame in inner for f in frame.f_locals.values() if "31337" in repr(f)]


class Grudging:
    """A container that raises an error with its data when it is read."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError(SECRET)


def test_what_a_container_raises_is_not_told(ledger):
    for read in (DPKBinsDiscretizer().fit, lambda X: dp_quantiles(X, 0.5, ledger=ledger)):
        with pytest.raises(TypeError, match=r"must be a (table|column) or an array, got") as caught:
            read(Grudging())
        assert SECRET not in str(caught.value) and caught.value.__context__ is None
    assert len(ledger.records()) == 1


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0, 31337.0], [2.0]], "got 1D array instead.* must have one length"),
        ([31337.0], "got 1D array instead"),
        (np.array([(31337.0, SECRET)], dtype="f8,U11"), "got 1D array instead"),
        (31337.0, "X must be a table or an array, got an object of type float"),
        (np.float64(31337), "X must be a table or an array, got an object of type float64"),
        (np.array(31337), "X must be a table or an array, got an object of type ndarray"),
        (None, r"X must be a table or an array, got None\."),
        ("31337.csv", r"got a str: read the file first, for example with pandas\.read_csv"),
        (Path("31337.csv"), "got a PosixPath: read the file first"),
        ({"a": [31337.0]}, r"got a dict: make a table of it, for example with pandas\.DataFrame"),
        (iter([[31337.0]]), "got a list_iterator: fit_batches takes tables"),
        ({31337.0}, "got an object of type set"),
        (pd.Series([1.0], name=31337), r'such as df\[\["income"\]\] or X\.to_frame\(\)\.$'),
        (pl.Series("31337", [1.0]), r'such as df\[\["income"\]\] or X\.to_frame\(\)\.$'),
        (np.array([31337.0]), r"contains a single sample\.$"),
        (np.full((2, 2, 2), 31337.0), "dim 3"),
        (np.empty((0, 2)), r"0 sample\(s\) \(shape=\(0, 2\)\)"),
        (pd.DataFrame({"a": pd.Series([], dtype=float)}), r"0 sample\(s\) \(shape=\(0, 1\)\)"),
        (np.empty((2, 0)), r"0 feature\(s\) \(shape=\(2, 0\)\)"),
        (pl.DataFrame(), r"0 sample\(s\)"),
        (sparse.csr_array([[31337.0]]), "dense data is required"),
    ],
)
def test_shapes_are_refused_before_the_price_is_paid(X, message, ledger):
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        DPKBinsDiscretizer(ledger=ledger).fit(X)
    assert "31337" not in str(caught.value) and caught.value.__context__ is None
    assert ledger.records() == []


def test_a_lazy_frame_is_to_be_collected(ledger):
    lazy = pl.LazyFrame({"a": [1.0]})
    binner = DPKBinsDiscretizer(ledger=ledger, random_state=0)
    for name, read in {
        "X": binner.fit,
        "x": lambda x: dp_quantiles(x, 0.5, ledger=ledger),
        "each batch": lambda X: binner.fit_batches([X]),
    }.items():
        with pytest.raises(TypeError, match=rf"{name} must hold .* LazyFrame: collect\(\) it"):
            read(lazy)
    with pytest.raises(TypeError, match=r"a single LazyFrame: pass its collect_batches\(\), or"):
        binner.fit_batches(lazy)
    assert ledger.records() == []


@pytest.mark.skipif(not hasattr(pl.LazyFrame, "collect_batches"), reason="an older polars")
def test_batches_of_a_lazy_frame_are_taken(rng):
    table = pl.DataFrame({"a": rng.normal(size=5000)})
    binner = DPKBinsDiscretizer(random_state=0)
    edges = binner.fit_batches([table]).bin_edges_[0]
    assert np.array_equal(binner.fit_batches(table.lazy().collect_batches()).bin_edges_[0], edges)


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        (["31337.parquet"], "each batch must be a table or an array, got a str: read the file"),
        ([None], r"each batch must be a table or an array, got None\."),
        ([{"a": [31337]}], "each batch must be a table or an array, got a dict: make a table"),
        ([31337, 2], "each batch must be a table or an array, got an object of type int"),
        ("31337.parquet", "batches must be an iterable of tables, got a str: read the file"),
        (Path("31337"), "batches must be an iterable of tables, got a PosixPath: read the file"),
        ({"a": [31337]}, "batches must be an iterable of tables, got a dict: make a table"),
        (None, r"batches must be an iterable of tables, got None\."),
        (31337, "batches must be an iterable of tables, got an object of type int"),
    ],
)
def test_what_holds_no_tables_is_refused_before_the_price_is_paid(batches, message, ledger):
    with pytest.raises(TypeError, match=message) as caught:
        DPKBinsDiscretizer(ledger=ledger).fit_batches(batches)
    assert "31337" not in str(caught.value)
    assert ledger.records() == []


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (pd.DataFrame({"a": [31337.0]}), r'Pass one column of a table, such as df\["income"\]\.'),
        (None, r"x must be a column or an array, got None\."),
        ("31337.csv", "x must be a column or an array, got a str: read the file first"),
        ({"a": [31337.0]}, "x must be a column or an array, got a dict"),
    ],
)
def test_what_is_no_column_is_refused_before_the_price_is_paid(x, message, ledger):
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        dp_quantiles(x, 0.5, ledger=ledger)
    assert "31337" not in str(caught.value)
    assert ledger.records() == []


@pytest.mark.parametrize("Transformer", [DPKBinsDiscretizer, DPQuantileTransformer, DPRobustScaler])
def test_sample_weight_is_refused_in_the_name_of_the_public_class(Transformer, ledger):
    for method in ("fit", "fit_transform"):
        with pytest.raises(TypeError, match="the cost of a row") as caught:
            getattr(Transformer(ledger=ledger), method)([[1.0]], sample_weight=[31337.0])
        assert str(caught.value).startswith(
            f"{Transformer.__name__}.fit() got an unexpected keyword argument 'sample_weight'."
        )
        assert "31337" not in str(caught.value)
    with pytest.raises(TypeError, match=r"\.fit\(\) got an unexpected keyword argument 'foo'\.$"):
        Transformer(ledger=ledger).fit([[1.0]], foo=1)
    assert ledger.records() == []


@pytest.mark.parametrize("Transformer", [DPKBinsDiscretizer, DPQuantileTransformer, DPRobustScaler])
@pytest.mark.parametrize("method", ["transform", "inverse_transform"])
def test_transforms_read_as_fits_do(Transformer, method):
    options = {
        DPKBinsDiscretizer: {"n_bins": 2, "encode": "ordinal"},
        DPQuantileTransformer: {"n_quantiles": 2},
        DPRobustScaler: {},
    }
    fitted = Transformer(random_state=0, **options[Transformer]).fit([[0.0], [1.0]])
    transform = getattr(fitted, method)
    masked = np.ma.array([[0.0], [-999.0]], mask=[[0], [1]])
    np.testing.assert_array_equal(transform(masked), transform([[0.0], [None]]))
    with pytest.raises(TypeError, match="column 0 of X must hold real numbers, got a cell"):
        transform([[SECRET]])
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array") as caught:
        transform([31337.0])
    assert "31337" not in str(caught.value)


# Dask.


@pytest.fixture
def dask_array():
    return pytest.importorskip("dask.array")


def test_masks_of_dask_arrays_are_missing_values(dask_array, rng):
    X = rng.normal(50, 10, size=(2000, 2))
    masked = np.ma.array(np.where(X < 45, -999.0, X), mask=X < 45)
    blocks = dask_array.from_array(masked, chunks=(300, 1), asarray=False)
    estimator = DPKBinsDiscretizer(encode="ordinal", random_state=0, resolution=24, eps=10)
    expected = estimator.fit(np.where(X < 45, np.nan, X))
    edges = np.concatenate(expected.bin_edges_)
    assert edges.min() > 0
    transformed = expected.transform(masked)
    fitted = estimator.fit(blocks)
    np.testing.assert_array_equal(np.concatenate(fitted.bin_edges_), edges)
    np.testing.assert_array_equal(fitted.transform(blocks).compute(), transformed)
    made = dask_array.ma.masked_array(dask_array.from_array(masked.data), mask=masked.mask)
    np.testing.assert_array_equal(np.concatenate(estimator.fit(made).bin_edges_), edges)


def test_a_longdouble_in_a_partition_decides_about_no_warning(dask_array):
    X = np.array([["1e400", "1"], ["2", "-1e400"]], dtype=np.longdouble)
    with np.errstate(all="raise"):
        fitted = DPKBinsDiscretizer(encode="ordinal").fit(dask_array.from_array(X, chunks=(1, 2)))
        fitted.transform(dask_array.from_array(X)).compute()


def test_workers_return_their_errors_and_number_the_columns_of_the_whole(dask_array, ledger):
    X = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, SECRET]], dtype=object)
    blocks = dask_array.from_array(X, chunks=(1, 1))
    with pytest.raises(TypeError, match=r"column 2 of X .* a cell of type str\.") as caught:
        DPKBinsDiscretizer(ledger=ledger).fit(blocks)
    assert caught.value.__context__ is None
    assert not [f for f in frames_of(caught.value) if f.f_code.co_name == "summary_of_partition"]
    assert len(ledger.records()) == 1


def test_a_partition_of_another_dtype_than_promised_is_told_by_it(dask_array):
    promised = dask_array.ones((4, 1), chunks=(2, 1))
    lying = promised.map_blocks(lambda block: block.astype(str), meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match="column 0 of X must hold real numbers, got dtype str"):
        DPKBinsDiscretizer().fit(lying)


@pytest.mark.parametrize("dtype", ["timedelta64[M]", "U11", "complex128", "f8,U11"])
def test_dask_dtypes_are_refused_before_the_price_is_paid(dtype, dask_array, ledger):
    blocks = dask_array.zeros((4, 2), chunks=(2, 1), dtype=dtype)
    with pytest.raises(ValueError, match="column 0 of X must hold real numbers, got dtype"):
        DPKBinsDiscretizer(ledger=ledger).fit(blocks)
    assert ledger.records() == []


def test_pandas_and_polars_and_arrow_are_not_imported_for_arrays():
    """The names of modules decide: nothing is imported that the user has not imported."""
    source = Path(sys.modules["dpq_sklearn.reading.containers"].__file__).read_text()
    assert not [name for name in ("pandas", "polars", "pyarrow") if f"import {name}" in source]
