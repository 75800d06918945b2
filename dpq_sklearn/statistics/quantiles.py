"""Private statistics of one column: quantiles, a stand-in, a count and a histogram."""

from numbers import Integral

import numpy as np

from dpq_sklearn.checks import checked_bounds, shown
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.reading.containers import checked_column, no_data_in_frames
from dpq_sklearn.reading.groups import checked_groups, neighbours_of
from dpq_sklearn.reading.sources import Histogram, Rows, Table, n_rows
from dpq_sklearn.releases.release import pay, plan_counts, plan_release, release


def dp_quantiles(
    x,
    q,
    *,
    eps=1.0,
    delta=0.0,
    rho=None,
    bounds=None,
    mechanism="aq",
    groups=None,
    random_state=None,
    ledger=None,
    return_privacy=False,
):
    """Compute differentially private quantiles of one column.

    Like :func:`numpy.quantile` for one column, at a stated price for all quantiles together.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        The private numbers: any real dtype, a list, a pandas or polars Series, objects that are
        numbers. NaN and missing values are ignored, infinities are clipped.
    q : float or array-like of float
        Quantiles, each strictly between 0 and 1, in any order and shape, repeated or not.
    eps : float or None, default=1.0
        Privacy budget of the whole release. None if `rho` is given.
    delta : float, default=0.0
        With ``delta > 0`` the release is (eps, delta)-DP.
    rho : float or None, default=None
        Budget in zero-concentrated DP instead, with ``eps=None``.
    bounds : None or (low, high), default=None
        Public bounds that the numbers are clipped to; one of them may be None. None needs no
        knowledge of the data and reads none from them. Never take bounds from the data themselves.
    mechanism : {"aq", "joint_exp", "ind_exp", "agg_tree", "auto"}, default="aq"
        "aq" is ApproximateQuantiles. "joint_exp" draws all quantiles at once and is somewhat more
        accurate for a few small numbers of quantiles, "auto" uses it where that is so. "ind_exp"
        (every quantile on its own) and "agg_tree" (noisy counts) are there for comparison.
    groups : array-like of shape (n_samples,) or None, default=None
        Whose row each one is: any hashable labels, a missing one is a person of its own. Each of a
        person's k rows then weighs 1/k, NaN included, and the promise is for people. None is for
        rows. "joint_exp" takes no groups.
    random_state : None, int or RandomState, default=None
        None is the operating system's generator. Anything else is reproducible, for tests only:
        anyone who knows the seed can remove the noise.
    ledger : PrivacyLedger, absolute path or None, default=None
        Where the spend is recorded before `x` is read. Raises if it does not fit in.
    return_privacy : bool, default=False
        Whether to return the :class:`PrivacyLoss` as well.

    Returns
    -------
    quantiles : float or ndarray of the shape of `q`
        Monotone in `q`.
    privacy : PrivacyLoss
        What the release cost. Only if `return_privacy`.

    Notes
    -----
    **Privacy.** Neighbours: `x` with one record, or all records of a person, added or removed. The
    values returned are (eps, delta)-DP (or rho-zCDP) functions of `x`, for one call. Every call
    spends anew.

    Examples
    --------
    >>> import numpy as np
    >>> from dpq_sklearn import dp_quantiles
    >>> ages = np.random.default_rng(0).normal(40, 12, size=20_000).round()
    >>> dp_quantiles(ages, [0.25, 0.5, 0.75], eps=1.0, random_state=0)
    array([32., 40., 48.])
    """
    q_array = checked_quantiles(q)
    ascending, inverse = np.unique(q_array, return_inverse=True)
    plan = plan_release(
        [ascending],
        eps=eps,
        delta=delta,
        rho=rho,
        bounds=[(-np.inf, np.inf) if bounds is None else checked_bounds(bounds)],
        mechanism=mechanism,
        neighbours=neighbours_of(groups),
        adds_up=ledger is not None,
    )
    x, groups = _checked_rows(x, groups)
    facts = {"what": "dp_quantiles", "columns": 1, "detail": f"{ascending.size} quantiles"}
    paid = pay(plan, ledger, random_state, **facts)
    with no_data_in_frames():
        (released,) = release(paid, Table(x, groups=groups)).quantiles
    values = released[inverse.reshape(q_array.shape)]
    values = float(values) if q_array.ndim == 0 else values
    return (values, paid.plan.loss) if return_privacy else values


def sanitize(
    x,
    n_samples,
    *,
    eps=1.0,
    delta=0.0,
    rho=None,
    bounds=None,
    mechanism="aq",
    groups=None,
    random_state=None,
    ledger=None,
    return_privacy=False,
):
    """Make a private stand-in for a column: points that fall into every interval as the data do.

    They are the private quantiles (i - 1/2) / n_samples (sanitisation, Kaplan et al. 2021).

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        The private numbers, as in :func:`dp_quantiles`.
    n_samples : int
        How many points to make: a public number, chosen without looking at the data. More points
        are noisier; the number of private rows itself is private and not a good choice.
    eps, delta, rho, bounds, mechanism, groups, random_state, ledger, return_privacy
        As in :func:`dp_quantiles`.

    Returns
    -------
    points : ndarray of shape (n_samples,)
        In ascending order.
    privacy : PrivacyLoss
        What the release cost. Only if `return_privacy`.

    Notes
    -----
    **Privacy.** That of :func:`dp_quantiles` with `n_samples` quantiles.

    Examples
    --------
    >>> import numpy as np
    >>> from dpq_sklearn import sanitize
    >>> incomes = np.random.default_rng(0).lognormal(10, 1, size=10_000)
    >>> points = sanitize(incomes, 100, eps=1.0, random_state=0)
    >>> bool(40 <= (points < np.median(incomes)).sum() <= 60)
    True
    """
    if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
        raise ValueError(f"n_samples must be an integer >= 1, got {shown(n_samples)}.")
    return dp_quantiles(
        x,
        (np.arange(n_samples) + 0.5) / n_samples,
        eps=eps,
        delta=delta,
        rho=rho,
        bounds=bounds,
        mechanism=mechanism,
        groups=groups,
        random_state=random_state,
        ledger=ledger,
        return_privacy=return_privacy,
    )


