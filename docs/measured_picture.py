"""Draw pictures of measured tables: docs/measured/*.json."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

MEASURED = Path(__file__).parent / "measured"
COLORS = ("#D55E00", "#E69F00", "#009E73", "#0072B2", "#000000")
MARKERS = "o^svD"
BEFORE, AFTER = "#D55E00", "#0072B2"


def read(name):
    return json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))


def draw_error_by_eps(folder):
    """Draw the error of an edge against eps, a line for each real table."""
    content = read("error_by_eps")
    eps = [float(label.removeprefix("eps = ")) for label in content["rows"]]
    errors = np.array([[cell["mean"] for cell in cells] for cells in content["rows"].values()])
    fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for name, of_table, color, marker in zip(
        content["columns"][1:], errors.T, COLORS, MARKERS, strict=True
    ):
        ax.loglog(eps, of_table, color=color, marker=marker, label=name)
    ax.axhline(10, color="black", lw=1, linestyle=":")
    ax.annotate("half a bin", (eps[-1], 10), (0, 4), textcoords="offset points", ha="right")
    ax.set(xlabel="eps, shared by all features of a table", ylabel="error of an edge, % of rows")
    ax.set_xticks(eps, [f"{one:g}" for one in eps])
    ax.yaxis.set_major_formatter("{x:g}")
    ax.tick_params(which="minor", labelbottom=False, bottom=False)
    fig.legend(frameon=False, loc="outside lower center", ncols=2, fontsize=10)
    fig.savefig(folder / "error_by_eps.png", dpi=110)
    plt.close(fig)


def draw_tails(folder):
    """Draw the error of the outermost quantiles before and after the work on tails."""
    before, after = (read(name)["rows"] for name in ("values_before", "values"))
    labels = [label for label in after if label.startswith("`dp_quantiles`")][::-1]
    fig, axes = plt.subplots(1, 2, figsize=(7.4, 3.6), sharey=True, layout="constrained")
    places = np.arange(len(labels))
    for ax, column, title in zip(
        axes, (1, 2), ("error, octaves", "far outside the data, %"), strict=True
    ):
        old, new = ([rows[label][column]["mean"] for label in labels] for rows in (before, after))
        ax.hlines(places, new, old, color="0.75")
        ax.plot(old, places, "s", color=BEFORE, label="before")
        ax.plot(new, places, "o", color=AFTER, label="now")
        ax.set(xlabel=title, xlim=(-0.03 * max(old), None))
    axes[0].set_yticks(places, [label.removeprefix("`dp_quantiles`, ") for label in labels])
    axes[1].tick_params(left=False)
    fig.legend(
        *axes[0].get_legend_handles_labels(), frameon=False, loc="outside upper right", ncols=2
    )
    fig.savefig(folder / "tails.png", dpi=110)
    plt.close(fig)


MECHANISMS = {
    "AQ": ("#0072B2", "o"),
    "paper's AQ": ("#56B4E9", "v"),
    "JointExp": ("#D55E00", "s"),
    "published JointExp": ("#E69F00", "D"),
    "AppIndExp": ("#009E73", "^"),
    "AggTree": ("#CC79A7", "x"),
}


def by_m(name):
    """Return the numbers of quantiles of a table, and the means and errors of each mechanism."""
    content = read(name)
    rows = {
        int(label.removeprefix("m = ")): cells
        for label, cells in content["rows"].items()
        if label.removeprefix("m = ").isdigit()
    }
    cells = np.array([[(cell["mean"], cell["error"]) for cell in row] for row in rows.values()])
    return list(rows), dict(zip(content["columns"][1:], np.moveaxis(cells, 1, 0), strict=True))


def draw_mechanisms(ax, name):
    """Draw a line for each mechanism against the number of quantiles."""
    numbers, found = by_m(name)
    for mechanism, (means, errors) in ((one, cells.T) for one, cells in found.items()):
        color, marker = MECHANISMS[mechanism]
        style = {"color": color, "marker": marker, "ms": 5, "lw": 1.5, "label": mechanism}
        ax.errorbar(numbers, means, errors, **style)
    ticks = [m for m in (1, 2, 3, 5, 7, 15, 31, 63, 120) if m <= numbers[-1]]
    ax.set(xscale="log", yscale="log", xlabel="number of quantiles m")
    ax.set_xticks(ticks, map(str, ticks), fontsize=10)
    ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    low, high = ax.get_ylim()
    ticks = [t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200) if low < t < high]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.tick_params(axis="y", which="minor", left=False, labelleft=False)
    ax.grid(alpha=0.3)


def draw_paper(folder):
    """Draw the errors and the times of the paper's experiments."""
    fig, axes = plt.subplots(1, 2, figsize=(8, 4.4), sharey=True, layout="constrained")
    for ax, name, title in zip(
        axes, ("paper_eps", "paper_rho"), ("eps = 1", "rho = 1/2"), strict=True
    ):
        draw_mechanisms(ax, name)
        ax.set_title(title)
    axes[0].set_ylabel("mean error, records")
    handles = axes[0].get_legend_handles_labels()
    fig.legend(*handles, frameon=False, loc="outside lower center", ncols=5, fontsize=10)
    fig.savefig(folder / "paper_errors.png", dpi=100)

    fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    draw_mechanisms(ax, "paper_times")
    ax.set_ylabel("time, milliseconds")
    fig.legend(frameon=False, loc="outside lower center", ncols=3, fontsize=10)
    fig.savefig(folder / "paper_times.png", dpi=100)
    plt.close("all")
