"""Batches: tables that come one after another. Each is read and dropped before the next.

They can be read like any other source, but neither transformed nor read twice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from dpq_sklearn.reading.categories import count_columns, merged_counts
from dpq_sklearn.reading.containers import read_matrix, readable_columns
from dpq_sklearn.reading.groups import weights_and_number
from dpq_sklearn.reading.quantities import names_of, table_of_quantities
from dpq_sklearn.reading.sources.protocol import Records
from dpq_sklearn.reading.summaries import SUMMARY_RESOLUTION, SummaryBuilder
from dpq_sklearn.reading.threads import Progress, blocks_of_columns, in_threads


@dataclass(frozen=True)
class Batches:
    """Checked tables with their groups, or with None; each of them is summarized."""

    first: tuple
    following: Iterator
    n_jobs: int | None
    progress: Progress
    default_resolution = SUMMARY_RESOLUTION

    @classmethod
    def of(cls, tables_and_groups, n_jobs=None, progress=None):
        """Return the source of an iterator of pairs, or None if the iterator is empty."""
        for first in tables_and_groups:
            return cls(first, tables_and_groups, n_jobs, progress or Progress())
        return None

    @classmethod
    def of_quantities(cls, tables, groups=None, n_jobs=None):
        """Return the source of the columns of numbers of tables in an iterator, or raise."""
        if groups is not None:
            raise ValueError(
                "groups must be None for an iterator of batches, because the rows of a person may "
                f"be in several batches, got an object of type {type(groups).__name__}."
            )
        batches = cls.of(_pairs_of_quantities(tables), n_jobs)
        if batches is None:
            raise ValueError("table must be a table or a non-empty iterator of tables, got none.")
        return batches

    def typed_rows(self):
        """Return the first table."""
        return self.first[0]

    def read(self, grid):
        """Return the records of all batches."""
        builders = [SummaryBuilder(grid, column) for column in range(grid.low.size)]
        n_records = 0
        with self.progress:
            for table, groups in chain([self.first], self.following):
                n_records += self._add(read_matrix(table), groups, builders)
        return Records.of_summaries([builder.summary() for builder in builders], grid, n_records)

    def count_categories(self):
        """Return the number of records with each category in all batches, for each column."""
        with self.progress:
            return merged_counts(map(self._counted, chain([self.first], self.following)))

    def _counted(self, table_and_groups):
        counts = count_columns(*table_and_groups)
        self.progress.advance(table_and_groups[0].shape[0])
        return counts

    def _add(self, X, groups, builders):
        """Summarize a batch; return the number of its rows or people."""
        weights, n_records = weights_and_number(X.shape[0], groups)

        def add(block):
            for builder, column in zip(builders[block], readable_columns(X[:, block]), strict=True):
                builder.add(column, weights)

        in_threads(add, blocks_of_columns(X.shape[1], self.n_jobs), self.n_jobs)
        self.progress.advance(X.shape[0])
        return n_records


def _pairs_of_quantities(tables):
    """Yield the quantities of each table, and None for its groups."""
    names = None
    for table in map(table_of_quantities, tables):
        names = names_of(table) if names is None else names
        check_names_of_batch(names, table)
        yield table, None


def check_names_of_batch(names, table):
    """Raise if a batch has other names of columns than the first batch."""
    if names_of(table) != names:
        raise ValueError(
            "all batches must have the same columns of numbers in the same order, got "
            f"{names!r} and {names_of(table)!r}."
        )
