"""The computed error of the ranks is that of simulated releases."""

import inspect

import numpy as np
import pytest

from dpq_sklearn import (
    PrivacyNoiseWarning,
    expected_rank_error,
    rank_error_bound,
    suggest_n_bins,
)
from dpq_sklearn.accounting.budgets import Budget, TotalBudget
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.forecast.enough_data import AUTO_BINS, TOO_FAR_OFF, errors_in_bins
from dpq_sklearn.forecast.expected_error import plan_alike
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles

TRIALS = 600


def plan_of(quantiles, eps=1.0, delta=0.0, rho=None, n_features=1, mechanism="aq"):
    return plan_alike(quantiles, n_features, TotalBudget(eps, delta, rho), mechanism)


def simulated_rank_error(quantiles, n=4000, **request):
    """The root mean square of (rank of the estimate - rank wanted) for evenly spread records.

    Not from 0 to 1: the quantiles would be round numbers, which are hit more often.
    """
    first, width = np.pi / 30, np.e / 5
    plan = plan_of(quantiles, **request)
    x = first + width * (np.arange(n) + 0.5) / n
    ranks = SortedRanks.of_rows(np.tile(x, (TRIALS, 1)), make_grid([(0.0, 1.0)] * TRIALS))
    q, budget = plan.request.probabilities[0], plan.budgets[0]
    cells = plan.request.mechanism.draw(ranks, [q] * TRIALS, [budget] * TRIALS, make_randomness(0))
    estimates = ranks.grid.lower_edges(np.array(cells), np.arange(TRIALS)[:, None])
    errors = (estimates - first) / width * n - np.array(q) * n
    return np.sqrt(np.mean(np.square(errors), axis=0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_bins", "budget"),
    [
        (2, {"eps": 0.5}),
        (5, {"eps": 1.0}),
        (8, {"eps": 0.2}),
        (10, {"eps": 0.5}),
        (8, {"eps": None, "rho": 0.02}),
        (16, {"eps": 0.5, "delta": 1e-6}),
    ],
)
def test_agrees_with_simulation_within_a_tenth(n_bins, budget):
    expected = expected_rank_error(n_bins, **budget)
    simulated = simulated_rank_error(n_bins, **budget)
    # Each entry of 600 trials has a standard error of about 4%; their mean has less.
    assert np.mean(simulated / expected) == pytest.approx(1.0, abs=0.1)
    assert simulated == pytest.approx(expected, rel=0.25)


def test_quantiles_that_are_not_uniform():
    q = [0.05, 0.4, 0.9]
    assert simulated_rank_error(q) == pytest.approx(expected_rank_error(q), rel=0.25)


def simulated_covariance(q):
    """The covariances of errors with a density of exp(-D / 2): sums over a lattice."""
    if len(q) == 1:
        return 8 * max(q[0], 1 - q[0]) ** 2
    errors = np.stack(np.meshgrid(*[np.arange(-60, 60.2, 0.2)] * 2, indexing="ij"))
    parts = np.array((errors[0], errors[1] - errors[0], -errors[1]))
    shares = np.diff([0.0, *q, 1.0])
    distances = [
        sum(abs(parts[i] - parts[j] / shares[j] * shares[i]) for i in range(3)) for j in range(3)
    ]
    weights = np.exp(-np.min(distances, axis=0) / 2)
    return np.einsum("ixy,jxy,xy->ij", errors, errors, weights) / weights.sum()


@pytest.mark.parametrize("m", [1, 2, 4, 5, 12])
def test_variances_equal_the_matrix_of_shares(m):
    """The same variances from every node's share in every quantile."""
    q, budget = np.arange(1, m + 1) / (m + 1), Budget(1.0, "eps")
    shares, covariances = np.zeros((m + 2, m)), np.zeros((m, m))
    of_column = tuple(q.tolist()), budget
    for node, eps in zip(*ApproximateQuantiles().nodes_and_eps(*of_column), strict=True):
        own = [index - 1 for index in node.indices]
        for index, q_here in zip(node.indices, node.q, strict=True):
            shares[index] = q_here * shares[node.above] + (1 - q_here) * shares[node.below]
            shares[index, index - 1] += 1.0
        covariances[np.ix_(own, own)] = simulated_covariance(node.q) / eps**2
    expected = np.sqrt(np.diag(shares @ covariances @ shares.T)[1:-1])
    assert ApproximateQuantiles().rank_deviations(q, budget) == pytest.approx(expected, rel=1e-3)


def test_error_grows_with_features_and_falls_with_eps():
    assert np.all(expected_rank_error(8, n_features=10) > 9 * expected_rank_error(8))
    assert np.all(expected_rank_error(8, eps=2.0) < 0.51 * expected_rank_error(8, eps=1.0))
    pure = expected_rank_error(8, eps=1.0, n_features=200)
    assert np.all(expected_rank_error(8, eps=1.0, delta=1e-6, n_features=200) < pure / 3)


def test_suggested_bins_are_as_many_as_the_noise_allows():
    for n_rows, n_features, eps in [(100_000, 5, 0.05), (50_000, 20, 0.2), (500, 10, 1.0)]:
        n_bins = suggest_n_bins(n_rows, n_features=n_features, eps=eps)
        plans = [plan_of(n, eps=eps, n_features=n_features) for n in (n_bins, 2 * n_bins)]
        errors = [errors_in_bins(plan, n_rows).mean() for plan in plans]
        assert errors[0] <= TOO_FAR_OFF < errors[1]
    more = suggest_n_bins(1000, n_features=30, delta=1e-6)
    assert more > suggest_n_bins(1000, n_features=30)
    assert suggest_n_bins(3000, n_features=30, tolerance=0.1) < suggest_n_bins(3000, n_features=30)


def test_suggested_bins_are_no_more_than_the_cube_root_of_the_rows():
    for n_bins in AUTO_BINS:
        assert suggest_n_bins(n_bins**3, eps=1000.0) == n_bins
        assert suggest_n_bins(8 * n_bins**3 - 1, eps=1000.0) == n_bins
    assert suggest_n_bins(10**9, eps=1000.0) == AUTO_BINS[-1]


@pytest.mark.parametrize(
    ("n_rows", "request_"),
    [(5, {"n_features": 30, "eps": 0.1}), (100, {"n_features": 50}), (7, {"eps": 1000.0})],
)
def test_one_bin_and_a_warning_where_not_even_two_are_good(n_rows, request_):
    with pytest.warns(PrivacyNoiseWarning, match=f"^{n_rows} rows are too few for 2 bins") as seen:
        assert suggest_n_bins(n_rows, **request_) == 1
    assert seen[0].filename == __file__


@pytest.mark.filterwarnings("error::dpq_sklearn.PrivacyNoiseWarning")
def test_no_warning_where_two_bins_are_good():
    assert suggest_n_bins(100, eps=1.0) >= 2


def test_whole_numbers_may_be_written_as_floats():
    assert suggest_n_bins(1e4, n_features=10.0) == suggest_n_bins(10_000, n_features=10)
    assert type(suggest_n_bins(1e4)) is int


def test_planning_functions_have_one_signature_for_one_budget():
    shared = {"eps": None, "delta": 0.0, "rho": None, "n_features": 1}
    for function in (expected_rank_error, rank_error_bound, suggest_n_bins):
        first, *others = inspect.signature(function).parameters.values()
        assert first.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        assert all(other.kind is inspect.Parameter.KEYWORD_ONLY for other in others)
        assert shared.items() <= {other.name: other.default for other in others}.items()
        with pytest.raises(ValueError, match="rho excludes eps and delta"):
            function(100, eps=1.0, rho=0.5)
        assert np.array_equal(function(100), function(100, eps=1.0))
        assert not np.array_equal(function(1000, rho=1e-4), function(1000))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: expected_rank_error(1), "number of bins must be an integer >= 2"),
        (lambda: expected_rank_error([0.5, 0.2]), "ascending and distinct"),
        (lambda: expected_rank_error([0.5, 1.2]), "strictly between 0 and 1"),
        (lambda: expected_rank_error(4, n_features=0), "n_features must be"),
        (lambda: expected_rank_error(4, mechanism="agg_tree"), "depends on the data"),
        (lambda: expected_rank_error(4, eps=-1), "eps must be"),
        (lambda: suggest_n_bins(0), "n_rows must be"),
        (lambda: suggest_n_bins(0.5), "n_rows must be"),
        (lambda: suggest_n_bins(10.5), "n_rows must be"),
        (lambda: suggest_n_bins(np.nan), "n_rows must be"),
        (lambda: suggest_n_bins(np.inf), "n_rows must be"),
        (lambda: suggest_n_bins(True), "n_rows must be"),
        (lambda: suggest_n_bins("10"), "n_rows must be"),
        (lambda: suggest_n_bins(10, tolerance=0), "tolerance must be"),
    ],
)
def test_impossible_questions_raise(call, match):
    with pytest.raises(ValueError, match=match):
        call()
