"""AQ: the tree of quantiles and the walk through it (after Kaplan, Schnapp, Stemmer 2021).

The middle quantile is drawn first. It splits the column in two, and the other quantiles are drawn
in the two halves in the same way. A record meets one node per level instead of one node per
quantile. The nodes of a level are drawn together. A node may also draw a pair of quantiles and
split its range in three. Then there are fewer levels to share the budget. The tree is chosen by its
expected error, which is public, and by its running time.
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

# More levels of pairs lower the error for several hundred quantiles only.
MOST_PAIR_LEVELS = 4
# With more quantiles the search for a tree would take longer than the draws.
MOST_SEARCHED = 512
# A tree with pairs can take 20% longer to draw, so its expected error must be 10% smaller.
LEAST_GAIN_OF_PAIRS = 0.1


class QuantileNode(NamedTuple):
    """A planned draw of one or two quantiles between two quantiles that are drawn before.

    The quantiles of a column have the indices 1 to m. The indices 0 and m + 1 are its ends.
    """

    depth: int
    indices: tuple[int, ...]  # one index, or two in a pair node
    below: int
    above: int
    beyond: int  # the next quantile known beyond `below` or `above`, or -1: it indicates a scale
    probabilities: tuple[float, ...]  # of the quantiles in the whole column
    q: tuple[float, ...]  # of the quantiles in the range from `below` to `above`
    is_leaf: bool
    is_early: bool = False  # a leaf in the second to last level


@lru_cache(maxsize=1024)  # features mostly have equal quantiles
def quantile_nodes(probabilities, n_pair_levels=0, drawn_first=None):
    """Return the nodes of a balanced tree over ascending `probabilities`, level by level.

    Nodes of the last `n_pair_levels` levels draw two quantiles if at least two are left in their
    ranges. A draw divides the remaining quantiles evenly, so their numbers in the nodes of a level
    differ by at most 1, and all leaves are in the last two levels. The right half of a tree is the
    mirror image of the left half.

    ``drawn_first(indices, below, above, known)`` may replace the indices that the balanced tree
    draws in nodes that reach to an end of the column and have no scale from two known quantiles.
    `known` has the probabilities of all indices from 0 to m + 1.
    """
    known = (0.0, *probabilities, 1.0)
    end = len(probabilities) + 1
    n_single_levels = _n_single_levels(len(probabilities), n_pair_levels)

    nodes = []
    ranges = [(0, 0, end, -1)]
    for depth, below, above, beyond in ranges:  # the loop appends to the list
        indices = _balanced_choice(below, above, end, most=1 if depth < n_single_levels else 2)
        has_scale = beyond != -1 or (below > 0 and above < end)
        if drawn_first is not None and not has_scale:
            indices = drawn_first(indices, below, above, known)

        width = known[above] - known[below]
        node = QuantileNode(
            depth=depth,
            indices=indices,
            below=below,
            above=above,
            beyond=beyond,
            probabilities=tuple(known[index] for index in indices),
            q=tuple((known[index] - known[below]) / width for index in indices),
            is_leaf=above - below - 1 == len(indices),
        )
        nodes.append(node)
        ranges += _child_ranges(node, end)

    second_to_last = nodes[-1].depth - 1
    return tuple(
        node._replace(is_early=node.is_leaf and node.depth == second_to_last) for node in nodes
    )


def _n_single_levels(n_quantiles, n_pair_levels):
    """Return the number of levels of single draws above `n_pair_levels` levels of pairs."""
    most_in_pairs = 3**n_pair_levels - 1
    n_single_levels = 0
    while n_quantiles >> n_single_levels > most_in_pairs:
        n_single_levels += 1
    return n_single_levels


def _balanced_choice(below, above, end, most):
    """Return the indices between `below` and `above` that are drawn first, at most `most`.

    They divide the other quantiles evenly. A remainder goes to the outer range on the side of the
    nearer end of the column, then to the other outer range.
    """
    n_left = above - below - 1
    if most == 1 or n_left == 1:
        indices = (below + n_left // 2 + 1,)
    else:
        each, remainder = divmod(n_left - 2, 3)
        first = below + 1 + each + (remainder > 0)
        indices = first, first + 1 + each

    if below + above > end:  # the mirror image
        return tuple(below + above - index for index in reversed(indices))
    return indices


def _child_ranges(node, end):
    """Yield (depth, below, above, beyond) of the ranges with quantiles that are left by a node."""
    known = (node.below, *node.indices, node.above)
    for below, above in pairwise(known):
        beyond = known[2] if below == node.below else known[-3]
        if above - below > 1:
            yield node.depth + 1, below, above, -1 if beyond in (0, end) else beyond


@lru_cache(maxsize=256)
def best_tree(probabilities, norm, drawn_first=None, least_gain=LEAST_GAIN_OF_PAIRS):
    """Return the nodes of a tree with a small expected error for budgets of this norm.

    The tree has pairs if they lower the error by at least the share `least_gain`. `drawn_first` is
    the argument of `quantile_nodes`.
    """
    singles = quantile_nodes(probabilities, drawn_first=drawn_first)
    if len(probabilities) > MOST_SEARCHED:
        return singles

    def error(nodes):
        return expected_deviation(nodes, norm)

    trees = [
        quantile_nodes(probabilities, n_pair_levels, drawn_first)
        for n_pair_levels in range(1, MOST_PAIR_LEVELS + 1)
    ]
    with_pairs = min(trees, key=error)
    if error(with_pairs) < (1 - least_gain) * error(singles):
        return with_pairs
    return singles


NODES_AT_ONCE = 1024  # so that their arrays fit into the CPU cache
PAIRS_AT_ONCE = 128
# Drawing fewer nodes separately would take longer than drawing them with the others.
FEWEST_ALIKE = 256


@dataclass(frozen=True, kw_only=True)
class Level:
    """Draws of one level of the trees of all columns, which are made together.

    Either all draws are single quantiles, or all are pairs. Arrays have an entry for each quantile;
    for pairs, first for all lower and then for all upper quantiles. The fields are those of
    `QuantileNode`.
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
        """Draw a position in each node, and return the positions and their ranks."""
        module = pairs if self.is_of_pairs else exponential
        return module.draw(ranks, nodes, randomness)

    def are_ends_released(self, n_quantiles):
        """Return whether the lower and the upper end of each node is a drawn quantile, (2, n).

        `n_quantiles` has the number of quantiles in the column of each node.
        """
        return np.array((self.below > 0, self.above <= n_quantiles))

    def __getitem__(self, rows):
        """Return the level with these quantiles only."""
        arrays = {name: array[rows] for name, array in vars(self).items() if name != "is_of_pairs"}
        return replace(self, **arrays)

    @classmethod
    def of(cls, draws):
        """Return a level of draws (column, eps, node), which are all single or all pairs."""
        n_together = len(draws[0][2].indices)
        columns, eps, nodes = zip(*draws * n_together, strict=True)
        quantiles = [(node, number) for number in range(n_together) for _, _, node in draws]
        return cls(
            is_of_pairs=n_together == 2,
            column=np.array(columns),
            eps=np.array(eps),
            index=np.array([node.indices[number] for node, number in quantiles]),
            probability=np.array([node.probabilities[number] for node, number in quantiles]),
            q=np.array([node.q[number] for node, number in quantiles]),
            **{
                name: np.array([getattr(node, name) for node in nodes])
                for name in ("depth", "below", "above", "beyond", "is_leaf", "is_early")
            },
        )


