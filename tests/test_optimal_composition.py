"""Optimal composition: no adversary beats the bound, and the best one comes close to it."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpq_sklearn.accounting.conversions import rho_of_approximate_dp
from dpq_sklearn.accounting.optimal_composition import (
    GREATEST_EPS,
    LONGEST,
    _curve_before,
    adaptive_delta,
    largest_scale,
)
from tests.marks import slow
from tests.mechanism_helpers import nonadaptive_delta


def chance_of_t(t, eps):
    """Chance that the log-ratio is t, not t - eps, under the distribution in its numerator."""
    return np.expm1(t - eps) / np.expm1(-eps)


def best_adversary(draws, log_x, n_choices=40):
    """Largest delta of all strategies that choose t from a grid, anew after each outcome."""
    if not draws:
        return np.maximum(-np.expm1(np.minimum(log_x, 0.0)), 0.0)
    eps, rest = draws[0], draws[1:]
    t = np.linspace(0.0, eps, n_choices)
    below = np.asarray(log_x)[..., None] - t
    up = chance_of_t(t, eps)
    after = [best_adversary(rest, log_x, n_choices) for log_x in (below, below + eps)]
    return (up * after[0] + (1 - up) * after[1]).max(axis=-1)


def best_lattice_adversary(multiples, step, n_steps):
    """The same for long sequences: all eps, t and the final n_steps are multiples of one step."""
    reach = sum(multiples)
    log_x = step * np.arange(n_steps - reach, n_steps + reach + 1)
    curve = -np.expm1(np.minimum(log_x, 0.0))
    for m in reversed(multiples):
        chances = chance_of_t(step * np.arange(m + 1), step * m)
        n = len(curve) - 2 * m
        curve = np.max(
            [
                up * curve[m - t : m - t + n] + (1 - up) * curve[2 * m - t : 2 * m - t + n]
                for t, up in enumerate(chances)
            ],
            axis=0,
        )
    return curve[0]


def assert_just_above(adversary, draws, eps, loss):
    """The bound is above the adversary's delta, but no more if draws have a little less eps."""
    draws = np.array(draws)
    assert adaptive_delta((1 - loss) * draws, eps) <= adversary <= adaptive_delta(draws, eps)


