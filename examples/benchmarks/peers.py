"""How accurate are the quantiles, compared with other libraries with the same public bounds?

    pip install opendp diffprivlib python-dp "scikit-learn<1.8"
    python examples/benchmarks/measured.py peers

Sixteen made-up columns: whole numbers, counts with many zeros, money, and continuous shapes. All
methods get the same rows, quantiles, bounds and eps. The answer of a peer counts as it is and, if
the column has a declared precision, rounded to it: the better one of the two. Ours knows the
precision by `decimals`. "auto" has `mechanism="auto"`, which the user guide recommends for columns
with declared precision and bounds; "aq" is the same call with the default mechanism.

The error of a quantile is the number of rows between its rank and the ranks of the released value.
A case is lost if the best peer is better by more than two standard errors of the difference.

Several quantiles of diffprivlib share eps in equal parts. If it raises an error because of many
ties, the lower bound counts as its answer.
"""

import sys
from collections import namedtuple
from functools import lru_cache
from pathlib import Path

import numpy as np
from results import Number, Table

from dpq_sklearn import dp_quantiles

sys.path.insert(0, str(Path(__file__).parents[1] / "paper"))
from published_aq import published_aq
from published_joint_exp import published_joint_exp

EPS = 1.0
NUMBERS_OF_QUANTILES = (1, 4, 9, 31)
N_ROWS = 5_000
MOST_LEAVES = 2**12

Column = namedtuple("Column", "kind name bounds decimals sample")


def with_zeros(rng, values, share):
    return np.where(rng.random(values.size) < share, 0.0, values)


COLUMNS = [
    Column("whole numbers", "ratings", (1, 5), 0,
           lambda rng, n: rng.choice(np.arange(1.0, 6.0), n, p=[0.05, 0.1, 0.2, 0.4, 0.25])),
    Column("whole numbers", "ages", (0, 120), 0,
           lambda rng, n: np.floor(95 * rng.beta(2, 2.5, n))),
    Column("whole numbers", "hours", (0, 100), 0,
           lambda rng, n: np.where(rng.random(n) < 0.45, 40.0, rng.normal(40, 13, n).round())),
    Column("whole numbers", "years", (1900, 2030), 0,
           lambda rng, n: rng.normal(1975, 14, n).round()),
    Column("many zeros", "children", (0, 10), 0,
           lambda rng, n: rng.poisson(0.5, n).astype(float)),
    Column("many zeros", "visits", (0, 100), 0,
           lambda rng, n: with_zeros(rng, rng.geometric(0.2, n).astype(float), 0.6)),
    Column("many zeros", "gains", (0, 100_000), 0,
           lambda rng, n: with_zeros(rng, rng.lognormal(8, 1, n).round(), 0.8)),
    Column("many zeros", "claims", (0, 100_000), 2,
           lambda rng, n: with_zeros(rng, rng.lognormal(6, 1, n).round(2), 0.6)),
    Column("money", "incomes", (0, 1_000_000), 2,
           lambda rng, n: rng.lognormal(10.4, 0.7, n).round(2)),
    Column("money", "prices", (0, 10_000), 2,
           lambda rng, n: np.floor(rng.lognormal(3, 1, n)) + 0.99),
    Column("money", "salaries", (0, 1_000_000), -3,
           lambda rng, n: rng.lognormal(10.8, 0.5, n).round(-3)),
    Column("money", "tips", (0, 100), 2,
           lambda rng, n: (4 * rng.gamma(2, 2, n)).round() / 4),
    Column("continuous", "N(0, 5)", (-100, 100), None,
           lambda rng, n: rng.normal(0, 5, n)),
    Column("continuous", "uniform(0, 1)", (0, 1), None,
           lambda rng, n: rng.uniform(0, 1, n)),
    Column("continuous", "lognormal(3, 1)", (0, 10_000), None,
           lambda rng, n: rng.lognormal(3, 1, n)),
    Column("continuous", "exponential(10)", (0, 1_000), None,
           lambda rng, n: rng.exponential(10, n)),
]  # fmt: skip


# Ours


def auto(x, q, column, rng):
    known = {"bounds": column.bounds, "decimals": column.decimals}
    return dp_quantiles(x, q, eps=EPS, **known, mechanism="auto", random_state=seed(rng))


def aq(x, q, column, rng):
    known = {"bounds": column.bounds, "decimals": column.decimals}
    return dp_quantiles(x, q, eps=EPS, **known, random_state=seed(rng))


def seed(rng):
    return int(rng.integers(2**31))


# Peers


def opendp_tree(x, q, column, rng):
    return np.array(_opendp_tree(tuple(q), column)(x))


