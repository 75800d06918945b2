"""People: the rows of a person share the weight of one record.

Each of a person's k rows weighs 1/k, so all of them together add a ramp that climbs by at most one
record to the ranks of a column: one person costs what one row costs without groups.

Labels are as private as the rows: no message shows one, or tells how many there are.
"""

import sys

import numpy as np

from dpq_sklearn.data.columns import MISSING_TYPES, library_of
from dpq_sklearn.engine.ranks import RECORD_WEIGHT

# What is left over when k rows share a record goes to one of them, as long as it is less than
# k / RECORD_WEIGHT = 1/512 of the record. Beyond, it is spread.
_FEW_ROWS = RECORD_WEIGHT // 512
# Labels of these types are never missing.
_NEVER_MISSING = {int, str, bytes, bool}


def checked_groups(groups, n_rows):
    """Return `groups` if it has one label for each row, or raise; reads no label."""
    is_sequence = hasattr(groups, "__len__") and hasattr(groups, "__getitem__")
    is_sequence = is_sequence and not isinstance(groups, (str, bytes, dict))
    if not is_sequence or len(getattr(groups, "shape", (None,))) != 1:
        raise ValueError(
            f"groups must be one column of labels, got an object of type {type(groups).__name__}."
        )
    if len(groups) != n_rows:
        raise ValueError("groups must have one label for each row of the data.")
    return groups


def weights_of_rows(groups):
    """Return the weight of each row, and the number of people.

    The rows of a person share `RECORD_WEIGHT` exactly. A row's weight depends on which rows are
    those of the same person, and on nobody else's. A missing label is a person of its own.
    """
    codes = _codes(groups)
    if codes is None:
        raise TypeError("groups must hold hashable labels, such as numbers or strings.")
    n_rows_of = np.bincount(codes)
    share, left_over = np.divmod(RECORD_WEIGHT, np.maximum(n_rows_of, 1))
    weights = share[codes]
    last_row_of = np.zeros_like(n_rows_of)
    last_row_of[codes] = np.arange(codes.size)
    have_few = np.flatnonzero((n_rows_of <= _FEW_ROWS) & (left_over > 0))
    weights[last_row_of[have_few]] += left_over[have_few]
    has_many = n_rows_of > _FEW_ROWS
    if has_many.any():
        rows = np.flatnonzero(has_many[codes])
        weights[rows] += _numbers_within(codes[rows]) < left_over[codes[rows]]
    return weights, int(np.count_nonzero(n_rows_of))


def _numbers_within(codes):
    """Return for each row how many rows before it have the same code."""
    order = np.argsort(codes, kind="stable")
    in_order = codes[order]
    numbers = np.empty_like(codes)
    numbers[order] = np.arange(codes.size) - np.searchsorted(in_order, in_order)
    return numbers


def _codes(groups):
    """Return a small whole number for each row, the same for the rows of a person.

    None for labels that cannot be hashed or compared, whatever they raise.
    """
    try:
        labels = _labels(groups)
        return _codes_of_objects(labels) if isinstance(labels, list) else _codes_of_ints(labels)
    except Exception:
        return None


def _labels(groups):
    """Return labels as an array of integers, or as a list in which some may be missing.

    Integers with missing ones among them must not become floats, which cannot tell them all apart.
    """
    if not hasattr(groups, "__array__"):
        return list(groups)  # NumPy would make text of mixed labels, and a table of tuples
    dtype, is_pandas = getattr(groups, "dtype", None), library_of(groups) == "pandas"
    if is_pandas and not isinstance(dtype, np.dtype) and dtype.kind != "f":
        codes = sys.modules["pandas"].factorize(groups)[0].astype(np.int64)
        is_missing = codes < 0
        codes[is_missing] = -1 - np.flatnonzero(is_missing)
        return codes
    labels = groups if isinstance(groups, np.ma.MaskedArray) else np.asarray(groups)
    if labels.dtype.kind in "iub" and not np.ma.is_masked(labels):
        return np.asarray(labels)
    for to_list in ("tolist", "to_list", "to_pylist"):
        if hasattr(groups, to_list):
            return getattr(groups, to_list)()
    return labels.tolist()


def _codes_of_ints(labels):
    if labels.size == 0:
        return labels.astype(np.int64)
    lowest, highest = labels.min(), labels.max()
    span, n_bits = int(highest) - int(lowest), labels.size.bit_length()
    if span >= 2 ** (63 - n_bits):
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    labels = labels.astype(np.int64) - lowest.astype(np.int64)  # right even if both overflow
    if span < 4 * labels.size:
        return labels
    # Label and row in one number, which is sorted several times as fast as the rows by labels.
    by_label = labels << n_bits | np.arange(labels.size)
    by_label.sort()
    rows = by_label & (2**n_bits - 1)
    by_label >>= n_bits
    labels[rows] = np.cumsum(np.diff(by_label, prepend=by_label[:1]) > 0)
    return labels


def _codes_of_objects(labels):
    if not set(map(type, labels)) <= _NEVER_MISSING:
        labels = [object() if _is_missing(label) else label for label in labels]
    numbers = {}
    codes = [numbers.setdefault(label, len(numbers)) for label in labels]
    return np.array(codes, dtype=np.int64)


def _is_missing(label):
    return type(label).__name__ in MISSING_TYPES or label != label
