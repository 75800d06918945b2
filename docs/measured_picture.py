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
