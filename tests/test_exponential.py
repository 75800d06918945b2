"""Weights equal the brute-force sum, and the draw gives every outcome its probability."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from dpq_sklearn._exponential import (
    Node,
    Score,
    Segments,
    draw,
    node_segments,
    race,
    truncated_geometric,
)
from dpq_sklearn._grid import UnboundedGrid
from dpq_sklearn._random import SeededRandomness
from dpq_sklearn._ranks import CellCounts, SortedColumn, rank_span
from tests.enumeration import column_of, position_weights, rank_units, tiny_grid
from tests.test_random import ScriptedRandomness


def seeded(seed):
    return SeededRandomness(np.random.SeedSequence(seed))


def naive_weights(ranks, node, eps, bits=96):
    """The definition, position by position, in exact rational arithmetic up to the exp."""
    units = 2 * ranks.grid.positions_per_cell
    target = node.lo_units + Fraction(node.q) * (node.hi_units - node.lo_units)
    eta = min(eps / (2 * max(node.q, 1 - node.q)) / units, 96 * math.log(2))
    reach = math.ceil(bits * math.log(2) / eta)
    spans = [rank_span(ranks, p) for p in range(node.lo, node.hi + 1)]
    distances = [max(low - target, target - high, 0) for low, high in spans]
    return [math.exp(-eta * float(min(distance, reach))) for distance in distances]


@settings(max_examples=300)
@given(
    counts=st.lists(st.integers(0, 4), min_size=4, max_size=4),
    ends=st.tuples(st.integers(0, 15), st.integers(0, 15)),
    q=st.floats(0.001, 0.999),
    eps=st.sampled_from([1e-6, 0.01, 1.0, 50.0, 1e3, 1e6]),
    bits=st.sampled_from([2, 24, 96]),
)
def test_segments_give_the_weight_of_every_position(counts, ends, q, eps, bits):
    ranks = column_of(counts, tiny_grid(4, 4))
    lo, hi = min(ends), max(ends)
    node = Node(lo, hi, rank_units(ranks, lo), rank_units(ranks, hi), q)
    weights = position_weights(node_segments(ranks, node, eps, bits), lo, hi)
    np.testing.assert_allclose(weights, naive_weights(ranks, node, eps, bits), rtol=1e-12)


@settings(max_examples=200)
@given(
    nearest=st.floats(0, 66),
    slope=st.one_of(st.just(0.0), st.floats(1e-15, 60)),
    length=st.integers(1, 400),
)
def test_weight_of_a_segment_is_the_sum_over_its_positions(nearest, slope, length):
    segment = Segments(*(np.array([value]) for value in (0, length, nearest, slope, True)))
    total = math.fsum(math.exp(-(nearest + slope * j)) for j in range(length))
    assert segment.weights()[0] == pytest.approx(total, rel=1e-12)


def test_weights_of_2_to_the_minus_90_are_as_accurate_as_the_best():
    """A record every 3 positions in a long node: near weights 1, far ones e^-62."""
    grid = tiny_grid(64, 2)
    ranks = column_of([1] * 64, grid)
    node = Node(0, 127, 0, 2 * 2 * 64, 0.5)
    weights = position_weights(node_segments(ranks, node, 2.0), 0, 127)
    assert weights.min() < 2.0**-90 * weights.max() * 2
    np.testing.assert_allclose(weights, naive_weights(ranks, node, 2.0), rtol=1e-12)


def test_no_weight_is_below_the_reach():
    ranks = SortedColumn(np.arange(1e5), UnboundedGrid())
    node = Node(0, 2**62 - 1, 0, ranks.n_records * 2**23, 0.5)
    segments = node_segments(ranks, node, 1.0)
    assert segments.nearest.max() == pytest.approx(96 * math.log(2))
    assert segments.start.size < 1000  # 2 * 67 / eta records within reach, not 100,000


def test_target_is_exact():
    node = Node(0, 9, 10, 10 + 2**61 + 1, 1 / 3)
    score = Score.at(node, 1.0, tiny_grid(5, 2))
    exact = 10 + Fraction(1 / 3) * (2**61 + 1)
    assert score.target == exact.__floor__()
    assert score.remainder == pytest.approx(float(exact - score.target))


@pytest.mark.parametrize("near_bits", [0.5, 3, 24, 96])
def test_draw_has_the_distribution_of_the_weights_whatever_the_envelope(near_bits):
    ranks = column_of([3, 0, 2, 4], tiny_grid(4, 2))
    node = Node(1, 7, rank_units(ranks, 1), rank_units(ranks, 7), 0.4)
    exact = np.array(naive_weights(ranks, node, 2.0))
    randomness = seeded(7)
    drawn = np.zeros(7)
    for _ in range(8000):
        position, units = draw(ranks, node, 2.0, randomness, near_bits)
        assert units == rank_units(ranks, position)
        drawn[position - 1] += 1
    expected = exact / exact.sum() * drawn.sum()
    assert chisquare(drawn, expected).pvalue > 1e-3
    wrong = np.array(naive_weights(ranks, node, 2.6))
    assert chisquare(drawn, wrong / wrong.sum() * drawn.sum()).pvalue < 1e-3


def chance_to_win(weight, rival):
    """The chance that `weight` beats 1, given the rival's exponential, by driving the words.

    Words of two exponentials, in order: whole ln 2 of both, exponents of both, mantissas of both.
    """

    def wins(mantissa, exponent, whole):
        low, high = (1 << exponent, 0) if exponent < 64 else (0, 1 << (exponent - 64))
        words = [1 << rival[0], 1 << whole, 1 << rival[2], low]
        words += [high] if high else []
        words += [rival[1], mantissa << 12]
        return race(np.array([1.0, weight]), ScriptedRandomness(words)) == 1

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


def test_race_of_many_weights_goes_through_blocks():
    weights = np.exp(-np.arange(500) / 100.0)
    randomness = seeded(3)
    drawn = np.bincount([race(weights, randomness) for _ in range(20_000)], minlength=500)
    in_tens = drawn.reshape(50, 10).sum(axis=1)
    expected = (weights / weights.sum()).reshape(50, 10).sum(axis=1) * drawn.sum()
    assert chisquare(in_tens, expected).pvalue > 1e-3


def test_race_never_lets_nothing_win():
    weights = np.zeros(300)
    weights[[5, 123]] = 1e-30
    assert {race(weights, seeded(s)) for s in range(60)} == {5, 123}


@pytest.mark.parametrize(("slope", "length"), [(0.0, 6), (0.3, 11), (2.0, 8), (40.0, 3), (1e-9, 1)])
def test_truncated_geometric_follows_its_weights(slope, length):
    randomness = seeded(5)
    draws = [truncated_geometric(slope, length, randomness) for _ in range(8000)]
    drawn = np.bincount(draws, minlength=length)
    weights = np.exp(-slope * np.arange(length))
    expected = weights / weights.sum() * drawn.sum()
    likely = expected > 1
    assert drawn.size == length and drawn[~likely].sum() <= 3
    if likely.sum() > 1:
        scaled = expected[likely] * drawn[likely].sum() / expected[likely].sum()
        assert chisquare(drawn[likely], scaled).pvalue > 1e-3


def test_truncated_geometric_reaches_all_of_a_huge_run():
    draws = [truncated_geometric(0.0, 2**62 - 12345, seeded(s)) for s in range(200)]
    assert min(draws) < 2**57 and max(draws) > 2**61 and len(set(draws)) == 200


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
        assert truncated_geometric(slope, length, randomness) == expected


def test_work_of_a_node_does_not_grow_with_the_records(rng):
    sizes = []
    for n in (10**4, 10**5, 10**6):
        ranks = CellCounts(np.arange(n) * 1000, np.ones(n, dtype=int), UnboundedGrid())
        node = Node(0, 2**62 - 1, 0, n * 2**23, 0.3)
        sizes.append(node_segments(ranks, node, 0.5).start.size)
    assert max(sizes) - min(sizes) <= 4
