"""Planning: how accurate a release will be, from public facts only."""

from itertools import takewhile
from numbers import Integral, Real

import numpy as np

from dpq_sklearn.checks import checked_positive, shown
from dpq_sklearn.forecast import enough_data as quality
from dpq_sklearn.forecast.enough_data import AUTO_BINS, TOO_FAR_OFF
from dpq_sklearn.releases.release import plan_release
from dpq_sklearn.statistics.quantiles import checked_quantiles


def expected_rank_error(quantiles, *, eps=1.0, delta=0.0, rho=None, n_features=1, mechanism="aq"):
    """Compute the standard deviation of the rank of each private quantile, before any release.

    The rank of a released quantile is the number of records below it.

    Parameters
    ----------
    quantiles : int or array-like of float
        The number of bins, for the quantiles i / n_bins between them, or the quantiles themselves,
        ascending.
    eps, delta, rho
        The budget of the whole fit, as in :func:`dp_quantiles`.
    n_features : int, default=1
        How many features share the budget.
    mechanism : {"aq", "joint_exp", "ind_exp", "auto"}, default="aq"
        The mechanism.

    Returns
    -------
    errors : ndarray of shape (n_quantiles,)
        Standard deviations, in records.

    See Also
    --------
    rank_error_bound : What an error exceeds with a small probability only, whatever the data.

    Notes
    -----
    The error is a linear combination of the noises of the draws: in AQ a node's own noise is
    two-sided exponential with variance 2 / eta^2, and it inherits q of the error of its upper end
    and 1 - q of that of its lower end. That does not depend on the data as long as these are many
    and not tied. Tied data may be further off: an estimate can land beside a value that many
    records share. So may data that are too few to be found at all.

    Examples
    --------
    >>> from dpq_sklearn import expected_rank_error
    >>> expected_rank_error(4, eps=1.0).round(1)
    array([3.3, 2.8, 3.3])
    """
    plan = planned(quantiles, n_features, mechanism, eps=eps, delta=delta, rho=rho)
    errors = quality.rank_errors(plan)[0]
    if np.isnan(errors).any():
        raise ValueError(
            f"mechanism must not be 'agg_tree', got {mechanism!r}: its error depends on the data."
        )
    return errors


def suggest_n_bins(n_rows, *, eps=1.0, delta=0.0, rho=None, n_features=1, tolerance=TOO_FAR_OFF):
    """Suggest the largest number of bins whose edges are still meaningful.

    It is the largest power of two (AQ is at its best there), up to 64 and to the cube root of
    `n_rows`, whose edges are expected to be off by no more than `tolerance`. ``n_bins="auto"``
    follows the same rule, but its count of the rows is private: one standard deviation of the noise
    is taken off, so it takes fewer bins where the rows are few.

    Parameters
    ----------
    n_rows : int
        A public guess at the number of rows: its order of magnitude is enough. The exact number
        may itself be private.
    eps, delta, rho, n_features
        The budget of the whole fit, as in :func:`expected_rank_error`.
    tolerance : float, default=0.5
        The expected error of an edge that is acceptable, in bins: in parts of the rows that a bin
        should hold.

    Returns
    -------
    n_bins : int
        From 2 to 64; or 1, with a :class:`PrivacyNoiseWarning`, if 2 bins are too many.

    Examples
    --------
    >>> from dpq_sklearn import suggest_n_bins
    >>> suggest_n_bins(10_000, n_features=10, eps=1.0)
    16
    """
    n_rows = _checked_count(n_rows, "n_rows")
    checked_positive(tolerance, "tolerance")

    def plan(n_bins):
        return planned(n_bins, n_features, eps=eps, delta=delta, rho=rho)

    enough = takewhile(lambda n: quality.is_near_enough(plan(n), n_rows, tolerance), AUTO_BINS)
    n_bins = max(enough, default=1)
    if n_bins == 1:
        error = quality.errors_in_bins(plan(2), n_rows).mean()
        quality.warn_of_noise(
            f"{n_rows:,} rows are too few for 2 bins of {n_features} feature"
            f"{'s' if n_features > 1 else ''}: an edge is expected to be {error:.2g} bins off. Use "
            f"fewer features, a delta or a larger {'eps' if rho is None else 'rho'}."
        )
    return n_bins


def planned(quantiles, n_features, mechanism="aq", **budget):
    """Return the plan of a fit without bounds of so many features, all with these quantiles."""
    n_features = _checked_count(n_features, "n_features")
    quantiles = [_ascending_quantiles(quantiles)] * n_features
    bounds = [(-np.inf, np.inf)] * n_features
    return plan_release(quantiles, bounds=bounds, mechanism=mechanism, with_count=True, **budget)


def _ascending_quantiles(quantiles):
    if isinstance(quantiles, Integral):
        n_bins = _checked_count(quantiles, "quantiles as a number of bins", least=2)
        return quality.even_quantiles(n_bins)
    q = np.atleast_1d(checked_quantiles(quantiles, "quantiles"))
    if q.ndim > 1 or np.any(np.diff(q) <= 0):
        raise ValueError(f"quantiles must be ascending and distinct, got {shown(quantiles)}.")
    return q


def _checked_count(value, name, least=1):
    """Return a whole number, which may be written as 1e4, as an int."""
    is_whole = isinstance(value, Real) and not isinstance(value, bool) and value % 1 == 0
    if not is_whole or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {shown(value)}.")
    return int(value)
