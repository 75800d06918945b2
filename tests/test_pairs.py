"""Draws of two quantiles at once: distances, weights, the sampler and its rounding errors."""

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import chisquare

from dpq_sklearn.engine import pairs as pairs_module
from dpq_sklearn.engine.exponential import Nodes, StepMeasure, node_runs, rank_intervals
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.pairs import (
    PAIR_FLOOR,
    PairScores,
    bounds_of_lower_runs,
    chances_to_keep,
    distance_slopes,
    draw,
    weights_of_upper_runs,
)
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
    pair_weights,
    places_per_cell,
    step_measure_of,
    tiny_grid,
    whole_node,
)

QUANTILES = [(1 / 3, 2 / 3), (0.2, 0.9), (0.7, 0.71), (0.05, 0.1), (0.95, 0.999), (0.25, 0.75)]
# Rounding may make a part, or two, empty.
DEGENERATE = [(0.0, 0.5), (0.5, 0.5), (0.0, 1.0), (0.3, 0.3), (0.0, 0.0), (1.0, 1.0), (0.6, 1.0)]


def in_pairs(lower, upper):
    """Pair nodes of the nodes of the lower quantiles and of those of the upper ones."""
    if isinstance(lower, np.ndarray):
        return np.concatenate((lower, upper))
    kind = Nodes if isinstance(lower, Nodes) else StepMeasure
    return kind(**{name: in_pairs(vars(lower)[name], vars(upper)[name]) for name in vars(lower)})


def pair_between(ranks, lo, hi, q, eps, is_leaf=False, measures=(None, None)):
    """One pair node between two positions."""
    return in_pairs(
        *(node_between(ranks, lo, hi, q[i], eps, is_leaf, measures[i]) for i in range(2))
    )


def whole_pair(ranks, q, eps, is_leaf=False):
    """One pair node: the whole first column."""
    return in_pairs(*(whole_node(ranks, of_one, eps, is_leaf) for of_one in q))


def scores_of(q, eta=1.0):
    """The scores of one pair without data, to which errors are handed."""
    q1, q2 = np.array(q)[:, None]
    return PairScores(
        eta=np.array([eta]), slopes=distance_slopes(q1, q2), least_slope=None, targets=None
    )


def slopes_in_a_and_b(slopes):
    """All slopes as an array (2, 5, n_pairs): those in a of all functions, then those in b."""
    lines = [slopes.up_down, slopes.up_up, slopes.down_up]
    lines += [(slopes.a_alone, 0 * slopes.a_alone), (0 * slopes.b_alone, slopes.b_alone)]
    return np.array(lines).swapaxes(0, 1)


def distance(a, b, q):
    """The definition: the least sum over M, which is where one of the parts is exact."""
    shares = np.diff([0, *q, 1])
    parts = (a, b - a, -b)
    return min(
        sum(abs(parts[i] - parts[j] / shares[j] * shares[i]) for i in range(3))
        for j in range(3)
        if shares[j] > 0
    )


# Distances


@pytest.mark.parametrize("q", [*QUANTILES, *DEGENERATE], ids=str)
def test_distance_is_the_weight_that_must_come_or_go(q, rng):
    for a, b in rng.normal(scale=10, size=(50, 2)):
        found = scores_of(q).of_boxes((a, a), (b, b), np.array([0]))[0]
        assert found == pytest.approx(distance(a, b, q), rel=1e-6)


@pytest.mark.parametrize("q", QUANTILES, ids=str)
def test_distance_of_a_box_is_the_least_in_it(q, rng):
    """By linear programming: over both ranks, M, and the three parts of the sum."""
    shares = np.diff([0, *q, 1])
    for _ in range(20):
        a, b = np.sort(rng.uniform(-5, 5, (2, 2)) + rng.normal(scale=5, size=(2, 1)), axis=1)
        rows, sides = [], []
        for j, (of_a, of_b) in enumerate(((1, 0), (-1, 1), (0, -1))):
            for sign in (1, -1):
                rows.append([sign * of_a, sign * of_b, -sign * shares[j], *(-np.eye(3)[j])])
                sides.append(0.0)
        limits = [tuple(a), tuple(b), (None, None), *[(0, None)] * 3]
        least = linprog([0, 0, 0, 1, 1, 1], A_ub=rows, b_ub=sides, bounds=limits).fun
        found = scores_of(q).of_boxes(a, b, np.array([0]))[0]
        assert found == pytest.approx(least, abs=1e-9)


