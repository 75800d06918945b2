"""Tables in memory: the engine that needs none."""

from dataclasses import dataclass, replace

from dpq_sklearn.reading.containers import library_of
from dpq_sklearn.reading.groups import checked_groups
from dpq_sklearn.reading.quantities import names_of, table_of_quantities
from dpq_sklearn.reading.sources import Table

_LIBRARIES_WITH_NAMES = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True)
class MemoryCollection:
    """A table in memory, or anything that scikit-learn can make a table of."""

    X: object
    groups: object = None

    @classmethod
    def of(cls, X, groups):
        """Return the features and the labels of a table; `groups` may name a column of it."""
        if not isinstance(groups, str):
            return cls(X, groups)

        X = X.to_native() if hasattr(X, "to_native") else X  # narwhals
        names = names_of(X) if library_of(X) in _LIBRARIES_WITH_NAMES and _is_table(X) else []
        if names.count(groups) != 1:  # the text may be a label: it is not quoted
            n_columns = "several columns" if groups in names else "no column"
            raise ValueError(
                "groups must be one column of labels, or the name of one column of a table, got a "
                f"str that names {n_columns}."
            )
        return cls(*_without_column(X, groups))

    def features(self):
        """Return the table without the column of labels."""
        return self.X

    def typed_rows(self):
        """Return the table itself."""
        return self.X

    def quantities(self):
        """Return the table without the columns of other types."""
        return replace(self, X=table_of_quantities(self.X))

    def source(self, table, n_jobs):
        """Return a source that sorts the columns in threads."""
        groups = self.groups
        if groups is not None:
            groups = checked_groups(groups, table.shape[0])

        return Table(table, n_jobs, groups)

    def refuse_output(self, row_map):
        """Refuse nothing: scikit-learn knows what it can return."""

    def map_rows(self, row_map):
        """Return the function of the rows, at once."""
        return row_map.function(self.X)


def _is_table(X):
    return len(getattr(X, "shape", ())) == 2 or hasattr(X, "column_names")


def _without_column(X, name):
    """Return a table of pandas, polars or Arrow without a column, and the column."""
    if library_of(X) == "pandas":
        return X.drop(columns=[name]), X[name]
    if library_of(X) == "polars":
        return X.drop(name), X[name]

    position = X.schema.get_field_index(name)
    others = [other for other in X.schema.names if other != name]
    return X.select(others), X.column(position)
