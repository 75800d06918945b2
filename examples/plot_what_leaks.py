"""
What do exact bins leak?
========================

Bin edges look harmless: they are a few numbers about hundreds of people. But an exact edge depends
on single rows, and moves if a row is added or removed. Anyone who knows the other rows can see it
move. A private edge is drawn at random, and one row more or less hardly changes its distribution.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import KBinsDiscretizer

from dpq_sklearn import DPKBinsDiscretizer, PrivacyNoiseWarning

# %%
# Create the salaries of a company, without Ada and with her.
rng = np.random.default_rng(30)
without_ada = rng.lognormal(10.7, 0.35, size=(600, 1)).round()
with_ada = np.append(without_ada, [[98_000.0]], axis=0)
people = {"Ada is there": with_ada, "Ada is not there": without_ada}

# %%
# Make four bins, and look at the edge above which the best paid quarter begins. An exact edge
# reveals whether Ada is in the data. (Exact outer edges reveal even more: the smallest and the
# largest salary.)
exact_bins = KBinsDiscretizer(4, encode="ordinal", strategy="quantile", subsample=None)
if "quantile_method" in exact_bins.get_params():
    exact_bins.set_params(quantile_method="averaged_inverted_cdf")
exact = {label: exact_bins.fit(X).bin_edges_[0][3] for label, X in people.items()}
for label, edge in exact.items():
    print(f"{label + ':':18} exact edge {edge:,.1f}")

# %%
# A private edge is different in every fit, so we look at 500 fits of each kind. Never publish that
# many, because each fit costs ``eps=1``. In a few of them the noisy count of the rows is so small
# that the fit warns.
warnings.simplefilter("ignore", PrivacyNoiseWarning)
binner = DPKBinsDiscretizer(4, eps=1.0, encode="ordinal")
private = {
    label: np.array([binner.fit(X).bin_edges_[0][3] for _ in range(500)])
    for label, X in people.items()
}

# %%
# The two lines are the exact edges, and the two histograms show the edges that a private fit may
# release. The lines are apart. The histograms overlap: a released edge could come from either of
# them. eps limits how sure anybody can become. With ``eps=1``, a guess of 50% can become at most
# 73%, for every row and whatever else is known.
fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
styles = {"Ada is there": ("#D55E00", "-"), "Ada is not there": ("#0072B2", "--")}
limits = 53.5, 57.7
for label, (color, line) in styles.items():
    ax.axvline(exact[label] / 1000, color=color, linestyle=line, lw=2, label=f"exact, {label}")
    ax.hist(
        private[label] / 1000, np.linspace(*limits, 29), histtype="stepfilled", alpha=0.3,
        color=color, ec=color, linestyle=line, lw=1.5, label=f"private, {label}",
    )  # fmt: skip
ax.set(
    title="The exact edge tells whether Ada is there.\nThe private one hardly does.",
    xlabel="edge of the best paid quarter of 600 salaries, thousand euros",
    ylabel="private fits out of 500, eps = 1",
    xlim=limits,
)
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
