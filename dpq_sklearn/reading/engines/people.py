"""People in parts of a table: brought together by their labels, weighted, and summarized.

A person's rows share the weight of one record, so all of them have to be in one part. Labels and
rows go from worker to worker; what leaves the workers is a summary, which has no labels.
"""

from contextlib import suppress
from enum import Enum
from numbers import Number
from types import NoneType
from zlib import crc32

import numpy as np

from dpq_sklearn.reading.containers import checked_table, read_matrix, readable_columns
from dpq_sklearn.reading.engines.parts import PartSummary
from dpq_sklearn.reading.groups import weights_of_rows
from dpq_sklearn.reading.summaries import summarize

# The `==` of the types of these libraries is known.
_LIBRARIES = ("builtins", "datetime", "decimal", "fractions", "uuid", "numpy", "pandas")


def summary_of_people(part, labels, positions, grid):
    """Return the `PartSummary` of the rows of whole people, or raise.

    `positions` say in which order the rows were before they were brought together: it decides
    which of a person's rows gets what their number does not divide.
    """
    with np.errstate(all="ignore"):
        matrix = read_matrix(checked_table(part))
        order = np.argsort(positions)
        in_order, n_people = weights_of_rows(labels.take(order))
        weights = np.empty_like(in_order)
        weights[order] = in_order

        columns = enumerate(readable_columns(matrix))
        summaries = [summarize(values, grid, column, weights) for column, values in columns]
        return PartSummary(n_people, summaries)


def keys_of_labels(labels, number_of_part):
    """Return an integer for each label of a pandas Series: equal ones for equal labels.

    They are the same in all processes, as Python's own hashes are not, and decide only to which
    part a row goes. So labels that are not equal may share a key: all labels do that are neither
    numbers nor text. A missing label is a separate person and may go anywhere. The part that it
    is in decides where, and not chance, since the part may be computed twice.

    Raises for a label of an unknown type, which may equal labels of other types.
    """
    if labels.dtype == object:
        _check_types(set(map(type, labels)))

    keys = np.zeros(len(labels), dtype=np.int64)
    with suppress(Exception):  # the reader refuses labels that cannot be compared
        codes, distinct = labels.factorize()
        of_distinct = np.array([*map(_key_of, distinct), -1 - number_of_part], dtype=np.int64)
        keys = of_distinct[codes]  # the code of a missing label is -1
    return keys


def _check_types(kinds):
    """Raise for a type with an `==` of its own, which may equal a number that has another key."""
    for kind in kinds:
        compares = next(each for each in kind.__mro__ if "__eq__" in vars(each))
        is_known = compares.__module__.partition(".")[0] in _LIBRARIES and compares is not object
        if not is_known and not issubclass(kind, (Enum, NoneType)):
            raise TypeError(
                "groups in partitions must hold labels of types of Python, NumPy or pandas, such "
                "as numbers or strings."
            )


def _key_of(label):
    if isinstance(label, str):
        return crc32(label.encode("utf-8", "surrogatepass"))
    if isinstance(label, bytes):
        return crc32(label)
    if isinstance(label, (Number, np.bool_)) and not isinstance(label, np.timedelta64):
        # Equal numbers of all types have equal floats: 1, 1.0 and True, and -0.0 + 0.0 is 0.0.
        with suppress(OverflowError):
            return np.float64(float(label.real) + 0.0).view(np.int64)
    return 0
