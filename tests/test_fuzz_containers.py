"""Every container, every dtype, one strange cell or none: nothing tells what the cell holds.

For each container and each kind of cell, the same table is given with several values of one cell.
Whatever happens must happen for all of them alike: the same result or the same error, with no
warning, no chained error and no trace of the cell, also if NumPy is told to raise.
"""

import datetime
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpq_sklearn import DPKBinsDiscretizer, PrivacyNoiseWarning, dp_quantiles

pytestmark = pytest.mark.slow
DEPRECATIONS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
DAY = datetime.datetime(2020, 2, 29, 23, 59)
INFINITE = [0.0, -0.0, 31337.5, np.nan, np.inf, -np.inf]
TEXT = ["123-45-6789", "2.0", "", "nan"]
DATES = [DAY, datetime.datetime(1999, 9, 9)]
DURATIONS = [datetime.timedelta(seconds=31337), datetime.timedelta(0)]
DECIMALS = [Decimal("31337.5"), Decimal(0)]


def limits(dtype):
    return [0, np.iinfo(dtype).min, np.iinfo(dtype).max]


def edges(dtype):
    info = np.finfo(dtype)
    return [*INFINITE, info.max, info.tiny, info.smallest_subnormal]


WHOLE = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
HUGE = [np.longdouble(text) for text in ("1", "1e400", "-1e400", "1e-4900", "nan", "inf")]
SIGNALLING = np.array([0x7FA00000, 0x3F800000], dtype=np.uint32).view(np.float32)

NUMPY = {
    **{dtype: limits(dtype) for dtype in WHOLE},
    **{dtype: edges(dtype) for dtype in ("float16", "float32", "float64")},
    "bool": [True, False],
    "longdouble": HUGE,
    ">f8": edges("float64"),
    "complex64": [31337j, 0j, complex(np.nan, 1)],
    "complex128": [31337j, 0j, complex(np.inf, 1)],
    "U": TEXT,
    "S": [text.encode() for text in TEXT],
    "datetime64[us]": [*DATES, "NaT"],
    "timedelta64[us]": [*DURATIONS, "NaT"],
    "f8,U11": [(31337.5, "123-45-6789"), (0.0, "")],
}
PANDAS = {
    **{dtype.replace("i", "I").replace("u", "U"): limits(dtype) for dtype in WHOLE},
    "Float32": [*INFINITE, None],
    "Float64": [*INFINITE, None],
    "boolean": [True, False, None],
    "string": [*TEXT, None],
    "datetime64[ns]": [*DATES, None],
    "datetime64[ns, UTC]": DATES,
    "timedelta64[ns]": [*DURATIONS, None],
    "category": [31337.5, 2.0, 7.0],
    "Sparse[float64]": [*INFINITE, None],
    "period[D]": [pd.Period("2020-02-29"), pd.Period("1999-09-09")],
}
ARROW = {
    **{getattr(pa, dtype)(): [*limits(dtype), None] for dtype in WHOLE},
    pa.bool_(): [True, False, None],
    pa.float32(): [*INFINITE, None],
    pa.float64(): [*INFINITE, None],
    pa.decimal128(20, 2): [*DECIMALS, None],
    pa.null(): [None],
    pa.string(): [*TEXT, None],
    pa.large_string(): TEXT,
    pa.binary(): [text.encode() for text in TEXT],
    pa.timestamp("us"): [*DATES, None],
    pa.timestamp("us", "UTC"): DATES,
    pa.date32(): [day.date() for day in DATES],
    pa.duration("us"): DURATIONS,
    pa.list_(pa.float64()): [[31337.5], [], [1.0, 2.0]],
    pa.struct({"a": pa.float64()}): [{"a": 31337.5}, None],
    pa.dictionary(pa.int32(), pa.string()): TEXT,
    pa.dictionary(pa.int32(), pa.float64()): [31337.5, 0.0, None],
}
POLARS = {
    pl.Int8: limits("int8"),
    pl.UInt64: [*limits("uint64"), None],
    pl.Int64: [*limits("int64"), None],
    pl.Float32: [*INFINITE, None],
    pl.Float64: [*INFINITE, None],
    pl.Boolean: [True, False, None],
    pl.Decimal(20, 2): [*DECIMALS, None],
    pl.Null: [None],
    pl.String: [*TEXT, None],
    pl.Binary: [text.encode() for text in TEXT],
    pl.Categorical: TEXT,
    pl.Enum(TEXT): TEXT,
    pl.Datetime("us"): [*DATES, None],
    pl.Date: [day.date() for day in DATES],
    pl.Duration("us"): DURATIONS,
    pl.List(pl.Float64): [[31337.5], [1.0, 2.0]],
    pl.Struct({"a": pl.Float64}): [{"a": 31337.5}, {"a": 0.0}],
}


