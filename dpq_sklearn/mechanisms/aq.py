"""AQ: the tree of quantiles and the walk through it (Kaplan, Schnapp, Stemmer 2021).

The middle quantile is estimated first; it splits the grid, and the other quantiles are found
in the two halves in the same way. One record meets one node a level, not one a quantile, and the
nodes of a level are drawn together.
"""

from collections import defaultdict, namedtuple
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from dpq_sklearn.accounting.budgets import Budget, Cost, exponential_cost
from dpq_sklearn.accounting.composition import largest_scale
from dpq_sklearn.engine.exponential import Nodes, draw
from dpq_sklearn.mechanisms.base_measure import step_measure
from dpq_sklearn.mechanisms.protocol import Mechanism
from dpq_sklearn.mechanisms.rank_errors import draw_pattern, is_early_leaf, rank_variances


class QuantileNode(NamedTuple):
    """One estimate to come: quantile `index`, between `below` and `above`, which are known by then.

    Quantiles count from 1; 0 and m + 1 are the ends of a column. The quantile is the `q`-quantile
    of what is between these two. `neighbour` is the next quantile known already beyond one of them,
    or -1: where the other end is open, it tells the scale.
    """

    depth: int
    index: int
    below: int
    above: int
    neighbour: int
    q: float
    is_leaf: bool

    @property
    def sensitivity(self):
        return max(self.q, 1 - self.q)


@lru_cache(maxsize=256)  # features mostly have equal quantiles
def quantile_nodes(quantiles):
    """Return the nodes of the balanced tree over ascending distinct `quantiles`, level by level."""
    values, end = (0.0, *quantiles, 1.0), len(quantiles) + 1
    nodes, ranges = [], [(0, 0, end, -1)]
    for depth, below, above, neighbour in ranges:  # which grow meanwhile
        if above - below > 1:
            index = (below + above + 1) // 2
            q = (values[index] - values[below]) / (values[above] - values[below])
            is_leaf = above - below == 2
            nodes.append(QuantileNode(depth, index, below, above, neighbour, q, is_leaf))
            ranges.append((depth + 1, below, index, -1 if above == end else above))
            ranges.append((depth + 1, index, above, -1 if below == 0 else below))
    return tuple(nodes)


@lru_cache(maxsize=256)
def eps_of_nodes(quantiles, budget):
    """Return the eps of each of the `quantile_nodes`; public facts only.

    A node spends a part of what its path has left and hands the rest to *each* child, so that a
    shallow branch does not waste the share of a deep one. The part is the node's sensitivity
    beside the sum of sensitivities on an average path below: 1 / levels where all ask for medians.
    With a budget of draws the eps are those of `draw_pattern`.
    """
    nodes, budget = quantile_nodes(quantiles), budget.before_rounding(len(quantiles))
    if budget.unit == "draw":
        levels, of_early_leaves = draw_pattern(nodes)
        shares = (
            of_early_leaves if is_early_leaf(node, len(levels)) else levels[node.depth]
            for node in nodes
        )
        return tuple(budget.amount * share for share in shares)
    needs = defaultdict(float)  # of ranges: sensitivities on the way down, averaged over quantiles
    for node in reversed(nodes):
        of_left = (node.index - node.below - 1) * needs[node.below, node.index]
        of_right = (node.above - node.index - 1) * needs[node.index, node.above]
        n_below = max(node.above - node.below - 2, 1)
        needs[node.below, node.above] = node.sensitivity + (of_left + of_right) / n_below
    eps, left = [], {(0, len(quantiles) + 1): budget}
    for node in nodes:
        share = node.sensitivity / needs[node.below, node.above]
        eps.append(left[node.below, node.above].part(share).exponential_eps())
        if not node.is_leaf:
            rest = left[node.below, node.above].part(1 - share)
            left[node.below, node.index] = left[node.index, node.above] = rest
    return tuple(eps)


# Arrays of nodes of one level of the trees of all columns, which are drawn together: not more of
# them than stay in the cache with all that they look at.
Level = namedtuple("Level", ("column", "eps", *QuantileNode._fields))
NODES_AT_ONCE = 1024


