"""Are the data enough? One rule, from released numbers and public facts alone.

The expected error of an edge is the standard deviation of its rank (`Mechanism.rank_errors`), in
bins: in parts of the rows that a bin should hold. The number of rows is itself a released, noisy
count, so a cautious lower value of it is used. `n_bins="auto"`, the warning after a fit,
`quality_report` and `suggest_n_bins` all follow this rule.
"""

import numpy as np

from dpq_sklearn.mechanisms.noise import CountNoise

# An edge that is expected to be further off than this, in bins, is not worth its name.
TOO_FAR_OFF = 0.5
# "auto" takes the largest number of bins whose edges are expected to be this near, and which leaves
# so many rows for each bin.
NEAR_ENOUGH = 0.3
ROWS_PER_BIN = 16
AUTO_BINS = (2, 4, 8, 16, 32, 64)
# A delta that is well below one over the number of rows of most tables.
USUAL_DELTA = 1e-6
# The count is taken to be so many standard deviations of its noise too large.
CAUTION = 1.0

_VERDICTS = ((0.1, "good"), (NEAR_ENOUGH, "fair"), (TOO_FAR_OFF, "rough"), (np.inf, "mostly noise"))


class PrivacyNoiseWarning(UserWarning):
    """The data are too few for the budget: what was released is mostly noise.

    It is decided by released numbers and public facts, so it tells nothing more about the data.
    """


def cautious_count(n_rows, count_budget):
    """Return a released count, less the noise that may have raised it; at least 1."""
    return max(n_rows - CAUTION * CountNoise(count_budget).deviation(), 1.0)


def errors_in_bins(plan, n_rows):
    """Return the expected error of the edges of each column, averaged, in bins of `n_rows` rows."""
    n_bins = np.array([len(q) + 1 for q in plan.quantiles])
    errors = np.array([of_column.mean() for of_column in plan.rank_errors()])
    return np.minimum(errors / n_rows, 1.0) * n_bins


def is_near_enough(plan, n_rows, tolerance=NEAR_ENOUGH):
    """Return whether the edges of a plan are expected to be near enough on so many rows."""
    most_bins = max(len(q) for q in plan.quantiles) + 1
    enough_rows = n_rows >= ROWS_PER_BIN * most_bins
    return enough_rows and errors_in_bins(plan, n_rows).mean() <= tolerance


def verdict(error):
    """Return an expected error in bins in a word."""
    return next(word for most, word in _VERDICTS if not error > most)


def piled_up(quantiles, bounds):
    """Return how many features have most of their edges on one bound.

    Zero does not count: many columns are zero in most rows and have it as their bound.
    """
    n_piled_up = 0
    for values, pair in zip(quantiles, bounds, strict=True):
        on_bounds = [np.mean(values == bound) for bound in pair if bound != 0]
        n_piled_up += values.size > 1 and max(on_bounds, default=0.0) > 0.5
    return n_piled_up


def noise_warning(released, count_name, replan):
    """Return what to warn of after a fit, or None if all is well.

    Parameters
    ----------
    released : Release
    count_name : str
        The parameter for the number of bins or quantiles.
    replan : callable
        Takes other parameters, ``n_bins`` (or its like) and ``delta``, and returns the plan that a
        fit with these would follow.
    """
    plan, n_rows = released.plan, released.n_rows
    n_low = cautious_count(n_rows, plan.count_budget)
    error = errors_in_bins(plan, n_low).mean()
    n_features = len(plan.quantiles)
    features = f"{n_features} feature{'s' if n_features > 1 else ''}"
    if error > TOO_FAR_OFF:
        advice = _advice(plan, n_low, error, count_name, replan)
        advice = ", ".join(advice) + (" or " if advice else "") + "a larger eps"
        return (
            f"about {float(f'{n_rows:.2g}'):,.0f} rows, {features}: an edge is expected to be "
            f"{error:.1f} bins off. Use {advice}."
        )
    n_piled_up = piled_up(released.quantiles, plan.bounds)
    if n_piled_up:
        return (
            f"most edges lie on a bound in {n_piled_up} of {features}: the bounds are too narrow "
            "or the data too few. Use wider bounds or None."
        )
    return None


def _advice(plan, n_rows, error, count_name, replan):
    """Return what would help, beside a larger eps: fewer bins, a delta, fewer features."""
    advice = []
    fewer = [n for n in AUTO_BINS if n < max(map(len, plan.quantiles)) + 1]
    if fewer:
        n_bins = next((n for n in fewer[::-1] if is_near_enough(replan(n), n_rows)), fewer[0])
        advice.append(f"{n_bins} bins" if count_name == "n_bins" else f"{n_bins - 1} quantiles")
    if plan.loss.delta == 0 and plan.loss.account == "sum of eps":
        times = error / errors_in_bins(replan(delta=USUAL_DELTA), n_rows).mean()
        if times > 1.2:
            advice.append(f"delta=1e-6 (error {times:.1f} times smaller)")
    if len(plan.quantiles) > 1:
        advice.append("fewer features")
    return advice
