"""All mechanisms keep one protocol, and the choice of "auto" is public and right where measured."""

import inspect
import itertools

import numpy as np
import pytest

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer, dp_quantiles
from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.mechanisms.agg_tree import consistent
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles
from dpq_sklearn.mechanisms.auto import AutomaticChoice
from dpq_sklearn.mechanisms.protocol import Mechanism
from dpq_sklearn.mechanisms.registry import MECHANISMS, checked_mechanism
from tests.marks import slow
from tests.mechanism_helpers import (
    ERROR_BUDGETS,
    UNBOUNDED,
    assert_predicts_its_errors,
    spent,
    uniform_quantiles,
)
from tests.planning import plan_of_columns

AUTO, AQ = AutomaticChoice(), ApproximateQuantiles()
REQUESTS = {
    "pure": {"eps": 1.0, "delta": 0.0, "rho": None},
    "approximate": {"eps": 1.0, "delta": 1e-6, "rho": None},
    "concentrated": {"eps": None, "delta": 0.0, "rho": 0.1},
}


def chosen(m, budget, n_points=None):
    return AUTO.for_points(n_points).choice(uniform_quantiles(m), budget)


@pytest.mark.parametrize("budget", [Budget(1.0, "eps"), Budget(0.5, "rho"), Budget(0.5, "draw")])
def test_without_a_short_lattice_it_is_aq(budget):
    for n_points in (None, 10_000):
        assert all(isinstance(chosen(m, budget, n_points), type(AQ)) for m in range(1, 60))


def test_counts_serve_many_quantiles_of_few_points():
    """Counts are chosen up to the number of points at which their error exceeds that of AQ."""
    budget = Budget(1.0, "eps")
    numbers_of_points = (2, 5, 12, 50, 121, 500, 2000)

    def by_counts(m):
        choices = {k: chosen(m, budget, k) for k in numbers_of_points}
        return [k for k, choice in choices.items() if not isinstance(choice, type(AQ))]

    assert by_counts(1) == [2]
    assert by_counts(4) == [2, 5, 12]
    assert by_counts(31) == [2, 5, 12, 50, 121, 500]
    assert isinstance(chosen(31, Budget(1.0, "draw"), 5), type(AQ))  # noise has no composition


@pytest.mark.parametrize("n_points", [2, 5, *slow(30, 121)])
@pytest.mark.parametrize("budget", [Budget(1.0, "eps"), Budget(0.1, "rho")], ids=str)
def test_error_of_counts_is_as_predicted(n_points, budget):
    """As far as ranks of untied data go: here between the points."""
    tree = MECHANISMS["agg_tree"].for_points(n_points)
    best = tree.for_budget(budget)
    randomness = make_randomness(0)
    squares = []
    for _ in range(400):
        depths = range(1, best.height + 1)
        noise = [best._noise(budget, best.branching**d).draw(randomness) for d in depths]
        up_to = np.cumsum(consistent(noise)[-1]) / RECORD_WEIGHT
        squares.append(np.mean((up_to - 0.3 * up_to[-1]) ** 2))
    predicted = tree.rank_deviations((0.3,), budget)[0]
    np.testing.assert_allclose(np.sqrt(np.mean(squares)), predicted, rtol=0.2)


@pytest.mark.parametrize("mechanism", ["agg_tree", "auto"])
def test_counts_of_a_short_lattice_keep_within_their_price(mechanism):
    for options in ({"eps": 1.0}, {"eps": None, "rho": 0.1}, {"eps": 1.0, "delta": 1e-6}):
        estimator = DPKBinsDiscretizer(
            8, mechanism=mechanism, decimals=0, bounds=(1, 5), random_state=0, **options
        )
        X = np.random.default_rng(0).integers(1, 6, (500, 3)).astype(float)
        privacy = estimator.fit(X).privacy_
        planned = estimator._planned_loss(3)
        assert privacy.eps <= planned.eps and privacy.rho <= planned.rho * (1 + 1e-9)


def test_counts_find_the_quantiles_of_few_points():
    x = np.random.default_rng(0).choice(5, 500, p=[0.1, 0.2, 0.4, 0.2, 0.1]) + 1.0
    q = np.arange(1, 32) / 32
    for mechanism in ("agg_tree", "auto"):
        found = dp_quantiles(x, q, mechanism=mechanism, decimals=0, bounds=(1, 5), random_state=0)
        below = (x[:, None] < found).mean(axis=0)
        up_to = (x[:, None] <= found).mean(axis=0)
        assert np.maximum(np.maximum(below - q, q - up_to), 0).max() < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("budget", ERROR_BUDGETS, ids=str)
@pytest.mark.parametrize("m", [2, 4, 7])
def test_rank_errors_of_aq_are_those_of_plentiful_data(m, budget):
    assert_predicts_its_errors(AQ, m, budget, n_columns=1500)


def test_rank_errors_and_typical_errors_are_those_of_the_choice():
    budgets = Budget(1.0, "eps"), Budget(0.1, "rho")
    for quantiles, budget in itertools.product(((0.5, 0.9, 0.99), uniform_quantiles(7)), budgets):
        choice = AUTO.choice(quantiles, budget)
        assert AUTO.typical_error(quantiles, budget) == choice.typical_error(quantiles, budget)
        np.testing.assert_array_equal(
            AUTO.rank_deviations(quantiles, budget), choice.rank_deviations(quantiles, budget)
        )


