"""AQ: the tree of quantiles and the walk through it (after Kaplan, Schnapp, Stemmer 2021).

The middle quantile is estimated first; it splits the grid, and the other quantiles are found
in the two halves in the same way. One record meets one node per level, not one per quantile, and
the nodes of a level are drawn together. A node may also draw two quantiles at once and split in
three: so there are fewer levels, among which the budget is shared. The tree is chosen by the errors
that it promises, which are public, and by the time that it takes.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dpq_sklearn.accounting.budgets import DRAW_ERROR, Budget, Cost, Unit, exponential_cost
from dpq_sklearn.accounting.events import exponential_draw
from dpq_sklearn.accounting.optimal_composition import largest_scale
from dpq_sklearn.engine import exponential, pairs
from dpq_sklearn.engine.exponential import Nodes
from dpq_sklearn.mechanisms.base_measure import have_few_pieces, ring_measure, step_measure
from dpq_sklearn.mechanisms.level_shares import expected_deviation, level_pattern, rank_variances
from dpq_sklearn.mechanisms.prior import guesses_of_nodes
from dpq_sklearn.mechanisms.protocol import Mechanism

# Trees with more levels of pairs promise less for several hundred quantiles only.
MOST_PAIR_LEVELS = 4
# With more quantiles the search would take longer than the draws.
MOST_SEARCHED = 512
# A tree with pairs can take a fifth longer to draw: it must promise so much less error.
LEAST_GAIN_OF_PAIRS = 0.1


class QuantileNode(NamedTuple):
    """One draw to come: one or two quantiles between two that are known by then.

    Quantiles count from 1; 0 and m + 1 are the ends of a column.
    """

    depth: int
    indices: tuple[int, ...]  # one, or two of a pair node
    below: int
    above: int
    beyond: int  # the next one known beyond these, or -1: it tells the scale of an open end
    probabilities: tuple[float, ...]  # which quantiles of the column are wanted
    q: tuple[float, ...]  # which ones of what is between `below` and `above`
    is_leaf: bool
    is_early: bool = False  # a leaf in the last level but one


@lru_cache(maxsize=1024)  # features mostly have equal quantiles
def quantile_nodes(probabilities, n_pair_levels=0, drawn_first=None):
    """Return the nodes of a balanced tree over ascending `probabilities`, level by level.

    Nodes of the last `n_pair_levels` levels draw two quantiles, if so many are left for them; what
    a draw leaves is divided evenly. So the numbers that are left for the nodes of a level differ by
    at most 1, and all leaves are in the last two levels. The right half of a tree is the mirror
    image of the left one.

    In nodes that reach to an end of the column, where no two quantiles tell a scale, the function
    ``drawn_first(indices, below, above, known)`` may return others than the balanced tree has:
    `known` has the probabilities of all `indices`, from 0 to m + 1.
    """
    known = (0.0, *probabilities, 1.0)
    end = len(probabilities) + 1
    n_single_levels = 0
    while (end - 1) >> n_single_levels > 3**n_pair_levels - 1:
        n_single_levels += 1

    nodes = []
    ranges = [(0, 0, end, -1)]
    for depth, below, above, beyond in ranges:  # which grow meanwhile
        n_left = above - below - 1
        if n_left == 0:
            continue
        n_together = 2 if depth >= n_single_levels else 1
        indices = _drawn_together(below, n_left, n_together)
        if below + above > end:
            indices = tuple(below + above - index for index in reversed(indices))
        has_scale = beyond != -1 or (below > 0 and above < end)
        if drawn_first is not None and not has_scale:
            indices = drawn_first(indices, below, above, known)

        width = known[above] - known[below]
        nodes.append(
            QuantileNode(
                depth=depth,
                indices=indices,
                below=below,
                above=above,
                beyond=beyond,
                probabilities=tuple(known[index] for index in indices),
                q=tuple((known[index] - known[below]) / width for index in indices),
                is_leaf=n_left == len(indices),
            )
        )

        known_now = (below, *indices, above)
        for low, high in pairwise(known_now):
            beyond = known_now[2] if low == below else known_now[-3]
            ranges.append((depth + 1, low, high, -1 if beyond in (0, end) else beyond))

    last_level_but_one = nodes[-1].depth - 1
    return tuple(
        node._replace(is_early=node.is_leaf and node.depth == last_level_but_one) for node in nodes
    )


def _drawn_together(below, n_left, most):
    """Return which of `n_left` quantiles above `below` are drawn first: at most one or two.

    They divide the others evenly. The outer parts get what is over: the lowest, then the highest.
    """
    if most == 1 or n_left == 1:
        return (below + n_left // 2 + 1,)
    each, over = divmod(n_left - 2, 3)
    first = below + 1 + each + (over > 0)
    return first, first + 1 + each


@lru_cache(maxsize=256)
def best_tree(probabilities, norm, drawn_first=None, least_gain=LEAST_GAIN_OF_PAIRS):
    """Return the nodes of the tree that promises little error for budgets of this norm.

    The tree has pairs if they lower the error by the share `least_gain`. `drawn_first` is that of
    `quantile_nodes`.
    """
    singles = quantile_nodes(probabilities, drawn_first=drawn_first)
    if len(probabilities) > MOST_SEARCHED:
        return singles

    def promised(nodes):
        return expected_deviation(nodes, norm)

    trees = [
        quantile_nodes(probabilities, n_pair_levels, drawn_first)
        for n_pair_levels in range(1, MOST_PAIR_LEVELS + 1)
    ]
    with_pairs = min(trees, key=promised)
    if promised(with_pairs) < (1 - least_gain) * promised(singles):
        return with_pairs
    return singles


NODES_AT_ONCE = 1024  # with all that they look at they stay in the cache
PAIRS_AT_ONCE = 128
# Fewer nodes take less time if they are drawn with all others.
FEWEST_ALIKE = 256


@dataclass(frozen=True, kw_only=True)
class Level:
    """Draws of one level of the trees of all columns, which are made together.

    All are single ones, or all are pairs. Arrays have an entry for each quantile, of pairs for all
    lower ones and then for all upper ones. The fields are those of `QuantileNode`.
    """

    is_of_pairs: bool
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

    def draw(self, ranks, nodes, randomness):
        """Draw a position in each of its nodes, and return the positions and their ranks."""
        module = pairs if self.is_of_pairs else exponential
        return module.draw(ranks, nodes, randomness)

    def are_ends_released(self, n_quantiles):
        """Return whether the lower and the upper end of each node is a quantile: (2, n).

        `n_quantiles` is that of each node's column.
        """
        return np.array((self.below > 0, self.above <= n_quantiles))

    def __getitem__(self, rows):
        """Return some of the quantiles."""
        arrays = {
            name: of_all[rows] for name, of_all in vars(self).items() if name != "is_of_pairs"
        }
        return replace(self, **arrays)

    @classmethod
    def of(cls, draws):
        """Return (column, eps, node) of draws, all single ones or all pairs, as one level."""
        n_together = len(draws[0][2].indices)
        columns, eps, nodes = zip(*draws * n_together, strict=True)
        of_quantiles = [(node, part) for part in range(n_together) for _, _, node in draws]
        return cls(
            is_of_pairs=n_together == 2,
            column=np.array(columns),
            eps=np.array(eps),
            index=np.array([node.indices[part] for node, part in of_quantiles]),
            probability=np.array([node.probabilities[part] for node, part in of_quantiles]),
            q=np.array([node.q[part] for node, part in of_quantiles]),
            **{
                name: np.array([getattr(node, name) for node in nodes])
                for name in ("depth", "below", "above", "beyond", "is_leaf", "is_early")
            },
        )


@lru_cache(maxsize=32)
def levels_of_columns(mechanism, probabilities, budgets):
    """Return the levels of the trees of all columns, from the roots down, large ones in pieces."""
    levels = {}
    for column, request in enumerate(zip(probabilities, budgets, strict=True)):
        for node, eps in zip(*mechanism.nodes_and_eps(*request), strict=True):
            draws = levels.setdefault((node.depth, len(node.indices)), [])
            draws.append((column, eps, node))

    pieces = []
    for (_, n_together), draws in sorted(levels.items()):
        at_once = NODES_AT_ONCE if n_together == 1 else PAIRS_AT_ONCE
        pieces += [Level.of(draws[at : at + at_once]) for at in range(0, len(draws), at_once)]
    return pieces


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


def parts_alike(grid, level, estimates):
    """Return a level, or two parts of it: nodes whose base measures have few segments, and others.

    All nodes that are drawn together take the time of those with the most segments. The parts
    depend on what is released alone.
    """
    if level.is_of_pairs or level.column.size < FEWEST_ALIKE:
        return [level]

    column = level.column
    lo = estimates.positions[column, level.below] // grid.positions_per_cell
    hi = estimates.positions[column, level.above] // grid.positions_per_cell
    is_released = level.are_ends_released(estimates.n_quantiles[column])
    has_few = have_few_pieces(grid, column, lo, hi, is_released)
    if np.count_nonzero(has_few) < FEWEST_ALIKE or has_few.all():
        return [level]
    return [level[has_few], level[~has_few]]


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

    is_released = level.are_ends_released(estimates.n_quantiles[rows])
    is_open = ~is_released & (grid.is_open_low[column], grid.is_open_high[column])
    # Rings lie around the released end, or around a bound if the other end is open.
    is_above = is_open[0] | (is_released[1] & ~is_released[0])
    beyond = np.where(is_above, level.above, level.below)
    beyond = np.where(level.beyond >= 0, level.beyond, beyond)
    cells = np.array((lo, hi, estimates.positions[rows, beyond])) // per_cell

    guesses = guesses_of_nodes(priors, column, level.probability)
    if guesses is not None:
        measure = step_measure(grid, column, *cells, is_open, is_released, guesses)
        if level.is_of_pairs:
            measure = ring_measure(measure, grid, column, *cells, is_open, is_released, guesses)
    elif grid.are_columns_alike and not level.depth.any():
        measure = measure_of_a_root(grid)[np.zeros_like(column)]
    else:
        # Both quantiles of a pair have the same base measure.
        n_nodes = column.size // 2 if level.is_of_pairs else column.size
        first = np.s_[..., :n_nodes]
        ends = column[first], *cells[first], is_open[first], is_released[first]
        measure = step_measure(grid, *ends)
        if level.is_of_pairs:
            measure = ring_measure(measure, grid, *ends)[np.tile(np.arange(n_nodes), 2)]

    return Nodes(
        column=column,
        lo=lo,
        hi=hi,
        lo_rank=estimates.split_ranks[rows, level.below],
        hi_rank=estimates.split_ranks[rows, level.above],
        q=level.q,
        eps=level.eps,
        places_per_cell=np.where(level.is_leaf, 1, per_cell),
        measure=measure,
    )


@lru_cache(maxsize=32)
def measure_of_a_root(grid):
    """Return the base measure of the first draw, without prior, of columns with one grid."""
    is_open = np.array((grid.is_open_low[:1], grid.is_open_high[:1]))
    first = grid.first[:1]
    last = grid.end[:1] - 1
    scale_from = np.where(is_open[0], last, first)
    is_released = np.zeros_like(is_open)
    return step_measure(grid, np.zeros_like(first), first, last, scale_from, is_open, is_released)


class ApproximateQuantiles(Mechanism):
    """The AQ mechanism."""

    def nodes(self, probabilities, norm):
        """Return the nodes of a column, level by level: of the tree that promises least error."""
        return best_tree(tuple(map(float, probabilities)), norm)

    def pattern(self, probabilities, norm):
        """Return the eps of the levels that a record meets, as `level_pattern` does."""
        return level_pattern(self.nodes(probabilities, norm), norm)

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
        nodes = self.nodes(probabilities, budget.norm)
        levels, early = self.eps_of_levels(probabilities, budget)
        return nodes, [early if node.is_early else levels[node.depth] for node in nodes]

    def draw(self, ranks, probabilities, budgets, randomness, priors=None):
        """Return one cell for each of the ascending distinct quantiles of each column, ascending.

        Privacy
        -------
        Neighbours differ in one record. With w its weight in a node, the node's draw costs it
        w * eps (`exponential.draw`, `pairs.draw`), and its children have weights that sum to w. So
        its weights in a level sum to at most 1, and if u of it meets early leaves, then 1 - u the
        last two levels. The cost is at most u times that of a path to an early leaf, plus 1 - u
        times that through all levels. So it is in zCDP, where a draw costs ``w^2 rho <= w rho``.
        Base measures depend on cells that earlier draws released, which adaptive composition
        allows, and on public priors.
        """
        request = tuple(tuple(map(float, of_column)) for of_column in probabilities), tuple(budgets)

        n_quantiles = np.array([len(of_column) for of_column in probabilities])
        estimates = Estimates.before_the_first_draw(ranks, n_quantiles)
        for level in levels_of_columns(self, *request):
            for part in parts_alike(ranks.grid, level, estimates):
                nodes = nodes_of_level(ranks.grid, part, estimates, part.column, priors)
                positions, split_ranks = part.draw(ranks, nodes, randomness)
                estimates.positions[part.column, part.index] = positions
                estimates.split_ranks[part.column, part.index] = split_ranks

        cells = estimates.positions // ranks.grid.positions_per_cell
        return [row[1 : n + 1] for row, n in zip(cells, n_quantiles, strict=True)]

    def cost(self, probabilities, budget):
        """Return what `draw` costs: that of the more expensive path, by all levels or not."""
        paths = self._eps_of_paths(probabilities, budget)
        n_draws = len(probabilities) * budget.n_segments
        costs = [exponential_cost(path, n_draws) for path in paths]
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
