"""Reading containers: tables of numbers and dates become floats, and no output quotes a cell.

Exceptions and warnings are outputs, too. Therefore reading has two steps:

- `checked_table` and `checked_column` look at public facts alone: the container, its dimensions,
  its names and its dtypes. They raise before the price is paid. Lists and unknown containers
  become `Unread`, with the shape and the dtype that they declare. Only a table that declares no
  shape, because it only has `__array__`, is converted in this step.
- `read_matrix` reads the numbers. Only cells of unknown types can still be wrong: the message
  names the column and the type of the cell. Every kind of missing value becomes NaN, and
  infinities stay. The frames of a read that fails hold data, which `no_data_in_frames` removes.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from os import PathLike
from traceback import clear_frames

import numpy as np
from scipy import sparse

from dpq_sklearn.dates import days_of, is_date_type, kind_of
from dpq_sklearn.reading.threads import blocks_of_rows

_REAL_KINDS = "biuf"
_FLOATS = (np.float64, np.float32)
_INTEGERS = tuple(map(np.dtype, "?bBhHiIlLqQ"))
# The beginnings of the names of other libraries' dtypes.
_NUMBERS = r"(?i)(sparse\[|dictionary<values=)?(bool|u?int\d|(half)?float|double|decimal|null)"
_WORDS_OF_TEXT = r"object|str|string|large_string|category|categorical|enum|dictionary"
_ABOUT_TEXT = (
    " Convert text that stands for numbers or dates with pd.to_numeric, pd.to_datetime or astype."
)
_ABOUT_CATEGORIES = "\nEncode columns of categories with DPOneHotEncoder or DPOrdinalEncoder."
_WORDS_OF_TIMES = r"period.*|time(32|64)?(\[.*)?"
_ABOUT_TIMES = (
    "\nConvert periods to dates with .dt.to_timestamp(). Bin the hour of times of day instead."
)
_ABOUT_ONE_COLUMN = "\nCount the categories of a column with dp_value_counts."
_NAMES_OF_KINDS = {"S": "bytes", "U": "str", "V": "void"}
_PLAIN_TYPES = {float, int, bool, type(None)}
MISSING_TYPES = ("NoneType", "NAType", "NaTType", "MaskedConstant")
_ROWS_AT_ONCE = 2048
_A_COLUMN = "a column or an array"


@dataclass(frozen=True)
class Unread:
    """A list, or a container with `__array__`, that declares its shape and is converted later."""

    container: object
    shape: tuple
    dtype: np.dtype  # of objects if the container declares none

    def __len__(self):
        return self.shape[0]

    def read(self):
        """Return the container as an array of numbers of the declared shape, or raise."""
        array = self.as_array()
        _check_dtypes(array)
        if not is_date_type(self.dtype):
            _refuse_undeclared_dates(array)
        return array

    def as_array(self):
        """Return the container as an array of the declared shape, or raise."""
        array = _as_array(self.container)
        if array is None or array.shape != self.shape:
            kind = type(self.container).__name__
            raise ValueError(f"X must hold cells in its declared shape, got a {kind}.")
        return array


def _refuse_undeclared_dates(array):
    """Raise for dates in a container without a declared dtype, which was planned as numbers."""
    if is_date_type(array.dtype):
        raise TypeError("dates must be in a container with a dtype: convert it with np.asarray.")


def checked_table(X, name="X"):
    """Return `X` as a table or an array with a shape and dtypes of numbers or dates, or raise."""
    X = table_with_dtypes(X, name)
    _check_dtypes(X)
    return X


def table_with_dtypes(X, name="X"):
    """Return `X` as a table or an array with a shape and any dtypes, or raise."""
    is_list = isinstance(X, (list, tuple))
    X = _with_dtypes(X, name, "a table or an array")
    if type(X).__name__ == "RecordBatch":  # scikit-learn finds the names of a table only
        X = sys.modules["pyarrow"].Table.from_batches([X])
    if _n_dimensions(X) < 2:
        raise ValueError(f"Expected 2D array, got 1D array instead. {_way_to_a_table(X, is_list)}")
    return X


def _way_to_a_table(x, is_list):
    """Return advice on passing a column as a table. It omits the name, which may be a label."""
    if type(x).__name__ == "Series":
        return 'A Series is one column: pass a table, such as df[["income"]] or X.to_frame().'
    return (
        "Reshape your data either using array.reshape(-1, 1) if your data has a single feature or "
        "array.reshape(1, -1) if it contains a single sample."
    ) + " The rows of a list must have one length." * is_list


def checked_column(x):
    """Return `x` as an array or a series of numbers, or raise; reads no cell."""
    if hasattr(x, "__array__") and not _has_dtypes(x) and _declared_shape(x) is None:
        return x  # it declares nothing, so `read_matrix` checks it
    x = column_with_dtypes(x)
    _check_dtypes(x)
    return x


def column_with_dtypes(x):
    """Return `x` as an array or a series of any dtype, or raise; reads no cell."""
    x = _with_dtypes(x, "x", _A_COLUMN)
    if _n_dimensions(x) != 1:
        raise ValueError(
            f"x must be one-dimensional, got {_n_dimensions(x)} dimensions. Pass one column of a "
            'table, such as df["income"].'
        )
    if sparse.issparse(x):
        raise TypeError(f"x must be dense, got a {type(x).__name__}: pass x.toarray().")
    return x


def read_matrix(X, first_column=0):
    """Return a checked table or column as a float64 or float32 matrix, a sparse matrix unchanged.

    `first_column` is the number of the first column, if the array is a block of a wider array.
    """
    return _read(X, _FLOATS, first_column)


def read_numbers(X):
    """Return the same as `read_matrix`, but keep integers and booleans, so nothing is copied."""
    return _read(X, _FLOATS + _INTEGERS, 0)


def _read(X, kept_types, first_column):
    """Return a matrix of one of the `kept_types`, or of float64."""
    if sparse.issparse(X):
        return X
    with np.errstate(all="ignore"):  # a longdouble beyond float64 becomes infinite
        if not _has_dtypes(X):  # a column that is not checked so far
            X = checked_column(_with_dtypes(X, "x", _A_COLUMN))
            _refuse_undeclared_dates(X)
        if isinstance(X, Unread):
            X = X.read()
        return _matrix_of(X, kept_types, first_column)


def _matrix_of(X, kept_types, first_column):
    labels, dtypes, columns = columns_of(X, first_column)
    kinds = set(dtypes)
    if kinds and all(isinstance(d, np.dtype) and d.kind in _REAL_KINDS for d in kinds):
        common = np.result_type(*kinds)
        common = common if common in kept_types else np.float64
        if isinstance(X, np.ma.MaskedArray):
            matrix = X.astype(common if common in _FLOATS else np.float64).filled(np.nan)
        else:
            matrix = X.to_numpy(dtype=common) if hasattr(X, "iloc") else np.asarray(X, dtype=common)
        return matrix[:, None] if matrix.ndim == 1 else matrix
    matrix = np.empty((len(X), len(dtypes)), order="F")
    for index, (label, column) in enumerate(zip(labels, columns, strict=True)):
        matrix[:, index] = _floats_of(column, label)
    return matrix


@contextmanager
def no_data_in_frames():
    """Clear the variables of the frames of a traceback, which error reporters would store."""
    try:
        yield
    except BaseException as error:
        clear_frames(error.__traceback__)
        raise


def readable_columns(X):
    """Return the columns of a matrix as contiguous float64 rows, which must not be changed."""
    if X.flags.f_contiguous:
        return np.ascontiguousarray(X.T, dtype=np.float64)
    columns = np.empty(X.shape[::-1])
    fill_columns(columns, X)
    return columns


def fill_columns(columns, X):
    """Copy the columns of a matrix into rows, in blocks that stay in the cache."""
    for rows in blocks_of_rows(X.shape[0], _ROWS_AT_ONCE):
        columns[:, rows] = X[rows].T


def _has_dtypes(X):
    """Return whether `X` has dtypes that can be known without reading it."""
    is_known = library_of(X) in ("pandas", "polars", "pyarrow") or hasattr(X, "iloc")
    return is_known or isinstance(X, (np.ndarray, Unread)) or sparse.issparse(X)


def _with_dtypes(X, name, kind):
    """Return `X` if it has dtypes, else as an array; raise for scalars.

    `kind` describes the expected container in messages.
    """
    X = X.to_native() if hasattr(X, "to_native") else X  # narwhals
    if type(X).__name__ == "LazyFrame":
        raise TypeError(
            f"{name} must hold its rows, got a LazyFrame: collect() it first, or pass its "
            "collect_batches() to fit_batches."
        )
    found = X if _has_dtypes(X) else _unread(X)
    if found is None or _n_dimensions(found) == 0:
        raise TypeError(f"{name} must be {kind}, got {no_table_in_words(X)}.")
    if isinstance(found, Unread) and not all(isinstance(n, Integral) for n in found.shape):
        raise TypeError(
            f"{name} must know its number of rows, got a {type(X).__name__} of {library_of(X)} "
            "that would have to compute it: call compute() first."
        )
    return found


def _unread(X):
    """Return `X` to be converted later, or an array if it declares no shape; None for scalars."""
    shape = _declared_shape(X)
    if shape is None:
        return _as_array(X) if hasattr(X, "__array__") else None
    return Unread(X, shape, _declared_dtype(X))


def _declared_shape(X):
    """Return the declared shape of an array-like, or the shape of nested lists; None if unknown.

    Reads no cell. The types in the first row decide whether lists have a third dimension.
    """
    if hasattr(X, "shape"):
        return tuple(X.shape)
    if not _is_sequence(X) or hasattr(X, "__array__"):
        return None
    if len(X) == 0 or not all(map(_is_sequence, X)) or len(set(map(len, X))) > 1:
        return (len(X),)
    return (len(X), *(_declared_shape(X[0]) or (len(X[0]),)))


def _is_sequence(thing):
    """Return whether NumPy would read an object as several cells."""
    if isinstance(thing, (list, tuple)):
        return True
    if hasattr(thing, "shape"):
        return len(thing.shape) > 0
    if isinstance(thing, (str, bytes, Mapping)) or not _has_length(thing):
        return False
    return hasattr(thing, "__getitem__") or hasattr(thing, "__array__")


def _has_length(thing):
    """Return whether an object has a length; a cell may define `__len__` and raise."""
    with suppress(Exception):
        return len(thing) >= 0
    return False


def _declared_dtype(X):
    """Return the declared dtype of an array-like, including PyTorch's; by default objects."""
    told = getattr(X, "dtype", object)
    with suppress(TypeError):
        return told if isinstance(told, np.dtype) else np.dtype(str(told).rpartition(".")[2])
    return np.dtype(object)


