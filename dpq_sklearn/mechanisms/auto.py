"""The mechanism "auto": AQ or JointExp, whichever promises the smaller error, from public facts.

Only the quantiles and the budget are looked at. For data that are spread evenly around their
quantiles the errors in rank have known variances, and the choice follows from them.
docs/paper_results.md says how far the experiments bear it out.
"""

from dpq_sklearn.mechanisms.aq import ApproximateQuantiles
from dpq_sklearn.mechanisms.joint_exp import JointExponential
from dpq_sklearn.mechanisms.protocol import Mechanism

# JointExp wins only for fewer quantiles than this.
FEWEST_ALWAYS_AQ = 16
# A small budget makes JointExp slow, unlike AQ. This many logarithms take about half a second.
MOST_LOG_WEIGHTS = 2**20
# It must promise this much less: unlike AQ it suffers from a wide domain around the data.
CLEARLY_LESS = 0.95


class AutomaticChoice(Mechanism):
    """AQ or JointExp for each column."""

    takes_weights = False  # JointExp does not

    def __init__(self):
        self._aq, self._joint_exp = ApproximateQuantiles(), JointExponential()

    def choice(self, quantiles, budget):
        """Return the mechanism for these quantiles and this budget."""
        aq, joint_exp = self._aq, self._joint_exp
        is_quick = joint_exp.n_log_weights(quantiles, budget) <= MOST_LOG_WEIGHTS
        if budget.unit != "draw" and len(quantiles) < FEWEST_ALWAYS_AQ and is_quick:
            error = joint_exp.typical_error(quantiles, budget)
            if error < CLEARLY_LESS * aq.typical_error(quantiles, budget):
                return joint_exp
        return aq

    def release(self, ranks, quantiles, budgets, randomness):
        """Return the cells that the chosen mechanisms release, all columns of one at once.

        Privacy
        -------
        That of the chosen mechanisms: the choice does not depend on the data.
        """
        choices = list(map(self.choice, quantiles, budgets))
        released = [None] * len(choices)
        for mechanism in (self._aq, self._joint_exp):
            columns = [index for index, choice in enumerate(choices) if choice is mechanism]
            if columns:
                cells = mechanism.release(
                    ranks.of_columns(columns),
                    [quantiles[column] for column in columns],
                    [budgets[column] for column in columns],
                    randomness,
                )
                for column, found in zip(columns, cells, strict=True):
                    released[column] = found
        return released

    def cost(self, quantiles, budget):
        return self.choice(quantiles, budget).cost(quantiles, budget)

    def rank_errors(self, quantiles, budget):
        return self.choice(quantiles, budget).rank_errors(quantiles, budget)

    def composed_budgets(self, quantiles, shares, eps, delta, count_eps=0.0):
        """Return the budgets that AQ would have: JointExp is a single draw."""
        return self._aq.composed_budgets(quantiles, shares, eps, delta, count_eps)
