"""AggTree: quantiles from a tree of noisy counts over the whole grid.

The grid is cut into `branching` equal parts, each of these again, and so on for `height` levels;
every part's count gets noise. The counts contradict each other until they are made consistent,
which also averages noise away; then a quantile is found by walking down from the root.

On a *short lattice*, where bounds leave few points, the leaves are these points. Then the counts
serve all quantiles at once, and how far off they are does not depend on the data.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from dpq_sklearn.accounting.budgets import BudgetTooSmall, Cost
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.mechanisms.protocol import Mechanism

# A lattice with more points is not short.
MOST_POINTS = 2**12
_MOST_LEVELS = 6
# How far off consistent counts are is simulated once, with numbers that are always the same.
_SIMULATED = 64


@dataclass(frozen=True)
class AggregateTree(Mechanism):
    """The AggTree mechanism; `n_points` are those of the short lattice that it is for, or None."""

    takes_priors = False

    height: int = 4
    branching: int = 16
    n_points: int | None = None

    def for_points(self, n_points):
        """Return the tree for a lattice of so many points; it is this one if that is not short."""
        return self if n_points is None or n_points > MOST_POINTS else _ShortTree(n_points=n_points)

    def draw(self, ranks, probabilities, budgets, randomness, priors=None):
        """Return the cells that noisy counts lead to.

        Privacy
        -------
        Neighbours differ in one record, which is counted once on each level: its weights in the
        counts of a level sum to at most one record. Each level has an equal share of the budget
        (`CountNoise`). What follows the noise uses the noisy counts only.
        """
        cells = []
        for column, (of_column, budget) in enumerate(zip(probabilities, budgets, strict=True)):
            tree = self.for_budget(budget)
            counts = tree_counts(ranks, column, tree.height, tree.branching)
            noisy = [level + tree._noise(budget, level.size).draw(randomness) for level in counts]
            edges = first_cells_of_leaves(ranks.grid, column, noisy[-1].size)
            cells.append(walk_down(consistent(noisy), of_column, edges))
        return cells

    def for_budget(self, budget):
        """Return the tree that is drawn with this budget."""
        return self

    def _noise(self, budget, n_counts):
        return CountNoise(budget.scaled(1 / self.height), n_counts, RECORD_WEIGHT)

    def _noise_of_levels(self, budget):
        depths = range(1, self.height + 1)
        return [self._noise(budget, self.branching**depth) for depth in depths]

    def cost(self, probabilities, budget):
        tree = self.for_budget(budget)
        costs = [noise.cost() for noise in tree._noise_of_levels(budget)]
        return Cost(*map(sum, zip(*costs, strict=True)))

    def events(self, probabilities, budget):
        tree = self.for_budget(budget)
        return [noise.event() for noise in tree._noise_of_levels(budget)]

    def rank_deviations(self, probabilities, budget):
        return np.full(len(probabilities), np.nan)  # depends on the data

    def typical_error(self, probabilities, budget):
        """Return the standard deviation of the noise of a leaf's count."""
        try:
            return self._noise(budget, self.branching**self.height).deviation()
        except BudgetTooSmall:
            return math.inf


@dataclass(frozen=True)
class _ShortTree(AggregateTree):
    """AggTree over the points of a short lattice, as high as suits the budget."""

    def for_budget(self, budget):
        """Return the tree whose ranks are off by the least."""
        height, branching = _best_tree(self.n_points, budget.norm)
        return replace(self, height=height, branching=branching)

    def rank_deviations(self, probabilities, budget):
        tree = self.for_budget(budget)
        deviation = tree._noise(budget, tree.branching**tree.height).deviation()
        of_unit = [deviation_of_unit_noise(tree.height, tree.branching, q) for q in probabilities]
        return deviation * np.array(of_unit)

    typical_error = Mechanism.typical_error


@lru_cache(maxsize=1024)
def _best_tree(n_points, norm):
    """Return the height and the branching whose median is off by the least; public facts alone."""
    trees = {}
    for height in range(1, _MOST_LEVELS + 1):
        branching = 2
        while branching**height < n_points:
            branching += 1
        # Levels share the budget: eps in equal parts, or rho, whose noise grows with the root.
        noise = height ** (1 / norm)
        trees[height, branching] = noise * deviation_of_unit_noise(height, branching, 0.5)
        if branching == 2:
            break
    return min(trees, key=trees.get)


@lru_cache(maxsize=4096)
def deviation_of_unit_noise(height, branching, q):
    """Return how far off the rank of a q-quantile is if all counts of a tree have unit noise.

    It is the error of the counts up to a leaf, less q of that of all counts: the root of its mean
    square over all leaves, since nobody knows which of them has the quantile.
    """
    up_to = _errors_up_to_leaves(height, branching)
    squares = np.mean((up_to - q * up_to[:, -1:]) ** 2, axis=1)
    return float(np.sqrt(np.mean(squares)))


@lru_cache(maxsize=4)  # an entry may take a few megabytes
def _errors_up_to_leaves(height, branching):
    """Return simulated errors of the counts up to each leaf: (_SIMULATED, n_leaves)."""
    rng = np.random.default_rng(0)
    errors = np.empty((_SIMULATED, branching**height))
    for errors_of_tree in errors:
        noise = [rng.normal(size=branching**depth) for depth in range(1, height + 1)]
        np.cumsum(consistent(noise)[-1], out=errors_of_tree)
    return errors


def tree_counts(ranks, column, height, branching):
    """Return the exact weights of each level, from the `branching` parts below the root down."""
    edges = first_cells_of_leaves(ranks.grid, column, branching**height)
    leaves = np.diff(ranks.weights_below(column, edges))
    return [leaves.reshape(branching**depth, -1).sum(axis=1) for depth in range(1, height + 1)]


def leaf_edges(n_leaves, n_cells):
    """Return the first cell of each leaf, and `n_cells`, if all have equally many."""
    return np.arange(n_leaves + 1) * n_cells // n_leaves


def first_cells_of_leaves(grid, column, n_leaves):
    """Return the first cell of each leaf, and one past the last cell: (n_leaves + 1,).

    Leaves have equally many cells. On a lattice that is not short they are what they would be
    without it, as most of its cells are far from zero.
    """
    first = int(grid.first[column])
    n_cells = int(grid.end[column]) - first
    if not grid.is_lattice[column] or n_cells <= MOST_POINTS:
        return first + leaf_edges(n_leaves, n_cells)

    bounds = (
        -np.inf if grid.is_open_low[column] else float(grid.low[column]),
        np.inf if grid.is_open_high[column] else float(grid.high[column]),
    )
    floats = make_grid([bounds])
    begin = int(floats.first[0])
    of_floats = begin + leaf_edges(n_leaves, int(floats.end[0]) - begin)
    edges = grid.cells_of(floats.lower_edges(of_floats, 0), column)
    edges[0] = first
    edges[-1] = first + n_cells
    return edges


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


def walk_down(levels, probabilities, edges):
    """Return the cell of each quantile: leaf by leaf from the left, linear inside the leaf.

    `levels` are consistent counts, (branching,), (branching^2,), ... and `edges` the first cells of
    the leaves, and one more. The result has the shape of `probabilities`, (m,).

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
    starts = edges[node]
    widths = edges[node + 1] - starts
    inside = (np.clip(share, 0, 1) * widths).astype(np.int64)
    inside = np.minimum(inside, np.maximum(widths - 1, 0))
    return np.maximum.accumulate(starts + inside)
