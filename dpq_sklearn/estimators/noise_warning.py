"""The warning after a noisy fit, and the advice of `quality_report`.

Both depend on released numbers and public facts only. The text of a warning depends on its cause
and on the parameters of the transformer, but not on released numbers. Python shows equal warnings
of one line once, so the many fits of a search warn once. The numbers are in `quality_report`.
"""

from dataclasses import dataclass, replace
from itertools import takewhile
from types import MappingProxyType

import numpy as np

from dpq_sklearn.checks import LARGEST_EXPONENT
from dpq_sklearn.forecast.enough_data import (
    TOO_FAR_OFF,
    errors_in_bins,
    errors_of_rows,
    is_near_enough,
    likely_count,
    most_bins,
    warn_user,
)
from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.releases.plans import plan_quantiles
from dpq_sklearn.releases.request import Column, CountRole

# A delta well below 1 / number of rows, for most tables.
USUAL_DELTA = "1e-6"
# The advice names a step only if it makes the error at least this many times smaller.
WORTH_A_WORD = 1.1
# Fewer bins lose detail: they count as this many times less helpful than their error says.
PRICE_OF_FEWER_BINS = 1.5
# A prior that many users could find: this many public rows, and the deviation of their median.
PUBLIC_ROWS = 100
DEVIATION_OF_PUBLIC_ROWS = 0.5 / np.sqrt(PUBLIC_ROWS)


def warn_if_noisy(released, errors, fewer, others):
    """Warn if edges are expected to be more than half a bin off, or do not separate rows.

    `errors` are the expected errors of the edges of each feature, in bins. `fewer` maps names for
    smaller numbers of quantiles that a user may request, in ascending order, to the probabilities
    of these quantiles. `others` maps remedies of one transformer to factors of improvement.
    """
    plan = released.plan
    # A feature with exact and private edges expects noise, so it does not count.
    is_private = [column.share_of_private_edges == 1 for column in plan.request.columns]

    if any(is_private) and errors[is_private].mean() > TOO_FAR_OFF:
        steps = listed(possible_steps(plan, fewer, others))
        warn_user(
            "The released edges are mostly noise: on average, an edge is expected to be more than "
            f"half a bin off, because the data are too few for this budget. Consider {steps}. "
            "quality_report() has the expected errors and how much each of these steps would help."
        )
        return

    pairs = zip(released.values, is_private, strict=True)
    values = [edges if all_private else edges[:0] for edges, all_private in pairs]
    if words := _about_equal_edges(values, plan.grid):
        warn_user(words)


def _about_equal_edges(values, grid):
    """Return a text with the reasons why edges do not separate rows, and with remedies.

    The text is empty if the edges separate rows.
    """
    on_a_bound, on_an_open_end = n_piled_up(values, grid)
    sentences = []

    if on_a_bound:
        sentences.append(
            "All edges of a feature lie on one of its bounds, so most of its rows are there or "
            "beyond. Use wider bounds, or None, which leaves the range open up to "
            f"2^{LARGEST_EXPONENT}."
        )
    if on_an_open_end:
        sentences.append(
            "All edges of a feature lie at the end of a range without bounds, about "
            f"2^{LARGEST_EXPONENT}, so most of its rows are there or beyond. Use two public "
            "bounds, or replace infinite values by missing values."
        )
    if n_in_wide_cells(values, grid):
        sentences.append(
            "Most edges of a feature are equal to others, because many whole numbers share a cell "
            "of the grid this far from 0. Use public bounds close to the values, or subtract a "
            "public number."
        )

    return " ".join(sentences)


def n_piled_up(values, grid):
    """Return the number of features with all edges (two or more) at one end of the range.

    The first number counts the features at a bound, the second the features at an open end.
    """
    is_bound, is_open = are_piled_up(values, grid)
    return np.count_nonzero(is_bound), np.count_nonzero(is_open)


def are_piled_up(values, grid):
    """Return masks of the features with all edges at a bound, and with all edges at an open end."""
    extremes = _extremes(values)
    lowest, highest = grid.cells_of(extremes, slice(None))
    is_several = np.array([edges.size > 1 for edges in values])

    is_low = is_several & (highest == grid.first)
    is_high = is_several & (lowest == grid.end - 1)
    is_open = (is_low & grid.is_open_low) | (is_high & grid.is_open_high)
    is_zero = extremes[0] == 0  # in many columns most values are 0, which is also their bound
    is_bound = (is_low | is_high) & ~is_open & ~is_zero
    return is_bound, is_open


