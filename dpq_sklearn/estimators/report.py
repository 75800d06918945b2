"""The quality report of a fitted transformer: a table from released numbers and public facts."""

import numpy as np

from dpq_sklearn.checks import shown
from dpq_sklearn.forecast.enough_data import TOO_FAR_OFF, errors_in_bins
from dpq_sklearn.reading.describe_format import read_description
from dpq_sklearn.small_table import SmallTable

_VERDICTS = ((0.1, "good"), (0.25, "fair"), (TOO_FAR_OFF, "rough"), (np.inf, "mostly noise"))


def make_report(names, values, shown_values, bounds, errors, *, n_exact, problems, caveats, advice):
    """Return a table of the features with their private values and expected errors in bins.

    `shown_values` has dates as dates. `bounds` are pairs, with infinity for missing bounds.
    `n_exact` counts the edges of each feature that are public. `problems` and `caveats` have a text
    for each feature. A problem replaces the verdict, unless it is empty. `advice` applies to
    features that are mostly noise. The table is a pandas DataFrame if pandas is installed.
    """
    verdicts = map(_verdict_on_edges, errors, values, bounds, n_exact, problems)
    columns = {
        "feature": names,
        "bins": np.array([edges.size + 1 for edges in values]),
        "edges": np.fromiter(map(np.ndarray.tolist, shown_values), dtype=object),
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


def counts_of_values(description, n_features, names=None):
    """Return the released number of values of each feature, or raise if a feature is missing."""
    described = read_description(description)
    if described is None:
        raise ValueError(f"description must be a table of dp_describe, got {shown(description)}.")

    counts = dict(zip(described.names, described.counts.tolist(), strict=True))
    names = list(counts) if names is None else list(names)
    if len(names) != n_features or not counts.keys() >= set(names):
        raise ValueError(
            f"description must have a column for each of the {n_features} features of the fit, got "
            f"a description with {len(counts)} columns."
        )
    return [counts[name] for name in names]


def errors_with_counts(plan, counts):
    """Return the expected error of each column in bins, given its number of values."""
    by_count = {count: errors_in_bins(plan, max(count, 1)) for count in set(counts)}
    return np.array([by_count[count][column] for column, count in enumerate(counts)])


def missing_in_words(counts, n_rows, unit):
    """Return a text for each column, which is empty if at least half of the rows have a value.

    `unit` is "rows" or "people".
    """
    return [
        f"mostly missing: about {max(count, 0):,.0f} of {n_rows:,} {unit} have a value"
        if 2 * count < n_rows
        else ""
        for count in counts
    ]


def _verdict_on_edges(error, edges, bounds, n_exact, problem):
    """Return a verdict, with the number of bins that can hold rows if some bins cannot.

    Equal edges make empty bins, and so does an edge at the lower bound. Both occur if decimals and
    bounds leave fewer points than there are bins.
    """
    if n_exact == edges.size:
        return "exact: equal widths between the bounds"

    if problem:
        return problem

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
