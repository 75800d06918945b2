"""The interface of all mechanisms for quantiles."""

import math
from abc import ABC, abstractmethod
from functools import lru_cache

from dpq_sklearn.accounting.budgets import BudgetTooSmall


class Mechanism(ABC):
    """A mechanism that releases the quantiles of columns.

    All methods except `draw` are functions of public facts: the ascending distinct `probabilities`
    of the quantiles of a column, and the budget of the column.
    """

    #: whether the mechanism has a base measure, to which priors can contribute
    takes_priors = True

    def for_points(self, n_points):
        """Return the mechanism for a column with `n_points` points of a lattice between its bounds.

        `n_points` is None for a column without a lattice, or with an open end.
        """
        return self

    @abstractmethod
    def draw(self, ranks, probabilities, budgets, randomness, priors=None):
        """Return a list with the ascending cells of the quantiles of each column.

        `probabilities`, `budgets` and `priors` have an entry for each column of the `Ranks`. A
        prior may be None. Not all mechanisms use priors.
        """

    @abstractmethod
    def cost(self, probabilities, budget):
        """Return the `Cost` of drawing the quantiles of one column."""

    @abstractmethod
    def events(self, probabilities, budget):
        """Return an `Event` for each mechanism call that involves a given record of a column."""

    @abstractmethod
    def rank_deviations(self, probabilities, budget):
        """Return the standard deviation of the rank of each quantile in records, without ties.

        The result is NaN if it depends on the data.
        """

    def typical_error(self, probabilities, budget):
        """Return the mean error in rank, to compare compositions and mechanisms, or inf."""
        try:
            return float(self.rank_deviations(probabilities, budget).mean())
        except BudgetTooSmall:  # too small for a guarantee in floating point
            return math.inf

    def composed_budgets(self, probabilities, shares, eps, delta, count_eps=0.0):
        """Return the budgets of columns that together are (eps, delta)-DP, by optimal composition.

        `probabilities` and `shares` of the budget have an entry for each column. A `count_eps`-DP
        count precedes the columns and is composed as a bounded-range draw with twice its eps.
        Returns None if the mechanism does not support optimal composition, or if eps is too small.
        """
        return None


def draw_columns(mechanisms, ranks, probabilities, budgets, randomness, priors=None):
    """Return the cells that the mechanism of each column draws.

    Columns with equal mechanisms are drawn at once.

    Privacy
    -------
    The guarantee is that of the mechanisms. Their choice must not depend on the data.
    """
    cells_of_columns = {}
    for mechanism in dict.fromkeys(mechanisms):
        columns = [index for index, other in enumerate(mechanisms) if other == mechanism]
        cells = mechanism.draw(
            ranks if len(columns) == len(mechanisms) else ranks.of_columns(columns),
            [probabilities[column] for column in columns],
            [budgets[column] for column in columns],
            randomness,
            None if priors is None else [priors[column] for column in columns],
        )
        cells_of_columns.update(zip(columns, cells, strict=True))
    return [cells_of_columns[column] for column in range(len(mechanisms))]


@lru_cache(maxsize=1024)
def computed_once(method, probabilities, budget):
    """Return ``method(probabilities, budget)`` from a cache, because most columns are alike."""
    return method(probabilities, budget)
