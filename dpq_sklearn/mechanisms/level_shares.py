"""How the errors of draws add up along a tree of quantiles, and which draws deserve most budget.

Public facts only, and nothing that privacy rests on: `aq` scales what it gets here to the budget.
"""

from functools import lru_cache

import numpy as np

# The first draw has to find the data, which variances do not know. On tables of few rows so much
# more lowers errors by up to a tenth; where data are plenty, it costs less than a hundredth.
MORE_FOR_THE_ROOT = 1.2


@lru_cache(maxsize=256)  # features mostly have equal quantiles
def level_pattern(nodes, norm):
    """Return the eps of levels in proportion, the least of them 1, and that of early leaves.

    A budget limits the `norm` of the eps that a record meets: their sum, or the sum of squares.
    With A what a level adds to the variances of all quantiles at eps = 1, the sum of all A / eps^2
    is least where eps^(norm + 2) is proportional to A. An early leaf spends what the last two
    levels do together. So these and the early leaves count as one level, whose share they divide.
    """
    shares = np.eye(nodes[-1].depth + 2)  # the last one is that of early leaves
    own = [shares[-1 if node.is_early else node.depth] for node in nodes]
    *levels, early = sum(rank_variances(nodes, own))

    # What levels and early leaves spend: eps to the power `norm`.
    power = norm / (norm + 2)
    spent = np.array(levels) ** power
    spent_early = 0.0
    if early > 0:
        both = spent[-2:].sum()
        spent_early = (both ** (1 / power) + early) ** power
        spent[-2:] *= spent_early / both
    spent[0] *= MORE_FOR_THE_ROOT

    least = spent.min()
    return (spent / least) ** (1 / norm), (spent_early / least) ** (1 / norm)


def expected_deviation(nodes, norm):
    """Return the mean standard deviation of all ranks, if levels share an eps or norm of 1."""
    levels, early = level_pattern(nodes, norm)
    total = np.linalg.norm(levels, norm)
    eps = [(early if node.is_early else levels[node.depth]) / total for node in nodes]
    return float(np.sqrt(rank_variances(nodes, [1 / of_node**2 for of_node in eps])).mean())


def rank_variances(nodes, own):
    """Return the variances of the ranks of all quantiles, if ``own[i]`` is 1 / eps^2 of node i.

    A draw has errors of its own (`own_covariances`). To each comes the error of its target: q of
    that of the node's upper end and 1 - q of that of its lower end. So the variances of the two
    ends and their covariance are all that a node needs to know.
    """
    end = 1 + max(node.indices[-1] for node in nodes)
    covariances = {(0, 0): 0.0, (0, end): 0.0, (end, end): 0.0}

    for node, own_of_node in zip(nodes, own, strict=True):
        of_low = covariances[node.below, node.below]
        of_high = covariances[node.above, node.above]
        of_both = covariances[node.below, node.above]

        known = (node.below, *node.indices, node.above)
        q = (0.0, *node.q, 1.0)
        for (i, j), of_draw in own_covariances(node.q).items():
            inherited = (1 - q[i]) * (1 - q[j]) * of_low + q[i] * q[j] * of_high
            inherited = inherited + (q[i] * (1 - q[j]) + (1 - q[i]) * q[j]) * of_both
            covariances[known[i], known[j]] = inherited + of_draw * own_of_node

    return [covariances[index, index] for index in range(1, end)]


@lru_cache(maxsize=4096)
def own_covariances(q):
    """Return the covariances of the errors in rank of one draw with eps = 1.

    Keys are numbers of what is known after the draw: 0 is the lower end of the node, which has no
    error of the draw, then come its one or two quantiles, then the upper end. What no child needs
    is left out.

    The density of all errors at once is proportional to exp(-D / 2), with their distance D
    (`engine.pairs`). One error is two-sided exponential. Of two, D has a gamma distribution with a
    mean square of 48, and the errors are spread evenly over the polygon of all with the same D.
    """
    if len(q) == 1:
        return {(0, 1): 0.0, (1, 1): 8 * max(q[0], 1 - q[0]) ** 2, (1, 2): 0.0}

    lower, both, upper = 48 * _moments_of_polygon(*q)
    return {(0, 1): 0.0, (1, 1): lower, (1, 2): both, (2, 2): upper, (2, 3): 0.0}


def _moments_of_polygon(q1, q2):
    """Return the means of a^2, a b and b^2 over all errors a and b with a distance of at most 1.

    The corners of this polygon are what a record more or less in one of the three parts makes of
    no error; but if a part has more than half, its records do not reach the border.
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
