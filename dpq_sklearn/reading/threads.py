"""Threads over blocks of columns or rows, and the progress of reading batches."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral

import numpy as np
from joblib import effective_n_jobs

from dpq_sklearn.checks import shown

_SECONDS_BETWEEN_LINES = 0.5
_COLUMNS_AT_ONCE = 8


def check_n_jobs(n_jobs: int | None) -> None:
    """Raise if joblib does not accept `n_jobs`. Call it before a release is paid."""
    try:
        if n_jobs is None or isinstance(n_jobs, Integral):
            effective_n_jobs(n_jobs)
            return
    except ValueError:
        pass
    raise ValueError(f"n_jobs must be None or an integer other than 0, got {shown(n_jobs)}.")


def in_threads(function, arguments, n_jobs):
    """Return ``[function(argument) for argument in arguments]``, computed in `n_jobs` threads.

    NumPy sorts, counts and calculates without holding Python's lock. `n_jobs` means the same as in
    joblib, including None and ``joblib.parallel_config``.
    """
    n_threads = min(effective_n_jobs(n_jobs), len(arguments))
    if n_threads <= 1:
        return [function(argument) for argument in arguments]

    def silently(argument):  # a thread does not inherit the caller's errstate
        with np.errstate(all="ignore"):
            return function(argument)

    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(silently, arguments))


def blocks_of_columns(n_columns, n_jobs):
    """Return slices of a few columns, which are copied together: at least one slice per thread."""
    of_thread = -(-n_columns // effective_n_jobs(n_jobs))
    return blocks_of_rows(n_columns, max(1, min(_COLUMNS_AT_ONCE, of_thread)))


def blocks_of_rows(n_rows, height):
    """Return slices of `height` rows; the last slice may be shorter."""
    return [slice(start, start + height) for start in range(0, n_rows, height)]


class Progress:
    """The number of batches and rows read so far, for the person who holds the data.

    As a context manager it adds a note to any exception, which says that nothing was released. The
    note does not say how far the reading had come, which would locate the row that cannot be read.
    """

    def __init__(self, verbose=False, callback=None):
        self._verbose, self._callback = verbose, callback
        self._start = self._printed = time.monotonic()
        self.n_batches = self.n_rows = 0

    def advance(self, n_rows):
        """Count a batch that was read."""
        self.n_batches += 1
        self.n_rows += n_rows
        seconds = time.monotonic() - self._start
        if self._callback is not None:
            self._callback(self.n_batches, self.n_rows, seconds)
        if self._verbose and time.monotonic() - self._printed >= _SECONDS_BETWEEN_LINES:
            self._print(end="")

    def _print(self, end):
        self._printed = time.monotonic()
        rate = self.n_rows / max(self._printed - self._start, 1e-9)
        line = f"{self.n_batches:,} batches, {self.n_rows:,} rows, {rate:,.0f} rows/s"
        print(f"\r{line}", end=end, file=sys.stderr, flush=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if self._verbose and self.n_batches:
            self._print(end="\n")
        if error is not None:
            error.add_note(
                "Reading the batches stopped. Nothing was released, but a ledger stays charged."
            )
