"""People in partitions of a table: brought together by their labels, weighted, and summarized.

A person's rows share the weight of one record, so all of them have to be in one partition. Workers
exchange labels and rows among themselves and return summaries, which have no labels.
"""

from contextlib import suppress
from enum import Enum
from numbers import Number
from types import NoneType
from zlib import crc32

import numpy as np

from dpq_sklearn.reading.containers import checked_table, read_matrix, readable_columns
from dpq_sklearn.reading.groups import weights_of_rows
from dpq_sklearn.reading.sources.partitions import PartitionSummary
from dpq_sklearn.reading.summaries import summarize

# The types of these libraries have a known `==`.
_LIBRARIES = ("builtins", "datetime", "decimal", "fractions", "uuid", "numpy", "pandas")


def summary_of_people(partition, labels, positions, grid):
    """Return the `PartitionSummary` of the rows of whole people, or raise."""
    with np.errstate(all="ignore"):
        matrix = read_matrix(checked_table(partition))
        weights, n_people = weights_in_order(labels, positions)

        columns = enumerate(readable_columns(matrix))
        summaries = [summarize(values, grid, column, weights) for column, values in columns]
        return PartitionSummary(n_people, summaries)


def weights_in_order(labels, positions):
    """Return the weight of each row of whole people, and the number of people.

    `positions` are the positions of the rows before they were brought together. They decide which
    of a person's rows gets the remainder, if the number of rows does not divide the weight.
    """
    order = np.argsort(positions)
    in_order, n_people = weights_of_rows(labels.take(order))
    weights = np.empty_like(in_order)
    weights[order] = in_order
    return weights, n_people


def keys_of_labels(labels, number_of_partition):
    """Return an integer for each label of a pandas Series. Equal labels have equal keys.

    The keys are the same in all processes, unlike Python's hashes, and decide only to which
    partition a row is sent. Different labels may share a key: all labels that are neither numbers
    nor text do. A missing label is a separate person, which may be sent anywhere. Its key
    follows from the number of its partition, because the partition may be computed twice.

    Raises for a label of an unknown type, which may equal labels of other types.
    """
    if labels.dtype == object:
        _check_types(set(map(type, labels)))

    keys = np.zeros(len(labels), dtype=np.int64)
    with suppress(Exception):  # the reader refuses labels that cannot be compared
        codes, distinct = labels.factorize()
        of_distinct = np.array([*map(_key_of, distinct), -1 - number_of_partition], dtype=np.int64)
        keys = of_distinct[codes]  # the code of a missing label is -1
    return keys


def _check_types(kinds):
    """Raise for types with their own `==`: an object may equal a number that has another key."""
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
