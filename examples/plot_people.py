"""
What if a person has many rows?
===============================

Tables of visits, purchases or measurements have several rows per person. A guarantee for single
rows is then weak for people: a person with 50 rows is protected with only 50 times the ``eps``.
There are three ways to guarantee ``eps=1`` for people, which is called user-level privacy:

- ``eps / 50`` for each row, if nobody has more than 50 rows,
- one random row of each person, without the other rows,
- ``groups``, the person each row belongs to: each of a person's k rows weighs 1/k, and together
  they cost as much as one row.

How far off are the quartiles?
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from dpq_sklearn import PrivacyNoiseWarning, dp_quantiles

# %%
# Create blood pressures of 2,000 people with 1 to 50 visits each. In one table, frequent visitors
# have the same pressures as the others. In the other table, they have higher pressures.
rng = np.random.default_rng(0)
n_people, most_visits = 2_000, 50
n_visits = np.minimum(rng.geometric(0.1, n_people), most_visits)
person = np.repeat(np.arange(n_people), n_visits)


def blood_pressures(rise):
    level_of = rng.normal(125, 12, n_people) + rise * np.log(n_visits)
    return rng.normal(level_of[person], 8).round(1)


tables = {
    "visits tell nothing": blood_pressures(rise=0),
    "frequent visitors have higher pressure": blood_pressures(rise=5),
}
print(f"{person.size:,} rows of {n_people:,} people, of whom nobody has more than {n_visits.max()}")

# %%
# The target is the quartiles of *a random row of a random person*. The error is the number of
# people, out of 100, between a private quartile and the exact quartile.
q, n_trials = np.array([0.25, 0.5, 0.75]), 100
weights = 1 / n_visits[person] / n_people
first_rows = np.cumsum(n_visits) - n_visits


def people_between(values, x):
    """Return how many of 100 people lie between each value and the exact quartile."""
    below = np.array([weights[x < value].sum() for value in values])
    up_to = np.array([weights[x <= value].sum() for value in values])
    return 100 * np.maximum(np.maximum(below - q, q - up_to), 0)


# The first way warns: a fiftieth of eps is not enough for these rows.
warnings.simplefilter("ignore", PrivacyNoiseWarning)


def share_of_eps(x):
    return dp_quantiles(x, q, eps=1.0 / most_visits)


def one_random_row(x):
    return dp_quantiles(x[first_rows + rng.integers(0, n_visits)], q, eps=1.0)


def with_groups(x):
    return dp_quantiles(x, q, eps=1.0, groups=person)


ways = {
    "eps / 50 for each row": (share_of_eps, "^", "#E69F00"),
    "one random row of each person": (one_random_row, "s", "#009E73"),
    "groups": (with_groups, "o", "#0072B2"),
}
errors = {
    table: {
        name: np.array([people_between(way(x), x) for _ in range(n_trials)])
        for name, (way, _, _) in ways.items()
    }
    for table, x in tables.items()
}
for table, of_ways in errors.items():
    print(f"\n{table:38}  1st quartile  median  3rd quartile")
    for name, found in of_ways.items():
        first, median, third = found.mean(axis=0)
        print(f"  {name:36}  {first:12.2f}  {median:6.2f}  {third:12.2f}")

# %%
# A share of ``eps`` for each row is noisy, and it answers a different question, because most rows
# belong to frequent visitors. One random row of each person answers the right question with fewer
# rows. ``groups`` answers it with all rows.
fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True, layout="constrained")
places = np.arange(3)
for ax, (table, of_ways) in zip(axes, errors.items(), strict=True):
    for shift, (name, (_, marker, color)) in zip((-0.2, 0.0, 0.2), ways.items(), strict=True):
        mean = of_ways[name].mean(axis=0)
        error = of_ways[name].std(axis=0, ddof=1) / np.sqrt(n_trials)
        style = {"fmt": marker, "color": color, "ms": 8, "capsize": 4}
        ax.errorbar(places + shift, mean, error, **style, label=name)
    ax.set_xticks(places, ["1st quartile", "median", "3rd quartile"])
    ax.set(title=table, yscale="log", xlim=(-0.5, 2.5))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("mean error: people of 100 in between")
fig.legend(*axes[0].get_legend_handles_labels(), frameon=False, ncols=3, loc="outside lower center")
plt.show()
