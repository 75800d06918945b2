"""
Do I need bounds?
=================

Most private libraries ask for the least and the largest value. Here ``bounds`` may be left out:
the grid is then a fixed signed logarithm. What do bounds buy, and what do too wide ones cost? The
error is measured in ranks: how many rows lie between the private quantile and the exact one.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpq_sklearn import dp_quantiles

# %%
# Four kinds of made-up columns, each with bounds that fit tightly and bounds that somebody careful
# would give.
n_rows, n_trials, q = 2_000, 60, np.arange(1, 8) / 8
rng = np.random.default_rng(0)
columns = {
    "income": (rng.lognormal(10.4, 0.7, n_rows), (0, 1e6), (0, 1e9)),
    "temperature": (rng.normal(12, 8, n_rows), (-40, 60), (-300, 6_000)),
    "probability": (rng.beta(2, 5, n_rows), (0, 1), (0, 100)),
    "unix time": (rng.uniform(1.6e9, 1.7e9, n_rows), (1.6e9, 1.7e9), (0, 4e9)),
}


def mean_rank_error(x, bounds):
    """Return the mean over quantiles and trials, in rows, for eps = 1, and its standard error."""
    ranks = [
        np.searchsorted(np.sort(x), dp_quantiles(x, q, eps=1.0, bounds=bounds))
        for _ in range(n_trials)
    ]
    error_of_trials = np.abs(ranks - q * n_rows).mean(axis=1)
    return error_of_trials.mean(), error_of_trials.std(ddof=1) / np.sqrt(n_trials)


kinds = {
    "tight bounds": ("s", "#009E73", -0.2),
    "wide bounds": ("^", "#E69F00", 0.0),
    "no bounds": ("o", "#0072B2", 0.2),
}
errors = np.array(
    [[mean_rank_error(x, b) for b in (tight, wide, None)] for x, tight, wide in columns.values()]
)
for name, row in zip(columns, errors, strict=True):
    cells = [
        f"{kind} {mean:.2f} +- {error:.2f}" for kind, (mean, error) in zip(kinds, row, strict=True)
    ]
    print(f"{name:12} " + ",  ".join(cells))

# %%
# Bounds make little difference: after the first splits only the two outermost quantiles still see
# a huge domain. Wrong bounds are worse than none, since values outside are clipped, and bounds
# taken from the data would not be private.
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
places = np.arange(len(columns))
for index, (label, (marker, color, shift)) in enumerate(kinds.items()):
    mean, error = errors[:, index].T
    ax.errorbar(places + shift, mean, error, fmt=marker, color=color, ms=8, capsize=5, label=label)
ax.set_xticks(places, columns)
ax.set(
    ylabel="mean rank error, rows",
    ylim=(0, None),
    title=f"Seven quantiles of {n_rows:,} rows, eps = 1, {n_trials} trials; bars: standard error",
)
ax.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.1))
ax.spines[["top", "right"]].set_visible(False)
plt.show()
