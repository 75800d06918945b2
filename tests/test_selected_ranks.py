"""Ranks by selection are those of sorted rows and of summaries, and those of counting."""

import numpy as np
import pytest

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer, dp_quantiles, sanitize
from dpq_sklearn.engine import rows_by_bucket, selected_ranks
from dpq_sklearn.engine.buckets import Buckets
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.engine.weighted_ranks import WeightedRanks
from dpq_sklearn.reading import sources
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
with_table = pytest.mark.parametrize("x", TABLES.values(), ids=TABLES)
with_weights = pytest.mark.parametrize("is_weighted", [False, True], ids=["records", "weights"])


def weights_of(n_rows):
    """Whole numbers as rows of people have them, some of them 0."""
    rng = np.random.default_rng(1)
    weights = rng.choice([RECORD_WEIGHT, RECORD_WEIGHT // 2, RECORD_WEIGHT // 3, 1, 0], n_rows)
    weights[0] = RECORD_WEIGHT
    return weights


def in_turn(function, arguments):
    return [function(argument) for argument in arguments]


def selected(X, grid, weights):
    """Ranks by selection, whatever the number of rows."""
    of_rows = selected_ranks.EachARecord()
    if weights is not None:
        of_rows = selected_ranks.SharedRecords(weights)
    selection = selected_ranks.Selection(X, grid=grid, weights=of_rows, in_threads=in_turn)
    return selected_ranks.SelectedRanks(
        grid=grid,
        columns=np.arange(X.shape[1]),
        n_rows=len(X),
        weights=of_rows,
        select=lambda: selection,
        sort=lambda: pytest.fail("nothing is to be sorted"),
    )


def select_all(monkeypatch, largest_share=2.0):
    """Rows are selected whatever their number, and where sorting is fast too."""
    for kind in (selected_ranks.EachARecord, selected_ranks.SharedRecords):
        monkeypatch.setattr(kind, "are_selected", lambda _, n_rows, share: share <= largest_share)


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


@with_weights
@pytest.mark.parametrize("way", ["scan", "pool"])
@with_table
def test_all_ways_to_ranks_agree_with_counting(x, way, is_weighted, monkeypatch):
    """One column under several bounds: by selection, sorted, and as summaries."""
    monkeypatch.setattr(rows_by_bucket, "_NUMBERS_AT_ONCE", 1000)
    monkeypatch.setattr(rows_by_bucket, "_ROWS_COUNTED_AT_ONCE", 700)
    monkeypatch.setattr(selected_ranks, "_CELLS_AT_ONCE", 300)
    rng = np.random.default_rng(2)
    grid = make_grid(BOUNDS)
    n_columns = len(BOUNDS)
    X = np.column_stack([x] * n_columns)
    weights = weights_of(x.size) if is_weighted else None
    floats = x.astype(np.float64)

    ranks = selected(X, grid, weights)
    summaries = [summarize(floats, grid, column, weights) for column in range(n_columns)]
    others = [WeightedRanks.of_summaries(summaries, grid)]
    if not is_weighted:
        others.append(SortedRanks.of_rows(np.sort(X.T.astype(np.float64)), grid))

    every = np.arange(n_columns)
    if way == "pool":
        select_all(monkeypatch)
        ranks = ranks.near(every, np.full(n_columns, 0.3), np.full(n_columns, x.size / 10))

    total = int(others[0].total_weights.max())
    asked = np.unique(np.append(rng.integers(0, total + 1, 40), [0, total, max(total - 1, 0)]))
    for column in range(n_columns):
        numbers = floats[~np.isnan(floats)][:20]
        cells = grid.cells_of(np.append(numbers, [0.0, 1.0]), column)
        cells = np.concatenate((cells, cells + 1, cells - 5, grid.first[[column]]))
        cells = np.append(cells, grid.end[column])
        cells = np.clip(cells, grid.first[column], grid.end[column])
        naive = naive_answers(x, weights, grid, column, asked, cells)
        for kind in (ranks, *others):
            assert kind.total_weights[column] == naive[0]
            found = kind.around_ranks(np.array([[column]]), asked[None])
            np.testing.assert_array_equal(np.array(found)[:, 0], naive[1])
            np.testing.assert_array_equal(kind.weights_below(column, cells), naive[2])


@pytest.mark.parametrize("layout", ["C", "F", "every other column", "float32"])
def test_tables_are_read_as_they_lie_in_memory(layout, rng, monkeypatch):
    """Columns that differ in everything, in any order, all or some of them."""
    X = np.column_stack([x for x in TABLES.values() if x.size == N]).astype(np.float64)
    if layout == "every other column":
        X = np.repeat(X, 2, axis=1)[:, ::2]
    with np.errstate(over="ignore"):
        X = X.astype(np.float32) if layout == "float32" else X
    X = np.asarray(X, order=layout) if layout in "CF" else X
    grid = make_grid([(-INF, INF)] * X.shape[1])
    expected = SortedRanks.of_rows(np.sort(X.T.astype(np.float64)), grid)
    found = selected(X, grid, None)
    some = [5, 2, 2, 9]
    columns = rng.integers(0, 4, (30, 1))
    asked = rng.integers(0, N * RECORD_WEIGHT, (30, 20))
    for one, other in ((found, expected), (found.of_columns(some), expected.of_columns(some))):
        np.testing.assert_array_equal(one.total_weights, other.total_weights)
        np.testing.assert_array_equal(
            one.around_ranks(columns, asked), other.around_ranks(columns, asked)
        )


@with_table
def test_buckets_never_fall_where_values_rise(x):
    values = np.sort(x.astype(np.float64))
    values = np.concatenate((values, np.nextafter(values, INF), [-0.0, 0.0, INF, -INF, 5e-324]))
    values = np.sort(values)
    for n_rows in (10, 10**5):
        buckets = Buckets.for_table(x[None, :100].astype(np.float64), n_rows)
        found = buckets.at(np.zeros(values.size, dtype=int)).of_values(values)
        is_number = ~np.isnan(values)
        assert np.all(found[~is_number] == 0)
        assert np.all(np.diff(found[is_number]) >= 0)
        assert np.all(found[is_number] > 0) and np.all(found < buckets.n_buckets)
        assert np.unique(found[values == 0.0]).size == 1


@pytest.mark.parametrize("name", ["atom", "atom at zero", "equal", "two values", "ties"])
def test_atoms_are_counted_and_not_sorted(name, monkeypatch):
    """Only what is no atom reaches a sort."""
    n_sorted = []
    merged = selected_ranks.EachARecord.merged

    def spy(self, addresses, rows):
        n_sorted.append(addresses.size)
        return merged(self, addresses, rows)

    monkeypatch.setattr(selected_ranks.EachARecord, "merged", spy)
    monkeypatch.setattr(selected_ranks, "_SMALL_GAP", 1)
    ranks = selected(TABLES[name][:, None], make_grid([(-INF, INF)]), None)
    ranks.around_ranks(np.array([0]), np.arange(0, N, N // 5) * RECORD_WEIGHT)
    assert len(n_sorted) > 0 and sum(n_sorted) < N // 10


ESTIMATORS = {
    "KBins": DPKBinsDiscretizer(5, random_state=3),
    "KBins, few eps": DPKBinsDiscretizer(5, eps=0.01, random_state=3),
    "auto": DPKBinsDiscretizer("auto", random_state=3, eps=20.0),
    "auto mechanism": DPKBinsDiscretizer([3, 5, 8], mechanism="auto", random_state=3),
    "joint": DPKBinsDiscretizer(4, mechanism="joint_exp", random_state=3),
    "independent": DPKBinsDiscretizer(4, mechanism="ind_exp", random_state=3),
    "tree": DPKBinsDiscretizer(4, mechanism="agg_tree", random_state=3),
    "transformer": DPQuantileTransformer(63, random_state=3),
    "people": DPKBinsDiscretizer(5, random_state=3),
}


def released(estimator, X, groups):
    fitted = estimator.fit(X, groups=groups)
    values = getattr(fitted, "bin_edges_", getattr(fitted, "quantiles_", None))
    return np.concatenate([np.ravel(part) for part in values]), fitted.n_rows_


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("largest_share", [0.3, 1e9], ids=["some", "all"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_releases_are_those_from_sorted_rows_bit_by_bit(name, largest_share, monkeypatch, rng):
    columns = ("normal", "atom", "atom at zero", "some numbers", "ties", "two scales")
    X = np.column_stack([TABLES[column] for column in columns])
    X = X[:, :3] if name == "auto mechanism" else X
    groups = np.arange(N) // 3 if name == "people" else None
    monkeypatch.setattr(sources, "SELECTED_ROWS", N + 1)
    expected = released(ESTIMATORS[name], X, groups)
    monkeypatch.setattr(sources, "SELECTED_ROWS", 1)
    select_all(monkeypatch, largest_share)
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


@pytest.mark.filterwarnings("ignore")
@with_table
def test_quantiles_of_a_column_are_those_from_sorted_rows_bit_by_bit(x, monkeypatch):
    def values():
        return [*quantiles_of(x, [0.5], [0.1, 0.25, 0.9]), sanitize(x, 31, random_state=2)]

    monkeypatch.setattr(sources, "SELECTED_ROWS", N + 1)
    expected = values()
    monkeypatch.setattr(sources, "SELECTED_ROWS", 1)
    select_all(monkeypatch)
    for one, other in zip(values(), expected, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    ("is_fast", "n_rows", "reach", "is_selected"),
    [
        (True, 10**6, 100.0, True),
        (True, 10**6, 10**5, False),
        (True, 50_000, 100.0, False),
        (False, 50_000, 100.0, True),
        (False, 50_000, 10**5, False),
        (False, 10_000, 100.0, False),
    ],
)
def test_selection_is_for_many_rows_of_which_few_are_looked_at(
    is_fast, n_rows, reach, is_selected, monkeypatch
):
    monkeypatch.setattr(selected_ranks, "sorting_is_fast", lambda: is_fast)
    X = np.column_stack([np.arange(n_rows)] * 2)
    ranks = sources.Table(X).read(make_grid([(-INF, INF)] * 2)).ranks
    near = ranks.near(np.array([0, 1]), np.full(2, 0.5), np.full(2, reach))
    assert isinstance(near, selected_ranks.SelectedRanks if is_selected else SortedRanks)
