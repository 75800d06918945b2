"""People: the rows of a person share the weight of one record.

Each of a person's k rows weighs 1/k, so all of them together add a ramp that climbs by at most one
record to the ranks of a column: one person costs what one row costs without groups.

Labels are as private as the rows: no message shows one, or tells how many there are.
"""

import sys
from contextlib import suppress

import numpy as np

from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.reading.containers import MISSING_TYPES, library_of

# What is left over when k rows share a record goes to one of them, as long as it is less than
# k / RECORD_WEIGHT = 1/512 of the record. Beyond, it is spread.
_FEW_ROWS = RECORD_WEIGHT // 512
# Labels of these types are never missing.
_NEVER_MISSING = {int, str, bytes, bool}


def neighbours_of(groups):
    """Return which datasets are neighbours: with groups those that differ by one person."""
    return Neighbours.ROWS if groups is None else Neighbours.PEOPLE


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

    The rows of a person share `RECORD_WEIGHT` exactly, and nobody else's rows change their weights.
    A missing label is a person of its own.
    """
    codes = None
    with suppress(Exception):  # what a label raises would tell about it
        codes = _small_codes(_integers(groups))
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
        ascending, order = _sorted_with_places(codes[rows])
        numbers_within = np.arange(rows.size) - np.searchsorted(ascending, ascending)
        weights[rows[order]] += numbers_within < left_over[ascending]
    return weights, int(np.count_nonzero(n_rows_of))


def _integers(groups):
    """Return an integer for each row, the same for the rows of a person.

    Integers with missing ones among them must not become floats, which cannot tell them all apart.
    """
    if not hasattr(groups, "__array__"):
        return _codes_of_objects(groups)  # NumPy would make text of mixed labels
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
            return _codes_of_objects(getattr(groups, to_list)())
    return _codes_of_objects(labels.tolist())


def _codes_of_objects(labels):
    if not set(map(type, labels)) <= _NEVER_MISSING:
        labels = [object() if _is_missing(label) else label for label in labels]
    numbers = {}
    codes = [numbers.setdefault(label, len(numbers)) for label in labels]
    return np.array(codes, dtype=np.int64)


def _small_codes(labels):
    """Return numbers from 0 on for integers: a few times as many of them as rows at most."""
    if labels.size == 0:
        return labels.astype(np.int64)
    lowest, highest = labels.min(), labels.max()
    span = int(highest) - int(lowest)
    if span.bit_length() + labels.size.bit_length() > 63:
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    codes = labels.astype(np.int64) - lowest.astype(np.int64)  # right even if both overflow
    if span >= 4 * labels.size:
        ascending, order = _sorted_with_places(codes)
        codes[order] = np.cumsum(np.diff(ascending, prepend=ascending[:1]) > 0)
    return codes


def _sorted_with_places(codes):
    """Return ascending codes, and the place of each among the codes as they were given."""
    n_bits = codes.size.bit_length()
    packed = codes << n_bits | np.arange(codes.size)  # several times as fast as `argsort`
    packed.sort()
    return packed >> n_bits, packed & (2**n_bits - 1)


def _is_missing(label):
    return type(label).__name__ in MISSING_TYPES or label != label
