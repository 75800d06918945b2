"""People: the rows of a person share the weight of one record.

Each of a person's k rows weighs 1/k, so all of them together add a ramp that climbs by at most one
record to the ranks of a column: one person costs what one row costs without groups.
"""

import numpy as np

from dpq_sklearn.checks import shown
from dpq_sklearn.engine.ranks import RECORD_WEIGHT

_MISSING_TYPES = ("NoneType", "NAType", "NaTType", "MaskedConstant")


def checked_groups(groups, n_rows, name="groups"):
    """Return `groups` if it has one label for each row, or raise; reads no label."""
    shape = getattr(groups, "shape", None)
    is_sequence = hasattr(groups, "__len__") and not isinstance(groups, (str, bytes, dict, set))
    if not is_sequence or (shape is not None and len(shape) != 1):
        raise ValueError(f"{name} must be a column of labels, got {shown(groups)}.")
    if len(groups) != n_rows:
        raise ValueError(f"{name} must have one label for each row of the data.")
    return groups


def weights_of_rows(groups):
    """Return the weight of each row, and the number of people.

    The rows of a person share `RECORD_WEIGHT` exactly: her first rows get what is left over. So a
    row's weight depends on the rows of this person alone. A missing label is a person of its own.
    """
    codes = _codes(groups)
    if codes is None:
        raise TypeError("groups must be hashable labels, such as numbers or strings.")
    n_rows_of = np.bincount(codes)
    # Sorted by person, then by row: which of her rows each one is.
    by_person = np.sort(codes * codes.size + np.arange(codes.size))
    people, rows = np.divmod(by_person, max(codes.size, 1))
    starts = np.cumsum(n_rows_of) - n_rows_of
    which = np.empty_like(codes)
    which[rows] = np.arange(codes.size) - starts[people]
    share, left_over = np.divmod(RECORD_WEIGHT, n_rows_of[codes])
    return share + (which < left_over), n_rows_of.size


def _codes(groups):
    """Return the number of the person of each row, or None for labels that have no hash."""
    labels = groups.to_numpy() if hasattr(groups, "to_numpy") else np.asarray(groups)
    if isinstance(groups, np.ma.MaskedArray):
        labels = groups.astype(object).filled(None)
    if isinstance(groups, (list, tuple)) or labels.ndim != 1:
        labels = np.empty(len(groups), dtype=object)  # NumPy would make text of mixed labels
        labels[:] = groups
    if labels.dtype.kind in "iub":
        lowest, highest = int(labels.min(initial=0)), int(labels.max(initial=0))
        if highest - lowest < 4 * labels.size:  # a table is faster than sorting
            labels = labels.astype(np.int64) - lowest
            numbers = np.cumsum(np.bincount(labels) > 0) - 1
            return numbers[labels]
    if labels.dtype.kind in "iubSU":
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return _codes_of_objects(labels.tolist())


def _codes_of_objects(labels):
    numbers, codes = {}, np.empty(len(labels), dtype=np.int64)
    try:
        for row, label in enumerate(labels):
            is_missing = type(label).__name__ in _MISSING_TYPES or label != label
            codes[row] = numbers.setdefault(object() if is_missing else label, len(numbers))
    except Exception:  # whatever a label raises when it is hashed or compared
        return None
    return codes
