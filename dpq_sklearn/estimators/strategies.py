"""The parameter `strategy` of bins: edges at private quantiles, of equal width, or both.

A strategy turns the number of bins and the public facts of a feature, `known` as (bounds, decimals,
prior), into a `Column` of a request.
"""

import math

import numpy as np

from dpq_sklearn.estimators import binning
from dpq_sklearn.releases.request import Column, even_probabilities

# The number of bins of equal width with ``n_bins="auto"``.
UNIFORM_BINS = 10
# Without bounds, the range of equal widths ends at these private quantiles. Further out, quantiles
# are too noisy: examples/benchmarks/private_models.py compares them.
RANGE = (0.15, 0.85)
# "auto" mixes quantiles and edges of equal width unless this number of quantile bins is good.
FEWEST_GOOD_BINS = 8
# The number of bins of a mix with ``n_bins="auto"``: 2 quantiles and 3 edges of equal width. It was
# chosen with two of the tables of docs/private_models.md in view. On the mean of other small
# tables, 7 bins were 0.005 AUC better.
MIXED_BINS = 6
# The factor by which "auto" reduces the loss of a model that is due to noise, if quantiles are
# mostly noise: the geometric mean of the measurements in docs/measured/strategies*.json.
TIMES_BETTER_WITH_AUTO = 1.2


def quantile_column(n_bins, known):
    """Return a column with private quantiles as edges."""
    return Column(even_probabilities(n_bins), *known)


def uniform_column(n_bins, known):
    """Return a column with bins of equal width. A private quantile replaces a missing bound."""
    bounds = known[0]
    ends = tuple(q for q, bound in zip(RANGE, bounds, strict=True) if not np.isfinite(bound))
    return Column(ends, *known, n_widths=n_bins)


def mixed_column(n_bins, known):
    """Return a column with edges of both kinds, half of each, if both of its bounds are known.

    Edges of equal width are exact, but a skewed column has most of its rows in one of these bins.
    Private quantiles divide this bin, even if they are rough.
    """
    if not has_two_bounds(known):
        return quantile_column(n_bins, known)

    n_quantiles = (n_bins - 1) // 2
    probabilities = even_probabilities(n_quantiles + 1)
    return Column(probabilities, *known, n_widths=n_bins - n_quantiles)


def has_two_bounds(known):
    """Return whether both bounds of a feature are public."""
    return bool(np.isfinite(known[0]).all())


def most_useful_bins(n_bins, known):
    """Return `n_bins`, or the number of points between bounds with decimals if it is smaller."""
    n_points = Column((0.5,), *known).n_points
    return n_bins if n_points is None else max(2, min(n_bins, n_points))


def edges_of_column(values, deviations, column):
    """Return the edges of all bins of a feature, and the deviation in rank of each inner edge.

    `values` has the private quantiles of the column, and `deviations` the standard deviations of
    their ranks. An edge of equal width has the deviation 0 between bounds. Between private
    quantiles, its deviation depends on the data and is NaN.
    """
    if column.n_widths == 1:
        return binning.edges_of_values(values, column.bounds, column.decimals), deviations

    range_of_widths, is_edge = _range_of_widths(values, column.bounds)
    widths = np.linspace(*range_of_widths, column.n_widths + 1)
    of_widths = np.full(column.n_widths - 1, np.nan if column.n_open_ends else 0.0)

    inner = np.concatenate((widths[1:-1], values[is_edge]))
    order = np.argsort(inner, kind="stable")
    apart = binning.with_equal_ones_apart(inner[order], column.bounds, column.decimals)
    edges = np.concatenate((widths[:1], apart, widths[-1:]))
    return edges, np.concatenate((of_widths, deviations[is_edge]))[order]


def _range_of_widths(values, bounds):
    """Return the two ends of the bins of equal width, and a mask of the values that are edges.

    The outermost values replace missing bounds, so they are not edges. If both ends are equal, the
    range becomes as wide as its distance from zero.
    """
    low, high = bounds
    is_edge = np.full(values.size, True)
    if not math.isfinite(low):
        low = values[0]
        is_edge[0] = False
    if not math.isfinite(high):
        high = values[-1]
        is_edge[-1] = False

    if high <= low:
        width = abs(low) or 1.0
        low, high = (low, low + width) if math.isinf(bounds[1]) else (high - width, high)
    return (float(low), float(high)), is_edge


def shares_below_edges(deviations):
    """Return the share of the rows below each inner edge of a feature, NaN for exact edges.

    `deviations` has the deviations that `edges_of_column` returns, for a column in which all
    quantiles are edges.
    """
    is_quantile = deviations != 0
    shares = np.full(deviations.shape, np.nan)
    shares[is_quantile] = even_probabilities(np.count_nonzero(is_quantile) + 1)
    return shares
