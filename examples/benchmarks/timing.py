"""Timing of alternatives in one run: the best of interleaved repetitions, and their ratio."""

import time


def seconds(function, clock=time.perf_counter):
    start = clock()
    function()
    return clock() - start


def best_seconds(functions, repetitions=5, clock=time.perf_counter):
    """Return the least time of each function; they take turns, so that noise hits all alike."""
    for function in functions:
        function()
    times = [[seconds(function, clock) for function in functions] for _ in range(repetitions)]
    return [min(column) for column in zip(*times, strict=True)]


def compare(name, ours, peer, repetitions=5, clock=time.perf_counter):
    """Print the two times and their ratio."""
    our_time, peer_time = best_seconds((ours, peer), repetitions, clock)
    ratio = our_time / peer_time
    print(f"{name:44} {our_time * 1e3:9.1f} ms {peer_time * 1e3:9.1f} ms {ratio:7.2f}", flush=True)


def header(title, peer):
    print(f"\n{title}\n{'':44} {'ours':>12} {peer:>12} {'ratio':>7}")
