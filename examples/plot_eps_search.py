"""
How much eps does a pipeline need?
==================================

``eps`` is a parameter of the transformer, so ``GridSearchCV`` can vary it. The dashed line is the
same pipeline with exact bins, which is not private.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import KBinsDiscretizer

from dpq_sklearn import DPKBinsDiscretizer, PrivacyNoiseWarning, plan_search

# %%
# Create six skewed features. The label depends on ranges of values, so a linear model needs bins.
rng = np.random.default_rng(0)
X = rng.lognormal(3, 1, size=(5_000, 6))
signal = np.abs(np.log(X[:, 0]) - 3) + 0.7 * np.abs(np.log(X[:, 1]) - 3.5)
y = (signal + 0.4 * rng.normal(size=5_000) > 1.3).astype(int)

# %%
# The search runs on made-up data that resemble the private data, which costs nothing. On the
# private rows it would cost the eps that the plan prints, so choose eps on public or made-up data.
# The smallest values of eps are too small on purpose, and their fits warn.
pipeline = Pipeline(
    [("dpq", DPKBinsDiscretizer(n_bins=8)), ("clf", LogisticRegression(max_iter=1000))]
)
values = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0]
search = GridSearchCV(pipeline, {"dpq__eps": values}, cv=5, refit=False)
print("on private rows this would be", plan_search(search, n_features=6))
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyNoiseWarning)
    search.fit(X, y)

# %%
# Fit the same pipeline with exact bins.
exact_bins = KBinsDiscretizer(8, strategy="quantile", subsample=None)
if "quantile_method" in exact_bins.get_params():
    exact_bins.set_params(quantile_method="averaged_inverted_cdf")
exact_pipeline = Pipeline([("bins", exact_bins), ("clf", LogisticRegression(max_iter=1000))])
exact = cross_val_score(exact_pipeline, X, y, cv=5).mean()

# %%
# With 4,000 training rows and an eps of about 0.3 or more, private bins are nearly as accurate as
# exact bins.
mean, spread = search.cv_results_["mean_test_score"], search.cv_results_["std_test_score"]
fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
ax.axhline(exact, color="black", linestyle="--", label="exact bins, not private")
ax.axhline(max(y.mean(), 1 - y.mean()), color="0.5", linestyle=":", label="always the same answer")
ax.errorbar(
    values, mean, yerr=spread, fmt="o-", color="#0072B2", capsize=4,
    label="private bins (mean and sd of five folds)",
)  # fmt: skip
ax.set_xscale("log")
ax.set_xticks(values, [f"{value:g}" for value in values])
ax.minorticks_off()
ax.set(
    xlabel="eps of one fit, all six features together",
    ylabel="accuracy on held-out folds",
    title="A pipeline with private bins, 4,000 rows to train on",
)
ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 0.05))
ax.spines[["top", "right"]].set_visible(False)
plt.show()
