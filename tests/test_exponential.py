"""Weights equal the brute-force sum, and the draw gives every outcome its probability."""

import dataclasses
import itertools
import math
import warnings
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from dpq_sklearn.engine import exponential as exponential_module
from dpq_sklearn.engine.exponential import (
    Nodes,
    Scores,
    Segments,
    draw,
    draw_by_mass,
    node_segments,
    race,
    truncated_geometric,
)
from dpq_sklearn.engine.grid import UnboundedGrid
from dpq_sklearn.engine.random import SeededRandomness
from dpq_sklearn.engine.ranks import CellCounts, rank_spans
from tests.enumeration import (
    LumpyGrid,
    column_of,
    lumpy_grid,
    one_node,
    position_weights,
    rank_units,
    tiny_grid,
)
from tests.test_random import ScriptedRandomness


def seeded(seed):
    return SeededRandomness(np.random.SeedSequence(seed))


def naive_weights(ranks, node, eps):
    """The definition, position by position, in exact rational arithmetic up to the exp."""
    lo, hi, lo_units, hi_units, q = (field[0].item() for field in node_fields(node))
    units = 2 * ranks.grid.positions_per_cell
    target = lo_units + Fraction(q) * (hi_units - lo_units)
    eta = min(eps / (2 * max(q, 1 - q)) / units, 96 * math.log(2))
    spans = zip(*(ends.tolist() for ends in rank_spans(ranks, np.arange(lo, hi + 1))), strict=True)
    distances = [max(low - target, target - high, 0) for low, high in spans]
    masses = naive_masses(ranks.grid)[lo : hi + 1]
    weights = [math.exp(-eta * float(distance)) + 2.0**-96 for distance in distances]
    return [mass * weight for mass, weight in zip(masses, weights, strict=True)]


def naive_masses(grid):
    """One mass a position, from the definition of the two tiny grids."""
    masses = [4, 1, 4, 4] if isinstance(grid, LumpyGrid) else [1] * grid.n_cells
    return np.repeat(masses, grid.positions_per_cell).tolist()


def together_in_one(rows):
    fields = (np.concatenate(of_rows) for of_rows in zip(*map(node_fields, rows), strict=True))
    return Nodes(*fields)


def node_fields(nodes):
    return [getattr(nodes, field.name) for field in dataclasses.fields(nodes)]


def node_between(ranks, lo, hi, q):
    return one_node(lo, hi, rank_units(ranks, lo), rank_units(ranks, hi), q)


# All records are looked at, some, or none but those at the target and at the ends.
LOOKS = [
    np.arange(0, 50, 0.01),
    exponential_module._AHEAD,
    np.array([0.0, 1.0, 46.0]),
    np.array([0.0]),
]


@settings(max_examples=300)
@given(
    counts=st.lists(st.integers(0, 4), min_size=4, max_size=4),
    ends=st.tuples(st.integers(0, 15), st.integers(0, 15)),
    q=st.floats(0.001, 0.999),
    eps=st.sampled_from([1e-6, 0.01, 1.0, 50.0, 1e3, 1e6]),
    ahead=st.sampled_from(LOOKS),
    grid=st.sampled_from([tiny_grid(4, 4), lumpy_grid(4)]),
)
def test_segments_give_the_weight_of_every_position(counts, ends, q, eps, ahead, grid):
    ranks = column_of(counts, grid)
    node = node_between(ranks, min(ends), max(ends), q)
    with mock.patch.object(exponential_module, "_AHEAD", ahead):
        weights = position_weights(ranks, node, eps)
    np.testing.assert_allclose(weights, naive_weights(ranks, node, eps), rtol=1e-12)


@settings(max_examples=200)
@given(
    nearest=st.floats(0, 66),
    slope=st.one_of(st.just(0.0), st.floats(1e-15, 60)),
    length=st.integers(1, 400),
)
def test_weight_of_a_segment_is_the_sum_over_its_positions(nearest, slope, length):
    mass = 7 if slope else 7 * length
    fields = (np.array([[value]]) for value in (0, length, mass, nearest, slope, True))
    total = 7 * math.fsum(math.exp(-(nearest + slope * j)) for j in range(length))
    assert Segments(*fields, n_runs=0).weights()[0, 0] == pytest.approx(total, rel=1e-12)


def test_weights_of_2_to_the_minus_90_are_as_accurate_as_the_best():
    """A record every 2 positions in a long node: near weights 1, far ones e^-62."""
    ranks = column_of([1] * 64, tiny_grid(64, 2))
    node = one_node(0, 127, 0, 2 * 2 * 64, 0.5)
    weights = position_weights(ranks, node, 4.0)
    assert weights.min() < 2.0**-90 * weights.max() * 2
    np.testing.assert_allclose(weights, naive_weights(ranks, node, 4.0), rtol=1e-12)


