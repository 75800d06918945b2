"""
How is a whole pipeline made private?
=====================================

A private transformer and an ordinary classifier do not make a private pipeline, because the
classifier sees the rows. Here the classifier is private too, and the two costs add up.

The classifier is naive Bayes on private bins. It learns only counts: how many rows of each class
fall into each bin of each feature. A row adds 1 to one count of each feature, so one private
histogram for each feature is enough. The bins get a fifth of the budget, and the counts get the
rest.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from dpq_sklearn import DPKBinsDiscretizer, PrivacyNoiseWarning, dp_histogram

# %%
# The private classifier
# ----------------------


class NoisyNaiveBayes(ClassifierMixin, BaseEstimator):
    """Naive Bayes for bin numbers and two classes, 0 and 1, from noisy counts.

    Privacy: neighbours differ by one row. Each feature has one private histogram, over pairs of
    class and bin, for an equal share of eps. The classes are counted by summing up the histograms,
    which costs nothing more. ``eps=None`` adds no noise.
    """

    def __init__(self, n_bins, eps=None):
        self.n_bins = n_bins
        self.eps = eps

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        n_features = X.shape[1]
        edges = np.arange(2 * self.n_bins + 1) - 0.5
        tables = []
        for bins in X.T:
            pairs = y * self.n_bins + bins
            if self.eps is None:
                table, _ = np.histogram(pairs, edges)
            else:
                table, _ = dp_histogram(pairs, edges, eps=self.eps / n_features)
            tables.append(table.reshape(2, self.n_bins))

        # Counts that are smaller than the noise tell nothing, so all are raised by its size.
        noise = 1.0 if self.eps is None else np.sqrt(2) * n_features / self.eps
        counts = np.maximum(np.stack(tables, axis=1), 0)
        self.log_classes_ = np.log(counts.sum(axis=(1, 2)) + noise)
        counts = counts + noise
        self.log_bins_ = np.log(counts / counts.sum(axis=2, keepdims=True))
        return self

    def predict(self, X):
        features = np.arange(X.shape[1])
        log_chances = self.log_bins_[:, features, X.astype(int)].sum(axis=2)
        return (log_chances + self.log_classes_[:, None]).argmax(axis=0)


# %%
# The pipelines
# -------------
# ``n_bins="auto"`` uses as many bins as the rows and the budget allow. This number is released with
# the edges, so the model may use it.


def private_pipeline(X, y, eps):
    binner = DPKBinsDiscretizer("auto", eps=0.2 * eps, encode="ordinal").fit(X)
    model = NoisyNaiveBayes(binner.n_bins_[0], eps=0.8 * eps).fit(binner.transform(X), y)
    return make_pipeline(binner, model)


def half_private_pipeline(X, y, eps):
    """Not private: the counts are exact. It shows what the noise on the counts costs."""
    binner = DPKBinsDiscretizer("auto", eps=0.2 * eps, encode="ordinal").fit(X)
    model = NoisyNaiveBayes(binner.n_bins_[0]).fit(binner.transform(X), y)
    return make_pipeline(binner, model)


# %%
# Create skewed features, and a label that depends on them in several ways.
rng = np.random.default_rng(0)
X = rng.lognormal(3, 1, size=(10_000, 6))
logs = np.log(X) - 3
signal = logs[:, 0] + np.abs(logs[:, 1]) - 0.8 * logs[:, 2] + 0.5 * (logs[:, 3] > 1)
y = (signal + 0.5 * rng.normal(size=10_000) > 1).astype(int)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

pipelines = {
    "private bins and private counts": (private_pipeline, "o-", "#0072B2"),
    "private bins, exact counts (not private)": (half_private_pipeline, "s--", "#E69F00"),
}

# The smallest budget is too small for good bins, and a fit warns of that.
warnings.simplefilter("ignore", PrivacyNoiseWarning)
budgets, n_trials = [0.1, 0.3, 1.0, 3.0], 10
scores = {
    name: np.array(
        [
            [make(X_train, y_train, eps).score(X_test, y_test) for _ in range(n_trials)]
            for eps in budgets
        ]
    )
    for name, (make, _, _) in pipelines.items()
}
for name, values in scores.items():
    print(f"{name:42} " + "  ".join(f"{value:.3f}" for value in values.mean(axis=1)))

# %%
# The lower line is the private pipeline. The distance between the upper line and the dotted line is
# the cost of private bins alone.
fig, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
exact = half_private_pipeline(X_train, y_train, 1e6).score(X_test, y_test)
ax.axhline(exact, color="black", linestyle=":", label="no noise at all (not private)")
for name, (_, style, color) in pipelines.items():
    mean, spread = scores[name].mean(axis=1), scores[name].std(axis=1)
    ax.errorbar(budgets, mean, yerr=spread, fmt=style, color=color, capsize=4, label=name)
ax.set_xscale("log")
ax.set_xticks(budgets, [f"{eps:g}" for eps in budgets])
ax.minorticks_off()
ax.set(
    xlabel="eps of the whole pipeline",
    ylabel="accuracy on new rows",
    title=f"{X_train.shape[0]:,} rows, 6 features (mean and sd of {n_trials} fits)",
)
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
