"""Kill an executor in the middle of a fit, and print how often each partition was computed.

Run by tests/test_spark.py in a process of its own: a cluster on this machine, with executors that
are processes, needs another session than local mode.
"""

import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from dpq_sklearn import DPKBinsDiscretizer

N_PARTS = 8


def main(folder):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.lognormal(size=4000), "part": np.arange(4000) % N_PARTS})
    transformer = DPKBinsDiscretizer(encode="ordinal", resolution=24, random_state=0)
    expected = transformer.fit(frame).bin_edges_

    spark = session()
    rows = spark.createDataFrame(frame).repartitionByRange(N_PARTS, "part")
    fitted = transformer.fit(rows.mapInArrow(dangerous(folder), rows.schema))
    for one, other in zip(expected, fitted.bin_edges_, strict=True):
        assert np.array_equal(one, other)
    spark.stop()

    reads = Counter(path.name.partition("-")[0] for path in Path(folder).glob("*-*"))
    print("most reads of a partition:", max(reads.values()))


def session():
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "4",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    }
    builder = SparkSession.builder.master("local-cluster[2,1,512]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def dangerous(folder):
    """Return a map that notes what it reads, and once kills the executor that it runs in."""

    def function(batches):
        for batch in batches:
            part = batch.column(1)[0].as_py()
            Path(folder, f"{part}-{uuid4()}").touch()
            time.sleep(0.2)  # so that both executors have finished some partitions
            if part == 5:
                try:
                    os.close(os.open(f"{folder}/died", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    pass
                else:  # a worker is the child of a daemon, which is a child of the executor
                    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
                    os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
            yield batch

    return function


if __name__ == "__main__":
    main(sys.argv[1])
