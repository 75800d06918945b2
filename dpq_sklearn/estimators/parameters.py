"""Checks of parameters that have one value for all features, or one per feature."""

from numbers import Integral

from dpq_sklearn.checks import checked_bounds, checked_decimals, checked_positive, shown
from dpq_sklearn.dates import kind_of
from dpq_sklearn.reading.schema import within_schema

DEFAULT_BINS = 5
MOST_BINS = 10_000  # a plan with more bins would take minutes


def per_feature_bounds(bounds, n_features, names=None, kinds=None):
    """Return a checked pair of bounds for each feature, with infinity for missing bounds.

    `kinds` has the kind of each feature, such as dates, or is None if the kinds are not known.
    """
    kinds = [None] * n_features if kinds is None else kinds
    if bounds is None or is_pair(bounds):
        return [checked_bounds(bounds, kind) for kind in kinds]

    pairs = _one_a_feature(bounds, n_features, names, "bounds", None)
    if n_features == 2 and not isinstance(bounds, (list, dict)):
        _refuse_lows_and_highs(bounds)
    return list(map(checked_bounds, pairs, kinds))


def kinds_of_bounds(bounds):
    """Return the pairs of bounds that single features may have, before `fit` knows the features."""
    if bounds is None or is_pair(bounds):
        return [bounds]
    return [*bounds.values(), None] if isinstance(bounds, dict) else list(bounds)


def is_pair(bounds):
    """Return whether bounds are one pair for all features."""
    is_sequence = not isinstance(bounds, dict) and len(bounds) == 2
    return is_sequence and all(
        isinstance(end, str) or not hasattr(end, "__len__") for end in bounds
    )


def _refuse_lows_and_highs(bounds):
    """Raise if bounds of two features could also be read as all lows and all highs."""
    try:
        for pair in zip(*bounds, strict=True):
            checked_bounds(pair)
    except (TypeError, ValueError):
        return  # only pairs are possible
    raise ValueError(
        "bounds of two features must be a list of pairs [(low, high), (low, high)] or a dict "
        f"{{name: (low, high)}}, got {shown(bounds)}, which could also be all lows and all highs."
    )


def per_feature_decimals(decimals, n_features, names=None):
    """Return the declared number of decimals of each feature, None if it is unknown."""
    if decimals is None or isinstance(decimals, Integral):
        entries = [decimals] * n_features
    else:
        entries = _one_a_feature(decimals, n_features, names, "decimals", None)
    return list(map(checked_decimals, entries))


def per_feature_lattices(bounds, decimals, n_features, names=None, dtypes=None):
    """Return the bounds and decimals of each feature. ``decimals="schema"`` uses the dtypes."""
    kinds = None if dtypes is None else list(map(kind_of, dtypes))
    bounds = per_feature_bounds(bounds, n_features, names, kinds)
    if isinstance(decimals, str):  # "schema"
        return within_schema(dtypes or [None] * n_features, bounds)
    return bounds, per_feature_decimals(decimals, n_features, names)


def per_feature_weights(weights, n_features, names=None):
    """Return `feature_weights` as positive floats, one per feature, or None."""
    if weights is None:
        return None

    weights = _one_a_feature(weights, n_features, names, "feature_weights", 1.0)
    return [checked_positive(weight, "each of feature_weights") for weight in weights]


def per_feature_bins(n_bins, n_features, names=None):
    """Return the number of bins of each feature, given as an int, a sequence or a dict."""
    given = [n_bins] * n_features if isinstance(n_bins, Integral) else n_bins
    entries = _one_a_feature(given, n_features, names, "n_bins", DEFAULT_BINS)
    if not all(isinstance(n, Integral) and not isinstance(n, bool) and n >= 2 for n in entries):
        raise ValueError(f"n_bins must be integers >= 2, got {shown(n_bins)}.")
    if max(entries, default=0) > MOST_BINS:
        raise ValueError(f"n_bins must be at most {MOST_BINS:,}, got {shown(max(entries))}.")
    return [int(n) for n in entries]


def _one_a_feature(given, n_features, names, parameter, default):
    """Return an entry for each feature. Features that are not in a dict get the `default`."""
    if isinstance(given, dict):
        known = [] if names is None else list(names)
        unknown = [name for name in given if name not in known]
        if unknown:
            names_of_X = f"has the features {known!r}" if known else "has no feature names"
            raise ValueError(
                f"the keys of {parameter} must be names of features of X, got {unknown!r}, but X "
                f"{names_of_X}. If several tables share a dict, pass only the entries of this "
                "table."
            )
        given = [given.get(name, default) for name in known]

    if len(given) != n_features:
        raise ValueError(
            f"{parameter} must have one entry for each of the {n_features} features, got "
            f"{shown(given)}."
        )
    return list(given)
