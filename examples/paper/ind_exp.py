"""Independent quantiles: every quantile by an exponential mechanism of its own (AppIndExp).

The simplest way to many quantiles, and the yardstick for the others: all draws see all records,
so the budget is shared by all quantiles and not only by the levels of a tree.
"""

import numpy as np

from dpq_sklearn.mechanisms.aq import ApproximateQuantiles, QuantileNode


class IndependentExponential(ApproximateQuantiles):
    """The AppIndExp mechanism."""

    def draw(self, ranks, probabilities, budgets, randomness, priors=None):
        """Return the cells: every quantile is drawn over its whole column.

        Privacy
        -------
        Neighbours differ in one record, which has weight 1 in every draw (`exponential.draw`): with
        m draws of eps each a column costs m eps, or m eps^2 / 8 in zCDP. Sorting the results is
        post-processing.
        """
        cells = super().draw(ranks, probabilities, budgets, randomness, priors)
        return list(map(np.sort, cells))

    def nodes(self, probabilities, norm):
        """Return a node for each quantile: leaves over the whole column."""
        end = len(probabilities) + 1
        return [
            QuantileNode(
                depth=0,
                indices=(index,),
                below=0,
                above=end,
                beyond=-1,
                probabilities=(q,),
                q=(q,),
                is_leaf=True,
            )
            for index, q in enumerate(probabilities, 1)
        ]

    def pattern(self, probabilities, norm):
        """Return equal eps: a record meets all draws, each like a level of its own."""
        return np.ones(len(probabilities)), 0.0
