"""Input: any column of real numbers becomes float64, and no error message quotes a value.

An exception is an output too. What may be said about a column that cannot be used is its name
and the *type* of what it holds, never a cell of it; and nothing is raised or warned because of
what the numbers are. NaN and every kind of missing value become NaN, infinities stay.
"""

import sys

import numpy as np
from scipy import sparse

_REAL_KINDS = "biuf"
_COLUMNS_AT_ONCE = 8
_ROWS_AT_ONCE = 2048


def as_float_column(column, name):
    """Return a one-dimensional float64 array with the numbers of `column`, always a copy.

    `column` is a numpy array, a list, or a pandas or polars Series of a real dtype or of
    objects that are real numbers.
    """
    array = _as_array(column, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got {array.ndim} dimensions.")
    if array.dtype.kind in _REAL_KINDS:
        with np.errstate(over="ignore"):  # a longdouble beyond float64 becomes infinite
            return array.astype(np.float64)
    if array.dtype.kind == "O":
        return np.array([_as_float(value, name) for value in array], dtype=np.float64)
    raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}.")


def as_float_matrix(X):
    """Return a float64 matrix of a table or an array that check_array would read cell by cell.

    None if `X` is an array of real numbers already, or nothing that this function knows: then
    scikit-learn's own validation says no word about values.
    """
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        if all(getattr(dtype, "kind", "O") in _REAL_KINDS for dtype in X.dtypes):
            return None
        columns = [as_float_column(X[name], f"column {name!r} of X") for name in X.columns]
        return np.column_stack(columns) if columns else np.empty((len(X), 0))
    if hasattr(X, "column_names") and hasattr(X, "schema"):  # an Arrow table
        names = [f"column {name!r} of X" for name in X.column_names]
        columns = [
            as_float_column(column, name) for column, name in zip(X.columns, names, strict=True)
        ]
        return np.column_stack(columns) if columns else np.empty(X.shape)
    if sparse.issparse(X) or not (hasattr(X, "__array__") or isinstance(X, (list, tuple))):
        return None
    array = _as_array(X, "X")
    if array.dtype.kind in "OSU" and array.ndim == 2:
        names = [f"column {index} of X" for index in range(array.shape[1])]
        columns = [
            as_float_column(column, name) for column, name in zip(array.T, names, strict=True)
        ]
        return np.column_stack(columns) if columns else np.empty(array.shape)
    if array.dtype.kind in "OSU":
        return as_float_column(array.ravel(), "X").reshape(array.shape)
    return None


def as_table(X):
    """Return an Arrow record batch as a table, which scikit-learn can read the names of."""
    if type(X).__module__.partition(".")[0] == "pyarrow" and type(X).__name__ == "RecordBatch":
        return sys.modules["pyarrow"].Table.from_batches([X])
    return X


def refuse_what_sklearn_would_quote(X):
    """Raise for input whose numbers scikit-learn's own error messages would print."""
    ndim, dtype = getattr(X, "ndim", None), getattr(X, "dtype", None)
    if isinstance(X, (list, tuple)) and X and not hasattr(X[0], "__len__"):
        ndim = 1
    if ndim in (0, 1):
        raise ValueError(
            f"Expected 2D array, got {ndim}D array instead. Reshape your data either using "
            "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if "
            "it contains a single sample."
        )
    if getattr(dtype, "kind", None) == "c":
        raise ValueError(f"Complex data not supported: X must hold real numbers, got {dtype}.")


def readable_columns(X):
    """Yield each column of a matrix as a contiguous float64 array that is only to be read."""
    if X.dtype == np.float64 and (X.flags.f_contiguous or X.shape[1] == 1):
        yield from (np.ascontiguousarray(column) for column in X.T)
    else:
        yield from fresh_columns(X)


def fresh_columns(X):
    """Yield each column of a matrix as a contiguous float64 array that may be overwritten.

    Columns are copied a few at a time and in blocks of rows, which stay in the cache.
    """
    n_rows, n_columns = X.shape
    for first in range(0, n_columns, _COLUMNS_AT_ONCE):
        some = X[:, first : first + _COLUMNS_AT_ONCE]
        block = np.empty((some.shape[1], n_rows))
        for start in range(0, n_rows, _ROWS_AT_ONCE):
            block[:, start : start + _ROWS_AT_ONCE] = some[start : start + _ROWS_AT_ONCE].T
        yield from block


def _as_array(column, name):
    if hasattr(column, "to_numpy"):  # pandas and polars: nulls need a word
        dtype = str(getattr(column, "dtype", ""))
        if dtype[:1].isupper() and type(column).__module__.startswith("pandas"):
            return _masked_pandas(column, name, dtype)
        return column.to_numpy()
    try:
        return np.asarray(column)
    except ValueError:
        raise ValueError(f"{name} must not be a ragged sequence.") from None


def _masked_pandas(column, name, dtype):
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold real numbers, got dtype {dtype}.") from None


def _as_float(value, name):
    """Return one object as a float: missing values as NaN, integers too large as infinity."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return np.nan
    if isinstance(value, (str, bytes, complex)):
        raise _not_a_number(value, name)
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf
    except (TypeError, ValueError):
        raise _not_a_number(value, name) from None


def _not_a_number(value, name):
    return TypeError(
        f"{name}: every argument must be neither a string nor another object but a real number, "
        f"got one of type {type(value).__name__}."
    )
