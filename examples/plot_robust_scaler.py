"""
How do I scale features for a private model?
============================================

Many private models require a public bound on the norm of a row. ``StandardScaler`` cannot provide
it, because its means and deviations are exact and reveal a single outlier. ``DPRobustScaler`` uses
private medians and ranges, and ``clip`` bounds the scaled values whatever the data are.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import RobustScaler, StandardScaler

from dpq_sklearn import DPRobustScaler

# %%
# Create a table of 5,000 people. One row contains an error: an income of a billion.
rng = np.random.default_rng(0)
names = ["age", "income", "visits"]
X = np.column_stack(
    (
        rng.normal(45, 15, 5_000).round(),
        rng.lognormal(10, 0.6, 5_000),
        rng.poisson(4, 5_000),
    )
)
X[0, 1] = 1e9

# %%
# Fit three scalers, and print the medians and ranges that the private scaler has released.
scalers = {
    "StandardScaler": StandardScaler().fit(X),
    "RobustScaler": RobustScaler().fit(X),
    "DPRobustScaler, eps = 1": DPRobustScaler(eps=1.0, clip=2.0).fit(X),
}
exact, private = scalers["RobustScaler"], scalers["DPRobustScaler, eps = 1"]
print("           median: exact  private    range: exact  private")
for j, name in enumerate(names):
    print(
        f"{name:8}{exact.center_[j]:16,.0f}{private.center_[j]:9,.0f}"
        f"{exact.scale_[j]:16,.0f}{private.scale_[j]:9,.0f}"
    )

norms = np.linalg.norm(private.transform(X), axis=1)
print(f"largest norm of a row: {norms.max():.2f}, bound: {2 * np.sqrt(3):.2f}")

# %%
# The outlier makes the incomes that ``StandardScaler`` returns nearly equal. The private scale is
# close to the exact robust one, and no value leaves the range from -2 to 2. A box
# reaches from the first to the third quartile; outliers are not drawn.
fig, axes = plt.subplots(1, 3, figsize=(9, 3.6), sharey=True, layout="constrained")
for ax, (title, scaler) in zip(axes, scalers.items(), strict=True):
    ax.boxplot(scaler.transform(X), tick_labels=names, showfliers=False)
    ax.axhspan(-2, 2, color="0.93", zorder=0)
    ax.set_title(title, fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("scaled value")
plt.show()
