"""Planning: how accurate a release will be, from public facts only."""

from numbers import Integral

import numpy as np

from dpq_sklearn.checks import checked_positive, shown
from dpq_sklearn.quantiles import checked_quantiles
from dpq_sklearn.release import plan_release

_MOST_BINS = 256


def expected_rank_error(quantiles, *, eps=1.0, delta=0.0, rho=None, n_features=1, mechanism="aq"):
    """Compute the standard deviation of the rank of each private quantile, before any release.

    The rank of a released quantile is the number of records below it. Its error is a linear
    combination of the noises of the draws, which do not depend on the data as long as these are
    many and not tied; so the error is computed, not simulated.

    Parameters
    ----------
    quantiles : int or array-like of float
        The number of bins, for the quantiles i / n_bins, or the quantiles themselves, ascending.
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

    Notes
    -----
    In AQ a node's own noise is two-sided exponential with variance 2 / eta^2; it inherits q of the
    error of its upper end and 1 - q of that of its lower end. Tied data may be further off: an
    estimate can land in the gap beside an atom.

    Examples
    --------
    >>> from dpq_sklearn import expected_rank_error
    >>> expected_rank_error(4, eps=1.0).round(1)
    array([3.2, 2.8, 3.2])
    """
    q = _ascending_quantiles(quantiles)
    _checked_count(n_features, "n_features")
    plan = plan_release(
        [tuple(q)] * n_features,
        eps=eps,
        delta=delta,
        rho=rho,
        bounds=[(-np.inf, np.inf)] * n_features,
        mechanism=mechanism,
        with_count=True,
    )
    errors = plan.rank_errors()[0]
    if np.isnan(errors).any():
        raise ValueError(
            f"mechanism must not be 'agg_tree', got {mechanism!r}: its error depends on the data."
        )
    return errors


def suggest_n_bins(n_rows, n_features=1, eps=1.0, *, delta=0.0, rho=None, tolerance=0.1):
    """Suggest the largest number of bins whose edges are still meaningful.

    The largest power of two (AQ is at its best there) such that no edge is expected to be off
    by more than `tolerance` of a bin's share of the rows.

    Parameters
    ----------
    n_rows : int
        A public guess at the number of rows: its order of magnitude is enough. The exact number
        may itself be private.
    n_features : int, default=1
        How many features share the budget.
    eps, delta, rho
        The budget of the whole fit, as in :func:`dp_quantiles`.
    tolerance : float, default=0.1
        The standard deviation of an edge's rank that is acceptable, in bins.

    Returns
    -------
    n_bins : int
        From 2 to 256.

    Examples
    --------
    >>> from dpq_sklearn import suggest_n_bins
    >>> suggest_n_bins(10_000, n_features=10, eps=1.0)
    8
    """
    _checked_count(n_rows, "n_rows")
    checked_positive(tolerance, "tolerance")
    n_bins = 2
    while 2 * n_bins <= _MOST_BINS:
        errors = expected_rank_error(
            2 * n_bins, eps=None if rho else eps, delta=delta, rho=rho, n_features=n_features
        )
        if errors.max() > tolerance * n_rows / (2 * n_bins):
            break
        n_bins *= 2
    return n_bins


def _ascending_quantiles(quantiles):
    if isinstance(quantiles, Integral) and not isinstance(quantiles, bool):
        if quantiles < 2:
            raise ValueError(f"quantiles as a number of bins must be >= 2, got {shown(quantiles)}.")
        return np.arange(1, quantiles) / quantiles
    q = np.atleast_1d(checked_quantiles(quantiles))
    if q.ndim > 1 or np.any(np.diff(q) <= 0):
        raise ValueError(f"quantiles must be ascending and distinct, got {shown(quantiles)}.")
    return q


def _checked_count(value, name):
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {shown(value)}.")
