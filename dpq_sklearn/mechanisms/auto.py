"""The mechanism "auto": AQ, or noisy counts over a short lattice if these have less error.

The choice compares expected errors. These depend on public facts only: the quantiles, the budget,
and the number of points that the lattice has between the bounds. docs/accuracy.md compares the
choice with measured errors.
"""

from dataclasses import dataclass

from dpq_sklearn.accounting.budgets import Unit
from dpq_sklearn.mechanisms.agg_tree import MOST_POINTS, AggregateTree
from dpq_sklearn.mechanisms.extreme_quantiles import TailAwareQuantiles
from dpq_sklearn.mechanisms.protocol import Mechanism, draw_columns

# The expected error of counts must be at least 10% smaller than that of AQ. Both mechanisms are
# more accurate than expected on tied records, which a short lattice has.
CLEARLY_LESS = 0.9

_AQ = TailAwareQuantiles()


@dataclass(frozen=True)
class AutomaticChoice(Mechanism):
    """AQ or AggTree for each column; `n_points` is the size of its short lattice, or None."""

    n_points: int | None = None

    composed_budgets = _AQ.composed_budgets  # AggTree has no optimal composition

    def for_points(self, n_points):
        """Return the choice for a column with `n_points` points between its bounds."""
        is_short = n_points is not None and n_points <= MOST_POINTS
        return AutomaticChoice(n_points if is_short else None)

    def choice(self, probabilities, budget):
        """Return the mechanism for these quantiles and this budget."""
        if self.n_points is None or budget.unit is Unit.DRAW:
            return _AQ
        tree = AggregateTree().for_points(self.n_points)
        error_of_tree = tree.typical_error(probabilities, budget)
        is_better = error_of_tree < CLEARLY_LESS * _AQ.typical_error(probabilities, budget)
        return tree if is_better else _AQ

    def draw(self, ranks, probabilities, budgets, randomness, priors=None):
        """Return the cells that the chosen mechanisms draw.

        Privacy
        -------
        The guarantee is that of the chosen mechanisms. The choice does not depend on the data.
        """
        choices = list(map(self.choice, probabilities, budgets))
        return draw_columns(choices, ranks, probabilities, budgets, randomness, priors)

    def cost(self, probabilities, budget):
        return self.choice(probabilities, budget).cost(probabilities, budget)

    def events(self, probabilities, budget):
        return self.choice(probabilities, budget).events(probabilities, budget)

    def rank_deviations(self, probabilities, budget):
        return self.choice(probabilities, budget).rank_deviations(probabilities, budget)
