"""
What do batches, threads and Dask cost, and how does the cost grow?

Everything is compared within one run, and every ratio is printed. The parts:

    batches   one column in batches of 10^6 against making and sorting the batches; peak memory
    jobs      fit and transform with two threads against one
    dask      a Parquet folder on two workers against dask_ml's QuantileTransformer (or, without
              dask_ml, against the quantile method of a dask DataFrame), with exact rank errors
    cost      time against the number of rows and of columns: a table, and a figure in --out
    model     what a summary weighs and what counting takes, worked out to 10^10 rows

    python examples/benchmarks/bench_large_data.py batches jobs dask cost model [--scale 0.1]
"""

import argparse
import os
import resource
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from timing import best_seconds, seconds

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.reading import threads
from dpq_sklearn.reading.summaries import SUMMARY_RESOLUTION, SummaryBuilder, merge, summarize

ROWS_PER_BATCH = 10**6


def made_batches(n_rows, n_columns=1, seed=0):
    """Yield batches of log-normal rows, made on the fly."""
    rng = np.random.default_rng(seed)
    for start in range(0, n_rows, ROWS_PER_BATCH):
        yield rng.lognormal(size=(min(ROWS_PER_BATCH, n_rows - start), n_columns))


def peak_megabytes():
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def bench_batches(scale, out):
    n_rows = int(1e8 * scale)
    print(f"\n{n_rows:,} x 1 in batches of {ROWS_PER_BATCH:,}, made on the fly")
    print(f"memory before:{peak_megabytes():23.0f} MB")
    discretizer = DPKBinsDiscretizer(8)
    fit_time = seconds(lambda: discretizer.fit_batches(made_batches(n_rows)))
    print(f"peak memory:{peak_megabytes():25.0f} MB")
    sort_time = seconds(lambda: [batch.sort(axis=0) for batch in made_batches(n_rows)])
    print(f"make the batches, np.sort each:{sort_time:6.1f} s")
    print(f"fit_batches:{fit_time:25.1f} s, {fit_time / sort_time:.2f} times that")
    cdf_time = seconds(lambda: DPQuantileTransformer(63).fit_batches(made_batches(n_rows)))
    print(f"the same, 63 quantiles:{cdf_time:14.1f} s, {cdf_time / sort_time:.2f} times that")
    edges = discretizer.bin_edges_[0][1:-1]
    below = sum((batch < edges).sum(axis=0) for batch in made_batches(n_rows))
    errors = np.abs(below / n_rows - np.arange(1, 8) / 8)
    print(f"largest rank error:{errors.max():18.1e} of the rows")


def bench_jobs(scale, out):
    n_rows = int(1e6 * scale)
    X = np.random.default_rng(0).lognormal(size=(n_rows, 10))
    print(f"\n{n_rows:,} x 10: n_jobs=2 beside n_jobs=1; medians of the ratios, as timed and (on")
    print("Linux) without the time in which a thread was ready but all cores were busy")
    print(f"{'':32} {'n_jobs=2':>12} {'n_jobs=1':>12} {'timed':>7} {'cores free':>12}")
    cases = {
        "5 bins": DPKBinsDiscretizer,
        "5 bins, ordinal": partial(DPKBinsDiscretizer, encode="ordinal"),
        "63 quantiles": partial(DPQuantileTransformer, 63),
        "63 quantiles, normal": partial(DPQuantileTransformer, 63, output_distribution="normal"),
    }
    for name, make in cases.items():
        one, two = (make(n_jobs=n).fit(X) for n in (1, 2))
        for method in ("fit", "transform"):
            functions = [partial(getattr(e, method), X) for e in (one, two)]
            times = np.array([[watched_seconds(f) for f in functions] for _ in range(12)])
            one_best, two_best = 1e3 * times[:, :, 0].min(axis=0)
            timed, free = np.median(times[:, 0] / times[:, 1], axis=0)
            print(
                f"{f'{method}, {name}':32} {two_best:9.1f} ms {one_best:9.1f} ms "
                f"{timed:7.2f} {free:12.2f}",
                flush=True,
            )


class WatchedPool(ThreadPoolExecutor):
    """Threads that tell how long they were ready to run but had no core."""

    waited = 0.0

    def __init__(self, n_threads):
        self._began = {}
        super().__init__(n_threads, initializer=self._begin)

    def _begin(self):
        self._began[threading.get_native_id()] = seconds_without_core()

    def __exit__(self, *exception):
        waits = [seconds_without_core(i) - before for i, before in list(self._began.items())]
        WatchedPool.waited += min(waits)  # the least, so as not to flatter
        return super().__exit__(*exception)


def seconds_without_core(thread=None):
    """Return how long a thread has waited for a core so far; 0 where nobody knows."""
    path = f"/proc/self/task/{thread or threading.get_native_id()}/schedstat"
    if not os.path.exists(path):
        return 0.0
    with open(path) as file:
        return int(file.read().split()[1]) / 1e9


