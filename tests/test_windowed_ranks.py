"""Ranks in windows of a long column, and beside them, are those of all rows."""

import numpy as np
import pytest

from dpq_sklearn.engine import selected_ranks, windowed_ranks
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.engine.windowed_ranks import WindowedRanks, Windows
from dpq_sklearn.reading import sources
from tests.test_selected_ranks import (
    BOUNDS,
    in_turn,
    naive_answers,
    quantiles_of,
    select_all,
    with_table,
)

# Overflows are as quiet as in a release.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
INF, NAN = np.inf, np.nan


def of_column(x, grid):
    return SortedRanks.of_rows(np.sort(x.astype(np.float64))[None], grid)


def always(monkeypatch):
    """Windows pay, whatever the rows; they are narrow, so that look-ups miss them."""
    monkeypatch.setattr(windowed_ranks, "_FEWEST_ROWS", 1)
    monkeypatch.setattr(windowed_ranks, "_MOST_KEPT", 1.0)
    monkeypatch.setattr(windowed_ranks, "_SAMPLED_ROWS", 500)
    monkeypatch.setattr(windowed_ranks, "_DEVIATIONS", 1.0)
    monkeypatch.setattr(windowed_ranks, "_ROWS_AT_ONCE", 700)


class Unless:
    """Ranks of a whole column, which count how often they are asked."""

    def __init__(self, ranks):
        self.grid = ranks.grid
        self.total_weights = ranks.total_weights
        self.n_asked = 0
        self._ranks = ranks

    def around_ranks(self, *arguments):
        self.n_asked += 1
        return self._ranks.around_ranks(*arguments)

    def weights_below(self, *arguments):
        self.n_asked += 1
        return self._ranks.weights_below(*arguments)


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@with_table
def test_windows_and_what_is_beside_them_agree_with_counting(x, bounds, monkeypatch, rng):
    always(monkeypatch)
    grid = make_grid([bounds])
    windows = Windows.around(grid, x, np.array([0.2, 0.25, 0.7]), np.full(3, x.size / 200))
    if windows is None:
        assert np.isnan(x[:: -(-x.size // 500)].astype(np.float64)).all()
        return

    of_all = Unless(of_column(x, grid))
    ranks = WindowedRanks(x, windows, of_all, lambda rows: of_column(rows, grid), in_turn)
    total = int(of_all.total_weights[0])
    asked = np.append(rng.integers(0, total + 1, 40), [0, total, max(total - 1, 0)])
    numbers = x[:20].astype(np.float64)
    cells = grid.cells_of(np.append(numbers[~np.isnan(numbers)], [0.0, 1.0]), 0)
    cells = np.concatenate((cells, cells + 1, windows.first, windows.last, windows.last + 1))
    cells = np.concatenate((cells, windows.first - 1, windows.last + 2, grid.first, grid.end))
    cells = np.clip(cells, grid.first[0], grid.end[0])
    naive = naive_answers(x, None, grid, 0, asked, cells)

    assert ranks.total_weights == naive[0]
    for weight, expected in zip(asked, naive[1].T, strict=True):
        found = ranks.around_ranks(np.array([[0]]), np.array([[weight]]))
        assert np.array_equal(np.ravel(found), expected)
    for cell, expected in zip(cells, naive[2], strict=True):
        assert ranks.weights_below(0, np.array([cell])) == expected
    assert of_all.n_asked < asked.size + cells.size  # some were inside


def test_only_what_is_beside_the_windows_asks_for_all_rows(monkeypatch):
    always(monkeypatch)
    x = np.random.default_rng(0).permutation(5000.0 + np.arange(5000))
    grid = make_grid([(-INF, INF)])
    windows = Windows.around(grid, x, np.array([0.3, 0.6]), np.full(2, 50.0))
    kept = []

    def rank_some(rows):
        kept.append(rows)
        return of_column(rows, grid)

    of_all = Unless(of_column(x, grid))
    ranks = WindowedRanks(x, windows, of_all, rank_some, in_turn)
    assert windows.first.size == 2 and kept[0].size < 1000

    ranks.around_ranks(np.array([[0]]), np.array([[1500, 3000]]) * RECORD_WEIGHT)
    ranks.weights_below(0, grid.cells_of(np.array([6500.0, 8000.0]), 0))
    assert of_all.n_asked == 0
    ranks.around_ranks(np.array([[0]]), np.array([[1500, 2250]]) * RECORD_WEIGHT)
    ranks.weights_below(0, grid.cells_of(np.array([6500.0, 7250.0]), 0))
    assert of_all.n_asked == 2


@with_table
def test_windows_hold_all_rows_of_their_cells_and_each_row_once(x):
    values = x.astype(np.float64)
    values = values[~np.isnan(values)]
    for bounds in BOUNDS:
        grid = make_grid([bounds])
        cells = grid.cells_of(values, 0)
        starts = cells[: 3 * (cells.size // 3)].reshape(3, -1)[:, :1].ravel()
        if starts.size == 0:
            continue
        windows = Windows.between(grid, starts, starts + np.array([0, 10, 0]))
        assert np.all(windows.low[1:] > windows.high[:-1])
        rounded = values.astype(np.float32)[:, None]
        is_inside = (rounded >= windows.low) & (rounded <= windows.high)
        in_cells = (cells[:, None] >= windows.first) & (cells[:, None] <= windows.last)
        assert np.all(is_inside[in_cells])
        for start in starts:
            assert np.any((windows.first <= start) & (start <= windows.last))


@pytest.mark.filterwarnings("ignore")
@with_table
def test_quantiles_of_a_long_column_are_those_from_sorted_rows_bit_by_bit(x, monkeypatch):
    def values():
        return quantiles_of(x, [0.5], [0.3, 0.6], [0.1, 0.25, 0.5, 0.9])

    monkeypatch.setattr(sources, "SELECTED_ROWS", x.size + 1)
    expected = values()
    monkeypatch.setattr(sources, "SELECTED_ROWS", 1)
    select_all(monkeypatch)
    for narrow in (False, True):
        if narrow:
            always(monkeypatch)
        else:
            monkeypatch.setattr(windowed_ranks, "_FEWEST_ROWS", 1)
        for is_fast in (True, False):
            monkeypatch.setattr(sources, "sorting_is_fast", lambda is_fast=is_fast: is_fast)
            for one, other in zip(values(), expected, strict=True):
                assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    ("x", "probabilities", "reach", "is_windowed"),
    [
        (np.arange(10**6), [0.5], 100.0, True),
        (np.arange(10**6), [0.1, 0.3, 0.6, 0.9], 100.0, True),
        (np.arange(10**6), [0.1, 0.2, 0.3, 0.6, 0.9], 100.0, False),
        (np.arange(10**6), [0.5], 200_000.0, False),
        (np.arange(10**5), [0.5], 100.0, False),
        (np.zeros(10**6), [0.5], 100.0, False),
        (np.full(10**6, NAN), [0.5], 100.0, False),
    ],
    ids=["median", "four", "five", "far", "few rows", "an atom", "no number"],
)
def test_windows_are_for_few_quantiles_of_many_rows(x, probabilities, reach, is_windowed):
    ranks = sources.Table(x).read(make_grid([(-INF, INF)])).ranks
    size = len(probabilities)
    near = ranks.near(np.zeros(size, int), np.array(probabilities), np.full(size, reach))
    assert isinstance(near, WindowedRanks) == is_windowed


def test_tables_and_people_have_no_windows():
    x = np.arange(300_000)
    grid = make_grid([(-INF, INF)] * 2)
    tables = (sources.Table(np.column_stack([x, x])), sources.Table(x, groups=x // 2))
    for table, of_table in zip(tables, (grid, grid[:1]), strict=True):
        ranks = table.read(of_table).ranks
        assert type(ranks) is selected_ranks.SelectedRanks