@lru_cache(maxsize=32)
def levels_of_columns(mechanism, probabilities, budgets):
    """Return the levels of the trees of all columns from the roots down, in chunks if large."""
    levels = {}
    for column, request in enumerate(zip(probabilities, budgets, strict=True)):
        for node, eps in zip(*mechanism.nodes_and_eps(*request), strict=True):
            draws = levels.setdefault((node.depth, len(node.indices)), [])
            draws.append((column, eps, node))

    chunks = []
    for (_, n_together), draws in sorted(levels.items()):
        at_once = NODES_AT_ONCE if n_together == 1 else PAIRS_AT_ONCE
        chunks += [Level.of(draws[at : at + at_once]) for at in range(0, len(draws), at_once)]
    return chunks


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """The ends of columns, and the quantiles that have been drawn so far.

    In a column with m quantiles, the indices 1 to m are the quantiles, and 0 and m + 1 the ends.
    """

    n_quantiles: np.ndarray  # (n_columns,)
    positions: np.ndarray  # (n_columns, n_quantiles.max() + 2)
    split_ranks: np.ndarray  # the ranks of the positions, in ticks; same shape

    @classmethod
    def before_the_first_draw(cls, ranks, n_quantiles):
        """Return estimates that consist of the ends only."""
        grid = ranks.grid
        per_cell = grid.positions_per_cell
        every = np.arange(n_quantiles.size)

        positions = np.zeros((every.size, n_quantiles.max() + 2), dtype=np.int64)
        positions[:, 0] = per_cell * grid.first
        positions[every, n_quantiles + 1] = per_cell * grid.end - 1

        split_ranks = np.zeros_like(positions)
        split_ranks[every, n_quantiles + 1] = per_cell * ranks.total_weights
        return cls(n_quantiles=n_quantiles, positions=positions, split_ranks=split_ranks)


