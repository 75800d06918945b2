"""
Does any release reveal more than it claims? A lower bound of its eps, or rho, from samples.

    python examples/benchmarks/audit.py --samples 100000

Each audit releases two neighbouring datasets many times. On one half of the outcomes it looks for
an event that is likely under one dataset and unlikely under the other; on the other half it counts
how often that event occurs. Clopper-Pearson bounds of the two probabilities then give a lower
bound of the privacy loss that holds whatever the event: log(p / q) for eps, log((p - delta) / q)
for eps with a delta, and the largest D_a(p || q) / a over Renyi orders a for rho. If one of them
exceeds its claim, the release is not private, or one run in a thousand was unlucky, and the exit
code is 1.
"""

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from scipy.stats import beta

from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPOneHotEncoder,
    DPOrdinalEncoder,
    DPRobustScaler,
    PrivacyNoiseWarning,
    dp_count,
    dp_describe,
    dp_histogram,
    dp_value_counts,
)

CLAIMS = {"eps": 2.0, "rho": 0.5}
# Of private categories: so large that a category of two or three records can be found. The columns
# of a wide table together have a delta below 1.
DELTA_OF_COLUMN, DELTA_OF_COUNTS = 0.004, 0.02
# A slow release is sampled so many times less often.
SLOWNESS = {
    "dask": 64,
    "batches": 8,
    "auto": 4,
    "agg_tree": 128,
    "dp_count": 2,
    "dp_histogram": 2,
    "dp_value_counts": 2,
}
# A wide table has many equal columns, each with its share of the budget: as many samples.
MOST_COLUMNS = 240
N_SEGMENTS = 3
N_CELLS = 64  # into which outcomes are sorted
FAILURE_CHANCE = 1e-3  # that any audit of a run is wrong
ORDERS = np.array([1.01, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0])

# Both datasets have a number twice. The second one has a larger number as well, which moves the
# median from the wide range below to the narrow one above. The less of the base measure lies above,
# the better can a large eps be seen, and the more samples are needed.
FAR, NEAR = 1e9, 30.2  # 3% and 20% of the measure are above
FAR_OF_COUNTS, NEAR_OF_COUNTS = 2.7e16, 7e9  # 5% and 20%: it has another measure
LARGER = 5e18


@dataclass(frozen=True)
class Audit:
    """One kind of release: `draw(values, people, size, random_state)` returns outcomes of it.

    `people` is the label of the person of each value. An outcome is a few numbers.
    """

    name: str
    unit: str
    draw: Callable
    number: float = NEAR
    n_rows_of_person: int = 1
    delta: float = 0.0

    def size(self, n_samples):
        return max(n_samples // SLOWNESS.get(self.name.split(",")[0], 1), 20)


def budget_of(unit, factor=1.0):
    amount = factor * CLAIMS[unit]
    return {"eps": amount} if unit == "eps" else {"eps": None, "rho": amount}


def fit_rows(binning, X, people):
    return binning.fit(X)


def fit_people(binning, X, people):
    return binning.fit(X, groups=people)


def fit_people_in_batches(binning, X, people):
    """One person after another; a person's rows are in one batch."""
    rows = [np.flatnonzero(np.array(people) == person) for person in sorted(set(people))]
    labels = [[people[row] for row in of_person] for of_person in rows]
    batches = (X[of_person] for of_person in rows)
    return binning.fit_batches(batches, groups=labels, groups_are_whole=True)


def fit_dask(binning, X, people):
    """A dask DataFrame, whose partitions are summarized one by one."""
    import dask
    import dask.dataframe as dd
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"x{column}" for column in range(X.shape[1])])
    with dask.config.set(scheduler="synchronous"):
        return binning.fit(dd.from_pandas(frame, npartitions=2))


