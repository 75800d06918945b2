"""Sources: where a release reads its records from, or its counts.

A source is made from a container whose types are checked already; making it reads no number. A
plan calls its `read`, or its `count`, once, when the price is paid. The sources of a fit have a
default resolution.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse

from dpq_sklearn.engine.grid import FULL_RESOLUTION
from dpq_sklearn.engine.lazy_columns import LazyColumns
from dpq_sklearn.engine.ranks import sums_of_weights
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.engine.weighted_ranks import WeightedRanks
from dpq_sklearn.reading.categories import count_columns, merged_counts
from dpq_sklearn.reading.containers import (
    fill_columns,
    read_matrix,
    read_numbers,
    readable_columns,
)
from dpq_sklearn.reading.groups import weights_of_rows
from dpq_sklearn.reading.summaries import SUMMARY_RESOLUTION, SummaryBuilder, sorted_by_cell
from dpq_sklearn.reading.threads import Progress, blocks_of_columns, in_threads

# From this many rows on, columns are sorted only where a mechanism looks. It changes no answer.
LAZILY_SORTED_ROWS = 100_000


@dataclass(frozen=True)
class Records:
    """What a source reads: the ranks of its columns, and how many rows or people there are."""

    ranks: object
    n_rows: int

    @classmethod
    def of_summaries(cls, summaries, grid, n_rows):
        """Return the records of summarized columns, or raise in scikit-learn's words for none."""
        if n_rows == 0:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return cls(WeightedRanks.of_summaries(summaries, grid), n_rows)


@dataclass(frozen=True)
class Table:
    """A checked table or column in memory, and whose rows they are; sorted in threads."""

    X: object
    n_jobs: int | None = None
    groups: object = None
    default_resolution = FULL_RESOLUTION

    def read(self, grid):
        """Return the records of the table."""
        X = self._on_lattices(read_numbers(self.X), grid)
        if self.groups is None:
            return Records(self._sorted(X, grid), X.shape[0])

        weights, n_people = weights_of_rows(self.groups)
        return Records(self._weighted(X, weights, grid), n_people)

    def count_categories(self):
        """Return the number of records with each category, for each column."""
        return count_columns(self.X, self.groups)

    def _on_lattices(self, X, grid):
        """Return the numbers, those of columns on a lattice rounded to it: row by row."""
        if not grid.is_lattice.any():
            return X

        rounded = X.astype(np.float64)

        def round_columns(block):
            for column in np.flatnonzero(grid.is_lattice[block]) + block.start:
                rounded[:, column] = grid.on_lattices(rounded[:, column], column)

        self._in_threads(round_columns, X.shape[1])
        return rounded

    def _sorted(self, X, grid):
        """Return the ranks of rows that are records."""
        if X.shape[0] >= LAZILY_SORTED_ROWS:
            return self._lazily_sorted(X, grid)

        columns = np.empty(X.shape[::-1])

        def fill_and_sort(block):
            fill_columns(columns[block], X[:, block])
            columns[block].sort(axis=1)

        self._in_threads(fill_and_sort, X.shape[1])
        return SortedRanks.of_rows(columns, grid)

    def _lazily_sorted(self, X, grid):
        """Return the same ranks, of columns that are sorted only where a mechanism looks."""
        blocks = self._in_threads(lambda block: readable_columns(X[:, block]), X.shape[1])
        columns = [column for block in blocks for column in block]
        run = partial(in_threads, n_jobs=self.n_jobs)
        return SortedRanks(LazyColumns.of_arrays(columns, run), grid)

    def _weighted(self, X, weights, grid):
        """Return the ranks of rows with weights."""
        n_rows, n_columns = X.shape
        cells = np.empty((n_columns, n_rows), dtype=np.int64)
        below = np.zeros((n_columns, n_rows + 1), dtype=np.int64)

        def sort(block):
            columns = range(n_columns)[block]
            for column, values in zip(columns, readable_columns(X[:, block]), strict=True):
                cells[column], in_order = sorted_by_cell(values, weights, grid, column)
                np.cumsum(in_order, out=below[column, 1:])

        self._in_threads(sort, n_columns)
        return WeightedRanks.of_rows(cells, below, grid)

    def _in_threads(self, function, n_columns):
        return in_threads(function, blocks_of_columns(n_columns, self.n_jobs), self.n_jobs)


def _weights_and_number(n_rows, groups):
    """Return the weights of rows, None if each is a record, and the number of records."""
    return (None, n_rows) if groups is None else weights_of_rows(groups)


@dataclass(frozen=True)
class Rows:
    """The rows of a column or table, and whose they are, to be counted."""

    x: object
    groups: object = None

    def count(self):
        """Return one count: of the rows, or of the people."""
        return np.array([_weights_and_number(n_rows(self.x), self.groups)[1]])


@dataclass(frozen=True)
class Histogram:
    """One checked column, counted between ascending edges, and whose rows they are."""

    x: object
    edges: np.ndarray
    groups: object = None

    def count(self):
        """Return the rows in each bin, or with groups their weight."""
        values = read_matrix(self.x)[:, 0].astype(np.float64)
        weights, _ = _weights_and_number(values.size, self.groups)

        # The last bin has both of its ends. NaN are sorted behind it.
        edges = np.append(self.edges[:-1], np.nextafter(self.edges[-1], np.inf))
        bins = np.searchsorted(edges, values, side="right")
        return sums_of_weights(bins, weights, edges.size + 1)[1:-1]


@dataclass(frozen=True)
class Labels:
    """One checked column of labels, whose rows they are, and the public keys to be counted."""

    x: object
    groups: object = None
    keys: tuple = ()

    def count(self):
        """Return the number of records with each of the public keys."""
        (counts,) = self.count_categories()
        return np.array([counts[key] for key in self.keys])

    def count_categories(self):
        """Return the number of records with each label of the one column, in a list."""
        return count_columns(self.x, self.groups)


@dataclass(frozen=True)
class Batches:
    """Checked tables that come one after another, with their groups; each is summarized."""

    tables_and_groups: object
    n_jobs: int | None
    progress: Progress
    default_resolution = SUMMARY_RESOLUTION

    def read(self, grid):
        """Return the records of all batches."""
        builders = [SummaryBuilder(grid, column) for column in range(grid.low.size)]
        n_records = 0
        with self.progress:
            for table, groups in self.tables_and_groups:
                n_records += self._add(read_matrix(table), groups, builders)
        return Records.of_summaries([builder.summary() for builder in builders], grid, n_records)

    def count_categories(self):
        """Return the number of records with each category of all batches, for each column."""
        with self.progress:
            return merged_counts(map(self._counted, self.tables_and_groups))

    def _counted(self, table_and_groups):
        counts = count_columns(*table_and_groups)
        self.progress.advance(table_and_groups[0].shape[0])
        return counts

    def _add(self, X, groups, builders):
        """Summarize a batch; return how many rows or people it has."""
        weights, n_records = _weights_and_number(X.shape[0], groups)

        def add(block):
            for builder, column in zip(builders[block], readable_columns(X[:, block]), strict=True):
                builder.add(column, weights)

        in_threads(add, blocks_of_columns(X.shape[1], self.n_jobs), self.n_jobs)
        self.progress.advance(X.shape[0])
        return n_records


def n_rows(x):
    """Return the number of rows of a column or a table."""
    return x.shape[0] if sparse.issparse(x) else len(x)
