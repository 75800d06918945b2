"""AQ: the tree of quantiles and the walk through it (Kaplan, Schnapp, Stemmer 2021).

The middle quantile is estimated first; it splits the grid, and the other quantiles are found
in the two halves in the same way. One record meets one node a level, not one a quantile, and the
nodes of a level are drawn together.
"""

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from dpq_sklearn.accounting.budgets import Budget, Cost, exponential_cost
from dpq_sklearn.accounting.composition import largest_scale
from dpq_sklearn.engine.base_measure import step_measure
from dpq_sklearn.engine.exponential import Nodes, draw
from dpq_sklearn.mechanisms.protocol import Mechanism


@dataclass(frozen=True)
class QuantileNode:
    """One estimate to come: which quantile, where between its neighbours above, with what eps."""

    index: int
    q: float
    eps: float
    left: "QuantileNode | None"
    right: "QuantileNode | None"

    @property
    def is_leaf(self):
        return self.left is None and self.right is None


def quantile_tree(quantiles, budget):
    """Return the root of the balanced tree over ascending distinct `quantiles`; public facts only.

    A node spends a part of what its path has left and hands the rest to *each* child, so that a
    shallow branch does not waste the share of a deep one. The part is the node's sensitivity
    beside the sum of sensitivities on an average path below: 1 / levels where all ask for medians.
    With a budget of draws the eps are those of `draw_pattern`.
    """
    return _quantile_tree(tuple(map(float, quantiles)), budget)


@lru_cache(maxsize=256)  # features with equal shares have equal trees
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

    def subtree(first, last, q_below, q_above, budget, depth):
        if first == last:
            return None
        middle, q = split(first, last, q_below, q_above)
        if budget.unit == "draw":
            levels, instead = draw_pattern(quantiles)
            is_early_leaf = last - first == 1 and depth == len(levels) - 2
            eps, rest = budget.amount * (instead if is_early_leaf else levels[depth]), budget
        else:
            share = max(q, 1 - q) / need(first, last, q_below, q_above)
            eps = budget.part(share).exponential_eps()
            rest = budget.part(1 - share) if last - first > 1 else budget
        return QuantileNode(
            index=middle,
            q=q,
            eps=eps,
            left=subtree(first, middle, q_below, quantiles[middle], rest, depth + 1),
            right=subtree(middle + 1, last, quantiles[middle], q_above, rest, depth + 1),
        )

    return subtree(0, len(quantiles), 0.0, 1.0, budget.before_rounding(len(quantiles)), 0)


@lru_cache(maxsize=256)
def draw_pattern(quantiles):
    """Return the eps of the levels in proportion, the least of them 1, and that of early leaves.

    All nodes of a level have one eps, but for *early leaves*: those in the last level but one. A
    record meets the last two levels or an early leaf, which gets the eps of both, squared and added
    up: the draws are a fork (`accounting.composition`). Without early leaves, their eps is 0.

    With the budget sum(eps^2), the variances sum(A / eps^2) of all quantiles are least where eps^4
    is proportional to A, what the level adds to all variances at eps = 1. So it is for the two
    levels of a fork among each other, and together they act like one level.
    """
    n_levels = len(quantiles).bit_length()
    unit = np.eye(n_levels + 1)  # the last one is for early leaves

    def variances(first, last, q_below, q_above, of_low, of_high, of_both, depth):
        """Return the sum of variances in this subtree, as shares of the levels."""
        if first == last:
            return np.zeros(n_levels + 1)
        middle = (first + last) // 2
        q = (quantiles[middle] - q_below) / (q_above - q_below)
        own = unit[-1] if last - first == 1 and depth == n_levels - 2 else unit[depth]
        here, of_left, of_right = _variance(q, own, of_low, of_high, of_both)
        left = first, middle, q_below, quantiles[middle], of_low, here, of_left
        right = middle + 1, last, quantiles[middle], q_above, here, of_high, of_right
        return here + variances(*left, depth + 1) + variances(*right, depth + 1)

    nothing = np.zeros(n_levels + 1)
    *levels, early = variances(0, len(quantiles), 0.0, 1.0, nothing, nothing, nothing, 0)
    squares, instead = np.sqrt(levels), 0.0
    if early > 0:
        both = squares[-2:].sum()
        instead = np.sqrt(both**2 + early)
        squares[-2:] *= instead / both
    least = squares.min()
    return tuple(np.sqrt(squares / least).tolist()), math.sqrt(instead / least)


