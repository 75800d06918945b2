"""One figure for each experiment, from the table of its means."""

import matplotlib.pyplot as plt
import numpy as np

from dpq_sklearn import sanitize

# Okabe and Ito's colours, which people with any colour vision can tell apart.
STYLES = {
    "AQ": ("#0072B2", "-", "o"),
    "paper's AQ": ("#56B4E9", "--", "v"),
    "JointExp": ("#D55E00", "-", "s"),
    "published JointExp": ("#E69F00", "--", "D"),
    "AppIndExp": ("#009E73", "-", "^"),
    "AggTree": ("#CC79A7", "-", "x"),
    "pure": ("#D55E00", "-", "s"),
    "with a ledger": ("#009E73", "-", "^"),
    "best": ("#0072B2", "--", "o"),
    "bounds": ("#0072B2", "-", "o"),
    "no bounds": ("#D55E00", "--", "s"),
}
ERROR = "mean error, records"


def lines(axes, table, group, across, value):
    """Draw one line for each group of a table of means."""
    for label, part in table.groupby(group, sort=False):
        colour, dash, marker = STYLES[label]
        every = max(1, len(part) // 12)
        axes.plot(
            part[across],
            part[value],
            dash,
            color=colour,
            marker=marker,
            markevery=every,
            label=label,
        )


def plain_ticks(axis):
    """Label a logarithmic axis by 1, 2, 5, 10, ... instead of powers of ten."""

    def label(value, _):
        return f"{value:g}" if round(value / 10.0 ** np.floor(np.log10(value))) in (1, 2, 5) else ""

    axis.set_major_formatter(label)
    axis.set_minor_formatter(label)


def panels(table, group, across, value, title, x_scale="linear"):
    """Draw one panel for each dataset."""
    figure, grid = grid_for(table["dataset"].unique())
    for axes, (name, part) in zip(grid, table.groupby("dataset", sort=False), strict=True):
        lines(axes, part, group, across, value)
        axes.set(title=name.replace("_", " "), xlabel="number of quantiles m", ylabel=ERROR)
        axes.set(xscale=x_scale, yscale="log")
        plain_ticks(axes.yaxis)
    return finished(figure, grid, title)


def grid_for(names):
    """Return a figure with one panel for each name, two in a row."""
    n_rows, n_columns = -(-len(names) // 2), min(2, len(names))
    figure, grid = plt.subplots(
        n_rows,
        n_columns,
        figsize=(4 * n_columns, 3 * n_rows),
        squeeze=False,
        layout="constrained",
    )
    for axes in grid.flat[len(names) :]:
        axes.set_axis_off()
    return figure, list(grid.flat[: len(names)])


def finished(figure, grid, title):
    """Add what all panels share: grid lines, a legend below, the title."""
    for axes in grid:
        axes.grid(alpha=0.3)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(3, len(labels)))
    figure.suptitle(title)
    return figure


def one_panel(table, group, across, value, title, x_label, y_label):
    figure, axes = plt.subplots(figsize=(7, 4.5))
    lines(axes, table, group, across, value)
    axes.set(title=title, xlabel=x_label, ylabel=y_label, xscale="log", yscale="log")
    plain_ticks(axes.xaxis)
    plain_ticks(axes.yaxis)
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.tight_layout()
    return figure


def two_cdfs(datasets, domain):
    """Draw the CDF of each dataset and of a private stand-in for it."""
    figure, grid = grid_for(list(datasets))
    for axes, (name, values) in zip(grid, datasets.items(), strict=True):
        points = sanitize(values, 100, bounds=domain, random_state=0)
        for label, sample, colour, dash in (
            ("data", np.sort(values), "#000000", "-"),
            ("100 private points, eps = 1", points, "#D55E00", "--"),
        ):
            shares = np.arange(1, sample.size + 1) / sample.size
            axes.step(sample, shares, dash, where="post", color=colour, label=label)
        low, high = np.quantile(values, [0.005, 0.995])
        axes.set_xlim(low - (high - low) / 5, high + (high - low) / 5)
        axes.set(title=name.replace("_", " "), xlabel="value", ylabel="share of records")
    return finished(figure, grid, "Data and their private stand-in")
