"""Neighbouring datasets: whether a release protects rows or people.

Costs for rows and costs for people do not add up.
"""

from enum import Enum

from dpq_sklearn.checks import shown


class Neighbours(str, Enum):  # noqa: UP042 (a StrEnum formats its value, not its words)
    """Neighbouring datasets differ by one row, or by one person. Printed in words."""

    ROWS = "rows"
    PEOPLE = "people"

    @property
    def in_words(self) -> str:
        """The difference between two neighbours."""
        if self is Neighbours.ROWS:
            return "add or remove one row"
        return "add or remove one person (all rows of a group)"

    def __str__(self) -> str:
        return self.in_words

    def __repr__(self) -> str:
        return repr(self.value)

    @classmethod
    def _missing_(cls, value: object) -> "Neighbours | None":
        """Return the member with these words, which earlier versions stored instead of values."""
        words = value if isinstance(value, str) else None  # comparing an array gives no truth value
        return next((kind for kind in cls if kind.in_words == words), None)


def neighbours_of(groups: object) -> Neighbours:
    """Return which datasets are neighbours: with groups, datasets that differ by one person."""
    return Neighbours.ROWS if groups is None else Neighbours.PEOPLE


def checked_neighbours(neighbours: object) -> Neighbours:
    """Return the member with this value or these words."""
    try:
        return Neighbours(neighbours)
    except ValueError:
        raise ValueError(
            f'neighbours must be "rows" or "people", got {shown(neighbours)}.'
        ) from None
