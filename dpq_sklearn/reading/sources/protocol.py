"""The protocol of a source: the rows of a fit, in memory or in partitions on many machines.

An engine such as Dask has a class that implements `Source`. For releases by segment, it has another
class, which implements `reading.segments.SegmentedSource`. `registry` chooses the class by the type
of the container.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dpq_sklearn.engine.grid import Grid
from dpq_sklearn.engine.ranks import Ranks
from dpq_sklearn.engine.weighted_ranks import WeightedRanks


@dataclass(frozen=True)
class Records:
    """The ranks of all columns, and the number of rows or, with groups, of people."""

    ranks: Ranks
    n_rows: int

    @classmethod
    def of_summaries(cls, summaries: Sequence, grid: Grid, n_rows: int) -> "Records":
        """Return the records of summarized columns; without rows raise scikit-learn's message."""
        if n_rows == 0:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return cls(WeightedRanks.of_summaries(summaries, grid), n_rows)


@dataclass(frozen=True)
class RowMap:
    """A function of rows that is the same for a table and for its partitions."""

    function: Callable  # of a table in memory
    function_on_workers: Callable  # the same, to be sent to workers; it overwrites nothing
    names: Callable  # returns the names of the columns of the result
    output: str = "default"  # the container that scikit-learn is configured to return
    is_sparse: bool = False  # whether the result is a sparse matrix


class Source(Protocol):
    """A table and, in a fit, the person each row belongs to.

    The constructor reads no cell. It raises if the container is not a table, or if public facts
    show that the groups do not match its rows.
    """

    default_resolution: int  # the binary logarithm of the number of cells of a grid

    # Public facts.

    def typed_rows(self) -> Any:
        """Return a table with the names and types of the features, for scikit-learn's checks.

        A source in memory returns its table, other sources return a few made-up rows. Raises if
        the types are known to hold no numbers.
        """

    def features(self) -> Any:
        """Return the container without the column that `groups` names, if `groups` is a name."""

    def quantities(self) -> "Source":
        """Return the source without the columns that hold neither numbers nor dates.

        A column of labels stays. Raises if no other column is left. Only types decide.
        """

    # Reads. A plan calls one of these once, after the price is paid.

    def read(self, grid: Grid) -> Records:
        """Return the records on a grid."""

    def count_categories(self) -> list[Counter]:
        """Return the number of records with each category, for each column."""

    # Transforms.

    def refuse_output(self, row_map: RowMap) -> None:
        """Raise if the container cannot hold the result of a map; maps nothing."""

    def map_rows(self, row_map: RowMap) -> Any:
        """Return the result of a map: lazily, in the same kind of container, if it has partitions.

        The function is not called on empty partitions.
        """
