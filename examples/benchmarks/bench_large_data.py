"""
What do batches, threads and Dask cost, and how does the cost grow?

Everything is compared within one run, and every ratio is printed. The parts:

    batches   one column in batches of 10^6 against making and sorting the batches; peak memory
    jobs      fit and transform with two threads against one
    dask      a Parquet folder on two workers against dask_ml's QuantileTransformer (or, without
              dask_ml, against the quantile method of a dask DataFrame), with exact rank errors
    spark     the same on a Spark session of two cores, against approxQuantile and
              QuantileDiscretizer, and against Dask; peak memory; time against rows, in --out
    cost      time against the number of rows and of columns: a table, and a figure in --out
    model     what a summary weighs and what counting takes, worked out to 10^10 rows

    python examples/benchmarks/bench_large_data.py batches jobs dask spark cost model [--scale 0.1]
"""

import argparse
import contextlib
import os
import pickle
import resource
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from timing import best_seconds, print_machine, seconds

import dpq_sklearn
from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.reading import threads
from dpq_sklearn.reading.engines.partitions import ranges_of_summary, summary_of_ranges
from dpq_sklearn.reading.summaries import (
    SUMMARY_RESOLUTION,
    Summary,
    SummaryBuilder,
    merge,
    summarize,
)

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
            times = best_seconds([ours, *peers.values()], 3, time.perf_counter)
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


def bench_spark(scale, out):
    import dask.dataframe as dd
    import distributed

    largest = int(2e7 * scale)
    sizes = [largest // 100, largest // 10, largest]
    shares = np.arange(1, 64) / 64
    by_rows = {}
    spark = spark_session()
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster):
        for n_rows in sizes:
            with tempfile.TemporaryDirectory() as folder:
                columns = write_parquet(folder, n_rows, 20)
                rows = spark.read.parquet(folder)
                ways = spark_ways(rows, shares) | {
                    "dpq_sklearn, Dask": lambda folder=folder: private_quantiles(
                        DPQuantileTransformer(63).fit(dd.read_parquet(folder)), shares
                    )
                }
                repetitions = 3 if n_rows < 10**7 else 1
                print(f"\n{n_rows:,} x 5 from Parquet, two cores, best of {repetitions} in turns")
                if n_rows == sizes[0]:  # a first round starts workers and compiles
                    watched_ways(ways, 1)
                found = watched_ways(ways, repetitions)
                print_ways(found, columns, shares)
                for name, (time_taken, _, _) in found.items():
                    by_rows.setdefault(name, {})[n_rows] = time_taken
    spark.stop()
    print_cost("seconds against rows, 5 columns, 63 quantiles", by_rows, sizes[0])
    if out is not None:
        plot_engines(by_rows, out)


