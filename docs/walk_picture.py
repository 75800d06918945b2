"""Draw the pictures of docs/how_it_works.md: the walk of a release, as the package itself goes."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from dpq_sklearn.accounting.budgets import Budget, TotalBudget, Unit
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.mechanisms.aq import (
    ApproximateQuantiles,
    Estimates,
    levels_of_columns,
    nodes_of_level,
)
from dpq_sklearn.mechanisms.prior import Prior
from dpq_sklearn.releases.plans import plan_quantiles
from dpq_sklearn.releases.request import Column, Request, even_probabilities
from dpq_sklearn.releases.values import tolerances_in_gaps, values_of_columns

FIFTHS = (0.2, 0.4, 0.6, 0.8)
NO_BOUNDS = (-np.inf, np.inf)
EXACT, BASE, DRAWN = "0.75", "#0072B2", "#D55E00"
WIDE = np.geomspace(1, 1e9, 91)


def incomes():
    """500 made-up incomes."""
    return np.random.default_rng(0).lognormal(10.4, 0.6, size=500).round()


def measure_between(grid, measure, node, ends):
    """Return how much base measure a node has between each two neighbours of `ends`."""
    mass = np.append(0.0, np.cumsum(measure.densities[node] * np.diff(measure.before[node])))
    cells = np.clip(
        grid.cells_of(ends, np.zeros(ends.size, int)),
        measure.cuts[node, 0],
        measure.cuts[node, -1],
    )
    before = grid.measure_before(cells, np.zeros(ends.size, int))
    return np.diff(np.interp(before, measure.before[node], mass))


def walk(column, mechanism, budget):
    """Yield (level, its base measures, the values that it draws), from the root down."""
    grid = make_grid([NO_BOUNDS])
    ranks = SortedRanks.of_rows(np.sort(column)[None, :], grid)
    randomness = make_randomness(3)
    estimates = Estimates.before_the_first_draw(ranks, np.array([len(FIFTHS)]))
    for level in levels_of_columns(mechanism, (FIFTHS,), (budget,)):
        nodes = nodes_of_level(grid, level, estimates, level.column)
        positions, split_ranks = level.draw(ranks, nodes, randomness)
        estimates.positions[level.column, level.index] = positions
        estimates.split_ranks[level.column, level.index] = split_ranks
        cells = positions // grid.positions_per_cell
        yield grid, level, nodes.measure, grid.lower_edges(cells, level.column)


def panel(column, ends, title):
    """Return axes with the private rows in grey."""
    fig, ax = plt.subplots(figsize=(6.4, 2.9), layout="constrained")
    shares = np.histogram(column, ends)[0] / column.size
    ax.stairs(shares, ends, fill=True, color=EXACT, label="the rows, which nobody sees")
    ax.set(xscale="log", title=title, yticks=[], xlabel="income, euros", xlim=(ends[0], ends[-1]))
    return fig, ax


def draw_walk(folder):
    """Draw the four steps of a release of five bins."""
    column = incomes()
    budget = Budget(1.0, Unit.EPS)
    mechanism = ApproximateQuantiles()
    (grid, root, of_root, middle), (_, leaves, of_leaves, outer) = walk(column, mechanism, budget)
    near = np.geomspace(5e3, 2e5, 91)

    fig, ax = panel(column, WIDE, f"1. Root: two quantiles at once, {root.eps[0]:.0%} of eps")
    expected = measure_between(grid, of_root, 0, WIDE)
    ax.stairs(expected * 4, WIDE, color=BASE, lw=2, label="where the draw expects them")
    ax.vlines(middle, 0, 0.2, color=DRAWN, label="drawn: 40% and 60% of the rows are below")
    fig.legend(frameon=False, loc="outside lower center", ncols=2, fontsize=10)
    fig.savefig(folder / "how_1_root.png", dpi=110)

    fig, ax = panel(column, near, "2. Split: three parts, each with what it knows by now")
    ax.vlines(middle, 0, 0.075, color="black", linestyle="--", label="released")
    for node, label in ((0, "where the next draws expect the data"), (1, None)):
        expected = measure_between(grid, of_leaves, node, near)
        ax.stairs(expected * 0.25, near, color=BASE, lw=1.5, label=label)
    ax.set_ylim(0, 0.075)
    fig.legend(frameon=False, loc="outside lower center", ncols=2, fontsize=10)
    fig.savefig(folder / "how_2_split.png", dpi=110)

    title = f"3. Leaves: one draw in each outer part, {leaves.eps[0]:.0%} of eps"
    fig, ax = panel(column, near, title)
    ax.vlines(middle, 0, 0.075, color="black", linestyle="--", label="released")
    ax.vlines(outer, 0, 0.075, color=DRAWN, label="drawn: half of the part's rows are below")
    ax.set_ylim(0, 0.075)
    fig.legend(frameon=False, loc="outside lower center", ncols=2, fontsize=10)
    fig.savefig(folder / "how_3_leaves.png", dpi=110)

    cells = grid.cells_of(np.sort(np.append(middle, outer)), np.zeros(4, int))
    plan = plan_quantiles(Request([Column(FIFTHS)], TotalBudget(1.0)))
    tolerances = tolerances_in_gaps(plan._noise, column.size)
    inner = values_of_columns(grid, [cells], tolerances)[0]
    ends = 2 * inner[0] - inner[1], 2 * inner[-1] - inner[-2]  # a bin's width away
    edges = np.sort(np.append(inner, ends))
    fig, ax = panel(column, near, "4. Edges: short numbers, and two ends that nobody measured")
    ax.vlines(edges[1:-1], 0, 0.075, color="black")
    ax.vlines(edges[[0, -1]], 0, 0.075, color="black", linestyle=":")
    for edge in edges:
        ax.annotate(
            f"{edge:,.0f}",
            (edge, 0.073),
            (-2, 0),
            textcoords="offset points",
            rotation=90,
            ha="right",
            va="top",
            fontsize=9,
        )
    ax.set_ylim(0, 0.075)
    fig.savefig(folder / "how_4_edges.png", dpi=110)
    plt.close("all")


def draw_base_measures(folder):
    """Draw what is publicly known of a column of ages, and what the first draw makes of it."""
    public = np.random.default_rng(1).normal(42, 14, 100).round().clip(0)
    known = {
        "nothing is known": (NO_BOUNDS, None, None),
        "bounds=(0, 120)": ((0.0, 120.0), None, None),
        "decimals=0": (NO_BOUNDS, 0, None),
        "decimals=0, bounds=(0, 120)": ((0.0, 120.0), 0, None),
        "prior=100 public rows": (NO_BOUNDS, None, [Prior.of_numbers(public)]),
    }
    ends = np.arange(-0.125, 130, 0.25)
    fig, axes = plt.subplots(len(known), 1, figsize=(6.4, 6.4), sharex=True, layout="constrained")
    level = levels_of_columns(ApproximateQuantiles(), ((0.5,),), (Budget(1.0, Unit.EPS),))[0]
    for ax, (title, (bounds, decimals, priors)) in zip(axes, known.items(), strict=True):
        grid = make_grid([bounds], decimals_of_columns=[decimals])
        ranks = SortedRanks.of_rows(public[None, :], grid)  # no draw, so no row matters
        estimates = Estimates.before_the_first_draw(ranks, np.array([1]))
        nodes = nodes_of_level(grid, level, estimates, level.column, priors)
        masses = measure_between(grid, nodes.measure, 0, ends)
        ax.stairs(masses, ends, fill=True, color=BASE)
        ax.set(yticks=[], ylim=(0, np.sort(masses)[-5] * 1.1))
        inside = masses[(ends[:-1] > 18) & (ends[:-1] < 75)].sum()
        ax.set_title(f"{title}: {inside:.0%} from 18 to 75", fontsize=11)
    axes[-1].set(xlabel="age, years", xlim=(-1, 130))
    fig.savefig(folder / "how_base_measure.png", dpi=110)
    plt.close(fig)


def draw_trees(folder):
    """Draw the trees of 5, 8 and 9 bins, with the share of eps that each level gets."""
    fig, axes = plt.subplots(3, 1, figsize=(6.4, 6.6), layout="constrained")
    for ax, n_bins in zip(axes, (5, 8, 9), strict=True):
        draw_tree(ax, even_probabilities(n_bins))
        ax.set_title(f"{n_bins} bins", loc="left")
    fig.savefig(folder / "how_tree.png", dpi=110)
    plt.close(fig)


def draw_tree(ax, probabilities):
    """Draw a box for each node at the quantiles that it draws, and a line to each of its parts."""
    nodes, eps = ApproximateQuantiles().nodes_and_eps(probabilities, Budget(1.0, Unit.EPS))
    known = (0.0, *probabilities, 1.0)

    def middle(node):
        return np.mean([known[index] for index in node.indices])

    for node in nodes:
        for child in nodes:
            ends = (node.below, *node.indices, node.above)
            if child.depth == node.depth + 1 and (child.below, child.above) in pairwise(ends):
                ax.plot([middle(node), middle(child)], [-node.depth, -child.depth], color="0.6")
    for node in nodes:
        text = " and ".join(f"{100 * probability:.3g}%" for probability in node.probabilities)
        style = {"facecolor": "#CFE3F3", "edgecolor": BASE, "boxstyle": "round"}
        ax.text(middle(node), -node.depth, text, ha="center", va="center", bbox=style, fontsize=10)
    for node, eps_of_node in zip(nodes, eps, strict=True):
        if node == next(other for other in nodes if other.depth == node.depth):
            ax.text(1.02, -node.depth, f"{eps_of_node:.0%} of eps", va="center", color=DRAWN)
    ax.set(xlim=(0, 1.2), ylim=(-nodes[-1].depth - 0.5, 0.5))
    ax.axis("off")