def watched_seconds(function):
    """Return the time that a function takes, and the same without the waiting for a core."""
    threads.ThreadPoolExecutor = WatchedPool
    WatchedPool.waited, before = 0.0, seconds_without_core()
    taken = seconds(function)
    return taken, taken - WatchedPool.waited - (seconds_without_core() - before)


def write_parquet(folder, n_rows, n_files):
    """Write n_files of five columns; return the columns."""
    import pandas as pd

    columns = {name: [] for name in "abcde"}
    for index in range(n_files):
        rng = np.random.default_rng(index)
        rows = n_rows // n_files
        frame = pd.DataFrame(
            {
                "a": rng.normal(size=rows),
                "b": rng.lognormal(10, 1, size=rows).round(2),
                "c": rng.integers(18, 90, size=rows).astype(np.float64),
                "d": rng.uniform(size=rows),
                "e": 1.7e9 + rng.uniform(0, 3e7, size=rows).round(),
            }
        )
        frame.to_parquet(os.path.join(folder, f"part{index:03}.parquet"))
        for name in columns:
            columns[name].append(frame[name].to_numpy())
    return {name: np.sort(np.concatenate(parts)) for name, parts in columns.items()}


def largest_rank_errors(ascending, values, shares):
    """Return the distance of each share from the ranks of its value, as shares; ties are fine."""
    n = ascending.size
    low = np.searchsorted(ascending, values, side="left") / n
    high = np.searchsorted(ascending, values, side="right") / n
    return np.maximum(np.maximum(low - shares, shares - high), 0).max()


def bench_dask(scale, out):
    import dask.dataframe as dd
    import distributed

    n_rows = int(2e7 * scale)
    with tempfile.TemporaryDirectory() as folder:
        columns = write_parquet(folder, n_rows, 20)
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        )
        with cluster, distributed.Client(cluster):
            frame = dd.read_parquet(folder)
            shares = np.arange(1, 64) / 64
            peers = dask_peers(frame, shares)
            fitted = {}

            def ours():
                fitted["dpq_sklearn"] = DPQuantileTransformer(63).fit(dd.read_parquet(folder))

            print(f"\n{n_rows:,} x 5 from Parquet, two workers, 63 quantiles")
            times = best_seconds([ours, *peers.values()], 3)
            values = {"dpq_sklearn": private_quantiles(fitted["dpq_sklearn"], shares)}
            values |= {name: peer() for name, peer in peers.items()}
            for (name, found), time_taken in zip(values.items(), times, strict=True):
                errors = [
                    largest_rank_errors(columns[column], found[:, index], shares)
                    for index, column in enumerate(columns)
                ]
                errors = "  ".join(f"{error:.1e}" for error in errors)
                ratio = times[0] / time_taken
                print(f"{name:32}{time_taken:7.2f} s, ratio {ratio:5.2f}, rank errors {errors}")


def dask_peers(frame, shares):
    """Return functions that find the quantiles in other ways."""
    peers = {"ddf.quantile": lambda: np.asarray(frame.quantile(list(shares)).compute())}
    try:
        from dask_ml.preprocessing import QuantileTransformer
    except ImportError:
        return peers

    def dask_ml():
        fitted = QuantileTransformer(n_quantiles=65).fit(frame)
        return np.asarray(fitted.quantiles_)[1:-1]

    return {"dask_ml.QuantileTransformer": dask_ml} | peers


def private_quantiles(transformer, shares):
    """Return the private quantiles without the tails."""
    inner = np.searchsorted(transformer.references_, shares)
    return transformer.quantiles_[inner]


def bench_cost(scale, out):
    n_of_rows = [int(n) for n in 10.0 ** np.arange(4, 8.1 + np.log10(scale), 0.5)]
    by_rows = {"fit": {}, "fit_batches": {}}
    for n in n_of_rows:
        repetitions = 5 if n < 10**6 else 1
        if n <= 2 * 10**7:
            fit = partial(DPKBinsDiscretizer().fit, np.concatenate(list(made_batches(n))))
            by_rows["fit"][n] = min(seconds(fit) for _ in range(repetitions))
        times = [batch_seconds(n) for _ in range(repetitions)]
        by_rows["fit_batches"][n] = min(times)
    by_columns = {"fit": {}, "fit, delta=1e-6": {}, "transform": {}}
    n_rows = int(1e5 * scale)
    for d in (1, 3, 10, 30, 100, 300, 1000):
        X = np.random.default_rng(0).normal(size=(n_rows, d))
        pure, approximate = (DPKBinsDiscretizer(delta=delta).fit(X) for delta in (0.0, 1e-6))
        by_columns["fit"][d] = seconds(partial(pure.fit, X))
        by_columns["fit, delta=1e-6"][d] = seconds(partial(approximate.fit, X))
        by_columns["transform"][d] = seconds(partial(pure.transform, X))
    print_cost("seconds against rows, 1 column, 5 bins", by_rows, 10**6)
    print_cost(f"seconds against columns, {n_rows:,} rows, 5 bins", by_columns, 10)
    if out is not None:
        plot_cost(by_rows, by_columns, n_rows, out)


