"""Labels of bins: the interval of the values that `transform` puts into each bin."""

from collections import Counter

import numpy as np

from dpq_sklearn.estimators.binning import next_float32


def labels_of_bins(edges):
    """Return a label such as "[20, 26)" for each bin, given the ascending inner edges.

    The labels are distinct: the label of an empty bin between equal edges ends with its number.
    """
    openings = ["(-inf"]
    closings = []
    previous = None

    for edge in edges:
        # An edge at the next float gives the previous edge's value a bin of its own.
        if previous is not None and _is_next_float(edge, previous):
            closings.append(f"{_in_words(previous)}]")
            openings.append(f"({_in_words(previous)}")
        else:
            closings.append(f"{_in_words(edge)})")
            openings.append(f"[{_in_words(edge)}")
        previous = edge

    closings.append("inf)")
    pairs = zip(openings, closings, strict=True)
    return _distinct([f"{opening}, {closing}" for opening, closing in pairs])


def _is_next_float(edge, previous):
    return edge.dtype.kind == "f" and previous < edge <= next_float32(np.array([previous]))[0]


def _in_words(edge):
    """Return an edge as text: dates at midnight without a time, numbers with few digits."""
    if edge.dtype.kind == "f":
        return _few_digits(edge)
    text = str(edge.item()).removesuffix(" 00:00:00")
    return text.rstrip("0") if "." in text else text  # 13:06:14.4


def _few_digits(number):
    """Return the shortest text of a float, 20000 instead of 20000.0."""
    return repr(float(number) + 0.0).removesuffix(".0")  # no negative zero


def _distinct(labels):
    times = Counter(labels)
    return [f"{label}_{k}" if times[label] > 1 else label for k, label in enumerate(labels)]
