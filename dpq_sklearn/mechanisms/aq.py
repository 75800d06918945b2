"""AQ: the tree of quantiles and the walk through it (Kaplan, Schnapp, Stemmer 2021).

The middle quantile is estimated first; it splits the grid, and the other quantiles are found
in the two halves in the same way. One record meets one node per level, not one per quantile, and
the nodes of a level are drawn together.
"""

from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from dpq_sklearn.accounting.budgets import DRAW_ERROR, Budget, Cost, Unit, exponential_cost
from dpq_sklearn.accounting.composition import largest_scale
from dpq_sklearn.accounting.events import exponential_draw
from dpq_sklearn.engine import exponential
from dpq_sklearn.engine.exponential import Nodes
from dpq_sklearn.mechanisms.base_measure import step_measure
from dpq_sklearn.mechanisms.level_shares import level_pattern, rank_variances
from dpq_sklearn.mechanisms.prior import guesses_of_nodes
from dpq_sklearn.mechanisms.protocol import Mechanism


class QuantileNode(NamedTuple):
    """One estimate to come: a quantile between two that are known by then.

    Quantiles count from 1; 0 and m + 1 are the ends of a column.
    """

    depth: int
    index: int
    below: int
    above: int
    beyond: int  # the next one known beyond these, or -1: it tells the scale of an open end
    probability: float  # which quantile of the column is wanted
    q: float  # which quantile of what is between `below` and `above`
    is_leaf: bool
    is_early: bool = False  # a leaf in the last level but one

    @property
    def sensitivity(self):
        return max(self.q, 1 - self.q)


@lru_cache(maxsize=256)  # features mostly have equal quantiles
def quantile_nodes(probabilities):
    """Return the nodes of the balanced tree over ascending `probabilities`, level by level."""
    known = (0.0, *probabilities, 1.0)
    end = len(probabilities) + 1
    last_level_but_one = len(probabilities).bit_length() - 2

    nodes = []
    ranges = [(0, 0, end, -1)]
    for depth, below, above, beyond in ranges:  # which grow meanwhile
        if above - below == 1:
            continue
        index = (below + above + 1) // 2
        is_leaf = above - below == 2
        node = QuantileNode(
            depth=depth,
            index=index,
            below=below,
            above=above,
            beyond=beyond,
            probability=known[index],
            q=(known[index] - known[below]) / (known[above] - known[below]),
            is_leaf=is_leaf,
            is_early=is_leaf and depth == last_level_but_one,
        )
        nodes.append(node)
        ranges.append((depth + 1, below, index, -1 if above == end else above))
        ranges.append((depth + 1, index, above, -1 if below == 0 else below))
    return tuple(nodes)


NODES_AT_ONCE = 1024  # with all that they look at they stay in the cache


