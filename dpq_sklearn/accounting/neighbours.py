"""Which datasets are neighbours: what one release protects. The costs of the two do not add up."""

from enum import Enum

from dpq_sklearn.checks import shown


class Neighbours(str, Enum):  # noqa: UP042 (a StrEnum formats its value, not its words)
    """Datasets that differ by one row, or by one person; printed in words."""

    ROWS = "rows"
    PEOPLE = "people"

    @property
    def in_words(self):
        """What is added or removed."""
        if self is Neighbours.ROWS:
            return "add or remove one row"
        return "add or remove one person (all rows of a group)"

    def __str__(self):
        return self.in_words

    def __repr__(self):
        return repr(self.value)

    @classmethod
    def _missing_(cls, value):
        """Take the words as well: earlier versions kept them in pickles and ledgers."""
        words = value if isinstance(value, str) else None  # arrays do not compare to a truth value
        return next((kind for kind in cls if kind.in_words == words), None)


def checked_neighbours(neighbours):
    """Return the member that is meant by itself, its value or its words."""
    try:
        return Neighbours(neighbours)
    except ValueError:
        raise ValueError(
            f'neighbours must be "rows" or "people", got {shown(neighbours)}.'
        ) from None