def wide_table(mechanism, unit, n_quantiles=1, n_features=1, fit=fit_rows):
    """Return a function that draws quantiles: from many columns that are fitted at once.

    An outcome are the edges of `n_features` columns, which share the claim. `fit` is the way in
    which the rows get into the binning.
    """

    def draw(values, people, size, random_state):
        n_columns = n_features * min(size, MOST_COLUMNS // n_features)
        X = np.tile(values[:, None], n_columns)
        binning = DPKBinsDiscretizer(
            n_quantiles + 1,
            **budget_of(unit, n_columns / n_features),
            mechanism=mechanism,
            random_state=random_state,
        )
        outcomes = []
        for _ in range(-(-size * n_features // n_columns)):
            fit(binning, X, people)
            edges = np.array([edges[1:-1] for edges in binning.bin_edges_])
            outcomes.append(edges.reshape(-1, n_features * n_quantiles))
        return np.concatenate(outcomes)[:size]

    return draw


def wide_scaler(unit):
    """Return a function that draws centers and scales: of many columns that are fitted at once."""

    def draw(values, people, size, random_state):
        n_columns = min(size, MOST_COLUMNS)
        X = np.tile(values[:, None], n_columns)
        scaler = DPRobustScaler(**budget_of(unit, n_columns), random_state=random_state)
        outcomes = []
        for _ in range(-(-size // n_columns)):
            scaler.fit(X)
            outcomes.append(np.column_stack((scaler.center_, scaler.scale_)))
        return np.concatenate(outcomes)[:size]

    return draw


def wide_description(unit, n_features=1, with_groups=False):
    """Return a function that draws counts and medians: from many columns described at once."""

    def draw(values, people, size, random_state):
        n_columns = n_features * min(size, MOST_COLUMNS // n_features)
        X = np.tile(values[:, None], n_columns)
        arguments = {
            **budget_of(unit, n_columns / n_features),
            "groups": people if with_groups else None,
            "random_state": random_state,
        }
        outcomes = [
            dp_describe(X, percentiles=0.5, **arguments).to_numpy().T.reshape(-1, 2 * n_features)
            for _ in range(-(-size * n_features // n_columns))
        ]
        return np.concatenate(outcomes)[:size]

    return draw


def wide_segments(unit, with_groups=False):
    """Return a function that draws the sum of the counts of segments, and their medians.

    Two people have the first two values in each segment. The rows of one person more are in all
    segments by turns. The medians are told by how many of them are larger than these values. Needs
    pandas.
    """

    def draw(values, people, size, random_state):
        import pandas as pd

        n_columns = min(size, MOST_COLUMNS)
        n_more = len(values) - 2
        column = np.append(np.repeat(values[:2], N_SEGMENTS), values[2:])
        table = pd.DataFrame(np.tile(column[:, None], n_columns)).add_prefix("x")
        table["segment"] = np.arange(len(column)) % N_SEGMENTS
        owners = [*range(2 * N_SEGMENTS), *[-1] * n_more]
        arguments = {
            **budget_of(unit, n_columns),
            "by": "segment",
            "keys": list(range(N_SEGMENTS)),
            "groups": owners if with_groups else None,
            "random_state": random_state,
        }
        outcomes = []
        for _ in range(-(-size // n_columns)):
            described = dp_describe(table, percentiles=0.5, **arguments).to_numpy()
            counts, medians = described[:, ::2], described[:, 1::2]
            is_large = medians > values[0]
            outcomes.append(np.column_stack((is_large.sum(axis=0), counts.sum(axis=0))))
        return np.concatenate(outcomes)[:size]

    return draw


def wide_categories(encoder, with_groups=False):
    """Return a function that draws how many categories are found, in many columns at once.

    All records have one category, so one record more makes it easier to find.
    """

    def draw(values, people, size, random_state):
        n_columns = min(size, MOST_COLUMNS)
        X = np.full((len(values), n_columns), "a", dtype=object)
        fitted = encoder(
            eps=CLAIMS["eps"] * n_columns,
            delta=DELTA_OF_COLUMN * n_columns,
            random_state=random_state,
        )
        outcomes = []
        for _ in range(-(-size // n_columns)):
            fitted.fit(X, groups=people if with_groups else None)
            outcomes.append([categories.size for categories in fitted.categories_])
        return np.concatenate(outcomes)[:size, None]

    return draw


def value_counts(keys=None, with_groups=False):
    """Return a function that draws the count of a label that all records have, 0 if not found."""

    def draw(values, people, size, random_state):
        labels = np.full(len(values), "a")
        arguments = {
            "keys": keys,
            "eps": CLAIMS["eps"],
            "delta": DELTA_OF_COUNTS,
            "groups": people if with_groups else None,
            "random_state": random_state,
        }
        counts = [dp_value_counts(labels, **arguments) for _ in range(size)]
        return np.array([[of_label.get("a", 0)] for of_label in counts])

    return draw


def one_by_one(function, unit):
    """Return a function that draws outcomes of a release of a few numbers."""

    def draw(values, people, size, random_state):
        arguments = {**budget_of(unit), "random_state": random_state}
        return np.array([function(values, **arguments) for _ in range(size)]).reshape(size, -1)

    return draw


def histogram(values, **arguments):
    return dp_histogram(values, [0.0, 1e3, 1e10, 1e19], **arguments)[0]


def all_audits():
    audits = []
    for unit in CLAIMS:
        one = FAR if unit == "eps" else NEAR
        one_of_counts = FAR_OF_COUNTS if unit == "eps" else NEAR_OF_COUNTS
        of_auto = NEAR_OF_COUNTS if unit == "eps" else NEAR  # it takes AQ for rho
        audits += [
            Audit("aq, 1 quantile", unit, wide_table("aq", unit), one),
            Audit("agg_tree, 1 quantile", unit, wide_table("agg_tree", unit), one_of_counts),
            Audit("aq, 2 quantiles", unit, wide_table("aq", unit, 2)),
            Audit("auto, 2 quantiles", unit, wide_table("auto", unit, 2), of_auto),
            Audit("aq, 2 features", unit, wide_table("aq", unit, n_features=2)),
        ]
        of_people = wide_table("aq", unit, fit=fit_people)
        audits.append(Audit("aq, people", unit, of_people, one, 3))
        in_batches = wide_table("aq", unit, fit=fit_people_in_batches)
        audits.append(Audit("batches, aq, people", unit, in_batches, NEAR, 3))
        if find_spec("dask") is not None:
            audits.append(Audit("dask, aq", unit, wide_table("aq", unit, fit=fit_dask)))
        audits += [
            Audit("DPRobustScaler", unit, wide_scaler(unit)),
            Audit("dp_count", unit, one_by_one(dp_count, unit)),
            Audit("dp_histogram", unit, one_by_one(histogram, unit)),
            Audit("dp_describe", unit, wide_description(unit)),
            Audit("dp_describe, 2 columns", unit, wide_description(unit, 2)),
            Audit("dp_describe, people", unit, wide_description(unit, 1, True), NEAR, 3),
        ]
        if find_spec("pandas") is not None:
            of_people = wide_segments(unit, with_groups=True)
            audits += [
                Audit("segments", unit, wide_segments(unit)),
                Audit("segments, people", unit, of_people, NEAR, N_SEGMENTS),
            ]
    return audits + audits_of_categories()


def audits_of_categories():
    """Return the audits of releases that have a delta, or count labels; they have no rho."""
    audits = []
    for encoder in (DPOneHotEncoder, DPOrdinalEncoder):
        name = encoder.__name__
        of_people = wide_categories(encoder, with_groups=True)
        audits += [
            Audit(name, "eps", wide_categories(encoder), delta=DELTA_OF_COLUMN),
            Audit(f"{name}, people", "eps", of_people, NEAR, 3, DELTA_OF_COLUMN),
        ]

    of_people = value_counts(with_groups=True)
    return [
        *audits,
        Audit("dp_value_counts", "eps", value_counts(), delta=DELTA_OF_COUNTS),
        Audit("dp_value_counts, people", "eps", of_people, NEAR, 3, DELTA_OF_COUNTS),
        Audit("dp_value_counts, keys", "eps", value_counts(keys=["a"])),
    ]


def outcomes_of_neighbours(audit, size, random_state):
    """Draw from two datasets of which the second has one person more."""
    values, people, n_more = [audit.number] * 2, [0, 1], audit.n_rows_of_person
    neighbours = (values, people), (values + [LARGER] * n_more, people + [2] * n_more)
    return [
        audit.draw(np.array(numbers), labels, size, random_state) for numbers, labels in neighbours
    ]


def cells_of(outcomes, training):
    """Sort outcomes into cells, whose edges follow from the `training` outcomes."""
    n_numbers = outcomes.shape[1]
    n_parts = max(int(N_CELLS ** (1 / n_numbers)), 2)
    shares = np.arange(1, n_parts) / n_parts
    cells = np.zeros(len(outcomes), dtype=int)
    for number in range(n_numbers):
        edges = np.quantile(training[:, number], shares)
        cells = n_parts * cells + np.searchsorted(edges, outcomes[:, number])
    return np.bincount(cells, minlength=n_parts**n_numbers)


def bounds_of_chances(n_hits, n_misses, n_trials, failure_chance):
    """Return a lower bound of the one chance and an upper bound of the other (Clopper-Pearson)."""
    low = beta.ppf(failure_chance / 2, n_hits, n_trials - n_hits + 1)
    high = beta.ppf(1 - failure_chance / 2, n_misses + 1, n_trials - n_misses)
    return np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=1.0)


def least_loss(unit, p, q, delta=0.0):
    """Return the least privacy loss with which an event can have the chances p > q; else 0."""
    p, q = p - delta, np.asarray(q)
    p, q = np.minimum(np.maximum(p, q), 1 - 1e-12), np.minimum(q, 1 - 1e-12)
    log_ratio, log_rest = np.log(p / q), np.log((1 - p) / (1 - q))
    if unit == "eps":
        return log_ratio
    # Of the Bernoulli distributions of the event.
    divergences = [
        np.log(p * np.exp((order - 1) * log_ratio) + (1 - p) * np.exp((order - 1) * log_rest))
        / (order - 1)
        for order in ORDERS
    ]
    return np.max([d / order for d, order in zip(divergences, ORDERS, strict=True)], axis=0)


def lower_bound(unit, one, other, failure_chance, delta=0.0):
    """Return a lower bound of the loss from outcomes under two datasets, in both directions."""
    half = len(one) // 2
    training = np.concatenate((one[:half], other[:half]))
    chosen = [cells_of(outcomes[:half], training) for outcomes in (one, other)]
    counted = [cells_of(outcomes[half : 2 * half], training) for outcomes in (one, other)]
    bounds = []
    for first, second in ((0, 1), (1, 0)):
        # The best events are unions of the cells with the largest ratios.
        order = np.argsort(-(chosen[first] + 0.5) / (chosen[second] + 0.5))
        hits, misses = (np.cumsum(chosen[index][order]) for index in (first, second))
        chances = bounds_of_chances(hits, misses, half, failure_chance)
        n_cells = int(np.argmax(least_loss(unit, *chances, delta))) + 1
        event = order[:n_cells]
        hits, misses = (counted[index][event].sum() for index in (first, second))
        chances = bounds_of_chances(hits, misses, half, failure_chance / 2)
        bounds.append(least_loss(unit, *chances, delta))
    return float(max(bounds))


def bounds_of_audits(audits, n_samples, seed=None):
    """Yield each audit with its number of samples and the lower bound of its loss."""
    random_state = None if seed is None else np.random.RandomState(seed)
    for audit in audits:
        size = audit.size(n_samples)
        outcomes = outcomes_of_neighbours(audit, size, random_state)
        failure_chance = FAILURE_CHANCE / len(audits)
        yield audit, size, lower_bound(audit.unit, *outcomes, failure_chance, audit.delta)


def run(audits, n_samples, seed=None):
    """Print the bounds beside the claims; return how many of them exceed theirs."""
    n_exceeded = 0
    print(f"{'release':24} {'claim':>8} {'at least':>9} {'samples':>9}")
    for audit, size, bound in bounds_of_audits(audits, n_samples, seed):
        claim = CLAIMS[audit.unit]
        verdict = "  EXCEEDED" if bound > claim else ""
        n_exceeded += bound > claim
        print(f"{audit.name:24} {audit.unit} {claim:4g} {bound:9.3f} {size:9}{verdict}", flush=True)
    return n_exceeded


def measure(n_samples):
    """Return the bounds beside the claims, as a table of the documentation."""
    from results import Number, Table

    rows = {}
    for audit, size, bound in bounds_of_audits(all_audits(), n_samples, seed=0):
        claim = f"{audit.unit} = {CLAIMS[audit.unit]:g}"
        rows[f"{audit.name}, {audit.unit}"] = [claim, Number(bound, 0.0, 3), f"{size:,}"]
    return Table(
        title="Lower bounds of the observed cost of each release. They hold together with a "
        "probability of 99.9%.",
        columns=["release", "stated cost", "observed cost, at least", "samples"],
        rows=rows,
        trials=1,
    )


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    parser.add_argument("--samples", type=int, default=4000, help="outcomes of each dataset")
    parser.add_argument("--seed", type=int, default=None, help="for a run that can be repeated")
    options = parser.parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyNoiseWarning)
        n_exceeded = run(all_audits(), options.samples, options.seed)
    print(f"{n_exceeded} claims exceeded." if n_exceeded else "No claim is exceeded.")
    return 1 if n_exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
