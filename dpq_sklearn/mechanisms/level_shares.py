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


def rank_variances(nodes, own):
    """Return the variances of the ranks of all quantiles, if ``own[i]`` is 1 / eps^2 of node i.

    A node's own error is two-sided exponential, with variance 2 / eta^2 and
    eta = eps / (2 sensitivity). To it comes the error of its target: q of that of its upper end and
    1 - q of that of its lower end. So the variances of the two ends and their covariance are all
    that a node needs to know.
    """
    end = len(nodes) + 1
    variances = {0: 0.0, end: 0.0}
    covariances = {(0, end): 0.0}

    for node, own_of_node in zip(nodes, own, strict=True):
        q = node.q
        of_low = variances[node.below]
        of_high = variances[node.above]
        of_both = covariances[node.below, node.above]

        here = 8 * node.sensitivity**2 * own_of_node
        here = here + q**2 * of_high + (1 - q) ** 2 * of_low + 2 * q * (1 - q) * of_both
        variances[node.index] = here
        covariances[node.below, node.index] = q * of_both + (1 - q) * of_low
        covariances[node.index, node.above] = q * of_high + (1 - q) * of_both

    return [variances[index] for index in range(1, end)]
