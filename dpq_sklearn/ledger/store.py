"""The methods of a ledger's store. There are three stores: a file, a server, and memory."""

from collections.abc import Callable, Sequence
from typing import Protocol

from dpq_sklearn.ledger.contents import Contents, Row, Summary

# Called under the lock of a ledger with its totals and a function that reads all rows; returns the
# next row, or raises.
NextRow = Callable[[Summary, Callable[[], Sequence[Row]]], Row]


class Store(Protocol):
    """A place that holds one ledger. Two stores are equal if they are the same place.

    A store has no state except its place, so copies and pickles refer to the same ledger. All
    failures are raised as a `LedgerError` that names the place.
    """

    @property
    def place(self) -> str:
        """The place as messages name it, without a password."""

    def exists(self) -> bool:
        """Return whether a ledger is there."""

    def create(self, new: Summary) -> None:
        """Create a ledger without releases, completely or not at all.

        A ledger that exists already is left unchanged.
        """

    def read(self) -> Contents:
        """Return all contents after verifying them."""

    def summary(self) -> Summary:
        """Return the budget and the verified totals, without reading every row if possible."""

    def append(self, release_id: str, next_row: NextRow) -> Summary:
        """Commit the row that `next_row` returns, durably and once; return the new totals.

        The store reads the totals, adds the row and commits under one lock. If this method raises,
        nothing may be released; if `next_row` raises, nothing was spent either.
        """
