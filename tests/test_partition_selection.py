"""Partition selection: exact probabilities, all neighbours, all outcomes."""

import itertools
import math
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta

from dpq_sklearn.accounting.budgets import BudgetTooSmall
from dpq_sklearn.accounting.events import EventKind
from dpq_sklearn.engine.random import Randomness, make_randomness
from dpq_sklearn.mechanisms.partition_selection import (
    GREATEST_EPS,
    LEAST_DELTA,
    LEAST_EPS,
    ONE,
    PartitionSelection,
)

BUDGETS = [(1.0, 1e-6), (0.05, 1e-9), (0.3, 0.01), (3.0, 1e-12), (0.01, LEAST_DELTA), (40.0, 0.5)]
N_SAMPLES = 400_000
# Two confidence bounds, each wrong with this probability: a false alarm is rarer than 1e-6.
CONFIDENCE = 2e-7


def below_exp(eps):
    """A fraction just below e^eps, by 2 parts in 10^60."""
    digits = Context(prec=60, rounding=ROUND_FLOOR)
    return Fraction(digits.exp(Decimal(eps))) * (1 - Fraction(2, 10**60))


def chances(eps, delta, n_most):
    """The probabilities p(0), p(1), ..., p(n_most) that a label is kept, as fractions."""
    kept = PartitionSelection(eps, delta).thresholds
    kept = [0, *kept[:n_most], *[ONE] * (n_most - len(kept))]
    return [Fraction(q, ONE) for q in kept]


def closed_form(n, eps, delta):
    """Theorem 1 of Desfontaines, Voss, Gipson, Mandayam (2022)."""
    first = math.expm1(eps)
    crossover = 1 + math.floor(math.log((first + 2 * delta) / ((math.exp(eps) + 1) * delta)) / eps)

    def rising(m):
        return delta * math.expm1(m * eps) / first

    if n <= crossover:
        return rising(n)
    m = n - crossover
    mirrored = -math.expm1(-m * eps) * (1 + delta / first)
    return min(mirrored + math.exp(-m * eps) * rising(crossover), 1.0)


def excess(one, other, eps):
    """The largest P(S) - e^eps Q(S) of all sets of outcomes S, in both directions."""
    factor = below_exp(eps)
    directions = ((one, other), (other, one))
    return max(
        sum(max(p - factor * q, 0) for p, q in zip(*pair, strict=True)) for pair in directions
    )


def outcomes(counts, kept):
    """The probability of each set of labels that may be released."""
    found = []
    for is_kept in itertools.product((False, True), repeat=len(counts)):
        terms = (kept[n] if keep else 1 - kept[n] for n, keep in zip(counts, is_kept, strict=True))
        found.append(math.prod(terms))
    return found


@pytest.mark.parametrize(("eps", "delta"), BUDGETS)
def test_probabilities_follow_the_closed_form(eps, delta):
    thresholds = PartitionSelection(eps, delta).thresholds
    found = np.array([q / ONE for q in thresholds])
    expected = [closed_form(n, eps, delta) for n in range(1, found.size + 1)]
    rounding = 1 / (delta * ONE)  # of delta to whole units
    np.testing.assert_allclose(found, expected, rtol=1e-9 + 2 * rounding)
    assert thresholds[-1] == ONE


@pytest.mark.parametrize(("eps", "delta"), BUDGETS)
def test_one_record_more_stays_within_eps_and_delta_for_every_count(eps, delta):
    """In exact arithmetic, from no record to the count that is always kept."""
    n_most = len(PartitionSelection(eps, delta).thresholds) + 1
    p = chances(eps, delta, n_most)
    for one, other in itertools.pairwise(p):
        assert one <= other
        assert excess((one, 1 - one), (other, 1 - other), eps) <= Fraction(delta)


