"""What every mechanism for quantiles offers."""

import math
from abc import ABC, abstractmethod
from functools import lru_cache

from dpq_sklearn.accounting.budgets import BudgetTooSmall


class Mechanism(ABC):
    """A way to release the quantiles of columns.

    Everything but `draw` is a function of public facts: of `probabilities`, which say which
    quantiles of one column are wanted, ascending and distinct, and of the budget of that column.
    """

    #: whether it has a base measure, to which priors can contribute
    takes_priors = True

    def for_points(self, n_points):
        """Return the mechanism for a column of whose lattice bounds leave so many points.

        None is a column without a lattice, or with an open end.
        """
        return self

    @abstractmethod
    def draw(self, ranks, probabilities, budgets, randomness, priors=None):
        """Return a list with the ascending cells of the quantiles of each column.

        There are a list of probabilities and a budget for each column of the `Ranks`, and a `Prior`
        or None for each if `priors` are given, which not all mechanisms take.
        """

    @abstractmethod
    def cost(self, probabilities, budget):
        """Return the `Cost` of drawing the quantiles of one column."""

    @abstractmethod
    def events(self, probabilities, budget):
        """Return the `Event` of each draw, or noise, that one record of a column meets."""

    @abstractmethod
    def rank_deviations(self, probabilities, budget):
        """Return the standard deviation of the rank of each quantile in records, for untied data.

        NaN where it depends on the data.
        """

    def typical_error(self, probabilities, budget):
        """Return a number to compare accounts and mechanisms by: the mean error in rank, or inf."""
        try:
            return float(self.rank_deviations(probabilities, budget).mean())
        except BudgetTooSmall:  # too little to be guaranteed in floating point
            return math.inf

    def composed_budgets(self, probabilities, shares, eps, delta, count_eps=0.0):
        """Return the budgets of columns that together are (eps, delta)-DP, by optimal composition.

        `probabilities` and `shares` of the budget have one entry for each column. A count that is
        `count_eps`-DP comes before them: it is a draw with a range of twice that. None where the
        mechanism has no composition of its own, or where eps is too little for one.
        """
        return None


def draw_columns(mechanisms, ranks, probabilities, budgets, randomness, priors=None):
    """Return the cells that mechanisms draw, one for each column; all columns of one at once.

    Privacy
    -------
    That of the mechanisms, which must not depend on the data.
    """
    cells_of = {}
    for mechanism in dict.fromkeys(mechanisms):
        columns = [index for index, other in enumerate(mechanisms) if other == mechanism]
        cells = mechanism.draw(
            ranks if len(columns) == len(mechanisms) else ranks.of_columns(columns),
            [probabilities[column] for column in columns],
            [budgets[column] for column in columns],
            randomness,
            None if priors is None else [priors[column] for column in columns],
        )
        cells_of.update(zip(columns, cells, strict=True))
    return [cells_of[column] for column in range(len(mechanisms))]


@lru_cache(maxsize=1024)
def of_column(method, probabilities, budget):
    """Return ``method(probabilities, budget)``, worked out once: columns are mostly alike."""
    return method(probabilities, budget)
