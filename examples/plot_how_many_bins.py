"""
How many bins can I afford?
===========================

The error of a private edge is a number of rows that can be computed before any data are seen:
:func:`~dpq_sklearn.expected_rank_error`. It depends on the number of bins, the number of features
and eps. Whether it is too large depends on the number of rows in a bin.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from dpq_sklearn import PrivacyNoiseWarning, expected_rank_error, suggest_n_bins

# %%
# Compute the largest expected error of an edge, in rows. No data are needed.
numbers_of_bins = np.arange(2, 65)
settings = {
    "1 feature, eps = 1": {"eps": 1.0, "n_features": 1},
    "10 features, eps = 1": {"eps": 1.0, "n_features": 10},
    "10 features, eps = 1, delta = 1e-6": {"eps": 1.0, "delta": 1e-6, "n_features": 10},
    "10 features, eps = 0.1": {"eps": 0.1, "n_features": 10},
}
errors = {
    name: np.array([expected_rank_error(int(n), **setting).max() for n in numbers_of_bins])
    for name, setting in settings.items()
}

# %%
# :func:`~dpq_sklearn.suggest_n_bins` answers the question for a number of rows. It returns the
# largest of 2, 4, 8, ..., 64 bins, up to the cube root of the rows, for which edges are off by at
# most half a bin. ``n_bins="auto"`` follows the same rule. A result of 1, with a warning, means
# that the rows are too few even for 2 bins.
warnings.simplefilter("ignore", PrivacyNoiseWarning)  # the table shows the 1
numbers_of_rows = [1_000, 10_000, 100_000, 1_000_000]
print(f"{'rows':36}" + "".join(f"{n_rows:>11,}" for n_rows in numbers_of_rows))
for name, setting in settings.items():
    suggested = [suggest_n_bins(n_rows, **setting) for n_rows in numbers_of_rows]
    print(f"{name:36}" + "".join(f"{n_bins:>11}" for n_bins in suggested))

# %%
# The left panel shows the error in rows. It grows slowly with the number of bins. Ten features, or
# a tenth of the eps, multiply it by ten. The right panel shows the same error in bins, for 10,000
# rows. Choose a number of bins below the line at half a bin.
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 4.2), layout="constrained")
styles = [("-", "#0072B2"), ("--", "#D55E00"), ("-.", "#009E73"), (":", "#CC79A7")]
for (name, error), (style, color) in zip(errors.items(), styles, strict=True):
    left.plot(numbers_of_bins, error, style, color=color, lw=2, label=name)
    right.plot(numbers_of_bins, error * numbers_of_bins / 10_000, style, color=color, lw=2)
right.axhline(0.5, color="black", lw=1)
right.annotate("half a bin", (18, 0.5), (0, 3), textcoords="offset points", fontsize=10)
left.set(title="Error of the worst edge", ylabel="standard deviation of its rank, rows")
right.set(title="The same for 10,000 rows", ylabel="standard deviation of its rank, bins")
for ax in (left, right):
    ax.set(xlabel="number of bins", yscale="log", xticks=[2, 8, 16, 32, 64])
    ax.grid(axis="y", color="0.9")
    ax.spines[["top", "right"]].set_visible(False)
fig.legend(loc="outside lower center", ncols=2, frameon=False)
plt.show()
