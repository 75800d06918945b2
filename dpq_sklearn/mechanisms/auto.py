"""The mechanism "auto": AQ or JointExp, whichever promises the smaller error, from public facts.

Only the quantiles and the budget are looked at. For data that are spread evenly around their
quantiles the errors in rank have known variances, and the choice follows from them. For evenly
spaced quantiles it is always AQ.
docs/paper_results.md says how far the experiments bear it out.
"""

from dpq_sklearn.accounting.budgets import Unit
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles
from dpq_sklearn.mechanisms.joint_exp import JointExponential
from dpq_sklearn.mechanisms.protocol import Mechanism

# JointExp wins only for fewer quantiles than this.
FEWEST_ALWAYS_AQ = 16
# A small budget makes JointExp slow, unlike AQ. It adds up about m^2 clip / eta logarithms of
# weights; this many take about half a second.
MOST_LOG_WEIGHTS = 2**20
# It must promise this much less: unlike AQ it suffers from a wide domain around the data.
CLEARLY_LESS = 0.94


class AutomaticChoice(Mechanism):
    """AQ or JointExp for each column."""

    takes_weights = False  # JointExp does not
    takes_priors = False
    _aq = ApproximateQuantiles()
    _joint_exp = JointExponential()
    composed_budgets = _aq.composed_budgets  # JointExp is a single draw

    def choice(self, probabilities, budget):
        """Return the mechanism for these quantiles and this budget."""
        m = len(probabilities)
        if budget.unit is Unit.DRAW or m >= FEWEST_ALWAYS_AQ:
            return self._aq

        error_of_aq = self._aq.typical_error(probabilities, budget)
        error_of_joint_exp = self._joint_exp.typical_error(probabilities, budget)
        if error_of_joint_exp >= CLEARLY_LESS * error_of_aq:
            return self._aq

        score = self._joint_exp.score(probabilities, budget)
        is_slow = m**2 * score.clip / score.eta > MOST_LOG_WEIGHTS
        return self._aq if is_slow else self._joint_exp

    def draw(self, ranks, probabilities, budgets, randomness, priors=None):
        """Return the cells that the chosen mechanisms release, all columns of one at once.

        Privacy
        -------
        That of the chosen mechanisms: the choice does not depend on the data.
        """
        choices = list(map(self.choice, probabilities, budgets))
        cells_of = {}
        for mechanism in dict.fromkeys(choices):
            columns = [index for index, choice in enumerate(choices) if choice is mechanism]
            cells = mechanism.draw(
                ranks.of_columns(columns),
                [probabilities[column] for column in columns],
                [budgets[column] for column in columns],
                randomness,
            )
            cells_of.update(zip(columns, cells, strict=True))
        return [cells_of[column] for column in range(len(choices))]

    def cost(self, probabilities, budget):
        return self.choice(probabilities, budget).cost(probabilities, budget)

    def events(self, probabilities, budget):
        return self.choice(probabilities, budget).events(probabilities, budget)

    def rank_deviations(self, probabilities, budget):
        return self.choice(probabilities, budget).rank_deviations(probabilities, budget)
