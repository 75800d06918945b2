"""Binning beside np.searchsorted, and the outermost edges."""

import numpy as np
import pytest

from dpq_sklearn.checks import UNBOUNDED
from dpq_sklearn.estimators.binning import (
    bin_numbers,
    edges_of_values,
    sparse_indicators,
    with_outer_edges,
)


@pytest.mark.parametrize("sizes", [(4, 4), (1, 9), (64, 64), (65, 3), (200, 200)])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_counting_and_searching_number_bins_alike(sizes, n_jobs, rng):
    X = rng.normal(size=(140_000, 2))
    edges = [np.sort(rng.normal(size=size)) for size in sizes]
    X[:5, 0] = edges[0][0], np.nan, np.inf, -np.inf, np.nextafter(edges[0][0], -np.inf)
    found = bin_numbers(X, edges, (10, 500), missing=-1, dtype=np.int32, n_jobs=n_jobs)
    expected = [np.searchsorted(e, x, side="right") for e, x in zip(edges, X.T, strict=True)]
    expected = np.where(np.isnan(X), -1, np.column_stack(expected) + np.array([10, 500]))
    assert found.dtype == np.int32 and np.array_equal(found, expected)


def test_indicators_are_ones_at_the_places_and_nothing_for_negative_ones():
    places = np.array([[0, 2], [1, 4], [-1, 3], [-1, -1]], dtype=np.int32)
    indicators = sparse_indicators(places, 5, np.float32)
    assert indicators.dtype == np.float32 and indicators.nnz == 5
    expected = [[1, 0, 1, 0, 0], [0, 1, 0, 0, 1], [0, 0, 0, 1, 0], [0] * 5]
    assert indicators.toarray().tolist() == expected
    assert sparse_indicators(places[:2], 5, np.float32).toarray().tolist() == expected[:2]


@pytest.mark.parametrize(
    ("inner", "bounds", "expected"),
    [
        ([2, 3, 5], (0, 9), [0, 2, 3, 5, 9]),
        ([2, 3, 5], (0, np.inf), [0, 2, 3, 5, 7]),
        ([2, 3, 5], (-np.inf, 9), [1, 2, 3, 5, 9]),
        ([2, 3, 5], (-np.inf, np.inf), [1, 2, 3, 5, 7]),
        ([12], (-np.inf, np.inf), [0, 12, 24]),
        ([0], (-np.inf, np.inf), [-1, 0, 1]),
        ([12], (10, np.inf), [10, 12, 14]),
        ([12], (-np.inf, 15), [9, 12, 15]),
        ([0], (0, np.inf), [0, 0, 1]),
        ([12], (10, 20), [10, 12, 20]),
    ],
)
def test_outermost_edges_are_the_bounds_or_a_bins_width_away(inner, bounds, expected):
    assert with_outer_edges(np.array(inner, dtype=float), bounds).tolist() == expected


@pytest.mark.parametrize(
    ("inner", "bounds", "decimals", "expected"),
    [
        ([1.0, 2.0, 3.0], UNBOUNDED, None, [1.0, 2.0, 3.0]),
        ([0.0, 0.0, 0.0, 5.0], UNBOUNDED, None, [0.0, 0.0, 2.0**-126, 5.0]),
        ([12.0, 12.0], UNBOUNDED, None, [12.0, 12.0 + 2.0**-20]),
        (
            [2.0**30, 2.0**30],
            UNBOUNDED,
            0,
            [2.0**30, 2.0**30 + 128],
        ),  # no float32 is between
        ([1e300, 1e300], UNBOUNDED, None, [1e300, np.nextafter(1e300, np.inf)]),
        ([0.0, 0.0, 0.0, 5.0], UNBOUNDED, 0, [0.0, 0.0, 1.0, 5.0]),
        ([0.0, 0.0, 1.0], UNBOUNDED, 0, [0.0, 0.0, 1.0]),  # they are apart already
        ([0.07, 0.07], UNBOUNDED, 2, [0.07, 0.08]),
        ([1000.0, 1000.0], UNBOUNDED, -3, [1000.0, 2000.0]),
        ([2.0, 3.0, 3.0], (0.0, 3.0), 0, [2.0, 3.0, 3.0]),  # nothing is above the bound
        ([2.0, 3.0, 3.0], (0.0, 3.0), None, [2.0, 3.0, 3.0]),
        ([2.0, 2.0, 7.0, 7.0], UNBOUNDED, 0, [2.0, 3.0, 7.0, 8.0]),
        ([4.0], UNBOUNDED, 0, [4.0]),
    ],
)
def test_the_last_of_equal_edges_moves_to_the_next_point(inner, bounds, decimals, expected):
    edges = edges_of_values(np.array(inner), bounds, decimals)
    assert edges[1:-1].tolist() == expected
    assert np.all(np.diff(edges) >= 0)


def test_what_is_equal_and_what_is_above_part_company():
    X = np.array([[0.0]] * 9 + [[0.5], [3.0]])
    for decimals in (None, 0):
        edges = edges_of_values(np.array([0.0, 0.0, 2.0]), UNBOUNDED, decimals)
        numbers = bin_numbers(
            X, [edges[1:-1]], [0], missing=np.nan, dtype=np.float64, n_jobs=None
        ).ravel()
        assert numbers[0] < numbers[-1] and len(set(numbers[:9])) == 1
    edges = edges_of_values(np.array([0.0, 0.0, 2.0]), UNBOUNDED, None)
    numbers = bin_numbers(
        X, [edges[1:-1]], [0], missing=np.nan, dtype=np.float64, n_jobs=None
    ).ravel()
    assert numbers[0] < numbers[9] < numbers[10]


def test_outer_edges_have_as_few_digits_as_the_inner_ones():
    edges = edges_of_values(np.array([23.75, 40.72, 73.15]), UNBOUNDED, 2)
    assert edges.tolist() == [6.78, 23.75, 40.72, 73.15, 105.58]
