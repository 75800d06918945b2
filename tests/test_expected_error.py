"""The computed error of the ranks is that of simulated releases."""

import numpy as np
import pytest

from dpq_sklearn import dp_quantiles, expected_rank_error, suggest_n_bins
from dpq_sklearn.accounting.budgets import Budget
from dpq_sklearn.mechanisms.aq import ApproximateQuantiles, quantile_tree


def simulated_rank_error(q, trials, n=20_000, **budget):
    """The root mean square of (rank of the estimate - rank wanted) for evenly spread records.

    Not from 0 to 1: the quantiles would be round numbers, which are hit more often.
    """
    first, width = np.pi / 30, np.e / 5
    x = first + width * (np.arange(n) + 0.5) / n
    estimates = [
        dp_quantiles(x, q, bounds=(0, 1), random_state=seed, **budget) for seed in range(trials)
    ]
    errors = (np.array(estimates) - first) / width * n - np.asarray(q) * n
    return np.sqrt(np.mean(np.square(errors), axis=0))


@pytest.mark.parametrize(
    ("n_bins", "budget"),
    [
        (2, {"eps": 0.5}),
        (5, {"eps": 1.0}),
        (8, {"eps": 0.2}),
        (11, {"eps": 0.5}),
        (8, {"eps": None, "rho": 0.02}),
        (16, {"eps": 0.5, "delta": 1e-6}),
        (4, {"eps": 0.3, "mechanism": "joint_exp"}),
        (4, {"eps": 0.3, "mechanism": "ind_exp"}),
    ],
)
def test_agrees_with_simulation_within_a_tenth(n_bins, budget):
    expected = expected_rank_error(n_bins, **budget)
    simulated = simulated_rank_error(np.arange(1, n_bins) / n_bins, 600, **budget)
    # Each entry of 600 trials has a standard error of about 4%; their mean has less.
    assert np.mean(simulated / expected) == pytest.approx(1.0, abs=0.1)
    assert simulated == pytest.approx(expected, rel=0.25)


def test_quantiles_that_are_not_uniform():
    q = [0.01, 0.4, 0.9]
    simulated = simulated_rank_error(q, 600, eps=1.0)
    assert simulated == pytest.approx(expected_rank_error(q, eps=1.0), rel=0.2)


@pytest.mark.parametrize("m", [1, 2, 5, 12])
def test_recursion_equals_the_matrix_of_shares(m):
    """The same variances from every node's share in every quantile."""
    q, budget = np.arange(1, m + 1) / (m + 1), Budget(1.0, "eps")
    shares = np.zeros((m + 2, m))

    def visit(tree, low, high):
        if tree is not None:
            shares[tree.index] = tree.q * shares[high] + (1 - tree.q) * shares[low]
            shares[tree.index, tree.index] += np.sqrt(8) * max(tree.q, 1 - tree.q) / tree.eps
            visit(tree.left, low, tree.index)
            visit(tree.right, tree.index, high)

    visit(quantile_tree(q, budget), m, m + 1)
    expected = np.sqrt((shares[:m] ** 2).sum(axis=1))
    assert ApproximateQuantiles().rank_errors(q, budget) == pytest.approx(expected)


def test_error_grows_with_features_and_falls_with_eps():
    assert np.all(expected_rank_error(8, n_features=10) > 9 * expected_rank_error(8))
    assert np.all(expected_rank_error(8, eps=2.0) < 0.51 * expected_rank_error(8, eps=1.0))
    pure = expected_rank_error(8, eps=1.0, n_features=200)
    assert np.all(expected_rank_error(8, eps=1.0, delta=1e-6, n_features=200) < pure / 3)


def test_suggested_bins_are_as_many_as_the_noise_allows():
    assert suggest_n_bins(100, 50, eps=0.1) == 2
    assert suggest_n_bins(10**9) == 256
    for n_rows, n_features, eps in [(10_000, 5, 1.0), (50_000, 20, 0.5)]:
        n_bins = suggest_n_bins(n_rows, n_features, eps)
        error = expected_rank_error(n_bins, eps=eps, n_features=n_features).max()
        assert error <= 0.1 * n_rows / n_bins
        error = expected_rank_error(2 * n_bins, eps=eps, n_features=n_features).max()
        assert error > 0.1 * n_rows / (2 * n_bins)
    assert suggest_n_bins(10_000, rho=0.5) >= suggest_n_bins(10_000, eps=1.0)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: expected_rank_error(1), "number of bins must be >= 2"),
        (lambda: expected_rank_error([0.5, 0.2]), "ascending and distinct"),
        (lambda: expected_rank_error([0.5, 1.2]), "strictly between 0 and 1"),
        (lambda: expected_rank_error(4, n_features=0), "n_features must be"),
        (lambda: expected_rank_error(4, mechanism="agg_tree"), "depends on the data"),
        (lambda: expected_rank_error(4, eps=-1), "eps must be"),
        (lambda: suggest_n_bins(0), "n_rows must be"),
        (lambda: suggest_n_bins(10, tolerance=0), "tolerance must be"),
    ],
)
def test_impossible_questions_raise(call, match):
    with pytest.raises(ValueError, match=match):
        call()