def _as_array(X):
    """Return `X` as an array, or None."""
    with suppress(
        Exception
    ):  # the error may quote a cell, and would be the context of a later error
        if hasattr(X, "__array__"):
            return np.asarray(X)
        if isinstance(X, (list, tuple)):
            X = [_as_row(row) for row in X]
        return np.array(X, dtype=object)  # a list has no dtype
    return None


def _as_row(row):
    """Return a row of a list in a form that all versions of NumPy read alike."""
    if isinstance(row, np.ma.MaskedArray):
        return row.tolist()  # NumPy would read the numbers below the mask
    if hasattr(row, "__array__") and not isinstance(row, (np.ndarray, np.generic)):
        array = np.asarray(row)
        return array if array.ndim else row
    return row


def no_table_in_words(thing):
    """Describe an argument that is not a table by its type, and say what to do.

    A text is nearly always the name of a file.
    """
    kind = type(thing).__name__
    if thing is None:
        return "None"
    if isinstance(thing, (str, bytes, PathLike)):
        return f"a {kind}: read the file first, for example with pandas.read_csv"
    if isinstance(thing, Mapping):
        return f"a {kind}: make a table of it, for example with pandas.DataFrame"
    if isinstance(thing, Iterator):
        return f"a {kind}: fit_batches takes tables that come one after another"
    return f"an object of type {kind}"


