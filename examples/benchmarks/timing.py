"""Timing of alternatives in one run: the best of interleaved repetitions, and their ratio.

One thread is timed by the clock of the process, which other programs disturb less.
"""

import platform
import time
from pathlib import Path

import numpy as np
import sklearn


def seconds(function, clock=time.perf_counter):
    start = clock()
    function()
    return clock() - start


def best_seconds(functions, repetitions=5, clock=time.process_time):
    """Return the least time of each function; they take turns, so that noise hits all alike."""
    for function in functions:
        function()
    times = [[seconds(function, clock) for function in functions] for _ in range(repetitions)]
    return [min(column) for column in zip(*times, strict=True)]


def compare(name, ours, peer, repetitions=5, clock=time.process_time):
    """Print the two times and their ratio."""
    our_time, peer_time = best_seconds((ours, peer), repetitions, clock)
    ratio = our_time / peer_time
    print(f"{name:44} {our_time * 1e3:9.1f} ms {peer_time * 1e3:9.1f} ms {ratio:7.2f}", flush=True)


def print_machine():
    """Print what figures depend on: the CPU, versions, and how fast NumPy sorts on it."""
    x = np.random.default_rng(0).normal(size=10**6)
    (sorting,) = best_seconds((lambda: np.sort(x),))
    versions = f"NumPy {np.__version__}, scikit-learn {sklearn.__version__}"
    print(f"{cpu()}, {versions}, np.sort of 1e6 float64: {sorting * 1e3:.1f} ms", flush=True)


def cpu():
    """Return the name of the CPU, and its family and model where the name does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = dict(map(str.strip, line.split(":", 1)) for line in lines if ":" in line)
    return f"{facts['model name']} (family {facts['cpu family']}, model {facts['model']})"


def header(title, peer):
    print(f"\n{title}\n{'':44} {'ours':>12} {peer:>12} {'ratio':>7}")
