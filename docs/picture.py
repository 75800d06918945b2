"""Draw the pictures that are kept with the sources: python docs/picture.py [--data FOLDER]."""

import argparse
import runpy
from pathlib import Path

import gallery_style
import matplotlib.pyplot as plt
import numpy as np
from chooser_picture import draw_chooser
from measured_picture import draw_error_by_eps, draw_paper, draw_tails
from walk_picture import draw_base_measures, draw_trees, draw_walk

from dpq_sklearn import dp_quantiles

HERE = Path(__file__).parent


def run(example):
    """Run an example, leave its figure open, and return its names."""
    return runpy.run_path(str(HERE.parent / "examples" / f"{example}.py"))


COLUMNS = {
    "adult_age": "age, years",
    "adult_hours": "hours of work a week",
    "goodreads_pages": "pages of a book",
    "goodreads_rating": "rating of a book",
}


def draw_private_against_exact(folder):
    """Exact and private edges of eight bins, on the columns of the paper's experiments."""
    figure, axes = plt.subplots(len(COLUMNS), figsize=(6.4, 5.2), layout="constrained")
    for ax, (name, label) in zip(axes, COLUMNS.items(), strict=True):
        x = np.loadtxt(folder / f"{name}.csv", skiprows=1)
        probabilities = np.arange(1, 8) / 8
        exact = np.quantile(x, probabilities)
        private = dp_quantiles(x, probabilities, eps=0.25)
        low, high = np.quantile(x, (0.002, 0.995))
        step = max(1.0, (high - low) // 80) if np.all(x == x.round()) else (high - low) / 80
        ax.hist(x, np.arange(low - step / 2, high + step, step), color="0.85")
        ax.vlines(exact, 0.5, 1, transform=ax.get_xaxis_transform(), color="black", label="exact")
        ax.vlines(
            private, 0, 0.5, transform=ax.get_xaxis_transform(), color="#D55E00", label="private"
        )
        ax.set(yticks=[], xlabel=f"{label} ({x.size:,} rows)")
        ax.spines[["left", "right", "top"]].set_visible(False)
    axes[0].legend(loc="upper right", frameon=False)
    figure.supylabel("rows")
    figure.savefig(HERE / "_static" / "private_against_exact.png", dpi=110)
    plt.close(figure)


def main():
    plt.switch_backend("agg")
    gallery_style.set_style(None, None)
    run("plot_what_leaks")
    plt.savefig(HERE / "_static" / "what_leaks.png", dpi=110)
    plt.close()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the columns of the paper")
    folder = parser.parse_args().data
    if folder is not None:
        draw_private_against_exact(folder)
    draw_walk(HERE / "_static")
    draw_trees(HERE / "_static")
    draw_base_measures(HERE / "_static")
    draw_error_by_eps(HERE / "_static")
    draw_tails(HERE / "_static")
    draw_paper(HERE / "_static")
    draw_chooser(HERE / "_static")


if __name__ == "__main__":
    main()
