"""Are the data enough? One rule, from released numbers and public facts alone.

The expected error of an edge is that of its rank, in bins: in parts of the rows that a bin should
hold. The number of rows is itself a released, noisy count, so a cautious lower value of it is used.
`n_bins="auto"`, the warning after a fit, `quality_report` and `suggest_n_bins` all follow this
rule. The constants were chosen by measured errors and models: docs/enough_data.md.
"""

import html
import sys
import warnings
from dataclasses import replace
from functools import cache, lru_cache, partial
from itertools import takewhile
from traceback import walk_stack

import numpy as np
from scipy.special import expit

from dpq_sklearn.mechanisms.aq import ApproximateQuantiles
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
NATS_TO_FIND, NATS_TO_FIND_OPEN = 3.0, 5.0
# The error, as a share of the rows, of an edge that lies anywhere.
LOST = 0.5
# A delta that is well below one over the number of rows of most tables.
USUAL_DELTA = "1e-6"
# How many times smaller an error must become, so that a delta or bounds are worth a word.
WORTH_A_WORD = 1.2

_VERDICTS = ((0.1, "good"), (0.25, "fair"), (TOO_FAR_OFF, "rough"), (np.inf, "mostly noise"))
_NOT_THE_USERS = ("dpq_sklearn", "sklearn", "joblib", "threading", "concurrent")
_AQ = ApproximateQuantiles()


class PrivacyNoiseWarning(UserWarning):
    """The data are too few for the budget: what was released is mostly noise.

    It is decided by released numbers and public facts, so it tells nothing more about the data.
    """


def cautious_count(n_rows, count_budget):
    """Return a released count, less one standard deviation of its noise; at least 1."""
    return max(n_rows - CountNoise(count_budget).deviation(), 1.0)


@lru_cache(maxsize=256)
def even_quantiles(n_bins):
    """Return the quantiles between bins that hold equally many rows."""
    return tuple((np.arange(1, n_bins) / n_bins).tolist())


def rank_errors(plan):
    """Return the standard deviations in rank of the quantiles of each column."""
    return [errors.copy() for errors in _map_columns(plan, lambda q, errors, bounds: errors)]


def _map_columns(plan, function):
    """Return ``function(quantiles, rank errors, bounds)`` of each column."""

    @cache  # columns are mostly alike
    def value(quantiles, budget, bounds):
        errors = of_column(plan.mechanism.rank_deviations, quantiles, budget)
        return function(quantiles, errors, bounds)

    return list(map(value, plan.quantiles, plan.budgets, plan.bounds))


def errors_in_bins(plan, n_rows):
    """Return the expected error of the edges of each column in bins, if there are `n_rows` rows."""

    def error(quantiles, errors, bounds):
        # The chance that the draws miss the data altogether, and the error if they do not.
        lost = expit(-_log_odds_to_find(quantiles, errors, bounds, n_rows))
        found = np.minimum(errors / n_rows, LOST).mean()
        return np.sqrt((1 - lost) * found**2 + lost * LOST**2) * (len(quantiles) + 1)

    return np.array(_map_columns(plan, error))


def _log_odds_to_find(quantiles, errors, bounds, n_rows):
    """Return the logarithm of the odds that the best draw of a column finds the data.

    A place beyond the data is ``min(q, 1 - q) * n_rows`` ranks from the q-quantile that is wanted.
    With a deviation of s in rank, sqrt(2) / s nats per rank count against it.
    """
    q = np.array(quantiles)
    nats = np.sqrt(2) * n_rows * np.max(np.minimum(q, 1 - q) / errors)
    return nats - (NATS_TO_FIND if np.isfinite(bounds).all() else NATS_TO_FIND_OPEN)


def is_near_enough(plan, n_rows, tolerance=TOO_FAR_OFF):
    """Return whether so many rows are enough for the number of bins of a plan."""
    return _most_bins(plan) ** 3 <= n_rows and errors_in_bins(plan, n_rows).mean() <= tolerance


def _most_bins(plan):
    return max(map(len, plan.quantiles)) + 1


def chosen_plan(plans, n_rows):
    """Return which of several plans, each finer than the one before, a released count asks for."""
    if np.isnan(rank_errors(plans[0])[0]).any():  # they depend on the data: judge by AQ's
        as_aq = [replace(plan, mechanism=_AQ) for plan in plans]
        return plans[as_aq.index(chosen_plan(as_aq, n_rows))]
    n_low = cautious_count(n_rows, plans[0].count_budget)
    enough = [plan for plan in plans if is_near_enough(plan, n_low)]
    if enough:
        return enough[-1]

    n_likely = max(n_rows, CountNoise(plans[0].count_budget).deviation() / 2)

    def chance(plan):
        log_odds = _map_columns(plan, partial(_log_odds_to_find, n_rows=n_likely))
        return np.mean(log_odds) + np.log(_most_bins(plan))

    return max((plan for plan in plans if _most_bins(plan) <= MOST_LOST_BINS), key=chance)