def test_a_batch_of_nodes_has_the_weights_of_its_nodes(rng):
    """Rows that need more columns than others, nodes without records, and one position."""
    ranks = column_of([0, 3, 0, 0, 9, 1, 0, 40], tiny_grid(8, 4))
    ends = [(0, 31), (5, 6), (8, 15), (8, 8), (17, 30), (29, 31)]
    rows = [node_between(ranks, lo, hi, rng.random()) for lo, hi in ends]
    nodes = together_in_one(rows)
    scores = Scores.at(nodes, 0.7, ranks.grid)
    together = node_segments(ranks, nodes, scores).weights()
    for row, weights in zip(rows, together, strict=True):
        alone = node_segments(ranks, row, Scores.at(row, 0.7, ranks.grid)).weights()
        assert np.array_equal(weights[weights > 0], alone[alone > 0])


def test_target_is_exact():
    node = one_node(0, 9, 10, 10 + 2**61 + 1, 1 / 3)
    scores = Scores.at(node, 1.0, tiny_grid(5, 2))
    exact = 10 + Fraction(1 / 3) * (2**61 + 1)
    assert scores.target[0] == exact.__floor__()
    assert scores.remainder[0] == pytest.approx(float(exact - int(scores.target[0])))


@pytest.mark.parametrize("ahead", LOOKS, ids=["all records", "some", "few", "hardly any"])
@pytest.mark.parametrize("grid", [tiny_grid(8, 2), lumpy_grid(4)], ids=["even", "lumpy"])
def test_draw_has_the_distribution_of_the_weights_whatever_it_looks_at(grid, ahead, monkeypatch):
    monkeypatch.setattr(exponential_module, "_AHEAD", ahead)
    ranks = column_of([3, 0, 2, 4, 0, 1, 1, 1][: grid.n_cells], grid)
    node = node_between(ranks, 1, 14, 0.4)
    exact = np.array(naive_weights(ranks, node, 2.0))
    positions, units = draw(ranks, together_in_one([node] * 8000), 2.0, seeded(7))
    assert units.tolist() == [rank_units(ranks, position) for position in positions.tolist()]
    drawn = np.bincount(positions - 1, minlength=14)
    expected = exact / exact.sum() * drawn.sum()
    assert chisquare(drawn, expected).pvalue > 1e-3
    wrong = np.array(naive_weights(ranks, node, 2.6))
    assert chisquare(drawn, wrong / wrong.sum() * drawn.sum()).pvalue < 1e-3


