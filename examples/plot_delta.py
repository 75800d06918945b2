"""
What does delta buy?
====================

With ``delta=0`` the features share ``eps``, and each of d features gets ``eps / d``. With a small
``delta`` costs add up more slowly, and each feature gets about ``eps / sqrt(d)``. A delta therefore
helps little with one feature and much with many. A fit computes both compositions and uses the
better one.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpq_sklearn import DPKBinsDiscretizer

# %%
# Compute the mean rank error of eight bins, over all edges of all features.
n_rows, n_bins = 20_000, 8
numbers_of_features = [1, 2, 4, 8, 16, 32, 64, 128]
rng = np.random.default_rng(0)
X = rng.normal(size=(n_rows, numbers_of_features[-1]))
X_sorted = np.sort(X, axis=0)
wanted = np.arange(1, n_bins) / n_bins * n_rows


spent = {}  # the delta that the fits with so many features have spent


def mean_rank_error(n_features, delta):
    binner = DPKBinsDiscretizer(n_bins, eps=1.0, delta=delta).fit(X[:, :n_features])
    spent[n_features, delta] = binner.privacy_.delta
    pairs = zip(X_sorted.T, binner.bin_edges_, strict=False)
    ranks = [np.searchsorted(column, edges[1:-1]) for column, edges in pairs]
    return np.abs(ranks - wanted).mean()


# Few features have few edges to average over: fit these more often.
errors = {
    delta: [
        np.mean([mean_rank_error(n, delta) for _ in range(max(1, 32 // n))])
        for n in numbers_of_features
    ]
    for delta in (0.0, 1e-6)
}
print("features  " + "".join(f"{n:>8}" for n in numbers_of_features))
for delta, row in errors.items():
    print(f"delta={delta:<5g}" + "".join(f"{error:8.1f}" for error in row) + "  rows")
for n in numbers_of_features:
    print(f"{n:3} features, delta=1e-6 asked for: spent delta={spent[n, 1e-6]:g}")

# %%
# For one feature the sum of eps is the better composition, so no delta is spent. With more features
# the delta is spent, and its advantage grows with their number.
fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
ax.plot(numbers_of_features, errors[0.0], "s--", color="#D55E00", label="eps = 1")
ax.plot(numbers_of_features, errors[1e-6], "o-", color="#0072B2", label="eps = 1, delta = 1e-6")
ax.set_xscale("log", base=2)
ax.set_yscale("log")
ax.set_xticks(numbers_of_features, numbers_of_features)
ax.set(
    xlabel="number of features",
    ylabel="mean rank error, rows",
    title=f"Edges of {n_bins} bins, {n_rows:,} rows, eps for the whole fit",
)
ax.legend(frameon=False)
ax.grid(axis="y", color="0.9")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
