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
from scipy import sparse

from dpq_sklearn.reading.containers import library_of
from dpq_sklearn.reading.engines.parts import (
    merged_parts,
    run_job,
    side_by_side,
    summary_of_part,
)
from dpq_sklearn.reading.engines.people import keys_of_labels, summary_of_people
from dpq_sklearn.reading.engines.protocol import check_output
from dpq_sklearn.reading.groups import checked_groups
from dpq_sklearn.reading.quantities import positions_of_quantities
from dpq_sklearn.reading.sources import Records
from dpq_sklearn.reading.summaries import SUMMARY_RESOLUTION

DASK = ("dask", "dask_expr")  # the libraries of its collections
MERGED_AT_ONCE = 8  # summaries
_ROW_BITS = 40  # of a position; the others are the number of the partition


@dataclass(frozen=True)
class DaskCollection:
    """A dask DataFrame or Array: a collection, and the source of its records."""

    X: object
    groups: object = None
    default_resolution = SUMMARY_RESOLUTION

    def __post_init__(self):
        X = self.X
        kind = type(X)
        if not self._is_frame and not hasattr(kind, "map_blocks"):
            raise TypeError(
                "of dask's collections X must be a DataFrame or an Array, got "
                f"{kind.__module__}.{kind.__name__}."
            )
        if X.ndim != 2 or (not self._is_frame and np.isnan(X.shape[1])):
            raise ValueError(
                f"Expected 2D array, got a dask {kind.__name__} of {X.ndim} dimensions, or one "
                "whose number of columns is unknown."
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

    def _has_column(self, name):
        with suppress(Exception):  # of what is no name
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

        What scikit-learn's validation says about them it would say about the real ones.
        """
        X = self._features
        if self._is_frame:
            return X._meta_nonempty

        ones = np.ones((1, X.shape[1]), dtype=float if X.dtype.kind == "O" else X.dtype)
        return sparse.csr_array(ones) if sparse.issparse(X._meta) else ones

    def quantities(self):
        """Return the collection without the columns of other types, but with that of labels."""
        if not self._is_frame:
            positions_of_quantities(np.empty((0, self.X.shape[1]), dtype=self.X.dtype))
            return self

        features = self._features._meta
        kept = [features.columns[position] for position in positions_of_quantities(features)]
        if self.groups is not None and self._are_groups_a_column:
            kept.append(self.groups)
        return replace(self, X=self.X[kept])

    @property
    def _features(self):
        if self.groups is not None and self._are_groups_a_column:
            return self.X.drop(columns=[self.groups])
        return self.X

    def source(self, table, n_jobs):
        """Return the collection itself."""
        return self

    def read(self, grid):
        """Return the records of all partitions; computes."""
        sent = dask.delayed(grid, traverse=False)
        if self.groups is not None:
            delayed = [self._delayed_people(sent)]
        elif self._is_frame:
            delayed = [_delayed_summary(self.X.to_delayed(), sent, 0)]
        else:
            first_columns = np.cumsum((0, *self.X.chunks[1][:-1])).tolist()
            blocks = self.X.to_delayed().T  # one row of blocks for each block of columns
            delayed = [
                _delayed_summary(parts, sent, first_column)
                for parts, first_column in zip(blocks, first_columns, strict=True)
            ]

        found = side_by_side(run_job("Dask", lambda: dask.compute(*delayed)))
        return Records.of_summaries(found.summaries, grid, n_rows=found.n_records)

    def _delayed_people(self, grid):
        """Return the delayed summary of all people; each has been brought to one partition."""
        features = self._features
        if self._is_frame:
            meta = features._meta
        else:
            features = features.rechunk({1: -1})
            meta = pandas.DataFrame(np.empty((0, features.shape[1]), dtype=features.dtype))

        if self._are_groups_a_column:  # features and labels come out of one reading
            labels = self.X[self.groups]
            with_keys = partial(_with_keys_of_column, name=self.groups)
            parts = [self.X.to_delayed()]
        else:
            labels = self.groups
            with_keys = _with_keys
            parts = [np.ravel(features.to_delayed()), np.ravel(labels.to_delayed())]

        meta_of_labels = pandas.Series(labels._meta[:0])
        delayed = dask.delayed(partial(with_keys, promised_type=meta_of_labels.dtype))
        keyed = [
            delayed(*of_part, number=number)
            for number, of_part in enumerate(zip(*parts, strict=True))
        ]
        meta = _rows_of_people(meta, meta_of_labels)
        with dask.config.set({"dataframe.convert-string": False}):  # 1 and "1" are two labels
            rows = from_delayed(keyed, meta=meta, verify_meta=False)
        # "tasks" moves any Python object, and a lost worker costs only what was on it.
        moved = rows.shuffle("key", shuffle_method="tasks").to_delayed()
        names = list(features.columns) if self._is_frame else None
        return _merged_in_a_tree(
            [dask.delayed(_summary_of_moved)(part, names, grid) for part in moved]
        )

    def refuse_output(self, row_map):
        """Raise for containers of scikit-learn's choice, and for sparse rows of a DataFrame."""
        check_output(row_map, "dask collections")
        if row_map.is_sparse and self._is_frame:
            raise ValueError(
                'a dask DataFrame cannot hold the sparse rows of encode="onehot": set '
                'encode="onehot-dense" or "ordinal", or transform a dask Array.'
            )

    def map_rows(self, row_map):
        """Return the lazy function of the rows, partition by partition."""
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


def _delayed_summary(parts, grid, first_column):
    """Return the delayed summary of all parts."""
    return _merged_in_a_tree(
        [dask.delayed(summary_of_part)(part, grid, first_column) for part in parts]
    )


def _merged_in_a_tree(level):
    while len(level) > 1:
        starts = range(0, len(level), MERGED_AT_ONCE)
        level = [dask.delayed(merged_parts)(level[i : i + MERGED_AT_ONCE]) for i in starts]
    return level[0]


def _with_keys_of_column(part, name, number, promised_type):
    return _with_keys(part.drop(columns=[name]), part[name], number, promised_type)


def _with_keys(part, labels, number, promised_type):
    """Return the rows of a part as a frame with label, position and key; see `keys_of_labels`.

    A part that has not one label for each row becomes one row with a negative position.
    """
    part = pandas.DataFrame(part)
    if isinstance(labels, np.ma.MaskedArray):  # as floats, large integers would be rounded
        labels = np.where(np.ma.getmaskarray(labels), None, labels.data.astype(object))
    labels = pandas.Series(labels)
    if labels.dtype != promised_type:  # a common type of all parts could round as well
        labels = labels.astype(object)
    if len(part) != len(labels):
        return _rows_of_people(part[:0].reindex([0]), pandas.Series([None]), positions=-1)

    positions = (number << _ROW_BITS) + np.arange(len(part))
    return _rows_of_people(part, labels, positions, keys_of_labels(labels, number))


def _rows_of_people(part, labels, positions=0, keys=0):
    """Return rows with numbered columns, and the label, position and key of each."""
    rows = part.set_axis(range(part.shape[1]), axis=1).reset_index(drop=True)
    zeros = np.zeros(len(rows), dtype=np.int64)
    return rows.assign(
        label=labels.reset_index(drop=True), position=zeros + positions, key=zeros + keys
    )


def _summary_of_moved(rows, names, grid):
    """Return the `PartSummary` of whole people; or an exception."""
    positions = rows["position"].to_numpy()
    if positions.min(initial=0) < 0:
        return ValueError("groups must have one label for each row of the data.")

    try:
        features = rows.drop(columns=["label", "position", "key"])
        if names is not None:
            features = features.set_axis(names, axis=1)
        return summary_of_people(features, rows["label"], positions, grid)
    except Exception as error:
        return error.with_traceback(None)


def _map_frame(part, function, empty):
    rows = _map_block(part, function, empty)
    return type(empty)(np.asarray(rows), columns=empty.columns, index=part.index)


def _map_block(block, function, empty):
    return function(block) if block.shape[0] else empty
