"""
How much accuracy do segments gain over a loop that describes one segment after another?

A loop has to divide eps by the number of segments. `dp_describe(..., by=...)` spends all of eps on
every segment, because the weights of a record sum to at most 1 over all segments. In theory the
rank error is as many times smaller as there are segments, divided by the number of segments that
a person has rows in: a person with rows in two segments weighs half a record in each of them.

    python examples/benchmarks/measured.py segments
"""

import numpy as np
import pandas as pd
from results import Number, Table

from dpq_sklearn import dp_describe

EPS = 0.5
N_PEOPLE_OF_SEGMENT = 4_000
QUARTILES = (0.25, 0.5, 0.75)


def incomes(rng, n_segments, n_rows_of_person):
    """Return a table with rows of people; each of a person's rows is in another segment."""
    n_people = N_PEOPLE_OF_SEGMENT * n_segments // n_rows_of_person
    person = np.tile(np.arange(n_people), n_rows_of_person)
    number_of_row = np.repeat(np.arange(n_rows_of_person), n_people)
    region = (person + number_of_row) % n_segments
    income = rng.lognormal(10, 0.7, size=person.size)
    return pd.DataFrame({"person": person, "region": region, "income": income})


def at_once(table, keys, **options):
    """Return the quartiles of each segment, (n_segments, 3), for one eps."""
    described = dp_describe(table, by="region", keys=keys, eps=EPS, **options)
    return described["income"].drop(columns="count").to_numpy()


def in_a_loop(table, keys, random_state, **options):
    """Return the same by a loop, in which each segment gets its share of eps."""
    columns = [name for name in table if name != "region"]
    described = [
        dp_describe(
            table.loc[table["region"] == key, columns],
            eps=EPS / len(keys),
            random_state=random_state * len(keys) + key,
            **options,
        )
        for key in keys
    ]
    return np.array([of_segment["income"].drop("count") for of_segment in described])


def rank_error(table, keys, quartiles):
    """Return the mean distance of the ranks from the probabilities, in percent."""
    errors = []
    for key, values in zip(keys, quartiles, strict=True):
        exact = np.sort(table.loc[table["region"] == key, "income"])
        errors.append(np.abs(np.searchsorted(exact, values) / exact.size - QUARTILES))
    return 100 * np.mean(errors)


def measure(trials):
    """Return the rank errors of both ways, for rows and for people in several segments."""
    rows = {}
    for n_segments in (5, 20, 50):
        for n_rows_of_person in (1, 2):
            pairs = [_errors(n_segments, n_rows_of_person, seed) for seed in range(trials)]
            segments, loop = np.transpose(pairs)
            label = "rows" if n_rows_of_person == 1 else "people in 2 segments each"
            rows[f"{n_segments} segments, {label}"] = [
                Number.of(loop, 2),
                Number.of(segments, 2),
                Number.of(loop / segments, 1),
                f"{n_segments / n_rows_of_person:g}",
            ]

    return Table(
        title=f"Rank error of the quartiles of segments with {N_PEOPLE_OF_SEGMENT:,} rows each, "
        f"in percent of these rows, for eps={EPS:g} in total: of a loop over the segments, and of "
        "`dp_describe` with `by`.",
        columns=["data", "loop", "`by`", "times smaller", "in theory"],
        rows=rows,
        trials=trials,
    )


def _errors(n_segments, n_rows_of_person, seed):
    table = incomes(np.random.default_rng(seed), n_segments, n_rows_of_person)
    keys = list(range(n_segments))
    options = {"percentiles": QUARTILES, "random_state": seed, "groups": "person"}
    if n_rows_of_person == 1:
        del options["groups"]
        table = table.drop(columns="person")
    return [
        rank_error(table, keys, release(table, keys, **options)) for release in (at_once, in_a_loop)
    ]