@dataclass(frozen=True, kw_only=True)
class Level:
    """Nodes of one level of the trees of all columns, which are drawn together; arrays (n_nodes,).

    But for the first two, the fields are those of `QuantileNode`.
    """

    column: np.ndarray
    eps: np.ndarray
    depth: np.ndarray
    index: np.ndarray
    below: np.ndarray
    above: np.ndarray
    beyond: np.ndarray
    probability: np.ndarray
    q: np.ndarray
    is_leaf: np.ndarray
    is_early: np.ndarray

    def __getitem__(self, rows):
        """Return some of the nodes."""
        return Level(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@lru_cache(maxsize=32)
def levels_of_columns(mechanism, probabilities, budgets):
    """Return the levels of the trees of all columns, from the roots down, large ones in pieces."""
    rows = [
        (column, eps, *node)
        for column, request in enumerate(zip(probabilities, budgets, strict=True))
        for node, eps in zip(*mechanism.nodes_and_eps(*request), strict=True)
    ]
    names = ("column", "eps", *QuantileNode._fields)
    nodes = Level(**dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True)))

    levels = (np.flatnonzero(nodes.depth == depth) for depth in range(nodes.depth.max() + 1))
    pieces = (np.array_split(level, -(-level.size // NODES_AT_ONCE)) for level in levels)
    return [nodes[piece] for piece in chain.from_iterable(pieces)]


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """The ends of columns, and all quantiles between them as soon as they are drawn.

    Index 0 is the lower end of a column with m quantiles, 1 .. m are these, m + 1 is its upper end.
    """

    n_quantiles: np.ndarray  # (n_columns,)
    positions: np.ndarray  # (n_columns, most quantiles + 2)
    split_ranks: np.ndarray  # as many: the ranks of these positions, in ticks

    @classmethod
    def before_the_first_draw(cls, ranks, n_quantiles):
        """Return the ends alone."""
        grid = ranks.grid
        per_cell = grid.positions_per_cell
        every = np.arange(n_quantiles.size)

        positions = np.zeros((every.size, n_quantiles.max() + 2), dtype=np.int64)
        positions[:, 0] = per_cell * grid.first
        positions[every, n_quantiles + 1] = per_cell * grid.end - 1

        split_ranks = np.zeros_like(positions)
        split_ranks[every, n_quantiles + 1] = per_cell * ranks.total_weights
        return cls(n_quantiles=n_quantiles, positions=positions, split_ranks=split_ranks)


def nodes_of_level(grid, level, estimates, rows, priors=None):
    """Return the nodes of a level, whose ends are known when its turn comes.

    ``rows[i]`` is the row of `estimates` that belongs to node i of the level: its column in a
    release. (The enumeration of the tests has a row for each history of draws.) `priors` has a
    `Prior` or None for each column.

    What privacy rests on: of the data, a node depends on the positions drawn before and on their
    ranks, and its base measure on the cells of these positions alone. Priors are public.
    """
    column = level.column
    per_cell = grid.positions_per_cell
    lo = estimates.positions[rows, level.below]
    hi = estimates.positions[rows, level.above]

    is_released = np.array((level.below > 0, level.above <= estimates.n_quantiles[rows]))
    is_open = ~is_released & (grid.is_open_low[column], grid.is_open_high[column])
    # Rings lie around the released end, or around a bound if the other end is open.
    is_above = is_open[0] | (is_released[1] & ~is_released[0])
    beyond = np.where(is_above, level.above, level.below)
    beyond = np.where(level.beyond >= 0, level.beyond, beyond)
    cells = np.array((lo, hi, estimates.positions[rows, beyond])) // per_cell

    guesses = guesses_of_nodes(priors, column, level.probability)
    return Nodes(
        column=column,
        lo=lo,
        hi=hi,
        lo_rank=estimates.split_ranks[rows, level.below],
        hi_rank=estimates.split_ranks[rows, level.above],
        q=level.q,
        eps=level.eps,
        places_per_cell=np.where(level.is_leaf, 1, per_cell),
        measure=step_measure(grid, column, *cells, is_open, is_released, guesses),
    )


@lru_cache(maxsize=32)
def where_draws_look(mechanism, probabilities, budgets):
    """Return the columns and probabilities of all draws, and how many records around they look at.

    Three arrays (n_draws,), from public facts: what `Ranks.near` wants to know.
    """
    levels = levels_of_columns(mechanism, probabilities, budgets)
    columns = np.concatenate([level.column for level in levels])
    indices = np.concatenate([level.index for level in levels])
    reach = np.concatenate([exponential.reach_of_draws(level.q, level.eps) for level in levels])

    n_quantiles = [len(of_column) for of_column in probabilities]
    first_of_column = np.cumsum([0, *n_quantiles[:-1]])
    in_a_row = np.concatenate([np.array(of_column) for of_column in probabilities])
    return columns, in_a_row[first_of_column[columns] + indices - 1], reach


class ApproximateQuantiles(Mechanism):
    """The AQ mechanism."""

    def nodes(self, probabilities):
        """Return the nodes of a column, level by level."""
        return quantile_nodes(tuple(map(float, probabilities)))

    def pattern(self, probabilities, norm):
        """Return the eps of the levels that a record meets, as `level_pattern` does."""
        return level_pattern(self.nodes(probabilities), norm)

    def eps_of_levels(self, probabilities, budget):
        """Return the eps of the levels that a record meets, and that of early leaves, or 0.

        A record meets the last two levels or an early leaf, which gets what both levels spend.
        """
        levels, early = self.pattern(probabilities, budget.norm)
        early = min(early, np.linalg.norm(levels[-2:], budget.norm))  # whatever the pattern is

        ideal = budget.before_rounding(len(probabilities))
        least = ideal.amount
        if budget.unit is not Unit.DRAW:
            least = ideal.exponential_eps() / np.linalg.norm(levels, budget.norm)
        return (least * levels).tolist(), float(least * early)

    def nodes_and_eps(self, probabilities, budget):
        """Return the nodes of a column, level by level, and the eps of each."""
        nodes = self.nodes(probabilities)
        levels, early = self.eps_of_levels(probabilities, budget)
        return nodes, [early if node.is_early else levels[node.depth] for node in nodes]

    def draw(self, ranks, probabilities, budgets, randomness, priors=None):
        """Return one cell for each of the ascending distinct quantiles of each column, ascending.

        Privacy
        -------
        Neighbours differ in one record. With w its weight in a node (`exponential.draw`), the
        node's draw costs it w * eps, and its children have weights that sum to w. So its weights in
        a level sum to at most 1, and if u of it meets early leaves, then 1 - u the last two levels.
        The cost is at most u times that of a path to an early leaf, plus 1 - u times that through
        all levels. So it is in zCDP, where a draw costs ``w^2 rho <= w rho``. Base measures depend
        on cells that earlier draws released, which adaptive composition allows, and on public
        priors.
        """
        request = tuple(tuple(map(float, of_column)) for of_column in probabilities), tuple(budgets)
        ranks = ranks.near(*where_draws_look(self, *request))

        n_quantiles = np.array([len(of_column) for of_column in probabilities])
        estimates = Estimates.before_the_first_draw(ranks, n_quantiles)
        for level in levels_of_columns(self, *request):
            nodes = nodes_of_level(ranks.grid, level, estimates, level.column, priors)
            positions, split_ranks = exponential.draw(ranks, nodes, randomness)
            estimates.positions[level.column, level.index] = positions
            estimates.split_ranks[level.column, level.index] = split_ranks

        cells = estimates.positions // ranks.grid.positions_per_cell
        return [row[1 : n + 1] for row, n in zip(cells, n_quantiles, strict=True)]

    def cost(self, probabilities, budget):
        """Return what `draw` costs: that of the more expensive path, by all levels or not."""
        paths = self._eps_of_paths(probabilities, budget)
        costs = [exponential_cost(path, len(probabilities)) for path in paths]
        return Cost(*map(max, zip(*costs, strict=True)))

    def events(self, probabilities, budget):
        """Return the draws of the path that costs more in zCDP."""
        paths = self._eps_of_paths(probabilities, budget)
        return [exponential_draw(eps) for eps in max(paths, key=np.linalg.norm)]

    def _eps_of_paths(self, probabilities, budget):
        """Return the eps of the draws on each way down: by all levels, or to an early leaf."""
        levels, early = self.eps_of_levels(probabilities, budget)
        return [levels, [*levels[:-2], early]] if early else [levels]

    def composed_budgets(self, probabilities, shares, eps, delta, count_eps=0.0):
        """Return the budgets of columns that together are (eps, delta)-DP, by optimal composition.

        The nodes of a level are one bounded-range draw for a record, as its weights in them sum to
        at most 1. So the levels of all columns are a sequence of draws, some of which are forks.
        None if the errors of rounding could take more than half of eps.
        """
        weights = np.sqrt(np.asarray(shares) / max(shares)).tolist()  # as zCDP would share

        pattern = []
        early_leaves = []  # 0 where there are none
        # No column looks at another, so any order that keeps its levels in order is right.
        for weight, of_column in sorted(zip(weights, probabilities, strict=True), reverse=True):
            levels, early = self.pattern(of_column, norm=2)
            pattern += (weight * levels).tolist()
            early_leaves += [0.0] * len(levels)
            if early:
                early_leaves[-2] = weight * early

        # A reserve for the rounding errors of all draws.
        error = 4 * sum(map(len, probabilities)) * DRAW_ERROR
        if error > eps / 2:
            return None

        eps = eps - error
        delta = delta * (1 - error)
        scale = largest_scale(tuple(pattern), eps, delta, tuple(early_leaves), 2 * count_eps)
        return tuple(Budget(scale * weight, Unit.DRAW) for weight in weights)

    def rank_deviations(self, probabilities, budget):
        nodes, eps_of_nodes = self.nodes_and_eps(probabilities, budget)
        return np.sqrt(rank_variances(nodes, [1 / eps**2 for eps in eps_of_nodes]))
