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


def quiet():
    """Return a context in which the numbers decide about no warning, whatever np.seterr says."""
    return np.errstate(all="ignore")


def as_float_column(column, name):
    """Return a one-dimensional float64 array with the numbers of `column`, always a copy.

    `column` is a numpy array, a list, or a pandas or polars Series of a real dtype or of
    objects that are real numbers.
    """
    array = _as_array(column, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got {array.ndim} dimensions.")
    if array.dtype.kind in _REAL_KINDS:
        with quiet():  # a longdouble beyond float64 becomes infinite
            return array.astype(np.float64)
    if array.dtype.kind == "O":
        return np.array([_as_float(value, name) for value in array], dtype=np.float64)
    # The dtype of text would tell how long it is.
    kind = "text" if array.dtype.kind in "SU" else f"dtype {array.dtype}"
    raise ValueError(f"{name} must hold real numbers, got {kind}.")


def needs_conversion(X):
    """Return whether check_array would have to read `X` cell by cell, and could quote a cell.

    False for arrays and tables of real numbers, and for what this module does not know:
    scikit-learn's own validation then looks at the container only.
    """
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        return any(getattr(dtype, "kind", "O") not in _REAL_KINDS for dtype in X.dtypes)
    if _is_arrow_table(X):
        return True
    if sparse.issparse(X) or not hasattr(X, "__array__"):
        return False
    return _as_array(X, "X").dtype.kind not in _REAL_KINDS


def as_float_matrix(X):
    """Return the float64 matrix of a table or an array of objects."""
    if _is_arrow_table(X):
        names, columns = X.column_names, X.columns
    elif hasattr(X, "columns"):
        names, columns = X.columns, [X[name] for name in X.columns]
    else:
        array = _as_array(X, "X")
        if array.ndim != 2:
            return as_float_column(array.ravel(), "X").reshape(array.shape)
        names, columns = range(array.shape[1]), array.T
    floats = [
        as_float_column(column, f"column {name!r} of X")
        for name, column in zip(names, columns, strict=True)
    ]
    return np.column_stack(floats) if floats else np.empty((len(X), 0))


def _is_arrow_table(X):
    return hasattr(X, "column_names") and hasattr(X, "schema")


def as_table(X):
    """Return `X` if it is a table or a matrix, else as an array, which tells its dimensions."""
    if type(X).__module__.partition(".")[0] == "pyarrow" and type(X).__name__ == "RecordBatch":
        return sys.modules["pyarrow"].Table.from_batches([X])
    is_table = hasattr(X, "columns") or _is_arrow_table(X) or sparse.issparse(X)
    is_matrix = getattr(X, "ndim", None) == 2 and not isinstance(X, np.ma.MaskedArray)
    return X if is_table or is_matrix else _as_array(X, "X")


def refuse_what_sklearn_would_quote(X):
    """Raise for input whose numbers scikit-learn's own error messages would print."""
    ndim, dtype = getattr(X, "ndim", None), getattr(X, "dtype", None)
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
        with quiet():
            for start in range(0, n_rows, _ROWS_AT_ONCE):
                block[:, start : start + _ROWS_AT_ONCE] = some[start : start + _ROWS_AT_ONCE].T
        yield from block


def _as_array(column, name):
    if isinstance(column, np.ma.MaskedArray):
        return column.astype(np.float64).filled(np.nan)
    if hasattr(column, "to_numpy"):  # pandas, polars and Arrow: nulls need a word
        dtype = str(getattr(column, "dtype", ""))
        library = type(column).__module__.partition(".")[0]
        if library == "pandas" and dtype[:1].isupper():
            return _masked_pandas(column, name, dtype)
        return column.to_numpy(**({"zero_copy_only": False} if library == "pyarrow" else {}))
    try:
        return np.asarray(column)
    except ValueError:
        pass  # raised below, not from here: an error's context can be printed, too
    raise ValueError(f"{name} must not be a ragged sequence.")


def _masked_pandas(column, name, dtype):
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name} must hold real numbers, got dtype {dtype}.")


def _as_float(value, name):
    """Return one object as a float: missing values as NaN, integers too large as infinity."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return np.nan
    if not isinstance(value, (str, bytes, complex)):
        try:
            return float(value)
        except OverflowError:
            return np.inf if value > 0 else -np.inf
        except (TypeError, ValueError):
            pass
    raise TypeError(
        f"{name}: every argument must be neither a string nor another object but a real number, "
        f"got one of type {type(value).__name__}."
    )
