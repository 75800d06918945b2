"""Quantities: the columns of a table with types of numbers or dates, as in `describe` of pandas.

Only types decide. Booleans, categories and columns of objects are not quantities, whatever their
cells are.
"""

import re

import numpy as np
from scipy import sparse

from dpq_sklearn.dates import is_date_type
from dpq_sklearn.reading.containers import Unread, columns_of, table_with_dtypes, word_of_dtype

# The beginnings of the names of other libraries' dtypes.
_QUANTITIES = r"(?i)(sparse\[)?(u?int\d|(half)?float|double|decimal)"


def table_of_quantities(X, name="table"):
    """Return a table without the columns that are not quantities, or raise; reads no cell."""
    X = table_with_dtypes(X, name)
    if sparse.issparse(X):
        raise TypeError(f"{name} must be dense, got a {type(X).__name__}: pass {name}.toarray().")
    if len(X.shape) != 2:
        raise ValueError(f"{name} must have two dimensions, got {len(X.shape)}.")

    positions = positions_of_quantities(X, name)
    if len(positions) == X.shape[1]:
        return X
    return selected_columns(X, positions)


def selected_columns(X, positions):
    """Return the columns of a table at these positions; names may occur twice."""
    if hasattr(X, "iloc"):
        return X.iloc[:, positions]
    return X.select(positions) if hasattr(X, "column_names") else X[:, positions]


def positions_of_quantities(X, name="table"):
    """Return the positions of the quantities of a table with dtypes; raise if there are none."""
    dtypes = columns_of(X)[1]
    positions = [position for position, dtype in enumerate(dtypes) if are_quantities(dtype)]
    if positions:
        return positions

    words = list(map(word_of_dtype, dtypes))
    if isinstance(X, (np.ndarray, Unread)) and words:  # a list counts as an array of objects
        raise ValueError(no_quantities(f"an array or a list of {words[0]}", name))
    raise ValueError(no_quantities(named_types(zip(names_of(X), words, strict=True)), name))


def no_quantities(got, name="table"):
    """Return the message for a table without quantities."""
    return (
        f"{name} must have a column of numbers or dates, got {got}. Objects may be text: convert "
        "them with pd.to_numeric, pd.to_datetime or astype."
    )


def named_types(names_and_words):
    """Return the names of columns with their types, as a text."""
    return ", ".join(f"{name!r} ({word})" for name, word in names_and_words) or "no columns"


def are_quantities(dtype):
    """Return whether a dtype holds numbers or dates, and neither booleans nor categories."""
    if is_date_type(dtype):
        return True
    if isinstance(dtype, np.dtype):
        return dtype.kind in "iuf"
    return re.match(_QUANTITIES, str(dtype)) is not None


def names_of(X):
    """Return the names of the columns of a table with dtypes, or the numbers for an array."""
    if hasattr(X, "iloc"):
        return list(X.columns)
    if hasattr(X, "column_names"):  # Arrow
        return list(X.column_names)
    return list(X.columns) if hasattr(X, "columns") else list(range(X.shape[1]))
