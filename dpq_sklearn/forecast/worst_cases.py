"""A bound on the rank error of AQ that holds with probability 1 - beta for all data."""

import math

from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.checks import checked_positive, shown
from dpq_sklearn.engine.exponential import FLOOR
from dpq_sklearn.engine.grid import MOST_MEASURE
from dpq_sklearn.engine.pairs import LEAST_AFFINITY
from dpq_sklearn.forecast.expected_error import plan_alike
from dpq_sklearn.mechanisms.base_measure import LEAST_PLAIN_SHARE
from dpq_sklearn.mechanisms.extreme_quantiles import TailAwareQuantiles, with_helpers


def rank_error_bound(
    quantiles, *, eps=None, delta=0.0, rho=None, n_features=1, beta=0.05, psi=None
):
    """Return a bound on the largest rank error of AQ for all data.

    With probability at least ``1 - beta`` the ranks of all released quantiles of a feature differ
    from the exact ranks by at most this bound (the worst-case theorem of Kaplan et al. 2021, for
    this implementation). Typical errors are tens of times smaller. Read more in the :ref:`User
    Guide <expected_accuracy>`.

    Parameters
    ----------
    quantiles, eps, delta, rho, n_features
        The quantiles and the budget of the whole fit, as in :func:`expected_rank_error`.
    beta : float, default=0.05
        The probability with which the bound may fail, in (0, 1).
    psi : float or None, default=None
        The ratio of the base measure of all positions to the base measure of the positions with the
        best score. None is 10,000 * 2^53, which holds for all data. Most data have a much smaller
        ratio: 1000, for example, if a thousandth of the base measure is where the data are.

    Returns
    -------
    bound : float
        The bound in records, if the records of each cell are spread evenly over it.

    See Also
    --------
    expected_rank_error : The typical error.

    Notes
    -----
    The error of a draw with weights ``exp(-eta |rank - target|) + 2^-96`` exceeds ``g`` with
    probability at most ``psi (exp(-eta g) + 2^-96)``. If g is chosen so that this is beta / m, the
    errors of all m draws are at most g with probability 1 - beta. For two quantiles that are drawn
    at once, psi and the floor are squared, and the probability is 2 beta / m; the affinity of their
    places (`engine.pairs`) multiplies psi^2 by at most 2^24. The error of the target of a node is
    1 - q times the error of the lower end of its range plus q times the error of the upper end, and
    these errors are added up along the tree. They grow with the number of levels for uniform
    quantiles, too: an inner node inherits errors from both ends, while the factor of 2 for uniform
    quantiles in the paper holds for the outermost nodes only.

    All positions together have the base measure 1. The plain grid has a share of at least 1/10,000
    of it, and every position has at least a share of 2^-53 of the plain grid.

    Examples
    --------
    >>> from dpq_sklearn import rank_error_bound
    >>> round(rank_error_bound(8, eps=1.0, beta=0.05))
    346
    """
    if not 0 < beta < 1:
        raise ValueError(f"beta must be a number in (0, 1), got {shown(beta)}.")
    psi = MOST_MEASURE / LEAST_PLAIN_SHARE if psi is None else checked_positive(psi, "psi")

    plan = plan_alike(quantiles, n_features, TotalBudget(eps, delta, rho))
    mechanism = TailAwareQuantiles()
    probabilities, requested = with_helpers(plan.request.probabilities[0])

    nodes, eps_of_nodes = mechanism.nodes_and_eps(probabilities, plan.budgets[0])
    errors = {0: 0.0, len(probabilities) + 1: 0.0}  # the ends of the column are exact
    for node, eps_of_node in zip(nodes, eps_of_nodes, strict=True):
        # The probability of places beyond the bound, minus the floor.
        n_together = len(node.indices)
        psi_of_node = psi if n_together == 1 else psi**2 / LEAST_AFFINITY
        chance = n_together * beta / len(probabilities) / psi_of_node - FLOOR**n_together
        nats = -math.log(chance) if chance > 0 else math.inf

        for index, q in zip(node.indices, node.q, strict=True):
            error_of_target = (1 - q) * errors[node.below] + q * errors[node.above]
            errors[index] = error_of_target + 2 * max(q, 1 - q) * nats / eps_of_node

    return max(errors[1 + index] for index in requested)
