"""The mechanism "auto": AQ or JointExp, whichever promises the smaller error, from public facts.

Only the quantiles and the budget are looked at. For data that are spread evenly around their
quantiles the errors in rank have known variances, and the choice follows from them.
docs/paper_results.md says how far the experiments bear it out.
"""

import math

from dpq_sklearn.mechanisms.aq import ApproximateQuantiles
from dpq_sklearn.mechanisms.joint_exp import JointExponential

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
        error_of_aq = float(self._aq.rank_errors(quantiles, budget).mean())
        if len(quantiles) < FEWEST_ALWAYS_AQ:
            error = float(self._joint_exp.rank_errors(quantiles, budget).mean())
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

    def rank_errors(self, quantiles, budget):
        """Return the standard deviation of the rank of each quantile, for untied data."""
        return self.choice(quantiles, budget)[0].rank_errors(quantiles, budget)
