"""The quality report of a fitted transformer: a table from released numbers and public facts."""

import numpy as np

from dpq_sklearn.dates import ColumnKind, dates_of
from dpq_sklearn.forecast.enough_data import TOO_FAR_OFF
from dpq_sklearn.small_table import SmallTable

_VERDICTS = ((0.1, "good"), (0.25, "fair"), (TOO_FAR_OFF, "rough"), (np.inf, "mostly noise"))


def make_report(names, values, bounds, errors, n_exact, *, kinds, are_at_an_end, caveats, advice):
    """Return a table of the features with their private values and expected errors in bins.

    `bounds` are pairs, with infinity for missing bounds. `n_exact` counts the edges of each
    feature that are public. `kinds` has the kind of each feature: dates are shown as dates.
    `are_at_an_end` has the features with all edges at an end of their range. `caveats` has a text
    for each feature, and `advice` applies to features that are mostly noise. The table is a pandas
    DataFrame if pandas is installed.
    """
    verdicts = map(_verdict_on_edges, errors, values, bounds, n_exact, are_at_an_end)
    columns = {
        "feature": names,
        "bins": np.array([edges.size + 1 for edges in values]),
        "edges": np.fromiter(map(_shown_edges, values, kinds), dtype=object),
        "error_in_bins": errors.round(3),
        "verdict": np.fromiter(verdicts, dtype=object),
        "caveat": np.array(caveats, dtype=object),
        "advice": np.where(errors > TOO_FAR_OFF, advice, "").astype(object),
    }

    try:
        import pandas
    except ImportError:
        return SmallTable(columns)
    return pandas.DataFrame(columns)


def _shown_edges(edges, kind):
    """Return edges as a list of floats, dates or durations."""
    return (edges if kind is ColumnKind.NUMBER else dates_of(edges, kind)).tolist()


def _verdict_on_edges(error, edges, bounds, n_exact, is_at_an_end):
    """Return a verdict, with the number of bins that can hold rows if some bins cannot.

    Equal edges make empty bins, and so does an edge at the lower bound. Both occur if decimals and
    bounds leave fewer points than there are bins.
    """
    if n_exact == edges.size:
        return "exact: equal widths between the bounds"

    if is_at_an_end:
        return "all edges lie at an end of the range"

    parts = [verdict(error)]
    if n_exact:
        parts.append(f"{n_exact} of {edges.size} edges are exact")

    n_bins = edges.size + 1
    n_used = np.unique(edges).size + bool(edges[0] > bounds[0])
    if n_used != n_bins:
        parts.append(f"{n_used} of {n_bins} bins can hold rows")
    return "; ".join(parts)


def verdict(error):
    """Return a word for an expected error in bins."""
    return next((word for most, word in _VERDICTS if error <= most), "unknown")
