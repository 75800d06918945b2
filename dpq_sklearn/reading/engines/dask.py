"""Dask: partitions are counted where they are, and transformed when they are asked for.

Imported only when a dask collection is passed. A fit sends the public grid to the workers, which
send back summaries; these are merged as a tree, and the release happens once, on the client. A
summary is a pure function of its partition, so a worker that dies costs time and no budget.
"""

from dataclasses import dataclass
from itertools import repeat

import dask
import numpy as np
from scipy import sparse

from dpq_sklearn.reading.containers import checked_table, read_matrix, readable_columns
from dpq_sklearn.reading.sources import Records
from dpq_sklearn.reading.summaries import SUMMARY_RESOLUTION, merge, summarize

MERGED_AT_ONCE = 8  # summaries


def meta_of(X):
    """Return a few made-up rows with the columns and types of a dask collection.

    What scikit-learn's validation says about them it would say about the real ones.
    """
    kind = type(X)
    if not is_frame(X) and not hasattr(kind, "map_blocks"):
        raise TypeError(
            "of dask's collections X must be a DataFrame or an Array, got "
            f"{kind.__module__}.{kind.__name__}."
        )
    if X.ndim != 2 or (not is_frame(X) and np.isnan(X.shape[1])):
        raise ValueError(
            f"Expected 2D array, got a dask {kind.__name__} of {X.ndim} dimensions, or one "
            "whose number of columns is unknown."
        )
    if is_frame(X):
        meta = X._meta_nonempty.copy()
        for name, dtype in meta.dtypes.items():
            if str(dtype) == "object":  # which objects is not known; the workers will see
                meta[name] = 1.0
        return meta
    ones = np.ones((1, X.shape[1]), dtype=float if X.dtype.kind == "O" else X.dtype)
    return sparse.csr_array(ones) if sparse.issparse(X._meta) else ones


def is_frame(X):
    """Return whether a dask collection is a DataFrame, or a Series."""
    return hasattr(type(X), "map_partitions")


@dataclass(frozen=True)
class Collection:
    """A dask DataFrame or Array whose types are checked: a source of records."""

    X: object
    default_resolution = SUMMARY_RESOLUTION

    def read(self, grid):
        """Return the records of all partitions; computes."""
        blocks, widths = [self.X.to_delayed()], [grid.low.size]
        if not is_frame(self.X):  # one row of blocks for each block of columns
            blocks, widths = self.X.to_delayed().T, self.X.chunks[1]
        starts = np.cumsum((0, *widths[:-1])).tolist()
        sent = dask.delayed(grid, traverse=False)
        found = dask.compute(*map(_delayed_summaries, blocks, repeat(sent), starts))
        for of_part in found:
            if isinstance(of_part, Exception):
                raise of_part
        summaries = [summary for _, of_part in found for summary in of_part]
        return Records.of_summaries(summaries, grid, n_rows=found[0][0])


def _delayed_summaries(parts, grid, first_column):
    """Return the delayed number of rows of all parts, and summaries of their columns."""
    level = [dask.delayed(_summaries_of)(part, grid, first_column) for part in parts]
    while len(level) > 1:
        groups = range(0, len(level), MERGED_AT_ONCE)
        level = [dask.delayed(merge_parts)(level[i : i + MERGED_AT_ONCE]) for i in groups]
    return level[0]


def _summaries_of(part, grid, first_column):
    """Return the number of rows of a partition, and a summary of each column; or an exception.

    A worker that raised would log what it was working on, which is private.
    """
    try:
        with np.errstate(all="ignore"):
            matrix = read_matrix(checked_table(part), first_column)
            columns = enumerate(readable_columns(matrix), first_column)
            return matrix.shape[0], [summarize(values, grid, column) for column, values in columns]
    except Exception as error:
        return error.with_traceback(None)


def merge_parts(parts):
    """Return the sum of what several partitions returned; or an exception."""
    for part in parts:
        if isinstance(part, Exception):
            return part
    rows, summaries = zip(*parts, strict=True)
    return sum(rows), [merge(*of_column) for of_column in zip(*summaries, strict=True)]


def map_rows(X, function, meta, names):
    """Return the lazy `function` of the rows of a dask collection, partition by partition.

    `meta` is the function of the rows of `meta_of`, which has `names` if `X` is a DataFrame. The
    function need not take empty rows.
    """
    if is_frame(X):
        empty = type(X._meta)(meta[:0], columns=names, index=X._meta.index)
        return X.map_partitions(_map_frame, function, empty, meta=empty)
    X = X.rechunk({1: -1})
    chunks = (X.chunks[0], (meta.shape[1],))
    return X.map_blocks(_map_block, function, meta[:0], dtype=meta.dtype, chunks=chunks, meta=meta)


def _map_frame(part, function, empty):
    rows = _map_block(part, function, empty)
    return type(empty)(np.asarray(rows), columns=empty.columns, index=part.index)


def _map_block(block, function, empty):
    return function(block) if block.shape[0] else empty