def batch_seconds(n_rows):
    """Return how long `fit_batches` takes, without the making of the batches."""
    making = 0.0

    def timed_batches():
        nonlocal making
        start = time.perf_counter()
        for batch in made_batches(n_rows):
            making += time.perf_counter() - start
            yield batch
            start = time.perf_counter()

    return seconds(lambda: DPKBinsDiscretizer().fit_batches(timed_batches())) - making


def slope(times, least):
    """Return the slope of log time against log size, for sizes from `least` on."""
    sizes = [size for size in times if size >= least]
    if len(sizes) < 2:
        return float("nan")
    return np.polyfit(np.log(sizes), np.log([times[size] for size in sizes]), 1)[0]


def print_cost(title, table, least):
    print(f"\n{title}")
    for name, times in table.items():
        cells = "  ".join(f"{size:.0e}: {taken:.2g}" for size, taken in times.items())
        print(f"{name:18}{cells}\n{'':18}slope from {least:,} on: {slope(times, least):.2f}")


def plot_cost(by_rows, by_columns, n_rows, out):
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    parts = (
        (axes[0], by_rows, 10**6, "rows (1 column)"),
        (axes[1], by_columns, 10, f"columns ({n_rows:,} rows)"),
    )
    for ax, table, least, label in parts:
        for name, times in table.items():
            text = f"{name}: slope {slope(times, least):.2f}"
            ax.loglog(list(times), list(times.values()), "o-", label=text)
        ax.set(xlabel=label, ylabel="seconds")
        ax.legend()
        ax.grid(alpha=0.3)
    os.makedirs(out, exist_ok=True)
    figure.savefig(os.path.join(out, "large_data_cost.png"), dpi=120)
    print(f"figure: {os.path.join(out, 'large_data_cost.png')}")


def bench_model(scale, out):
    """Measure what counting and merging take, then work out larger numbers."""
    grid = make_grid([(-np.inf, np.inf)], SUMMARY_RESOLUTION)
    rng = np.random.default_rng(0)
    builder, n_rows = SummaryBuilder(grid, 0), int(2e7 * scale)
    counting = 0.0
    for batch in made_batches(n_rows):
        start = time.perf_counter()
        builder.add(batch[:, 0])
        counting += time.perf_counter() - start
    whole = builder.summary()
    partition = rng.lognormal(size=ROWS_PER_BATCH)
    (summarizing,) = best_seconds([lambda: summarize(partition, grid, 0)], 5)
    parts = [summarize(rng.lognormal(size=ROWS_PER_BATCH), grid, 0) for _ in range(8)]
    (merging,) = best_seconds([lambda: merge(*parts)], 5)
    pairs = sum(part.cells.size for part in parts)
    print(f"\nmeasured: one log-normal column, {SUMMARY_RESOLUTION} bits")
    print(f"counting, in batches{1e9 * counting / n_rows:22.1f} ns a row")
    print(f"summary of a partition{1e9 * summarizing / ROWS_PER_BATCH:20.1f} ns a row")
    print(f"merging{1e9 * merging / pairs:35.1f} ns a pair")
    print(f"pairs of {n_rows:,} rows{whole.cells.size:20,}, {16 * whole.cells.size / 1e6:.0f} MB")
    most = 16 * 2**SUMMARY_RESOLUTION / 1e6
    print(f"pairs at most{2**SUMMARY_RESOLUTION:29,}, {most:.0f} MB")
    print("\ncomputed, not measured: one column, partitions of 10^7 rows, merged by 8")
    print(f"{'rows':>8}{'one core':>14}{'100 cores':>14}{'merge depth':>14}{'moved':>12}")
    for n in (1e8, 1e9, 1e10):
        partitions = n / 1e7
        depth = int(np.ceil(np.log(partitions) / np.log(8)))
        merges = partitions * whole.cells.size * 8 / 7 * merging / pairs
        alone, shared = n * counting / n_rows, n * summarizing / ROWS_PER_BATCH + merges
        moved = partitions * whole.cells.size * 8 / 1e9
        times = f"{alone:12,.0f} s{shared / 100:12,.1f} s"
        print(f"{n:8.0e}{times}{depth:14}{moved:9,.1f} GB")


PARTS = {
    "batches": bench_batches,
    "jobs": bench_jobs,
    "dask": bench_dask,
    "cost": bench_cost,
    "model": bench_model,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full sizes")
    parser.add_argument("--out", default=None, help="folder for the figure")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", FutureWarning)  # of the packages compared with
    for part in arguments.parts or PARTS:
        PARTS[part](arguments.scale, arguments.out)


if __name__ == "__main__":
    main()