@lru_cache(maxsize=32)
def levels_of_columns(mechanism, quantiles, budgets):
    """Return the levels of the trees of all columns, from the roots down, large ones in pieces."""
    rows = [
        (column, eps, *node)
        for column, of_column in enumerate(zip(quantiles, budgets, strict=True))
        for node, eps in zip(*mechanism.nodes_and_eps(*of_column), strict=True)
    ]
    nodes = Level(*map(np.array, zip(*rows, strict=True)))
    levels = (np.flatnonzero(nodes.depth == depth) for depth in range(nodes.depth.max() + 1))
    pieces = (np.array_split(level, -(-level.size // NODES_AT_ONCE)) for level in levels)
    return [Level(*(field[piece] for field in nodes)) for piece in chain.from_iterable(pieces)]


class ApproximateQuantiles(Mechanism):
    """The AQ mechanism."""

    def nodes_and_eps(self, quantiles, budget):
        """Return the nodes of a column, level by level, and the eps of each."""
        quantiles = tuple(map(float, quantiles))
        return quantile_nodes(quantiles), eps_of_nodes(quantiles, budget)

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
        as_tuples = tuple(tuple(map(float, q)) for q in quantiles), tuple(budgets)
        for level in levels_of_columns(self, *as_tuples):
            column, below, above = level.column, level.below, level.above
            lo, hi = positions[column, below], positions[column, above]
            is_released = np.array((below > 0, above <= n_quantiles[column]))
            is_open = ~is_released & (grid.is_open_low[column], grid.is_open_high[column])
            closed_end = np.where(is_open[0], above, below)
            neighbour = np.where(level.neighbour >= 0, level.neighbour, closed_end)
            cells = np.array((lo, hi, positions[column, neighbour])) // per_cell
            measure = step_measure(grid, column, *cells, is_open, is_released)
            ends = lo, hi, split_ranks[column, below], split_ranks[column, above]
            places_per_cell = np.where(level.is_leaf, 1, per_cell)
            nodes = Nodes(column, *ends, level.q, level.eps, places_per_cell, measure)
            drawn = draw(ranks, nodes, randomness)
            positions[column, level.index], split_ranks[column, level.index] = drawn
        cells = positions // per_cell
        return [row[1 : n + 1] for row, n in zip(cells, n_quantiles, strict=True)]

    def cost(self, quantiles, budget):
        """Return what `release` costs: that of the most expensive path."""
        paths = {(0, len(quantiles) + 1): []}
        for node, eps in zip(*self.nodes_and_eps(quantiles, budget), strict=True):
            path = [*paths[node.below, node.above], eps]
            paths[node.below, node.index] = paths[node.index, node.above] = path
        dearest = (max(paths.values(), key=lambda path: sum(e**k for e in path)) for k in (1, 2))
        costs = [exponential_cost(path, len(quantiles)) for path in dearest]
        return Cost(costs[0].eps, costs[1].rho)

    def composed_budgets(self, quantiles, shares, eps, delta, count_eps=0.0):
        """Return the budgets of columns that together are (eps, delta)-DP, by optimal composition.

        The nodes of a level with one eps are one bounded-range draw for a record, as its weights
        in them sum to at most 1. The levels of all columns are an adaptive sequence of draws.
        """
        weights = np.sqrt(np.asarray(shares) / max(shares)).tolist()  # as zCDP would share
        patterns = {
            of_column: draw_pattern(quantile_nodes(of_column)) for of_column in set(quantiles)
        }
        pattern, instead = [], []
        # No column looks at another, so any order that keeps its levels in order is right.
        for weight, of_column in sorted(zip(weights, quantiles, strict=True), reverse=True):
            levels, early_leaf = patterns[of_column]
            pattern += [weight * level for level in levels]
            instead += [0.0] * len(levels)
            if early_leaf:
                instead[-2] = weight * early_leaf
        scale = largest_scale(tuple(pattern), eps, delta, tuple(instead), first=2 * count_eps)
        return tuple(Budget(scale * weight, "draw") for weight in weights)

    def rank_errors(self, quantiles, budget):
        nodes, eps = self.nodes_and_eps(quantiles, budget)
        return np.sqrt(rank_variances(nodes, [1 / of_node**2 for of_node in eps]))
