"""Private counts: of the rows of a table, or of the values of a column between given edges."""

from numbers import Integral

import numpy as np

from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.accounting.neighbours import neighbours_of
from dpq_sklearn.checks import real_numbers, shown
from dpq_sklearn.dates import dates_in_list, days_of, kind_of, nearest_dates, numbers_of
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.reading.containers import checked_column, kinds_of_columns, no_data_in_frames
from dpq_sklearn.reading.counted import Histogram, Rows, n_rows
from dpq_sklearn.reading.groups import checked_groups
from dpq_sklearn.reading.sources.memory import without_column
from dpq_sklearn.releases.plans import plan_counts, units_of_neighbours
from dpq_sklearn.releases.release import pay, release

# A count for each bin has to fit into memory.
_MOST_BINS = 10**7


def dp_count(
    x,
    *,
    eps=None,
    delta=0.0,
    rho=None,
    groups=None,
    random_state=None,
    ledger=None,
    return_privacy=False,
):
    """Count the rows of a column or table, or the people in it, with noise.

    Read more in :ref:`Getting started <statistics>`.

    Parameters
    ----------
    x : array-like
        The private rows, including rows with missing values.
    eps, delta, rho, groups, random_state, ledger, return_privacy
        As in :func:`dp_quantiles`. For a table, `groups` may be the name of a column.

    Returns
    -------
    count : int
        It may be negative.
    privacy : PrivacyLoss
        The cost of the release. Only returned if `return_privacy` is True.

    Notes
    -----
    **Privacy.** Neighbours: `x` with one row, or all rows of a person, added or removed, which
    changes the count by 1. The noise is discrete: Laplace for `eps`, Gaussian for `rho`.

    See Also
    --------
    dp_histogram : Counts between given edges.
    PrivacyLedger : Adds up the budget that is spent.

    Examples
    --------
    The seed makes the example reproducible. Leave `random_state` out for private data.

    >>> import numpy as np
    >>> from dpq_sklearn import dp_count
    >>> dp_count(np.zeros(1000), eps=1.0, random_state=0)
    1000
    """
    plan = plan_counts(
        1,
        TotalBudget(eps, delta, rho),
        neighbours=neighbours_of(groups),
        has_ledger=ledger is not None,
    )
    randomness = make_randomness(random_state)

    is_text_or_dict = isinstance(x, (str, bytes, dict))
    if not hasattr(x, "__len__") or is_text_or_dict or getattr(x, "shape", None) == ():
        raise ValueError(f"x must be a column or a table, got an object of {type(x).__name__}.")
    if groups is not None:
        with no_data_in_frames():
            if isinstance(groups, str):  # the name of a column
                _, groups = without_column(x, groups)
            groups = checked_groups(groups, n_rows(x))

    paid = pay(plan, ledger, randomness, what="dp_count", columns=None, detail="1 count")
    with no_data_in_frames():
        (count,) = release(paid, Rows(x, groups)).tolist()

    return (count, paid.loss) if return_privacy else count


