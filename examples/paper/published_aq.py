"""The paper's AQ, written plainly, to be compared with: floats, a domain, data split at each node.

`published_aq` is what the authors' experiments run, `as_written_aq` is the algorithm as the paper
states it. Neither is safe to release: both return floats whose low-order bits depend on the data.
"""

import numpy as np


def published_aq(x_sorted, quantiles, low, high, eps, rng, rho=None):
    """Return the quantiles by the paper's AQ with score sensitivity max(q, 1 - q).

    Each of the log2(m) + 1 levels gets eps / (log2(m) + 1), or with `rho` (then `eps` is not used)
    sqrt(2 rho / (log2(m) + 1)). Ties are broken by a jitter of 1e-5.
    """
    return _aq(x_sorted, quantiles, low, high, eps, rng, rho, lambda q: max(q, 1 - q))


def as_written_aq(x_sorted, quantiles, low, high, eps, rng, rho=None):
    """Return the quantiles by the paper's AQ with score sensitivity 1."""
    return _aq(x_sorted, quantiles, low, high, eps, rng, rho, lambda q: 1.0)


def _aq(x_sorted, quantiles, low, high, eps, rng, rho, sensitivity):
    n_levels = np.log2(len(quantiles)) + 1
    eps_level = eps / n_levels if rho is None else np.sqrt(2 * rho / n_levels)
    jittered = x_sorted + rng.uniform(-1e-5, 1e-5, size=x_sorted.size)
    x_sorted = np.sort(np.clip(jittered, low, high))

    def estimates(x, low, high, quantiles):
        if len(quantiles) == 0:
            return []
        middle = (len(quantiles) - 1) // 2
        p = quantiles[middle]
        v = _one_quantile(x, p, low, high, eps_level / (2 * sensitivity(p)), rng)
        split = np.searchsorted(x, v)
        below, above = quantiles[:middle] / p, (quantiles[middle + 1 :] - p) / (1 - p)
        return [*estimates(x[:split], low, v, below), v, *estimates(x[split:], v, high, above)]

    return np.array(estimates(x_sorted, low, high, np.asarray(quantiles, dtype=float)))


def _one_quantile(x, q, low, high, eta, rng):
    """Draw a point with density proportional to exp(-eta |points below - q n|)."""
    ends = np.concatenate(([low], x, [high]))
    with np.errstate(divide="ignore"):  # an empty interval is never drawn
        log_weights = np.log(np.diff(ends)) - eta * np.abs(np.arange(x.size + 1) - q * x.size)
    interval = np.argmax(log_weights + rng.gumbel(size=x.size + 1))
    return rng.uniform(ends[interval], ends[interval + 1])
