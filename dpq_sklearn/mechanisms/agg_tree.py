"""AggTree: quantiles from a tree of noisy counts over the whole grid.

The grid is cut into `branching` equal parts, each of these again, and so on for `height` levels;
every part's count gets noise. The counts contradict each other until they are made consistent,
which also averages noise away; then a quantile is found by walking down from the root.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpq_sklearn.accounting import DRAW_ERROR, ROUNDING, draw_errors
from dpq_sklearn.mechanisms.noise import discrete_gaussian, discrete_laplace

# Less noise than this has outcomes so improbable that a float cannot hold their probability.
# A larger budget is not spent in full.
LARGEST_RATE = 512.0
LEAST_VARIANCE = 2.0**-10


@dataclass(frozen=True)
class AggregateTree:
    """The AggTree mechanism behind the seam that all mechanisms share."""

    height: int = 4
    branching: int = 16

    def release(self, ranks, quantiles, budget, randomness):
        """Return one cell for each of the ascending distinct `quantiles`, ascending.

        Privacy
        -------
        Neighbours differ in one record, which is counted once on each level: the counts of a
        level have sensitivity 1 in one coordinate. With pure eps the noise is discrete Laplace
        of rate a = eps / height, which costs a level a, or a^2 / 2 in zCDP (pure DP implies
        no better for noise that is no exponential mechanism). With rho the noise is discrete
        Gaussian of variance height / (2 rho), which costs a level rho / height (Canonne, Kamath,
        Steinke 2020, Theorem 4) at half the variance of Laplace. What follows the noise uses the
        noisy counts only.
        """
        counts = tree_counts(ranks, self.height, self.branching)
        noisy = [level + self._noise(level.size, budget, randomness) for level in counts]
        return walk_down(consistent(noisy, self.branching), quantiles, ranks.grid.n_cells)

    def _noise(self, n, budget, randomness):
        if budget.unit == "eps":
            return discrete_laplace(self._rate(budget), n, randomness)
        return discrete_gaussian(self._variance(budget), n, randomness)

    def _rate(self, budget):
        return min(budget.before_rounding(self.height).amount / self.height, LARGEST_RATE)

    def _variance(self, budget):
        ideal = budget.amount * (1 - ROUNDING) - gaussian_errors(self.height, budget.amount)
        if not ideal > budget.amount / 2:
            raise ValueError(
                f"rho must be larger: {budget.amount:.3g} a feature is too little to be guaranteed "
                "in floating point."
            )
        return max(self.height / (2 * ideal), LEAST_VARIANCE)

    def cost(self, quantiles, budget):
        """Return what `release` costs in eps and in rho; Gaussian noise has no finite eps."""
        if budget.unit == "rho":
            rho = self.height / (2 * self._variance(budget))
            rho += gaussian_errors(self.height, rho)
            return {"eps": math.inf, "rho": rho * (1 + ROUNDING / 2)}
        rate = self._rate(budget)
        ideal = {"eps": self.height * rate, "rho": self.height * rate**2 / 2}
        errors = draw_errors(self.height, ideal["rho"])
        return {unit: (ideal[unit] + errors[unit]) * (1 + ROUNDING / 2) for unit in ideal}

    def least_eps(self, quantiles, budget):
        """Return the rate of Laplace noise with (nearly) the variance of the noise of a count."""
        if budget.unit == "eps":
            return self._rate(budget)
        return math.sqrt(2 / self._variance(budget))


def gaussian_errors(n_draws, rho):
    """Return what errors of the probabilities of `n_draws` noises can add to their rho.

    With a relative error of k in all, k = n_draws * DRAW_ERROR, the divergence of order a grows by
    at most (2 + 1 / (a - 1)) k. It increases with a, so below a = 1 + t the value at 1 + t serves:
    rho t + (2 + 1 / t) k more than rho. The best t is sqrt(k / rho).
    """
    k = n_draws * DRAW_ERROR
    return 2 * math.sqrt(k * rho) + 2 * k


def tree_counts(ranks, height, branching):
    """Return the exact counts of each level, from the `branching` parts below the root down."""
    below = ranks.counts_below(leaf_edges(branching**height, ranks.grid.n_cells))
    levels = [np.diff(below)]
    for _ in range(height - 1):
        levels.insert(0, levels[0].reshape(-1, branching).sum(axis=1))
    return levels


def leaf_edges(n_leaves, n_cells):
    """Return the first cell of each leaf, and `n_cells`."""
    leaves = np.arange(n_leaves + 1)
    whole, rest = divmod(n_cells, n_leaves)
    return leaves * whole + leaves * rest // n_leaves


def consistent(noisy, branching):
    """Return the counts nearest to the noisy ones (least squares) in which children add up.

    Up the tree, each count is averaged with the sum of its children, weighted by their variances;
    down the tree, what a count then has more than its children is shared among them (Honaker
    2015; Hay, Rastogi, Miklau, Suciu 2010, Theorem 3). The root is not measured.
    """
    estimates = [level.astype(np.float64) for level in noisy]
    height = len(estimates)
    for level in range(height - 2, -1, -1):
        leaves = branching ** (height - level)
        own_share = (leaves - leaves // branching) / (leaves - 1)
        from_children = estimates[level + 1].reshape(-1, branching).sum(axis=1)
        estimates[level] = own_share * estimates[level] + (1 - own_share) * from_children
    for level in range(height - 1):
        from_children = estimates[level + 1].reshape(-1, branching).sum(axis=1)
        surplus = (estimates[level] - from_children) / branching
        estimates[level + 1] += np.repeat(surplus, branching)
    return estimates


def walk_down(levels, quantiles, n_cells):
    """Return the cell of each quantile: leaf by leaf from the left, linear inside the leaf.

    At each level the walk goes to the first child at which the counts so far reach the rank still
    wanted. That is monotone in the quantile, also where counts are negative.
    """
    branching = levels[0].size
    wanted = np.asarray(quantiles, dtype=np.float64) * max(levels[0].sum(), 0.0)
    node = np.zeros(wanted.size, dtype=np.int64)
    for level in levels:
        counts = level.reshape(-1, branching)[node]
        reached = np.cumsum(counts, axis=1)
        wanted = np.minimum(wanted, reached.max(axis=1))  # consistent, but for rounding
        child = np.argmax(reached >= wanted[:, None], axis=1)
        count = np.take_along_axis(counts, child[:, None], axis=1)[:, 0]
        wanted = wanted - np.take_along_axis(reached, child[:, None], axis=1)[:, 0] + count
        node = node * branching + child
    share = np.clip(np.divide(wanted, count, out=np.full(wanted.size, 0.5), where=count > 0), 0, 1)
    edges = leaf_edges(levels[-1].size, n_cells)
    starts, widths = edges[node], edges[node + 1] - edges[node]
    inside = np.minimum((share * widths).astype(np.int64), np.maximum(widths - 1, 0))
    return np.maximum.accumulate(np.minimum(starts + inside, n_cells - 1))
