"""Private quantiles of columns: `dp_quantiles`, `sanitize`, and the plan that both follow.

Everything that does not need the data comes first and is a `ReleasePlan`; the data are read
only after it stands. This is the one way from columns to released numbers.
"""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np

from dpq_sklearn.accounting import PrivacyLoss, budgets_for, compose, feature_shares
from dpq_sklearn.data.columns import checked_column, read_column
from dpq_sklearn.engine.grid import make_grid, shortest_decimals
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.ranks import SortedColumn
from dpq_sklearn.mechanisms.agg_tree import AggregateTree
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles
from dpq_sklearn.mechanisms.auto import AutomaticChoice
from dpq_sklearn.mechanisms.ind_exp import IndependentExponential
from dpq_sklearn.mechanisms.joint_exp import JointExponential

MECHANISMS = {
    "aq": ApproximateQuantiles(),
    "joint_exp": JointExponential(),
    "ind_exp": IndependentExponential(),
    "agg_tree": AggregateTree(),
    "auto": AutomaticChoice(),
}


@dataclass(frozen=True)
class ReleasePlan:
    """What will be released and at what price; public facts only, one entry a column."""

    mechanism: object
    quantiles: tuple  # ascending distinct quantiles
    grids: tuple
    budgets: tuple
    loss: PrivacyLoss

    def of_columns(self, some):
        """Return the plan for a slice of the columns; the loss is still that of all."""
        return replace(
            self,
            quantiles=self.quantiles[some],
            grids=self.grids[some],
            budgets=self.budgets[some],
        )


def plan_release(quantiles, *, eps, delta, rho, bounds, mechanism="aq", weights=None):
    """Return the plan for columns with these lists of ascending distinct quantiles and bounds.

    Where several kinds of accounting satisfy the request, the one under which the worst-off
    draw gets the largest eps is taken.
    """
    engine = checked_mechanism(mechanism)
    shares = feature_shares(len(quantiles), weights)
    options = budget_options(engine, quantiles, shares, eps, delta, rho)
    budgets, delta_spent = max(
        options, key=lambda option: min(map(engine.least_eps, quantiles, option[0]))
    )
    costs = [engine.cost(q, budget) for q, budget in zip(quantiles, budgets, strict=True)]
    total = compose(PrivacyLoss(eps=cost["eps"], delta=0.0, rho=cost["rho"]) for cost in costs)
    if eps is not None:  # the parts add up to what was asked for, or less
        total = replace(total, eps=float(eps), delta=delta_spent)
    if rho is not None:
        total = replace(total, rho=float(rho))
    grids = tuple(make_grid(pair) for pair in bounds)
    return ReleasePlan(engine, tuple(quantiles), grids, budgets, total)


def budget_options(engine, quantiles, shares, eps, delta, rho):
    """Return (the budget of each column, the delta they cost) for each kind of accounting."""
    options = [
        (tuple(budget.part(share) for share in shares), float(delta * (budget.unit == "rho")))
        for budget in budgets_for(eps, delta, rho)
    ]
    if delta > 0 and hasattr(engine, "composed_budgets"):
        composed = engine.composed_budgets(quantiles, shares, float(eps), float(delta))
        options += [(composed, float(delta))] if composed else []
    return options


def charge_ledger(ledger, loss, **facts):
    """Commit the spend to the ledger, if there is one, or raise; before any data are read."""
    if ledger is not None:
        from dpq_sklearn.ledger.ledger import charge

        charge(ledger, loss, **facts)


def release_values(plan, columns, streams, ranks_of=SortedColumn, turn=None):
    """Return the released quantiles of each column. The one place where data meet a mechanism.

    Parameters
    ----------
    plan : ReleasePlan
        Of these columns.
    columns : iterable
        What `ranks_of` makes ranks of: fresh float64 arrays, or summaries.
    streams : list of Randomness
        One a column, so that it does not matter where and in which order columns are released.
    ranks_of : callable
        Takes a column and its grid.
    turn : context manager or None
        A lock, if other threads release as well. The many short steps of a mechanism all need
        Python's lock: threads that fight over it are slower than threads that take turns.
    """
    turn = nullcontext() if turn is None else turn
    released = []
    parts = zip(columns, plan.grids, plan.quantiles, plan.budgets, streams, strict=True)
    for column, grid, quantiles, budget, stream in parts:
        ranks = ranks_of(column, grid)
        with turn:
            cells = plan.mechanism.release(ranks, quantiles, budget, stream)
            released.append(shortest_decimals(grid, cells))
    return released


