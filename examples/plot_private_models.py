"""
Private bins, or free ones of equal width?
==========================================

Equal-width bins between public bounds cost no eps: scikit-learn's class is fitted on the two bounds
and never sees a row. Private bins use a share of the budget, and adapt to the rows. The number of
rows and the quality of the bounds decide which bins are better.

All bins are followed by the same model, naive Bayes from private histograms, with the same total
eps.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import KBinsDiscretizer

from dpq_sklearn import DPKBinsDiscretizer, PrivacyNoiseWarning, dp_histogram

EPS = 1.0
N_FEATURES = 4

# %%
# Create four skewed features, such as amounts of money, and a label that depends on three of them.
rng = np.random.default_rng(0)


def made_up_rows(n_rows):
    X = rng.gamma(2.0, 100.0, size=(n_rows, N_FEATURES))
    signal = X[:, 0] - 0.6 * X[:, 1] + 150 * (X[:, 2] > 300)
    y = (signal + rng.normal(0, 60, n_rows) > 60).astype(int)
    return X, y


# %%
# Naive Bayes learns only counts: how many rows of each class fall into each bin of a feature. A row
# belongs to one pair of class and bin of each feature, so one private histogram for each feature,
# with an equal share of eps, is enough.


def log_odds_of_bins(binned, y, n_bins, eps):
    """Return for each feature how much each bin speaks for class 1, privately."""
    noise = np.sqrt(2) * N_FEATURES / eps  # the standard deviation of a count
    tables = []
    for bins in binned.T:
        edges = np.arange(2 * n_bins + 1) - 0.5
        counts, _ = dp_histogram(y * n_bins + bins, edges, eps=eps / N_FEATURES)
        # Counts that are smaller than the noise tell nothing.
        shares = np.maximum(counts, 0).reshape(2, n_bins) + noise
        shares /= shares.sum(axis=1, keepdims=True)
        tables.append(np.log(shares[1] / shares[0]))
    return tables


def ranking(tables, binned):
    return sum(table[bins.astype(int)] for table, bins in zip(tables, binned.T, strict=True))


# %%
# Private bins get a fifth of eps. Free bins leave all of eps to the counts.


def with_private_bins(X, y, new):
    binner = DPKBinsDiscretizer("auto", eps=0.2 * EPS, encode="ordinal").fit(X)
    tables = log_odds_of_bins(binner.transform(X), y, binner.n_bins_[0], 0.8 * EPS)
    return ranking(tables, binner.transform(new))


def with_equal_width(X, y, new, top, n_bins=8):
    two_rows = np.tile([[0.0], [top]], N_FEATURES)
    binner = KBinsDiscretizer(n_bins, strategy="uniform", encode="ordinal", subsample=None)
    binner.fit(two_rows)
    tables = log_odds_of_bins(binner.transform(X), y, n_bins, EPS)
    return ranking(tables, binner.transform(new))


ways = {
    "private bins": (with_private_bins, "o-", "#0072B2"),
    "equal width, bounds (0, 1,000)": (
        lambda X, y, new: with_equal_width(X, y, new, 1_000),
        "s--",
        "#E69F00",
    ),
    "equal width, bounds (0, 10,000)": (
        lambda X, y, new: with_equal_width(X, y, new, 10_000),
        "^:",
        "#009E73",
    ),
}


# %%
# Measure how often a row of class 1 is ranked above a row of class 0 (AUC), on new rows.


def auc(scores, y):
    above = scores[y == 1][:, None] - scores[y == 0]
    return np.mean((above > 0) + 0.5 * (above == 0))


# With few rows "auto" says that they are too few, which is the point here.
warnings.simplefilter("ignore", PrivacyNoiseWarning)
numbers_of_rows, n_trials = [100, 300, 1_000, 3_000, 10_000, 30_000], 10
X_new, y_new = made_up_rows(2_000)
results = {name: [] for name in ways}
for n_rows in numbers_of_rows:
    samples = [made_up_rows(n_rows) for _ in range(n_trials)]
    for name, (way, _, _) in ways.items():
        results[name].append([auc(way(X, y, X_new), y_new) for X, y in samples])
for name, trials in results.items():
    print(f"{name:32} " + "  ".join(f"{np.mean(each):.3f}" for each in trials))

# %%
# With few rows and good bounds, free bins are better. With many rows, private bins are better.
# Bounds that are ten times too wide put nearly all rows into one free bin, and more rows do not
# help.
fig, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
for name, (_, style, color) in ways.items():
    trials = np.array(results[name])
    error = trials.std(axis=1, ddof=1) / np.sqrt(n_trials)
    mean = trials.mean(axis=1)
    ax.errorbar(numbers_of_rows, mean, yerr=error, fmt=style, color=color, capsize=4, label=name)
ax.set_xscale("log")
ax.set_xticks(numbers_of_rows, [f"{n:,}" for n in numbers_of_rows])
ax.minorticks_off()
ax.set(
    xlabel="rows",
    ylabel="AUC on new rows",
    title=f"whole pipelines with eps = {EPS:g} (mean and standard error of {n_trials} fits)",
)
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