def chunks_alike(grid, level, estimates):
    """Return the level, or divide it into nodes with few pieces in their base measures and others.

    The time of nodes that are drawn together depends on the largest number of pieces. The division
    depends on released values only.
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
    """Return the nodes of a level, after all earlier levels have been drawn.

    ``rows[i]`` is the row of `estimates` for the node i of the level. In a release it is the column
    of the node. (The enumeration of the tests has a row for each history of draws.) `priors` has a
    `Prior` or None for each column.

    The privacy proof requires that a node depends on the data only through the positions that were
    drawn before and their ranks, and its base measure only through the cells of these positions.
    Priors are public.
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

    return Nodes(
        column=column,
        lo=lo,
        hi=hi,
        lo_rank=estimates.split_ranks[rows, level.below],
        hi_rank=estimates.split_ranks[rows, level.above],
        q=level.q,
        eps=level.eps,
        places_per_cell=np.where(level.is_leaf, 1, per_cell),
        measure=_base_measure(grid, level, (column, *cells, is_open, is_released), priors),
    )


def _base_measure(grid, level, ends, priors):
    """Return the base measure of each node of a level; `ends` are arguments of `step_measure`."""
    column = level.column
    guesses = guesses_of_nodes(priors, column, level.probability)
    if guesses is None and grid.are_columns_alike and not level.depth.any():
        return measure_of_a_root(grid)[np.zeros_like(column)]

    if not level.is_of_pairs:
        return step_measure(grid, *ends, guesses)
    if guesses is not None:
        return ring_measure(step_measure(grid, *ends, guesses), grid, *ends, guesses)

    # Without priors, both quantiles of a pair have the same base measure.
    n_pairs = column.size // 2
    ends = [array[..., :n_pairs] for array in ends]
    measure = ring_measure(step_measure(grid, *ends), grid, *ends)
    return measure[np.tile(np.arange(n_pairs), 2)]


@lru_cache(maxsize=32)
def measure_of_a_root(grid):
    """Return the base measure of the first draw for columns with the same grid and no prior."""
    is_open = np.array((grid.is_open_low[:1], grid.is_open_high[:1]))
    first = grid.first[:1]
    last = grid.end[:1] - 1
    scale_from = np.where(is_open[0], last, first)
    is_released = np.zeros_like(is_open)
    return step_measure(grid, np.zeros_like(first), first, last, scale_from, is_open, is_released)


