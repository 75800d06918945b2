"""JointExp is private and windowed exactly: proved by enumeration, then tied to the sampler."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from joint_exp import (
    JointExponential,
    JointWeights,
    draw_between,
    record_offsets,
    sliding_sums,
    spread_offsets,
)
from scipy.stats import chisquare

from dpq_sklearn.accounting.budgets import DRAW_ERROR, Budget
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.random import make_randomness
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.engine.sorted_ranks import SortedRanks
from dpq_sklearn.engine.weighted_ranks import WeightedRanks
from dpq_sklearn.reading.summaries import Summary, summarize
from tests.enumeration import (
    cell_distribution,
    column_of,
    datasets,
    neighbour_pairs,
    summary_of,
    tiny_grid,
    worst_log_ratio,
)
from tests.mechanism_helpers import (
    ERROR_BUDGETS,
    QUANTILES,
    UNBOUNDED,
    assert_predicts_its_errors,
    assert_refuses,
    assert_releases_ascending_cells,
    assert_within,
    p_value,
    sample,
    sorted_column,
    spent,
    uniform_quantiles,
    worst_eps_of,
    worst_rho_of,
)

JOINT = JointExponential()
FIFTHS = [0.2, 0.4, 0.6, 0.8]
# A twelfth of 12 is a little less than 1, by so little that its remainder is rounded to 1.
QUANTILES = {**QUANTILES, "fifths": FIFTHS, "rounded": [1 / 12, 1 / 2]}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def tiny_joint(cell_bits=0, spare_bits=34.0):
    """JointExp for tiny grids: of at most 4 cells where not much is clipped."""
    return JointExponential(grid_bits=2, cell_bits=cell_bits, spare_bits=spare_bits)


def tuples_of(n_positions, m):
    """Return all sorted choices of m positions, each with the number of its orders over m!."""
    return {
        positions: 1 / math.prod(map(math.factorial, Counter(positions).values()))
        for positions in itertools.combinations_with_replacement(range(n_positions), m)
    }


def offset_of(index, cell_bits):
    """The offset that the next record takes in a cell with `index` records: it halves a gap."""
    if index == 0:
        return 0
    n_gaps = 1 << (index.bit_length() - 1)
    return ((2 * (index - n_gaps) + 1) << cell_bits) // (2 * n_gaps)


def counts_of_positions(counts, cell_bits):
    """How many records lie at each position."""
    fine = np.zeros((len(counts), 1 << cell_bits), dtype=int)
    for cell, count in enumerate(counts):
        for index in range(count):
            fine[cell, offset_of(index, cell_bits)] += 1
    return fine.ravel()


def weights_of(mechanism, ranks, quantiles, budget):
    """The weights of all positions inside the windows of the first column."""
    score = mechanism.score(quantiles, budget)
    return JointWeights(score, ranks, 0, quantiles, mechanism.cell_bits)


def direct_distribution(counts, quantiles, mechanism, budget):
    """{positions: probability} of all tuples one by one, from the definition of the score."""
    score, n = mechanism.score(quantiles, budget), sum(counts)
    fine = counts_of_positions(counts, mechanism.cell_bits)
    below = np.concatenate(([0], np.cumsum(fine)))  # F at each position
    gaps = np.diff([0.0, *quantiles, 1.0])
    weights = {}
    for positions, orders in tuples_of(fine.size, len(quantiles)).items():
        ranks = np.array([0, *(below[p] for p in positions), n])
        score_of_tuple = -np.abs(np.diff(ranks) - gaps * n).sum()
        weights[positions] = orders * (math.exp(score.eta * score_of_tuple) + math.exp(-score.clip))
    total = math.fsum(weights.values())
    return {key: weight / total for key, weight in weights.items()}


def distributions(n_cells, most, quantiles, mechanism, budget):
    """The exact distribution of every small dataset."""
    return {
        counts: direct_distribution(counts, quantiles, mechanism, budget)
        for counts in datasets(n_cells, most)
    }


def normalised(log_weights):
    weights = np.exp(log_weights - log_weights.max())
    return weights / math.fsum(weights)


def windowed_distribution(ranks, quantiles, mechanism, budget):
    """The distribution of the positions, from the very weights that are drawn with."""
    weights = weights_of(mechanism, ranks, quantiles, budget)
    memory = {}

    def placements(j, log_weights, key):
        """Every tuple of positions of the quantiles up to the j-th, with its probability."""
        if key not in memory:
            found = {}
            for index in np.flatnonzero(log_weights > -np.inf).tolist():
                chance = normalised(log_weights)[index]
                left, right = weights.edge(j, index), weights.edge(j, index + 1)
                for size, share in enumerate(normalised(weights.group_sizes(j, index)), start=1):
                    inside = tuples_of(right - left, size)
                    rest = {(): 1.0}
                    if size <= j:
                        of_first = index + weights.gap(j - size + 1, j)
                        before = weights.intervals_before(j - size, of_first) if share > 0 else None
                        key_before = (j - size, of_first)
                        rest = placements(j - size, before, key_before) if share > 0 else {}
                    for head, tail in itertools.product(rest, inside):
                        positions = (*head, *(left + 1 + p for p in tail))
                        more = chance * share * rest[head] * inside[tail] / sum(inside.values())
                        found[positions] = found.get(positions, 0.0) + more
            memory[key] = found
        return memory[key]

    last = weights.last_intervals()
    inside = placements(len(quantiles) - 1, last, "last")
    everything = tuples_of(int(ranks.grid.end[0]) << mechanism.cell_bits, len(quantiles))
    total, floor = np.logaddexp.reduce(last), -weights.score.clip
    drawn = {
        key: inside.get(key, 0.0) * math.exp(total) + orders * math.exp(floor)
        for key, orders in everything.items()
    }
    sum_of_drawn = math.fsum(drawn.values())
    return {key: weight / sum_of_drawn for key, weight in drawn.items()}


@pytest.mark.parametrize("spare_bits", [34.0, -1.5])
@pytest.mark.parametrize("quantiles", QUANTILES.values(), ids=QUANTILES)
@pytest.mark.parametrize(
    ("counts", "cell_bits"),
    [
        ((0, 0, 0), 0),
        ((1, 0, 2, 1), 0),
        ((5, 1, 2, 4), 0),
        ((40, 0, 3, 60, 1), 0),
        ((0, 900, 0, 0, 900), 0),
        ((7, 11, 0, 25, 80, 2), 0),
        ((3, 0, 30), 1),
        ((50, 1), 2),
    ],
    ids=str,
)
def test_windowed_and_direct_distributions_are_the_same(counts, cell_bits, quantiles, spare_bits):
    """Also where windows cut records off, and where most tuples are clipped."""
    mechanism, budget = tiny_joint(cell_bits, spare_bits), Budget(2.0, "eps")
    ranks = summary_of(counts, tiny_grid(len(counts), 1))
    direct = direct_distribution(counts, quantiles, mechanism, budget)
    windowed = windowed_distribution(ranks, quantiles, mechanism, budget)
    assert worst_log_ratio(direct, windowed) < 1e-10


def test_windows_cut_records_off_in_the_test_above():
    ranks = summary_of((0, 900, 0, 0, 900), tiny_grid(5, 1))
    weights = weights_of(tiny_joint(0, -1.5), ranks, FIFTHS, Budget(2.0, "eps"))
    half = weights.errors.shape[1] // 2
    assert 0 < half < 160
    assert weights.anchors[0] - half > 0 and weights.anchors[-1] + half < 1800


@pytest.mark.slow
@pytest.mark.parametrize("quantiles", QUANTILES.values(), ids=QUANTILES)
@pytest.mark.parametrize(
    "budget", [Budget(0.3, "eps"), Budget(3.0, "eps"), Budget(0.5, "rho")], ids=str
)
def test_every_neighbour_and_every_output_is_within_the_cost(quantiles, budget):
    mechanism = tiny_joint(spare_bits=100.0)
    cost = mechanism.cost(quantiles, budget)
    assert 0.999 * budget.amount < spent(cost, budget) <= budget.amount
    exact = distributions(4, 3, quantiles, mechanism, budget)
    assert_within(cost, exact, neighbour_pairs(4, 3))


@pytest.mark.parametrize("budget", [Budget(2.0, "eps"), Budget(0.5, "rho")], ids=str)
@pytest.mark.parametrize("quantiles", [[0.5], [0.3, 0.6]], ids=str)
def test_ties_spread_over_the_positions_of_a_cell_are_within_the_cost(quantiles, budget):
    """Also more of them than there are positions."""
    mechanism = tiny_joint(cell_bits=2)
    exact = distributions(2, 9, quantiles, mechanism, budget)
    assert_within(mechanism.cost(quantiles, budget), exact, neighbour_pairs(2, 9))


@pytest.mark.parametrize("spare_bits", [34.0, -1.5])
@pytest.mark.parametrize("quantiles", [[0.3, 0.6], [0.25, 0.5, 0.75]], ids=str)
def test_windowed_weights_are_within_eps(quantiles, spare_bits):
    """The same from the weights in use, for few records and for more than a window holds."""
    budget, mechanism = Budget(2.0, "eps"), tiny_joint(1, spare_bits)
    few = list(neighbour_pairs(3, 2))
    many = [((40, 5, 70), (41, 5, 70)), ((40, 5, 70), (40, 6, 70)), ((0, 80, 30), (0, 80, 31))]
    for pair in few + many:
        one, other = (
            windowed_distribution(column_of(counts, tiny_grid(3, 1)), quantiles, mechanism, budget)
            for counts in pair
        )
        assert worst_log_ratio(one, other) <= 2.0


@pytest.mark.parametrize("name", ["median", "thirds"])
def test_the_enumeration_notices_a_tenth_more_eps(name):
    quantiles, pairs = QUANTILES[name], list(neighbour_pairs(3, 6))
    worst = [
        worst_eps_of(distributions(3, 6, quantiles, tiny_joint(0, 400.0), budget), pairs)
        for budget in (Budget(10.0, "eps"), Budget(11.0, "eps"))
    ]
    assert worst[0] <= 10.0 < worst[1]


def test_the_enumeration_notices_1_3_rho():
    pairs = list(neighbour_pairs(4, 2))
    worst = [
        worst_rho_of(distributions(4, 2, [0.5], tiny_joint(), Budget(rho, "rho")), pairs)
        for rho in (0.01, 1.3 * 0.01)
    ]
    assert worst[0] <= 0.01 < worst[1]


def drawn_positions(counts, quantiles, mechanism, budget, seed, n_draws):
    """How often each tuple of positions is drawn."""
    ranks, randomness = summary_of(counts, tiny_grid(len(counts), 1)), make_randomness(seed)
    weights = weights_of(mechanism, ranks, quantiles, budget)
    return Counter(tuple(weights.draw(randomness)) for _ in range(n_draws))


@pytest.mark.slow
def test_sampler_follows_the_exact_distribution_and_betrays_a_wrong_eps():
    mechanism, quantiles, counts = tiny_joint(cell_bits=1), [0.3, 0.5, 0.8], (2, 1, 3)
    exact = direct_distribution(counts, quantiles, mechanism, Budget(2.0, "eps"))

    def p_value_of(eps, seed):
        drawn = drawn_positions(counts, quantiles, mechanism, Budget(eps, "eps"), seed, 2500)
        return p_value(drawn, exact)

    assert p_value_of(2.0, seed=1) > 1e-3
    assert p_value_of(2.6, seed=2) < 1e-3
    assert p_value_of(2.0 / 1.3, seed=3) < 1e-3


def test_sampler_draws_clipped_tuples_as_often_as_it_should():
    """With a high floor most tuples come from it, inside the windows and outside of them."""
    mechanism, counts, quantiles = tiny_joint(0, 3.0), (20, 3, 4, 31, 2), [0.3, 0.6]
    exact = direct_distribution(counts, quantiles, mechanism, Budget(2.0, "eps"))
    drawn = drawn_positions(counts, quantiles, mechanism, Budget(2.0, "eps"), 4, 2000)
    orders = tuples_of(len(counts), 2)
    chances = {key: exact[key] / orders[key] for key in exact}
    clipped = [key for key in exact if chances[key] < 1.01 * min(chances.values())]
    assert 200 < sum(drawn[key] for key in clipped) < 1900
    assert p_value(drawn, exact) > 1e-3


def test_release_is_the_cells_of_the_drawn_positions():
    mechanism, quantiles, budget = tiny_joint(cell_bits=1), [0.3, 0.8], Budget(2.0, "eps")
    exact = direct_distribution((2, 1, 3), quantiles, mechanism, budget)
    drawn = sample(mechanism, (2, 1, 3), tiny_grid(3, 1), quantiles, budget, 5, 400)
    assert p_value(drawn, cell_distribution(exact, 2)) > 1e-3


def bound_of_error(mechanism, quantiles, budget):
    """The largest error of a log probability, from the constants that are drawn with."""
    m, score = len(quantiles), mechanism.score(quantiles, budget)
    assert score.cutoff < 2 * score.clip / score.eta  # the windows are not wider than that
    steps = (m + 1) * (2 * score.clip / score.eta + m + 64)
    beyond_the_windows = math.exp(score.clip - score.eta * score.cutoff)
    return DRAW_ERROR + beyond_the_windows + steps * (4 * score.clip + 100) * 2.0**-53


@pytest.mark.parametrize("m", [1, 4, 31])
@pytest.mark.parametrize(
    "budget",
    [Budget(1e-6, "rho"), Budget(1e-3, "rho"), Budget(3e-3, "eps"), Budget(1.0, "eps")],
    ids=str,
)
def test_one_draw_with_its_rounding_errors_is_within_the_budget(m, budget):
    """One draw of error n k costs more in zCDP than n draws of error k."""
    quantiles = uniform_quantiles(m)
    eps = JOINT.score(quantiles, budget).eps + 4 * bound_of_error(JOINT, quantiles, budget)
    cost = JOINT.cost(quantiles, budget)
    assert eps <= cost.eps
    assert eps**2 / 8 <= cost.rho
    assert spent(cost, budget) <= budget.amount


@pytest.mark.parametrize(
    ("m", "budget"),
    [(100, Budget(1e-6, "rho")), (31, Budget(1e-7, "rho")), (4, Budget(1e-5, "eps"))],
    ids=str,
)
def test_a_budget_too_small_to_be_guaranteed_is_refused(m, budget):
    assert_refuses(JOINT, uniform_quantiles(m), budget)


def test_budgets_of_single_draws_are_left_to_mechanisms_with_several():
    assert JOINT.composed_budgets([[0.5]], [1.0], 1.0, 1e-6) is None


@pytest.mark.parametrize("width", [1, 3, 4, 7, 11, 30])
def test_running_sums_add_up_what_they_should(width, rng):
    terms, eta = rng.normal(scale=20, size=11), 0.4
    terms[[0, 4, 5, 6, 10]] = -np.inf
    sliding = [[terms[s] - eta * (s - i) for s in range(i, min(i + width, 11))] for i in range(11)]
    found = sliding_sums(terms, eta, width)
    sums = np.array([np.logaddexp.reduce(terms) for terms in sliding])
    np.testing.assert_array_equal(np.isinf(found), np.isinf(sums))
    finite = np.isfinite(sums)
    np.testing.assert_allclose(found[finite], sums[finite], rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("n_bits", [0, 1, 3, 34])
def test_one_record_more_leaves_the_places_of_all_others(n_bits):
    """This is what privacy rests on: it adds one step to the ranks."""
    before = []
    for count in range(1, 70):
        offsets = spread_offsets(np.arange(count), np.full(count, count), n_bits).tolist()
        assert offsets == sorted(offsets)
        assert offsets[0] >= 0 and offsets[-1] < 2**n_bits
        assert len(set(offsets)) == min(count, 2**n_bits)
        added = list(offsets)
        for offset in before:
            added.remove(offset)
        assert len(added) == 1
        before = offsets


@pytest.mark.parametrize("count", [2**20 - 1, 2**33 - 1, 2**33 + 12345, 2**34 - 2])
def test_places_of_huge_numbers_of_records_are_exact(count, rng):
    """The same for numbers of records up to the largest one, and no two share an offset."""
    numbers = np.unique(np.append(rng.integers(0, count - 1, size=500), [0, count - 2]))
    both = np.array((numbers, numbers + 1))
    offsets, next_offsets = spread_offsets(both, np.full_like(both, count), 34)
    assert np.all(offsets < next_offsets) and next_offsets[-1] < 2**34
    with_one_more = both + (np.array((offsets, next_offsets)) > offset_of(count, 34))
    with_one_more = spread_offsets(with_one_more, np.full_like(both, count + 1), 34)
    np.testing.assert_array_equal(with_one_more, (offsets, next_offsets))


def test_sources_of_ranks_give_the_same_release(rng):
    """A column and its summary; with atoms on the borders of windows."""
    grid = make_grid([UNBOUNDED])
    values = np.concatenate((rng.normal(size=3000), np.full(2000, 0.5), np.full(900, -1.0)))
    sources = (
        SortedRanks.of_rows(np.sort(values)[None], grid),
        WeightedRanks.of_summaries([summarize(values, grid, 0)], grid),
    )
    released = [
        JOINT.draw(ranks, [FIFTHS], [Budget(1.0, "eps")], make_randomness(5))[0]
        for ranks in sources
    ]
    np.testing.assert_array_equal(*released)


@pytest.mark.parametrize("window", [(0, 1001), (-2, 10), (300, 320), (5, 700), (300, 1002)])
def test_ends_of_intervals_are_exact(window, rng):
    """Positions have 74 bits, more than a float or an integer of NumPy."""
    values = np.sort(rng.normal(size=1000).round(1))
    ranks = sorted_column(values)
    a, b = window
    cells_and_offsets = record_offsets(ranks, 0, np.arange(a - 1, b), 34)
    n_positions = int(ranks.grid.end[0] - ranks.grid.first[0]) << 34
    cells = ranks.grid.cells_of(values, 0) - ranks.grid.first[0]
    wanted = [-1]
    for cell, count in zip(*np.unique(cells, return_counts=True), strict=True):
        offsets = sorted(offset_of(index, 34) for index in range(count))
        wanted += [(int(cell) << 34) + offset for offset in offsets]
    wanted.append(n_positions - 1)
    wanted = [-1, -1, *wanted, n_positions - 1][a + 2 : b + 3]
    pairs = zip(*(part.tolist() for part in cells_and_offsets), strict=True)
    assert [(cell << 34) + offset for cell, offset in pairs] == wanted


def test_lengths_of_intervals_are_rounded_once(rng):
    weights = weights_of(JOINT, sorted_column(rng.normal(size=1000)), FIFTHS, Budget(1.0, "eps"))
    for j, logs in enumerate(weights.log_lengths):
        edges = [weights.edge(j, index) for index in range(logs.size + 1)]
        with np.errstate(divide="ignore"):
            wanted = np.log(np.diff(np.array(edges, dtype=object)).astype(float))
        np.testing.assert_array_equal(logs, wanted)


@pytest.mark.parametrize("n_positions", [2, 3, 2**74 - 2**70])
def test_positions_between_two_others_are_all_equally_likely(n_positions):
    positions = np.array(draw_between(-5, n_positions - 5, 3000, make_randomness(0)), dtype=object)
    assert positions.min() > -5 and positions.max() <= n_positions - 5
    parts = ((positions + 4) * min(n_positions, 30) // n_positions).astype(int)
    assert chisquare(np.bincount(parts, minlength=min(n_positions, 30))).pvalue > 1e-3
    assert all(isinstance(position, int) for position in positions)


@pytest.mark.parametrize("eps", [0.01, 1.0, 1e6])
def test_release_always_gives_ascending_cells(eps):
    assert_releases_ascending_cells(JOINT, Budget(eps, "eps"))


def test_a_large_budget_finds_the_quantiles(rng):
    values = rng.normal(size=2001)
    ranks = sorted_column(values)
    (cells,) = JOINT.draw(ranks, [FIFTHS], [Budget(1000.0, "eps")], make_randomness(None))
    found = np.searchsorted(np.sort(values), ranks.grid.lower_edges(cells, 0))
    np.testing.assert_allclose(found, np.array(FIFTHS) * 2001, atol=2)


def test_an_atom_with_most_of_the_records_is_hit(rng):
    values = np.concatenate((np.full(600, 40.0), rng.uniform(0, 100, size=400)))
    ranks = sorted_column(values, (-100.0, 100.0))
    (cells,) = JOINT.draw(ranks, [[0.4, 0.6]], [Budget(1.0, "eps")], make_randomness(None))
    np.testing.assert_array_equal(cells, ranks.grid.cells_of(np.array([40.0, 40.0]), 0))


def ties(n_records):
    """Most records in one cell, some in two others."""
    grid = make_grid([UNBOUNDED])
    weights = np.array([n_records // 10, n_records, n_records // 10]) * RECORD_WEIGHT
    return WeightedRanks.of_summaries(
        [Summary(grid.cells_of(np.array([1.0, 7.0, 9.0]), 0), weights)], grid
    )


@pytest.mark.parametrize("eps", [1.0, 30.0])
def test_work_does_not_grow_with_ties_and_the_atom_is_hit(eps):
    sizes = []
    for n_records in (10**4, 2 * 10**8, 10**10):
        ranks = ties(n_records)
        weights = weights_of(JOINT, ranks, FIFTHS, Budget(eps, "eps"))
        sizes.append(weights.errors.shape)
        (cells,) = JOINT.draw(ranks, [FIFTHS], [Budget(eps, "eps")], make_randomness(None))
        np.testing.assert_array_equal(ranks.grid.lower_edges(cells, 0).round(5), 7.0)
    assert sizes[0] == sizes[1] == sizes[2]


def test_far_records_are_never_looked_at(rng):
    """The work does not grow with n: only records near their targets are asked for."""

    class Watched(SortedRanks):
        asked = 0

        def locate(self, columns, weights):
            self.asked += weights.size
            return super().locate(columns, weights)

    ranks = Watched.of_rows(np.sort(rng.normal(size=(1, 200_000))), make_grid([UNBOUNDED]))
    JOINT.draw(ranks, [FIFTHS], [Budget(1.0, "eps")], make_randomness(None))
    assert 0 < ranks.asked < 5000


@pytest.mark.slow
@pytest.mark.parametrize("budget", ERROR_BUDGETS[:2], ids=str)
@pytest.mark.parametrize("m", [2, 4])
def test_rank_errors_are_those_of_plentiful_data(m, budget):
    assert_predicts_its_errors(JOINT, m, budget, n_columns=400)