def spark_session():
    """Return a session on two cores of this machine, whose workers find the package."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    paths = [os.path.dirname(os.path.dirname(dpq_sklearn.__file__)), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def spark_ways(rows, shares):
    """Return functions that find the quantiles of all columns in Spark."""
    from pyspark.ml.feature import QuantileDiscretizer

    def ours():
        return private_quantiles(DPQuantileTransformer(63).fit(rows), shares)

    def approximate():
        return np.array(rows.approxQuantile(rows.columns, list(shares), 0.001)).T

    def discretizer():
        fitted = QuantileDiscretizer(
            numBuckets=64,
            relativeError=0.001,
            inputCols=rows.columns,
            outputCols=[f"{name}_bin" for name in rows.columns],
        ).fit(rows)
        found = np.full((len(shares), len(rows.columns)), np.nan)
        for column, splits in enumerate(fitted.getSplitsArray()):
            if len(splits) == len(shares) + 2:  # else equal quantiles became one split
                found[:, column] = splits[1:-1]
        return found

    return {
        "dpq_sklearn, Spark": ours,
        "approxQuantile": approximate,
        "QuantileDiscretizer": discretizer,
    }


def watched_ways(ways, repetitions):
    """Return the best time of each function, its peak memory, and what it returned."""
    found = {}
    for _ in range(repetitions):
        for name, way in ways.items():
            with PeakMemory() as memory:
                start = time.perf_counter()
                values = way()
                taken = time.perf_counter() - start
            best, peaks, _ = found.get(name, (np.inf, {}, None))
            peaks = {kind: max(peaks.get(kind, 0.0), mb) for kind, mb in memory.peaks.items()}
            found[name] = min(best, taken), peaks, values
    return found


def print_ways(found, columns, shares):
    reference = found["approxQuantile"][0]
    for name, (taken, peaks, values) in found.items():
        errors = [
            largest_rank_errors(columns[column], values[:, index], shares)
            for index, column in enumerate(columns)
        ]
        errors = "  ".join(f"{error:.1e}" for error in errors)
        print(f"{name:22}{taken:7.2f} s, ratio {taken / reference:5.2f}, rank errors {errors}")
        memory = ", ".join(f"{kind} {mb:,.0f} MB" for kind, mb in peaks.items())
        print(f"{'':22}{memory}")


class PeakMemory:
    """The largest memory of this process and of those that it started, looked at now and then.

    Pages that processes share are divided among them. Only on Linux.
    """

    def __init__(self):
        self.peaks = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._is_over.set()
        self._thread.join()

    def _watch(self):
        while not self._is_over.wait(0.3):
            for kind, megabytes in memory_by_kind().items():
                self.peaks[kind] = max(self.peaks.get(kind, 0.0), megabytes)


def memory_by_kind():
    """Return the megabytes of this process, of Spark's Java and Python, and of Dask's workers."""
    parents, names = {}, {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as file:
            name, fields = file.read().split("(", 1)[1].rsplit(")", 1)
            parents[int(entry)], names[int(entry)] = int(fields.split()[1]), name

    memory = {"driver": 0.0, "Java": 0.0, "Python of Spark": 0.0, "workers of Dask": 0.0}
    for process in parents:
        line = [process]
        while line[-1] in parents and line[-1] != os.getpid():
            line.append(parents[line[-1]])
        if line[-1] != os.getpid():
            continue
        is_java = [names[one] == "java" for one in line]
        kind = "driver" if len(line) == 1 else "workers of Dask"
        if any(is_java):
            kind = "Java" if is_java[0] else "Python of Spark"
        memory[kind] += proportional_megabytes(process)
    return memory


def proportional_megabytes(process):
    with contextlib.suppress(OSError), open(f"/proc/{process}/smaps_rollup") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1e3
    return 0.0


def plot_engines(by_rows, out):
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for name, times in by_rows.items():
        ax.loglog(list(times), list(times.values()), "o-", label=name)
    ax.set(xlabel="rows (5 columns from Parquet, two cores)", ylabel="seconds, 63 quantiles")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    os.makedirs(out, exist_ok=True)
    figure.savefig(os.path.join(out, "large_data_engines.png"), dpi=120)
    print(f"figure: {os.path.join(out, 'large_data_engines.png')}")


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
        print(f"{name:20}{cells}\n{'':20}slope from {least:,} on: {slope(times, least):.2f}")


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
    """Measure what counting and merging take on one core, then work out larger numbers."""
    grid = make_grid([(-np.inf, np.inf)], SUMMARY_RESOLUTION)
    n_rows = int(2e7 * scale)
    counting, whole = counted_column(grid, n_rows)
    rng = np.random.default_rng(0)
    partition = rng.lognormal(size=ROWS_PER_BATCH)
    (summarizing,) = best_cpu_seconds([lambda: summarize(partition, grid, 0)], 5)
    parts = [summarize(rng.lognormal(size=ROWS_PER_BATCH), grid, 0) for _ in range(8)]
    (merging,) = best_cpu_seconds([lambda: merge(*parts)], 5)
    pairs = sum(part.cells.size for part in parts)
    print(f"\nmeasured: one log-normal column, {SUMMARY_RESOLUTION} bits, seconds of one core")
    print(f"counting, in batches{1e9 * counting / n_rows:22.1f} ns a row")
    print(f"summary of a partition{1e9 * summarizing / ROWS_PER_BATCH:20.1f} ns a row")
    print(f"merging{1e9 * merging / pairs:35.1f} ns a pair")
    print(f"pairs of {n_rows:,} rows{whole.cells.size:20,}, {16 * whole.cells.size / 1e6:.0f} MB")
    most = 16 * 2**SUMMARY_RESOLUTION / 1e6
    print(f"pairs at most{2**SUMMARY_RESOLUTION:29,}, {most:.0f} MB")
    print("\ncomputed, not measured: Dask, one column, partitions of 10^7 rows, merged by 8")
    print(f"{'rows':>8}{'one core':>14}{'100 cores':>14}{'merge depth':>14}{'moved':>12}")
    for n in (1e8, 1e9, 1e10):
        partitions = n / 1e7
        depth = int(np.ceil(np.log(partitions) / np.log(8)))
        merges = partitions * whole.cells.size * 8 / 7 * merging / pairs
        alone, shared = n * counting / n_rows, n * summarizing / ROWS_PER_BATCH + merges
        moved = partitions * whole.cells.size * 8 / 1e9
        times = f"{alone:12,.0f} s{shared / 100:12,.1f} s"
        print(f"{n:8.0e}{times}{depth:14}{moved:9,.1f} GB")
    print_exchange(grid, whole, n_rows)


best_cpu_seconds = partial(best_seconds, clock=time.process_time)  # others may be busy, too


def counted_column(grid, n_rows, seed=0):
    """Return how long counting a column takes, and its summary."""
    builder = SummaryBuilder(grid, 0)
    counting = 0.0
    for batch in made_batches(n_rows, seed=seed):
        start = time.process_time()
        builder.add(batch[:, 0])
        counting += time.process_time() - start
    return counting, builder.summary()


def print_exchange(grid, whole, n_rows):
    """Measure what executors exchange by ranges of cells, then work out 10^10 rows."""
    counting, part = counted_column(grid, n_rows // 2, seed=1)

    def packed():
        ranges = ranges_of_summary(part, grid, 0)
        return {number: pickle.dumps(found) for number, found in ranges}

    def added():
        return {number: merge(pickle.loads(one), others[number]) for number, one in sent.items()}

    sent = packed()
    others = {number: pickle.loads(one) for number, one in sent.items()}
    packing, adding = best_cpu_seconds([packed, added], 5)
    n_bytes = sum(map(len, sent.values()))

    n_parts = int(1e10 / (n_rows // 2))
    of_all = Summary(whole.cells, whole.weights * (10**10 // n_rows))
    to_driver = [pickle.dumps(found) for _, found in ranges_of_summary(of_all, grid, 0)]
    (joining,) = best_cpu_seconds([lambda: summary_of_ranges(map(pickle.loads, to_driver))], 5)

    print(f"\nmeasured: Spark, one column, a partition of {n_rows // 2:,} rows, one core")
    print(f"counting{counting:33.2f} s, without the way from Java to Python")
    print(f"dividing into {len(sent)} ranges, packing{packing:12.3f} s, {n_bytes / 1e6:.1f} MB")
    print(f"unpacking and adding{adding:21.3f} s")
    executors = 100
    print(f"\ncomputed, not measured: one column, 10^10 rows, {executors} executors of one core")
    print(f"counting{n_parts * counting / executors:33.1f} s")
    print(f"packing and adding up{n_parts * (packing + adding) / executors:20.2f} s")
    of_executor = n_parts * n_bytes / executors
    print(f"exchanged{n_parts * n_bytes / 1e9:32.1f} GB, {of_executor / 1e6:.0f} MB by each")
    to_driver = sum(map(len, to_driver))
    print(f"to the driver{to_driver / 1e6:28.1f} MB, put together in {joining:.3f} s")


PARTS = {
    "batches": bench_batches,
    "jobs": bench_jobs,
    "dask": bench_dask,
    "spark": bench_spark,
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
    print_machine()
    for part in arguments.parts or PARTS:
        PARTS[part](arguments.scale, arguments.out)


if __name__ == "__main__":
    main()