class ApproximateQuantiles(Mechanism):
    """The AQ mechanism."""

    def nodes(self, probabilities, norm):
        """Return the nodes of a column, level by level: the tree with the least expected error."""
        return best_tree(tuple(map(float, probabilities)), norm)

    def pattern(self, probabilities, norm):
        """Return the relative eps of all levels and of early leaves, as `level_pattern` does."""
        return level_pattern(self.nodes(probabilities, norm), norm)

    def eps_of_levels(self, probabilities, budget):
        """Return the eps of all levels, and the eps of early leaves, or 0.

        A record meets either the last two levels or an early leaf, so an early leaf may spend as
        much as the last two levels together.
        """
        levels, early = self.pattern(probabilities, budget.norm)
        early = min(early, np.linalg.norm(levels[-2:], budget.norm))  # for any pattern

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
        """Return the ascending cells of the ascending distinct quantiles of each column.

        Privacy
        -------
        Neighbours differ in one record. If the record has the weight w in a node, the draw of the
        node costs it w * eps (`exponential.draw`, `pairs.draw`), and its weights in the children
        sum to w. So the weights of the record in a level sum to at most 1. If it has the weight u
        in early leaves, it has at most 1 - u in the other nodes of each of the last two levels. So
        the cost is at most u times the cost of a path to an early leaf plus 1 - u times the cost of
        a path through all levels. The same holds in zCDP, where a draw costs ``w^2 rho <= w rho``.
        Base measures depend on public priors and on cells that earlier draws released, which
        adaptive composition allows.
        """
        probabilities = tuple(tuple(map(float, wanted)) for wanted in probabilities)
        n_quantiles = np.array(list(map(len, probabilities)))
        estimates = Estimates.before_the_first_draw(ranks, n_quantiles)

        for level in levels_of_columns(self, probabilities, tuple(budgets)):
            for chunk in chunks_alike(ranks.grid, level, estimates):
                nodes = nodes_of_level(ranks.grid, chunk, estimates, chunk.column, priors)
                positions, split_ranks = chunk.draw(ranks, nodes, randomness)
                estimates.positions[chunk.column, chunk.index] = positions
                estimates.split_ranks[chunk.column, chunk.index] = split_ranks

        cells = estimates.positions // ranks.grid.positions_per_cell
        return [row[1 : n + 1] for row, n in zip(cells, n_quantiles, strict=True)]

    def cost(self, probabilities, budget):
        """Return the cost of `draw`: the cost of the most expensive path down the tree."""
        paths = self._eps_of_paths(probabilities, budget)
        n_draws = len(probabilities) * budget.n_segments
        costs = [exponential_cost(path, n_draws) for path in paths]
        return Cost(*map(max, zip(*costs, strict=True)))

    def events(self, probabilities, budget):
        """Return the draws of the path with the highest cost in zCDP."""
        paths = self._eps_of_paths(probabilities, budget)
        return [exponential_draw(eps) for eps in max(paths, key=np.linalg.norm)]

    def _eps_of_paths(self, probabilities, budget):
        """Return the eps of the draws on each path: through all levels, or to an early leaf."""
        levels, early = self.eps_of_levels(probabilities, budget)
        return [levels, [*levels[:-2], early]] if early else [levels]

    def composed_budgets(self, probabilities, shares, eps, delta, count_eps=0.0):
        """Return the budgets of columns that together are (eps, delta)-DP, by optimal composition.

        The nodes of a level are a single bounded-range draw for a record, because the weights of
        the record in them sum to at most 1. So the levels of all columns are a sequence of draws,
        some of which are forks. Returns None if the reserve for rounding errors would exceed half
        of eps.
        """
        weights = np.sqrt(np.asarray(shares) / max(shares)).tolist()  # as in zCDP

        pattern = []
        early_leaves = []  # 0 for levels without early leaves
        # Columns are independent, so every order that keeps the levels of each column is valid.
        for weight, wanted in sorted(zip(weights, probabilities, strict=True), reverse=True):
            levels, early = self.pattern(wanted, norm=2)
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
