"""Overlap: whether two containers share memory, found out without reading any number."""

import math
from contextlib import suppress
from itertools import chain

import numpy as np

from dpq_sklearn.reading.containers import are_numbers, columns_of, library_of

# The attributes in which pandas' arrays keep their numbers: NumPy's arrays, nullable arrays such
# as Int64, sparse arrays, and categories.
_BUFFERS_OF_PANDAS = ("_ndarray", "_data", "sp_values", "codes")


def share_memory(one, other):
    """Return whether two containers share memory; True if that is too hard to decide."""
    buffers_of_other = _buffers(other)
    return any(_overlap(mine, its) for mine in _buffers(one) for its in buffers_of_other)


def _overlap(one, other):
    """Return whether two arrays share memory; True if that is too hard to decide."""
    if not np.may_share_memory(one, other):
        return False
    try:
        return np.shares_memory(one, other, max_work=10**4)
    except np.exceptions.TooHardError:
        return True


def _buffers(X):
    """Return arrays over the memory of a container, as far as it is accessible."""
    X = X.to_native() if hasattr(X, "to_native") else X  # narwhals
    if isinstance(X, np.ndarray):
        return [X]
    if library_of(X) not in ("pandas", "polars", "pyarrow") or type(X).__name__ == "LazyFrame":
        return []
    is_of_arrow = library_of(X) == "pyarrow" and hasattr(X, "column_names")
    columns = X.columns if is_of_arrow else columns_of(X)[2]
    buffers = chain.from_iterable(map(_buffers_of_column, columns))
    return [buffer for buffer in buffers if isinstance(buffer, np.ndarray)]


def _buffers_of_column(column):
    """Return arrays over the memory of a column of pandas, polars or Arrow, or other objects."""
    if library_of(column) == "pyarrow":
        return _buffers_of_arrow(column)
    if library_of(column) == "polars":
        if not are_numbers(column.dtype):  # objects have no chunks
            return []
        with suppress(ImportError):  # polars exposes its memory to pyarrow only
            return [_bytes_of_values(chunk.to_arrow()) for chunk in column.get_chunks()]
        return []

    array = getattr(column, "array", column)
    if hasattr(array.dtype, "pyarrow_dtype"):
        return _buffers_of_arrow(array.__arrow_array__())
    return [getattr(array, name, None) for name in _BUFFERS_OF_PANDAS]


def _buffers_of_arrow(column):
    """Return arrays over the bytes of the values in each chunk of a column of Arrow."""
    return list(map(_bytes_of_values, getattr(column, "chunks", [column])))


def _bytes_of_values(array):
    """Return the bytes of an Arrow array's values, or of the numbers of its categories."""
    array = getattr(array, "indices", array)
    buffer = array.buffers()[-1]
    if buffer is None:
        return None
    with suppress(ValueError):  # text has no width, and is refused later
        width = array.type.bit_width
        begin = array.offset * width // 8
        end = math.ceil((array.offset + len(array)) * width / 8)
        return np.frombuffer(buffer, dtype=np.uint8)[begin:end]
    return None
