"""Input: any column of real numbers becomes float64, and no error message quotes a value.

An exception is an output too. What may be said about a column that cannot be used is its name
and the *type* of what it holds, never a cell of it; and nothing is raised or warned because of
what the numbers are. NaN and every kind of missing value become NaN, infinities stay.
"""

import numpy as np

_REAL_KINDS = "biuf"


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


def _as_array(column, name):
    if hasattr(column, "to_numpy"):  # pandas and polars: nulls need a word
        dtype = str(getattr(column, "dtype", ""))
        if dtype[:1].isupper() and type(column).__module__.startswith("pandas"):
            return _masked_pandas(column, name, dtype)
        return column.to_numpy()
    try:
        return np.asarray(column)
    except ValueError:
        raise ValueError(f"{name} must be one-dimensional, got a ragged sequence.") from None


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
        f"{name} must hold real numbers only: every argument must be a number, not a string or "
        f"another object, got one of type {type(value).__name__}."
    )
