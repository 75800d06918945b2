"""Private quantiles of one column, and private points with about its distribution."""

from dataclasses import replace
from numbers import Integral

import numpy as np

from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.accounting.neighbours import neighbours_of
from dpq_sklearn.checks import (
    MOST_QUANTILES,
    checked_bounds,
    checked_decimals,
    checked_probabilities,
    shown,
)
from dpq_sklearn.dates import ColumnKind, nearest_dates
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.forecast.enough_data import warn_of_large_delta
from dpq_sklearn.mechanisms.registry import checked_mechanism
from dpq_sklearn.reading.containers import (
    checked_column,
    dtypes_of,
    kinds_of_columns,
    no_data_in_frames,
)
from dpq_sklearn.reading.describe_format import (
    check_library_of,
    make_segmented_quantiles,
    names_of_labels,
)
from dpq_sklearn.reading.groups import checked_groups
from dpq_sklearn.reading.priors import prior_of_column, refuse_private_rows
from dpq_sklearn.reading.schema import within_schema
from dpq_sklearn.reading.segments import SegmentedTable, columns_of_segments
from dpq_sklearn.reading.sources.memory import MemorySource
from dpq_sklearn.releases.plans import plan_quantiles
from dpq_sklearn.releases.release import pay, release
from dpq_sklearn.releases.request import Column, CountRole, Request
from dpq_sklearn.statistics.noise_warning import (
    warn_of_noisy_points,
    warn_of_noisy_quantiles,
    warn_of_noisy_segments,
)
from dpq_sklearn.statistics.segments import check_by_and_keys, release_segments


