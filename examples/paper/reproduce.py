"""Reproduce the paper's experiments, and two more: one command, CSV tables and figures.

    python examples/paper/reproduce.py [--trials N] [--fewer-m] [--data FOLDER] [--out FOLDER]

`--data` is a folder with goodreads_rating.csv, goodreads_pages.csv, adult_hours.csv and
adult_age.csv (one column under one line of header). Those that are not there are skipped.
The tables of the documentation come from examples/benchmarks/paper_tables.py.
"""

import argparse
import multiprocessing
import random
import sys
import time
from pathlib import Path

import experiments
import figures
import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
import tables


class Progress:
    """A bar on stderr, and how long it will still take, judged by the time so far."""

    def __init__(self, n_jobs):
        self.n_jobs, self.done, self.start, self.shown = n_jobs, 0, time.monotonic(), 0.0

    def step(self, label):
        self.done += 1
        now = time.monotonic()
        if self.done < self.n_jobs and now - self.shown < 0.2:
            return
        self.shown = now
        left = (now - self.start) / self.done * (self.n_jobs - self.done)
        filled = 30 * self.done // self.n_jobs
        bar = "#" * filled + "." * (30 - filled)
        text = f"\r[{bar}] {self.done}/{self.n_jobs}  {left / 60:4.1f} min left  {label:<18}"
        sys.stderr.write(text + ("\n" if self.done == self.n_jobs else ""))
        sys.stderr.flush()


_datasets = {}


def _set_datasets(datasets):
    _datasets.update(datasets)


def _work(job):
    experiment, function, arguments = job
    takes_data = function.__code__.co_varnames[0] == "datasets"
    return experiment, function(*((_datasets,) if takes_data else ()), *arguments)


def run_all(datasets, trials, processes, mechanisms):
    """Return {experiment: table of all its rows}."""
    by_experiment = experiments.jobs_of(datasets, trials, mechanisms)
    jobs = [(name, *job) for name, jobs in by_experiment.items() for job in jobs]
    # Times are measured alone, everything else in several processes.
    alone = [job for job in jobs if job[1] is experiments.run_time]
    others = [job for job in jobs if job[1] is not experiments.run_time]
    random.Random(0).shuffle(others)  # long and short ones mixed: the time left can be judged
    rows = {name: [] for name in by_experiment}
    progress = Progress(len(jobs))
    with multiprocessing.Pool(processes, _set_datasets, (datasets,)) as pool:
        for name, found in pool.imap_unordered(_work, others):
            rows[name] += found
            progress.step(name)
    _set_datasets(datasets)
    for job in alone:
        name, found = _work(job)
        rows[name] += found
        progress.step(name)
    return {name: pd.DataFrame(found) for name, found in rows.items()}


def in_order(column):
    """Return the sort key of a column of names (as the experiments list them) or numbers."""
    listed = (*experiments.NAMES, *figures.STYLES)
    return column.map(listed.index) if column.iloc[0] in listed else column


def means(table, keys, value):
    """Return mean and standard error of `value` for each combination of keys."""
    table = table.sort_values(keys, key=in_order, kind="stable")
    grouped = table.groupby(keys, sort=False)[value]
    result = grouped.agg(["mean", "sem", "count"]).reset_index()
    return result.rename(columns={"mean": value, "sem": "standard_error", "count": "trials"})


def summaries(rows):
    """Return {experiment: table of means}."""
    keys_and_value = {
        "1_accuracy_dp": (["dataset", "mechanism", "m"], "error"),
        "3_accuracy_zcdp": (["dataset", "mechanism", "m"], "error"),
        "5_run_time": (["mechanism", "m"], "seconds"),
        "6_bounds": (["dataset", "variant", "m"], "error"),
        "7_sample_size": (["mechanism", "n"], "error"),
        "7_features": (["accounting", "features"], "error"),
    }
    found = {name: means(rows[name], *how) for name, how in keys_and_value.items()}
    worst = rows["8_sanitize"].sort_values("dataset", key=in_order, kind="stable")
    found["8_sanitize"] = worst.groupby("dataset", sort=False).max().reset_index()
    return found


def draw_all(found, datasets):
    """Return {name: figure}."""
    per_m = ("mechanism", "m", "error")
    trials = found["1_accuracy_dp"]["trials"].max()
    what = f"Error against the number of quantiles, n = 1000, {trials} trials,"
    drawn = {}
    for name, zoom, title in (
        ("1_accuracy_dp", "2_accuracy_dp_zoom", f"{what} eps = 1"),
        ("3_accuracy_zcdp", "4_accuracy_zcdp_zoom", f"{what} rho = 1/2"),
    ):
        table = found[name]
        drawn[name] = figures.panels(table, *per_m, title)
        drawn[zoom] = figures.panels(table[table.m <= 35], *per_m, title)
    for name, columns, title, x_label, y_label in (
        (
            "5_run_time",
            ("mechanism", "m", "seconds"),
            "Run time, n = 1000, eps = 1",
            "number of quantiles m",
            "time, seconds",
        ),
        (
            "7_sample_size",
            ("mechanism", "n", "error"),
            "Error of 7 quantiles, gaussian, eps = 1",
            "number of records n",
            figures.ERROR,
        ),
        (
            "7_features",
            ("accounting", "features", "error"),
            "Features that share eps = 1, delta = 1e-6; 7 quantiles, n = 10,000",
            "number of features",
            figures.ERROR,
        ),
    ):
        drawn[name] = figures.one_panel(found[name], *columns, title, x_label, y_label)
    title = "AQ with and without bounds, eps = 1"
    drawn["6_bounds"] = figures.panels(
        found["6_bounds"], "variant", "m", "error", title, x_scale="log"
    )
    drawn["8_sanitize"] = figures.two_cdfs(datasets, experiments.DOMAIN)
    return drawn


def write_all(rows, datasets, out):
    """Write a CSV of means for each experiment, its figures, and tables by m."""
    out.mkdir(parents=True, exist_ok=True)
    found = summaries(rows)
    for name, table in found.items():
        table.to_csv(out / f"{name}.csv", index=False, float_format="%.6g")
    for name, table in tables.all_tables(found).items():
        table.round(2).to_csv(out / f"paper_{name}.csv")
    for name, figure in draw_all(found, datasets).items():
        figure.savefig(out / f"{name}.png", dpi=120)
        plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100, help="samples of each dataset")
    parser.add_argument(
        "--fewer-m", action="store_true", help="slow mechanisms only for the m of the tables"
    )
    parser.add_argument("--data", help="folder with the real columns")
    parser.add_argument(
        "--out", type=Path, default=Path("paper_results"), help="folder to write to"
    )
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    matplotlib.use("Agg")
    datasets, missing = experiments.load_datasets(arguments.data)
    for name in missing:
        print(f"{name}: no {name}.csv in --data, skipped")
    mechanisms = experiments.FEWER_M if arguments.fewer_m else experiments.MECHANISMS
    rows = run_all(datasets, arguments.trials, arguments.processes, mechanisms)
    write_all(rows, datasets, arguments.out)
    print(f"tables and figures written to {arguments.out}")


if __name__ == "__main__":
    main()
