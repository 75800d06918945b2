"""The mechanism "auto": AQ or JointExp, whichever promises the smaller error, from public facts.

Only the quantiles and the budget are looked at. For data that are spread evenly around their
quantiles the errors in rank have known variances; the experiments of the paper
(docs/paper_results.md) agree with the choice that follows from them.
"""

import math

import numpy as np

from dpq_sklearn._aq import ApproximateQuantiles, quantile_tree
from dpq_sklearn._joint_exp import JointExponential

# JointExp wins only for fewer quantiles than this, and its time grows with their square.
FEWEST_ALWAYS_AQ = 16
# It must promise this much less: unlike AQ it suffers from a wide domain around the data.
CLEARLY_LESS = 0.95


class AutomaticChoice:
    """AQ or JointExp for each column, behind the seam that all mechanisms share."""

    def __init__(self):
        self._aq, self._joint_exp = ApproximateQuantiles(), JointExponential()

    def choice(self, quantiles, budget):
        """Return the mechanism for these quantiles and this budget, and its predicted error."""
        error_of_aq = predicted_error_of_aq(quantiles, budget)
        if len(quantiles) < FEWEST_ALWAYS_AQ:
            eta = self._joint_exp.score(quantiles, budget).eta
            error = predicted_error_of_joint_exp(len(quantiles), eta)
            if error < CLEARLY_LESS * error_of_aq:
                return self._joint_exp, error
        return self._aq, error_of_aq

    def release(self, ranks, quantiles, budget, randomness):
        """Return the cells that the chosen mechanism releases.

        Privacy
        -------
        That of the chosen mechanism: the choice does not depend on the data.
        """
        mechanism, _ = self.choice(quantiles, budget)
        return mechanism.release(ranks, quantiles, budget, randomness)

    def cost(self, quantiles, budget):
        """Return what `release` costs in eps and in rho."""
        return self.choice(quantiles, budget)[0].cost(quantiles, budget)

    def least_eps(self, quantiles, budget):
        """Return the eps of a single median with the predicted error: the larger the better."""
        return math.sqrt(2) / self.choice(quantiles, budget)[1]


def predicted_error_of_aq(quantiles, budget):
    """Return the mean over the quantiles of the standard deviation of AQ's ranks.

    A node's own error is two-sided exponential, with variance 2 / eta^2. To it comes the error of
    its target, q of the error at its upper end and 1 - q of that at its lower end.
    """
    m = len(quantiles)
    shares = np.zeros((m + 2, m))  # of every node's own error in every quantile's; two outer ends

    def visit(tree, low, high):
        if tree is not None:
            here = tree.index
            shares[here] = tree.q * shares[high] + (1 - tree.q) * shares[low]
            shares[here, here] = 2 * math.sqrt(2) * max(tree.q, 1 - tree.q) / tree.eps
            visit(tree.left, low, here)
            visit(tree.right, here, high)

    visit(quantile_tree(quantiles, budget), m, m + 1)
    return float(np.sqrt((shares[:m] ** 2).sum(axis=1)).mean())


def predicted_error_of_joint_exp(m, eta):
    """Return the mean over the quantiles of the standard deviation of JointExp's ranks.

    The errors are a walk with m + 1 two-sided exponential steps that comes back to 0. A step has
    variance m (2m + 1) / ((m + 1) (m + 2)) / eta^2 given that, so the j-th error has
    j (m + 1 - j) (2m + 1) / ((m + 1) (m + 2)) / eta^2.
    """
    j = np.arange(1, m + 1)
    variances = j * (m + 1 - j) * (2 * m + 1) / ((m + 1) * (m + 2)) / eta**2
    return float(np.sqrt(variances).mean())