def ends_in_words(values, grid):
    """Return a text for each feature with all edges at one end, empty for other features.

    This includes edges that were at this end before equal edges were moved apart.
    """
    is_bound, is_open = are_piled_up(values, grid)
    lowest, highest = _extremes(values)
    nearly = 1 - 1e-5  # edges move by a few of the last digits of a float32
    is_low = grid.is_open_low & (highest <= nearly * grid.low)
    is_high = grid.is_open_high & (lowest >= nearly * grid.high)

    infinite = f"most values are infinite, or beyond about 2^{LARGEST_EXPONENT}"
    on_a_bound = "all edges lie on a bound: most values are there or beyond"
    return np.select([is_open | is_low | is_high, is_bound], [infinite, on_a_bound], "").tolist()


def _extremes(values):
    """Return the lowest and the highest edge of each feature as two rows, 0 if it has no edges."""
    ends = [(edges[0], edges[-1]) if edges.size else (0.0, 0.0) for edges in values]  # ascending
    return np.array(ends).T


def n_in_wide_cells(values, grid):
    """Return the number of features in which most edges share cells that are too wide.

    A cell is too wide if it holds several whole numbers. Cells at the ends of a range do not count
    (`n_piled_up` treats them).
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


def count_in_words(n_rows, count_budget, unit):
    """Return a released count as text, with its noise if the noise is large.

    `unit` is "rows" or "people".
    """
    deviation = CountNoise(count_budget).deviation()
    if deviation > n_rows:
        return f"fewer than about {_rounded(n_rows + 2 * deviation)} {unit}"

    noise = f" ± {_rounded(deviation)}" if deviation > n_rows / 3 else ""
    return f"about {_rounded(n_rows)}{noise} {unit}"


def _rounded(number):
    return f"{float(f'{number:.2g}'):,.0f}"


@dataclass(frozen=True)
class _Step:
    """A remedy, and the factor by which it is expected to reduce the error."""

    words: str
    times_smaller: float
    is_shown: bool = True  # errors of different numbers of bins are not comparable in bins
    is_enough: bool = False  # whether the error becomes small enough
    note: str = ""

    @property
    def is_worth_a_word(self):
        """Whether the step clearly reduces the error, or makes it small enough."""
        return self.is_enough or self.times_smaller > WORTH_A_WORD

    def __str__(self):
        if not self.is_shown:
            return self.words
        return f"{self.words} (error {self.times_smaller:.2g} times smaller{self.note})"


def advice(plan, n_rows, fewer, others):
    """Return the steps that would help as text, the most helpful step first.

    `n_rows` is the released count. `fewer` and `others` are the same as in `warn_if_noisy`.
    """
    n_rows = likely_count(n_rows, plan.count_budget)
    plan = _plan_to_improve(plan, fewer)

    steps = [_fewer_quantiles(plan, n_rows, fewer), _a_delta(plan, n_rows)]
    steps += _more_knowledge(plan, n_rows)
    steps += [_Step(words, times, is_shown=False) for words, times in others.items()]
    worth_it = [step for step in steps if step and step.is_worth_a_word]
    worth_it.sort(key=lambda step: step.times_smaller, reverse=True)

    return listed([*map(str, worth_it), *_steps_without_estimate(plan)])


def possible_steps(plan, fewer=MappingProxyType({}), others=()):
    """Return the steps that are still possible for the request, in a fixed order."""
    plan = _plan_to_improve(plan, fewer)
    columns = plan.request.columns
    steps = []

    if any(_are_fewer(probabilities, plan) for probabilities in fewer.values()):
        steps.append(f"fewer {next(iter(fewer)).split()[-1]}")
    steps += others
    if _takes_a_delta(plan):
        steps.append(f"delta={USUAL_DELTA}")
    if not all(np.isfinite(column.bounds).all() for column in columns):
        steps.append("public bounds")
    if any(column.decimals is None for column in columns):
        steps.append("known decimals")
    if plan.request.mechanism.takes_priors and any(column.prior is None for column in columns):
        steps.append("public rows as prior")

    return steps + _steps_without_estimate(plan)


def _steps_without_estimate(plan):
    fewer_features = ["fewer features"] if len(plan.request.columns) > 1 else []
    unit = "eps" if plan.request.budget.rho is None else "rho"
    return [*fewer_features, f"a larger {unit}"]


def listed(steps):
    """Return the steps as a list in words: "a, b or c"."""
    *others, last = steps
    return f"{', '.join(others)} or {last}" if others else last


def _plan_to_improve(plan, fewer):
    """Return the plan that the steps are compared with.

    "auto" chooses as many bins as the rows allow, so its steps are compared with the fewest bins.
    """
    if fewer and plan.request.count is CountRole.CHOOSES:
        return _with_probabilities(plan, next(iter(fewer.values())))
    return plan


def _same_bins(words, plan, n_rows, *, other_plan=None, learn=None, note=""):
    """Return the step to another plan with the same bins, or to more public knowledge."""
    now = errors_in_bins(plan, n_rows).mean()
    then = errors_in_bins(plan if other_plan is None else other_plan, n_rows, learn).mean()
    return _Step(words, now / then, note=note)


def _more_knowledge(plan, n_rows):
    """Return the steps that spend no budget: stating more public facts."""

    def with_bounds(known):
        return replace(known, n_bounds=2)

    def with_decimals(known):
        return replace(known, is_lattice=True)

    def with_prior(known):
        has_prior = known.prior_deviation is not None
        return known if has_prior else replace(known, prior_deviation=DEVIATION_OF_PUBLIC_ROWS)

    steps = [
        _same_bins("public bounds", plan, n_rows, learn=with_bounds),
        _same_bins("known decimals", plan, n_rows, learn=with_decimals),
    ]
    if plan.request.mechanism.takes_priors:
        words = f"{PUBLIC_ROWS} public rows as prior"
        steps.append(_same_bins(words, plan, n_rows, learn=with_prior))
    return steps


def _fewer_quantiles(plan, n_rows, fewer):
    """Return the step to fewer quantiles: the most that are accurate enough, or else the fewest.

    Return None if the plan has the fewest quantiles.
    """
    plans = {
        words: _with_probabilities(plan, probabilities)
        for words, probabilities in fewer.items()
        if _are_fewer(probabilities, plan)
    }
    if not plans:
        return None

    enough = list(takewhile(lambda words: is_near_enough(plans[words], n_rows), plans))
    words = enough[-1] if enough else next(iter(plans))
    times_smaller = _error_of_rows(plan, n_rows) / _error_of_rows(plans[words], n_rows)
    return _Step(
        words,
        times_smaller / PRICE_OF_FEWER_BINS,
        is_shown=False,
        is_enough=bool(enough),
    )


def _are_fewer(probabilities, plan):
    """Return whether these quantiles make fewer bins than a column of the plan has."""
    return Column(probabilities).n_bins < most_bins(plan)


def _error_of_rows(plan, n_rows):
    """Return the mean error of the rank of a row, which does not depend on the number of bins."""
    return errors_of_rows(plan, errors_in_bins(plan, n_rows)).mean()


def _with_probabilities(plan, probabilities):
    columns = plan.map_columns(lambda column, _: replace(column, probabilities=probabilities))
    return plan_quantiles(replace(plan.request, columns=columns))


def _takes_a_delta(plan):
    """Return whether the fit could use a delta: it spends no delta, and eps is large enough."""
    budget = plan.request.budget
    is_pure = budget.rho is None and plan.loss.delta == 0
    return is_pure and float(USUAL_DELTA) < budget.eps / 1000


def _a_delta(plan, n_rows):
    """Return the step to a delta, or None if it is not possible."""
    if not _takes_a_delta(plan):
        return None

    request = plan.request
    budget = replace(request.budget, delta=float(USUAL_DELTA))
    with_delta = plan_quantiles(replace(request, budget=budget))
    return _same_bins(
        f"delta={USUAL_DELTA}",
        plan,
        n_rows,
        other_plan=with_delta,
        note=_note_of_ledgers(with_delta),
    )


def _note_of_ledgers(plan):
    """Return a text with the eps that a ledger without a delta counts for a plan with a delta."""
    counted = plan.loss.pure_eps
    if not plan.request.has_ledger or counted <= plan.loss.eps:
        return ""
    return f", but a ledger with delta=0 counts it as eps={counted:.2g}"
