"""
How does a whole table go through?
==================================

A real table has columns of several kinds. This one is scikit-learn's table of 442 patients with
diabetes: an age in years, a sex, a body mass index, a blood pressure and six laboratory results.
The model predicts whether the disease progresses. A ``ColumnTransformer`` treats each kind of
column in its own way, a ledger keeps the budget, a search is planned before it runs, and the
exported pipeline is plain scikit-learn.
"""

import matplotlib.pyplot as plt
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPOneHotEncoder,
    DPQuantileTransformer,
    PrivacyLedger,
    plan_search,
    privacy_of,
    to_sklearn,
)

table, progression = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
table["sex"] = table["sex"].map({1: "first", 2: "second"})  # the source does not say which is which
gets_worse = progression > 140
print(table.head(3).to_string())
train, test, y_train, y_test = train_test_split(table, gets_worse, random_state=0)

# %%
# Public knowledge of the columns costs nothing: ages are whole numbers of years, and a body mass
# index has one decimal. The encoder of the text column finds its categories privately. A public
# list of categories would cost nothing. The private transformers are charged to one ledger, with a
# cap of eps=3 for this table. Private categories need a ledger with a delta.
ledger = PrivacyLedger(eps=3.0, delta=1e-5)
laboratory = ["s1", "s2", "s3", "s4", "s5", "s6"]
columns = ColumnTransformer(
    [
        ("sex", DPOneHotEncoder(eps=0.5, sparse_output=False, ledger=ledger), ["sex"]),
        (
            "body",
            DPKBinsDiscretizer(
                4,
                eps=1.0,
                encode="onehot-dense",
                decimals={"age": 0, "bmi": 1, "bp": 0},
                bounds={"age": (0, 120), "bmi": (10, 80), "bp": (30, 200)},
                ledger=ledger,
            ),
            ["age", "bmi", "bp"],
        ),
        (
            "laboratory",
            DPQuantileTransformer(3, eps=1.5, bounds=[(0, 1000)] * 6, ledger=ledger),
            laboratory,
        ),
    ]
)
pipeline = Pipeline([("columns", columns), ("model", LogisticRegression(max_iter=1000))])

# %%
# A search over the model fits all transformers again for every candidate and fold. The plan states
# the cost, which exceeds the budget of the ledger.
grid = {"model__C": [0.01, 0.1, 1.0, 10.0]}
plan = plan_search(GridSearchCV(pipeline, grid, cv=5))
print(f"{plan.n_fits} private fits would cost eps = {plan.total.eps:.3g}")

# %%
# Therefore fit the transformers once, freeze them, and search over the model that follows them.
# This search costs nothing more.
fitted = columns.fit(train)
frozen = Pipeline([("columns", FrozenEstimator(fitted)), ("model", LogisticRegression())])
search = GridSearchCV(frozen, grid, cv=5)
print(f"{plan_search(search).n_fits} private fits in the search behind the frozen columns")
search.fit(train, y_train)

print(f"paid: eps = {privacy_of(fitted).total.eps:.3g}, left: eps = {ledger.remaining().eps:.3g}")
print(fitted.named_transformers_["sex"].categories_)
print(fitted.named_transformers_["body"].bin_edges_)

# %%
# The exported pipeline does not need this package.
plain = to_sklearn(make_pipeline(fitted))
kinds = [type(part).__module__.split(".")[0] for _, part, _ in plain[-1].transformers_]
print("exported:", kinds)

# %%
# Compare with the same pipeline with exact bins, on new patients. A model trained on transformed
# rows is not private, whichever bins it uses, so do not publish such a figure of private data.
exact = ColumnTransformer(
    [
        ("sex", OneHotEncoder(sparse_output=False), ["sex"]),
        ("rest", KBinsDiscretizer(4, encode="onehot-dense"), ["age", "bmi", "bp", *laboratory]),
    ]
)
if "quantile_method" in KBinsDiscretizer().get_params():
    exact.set_params(rest__quantile_method="averaged_inverted_cdf")
exact_pipeline = make_pipeline(exact, LogisticRegression(max_iter=1000)).fit(train, y_train)

scores = {
    "always the\nmore frequent": max(y_test.mean(), 1 - y_test.mean()),
    "exact bins": exact_pipeline.score(test, y_test),
    "private columns,\neps = 3": search.score(test, y_test),
}
spread = cross_val_score(exact_pipeline, table, gets_worse, cv=5).std()

fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
bars = ax.bar(list(scores), list(scores.values()), color=["0.7", "0.4", "#D55E00"], yerr=spread)
ax.bar_label(bars, fmt="%.2f", label_type="center", color="white")
ax.set(ylabel="accuracy on 111 other patients", ylim=(0, 1))
ax.set_title("Bars: the spread over five other divisions of the table")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
