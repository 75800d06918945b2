"""Randomness: exact distributions from driven words, and never numpy's global generator."""

from decimal import Decimal, localcontext
from itertools import zip_longest

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from dpq_sklearn.engine.random import Randomness, make_randomness


class ScriptedRandomness(Randomness):
    """Hands out given words, in order."""

    def __init__(self, words):
        super().__init__(self._take)
        self._left = [int(word) for word in words]

    def _take(self, n):
        taken, self._left = self._left[:n], self._left[n:]
        assert len(taken) == n
        return np.array(taken, dtype=np.uint64)


def words_of_tails(*tails):
    """The words from which `geometric` makes these counts: two in each, and more beyond 32."""
    coins = [1 << n if n < 32 else 0 for n in tails]
    words = [low | high << 32 for low, high in zip_longest(coins[::2], coins[1::2], fillvalue=0)]
    beyond = [n - 32 for n in tails if n >= 32]
    return words + (words_of_tails(*beyond) if beyond else [])


def test_geometric_counts_the_tails_of_half_a_word():
    words = [0b1 | 0b10 << 32, 0b1000 | 2**31 << 32]
    assert ScriptedRandomness(words).geometric(4).tolist() == [0, 1, 3, 31]
    assert ScriptedRandomness(words).geometric(3).tolist() == [0, 1, 3]
    assert words == words_of_tails(0, 1, 3, 31)


def test_geometric_goes_on_with_new_coins_after_32_tails():
    words = [0b1 << 32, 0b1 << 32, 0b100 | 0b1 << 32]
    assert ScriptedRandomness(words).geometric(2).tolist() == [32 + 32 + 2, 0]
    assert ScriptedRandomness(words_of_tails(66, 0, 32)).geometric(3).tolist() == [66, 0, 32]


def test_uniform_is_a_mantissa_times_a_geometric_power():
    half_way = 2**63  # mantissa 1.5
    assert ScriptedRandomness([0b1, half_way]).uniforms(1)[0] == 0.75
    tiny = ScriptedRandomness([*words_of_tails(60), half_way])
    assert tiny.uniforms(1)[0] == 1.5 * 2.0**-61
    assert ScriptedRandomness([0b1, 2**64 - 1]).uniforms(1)[0] < 1.0


@pytest.mark.parametrize("p", [0.5, 0.3, 2.0**-40, 0.7 * 2.0**-60, 1 - 2.0**-53])
def test_chance_of_a_uniform_below_p_is_exactly_p(p):
    """Sum over all exponents, and count the mantissas below p in each by bisection."""
    chance = 0.0
    for exponent in range(80):
        low, high = 0, 2**52
        while low < high:
            middle = (low + high) // 2
            words = ScriptedRandomness([*words_of_tails(exponent), middle << 12])
            if words.uniforms(1)[0] < p:
                low = middle + 1
            else:
                high = middle
        chance += low * 2.0**-52 * 2.0 ** -(exponent + 1)
    assert chance == pytest.approx(p, rel=1e-15)


def test_exponentials_are_exponential_and_precise_near_zero():
    draws = make_randomness(0).exponentials(50_000)
    assert kstest(draws, "expon").pvalue > 1e-3
    # words: no whole ln 2, exponent -61, mantissa 1.5: a tiny value with all its digits
    tiny = ScriptedRandomness([*words_of_tails(0, 60), 2**63]).exponentials(1)[0]
    assert tiny == pytest.approx(1.5 * 2.0**-61 / 2, rel=1e-15)


def test_exponentials_are_within_14_roundings_of_ideal_ones(rng):
    """Also those that are tiny or beyond several ln 2, against 40 digits."""
    with localcontext() as context:
        context.prec = 40
        for _ in range(300):
            tails, exponent = int(rng.integers(0, 12)), int(rng.integers(0, 63))
            mantissa = int(rng.integers(0, 2**52))
            words = [*words_of_tails(tails, exponent), mantissa << 12]
            drawn = Decimal(ScriptedRandomness(words).exponentials(1)[0].item())
            uniform = Decimal(2**52 + mantissa) / Decimal(2) ** (53 + exponent)
            exact = tails * Decimal(2).ln() - (1 - uniform / 2).ln()
            assert abs(drawn / exact - 1) < 12 * Decimal(2) ** -53  # 2 more: U is rounded down


@pytest.mark.fresh_noise(false_alarm=1e-12)
def test_system_words_are_never_the_same():
    first, second = (make_randomness(None).words(1000) for _ in range(2))
    assert len(set(first.tolist()) | set(second.tolist())) == 2000
    stream = make_randomness(None)
    assert len({word for _ in range(50) for word in stream.words(100).tolist()}) == 5000


def test_seeds_repeat_and_random_states_move_on():
    assert np.array_equal(make_randomness(3).words(5), make_randomness(3).words(5))
    state = np.random.RandomState(3)
    assert not np.array_equal(make_randomness(state).words(5), make_randomness(state).words(5))
    assert make_randomness(None).from_os and not make_randomness(3).from_os


@pytest.mark.parametrize("random_state", [-1, 1.5, "0", True, np.random.default_rng(0)])
def test_other_random_states_raise(random_state):
    with pytest.raises(ValueError, match="random_state must be"):
        make_randomness(random_state)


def test_a_message_about_a_random_state_never_shows_an_array():
    with pytest.raises(ValueError, match=r"got ndarray of shape \(2,\)\.$"):
        make_randomness(np.array([31337, 31338]))


def test_integers_below_are_all_equally_likely():
    bounds = np.tile([1, 2, 3, 7, 8, 1000], 5000)
    drawn = make_randomness(4).integers_below(bounds).reshape(-1, 6)
    assert np.all(drawn[:, 0] == 0)
    for column, bound in enumerate([2, 3, 7, 8], start=1):
        assert chisquare(np.bincount(drawn[:, column], minlength=bound)).pvalue > 1e-3


def test_integers_below_are_the_high_bits_of_the_first_word_that_fits():
    too_large, one, two = 3 << 62, 1 << 62, 2 << 62
    of_three = [too_large, one, two, two]
    assert ScriptedRandomness(of_three).integers_below(np.array([3])).tolist() == [1]
    assert ScriptedRandomness([too_large] * 4 + of_three).integers_below(np.array([3]))[0] == 1
    of_three_and_eight = [too_large, 5 << 61, two, 1, 1, 1, 1, 1]
    assert ScriptedRandomness(of_three_and_eight).integers_below(np.array([3, 8])).tolist() == [
        2,
        5,
    ]
    assert ScriptedRandomness([]).integers_below(np.array([1, 1])).tolist() == [0, 0]


def test_integers_below_reach_all_of_a_huge_bound():
    drawn = make_randomness(6).integers_below(np.full(200, 2**62 - 12345))
    assert drawn.min() < 2**57 and drawn.max() > 2**61 and np.unique(drawn).size == 200
    assert drawn.max() < 2**62 - 12345
