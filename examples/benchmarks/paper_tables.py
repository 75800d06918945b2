"""The tables of the paper's experiments in the documentation.

    PAPER_DATA=FOLDER python examples/benchmarks/measured.py paper_eps paper_rho paper_bounds

FOLDER holds the real columns, as for examples/paper/reproduce.py, which runs more experiments. The
other tables are paper_sanitize and paper_times.
"""

import os
from collections.abc import Mapping
from functools import cache

import numpy as np
from experiments import FEWER_M, accuracy, bounds_or_not, load_datasets, run_time, sanitized
from results import Number, Table
from tables import CONTINUOUS, SHOWN_M

MECHANISMS = ("AQ", "paper's AQ", "JointExp", "AppIndExp", "AggTree")
TIMED = ("AQ", "paper's AQ", "JointExp", "published JointExp", "AppIndExp", "AggTree")


@cache
def datasets() -> Mapping[str, np.ndarray]:
    """Return the six datasets of the paper."""
    found, missing = load_datasets(os.environ.get("PAPER_DATA"))
    if missing:
        raise SystemExit(f"PAPER_DATA must be a folder with {', '.join(missing)} as CSV files.")
    return found


def errors_of_trials(trials, rho):
    """Return the errors by (dataset, mechanism, m), an array of trials each."""
    found = {}
    for trial in range(trials):
        for dataset in datasets():
            for row in accuracy(datasets(), dataset, trial, rho, FEWER_M):
                found.setdefault((row["dataset"], row["mechanism"], row["m"]), []).append(
                    row["error"]
                )
    return {key: np.array(errors) for key, errors in found.items()}


def mean_over_m(errors, dataset, mechanism):
    """Return the error of each trial, the mean over m = 1 .. 120; it is linear between the m."""
    numbers = [m for d, name, m in errors if (d, name) == (dataset, mechanism)]
    by_m = np.array([errors[dataset, mechanism, m] for m in numbers])
    return np.array([np.interp(range(1, 121), numbers, trial).mean() for trial in by_m.T])


def measure_accuracy(trials, rho, title):
    """Return errors by m, over the continuous datasets, and means over m for each dataset."""
    errors = errors_of_trials(trials, rho)
    rows = {}
    for m in SHOWN_M:
        means = [np.mean([errors[d, name, m] for d in CONTINUOUS], axis=0) for name in MECHANISMS]
        rows[f"m = {m}"] = [Number.of(of_mechanism, 1) for of_mechanism in means]
    for dataset in datasets():
        means = [mean_over_m(errors, dataset, name) for name in MECHANISMS]
        rows[f"m = 1 .. 120, {dataset}"] = [Number.of(of_mechanism, 1) for of_mechanism in means]
    return Table(title=title, columns=["", *MECHANISMS], rows=rows, trials=trials)


def measure_eps(trials):
    """Return the errors with eps = 1."""
    return measure_accuracy(
        trials,
        None,
        "Error in records with eps = 1. The rows by m are means over the four datasets that the "
        "paper classes as continuous: uniform, gaussian, goodreads_rating and goodreads_pages.",
    )


def measure_rho(trials):
    """Return the errors with rho = 1/2."""
    return measure_accuracy(trials, 0.5, "The same with rho = 1/2.")


def measure_sanitize(trials):
    """Return how far the counts of intervals are off in sanitized data, in the worst trial."""
    rows = {}
    for dataset, values in datasets().items():
        found = [sanitized(datasets(), dataset, trial)[0] for trial in range(trials)]
        worst = max(one["largest_difference"] for one in found)
        cells = [values.size, worst, found[0]["bound"], found[0]["bound"] / worst]
        rows[dataset] = [
            Number(float(cell), 0.0, decimals)
            for cell, decimals in zip(cells, (0, 0, 0, 1), strict=True)
        ]
    return Table(
        title=f"Largest difference of the counts of an interval, over all intervals, between a "
        f"dataset and 100 points of `sanitize`, in the worst of {trials} trials.",
        columns=["dataset", "records", "largest difference", "proven bound", "bound / difference"],
        rows=rows,
        trials=1,
    )


def measure_times(turns):
    """Return the milliseconds of each mechanism by m, the least of some turns."""
    found = {}
    for turn in range(turns):
        for dataset in datasets():
            for row in run_time(datasets(), dataset, turn):
                found.setdefault((row["mechanism"], row["m"]), []).append(1e3 * row["seconds"])
    return Table(
        title="Milliseconds for the quantiles of 1,000 records, eps = 1.",
        columns=["", *TIMED],
        rows={
            f"m = {m}": [Number(min(found[name, m]), 0.0, 2) for name in TIMED]
            for m in sorted({m for _, m in found})
        },
        trials=1,
    )


BOUNDED_M = (7, 31, 120)


def measure_bounds(trials):
    """Return the errors of AQ with the domain as bounds and without bounds."""
    rows = {}
    for dataset in datasets():
        found = {}
        for trial in range(trials):
            for row in bounds_or_not(datasets(), dataset, trial):
                found.setdefault((row["m"], row["variant"]), []).append(row["error"])
        rows[dataset] = [
            Number.of(found[m, variant], 1)
            for m in BOUNDED_M
            for variant in ("bounds", "no bounds")
        ]
    return Table(
        title="Error of AQ in records with eps = 1, with the domain [-100, 100] as bounds and "
        "without bounds.",
        columns=["", *(f"m = {m}, {what}" for m in BOUNDED_M for what in ("bounds", "none"))],
        rows=rows,
        trials=trials,
    )