def _variance(q, own, of_low, of_high, of_both):
    """Return the variance of a node's rank, and its covariances with the lower and the upper end.

    A node's own error is two-sided exponential, with variance 2 / eta^2; `own` is 1 / eps^2. To it
    comes the error of its target: q of that of its upper end and 1 - q of that of its lower end.
    """
    here = 8 * max(q, 1 - q) ** 2 * own
    here = here + q**2 * of_high + (1 - q) ** 2 * of_low + 2 * q * (1 - q) * of_both
    return here, q * of_both + (1 - q) * of_low, q * of_high + (1 - q) * of_both


@dataclass(frozen=True)
class Level:
    """The nodes of one level of the trees of all columns, which are drawn together.

    Quantiles count from 1; 0 and m + 1 are the ends of a column. `neighbour` is a quantile known
    already beyond the closed end of an outermost node, or -1: together they tell the scale.
    """

    column: np.ndarray
    index: np.ndarray
    below: np.ndarray
    above: np.ndarray
    neighbour: np.ndarray
    q: np.ndarray
    eps: np.ndarray
    is_leaf: np.ndarray


@lru_cache(maxsize=256)
def _tree_levels(quantiles, budget):
    """Return the levels of one column's tree from the root down, each an array of nodes."""
    levels, ends = [], (0, len(quantiles) + 1)
    nodes = [(_quantile_tree(quantiles, budget), *ends, -1)]
    while nodes:
        rows = [
            (tree.index + 1, below, above, neighbour, tree.q, tree.eps, tree.is_leaf)
            for tree, below, above, neighbour in nodes
        ]
        levels.append([np.array(column) for column in zip(*rows, strict=True)])
        children = []
        for tree, below, above, _ in nodes:
            here = tree.index + 1
            children.append((tree.left, below, here, -1 if above in ends else above))
            children.append((tree.right, here, above, -1 if below in ends else below))
        nodes = [child for child in children if child[0] is not None]
    return levels


def levels_of_columns(quantiles, budgets):
    """Return the levels of the trees of all columns from the roots down."""
    return _levels_of_columns(tuple(tuple(map(float, q)) for q in quantiles), tuple(budgets))


@lru_cache(maxsize=32)
def _levels_of_columns(quantiles, budgets):
    levels = []
    trees = [_tree_levels(q, budget) for q, budget in zip(quantiles, budgets, strict=True)]
    for depth in range(max(map(len, trees))):
        rows = [(column, tree[depth]) for column, tree in enumerate(trees) if len(tree) > depth]
        columns = np.repeat([column for column, _ in rows], [row[0].size for _, row in rows])
        levels.append(
            Level(columns, *map(np.concatenate, zip(*(row for _, row in rows), strict=True)))
        )
    return levels