def _check_dtypes(X):
    """Raise if a dtype holds neither numbers nor dates, and name all columns with such dtypes.

    Lists and NumPy's arrays of objects pass, because only their cells can decide. A column of
    objects in a DataFrame is nearly always text.
    """
    labels, dtypes, _ = columns_of(X)
    is_array = isinstance(X, (np.ndarray, Unread))
    may_hold_numbers = may_be_numbers if is_array else are_numbers
    wrong_types = {d for d in set(dtypes) if not may_hold_numbers(d) and not is_date_type(d)}
    if not wrong_types:
        return

    pairs = zip(labels, dtypes, strict=True)
    wrong = [(label, dtype) for label, dtype in pairs if dtype in wrong_types]
    if hasattr(X, "dtype"):  # all columns of an array have the same dtype
        wrong = wrong[:1]
    kinds = {getattr(dtype, "kind", None) for _, dtype in wrong}
    words = dict.fromkeys(word_of_dtype(dtype) for _, dtype in wrong)
    prefix = "Complex data not supported: " if "c" in kinds else ""
    is_text = any(re.fullmatch(_WORDS_OF_TEXT, word.lower()) for word in words)
    has_times = any(re.fullmatch(_WORDS_OF_TIMES, word.lower()) for word in words)
    about_categories = _ABOUT_ONE_COLUMN if _n_dimensions(X) == 1 else _ABOUT_CATEGORIES
    advice = about_categories + _ABOUT_TEXT if is_text else ""
    advice += _ABOUT_TIMES if has_times else ""
    raise ValueError(
        f"{prefix}{_enumerated([label for label, _ in wrong])} must hold real numbers, got "
        f"dtype {', '.join(words)}.{advice}"
    )


