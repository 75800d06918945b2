"""Rows in memory: columns are sorted in threads."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpq_sklearn.engine.grid import FULL_RESOLUTION
from dpq_sklearn.engine.lazy_columns import LazyColumns
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.engine.weighted_ranks import WeightedRanks
from dpq_sklearn.reading.categories import count_columns
from dpq_sklearn.reading.containers import (
    fill_columns,
    library_of,
    read_numbers,
    readable_columns,
    table_with_dtypes,
)
from dpq_sklearn.reading.groups import checked_groups, weights_of_rows
from dpq_sklearn.reading.quantities import names_of, table_of_quantities
from dpq_sklearn.reading.sources.protocol import Records
from dpq_sklearn.reading.summaries import sorted_by_cell
from dpq_sklearn.reading.threads import blocks_of_columns, in_threads

# From this many rows on, columns are sorted only where a mechanism looks. It changes no answer.
LAZILY_SORTED_ROWS = 100_000
_LIBRARIES_WITH_NAMES = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True)
class MemorySource:
    """A table or a column with dtypes, and the label of the person of each row, or None."""

    X: object
    groups: object = None
    n_jobs: int | None = None
    default_resolution = FULL_RESOLUTION

    @classmethod
    def of_table(cls, X, groups=None, n_jobs=None, name="X"):
        """Return the source of any container that scikit-learn can make a table of, or raise.

        `groups` may be the name of a column of the table, and messages call the table `name`.
        """
        if isinstance(groups, str):
            X, groups = without_column(X, groups)

        X = table_with_dtypes(X, name)
        if groups is not None:
            groups = checked_groups(groups, X.shape[0])
        return cls(X, groups, n_jobs)

    def typed_rows(self):
        """Return the table itself."""
        return self.X

    def features(self):
        """Return the table, which does not have the column of labels any more."""
        return self.X

    def quantities(self):
        """Return the source without the columns that hold neither numbers nor dates."""
        return replace(self, X=table_of_quantities(self.X))

    def read(self, grid):
        """Return the records of the rows."""
        X = self._on_lattices(read_numbers(self.X), grid)
        if self.groups is None:
            return Records(self._sorted(X, grid), X.shape[0])

        weights, n_people = weights_of_rows(self.groups)
        return Records(self._weighted(X, weights, grid), n_people)

    def count_categories(self):
        """Return the number of records with each category, for each column."""
        return count_columns(self.X, self.groups)

    def refuse_output(self, row_map):
        """Refuse nothing: scikit-learn knows which containers it can return."""

    def map_rows(self, row_map):
        """Return the result of a map."""
        return row_map.function(self.X)

    def _on_lattices(self, X, grid):
        """Return the numbers, with the columns on a lattice rounded to it."""
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
        """Return the same ranks, from columns that are sorted only where a mechanism looks."""
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


def without_column(X, name):
    """Return a table of pandas, polars or Arrow without a column, and the column; or raise."""
    X = X.to_native() if hasattr(X, "to_native") else X  # narwhals
    library = library_of(X)
    names = names_of(X) if library in _LIBRARIES_WITH_NAMES and _is_table(X) else []
    if names.count(name) != 1:  # the text may be a label, so it is not quoted
        n_columns = "several columns" if name in names else "no column"
        raise ValueError(
            "groups must be one column of labels, or the name of one column of a table, got a "
            f"str that names {n_columns}."
        )

    if library == "pandas":
        return X.drop(columns=[name]), X[name]
    if library == "polars":
        return X.drop(name), X[name]

    others = [other for other in X.schema.names if other != name]
    return X.select(others), X.column(X.schema.get_field_index(name))


def _is_table(X):
    return len(getattr(X, "shape", ())) == 2 or hasattr(X, "column_names")
