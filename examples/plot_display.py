"""
What does a fitted transformer know, and how surely?
====================================================

:class:`~dpq_sklearn.DPQuantileDisplay` draws what a fit released, with the band in which the noise
of the mechanism leaves it. It uses the release and public facts only, so the picture may be shown
to anybody.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileDisplay, DPQuantileTransformer

# %%
# Two transformers of the same private column, waiting times in minutes, at ``eps=0.3`` each. A
# waiting time is not negative and, in this house, not longer than four hours. These bounds are
# public facts, so they may be given, and no released number lies outside of them. Without them the
# display would note that a tail of waiting times goes below zero.
rng = np.random.default_rng(0)
X = rng.gamma(4, 10, size=(2_000, 1))
cdf = DPQuantileTransformer(n_quantiles=7, eps=0.3, bounds=(0, 240)).fit(X)
bins = DPKBinsDiscretizer(n_bins=8, eps=0.3, bounds=(0, 240)).fit(X)

# %%
# The band rests on the number of rows that the fit has released. A histogram is drawn only of rows
# that you pass as public, here a sample from another year.
public = rng.gamma(4.5, 10, size=(500, 1))
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
DPQuantileDisplay.from_estimator(cdf, ax=left)
DPQuantileDisplay.from_estimator(bins, X_public=public, ax=right)
left.set_xlabel("waiting time, minutes")
right.set_xlabel("waiting time, minutes")
right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False)
plt.show()
