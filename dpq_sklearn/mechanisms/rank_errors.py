"""How the errors of draws add up along a tree of quantiles, and which draws deserve most budget.

Public facts only, and nothing that privacy rests on: `aq` works out what the draws cost.
"""

import math
from functools import lru_cache

import numpy as np


def is_early_leaf(node, n_levels):
    """Return whether a node is a leaf in the last level but one."""
    return node.is_leaf and node.depth == n_levels - 2


@lru_cache(maxsize=256)
def draw_pattern(nodes):
    """Return the eps of the levels in proportion, the least of them 1, and that of early leaves.

    All nodes of a level have one eps, but for *early leaves*: those in the last level but one. A
    record meets the last two levels or an early leaf, which gets the eps of both, squared and added
    up: the draws are a fork (`accounting.composition`). Without early leaves, their eps is 0.

    With the budget sum(eps^2), the variances sum(A / eps^2) of all quantiles are least where eps^4
    is proportional to A, what the level adds to all variances at eps = 1. So it is for the two
    levels of a fork among each other, and together they act like one level.
    """
    n_levels = nodes[-1].depth + 1
    shares = np.eye(n_levels + 1)  # the last one is that of early leaves
    own = [shares[-1 if is_early_leaf(node, n_levels) else node.depth] for node in nodes]
    *levels, early = sum(rank_variances(nodes, own))
    squares, instead = np.sqrt(levels), 0.0
    if early > 0:
        both = squares[-2:].sum()
        instead = np.sqrt(both**2 + early)
        squares[-2:] *= instead / both
    least = squares.min()
    return tuple(np.sqrt(squares / least).tolist()), math.sqrt(instead / least)


def rank_variances(nodes, own):
    """Return the variances of the ranks of all quantiles, if ``own[i]`` is 1 / eps^2 of node i.

    A node's own error is two-sided exponential, with variance 2 / eta^2 and
    eta = eps / (2 sensitivity). To it comes the error of its target: q of that of its upper end and
    1 - q of that of its lower end. So the variances of the two ends and their covariance are all
    that a node needs to know.
    """
    end = len(nodes) + 1
    variances, covariances = {0: 0.0, end: 0.0}, {(0, end): 0.0}
    for node, of_node in zip(nodes, own, strict=True):
        q, of_low, of_high = node.q, variances[node.below], variances[node.above]
        of_both = covariances[node.below, node.above]
        here = 8 * node.sensitivity**2 * of_node
        here = here + q**2 * of_high + (1 - q) ** 2 * of_low + 2 * q * (1 - q) * of_both
        variances[node.index] = here
        covariances[node.below, node.index] = q * of_both + (1 - q) * of_low
        covariances[node.index, node.above] = q * of_high + (1 - q) * of_both
    return [variances[index] for index in range(1, end)]