class Odd(float):
    """A number that raises an error of its own kind when it is asked for its value."""

    def __new__(cls, error):
        odd = super().__new__(cls, 31337)
        odd.error = error
        return odd

    def __float__(self):
        raise self.error

    __gt__ = __lt__ = __float__


class Thing:
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Thing({self.value})"

    def __float__(self):
        return float(self.value)


NUMBERS = ("float", "int", "bool", "fraction", "decimal", "longdouble", "float32", "missing")
# Cells of one kind each: a fit must not tell them apart.
CELLS = {
    "float": INFINITE,
    "int": [31337, 0, -1, 10**400, -(10**400), 2**63, 2**64],
    "bool": [True, False],
    "fraction": [Fraction(31337, 2), Fraction(10**400), Fraction(1, 10**400)],
    "decimal": [Decimal(text) for text in ("31337", "NaN", "sNaN", "1e400", "-Infinity")],
    "longdouble": HUGE,
    "float32": [np.float32(31337), SIGNALLING[0], np.float32("inf")],
    "missing": [None, pd.NA, pd.NaT, np.ma.masked, np.nan],
    "str": TEXT,
    "bytes": [text.encode() for text in TEXT],
    "complex": [31337j, 0j, complex("nan")],
    "complex64": [np.complex64(31337), np.complex64(0)],
    "datetime": DATES,
    "date": [day.date() for day in DATES],
    "timedelta": DURATIONS,
    "datetime64": [np.datetime64("2020-02-29"), np.datetime64("NaT", "s")],
    "timedelta64": [np.timedelta64(31337, "s"), np.timedelta64("NaT", "s")],
    "timestamp": [pd.Timestamp(day) for day in DATES],
    "dict": [{"31337": 1}, {}],
    "set": [{31337}, set()],
    "odd": [Odd(error("31337")) for error in (ValueError, OverflowError, KeyError, UserWarning)],
    "thing": [Thing("31337"), Thing("inf"), Thing("no number")],
    "list": [[31337], [], [1, 2]],
    "tuple": [(31337,), (), (1, 2)],
    "ndarray": [np.array([31337.0]), np.array([1.0, 2.0])],
    "series": [pd.Series([31337.0]), pd.Series([1.0, 2.0])],
}


def column_of(cell):
    column = np.empty(3, dtype=object)
    column[:] = [1.0, 2.0, 0.0]
    column[2] = cell
    return column


def matrix_of_objects(cell):
    return np.stack((column_of(1.5), column_of(cell)), axis=1)


def hidden(X):
    mask = np.zeros(X.shape, dtype=bool)
    mask[2, 1] = True
    return np.ma.array(X, mask=mask)


OBJECTS = {
    "list": lambda cell: [[1.5, 1.0], [1.5, 2.0], [1.5, cell]],
    "tuple of arrays": lambda cell: (column_of(1.5), column_of(1.5), column_of(cell)),
    "numpy": matrix_of_objects,
    "masked": lambda cell: np.ma.array(matrix_of_objects(cell), mask=False),
    "below a mask": lambda cell: hidden(matrix_of_objects(cell)),
}


def numpy_of(dtype, cell):
    column = np.array([cell] * 3, dtype=dtype)
    return np.stack((column, column), axis=1)


def pandas_of(dtype, cell):
    return pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": pd.Series([cell] * 3, dtype=dtype)})


def arrow_column(type_, cell):
    if pa.types.is_dictionary(type_):
        return pa.array([cell] * 3, type_.value_type).dictionary_encode()
    return pa.array([cell] * 3, type_)


def arrow_of(type_, cell):
    return pa.table({"a": [1.0, 2.0, 3.0], "b": arrow_column(type_, cell)})


def arrow_backed_of(type_, cell):
    column = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([arrow_column(type_, cell)])))
    return pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": column})


def polars_of(dtype, cell):
    column = pl.Series("b", [cell] * 3, dtype=dtype)
    return pl.DataFrame([pl.Series("a", [1.0, 2.0, 3.0]), column])


