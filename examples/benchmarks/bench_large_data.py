"""How does the time of a fit grow with rows and columns, and what would 10^10 rows take?

Everything is compared within one run. The tables of the documentation come from large_data.py.

    cost      time against the number of rows and of columns: a table, and a figure in --out
    model     what a summary weighs and what counting takes, worked out to 10^10 rows

    python examples/benchmarks/bench_large_data.py cost model [--scale 0.1]
"""

import argparse
import os
import pickle
import time
import warnings
from functools import partial

import numpy as np
from timing import best_seconds, print_machine, seconds

from dpq_sklearn import DPKBinsDiscretizer
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.reading.sources.partitions import ranges_of_summary, summary_of_ranges
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
