"""A private description of a table: how many values its columns have, and their quantiles."""

from collections.abc import Hashable

import numpy as np

from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.accounting.neighbours import neighbours_of
from dpq_sklearn.checks import checked_decimals, checked_probabilities, shown
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.estimators.parameters import per_feature_lattices
from dpq_sklearn.forecast.enough_data import warn_of_large_delta
from dpq_sklearn.mechanisms.registry import checked_mechanism
from dpq_sklearn.reading.containers import checked_table, dtypes_of, no_data_in_frames
from dpq_sklearn.reading.describe_format import (
    check_container,
    check_library_of,
    labels_of_quantiles,
    make_description,
    make_segmented_description,
    read_description,
)
from dpq_sklearn.reading.priors import priors_of_features, refuse_private_rows
from dpq_sklearn.reading.quantities import names_of, table_of_quantities
from dpq_sklearn.reading.sources.batches import Batches
from dpq_sklearn.reading.sources.registry import segments_of, source_of
from dpq_sklearn.reading.threads import check_n_jobs
from dpq_sklearn.releases.plans import plan_description
from dpq_sklearn.releases.release import pay, release
from dpq_sklearn.releases.request import Column, Request
from dpq_sklearn.statistics.noise_warning import (
    warn_of_noisy_description,
    warn_of_noisy_segments,
)
from dpq_sklearn.statistics.segments import check_by_and_keys, release_segments


def dp_describe(
    table,
    *,
    percentiles=(0.05, 0.25, 0.5, 0.75, 0.95),
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
    n_jobs=None,
    random_state=None,
    ledger=None,
    return_privacy=False,
):
    """Describe the columns of numbers and dates of a table: counts and quantiles, for one budget.

    Like :meth:`pandas.DataFrame.describe`, but without mean, minimum and maximum, which a single
    row can change at will. You don't need to know anything about the columns. Read more in the
    :ref:`User Guide <describe>`.

    Parameters
    ----------
    table : {pandas, polars, Arrow, dask or Spark table, NumPy or dask array, iterator}
        The private rows. Only columns with types of numbers or dates are described, and text,
        objects, booleans and categories are left out. Use :func:`dp_value_counts` for categories,
        which require a delta. NaN and missing values are not counted, and infinities are clipped.
        An iterator yields tables with the same columns, which together hold the rows.
    percentiles : array-like of float, default=(0.05, 0.25, 0.5, 0.75, 0.95)
        Which quantiles: distinct, each strictly between 0 and 1.
    by : str, list of str or None, default=None
        The column, or columns, with values that divide the rows into segments, such as regions.
        Each segment is described, and all segments together cost as much as one. These columns are
        not described.
    keys : list, "private" or None, default=None
        The segments, with `by`: a list of public values of the column, never taken from the data,
        or of tuples for several columns. Rows with other values are ignored, and a value that does
        not occur is described like an empty column. "private" finds the keys and spends a fifth of
        eps and all of `delta` on it, which must be larger than 0. Rare keys are left out.
    eps : float or None, default=None
        Privacy budget of the whole description, which the columns share equally. None means 1.0,
        unless `rho` is given.
    delta : float, default=0.0
        With ``delta > 0`` the release is (eps, delta)-DP, which helps with three columns or more.
    rho : float or None, default=None
        Budget in zero-concentrated DP instead of eps.
    bounds : None, pair, list of pairs or dict, default=None
        Public bounds, never taken from the data: one pair ``(low, high)`` for all columns that are
        described, or one for each, by position or name. None is an open end.
    decimals : None, int, array-like, dict or "schema", default=None
        The declared precision, if it is public: the number of decimals of all columns that are
        described, or of each of them; see :func:`dp_quantiles`.
    prior : DataFrame, array-like, fitted transformer or None, default=None
        Public rows with the same columns, or an earlier release: a description, or a fitted
        transformer. The mechanism expects the quantiles where the prior has them, at no cost. Never
        pass rows of `table`, or anything that was computed from it without privacy.
    mechanism : {"aq", "agg_tree", "auto"}, default="aq"
        The mechanism that finds the quantiles, as in :func:`dp_quantiles`.
    groups : array-like of shape (n_samples,), str or None, default=None
        The person each row belongs to, as in :meth:`DPKBinsDiscretizer.fit`, or the name of the
        column that holds the labels, which is not described then. With `groups` the description
        protects people: each of a person's k rows weighs 1/k, even in counts. Not for iterators.
    n_jobs : int or None, default=None
        Number of threads, as in joblib. The result does not depend on it.
    random_state, ledger, return_privacy
        As in :func:`dp_quantiles`. A description is one entry of a ledger.

    Returns
    -------
    description : pandas or polars DataFrame, or SmallTable if pandas is not installed
        The columns that are described, with the rows "count", "5%", and so on. Counts are whole
        numbers, at least 0; they get a fifth of the budget. For a polars table it is a polars
        DataFrame with the labels of the rows in a column "statistic", otherwise a pandas DataFrame.
        Without pandas it is a small table that prints, indexes by name and has a `to_pandas`. A
        column of dates holds dates, as objects in pandas and as text in polars. With `by`, which
        requires pandas or polars, it has a row for each key, and pairs of a column and a statistic
        as columns, like ``DataFrame.groupby(...).describe()``. In polars the keys are columns.
    privacy : PrivacyLoss
        The cost of the release. Only returned if `return_privacy` is True.

    See Also
    --------
    DPDescribeDisplay : Draws a description with its noise.
    dp_quantiles : Quantiles of one column.
    dp_count : The number of rows, including rows with missing values.
    dp_value_counts : The categories of a text column and their counts.

    Notes
    -----
    **Privacy.** Neighbours: `table` with one row, or all rows of a person, added or removed. The
    description is an (eps, delta)-DP (or rho-zCDP) function of the rows. One row changes the count
    of each column by at most 1, and the costs of all counts and quantiles add up. The names and
    types of the columns are considered public, and decide which columns are described.

    With `by`, a row is in one segment, and the weights of a person's rows sum to one record over
    all segments. So all segments together cost as much as one description. The keys are public. If
    they are found privately, the description has a pure eps of 4/5 of `eps`, and finding the keys
    costs the rest and `delta`.

    Examples
    --------
    The seed makes the example reproducible. Leave `random_state` out for private data.

    >>> import numpy as np
    >>> import pandas as pd
    >>> from dpq_sklearn import dp_describe
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"age": rng.normal(40, 12, size=20_000).round(), "name": "Ada"})
    >>> people["income"] = rng.lognormal(10, 1, size=20_000).round(-2)
    >>> dp_describe(people, eps=1.0, random_state=4)
                age    income
    count  20007.00   20009.0
    5%        21.00    4200.0
    25%       32.00   11255.0
    50%       40.00   22067.0
    75%       48.00   43270.0
    95%       59.95  115050.0

    All segments together cost one eps:

    >>> people["region"] = rng.choice(["north", "south"], size=20_000, p=[0.8, 0.2])
    >>> incomes = people[["region", "income"]]
    >>> described = dp_describe(incomes, by="region", keys=["north", "south"], random_state=0)
    >>> described["income", "50%"].to_dict()
    {'north': 22017.0, 'south': 22000.0}
    """
    check_by_and_keys(by, keys)
    probabilities = np.sort(checked_probabilities(percentiles, "percentiles").ravel())
    if np.any(np.diff(probabilities) == 0):
        raise ValueError(f"percentiles must be distinct, got {shown(percentiles)}.")
    budget = TotalBudget(eps, delta, rho)
    checked_mechanism(mechanism)
    if isinstance(decimals, str) and decimals != "schema":
        checked_decimals(decimals)  # it raises
    randomness = make_randomness(random_state)
    check_n_jobs(n_jobs)

    with no_data_in_frames():
        refuse_private_rows(prior, table)
        by = _names_in(by)
        source = _source(table, by, groups, n_jobs)
        typed_rows = checked_table(source.typed_rows())
        check_container(typed_rows)
        if by:
            check_library_of(typed_rows)

        columns = _columns(typed_rows, probabilities, bounds, decimals, prior)
        request = Request(
            columns=columns,
            budget=budget,
            mechanism_name=mechanism,
            resolution=source.default_resolution,
            neighbours=neighbours_of(groups),
            has_ledger=ledger is not None,
        )
        facts = {"what": "dp_describe", "columns": _public_columns(typed_rows)}
        detail = f"{probabilities.size} quantiles and a count"
        if by:
            found = release_segments(
                request, keys, by, source, ledger, randomness, detail=detail, **facts
            )
            warn_of_noisy_segments(found)
            counts = found.description.counts.reshape(len(columns), len(found.keys))
            warn_of_large_delta(found.loss.delta, counts.sum(axis=1).max(initial=1))
            description = make_segmented_description(
                typed_rows,
                probabilities,
                by,
                found.keys,
                found.description.counts,
                found.description.values,
            )
            return (description, found.loss) if return_privacy else description

        plan = plan_description(request)
        paid = pay(plan, ledger, randomness, detail=detail, **facts)
        released = release(paid, source)

    warn_of_noisy_description(
        plan, released.counts, names_of(typed_rows), labels_of_quantiles(probabilities)
    )
    warn_of_large_delta(paid.loss.delta, released.counts.max(initial=1))
    description = make_description(typed_rows, probabilities, released.counts, released.values)
    return (description, paid.loss) if return_privacy else description


