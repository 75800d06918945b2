"""
How close are private bins to exact ones?
=========================================

This example compares exact and private edges of five bins, with ``eps=1`` for all three features
together. The features are difficult: the first has a long tail, the second is zero for many rows,
the third has only a few different values. Private edges are short decimals on a public grid. If
many rows share one value, the edge is often exactly that value. It may also lie in the gap next to
the value, where it splits the rows in the same way.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpq_sklearn import DPKBinsDiscretizer

# %%
# Create a table of made-up people.
rng = np.random.default_rng(0)
n_rows, n_bins = 20_000, 5
columns = {
    "income, euros a year": rng.lognormal(10.4, 0.7, n_rows).round(2),
    "savings, euros (0 for 30% of rows)": (rng.random(n_rows) < 0.7) * rng.gamma(2, 5_000, n_rows),
    "work, hours a week": rng.choice([20.0, 30, 35, 38.5, 40, 40, 40, 45, 60], n_rows),
}
X = np.column_stack(list(columns.values()))

# %%
# Fit once, without bounds. Without ``random_state`` the noise comes from the operating system, so
# every run of this script looks a little different.
private = DPKBinsDiscretizer(n_bins=n_bins, eps=1.0, encode="ordinal").fit(X)
exact = np.quantile(X, np.arange(1, n_bins) / n_bins, axis=0).T
print(private.privacy_)
for name, edges, private_edges in zip(columns, exact, private.bin_edges_, strict=True):
    print(f"\n{name}\n  exact   {edges}\n  private {private_edges[1:-1]}")

# %%
# Draw both kinds of edges over a histogram of the made-up data. (Do not publish a histogram of
# private data.)
fig, axes = plt.subplots(3, 1, figsize=(6.4, 5.4), layout="constrained")
for ax, (name, column), edges, private_edges in zip(
    axes, columns.items(), exact, private.bin_edges_, strict=True
):
    top = np.quantile(column, 0.99)
    ax.hist(column[column <= top], bins=60, color="0.85")
    height = ax.get_ylim()[1]
    ax.vlines(edges, 0, height, color="black", linestyle="--", lw=1, label="exact edges")
    ax.plot(
        private_edges[1:-1], np.full(n_bins - 1, height), "v", color="#D55E00", ms=9, clip_on=False,
        label="private edges, eps = 1 for all features",
    )  # fmt: skip
    ax.set(xlabel=name, ylabel="rows", ylim=(0, height), xlim=(None, top))
    ax.locator_params(axis="x", nbins=6)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_title(f"Edges of {n_bins} bins, {n_rows:,} rows", pad=14)
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
plt.show()
