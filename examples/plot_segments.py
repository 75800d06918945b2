"""
What is the median income of each region?
=========================================

:func:`~dpq_sklearn.dp_describe` describes all regions for one eps, because a row is in one region
only. A loop over the regions would have to divide eps among them.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dpq_sklearn import DPDescribeDisplay, PrivacyNoiseWarning, dp_describe, dp_quantiles

# %%
# Create a private table with five regions of 600 to 12,000 people.
rng = np.random.default_rng(0)
sizes = {"north": 12_000, "east": 6_000, "south": 3_000, "west": 1_200, "islands": 600}
typical_incomes = {
    "north": 31_000,
    "east": 26_000,
    "south": 38_000,
    "west": 22_000,
    "islands": 29_000,
}
table = pd.DataFrame(
    {
        "region": np.repeat(list(sizes), list(sizes.values())),
        "income": np.concatenate(
            [typical_incomes[name] * rng.lognormal(0, 0.45, size) for name, size in sizes.items()]
        ),
    }
)

# %%
# The names of the regions are public: everybody knows them without the table. All counts and
# quantiles together cost ``eps=0.5``.
eps = 0.5
regions = list(sizes)
described = dp_describe(table, by="region", keys=regions, eps=eps, random_state=0)
print(described["income"].round().to_string())

# %%
# How far off are the medians? The loop may spend a fifth of eps on each of the five regions, so
# that it costs the same. It warns that the quantiles of small regions are mostly noise. We repeat
# both on made-up data, for which the exact medians may be used.
warnings.simplefilter("ignore", PrivacyNoiseWarning)
incomes_by_region = [table.loc[table["region"] == name, "income"] for name in regions]
exact = np.array([incomes.median() for incomes in incomes_by_region])


def medians_at_once(seed):
    found = dp_quantiles(
        table["income"], 0.5, by=table["region"], keys=regions, eps=eps, random_state=seed
    )
    return found["50%"]


def medians_in_a_loop(seed):
    return [
        dp_quantiles(incomes, 0.5, eps=eps / len(regions), random_state=100 * seed + number)
        for number, incomes in enumerate(incomes_by_region)
    ]


def typical_error(medians):
    return np.median([np.abs(medians(seed) / exact - 1) for seed in range(15)], axis=0)


errors = pd.DataFrame(
    {
        "at once, % off": 100 * typical_error(medians_at_once),
        "in a loop, % off": 100 * typical_error(medians_in_a_loop),
    },
    index=regions,
)
print(errors.round(2).to_string())

# %%
# The display draws the regions on one scale, with their noise. All regions have the same noise in
# ranks, so the bands of small regions are wider.
DPDescribeDisplay.from_description(described, column="income", eps=eps)
plt.show()