def _names_in(by):
    """Return the names of the columns of labels: a list, empty for None."""
    if by is None:
        return []
    names = list(by) if isinstance(by, (list, tuple)) else [by]
    if not all(isinstance(name, Hashable) for name in names):
        raise ValueError(
            f"by must be the name of a column, or a list of names, got {shown(by)}. For labels in "
            "an array of their own, use dp_quantiles."
        )
    return names


def _source(table, by, groups, n_jobs):
    """Return the source of the columns that are described."""
    if by:
        return segments_of(table, by, groups, n_jobs)
    if hasattr(table, "__next__"):
        return Batches.of_quantities(table, groups, n_jobs)
    return source_of(table, groups, n_jobs, name="table").quantities()


def _columns(typed_rows, probabilities, bounds, decimals, prior):
    """Return the request for each column, with the public facts about it."""
    names = names_of(typed_rows)
    n_columns = len(names)
    bounds, decimals = per_feature_lattices(
        bounds, decimals, n_columns, names, dtypes_of(typed_rows)
    )
    is_rows = hasattr(prior, "columns") and read_description(prior) is None
    if is_rows:  # they may have columns of other types, like the table
        prior = table_of_quantities(prior, "prior")
    priors = priors_of_features(prior, n_columns, names)
    return [Column(probabilities, *known) for known in zip(bounds, decimals, priors, strict=True)]


def _public_columns(typed_rows):
    """Return the names of the columns for a ledger, or their number if not all names are text."""
    names = names_of(typed_rows)
    return names if all(isinstance(name, str) for name in names) else len(names)
