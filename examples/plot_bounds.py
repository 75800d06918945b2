"""
Do I need bounds?
=================

Most private libraries require the smallest and the largest value. Here ``bounds`` are optional. How
much do tight bounds help, and what do bounds cost that are far too wide? The answer depends on the
number of rows and on eps. The rank error is the number of rows between the private and the exact
quantile, as a share of all rows.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from dpq_sklearn import PrivacyNoiseWarning, dp_quantiles

# %%
# Create four kinds of columns, each with tight bounds and with bounds that are far too wide.
rng = np.random.default_rng(0)
columns = {
    "income": (lambda n: rng.lognormal(10.4, 0.7, n), (0, 1e6), (0, 1e9)),
    "temperature": (lambda n: rng.normal(12, 8, n), (-40, 60), (-300, 6_000)),
    "probability": (lambda n: rng.beta(2, 5, n), (0, 1), (0, 100)),
    "unix time": (lambda n: rng.uniform(1.6e9, 1.7e9, n), (1.6e9, 1.7e9), (0, 4e9)),
}
q, n_trials = np.array([0.2, 0.4, 0.6, 0.8]), 25
# The functions warn on few rows. The figure shows how large the errors are.
warnings.simplefilter("ignore", PrivacyNoiseWarning)


def rank_error(x, eps, bounds):
    """Return the mean over quantiles and trials, as a share of the rows, and its standard error."""
    ranks = [
        np.searchsorted(np.sort(x), dp_quantiles(x, q, eps=eps, bounds=bounds)) / x.size
        for _ in range(n_trials)
    ]
    error_of_trials = np.abs(ranks - q).mean(axis=1)
    return error_of_trials.mean(), error_of_trials.std(ddof=1) / np.sqrt(n_trials)


kinds = {
    "tight bounds": ("s", "#009E73", -0.2),
    "wide bounds": ("^", "#E69F00", 0.0),
    "no bounds": ("o", "#0072B2", 0.2),
}
errors = {}
for n_rows, eps in ((200, 0.2), (2_000, 1.0)):
    setting = f"{n_rows:,} rows, eps = {eps:g}"
    print(f"\n{setting}: mean rank error as a share of the rows")
    samples = [(draw(n_rows), (tight, wide, None)) for draw, tight, wide in columns.values()]
    errors[setting] = np.array(
        [[rank_error(x, eps, bounds) for bounds in choices] for x, choices in samples]
    )
    for name, row in zip(columns, errors[setting], strict=True):
        cells = [f"{kind} {mean:.4f}" for kind, (mean, _) in zip(kinds, row, strict=True)]
        print(f"{name:12} " + ",  ".join(cells))

# %%
# On the right, with many rows, bounds make no difference. On the left there are few rows and a
# small eps, as in a table of 200 rows with five features that share ``eps=1``. Tight bounds help
# there, so pass them if they are publicly known. They help most for values that lie close together
# and far from zero, such as times. Bounds that are far too wide help less, and for some columns
# they are worse than no bounds. Wrong bounds clip values. Bounds that are taken from the data are
# not private.
fig, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
places = np.arange(len(columns))
for ax, (setting, found) in zip(axes, errors.items(), strict=True):
    for index, (label, (marker, color, shift)) in enumerate(kinds.items()):
        mean, error = found[:, index].T
        style = {"fmt": marker, "color": color, "ms": 8, "capsize": 4}
        ax.errorbar(places + shift, mean, error, **style, label=label)
    ax.set_xticks(places, columns, rotation=25)
    ax.set(title=setting, ylim=(0, None))
    ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g}%")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("mean rank error, share of the rows")
fig.legend(*axes[0].get_legend_handles_labels(), frameon=False, ncols=3, loc="outside lower center")
plt.show()
