"""AQ: the tree of quantiles and the walk through it (Kaplan, Schnapp, Stemmer 2021).

The middle quantile is estimated first; it splits the grid, and the other quantiles are found
in the two halves in the same way. One record meets one node a level, not one a quantile, and the
nodes of a level are drawn together.
"""

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from dpq_sklearn.accounting import exponential_cost
from dpq_sklearn.engine.exponential import Nodes, draw


@dataclass(frozen=True)
class QuantileNode:
    """One estimate to come: which quantile, where between its neighbours above, with what eps."""

    index: int
    q: float
    eps: float
    left: "QuantileNode | None"
    right: "QuantileNode | None"


def quantile_tree(quantiles, budget):
    """Return the root of the balanced tree over ascending distinct `quantiles`; public facts only.

    A node spends a part of what its path has left and hands the rest to *each* child, so that a
    shallow branch does not waste the share of a deep one. The part is the node's sensitivity
    beside the sum of sensitivities on an average path below: 1 / levels where all ask for medians.
    """
    return _quantile_tree(tuple(float(q) for q in quantiles), budget)


@lru_cache(maxsize=64)  # features with equal shares have equal trees
def _quantile_tree(quantiles, budget):
    def split(first, last, q_below, q_above):
        middle = (first + last) // 2
        return middle, (quantiles[middle] - q_below) / (q_above - q_below)

    @cache
    def need(first, last, q_below, q_above):
        """The sensitivities on the way down, averaged over the quantiles."""
        if first == last:
            return 0.0
        middle, q = split(first, last, q_below, q_above)
        below = (middle - first) * need(first, middle, q_below, quantiles[middle])
        above = (last - middle - 1) * need(middle + 1, last, quantiles[middle], q_above)
        return max(q, 1 - q) + (below + above) / max(last - first - 1, 1)

    def subtree(first, last, q_below, q_above, budget):
        if first == last:
            return None
        middle, q = split(first, last, q_below, q_above)
        share = max(q, 1 - q) / need(first, last, q_below, q_above)
        rest = budget.part(1 - share) if last - first > 1 else budget
        return QuantileNode(
            index=middle,
            q=q,
            eps=budget.part(share).exponential_eps(),
            left=subtree(first, middle, q_below, quantiles[middle], rest),
            right=subtree(middle + 1, last, quantiles[middle], q_above, rest),
        )

    return subtree(0, len(quantiles), 0.0, 1.0, budget.before_rounding(len(quantiles)))


@dataclass(frozen=True)
class QuantileLevel:
    """The nodes of one level. Quantiles count from 1; 0 and m + 1 are the ends of the grid."""

    index: np.ndarray
    below: np.ndarray
    above: np.ndarray
    q: np.ndarray
    eps: np.ndarray


def quantile_levels(quantiles, budget):
    """Return the levels of `quantile_tree` from the root down: their draws can be made at once."""
    return _quantile_levels(tuple(float(q) for q in quantiles), budget)


@lru_cache(maxsize=64)
def _quantile_levels(quantiles, budget):
    levels = []
    nodes = [(_quantile_tree(quantiles, budget), 0, len(quantiles) + 1)]
    while nodes:
        rows = [(tree.index + 1, below, above, tree.q, tree.eps) for tree, below, above in nodes]
        levels.append(QuantileLevel(*(np.array(column) for column in zip(*rows, strict=True))))
        children = [
            child
            for tree, below, above in nodes
            for child in ((tree.left, below, tree.index + 1), (tree.right, tree.index + 1, above))
        ]
        nodes = [child for child in children if child[0] is not None]
    return levels


class ApproximateQuantiles:
    """The AQ mechanism behind the seam that all mechanisms share."""

    def release(self, ranks, quantiles, budget, randomness):
        """Return one cell for each of the ascending distinct `quantiles`, ascending.

        Privacy
        -------
        Neighbours differ in one record. With w its weight in a node (`node_segments`), the
        node's draw costs it w * eps, its children have weights that sum to w, and each is
        handed what the node did not spend. By induction a subtree that was handed E costs
        w * E: ``w eps + (w_left + w_right) (E - eps) <= w E``. In zCDP the draw costs
        ``w^2 rho <= w rho``, and the same induction holds. At the root w = 1.
        """
        grid = ranks.grid
        # The ends of the grid, and all estimates between them as soon as they are known.
        positions = np.zeros(len(quantiles) + 2, dtype=np.int64)
        units = np.zeros_like(positions)
        positions[-1] = grid.n_cells * grid.positions_per_cell - 1
        units[-1] = 2 * grid.positions_per_cell * ranks.n_records
        for level in quantile_levels(quantiles, budget):
            below, above = level.below, level.above
            nodes = Nodes(positions[below], positions[above], units[below], units[above], level.q)
            drawn = draw(ranks, nodes, level.eps, randomness)
            positions[level.index], units[level.index] = drawn
        return positions[1:-1] // grid.positions_per_cell

    def cost(self, quantiles, budget):
        """Return what `release` costs in eps and in rho: that of the most expensive path."""

        def dearest_path(tree, power):
            if tree is None:
                return 0.0, []
            total, path = max(dearest_path(tree.left, power), dearest_path(tree.right, power))
            return total + tree.eps**power, [tree.eps, *path]

        tree = quantile_tree(quantiles, budget)
        return {
            unit: exponential_cost(dearest_path(tree, power)[1], len(quantiles))[unit]
            for unit, power in (("eps", 1), ("rho", 2))
        }

    def least_eps(self, quantiles, budget):
        """Return the smallest eps of any draw: the larger, the more accurate the release."""
        return quantile_tree(quantiles, budget).eps

    def rank_errors(self, quantiles, budget):
        """Return the standard deviation of the rank of each quantile, for untied data.

        A node's own error is two-sided exponential, with variance 2 / eta^2. To it comes the error
        of its target: q of that of its upper end and 1 - q of that of its lower end. The variances
        of the two ends and their covariance are all that a node needs to know.
        """
        variances = np.empty(len(quantiles))

        def visit(tree, of_low, of_high, of_both):
            if tree is None:
                return
            up, down = tree.q, 1 - tree.q
            own = 2 * (2 * max(up, down) / tree.eps) ** 2
            here = own + up**2 * of_high + down**2 * of_low + 2 * up * down * of_both
            variances[tree.index] = here
            visit(tree.left, of_low, here, up * of_both + down * of_low)
            visit(tree.right, here, of_high, up * of_high + down * of_both)

        visit(quantile_tree(quantiles, budget), 0.0, 0.0, 0.0)
        return np.sqrt(variances)
