"""Draw the pictures of "Is my data enough?", and a pipeline with its private parts."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import BoundaryNorm, ListedColormap

from dpq_sklearn import PrivacyNoiseWarning, suggest_n_bins
from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.forecast.enough_data import errors_in_bins
from dpq_sklearn.forecast.expected_error import plan_alike

ROWS = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000, 1_000_000]
FEATURES = [1, 2, 5, 10, 20, 50, 100]
ALL_EPS = [0.1, 0.3, 1.0]
BINS = [1, 2, 4, 8, 16, 32, 64]
PRIVATE, NOT_PRIVATE, BREAKS = "#CFE3F3", "#FBDCC8", "#E8736B"
DARK_BLUE, DARK_ORANGE = "#0072B2", "#D55E00"


def short(number):
    """Return a number as it is written on an axis: 1k, 1M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number // size}{letter}"
    return str(number)


def bins_that_work(eps, delta):
    """Return the suggested number of bins for each number of features and rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyNoiseWarning)
        return np.array(
            [
                [suggest_n_bins(n, n_features=d, eps=eps, delta=delta) for n in ROWS]
                for d in FEATURES
            ]
        )


def draw_bins(folder):
    """Heat maps: rows x features -> bins, for three eps, without a delta and with one."""
    colors = ["0.8", *plt.get_cmap("viridis_r")(np.linspace(0.08, 0.9, len(BINS) - 1))]
    norm = BoundaryNorm([*BINS, 128], len(BINS))
    for name, delta in (("chooser_bins.png", 0.0), ("chooser_bins_delta.png", 1e-6)):
        fig, axes = plt.subplots(3, 1, figsize=(6.4, 8.2), sharex=True, layout="constrained")
        for ax, eps in zip(axes, ALL_EPS, strict=True):
            bins = bins_that_work(eps, delta)
            ax.imshow(bins, cmap=ListedColormap(colors), norm=norm, aspect="auto", origin="lower")
            for (row, column), n in np.ndenumerate(bins):
                text = str(n) if n > 1 else "-"
                ax.text(column, row, text, ha="center", va="center", color="w" if n > 8 else "k")
            ax.set(ylabel="features", title=f"eps = {eps:g}" + (", delta = 1e-6" if delta else ""))
            ax.set_yticks(range(len(FEATURES)), FEATURES)
            ax.tick_params(length=0)
            ax.spines[:].set_visible(False)
        axes[-1].set_xticks(range(len(ROWS)), map(short, ROWS))
        axes[-1].set_xlabel("rows (-: too few for two bins)")
        fig.savefig(folder / name, dpi=100)
        plt.close(fig)


def draw_error(folder):
    """The expected error of an edge in bins against the rows, beside half a bin."""
    rows = np.geomspace(100, 100_000, 61).round().astype(int)
    fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    styles = [(DARK_ORANGE, ":"), ("#009E73", "--"), (DARK_BLUE, "-")]
    for eps, (color, line) in zip(ALL_EPS, styles, strict=True):
        plan = plan_alike(5, 5, TotalBudget(eps, 0.0, None))
        errors = [errors_in_bins(plan, int(n)).mean() for n in rows]
        ax.loglog(rows, errors, color=color, linestyle=line, label=f"eps = {eps:g}")
    ax.axhline(0.5, color="black", lw=1, linestyle=":")
    ax.annotate("half a bin: the fit warns above", (100_000, 0.5), (0, 4),
                textcoords="offset points", ha="right")  # fmt: skip
    ax.set(
        xlabel="rows", ylabel="expected error of an edge, bins",
        title="Five bins of five features that share eps",
    )  # fmt: skip
    ax.legend(frameon=False, loc="lower left")
    fig.savefig(folder / "chooser_error.png", dpi=100)
    plt.close(fig)


def box(ax, x, y, width, height, text, color, **options):
    """Draw a box with words in it."""
    ax.add_patch(plt.Rectangle((x, y), width, height, fc=color, ec="0.4", lw=1))
    options = {"fontsize": 11, **options}
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", **options)


def arrow(ax, start, end, text=""):
    """Draw an arrow with a word beside it."""
    ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "lw": 1.5})
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    ax.text(x, y + 0.06, text, ha="center", va="bottom", fontsize=10)


def blank(width, height):
    """Return axes without axes, one unit an inch."""
    fig, ax = plt.subplots(figsize=(width, height), layout="constrained")
    ax.set(xlim=(0, width), ylim=(0, height))
    ax.axis("off")
    return fig, ax


def draw_pipeline(folder):
    """A pipeline, and which of its parts may leave the circle of those who hold the data."""
    fig, ax = blank(6.4, 5.4)
    box(ax, 0.1, 4.5, 2.3, 0.7, "the rows", NOT_PRIVATE)
    box(ax, 0.1, 3.1, 2.3, 0.8, "DPKBinsDiscretizer\neps = 0.5", PRIVATE)
    box(ax, 3.7, 3.1, 2.6, 0.8, "edges, privacy_,\nquality_report(),\nto_sklearn()", PRIVATE)
    box(ax, 0.1, 1.7, 2.3, 0.8, "transformed rows", NOT_PRIVATE)
    box(ax, 0.1, 0.3, 2.3, 0.8, "ordinary model", NOT_PRIVATE)
    box(ax, 3.7, 0.3, 2.6, 0.8, "private model, eps = 0.5:\nthe pipeline has eps = 1", PRIVATE)
    box(ax, 3.7, 4.5, 2.6, 0.7, "a scaler or imputer here\ninvalidates the guarantee", BREAKS)
    arrow(ax, (1.25, 4.5), (1.25, 3.9))
    arrow(ax, (2.4, 3.5), (3.7, 3.5), "fit")
    arrow(ax, (1.25, 3.1), (1.25, 2.5))
    ax.text(1.35, 2.8, "transform", va="center", fontsize=10)
    arrow(ax, (1.25, 1.7), (1.25, 1.1))
    arrow(ax, (2.4, 2.1), (4.4, 1.1), "or")
    ax.plot([1.25, 3.7], [4.2, 4.75], color="0.4", lw=1, linestyle=":")
    legend = "blue: may be published\norange: must not be published\nred: breaks the guarantee"
    ax.text(4.9, 2.35, legend, ha="center", va="center", fontsize=10)
    fig.savefig(folder / "chooser_pipeline.png", dpi=100)
    plt.close(fig)


def draw_chooser(folder):
    """Draw all of them."""
    draw_bins(folder)
    draw_error(folder)
    draw_pipeline(folder)
