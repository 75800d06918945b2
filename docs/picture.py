"""Draw the pictures that are kept with the sources: python docs/picture.py."""

import runpy
from pathlib import Path

import gallery_style
import matplotlib.pyplot as plt
from chooser_picture import draw_chooser
from walk_picture import draw_base_measures, draw_walk

HERE = Path(__file__).parent


def run(example):
    """Run an example, leave its figure open, and return its names."""
    return runpy.run_path(str(HERE.parent / "examples" / f"{example}.py"))


def draw_quickstart():
    """The quickstart prints and draws nothing: its card shows a part of what it prints."""
    names = run("quickstart")
    exact, private = names["exact"][1], names["private"].bin_edges_[1][1:-1]
    figure = plt.figure(figsize=(6, 4))
    columns = [("exact", exact, "black", 0.45), ("private", private, "#D55E00", 0.93)]
    for title, edges, color, right in columns:
        lines = [title, *(f"{edge:,.0f}" for edge in edges)]
        for line, text in enumerate(lines):
            place = (right, 0.85 - 0.22 * line)
            figure.text(*place, text, color=color, ha="right", va="center", fontsize=30)


def main():
    plt.switch_backend("agg")
    gallery_style.set_style(None, None)
    run("plot_what_leaks")
    plt.savefig(HERE / "_static" / "what_leaks.png", dpi=110)
    plt.close()
    draw_quickstart()
    plt.savefig(HERE / "_static" / "quickstart.png", dpi=60)
    draw_walk(HERE / "_static")
    draw_base_measures(HERE / "_static")
    draw_chooser(HERE / "_static")


if __name__ == "__main__":
    main()
