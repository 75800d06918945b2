"""Tables in memory: the engine that needs none."""

from dataclasses import dataclass, replace

from dpq_sklearn.reading.groups import checked_groups
from dpq_sklearn.reading.quantities import table_of_quantities
from dpq_sklearn.reading.sources import Table


@dataclass(frozen=True)
class MemoryCollection:
    """A table in memory, or what scikit-learn can make one of."""

    X: object
    groups: object = None

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
