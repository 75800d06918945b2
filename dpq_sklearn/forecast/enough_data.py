"""The rule that decides whether the rows are enough for the budget, from public facts and releases.

The expected error of an edge is the mean error of its rank, in bins: as a share of the rows that a
bin should hold. The error of an extreme quantile is compared with the number of rows beyond it. The
rank deviation of the mechanism predicts the error if the draws find the data. The probability of
finding them depends on the public facts about the column. The number of rows is a released, noisy
count. `n_bins="auto"`, the warnings of transformers and functions, their advice, `quality_report`
and `suggest_n_bins` follow this rule. The constants were fitted to measured errors, which
docs/accuracy.md describes.
"""

import sys
import warnings
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from traceback import walk_stack

import numpy as np
from scipy.special import expit

from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.mechanisms.prior import spread_of_rank

# The largest expected error of a useful edge, in bins.
TOO_FAR_OFF = 0.5
# "auto" chooses the largest of these numbers with useful edges, up to the cube root of the number
# of rows. This is the usual rule for histograms: with more bins, models overfit.
AUTO_BINS = (2, 4, 8, 16, 32, 64)
# If none of these numbers has useful edges, some of many edges may still lie in the data. Then
# "auto" chooses the most promising number up to this limit, where k bins count as log(k) nats.
MOST_LOST_BINS = 16
# The draws have to distinguish the data from the rest of the number line. These are the log-odds
# against that, by the number of known bounds. A lattice reduces them, and a prior nearly removes
# them.
NATS_TO_FIND = (2.9, 2.8, 2.0)
NATS_OF_A_LATTICE = 0.5
NATS_WITH_A_PRIOR = -0.3
# A narrow column far from zero, such as years, is harder to find without two bounds.
NATS_OF_A_NARROW_COLUMN = 7.0
# If bounds leave K points of a lattice, the log-odds are a + b log(K) with these a and b, but at
# most the log-odds for two bounds.
NATS_OF_POINTS = (-0.9, 0.5)
# The share of the nats from the rank deviations that counts. Columns differ, so the probability of
# finding the data increases more slowly with the number of rows than for a single column.
SHARE_OF_NATS = 0.6
# The mean error, as a share of the rows, of an edge that misses the data.
LOST = 0.37
# The mean error of an edge that is found, in rank deviations, for a two-sided exponential.
MEAN_OF_FOUND = np.sqrt(0.5)
# On a lattice with few points, an edge has no error among the rows of its point. The error is half
# as large if the rank deviation is this multiple of the number of rows per point.
ROWS_OF_A_POINT = 4.0
# A draw with fewer nats is hardly better than a guess.
NATS_OF_A_GUESS = 1.0
# The largest distance of a row from the middle of its bin, in bins.
HALF_A_BIN = 0.5

_NOT_THE_USERS = ("dpq_sklearn", "sklearn", "joblib", "threading", "concurrent")
# The texts of warnings that were shown, and the lines of user code for which they were shown.
_shown: set[tuple[str, str, int]] = set()


class PrivacyNoiseWarning(UserWarning):
    """The rows are too few for the budget, so the released values are mostly noise.

    The warning depends on released numbers and public facts only, so it reveals nothing more about
    the data. Its text is the same for all fits of a transformer, so a search warns once.

    See Also
    --------
    suggest_n_bins : How many bins the rows and the budget allow.
    DPKBinsDiscretizer : Its `quality_report` has the error of each feature.
    """


def warn_of_large_delta(delta, n_rows):
    """Warn if a delta that was spent is above one over a released number of rows."""
    if delta > 1 / n_rows:
        warn_user(
            "delta is above one over the released number of rows: a release with such a delta may "
            "reveal whole rows. Use a delta well below 1 / n_rows, such as 1e-6.",
            UserWarning,
        )


def warn_user(text, category=PrivacyNoiseWarning):
    """Warn at the line of the first caller outside of this package and scikit-learn.

    As usual in Python, a text is shown once for each line, unless a filter asks for more. Python's
    own registry of shown warnings does not last through a search, because scikit-learn enters
    `warnings.catch_warnings` for each fit, which clears the registry.
    """
    frames = [frame for frame, _ in walk_stack(sys._getframe(1))]
    n_internal = sum(1 for _ in takewhile(_is_internal, frames))
    users = frames[min(n_internal, len(frames) - 1)]

    if _action(text, category, users) in ("default", "module", "once"):
        where = (text, users.f_code.co_filename, users.f_lineno)
        if where in _shown:
            return
        _shown.add(where)

    warnings.warn(text, category, stacklevel=2 + n_internal)


