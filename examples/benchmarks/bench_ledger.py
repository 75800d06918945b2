"""How many milliseconds does a ledger add to a fit?

The spend is on the disk before the fit goes on, so most of the time is the disk's. The file is
verified as a whole at every spend, which is why long ledgers take longer.

    python examples/benchmarks/bench_ledger.py [folder]
"""

import os
import statistics
import sys
import tempfile
import time

from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.ledger.ledger import PrivacyLedger, charge

LOSS = PrivacyLoss(eps=0.1, delta=0.0, rho=0.00125)
FACTS = {
    "what": "DPKBinsDiscretizer.fit",
    "columns": [f"column_{i}" for i in range(10)],
    "detail": "n_bins=5",
}


def milliseconds(ledger, n_times):
    """Return how long each of several spends takes."""
    times = []
    for _ in range(n_times):
        start = time.perf_counter()
        charge(ledger, LOSS, **FACTS)
        times.append(1000 * (time.perf_counter() - start))
    return times


def disk_milliseconds(folder, n_times):
    """Return how long the disk takes for the smallest durable write, for comparison."""
    times = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(n_times):
            start = time.perf_counter()
            file.write(bytes(512))
            file.flush()
            os.fsync(file.fileno())
            times.append(1000 * (time.perf_counter() - start))
    return times


def row(name, times):
    deciles = statistics.quantiles(times, n=10)
    return f"{name:32}{statistics.median(times):10.2f}{deciles[-1]:10.2f}"


def main(folder=None):
    with tempfile.TemporaryDirectory(dir=folder) as folder:
        print(f"{'milliseconds a spend':32}{'median':>10}{'90%':>10}")
        print(row("one fsync of this disk", disk_milliseconds(folder, 200)))
        for name, caps in (
            ("eps cap", {"eps": 1e6}),
            ("eps and delta cap", {"eps": 1e6, "delta": 1e-6}),
            ("rho cap", {"rho": 1e6}),
        ):
            ledger = PrivacyLedger(os.path.join(folder, f"{name}.sqlite"), **caps)
            print(row(f"{name}, 0 to 100 records", milliseconds(ledger, 100)))
        ledger = PrivacyLedger(os.path.join(folder, "long.sqlite"), eps=1e6)
        for n_records in (100, 300, 1000):
            milliseconds(ledger, n_records - len(ledger.records()))
            print(row(f"eps cap, {n_records} records", milliseconds(ledger, 30)))


if __name__ == "__main__":
    main(*sys.argv[1:])
