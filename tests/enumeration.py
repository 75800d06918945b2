"""Exact output distributions on tiny grids, from the very weights that the package draws with."""

import itertools
import math

import numpy as np

from dpq_sklearn.engine.exponential import Nodes, Scores, chances_to_keep, node_segments
from dpq_sklearn.engine.grid import BoundedGrid, _Decimals
from dpq_sklearn.engine.ranks import CellCounts, SortedColumn, rank_spans
from dpq_sklearn.mechanisms.aq import quantile_tree


def tiny_grid(n_cells, positions_per_cell):
    return BoundedGrid(0.0, float(n_cells), n_cells, positions_per_cell)


class LumpyGrid(BoundedGrid):
    """A tiny grid on which integers have 3 more than the mass of other cells."""

    _power = 0
    _decimals = _Decimals(n_powers=1, apart=2.0, most=3.0)
    _round_masses = np.array([1]), np.array([3])


def lumpy_grid(positions_per_cell):
    """Cells half as wide as integers are apart: masses 4, 1, 4 and, with the upper bound, 4."""
    return LumpyGrid(0.0, 2.0, 4, positions_per_cell)


def column_of(counts, grid):
    """The ranks of a column with so many records in each cell."""
    middles = grid.middles(np.arange(grid.n_cells))
    return SortedColumn(np.repeat(middles, counts), grid)


def summary_of(counts, grid):
    """The same ranks from (cell, count) pairs."""
    counts = np.asarray(counts)
    return CellCounts(np.flatnonzero(counts), counts[counts > 0], grid)


def datasets(n_cells, most):
    """Every dataset with up to `most` records a cell, as counts."""
    return list(itertools.product(range(most + 1), repeat=n_cells))


def neighbour_pairs(n_cells, most):
    """Every pair of datasets of which the second has one record more."""
    for counts in datasets(n_cells, most):
        for cell in range(n_cells):
            if counts[cell] < most:
                yield counts, (*counts[:cell], counts[cell] + 1, *counts[cell + 1 :])


def one_node(lo, hi, lo_units, hi_units, q):
    """A batch of one node."""
    ints = (np.array([value], dtype=np.int64) for value in (lo, hi, lo_units, hi_units))
    return Nodes(*ints, np.array([q]))


def position_weights(ranks, node, eps):
    """Return one weight a position: what the segments propose, as often as it is kept."""
    lo, hi = int(node.lo[0]), int(node.hi[0])
    scores = Scores.at(node, eps, ranks.grid)
    segments = node_segments(ranks, node, scores)
    proposed = np.zeros(hi - lo + 1)
    n_proposals = np.zeros(hi - lo + 1)
    for column in range(segments.start.shape[1]):
        start, end = int(segments.start[0, column]), int(segments.end[0, column])
        if segments.mass[0, column] == 0:
            continue
        steps = np.arange(end - start)
        positions = start + steps if segments.forward[0, column] else end - 1 - steps
        bounds = np.exp(-(segments.nearest[0, column] + segments.slope[0, column] * steps))
        masses = position_masses(positions, ranks.grid)
        whole = segments.slope[0, column] == 0
        assert segments.mass[0, column] == (masses.sum() if whole else masses[0])
        bounds *= masses
        span = rank_spans(ranks, positions)
        chosen = np.zeros_like(positions), np.full_like(positions, column)
        chances = chances_to_keep(segments, chosen, scores[chosen[0]].of_span(*span))
        assert np.all(chances <= 1 + 1e-12)
        proposed[positions - lo] += bounds * chances
        n_proposals[positions - lo] += 1
    assert np.all(n_proposals == 2)  # by a run or a cell, and by the floor
    return proposed


def position_masses(positions, grid):
    """The public mass of each position: that of its cell."""
    cells = positions // grid.positions_per_cell
    return mass_before(grid, cells + 1) - mass_before(grid, cells)


def mass_before(grid, cells):
    """The mass of all cells before each of the given ones."""
    return grid.masses(cells)[0]


def rank_units(ranks, position):
    """F at one position, in units: the middle of the ranks that it covers."""
    low, high = rank_spans(ranks, np.array([position]))
    return (int(low[0]) + int(high[0])) // 2


def aq_distribution(ranks, quantiles, budget):
    """Return {positions of all quantiles: probability}, exactly, for the AQ mechanism."""
    grid = ranks.grid
    units_at = [rank_units(ranks, p) for p in range(grid.n_cells * grid.positions_per_cell)]
    memory = {}

    def joint(tree, lo, hi, lo_units, hi_units):
        if tree is None:
            return {(): 1.0}
        key = (tree.index, lo, hi, lo_units, hi_units)
        if key not in memory:
            node = one_node(lo, hi, lo_units, hi_units, tree.q)
            weights = position_weights(ranks, node, tree.eps)
            chances = weights / math.fsum(weights)
            memory[key] = {
                (*left, position, *right): chance * chance_left * chance_right
                for position, chance in zip(range(lo, hi + 1), chances, strict=True)
                for left, chance_left in joint(
                    tree.left, lo, position, lo_units, units_at[position]
                ).items()
                for right, chance_right in joint(
                    tree.right, position, hi, units_at[position], hi_units
                ).items()
            }
        return memory[key]

    all_units = 2 * grid.positions_per_cell * ranks.n_records
    last = grid.n_cells * grid.positions_per_cell - 1
    return joint(quantile_tree(quantiles, budget), 0, last, 0, all_units)


def cell_distribution(distribution, positions_per_cell):
    """Sum the probabilities of positions to those of what is released: cells."""
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
