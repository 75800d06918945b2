"""How wrong AQ can be: a bound on the rank error that holds with probability 1 - beta."""

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
    """Bound the largest rank error of AQ, whatever the data.

    With probability at least ``1 - beta`` all released quantiles of a feature have ranks within
    the bound of the ranks wanted (the worst-case theorem of Kaplan et al. 2021, for this
    implementation). Typical errors are tens of times smaller.

    Parameters
    ----------
    quantiles, eps, delta, rho, n_features
        What is released, and the budget of the whole fit, as in :func:`expected_rank_error`.
    beta : float, default=0.05
        Probability with which the bound may fail, in (0, 1).
    psi : float or None, default=None
        How many times more base measure all positions have than those with the best score. None
        is 10,000 * 2^53, which holds for all data. Much less describes most data: 1000, for
        example, if the data are spread over a thousandth of the positions by base measure.

    Returns
    -------
    bound : float
        In records. Ties aside: the records of a cell are spread evenly over it.

    See Also
    --------
    expected_rank_error : The typical error.

    Notes
    -----
    A draw with weights ``exp(-eta |rank - target|) + 2^-96`` errs by more than ``g`` with
    probability at most ``psi (exp(-eta g) + 2^-96)``. With the g for which this is beta / m, all m
    draws are within their g with probability 1 - beta. Two quantiles that are drawn at once have
    the squares of psi and of the floor, and 2 beta / m; the affinity of their places
    (`engine.pairs`) multiplies psi^2 by at most 2^24. A node's target is as wrong as the two ends
    of its range, the lower weighted by 1 - q and the upper by q; these errors are added up along
    the tree. They grow with the number of levels for uniform quantiles too: an inner node inherits
    from both of its ends, while the paper's factor of 2 for uniform quantiles is right for the
    outermost nodes only.

    All positions together have the base measure 1. A share of at least 1/10,000 is that of the
    plain grid, by which every position has at least one part in 2^53.

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
    errors = {0: 0.0, len(probabilities) + 1: 0.0}  # none at the ends of the column
    for node, eps_of_node in zip(nodes, eps_of_nodes, strict=True):
        # The probability of a place out of bounds, less what all of them have.
        n_together = len(node.indices)
        psi_of_node = psi if n_together == 1 else psi**2 / LEAST_AFFINITY
        chance = n_together * beta / len(probabilities) / psi_of_node - FLOOR**n_together
        nats = -math.log(chance) if chance > 0 else math.inf

        for index, q in zip(node.indices, node.q, strict=True):
            error_of_target = (1 - q) * errors[node.below] + q * errors[node.above]
            errors[index] = error_of_target + 2 * max(q, 1 - q) * nats / eps_of_node

    return max(errors[1 + index] for index in requested)
