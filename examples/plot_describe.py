"""
What is in a table that nobody may look at?
===========================================

:func:`~dpq_sklearn.dp_describe` is the private counterpart of ``DataFrame.describe()``, for a first
look at a table. You don't have to declare anything about the columns, and one budget covers all of
them.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dpq_sklearn import DPDescribeDisplay, PrivacyNoiseWarning, dp_describe

# %%
# Create a private table with two complete columns, a column with many zeros, and a column that most
# people left blank. The column of names is not described, because its dtype is not a number.
rng = np.random.default_rng(0)
n = 5_000
table = pd.DataFrame(
    {
        "name": [f"person {number}" for number in range(n)],
        "age": rng.normal(44, 13, size=n).clip(18, 90).round(),
        "income": rng.lognormal(10, 0.8, size=n).round(-2),
        "debt": np.where(rng.random(n) < 0.4, 0, rng.lognormal(8, 1, size=n).round(-1)),
        "bonus": np.where(rng.random(n) < 0.98, np.nan, rng.lognormal(7, 1, size=n).round()),
    }
)

# %%
# All private numbers together cost ``eps=1``. The exact numbers next to them are not private. The
# call warns that the quantiles of ``bonus`` are mostly noise.
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", PrivacyNoiseWarning)
    description = dp_describe(table, eps=1.0)
print(*(warning.message for warning in caught), "\n")
percentiles = [0.05, 0.25, 0.5, 0.75, 0.95]
exact = table.describe(percentiles=percentiles).loc[description.index]
print(pd.concat({"private": description, "exact": exact.round(1)}, axis=1).to_string())

# %%
# The display draws a box for each column, and bands that show the noise of its quantiles. It needs
# only the release and the budget. About a hundred people have a bonus, which is too few for a
# quarter of the budget, and the display says so.
DPDescribeDisplay.from_description(description, eps=1.0)
plt.show()
