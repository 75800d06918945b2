"""How long do batches, Dask and Spark take, compared with their exact counterparts?

    python examples/benchmarks/measured.py large_data large_data_engines

Both sides of a ratio take turns in one run.
"""

import os
import resource
import sys
import tempfile
import time
from functools import partial

import numpy as np
from bench_large_data import made_batches
from results import Number, Table
from timing import best_seconds, seconds

import dpq_sklearn
from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer

BATCHED_ROWS = 10**7
SHARES = np.arange(1, 64) / 64
ENGINE_ROWS = (200_000, 2_000_000)


def peak_megabytes():
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


# ---- batches and Dask ----


def measure(turns):
    """Return the times of batches and Dask, and their ratios."""
    before = peak_megabytes()
    DPKBinsDiscretizer().fit_batches(made_batches(BATCHED_ROWS))
    peak = peak_megabytes()

    found = times_of_batches(turns) | times_of_dask(turns)
    rows = {}
    for name, (peer, ours, of_peer) in found.items():
        numbers = [Number(ours, 0.0, 2), Number(of_peer, 0.0, 2), Number(ours / of_peer, 0.0, 2)]
        rows[name] = [peer, *numbers]
    return Table(
        title=f"`fit_batches` of {BATCHED_ROWS:,} rows needed {peak:.0f} MB at its peak, "
        f"{peak - before:.0f} MB more than before the fit.",
        columns=["", "compared with", "ours, seconds", "compared, seconds", "ratio"],
        rows=rows,
        trials=1,
    )


def times_of_batches(turns):
    def sort():
        for batch in made_batches(BATCHED_ROWS):
            batch.sort(axis=0)

    found = {}
    peer = "making the batches and `np.sort` of each"
    for name, make in {
        "5 bins": DPKBinsDiscretizer,
        "63 quantiles": partial(DPQuantileTransformer, 63),
    }.items():
        functions = lambda make=make: make().fit_batches(made_batches(BATCHED_ROWS)), sort
        times = best_seconds(functions, turns, time.process_time)
        found[f"`fit_batches`, {BATCHED_ROWS:,} rows, {name}"] = peer, *times
    return found


def times_of_dask(turns):
    import dask.dataframe as dd
    import distributed

    with tempfile.TemporaryDirectory() as folder:
        write_parquet(folder, ENGINE_ROWS[1], 20)
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        )
        with cluster, distributed.Client(cluster):
            frame = dd.read_parquet(folder)
            functions = (
                lambda: DPQuantileTransformer(63).fit(frame),
                lambda: frame.quantile(list(SHARES)).compute(),
            )
            times = best_seconds(functions, turns, time.perf_counter)
    return {f"Dask, {ENGINE_ROWS[1]:,} x 5, 63 quantiles": ("`ddf.quantile`", *times)}


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


# ---- Spark and Dask ----


def measure_engines(turns):
    """Return the seconds of private fits in Spark and Dask, compared with Spark's own ways."""
    import dask.dataframe as dd
    import distributed

    rows = {}
    spark = spark_session()
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster):
        for n_rows in ENGINE_ROWS:
            with tempfile.TemporaryDirectory() as folder:
                columns = write_parquet(folder, n_rows, 20)
                ways = spark_ways(spark.read.parquet(folder), SHARES)
                frame = dd.read_parquet(folder)
                ways["private fit, Dask"] = lambda frame=frame: private_quantiles(
                    DPQuantileTransformer(63).fit(frame), SHARES
                )
                rows[f"{n_rows:,}"] = cells_of_engines(ways, columns, turns)
    spark.stop()
    return Table(
        title="Seconds for 63 quantiles of five columns from the same Parquet files on two cores: "
        "Spark (`local[2]`), two workers of Dask, and Spark's own ways with `relativeError=0.001`. "
        "The last two columns have the largest rank error of a column, in percent of the rows.",
        columns=["rows", *ways, "rank error, private in Spark", "rank error, `approxQuantile`"],
        rows=rows,
        trials=1,
    )


def cells_of_engines(ways, columns, turns):
    found = {name: way() for name, way in ways.items()}  # a first turn starts workers
    times = {name: [] for name in ways}
    for _ in range(turns):
        for name, way in ways.items():
            times[name].append(seconds(way))
    errors = [
        100 * max(map(largest_rank_error, columns.values(), found[name].T))
        for name in ("private fit, Spark", "`approxQuantile`")
    ]
    return [
        *(Number(min(of_way), 0.0, 2) for of_way in times.values()),
        *(Number(float(error), 0.0, 3) for error in errors),
    ]


def largest_rank_error(ascending, values):
    """Return the largest distance of a share from the ranks of its value, as a share."""
    low = np.searchsorted(ascending, values, side="left") / ascending.size
    high = np.searchsorted(ascending, values, side="right") / ascending.size
    return np.maximum(np.maximum(low - SHARES, SHARES - high), 0).max()


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
        "private fit, Spark": ours,
        "`approxQuantile`": approximate,
        "`QuantileDiscretizer`": discretizer,
    }


def private_quantiles(transformer, shares):
    """Return the private quantiles without the tails."""
    inner = np.searchsorted(transformer.references_, shares)
    return transformer.quantiles_[inner]