def dp_quantiles(
    x,
    q,
    *,
    by=None,
    keys=None,
    eps=None,
    delta=0.0,
    rho=None,
    bounds=None,
    decimals=None,
    prior=None,
    mechanism="aq",
    groups=None,
    random_state=None,
    ledger=None,
    return_privacy=False,
):
    """Compute differentially private quantiles of one column.

    Like :func:`numpy.quantile` for one column. All quantiles together spend one budget. Read more
    in :ref:`Getting started <statistics>`.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        The private numbers or dates: any real dtype, a list, a pandas or polars Series, objects
        that are numbers, or a type of dates, times or durations. NaN and missing values are
        ignored, infinities are clipped.
    q : float or array-like of float
        Quantiles, each strictly between 0 and 1, in any order and shape, repeated or not. At most
        100,000.
    by : array-like of shape (n_samples,), table or None, default=None
        Labels that divide the rows into segments, such as regions, or a table of several columns of
        labels. The quantiles of each segment are released, and all segments together cost as much
        as one.
    keys : list, "private" or None, default=None
        The segments, with `by`, as in :func:`dp_describe`.
    eps : float or None, default=None
        Privacy budget of the whole release. None means 1.0, unless `rho` is given.
    delta : float, default=0.0
        With ``delta > 0`` the release is (eps, delta)-DP.
    rho : float or None, default=None
        Budget in zero-concentrated DP instead of eps.
    bounds : None or (low, high), default=None
        Public bounds that the numbers are clipped to; one of them may be None. You don't need to
        supply bounds, and none are taken from the data. Never compute them from the private data.
        For dates they are dates, without a time zone in UTC.
    decimals : None, int or "schema", default=None
        The declared precision, if it is public: 0 for whole numbers, 2 for cents, -3 for thousands.
        The numbers and the quantiles are rounded to it. None means that the precision is unknown.
        "schema" means 0 if `x` has a type of integers, booleans or dates, which must have been
        declared and not guessed from the values. Dates and durations count in days.
    prior : array-like of shape (n_public,) or None, default=None
        Public numbers of the same kind, or quantiles that were released before. The mechanism
        expects the quantiles where the prior has them, at no cost. Never pass numbers of `x`, or
        anything that was computed from it without privacy.
    mechanism : {"aq", "agg_tree", "auto"}, default="aq"
        "aq" is ApproximateQuantiles. "agg_tree" adds noise to counts, which is better for many
        quantiles if `decimals` and `bounds` leave few points. "auto" chooses between the two.
    groups : array-like of shape (n_samples,) or None, default=None
        The person each row belongs to, as any hashable label. A missing label counts as a separate
        person. With `groups` the guarantee protects people: each of a person's k rows weighs 1/k,
        including NaN. None protects single rows.
    random_state : None, int or RandomState, default=None
        None uses the operating system's generator. A seed makes the release reproducible and is
        for tests only: anyone who knows the seed can remove the noise.
    ledger : PrivacyLedger, absolute path or None, default=None
        The ledger to charge before `x` is read. Raises :class:`BudgetExceededError` if its budget
        does not suffice.
    return_privacy : bool, default=False
        Whether to return the :class:`PrivacyLoss` as well.

    Returns
    -------
    quantiles : float or ndarray of the shape of `q`
        Monotone in `q`. For dates it is a `datetime64` (in UTC if `x` has a time zone), for
        durations a `timedelta64`.
        With `by` the result is a DataFrame with a row for each key: its noisy count, and its
        quantiles in ascending order. It is of polars if `x` is, otherwise of pandas.
    privacy : PrivacyLoss
        The cost of the release. Only returned if `return_privacy` is True.

    Notes
    -----
    **Privacy.** Neighbours: `x` with one record, or all records of a person, added or removed. The
    values returned and the warning together are an (eps, delta)-DP (or rho-zCDP) function of `x`,
    for one call. Every call spends again. With `by` all segments together cost as much as one,
    because the weights of a record sum to at most 1 over all segments; see :func:`dp_describe`.

    **Warning.** A 64th of the budget pays for a noisy count of the rows. A
    :class:`PrivacyNoiseWarning` names the quantiles that are mostly noise according to this count:
    their expected error is more than half of the rows beyond them, or of the rows between two
    evenly spaced quantiles.

    See Also
    --------
    sanitize : Many points with about the distribution of the column.
    expected_rank_error : How far off they will be.
    DPQuantileTransformer : The same for a table, in a pipeline.

    Examples
    --------
    The seed makes the example reproducible. Leave `random_state` out for private data.

    >>> import numpy as np
    >>> from dpq_sklearn import dp_quantiles
    >>> ages = np.random.default_rng(0).normal(40, 12, size=20_000).round()
    >>> dp_quantiles(ages, [0.25, 0.5, 0.75], eps=1.0, random_state=0)
    array([32., 40., 48.])

    Medians of segments, all for one eps:

    >>> regions = np.random.default_rng(1).choice(["north", "south"], size=20_000)
    >>> found = dp_quantiles(ages, 0.5, by=regions, keys=["north", "south"], random_state=0)
    >>> found["50%"].to_dict()
    {'north': 40.0, 'south': 40.0}
    """
    check_by_and_keys(by, keys)
    probabilities = checked_probabilities(q, "q")
    ascending, inverse = np.unique(probabilities, return_inverse=True)
    asked = {
        "budget": TotalBudget(eps, delta, rho),
        "bounds": bounds,
        "decimals": decimals,
        "prior": prior,
        "mechanism": mechanism,
        "groups": groups,
        "random_state": random_state,
        "ledger": ledger,
    }
    with no_data_in_frames():
        if by is not None:
            table, loss = _released_by_segment(x, ascending, by, keys, **asked)
            return (table, loss) if return_privacy else table

        released, values, loss = _released_quantiles(x, ascending, **asked)
    warn_of_large_delta(loss.delta, released.n_rows)
    warn_of_noisy_quantiles(released, [f"{probability:.6g}" for probability in ascending])

    values = values[inverse.reshape(probabilities.shape)]
    if probabilities.ndim == 0:
        values = float(values) if values.dtype.kind == "f" else values[()]
    return (values, loss) if return_privacy else values