@pytest.mark.parametrize("q", [*QUANTILES, *DEGENERATE], ids=str)
def test_no_record_changes_a_distance_by_more_than_its_weight(q):
    """The functions of which it is the maximum: a record in one part, or shared by all of them."""
    q1, q2 = q
    slopes = slopes_in_a_and_b(distance_slopes(*np.array(q)[:, None]))[:, :, 0]
    changes = slopes.T @ np.array([(1 - q1, 1 - q2), (-q1, 1 - q2), (-q1, -q2)]).T
    assert np.all(np.abs(changes) <= 1 + 1e-12)
    # As the functions of one quantile alone are, and some of two: none could be larger.
    assert np.all(np.abs(changes).max(axis=1) >= 1 - 1e-12)


@pytest.mark.parametrize("q", QUANTILES, ids=str)
def test_distance_of_one_error_is_that_of_a_single_draw(q):
    """This holds if the other error is arbitrary."""
    free = np.array([-1e6, 1e6])
    for error, (a, b, of_one) in itertools.product((-3.0, 0.0, 5.0), ((0, 1, q[0]), (1, 0, q[1]))):
        box = [None, None]
        box[a], box[b] = np.array([error, error]), free
        found = scores_of(q).of_boxes(*box, np.array([0]))[0]
        assert found == pytest.approx(abs(error) / max(of_one, 1 - of_one))


def test_a_box_inside_of_another_is_no_nearer_not_even_by_rounding(rng):
    for q in QUANTILES:
        scores = scores_of(q, eta=0.123)
        outer = np.sort(rng.normal(scale=1e6, size=(2, 2, 2000)), axis=0)
        inner = outer[:1] + np.sort(rng.random((2, 2, 2000)), axis=0) * (outer[1:] - outer[:1])
        inner = np.clip(inner, outer[0], outer[1])
        of_both = (
            scores.of_boxes(box[:, 0], box[:, 1], np.zeros(2000, dtype=int))
            for box in (outer, inner)
        )
        assert np.all(next(of_both) <= next(of_both))


# Weights, against the definition


