"""The experiments: datasets, mechanisms, error metric, and one function for each experiment.

Every experiment is a list of independent jobs `(function, arguments)` whose results are lists of
rows (dicts), so that they can run in any order and in any number of processes.
"""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from ind_exp import IndependentExponential
from joint_exp import JointExponential
from published_aq import published_aq
from published_joint_exp import published_joint_exp
from tables import SHOWN_M

from dpq_sklearn import dp_quantiles, sanitize
from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.forecast.worst_cases import rank_error_bound
from dpq_sklearn.mechanisms import registry
from dpq_sklearn.releases.plans import plan_quantiles
from dpq_sklearn.releases.request import Column, Request

# The baselines keep the package's protocol of mechanisms, so `dp_quantiles` can run them by name.
registry.MECHANISMS.update(joint_exp=JointExponential(), ind_exp=IndependentExponential())

DOMAIN = (-100.0, 100.0)
N_RECORDS = 1000
DELTA = 1e-6
# AQ is run for every m up to 35 and for every fifth beyond; the slower mechanisms for some of
# these only, JointExp for still fewer. So the whole takes less than an hour.
MANY_M = (*range(1, 36), 40, 45, 50, 55, 60, 63, 64, *range(70, 121, 5))
SOME_M = (*range(1, 13), 15, 16, 20, 25, 31, 35, 50, 63, 80, 100, 120)
JOINT_M = (*range(1, 13), 15, 16, 20, 25, 31, 35, 50, 80, 120)
TIME_M = (1, 3, 7, 15, 31, 63, 120)
SYNTHETIC = ("uniform", "gaussian")
REAL = ("goodreads_rating", "goodreads_pages", "adult_hours", "adult_age")
NAMES = (*SYNTHETIC, *REAL)


def load_datasets(folder):
    """Return {name: values}, and the names of the real columns that are not in `folder`."""
    rng = np.random.default_rng(0)
    datasets = {
        "uniform": rng.uniform(-5, 5, size=10_000),
        "gaussian": rng.normal(0, 5, size=10_000),
    }
    missing = []
    for name in REAL:
        path = Path(folder) / f"{name}.csv" if folder else None
        if path is None or not path.exists():
            missing.append(name)
            continue
        values = np.loadtxt(path, skiprows=1)
        datasets[name] = values / 100 if name == "goodreads_pages" else values
    return datasets, missing


def uniform_quantiles(m):
    return np.arange(1, m + 1) / (m + 1)


def mean_gap(values, x_sorted, quantiles):
    """Return the mean of |#{x < v} - floor(q n)|, a record equal to v counted as half."""
    below = np.searchsorted(x_sorted, values, side="left")
    up_to = np.searchsorted(x_sorted, values, side="right")
    return float(np.abs((below + up_to) / 2 - np.floor(quantiles * x_sorted.size)).mean())


def run(mechanism, x, quantiles, rho, seed):
    """Return the quantiles by one mechanism at eps = 1, or at `rho`; AppIndExp with DELTA."""
    if mechanism == "paper's AQ":
        rng = np.random.default_rng(seed)
        return published_aq(np.sort(x), quantiles, *DOMAIN, 1.0, rng, rho)
    if mechanism == "published JointExp":
        return published_joint_exp(np.sort(x), quantiles, *DOMAIN, 1.0, np.random.default_rng(seed))
    name = {"AQ": "aq", "JointExp": "joint_exp", "AppIndExp": "ind_exp", "AggTree": "agg_tree"}
    budget = {"eps": None, "rho": rho}
    if rho is None:
        budget = {"eps": 1.0, "delta": DELTA if mechanism == "AppIndExp" else 0.0}
    return dp_quantiles(
        x, quantiles, mechanism=name[mechanism], bounds=DOMAIN, random_state=seed, **budget
    )


MECHANISMS = {
    "AQ": MANY_M,
    "paper's AQ": MANY_M,
    "JointExp": JOINT_M,
    "AppIndExp": SOME_M,
    "AggTree": SOME_M,
}
# For a faster run: the slower mechanisms only for the m of the tables.
FEWER_M = MECHANISMS | dict.fromkeys(("JointExp", "AppIndExp", "AggTree"), SHOWN_M)


