"""
How accurate are the quantiles, beside other libraries with the same public bounds?

Sixteen made-up columns: whole numbers, counts with many zeros, money, and continuous shapes. All
methods get the same rows, quantiles, bounds and eps. What a peer answers counts as it is and, where
the column has a lattice, rounded to it: the better one of the two. Ours knows the lattice by
`decimals` and has `mechanism="auto"`, which the user guide recommends for columns with a lattice
and bounds; "aq" is the same call with the default mechanism.

The error of a quantile is the number of rows between its rank and the ranks of the released value.
Every method gets some seconds of the processor for a case, so that slow ones have fewer trials and
a larger standard error. A case is lost if the best peer is better by more than two standard errors
of the difference.

    python examples/benchmarks/peers.py [--seconds 0.5] [--rows 500 5000 100000]

The peers are optional: pip install opendp diffprivlib python-dp. A peer that cannot be imported is
left out, and the output says so. Of 100,000 rows, JointExp is left out where it would need
gigabytes (31 quantiles), and diffprivlib where a trial takes seconds (more than one quantile, which
share eps in equal parts there). Where diffprivlib raises, with many ties, the lower bound counts as
its answer.
"""

import argparse
import sys
import time
from collections import namedtuple
from functools import lru_cache
from pathlib import Path

import numpy as np

from dpq_sklearn import dp_quantiles

sys.path.insert(0, str(Path(__file__).parents[1] / "paper"))
from published_aq import published_aq
from published_joint_exp import published_joint_exp

EPS = 1.0
NUMBERS_OF_QUANTILES = (1, 4, 9, 31)
N_SAMPLES = 8  # tables of each size, which all methods take in turn
LEAST_TRIALS, MOST_TRIALS = 4, 200
# Trials that would take too long, or too much memory.
IS_TOO_MUCH = {"JointExp": lambda n, m: n * m**2 > 2**24, "diffprivlib": lambda n, m: n * m > 2**18}
MOST_LEAVES = 2**12

Column = namedtuple("Column", "kind name bounds decimals sample")


def with_zeros(rng, values, share):
    return np.where(rng.random(values.size) < share, 0.0, values)


