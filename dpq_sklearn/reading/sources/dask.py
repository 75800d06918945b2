"""Dask: partitions are counted where they are, and transformed when they are asked for.

Imported only when a dask collection is passed. A fit sends the public grid to the workers, which
send back summaries; these are merged as a tree, and the release happens once, on the client.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import dask
import numpy as np
import pandas
from dask.dataframe import from_delayed
from dask.dataframe.utils import pyarrow_strings_enabled
from scipy import sparse

from dpq_sklearn.reading.categories import (
    columns_of_labels,
    count_columns,
    forms_of_column,
    table_of_categories,
)
from dpq_sklearn.reading.containers import checked_table, library_of, read_matrix
from dpq_sklearn.reading.groups import checked_groups
from dpq_sklearn.reading.quantities import positions_of_quantities
from dpq_sklearn.reading.sources.partitions import (
    check_output,
    counts_of_partition,
    merged_partition_counts,
    merged_partitions,
    result_or_raise,
    run_job,
    side_by_side,
    summary_of_partition,
)
from dpq_sklearn.reading.sources.people import keys_of_labels, summary_of_people
from dpq_sklearn.reading.sources.protocol import Records
from dpq_sklearn.reading.summaries import SUMMARY_RESOLUTION

DASK = ("dask", "dask_expr")  # the libraries of its collections
MERGED_AT_ONCE = 8  # summaries
_ROW_BITS = 40  # of a position; the other bits are the number of the partition


@dataclass(frozen=True)
class DaskSource:
    """A dask DataFrame or Array."""

    X: object
    groups: object = None
    default_resolution = SUMMARY_RESOLUTION

    def __post_init__(self):
        X = self.X
        kind = type(X)
        if not self._is_frame and not hasattr(kind, "map_blocks"):
            raise TypeError(
                "X must be a DataFrame or an Array if it is a dask collection, got "
                f"{kind.__module__}.{kind.__name__}."
            )
        if X.ndim != 2 or (not self._is_frame and np.isnan(X.shape[1])):
            raise ValueError(
                f"Expected 2D array, got a dask {kind.__name__} of {X.ndim} dimensions, or "
                "with an unknown number of columns."
            )
        if self.groups is not None:
            self._check_groups()

    @property
    def _is_frame(self):
        """Whether the collection is a DataFrame, or a Series."""
        return hasattr(type(self.X), "map_partitions")

    @property
    def _are_groups_a_column(self):
        return self._is_frame and library_of(self.groups) not in DASK

    def _check_groups(self):
        groups = self.groups
        if self._are_groups_a_column:
            if not self._has_column(groups):
                raise ValueError(
                    "groups must be the name of a column of the dask DataFrame, or a dask "
                    "collection with one label for each row, got "
                    f"{repr(groups) if isinstance(groups, str) else type(groups).__name__}."
                )
            checked_groups(self.X[groups]._meta, 0)
            self._refuse_text_of_objects(self.X[groups])
            return

        if library_of(groups) not in DASK or getattr(groups, "ndim", None) != 1:
            raise ValueError(
                "groups must be a dask Series or Array of one dimension for a dask collection, got "
                f"an object of type {type(groups).__name__}."
            )
        if groups.npartitions != self._blocks_of_rows or not self._may_have_equal_lengths:
            raise ValueError(
                "groups must have one label for each row of the data, in the same partitions."
            )
        checked_groups(groups._meta, len(groups._meta))
        self._refuse_text_of_objects(groups)

    @staticmethod
    def _refuse_text_of_objects(labels):
        if is_made_of_objects(labels):
            raise TypeError(
                "groups must not be objects that Dask has converted to text, because equal labels "
                "such as 7 and 7.0 differ as text, got such labels. Convert the labels with "
                'astype("string") or astype("int64") before you pass them to Dask, or set the '
                'option "dataframe.convert-string" of Dask to False before.'
            )

    def _has_column(self, name):
        with suppress(Exception):  # raised if the object cannot be a name
            return name in {column: None for column in self.X.columns}
        return False

    @property
    def _blocks_of_rows(self):
        return self.X.npartitions if self._is_frame else len(self.X.chunks[0])

    @property
    def _may_have_equal_lengths(self):
        """Whether the lengths of partitions are equal, or not all known."""
        if self._is_frame or not hasattr(self.groups, "chunks"):
            return True
        pairs = zip(self.X.chunks[0], self.groups.chunks[0], strict=True)
        return not any(a != b for a, b in pairs if not np.isnan(a) and not np.isnan(b))

    def typed_rows(self):
        """Return a few made-up rows with the columns and types of the features.

        They pass or fail scikit-learn's validation as the real rows would.
        """
        X = self.features()
        if self._is_frame:
            return X._meta_nonempty

        ones = np.ones((1, X.shape[1]), dtype=float if X.dtype.kind == "O" else X.dtype)
        return sparse.csr_array(ones) if sparse.issparse(X._meta) else ones

    def quantities(self):
        """Return the source without the columns that hold neither numbers nor dates."""
        if not self._is_frame:
            positions_of_quantities(np.empty((0, self.X.shape[1]), dtype=self.X.dtype))
            return self

        features = self.features()._meta
        kept = [features.columns[position] for position in positions_of_quantities(features)]
        if self.groups is not None and self._are_groups_a_column:
            kept.append(self.groups)
        return replace(self, X=self.X[kept])

    def features(self):
        """Return the collection without the column of labels."""
        if self.groups is not None and self._are_groups_a_column:
            return self.X.drop(columns=[self.groups])
        return self.X

    def read(self, grid):
        """Return the records of all partitions; computes."""
        sent = dask.delayed(grid, traverse=False)
        if self.groups is not None:
            delayed = [merged_in_a_tree(self.delayed_people(_numbers, summary_of_people, sent))]
        elif self._is_frame:
            delayed = [_delayed_summary(self.X.to_delayed(), sent, 0)]
        else:
            first_columns = np.cumsum((0, *self.X.chunks[1][:-1])).tolist()
            blocks = self.X.to_delayed().T  # one row of blocks for each block of columns
            delayed = [
                _delayed_summary(partitions, sent, first_column)
                for partitions, first_column in zip(blocks, first_columns, strict=True)
            ]

        found = side_by_side(run_job("Dask", lambda: dask.compute(*delayed)))
        return Records.of_summaries(found.summaries, grid, n_rows=found.n_records)

    def count_categories(self):
        """Return the number of records with each category, for each column; computes."""
        if self.groups is not None:
            counts = self.delayed_people(_forms, _counts_of_people)
        else:
            X = self.X if self._is_frame else self.X.rechunk({1: -1})
            partitions = np.ravel(X.to_delayed())
            counts = [dask.delayed(counts_of_partition)(partition) for partition in partitions]

        merged = merged_in_a_tree(counts, merged_partition_counts)
        (found,) = run_job("Dask", lambda: dask.compute(merged))
        return result_or_raise(found)

    def delayed_people(self, read, function, *sent):
        """Return the delayed results of a function of the rows of whole people.

        `read` returns the cells of a partition that are needed, as a pandas DataFrame. These are
        brought together by the labels of people. The function gets the cells, the labels, the
        positions that the rows had before, and `sent`.
        """
        features = self.features() if self._is_frame else self.features().rechunk({1: -1})
        if self._are_groups_a_column:  # features and labels are read together
            labels = self.X[self.groups]
            with_keys = partial(_with_keys_of_column, name=self.groups)
            partitions = [self.X.to_delayed()]
        else:
            labels = self.groups
            with_keys = _with_keys
            partitions = [np.ravel(features.to_delayed()), np.ravel(labels.to_delayed())]

        type_of_labels = pandas.Series(labels._meta[:0]).dtype
        if isinstance(type_of_labels, pandas.CategoricalDtype):
            type_of_labels = np.dtype(object)  # each partition may have its own categories
        nothing = read(self.typed_rows())[:0]
        delayed = dask.delayed(
            partial(with_keys, read=read, promised_type=type_of_labels, unread=nothing)
        )
        keyed = [
            delayed(*of_partition, number=number)
            for number, of_partition in enumerate(zip(*partitions, strict=True))
        ]
        meta = _rows_of_people(nothing, pandas.Series([], dtype=type_of_labels))
        with dask.config.set({"dataframe.convert-string": False}):  # 1 and "1" are two labels
            rows = from_delayed(keyed, meta=meta, verify_meta=False)
        # "tasks" moves any Python object, and a lost worker only loses its own partitions.
        moved = rows.shuffle("key", shuffle_method="tasks").to_delayed()
        result = dask.delayed(_result_of_moved)
        return [result(partition, function, *sent) for partition in moved]

    def refuse_output(self, row_map):
        """Raise if another output container is configured, and for sparse rows of a DataFrame."""
        check_output(row_map, "dask collections")
        if row_map.is_sparse and self._is_frame:
            raise ValueError(
                'a dask DataFrame cannot hold the sparse rows of encode="onehot": set '
                'encode="onehot-dense" or "ordinal" (for an encoder, sparse_output=False), or '
                "transform a dask Array."
            )

    def map_rows(self, row_map):
        """Return a lazy collection with the result of the map for each partition."""
        self.refuse_output(row_map)

        X = self.X
        rows = row_map.function_on_workers(self.typed_rows())
        function = row_map.function_on_workers
        if not self._is_frame:
            X = X.rechunk({1: -1})
            chunks = (X.chunks[0], (rows.shape[1],))
            return X.map_blocks(
                _map_block, function, rows[:0], dtype=rows.dtype, chunks=chunks, meta=rows
            )

        empty = type(X._meta)(rows[:0], columns=row_map.names(), index=X._meta.index)
        return X.map_partitions(_map_frame, function, empty, meta=empty)


def _delayed_summary(partitions, grid, first_column):
    """Return the delayed summary of all partitions."""
    summary = dask.delayed(summary_of_partition)
    return merged_in_a_tree([summary(partition, grid, first_column) for partition in partitions])


def merged_in_a_tree(level, merge=merged_partitions):
    """Return the delayed result of `merge`, applied to a few delayed partitions at a time."""
    while len(level) > 1:
        starts = range(0, len(level), MERGED_AT_ONCE)
        level = [dask.delayed(merge)(level[i : i + MERGED_AT_ONCE]) for i in starts]
    return level[0]


def _numbers(partition):
    """Return the cells of a table as numbers."""
    with np.errstate(all="ignore"):
        return pandas.DataFrame(read_matrix(checked_table(partition)).astype(np.float64))


def _forms(partition):
    """Return the categories of a table as objects."""
    return frame_of_forms(columns_of_labels(table_of_categories(partition)))


def frame_of_forms(columns):
    """Return columns of labels as a frame of objects.

    Partitions may have different types and categories, which Dask could not concatenate.
    """
    forms = {number: forms_of_column(column) for number, column in enumerate(columns)}
    return pandas.DataFrame(forms, dtype=object)


def _counts_of_people(cells, labels, positions):
    return count_columns(cells, labels)


def _with_keys_of_column(partition, name, **facts):
    return _with_keys(partition.drop(columns=[name]), partition[name], **facts)


def _with_keys(partition, labels, number, read, promised_type, unread):
    """Return the cells of a partition, with the label, position and key of each row.

    The cells are read here, because partitions can have different types or categories, which Dask
    could not concatenate. A partition that cannot be read becomes one row with a negative position
    and the exception as its label.
    """
    try:
        cells = read(partition)
        if isinstance(labels, np.ma.MaskedArray):  # as floats, large integers would be rounded
            labels = np.where(np.ma.getmaskarray(labels), None, labels.data.astype(object))
        labels = pandas.Series(labels)
        if labels.dtype != promised_type:  # a common type of all partitions could round as well
            labels = labels.astype(object)
        if len(cells) != len(labels):
            raise ValueError("groups must have one label for each row of the data.")

        positions = (number << _ROW_BITS) + np.arange(len(cells))
        return _rows_of_people(cells, labels, positions, keys_of_labels(labels, number))
    except Exception as error:
        label = pandas.Series([error.with_traceback(None)], dtype=object)
        return _rows_of_people(unread.reindex([0]), label, positions=-1)


def _rows_of_people(cells, labels, positions=0, keys=0):
    """Return rows with numbered columns, and the label, position and key of each."""
    zeros = np.zeros(len(cells), dtype=np.int64)
    return cells.reset_index(drop=True).assign(
        label=labels.reset_index(drop=True), position=zeros + positions, key=zeros + keys
    )


def _result_of_moved(rows, function, *sent):
    """Return the result of a function of the rows of whole people; or an exception."""
    positions = rows["position"].to_numpy()
    if positions.min(initial=0) < 0:
        return rows["label"].iloc[positions.argmin()]

    try:
        cells = rows.drop(columns=["label", "position", "key"])
        return function(cells, rows["label"], positions, *sent)
    except Exception as error:
        return error.with_traceback(None)


def is_made_of_objects(labels):
    """Return whether Dask's option `convert-string` has converted labels from objects to text.

    Then 7 and 7.0 would be two people, and 1 and "1" would be one person. Only types are checked.
    """
    if getattr(labels._meta.dtype, "kind", "O") not in "OU":
        return False
    if not hasattr(labels, "expr"):  # a collection that does not record how it was made
        return hasattr(labels, "map_partitions") and pyarrow_strings_enabled()
    return any(map(_makes_text_of_objects, labels.simplify().expr.walk()))


def _makes_text_of_objects(node):
    """Return whether a node of an expression of Dask converts columns of objects to text."""
    kind = type(node).__name__
    if kind == "FromPandas" and node.pyarrow_strings_enabled:
        before = node.frame.head(0)
        before = before if before.ndim == 1 else before[list(node.columns)]
    elif kind == "ArrowStringConversion":
        before = node.frame._meta
    else:
        return False
    dtypes = pandas.DataFrame(before).reset_index().dtypes  # the index may become a column
    return np.dtype(object) in list(dtypes)


def _map_frame(partition, function, empty):
    rows = _map_block(partition, function, empty)
    return type(empty)(np.asarray(rows), columns=empty.columns, index=partition.index)


def _map_block(block, function, empty):
    return function(block) if block.shape[0] else empty
