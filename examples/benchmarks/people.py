"""How accurate are three ways to user-level privacy? The numbers of examples/plot_people.py.

python examples/benchmarks/measured.py people
"""

import runpy
from pathlib import Path

import matplotlib
from results import Number, Table

EXAMPLE = Path(__file__).parents[1] / "plot_people.py"


def measure(trials):
    """Return the errors in people, the mean over the quartiles."""
    matplotlib.use("agg")
    found = runpy.run_path(str(EXAMPLE))["errors"]
    ways = next(iter(found.values()))
    return Table(
        title="How many of 100 people lie between a private quartile and the exact one, the mean "
        "over the quartiles.",
        columns=["", *found],
        rows={
            way: [Number.of(of_ways[way][:trials].mean(axis=1), 2) for of_ways in found.values()]
            for way in ways
        },
        trials=trials,
    )
