"""The bound on the rank error holds as often as it says."""

import math

import numpy as np
import pytest

from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.engine.grid import MOST_MASS, N_CELLS, BoundedGrid
from dpq_sklearn.engine.random import SystemRandomness
from dpq_sklearn.engine.ranks import SortedColumn
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles
from dpq_sklearn.planning.bounds import rank_error_bound

SKEWED = [0.02, 0.05, 0.4, 0.41, 0.97]


@pytest.mark.parametrize(
    ("quantiles", "budget", "psi"),
    [
        ("uniform", Budget(1.0, "eps"), None),
        (SKEWED, Budget(1.0, "eps"), None),
        ("uniform", Budget(0.5, "rho"), None),
        # A domain of 20 gaps a record: a bound that the errors come near to.
        ("uniform", Budget(1.0, "eps"), 40_000.0),
    ],
    ids=["uniform", "general", "concentrated", "narrow"],
)
def test_a_thousand_runs_exceed_the_bound_no_more_often_than_beta(quantiles, budget, psi):
    beta, m, n = 0.05, 5, 2000
    wanted = np.arange(1, 6) / 6 if isinstance(quantiles, str) else np.array(quantiles)
    amount = {budget.unit: budget.amount}
    bound = rank_error_bound(m, beta=beta, quantiles=quantiles, psi=psi, **amount)
    # Evenly spaced records, in the middle twentieth of the domain.
    values, grid = (np.arange(n) + 0.5) / n, BoundedGrid(-9.5, 10.5)
    randomness, mechanism = SystemRandomness(), ApproximateQuantiles()
    ranks = SortedColumn(values, grid)
    exceeded = 0
    for _ in range(1000):
        released = grid.middles(mechanism.release(ranks, wanted, budget, randomness))
        errors = np.abs(np.searchsorted(values, released) - wanted * n)
        exceeded += errors.max() > bound + 1
    assert exceeded <= beta * 1000
    if psi is not None:
        assert bound < 150  # of 2000: not an empty promise


def test_bound_of_one_quantile_is_that_of_the_exponential_mechanism():
    bound = rank_error_bound(1, eps=2.0, beta=0.1, psi=1000.0)
    assert bound == pytest.approx(math.log(1000 / 0.1) / 2.0, rel=1e-4)


def test_bounds_grow_with_m_and_shrink_with_the_budget():
    assert rank_error_bound(3, 1.0, 0.05) < rank_error_bound(15, 1.0, 0.05)
    assert rank_error_bound(15, 2.0, 0.05) < 0.51 * rank_error_bound(15, 1.0, 0.05)
    assert rank_error_bound(15, 1.0, 0.05) < rank_error_bound(15, 1.0, 0.01)
    assert rank_error_bound(15, rho=2.0) == pytest.approx(
        rank_error_bound(15, rho=0.5) / 2, rel=1e-3
    )
    assert rank_error_bound(15, 1.0, 0.05, psi=float(N_CELLS)) < rank_error_bound(15, 1.0, 0.05)


def test_any_quantiles_are_at_least_as_bad_as_given_ones():
    for quantiles in ("uniform", SKEWED, [0.001, 0.002, 0.003, 0.004, 0.005]):
        given = rank_error_bound(5, 1.0, 0.05, quantiles=quantiles)
        assert given <= rank_error_bound(5, 1.0, 0.05, quantiles="any")


def test_the_bound_of_any_quantiles_is_the_theorem():
    """levels * gamma with gamma = 2 ln(psi m / beta) / (eps / levels), at m = 2^k - 1."""
    gamma = 2 * math.log(2**63 * 7 / 0.05) / (1.0 / 3)
    assert rank_error_bound(7, 1.0, 0.05, quantiles="any") == pytest.approx(3 * gamma, rel=1e-4)


def test_nothing_is_promised_of_what_the_floor_alone_can_do():
    assert rank_error_bound(3, 1.0, 1e-12) == math.inf


def test_the_default_is_the_mass_that_no_grid_exceeds():
    assert rank_error_bound(3, 1.0) == rank_error_bound(3, 1.0, psi=2.0**63)
    assert MOST_MASS == 2**63


@pytest.mark.parametrize(
    "arguments",
    [
        {"m": 0, "eps": 1.0},
        {"m": True, "eps": 1.0},
        {"m": 3},
        {"m": 3, "eps": 1.0, "rho": 1.0},
        {"m": 3, "eps": -1.0},
        {"m": 3, "eps": 1.0, "beta": 0.0},
        {"m": 3, "eps": 1.0, "quantiles": "even"},
        {"m": 3, "eps": 1.0, "quantiles": [0.1, 0.2]},
        {"m": 2, "eps": 1.0, "quantiles": [0.2, 0.1]},
        {"m": 2, "eps": 1.0, "quantiles": [0.2, 1.0]},
    ],
    ids=str,
)
def test_wrong_arguments_are_named(arguments):
    with pytest.raises(ValueError, match="must be"):
        rank_error_bound(**arguments)
