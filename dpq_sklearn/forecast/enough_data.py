"""Are the data enough? One rule, from released numbers and public facts alone.

The expected error of an edge is the mean error of its rank, in bins: in parts of the rows that a
bin should hold. The error of an extreme quantile is compared with the rows beyond it. The rank
deviation of the mechanism predicts the error if the draws find the data; how likely that is depends
on what is publicly known of the column. The number of rows is itself a released, noisy count.
`n_bins="auto"`, the warnings of transformers and functions, their advice, `quality_report` and
`suggest_n_bins` all follow this rule. The constants were fitted to measured errors:
docs/accuracy.md says to which.
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

# An edge that is expected to be further off than this, in bins, is too far off to be useful.
TOO_FAR_OFF = 0.5
# "auto" takes the largest of these whose edges are not too far off. It takes no more than the cube
# root of the rows: the usual rule for histograms, beyond which models learn the single rows.
AUTO_BINS = (2, 4, 8, 16, 32, 64)
# If the edges of all of them are too far off, some of many may still hit the data: "auto" takes
# the most likely number up to this one then, where k bins are worth log(k) nats.
MOST_LOST_BINS = 16
# Draws have to tell the data from the rest of the number line. So many nats count against them, by
# how many of the two bounds are known; a lattice spares some, and a prior nearly all.
NATS_TO_FIND = (2.9, 2.8, 2.0)
NATS_OF_A_LATTICE = 0.5
NATS_WITH_A_PRIOR = -0.3
# A narrow column far from zero, such as years, is harder to find without two bounds.
NATS_OF_A_NARROW_COLUMN = 7.0
# Where bounds leave K points of a lattice it is at most the first and the second times log(K).
NATS_OF_POINTS = (-0.9, 0.5)
# What counts for them, as a share of what the rank deviations say. Columns differ, so the chance to
# find one rises more slowly with the rows than each of them would have it.
SHARE_OF_NATS = 0.6
# The mean error, as a share of the rows, of an edge that lies anywhere.
LOST = 0.37
# The mean error of an edge that is found, in rank deviations: that of a two-sided exponential.
MEAN_OF_FOUND = np.sqrt(0.5)
# On a lattice with few points an edge has no error among the rows that share one. Where the rank
# deviation is so many times the rows of a point, the error is half as large.
ROWS_OF_A_POINT = 4.0
# A draw with less than that for it is hardly better than a guess.
NATS_OF_A_GUESS = 1.0
# How far a row may be from the middle of its bin.
HALF_A_BIN = 0.5

_NOT_THE_USERS = ("dpq_sklearn", "sklearn", "joblib", "threading", "concurrent")
# The texts of warnings that were shown, with the lines of users that they were shown for.
_shown: set[tuple[str, str, int]] = set()


class PrivacyNoiseWarning(UserWarning):
    """The data are too few for the budget: the released values are mostly noise.

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
    """Warn at the user's line: that of the first caller outside of this package and scikit-learn.

    Unless a filter asks for more, a text is shown once for each line, as Python does. Python's own
    memory of shown warnings does not last through a search: `warnings.catch_warnings`, which
    scikit-learn enters for each fit, clears it.
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
    """Return the action of the first filter that applies to this warning of a frame."""
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
    """Return the count by which errors are judged: a released one, less by its noise; at least 1.

    Errors go by one over the count, whose mean over a noise with the variance v is, to second
    order, that of ``n_rows - v / n_rows``. So a count that is all noise counts as 1.
    """
    return less_by_noise(n_rows, CountNoise(count_budget))


def less_by_noise(count, noise):
    """Return a released count with this `CountNoise` as `cautious_count` does."""
    return max(count - noise.deviation() ** 2 / count, 1.0)


def likely_count(n_rows, count_budget):
    """Return a released count, or half of the deviation of its noise: a lower one tells no more."""
    return max(n_rows, CountNoise(count_budget).deviation() / 2)


def rank_deviations(plan):
    """Return the standard deviations in rank of the quantiles of each column."""
    return [deviations.copy() for deviations in plan.map_columns(lambda _, found: found)]


@dataclass(frozen=True)
class Knowledge:
    """What is publicly known of a column, as far as it decides how well its quantiles are found."""

    n_bounds: int  # how many of the two
    is_lattice: bool  # whether its decimals are known
    n_points: int | None  # how many points of the lattice bounds leave
    prior_deviation: float | None  # that of its `Prior`
    is_narrow: bool = False  # whether it spans less than a thousandth of its distance from zero

    @classmethod
    def of(cls, column):
        """Return what is known of a column of a request."""
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
            of_one, of_log = NATS_OF_POINTS
            return min(of_one + of_log * np.log(self.n_points), NATS_TO_FIND[2])
        nats = NATS_TO_FIND[self.n_bounds] - NATS_OF_A_LATTICE * self.is_lattice
        return nats + NATS_OF_A_NARROW_COLUMN * (self.is_narrow and self.n_bounds < 2)


def errors_in_bins(plan, n_rows, learn=None):
    """Return the expected error of the edges of each column in bins, if there are `n_rows` rows.

    Edges of equal width between public bounds have no error: they count as such in the mean. The
    error of a quantile that has fewer rows beyond it than a bin should hold is compared with these
    rows; the worst of such quantiles decides if it is worse than the mean.
    ``learn(knowledge)`` returns more `Knowledge`, for the question what that would buy.
    """

    def error(column, deviations):
        if not column.probabilities:
            return 0.0

        knowledge = Knowledge.of(column)
        if learn is not None:
            knowledge = learn(knowledge)
        errors = errors_of_ranks(column, deviations, n_rows, knowledge)

        tails = _tails(column)
        of_tails = (errors / tails)[tails * column.n_bins < 1 - 1e-9]
        in_bins = errors.mean() * column.n_bins * column.share_of_private_edges
        return np.max([in_bins, *of_tails])

    return np.array(plan.map_columns(error))


def errors_of_entries(column, deviations, n_rows):
    """Return the expected error of each quantile of a column, in bins or in the rows beyond it.

    The smaller one of the two is the unit. `deviations` are those of the ranks.
    """
    errors = errors_of_ranks(column, deviations, n_rows, Knowledge.of(column))
    return errors / np.minimum(_tails(column), 1 / column.n_bins)


def errors_of_ranks(column, deviations, n_rows, knowledge):
    """Return the expected error in rank of each quantile of a column, as a share of the rows."""
    # The chance that the draws miss the data altogether, and the error if they do not.
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
    """Return `errors_in_bins` for columns that are narrow and far from zero, such as years."""
    return errors_in_bins(plan, n_rows, lambda known: replace(known, is_narrow=True))


def errors_of_rows(plan, in_bins):
    """Return how far off the rank of a row is that is told by its bin, as a share of the rows.

    Edges are off, by so much `in_bins`, and in a bin all rows are alike: both count. So numbers of
    bins can be compared.
    """
    n_bins = np.array([column.n_bins for column in plan.request.columns])
    return np.hypot(in_bins, HALF_A_BIN) / n_bins


def _errors_if_found(column, deviations, knowledge):
    """Return the mean errors, as shares of the rows as the rank deviations are."""
    errors = np.minimum(MEAN_OF_FOUND * deviations, LOST)

    if knowledge.prior_deviation is not None:  # no more than the prior's own
        spread = spread_of_rank(np.array(column.probabilities), knowledge.prior_deviation)
        errors = errors * spread / np.hypot(errors, spread)
    if knowledge.n_points is not None:
        errors = errors / (1 + ROWS_OF_A_POINT / (knowledge.n_points * deviations))

    return errors


def _nats_of_best_draw(column, deviations, n_rows):
    """Return how much counts for the draw of a column that finds the data most easily.

    A value beyond the data is ``min(q, 1 - q) * n_rows`` ranks from the q-quantile that is wanted.
    With a deviation of s in rank, sqrt(2) / s nats per rank count against it.
    """
    if not column.probabilities:
        return 0.0
    return np.sqrt(2) * n_rows * np.max(_tails(column) / deviations)


def is_near_enough(plan, n_rows, tolerance=TOO_FAR_OFF):
    """Return whether so many rows, and points, are enough for the number of bins of a plan."""
    n_bins = most_bins(plan)
    if n_bins**3 > n_rows or n_bins > most_points(plan):
        return False
    return errors_in_bins(plan, n_rows).mean() <= tolerance


def most_points(plan):
    """Return the number of points of the column that may have the most: bins can be no more."""
    return max(column.n_points or np.inf for column in plan.request.columns)


def most_bins(plan):
    """Return the number of bins of the column of a plan that has the most."""
    return max(column.n_bins for column in plan.request.columns)


def chosen_plan(plans, n_rows):
    """Return which of several plans, each finer than the one before, a released count asks for."""
    if _depend_on_the_data(plans[0]):
        as_aq = list(map(judged_plan, plans))
        return plans[as_aq.index(chosen_plan(as_aq, n_rows))]

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
    """Return which of several plans a released count asks for, if they differ in their strategies.

    In the first plan, columns with bounds have edges of equal width alone, and in the second one
    quantiles as well. The others have quantiles alone, each finer than the one before.
    """
    uniform, *with_quantiles = plans
    if not with_quantiles:  # the budget does not suffice for any
        return uniform
    if _depend_on_the_data(with_quantiles[0]):
        as_aq = list(map(judged_plan, plans))
        return plans[as_aq.index(chosen_strategy(as_aq, n_rows))]

    mixed, *of_quantiles = with_quantiles
    is_different = np.array([column.n_widths > 1 for column in uniform.request.columns])
    n_low = cautious_count(n_rows, uniform.count_budget)

    def is_good(plan):
        return errors_in_bins(plan, n_low)[is_different].mean() <= TOO_FAR_OFF

    # More bins than the first of these plans has must suit the rows in every other respect, too.
    good = [plan for plan in of_quantiles[:1] if is_good(plan)]
    good += [plan for plan in of_quantiles[1:] if is_good(plan) and is_near_enough(plan, n_low)]
    if good:
        return good[-1]

    n_likely = likely_count(n_rows, uniform.count_budget)
    nats = np.array(mixed.map_columns(partial(_nats_of_best_draw, n_rows=n_likely)))
    return mixed if nats[is_different].mean() > NATS_OF_A_GUESS else uniform


def judged_plan(plan):
    """Return the plan to judge errors by: that of AQ if those of a mechanism depend on the data."""
    if not _depend_on_the_data(plan):
        return plan
    return replace(plan, request=replace(plan.request, mechanism_name="aq"))


def _depend_on_the_data(plan):
    """Return whether the rank deviations of a plan are unknown."""
    return bool(np.isnan(np.concatenate(rank_deviations(plan))).any())
