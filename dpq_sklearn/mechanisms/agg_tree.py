"""AggTree: quantiles from a tree of noisy counts over the whole grid.

The grid is divided into `branching` equal ranges, each of these is divided again, and so on for
`height` levels. The count of every range gets noise. The noisy counts contradict each other until
they are made consistent, which also reduces the noise. A walk down from the root then finds each
quantile.

If bounds leave few points of a lattice, it is a *short lattice*, and the points are the leaves.
Then the error of the quantiles does not depend on the data.
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

# The largest number of points of a short lattice.
MOST_POINTS = 2**12
_MOST_LEVELS = 6
# The error of consistent counts is simulated with a fixed seed and this number of trials.
_SIMULATED = 64


@dataclass(frozen=True)
class AggregateTree(Mechanism):
    """The AggTree mechanism; `n_points` is the size of its short lattice, or None."""

    takes_priors = False

    height: int = 4
    branching: int = 16
    n_points: int | None = None

    def for_points(self, n_points):
        """Return the tree for a lattice of `n_points` points, or this tree if it is not short."""
        return self if n_points is None or n_points > MOST_POINTS else _ShortTree(n_points=n_points)

    def draw(self, ranks, probabilities, budgets, randomness, priors=None):
        """Return the cells of the quantiles of the noisy counts.

        Privacy
        -------
        Neighbours differ in one record. Each level counts the record once: its weights in the
        counts of a level sum to at most one record. All levels have equal shares of the budget
        (`CountNoise`). The later steps use the noisy counts only.
        """
        cells = []
        for column, (wanted, budget) in enumerate(zip(probabilities, budgets, strict=True)):
            tree = self.for_budget(budget)
            counts = tree_counts(ranks, column, tree.height, tree.branching)
            noisy = [level + tree._noise(budget, level.size).draw(randomness) for level in counts]
            edges = first_cells_of_leaves(ranks.grid, column, noisy[-1].size)
            cells.append(walk_down(consistent(noisy), wanted, edges))
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
        """Return the standard deviation of the noise in the count of a leaf."""
        try:
            return self._noise(budget, self.branching**self.height).deviation()
        except BudgetTooSmall:
            return math.inf


@dataclass(frozen=True)
class _ShortTree(AggregateTree):
    """AggTree over the points of a short lattice, with the best height for the budget."""

    def for_budget(self, budget):
        """Return the tree with the least error in rank."""
        height, branching = _best_tree(self.n_points, budget.norm)
        return replace(self, height=height, branching=branching)

    def rank_deviations(self, probabilities, budget):
        tree = self.for_budget(budget)
        deviation = tree._noise(budget, tree.branching**tree.height).deviation()
        relative = [deviation_of_unit_noise(tree.height, tree.branching, q) for q in probabilities]
        return deviation * np.array(relative)

    typical_error = Mechanism.typical_error


@lru_cache(maxsize=1024)
def _best_tree(n_points, norm):
    """Return the height and the branching with the least error of the median; public."""
    trees = {}
    for height in range(1, _MOST_LEVELS + 1):
        branching = 2
        while branching**height < n_points:
            branching += 1
        # Levels share the budget equally: the noise grows with the height for eps, and with the
        # square root of the height for rho.
        noise = height ** (1 / norm)
        trees[height, branching] = noise * deviation_of_unit_noise(height, branching, 0.5)
        if branching == 2:
            break
    return min(trees, key=trees.get)


@lru_cache(maxsize=4096)
def deviation_of_unit_noise(height, branching, q):
    """Return the deviation of the rank of a q-quantile if all counts of a tree have unit noise.

    The error at a leaf is the error of the counts up to the leaf minus q times the error of the
    total. The result is the root of its mean square over all leaves, because the leaf of the
    quantile is unknown.
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
    """Return the exact weights of each level, from the `branching` children of the root down."""
    edges = first_cells_of_leaves(ranks.grid, column, branching**height)
    leaves = np.diff(ranks.weights_below(column, edges))
    return [leaves.reshape(branching**depth, -1).sum(axis=1) for depth in range(1, height + 1)]


def leaf_edges(n_leaves, n_cells):
    """Return the first cell of each leaf of equal size, and `n_cells`; (n_leaves + 1,)."""
    return np.arange(n_leaves + 1) * n_cells // n_leaves


def first_cells_of_leaves(grid, column, n_leaves):
    """Return the first cell of each leaf, and one past the last cell; (n_leaves + 1,).

    Leaves have equally many cells. A lattice that is not short has the leaves that its column would
    have without a lattice, because most cells of the lattice are far from zero.
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
    cells_of_floats = begin + leaf_edges(n_leaves, int(floats.end[0]) - begin)
    edges = grid.cells_of(floats.lower_edges(cells_of_floats, 0), column)
    edges[0] = first
    edges[-1] = first + n_cells
    return edges


def consistent(noisy):
    """Return the least-squares estimate of the counts in which children sum to their parents.

    Up the tree, each count is averaged with the sum of its children, weighted by their variances.
    Down the tree, the difference between a count and the sum of its children is divided equally
    among the children (Honaker 2015; Hay, Rastogi, Miklau, Suciu 2010, Theorem 3). The root has no
    noisy count.
    """
    estimates = [level.astype(np.float64) for level in noisy]
    branching = noisy[0].size

    for level in range(len(estimates) - 2, -1, -1):
        leaves = branching ** (len(estimates) - level)
        own_share = (leaves - leaves // branching) / (leaves - 1)
        from_children = estimates[level + 1].reshape(-1, branching).sum(axis=1)
        estimates[level] = own_share * estimates[level] + (1 - own_share) * from_children

    for parents, children in pairwise(estimates):
        children = children.reshape(-1, branching)  # a view, so the next line changes estimates
        children += (parents - children.sum(axis=1))[:, None] / branching
    return estimates


def walk_down(levels, probabilities, edges):
    """Return the cell of each quantile, interpolated linearly inside its leaf.

    `levels` are consistent counts of the shapes (branching,), (branching^2,), ... `edges` are the
    first cells of the leaves, and one past the last cell. The result has the shape of
    `probabilities`, (m,).

    At each level the walk goes to the first child at which the cumulative count reaches the
    remaining rank. The result is monotone in the probability even if counts are negative.
    """
    branching = levels[0].size
    each = np.arange(len(probabilities))
    wanted = np.asarray(probabilities, dtype=np.float64) * max(levels[0].sum(), 0.0)
    node = np.zeros_like(each)

    for level in levels:
        counts = level.reshape(-1, branching)[node]
        reached = np.cumsum(counts, axis=1)
        wanted = np.minimum(wanted, reached.max(axis=1))  # equal except for rounding
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