def dp_quantiles(
    x,
    q,
    *,
    eps=1.0,
    delta=0.0,
    rho=None,
    bounds=None,
    mechanism="aq",
    random_state=None,
    ledger=None,
    return_privacy=False,
):
    """Compute differentially private quantiles of one column.

    Like :func:`numpy.quantile` for one column, at a stated privacy price for all quantiles
    together.

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
        Public bounds that the numbers are clipped to. None needs no knowledge of the data and
        reads none from them. Never take bounds from the data themselves.
    mechanism : {"aq", "joint_exp", "ind_exp", "agg_tree", "auto"}, default="aq"
        "aq" is ApproximateQuantiles. "joint_exp" draws all quantiles at once and is somewhat more
        accurate for a few small numbers of quantiles, "auto" uses it where that is so. "ind_exp"
        (every quantile on its own) and "agg_tree" (noisy counts) are there for comparison.
    random_state : None, int or RandomState, default=None
        None is the operating system's generator. Anything else is reproducible, for tests only:
        who knows the seed can undo the noise.
    ledger : PrivacyLedger, path or None, default=None
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
    **Privacy.** Neighbours: `x` with one record added or removed. The values returned are
    (eps, delta)-DP (or rho-zCDP) functions of `x`, for one call. Every call spends anew.

    References
    ----------
    Kaplan, Schnapp, Stemmer (2021), Differentially Private Approximate Quantiles.
    Gillenwater, Joseph, Kulesza (2021), Differentially Private Quantiles.

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
        [ascending], eps=eps, delta=delta, rho=rho, bounds=[bounds], mechanism=mechanism
    )
    randomness = make_randomness(random_state)
    x = checked_column(x, "x")
    loss = replace(plan.loss, os_randomness=randomness.from_os)
    charge_ledger(
        ledger, loss, what="dp_quantiles", columns=1, detail=f"{ascending.size} quantiles"
    )
    (released,) = release_values(plan, [read_column(x, "x")], randomness.spawn(1))
    values = released[inverse.reshape(q_array.shape)]
    values = float(values) if q_array.ndim == 0 else values
    return (values, loss) if return_privacy else values


def sanitize(
    x,
    n_samples,
    *,
    eps=1.0,
    delta=0.0,
    rho=None,
    bounds=None,
    mechanism="aq",
    random_state=None,
    ledger=None,
    return_privacy=False,
):
    """Make a private stand-in for a column: points that fall into every interval as the data do.

    The points are the private quantiles (i - 1/2) / n_samples: the share of them in any interval
    resembles the share of the data in it (quantile sanitisation, Kaplan et al. 2021).

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        The private numbers, as in :func:`dp_quantiles`.
    n_samples : int
        How many points to make: a public number, chosen without looking at the data. More points
        are noisier; the number of private rows itself is private and not a good choice.
    eps, delta, rho, bounds, mechanism, random_state, ledger, return_privacy
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
        raise ValueError(f"n_samples must be an integer >= 1, got {n_samples!r}.")
    return dp_quantiles(
        x,
        (np.arange(n_samples) + 0.5) / n_samples,
        eps=eps,
        delta=delta,
        rho=rho,
        bounds=bounds,
        mechanism=mechanism,
        random_state=random_state,
        ledger=ledger,
        return_privacy=return_privacy,
    )


def checked_quantiles(q):
    """Return `q` as a float array with every entry strictly between 0 and 1."""
    try:
        array = np.asarray(q)
        valid = array.dtype.kind in "iuf" and array.size > 0
    except ValueError:
        valid = False
    if not valid or not np.all((array > 0) & (array < 1)):
        raise ValueError(f"q must be numbers strictly between 0 and 1, got {q!r}.")
    return array.astype(np.float64)


def checked_mechanism(name):
    """Return the mechanism of that name."""
    if not isinstance(name, str) or name not in MECHANISMS:
        raise ValueError(f"mechanism must be one of {sorted(MECHANISMS)}, got {name!r}.")
    return MECHANISMS[name]