class QualityReport(dict):
    """Equally long columns by name: a small table for those who have no pandas."""

    def _rows(self):
        columns = ([name, *map(str, values)] for name, values in self.items())
        return list(zip(*columns, strict=True))

    def __repr__(self):
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    def _repr_html_(self):
        cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in self._rows())
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def verdict(error):
    """Return an expected error in bins in words."""
    return next((word for most, word in _VERDICTS if error <= most), "unknown")


def n_piled_up(quantiles, grid):
    """Return how many features have all of their edges, two or more, on one end of their range."""
    extremes = np.array([(values[0], values[-1]) for values in quantiles]).T  # they ascend
    lowest, highest = grid.cells_of(extremes, slice(None))
    is_on_an_end = (highest == grid.first) | (lowest == grid.end - 1)
    is_several = [values.size > 1 for values in quantiles]
    is_zero = extremes[0] == 0  # many columns are zero in most rows, and it is their bound
    return np.count_nonzero(is_on_an_end & is_several & ~is_zero)


def warn_if_noisy(released, errors, count_name, replan):
    """Warn after a fit whose edges are mostly noise, or all lie on a bound.

    `count_name` is the parameter for the number of bins or quantiles, and `replan` returns the
    plan of a fit with other parameters.
    """
    plan, n_features = released.plan, len(released.quantiles)
    features = f"{n_features} feature{'s' if n_features > 1 else ''}"
    n_piled = n_piled_up(released.quantiles, plan.grid)
    if errors.mean() > TOO_FAR_OFF:
        warn_of_noise(
            f"{_rows_in_words(released.n_rows, plan.count_budget)}, {features}: an edge is "
            f"expected to be {errors.mean():.1f} bins off. "
            f"Use {_advice(released, errors.mean(), count_name, replan)}."
        )
    elif n_piled:
        warn_of_noise(
            f"all edges lie on a bound in {n_piled} of {features}: most rows are there or "
            "beyond. Use wider bounds, or None for a range that ends at 2^64."
        )


def _rows_in_words(n_rows, count_budget):
    """Return a released count in words, with its own noise where that is large."""
    deviation = CountNoise(count_budget).deviation()
    if deviation > n_rows:
        return f"fewer than about {_rounded(n_rows + 2 * deviation)} rows"
    noise = f" ± {_rounded(deviation)}" if deviation > n_rows / 3 else ""
    return f"about {_rounded(n_rows)}{noise} rows"


def _rounded(number):
    return f"{float(f'{number:.2g}'):,.0f}"


def _advice(released, error, count_name, replan):
    """Return what would help: fewer bins, a delta, bounds, fewer features, a larger budget."""
    plan, unit, advice = released.plan, released.plan.count_budget.unit, []
    n_rows = cautious_count(released.n_rows, plan.count_budget)
    more_bins = 0 if count_name == "n_bins" else 1  # n quantiles make n + 1 bins; one is too few
    fewer = [n - more_bins for n in AUTO_BINS[more_bins:] if n < _most_bins(plan)]
    if fewer and not plan.finer_plans:  # "auto" did what it could
        enough = takewhile(lambda n: is_near_enough(replan(**{count_name: n}), n_rows), fewer)
        advice.append(f"{max(enough, default=fewer[0])} {count_name.removeprefix('n_')}")
    delta = float(USUAL_DELTA)
    if unit == "eps" and plan.loss.delta == 0 and delta < plan.loss.eps / 1000:
        plans = replan(), replan(delta=delta)
        without, with_delta = (np.concatenate(rank_errors(each)).mean() for each in plans)
        times = without / with_delta
        if times > WORTH_A_WORD:
            advice.append(f"delta={USUAL_DELTA} (error {times:.2g} times smaller)")
    within_bounds = errors_in_bins(replace(plan, bounds=((0.0, 1.0),) * len(plan.bounds)), n_rows)
    if error > WORTH_A_WORD * within_bounds.mean():
        advice.append("public bounds")
    if len(plan.quantiles) > 1:
        advice.append("fewer features")
    return " or ".join(filter(None, (", ".join(advice), f"a larger {unit}")))


def warn_of_noise(text):
    """Warn at the line of the user: that of the first caller outside of this and scikit-learn."""
    modules = (frame.f_globals.get("__name__", "") for frame, _ in walk_stack(sys._getframe(1)))
    internal = takewhile(lambda name: name.partition(".")[0] in _NOT_THE_USERS, modules)
    warnings.warn(text, PrivacyNoiseWarning, stacklevel=2 + len(list(internal)))