@pytest.mark.parametrize(
    "quantiles", [(0.5, 0.9, 0.99), uniform_quantiles(1), uniform_quantiles(30)]
)
def test_release_and_cost_are_those_of_the_choice(quantiles, rng):
    budget = Budget(1.0, "eps")
    mechanism = AUTO.choice(quantiles, budget)
    assert AUTO.cost(quantiles, budget) == mechanism.cost(quantiles, budget)
    values = rng.normal(size=500)
    released = [
        dp_quantiles(values, quantiles, mechanism=name, random_state=3) for name in ("auto", "aq")
    ]
    np.testing.assert_array_equal(*released)


def test_columns_with_other_choices_are_released_in_their_order(rng):
    """Each of five columns has its own scale."""
    grid = make_grid([UNBOUNDED])[np.zeros(5, dtype=int)]
    columns = np.sort(rng.normal(10.0 ** np.arange(1, 6)[:, None], 0.1, size=(5, 3000)))
    quantiles = [
        (0.5,),
        (0.5, 0.9, 0.99),
        uniform_quantiles(7),
        (0.5, 0.9, 0.99),
        uniform_quantiles(3),
    ]
    cells = AUTO.draw(
        SortedRanks.of_rows(columns.copy(), grid),
        quantiles,
        [Budget(5.0, "eps")] * 5,
        make_randomness(0),
    )
    for number, (values, q, found) in enumerate(zip(columns, quantiles, cells, strict=True)):
        found = grid.lower_edges(found, number)
        np.testing.assert_allclose(found, np.quantile(values, q), atol=0.05)


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_keeps_the_protocol(name):
    mechanism = MECHANISMS[name]
    members = [member for member, of_class in vars(Mechanism).items() if callable(of_class)]
    assert {"draw", "cost", "rank_deviations", "composed_budgets"} <= set(members)
    for member in members:
        wanted = inspect.signature(getattr(Mechanism, member)).parameters
        found = inspect.signature(getattr(mechanism, member)).parameters
        assert list(found) == list(wanted)[1:]
    assert isinstance(mechanism.takes_priors, bool)


def test_the_baselines_of_the_paper_are_no_mechanisms_of_the_package():
    rule = r"mechanism must be one of \['agg_tree', 'aq', 'auto'\], got 'joint_exp'\."
    with pytest.raises(ValueError, match=rule):
        dp_quantiles([1.0, 2.0], [0.5], mechanism="joint_exp")
    with pytest.raises(ValueError, match=r"'mechanism' parameter .* Got 'joint_exp' instead"):
        DPKBinsDiscretizer(mechanism="joint_exp").fit([[1.0], [2.0]])


def test_unknown_mechanisms_raise():
    for name in ("AQ", "", None, ["aq"], "ind_exp"):
        with pytest.raises(ValueError, match="mechanism must be one of"):
            checked_mechanism(name)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_all_mechanisms_run_with_all_budgets_and_state_their_cost(mechanism, request_, rng):
    values = rng.normal(loc=100, size=2000)
    released, loss = dp_quantiles(
        values, [0.2, 0.5, 0.9], mechanism=mechanism, return_privacy=True, **request_
    )
    np.testing.assert_allclose(released, np.quantile(values, [0.2, 0.5, 0.9]), atol=1)
    if request_["rho"] is None:
        assert (loss.eps, loss.delta) in [(1.0, 0.0), (1.0, request_["delta"])]
    else:
        assert loss.rho == 0.1
    assert 0 < loss.rho < np.inf


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("budget", [Budget(1.0, "eps"), Budget(0.05, "rho")], ids=str)
def test_the_cost_of_every_mechanism_is_its_budget_or_less(mechanism, budget):
    for m in (1, 2, 7, 40):
        cost = MECHANISMS[mechanism].cost(uniform_quantiles(m), budget)
        assert 0.99 * budget.amount < spent(cost, budget) <= budget.amount


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_settings_of_numpy_for_floating_point_errors_do_not_matter(mechanism, request_, rng):
    """Callers may turn floating-point errors into exceptions, and no record may cause one."""
    columns = [rng.normal(size=n) for n in (1, 1204, 1205)]
    columns += [[], np.zeros(500), [np.inf, -np.inf, np.nan, 1e308, -5e-324], [1e-310] * 40]
    for values in columns:
        for bounds in (None, (-1.0, 1.0)):
            arguments = {"mechanism": mechanism, "bounds": bounds, "random_state": 0, **request_}
            usual = dp_quantiles(values, [0.25, 0.5, 0.75], **arguments)
            with np.errstate(all="raise"):
                strict = dp_quantiles(values, [0.25, 0.5, 0.75], **arguments)
            np.testing.assert_array_equal(usual, strict)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("estimator", [DPKBinsDiscretizer, DPQuantileTransformer])
def test_settings_of_numpy_do_not_matter_to_estimators(mechanism, estimator, rng):
    X = np.column_stack((rng.normal(size=1204), np.zeros(1204), np.full(1204, np.nan)))
    with np.errstate(all="raise"):
        estimator(5, mechanism=mechanism, random_state=0).fit(X)


def test_pure_accounting_spends_no_delta():
    plan = plan_of_columns([[0.5]], mechanism_name="agg_tree", **REQUESTS["approximate"])
    assert (plan.loss.eps, plan.loss.delta) == (1.0, 0.0)


def test_an_account_that_cannot_be_guaranteed_is_not_taken():
    """The rho of this request is too small for floating point, but its eps is large enough."""
    plan = plan_of_columns([[0.5]], eps=4e-11, delta=1e-14, has_ledger=True)
    assert plan.loss.account == "sum of eps"
