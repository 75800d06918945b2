"""Priors: where the quantiles of a column are likely to be, from public numbers or a release.

The base measure may be any function of public facts (`base_measure`), so a prior costs no budget
and can only change the accuracy of a release. Each node gives most of the prior's share to the
values around the quantile that it draws (Khodak, Amin, Dick, Vassilvitskii 2023).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

# More public numbers than this are replaced by as many of their quantiles.
_MOST_KNOTS = 257
# The assumed difference between the rank of a quantile in the prior and in the data, for all
# priors, and the additional deviation of an earlier release, which has unknown noise.
_DRIFT = 0.01
_DEVIATION_OF_A_RELEASE = 0.06
# The ends of rings around a quantile, in multiples of the spread of its rank, and the weight within
# each end. Half of the weight is very near, and the tails are heavy.
_RING_ENDS = np.array([0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
_WITHIN = _RING_ENDS / (_RING_ENDS + 0.3)


@dataclass(frozen=True)
class Prior:
    """The ascending quantiles of a column according to a prior."""

    probabilities: tuple
    values: tuple
    deviation: float  # of the rank of the median as a share, which is 0.5 / sqrt(n) for n rows

    @classmethod
    def of_numbers(cls, numbers):
        """Return the prior of public float64 numbers, or None if no number is finite."""
        finite = np.sort(numbers[np.isfinite(numbers)])
        if finite.size == 0:
            return None

        n_knots = min(finite.size, _MOST_KNOTS)
        probabilities = (np.arange(n_knots) + 0.5) / n_knots
        values = finite[(probabilities * finite.size).astype(np.int64)]
        deviation = 0.5 / np.sqrt(finite.size)
        return cls(tuple(probabilities.tolist()), tuple(values.tolist()), float(deviation))

    @classmethod
    def of_release(cls, probabilities, values):
        """Return the prior of released quantiles, extrapolated linearly to both sides."""
        probabilities = np.asarray(probabilities, dtype=np.float64)
        values = np.asarray(values, dtype=np.float64)

        if values.size == 1:
            slopes = np.abs(values[[0, 0]]) + 1.0
        else:
            slopes = (np.diff(values) / np.diff(probabilities))[[0, -1]]
        first = values[0] - slopes[0] * probabilities[0]
        last = values[-1] + slopes[1] * (1 - probabilities[-1])
        ends = np.nan_to_num((first, last))
        return cls(
            (0.0, *probabilities.tolist(), 1.0),
            (float(ends[0]), *values.tolist(), float(ends[1])),
            _DEVIATION_OF_A_RELEASE,
        )


@dataclass(frozen=True)
class Guesses:
    """Rings of values around the quantile that each node draws, from the priors of columns.

    Ring j reaches from ``values[:, j]`` to ``values[:, j + 1]`` and includes both ends. If a prior
    has many equal numbers, a ring may be a single value.
    """

    values: np.ndarray  # (n_nodes, n_rings + 1), ascending
    weights: np.ndarray  # (n_nodes, n_rings), 0 in a node without prior


def guesses_of_nodes(priors, columns, probabilities):
    """Return the `Guesses` of nodes that draw these quantiles, or None if no column has a prior.

    ``priors[column]`` is a `Prior` or None.
    """
    if priors is None or not any(priors):
        return None
    pairs = zip(columns.tolist(), probabilities.tolist(), strict=True)
    rings = [_rings_of_probability(priors[column], probability) for column, probability in pairs]
    return Guesses(
        values=np.array([values for values, _ in rings]),
        weights=np.array([weights for _, weights in rings]),
    )


def spread_of_rank(probability, deviation):
    """Return the spread of the rank of a quantile, given the deviation of the rank of the median.

    As in a sample, the spread is smaller near 0 and 1.
    """
    return 2 * np.sqrt(probability * (1 - probability)) * deviation + _DRIFT


@lru_cache(maxsize=4096)
def _rings_of_probability(prior, probability):
    """Return the ends of the rings around a quantile of a prior, and their weights."""
    weights = np.diff(_WITHIN)
    weights = np.append(weights[::-1], weights)
    if prior is None:
        return np.zeros(weights.size + 1), np.zeros(weights.size)

    spread = spread_of_rank(probability, prior.deviation)
    ranks = probability + spread * np.append(-_RING_ENDS[:0:-1], _RING_ENDS)
    inside = np.clip(ranks, 0.0, 1.0)

    values = np.interp(inside, prior.probabilities, prior.values)
    return values, weights * np.diff(inside) / np.diff(ranks)
