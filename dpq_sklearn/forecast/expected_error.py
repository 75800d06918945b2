"""Forecasts of the accuracy of a release, from public facts only."""

from functools import partial
from itertools import takewhile
from numbers import Integral

import numpy as np

from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.checks import (
    checked_bounds,
    checked_decimals,
    checked_positive,
    checked_probabilities,
    checked_whole,
    shown,
)
from dpq_sklearn.forecast.enough_data import (
    AUTO_BINS,
    TOO_FAR_OFF,
    errors_in_bins,
    is_near_enough,
    rank_deviations,
    warn_user,
)
from dpq_sklearn.reading.priors import prior_of_column
from dpq_sklearn.releases.plans import plan_quantiles
from dpq_sklearn.releases.request import Column, CountRole, Request, even_probabilities


def expected_rank_error(quantiles, *, eps=None, delta=0.0, rho=None, n_features=1, mechanism="aq"):
    """Compute the standard deviation of the rank of each private quantile, before any release.

    The rank of a released quantile is the number of records below it. Read more in the :ref:`User
    Guide <expected_accuracy>`.

    Parameters
    ----------
    quantiles : int or array-like of float
        The ascending quantiles, or a number of bins for the quantiles i / n_bins between them.
    eps, delta, rho
        The budget of the whole fit, as in :func:`dp_quantiles`.
    n_features : int, default=1
        How many features share the budget.
    mechanism : {"aq", "auto"}, default="aq"
        The mechanism.

    Returns
    -------
    errors : ndarray of shape (n_quantiles,)
        Standard deviations, in records.

    See Also
    --------
    rank_error_bound : A bound that holds with high probability for all data.

    Notes
    -----
    The error of a quantile is a linear combination of the noises of the draws. In AQ the noise of a
    node is two-sided exponential with the variance 2 / eta^2. The node also inherits q times the
    error of its upper end and 1 - q times the error of its lower end. Two quantiles that are drawn
    at once have errors that are uniform on a polygon with a random size, which has a gamma
    distribution. The errors do not depend on the data if there are many records without ties. They
    may be larger for tied records, because an estimate can lie next to a value that many records
    share, and for small data, which the draws may not find.

    Examples
    --------
    >>> from dpq_sklearn import expected_rank_error
    >>> expected_rank_error(4, eps=1.0).round(1)
    array([3.3, 2.8, 3.3])
    """
    plan = plan_alike(quantiles, n_features, TotalBudget(eps, delta, rho), mechanism)
    errors = rank_deviations(plan)[0]

    if np.isnan(errors).any():
        raise ValueError(
            f"mechanism must not be 'agg_tree', got {mechanism!r}: its error depends on the data."
        )
    return errors


def suggest_n_bins(
    n_rows,
    *,
    eps=None,
    delta=0.0,
    rho=None,
    n_features=1,
    bounds=None,
    decimals=None,
    prior=None,
    tolerance=TOO_FAR_OFF,
):
    """Suggest the largest number of bins with useful edges.

    Tries 2, 4, 8, 16, 32 and 64 bins, up to the cube root of `n_rows`, and returns the largest
    number with an expected error of at most `tolerance`. ``n_bins="auto"`` follows the same rule
    with a private count of the rows, and uses fewer bins if that count is noisy. Read more in the
    :ref:`User Guide <before_the_first_fit>`.

    Parameters
    ----------
    n_rows : int
        A public guess at the number of rows. The order of magnitude is enough. The exact number
        may be private.
    eps, delta, rho, n_features
        The budget of the whole fit, as in :func:`expected_rank_error`.
    bounds, decimals, prior
        Public facts that hold for all features, as in :func:`dp_quantiles`. With `decimals` and
        `bounds` there are at most as many bins as points.
    tolerance : float, default=0.5
        The largest acceptable expected error of an edge, in bins: as a share of the rows that a bin
        should hold.

    Returns
    -------
    n_bins : int
        From 2 to 64; or 1, with a :class:`PrivacyNoiseWarning`, if 2 bins are too many.

    See Also
    --------
    expected_rank_error : The error of each edge, in rows.
    DPKBinsDiscretizer : ``n_bins="auto"`` uses a private count instead of a guess.

    Examples
    --------
    >>> from dpq_sklearn import suggest_n_bins
    >>> suggest_n_bins(10_000, n_features=10, eps=1.0)
    16
    """
    n_rows = checked_whole(n_rows, "n_rows")
    checked_positive(tolerance, "tolerance")
    known = {
        "bounds": checked_bounds(bounds),
        "decimals": checked_decimals(decimals),
        "prior": prior_of_column(prior, None),
    }
    plan_of = partial(
        plan_alike, n_features=n_features, budget=TotalBudget(eps, delta, rho), **known
    )

    def is_enough(n_bins):
        return is_near_enough(plan_of(n_bins), n_rows, tolerance)

    n_bins = max(takewhile(is_enough, AUTO_BINS), default=1)

    if n_bins == 1:
        error = errors_in_bins(plan_of(2), n_rows).mean()
        warn_user(
            f"{n_rows:,} rows are too few for 2 bins of {n_features} feature"
            f"{'s' if n_features > 1 else ''}: the expected error of an edge is {error:.2g} bins. "
            f"Use fewer features, a delta or a larger {'eps' if rho is None else 'rho'}."
        )
    return n_bins


def plan_alike(quantiles, n_features, budget, mechanism="aq", **known):
    """Return the plan of a fit in which all features have the same quantiles.

    `known` has further fields of a `Column`.
    """
    n_features = checked_whole(n_features, "n_features")
    column = Column(_ascending_probabilities(quantiles), **known)

    return plan_quantiles(
        Request(
            columns=[column] * n_features,
            budget=budget,
            mechanism_name=mechanism,
            count=CountRole.BESIDE,
        )
    )


def _ascending_probabilities(quantiles):
    """Return the probabilities for a number of bins or for ascending quantiles."""
    if isinstance(quantiles, Integral):
        n_bins = checked_whole(quantiles, "quantiles as a number of bins", least=2)
        return even_probabilities(n_bins)

    probabilities = np.atleast_1d(checked_probabilities(quantiles, "quantiles"))
    if probabilities.ndim > 1 or np.any(np.diff(probabilities) <= 0):
        raise ValueError(f"quantiles must be ascending and distinct, got {shown(quantiles)}.")
    return tuple(probabilities.tolist())
