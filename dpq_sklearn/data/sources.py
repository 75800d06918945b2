"""Sources: where a release reads its records from. Each has one method, `read`.

A source is made from a container whose types are checked already; making it reads no number. A
release calls `read` once, when its price is paid. The sources of a fit have a default resolution.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from dpq_sklearn.data.columns import fill_columns, read_column, read_matrix, readable_columns
from dpq_sklearn.data.groups import weights_of_rows
from dpq_sklearn.data.summaries import SUMMARY_RESOLUTION, SummaryBuilder, sort_weighted
from dpq_sklearn.data.threads import Progress, blocks_of_columns, in_threads
from dpq_sklearn.engine.grid import FULL_RESOLUTION
from dpq_sklearn.engine.ranks import Ranks


@dataclass(frozen=True)
class Records:
    """What a source reads: the ranks of its columns, and how many rows or people there are."""

    ranks: object
    n_rows: int


@dataclass(frozen=True)
class Column:
    """One checked column, and whose rows they are."""

    x: object
    groups: object = None

    def read(self, grid):
        """Return the records of the column."""
        values = read_column(self.x, "x")[None, :]
        return _records(values, grid, self.groups, n_jobs=None)


@dataclass(frozen=True)
class Table:
    """A checked table in memory, and whose rows they are; columns are sorted in threads."""

    X: object
    n_jobs: int | None
    groups: object = None
    default_resolution = FULL_RESOLUTION

    def read(self, grid):
        """Return the records of the table."""
        X = read_matrix(self.X)
        values = np.empty(X.shape[::-1])
        _for_blocks(lambda block: fill_columns(values[block], X[:, block]), values, self.n_jobs)
        return _records(values, grid, self.groups, self.n_jobs)


def _records(values, grid, groups, n_jobs):
    """Return the records of columns, the rows of `values`, which are overwritten."""
    n_columns, n_rows = values.shape
    if groups is None or n_rows == 0:
        _for_blocks(lambda block: values[block].sort(axis=1), values, n_jobs)
        return Records(Ranks.of_sorted(values, grid), n_rows)
    weights, n_people = weights_of_rows(groups)
    cells, below = values.view(np.int64), np.zeros((n_columns, n_rows + 1), dtype=np.int64)

    def sort(column):
        in_order = sort_weighted(values[column], weights, grid, column, cells[column])
        np.cumsum(in_order, out=below[column, 1:])

    in_threads(sort, range(n_columns), n_jobs)
    return Records(Ranks.of_weighted(cells, below, grid), n_people)


def _for_blocks(function, values, n_jobs, **most):
    in_threads(function, blocks_of_columns(len(values), n_jobs, **most), n_jobs)


@dataclass(frozen=True)
class Rows:
    """The rows of a column or table, and whose they are, to be counted."""

    x: object
    groups: object = None

    def read(self, grid):
        """Return one count: of the rows, or of the people."""
        n_records = n_rows(self.x) if self.groups is None else weights_of_rows(self.groups)[1]
        return np.array([n_records])


@dataclass(frozen=True)
class Histogram:
    """One checked column, counted between ascending edges, and whose rows they are."""

    x: object
    edges: np.ndarray
    groups: object = None

    def read(self, grid):
        """Return the rows in each bin, or with groups their weight."""
        values, n_bins = read_column(self.x, "x"), self.edges.size - 1
        bins = np.searchsorted(self.edges, values, side="right") - 1
        bins[values == self.edges[-1]] -= 1  # the last bin has both of its ends
        is_inside = (bins >= 0) & (bins < n_bins)  # NaN are sorted behind the last edge
        weights = None if self.groups is None else weights_of_rows(self.groups)[0][is_inside]
        # Sums of weights are whole numbers below 2^53, which floats hold exactly.
        return np.bincount(bins[is_inside], weights, minlength=n_bins).astype(np.int64)


@dataclass(frozen=True)
class Batches:
    """Checked tables that come one after another, with their groups; each is summarized.

    `progress` is told of every batch.
    """

    tables_and_groups: object
    n_jobs: int | None
    progress: Progress
    default_resolution = SUMMARY_RESOLUTION

    def read(self, grid):
        """Return the records of all batches."""
        builders = [SummaryBuilder(grid, column) for column in range(grid.n_columns)]
        n_records = 0
        with self.progress:
            for table, groups in self.tables_and_groups:
                n_records += self._add(read_matrix(table), groups, builders)
        at_least_one(self.progress.n_rows)
        summaries = [builder.summary() for builder in builders]
        return Records(Ranks.of_summaries(summaries, grid), n_records)

    def _add(self, X, groups, builders):
        """Summarize a batch; return how many rows or people it has."""
        weights, n_records = None, X.shape[0]
        if groups is not None:
            weights, n_records = weights_of_rows(groups)

        def add(block):
            for builder, column in zip(builders[block], readable_columns(X[:, block]), strict=True):
                builder.add(column, weights)

        # A block of columns is copied as a whole, so it is a small one.
        _for_blocks(add, X.T, self.n_jobs, most=8)
        self.progress.advance(X.shape[0])
        return n_records


def n_rows(x):
    """Return the number of rows of a column or a table."""
    return x.shape[0] if sparse.issparse(x) else len(x)


def at_least_one(n_rows):
    """Return a number of rows, or raise for none, in scikit-learn's words."""
    if n_rows == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    return n_rows