def dp_histogram(
    x,
    bins,
    range=None,
    *,
    eps=None,
    delta=0.0,
    rho=None,
    groups=None,
    random_state=None,
    ledger=None,
    return_privacy=False,
):
    """Count the values of a column in each bin, with noise.

    Like :func:`numpy.histogram`. All bins together spend one budget, and the edges are never taken
    from the data. Read more in :ref:`Getting started <statistics>`.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        The private numbers, as in :func:`dp_quantiles`. NaN are not counted.
    bins : int or array-like of float
        The ascending edges of the bins, or with `range` the number of bins of equal width. Choose
        them without looking at the data. The last bin includes its right edge. For dates the edges
        are dates.
    range : (float, float) or None, default=None
        The lower and the upper end of the bins if `bins` is a number. Unlike in NumPy it has no
        default: the extremes of the data are private.
    eps, delta, rho, groups, random_state, ledger, return_privacy
        As in :func:`dp_quantiles`.

    Returns
    -------
    counts : ndarray of shape (n_bins,)
        The number of rows in each bin (integers), or with `groups` the weight of the people in it
        (floats). Counts may be negative.
    edges : ndarray of shape (n_bins + 1,)
        The edges.
    privacy : PrivacyLoss
        The cost of the release. Only returned if `return_privacy` is True.

    Notes
    -----
    **Privacy.** Neighbours: `x` with one row, or all rows of a person, added or removed. A row is
    in at most one bin, and the weights of a person's rows sum to at most 1, so the counts change by
    at most 1 in total. The noise is discrete: Laplace for `eps`, Gaussian for `rho`.

    See Also
    --------
    dp_count : Count the rows.
    DPKBinsDiscretizer : Find private edges.

    Examples
    --------
    The seed makes the example reproducible. Leave `random_state` out for private data.

    >>> import numpy as np
    >>> from dpq_sklearn import dp_histogram
    >>> ages = np.random.default_rng(0).normal(40, 12, size=20_000)
    >>> counts, edges = dp_histogram(ages, [0, 20, 40, 60, 80], eps=1.0, random_state=0)
    >>> counts
    array([ 904, 9121, 9027,  929])
    """
    edges = _checked_edges(bins, range)
    n_bins = edges.size - 1
    plan = plan_counts(
        n_bins,
        TotalBudget(eps, delta, rho),
        neighbours=neighbours_of(groups),
        units_per_record=units_of_neighbours(neighbours_of(groups)),
        has_ledger=ledger is not None,
    )
    randomness = make_randomness(random_state)

    with no_data_in_frames():
        x = checked_column(x)
        _check_kind_of_edges(edges, x)
        if groups is not None:
            groups = checked_groups(groups, len(x))

    detail = f"{n_bins} bins"
    paid = pay(plan, ledger, randomness, what="dp_histogram", columns=1, detail=detail)
    with no_data_in_frames():
        counts = release(paid, Histogram(x, numbers_of(edges), groups))

    return (counts, edges, paid.loss) if return_privacy else (counts, edges)


def _checked_edges(bins, ends):
    """Return two or more ascending finite edges: `bins` itself, or the edges of `bins` bins.

    Messages show no edge, because private numbers may have been passed for `bins` by mistake.
    """
    if isinstance(bins, Integral) and not isinstance(bins, bool):
        bins = _equal_width_edges(bins, ends)
    elif ends is not None:
        raise ValueError("range must be None if bins are edges, got both.")

    edges = dates_in_list(bins)
    if edges is None:
        edges = real_numbers(bins)
    numbers = numbers_of(edges)
    is_row = edges.ndim == 1 and edges.size >= 2
    if not is_row or not np.isfinite(numbers).all() or np.any(numbers[1:] <= numbers[:-1]):
        hint = "" if edges.size else " They are not real numbers."
        raise ValueError(
            f"bins must be two or more ascending finite edges, got {shown(bins)}.{hint}"
        )
    return edges


def _check_kind_of_edges(edges, x):
    """Raise if the edges are dates and the column has numbers, or vice versa."""
    (kind,) = kinds_of_columns(x)
    if kind_of(edges.dtype).of_scalars is not kind.of_scalars:
        raise ValueError(
            f"bins of a column of {kind.in_words} must be {kind.in_words}, got "
            f"{kind_of(edges.dtype).in_words}."
        )


def _equal_width_edges(n_bins, ends):
    """Return the edges of bins of equal width between two public ends."""
    if n_bins < 1:
        raise ValueError(f"bins must be at least 1, got {shown(n_bins)}.")
    if n_bins > _MOST_BINS:
        raise ValueError(f"bins must be at most {_MOST_BINS:,}, got {shown(n_bins)}.")
    if ends is None:
        raise ValueError(
            f"range must be given with a number of bins, got bins={shown(n_bins)} and range=None. "
            "The extremes of the data are private: pass range=(low, high), or the edges "
            f"np.linspace(low, high, {n_bins + 1}), from public knowledge."
        )

    dates = dates_in_list(ends)
    low, high = _checked_range(ends, real_numbers(ends) if dates is None else days_of(dates))
    edges = np.linspace(low, high, n_bins + 1)
    return edges if dates is None else nearest_dates(edges, kind_of(dates.dtype).of_scalars)


def _checked_range(ends, numbers):
    """Return the two ends of a range, which are also given as floats."""
    if numbers.shape != (2,) or not np.isfinite(numbers).all() or not numbers[0] < numbers[1]:
        raise ValueError(
            "range must be a pair (low, high) of finite numbers or of dates, low < high, got "
            f"{shown(ends)}."
        )
    return numbers
