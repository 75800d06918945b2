"""Sources: where a release reads its records from. Each has one method, `read`.

A source is made from a container whose types are checked already; making it reads no number. A
release calls `read` once, when its price is paid.
"""

from dataclasses import dataclass

import numpy as np

from dpq_sklearn.data.columns import fill_columns, read_column, read_matrix, readable_columns
from dpq_sklearn.data.threads import Progress, blocks_of_columns, in_threads
from dpq_sklearn.engine.ranks import CellWeights, SortedColumns
from dpq_sklearn.engine.summaries import SummaryBuilder


@dataclass(frozen=True)
class Records:
    """What a source reads: the ranks of its columns, and how many rows there are."""

    ranks: object
    n_rows: int


@dataclass(frozen=True)
class Column:
    """One checked column."""

    x: object
    name: str

    def read(self, grid):
        """Return the records of the column."""
        values = read_column(self.x, self.name)
        return Records(sorted_columns(values[None, :], grid), values.size)


@dataclass(frozen=True)
class Table:
    """A checked table in memory; columns are copied and sorted in threads."""

    X: object
    n_jobs: int | None

    def read(self, grid):
        """Return the records of the table."""
        X = read_matrix(self.X)
        values = np.empty(X.shape[::-1])
        in_threads(
            lambda block: fill_columns(values[block], X[:, block]),
            blocks_of_columns(X.shape[1], self.n_jobs),
            self.n_jobs,
        )
        return Records(sorted_columns(values, grid, self.n_jobs), X.shape[0])


@dataclass(frozen=True)
class Batches:
    """Checked tables that come one after another; each is summarized and forgotten.

    `progress` is told of every batch.
    """

    tables: object
    n_jobs: int | None
    progress: Progress

    def read(self, grid):
        """Return the records of all batches."""
        builders = [SummaryBuilder(grid, column) for column in range(grid.n_columns)]
        with self.progress:
            for table in self.tables:
                self._add(read_matrix(table), builders)
        summaries = [builder.summary() for builder in builders]
        return Records(CellWeights(summaries, grid), at_least_one(self.progress.n_rows))

    def _add(self, X, builders):
        def add(block):
            for builder, column in zip(builders[block], readable_columns(X[:, block]), strict=True):
                builder.add(column)

        in_threads(add, blocks_of_columns(X.shape[1], self.n_jobs), self.n_jobs)
        self.progress.advance(X.shape[0])


def at_least_one(n_rows):
    """Return a number of rows, or raise for none as scikit-learn does."""
    if n_rows == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    return n_rows


def sorted_columns(values, grid, n_jobs=None):
    """Return the ranks of the rows of `values`, which are overwritten."""

    def sort(block):
        values[block].sort(axis=1)

    in_threads(sort, blocks_of_columns(values.shape[0], n_jobs), n_jobs)
    return SortedColumns(values, grid)
