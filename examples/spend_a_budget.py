"""
Where does a privacy budget go in a search?
===========================================

Every fit of a private transformer spends again, and a grid search fits many times. A
:class:`~dpq_sklearn.PrivacyLedger` is the budget of one dataset, kept in a file. Every fit, in
every process, is charged before it reads the data, and it is refused if the budget does not
suffice.
"""

# %%
# A dataset with a budget
# -----------------------
# Create the ledger once, for example next to the data. From then on, every process needs only its
# path.

import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from dpq_sklearn import BudgetExceededError, DPKBinsDiscretizer, PrivacyLedger, plan_search

rng = np.random.default_rng(0)
X = rng.lognormal(size=(2000, 4))
y = (np.abs(np.log(X[:, 0])) + 0.3 * rng.normal(size=2000) > 0.7).astype(int)

folder = tempfile.TemporaryDirectory()
path = os.path.join(folder.name, "budget.sqlite")
ledger = PrivacyLedger(path, eps=10.0)
print(ledger)

# %%
# Expensive: search over the whole pipeline
# -----------------------------------------
# Every candidate and every fold fits the transformer again. The cost is known before it runs.

pipeline = make_pipeline(
    DPKBinsDiscretizer(n_bins=8, eps=0.5, ledger=path), LogisticRegression(max_iter=1000)
)
grid = {"logisticregression__C": [0.01, 0.1, 1.0]}
search = GridSearchCV(pipeline, grid, cv=5)

plan = plan_search(search, n_features=4)
print(plan)
print("fits into the budget:", ledger.check(plan.total))

search.fit(X, y)
print(f"accuracy {search.best_score_:.3f}")
print(ledger)

# %%
# Cheap: fit once, search over the classifier
# -------------------------------------------
# Anything computed from a private release costs nothing more. A frozen transformer is not fitted
# again, so the search over the classifier is free, and the single fit can have a larger eps.

binner = DPKBinsDiscretizer(n_bins=8, eps=1.0, ledger=path).fit(X)
pipeline = make_pipeline(FrozenEstimator(binner), LogisticRegression(max_iter=1000))
free_search = GridSearchCV(pipeline, grid, cv=5)
print(plan_search(free_search))

free_search.fit(X, y)
print(f"accuracy {free_search.best_score_:.3f}")
print(ledger)

# %%
# The empty budget
# ----------------
# The remaining budget is eps = 1. A fit that asks for more is refused before it reads the data or
# spends anything.

try:
    DPKBinsDiscretizer(n_bins=8, eps=2.0, ledger=path).fit(X)
except BudgetExceededError as refusal:
    print(f"refused: {os.path.basename(path)} has eps={refusal.left.eps:.3g} left")

# %%
# The record
# ----------
# The ledger has a record of every fit, with its release and its cost.

records = ledger.to_frame()
print(records[["what", "columns", "detail", "eps", "rho", "seeded"]].to_string())

fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ledger.plot(ax=ax)
folder.cleanup()
plt.show()
