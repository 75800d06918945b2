"""Tables that come one after another, each read and forgotten before the next one."""

from dataclasses import dataclass

from dpq_sklearn.reading.quantities import names_of, table_of_quantities
from dpq_sklearn.reading.sources import Batches
from dpq_sklearn.reading.threads import Progress


@dataclass(frozen=True)
class BatchesOfQuantities:
    """The columns of quantities of tables in an iterator: the first table tells which they are."""

    first: object
    following: object  # an iterator

    @classmethod
    def of(cls, batches, groups):
        """Take the first table out of an iterator, or raise."""
        if groups is not None:
            raise ValueError(
                "groups must be None for an iterator of batches, which does not tell where the "
                f"other rows of a person are, got an object of type {type(groups).__name__}."
            )
        batches = iter(batches)
        for first in batches:
            return cls(table_of_quantities(first), batches)
        raise ValueError("table must be one, or an iterator of at least one, got one of none.")

    def typed_rows(self):
        """Return the first table."""
        return self.first

    def source(self, table, n_jobs):
        """Return a source that summarizes one table after another."""
        return Batches(self._checked_tables(), n_jobs, Progress())

    def _checked_tables(self):
        """Yield each table, with no groups."""
        names = names_of(self.first)
        yield self.first, None
        for batch in self.following:
            table = table_of_quantities(batch)
            check_names_of_batch(names, table)
            yield table, None


def check_names_of_batch(names, table):
    """Raise if the columns of a batch have other names than those of the first batch."""
    if names_of(table) != names:
        raise ValueError(
            "all batches must have the same columns of numbers in the same order, got "
            f"{names!r} and {names_of(table)!r}."
        )