@pytest.mark.parametrize("eps_draw", [1e-3, 0.3, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("part", [0.05, 0.5, 0.99])
def test_one_draw_has_its_closed_form(eps_draw, part):
    """The best t makes (sqrt(e^eps_draw) - sqrt(e^eps))^2 / (e^eps_draw - 1)."""

    def exact(eps_draw):
        return math.exp(eps) * math.expm1((eps_draw - eps) / 2) ** 2 / math.expm1(eps_draw)

    eps = part * eps_draw
    bound = adaptive_delta([eps_draw], eps)
    assert exact(eps_draw) * (1 - 1e-9) <= bound <= exact(eps_draw * 1.002) + 1e-13


@pytest.mark.parametrize("part", [0.1, 0.4, 0.7, 0.95])
@pytest.mark.parametrize(
    "draws",
    [
        (0.02, 0.02),
        (0.5, 0.5),
        (1.3, 0.4),
        (0.4, 1.3),
        (0.35, 0.35, 0.35),
        (0.2, 0.3, 0.5),
        (0.5, 0.3, 0.2),
        (0.01, 0.5, 0.3),
        (3.0, 1.0, 2.0),
    ],
)
def test_no_adaptive_strategy_is_worse(draws, part):
    eps = part * sum(draws)
    adversary = float(best_adversary(draws, eps))
    assert_just_above(adversary, draws, eps, loss=0.005)


def best_adversary_of_fork(before, fork, after, log_x, n_choices=16):
    """The same with a fork between draws: the adversary also chooses the part w of the record."""
    if before:
        eps = before[0]
        t = np.linspace(0.0, eps, n_choices)
        below, up = np.asarray(log_x)[..., None] - t, chance_of_t(t, eps)
        deltas = [
            best_adversary_of_fork(before[1:], fork, after, log_x, n_choices)
            for log_x in (below, below + eps)
        ]
        return (up * deltas[0] + (1 - up) * deltas[1]).max(axis=-1)
    a, c, b = fork
    # A draw without range changes nothing.
    ranges = [(max(w * a + (1 - w) * b, 1e-9), max(w * c, 1e-9)) for w in np.linspace(0, 1, 11)]
    return np.max([best_adversary((*pair, *after), log_x, n_choices) for pair in ranges], axis=0)


@pytest.mark.parametrize("part", [0.1, 0.4, 0.7, 0.95])
@pytest.mark.parametrize(
    ("before", "fork", "after"),
    [
        ((), (0.3, 0.3, 0.42), ()),
        ((0.3,), (0.3, 0.2, 0.36), ()),
        ((), (0.3, 0.2, 0.36), (0.3,)),
        ((), (0.1, 0.5, 0.51), (0.2,)),
        ((), (0.5, 0.1, 0.51), (0.2,)),
        ((0.6,), (1.0, 1.0, 1.41), ()),
        ((), (2.0, 1.0, 2.2), (1.0,)),
    ],
)
def test_no_adaptive_strategy_is_worse_at_a_fork(before, fork, after, part):
    a, c, b = fork
    draws, others = (*before, a, c, *after), (0.0,) * len(before) + (b, 0.0) + (0.0,) * len(after)
    eps = part * sum(draws)
    adversary = float(best_adversary_of_fork(before, fork, after, eps))
    bound = adaptive_delta(draws, eps, others)
    assert adversary <= bound
    raised = ((b - a) ** 2 + c**2) / 32  # what the proof asks for
    paths = [adaptive_delta(path, eps - raised) for path in (draws, (*before, b, *after))]
    best = math.exp(raised) * max(paths)  # the path may depend on what came before
    assert best * (1 - 1e-3) <= bound <= 1.15 * best + 1e-9


@pytest.mark.parametrize("n_columns", [3, 20, 60])
def test_many_forks_cost_little_more_than_pairs(n_columns):
    pair, other = (1.2, 1.0), math.sqrt(2.44)
    scale = largest_scale(pair * n_columns, 1.0, 1e-6)
    forked = largest_scale(pair * n_columns, 1.0, 1e-6, (other, 0.0) * n_columns)
    assert 0.975 * scale < forked < scale
    alone = largest_scale((other,) * n_columns, 1.0, 1e-6)
    assert forked < alone


def test_a_draw_before_all_others_counts_and_does_not_scale():
    pattern = (1.2, 1.0) * 10
    scale = largest_scale(pattern, 1.0, 1e-6, first_draw=0.1)
    assert 0.97 * largest_scale(pattern, 1.0, 1e-6) < scale < largest_scale(pattern, 1.0, 1e-6)
    draws = np.append(0.1, scale * np.array(pattern))
    assert 0.95e-6 < adaptive_delta(draws, 1.0) <= 1e-6


@pytest.mark.parametrize(
    ("multiples", "eps_draw", "eps"),
    [
        ((24,) * 10, 0.15, 1.0),
        ((24,) * 10, 0.15, 0.2),
        ((24,) * 10, 1.2, 10.0),
        ((36, 24, 12) * 7, 0.15, 1.2),
        ((12,) * 10 + (36,) * 5, 0.1, 1.0),
        ((36,) * 5 + (12,) * 10, 0.1, 1.0),
        ((48,) + (12,) * 30, 0.05, 0.4),
        ((24,) * 30, 0.0865, 1.0),
        ((24,) * 60, 1e-3, 0.02),
        ((24,) * 96, 0.03, 0.8),
        ((48,) * 2 + (12,) * 140, 0.03, 0.5),
        ((20,) * 150, 0.0375, 1.0),
        ((20,) * 150, 0.02, 0.1),
        ((24, 18, 12, 18) * 40, 0.04, 1.0),
        ((12,) * 80 + (24,) * 80, 0.03, 0.8),
        ((24,) * 80 + (12,) * 80, 0.03, 0.8),
        ((24,) * 200, 0.2, 8.0),
    ],
)
def test_no_adaptive_strategy_is_worse_in_long_sequences(multiples, eps_draw, eps):
    """`eps_draw` is that of 24 steps."""
    step = eps_draw / 24
    n_steps = round(eps / step)
    adversary = best_lattice_adversary(multiples, step, n_steps)
    assert 1e-12 < adversary < 0.5
    assert_just_above(adversary, step * np.array(multiples), step * n_steps, loss=0.006)


@pytest.mark.parametrize("n_draws", [1, 2, 3, 7, 20, 90, 128, 129, *slow(300, 1000)])
@pytest.mark.parametrize(("eps", "delta"), [(0.1, 1e-6), (1.0, 1e-3), (1.0, 1e-10), (10.0, 1e-6)])
def test_bound_is_above_the_nonadaptive_optimum(n_draws, eps, delta):
    scale = largest_scale((1.0,) * n_draws, eps, delta)
    for eps_draw in (scale, 1.3 * scale):
        nonadaptive = nonadaptive_delta(n_draws, eps_draw, eps) / (1 + 2.0**-19)
        assert nonadaptive <= adaptive_delta([eps_draw] * n_draws, eps)


@pytest.mark.parametrize("eps_of_draws", [(0.35,) * 4, (0.2, 0.5, 0.1, 0.4, 0.3), (0.09,) * 30])
def test_bound_is_above_the_privacy_loss_distribution_of_two_point_mechanisms(eps_of_draws):
    """Lists are composed, because dp_accounting counts too little for its SelfComposed events."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")

    def two_points(t, eps):
        logs = np.log([chance_of_t(t, eps), 1 - chance_of_t(t, eps)])
        upper, lower = (dict(enumerate(x)) for x in (logs, logs - [t, t - eps]))
        return pld.from_two_probability_mass_functions(
            lower, upper, pessimistic_estimate=False, value_discretization_interval=1e-5
        )

    deltas = [
        functools.reduce(
            lambda one, other: one.compose(other), [two_points(part * e, e) for e in eps_of_draws]
        ).get_delta_for_epsilon(1.0)
        for part in (0.5, 0.6, 0.7, 0.8)
    ]
    assert 0.5 * adaptive_delta(eps_of_draws, 1.0) <= max(deltas)
    assert max(deltas) <= adaptive_delta(eps_of_draws, 1.0)


@given(
    st.lists(st.floats(0.01, 1.0), min_size=1, max_size=12), st.floats(0.05, 0.9), st.integers(0)
)
@settings(max_examples=40, deadline=None)
def test_delta_is_monotone_in_every_argument(draws, part, which):
    eps, which = part * sum(draws), which % len(draws)
    delta = adaptive_delta(draws, eps)
    assert adaptive_delta(draws, 1.02 * eps) <= delta
    more = [*draws[:which], 1.1 * draws[which] + 0.1, *draws[which + 1 :]]
    at_least = min(adaptive_delta(draws, 1.005 * eps), delta * (1 - 1e-3))  # lattices differ
    assert adaptive_delta(more, eps) >= at_least
    assert adaptive_delta([*draws, 0.1], eps) >= at_least
    assert adaptive_delta([0.1, *draws], eps) >= at_least


@given(
    st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=40),
    st.floats(0.01, 10.0),
    st.floats(1e-12, 0.1),
)
@settings(max_examples=20, deadline=None)
def test_scale_is_monotone_in_every_argument(pattern, eps, delta):
    """Up to the 1e-3 by which it is rounded down, and to the lattices, which differ."""
    scale = largest_scale(tuple(pattern), eps, delta)
    assert largest_scale(tuple(pattern), 1.01 * eps, delta) >= scale * (1 - 1e-3)
    assert largest_scale(tuple(pattern), eps, 1.1 * delta) >= scale * (1 - 1e-3)
    assert largest_scale((*pattern, 0.5), eps, delta) <= scale * (1 + 4e-3)
    assert largest_scale(tuple(2 * p for p in pattern), eps, delta) == pytest.approx(scale / 2)


@pytest.mark.parametrize(
    "pattern",
    [
        (1.0,),
        (1.0, 2.0, 0.5),
        (1.0,) * 10,
        (3.0, 2.0, 1.0) * 10,
        (1.0,) * 300,
        (0.5, 1.0, 2.0) * 100,
        *slow(tuple(np.linspace(2.0, 1.0, 1000))),
    ],
    ids=len,
)
@pytest.mark.parametrize(("eps", "delta"), [(1.0, 1e-6), (0.1, 1e-8), (5.0, 0.01)])
def test_scale_is_the_largest(pattern, eps, delta):
    scale = largest_scale(pattern, eps, delta)
    assert adaptive_delta(scale * np.array(pattern), eps) <= delta
    assert adaptive_delta(1.002 * scale * np.array(pattern), eps) > delta


@pytest.mark.parametrize("pattern", [(1.0,), (1.0, 3.0, 2.0), (1.0,) * 10])
def test_small_delta_gives_the_pure_split(pattern):
    for eps in (0.1, 1.0, 10.0):
        pure = eps / sum(pattern)
        assert pure * (1 - 1e-9) <= largest_scale(pattern, eps, 0.0) <= pure
        assert pure * (1 - 1e-9) <= largest_scale(pattern, eps, 1e-60) <= pure * (1 + 1e-3)
        assert adaptive_delta(largest_scale(pattern, eps, 0.0) * np.array(pattern), eps) == 0.0


def test_one_draw_gets_the_whole_eps():
    assert largest_scale((2.0,), 1.0, 1e-9) == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("n_draws", "gain"),
    [
        (1, 0.0),
        (3, 0.05),
        (5, 0.16),
        (7, 0.12),
        (10, 0.10),
        (30, 0.08),
        (90, 0.075),
        (300, 0.07),
        (1000, 0.067),
    ],
)
def test_gain_over_pure_and_zcdp(n_draws, gain):
    """In eps a draw, at eps = 1 and delta = 1e-6."""
    before = max(1 / n_draws, math.sqrt(8 * rho_of_approximate_dp(1.0, 1e-6) / n_draws))
    now = largest_scale((1.0,) * n_draws, 1.0, 1e-6)
    assert now / before == pytest.approx(1 + gain, abs=0.005)


def test_absurd_eps_gets_the_pure_split():
    for eps in (1e-9, 1e6, 1e300):
        assert largest_scale((1.0, 1.0), eps, 1e-6) == pytest.approx(eps / 2)
    assert adaptive_delta([2 * GREATEST_EPS], 1.0) == 1.0
    assert adaptive_delta([1.0, 1.0], 1e-9) == 1.0


def test_negligible_draws_cost_next_to_nothing():
    draws = [0.3, 0.3, 0.3]
    with_more = adaptive_delta([1e-12, *draws, 0.0, 1e-300], 0.5)
    assert adaptive_delta(draws, 0.5) * 0.99 <= with_more <= adaptive_delta(draws, 0.5) * 1.02


def test_too_many_draws_get_the_pure_split():
    n_draws = LONGEST + 1
    assert largest_scale((1.0,) * n_draws, 1.0, 1e-6) == pytest.approx(1 / n_draws)


@pytest.mark.parametrize("step", [0.03, *slow(0.01, 0.1)])
@pytest.mark.parametrize("eps", [1.0, *slow(0.013, 0.2)])
def test_curve_before_a_draw_is_just_above_what_an_adversary_makes_of_it(step, eps):
    log_x = step * np.arange(-200, 201)
    behind = best_adversary((0.2, 0.3), log_x)
    exact = best_adversary((eps, 0.2, 0.3), log_x)
    bound = _curve_before(behind, eps, step)
    assert np.all(bound >= exact * (1 - 1e-12))
    assert np.all(bound <= exact + step**2 + (eps / 40) ** 2)  # the adversary has 40 choices


def test_a_cut_curve_gives_an_upper_bound():
    """To the left the chord to D(0) = 1 takes its place, to the right the last value."""
    curve = best_adversary((0.2, 0.2), 0.02 * np.arange(-40, 41))
    complete = _curve_before(curve, 0.13, 0.02)
    assert np.all(_curve_before(curve[25:], 0.13, 0.02) >= complete[25:])
    assert np.all(_curve_before(curve[:46], 0.13, 0.02) >= complete[:46])


def test_swapped_neighbours_have_the_same_curve():
    """D(x) = 1 - x + x D(1/x)."""
    log_x = 0.01 * np.arange(-100, 101)
    for draws in ((0.3,), (0.2, 0.35, 0.1)):
        curve = -np.expm1(np.minimum(log_x, 0.0))
        for draw in draws:
            curve = _curve_before(curve, draw, 0.01)
        swapped = -np.expm1(log_x) + np.exp(log_x) * curve[::-1]
        np.testing.assert_allclose(curve[50:150], swapped[50:150], atol=1e-4)