def _is_internal(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USERS


def _action(text, category, frame):
    """Return the action of the first filter that applies to this warning in this frame."""
    module = frame.f_globals.get("__name__", "")
    for action, message, filtered, module_pattern, line in warnings.filters:
        if (
            issubclass(category, filtered)
            and (message is None or message.match(text))
            and (module_pattern is None or module_pattern.match(module))
            and line in (0, frame.f_lineno)
        ):
            return action
    return "default"


def cautious_count(n_rows, count_budget):
    """Return a released count, reduced by the effect of its noise on errors; at least 1.

    Errors are proportional to one over the count. To second order, the mean of one over a noisy
    count with variance v is one over ``n_rows - v / n_rows``. A count that is mostly noise becomes
    1.
    """
    return less_by_noise(n_rows, CountNoise(count_budget))


def less_by_noise(count, noise):
    """Return `cautious_count` for a count with this `CountNoise`."""
    return max(count - noise.deviation() ** 2 / count, 1.0)


def likely_count(n_rows, count_budget):
    """Return a released count, but at least half of the standard deviation of its noise."""
    return max(n_rows, CountNoise(count_budget).deviation() / 2)


def rank_deviations(plan):
    """Return the standard deviations of the ranks of the quantiles of each column."""
    return [deviations.copy() for deviations in plan.map_columns(lambda _, found: found)]


@dataclass(frozen=True)
class Knowledge:
    """The public facts about a column that affect how well its quantiles are found."""

    n_bounds: int  # the number of known bounds, 0 to 2
    is_lattice: bool  # whether its decimals are declared
    n_points: int | None  # the number of points of the lattice between the bounds
    prior_deviation: float | None  # the deviation of its `Prior`
    is_narrow: bool = False  # whether it spans less than a thousandth of its distance from zero

    @classmethod
    def of(cls, column):
        """Return the public facts about a column of a request."""
        return cls(
            n_bounds=int(np.isfinite(column.bounds).sum()),
            is_lattice=column.decimals is not None,
            n_points=column.n_points,
            prior_deviation=None if column.prior is None else column.prior.deviation,
        )

    @property
    def nats_to_find(self):
        """The logarithm of the odds against finding the data, without any rows."""
        if self.prior_deviation is not None:
            return NATS_WITH_A_PRIOR
        if self.n_points is not None:
            nats, nats_per_log = NATS_OF_POINTS
            return min(nats + nats_per_log * np.log(self.n_points), NATS_TO_FIND[2])
        nats = NATS_TO_FIND[self.n_bounds] - NATS_OF_A_LATTICE * self.is_lattice
        return nats + NATS_OF_A_NARROW_COLUMN * (self.is_narrow and self.n_bounds < 2)


def errors_in_bins(plan, n_rows, learn=None):
    """Return the expected error of the edges of each column in bins, for `n_rows` rows.

    The result is the mean over all edges; edges of equal width between public bounds have no
    error. A quantile with fewer rows beyond it than a bin should hold is compared with these rows.
    The result is the largest such error if that is larger than the mean.
    ``learn(knowledge)`` returns changed `Knowledge`, to find out how much that would help.
    """

    def error(column, deviations):
        if not column.probabilities:
            return 0.0

        knowledge = Knowledge.of(column)
        if learn is not None:
            knowledge = learn(knowledge)
        errors = errors_of_ranks(column, deviations, n_rows, knowledge)

        tails = _tails(column)
        tail_errors = (errors / tails)[tails * column.n_bins < 1 - 1e-9]
        mean_in_bins = errors.mean() * column.n_bins * column.share_of_private_edges
        return np.max([mean_in_bins, *tail_errors])

    return np.array(plan.map_columns(error))


def errors_of_entries(column, deviations, n_rows):
    """Return the expected error of each quantile of a column, relative to a number of rows.

    This is the number of rows in a bin, or beyond the quantile if that is smaller. `deviations` are
    the standard deviations of the ranks.
    """
    errors = errors_of_ranks(column, deviations, n_rows, Knowledge.of(column))
    return errors / np.minimum(_tails(column), 1 / column.n_bins)


def errors_of_ranks(column, deviations, n_rows, knowledge):
    """Return the expected error in rank of each quantile of a column, as a share of the rows."""
    # `lost` is the probability that the draws miss the data, and `found` the error if they do not.
    nats = SHARE_OF_NATS * _nats_of_best_draw(column, deviations, n_rows)
    lost = expit(knowledge.nats_to_find - nats)
    found = _errors_if_found(column, deviations / n_rows, knowledge)
    return (1 - lost) * found + lost * LOST


def errors_of_ranks_of(plan, n_rows):
    """Return the `errors_of_ranks` of each column of a plan."""
    return plan.map_columns(
        lambda column, deviations: errors_of_ranks(column, deviations, n_rows, Knowledge.of(column))
    )


def _tails(column):
    """Return the share of the rows beyond each quantile of a column, on its side of the median."""
    probabilities = np.array(column.probabilities)
    return np.minimum(probabilities, 1 - probabilities)


def errors_if_narrow(plan, n_rows):
    """Return `errors_in_bins` if the columns are narrow and far from zero, such as years."""
    return errors_in_bins(plan, n_rows, lambda known: replace(known, is_narrow=True))


def errors_of_rows(plan, in_bins):
    """Return the error in rank if the bin of a row is known, as a share of all rows.

    It combines the error of the edges, `in_bins`, and the width of the bins, because all rows of a
    bin are treated alike. So it can compare different numbers of bins.
    """
    n_bins = np.array([column.n_bins for column in plan.request.columns])
    return np.hypot(in_bins, HALF_A_BIN) / n_bins


def _errors_if_found(column, deviations, knowledge):
    """Return the mean errors if the draws find the data; errors and deviations are shares."""
    errors = np.minimum(MEAN_OF_FOUND * deviations, LOST)

    if knowledge.prior_deviation is not None:  # at most the error of the prior
        spread = spread_of_rank(np.array(column.probabilities), knowledge.prior_deviation)
        errors = errors * spread / np.hypot(errors, spread)
    if knowledge.n_points is not None:
        errors = errors / (1 + ROWS_OF_A_POINT / (knowledge.n_points * deviations))

    return errors


def _nats_of_best_draw(column, deviations, n_rows):
    """Return the nats by which the best draw of a column prefers the data to other values.

    A value beyond the data is ``min(q, 1 - q) * n_rows`` ranks away from the q-quantile. With a
    deviation of s in rank, each rank counts sqrt(2) / s nats against it.
    """
    if not column.probabilities:
        return 0.0
    return np.sqrt(2) * n_rows * np.max(_tails(column) / deviations)


def is_near_enough(plan, n_rows, tolerance=TOO_FAR_OFF):
    """Return whether the rows and the points are enough for the number of bins of a plan."""
    n_bins = most_bins(plan)
    if n_bins**3 > n_rows or n_bins > most_points(plan):
        return False
    return errors_in_bins(plan, n_rows).mean() <= tolerance


def most_points(plan):
    """Return the largest number of points of a column, which limits the number of bins."""
    return max(column.n_points or np.inf for column in plan.request.columns)


def most_bins(plan):
    """Return the largest number of bins of a column of a plan."""
    return max(column.n_bins for column in plan.request.columns)


def chosen_plan(plans, n_rows):
    """Return the plan that suits a released count; the plans have ascending numbers of bins."""
    if _depend_on_the_data(plans[0]):
        aq_plans = list(map(judged_plan, plans))
        return plans[aq_plans.index(chosen_plan(aq_plans, n_rows))]

    n_low = cautious_count(n_rows, plans[0].count_budget)
    enough = [plan for plan in plans if is_near_enough(plan, n_low)]
    if enough:
        return enough[-1]

    n_likely = likely_count(n_rows, plans[0].count_budget)
    nats = partial(_nats_of_best_draw, n_rows=n_likely)

    def chance(plan):
        return np.mean(plan.map_columns(nats)) + np.log(most_bins(plan))

    return max((plan for plan in plans if most_bins(plan) <= MOST_LOST_BINS), key=chance)


def chosen_strategy(plans, n_rows):
    """Return the plan that suits a released count, if the plans have different strategies.

    Columns with bounds have edges of equal width only in the first plan, and edges of both kinds in
    the second plan. The other plans have quantiles only, and ascending numbers of bins.
    """
    uniform, *with_quantiles = plans
    if not with_quantiles:  # the budget is too small for quantiles
        return uniform
    if _depend_on_the_data(with_quantiles[0]):
        aq_plans = list(map(judged_plan, plans))
        return plans[aq_plans.index(chosen_strategy(aq_plans, n_rows))]

    mixed, *only_quantiles = with_quantiles
    is_different = np.array([column.n_widths > 1 for column in uniform.request.columns])
    n_low = cautious_count(n_rows, uniform.count_budget)

    def is_good(plan):
        return errors_in_bins(plan, n_low)[is_different].mean() <= TOO_FAR_OFF

    # Plans with more bins than the first of them must also pass the rule for the number of bins.
    good = [plan for plan in only_quantiles[:1] if is_good(plan)]
    good += [plan for plan in only_quantiles[1:] if is_good(plan) and is_near_enough(plan, n_low)]
    if good:
        return good[-1]

    n_likely = likely_count(n_rows, uniform.count_budget)
    nats = np.array(mixed.map_columns(partial(_nats_of_best_draw, n_rows=n_likely)))
    return mixed if nats[is_different].mean() > NATS_OF_A_GUESS else uniform


def judged_plan(plan):
    """Return the plan to predict errors with: a plan of AQ if the errors depend on the data."""
    if not _depend_on_the_data(plan):
        return plan
    return replace(plan, request=replace(plan.request, mechanism_name="aq"))


def _depend_on_the_data(plan):
    """Return whether the rank deviations of a plan are unknown."""
    return bool(np.isnan(np.concatenate(rank_deviations(plan))).any())
