"""The mechanism for columns without requested quantiles."""

import numpy as np

from dpq_sklearn.accounting.budgets import Cost
from dpq_sklearn.mechanisms.protocol import Mechanism


class Nothing(Mechanism):
    """A mechanism that reads no data and costs nothing; the budget of a column is None."""

    def draw(self, ranks, probabilities, budgets, randomness, priors=None):
        """Return an empty array of cells for each column.

        Privacy
        -------
        The result does not depend on the data.
        """
        return [np.empty(0, dtype=np.int64) for _ in probabilities]

    def cost(self, probabilities, budget):
        """Return a cost of zero."""
        return Cost(0.0, 0.0)

    def events(self, probabilities, budget):
        """Return no events."""
        return []

    def rank_deviations(self, probabilities, budget):
        """Return no deviations."""
        return np.empty(0)


NOTHING = Nothing()