COLUMNS = [
    Column("whole", "ratings", (1, 5), 0,
           lambda rng, n: rng.choice(np.arange(1.0, 6.0), n, p=[0.05, 0.1, 0.2, 0.4, 0.25])),
    Column("whole", "ages", (0, 120), 0,
           lambda rng, n: np.floor(95 * rng.beta(2, 2.5, n))),
    Column("whole", "hours", (0, 100), 0,
           lambda rng, n: np.where(rng.random(n) < 0.45, 40.0, rng.normal(40, 13, n).round())),
    Column("whole", "years", (1900, 2030), 0,
           lambda rng, n: rng.normal(1975, 14, n).round()),
    Column("zeros", "children", (0, 10), 0,
           lambda rng, n: rng.poisson(0.5, n).astype(float)),
    Column("zeros", "visits", (0, 100), 0,
           lambda rng, n: with_zeros(rng, rng.geometric(0.2, n).astype(float), 0.6)),
    Column("zeros", "gains", (0, 100_000), 0,
           lambda rng, n: with_zeros(rng, rng.lognormal(8, 1, n).round(), 0.8)),
    Column("zeros", "claims", (0, 100_000), 2,
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


OURS = {"auto": auto, "aq": aq}
PEERS = {
    "OpenDP": opendp_tree,
    "diffprivlib": diffprivlib,
    "PyDP": pydp_tree,
    "published AQ": aq_of_the_paper,
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


def peers_that_work():
    """Return the peers that can be imported, and say which cannot."""
    working = {}
    x = np.random.default_rng(0).normal(size=200)
    column = COLUMNS[-4]
    for name, method in PEERS.items():
        try:
            method(x, np.array([0.5]), column, np.random.default_rng(0))
        except ImportError as error:
            print(f"{name} is left out: {error}")
        else:
            working[name] = method
    return working


# Errors


def rows_off(sorted_x, q, values):
    """Return the mean number of rows between the ranks wanted and those of the values."""
    wanted = q * sorted_x.size
    below = np.searchsorted(sorted_x, values, side="left")
    up_to = np.searchsorted(sorted_x, values, side="right")
    return np.maximum(np.maximum(below - wanted, wanted - up_to), 0).mean()


def errors_of(method, samples, q, column, seconds):
    """Return the errors of a method, as it answers and rounded to the lattice: (n_trials, 2)."""
    errors = []
    begin = time.process_time()
    while len(errors) < LEAST_TRIALS or (
        len(errors) < MOST_TRIALS and time.process_time() - begin < seconds
    ):
        x, sorted_x = samples[len(errors) % len(samples)]
        values = np.sort(method(x, q, column, np.random.default_rng(len(errors))))
        is_known = column.decimals is not None
        rounded = values.round(column.decimals) if is_known else values
        errors.append([rows_off(sorted_x, q, answer) for answer in (values, rounded)])
    return np.array(errors)


Error = namedtuple("Error", "method mean deviation n_trials")


def best_answer(name, errors):
    """Return the better one of what a method answers and what it is rounded to."""
    kind = errors.mean(axis=0).argmin()
    of_trials = errors[:, kind]
    deviation = of_trials.std(ddof=1) / np.sqrt(len(of_trials))
    rounded = ", rounded" if kind == 1 else ""
    return Error(name + rounded, of_trials.mean(), deviation, len(of_trials))


def case(column, samples, m, peers, seconds):
    """Return the `Error` of both calls of ours and of the best peer."""
    q = np.arange(1, m + 1) / (m + 1)
    n = samples[0][0].size
    found = {}
    for name, method in {**OURS, **peers}.items():
        if name in IS_TOO_MUCH and IS_TOO_MUCH[name](n, m):
            continue
        found[name] = best_answer(name, errors_of(method, samples, q, column, seconds))
    best = min((found[name] for name in peers if name in found), key=lambda error: error.mean)
    return [*(found[name] for name in OURS), best]


def is_lost(ours, best):
    return ours.mean - best.mean > 2 * np.hypot(ours.deviation, best.deviation)


def print_case(n, m, column, errors):
    cells = [f"{e.mean:9.2f} +- {e.deviation:6.2f} ({e.n_trials:3})" for e in errors]
    verdict = "lost" if is_lost(errors[0], errors[-1]) else ""
    ratio = f"{errors[0].mean / errors[-1].mean:.2f}" if errors[-1].mean > 0 else "-"
    print(
        f"{n:7,} {m:3} {column.kind:10} {column.name:16} {'  '.join(cells)} "
        f"{errors[-1].method:22} {ratio:>6} {verdict}",
        flush=True,
    )


def print_summary(cases):
    kinds = dict.fromkeys(column.kind for column in COLUMNS)
    print("\nerror of ours over that of the best peer: ratio of the sums over columns and rows")
    print(f"{'':11}" + "".join(f"{f'm = {m}':>9}" for m in NUMBERS_OF_QUANTILES))
    for kind in kinds:
        ratios = []
        for m in NUMBERS_OF_QUANTILES:
            of_kind = [errors for (_, k, column), errors in cases if (k, column.kind) == (m, kind)]
            ours, best = (sum(errors[i].mean for errors in of_kind) for i in (0, -1))
            ratios.append(f"{ours / best:.2f}" if best > 0 else "-")
        print(f"{kind:11}" + "".join(f"{ratio:>9}" for ratio in ratios))

    for index, name in enumerate(OURS):
        lost = [(which, errors) for which, errors in cases if is_lost(errors[index], errors[-1])]
        won = sum(is_lost(errors[-1], errors[index]) for _, errors in cases)
        print(
            f'\nmechanism="{name}": of {len(cases)} cases, {won} won and {len(lost)} lost by more '
            "than two standard errors"
        )
        for (n, m, column), errors in lost:
            print(
                f"  {column.name}, n = {n:,}, m = {m}: {errors[index].mean:.2f} rows, "
                f"{errors[-1].method} {errors[-1].mean:.2f}"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="for each method and case")
    parser.add_argument("--rows", type=int, nargs="*", default=[500, 5000, 100_000])
    options = parser.parse_args()

    peers = peers_that_work()
    print(f"eps = {EPS:g}, mean rank error in rows, s.e. and (trials); best peer, ratio to it")
    print(
        f"{'rows':>7} {'m':>3} {'':10} {'column':16} {'auto':>9} {'':17} {'aq':>9} {'':17} "
        f"{'peer':>9}"
    )
    cases = []
    for n in options.rows:
        for column in COLUMNS:
            rng = np.random.default_rng(n)
            samples = [column.sample(rng, n).clip(*column.bounds) for _ in range(N_SAMPLES)]
            samples = [(x, np.sort(x)) for x in samples]
            for m in NUMBERS_OF_QUANTILES:
                errors = case(column, samples, m, peers, options.seconds)
                print_case(n, m, column, errors)
                cases.append(((n, m, column), errors))
    print_summary(cases)


if __name__ == "__main__":
    main()
