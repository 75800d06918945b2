"""The choice of "auto" is public, and right where the experiments have been measured."""

import numpy as np
import pytest

from dpq_sklearn import dp_quantiles
from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.engine.grid import BoundedGrid
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.ranks import SortedColumn
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles
from dpq_sklearn.mechanisms.auto import AutomaticChoice
from dpq_sklearn.mechanisms.joint_exp import JointExponential
from dpq_sklearn.mechanisms.registry import MECHANISMS, plan_release

AUTO = AutomaticChoice()


def uniform_quantiles(m):
    return np.arange(1, m + 1) / (m + 1)


def chosen(m, budget):
    return type(AUTO.choice(uniform_quantiles(m), budget)[0])


def test_pure_budgets_choose_joint_exp_for_the_few_numbers_of_quantiles_where_it_wins():
    joint = [m for m in range(1, 60) if chosen(m, Budget(1.0, "eps")) is JointExponential]
    assert joint == [2, 4, 5, 6, 8, 9, 10, 11]


def test_concentrated_budgets_choose_aq():
    assert all(chosen(m, Budget(0.5, "rho")) is ApproximateQuantiles for m in range(1, 60))


@pytest.mark.parametrize("m", [2, 5, 7])
@pytest.mark.parametrize("budget", [Budget(1.0, "eps"), Budget(0.5, "rho")], ids=str)
def test_predicted_errors_are_those_of_evenly_spread_data(m, budget, rng):
    quantiles, grid = uniform_quantiles(m), BoundedGrid(0.0, 1.0)
    for mechanism, predicted in (
        (ApproximateQuantiles(), ApproximateQuantiles().rank_errors(quantiles, budget).mean()),
        (JointExponential(), JointExponential().rank_errors(quantiles, budget).mean()),
    ):
        values, randomness = np.arange(0.5, 1000) / 1000, make_randomness(m)
        released = [
            mechanism.release(SortedColumn(values.copy(), grid), quantiles, budget, randomness)
            for _ in range(250)
        ]
        errors = 1000 * (grid.middles(np.array(released)) - quantiles)
        assert np.sqrt((errors**2).mean(axis=0)).mean() == pytest.approx(predicted, rel=0.2)


@pytest.mark.parametrize("m", [1, 4, 30])
def test_release_and_cost_are_those_of_the_choice(m, rng):
    quantiles, budget = uniform_quantiles(m), Budget(1.0, "eps")
    mechanism, _ = AUTO.choice(quantiles, budget)
    assert AUTO.cost(quantiles, budget) == mechanism.cost(quantiles, budget)
    name = {JointExponential: "joint_exp", ApproximateQuantiles: "aq"}[type(mechanism)]
    values = rng.normal(size=500)
    released = [
        dp_quantiles(values, quantiles, mechanism=name, random_state=3) for name in ("auto", name)
    ]
    np.testing.assert_array_equal(*released)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "budget",
    [
        {"eps": 1.0, "delta": 0.0, "rho": None},
        {"eps": 1.0, "delta": 1e-6, "rho": None},
        {"eps": None, "delta": 0.0, "rho": 0.1},
    ],
    ids=["pure", "approximate", "concentrated"],
)
def test_all_mechanisms_run_with_all_budgets_and_state_their_cost(mechanism, budget, rng):
    values = rng.normal(loc=100, size=2000)
    released, loss = dp_quantiles(
        values, [0.2, 0.5, 0.9], mechanism=mechanism, return_privacy=True, **budget
    )
    np.testing.assert_allclose(released, np.quantile(values, [0.2, 0.5, 0.9]), atol=1)
    if budget["rho"] is None:
        assert (loss.eps, loss.delta) in [(1.0, 0.0), (1.0, budget["delta"])]
    else:
        assert loss.rho == 0.1
    assert 0 < loss.rho < np.inf


def test_ind_exp_uses_optimal_composition_for_approximate_dp():
    plan = plan_release(
        [uniform_quantiles(20)], eps=1.0, delta=1e-6, rho=None, bounds=[None], mechanism="ind_exp"
    )
    assert plan.budgets[0].unit == "eps" and plan.budgets[0].amount > 2.0
    assert (plan.loss.eps, plan.loss.delta) == (1.0, 1e-6)


def test_pure_accounting_spends_no_delta():
    plan = plan_release([[0.5]], eps=1.0, delta=1e-6, rho=None, bounds=[None], mechanism="aq")
    assert (plan.loss.eps, plan.loss.delta) == (1.0, 0.0)
