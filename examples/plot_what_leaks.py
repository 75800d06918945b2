"""
What do exact bins give away?
=============================

Bin edges look harmless: they are a few numbers about thousands of people. But exact edges are
functions of single rows. The last edge of scikit-learn's ``KBinsDiscretizer`` *is* the largest
value, and every other edge moves when a row comes or goes. Private edges are drawn at random, and
hardly change their distribution.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import KBinsDiscretizer

from dpq_sklearn import DPKBinsDiscretizer

# %%
# The salaries of a company, without Ada and with her. She earns the most.
rng = np.random.default_rng(0)
without_ada = rng.lognormal(10.7, 0.35, size=(1_000, 1)).round()
with_ada = np.append(without_ada, [[198_000.0]], axis=0)

# %%
# Somebody sees the last edge of four bins. If the edges are exact, one look tells whether Ada was
# there, and what she earns.
exact_bins = KBinsDiscretizer(4, encode="ordinal", strategy="quantile", subsample=None)
if "quantile_method" in exact_bins.get_params():
    exact_bins.set_params(quantile_method="averaged_inverted_cdf")
exact = {
    "Ada is there": exact_bins.fit(with_ada).bin_edges_[0][-1],
    "Ada is not there": exact_bins.fit(without_ada).bin_edges_[0][-1],
}
for label, edge in exact.items():
    print(f"{label + ':':18} last exact edge {edge:,.0f}")

# %%
# Private edges are different in every fit. So look at 500 fits of each kind, which nobody outside
# gets to see: each fit costs ``eps=1``.


def last_edges(X):
    binner = DPKBinsDiscretizer(4, eps=1.0, encode="ordinal")
    return [binner.fit(X).bin_edges_[0][-1] for _ in range(500)]


private = {"Ada is there": last_edges(with_ada), "Ada is not there": last_edges(without_ada)}

# %%
# Above, the two exact edges are far apart. Below, the two distributions of the private edge nearly
# coincide: an edge that somebody sees could come from either of them. eps limits how sure anybody
# can become. With ``eps=1`` a guess of 50% can become 73%, for every row and whatever else is
# known.
fig, (top, bottom) = plt.subplots(
    2, 1, figsize=(6.4, 4.4), height_ratios=(1, 2), layout="constrained"
)
styles = {"Ada is there": ("#D55E00", "-"), "Ada is not there": ("#0072B2", "--")}
for label, (color, line) in styles.items():
    top.axvline(exact[label] / 1000, color=color, linestyle=line, lw=3)
    edges = np.divide(private[label], 1000)
    bottom.hist(
        edges, np.linspace(64.5, 69.5, 26), histtype="step", color=color, linestyle=line, lw=2
    )
    bottom.plot([], color=color, linestyle=line, lw=2, label=label)
top.annotate(
    "Ada's salary", (exact["Ada is there"] / 1000, 0.5), (-8, 0), textcoords="offset points",
    ha="right", va="center", color="#D55E00",
)  # fmt: skip
top.set(title="Exact bins: the last edge tells whether Ada is there", yticks=[], xlim=(50, 215))
bottom.set(
    title="Private bins, eps = 1: it hardly tells",
    xlabel="last edge of four bins of 1,000 salaries, thousand euros",
    ylabel="fits out of 500",
)
bottom.legend(frameon=False)
for ax in (top, bottom):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