def test_no_draw_warns_whatever_the_weights():
    """A warning would depend on the data: weights that underflow, overflow or are nothing."""
    ranks = CellCounts([5, 2**39, 2**40 - 1], [1, 10**9, 3], UnboundedGrid())
    last, units = 2**61 - 1, 2**22 * ranks.n_records
    for eps in (1e-12, 1e-3, 1.0, 1e3, 1e12, 1e300):
        for q in (1e-9, 0.5, 1 - 1e-9):
            with warnings.catch_warnings(), np.errstate(all="warn"):
                warnings.simplefilter("error")
                draw(ranks, together_in_one([one_node(0, last, 0, units, q)] * 20), eps, seeded(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert race(np.array([[5e-324, 0.0], [0.0, 1e308]]), seeded(2)).tolist() == [0, 1]


@pytest.mark.parametrize("ends", [(0, 16), (1, 3), (3, 5), (2, 13), (7, 16), (5, 6)], ids=str)
def test_positions_of_an_empty_range_are_drawn_by_their_masses(ends):
    start, end = (np.full(20_000, value) for value in ends)
    positions = draw_by_mass(start, end, lumpy_grid(4), seeded(9))
    drawn = np.bincount(positions, minlength=16)
    masses = np.array(naive_masses(lumpy_grid(4)))
    masses[: ends[0]] = masses[ends[1] :] = 0
    assert np.all(drawn[masses == 0] == 0)
    expected = (masses / masses.sum() * drawn.sum())[masses > 0]
    assert expected.size == 1 or chisquare(drawn[masses > 0], expected).pvalue > 1e-3


def test_nodes_of_a_batch_are_drawn_independently():
    ranks = column_of([1, 2, 1, 0], tiny_grid(4, 1))
    node = node_between(ranks, 0, 3, 0.5)
    positions, _ = draw(ranks, together_in_one([node] * 20_000), 0.5, seeded(8))
    pairs = np.bincount(4 * positions[::2] + positions[1::2], minlength=16)
    chances = np.bincount(positions, minlength=4) / positions.size
    assert chisquare(pairs, np.outer(chances, chances).ravel() * pairs.sum()).pvalue > 1e-3


def chance_to_win(weight, rival):
    """The chance that `weight` beats 1, given the rival's exponential, by driving the words.

    Words of two exponentials, in order: whole ln 2 of both, exponents of both, mantissas of both.
    """

    def wins(mantissa, exponent, whole):
        low, high = (1 << exponent, 0) if exponent < 64 else (0, 1 << (exponent - 64))
        words = [1 << rival[0], 1 << whole, 1 << rival[2], low]
        words += [high] if high else []
        words += [rival[1], mantissa << 12]
        return race(np.array([[1.0, weight]]), ScriptedRandomness(words))[0] == 1

    chance = 0.0
    for whole, exponent in itertools.product(range(2), range(110)):
        if wins(2**52 - 1, exponent, whole):
            low = 2**52
        else:
            low, high = 0, 2**52 - 1
            while low < high:  # the first mantissa that loses
                middle = (low + high) // 2
                low, high = (middle + 1, high) if wins(middle, exponent, whole) else (low, middle)
        chance += 2.0 ** -(whole + 1) * 2.0 ** -(exponent + 1) * low * 2.0**-52
    return chance


@pytest.mark.parametrize("bits", [40, 60, 90])
def test_race_gets_improbable_outcomes_right(bits):
    """P(E < w E') given E' is 1 - exp(-w E'), also for w = 2^-60, where cumulative sums fail."""
    weight = 2.0**-bits
    for rival in [(0, 2**63, 1), (1, 2**62, 3), (0, 12345 << 20, 0)]:
        words = [1 << rival[0], 1 << rival[2], rival[1]]
        exponential = ScriptedRandomness(words).exponentials(1)[0]
        exact = -math.expm1(-weight * exponential)
        assert chance_to_win(weight, rival) == pytest.approx(exact, rel=2.0**-42)


@pytest.mark.parametrize("n_weights", [20, 33, 100])
def test_race_of_few_or_many_weights_goes_by_the_weights(n_weights):
    """Many of them race in blocks, the last of which may be incomplete."""
    weights = np.exp(-np.arange(n_weights) / 10.0) + 0.2
    winners = race(np.tile(weights, (20_000, 1)), seeded(3))
    drawn = np.bincount(winners, minlength=n_weights)
    assert chisquare(drawn, weights / weights.sum() * drawn.sum()).pvalue > 1e-3


def test_race_never_lets_nothing_win():
    weights = np.zeros((60, 300))
    weights[:, [5, 123]] = 1e-30
    assert set(race(weights, seeded(0)).tolist()) == {5, 123}


@pytest.mark.parametrize(("slope", "length"), [(0.3, 11), (2.0, 8), (40.0, 3), (1e-9, 1)])
def test_truncated_geometric_follows_its_weights(slope, length):
    others = np.full(8000, 3.0), np.full(8000, 40)  # longer ones, which must not disturb
    slopes, lengths = np.full(8000, slope), np.full(8000, length)
    slopes, lengths = np.append(slopes, others[0]), np.append(lengths, others[1])
    draws = truncated_geometric(slopes, lengths, seeded(5))[:8000]
    drawn = np.bincount(draws, minlength=length)
    weights = np.exp(-slope * np.arange(length))
    expected = weights / weights.sum() * drawn.sum()
    likely = expected > 1
    assert drawn.size == length and drawn[~likely].sum() <= 3
    if likely.sum() > 1:
        scaled = expected[likely] * drawn[likely].sum() / expected[likely].sum()
        assert chisquare(drawn[likely], scaled).pvalue > 1e-3


@pytest.mark.parametrize("bit", [3, 10])
def test_improbable_bits_of_the_geometric_have_their_odds(bit):
    """Bit k is set iff U < odds / (1 + odds): drive the uniforms around the threshold."""
    slope = 0.05
    odds = math.exp(-slope * 2**bit)
    chance = odds / (1 + odds)
    length = 2 ** (bit + 1)
    for factor, expected in ((1 - 1e-14, 2**bit), (1 + 1e-14, 0)):
        given = np.full(bit + 1, 0.999)
        given[bit] = chance * factor
        randomness = ScriptedRandomness([])
        randomness.uniforms = lambda n, given=given: given[:n]
        drawn = truncated_geometric(np.array([slope]), np.array([length]), randomness)
        assert drawn[0] == expected


@pytest.mark.parametrize(
    ("counts", "eps"),
    [([50_010, 49_990], 1.0), ([500_100, 499_900], 0.1), ([100_598, 8, 390, 99_004], 0.01)],
    ids=str,
)
def test_ties_do_not_make_many_rounds(counts, eps, monkeypatch):
    """The bound of a run is near to its weight, also beside a cell with very many records."""
    cells = np.array([0, 1, 2, 1000])[: len(counts)] + 2**39
    ranks = CellCounts(cells, counts, UnboundedGrid())
    node = one_node(0, 2**61 - 1, 0, ranks.n_records * 2**22, 0.5)
    rounds = []
    monkeypatch.setattr(exponential_module, "race", lambda *args: rounds.append(1) or race(*args))
    for seed in range(50):
        draw(ranks, node, eps, seeded(seed))
    assert len(rounds) < 10 * 50


def test_work_of_a_node_depends_neither_on_the_records_nor_on_the_budget():
    sizes = []
    for n, eps in itertools.product((10**4, 10**6), (1e-9, 1e-3, 0.5, 30.0)):
        ranks = CellCounts(np.arange(n) * 1000, np.ones(n, dtype=int), UnboundedGrid())
        node = one_node(0, 2**61 - 1, 0, n * 2**22, 0.3)
        scores = Scores.at(node, eps, ranks.grid)
        sizes.append(node_segments(ranks, node, scores).start.size)
    assert max(sizes) < 200