def sanitize(
    x,
    n_samples,
    *,
    eps=None,
    delta=0.0,
    rho=None,
    bounds=None,
    decimals=None,
    prior=None,
    mechanism="aq",
    groups=None,
    random_state=None,
    ledger=None,
    return_privacy=False,
):
    """Make private points with about the distribution of a column.

    They are the private quantiles (i - 1/2) / n_samples (sanitisation, Kaplan et al. 2021). Read
    more in :ref:`Getting started <statistics>`.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        The private numbers, as in :func:`dp_quantiles`.
    n_samples : int
        The number of points, at most 100,000, chosen without looking at the data. More points are
        noisier. Do not pass the number of private rows, which is private itself.
    eps, delta, rho, bounds, decimals, prior, mechanism, groups, random_state, ledger, \
return_privacy
        As in :func:`dp_quantiles`.

    Returns
    -------
    points : ndarray of shape (n_samples,)
        In ascending order.
    privacy : PrivacyLoss
        The cost of the release. Only returned if `return_privacy` is True.

    Notes
    -----
    **Privacy.** The guarantee of :func:`dp_quantiles` with `n_samples` quantiles.

    See Also
    --------
    dp_quantiles : A few quantiles, more accurately.
    rank_error_bound : How far off all of them can be.

    Examples
    --------
    The seed makes the example reproducible. Leave `random_state` out for private data.

    >>> import numpy as np
    >>> from dpq_sklearn import sanitize
    >>> incomes = np.random.default_rng(0).lognormal(10, 1, size=10_000)
    >>> points = sanitize(incomes, 100, eps=1.0, random_state=0)
    >>> np.quantile(points, [0.25, 0.5, 0.75]).round(-3)  # of the incomes: 11000, 22000, 44000
    array([11000., 22000., 44000.])
    """
    if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
        raise ValueError(f"n_samples must be an integer >= 1, got {shown(n_samples)}.")
    if n_samples > MOST_QUANTILES:
        raise ValueError(f"n_samples must be at most {MOST_QUANTILES:,}, got {shown(n_samples)}.")
    with no_data_in_frames():
        released, points, loss = _released_quantiles(
            x,
            (np.arange(n_samples) + 0.5) / n_samples,
            budget=TotalBudget(eps, delta, rho),
            bounds=bounds,
            decimals=decimals,
            prior=prior,
            mechanism=mechanism,
            groups=groups,
            random_state=random_state,
            ledger=ledger,
        )
    warn_of_noisy_points(released)
    return (points, loss) if return_privacy else points


def _released_quantiles(x, ascending, *, random_state, ledger, **asked):
    """Return the `Release` of ascending quantiles and a count, its values or dates, the loss."""
    randomness = make_randomness(random_state)
    source, kind, request = _source_and_request(
        x, ascending, has_ledger=ledger is not None, **asked
    )
    plan = plan_quantiles(replace(request, count=CountRole.BESIDE))

    detail = f"{ascending.size} quantiles and a count"
    paid = pay(plan, ledger, randomness, what="dp_quantiles", columns=1, detail=detail)
    released = release(paid, source)

    (values,) = released.values
    if kind is not ColumnKind.NUMBER:
        values = nearest_dates(values, kind)
    return released, values, paid.loss


def _released_by_segment(x, ascending, by, keys, *, random_state, ledger, **asked):
    """Return the table of counts and quantiles of each segment, and the loss."""
    randomness = make_randomness(random_state)
    source, _, request = _source_and_request(x, ascending, has_ledger=ledger is not None, **asked)
    labels = columns_of_segments(by, len(source.X))
    check_library_of(source.X)
    found = release_segments(
        request,
        keys,
        names_of_labels(by),
        SegmentedTable(source, labels),
        ledger,
        randomness,
        what="dp_quantiles",
        columns=1,
        detail=f"{ascending.size} quantiles and a count",
    )
    warn_of_noisy_segments(found)
    warn_of_large_delta(found.loss.delta, max(found.description.counts.sum(), 1))
    table = make_segmented_quantiles(source.X, ascending, by, found.keys, found.description)
    return table, found.loss


def _source_and_request(
    x, ascending, *, budget, bounds, decimals, prior, mechanism, groups, has_ledger
):
    """Check all arguments; return the source of a column, its kind, and the request."""
    checked_mechanism(mechanism)
    checked_bounds(bounds)
    is_schema = isinstance(decimals, str) and decimals == "schema"
    if not is_schema:
        decimals = checked_decimals(decimals)

    refuse_private_rows(prior, x)  # before lists become arrays, which are other objects
    x = checked_column(x)
    if groups is not None:
        groups = checked_groups(groups, len(x))
    (kind,) = kinds_of_columns(x)
    bounds = checked_bounds(bounds, kind)
    if is_schema:
        (bounds,), (decimals,) = within_schema(dtypes_of(x), [bounds])
    prior = prior_of_column(prior, x)

    request = Request(
        columns=[Column(ascending, bounds, decimals, prior)],
        budget=budget,
        mechanism_name=mechanism,
        neighbours=neighbours_of(groups),
        has_ledger=has_ledger,
    )
    return MemorySource(x, groups), kind, request
