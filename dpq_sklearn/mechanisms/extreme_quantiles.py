"""AQ for extreme quantiles: the trees draw quantiles that indicate the scale before the tails.

An extreme quantile lies far beyond most of the data. The base measure can estimate how far only if
two other quantiles indicate the scale. So the trees are walked inside out. A request for an extreme
quantile also draws a median and a quartile, unless it includes similar quantiles. These helper
quantiles are not released.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpq_sklearn.mechanisms.aq import LEAST_GAIN_OF_PAIRS, ApproximateQuantiles, best_tree

# A quantile is extreme if less than this share of the records lies beyond it.
EXTREME_TAIL = 0.125
# A quantile in this range can replace the median.
CENTRE = (0.4, 0.6)
# The two quantiles of a pair indicate each other's scale, which errors in rank do not show. So
# trees of few quantiles have pairs even if these lower the expected error by little.
LEAST_GAIN_IN_TAILS = 0.02
MOST_IN_SHORT_TREES = 15


class DrawnQuantiles(NamedTuple):
    """The quantiles that are drawn for a request."""

    probabilities: tuple[float, ...]  # ascending, including helpers
    requested: np.ndarray  # the indices of the requested probabilities


class TailAwareQuantiles(ApproximateQuantiles):
    """The AQ mechanism with helper quantiles and trees that are walked inside out.

    The methods of `Mechanism` take the requested probabilities. Methods that only AQ has take the
    probabilities of all drawn quantiles.
    """

    def nodes(self, probabilities, norm):
        """Return the nodes of a column, level by level: the tree with the least expected error."""
        probabilities = tuple(map(float, probabilities))
        has_tail = is_extreme(probabilities[0]) or is_extreme(probabilities[-1])
        is_tail_aware = has_tail and len(probabilities) <= MOST_IN_SHORT_TREES
        least_gain = LEAST_GAIN_IN_TAILS if is_tail_aware else LEAST_GAIN_OF_PAIRS
        return best_tree(probabilities, norm, inside_out, least_gain)

    def draw(self, ranks, probabilities, budgets, randomness, priors=None):
        """Return the cells of the requested quantiles.

        Privacy
        -------
        The guarantee is that of `ApproximateQuantiles.draw` for all drawn quantiles, and `cost`
        includes the helpers. Dropping the helpers is post-processing.
        """
        drawn = [_drawn(requested) for requested in probabilities]
        all_cells = super().draw(
            ranks, [column.probabilities for column in drawn], budgets, randomness, priors
        )
        return [cells[column.requested] for cells, column in zip(all_cells, drawn, strict=True)]

    def cost(self, probabilities, budget):
        return super().cost(_drawn(probabilities).probabilities, budget)

    def events(self, probabilities, budget):
        return super().events(_drawn(probabilities).probabilities, budget)

    def composed_budgets(self, probabilities, shares, eps, delta, count_eps=0.0):
        drawn = [_drawn(requested).probabilities for requested in probabilities]
        return super().composed_budgets(drawn, shares, eps, delta, count_eps)

    def rank_deviations(self, probabilities, budget):
        drawn, requested = _drawn(probabilities)
        return np.asarray(super().rank_deviations(drawn, budget))[requested]


def _drawn(probabilities):
    return with_helpers(tuple(map(float, probabilities)))


@lru_cache(maxsize=1024)  # most features have the same quantiles
def with_helpers(probabilities):
    """Return the `DrawnQuantiles` for `probabilities`, an ascending tuple of floats."""
    inner = [probability for probability in probabilities if not is_extreme(probability)]
    has_lower_tail = probabilities[0] < EXTREME_TAIL
    has_upper_tail = probabilities[-1] > 1 - EXTREME_TAIL

    helpers = []
    if has_lower_tail and not any(probability < CENTRE[0] for probability in inner):
        helpers.append(0.25)
    if (has_lower_tail or has_upper_tail) and not any(map(_is_central, inner)):
        helpers.append(0.5)
    if has_upper_tail and not any(probability > CENTRE[1] for probability in inner):
        helpers.append(0.75)

    drawn = sorted({*probabilities, *helpers})
    return DrawnQuantiles(tuple(drawn), np.searchsorted(drawn, probabilities))


def inside_out(indices, below, above, known):
    """Return the quantiles that a node without a scale draws, so that tails have a scale.

    The arguments are those of ``drawn_first`` in `quantile_nodes`; `indices` are the choice of a
    balanced tree. If this choice leaves an extreme quantile without a scale, the first draw of a
    column is the quantile next to the median. The next draw on each side is a pair: an extreme
    quantile, and a quantile about half way by rank from the median to the end. The quantiles of a
    pair indicate each other's scale.

    Both tails are treated alike: a first pair that leaves one quantile more below than above moves
    its lower quantile down.
    """
    is_root = below == 0 and above == len(known) - 1
    has_both_tails = is_extreme(known[1]) and is_extreme(known[-2])
    if is_root and has_both_tails and len(indices) == 2 and sum(indices) == above + 1:
        indices = indices[0] - 1, indices[1]

    if _indicate_a_scale(indices, below, above, known):
        return indices

    left = range(below + 1, above)
    if is_root:
        return (min(left, key=lambda index: abs(known[index] - 0.5)),)

    tail_of_end = known[above] if below == 0 else 1 - known[below]
    inner = min(left, key=lambda index: abs(tail_of(known[index]) - tail_of_end / 2))
    outer = min(indices, key=lambda index: tail_of(known[index]))
    if is_extreme(known[inner]):
        return indices
    return min(inner, outer), max(inner, outer)


def _indicate_a_scale(indices, below, above, known):
    """Return whether these draws include no extreme quantile, and leave none without a scale.

    After a single first draw, each side of the column needs a quantile that is not extreme.
    """
    if any(is_extreme(known[index]) for index in indices):
        return False
    if len(indices) == 2 or below > 0 or above < len(known) - 1:
        return True

    (root,) = indices
    sides = known[1:root], known[root + 1 : -1]
    return not any(side and all(map(is_extreme, side)) for side in sides)


def tail_of(probability):
    """Return the share of the records beyond a quantile, on its side of the median."""
    return min(probability, 1 - probability)


def is_extreme(probability):
    """Return whether few records lie beyond a quantile."""
    return tail_of(probability) < EXTREME_TAIL


def _is_central(probability):
    return CENTRE[0] <= probability <= CENTRE[1]