def naive_pair_weights(counts, grid, nodes):
    """The definition, pair by pair; in a leaf, that of two cells is at their first positions."""
    per_cell = grid.positions_per_cell
    n_cells, n_positions = len(counts), len(counts) * per_cell
    lo, hi, lo_rank, hi_rank, eps, n_places = (
        getattr(nodes, name)[0].item()
        for name in ("lo", "hi", "lo_rank", "hi_rank", "eps", "places_per_cell")
    )
    q = [Fraction(round(of_one * 2**30), 2**30) for of_one in nodes.q.tolist()]
    targets = [lo_rank + of_one * (hi_rank - lo_rank) for of_one in q]
    before = np.cumsum([0, *counts]) * RECORD_WEIGHT * per_cell
    eta = min(eps / 2 / (RECORD_WEIGHT * per_cell), 192 * np.log(2))
    scores = scores_of([float(of_one) for of_one in q], eta)

    is_leaf = n_places == 1
    places = range(0, n_positions, per_cell) if is_leaf else range(n_positions)
    places = (
        [p for p in places if lo // per_cell * per_cell <= p <= hi]
        if is_leaf
        else [p for p in places if lo <= p <= hi]
    )

    def ranks_of(place):
        cell, sub = divmod(place, per_cell)
        inside = int(before[cell + 1] - before[cell])
        if is_leaf:
            return int(before[cell]), int(before[cell + 1])
        return tuple(int(before[cell]) + inside * s // per_cell for s in (sub, sub + 1))

    def measure_of(place, which):
        cuts = nodes.measure.cuts[which].tolist()
        cell = place // per_cell
        segment = max(i for i in range(len(cuts) - 1) if cuts[i] <= cell < cuts[i + 1])
        return cell_measures(grid)[cell] * nodes.measure.densities[which, segment]

    weights = np.zeros((n_positions, n_positions))
    assert n_cells * per_cell == n_positions
    for v1, v2 in itertools.combinations_with_replacement(places, 2):
        box = [
            [np.array([float(rank - target)]) for rank in ranks_of(v)]
            for v, target in zip((v1, v2), targets, strict=True)
        ]
        score = scores.of_boxes(*box, np.array([0]))[0]
        weights[v1, v2] = measure_of(v1, 0) * measure_of(v2, 1) * (np.exp(-score) + PAIR_FLOOR)
    return weights


LOOK_UPS = {
    "as it is": pairs_module._LOOK_UPS,
    "sparse": np.array([-10.0, 0.0, 3.0]),
    "targets only": np.array([0.0]),
}
GRIDS = {"even": tiny_grid(5, 4), "lumpy": lumpy_grid(4, 5)}


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(0, 5), min_size=5, max_size=5),
    ends=st.lists(st.integers(0, 19), min_size=2, max_size=2),
    q=st.sampled_from(QUANTILES),
    eps=st.sampled_from([0.01, 1.0, 30.0, 1e5]),
    is_leaf=st.booleans(),
    look_ups=st.sampled_from(list(LOOK_UPS)),
    grid=st.sampled_from(list(GRIDS)),
    densities=st.lists(st.sampled_from([1e-6, 1.0, 3.7, 1e6]), min_size=4, max_size=4),
)
def test_runs_give_the_weight_of_every_pair(
    counts, ends, q, eps, is_leaf, look_ups, grid, densities
):
    """Two base measures that differ; outside of the node, and where v1 > v2: nothing."""
    grid = GRIDS[grid]
    ranks, (lo, hi) = column_of(counts, grid), sorted(ends)
    first, last = lo // 4, hi // 4 + 1
    middle = (first + last) // 2
    measures = [
        step_measure_of(grid, [first, middle, last], of_one)
        for of_one in (densities[:2], densities[2:])
    ]
    node = pair_between(ranks, lo, hi, q, eps, is_leaf, measures)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs_module, "_LOOK_UPS", LOOK_UPS[look_ups])
        weights = pair_weights(ranks, node)[0].reshape(20, 20)
    np.testing.assert_allclose(weights, naive_pair_weights(counts, grid, node), rtol=1e-11)


# The sampler


@pytest.mark.slow
@pytest.mark.parametrize("is_leaf", [False, True], ids=["position", "cell"])
@pytest.mark.parametrize(
    "independent_rounds", [0, 1, 10_000], ids=["dependent", "both", "independent"]
)
@pytest.mark.parametrize("look_ups", LOOK_UPS)
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("q", [(1 / 3, 2 / 3), (0.2, 0.9), (0.6, 0.7)], ids=str)
def test_draw_has_the_distribution_of_the_weights_whatever_is_looked_up(
    q, grid, look_ups, independent_rounds, is_leaf, monkeypatch
):
    """Check both ways of choosing runs."""
    monkeypatch.setattr(pairs_module, "_LOOK_UPS", LOOK_UPS[look_ups])
    monkeypatch.setattr(pairs_module, "_DENSE_LOOK_UPS", LOOK_UPS[look_ups])
    monkeypatch.setattr(pairs_module, "_INDEPENDENT_ROUNDS", independent_rounds)
    counts, grid = [3, 0, 4, 0, 1], GRIDS[grid]
    ranks = column_of(counts, grid)
    measures = [
        step_measure_of(grid, [0, 2, 3, 5], densities)
        for densities in ([1.0, 0.3, 9.0], [2.0, 2.0, 0.5])
    ]
    n_draws = 6000

    def pair(eps):
        return pair_between(ranks, 1, 17, q, eps, is_leaf, measures)

    positions, split_ranks = draw(ranks, repeated_pair(pair(2.0), n_draws), make_randomness(7))
    if is_leaf:
        positions = positions // 4 * 4
    else:
        middles = np.array([middle_rank(ranks, position) for position in range(20)])
        assert np.array_equal(split_ranks, middles[positions])
    lower, upper = positions.reshape(2, n_draws)
    drawn = np.bincount(20 * lower + upper, minlength=400)

    def p_value(eps):
        exact = naive_pair_weights(counts, grid, pair(eps)).ravel()
        assert np.all(drawn[exact == 0] == 0)
        expected = exact / exact.sum() * n_draws
        is_rare, most = expected < 5, expected.argmax()
        observed = drawn.copy()
        observed[most] += observed[is_rare].sum()
        expected[most] += expected[is_rare].sum()
        return chisquare(observed[~is_rare], expected[~is_rare]).pvalue

    assert p_value(2.0) > 1e-3
    assert p_value(2.6) < 1e-3