@lru_cache(maxsize=1)
def _opendp_tree(q, column):
    """Return OpenDP's measurement: noisy counts of a tree over bins, made consistent."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    n_points = points_of(column)
    low, high = column.bounds
    half = 0.5 * unit_of(column)
    n_leaves = min(n_points, MOST_LEAVES)
    edges = np.linspace(low - half, high + half, n_leaves + 1).tolist()
    edges[-1] = float(np.nextafter(edges[-1], np.inf))

    branching = dp.t.choose_branching_factor(n_leaves)
    rows = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    tree = (
        rows
        >> dp.t.then_find_bin(edges=edges)
        >> dp.t.then_count_by_categories(list(range(1, n_leaves + 1)), null_category=False)
        >> dp.t.then_b_ary_tree(leaf_count=n_leaves, branching_factor=branching)
    )
    noisy = dp.binary_search_chain(
        lambda scale: tree >> dp.m.then_laplace(scale=scale), d_in=1, d_out=EPS
    )
    return (
        noisy
        >> dp.t.make_consistent_b_ary_tree(branching_factor=branching)
        >> dp.t.make_quantiles_from_counts(edges, list(q))
    )


def diffprivlib(x, q, column, rng):
    from diffprivlib import BudgetAccountant
    from diffprivlib.tools import quantile

    options = {"bounds": column.bounds, "accountant": BudgetAccountant()}
    try:
        return np.ravel(quantile(x, list(q), epsilon=EPS, **options))
    except RuntimeError:  # where all weights underflow, with many ties, it has no answer
        return np.full(q.size, column.bounds[0])


def pydp_tree(x, q, column, rng):
    from pydp.algorithms.quantile_tree import QuantileTree

    half = 0.5 * unit_of(column)
    height, branching = 4, 16  # the library's own defaults
    tree = QuantileTree(column.bounds[0] - half, column.bounds[1] + half, height, branching)
    for value in x.tolist():
        tree.add_entry(value)
    return np.array(tree.compute_quantiles(EPS, 0.0, 1, 1, list(q), "laplace"))


def aq_of_the_paper(x, q, column, rng):
    return published_aq(np.sort(x), q, *column.bounds, EPS, rng)


def joint_exp(x, q, column, rng):
    return published_joint_exp(np.sort(x), q, *column.bounds, EPS, rng)


OURS = {"auto": auto, "AQ": aq}
PEERS = {
    "OpenDP": opendp_tree,
    "diffprivlib": diffprivlib,
    "PyDP": pydp_tree,
    "AQ, published": aq_of_the_paper,
    "JointExp": joint_exp,
}


def unit_of(column):
    return 0.0 if column.decimals is None else 10.0**-column.decimals


def points_of(column):
    """Return how many points lattice and bounds leave, or infinitely many."""
    if column.decimals is None:
        return np.inf
    low, high = column.bounds
    return round((high - low) / unit_of(column)) + 1


# Errors


def rows_off(sorted_x, q, values):
    """Return the mean number of rows between the ranks wanted and those of the values."""
    wanted = q * sorted_x.size
    below = np.searchsorted(sorted_x, values, side="left")
    up_to = np.searchsorted(sorted_x, values, side="right")
    return np.maximum(np.maximum(below - wanted, wanted - up_to), 0).mean()


def errors_of(method, column, m, trials):
    """Return the error of each trial: of the answers, or of those rounded to the precision."""
    q = np.arange(1, m + 1) / (m + 1)
    errors = np.empty((trials, 2))
    for trial in range(trials):
        x = column.sample(np.random.default_rng((m, trial)), N_ROWS).clip(*column.bounds)
        values = np.sort(method(x, q, column, np.random.default_rng(trial)))
        rounded = values if column.decimals is None else values.round(column.decimals)
        errors[trial] = [rows_off(np.sort(x), q, answer) for answer in (values, rounded)]
    return errors[:, errors.mean(axis=0).argmin()]


def is_lost(ours, best):
    """Return whether the errors of ours are larger by more than two standard errors."""
    deviation = np.hypot(ours.std(ddof=1), best.std(ddof=1)) / np.sqrt(ours.size)
    return ours.mean() - best.mean() > 2 * deviation


def measure(trials):
    """Return the errors of all methods, the mean over the columns of each kind."""
    rows = {}
    won = lost = n_cases = 0
    for kind in dict.fromkeys(column.kind for column in COLUMNS):
        columns = [column for column in COLUMNS if column.kind == kind]
        for m in NUMBERS_OF_QUANTILES:
            found = {
                name: np.array([errors_of(method, column, m, trials) for column in columns])
                for name, method in (OURS | PEERS).items()
            }
            rows[f"{kind}, {m} quantile{'s' * (m > 1)}"] = [
                Number.of(errors.mean(axis=0), 1) for errors in found.values()
            ]
            for case, ours in enumerate(found["auto"]):
                best = min((found[name][case] for name in PEERS), key=np.mean)
                n_cases += 1
                won += is_lost(best, ours)
                lost += is_lost(ours, best)

    return Table(
        title=f"Rows between a released quantile and the exact one, for {N_ROWS:,} rows of four "
        "columns of each kind, with the same bounds and eps = 1. The first two columns are "
        '`dp_quantiles` with `mechanism="auto"` and with the default. A case is a column and a '
        f"number of quantiles. In {won} of {n_cases} cases, `auto` has a smaller error than the "
        f"best peer by more than two standard errors, and in {lost} cases a larger one.",
        columns=["", *OURS, *PEERS],
        rows=rows,
        trials=trials,
    )
