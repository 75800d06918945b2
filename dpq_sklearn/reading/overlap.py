"""Which memory the numbers of a container lie in, without reading any of them."""

import math
from contextlib import suppress
from itertools import chain

import numpy as np

from dpq_sklearn.reading.containers import are_numbers, columns_of, library_of

# Where the arrays of pandas keep their numbers: those of NumPy, those with missing values (Int64),
# sparse ones, and categories.
_PARTS_OF_PANDAS = ("_ndarray", "_data", "sp_values", "codes")


def share_memory(one, other):
    """Return whether two containers have memory in common; True if that is too hard to tell."""
    parts_of_other = _memory(other)
    return any(_overlap(part, another) for part in _memory(one) for another in parts_of_other)


def _overlap(one, other):
    """Return whether two arrays have memory in common; True if that is too hard to tell."""
    if not np.may_share_memory(one, other):
        return False
    try:
        return np.shares_memory(one, other, max_work=10**4)
    except np.exceptions.TooHardError:
        return True


def _memory(X):
    """Return arrays over the memory of a container, as far as it can be told."""
    X = X.to_native() if hasattr(X, "to_native") else X  # narwhals
    if isinstance(X, np.ndarray):
        return [X]
    if library_of(X) not in ("pandas", "polars", "pyarrow") or type(X).__name__ == "LazyFrame":
        return []
    is_of_arrow = library_of(X) == "pyarrow" and hasattr(X, "column_names")
    columns = X.columns if is_of_arrow else columns_of(X)[2]
    parts = chain.from_iterable(map(_parts_of_column, columns))
    return [part for part in parts if isinstance(part, np.ndarray)]


def _parts_of_column(column):
    """Return what may be arrays over the memory of a column of pandas, polars or Arrow."""
    if library_of(column) == "pyarrow":
        return _parts_of_arrow(column)
    if library_of(column) == "polars":
        if not are_numbers(column.dtype):  # objects have no chunks
            return []
        with suppress(ImportError):  # polars tells its memory to pyarrow alone
            return [_bytes_of_values(chunk.to_arrow()) for chunk in column.get_chunks()]
        return []

    array = getattr(column, "array", column)
    if hasattr(array.dtype, "pyarrow_dtype"):
        return _parts_of_arrow(array.__arrow_array__())
    return [getattr(array, name, None) for name in _PARTS_OF_PANDAS]


def _parts_of_arrow(column):
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
