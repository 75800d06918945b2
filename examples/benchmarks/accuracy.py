"""
How accurate are the quantiles, beside two readings of the paper?

Mean number of records between estimate and truth, averaged over the quantiles i / (m + 1), for
n = 1000 records of N(0, 5). Prints a table with standard errors over the trials, then the ratios
of the means over all m.

    python examples/benchmarks/accuracy.py [--trials 300] [--jobs 2]
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from dpq_sklearn import dp_quantiles

sys.path.insert(0, str(Path(__file__).parents[1] / "paper"))
from published_aq import as_written_aq, published_aq

N_RECORDS = 1000
LOW, HIGH = -100.0, 100.0
NUMBERS = (1, 3, 4, 7, 9, 15, 19, 31, 63, 99)
BUDGETS = {"eps = 1": {"eps": 1.0}, "rho = 1/2": {"eps": None, "rho": 0.5}}
METHODS = ("ours", "ours, no bounds", "as published", "as written")


def estimates(method, x, q, budget, rng):
    if method == "ours":
        return dp_quantiles(x, q, bounds=(LOW, HIGH), **budget)
    if method == "ours, no bounds":
        return dp_quantiles(x, q, **budget)
    reading = published_aq if method == "as published" else as_written_aq
    return reading(np.sort(x), q, LOW, HIGH, budget["eps"], rng, budget.get("rho"))


def mean_rank_error(method, m, budget, seed):
    rng = np.random.default_rng((m, seed))
    x, q = rng.normal(0, 5, N_RECORDS), np.arange(1, m + 1) / (m + 1)
    below = np.searchsorted(np.sort(x), estimates(method, x, q, budget, rng))
    return np.abs(below - np.floor(q * N_RECORDS)).mean()


def table(budget, trials, jobs):
    cells = [(m, method) for m in NUMBERS for method in METHODS]
    errors = Parallel(n_jobs=jobs, batch_size=50)(
        delayed(mean_rank_error)(method, m, budget, seed)
        for m, method in cells
        for seed in range(trials)
    )
    errors = np.reshape(errors, (len(NUMBERS), len(METHODS), trials))
    return errors.mean(axis=2), errors.std(axis=2, ddof=1) / np.sqrt(trials)


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    for name, budget in BUDGETS.items():
        means, errors = table(budget, options.trials, options.jobs)
        print(f"\n{name}, n = {N_RECORDS}, N(0, 5), {options.trials} trials: mean rank error")
        print("   m " + "".join(f"{method:>20}" for method in METHODS))
        for row, m in enumerate(NUMBERS):
            cells = (f"{a:.2f} +- {b:.2f}" for a, b in zip(means[row], errors[row], strict=True))
            print(f"{m:4} " + "".join(f"{cell:>20}" for cell in cells))
        overall = means.mean(axis=0)
        for column in (2, 3):
            ratios = ", ".join(f"{METHODS[i]} {overall[i] / overall[column]:.2f}" for i in (0, 1))
            print(f"times the error {METHODS[column]}, over all m: {ratios}")


if __name__ == "__main__":
    main()
