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
    "zCDP": ("#009E73", "-", "^"),
    "best": ("#0072B2", "--", "o"),
    "bounds": ("#0072B2", "-", "o"),
    "no bounds": ("#D55E00", "--", "s"),
}
ERROR = "gap per quantile (records)"


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


def panels(table, group, across, value, title, log_x=False):
    """Draw one panel for each dataset."""
    names = list(table["dataset"].unique())
    figure, grid = plt.subplots(
        -(-len(names) // 3),
        min(3, len(names)),
        figsize=(12, 3.5 * -(-len(names) // 3)),
        squeeze=False,
    )
    for axes, name in zip(grid.flat, names, strict=False):
        lines(axes, table[table["dataset"] == name], group, across, value)
        axes.set(title=name.replace("_", " "), xlabel="number of quantiles m", ylabel=ERROR)
        axes.set_yscale("log")
        if log_x:
            axes.set_xscale("log")
        axes.grid(alpha=0.3)
    for axes in list(grid.flat)[len(names) :]:
        axes.set_axis_off()
    grid.flat[0].legend()
    figure.suptitle(title)
    figure.tight_layout()
    return figure


def one_panel(table, group, across, value, title, x_label, y_label):
    figure, axes = plt.subplots(figsize=(7, 4.5))
    lines(axes, table, group, across, value)
    axes.set(title=title, xlabel=x_label, ylabel=y_label, xscale="log", yscale="log")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.tight_layout()
    return figure


def two_cdfs(datasets, domain):
    """Draw the CDF of each dataset and of a private stand-in for it."""
    figure, grid = plt.subplots(2, 3, figsize=(12, 7), squeeze=False)
    for axes, (name, values) in zip(grid.flat, datasets.items(), strict=False):
        points = sanitize(values, 100, bounds=domain, random_state=0)
        for label, sample, colour, dash in (
            ("data", np.sort(values), "#000000", "-"),
            ("100 private points, eps = 1", points, "#D55E00", "--"),
        ):
            shares = np.arange(1, sample.size + 1) / sample.size
            axes.step(sample, shares, dash, where="post", color=colour, label=label)
        margin = np.ptp(np.quantile(values, [0.01, 0.99])) / 5
        axes.set_xlim(*(np.quantile(values, [0.005, 0.995]) + np.array([-margin, margin])))
        axes.set(title=name.replace("_", " "), xlabel="value", ylabel="share of records")
        axes.grid(alpha=0.3)
    for axes in list(grid.flat)[len(datasets) :]:
        axes.set_axis_off()
    grid.flat[0].legend()
    figure.suptitle("Data and their private stand-in")
    figure.tight_layout()
    return figure
