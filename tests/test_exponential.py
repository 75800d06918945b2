"""Weights equal the definition, and the draw gives every outcome its probability."""

import itertools
import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from dpq_sklearn.engine import exponential as exponential_module
from dpq_sklearn.engine.exponential import (
    FLOOR,
    Nodes,
    Scores,
    ascending_shares,
    chances_to_keep,
    draw,
    draw_by_measure,
    node_runs,
    rank_intervals,
    run_bounds,
)
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.engine.weighted_ranks import WeightedRanks
from dpq_sklearn.mechanisms.base_measure import step_measure
from dpq_sklearn.reading.summaries import Summary
from tests.enumeration import (
    DisagreeingRanks,
    cell_measures,
    column_of,
    lumpy_grid,
    middle_rank,
    node_between,
    place_weights,
    places_per_cell,
    repeated,
    step_measure_of,
    summary_of,
    tiny_grid,
    whole_node,
)


def seeded(seed):
    return make_randomness(seed)


def exact_quantile(q):
    """Return the rounded quantile of a node."""
    return Fraction(round(q * 2**30), 2**30)


def naive_weights(counts, grid, node):
    """The definition, place by place, in exact rational arithmetic up to the exp.

    One weight for each position of the grid; in a leaf, that of a cell is at its first position.
    """
    per_cell = grid.positions_per_cell
    names = ("lo", "hi", "lo_rank", "hi_rank", "q", "eps", "places_per_cell")
    lo, hi, lo_rank, hi_rank, q, eps, n_places = (getattr(node, name)[0].item() for name in names)
    q, is_leaf = exact_quantile(q), n_places == 1
    ticks = RECORD_WEIGHT * per_cell
    target = lo_rank + q * (hi_rank - lo_rank)
    eta = min(eps / float(2 * max(q, 1 - q)) / ticks, 96 * math.log(2))
    weights = [0.0] * (per_cell * len(counts))
    for cell in range(lo // per_cell, hi // per_cell + 1):
        segment = np.searchsorted(node.measure.cuts[0], cell, side="right") - 1
        measure = float(cell_measures(grid)[cell] * node.measure.densities[0, segment])
        before, inside = sum(counts[:cell]), counts[cell]
        for sub in range(1 if is_leaf else per_cell):
            position = cell * per_cell + sub
            if not is_leaf and not lo <= position <= hi:
                continue
            n_positions = per_cell if is_leaf else 1
            low = ticks * before + ticks * Fraction(inside * sub, per_cell)
            high = low + ticks * Fraction(inside * n_positions, per_cell)
            distance = max(low - target, target - high, 0)
            weight = math.exp(-eta * float(distance)) + 2.0**-96
            weights[position] = measure * weight
    return np.array(weights)


# All ranks are looked up, some, those that are far away, or hardly any.
DENSE = np.concatenate((-np.arange(50, 0, -0.5), np.arange(0, 50, 0.5)))
LOOK_UPS = {
    "as it is": exponential_module._LOOK_UPS,
    "dense": DENSE,
    "sparse": np.array([-46.0, -1.0, 0.0, 1.0, 46.0]),
    "far away": np.array([-1e30, 0.0, 1e30]),
    "one side": np.array([0.0, 1.0, 2.0]),
    "target only": np.array([0.0]),
}
GRIDS = {"even": tiny_grid(4, 4), "lumpy": lumpy_grid(4)}


@settings(max_examples=250)
@given(
    counts=st.lists(st.sampled_from([0, 0, 1, 2, 3, 30]), min_size=4, max_size=4),
    ends=st.tuples(st.integers(0, 15), st.integers(0, 15)),
    q=st.floats(0.001, 0.999),
    eps=st.sampled_from([1e-6, 0.01, 1.0, 50.0, 1e3, 1e6, 1e12]),
    is_leaf=st.booleans(),
    look_ups=st.sampled_from(sorted(LOOK_UPS)),
    grid=st.sampled_from(sorted(GRIDS)),
    source=st.sampled_from([column_of, summary_of]),
    shares=st.lists(st.floats(0, 1), min_size=4, max_size=4),
    densities=st.lists(st.sampled_from([1e-6, 1.0, 3.7, 1e6]), min_size=5, max_size=5),
)
def test_runs_give_the_weight_of_every_place(
    counts, ends, q, eps, is_leaf, look_ups, grid, source, shares, densities
):
    """What a run proposes, as often as it is kept, whatever was looked up; outside: nothing."""
    grid = GRIDS[grid]
    ranks, (lo, hi) = source(counts, grid), sorted(ends)
    first, last = lo // 4, hi // 4 + 1
    cuts = [first, *sorted(first + round(share * (last - first)) for share in shares), last]
    measure = step_measure_of(grid, cuts, densities)
    node = node_between(ranks, lo, hi, q, eps, is_leaf, measure)
    with mock.patch.object(exponential_module, "_LOOK_UPS", LOOK_UPS[look_ups]):
        weights = place_weights(ranks, node)[0]
    np.testing.assert_allclose(weights, naive_weights(counts, grid, node), rtol=1e-12)


@pytest.mark.parametrize("is_leaf", [False, True])
def test_weights_of_2_to_the_minus_90_are_as_accurate_as_the_best(is_leaf):
    """A record every 2 positions in a long node: near weights 1, far ones e^-62."""
    counts, grid = [1] * 64, tiny_grid(64, 2)
    ranks = column_of(counts, grid)
    node = whole_node(ranks, 0.5, 4.0, is_leaf)
    weights, naive = place_weights(ranks, node)[0], naive_weights(counts, grid, node)
    assert naive[naive > 0].min() < 2.0**-90 * naive.max() * 2
    np.testing.assert_allclose(weights, naive, rtol=1e-12)


def in_one(batches):
    """Merge several batches of nodes into one."""
    if isinstance(batches[0], np.ndarray):
        return np.concatenate(batches)
    names = vars(batches[0])
    return type(batches[0])(
        **{name: in_one([getattr(batch, name) for batch in batches]) for name in names}
    )


def test_a_batch_of_nodes_has_the_weights_of_its_nodes(rng):
    """Nodes that need more look-ups than others, that have no records, and of one position."""
    ranks = column_of([0, 3, 0, 0, 9, 1, 0, 40], tiny_grid(8, 4))
    ends = [(0, 31), (5, 6), (8, 15), (8, 8), (17, 30), (29, 31)]
    rows = [
        node_between(ranks, lo, hi, rng.random(), rng.choice([0.01, 0.7, 100]), is_leaf)
        for lo, hi in ends
        for is_leaf in (False, True)
    ]
    of_all = place_weights(ranks, in_one(rows))
    for row, weights in zip(rows, of_all, strict=True):
        np.testing.assert_allclose(weights, place_weights(ranks, row)[0], rtol=1e-14)


def test_target_is_exact():
    ranks = column_of([1] * 5, tiny_grid(5, 2))
    node = whole_node(ranks, 1 / 3, 1.0)
    node = replace(node, lo_rank=np.array([10]), hi_rank=np.array([11 + 2**61]))
    scores = Scores.of(node, 2)
    exact = 10 + exact_quantile(1 / 3) * (2**61 + 1)
    assert scores.target[0] == math.floor(exact)
    assert scores.remainder[0] == pytest.approx(float(exact - math.floor(exact)))


def test_score_is_the_distance_of_the_target_to_the_ranks():
    scores = Scores(eta=np.array([0.5]), target=np.array([100]), remainder=np.array([0.25]))
    low, high = np.array([[90, 90, 100, 101, 104]]), np.array([[98, 100, 101, 102, 104]])
    assert scores.of_interval(low, high)[0].tolist() == [1.125, 0.125, 0.0, 0.375, 1.875]


@pytest.mark.parametrize(
    ("eps", "q", "expected"),
    [(1.0, 0.5, 1.0), (1.0, 0.25, 2 / 3), (3.0, 0.9, 3 / 1.8), (1e300, 0.5, None)],
)
def test_eta_is_eps_over_twice_the_sensitivity(eps, q, expected):
    ranks = column_of([1, 1], tiny_grid(2, 4))
    eta = Scores.of(whole_node(ranks, q, eps), 4).eta[0]
    of_record = eta * RECORD_WEIGHT * 4
    assert eta == 96 * math.log(2) if expected is None else of_record == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("is_leaf", [False, True], ids=["position", "cell"])
@pytest.mark.parametrize("look_ups", ["as it is", "sparse", "target only"])
@pytest.mark.parametrize("grid", [tiny_grid(8, 2), lumpy_grid(2, 8)], ids=["even", "lumpy"])
@pytest.mark.parametrize("n_proposals", [1, 3])
def test_draw_has_the_distribution_of_the_weights_whatever_is_looked_up(
    n_proposals, grid, look_ups, is_leaf, monkeypatch
):
    monkeypatch.setattr(exponential_module, "_LOOK_UPS", LOOK_UPS[look_ups])
    monkeypatch.setattr(exponential_module, "_PROPOSALS_AT_ONCE", n_proposals * 4000)
    counts = [3, 0, 2, 4, 0, 1, 1, 1]
    ranks = column_of(counts, grid)
    measure = step_measure_of(grid, [0, 2, 4, 4, 7], [1.0, 0.3, 9.0, 2.0])
    node = node_between(ranks, 1, 12, 0.4, 2.0, is_leaf, measure)
    positions, split_ranks = draw(ranks, repeated(node, 4000), seeded(7))
    if is_leaf:
        positions = positions // 2 * 2
    else:
        assert split_ranks.tolist() == [middle_rank(ranks, p) for p in positions.tolist()]
    drawn = np.bincount(positions, minlength=16)

    def p_value(eps):
        exact = naive_weights(counts, grid, node_between(ranks, 1, 12, 0.4, eps, is_leaf, measure))
        assert np.all(drawn[exact == 0] == 0)
        expected = exact[exact > 0] / exact.sum() * drawn.sum()
        return chisquare(drawn[exact > 0], expected).pvalue

    assert p_value(2.0) > 1e-3
    assert p_value(2.6) < 1e-3


def test_draws_of_several_nodes_have_the_distributions_of_their_weights():
    counts, grid = [1, 2, 0, 3], tiny_grid(4, 1)
    ranks = column_of(counts, grid)
    nodes = [whole_node(ranks, q, 1.0, is_leaf) for q in (0.2, 0.7) for is_leaf in (False, True)]
    positions = draw(ranks, repeated(in_one(nodes), 401), seeded(8))[0].reshape(-1, 4)
    for node, drawn in zip(nodes, positions.T, strict=True):
        exact = naive_weights(counts, grid, node)
        expected = exact / exact.sum() * drawn.size
        assert chisquare(np.bincount(drawn, minlength=4), expected).pvalue > 1e-3


def test_nodes_of_a_batch_are_drawn_independently():
    ranks = column_of([1, 2, 1, 0], tiny_grid(4, 1))
    node = whole_node(ranks, 0.5, 0.5)
    positions, _ = draw(ranks, repeated(node, 20_000), seeded(8))
    pairs = np.bincount(4 * positions[::2] + positions[1::2], minlength=16)
    chances = np.bincount(positions, minlength=4) / positions.size
    assert chisquare(pairs, np.outer(chances, chances).ravel() * pairs.sum()).pvalue > 1e-3


class EveryInteger:
    """Return each integer below a bound once, instead of random integers."""

    def integers_below(self, bounds):
        assert np.all(bounds == bounds.size)
        return np.arange(bounds.size)


@pytest.mark.parametrize("per_cell", [1, 2, 4])
@pytest.mark.parametrize("kind", [tiny_grid, lumpy_grid])
def test_positions_of_every_range_are_drawn_by_their_measures(kind, per_cell):
    """Every unit of measure of the range belongs to its position."""
    grid = lumpy_grid(per_cell, 5) if kind is lumpy_grid else tiny_grid(5, per_cell)
    measures = np.repeat(cell_measures(grid), per_cell)
    for first, end in itertools.combinations(range(measures.size + 1), 2):
        total = int(measures[first:end].sum())
        ends = (np.full(total, value) for value in (first, end, per_cell))
        places = draw_by_measure(*ends, grid, np.zeros(total, dtype=int), EveryInteger())
        drawn = np.bincount(places, minlength=measures.size)
        assert np.array_equal(drawn[first:end], measures[first:end])
        assert drawn.sum() == total


def test_ranges_of_real_grids_are_drawn_by_their_measures(rng):
    """Around round numbers: all units of measure of a few cells, some of whose positions count."""
    grid = make_grid([(-np.inf, np.inf), (0.0, 1.0)], 18)
    for column, number in itertools.product((0, 1), (0.0, 0.25, 0.5, 0.3)):
        cell = int(grid.cells_of(np.array([number]), np.array([column]))[0])
        cells = np.arange(max(cell - 2, 0), cell + 3)
        edges = grid.measure_before(
            np.append(cells, cells[-1] + 1), np.full(cells.size + 1, column)
        )
        measures = np.repeat(np.diff(edges), grid.positions_per_cell)
        offset = cells[0] * grid.positions_per_cell
        for _ in range(10):
            first, end = np.sort(rng.integers(0, measures.size, 2))
            total = int(measures[first:end].sum())
            if not 0 < total < 10**5:
                continue
            ends = np.full(total, offset + first), np.full(total, offset + end)
            columns = np.full(total, column)
            per_cell = np.full(total, grid.positions_per_cell)
            drawn = draw_by_measure(*ends, per_cell, grid, columns, EveryInteger()) - offset
            assert np.array_equal(np.bincount(drawn, minlength=end)[first:], measures[first:end])


@pytest.mark.parametrize("seed", range(5))
def test_shares_get_improbable_outcomes_right(seed):
    """Weights down to 2^-96: a sum in any other order would lose all below 2^-53."""
    rng = np.random.default_rng(seed)
    weights = np.exp2(rng.uniform(-96, 0, (3, 600)))
    order, shares = ascending_shares(weights)
    for row in range(3):
        ends = [Fraction(0), *map(Fraction, shares[row].tolist())]
        exact = [Fraction(weights[row, index]) for index in order[row]]
        total = sum(exact)
        for (before, after), weight in zip(itertools.pairwise(ends), exact, strict=True):
            assert abs((after - before) * total / weight - 1) < 2800 * 2.0**-53


def test_equal_weights_have_the_largest_error_of_shares():
    _, shares = ascending_shares(np.full((1, 600), 0.1))
    errors = np.diff(shares[0].astype(np.longdouble), prepend=0) * 600 - 1
    assert np.abs(errors).max() < 2800 * 2.0**-53


def test_nothing_is_never_chosen():
    """A uniform number is above 0, so the first share above it belongs to a weight."""
    weights = np.zeros((1, 300))
    weights[:, [5, 123]] = 1e-30
    order, shares = ascending_shares(weights)
    assert order[0, shares[0] > 0].tolist() == [5, 123]
    assert shares[0, -2:].tolist() == [0.5, 1.0]


def test_place_that_is_no_worse_than_its_bound_is_always_kept():
    scores = np.array([0.0, 0.3, 66.0, 700.0, 1e300])
    assert chances_to_keep(scores, scores).tolist() == [1.0] * 5
    assert chances_to_keep(np.zeros(1), np.array([1e300]))[0] == FLOOR / (1 + FLOOR)


@pytest.mark.parametrize("is_leaf", [False, True])
def test_a_chance_above_one_stops_the_draw_and_is_not_clipped(is_leaf):
    """A bound that does not hold is a bug in the package. The message does not mention data."""
    values = np.sort(np.random.default_rng(0).integers(0, 9, 200) * 1.0)[None]
    ranks = DisagreeingRanks.of_rows(values, make_grid([(0.0, 9.0)], 40, [0]))
    node = whole_node(ranks, 0.5, 0.1, is_leaf)
    with pytest.raises(RuntimeError, match="internal error of dpq_sklearn: ranks") as error:
        for seed in range(100):
            draw(ranks, node, make_randomness(seed))
    assert not any(character.isdigit() for character in str(error.value))


def weights_of_records(cells_and_counts):
    """The ranks of a column of the grid without bounds that has so many records in some cells."""
    cells, counts = zip(*cells_and_counts, strict=True)
    summary = Summary(np.array(cells), np.array(counts) * RECORD_WEIGHT)
    return WeightedRanks.of_summaries([summary], make_grid([(-np.inf, np.inf)]))


@pytest.mark.parametrize("is_leaf", [False, True])
@pytest.mark.parametrize(
    ("counts", "eps"),
    [([50_010, 49_990], 1.0), ([500_100, 499_900], 0.1), ([100_598, 8, 390, 99_004], 0.01)],
    ids=str,
)
def test_ties_do_not_make_many_rounds(counts, eps, is_leaf, monkeypatch):
    """The bound of a run is near its weight, even beside a cell with very many records."""
    ranks = weights_of_records(zip((0, 1, 2, 1000), counts, strict=False))
    node = whole_node(ranks, 0.5, eps, is_leaf)
    rounds = []

    def counted(*arguments):
        rounds.append(1)
        return chances_to_keep(*arguments)

    monkeypatch.setattr(exponential_module, "chances_to_keep", counted)
    for seed in range(50):
        draw(ranks, node, seeded(seed))
    assert len(rounds) < 10 * 50


def conspiracy(near, far, is_leaf):
    """A node whose acceptance is as bad as data can make it, with eta = 1/20 a record.

    The target is in an atom. The records between two look-ups are in cells side by side, and all
    the rest of the number line lies just before the second one.
    """
    n_side, n_near = 20_000, int(20 * near) - 2
    n_between = int(20 * (far - near)) + 1
    cells = [10**11, *range(10**11 + 1, 10**11 + 1 + n_between), 5 * 10**11]
    counts = [n_side + n_near, *[1] * n_between, n_side - n_near - n_between]
    ranks = weights_of_records(zip(cells, counts, strict=True))
    return ranks, whole_node(ranks, 0.5, 0.05, is_leaf)


@pytest.mark.parametrize("is_leaf", [False, True])
@pytest.mark.parametrize("side", [*itertools.pairwise(exponential_module._AHEAD[7:])], ids=str)
def test_no_data_make_very_many_rounds(side, is_leaf):
    """The sum of the bounds over that of the weights is the mean number of rounds."""
    ranks, node = conspiracy(*side, is_leaf)
    scores = Scores.of(node, ranks.grid.positions_per_cell)
    bounds, weights = (
        run_bounds(scores, node_runs(ranks, node, scores, look_ups))[1].sum()
        for look_ups in (exponential_module._LOOK_UPS, np.arange(-60, 60, 0.02))
    )
    assert 1.0 < bounds / weights < 200


def test_work_of_a_node_depends_neither_on_the_records_nor_on_the_budget():
    for n, eps in itertools.product((10**4, 10**6), (1e-9, 1e-3, 0.5, 30.0)):
        ranks = WeightedRanks.of_summaries(
            [Summary(np.arange(n) * 1000, np.full(n, RECORD_WEIGHT))],
            make_grid([(-np.inf, np.inf)]),
        )
        node = whole_node(ranks, 0.3, eps)
        scores = Scores.of(node, ranks.grid.positions_per_cell)
        runs = node_runs(ranks, node, scores, exponential_module._LOOK_UPS)
        assert runs.measures.size < 200


def exact_weight(node, row, low, high, measure):
    """base measure * (exp(-eta distance) + 2^-96) of one place, with 50 digits."""
    with localcontext() as context:
        context.prec = 50
        q, eps = exact_quantile(node.q[row].item()), Fraction(node.eps[row].item())
        lo, hi = int(node.lo_rank[row]), int(node.hi_rank[row])
        target = lo + q * (hi - lo)
        eta = eps / (2 * max(q, 1 - q)) / (RECORD_WEIGHT * 2**10)
        exponent = eta * max(low - target, target - high, 0)
        as_decimal = Decimal(exponent.numerator) / Decimal(exponent.denominator)
        return Decimal(measure) * ((-as_decimal).exp() + Decimal(2) ** -96)


@pytest.mark.parametrize("seed", range(4))
def test_error_of_a_weight_is_far_below_what_is_reserved(seed):
    """Random places of random nodes of the real grid, against 50 digits: 400 u are promised."""
    rng = np.random.default_rng(seed)
    values = np.sort(np.round(rng.standard_t(2, size=3000) * 100, 1))
    grid = make_grid([(-np.inf, np.inf)])
    ranks, per_cell = SortedRanks.of_rows(values[None], grid), grid.positions_per_cell
    n_nodes = 200
    column = np.zeros(n_nodes, dtype=int)
    ends = np.sort(rng.choice(values, (2, n_nodes)), axis=0)
    lo, hi = per_cell * grid.cells_of(ends, 0) + rng.integers(0, per_cell, (2, n_nodes))
    hi = np.maximum(lo, hi)
    of_ends = [np.array([middle_rank(ranks, p) for p in end.tolist()]) for end in (lo, hi)]
    q, eps = rng.uniform(0.01, 0.99, n_nodes), 10 ** rng.uniform(-4, 2, n_nodes)
    closed = np.zeros((2, n_nodes), dtype=bool)
    cells = lo // per_cell, hi // per_cell
    measure = step_measure(grid, column, *cells, cells[0], closed, ~closed)
    n_places = places_per_cell(grid, rng.random(n_nodes) < 0.5)
    nodes = Nodes(
        column=column,
        lo=lo,
        hi=hi,
        lo_rank=of_ends[0],
        hi_rank=of_ends[1],
        q=q,
        eps=eps,
        places_per_cell=n_places,
        measure=measure,
    )
    scores = Scores.of(nodes, per_cell)
    runs = node_runs(ranks, nodes, scores, exponential_module._LOOK_UPS)
    least_scores, bounds = run_bounds(scores, runs)
    worst = 0.0
    for row in range(n_nodes):
        run = rng.choice(np.flatnonzero(bounds[row] > 0))
        start, end = (int(runs.cuts[row, run + side]) for side in (0, 1))
        place = np.array([rng.integers(start, end)])
        low, high = rank_intervals(ranks, nodes, np.array([row]), place)
        score = scores.of_interval(low, high, np.array([row]))
        chance = chances_to_keep(least_scores[row, run], score)[0]
        segment = np.searchsorted(measure.cuts[row], start // n_places[row], side="right") - 1
        of_run = even_grid_measure(grid, start, end, int(n_places[row]))
        weight = Decimal(bounds[row, run].item()) * Decimal(chance.item())
        base = Fraction(of_run) * Fraction(measure.densities[row, segment].item())
        exact = exact_weight(nodes, row, int(low[0]), int(high[0]), 1)
        with localcontext() as context:
            context.prec = 50
            exact *= Decimal(base.numerator) / Decimal(base.denominator)
            worst = max(worst, abs(float(weight / exact - 1)))
    assert 2.0**-54 < worst < 400 * 2.0**-53


def even_grid_measure(grid, start, end, per_cell):
    """The grid measure of the places from `start` to `end`, cell by cell at both ends."""

    def before(place):
        cell, sub = divmod(place, per_cell)
        at, behind = grid.measure_before(np.array([cell, cell + 1]), np.zeros(2, dtype=int))
        return per_cell * int(at) + sub * int(behind - at)

    return before(end) - before(start)