def word_of_dtype(dtype):
    """Return the name of a dtype without categories, fill values or the length of text."""
    kind = getattr(dtype, "kind", None)
    return _NAMES_OF_KINDS.get(kind) or re.match(r"\w*(\[\w+\])?", str(dtype)).group()


def _enumerated(labels):
    """Return labels such as "column 'a' of X" as one text."""
    if len(labels) == 1:
        return labels[0]
    names = [label.removeprefix("column ").removesuffix(" of X") for label in labels]
    return f"columns {', '.join(names)} of X"


def may_be_numbers(dtype):
    """Return whether a dtype holds real numbers, or objects that may be real numbers."""
    is_objects = isinstance(dtype, np.dtype) and dtype.kind == "O"
    return is_objects or are_numbers(dtype)


def are_numbers(dtype):
    """Return whether a dtype holds real numbers."""
    if isinstance(dtype, np.dtype):
        return dtype.kind in _REAL_KINDS
    if str(dtype) == "category":
        return are_numbers(dtype.categories.dtype)
    return re.match(_NUMBERS, str(dtype)) is not None


def _floats_of(column, name):
    """Return a new array of the floats of a column, or raise for a cell that is not a number."""
    library = library_of(column)
    dtype = getattr(column, "dtype", None)
    if hasattr(dtype, "pyarrow_dtype"):  # pandas 2.0 fails on some dictionaries of Arrow
        library = "pyarrow"
        column = sys.modules["pyarrow"].array(column)
    if is_date_type(column.type if library == "pyarrow" else dtype):
        return days_of(_dates_in_numpy(column, library))

    if library == "pyarrow":
        is_float = str(column.type) in ("halffloat", "float", "double")
        column = column if is_float else column.cast("float64", safe=False)
        array = column.to_numpy(zero_copy_only=False)
    elif library == "polars":
        array = (column if str(dtype) == "Object" else column.cast(float)).to_numpy()
    elif isinstance(column, np.ma.MaskedArray):
        array = column.astype(object if dtype.kind == "O" else np.float64).filled(np.nan)
    elif isinstance(dtype, np.dtype) or str(dtype) == "category":
        array = np.asarray(column)
    else:
        array = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return _floats_of_objects(array, name) if array.dtype.kind == "O" else array.astype(float)


