"""People: the rows of a person share the weight of one record.

Each of a person's k rows weighs 1/k, so all of them together add a ramp that climbs by at most one
record to the ranks of a column. A person therefore costs as much as a row without groups.

Labels are as private as the rows: no message shows a label, or the number of labels.
"""

from contextlib import suppress

import numpy as np

from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.reading.labels import check_type, people_of, sorted_with_positions

# If k rows share a record, one of them gets the remainder, as long as that is less than
# k / RECORD_WEIGHT = 1/512 of the record. A larger remainder is spread.
_FEW_ROWS = RECORD_WEIGHT // 512


def checked_groups(groups, n_rows):
    """Return `groups` if it has one label for each row, or raise; reads no label."""
    groups = groups.to_native() if hasattr(groups, "to_native") else groups  # narwhals
    is_sequence = hasattr(groups, "__len__") and hasattr(groups, "__getitem__")
    is_sequence = is_sequence and not isinstance(groups, (str, bytes, dict))
    if not is_sequence or len(getattr(groups, "shape", (None,))) != 1:
        raise ValueError(
            f"groups must be one column of labels, got an object of type {type(groups).__name__}."
        )
    if len(groups) != n_rows:
        raise ValueError("groups must have one label for each row of the data.")
    check_type(groups)
    return groups


def people_of_rows(groups):
    """Return the number of the person of each row; no error shows a label."""
    with suppress(Exception):  # the error of a label could reveal the label
        return people_of(groups)
    raise TypeError("groups must hold hashable labels, such as numbers or strings.")


def weights_of_rows(groups):
    """Return the weight of each row, and the number of people.

    The weights of a person's rows sum to `RECORD_WEIGHT` exactly, and do not depend on the rows of
    others. `reading.labels` decides which labels are equal.
    """
    codes = people_of_rows(groups)

    n_rows_of = np.bincount(codes)
    share, left_over = np.divmod(RECORD_WEIGHT, np.maximum(n_rows_of, 1))
    weights = share.take(codes)

    last_row_of = np.zeros_like(n_rows_of)
    last_row_of[codes] = np.arange(codes.size)
    have_few = np.flatnonzero((n_rows_of <= _FEW_ROWS) & (left_over > 0))
    weights[last_row_of[have_few]] += left_over[have_few]

    has_many = n_rows_of > _FEW_ROWS
    if has_many.any():
        rows = np.flatnonzero(has_many[codes])
        ascending, order = sorted_with_positions(codes[rows])
        numbers_within = np.arange(rows.size) - np.searchsorted(ascending, ascending)
        weights[rows[order]] += numbers_within < left_over[ascending]

    return weights, int(np.count_nonzero(n_rows_of))


def weights_and_number(n_rows, groups):
    """Return the weights of rows, None if each row is a record, and the number of records."""
    return (None, n_rows) if groups is None else weights_of_rows(groups)
