"""What a table can do wherever it lies: in memory, or in parts on many machines.

An engine such as Dask is one module with one class, a `Collection`. `registry` finds the class of
a container, and the transformers know nothing else about engines.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class RowMap:
    """A function of rows that is the same for a table and for its parts."""

    function: Callable  # of a table in memory
    function_on_workers: Callable  # the same, to be sent to workers; it overwrites nothing
    names: Callable  # returns the names of the columns that come out
    output: str = "default"  # what scikit-learn is configured to return, if it has a say
    is_sparse: bool = False  # whether the rows that come out are a sparse matrix


class Collection(Protocol):
    """A table and, in a fit, whose rows they are; made without reading anything."""

    def features(self):
        """Return the container without the column of labels, if `groups` names one."""

    def typed_rows(self):
        """Return a table with the names and types of the features, for scikit-learn's checks.

        Of a table in memory it is the table, else a few made-up rows. Raises for what is known to
        be no table of numbers.
        """

    def quantities(self):
        """Return the collection without the columns whose types are no quantities.

        A column of labels stays. Raises if no other one is left. Types decide, and nothing else.
        """

    def source(self, table, n_jobs):
        """Return the source of a fit; `table` are the typed rows after their checks.

        Raises if the groups do not fit the rows, as far as that is public.
        """

    def refuse_output(self, row_map):
        """Raise if what a map returns cannot stand in such a collection; maps nothing."""

    def map_rows(self, row_map):
        """Return a `RowMap` of the rows: lazily, in the same kind of container, if they have parts.

        The function need not take empty parts.
        """


def check_output(row_map, collections):
    """Raise if scikit-learn is configured to return something else than the same container."""
    if row_map.output != "default":
        raise ValueError(
            f"{collections} keep their container: transform_output must be 'default' for them, "
            f"got {row_map.output!r}."
        )
