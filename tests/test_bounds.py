"""The bound on the rank error holds as often as it says."""

import math

import numpy as np
import pytest

from dpq_sklearn import expected_rank_error, rank_error_bound
from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.forecast.expected_error import plan_alike
from dpq_sklearn.mechanisms.base_measure import step_measure

SKEWED = [0.02, 0.05, 0.4, 0.41, 0.97]
TRIALS = 1000


@pytest.mark.parametrize(
    ("quantiles", "budget", "psi"),
    [
        (6, {"eps": 1.0}, None),
        (SKEWED, {"eps": 1.0}, None),
        (6, {"eps": None, "rho": 0.5}, None),
        (6, {"eps": 1.0, "delta": 1e-6, "n_features": 8}, None),
        # 2000 records in a twentieth of the domain: a bound that the errors come near to.
        (6, {"eps": 1.0}, 50_000.0),
    ],
    ids=["uniform", "general", "concentrated", "composed", "narrow"],
)
def test_a_thousand_releases_exceed_the_bound_no_more_often_than_beta(quantiles, budget, psi):
    beta, n = 0.05, 2000
    bound = rank_error_bound(quantiles, beta=beta, psi=psi, **budget)
    n_features = budget.get("n_features", 1)
    total = {name: amount for name, amount in budget.items() if name != "n_features"}
    plan = plan_alike(quantiles, n_features, TotalBudget(**total))
    values, bounds = (np.arange(n) + 0.5) / n, (-9.5, 10.5)
    ranks = SortedRanks.of_rows(np.tile(values, (TRIALS, 1)), make_grid([bounds] * TRIALS))
    wanted, of_feature = plan.request.probabilities[0], plan.budgets[0]
    cells = plan.request.mechanism.draw(
        ranks, [wanted] * TRIALS, [of_feature] * TRIALS, make_randomness(None)
    )
    released = ranks.grid.lower_edges(np.array(cells), np.arange(TRIALS)[:, None])
    errors = np.abs(np.searchsorted(values, released) - np.array(wanted) * n)
    assert np.count_nonzero(errors.max(axis=1) > bound + 1) <= beta * TRIALS
    if psi is not None:
        assert bound < 150  # of 2000: not an empty promise


def test_bound_of_one_quantile_is_that_of_the_exponential_mechanism():
    eps = 2.0 * 63 / 64  # the rest is for the count
    bound = rank_error_bound([0.5], eps=2.0, beta=0.1, psi=1000.0)
    assert bound == pytest.approx(math.log(1000 / 0.1) / eps, rel=1e-4)


def test_bounds_grow_with_the_bins_and_shrink_with_the_budget():
    assert rank_error_bound(4) < rank_error_bound(16)
    assert rank_error_bound(16, eps=2.0) < 0.51 * rank_error_bound(16, eps=1.0)
    assert rank_error_bound(16, beta=0.05) < rank_error_bound(16, beta=0.01)
    assert rank_error_bound(16, psi=2.0**40) < rank_error_bound(16)
    assert rank_error_bound(16, n_features=3) == pytest.approx(3 * rank_error_bound(16), rel=1e-3)
    assert rank_error_bound(16, eps=None, rho=2.0) == pytest.approx(
        rank_error_bound(16, eps=None, rho=0.5) / 2, rel=1e-3
    )


def test_a_bound_is_tens_of_typical_errors():
    budget = {"eps": 0.5, "delta": 1e-6, "n_features": 5}
    ratio = rank_error_bound(8, **budget) / expected_rank_error(8, **budget).max()
    assert 10 < ratio < 100


def test_nothing_is_promised_of_what_the_floor_alone_can_do():
    assert rank_error_bound(4, beta=1e-12) == math.inf


@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (0.0, np.inf), (-1.0, 3.0), (1e9, 1e9 + 1)])
def test_no_position_has_less_base_measure_than_the_default_says(bounds):
    """All positions together have the measure 1, and one of them has at least 1 / psi."""
    grid = make_grid([bounds])
    known = grid.cells_of(np.array([0.5, 2.0, 1e9 + 0.5, 1e12]), 0)
    first, last = int(grid.first[0]), int(grid.end[0]) - 1
    ends = np.array([first, *np.unique(known)[1:-1], last])
    lo, hi = (x.ravel() for x in np.meshgrid(ends, ends, indexing="ij"))
    lo, hi = lo[lo < hi], hi[lo < hi]
    is_end = np.array((lo == first, hi == last))
    is_open = is_end & np.array((grid.is_open_low, grid.is_open_high))
    columns = np.zeros_like(lo)
    measure = step_measure(grid, columns, lo, hi, np.where(is_open[0], hi, lo), is_open, ~is_end)
    of_segments = np.diff(measure.before, axis=1) * measure.densities
    assert of_segments.sum(axis=1) == pytest.approx(np.ones(lo.size), abs=1e-3)
    least = measure.densities[np.diff(measure.cuts, axis=1) > 0].min() / grid.positions_per_cell
    psi = math.exp(_nats_of_default_psi())
    assert least >= 1 / psi


def _nats_of_default_psi():
    """Solve the bound of one quantile for psi: nats = log(psi / beta)."""
    return rank_error_bound([0.5], eps=1.0, beta=0.5) * 63 / 64 * (1 - 2**-15) + math.log(0.5)


@pytest.mark.parametrize(
    "arguments",
    [
        {"quantiles": 1},
        {"quantiles": True},
        {"quantiles": "uniform"},
        {"quantiles": [0.2, 0.1]},
        {"quantiles": [0.2, 1.0]},
        {"quantiles": 4, "eps": -1.0},
        {"quantiles": 4, "beta": 0.0},
        {"quantiles": 4, "psi": 0.0},
        {"quantiles": 4, "n_features": 0},
    ],
    ids=str,
)
def test_wrong_arguments_are_named(arguments):
    with pytest.raises((ValueError, TypeError), match="must be"):
        rank_error_bound(**arguments)


def test_eps_and_rho_exclude_each_other():
    with pytest.raises(ValueError, match="rho excludes eps"):
        rank_error_bound(4, eps=1.0, rho=1.0)
