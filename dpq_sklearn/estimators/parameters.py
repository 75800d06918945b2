"""Parameters that have one value for all features, or one for each: checked, one for each."""

from numbers import Integral, Real

import numpy as np

from dpq_sklearn.checks import checked_bounds, checked_positive, shown

DEFAULT_BINS = 5


def bounds_of_features(bounds, n_features, names=None):
    """Return a checked pair of bounds for each feature, infinite where there is none.

    `bounds` is None, one pair for all, one pair (or None) a feature, or a dict from feature name
    to pair. An end that is None is open.
    """
    if bounds is None:
        pairs = [None] * n_features
    elif isinstance(bounds, dict):
        pairs = _of_named_features(bounds, names, "bounds", None)
    elif len(bounds) == 2 and all(end is None or isinstance(end, Real) for end in bounds):
        pairs = [bounds] * n_features
    else:
        pairs = list(bounds)
        if len(pairs) != n_features:
            raise ValueError(
                f"bounds must be None, one pair, or one pair for each of the {n_features} "
                f"features, got {shown(bounds)}."
            )
        _refuse_lows_and_highs(bounds)
    return [(-np.inf, np.inf) if pair is None else checked_bounds(pair) for pair in pairs]


def _refuse_lows_and_highs(bounds):
    """Raise if bounds of two features may be pairs, or the lows and the highs."""
    if isinstance(bounds, list) or len(bounds) != 2:
        return
    try:
        for pair in zip(*bounds, strict=True):
            checked_bounds(pair)
    except (TypeError, ValueError):
        return  # they cannot be lows and highs
    raise ValueError(
        "bounds of two features must be a list of pairs [(low, high), (low, high)] or a dict "
        f"{{name: (low, high)}}, got {shown(bounds)}, which could also be all lows and all highs."
    )


def weights_of_features(weights, n_features, names=None):
    """Return `feature_weights` as positive floats, one a feature, or None."""
    if weights is None:
        return None
    if isinstance(weights, dict):
        weights = _of_named_features(weights, names, "feature_weights", 1.0)
    weights = list(weights)
    if len(weights) != n_features:
        raise ValueError(
            f"feature_weights must have one entry for each of the {n_features} features, got "
            f"{len(weights)}."
        )
    return [checked_positive(weight, "each of feature_weights") for weight in weights]


def bins_of_features(n_bins, n_features, names=None):
    """Return a number of bins for each feature, from an int, one int a feature, or a dict."""
    if isinstance(n_bins, dict):
        n_bins = _of_named_features(n_bins, names, "n_bins", DEFAULT_BINS)
    entries = [n_bins] * n_features if isinstance(n_bins, Integral) else list(n_bins)
    if len(entries) != n_features:
        raise ValueError("n_bins must be a scalar or array of shape (n_features,).")
    whole = all(isinstance(n, Integral) and not isinstance(n, bool) for n in entries)
    if not whole or min(entries, default=2) < 2:
        raise ValueError(f"n_bins must be integers >= 2, got {shown(n_bins)}.")
    return [int(n) for n in entries]


def _of_named_features(given, names, parameter, default):
    """Return the entries of a dict in the order of the features; `default` where there is none."""
    known = [] if names is None else list(names)
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ValueError(
            f"{parameter} as a dict must have feature names of X as keys, got {unknown!r}; the "
            f"names are {known!r}."
        )
    return [given.get(name, default) for name in known]