def dp_count(
    x,
    *,
    eps=1.0,
    delta=0.0,
    rho=None,
    groups=None,
    random_state=None,
    ledger=None,
    return_privacy=False,
):
    """Count the rows of a column or table, or the people in it, with noise.

    Parameters
    ----------
    x : array-like
        The private rows. Missing values count, too.
    eps, delta, rho, groups, random_state, ledger, return_privacy
        As in :func:`dp_quantiles`.

    Returns
    -------
    count : int
        It may be negative.
    privacy : PrivacyLoss
        What the release cost. Only if `return_privacy`.

    Notes
    -----
    **Privacy.** Neighbours: `x` with one row, or all rows of a person, added or removed, which
    changes the count by 1. The noise is discrete: Laplace for `eps`, Gaussian for `rho`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpq_sklearn import dp_count
    >>> dp_count(np.zeros(1000), eps=1.0, random_state=0)
    1000
    """
    plan = plan_counts(1, eps=eps, delta=delta, rho=rho, neighbours=neighbours_of(groups))
    is_text_or_dict = isinstance(x, (str, bytes, dict))
    if not hasattr(x, "__len__") or is_text_or_dict or getattr(x, "shape", None) == ():
        raise ValueError(f"x must be a column or a table, got an object of {type(x).__name__}.")
    groups = None if groups is None else checked_groups(groups, n_rows(x))
    paid = pay(plan, ledger, random_state, what="dp_count", columns=None, detail="1 count")
    with no_data_in_frames():
        count = int(release(paid, Rows(x, groups))[0])
    return (count, paid.plan.loss) if return_privacy else count


def dp_histogram(
    x,
    bins,
    *,
    eps=1.0,
    delta=0.0,
    rho=None,
    groups=None,
    random_state=None,
    ledger=None,
    return_privacy=False,
):
    """Count the values of a column between given edges, with noise.

    Like :func:`numpy.histogram` with given edges, at a stated privacy price for all bins together.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        The private numbers, as in :func:`dp_quantiles`. NaN are in no bin.
    bins : array-like of float
        The ascending edges of the bins: public numbers, chosen without looking at the data. The
        last bin has both of its ends.
    eps, delta, rho, groups, random_state, ledger, return_privacy
        As in :func:`dp_quantiles`.

    Returns
    -------
    counts : ndarray of shape (n_bins,)
        How many rows lie in each bin, or with `groups` how much of the people's weight. Integers,
        with `groups` floats; they may be negative.
    edges : ndarray of shape (n_bins + 1,)
        The edges.
    privacy : PrivacyLoss
        What the release cost. Only if `return_privacy`.

    Notes
    -----
    **Privacy.** Neighbours: `x` with one row, or all rows of a person, added or removed. A row is
    in one bin at most, and the weights of a person's rows sum to at most 1, so the counts change by
    at most 1 in all. The noise is discrete: Laplace for `eps`, Gaussian for `rho`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpq_sklearn import dp_histogram
    >>> ages = np.random.default_rng(0).normal(40, 12, size=20_000)
    >>> counts, edges = dp_histogram(ages, [0, 20, 40, 60, 80], eps=1.0, random_state=0)
    >>> counts
    array([ 904, 9121, 9027,  929])
    """
    edges = _checked_edges(bins)
    plan = plan_counts(
        edges.size - 1,
        eps=eps,
        delta=delta,
        rho=rho,
        parts=1 if groups is None else RECORD_WEIGHT,
        neighbours=neighbours_of(groups),
    )
    x, groups = _checked_rows(x, groups)
    facts = {"what": "dp_histogram", "columns": 1, "detail": f"{edges.size - 1} bins"}
    paid = pay(plan, ledger, random_state, **facts)
    with no_data_in_frames():
        counts = release(paid, Histogram(x, edges, groups))
    return (counts, edges, paid.plan.loss) if return_privacy else (counts, edges)


def _checked_rows(x, groups):
    """Return a checked column and checked groups; reads no cell and no label."""
    x = checked_column(x)
    return x, None if groups is None else checked_groups(groups, len(x))


def _checked_edges(bins):
    """Return ascending finite edges, at least two."""
    edges = _floats_of(bins)
    is_row = edges.ndim == 1 and edges.size >= 2
    if not is_row or not np.isfinite(edges).all() or np.any(edges[1:] <= edges[:-1]):
        raise ValueError(f"bins must be two or more ascending finite edges, got {shown(bins)}.")
    return edges


def checked_quantiles(q, name="q"):
    """Return `q` as a float array with every entry strictly between 0 and 1."""
    floats = _floats_of(q)
    if floats.size == 0 or not np.all((floats > 0) & (floats < 1)):
        raise ValueError(f"{name} must be numbers strictly between 0 and 1, got {shown(q)}.")
    return floats


def _floats_of(numbers):
    """Return real numbers as an array of floats, and nothing of anything else."""
    try:
        array = np.asarray(numbers)
    except ValueError:  # rows of different lengths
        array = np.empty(0)
    with np.errstate(all="ignore"):
        return array.astype(np.float64) if array.dtype.kind in "iuf" else np.empty(0)