@pytest.mark.parametrize(("eps", "delta"), BUDGETS)
def test_no_label_can_be_kept_more_often(eps, delta):
    """Each step spends the budget, up to rounding."""
    p = [float(each) for each in chances(eps, delta, 400)]
    for one, other in itertools.pairwise(p):
        most = min(math.exp(eps) * one + delta, 1 - math.exp(-eps) * (1 - one - delta), 1.0)
        assert other == pytest.approx(most, rel=1e-9)


@pytest.mark.parametrize(("eps", "delta"), [(0.7, 0.05), (0.3, 0.01), (2.0, 0.001)])
def test_all_releases_of_all_neighbours_of_three_labels(eps, delta):
    n_most = 5
    p = chances(eps, delta, n_most)
    overspent = chances(1.3 * eps, delta, n_most)
    worst = 0

    for counts in itertools.product(range(n_most), repeat=3):
        for label in range(3):
            more = tuple(n + (label == place) for place, n in enumerate(counts))
            assert excess(outcomes(counts, p), outcomes(more, p), eps) <= Fraction(delta)
            worst = max(worst, excess(outcomes(counts, overspent), outcomes(more, overspent), eps))

    assert worst > Fraction(delta)


def test_a_label_is_kept_by_exactly_so_many_words_as_its_probability_says():
    selection = PartitionSelection(0.5, 0.01)
    counts = np.arange(1, 40)
    thresholds = [*selection.thresholds, *[ONE] * 40][: counts.size]

    for shift, is_kept in ((-1, True), (0, False)):
        words = np.array([min(q + shift, ONE - 1) for q in thresholds], dtype=np.uint64)
        drawn = selection.draw(counts, Randomness(lambda n, words=words: words[:n]))
        assert drawn[np.array(thresholds) < ONE].tolist() == [is_kept] * sum(
            q < ONE for q in thresholds
        )
        assert drawn[np.array(thresholds) == ONE].all()


def test_a_huge_count_and_no_counts():
    selection = PartitionSelection(1.0, 1e-6)
    assert selection.draw(np.array([2**62]), make_randomness(0)).tolist() == [True]
    assert selection.draw(np.array([], dtype=np.int64), make_randomness(0)).tolist() == []


def least_eps(n_kept, n_kept_with_more, n_samples, delta):
    """An eps that the mechanism surely has: a lower bound with the confidence of this file."""
    at_most = beta.ppf(1 - CONFIDENCE, n_kept + 1, n_samples - n_kept)
    at_least = beta.ppf(CONFIDENCE, n_kept_with_more, n_samples - n_kept_with_more + 1)
    return math.log((at_least - delta) / at_most)


@pytest.mark.parametrize("n_records", [1, 2])
def test_samples_stay_within_eps_and_notice_1_3_eps(n_records):
    eps = 1.0
    delta = 0.01

    def measured(eps_spent):
        randomness = make_randomness(n_records)
        selection = PartitionSelection(eps_spent, delta)
        kept = [
            int(selection.draw(np.full(N_SAMPLES, n), randomness).sum())
            for n in (n_records, n_records + 1)
        ]
        return least_eps(*kept, N_SAMPLES, delta)

    assert measured(eps) <= eps
    assert measured(1.3 * eps) > eps


def test_budgets_that_are_too_small_are_refused_and_large_ones_are_not_spent_in_full():
    for eps, delta in ((LEAST_EPS / 2, 1e-6), (1.0, LEAST_DELTA / 2), (1.0, 0.0)):
        with pytest.raises(BudgetTooSmall, match="eps and delta must be larger"):
            PartitionSelection(eps, delta)

    assert len(PartitionSelection(LEAST_EPS, 1e-4).thresholds) > 1000
    assert (
        PartitionSelection(1e6, 1e-6).thresholds
        == PartitionSelection(GREATEST_EPS, 1e-6).thresholds
    )


def test_the_event_has_an_eps_and_no_rho():
    event = PartitionSelection(1.0, 1e-6).event()
    assert (event.kind, event.eps, event.rho) == (EventKind.SELECTION, 1.0, math.inf)
