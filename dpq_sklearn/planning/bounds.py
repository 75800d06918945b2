"""How wrong AQ can be: a bound on the rank error that holds with probability 1 - beta."""

import math
from numbers import Integral

import numpy as np

from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.checks import checked_positive
from dpq_sklearn.engine.exponential import FLOOR
from dpq_sklearn.engine.grid import MOST_MEASURE
from dpq_sklearn.mechanisms.aq import quantile_tree


def rank_error_bound(m, eps=None, beta=0.05, *, rho=None, quantiles="uniform", psi=None):
    """Bound the largest rank error of AQ, whatever the data.

    With probability at least ``1 - beta`` all m released quantiles have ranks within the bound of
    the ranks wanted (the worst-case theorems of Kaplan et al. 2021, for this implementation).
    Typical errors are tens of times smaller.

    Parameters
    ----------
    m : int
        Number of quantiles.
    eps : float or None, default=None
        Budget in pure DP. None if `rho` is given.
    beta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    rho : float or None, default=None
        Budget in zero-concentrated DP instead.
    quantiles : "uniform", "any" or array-like of m floats, default="uniform"
        The quantiles: i / (m + 1), the worst m quantiles there are, or these, ascending.
    psi : float or None, default=None
        How much more mass the whole grid has than the positions with the best score. None is
        2^63, more than the mass of all positions, which holds for all data. Data without ties are
        rather described by the number of cells, 2^40, or by less.

    Returns
    -------
    bound : float
        In records. Ties aside: the records of a cell are spread evenly over it.

    Notes
    -----
    A draw with weights ``exp(-eta |rank - target|) + 2^-96`` errs by more than ``g`` with
    probability at most ``psi (exp(-eta g) + 2^-96)``. With the g for which this is beta / m, all m
    draws are within their g with probability 1 - beta. A node's target is as wrong as the two ends
    of its range, the lower weighted by 1 - q and the upper by q; these errors are added up along
    the tree.
    They grow with the number of levels for uniform quantiles too: an inner node inherits from both
    of its ends, while the paper's factor of 2 for uniform quantiles is right for the outermost
    nodes only.

    Examples
    --------
    >>> from dpq_sklearn.planning.bounds import rank_error_bound
    >>> round(rank_error_bound(7, eps=1.0, beta=0.05))
    328
    """
    m, beta = _checked(m, beta)
    if (eps is None) == (rho is None):
        raise ValueError(f"one of eps and rho must be given, got eps={eps!r} and rho={rho!r}.")
    budget = Budget(checked_positive(eps, "eps"), "eps") if rho is None else None
    budget = budget or Budget(checked_positive(rho, "rho"), "rho")
    psi = MOST_MEASURE if psi is None else checked_positive(psi, "psi")
    chance = beta / m / psi - FLOOR  # that of a position out of bounds, less what all have
    if chance <= 0:
        return math.inf
    log_chances = -math.log(chance)

    tree = quantile_tree(_listed(quantiles, m), budget)
    unknown = isinstance(quantiles, str) and quantiles == "any"

    def worst(tree, below, above):
        """Return the largest error in this subtree, given those at the ends of its range."""
        if tree is None:
            return 0.0
        q = tree.q
        target = max(below, above) if unknown else (1 - q) * below + q * above
        sensitivity = 1.0 if unknown else max(q, 1 - q)
        here = target + 2 * sensitivity * log_chances / tree.eps
        return max(here, worst(tree.left, below, here), worst(tree.right, here, above))

    return worst(tree, 0.0, 0.0)


def _checked(m, beta):
    if isinstance(m, bool) or not isinstance(m, Integral) or m < 1:
        raise ValueError(f"m must be an integer >= 1, got {m!r}.")
    if not 0 < beta < 1:
        raise ValueError(f"beta must be a number in (0, 1), got {beta!r}.")
    return int(m), float(beta)


def _listed(quantiles, m):
    """Return m ascending quantiles; the shape of the tree is the same for all of them."""
    if isinstance(quantiles, str):
        if quantiles not in ("uniform", "any"):
            raise ValueError(
                f"quantiles must be 'uniform', 'any' or {m} numbers, got {quantiles!r}."
            )
        return np.arange(1, m + 1) / (m + 1)
    listed = np.asarray(quantiles, dtype=np.float64)
    inside = listed.size and listed[0] > 0 and listed[-1] < 1
    if listed.shape != (m,) or not inside or not np.all(np.diff(listed) > 0):
        raise ValueError(
            f"quantiles must be {m} ascending numbers between 0 and 1, got {quantiles!r}."
        )
    return listed
