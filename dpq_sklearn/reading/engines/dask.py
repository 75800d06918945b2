"""Dask: partitions are counted where they are, and transformed when they are asked for.

Imported only when a dask collection is passed. A fit sends the public grid to the workers, which
send back summaries; these are merged as a tree, and the release happens once, on the client.
"""

from dataclasses import dataclass

import dask
import numpy as np
from scipy import sparse

from dpq_sklearn.reading.engines.parts import merged_parts, side_by_side, summary_of_part
from dpq_sklearn.reading.sources import Records
from dpq_sklearn.reading.summaries import SUMMARY_RESOLUTION

MERGED_AT_ONCE = 8  # summaries


@dataclass(frozen=True)
class DaskCollection:
    """A dask DataFrame or Array: a collection, and the source of its records."""

    X: object
    groups: object = None
    default_resolution = SUMMARY_RESOLUTION

    def typed_rows(self):
        """Return a few made-up rows with the columns and types of the collection.

        What scikit-learn's validation says about them it would say about the real ones.
        """
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

        if self._is_frame:
            rows = X._meta_nonempty.copy()
            for name, dtype in rows.dtypes.items():
                if str(dtype) == "object":  # which objects is not known; the workers will see
                    rows[name] = 1.0
            return rows

        ones = np.ones((1, X.shape[1]), dtype=float if X.dtype.kind == "O" else X.dtype)
        return sparse.csr_array(ones) if sparse.issparse(X._meta) else ones

    @property
    def _is_frame(self):
        """Whether the collection is a DataFrame, or a Series."""
        return hasattr(type(self.X), "map_partitions")

    def source(self, table, n_jobs):
        """Return the collection itself."""
        if self.groups is not None:
            raise ValueError(
                "groups must be None for a dask collection: a person may be spread over its "
                "partitions. Use fit_batches with batches that hold whole people."
            )
        return self

    def read(self, grid):
        """Return the records of all partitions; computes."""
        if self._is_frame:
            blocks = [self.X.to_delayed()]
            widths = [grid.low.size]
        else:  # one row of blocks for each block of columns
            blocks = self.X.to_delayed().T
            widths = self.X.chunks[1]

        first_columns = np.cumsum((0, *widths[:-1])).tolist()
        sent = dask.delayed(grid, traverse=False)
        delayed = [
            _delayed_summary(parts, sent, first_column)
            for parts, first_column in zip(blocks, first_columns, strict=True)
        ]
        found = side_by_side(dask.compute(*delayed))
        return Records.of_summaries(found.summaries, grid, n_rows=found.n_records)

    def map_rows(self, row_map):
        """Return the lazy function of the rows, partition by partition."""
        if row_map.output != "default":
            raise ValueError(
                "dask collections keep their container: transform_output must be 'default' for "
                f"them, got {row_map.output!r}."
            )

        X = self.X
        rows = row_map.function_on_workers(self.typed_rows())
        function = row_map.function_on_workers
        if not self._is_frame:
            X = X.rechunk({1: -1})
            chunks = (X.chunks[0], (rows.shape[1],))
            return X.map_blocks(
                _map_block, function, rows[:0], dtype=rows.dtype, chunks=chunks, meta=rows
            )

        if sparse.issparse(rows):
            raise ValueError(
                'a dask DataFrame cannot hold the sparse rows of encode="onehot": set '
                'encode="onehot-dense" or "ordinal", or transform a dask Array.'
            )
        empty = type(X._meta)(rows[:0], columns=row_map.names(), index=X._meta.index)
        return X.map_partitions(_map_frame, function, empty, meta=empty)


def _delayed_summary(parts, grid, first_column):
    """Return the delayed summary of all parts, merged as a tree."""
    level = [dask.delayed(summary_of_part)(part, grid, first_column) for part in parts]
    while len(level) > 1:
        starts = range(0, len(level), MERGED_AT_ONCE)
        level = [dask.delayed(merged_parts)(level[i : i + MERGED_AT_ONCE]) for i in starts]
    return level[0]


def _map_frame(part, function, empty):
    rows = _map_block(part, function, empty)
    return type(empty)(np.asarray(rows), columns=empty.columns, index=part.index)


def _map_block(block, function, empty):
    return function(block) if block.shape[0] else empty
