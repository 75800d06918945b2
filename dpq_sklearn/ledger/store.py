"""What a store of a ledger can do. There are three: a file, a server, and this process's memory."""

from typing import Protocol


class Store(Protocol):
    """Where one ledger is kept. Two stores are equal if they are the same place.

    A store holds no state but where it is, so that copies and pickles mean the same ledger. What
    goes wrong is a `LedgerError` that names the place.
    """

    @property
    def place(self) -> str:
        """The place as messages name it; never with a password."""

    def exists(self):
        """Return whether a ledger is there."""

    def create(self, contents):
        """Make a ledger with these contents, complete or not at all; one that is there stays."""

    def read(self):
        """Return the `Contents`, verified."""

    def append(self, release_id, add_release):
        """Commit the release that `add_release(contents)` adds, for good and once; return it all.

        The contents are read, added to and committed under one lock. Whatever is raised, nothing
        may be released: if it is `add_release` that raises, nothing was spent either.
        """
