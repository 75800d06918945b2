"""Exact output distributions on tiny grids, from the very weights that the package draws with.

Many datasets are the columns of one `Ranks`, so that all their nodes are worked out together.
"""

import itertools
import math
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from dpq_sklearn.engine import exponential
from dpq_sklearn.engine import pairs as pairs_module
from dpq_sklearn.engine.exponential import (
    Nodes,
    Scores,
    StepMeasure,
    node_runs,
    rank_intervals,
    run_bounds,
)
from dpq_sklearn.engine.grid import FloatGrid
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.engine.round_numbers import RoundNumbers
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.engine.weighted_ranks import WeightedRanks
from dpq_sklearn.mechanisms import aq as aq_module
from dpq_sklearn.reading.summaries import Summary

AQ = aq_module.ApproximateQuantiles()
_NODES_AT_ONCE = 2**13
_PAIRS_AT_ONCE = 2**17


def tiny_grid(n_cells, positions_per_cell, is_open=(False, False), kind=FloatGrid, cells_a_unit=1):
    """One column with the cells [0, 1), [1, 2), ..., all of measure 1."""
    return kind(
        low=np.array([0.0]),
        high=np.array([(n_cells - 0.5) / cells_a_unit]),
        is_open_low=np.array([is_open[0]]),
        is_open_high=np.array([is_open[1]]),
        smallest_exponent=np.array([10]),
        steps_per_cell=np.array([2**42 // cells_a_unit]),
        positions_per_cell=positions_per_cell,
    )


def side_by_side(grids):
    """One grid with the columns of several grids."""
    names = ("low", "high", "is_open_low", "is_open_high", "smallest_exponent", "steps_per_cell")
    columns = {name: np.concatenate([getattr(grid, name) for grid in grids]) for name in names}
    return FloatGrid(**columns, positions_per_cell=grids[0].positions_per_cell)


class LumpyGrid(FloatGrid):
    """A tiny grid on which integers have 3 more than the measure of other cells."""

    @cached_property
    def _round_numbers(self):
        return RoundNumbers(
            first_decade=np.full(self.low.size, 3),
            powers=np.array([10**9]),
            measures=np.full((1, self.low.size), 3),
        )


def lumpy_grid(positions_per_cell, n_cells=4):
    """Cells half as wide as integers are apart: measures 4, 1, 4, 1, ..."""
    return tiny_grid(n_cells, positions_per_cell, kind=LumpyGrid, cells_a_unit=2)


def cell_measures(grid):
    """The grid measure of each cell, by the definition of the two tiny grids."""
    n_cells = int(grid.end.max())
    of_even, of_odd = (4, 1) if isinstance(grid, LumpyGrid) else (1, 1)
    return np.where(np.arange(n_cells) % 2 == 0, of_even, of_odd)


def column_of(counts, grid):
    """The ranks of a column with the given number of records in each cell."""
    cells = np.repeat(np.arange(grid.end[0]), counts)
    return SortedRanks.of_rows(grid.lower_edges(cells, np.zeros_like(cells))[None], grid)


def summary_of(counts, grid):
    """The same ranks from (cell, weight) pairs."""
    return ranks_of_weights(np.array([counts]) * RECORD_WEIGHT, grid)


def ranks_of_weights(weights, grid):
    """The ranks of many datasets: one column for each row of weights, which has one a cell."""
    summaries = [Summary(np.flatnonzero(row), row[row > 0]) for row in np.asarray(weights)]
    return WeightedRanks.of_summaries(summaries, grid[np.zeros(len(summaries), dtype=int)])


def datasets(n_cells, most):
    """Every dataset with up to `most` records a cell, as counts."""
    return list(itertools.product(range(most + 1), repeat=n_cells))


def neighbour_pairs(n_cells, most):
    """Every pair of datasets in which the second dataset has one more record."""
    for counts in datasets(n_cells, most):
        for cell in range(n_cells):
            if counts[cell] < most:
                yield counts, (*counts[:cell], counts[cell] + 1, *counts[cell + 1 :])


def with_neighbours(all_counts):
    """Return datasets and all that have one record more, and the pairs of their numbers."""
    numbers, pairs = {}, []
    for counts in map(tuple, all_counts):
        for cell in range(len(counts)):
            more = (*counts[:cell], counts[cell] + 1, *counts[cell + 1 :])
            pairs.append([numbers.setdefault(data, len(numbers)) for data in (counts, more)])
    return list(numbers), np.array(pairs)


def place_weights(ranks, nodes):
    """Return the weight of each position (leaf: of each cell, at its first position) in each node.

    It is what the runs propose, as often as it is kept. Positions outside the node have none,
    unless a run sticks out of it.
    """
    pieces = [
        _place_weights(ranks, taken(nodes, slice(start, start + _NODES_AT_ONCE)))
        for start in range(0, nodes.lo.size, _NODES_AT_ONCE)
    ]
    return np.concatenate(pieces)


def _place_weights(ranks, nodes):
    grid = ranks.grid
    per_cell, n_nodes = grid.positions_per_cell, nodes.lo.size
    positions = np.arange(int(grid.end.max()) * per_cell)
    scores = Scores.of(nodes, per_cell)
    runs = node_runs(ranks, nodes, scores, exponential._LOOK_UPS)
    least_scores, bounds = run_bounds(scores, runs)
    run, parts = parts_of_runs(grid, nodes, runs)
    # Each position gets its part, by grid measure, of the weight of its run.
    weights = np.take_along_axis(bounds, run, axis=1) * parts
    per_place = per_cell // nodes.places_per_cell[:, None]
    rows = np.repeat(np.arange(n_nodes), positions.size)
    low, high = rank_intervals(ranks, nodes, rows, (positions // per_place).ravel())
    of_places = scores.of_interval(low, high, rows).reshape(n_nodes, -1)
    chances = exponential.chances_to_keep(np.take_along_axis(least_scores, run, axis=1), of_places)
    assert np.all(chances[parts > 0] <= 1 + 1e-15)
    weights *= chances
    cells = weights.reshape(n_nodes, -1, per_cell)
    cells = np.concatenate((cells.sum(axis=2, keepdims=True), np.zeros_like(cells[:, :, 1:])), 2)
    return np.where(per_place == per_cell, cells.reshape(n_nodes, -1), weights)


def parts_of_runs(grid, nodes, runs):
    """Return for each position of each node its run, and its part of the run by grid measure."""
    per_cell = grid.positions_per_cell
    positions = np.arange(int(grid.end.max()) * per_cell)
    cuts = runs.cuts * (per_cell // nodes.places_per_cell[:, None])
    assert np.all(np.diff(cuts, axis=1) >= 0) and np.all(runs.measures >= 0)
    run = (cuts[:, :, None] <= positions).sum(axis=1) - 1
    is_inside = (run >= 0) & (positions < cuts[:, -1:])
    run = np.where(is_inside, run, 0)
    measures = np.repeat(cell_measures(grid), per_cell) * is_inside
    of_runs = np.zeros(runs.measures.shape)
    np.add.at(of_runs, (np.arange(len(run))[:, None], run), measures)
    assert np.array_equal(of_runs > 0, runs.measures > 0)
    whole = np.where(of_runs > 0, of_runs, 1.0)
    return run, measures / np.take_along_axis(whole, run, axis=1)


def pair_weights(ranks, nodes):
    """Return the weight of each pair of positions (leaf: of cells) in each pair node.

    It is what the runs propose, as often as it is kept: (n_pairs, n_positions^2), the position of
    the lower quantile times n_positions plus that of the upper one.
    """
    n_pairs = nodes.lo.size // 2
    n_positions = int(ranks.grid.end.max()) * ranks.grid.positions_per_cell
    at_once = max(_PAIRS_AT_ONCE // n_positions**2, 1)
    pieces = []
    for start in range(0, n_pairs, at_once):
        some = np.arange(start, min(start + at_once, n_pairs))
        pieces.append(_pair_weights(ranks, taken(nodes, np.concatenate((some, n_pairs + some)))))
    return np.concatenate(pieces)


def _pair_weights(ranks, nodes):
    grid = ranks.grid
    per_cell, n_pairs = grid.positions_per_cell, nodes.lo.size // 2
    n_positions = int(grid.end.max()) * per_cell
    shape = n_pairs, n_positions, n_positions
    scores = pairs_module.PairScores.of(nodes, per_cell)
    runs = node_runs(ranks, nodes, scores.targets, pairs_module._LOOK_UPS)
    errors = scores.errors(runs.low_ranks, runs.high_ranks, np.s_[:, None])
    run, parts = parts_of_runs(grid, nodes, runs)
    lower, upper = run.reshape(2, n_pairs, n_positions)

    # One proposal for each position of the lower quantile.
    of_pairs = np.repeat(np.arange(n_pairs), n_positions)
    box_scores, of_runs = pairs_module.weights_of_upper_runs(
        scores, runs, errors, of_pairs, lower.ravel()
    )
    sums = runs.measures[of_pairs, lower.ravel()] * of_runs.sum(axis=1)
    bounds = pairs_module.bounds_of_lower_runs(scores, runs.measures, errors)
    assert np.all(sums <= bounds[of_pairs, lower.ravel()] * (1 + 1e-13))
    factors = pairs_module.factors_of_runs(scores, errors)
    products = factors[of_pairs, lower.ravel()][:, None] * factors[n_pairs + of_pairs]
    assert np.all(np.exp(-box_scores) + pairs_module.PAIR_FLOOR <= products * (1 + 1e-13))

    def of_upper(of_each_run):
        of_each_run = of_each_run.reshape(n_pairs, n_positions, -1)
        return np.take_along_axis(of_each_run, np.broadcast_to(upper[:, None], shape), axis=2)

    measures = runs.measures[of_pairs, lower.ravel()].reshape(n_pairs, n_positions)
    weights = of_upper(of_runs) * (measures * parts[:n_pairs])[:, :, None] * parts[n_pairs:, None]

    places = np.arange(n_positions) // (per_cell // nodes.places_per_cell[:, None])
    rows = np.repeat(np.arange(2 * n_pairs), n_positions)
    low, high = rank_intervals(ranks, nodes, rows, places.ravel())
    a, b = scores.errors(low, high, rows).reshape(2, 2, n_pairs, -1).swapaxes(0, 1)
    every = np.arange(n_pairs)[:, None, None]
    of_places = scores.of_boxes(a[..., None], b[..., None, :], every)
    is_ascending = places[:n_pairs, :, None] <= places[n_pairs:, None]
    is_inside = (parts[:n_pairs, :, None] > 0) & (parts[n_pairs:, None] > 0)
    assert np.all(weights[is_inside & is_ascending] > 0)
    chances = pairs_module.chances_to_keep(of_upper(box_scores), of_places)
    assert np.all(chances[is_inside & is_ascending] <= 1 + 1e-15)
    weights *= chances * is_ascending

    cells = weights.reshape(n_pairs, -1, per_cell, n_positions // per_cell, per_cell)
    of_cells = np.zeros_like(cells)
    of_cells[:, :, 0, :, 0] = cells.sum(axis=(2, 4))
    is_leaf = (nodes.places_per_cell[:n_pairs] == 1)[:, None, None]
    return np.where(is_leaf, of_cells.reshape(shape), weights).reshape(n_pairs, -1)


def places_per_cell(grid, is_leaf):
    """The number of places per cell: 1 if the places of a node are cells."""
    return np.where(is_leaf, 1, grid.positions_per_cell)


@dataclass(frozen=True)
class Draws:
    """One node of the tree: in every dataset, after every history of draws above it.

    `weights` has a row for each dataset, in it one for each history, and in it each outcome: a
    position, or a pair of them, which `positions` tells. `children` are the next nodes, whose
    history follows from this node's history and outcome by the table `next_history`.
    """

    quantiles: tuple
    positions: np.ndarray  # (n_outcomes, n_quantiles)
    weights: np.ndarray
    next_history: np.ndarray
    children: tuple

    @cached_property
    def chances(self):
        return self.weights / self.weights.sum(axis=2, keepdims=True)


def split_in_the_middle(ranks, nodes, positions):
    """The rank that AQ hands to the children: the middle of the position's ranks."""
    low, high = ranks_around(ranks, nodes, positions)
    return low + (high - low) // 2


def ranks_around(ranks, nodes, positions):
    """The ranks at the edges of the place of one position in each node."""
    places = positions * nodes.places_per_cell // ranks.grid.positions_per_cell
    return rank_intervals(ranks, nodes, np.arange(nodes.lo.size), places)


def levels_of(quantiles, budgets):
    """The levels of AQ's trees, as a release has them."""
    quantiles = tuple(tuple(map(float, q)) for q in quantiles)
    return aq_module.levels_of_columns(AQ, quantiles, tuple(budgets))


def rows_of(level):
    """The rows of each node of a level. A pair node has two rows."""
    rows = np.arange(level.column.size).reshape(2 if level.is_of_pairs else 1, -1)
    return [level[of_node] for of_node in rows.T]


def aq_draws(
    ranks, quantiles, budget, split_rank=split_in_the_middle, all_leaves=False, priors=None
):
    """Return the root of the exact distributions of AQ, for all columns of `ranks`.

    Every node is made by the function that makes those of a release, after every history of draws
    above it. `split_rank` and `all_leaves` make other mechanisms of it, which need not be private.
    `priors` has one for each column, that is, for each dataset.
    """
    n_datasets = ranks.total_weights.size
    last_end = len(quantiles) + 1
    nodes_between = {
        (int(node.below[0]), int(node.above[0])): node
        for level in levels_of([quantiles], [budget])
        for node in rows_of(level)
    }

    def visit(below, above, estimates):
        """Return the draws between two ends; `estimates` has rows (dataset, history)."""
        if (below, above) not in nodes_between:
            return None
        node = nodes_between[below, above]
        n_together = node.index.size
        n_rows = len(estimates.positions)
        n_histories = n_rows // n_datasets
        level = node[np.repeat(np.arange(n_together), n_rows)]
        level = replace(
            level,
            column=np.tile(np.repeat(np.arange(n_datasets), n_histories), n_together),
            is_leaf=level.is_leaf | all_leaves,
        )
        rows = np.tile(np.arange(n_rows), n_together)
        nodes = aq_module.nodes_of_level(ranks.grid, level, estimates, rows=rows, priors=priors)

        weights = (pair_weights if level.is_of_pairs else place_weights)(ranks, nodes)
        weights = weights.reshape(n_datasets, n_histories, -1)
        assert np.array_equal(weights > 0, np.broadcast_to(weights[:1] > 0, weights.shape))
        histories, drawn = np.nonzero(weights[0])
        next_history = np.full(weights.shape[1:], -1)
        next_history[histories, drawn] = np.arange(drawn.size)

        # One row for each dataset and each history that goes on with a draw of this node.
        rows = (np.arange(n_datasets)[:, None] * n_histories + histories).ravel()
        n_positions = round(weights.shape[2] ** (1 / n_together))
        outcomes = np.array(
            np.unravel_index(np.arange(weights.shape[2]), (n_positions,) * n_together)
        )
        positions = np.tile(outcomes[:, drawn], n_datasets)
        of_quantiles = np.concatenate([part * n_rows + rows for part in range(n_together)])
        new_ranks = split_rank(ranks, taken(nodes, of_quantiles), positions.ravel())
        here = node.index.tolist()
        estimates = aq_module.Estimates(
            n_quantiles=estimates.n_quantiles[rows],
            positions=with_columns(estimates.positions[rows], here, positions.T),
            split_ranks=with_columns(
                estimates.split_ranks[rows], here, new_ranks.reshape(n_together, -1).T
            ),
        )
        children = [visit(*ends, estimates) for ends in itertools.pairwise((below, *here, above))]
        children = tuple(child for child in children if child is not None)
        return Draws(tuple(here), outcomes.T, weights, next_history, children)

    n_quantiles = np.full(n_datasets, len(quantiles))
    ends = aq_module.Estimates.before_the_first_draw(ranks, n_quantiles)
    return visit(0, last_end, ends)


def with_columns(matrix, columns, values):
    """A copy of a matrix with other values in some of its columns."""
    matrix = matrix.copy()
    matrix[:, columns] = values
    return matrix


def worst_eps(draws, pairs, any_measure=False):
    """Return log(P / Q) of the most telling joint outcome of these pairs of datasets.

    With `any_measure` it is the worst case over *all* base measures, however they depend on what
    was drawn before: the outcome has hardly any measure, and nearly all the rest is where the
    weights change most in the opposite direction.
    """
    ones, others = pairs.T
    both = (
        _largest_log_ratios(draws, *pair, any_measure) for pair in ((ones, others), (others, ones))
    )
    return float(max(ratios.max() for ratios in both))


def _largest_log_ratios(draws, ones, others, any_measure):
    """After every history: given it, the two subtrees are independent."""
    p, q = draws.weights[ones], draws.weights[others]
    is_there = p > 0
    ratios = np.log(np.where(is_there, p, 1.0) / np.where(is_there, q, 1.0))
    if any_measure:
        of_sums = np.where(is_there, ratios, np.inf).min(axis=2)
    else:
        of_sums = np.log(p.sum(axis=2) / q.sum(axis=2))
    for child in draws.children:
        below = _largest_log_ratios(child, ones, others, any_measure)
        ratios += below[:, draws.next_history]
    return np.where(is_there, ratios, -np.inf).max(axis=2) - of_sums


def renyi_divergences(draws, ones, others, order):
    """Return D_order(P || Q) of the joint distributions, for pairs of datasets."""
    return np.log(_renyi_moments(draws, ones, others, order)[:, 0]) / (order - 1)


def _renyi_moments(draws, ones, others, order):
    p, q = draws.chances[ones], draws.chances[others]
    moments = q * (p / np.where(q > 0, q, 1.0)) ** order
    for child in draws.children:
        moments *= _renyi_moments(child, ones, others, order)[:, draws.next_history]
    return moments.sum(axis=2)


def worst_rho(draws, pairs, orders):
    """Return the rho that the enumerated mechanism has at these orders."""
    ones, others = pairs.T
    return max(
        float(renyi_divergences(draws, *pair, order).max()) / order
        for pair in ((ones, others), (others, ones))
        for order in orders
    )


def worst_range_rho(draws, pairs):
    """Return the rho that holds whatever the base measure: the largest sum of range^2 / 8.

    A draw in which the logarithms of all weights change within a range r is r^2/8-zCDP.
    """
    return float(_range_rhos(draws, *pairs.T).max())


def _range_rhos(draws, ones, others):
    p, q = draws.weights[ones], draws.weights[others]
    is_there = p > 0
    ratios = np.log(np.where(is_there, p, 1.0) / np.where(is_there, q, 1.0))
    largest = np.where(is_there, ratios, -np.inf).max(axis=2)
    smallest = np.where(is_there, ratios, np.inf).min(axis=2)
    below = np.zeros(ratios.shape)
    for child in draws.children:
        below += _range_rhos(child, ones, others)[:, draws.next_history]
    return (largest - smallest) ** 2 / 8 + np.where(is_there, below, 0.0).max(axis=2)


def joint_distribution(draws, dataset):
    """Return {positions of all quantiles: probability} in one dataset."""

    def visit(draws, history):
        joint = {}
        for outcome in np.flatnonzero(draws.next_history[history] >= 0).tolist():
            positions = draws.positions[outcome].tolist()
            key = tuple(zip(draws.quantiles, positions, strict=True))
            parts = [{key: draws.chances[dataset, history, outcome]}]
            next_history = draws.next_history[history, outcome]
            parts += [visit(child, next_history) for child in draws.children]
            for outcomes in itertools.product(*(part.items() for part in parts)):
                key = tuple(itertools.chain.from_iterable(outcome for outcome, _ in outcomes))
                joint[key] = math.prod(chance for _, chance in outcomes)
        return joint

    return {
        tuple(position for _, position in sorted(key)): float(chance)
        for key, chance in visit(draws, 0).items()
    }


def aq_distribution(ranks, quantiles, budget):
    """Return {positions of all quantiles: probability} of AQ for the one column of `ranks`."""
    return joint_distribution(aq_draws(ranks, quantiles, budget), 0)


def cell_distribution(distribution, positions_per_cell):
    """Sum the probabilities of positions to the probabilities of cells, which are released."""
    cells = {}
    for positions, chance in distribution.items():
        key = tuple(p // positions_per_cell for p in positions)
        cells[key] = cells.get(key, 0.0) + chance
    return cells


def worst_log_ratio(one, other):
    """Return the largest |log(P/Q)| over all outputs; both have the same outputs."""
    assert one.keys() == other.keys()
    return max(abs(math.log(one[key] / other[key])) for key in one)


def renyi_divergence(one, other, order):
    """Return the Renyi divergence D_order(one || other)."""
    p = np.array([one[key] for key in one])
    q = np.array([other[key] for key in one])
    return math.log(math.fsum(q * np.exp(order * np.log(p / q)))) / (order - 1)


def hockey_stick(one, other, eps):
    """Return the least delta for which P <= e^eps Q + delta."""
    assert one.keys() == other.keys()
    return math.fsum(max(one[key] - math.exp(eps) * other[key], 0.0) for key in one)


def step_measure_of(grid, cuts, densities):
    """A base measure of one node: densities between ascending cells, its ends included."""
    cuts = np.array([cuts])
    before = grid.measure_before(cuts, np.zeros_like(cuts))
    return StepMeasure(cuts=cuts, before=before, densities=np.array([densities]))


def even_measure(grid, lo, hi):
    """The grid measure itself, for a node between two positions."""
    per_cell = grid.positions_per_cell
    return step_measure_of(grid, [lo // per_cell, hi // per_cell + 1], [1.0])


def around_cells(ranks, columns, cells):
    """The weights before and after each cell."""
    return tuple(ranks.weights_below(columns, np.array((cells, cells + 1))))


def middle_rank(ranks, position):
    """The rank of a position of the first column: the middle of the ranks that it covers."""
    cell, sub = divmod(position, ranks.grid.positions_per_cell)
    (before,), (behind,) = around_cells(ranks, np.array([0]), np.array([cell]))
    inside = int(behind - before)
    return ranks.grid.positions_per_cell * int(before) + inside * sub + inside // 2


def node_between(ranks, lo, hi, q, eps, is_leaf=False, measure=None):
    """A batch of one node of the first column, between two positions."""
    return Nodes(
        column=np.array([0]),
        lo=np.array([lo]),
        hi=np.array([hi]),
        lo_rank=np.array([middle_rank(ranks, lo)]),
        hi_rank=np.array([middle_rank(ranks, hi)]),
        q=np.array([q]),
        eps=np.array([eps]),
        places_per_cell=np.array([places_per_cell(ranks.grid, is_leaf)]),
        measure=even_measure(ranks.grid, lo, hi) if measure is None else measure,
    )


def whole_node(ranks, q, eps, is_leaf=False, measure=None):
    """A batch of one node: the whole first column."""
    grid = ranks.grid
    lo = int(grid.first[0]) * grid.positions_per_cell
    hi = int(grid.end[0]) * grid.positions_per_cell - 1
    return replace(
        node_between(ranks, lo, hi, q, eps, is_leaf, measure),
        lo_rank=np.array([0]),
        hi_rank=np.array([grid.positions_per_cell * int(ranks.total_weights[0])]),
    )


def repeated(nodes, times):
    """The nodes, repeated many times."""
    return taken(nodes, np.tile(np.arange(nodes.lo.size), times))


def taken(thing, rows):
    """Nodes with their base measures, or base measures alone: those with these numbers."""
    values = {field.name: getattr(thing, field.name) for field in fields(thing)}
    return type(thing)(
        **{
            name: taken(value, rows) if isinstance(value, StepMeasure) else value[rows]
            for name, value in values.items()
        }
    )


class DisagreeingRanks(SortedRanks):
    """Ranks that contradict themselves: `weights_below` puts half of the weight below any cell."""

    def weights_below(self, columns, cells):
        """Return weights that `locate` does not know of."""
        return np.zeros_like(cells) + self.total_weights[columns] // 2
