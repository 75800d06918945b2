"""Are the data enough? One rule, from released numbers and public facts alone.

The expected error of an edge is that of its rank, in bins: in parts of the rows that a bin should
hold. The number of rows is itself a released, noisy count, so a cautious lower value of it is used.
`n_bins="auto"`, the warning after a fit, `quality_report` and `suggest_n_bins` all follow this
rule. The constants were chosen by measured errors and models: docs/enough_data.md.
"""

import sys
import warnings
from dataclasses import replace
from functools import cache, partial
from itertools import takewhile
from traceback import walk_stack

import numpy as np
from scipy.special import expit

from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.mechanisms.protocol import of_column

# An edge that is expected to be further off than this, in bins, is too far off to be useful.
TOO_FAR_OFF = 0.5
# "auto" takes the largest of these whose edges are not too far off. It takes no more than the cube
# root of the rows: the usual rule for histograms, beyond which models learn the single rows.
AUTO_BINS = (2, 4, 8, 16, 32, 64)
# If the edges of all of them are too far off, some of many may still hit the data: "auto" takes
# the most likely number up to this one then, where k bins are worth log(k) nats. A count below
# half of its standard deviation is raised to that: it tells no more.
MOST_LOST_BINS = 16
# Without knowing where the data are, the draws have to tell them from the rest of the number line:
# so many nats are needed between two bounds and if an end is open.
NATS_TO_FIND = 3.0
NATS_TO_FIND_OPEN = 5.0
# The error, as a share of the rows, of an edge that lies anywhere.
LOST = 0.5

_NOT_THE_USERS = ("dpq_sklearn", "sklearn", "joblib", "threading", "concurrent")


class PrivacyNoiseWarning(UserWarning):
    """The data are too few for the budget: what was released is mostly noise.

    It is decided by released numbers and public facts, so it tells nothing more about the data.

    See Also
    --------
    suggest_n_bins : How many bins the rows and the budget allow.
    DPKBinsDiscretizer : Its `quality_report` has the error of each feature.
    """


def warn_of_noise(text):
    """Warn at the line of the user: that of the first caller outside of this and scikit-learn."""
    modules = (frame.f_globals.get("__name__", "") for frame, _ in walk_stack(sys._getframe(1)))
    internal = takewhile(lambda name: name.partition(".")[0] in _NOT_THE_USERS, modules)
    warnings.warn(text, PrivacyNoiseWarning, stacklevel=2 + len(list(internal)))


def cautious_count(n_rows, count_budget):
    """Return a released count, less one standard deviation of its noise; at least 1."""
    return max(n_rows - CountNoise(count_budget).deviation(), 1.0)


def rank_deviations(plan):
    """Return the standard deviations in rank of the quantiles of each column."""
    return [deviations.copy() for deviations in _map_columns(plan, lambda _, found: found)]


def _map_columns(plan, function):
    """Return ``function(column, rank deviations)`` of each column of a plan."""

    @cache  # columns are mostly alike
    def value(mechanism, column, budget):
        deviations = of_column(mechanism.rank_deviations, column.probabilities, budget)
        return function(column, deviations)

    return list(map(value, plan.request.mechanisms, plan.request.columns, plan.budgets))


def errors_in_bins(plan, n_rows):
    """Return the expected error of the edges of each column in bins, if there are `n_rows` rows."""

    def error(column, deviations):
        # The chance that the draws miss the data altogether, and the error if they do not.
        lost = expit(-_log_odds_to_find(column, deviations, n_rows))
        found = np.minimum(deviations / n_rows, LOST).mean()

        share_of_rows = np.sqrt((1 - lost) * found**2 + lost * LOST**2)
        return share_of_rows * (len(column.probabilities) + 1)

    return np.array(_map_columns(plan, error))


def _log_odds_to_find(column, deviations, n_rows):
    """Return the logarithm of the odds that the best draw of a column finds the data.

    A value beyond the data is ``min(q, 1 - q) * n_rows`` ranks from the q-quantile that is wanted.
    With a deviation of s in rank, sqrt(2) / s nats per rank count against it.
    """
    q = np.array(column.probabilities)
    nats = np.sqrt(2) * n_rows * np.max(np.minimum(q, 1 - q) / deviations)
    return nats - (NATS_TO_FIND if np.isfinite(column.bounds).all() else NATS_TO_FIND_OPEN)


def is_near_enough(plan, n_rows, tolerance=TOO_FAR_OFF):
    """Return whether so many rows are enough for the number of bins of a plan."""
    return most_bins(plan) ** 3 <= n_rows and errors_in_bins(plan, n_rows).mean() <= tolerance


def most_bins(plan):
    """Return the number of bins of the column of a plan that has the most."""
    return max(map(len, plan.request.probabilities)) + 1


def chosen_plan(plans, n_rows):
    """Return which of several plans, each finer than the one before, a released count asks for."""
    if np.isnan(rank_deviations(plans[0])[0]).any():  # they depend on the data: judge by AQ's
        as_aq = [_with_request(plan, mechanism_name="aq") for plan in plans]
        return plans[as_aq.index(chosen_plan(as_aq, n_rows))]

    n_low = cautious_count(n_rows, plans[0].count_budget)
    enough = [plan for plan in plans if is_near_enough(plan, n_low)]
    if enough:
        return enough[-1]

    n_likely = max(n_rows, CountNoise(plans[0].count_budget).deviation() / 2)
    log_odds = partial(_log_odds_to_find, n_rows=n_likely)

    def chance(plan):
        return np.mean(_map_columns(plan, log_odds)) + np.log(most_bins(plan))

    return max((plan for plan in plans if most_bins(plan) <= MOST_LOST_BINS), key=chance)


def _with_request(plan, **changes):
    """Return a plan with the same budgets for a request that differs."""
    return replace(plan, request=replace(plan.request, **changes))


def errors_within_bounds(plan, n_rows):
    """Return what `errors_in_bins` would be if all columns had public bounds."""
    columns = [replace(column, bounds=(0.0, 1.0)) for column in plan.request.columns]
    return errors_in_bins(_with_request(plan, columns=columns), n_rows)