class ApproximateQuantiles(Mechanism):
    """The AQ mechanism."""

    def release(self, ranks, quantiles, budgets, randomness):
        """Return one cell for each of the ascending distinct quantiles of each column, ascending.

        Privacy
        -------
        Neighbours differ in one record. With w its weight in a node (`exponential.draw`), the
        node's draw costs it w * eps, its children have weights that sum to w, and each is
        handed what the node did not spend. By induction a subtree that was handed E costs
        w * E: ``w eps + (w_left + w_right) (E - eps) <= w E``. In zCDP the draw costs
        ``w^2 rho <= w rho``, and the same induction holds. At the root w = 1. Base measures depend
        on cells that earlier draws released, which adaptive composition allows.
        """
        grid = ranks.grid
        per_cell = grid.positions_per_cell
        # The ends of each column, and all estimates between them as soon as they are known.
        n_quantiles = np.array([len(q) for q in quantiles])
        every = np.arange(n_quantiles.size)
        positions = np.zeros((every.size, n_quantiles.max() + 2), dtype=np.int64)
        split_ranks = np.zeros_like(positions)
        positions[:, 0] = per_cell * grid.first
        positions[every, n_quantiles + 1] = per_cell * grid.end - 1
        split_ranks[every, n_quantiles + 1] = per_cell * ranks.total_weights
        for level in levels_of_columns(quantiles, budgets):
            column, below, above = level.column, level.below, level.above
            lo, hi = positions[column, below], positions[column, above]
            is_released = np.array((below > 0, above <= n_quantiles[column]))
            is_open = ~is_released & (grid.is_open_low[column], grid.is_open_high[column])
            closed_end = np.where(is_open[0], above, below)
            known = np.where(level.neighbour >= 0, level.neighbour, closed_end)
            cells = np.array((lo, hi, positions[column, known])) // per_cell
            measure = step_measure(grid, column, *cells, is_open, is_released)
            lo_rank, hi_rank = split_ranks[column, below], split_ranks[column, above]
            nodes = Nodes(
                column, lo, hi, lo_rank, hi_rank, level.q, level.eps, level.is_leaf, measure
            )
            drawn = draw(ranks, nodes, randomness)
            positions[column, level.index], split_ranks[column, level.index] = drawn
        cells = positions // per_cell
        return [row[1 : n + 1] for row, n in zip(cells, n_quantiles, strict=True)]

    def cost(self, quantiles, budget):
        """Return what `release` costs: that of the most expensive path."""

        def worst_path(tree, power):
            if tree is None:
                return 0.0, []
            total, path = max(worst_path(tree.left, power), worst_path(tree.right, power))
            return total + tree.eps**power, [tree.eps, *path]

        tree = quantile_tree(quantiles, budget)
        costs = [exponential_cost(worst_path(tree, power)[1], len(quantiles)) for power in (1, 2)]
        return Cost(costs[0].eps, costs[1].rho)

    def composed_budgets(self, quantiles, shares, eps, delta, count_eps=0.0):
        """Return the budgets of columns that together are (eps, delta)-DP, by optimal composition.

        The nodes of a level with one eps are one bounded-range draw for a record, as its weights
        in them sum to at most 1. The levels of all columns are an adaptive sequence of draws.
        """
        weights = np.sqrt(np.asarray(shares) / max(shares)).tolist()  # as zCDP would share
        pattern, instead = [], []
        # No column looks at another, so any order that keeps its levels in order is right.
        for weight, of_column in sorted(zip(weights, quantiles, strict=True), reverse=True):
            levels, early_leaf = draw_pattern(of_column)
            pattern += [weight * level for level in levels]
            instead += [0.0] * len(levels)
            if early_leaf:
                instead[-2] = weight * early_leaf
        scale = largest_scale(tuple(pattern), eps, delta, tuple(instead), first=2 * count_eps)
        return tuple(Budget(scale * weight, "draw") for weight in weights)

    def rank_errors(self, quantiles, budget):
        """Return the standard deviation of the rank of each quantile, for untied data.

        The variances of the two ends and their covariance are all that a node needs to know.
        """
        variances = np.empty(len(quantiles))

        def visit(tree, of_low, of_high, of_both):
            if tree is None:
                return
            own = 1 / tree.eps**2
            here, of_left, of_right = _variance(tree.q, own, of_low, of_high, of_both)
            variances[tree.index] = here
            visit(tree.left, of_low, here, of_left)
            visit(tree.right, here, of_high, of_right)

        visit(quantile_tree(quantiles, budget), 0.0, 0.0, 0.0)
        return np.sqrt(variances)
