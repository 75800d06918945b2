"""
What does a fitted transformer know, and how surely?
====================================================

:class:`~dpq_sklearn.DPQuantileDisplay` draws the released numbers of a fit, with a band that shows
their noise. It uses only the release and public facts, so you may publish the figure.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileDisplay, DPQuantileTransformer

# %%
# Fit two transformers to the same private column, waiting times in minutes, with ``eps=0.3`` each.
# A waiting time is not negative and, in this hospital, not longer than four hours. These bounds are
# public facts, so you may declare them, and no released number lies outside. Without bounds the
# display would note that a tail of waiting times extends below zero.
rng = np.random.default_rng(0)
X = rng.gamma(4, 10, size=(2_000, 1))
cdf = DPQuantileTransformer(n_quantiles=7, eps=0.3, bounds=(0, 240)).fit(X)
bins = DPKBinsDiscretizer(n_bins=8, eps=0.3, bounds=(0, 240)).fit(X)

# %%
# The width of the band follows from the released number of rows. The display draws a histogram only
# of rows that you pass as public, here a sample from another year.
public = rng.gamma(4.5, 10, size=(500, 1))
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
DPQuantileDisplay.from_estimator(cdf, ax=left)
DPQuantileDisplay.from_estimator(bins, X_public=public, ax=right)
left.set_xlabel("waiting time, minutes")
right.set_xlabel("waiting time, minutes")
right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False)
plt.show()