def _dates_in_numpy(column, library):
    """Return a column as an array of `datetime64`, in UTC, or of `timedelta64`."""
    if library == "pyarrow":
        return column.to_numpy(zero_copy_only=False)
    if isinstance(column, np.ma.MaskedArray):
        return column.filled(np.array("NaT", dtype=column.dtype))
    if hasattr(column.dtype, "tz"):  # NumPy has no time zones
        unit = getattr(column.dtype, "unit", "ns")
        return column.to_numpy(dtype=f"datetime64[{unit}]")
    return column.to_numpy() if library == "polars" else np.asarray(column)


def dtypes_of(X):
    """Return the dtype of each column of a checked table; reads no cell."""
    return columns_of(X)[1]


def kinds_of_columns(X):
    """Return the `ColumnKind` of each column of a checked table or column; reads no cell."""
    return list(map(kind_of, dtypes_of(X)))


def _floats_of_objects(cells, name):
    if set(map(type, cells.tolist())) <= _PLAIN_TYPES:
        with suppress(OverflowError):  # an integer beyond float64
            return cells.astype(np.float64)
    floats = [_as_float(cell) for cell in cells]
    strange = [type(cell) for cell, number in zip(cells, floats, strict=True) if number is None]
    if strange:  # scikit-learn's checks look for the words of the second sentence
        raise TypeError(
            f"{name} must hold real numbers, got a cell of type "
            f"{min(kind.__name__ for kind in strange)}. The argument must be free of strings and "
            "of other objects that are not numbers."
        )
    return np.array(floats)


def _as_float(cell):
    """Return an object as a float: NaN if it is missing, None if it is not a real number."""
    kind = type(cell)
    if kind.__name__ in MISSING_TYPES:
        return np.nan
    if not issubclass(kind, (Real, Decimal, np.bool_)) or issubclass(kind, np.timedelta64):
        return None
    with suppress(Exception):  # an object that raises is not a number
        try:
            return float(cell)
        except OverflowError:
            return np.inf if cell > 0 else -np.inf
    return np.nan if issubclass(kind, Decimal) else None  # a signalling NaN


def library_of(thing):
    """Return the name of the package that an object's type belongs to."""
    return type(thing).__module__.partition(".")[0]


def _n_dimensions(X):
    return len(getattr(X, "shape", (None,)))  # the arrays of Arrow have no shape


def columns_of(X, first_column=0):
    """Return the name of each column in messages, its dtype, and the columns; reads no cell."""
    if _n_dimensions(X) == 1:
        dtype = X.type if library_of(X) == "pyarrow" else getattr(X, "dtype", None)
        return ["x"], [dtype], [X]
    if hasattr(X, "iloc"):  # by position: names may occur twice
        names, dtypes, columns = X.columns, list(X.dtypes), (column for _, column in X.items())
    elif hasattr(X, "dtypes"):
        names, dtypes, columns = X.columns, X.dtypes, X.iter_columns()
    elif hasattr(X, "schema"):
        names, dtypes, columns = X.column_names, X.schema.types, X.itercolumns()
    else:
        names = range(first_column, first_column + X.shape[1])
        columns = None if isinstance(X, Unread) else X.T
        dtypes = [X.dtype] * X.shape[1]
    return (f"column {name!r} of X" for name in names), dtypes, columns