TYPED = {
    "numpy": (NUMPY, numpy_of),
    "masked": (NUMPY, lambda dtype, cell: np.ma.array(numpy_of(dtype, cell), mask=False)),
    "below a mask": (NUMPY, lambda dtype, cell: hidden(numpy_of(dtype, cell))),
    "pandas": (PANDAS, pandas_of),
    "Arrow-backed pandas": (ARROW, arrow_backed_of),
    "Arrow table": (ARROW, arrow_of),
    "Arrow batch": (ARROW, lambda type_, cell: arrow_of(type_, cell).to_batches()[0]),
    "polars": (POLARS, polars_of),
}


def outcome(function, X):
    """Return "fine" or the type and the text of the error, which must have no past.

    Beside it stands what was deprecated by others on the way: it may be the same for all.
    """
    with warnings.catch_warnings(record=True) as told, np.errstate(all="raise"):
        warnings.simplefilter("always")
        # A function of released numbers, which differ from fit to fit.
        warnings.simplefilter("ignore", PrivacyNoiseWarning)
        try:
            function(X)
            result = "fine"
        except Exception as error:
            assert error.__context__ is None and error.__cause__ is None
            result = type(error), str(error), getattr(error, "__notes__", None)
    deprecated = [str(w.message) for w in told if issubclass(w.category, DEPRECATIONS)]
    assert len(deprecated) == len(told), told
    return result, deprecated


def in_this_thread(X):
    import dask

    with dask.config.set(scheduler="synchronous"):
        DPKBinsDiscretizer(2, encode="ordinal", resolution=8).fit(X)


READERS = {
    "fit": lambda X: DPKBinsDiscretizer(2, encode="ordinal").fit(X),
    "fit_batches": lambda X: DPKBinsDiscretizer(2, resolution=8).fit_batches([X]),
}
DASK_READERS = {"fit": in_this_thread}


def assert_alike(tables, cells, readers=READERS):
    """Assert that a reader does the same to all tables and tells no cell; return what it does."""
    results = []
    for name, reader in readers.items():
        outcomes = [outcome(reader, X) for X in tables]
        assert all(result == outcomes[0] for result in outcomes), (name, outcomes)
        for text in (word(cell) for cell in cells for word in (str, repr)):
            assert len(text) < 5 or text not in str(outcomes[0]), (name, outcomes[0])
        results.append(outcomes[0][0])
    return results


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("container", OBJECTS)
def test_objects(container, kind):
    cells = CELLS[kind]
    results = assert_alike([OBJECTS[container](cell) for cell in cells], cells)
    if kind in NUMBERS or container == "below a mask":
        assert results == ["fine", "fine"]
    else:
        assert all("got a cell of type" in text for error, text, _ in results)


@pytest.mark.parametrize("kind", CELLS)
def test_columns_of_objects(kind):
    cells = CELLS[kind]
    for container in (list, np.array, np.ma.array):  # pandas is refused by its type
        options = {} if container is list else {"dtype": object}
        columns = [container(column_of(cell), **options) for cell in cells]
        results = assert_alike(columns, cells, {"dp_quantiles": lambda x: dp_quantiles(x, 0.5)})
        assert (results == ["fine"]) == (kind in NUMBERS)


@pytest.mark.parametrize("container", TYPED)
def test_dtypes(container):
    values_of, table_of = TYPED[container]
    told = set()
    for dtype, cells in values_of.items():
        results = assert_alike([table_of(dtype, cell) for cell in cells], cells)
        assert results[0] == results[1] == "fine" or all("got dtype" in r[1] for r in results)
        told.add(results[0] == "fine")
    assert told == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("container", ["numpy", "masked", "below a mask"])
def test_dask_arrays(container):
    da = pytest.importorskip("dask.array")
    values_of, table_of = TYPED[container]
    for dtype, cells in values_of.items():
        tables = [table_of(dtype, cell) for cell in cells]
        blocks = [da.from_array(X, chunks=(2, 1), asarray=False) for X in tables]
        (result,) = assert_alike(blocks, cells, DASK_READERS)
        assert (result == "fine") == (np.dtype(dtype).kind in "biufmM")


@pytest.mark.slow
def test_dask_objects():
    da = pytest.importorskip("dask.array")
    for kind, cells in CELLS.items():
        parts = [da.from_array(OBJECTS["numpy"](cell), chunks=(2, 1)) for cell in cells]
        (result,) = assert_alike(parts, cells, DASK_READERS)
        assert (result == "fine") == (kind in NUMBERS)
