"""
Private bins in a minute
========================

How far are private bin edges from exact edges, and what do they cost? This script needs only the
package itself.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer

from dpq_sklearn import DPKBinsDiscretizer

# %%
# Create made-up people with an age, an income with a long tail, and hours per week with many ties.
rng = np.random.default_rng(0)
n_rows = 20_000
X = np.column_stack(
    (
        np.clip(np.round(rng.gamma(9, 4.6, n_rows)), 17, 95),
        np.round(rng.lognormal(10.4, 0.7, n_rows), 2),
        rng.choice([20.0, 38.5, 40.0, 40.0, 45.0, 50.0, 60.0], n_rows),
    )
)
y = (X[:, 1] * (0.5 + X[:, 0] / 80) + rng.normal(0, 8_000, n_rows) > 32_000).astype(int)
names = ["age", "income", "hours"]

# %%
# Fit once, without bounds. "Rows off" is the largest error of an edge: the number of rows between
# the private edge and the exact quantile. It is 0 if the edge lies on a value that many rows at the
# quantile share, as with the hours.
private = DPKBinsDiscretizer(n_bins=4, eps=1.0, encode="ordinal").fit(X)
exact = [np.quantile(column, [0.25, 0.5, 0.75]) for column in X.T]

print(f"{'':8}  {'exact edges':>34}   {'private edges':>34}   rows off")
for name, column, edges, private_edges in zip(names, X.T, exact, private.bin_edges_, strict=True):
    inner = private_edges[1:-1]
    ranks = np.array([[np.mean(column < e), np.mean(column <= e)] for e in inner])
    wanted = np.array([0.25, 0.5, 0.75])
    off = np.maximum(np.maximum(ranks[:, 0] - wanted, wanted - ranks[:, 1]), 0).max() * n_rows
    cells = [" ".join(f"{edge:11,.2f}" for edge in numbers) for numbers in (edges, inner)]
    print(f"{name:8}  {cells[0]:>34}   {cells[1]:>34}   {off:8.0f}")
print(f"rows off: rows between a private edge and the exact quantile, of {n_rows:,}")
print(f"cost of the fit, for all features and edges: eps = {private.privacy_.eps}")

# %%
# Train a classifier on exact bins, and the same classifier on private bins.
for discretizer in (
    KBinsDiscretizer(4, encode="onehot", strategy="quantile", subsample=None),
    DPKBinsDiscretizer(n_bins=4, eps=1.0),
):
    if "quantile_method" in discretizer.get_params():
        discretizer.set_params(quantile_method="averaged_inverted_cdf")
    pipeline = make_pipeline(discretizer, LogisticRegression(max_iter=1000))
    pipeline.fit(X[::2], y[::2])
    score = pipeline.score(X[1::2], y[1::2])
    print(f"{type(discretizer).__name__:20} accuracy on new rows: {score:.3f}")
