"""The warning after a fit: the released edges are mostly noise, or do not tell the rows apart.

It is decided by released numbers and public facts, and says what would help.
"""

from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from dpq_sklearn.checks import LARGEST_EXPONENT
from dpq_sklearn.forecast.enough_data import (
    TOO_FAR_OFF,
    errors_in_bins,
    errors_of_rows,
    is_near_enough,
    likely_count,
    most_bins,
    warn_of_noise,
)
from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.releases.plans import plan_quantiles
from dpq_sklearn.releases.request import CountRole

# A delta that is well below one over the number of rows of most tables.
USUAL_DELTA = "1e-6"
# How many times smaller a step must make an error, so that it is worth a word.
WORTH_A_WORD = 1.1
# Fewer bins give something up, and public rows have to be found: steps that must be so many times
# better to be named first.
PRICE_OF_FEWER_BINS = 1.5
PRICE_OF_PUBLIC_ROWS = 1.1
# A prior that many could find: so many public rows, and how well they know a median.
PUBLIC_ROWS = 100
DEVIATION_OF_PUBLIC_ROWS = 0.5 / np.sqrt(PUBLIC_ROWS)


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
            f"expected to be {error:.1f} bins off. Use {_advice(released, fewer)}."
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


@dataclass(frozen=True)
class _Step:
    """Something that would help: its words, and what it makes of the errors."""

    words: str
    error_of_rows: float  # which can be compared if the bins are others, too
    error_in_bins: float | None = None  # None if the bins are others
    is_enough: bool = False  # whether the rule of enough data is content with other bins
    price: float = 1.0  # how many times better it must be to be named before others
    note: str = ""

    @property
    def rank(self):
        """By which steps are put into order, best first."""
        return self.error_of_rows * self.price

    def is_worth_a_word(self, now):
        """Return whether it is clearly better than the step to stay as it is, or good enough."""
        if self.error_in_bins is None:
            is_better = now.error_of_rows > WORTH_A_WORD * self.error_of_rows
            return is_better or self.is_enough
        return now.error_in_bins > WORTH_A_WORD * self.error_in_bins

    def in_words(self, now):
        """Return the words, with how many times smaller an error in bins becomes."""
        if self.error_in_bins is None:
            return self.words
        times = now.error_in_bins / self.error_in_bins
        return f"{self.words} (error {times:.2g} times smaller{self.note})"


def _advice(released, fewer):
    """Return what would help, best first by predicted errors; a larger budget always would."""
    plan = released.plan
    n_rows = likely_count(released.n_rows, plan.count_budget)
    if plan.request.count is CountRole.CHOOSES:  # "auto" takes as many as a step allows
        plan = _with_probabilities(plan, next(iter(fewer.values())))
    now = _same_bins("as it is", plan, n_rows)

    steps = [_fewer_quantiles(plan, n_rows, fewer), _a_delta(plan, n_rows)]
    steps += _more_knowledge(plan, n_rows)
    worth_it = [step for step in steps if step and step.is_worth_a_word(now)]
    worth_it.sort(key=lambda step: step.rank)

    advice = [step.in_words(now) for step in worth_it]
    if len(plan.request.columns) > 1:
        advice.append("fewer features")

    more_budget = f"a larger {plan.count_budget.unit}"
    return f"{', '.join(advice)} or {more_budget}" if advice else more_budget


def _same_bins(words, plan, n_rows, learn=None, **others):
    """Return the step to a plan with the same bins, or to more knowledge."""
    in_bins = errors_in_bins(plan, n_rows, learn)
    return _Step(
        words,
        error_of_rows=errors_of_rows(plan, in_bins).mean(),
        error_in_bins=in_bins.mean(),
        **others,
    )


def _more_knowledge(plan, n_rows):
    """Return the steps that cost no budget: to tell more of what is publicly known."""

    def with_bounds(known):
        return replace(known, n_bounds=2)

    def with_decimals(known):
        return replace(known, is_lattice=True)

    def with_prior(known):
        has_prior = known.prior_deviation is not None
        return known if has_prior else replace(known, prior_deviation=DEVIATION_OF_PUBLIC_ROWS)

    steps = [
        _same_bins("public bounds", plan, n_rows, with_bounds),
        _same_bins("decimals that are known", plan, n_rows, with_decimals),
    ]
    if plan.request.mechanism.takes_priors:
        words = f"{PUBLIC_ROWS} public rows as prior"
        steps.append(_same_bins(words, plan, n_rows, with_prior, price=PRICE_OF_PUBLIC_ROWS))
    return steps


def _fewer_quantiles(plan, n_rows, fewer):
    """Return the step to the most quantiles that are near enough, or else the fewest; or None."""
    plans = {
        words: _with_probabilities(plan, probabilities)
        for words, probabilities in fewer.items()
        if len(probabilities) + 1 < most_bins(plan)
    }
    if not plans:
        return None

    enough = list(takewhile(lambda words: is_near_enough(plans[words], n_rows), plans))
    words = enough[-1] if enough else next(iter(plans))
    return _Step(
        words,
        error_of_rows=errors_of_rows(plans[words], errors_in_bins(plans[words], n_rows)).mean(),
        is_enough=bool(enough),
        price=PRICE_OF_FEWER_BINS,
    )


def _with_probabilities(plan, probabilities):
    columns = plan.map_columns(lambda column, _: replace(column, probabilities=probabilities))
    return plan_quantiles(replace(plan.request, columns=columns))


def _a_delta(plan, n_rows):
    """Return the step to a delta, or None if there is one, or a rho, or no room for it."""
    request = plan.request
    delta = float(USUAL_DELTA)
    is_pure = request.budget.rho is None and plan.loss.delta == 0
    if not is_pure or delta >= request.budget.eps / 1000:
        return None

    with_delta = plan_quantiles(replace(request, budget=replace(request.budget, delta=delta)))
    return _same_bins(f"delta={USUAL_DELTA}", with_delta, n_rows, note=_note_of_ledgers(with_delta))


def _note_of_ledgers(plan):
    """Return in words what a ledger counts for a plan with a delta if it has none itself."""
    counted = plan.loss.pure_eps
    if not plan.request.is_added_up or counted <= plan.loss.eps:
        return ""
    return f", but a ledger with delta=0 counts it as eps={counted:.2g}"
