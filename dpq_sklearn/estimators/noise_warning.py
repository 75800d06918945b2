"""The warning after a fit: the released edges are mostly noise, or do not tell the rows apart.

It is decided by released numbers and public facts, and says what would help.
"""

from dataclasses import replace
from itertools import takewhile

import numpy as np

from dpq_sklearn.checks import LARGEST_EXPONENT
from dpq_sklearn.forecast.enough_data import (
    TOO_FAR_OFF,
    cautious_count,
    errors_within_bounds,
    is_near_enough,
    most_bins,
    rank_deviations,
    warn_of_noise,
)
from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.releases.plans import plan_quantiles
from dpq_sklearn.releases.request import CountRole

# A delta that is well below one over the number of rows of most tables.
USUAL_DELTA = "1e-6"
# How many times smaller an error must become, so that a delta or bounds are worth a word.
WORTH_A_WORD = 1.2


def warn_if_noisy(released, error, fewer):
    """Warn if the edges of a release are off by more than half a bin, or tell no rows apart.

    `error` is what is expected of an edge, in bins. `fewer` has words for smaller numbers of
    quantiles that a user may ask for, ascending, and the probabilities that these mean.
    """
    plan = released.plan
    n_features = len(released.values)
    features = f"{n_features} feature{'s' if n_features > 1 else ''}"

    if error > TOO_FAR_OFF:
        warn_of_noise(
            f"{_rows_in_words(released.n_rows, plan.count_budget)}, {features}: an edge is "
            f"expected to be {error:.1f} bins off. Use {_advice(released, error, fewer)}."
        )
    elif words := _about_equal_edges(released.values, plan.grid, features):
        warn_of_noise(words)


def _about_equal_edges(values, grid, features):
    """Return in words where edges tell no rows apart, and what would help; empty if nowhere."""
    on_a_bound, on_an_open_end = n_piled_up(values, grid)
    in_wide_cells = n_in_wide_cells(values, grid)
    sentences = []

    if on_a_bound:
        sentences.append(
            f"all edges lie on a bound in {on_a_bound} of {features}: most rows are there or "
            f"beyond. Use wider bounds, or None for a range that ends at 2^{LARGEST_EXPONENT}."
        )
    if on_an_open_end:
        sentences.append(
            f"all edges lie at the end of a range without bounds, about 2^{LARGEST_EXPONENT}, in "
            f"{on_an_open_end} of {features}: most rows are there or beyond. Use two public "
            "bounds, or make infinite values missing."
        )
    if in_wide_cells:
        sentences.append(
            f"most edges are equal to others in {in_wide_cells} of {features}: so far from 0, many "
            "whole numbers share a cell of the grid. Use public bounds near the values, or "
            "subtract a public number."
        )
    return " ".join(sentences)


def n_piled_up(values, grid):
    """Return how many features have all of their edges, two or more, on one end of their range.

    The first number is for ends that are bounds, the second for open ones.
    """
    extremes = _extremes(values)
    lowest, highest = grid.cells_of(extremes, slice(None))
    is_several = np.array([edges.size > 1 for edges in values])

    is_low = is_several & (highest == grid.first)
    is_high = is_several & (lowest == grid.end - 1)
    is_open = (is_low & grid.is_open_low) | (is_high & grid.is_open_high)
    is_zero = extremes[0] == 0  # many columns are zero in most rows, and it is their bound
    is_bound = (is_low | is_high) & ~is_open & ~is_zero
    return np.count_nonzero(is_bound), np.count_nonzero(is_open)


def _extremes(values):
    """Return the lowest and the highest edge of each feature, in two rows."""
    return np.array([(edges[0], edges[-1]) for edges in values]).T  # they ascend


def n_in_wide_cells(values, grid):
    """Return how many features have most edges in cells that they share, and that are too wide.

    Too wide are cells of several whole numbers. Those at the ends of a range are another matter
    (`n_piled_up`).
    """
    at_extremes = grid.cells_of(_extremes(values), slice(None))
    may_be_wide = (_widths(grid, at_extremes, slice(None)) > 1).any(axis=0)  # they grow outwards

    n_features = 0
    for column in np.flatnonzero(may_be_wide):
        cells, counts = np.unique(grid.cells_of(values[column], column), return_counts=True)
        is_inside = (cells > grid.first[column]) & (cells < grid.end[column] - 1)
        is_shared = is_inside & (counts > 1) & (_widths(grid, cells, column) > 1)
        n_features += bool(2 * counts[is_shared].sum() > values[column].size)
    return n_features


def _widths(grid, cells, columns):
    return grid.upper_edges(cells, columns) - grid.lower_edges(cells, columns)


def _rows_in_words(n_rows, count_budget):
    """Return a released count in words, with its own noise where that is large."""
    deviation = CountNoise(count_budget).deviation()
    if deviation > n_rows:
        return f"fewer than about {_rounded(n_rows + 2 * deviation)} rows"

    noise = f" ± {_rounded(deviation)}" if deviation > n_rows / 3 else ""
    return f"about {_rounded(n_rows)}{noise} rows"


def _rounded(number):
    return f"{float(f'{number:.2g}'):,.0f}"


def _advice(released, error, fewer):
    """Return what would help: fewer bins, a delta, bounds, fewer features, a larger budget."""
    plan = released.plan
    n_rows = cautious_count(released.n_rows, plan.count_budget)
    advice = [_fewer_quantiles(plan, n_rows, fewer), _a_delta(plan)]

    if error > WORTH_A_WORD * errors_within_bounds(plan, n_rows).mean():
        advice.append("public bounds")
    if len(plan.request.columns) > 1:
        advice.append("fewer features")

    what_else = ", ".join(filter(None, advice))
    more_budget = f"a larger {plan.count_budget.unit}"
    return f"{what_else} or {more_budget}" if what_else else more_budget


def _fewer_quantiles(plan, n_rows, fewer):
    """Return words for the most quantiles that are near enough, or else the fewest; or None."""
    if plan.request.count is CountRole.CHOOSES:  # "auto" did what it could
        return None
    fewer = {
        words: probabilities
        for words, probabilities in fewer.items()
        if len(probabilities) + 1 < most_bins(plan)
    }
    if not fewer:
        return None

    def is_enough(words):
        columns = [replace(c, probabilities=fewer[words]) for c in plan.request.columns]
        return is_near_enough(plan_quantiles(replace(plan.request, columns=columns)), n_rows)

    enough = list(takewhile(is_enough, fewer))
    return enough[-1] if enough else next(iter(fewer))


def _a_delta(plan):
    """Return the advice to take a delta, if that makes the error clearly smaller; or None."""
    request = plan.request
    delta = float(USUAL_DELTA)
    is_pure = request.budget.rho is None and plan.loss.delta == 0
    if not is_pure or delta >= request.budget.eps / 1000:
        return None

    with_delta = plan_quantiles(replace(request, budget=replace(request.budget, delta=delta)))
    times_smaller = _mean_deviation(plan) / _mean_deviation(with_delta)
    if times_smaller <= WORTH_A_WORD:
        return None
    return f"delta={USUAL_DELTA} (error {times_smaller:.2g} times smaller)"


def _mean_deviation(plan):
    return np.concatenate(rank_deviations(plan)).mean()
