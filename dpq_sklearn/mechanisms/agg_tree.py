"""AggTree: quantiles from a tree of noisy counts over the whole grid.

The grid is cut into `branching` equal parts, each of these again, and so on for `height` levels;
every part's count gets noise. The counts contradict each other until they are made consistent,
which also averages noise away; then a quantile is found by walking down from the root.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dpq_sklearn.accounting.budgets import BudgetTooSmall, Cost
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.mechanisms.protocol import Mechanism


@dataclass(frozen=True)
class AggregateTree(Mechanism):
    """The AggTree mechanism."""

    takes_priors = False

    height: int = 4
    branching: int = 16

    def draw(self, ranks, probabilities, budgets, randomness, priors=None):
        """Return the cells that noisy counts lead to.

        Privacy
        -------
        Neighbours differ in one record, which is counted once on each level: its weights in the
        counts of a level sum to at most one record. Each level has an equal share of the budget
        (`CountNoise`). What follows the noise uses the noisy counts only.
        """
        everything = np.full(len(budgets), np.inf)
        ranks = ranks.near(np.arange(len(budgets)), np.full(len(budgets), 0.5), everything)

        cells = []
        for column, (of_column, budget) in enumerate(zip(probabilities, budgets, strict=True)):
            counts = tree_counts(ranks, column, self.height, self.branching)
            noisy = [level + self._noise(budget, level.size).draw(randomness) for level in counts]

            first = int(ranks.grid.first[column])
            n_cells = int(ranks.grid.end[column]) - first
            cells.append(first + walk_down(consistent(noisy), of_column, n_cells))
        return cells

    def _noise(self, budget, n_counts):
        return CountNoise(budget.part(1 / self.height), n_counts, RECORD_WEIGHT)

    def _noise_of_levels(self, budget):
        depths = range(1, self.height + 1)
        return [self._noise(budget, self.branching**depth) for depth in depths]

    def cost(self, probabilities, budget):
        costs = [noise.cost() for noise in self._noise_of_levels(budget)]
        return Cost(*map(sum, zip(*costs, strict=True)))

    def events(self, probabilities, budget):
        return [noise.event() for noise in self._noise_of_levels(budget)]

    def rank_deviations(self, probabilities, budget):
        return np.full(len(probabilities), np.nan)  # depends on the data

    def typical_error(self, probabilities, budget):
        """Return the standard deviation of the noise of a leaf's count."""
        try:
            return self._noise(budget, self.branching**self.height).deviation()
        except BudgetTooSmall:
            return math.inf


def tree_counts(ranks, column, height, branching):
    """Return the exact weights of each level, from the `branching` parts below the root down."""
    first = int(ranks.grid.first[column])
    n_cells = int(ranks.grid.end[column]) - first
    leaves = np.diff(ranks.weights_below(column, first + leaf_edges(branching**height, n_cells)))
    return [leaves.reshape(branching**depth, -1).sum(axis=1) for depth in range(1, height + 1)]


def leaf_edges(n_leaves, n_cells):
    """Return the first cell of each leaf, and `n_cells`."""
    return np.arange(n_leaves + 1) * n_cells // n_leaves


def consistent(noisy):
    """Return the counts nearest to the noisy ones (least squares) in which children add up.

    Up the tree, each count is averaged with the sum of its children, weighted by their variances;
    down the tree, what a count then has more than its children is shared among them (Honaker
    2015; Hay, Rastogi, Miklau, Suciu 2010, Theorem 3). The root is not measured.
    """
    estimates = [level.astype(np.float64) for level in noisy]
    branching = noisy[0].size

    for level in range(len(estimates) - 2, -1, -1):
        leaves = branching ** (len(estimates) - level)
        own_share = (leaves - leaves // branching) / (leaves - 1)
        from_children = estimates[level + 1].reshape(-1, branching).sum(axis=1)
        estimates[level] = own_share * estimates[level] + (1 - own_share) * from_children

    for parents, children in pairwise(estimates):
        children = children.reshape(-1, branching)  # a view, in which the estimates change
        children += (parents - children.sum(axis=1))[:, None] / branching
    return estimates


def walk_down(levels, probabilities, n_cells):
    """Return the cell of each quantile: leaf by leaf from the left, linear inside the leaf.

    `levels` are consistent counts, (branching,), (branching^2,), ... The result has the shape of
    `probabilities`, (m,).

    At each level the walk goes to the first child at which the counts so far reach the rank still
    wanted. That is monotone in the quantile, also where counts are negative.
    """
    branching = levels[0].size
    each = np.arange(len(probabilities))
    wanted = np.asarray(probabilities, dtype=np.float64) * max(levels[0].sum(), 0.0)
    node = np.zeros_like(each)

    for level in levels:
        counts = level.reshape(-1, branching)[node]
        reached = np.cumsum(counts, axis=1)
        wanted = np.minimum(wanted, reached.max(axis=1))  # consistent, but for rounding
        child = np.argmax(reached >= wanted[:, None], axis=1)
        count = counts[each, child]
        wanted = wanted - reached[each, child] + count
        node = node * branching + child

    share = np.divide(wanted, count, out=np.full(wanted.size, 0.5), where=count > 0)
    edges = leaf_edges(levels[-1].size, n_cells)
    starts = edges[node]
    widths = edges[node + 1] - starts
    inside = (np.clip(share, 0, 1) * widths).astype(np.int64)
    inside = np.minimum(inside, np.maximum(widths - 1, 0))
    return np.maximum.accumulate(starts + inside)