def seed_of(*numbers):
    """Return a seed that belongs to these numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def sample_of(datasets, dataset, trial, n=N_RECORDS):
    rng = np.random.default_rng([trial, NAMES.index(dataset), n])
    return rng.choice(datasets[dataset], size=n, replace=False)


def accuracy(datasets, dataset, trial, rho, mechanisms=MECHANISMS):
    """Figures 1 to 4: the error of every mechanism against m, for one sample of one dataset."""
    x = sample_of(datasets, dataset, trial)
    x_sorted = np.sort(x)
    rows = []
    for mechanism, numbers in mechanisms.items():
        for m in numbers:
            quantiles = uniform_quantiles(m)
            seed = seed_of(trial, m, NAMES.index(dataset))
            values = run(mechanism, x, quantiles, rho, seed)
            error = mean_gap(values, x_sorted, quantiles)
            rows.append({"dataset": dataset, "mechanism": mechanism, "m": m, "error": error})
    return rows


def run_time(datasets, dataset, trial):
    """Figure 5: the time of every mechanism against m, for one sample of one dataset."""
    x = sample_of(datasets, dataset, trial)
    rows = []
    for mechanism in (*MECHANISMS, "published JointExp"):
        for m in TIME_M:
            start = time.perf_counter()
            run(mechanism, x, uniform_quantiles(m), None, seed=trial)
            seconds = time.perf_counter() - start
            rows.append({"mechanism": mechanism, "m": m, "seconds": seconds})
    return rows


def bounds_or_not(datasets, dataset, trial):
    """Figure 6: the error of AQ with the domain as bounds and without any."""
    x = sample_of(datasets, dataset, trial)
    x_sorted = np.sort(x)
    rows = []
    for m in (1, 3, 7, 15, 31, 63, 120):
        quantiles = uniform_quantiles(m)
        for label, bounds in (("bounds", DOMAIN), ("no bounds", None)):
            seed = seed_of(trial, m, NAMES.index(dataset), 6)
            values = dp_quantiles(x, quantiles, bounds=bounds, random_state=seed)
            error = mean_gap(values, x_sorted, quantiles)
            rows.append({"dataset": dataset, "variant": label, "m": m, "error": error})
    return rows


def sample_size(trial):
    """Figure 7, left: the error of 7 quantiles against n, for gaussian records."""
    quantiles, rows = uniform_quantiles(7), []
    for n in (100, 1000, 10_000, 100_000, 1_000_000):
        x = np.random.default_rng([trial, n]).normal(0, 5, size=n)
        x_sorted = np.sort(x)
        for mechanism in ("AQ", "paper's AQ", "JointExp", "AppIndExp", "AggTree"):
            values = run(mechanism, x, quantiles, None, seed_of(trial, n))
            error = mean_gap(values, x_sorted, quantiles)
            rows.append({"mechanism": mechanism, "n": n, "error": error})
    return rows


def n_features(trial):
    """Figure 7, right: the error in one of d features that share (eps = 1, delta) equally."""
    quantiles, rows = uniform_quantiles(7), []
    x_sorted = np.sort(np.random.default_rng([trial, 7]).normal(0, 5, size=10_000))
    requests = {
        "pure": Request((), TotalBudget(1.0)),
        "with a ledger": Request((), TotalBudget(1.0, DELTA), has_ledger=True),
        "best": Request((), TotalBudget(1.0, DELTA)),
    }
    for d in (1, 2, 5, 10, 20, 50, 100):
        for accounting, request in requests.items():
            columns = [Column(quantiles, DOMAIN)] * d
            plan = plan_quantiles(replace(request, columns=columns))
            ranks = SortedRanks.of_rows(x_sorted[None, :], plan.grid[:1])
            randomness = make_randomness(seed_of(trial, d))
            (cells,) = plan.request.mechanism.draw(ranks, [quantiles], plan.budgets[:1], randomness)
            error = mean_gap(plan.grid.lower_edges(cells, 0), x_sorted, quantiles)
            rows.append({"accounting": accounting, "features": d, "error": error})
    return rows


def sanitized(datasets, dataset, trial, n_points=100):
    """The largest difference of counts over all intervals between two records, and its bound."""
    x_sorted = np.sort(datasets[dataset])
    seed = seed_of(trial, NAMES.index(dataset))
    points = sanitize(x_sorted, n_points, bounds=DOMAIN, random_state=seed)
    # Of records and of points, the share below each record and the share up to it.
    ends = np.unique(x_sorted)
    difference = [
        np.searchsorted(x_sorted, ends, side=side)
        - np.searchsorted(points, ends, side=side) * (x_sorted.size / n_points)
        for side in ("left", "right")
    ]
    quantiles = (np.arange(n_points) + 0.5) / n_points
    bound = 2 * rank_error_bound(quantiles, eps=1.0, beta=0.05)
    bound += x_sorted.size / n_points  # the points themselves are that coarse
    return [
        {
            "dataset": dataset,
            "records": x_sorted.size,
            "largest_difference": float(np.ptp(np.concatenate(difference))),
            "bound": bound,
        }
    ]


def jobs_of(datasets, trials, mechanisms=MECHANISMS):
    """Return {experiment: [(function, arguments)]}; `mechanisms` says for which m each is run."""
    names = list(datasets)
    samples = [(d, t) for t in range(trials) for d in names]
    slow_trials = min(trials, 20)  # the last two use up to a million records
    return {
        "1_accuracy_dp": [(accuracy, (*sample, None, mechanisms)) for sample in samples],
        "3_accuracy_zcdp": [(accuracy, (*sample, 0.5, mechanisms)) for sample in samples],
        "5_run_time": [(run_time, (d, t)) for t in range(min(trials, 3)) for d in names],
        "6_bounds": [(bounds_or_not, sample) for sample in samples],
        "7_sample_size": [(sample_size, (t,)) for t in range(slow_trials)],
        "7_features": [(n_features, (t,)) for t in range(trials)],
        "8_sanitize": [(sanitized, (d, t)) for t in range(slow_trials) for d in names],
    }
