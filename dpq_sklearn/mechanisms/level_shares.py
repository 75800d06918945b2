"""How the errors of draws add up in a tree of quantiles, and how levels should share the budget.

The functions use public facts only. The privacy guarantee does not depend on them, because `aq`
scales the pattern of the levels to the budget.
"""

from functools import lru_cache

import numpy as np

# The first draw has to find the data, which the variances do not show. On small tables this factor
# lowers the errors by up to a tenth. On large tables it raises them by less than a hundredth.
MORE_FOR_THE_ROOT = 1.2


@lru_cache(maxsize=256)  # features mostly have equal quantiles
def level_pattern(nodes, norm):
    """Return the relative eps of all levels, of which the least is 1, and of early leaves, or 0.

    A budget limits the `norm` of the eps that a record meets: their sum, or the root of the sum of
    their squares. If a level adds A / eps^2 to the variances of the quantiles, the sum over all
    levels is least if eps^(norm + 2) is proportional to A. An early leaf may spend as much as the
    last two levels together, so these two levels and the early leaves get the budget of one level.
    """
    variances, early_variance = _variances_by_level(nodes)

    # The spending of a level is eps to the power `norm`.
    power = norm / (norm + 2)
    spending = variances**power
    early_spending = 0.0
    if early_variance > 0:
        last_two = spending[-2:].sum()
        early_spending = (last_two ** (1 / power) + early_variance) ** power
        spending[-2:] *= early_spending / last_two
    spending[0] *= MORE_FOR_THE_ROOT

    least = spending.min()
    return (spending / least) ** (1 / norm), (early_spending / least) ** (1 / norm)


def _variances_by_level(nodes):
    """Return the variances of all ranks at eps = 1 that come from each level and from early leaves.

    The ranks have variances that are linear in the variances of the draws. So each draw gets a unit
    vector as its variance, and the entries of the result belong to the levels.
    """
    *unit_of_level, unit_of_early = np.eye(nodes[-1].depth + 2)
    own = [unit_of_early if node.is_early else unit_of_level[node.depth] for node in nodes]
    *variances, early_variance = sum(rank_variances(nodes, own))
    return np.array(variances), early_variance


def expected_deviation(nodes, norm):
    """Return the mean standard deviation of all ranks for a total eps with a norm of 1."""
    levels, early = level_pattern(nodes, norm)
    total = np.linalg.norm(levels, norm)
    eps_of_nodes = [(early if node.is_early else levels[node.depth]) / total for node in nodes]
    return float(np.sqrt(rank_variances(nodes, [1 / eps**2 for eps in eps_of_nodes])).mean())


def rank_variances(nodes, own):
    """Return the variances of the ranks of all quantiles, if ``own[i]`` is 1 / eps^2 of node i.

    The error of a quantile is the error of its draw (`own_covariances`) plus the error of its
    target, which is q times the error of the node's upper end plus 1 - q times the error of its
    lower end. So a node needs the variances and the covariance of its two ends.
    """
    end = 1 + max(node.indices[-1] for node in nodes)
    covariances = {(0, 0): 0.0, (0, end): 0.0, (end, end): 0.0}

    for node, own_of_node in zip(nodes, own, strict=True):
        low = covariances[node.below, node.below]
        high = covariances[node.above, node.above]
        both = covariances[node.below, node.above]

        known = (node.below, *node.indices, node.above)
        q = (0.0, *node.q, 1.0)
        for (i, j), covariance in own_covariances(node.q).items():
            inherited = (1 - q[i]) * (1 - q[j]) * low + q[i] * q[j] * high
            inherited = inherited + (q[i] * (1 - q[j]) + (1 - q[i]) * q[j]) * both
            covariances[known[i], known[j]] = inherited + covariance * own_of_node

    return [covariances[index, index] for index in range(1, end)]


@lru_cache(maxsize=4096)
def own_covariances(q):
    """Return the covariances of the errors in rank of one draw with eps = 1.

    The keys are pairs of indices into (lower end, one or two quantiles, upper end). The draw adds
    no error to the ends. Pairs that no child node needs are left out.

    The joint density of the errors is proportional to exp(-D / 2) with the distance D
    (`engine.pairs`). A single error has a two-sided exponential distribution. For two errors D has
    a gamma distribution with a mean square of 48, and the errors are uniform on the polygon of
    equal D.
    """
    if len(q) == 1:
        return {(0, 1): 0.0, (1, 1): 8 * max(q[0], 1 - q[0]) ** 2, (1, 2): 0.0}

    lower, both, upper = 48 * _moments_of_polygon(*q)
    return {(0, 1): 0.0, (1, 1): lower, (1, 2): both, (2, 2): upper, (2, 3): 0.0}


def _moments_of_polygon(q1, q2):
    """Return the means of a^2, a b and b^2 over all errors a and b with a distance of at most 1.

    A corner of this polygon is the pair of errors that one record more, or less, in one of the
    three ranges causes. A range with more than half of the weight has no corner.
    """
    reaches_border = np.array((q1, q2 - q1, 1 - q2)) <= 0.5
    corners = np.array([(1 - q1, 1 - q2), (-q1, 1 - q2), (-q1, -q2)])[reaches_border]
    corners = np.concatenate((corners, -corners))
    corners = corners[np.argsort(np.arctan2(*corners.T))]

    # Over a triangle with corners 0, v and w, x y has the mean (v + w) (v + w) + v v + w w over 12.
    following = np.roll(corners, -1, axis=0)
    areas = np.abs(np.linalg.det(np.stack((corners, following), axis=1)))
    means = [
        np.einsum("ti,tj->tij", sides, sides) for sides in (corners + following, corners, following)
    ]
    moments = np.average(sum(means), axis=0, weights=areas) / 12
    return moments[[0, 0, 1], [0, 1, 1]]
