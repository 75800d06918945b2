"""Columns that are sorted where a mechanism looks have the ranks of sorted ones, and of counts."""

import numpy as np
import pytest

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer, dp_quantiles, sanitize
from dpq_sklearn.engine import lazy_columns
from dpq_sklearn.engine.grid import FULL_RESOLUTION, make_grid
from dpq_sklearn.engine.lazy_columns import LazyColumn, LazyColumns
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.engine.weighted_ranks import WeightedRanks
from dpq_sklearn.reading.sources import memory
from dpq_sklearn.reading.summaries import summarize

# Overflows are as quiet as in a release.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
INF, NAN = np.inf, np.nan
N = 4000


def tables():
    """Columns of all kinds, by name."""
    rng = np.random.default_rng(0)
    normal = rng.normal(0, 5, N)
    signs = np.where(np.arange(N) % 2, 1.0, -1.0)
    return {
        "normal": normal,
        "ties": np.round(normal),
        "atom": np.where(rng.random(N) < 0.9, 37.0, normal),
        "atoms side by side": np.where(rng.random(N) < 0.5, 37.0, np.nextafter(37.0, 38.0)),
        "atom at zero": np.where(rng.random(N) < 0.9, 0.0, rng.exponential(1, N)),
        "equal": np.full(N, 5.0),
        "two values": np.where(rng.random(N) < 0.3, -1.5, 2.0),
        "no number": np.full(N, NAN),
        "some numbers": np.where(rng.random(N) < 0.5, NAN, normal),
        "NaN of both signs": np.where(rng.random(N) < 0.5, np.copysign(NAN, signs), normal),
        "alternating signs": signs * rng.exponential(1, N),
        "zeros of both signs": np.where(rng.random(N) < 0.5, signs * 0.0, normal),
        "subnormal": signs * 5e-324 * rng.integers(0, 9, N),
        "tiny": normal * 1e-310,
        "huge": normal * 1e306,
        "infinite": np.where(rng.random(N) < 0.5, signs * INF, normal),
        "beyond floats of single precision": normal * 1e100,
        "narrow": 1e9 + rng.random(N) * 1e-3,
        "wide": signs * np.exp(rng.normal(0, 40, N)),
        "two scales": np.where(rng.random(N) < 0.5, normal, 1e6 + normal * 1e-9),
        "periodic": np.tile([1.0, 2.0, 3.0, 4.0], N // 4),
        "one row": np.array([3.25]),
        "one NaN": np.array([NAN]),
        "whole": rng.integers(-(2**62), 2**62, N),
        "beyond 2^53": 2**60 + rng.integers(0, 2000, N),
        "bytes": rng.integers(0, 256, N).astype(np.uint8),
        "single precision": normal.astype(np.float32),
        "booleans": rng.random(N) < 0.3,
    }


TABLES = tables()
BOUNDS = [(-INF, INF), (0.0, 40.0), (-1.0, INF), (-1e300, 1e300), (36.9, 37.1)]
LATTICES = [((-INF, INF), 0), ((-INF, INF), 2), ((0.0, 40.0), 1), ((0.0, INF), -1)]
with_table = pytest.mark.parametrize("x", TABLES.values(), ids=TABLES)


def weights_of(n_rows):
    """Whole numbers as rows of people have them, some of them 0."""
    rng = np.random.default_rng(1)
    weights = rng.choice([RECORD_WEIGHT, RECORD_WEIGHT // 2, RECORD_WEIGHT // 3, 1, 0], n_rows)
    weights[0] = RECORD_WEIGHT
    return weights


def in_turn(function, arguments):
    return [function(argument) for argument in arguments]


def lazy(X, grid):
    """Ranks of columns that are sorted only where they are looked up."""
    columns = [np.ascontiguousarray(x, dtype=np.float64) for x in X.T]
    return SortedRanks(LazyColumns.of_arrays(columns, in_turn), grid)


@pytest.fixture(params=["usual windows", "narrow windows", "many windows", "counted edges"])
def kind_of_windows(request, monkeypatch):
    """Windows that miss their ranks, or are never too many, and edges beside all windows."""
    monkeypatch.setattr(lazy_columns, "_MOST_SAMPLED", 500)
    monkeypatch.setattr(lazy_columns, "_VALUES_AT_ONCE", 700)
    if request.param == "narrow windows":
        monkeypatch.setattr(lazy_columns, "_DEVIATIONS", 0.1)
    elif request.param == "many windows":
        monkeypatch.setattr(lazy_columns, "_MOST_WINDOWS", 1000)
        monkeypatch.setattr(lazy_columns, "_MOST_IN_WINDOWS", 1000.0)
    elif request.param == "counted edges":
        monkeypatch.setattr(lazy_columns, "_MOST_COUNTED_EDGES", 1000)


def naive_answers(x, weights, grid, column, asked, cells):
    """Totals, cells around ranks and weights below cells by counting."""
    x = x.astype(np.float64)
    weights = np.full(x.size, RECORD_WEIGHT) if weights is None else weights
    is_counted = ~np.isnan(x) & (weights > 0)
    weights = weights[is_counted]
    of_rows = grid.cells_of(x[is_counted], column)
    occupied = np.unique(of_rows)
    below = np.array([weights[of_rows < cell].sum() for cell in occupied], dtype=np.int64)
    around = []
    for weight in asked:
        if occupied.size == 0:
            around.append((grid.first[column], 0, 0))
            continue
        found = np.searchsorted(below, weight, side="right") - 1
        cell = occupied[found]
        around.append((cell, below[found], below[found] + weights[of_rows == cell].sum()))
    below_cells = [weights[of_rows < cell].sum() for cell in cells]
    return weights.sum(), np.array(around).T, np.array(below_cells)


@with_table
def test_all_kinds_of_ranks_agree_with_counting(x, kind_of_windows):
    """One column under several bounds and lattices: lazily sorted, sorted, and as summaries."""
    X, grid = under_all_bounds(x)
    kinds = [
        summarized(x, grid, None),
        SortedRanks.of_rows(np.sort(X.T), grid),
        lazy(X, grid),
    ]
    assert_agree_with_counting(kinds, x, None, grid)


@with_table
def test_ranks_of_weighted_rows_agree_with_counting(x):
    _, grid = under_all_bounds(x)
    weights = weights_of(x.size)
    assert_agree_with_counting([summarized(x, grid, weights)], x, weights, grid)


def under_all_bounds(x):
    """A table that holds the same column under all bounds and lattices, and its grid."""
    bounds, decimals = zip(*((one, None) for one in BOUNDS), *LATTICES, strict=True)
    grid = make_grid(bounds, FULL_RESOLUTION, decimals)
    X = np.column_stack([x.astype(np.float64)] * len(bounds))
    for column in range(len(BOUNDS), len(bounds)):
        X[:, column] = grid.on_lattices(X[:, column], column)
    return X, grid


def summarized(x, grid, weights):
    floats = x.astype(np.float64)
    summaries = [summarize(floats, grid, column, weights) for column in range(grid.first.size)]
    return WeightedRanks.of_summaries(summaries, grid)


def assert_agree_with_counting(kinds, x, weights, grid):
    rng = np.random.default_rng(2)
    numbers = x.astype(np.float64)
    numbers = np.append(numbers[~np.isnan(numbers)][:20], [0.0, 1.0])
    total = int(kinds[0].total_weights.max())
    asked = np.unique(np.append(rng.integers(0, total + 1, 40), [0, total, max(total - 1, 0)]))
    for column in range(grid.first.size):
        cells = grid.cells_of(numbers, column)
        cells = np.concatenate((cells, cells + 1, cells - 5, grid.first[[column]]))
        cells = np.append(cells, grid.end[column])
        cells = np.clip(cells, grid.first[column], grid.end[column])
        naive = naive_answers(x, weights, grid, column, asked, cells)
        for kind in kinds:
            assert kind.total_weights[column] == naive[0]
            few = kind.locate(np.array([[column]]), asked[None, 20:22])
            np.testing.assert_array_equal(np.array(few)[:, 0], naive[1][:, 20:22])
            np.testing.assert_array_equal(kind.weights_below(column, cells), naive[2])
            found = kind.locate(np.array([[column]]), asked[None])
            np.testing.assert_array_equal(np.array(found)[:, 0], naive[1])


@pytest.mark.parametrize("layout", ["C", "F", "every other column", "float32"])
def test_tables_are_read_as_they_lie_in_memory(layout, rng, monkeypatch):
    """Columns that differ in everything, in any order, all or some of them."""
    monkeypatch.setattr(memory, "LAZILY_SORTED_ROWS", 1)
    X = np.column_stack([x for x in TABLES.values() if x.size == N]).astype(np.float64)
    if layout == "every other column":
        X = np.repeat(X, 2, axis=1)[:, ::2]
    with np.errstate(over="ignore"):
        X = X.astype(np.float32) if layout == "float32" else X
    X = np.asarray(X, order=layout) if layout in "CF" else X
    given = X.copy()
    grid = make_grid([(-INF, INF)] * X.shape[1])

    expected = SortedRanks.of_rows(np.sort(X.T.astype(np.float64)), grid)
    found = memory.MemorySource(X).read(grid).ranks
    some = [5, 2, 2, 9]
    columns = rng.integers(0, 4, (30, 1))
    asked = rng.integers(0, N * RECORD_WEIGHT, (30, 20))
    for one, other in ((found, expected), (found.of_columns(some), expected.of_columns(some))):
        np.testing.assert_array_equal(one.total_weights, other.total_weights)
        np.testing.assert_array_equal(one.locate(columns, asked), other.locate(columns, asked))
    np.testing.assert_array_equal(X, given)


def n_sorted_values(monkeypatch):
    """Return a list to which the number of values of each sort is added."""
    sizes = []
    sort = LazyColumn._sort

    def spy(column):
        sizes.append(column.size)
        return sort(column)

    monkeypatch.setattr(LazyColumn, "_sort", spy)
    return sizes


@pytest.mark.parametrize("n_quantiles", [1, 2, 4])
def test_few_quantiles_of_a_long_column_need_no_sort(n_quantiles, monkeypatch):
    n_sorted = n_sorted_values(monkeypatch)
    x = np.random.default_rng(0).normal(0, 5, 200_000)
    dp_quantiles(x, np.arange(1, n_quantiles + 1) / (n_quantiles + 1), random_state=0)
    assert n_sorted == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", ["many quantiles", "little eps"])
def test_look_ups_in_many_or_wide_windows_sort_the_column_once(case, monkeypatch):
    n_sorted = n_sorted_values(monkeypatch)
    x = np.random.default_rng(0).normal(0, 5, 200_000)
    n_quantiles, eps = (63, 1.0) if case == "many quantiles" else (1, 1e-4)
    dp_quantiles(x, np.arange(1, n_quantiles + 1) / (n_quantiles + 1), eps=eps, random_state=0)
    assert n_sorted == [200_000]


def test_equal_values_need_no_sort(monkeypatch):
    n_sorted = n_sorted_values(monkeypatch)
    dp_quantiles(np.full(200_000, 5.0), [0.25, 0.5], random_state=0)
    assert n_sorted == []


ESTIMATORS = {
    "KBins": DPKBinsDiscretizer(5, random_state=3),
    "KBins, few eps": DPKBinsDiscretizer(5, eps=0.01, random_state=3),
    "auto": DPKBinsDiscretizer("auto", random_state=3, eps=20.0),
    "auto mechanism": DPKBinsDiscretizer([3, 5, 8], mechanism="auto", random_state=3),
    "tree": DPKBinsDiscretizer(4, mechanism="agg_tree", random_state=3),
    "transformer": DPQuantileTransformer(63, random_state=3),
    "people": DPKBinsDiscretizer(5, random_state=3),
}


def released(estimator, X, groups):
    fitted = estimator.fit(X, groups=groups)
    values = getattr(fitted, "bin_edges_", getattr(fitted, "quantiles_", None))
    return np.concatenate([np.ravel(part) for part in values]), fitted.n_rows_


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n == "tree" else []) for n in ESTIMATORS],
)
def test_releases_are_those_from_sorted_rows_bit_by_bit(name, kind_of_windows, monkeypatch):
    columns = ("normal", "atom", "atom at zero", "some numbers", "ties", "two scales")
    X = np.column_stack([TABLES[column] for column in columns])
    X = X[:, :3] if name == "auto mechanism" else X
    groups = np.arange(N) // 3 if name == "people" else None
    monkeypatch.setattr(memory, "LAZILY_SORTED_ROWS", N + 1)
    expected = released(ESTIMATORS[name], X, groups)
    monkeypatch.setattr(memory, "LAZILY_SORTED_ROWS", 1)
    for n_jobs in (None, 2):
        found = released(ESTIMATORS[name].set_params(n_jobs=n_jobs), X, groups)
        assert found[0].tobytes() == expected[0].tobytes() and found[1] == expected[1]


def quantiles_of(x, *sets_of_quantiles):
    """Released quantiles of a column for each of the sets, with little and much eps and bounds."""
    return [
        dp_quantiles(x, q, eps=eps, bounds=bounds, random_state=1)
        for q in sets_of_quantiles
        for eps in (0.1, 10.0)
        for bounds in (None, (-1.0, 40.0))
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@with_table
def test_quantiles_of_a_column_are_those_from_sorted_rows_bit_by_bit(
    x, kind_of_windows, monkeypatch
):
    def values():
        quantiles = quantiles_of(x, [0.5], [0.3, 0.6], [0.1, 0.25, 0.5, 0.9])
        return [*quantiles, sanitize(x, 31, random_state=2)]

    monkeypatch.setattr(memory, "LAZILY_SORTED_ROWS", N + 1)
    expected = values()
    monkeypatch.setattr(memory, "LAZILY_SORTED_ROWS", 1)
    for one, other in zip(values(), expected, strict=True):
        assert one.tobytes() == other.tobytes()
