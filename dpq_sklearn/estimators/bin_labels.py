"""Labels of bins: which values `transform` puts into each, from the private edges alone."""

from collections import Counter

import numpy as np


def labels_of_bins(edges):
    """Return a label for each of the bins that ascending inner edges make, such as "[20, 26)".

    No two are equal: bins between equal edges, which hold no value, get their number as well.
    """
    openings = ["(-inf"]
    closings = []
    previous = None

    for edge in edges:
        # The next float only sets the value before it apart, in a bin of its own.
        if previous is not None and edge == np.nextafter(previous, np.inf):
            closings.append(f"{_few_digits(previous)}]")
            openings.append(f"({_few_digits(previous)}")
        else:
            closings.append(f"{_few_digits(edge)})")
            openings.append(f"[{_few_digits(edge)}")
        previous = edge

    closings.append("inf)")
    pairs = zip(openings, closings, strict=True)
    return _distinct([f"{opening}, {closing}" for opening, closing in pairs])


def _few_digits(number):
    """Return a float in the fewest digits that mean it: 20000, and not 20000.0."""
    return repr(float(number) + 0.0).removesuffix(".0")  # no negative zero


def _distinct(labels):
    times = Counter(labels)
    return [f"{label}_{k}" if times[label] > 1 else label for k, label in enumerate(labels)]
