"""Dask: partitions are counted where they are, and transformed when they are asked for.

Imported only when a dask collection is passed. A fit sends the public grids to the workers, which
send back summaries; these are merged as a tree, and the release happens once, on the client. A
summary is a pure function of its partition, so a worker that dies costs time and no budget.
"""

import dask
import numpy as np
from scipy import sparse

from dpq_sklearn.data.columns import checked_table, matrix_or_error, readable_columns
from dpq_sklearn.engine.summaries import merge_columns, summarize

# So many summaries are merged at a time.
MERGED_AT_ONCE = 8


def meta_of(X):
    """Return a few made-up rows with the columns and types of a dask collection.

    What scikit-learn's validation says about them it would say about the real ones.
    """
    if not is_frame(X) and not hasattr(type(X), "map_blocks"):
        raise TypeError(
            "of dask's collections X must be a DataFrame or an Array, got "
            f"{type(X).__module__}.{type(X).__name__}."
        )
    if X.ndim != 2 or (not is_frame(X) and np.isnan(X.shape[1])):
        raise ValueError(
            f"Expected 2D array, got a dask {type(X).__name__} of {X.ndim} dimensions, or one "
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


def summaries_of(X, grids):
    """Return the number of rows and one summary a column of a dask collection; computes."""
    if is_frame(X):
        columns = [_delayed_counts(X.to_delayed(), grids, 0)]
    else:
        blocks = X.to_delayed().T  # one row of blocks for each block of columns
        ends = np.cumsum((0, *X.chunks[1])).tolist()
        columns = [
            _delayed_counts(part, grids[first:last], first)
            for part, first, last in zip(blocks, ends[:-1], ends[1:], strict=True)
        ]
    counted = dask.compute(*columns)
    error = _first_error(counted)
    if error is not None:
        raise error
    return counted[0][0], [summary for _, summaries in counted for summary in summaries]


def _delayed_counts(parts, grids, first_column):
    """Return the delayed number of rows and summaries of parts of the same columns."""
    grids = dask.delayed(grids, traverse=False)
    level = [dask.delayed(count_part)(part, grids, first_column) for part in parts]
    while len(level) > 1:
        groups = range(0, len(level), MERGED_AT_ONCE)
        level = [dask.delayed(merge_parts)(level[i : i + MERGED_AT_ONCE]) for i in groups]
    return level[0]


def count_part(part, grids, first_column=0):
    """Return the number of rows of a partition, and one summary a column; or an exception.

    A worker that raised would log what it was working on, which is private.
    """
    try:
        matrix = matrix_or_error(checked_table(part), first_column)
    except (TypeError, ValueError) as error:  # of types that are not those of the collection
        matrix = error.with_traceback(None)
    if isinstance(matrix, Exception):
        return matrix
    columns = zip(readable_columns(matrix), grids, strict=True)
    return matrix.shape[0], [summarize(column, grid) for column, grid in columns]


def merge_parts(parts):
    """Return the sum of what `count_part` returned for several partitions; or an exception."""
    error = _first_error(parts)
    if error is not None:
        return error
    rows, summaries = zip(*parts, strict=True)
    return sum(rows), merge_columns(summaries)


def _first_error(parts):
    return next((part for part in parts if isinstance(part, Exception)), None)


def map_rows(X, function, meta, names):
    """Return the lazy `function` of the rows of a dask collection, partition by partition.

    Parameters
    ----------
    X : dask DataFrame or Array
        The rows.
    function : callable
        From rows to rows; it need not take empty ones.
    meta : array or sparse matrix
        The function of the rows of `meta_of`.
    names : array of str
        Columns of the result, if it is a DataFrame.
    """
    if is_frame(X):
        import pandas

        empty = pandas.DataFrame(meta[:0], columns=names, index=X._meta.index)
        return X.map_partitions(_map_frame, function, empty, meta=empty)
    X = X.rechunk({1: -1})
    chunks = (X.chunks[0], (meta.shape[1],))
    return X.map_blocks(_map_block, function, meta[:0], dtype=meta.dtype, chunks=chunks, meta=meta)


def _map_frame(part, function, empty):
    if not len(part):
        return empty.set_axis(part.index)
    return type(empty)(function(part), columns=empty.columns, index=part.index)


def _map_block(block, function, empty):
    return function(block) if block.shape[0] else empty
