"""What does delta buy, in a fit of its own and in one that a ledger adds up with others?

Mean number of records between edge and truth at eps = 1, delta = 1e-6, for n = 10,000 records of
N(0, 5) in every feature, without bounds. Of the accounts that a plan may choose from, a ledger
leaves out optimal composition. Standard errors are over the trials.

    python examples/benchmarks/measured.py delta
"""

import numpy as np
from results import Number, Table

from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.releases.plans import plan_quantiles
from dpq_sklearn.releases.request import Column, Request, even_probabilities

N_RECORDS = 10_000
SIZES = ((1, 32), (1, 128), (10, 5), (30, 5), (30, 32))
REQUESTS = {
    "eps alone": {"budget": TotalBudget(1.0)},
    "delta, with a ledger": {"budget": TotalBudget(1.0, 1e-6), "has_ledger": True},
    "delta, without a ledger": {"budget": TotalBudget(1.0, 1e-6)},
}


def plan_of(n_features, n_bins, request):
    columns = [Column(even_probabilities(n_bins))] * n_features
    return plan_quantiles(Request(columns, **request))


def mean_rank_error(plan, values, seed):
    """Return the error of one release, from `values` of shape (n_features, n), ascending."""
    ranks = SortedRanks.of_rows(values, plan.grid)
    probabilities = plan.request.probabilities
    mechanism = plan.request.mechanism
    released = mechanism.draw(ranks, probabilities, plan.budgets, make_randomness(seed))
    errors = [
        np.searchsorted(x, plan.grid.lower_edges(cells, column)) - np.multiply(q, x.size)
        for column, (x, cells, q) in enumerate(zip(values, released, probabilities, strict=True))
    ]
    return np.abs(errors).mean()


def measure(trials):
    """Return the mean rank errors with each kind of budget."""
    rows = {}
    for n_features, n_bins in SIZES:
        plans = [plan_of(n_features, n_bins, request) for request in REQUESTS.values()]
        errors = np.empty((len(plans), trials))
        for trial in range(trials):
            rng = np.random.default_rng((n_features, n_bins, trial))
            values = np.sort(rng.normal(0, 5, (n_features, N_RECORDS)), axis=1)
            errors[:, trial] = [mean_rank_error(plan, values, trial) for plan in plans]
        label = f"{n_features} feature{'s' * (n_features > 1)}, {n_bins} bins"
        rows[label] = [Number.of(of_plan, 2) for of_plan in errors]
        rows[label].append(plans[-1].loss.account)

    return Table(
        title="Rows between an edge and the exact quantile, for 10,000 rows of N(0, 5) in each "
        "feature, without bounds, at eps=1 and delta=1e-6.",
        columns=["", *REQUESTS, "account without a ledger"],
        rows=rows,
        trials=trials,
    )