@pytest.mark.parametrize("is_leaf", [False, True])
def test_a_chance_above_one_stops_the_draw_and_is_not_clipped(is_leaf):
    """A bound that does not hold is a bug in the package. The message does not mention data."""
    values = np.sort(np.random.default_rng(0).integers(0, 9, 200) * 1.0)[None]
    ranks = DisagreeingRanks.of_rows(values, make_grid([(0.0, 9.0)], 40, [0]))
    node = whole_pair(ranks, (0.3, 0.7), 0.1, is_leaf)
    with pytest.raises(RuntimeError, match="internal error of dpq_sklearn: ranks") as error:
        for seed in range(100):
            draw(ranks, node, make_randomness(seed))
    assert not any(character.isdigit() for character in str(error.value))


def repeated_pair(node, times):
    """Many equal pair nodes."""
    return in_pairs(*(repeated_row(node, row, times) for row in (0, 1)))


def repeated_row(node, row, times):
    if isinstance(node, np.ndarray):
        return np.repeat(node[row : row + 1], times, axis=0)
    kind = Nodes if isinstance(node, Nodes) else StepMeasure
    return kind(**{name: repeated_row(of_all, row, times) for name, of_all in vars(node).items()})


def test_pairs_of_a_batch_are_drawn_independently_and_each_by_its_own_weights():
    counts, grid = [1, 2, 0, 3], tiny_grid(4, 1)
    ranks = column_of(counts, grid)
    kinds = [whole_pair(ranks, q, eps) for q, eps in (((0.2, 0.5), 1.0), ((0.6, 0.8), 0.3))]
    batch = [in_pairs(*(repeated_row(kind, row, 4000) for kind in kinds)) for row in (0, 1)]
    positions, _ = draw(ranks, in_pairs(*batch), make_randomness(3))
    drawn = (4 * positions[:8000] + positions[8000:]).reshape(2, 4000)
    chances = []
    for kind, of_kind in zip(kinds, drawn, strict=True):
        exact = naive_pair_weights(counts, grid, kind).ravel()
        is_there = exact > 0
        chances.append(exact[is_there] / exact.sum())
        found = np.bincount(of_kind, minlength=16)[is_there]
        assert chisquare(found, chances[-1] * 4000).pvalue > 1e-3
    both = np.bincount(16 * (drawn[0] // 4) + drawn[1] // 4, minlength=64).reshape(4, 16)[:, :4]
    expected = np.outer(both.sum(axis=1), both.sum(axis=0)) / 4000
    assert chisquare(both.ravel(), expected.ravel(), ddof=6).pvalue > 1e-3


# Rounding errors and rounds


def real_pairs(ranks, lo, hi, q, eps, is_leaf):
    """Pair nodes of the first column of a real grid between positions, with the measure in use."""
    grid = ranks.grid
    per_cell = grid.positions_per_cell
    column = np.zeros(lo.size, dtype=int)
    closed = np.zeros((2, lo.size), dtype=bool)
    cells = lo // per_cell, hi // per_cell
    measure = step_measure(grid, column, *cells, cells[0], closed, ~closed)
    halves = (
        Nodes(
            column=column,
            lo=lo,
            hi=hi,
            lo_rank=np.array([middle_rank(ranks, p) for p in lo.tolist()]),
            hi_rank=np.array([middle_rank(ranks, p) for p in hi.tolist()]),
            q=of_one,
            eps=eps,
            places_per_cell=places_per_cell(grid, is_leaf),
            measure=measure,
        )
        for of_one in q
    )
    return in_pairs(*halves)


def exact_exponent(scores, pair, eta, box):
    """eta D of a box of exact errors, with the very slopes in use, which are public."""
    slopes = [
        [Fraction(slope) for slope in of_one]
        for of_one in slopes_in_a_and_b(scores.slopes)[:, :, pair].tolist()
    ]
    values = [0]
    for of_a, of_b in zip(*slopes, strict=True):
        corners = [of_a * a + of_b * b for a, b in itertools.product(*box)]
        values += [min(corners), -max(corners)]
    return eta * max(values)


@pytest.mark.parametrize("seed", range(4))
def test_error_of_a_weight_is_far_below_what_is_reserved(seed):
    """Random places of random nodes of the real grid, against 50 digits: 2,500 u are promised."""
    rng = np.random.default_rng(seed)
    values = np.sort(np.round(rng.standard_t(2, size=3000) * 100, 1))
    grid = make_grid([(-np.inf, np.inf)])
    ranks, per_cell = SortedRanks.of_rows(values[None], grid), grid.positions_per_cell
    n_pairs = 100
    ends = np.sort(rng.choice(values, (2, n_pairs)), axis=0)
    lo, hi = per_cell * grid.cells_of(ends, 0) + rng.integers(0, per_cell, (2, n_pairs))
    q = np.sort(rng.uniform(0.01, 0.99, (2, n_pairs)), axis=0)
    eps = 10 ** rng.uniform(-4, 2, n_pairs)
    nodes = real_pairs(ranks, lo, np.maximum(lo, hi), q, eps, rng.random(n_pairs) < 0.5)
    scores = PairScores.of(nodes, per_cell)
    runs = node_runs(ranks, nodes, scores.targets, pairs_module._LOOK_UPS)
    errors = scores.errors(runs.low_ranks, runs.high_ranks, np.s_[:, None])

    pairs = np.arange(n_pairs)
    lower = np.array([rng.choice(np.flatnonzero(row > 0)) for row in runs.measures[:n_pairs]])
    box_scores, weights = weights_of_upper_runs(scores, runs, errors, pairs, lower)
    upper = np.array([rng.choice(np.flatnonzero(row > 0)) for row in weights])
    run, rows = np.concatenate((lower, upper)), np.arange(2 * n_pairs)
    places = rng.integers(*runs.cuts[rows, [run, run + 1]])
    low, high = rank_intervals(ranks, nodes, rows, places)
    a, b = scores.errors(low, high, rows).reshape(2, 2, -1).swapaxes(0, 1)
    chances = chances_to_keep(box_scores[pairs, upper], scores.of_boxes(a, b, pairs))
    found = weights[pairs, upper] * chances / runs.measures[n_pairs + pairs, upper]

    worst = 0.0
    for pair in range(n_pairs):
        box = []
        for row in (pair, n_pairs + pair):
            share = Fraction(round(float(nodes.q[row]) * 2**30), 2**30)
            lo_rank, hi_rank = int(nodes.lo_rank[row]), int(nodes.hi_rank[row])
            target = lo_rank + share * (hi_rank - lo_rank)
            box.append([int(low[row]) - target, int(high[row]) - target])
        exponent = exact_exponent(scores, pair, Fraction(scores.eta[pair].item()), box)
        with localcontext() as context:
            context.prec = 50
            as_decimal = Decimal(exponent.numerator) / Decimal(exponent.denominator)
            exact = (-as_decimal).exp() + Decimal(2) ** -192
            worst = max(worst, abs(float(Decimal(found[pair].item()) / exact - 1)))
    assert 2.0**-54 < worst < 2500 * 2.0**-53


@pytest.fixture
def rounds(monkeypatch):
    """Grows by one with every round of proposals."""
    seen = []

    def counted(*arguments):
        seen.append(1)
        return chances_to_keep(*arguments)

    monkeypatch.setattr(pairs_module, "chances_to_keep", counted)
    return seen


@pytest.mark.parametrize("is_leaf", [False, True])
@pytest.mark.parametrize("q", [(1 / 3, 2 / 3), (0.05, 0.1), (0.95, 0.999)], ids=str)
def test_no_data_make_very_many_rounds(q, is_leaf, rounds):
    """Atoms, gaps and single records side by side, at random."""
    rng = np.random.default_rng(0)
    grid = make_grid([(-np.inf, np.inf)])
    for seed in range(40):
        gaps = rng.choice([1, 10, 10**6, 10**9, 10**10], size=30)
        counts = rng.choice([1, 1, 2, 20, 100, 1000, 10_000], size=30)
        summary = Summary(int(rng.integers(10**10)) + gaps.cumsum(), counts * RECORD_WEIGHT)
        ranks = WeightedRanks.of_summaries([summary], grid)
        eps = float(rng.choice([0.01, 0.05, 1.0]))
        before = len(rounds)
        draw(ranks, whole_pair(ranks, q, eps, is_leaf), make_randomness(seed))
        assert len(rounds) - before < 200
    assert len(rounds) < 15 * 40


def test_plentiful_data_make_few_rounds(rounds, rng):
    values = np.sort(rng.normal(size=(100, 1000)), axis=1)
    ranks = SortedRanks.of_rows(values, make_grid([(-np.inf, np.inf)] * 100))
    node = whole_pair(ranks, (1 / 3, 2 / 3), 1.0)
    for seed in range(50):
        draw(ranks, node, make_randomness(seed))
    assert len(rounds) < 2.5 * 50


def test_bounds_of_lower_runs_are_near_to_what_they_weigh(rng):
    """Half of them, for thirds of plentiful data."""
    values = np.sort(rng.normal(size=(1, 10_000)), axis=1)
    ranks = SortedRanks.of_rows(values, make_grid([(-np.inf, np.inf)]))
    node = whole_pair(ranks, (1 / 3, 2 / 3), 0.1)
    scores = PairScores.of(node, ranks.grid.positions_per_cell)
    runs = node_runs(ranks, node, scores.targets, pairs_module._LOOK_UPS)
    errors = scores.errors(runs.low_ranks, runs.high_ranks, np.s_[:, None])
    every = np.arange(runs.measures.shape[1])
    _, weights = weights_of_upper_runs(scores, runs, errors, np.zeros_like(every), every)
    known = runs.measures[0] * weights.sum(axis=1)
    bounds = bounds_of_lower_runs(scores, runs.measures, errors)[0]
    assert np.all(known <= bounds * (1 + 1e-13))
    assert 0.35 < known.sum() / bounds.sum() < 0.65


def test_the_largest_look_ups_stay_few():
    """At most 600 runs, also with dense look-ups: they bound the error of choosing one."""
    values = np.arange(1e5)[None]
    ranks = SortedRanks.of_rows(values, make_grid([(0.0, 2e5)]))
    end = ranks.grid.positions_per_cell * int(ranks.grid.end[0]) - 1
    whole = np.array([0]), np.array([end])
    q = np.array([[0.3], [0.6]])
    nodes = real_pairs(ranks, *whole, q, np.array([1e-2]), np.array([False]))
    scores = PairScores.of(nodes, ranks.grid.positions_per_cell)
    runs = node_runs(ranks, nodes, scores.targets, pairs_module._DENSE_LOOK_UPS)
    assert 400 < runs.measures.shape[1] < 600
