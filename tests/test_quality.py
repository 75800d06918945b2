"""Enough data? The rule, what "auto" makes of it, the warning, the report, and what they tell."""

import inspect
import logging
import pickle
import re
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.utils import estimator_html_repr

from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPQuantileTransformer,
    PrivacyLedger,
    PrivacyNoiseWarning,
    dp_describe,
    dp_histogram,
    dp_quantiles,
    expected_rank_error,
    plan_search,
    suggest_n_bins,
)
from dpq_sklearn.accounting.conversions import eps_of_zcdp
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.estimators.noise_warning import n_piled_up
from dpq_sklearn.estimators.report import verdict
from dpq_sklearn.forecast import enough_data
from dpq_sklearn.forecast.enough_data import (
    AUTO_BINS,
    LOST,
    TOO_FAR_OFF,
    cautious_count,
    chosen_plan,
    errors_in_bins,
    is_near_enough,
)
from dpq_sklearn.mechanisms.noise import CountNoise
from dpq_sklearn.releases.plans import Plan, Release
from tests.enumeration import (
    aq_draws,
    datasets,
    joint_distribution,
    ranks_of_weights,
    tiny_grid,
    with_neighbours,
)
from tests.marks import slow
from tests.planning import give_releases_one_id_and_time, plan_of_fit
from tests.test_counts import log_chances

BOTH = [DPKBinsDiscretizer("auto"), DPQuantileTransformer()]
both = pytest.mark.parametrize("estimator", BOTH, ids=lambda e: type(e).__name__)
TOYS = {
    "breast_cancer": load_breast_cancer,
    "wine": load_wine,
    "diabetes": load_diabetes,
    "digits": load_digits,
}
each_toy = pytest.mark.parametrize("load", TOYS.values(), ids=TOYS)
no_warnings = pytest.mark.filterwarnings("error::dpq_sklearn.PrivacyNoiseWarning")


@pytest.fixture
def plenty(rng):
    return rng.normal(size=(10_000, 10))


def noise_warnings_of(call):
    """Return the warnings of noise that a call raises."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return [warning for warning in seen if warning.category is PrivacyNoiseWarning]


def plan_of(n_bins, n_features=1, **parameters):
    estimator = DPKBinsDiscretizer(n_bins, **parameters)
    return estimator._plan(n_features, estimator._total_budget())


def n_bins_of(plan):
    return len(plan.request.probabilities[0]) + 1


# The rule


def test_with_plenty_of_rows_the_error_is_that_of_exponential_noise_in_bins():
    plan = plan_of(8, n_features=3, eps=0.5)
    deviations = expected_rank_error(8, eps=0.5, n_features=3)
    expected = deviations.mean() / np.sqrt(2) / (100_000 / 8)
    assert errors_in_bins(plan, 100_000) == pytest.approx(np.full(3, expected))


def test_draws_that_find_nothing_lie_anywhere():
    for n_bins in (2, 5, 16):
        assert errors_in_bins(plan_of(n_bins), 1) == pytest.approx([n_bins * LOST], rel=0.01)


def test_the_error_falls_with_rows_and_bounds_make_data_easier_to_find():
    plan, bounded = plan_of(4, 10), plan_of(4, 10, bounds=(0, 1))
    rows = np.geomspace(10, 1e5, 30)
    errors = np.array([errors_in_bins(plan, n)[0] for n in rows])
    assert np.all(np.diff(errors) <= 1e-12) and errors[-1] < 0.01 < 1.4 < errors[0]
    within = np.array([errors_in_bins(bounded, n)[0] for n in rows])
    assert np.all(within <= errors + 1e-12)
    assert errors_in_bins(bounded, 200)[0] < 0.8 * errors_in_bins(plan, 200)[0]
    half_open = errors_in_bins(plan_of(4, 10, bounds=(0, None)), 200)[0]
    assert errors_in_bins(bounded, 200)[0] < half_open < errors_in_bins(plan, 200)[0]


def errors_of_release(X, values_of_columns):
    """The errors in rank of released values of each column, in bins, with no error within ties."""
    errors = []
    for x, released in zip(np.sort(X.T), values_of_columns, strict=True):
        n_bins = released.size + 1
        wanted = np.arange(1, n_bins) / n_bins * x.size
        below, up_to = (np.searchsorted(x, released, side) for side in ("left", "right"))
        off = np.maximum(np.maximum(below - wanted, wanted - up_to), 0)
        errors.append(off / x.size * n_bins)
    return np.array(errors)


def measured_error(X, n_bins, **budget):
    """The mean of the errors in rank of a few fits, in bins."""
    errors = []
    for _ in range(max(2, 60 // X.shape[1])):
        fitted = DPKBinsDiscretizer(n_bins, **budget).fit(X)
        errors.append(errors_of_release(X, fitted._private_values()))
    return np.mean(errors)


N_ALIKE = 60
KINDS = {  # how to draw a column, its decimals, its bounds
    "normal": (lambda rng, shape: rng.normal(100, 15, shape), None, (0, 300)),
    "lognormal": (lambda rng, shape: rng.lognormal(0, 1, shape), None, (0, 1000)),
    "cents": (lambda rng, shape: rng.lognormal(11, 0.7, shape).round(2), 2, (0, 10**7)),
    "ages": (lambda rng, shape: rng.normal(42, 16, shape).clip(17, 90).round(), 0, (0, 120)),
    "ratings": (lambda rng, shape: rng.choice([1, 2, 3, 4, 5, 5], shape), 0, (1, 5)),
}


def measured_over_expected(kind, known, rows_times_eps):
    """The ratio for many columns of a kind, if its error is more than a fifth of a bin; or 1."""
    make, decimals, bounds = KINDS[kind]
    rng = np.random.default_rng(0)
    X = make(rng, (300, N_ALIKE)).astype(float)
    knowledge = {"bounds": bounds, "decimals": decimals, "prior": make(rng, (100, N_ALIKE))}
    knowledge = {name: knowledge[name] for name in known.split()}
    eps = rows_times_eps / 300 * N_ALIKE
    estimator = DPQuantileTransformer(4, eps=eps, random_state=0, **knowledge).fit(X)

    measured = errors_of_release(X, estimator._private_values()).mean()
    plan = estimator._plan(N_ALIKE, estimator._total_budget())
    expected = errors_in_bins(plan, 300).mean()
    return measured / expected if max(measured, expected) > 0.2 else 1.0


@pytest.mark.parametrize("known", ["", "bounds", "decimals", "bounds decimals", "prior"])
@pytest.mark.parametrize("rows_times_eps", [32, *slow(16, 64)])
def test_the_rule_follows_the_measured_errors(known, rows_times_eps):
    """Within a factor of 1.4 for the middle of all kinds of columns, and for none far larger.

    Where rows share few values errors may be a quarter of what is expected.

    From a budget with which most draws miss the data to one with which all find them.
    """
    ratios = [measured_over_expected(kind, known, rows_times_eps) for kind in KINDS]
    assert min(ratios) > 1 / 4 and max(ratios) < 2.5
    assert 1 / 1.4 < np.median(ratios) < 1.4


def test_what_is_known_is_found_more_easily():
    errors = {
        known: errors_in_bins(plan_of(5, 12, **parameters), 300).mean()
        for known, parameters in {
            "nothing": {},
            "decimals": {"decimals": 0},
            "bounds": {"bounds": (0, 10**6)},
            "both": {"bounds": (0, 100), "decimals": 0},
            "few points": {"bounds": (1, 5), "decimals": 0},
            "points and prior": {"bounds": (1, 5), "decimals": 0, "prior": np.ones((100, 12))},
        }.items()
    }
    assert sorted(errors, key=errors.get)[::-1] == list(errors)
    with_prior = plan_of(5, 12, prior=np.arange(1200.0).reshape(100, 12))
    assert errors_in_bins(with_prior, 300).mean() < errors["both"] / 2


def test_bins_are_no_more_than_the_points_that_are_left():
    known = {"bounds": (1, 5), "decimals": 0}
    assert suggest_n_bins(10**6, **known) == 4 < suggest_n_bins(10**6)
    assert suggest_n_bins(10**6, bounds=(0, 1), decimals=0) == 2
    plans = plan_of("auto", 3, **known).candidates
    assert n_bins_of(chosen_plan(plans, 10**6)) == 4
    some = plan_of("auto", 3, bounds=[(1, 5), None, (0, 1)], decimals=0).candidates
    assert n_bins_of(chosen_plan(some, 10**6)) == 64


def test_the_report_says_where_there_are_more_bins_than_points(rng):
    X = rng.integers(0, 2, (5000, 1))
    fitted = DPKBinsDiscretizer(5, bounds=(0, 1), decimals=0).fit(X)
    (verdict,) = fitted.quality_report()["verdict"]
    assert verdict == "good; 2 of 5 bins can hold rows"


@pytest.mark.slow
@pytest.mark.parametrize("load", [load_breast_cancer, load_wine], ids=["breast_cancer", "wine"])
@pytest.mark.parametrize("n_bins", [2, 4, 8])
def test_the_rule_is_within_half_of_the_errors_measured_on_small_tables(load, n_bins):
    X, ratios = load().data, []
    for eps in (0.3, 1.0, 3.0, 10.0):
        for delta in (0.0, 1e-6):
            budget = {"eps": eps, "delta": delta}
            expected = errors_in_bins(plan_of(n_bins, X.shape[1], **budget), X.shape[0]).mean()
            if expected > 0.03:  # below, one row more or less is a large share of the error
                ratios.append(measured_error(X, n_bins, **budget) / expected)
    assert len(ratios) >= 4
    assert min(ratios) > 0.5 and max(ratios) < 2.0
    assert np.mean(np.log(ratios)) == pytest.approx(0.0, abs=0.35)


def test_errors_have_words():
    words = ["good", "fair", "rough", "mostly noise"]
    assert [verdict(error) for error in (0.05, 0.2, TOO_FAR_OFF, 0.6)] == words
    assert verdict(np.nan) == "unknown"


def test_a_count_stands_for_fewer_rows_the_more_of_it_is_noise():
    """Errors go by one over the count: their mean over its noise is that of fewer rows."""
    budget = plan_of(5, eps=0.1).count_budget
    deviation = CountNoise(budget).deviation()
    assert deviation > 500
    assert cautious_count(100, budget) == cautious_count(int(deviation), budget) == 1.0
    for n_rows in (5_000, 10_000):
        plausible = n_rows + np.random.default_rng(0).normal(0, deviation, 100_000)
        mean = np.mean(1 / plausible)
        assert cautious_count(n_rows, budget) == pytest.approx(1 / mean, rel=0.01)
        assert 1 / mean < 0.997 * n_rows


# "auto"


@pytest.mark.parametrize("n_rows", [100, 600, 5_000, 40_000, 10**6])
@pytest.mark.parametrize(("n_features", "eps"), [(1, 1.0), (10, 1.0), (30, 0.5)])
def test_auto_takes_the_most_bins_that_are_near_enough(n_rows, n_features, eps):
    plans = plan_of("auto", n_features, eps=eps).candidates
    assert list(map(n_bins_of, plans)) == list(AUTO_BINS)
    chosen = chosen_plan(plans, n_rows)
    n_low = cautious_count(n_rows, plans[0].count_budget)
    enough = [p for p in plans if is_near_enough(p, n_low)]
    if enough:
        assert chosen is enough[-1]
        assert n_bins_of(chosen) == suggest_n_bins(int(n_low), n_features=n_features, eps=eps)
    else:
        assert n_bins_of(chosen) in (2, 4, 8, 16)


def test_auto_takes_two_bins_if_these_may_be_found_and_many_if_not():
    """One edge that is not found is worth less than one of many that may hit the data."""
    plans = plan_of("auto", 13, eps=1.0).candidates
    assert not is_near_enough(plans[0], 118)
    assert chosen_plan(plans, 118) is plans[0]
    assert n_bins_of(chosen_plan(plans, 30)) == 16


def test_auto_takes_two_bins_if_only_the_noise_of_the_count_says_that_all_is_lost():
    """The count of 150 rows is off by 91, so 1 may be released; 2 bins would still be found."""
    plans = plan_of("auto", 4, eps=1.0).candidates
    assert chosen_plan(plans, 1) is plans[0]


@no_warnings
@both
def test_auto_is_chosen_by_the_released_count_in_every_way_to_fit(estimator, plenty):
    dd = pytest.importorskip("dask.dataframe")
    fitted = clone(estimator).fit(plenty)
    batches = clone(estimator).fit_batches([plenty[:7000], plenty[7000:]])
    lazy = dd.from_pandas(pd.DataFrame(plenty), npartitions=3)
    for each in (fitted, batches, clone(estimator).fit(lazy), clone(fitted).fit(plenty)):
        plans = each._plan(10, each._total_budget()).candidates
        assert n_bins_of(chosen_plan(plans, each.n_rows_)) == 16  # 10,000 rows allow that
        assert [values.size for values in each._private_values()] == [15] * 10
    if hasattr(fitted, "n_bins_"):
        assert np.array_equal(fitted.n_bins_, [16] * 10)
    assert fitted.transform(plenty[:5]).shape[0] == 5


@pytest.mark.slow
@no_warnings
@both
def test_auto_in_a_search_costs_what_is_planned(estimator, plenty, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db", uncapped=True)
    X, y = plenty[:3000, :3], plenty[:3000, 0] > 0
    pipeline = make_pipeline(clone(estimator).set_params(ledger=ledger), LogisticRegression())
    name = pipeline.steps[0][0]
    count = estimator._quantiles_parameter
    search = GridSearchCV(pipeline, {f"{name}__{count}": ["auto", 7]}, cv=2)
    plan = plan_search(search, n_features=3)
    search.fit(X, y)
    assert plan.n_fits == len(list(ledger.records())) == 5
    assert ledger.spent().eps == pytest.approx(plan.total.eps) == pytest.approx(5.0)
    assert ledger.spent().rho <= plan.total.rho * (1 + 1e-9)


@pytest.mark.parametrize(
    "request_", [{"eps": 1.0}, {"eps": 1.0, "delta": 1e-6}, {"rho": 0.1, "eps": None}]
)
def test_the_price_of_auto_is_that_of_the_most_expensive_number_of_bins(request_):
    plan = plan_of("auto", 5, **request_)
    candidates = [candidate.loss for candidate in plan.candidates]
    fixed = [plan_of(n, 5, **request_).loss for n in AUTO_BINS]
    for part in ("eps", "delta", "rho", "pure_eps"):
        price = getattr(plan.loss, part)
        assert price >= max(getattr(loss, part) for loss in candidates)
        # With a fixed number, the count is composed with the quantiles, which get more then.
        most = max(getattr(loss, part) for loss in fixed)
        assert price == most or (part in ("rho", "pure_eps") and 0.9 * most < price < most)


def test_every_plan_that_the_count_may_choose_keeps_within_what_the_count_leaves():
    """This includes plans by zCDP beside plans by optimal composition."""
    candidates = [[tuple(np.arange(1, n) / n)] * 10 for n in (4, 8)]
    auto = plan_of_fit(candidates, mechanism_name="agg_tree", eps=1.0, delta=1e-6)
    for plan in auto.candidates:
        left = 1.0 - plan.count_budget.amount
        assert plan.loss.account == "zCDP"
        costs = map(plan.request.mechanism.cost, plan.request.probabilities, plan.budgets)
        rho = sum(cost.rho for cost in costs)
        assert 0.99 * left < eps_of_zcdp(rho, 1e-6) <= left


def test_the_price_does_not_tell_what_was_chosen(rng):
    small, large = (
        DPKBinsDiscretizer("auto", eps=5.0, delta=1e-6).fit(rng.normal(size=(n, 2)))
        for n in (150, 50_000)
    )
    assert small.n_bins_[0] < large.n_bins_[0]
    assert small.privacy_ == large.privacy_


# The choice is part of the output: every neighbour, every count, every pair of cells.

AUTO_REQUESTS = {
    "eps": {"eps": 1.0, "delta": 0.0, "rho": None},
    "delta": {"eps": 1.0, "delta": 1e-3, "rho": None},
    "rho": {"eps": None, "delta": 0.0, "rho": 0.5},
}
CANDIDATES = [[(0.5,)], [(0.25, 0.5, 0.75)]]
SUPPORT = np.arange(1, 1200)


def log_outputs(plan, choose):
    """Return the log-probabilities of (count, quantiles) in every dataset, and their pairs.

    `choose` takes the candidates, the released count and the true one.
    """
    all_counts, pairs = with_neighbours(datasets(3, 1))
    ranks = ranks_of_weights(np.array(all_counts) * RECORD_WEIGHT, tiny_grid(3, 1))
    n_records = [sum(counts) for counts in all_counts]
    tables = {}

    def of_quantiles(chosen, data):
        probabilities = chosen.request.probabilities[0]
        if probabilities not in tables:
            draws = aq_draws(ranks, probabilities, chosen.budgets[0])
            tables[probabilities] = [
                joint_distribution(draws, number) for number in range(len(all_counts))
            ]
        return tables[probabilities][data]

    noise = CountNoise(plan.candidates[0].count_budget)
    outputs = []
    for data, n in enumerate(n_records):
        of_counts = log_chances(noise, SUPPORT - n)
        of_counts[0] = logsumexp(log_chances(noise, np.arange(-1500, 2) - n))  # at least 1
        outputs.append({})
        for count, log_chance in zip(SUPPORT.tolist(), of_counts, strict=True):
            if log_chance > -500:
                for cells, chance in of_quantiles(choose(plan.candidates, count, n), data).items():
                    outputs[-1][count, cells] = log_chance + np.log(chance)
    return outputs, pairs, tables


def worst_of(outputs, pairs, eps=None, orders=(1.01, 1.5, 2.0, 8.0, 32.0)):
    """Return the worst eps, rho and, at `eps`, delta of all pairs of neighbours."""
    worst = np.zeros(3)
    for one, other in [*pairs, *pairs[:, ::-1]]:
        keys = outputs[one].keys() & outputs[other].keys()
        if len(keys) < 0.9 * len(outputs[one]):
            return np.full(3, np.inf)  # most outputs tell the two apart
        p, q = (np.array([outputs[data][key] for key in keys]) for data in (one, other))
        divergences = [logsumexp(a * p + (1 - a) * q) / (a - 1) / a for a in orders]
        delta = 0.0 if eps is None else np.maximum(np.exp(p) - np.exp(eps + q), 0.0).sum()
        worst = np.maximum(worst, (np.abs(p - q).max(), max(divergences), delta))
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("request_", AUTO_REQUESTS.values(), ids=AUTO_REQUESTS)
def test_count_choice_and_quantiles_together_cost_at_most_the_price(request_):
    plan = plan_of_fit(CANDIDATES, bounds=(0.0, 3.0), **request_)
    outputs, pairs, tables = log_outputs(plan, lambda plans, count, n: chosen_plan(plans, count))
    assert len(tables) == 2  # both plans are chosen, each by some counts
    eps, rho, delta = worst_of(outputs, pairs, request_["eps"])
    assert 0.1 * plan.loss.rho < rho <= plan.loss.rho
    if request_["eps"] is not None:
        assert delta <= plan.loss.delta
        assert 0.3 < eps <= plan.loss.pure_eps


def test_a_choice_by_the_true_count_would_be_found_out():
    plan = plan_of_fit(CANDIDATES, bounds=(0.0, 3.0), **AUTO_REQUESTS["eps"])
    outputs, pairs, _ = log_outputs(plan, lambda plans, count, n: plans[n > 1])
    assert worst_of(outputs, pairs)[0] == np.inf


# The warning


def noisy_fit(estimator, X):
    """Return the one warning of a fit as text, and the advice of its report."""
    (warning,) = noise_warnings_of(lambda: estimator.fit(X))
    (advice,) = set(estimator.quality_report()["advice"]) - {""}
    return str(warning.message), advice


@pytest.mark.parametrize("seed", range(5))
def test_the_warning_names_the_cause_and_the_report_how_much_each_step_helps(seed):
    X = load_breast_cancer().data
    text, advice = noisy_fit(DPKBinsDiscretizer(random_state=seed), X)
    assert text == (
        "The released edges are mostly noise: on average, an edge is expected to be more than half "
        "a bin off, because the data are too few for this budget. Consider fewer bins, "
        "delta=1e-6, public bounds, known decimals, public rows as prior, fewer features or a "
        "larger eps. quality_report() has the expected errors and how much each of these steps "
        "would help."
    )
    assert re.fullmatch(
        r"delta=1e-6 \(error [2-9]\.?\d? times smaller\), .*2 bins,.* fewer features or a larger "
        r"eps",
        advice,
    )
    assert issubclass(PrivacyNoiseWarning, UserWarning)


@pytest.mark.parametrize(("action", "n_shown"), [("default", 1), ("always", 10), ("ignore", 0)])
def test_a_search_warns_once_unless_a_filter_asks_for_more(action, n_shown, rng):
    """The texts held released numbers, and scikit-learn clears Python's memory of warnings."""
    X = rng.normal(size=(200, 10))
    pipeline = make_pipeline(DPKBinsDiscretizer(eps=0.5, random_state=0), LogisticRegression())
    grid = {"dpkbinsdiscretizer__n_bins": [4, 8, 16]}
    search = GridSearchCV(pipeline, grid, cv=3)

    enough_data._shown.clear()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action, PrivacyNoiseWarning)
        search.fit(X, X[:, 0] > 0)
    assert sum(warning.category is PrivacyNoiseWarning for warning in seen) == n_shown


def test_a_warning_that_is_an_error_stays_one(rng):
    X = rng.normal(size=(50, 10))
    for _ in range(2):
        with warnings.catch_warnings(), pytest.raises(PrivacyNoiseWarning):
            warnings.simplefilter("error", PrivacyNoiseWarning)
            DPKBinsDiscretizer(eps=0.1, random_state=0).fit(X)


@pytest.mark.parametrize("seed", range(20))
def test_the_advice_is_sorted_by_the_numbers_it_shows(seed, rng):
    X = rng.normal(size=(300, 10))
    _, advice = noisy_fit(DPKBinsDiscretizer(random_state=seed), X)
    shown = [float(times) for times in re.findall(r"error ([\d.]+) times smaller", advice)]
    assert len(shown) >= 2
    assert shown == sorted(shown, reverse=True)


@pytest.mark.parametrize(
    ("estimator", "words", "others"),
    [
        (DPKBinsDiscretizer(8, eps=None, rho=1e-5), "a larger rho", ["delta", "eps"]),
        (DPKBinsDiscretizer(8, eps=0.1, delta=1e-5), "a larger eps", ["delta"]),
        (DPKBinsDiscretizer(2, eps=0.1), "100 public rows as prior", ["2 bins", "4 bins"]),
        (DPKBinsDiscretizer("auto", eps=3), "delta=1e-6 (error", ["2 bins", "4 bins"]),
        (DPQuantileTransformer(63, eps=20), "3 quantiles, ", ["1 quantiles"]),
        (DPQuantileTransformer(eps=3), "delta=1e-6 (error", [" quantiles"]),
        (DPKBinsDiscretizer(5, eps=10), "public bounds (error 1.", []),
        (DPKBinsDiscretizer(5, eps=10, bounds=(-5, 5)), "known decimals", ["bounds"]),
        (DPKBinsDiscretizer(5, eps=10, decimals=0), "public bounds", ["decimals"]),
        (DPKBinsDiscretizer(3, eps=2, prior=np.eye(50, 20)), "delta=1e-6", ["prior", "bounds"]),
        (DPKBinsDiscretizer(2, eps=1e-5), "fewer features or a larger eps", ["delta"]),
    ],
    ids=str,
)
def test_the_advice_is_what_applies(estimator, words, others, rng):
    X, estimator = rng.normal(size=(60, 20)), clone(estimator).set_params(random_state=0)
    text, advice = noisy_fit(estimator, X)
    assert words in advice
    assert not any(other in step for other in others for step in steps_of(advice))
    named = text.partition("Consider ")[2].partition(". quality_report")[0]
    for step in steps_of(advice):  # the warning names the same steps, without numbers
        assert re.sub(r"^(100|\d+(?= bins| quantiles)) ?", "", step).split()[0] in named


def steps_of(advice):
    """Return the steps of an advice, without how much they help."""
    return re.sub(r" \(.*?\)", "", advice).split(", ")


def test_the_best_advice_comes_first(monkeypatch):
    """What each step buys on 300 x 12 was measured: examples/benchmarks/advice.py."""
    released_alike(monkeypatch, 300)
    _, advice = noisy_fit(DPKBinsDiscretizer(), np.zeros((3, 12)))
    assert steps_of(advice) == [
        "100 public rows as prior",
        "delta=1e-6",
        "public bounds",
        "known decimals",
        "2 bins",
        "fewer features or a larger eps",
    ]
    known = {"bounds": (0, 9), "decimals": 0, "prior": np.ones((9, 12)), "delta": 1e-6}
    _, advice = noisy_fit(DPKBinsDiscretizer(40, **known), np.zeros((3, 12)))
    assert steps_of(advice) == ["4 bins", "fewer features or a larger eps"]


def test_a_ledger_that_would_count_a_delta_as_more_eps_is_named(rng):
    X = rng.normal(size=(300, 12))
    without, beside_ledger = (
        noisy_fit(DPKBinsDiscretizer(random_state=0, ledger=ledger), X)[1]
        for ledger in (None, PrivacyLedger(eps=2))
    )
    assert "ledger" not in without and "delta=1e-6" in without
    (counted,) = re.findall(r"a ledger with delta=0 counts it as eps=([\d.]+)", beside_ledger)
    with_delta = DPKBinsDiscretizer(delta=1e-6, ledger=PrivacyLedger(eps=100, delta=0.0)).fit(X)
    assert with_delta.privacy_.eps_in_ledger == pytest.approx(float(counted), rel=0.05)
    assert with_delta.privacy_.eps_in_ledger > 1.5


@pytest.mark.parametrize("n_rows", [40, 120])
@both
def test_types_that_one_row_turns_from_int_to_float_advise_nothing_else(estimator, n_rows, rng):
    """As `read_csv` does if one more row holds 3.5, or nothing: the same words, the same report."""
    whole = pd.DataFrame(rng.integers(0, 90, (n_rows, 12))).add_prefix("x")
    outputs = []
    for row in (3, 3.5, np.nan):
        X = pd.concat([whole, pd.DataFrame([[row] * 12], columns=whole.columns)])
        fitted = clone(estimator).set_params(random_state=0)
        seen = noise_warnings_of(lambda: fitted.fit(X))  # noqa: B023
        facts = [str(warning.message) for warning in seen], fitted.error_in_bins_.tolist()
        outputs.append((*facts, [len(values) for values in fitted._private_values()]))
    assert (whole.dtypes == "int64").all() and (X.dtypes == "float64").all()
    assert outputs[0] == outputs[1] == outputs[2]
    assert outputs[0][0]  # they warn


def test_one_feature_is_not_told_to_be_fewer(rng):
    X = rng.normal(size=(60, 1))
    estimator = DPKBinsDiscretizer(16, eps=0.1, delta=1e-5, random_state=0)
    text, advice = noisy_fit(estimator, X)
    assert "fewer features" not in text + advice


def test_a_count_that_is_noise_itself_says_so(rng):
    fitted = DPKBinsDiscretizer(eps=0.1, random_state=0).fit(rng.normal(size=(60, 5)))
    (caveat,) = set(fitted.quality_report()["caveat"])
    assert re.match(r"fewer than about [\d,]+ rows, ", caveat)
    fitted = DPKBinsDiscretizer(eps=1.0, random_state=0).fit(rng.normal(size=(200, 9)))
    (caveat,) = set(fitted.quality_report()["caveat"])
    assert re.match(r"about [\d,]+ ± 91 rows, ", caveat)


@pytest.mark.parametrize(
    "call",
    [
        lambda est, X: est.fit(X),
        lambda est, X: est.fit_transform(X),
        lambda est, X: est.fit_batches([X[:10], X[10:]]),
        lambda est, X: make_pipeline(est, LogisticRegression()).fit(X, X[:, 0] > 0),
        lambda est, X: clone(est).set_output(transform="pandas").fit_transform(X),
    ],
    ids=["fit", "fit_transform", "fit_batches", "pipeline", "set_output"],
)
def test_the_warning_comes_once_and_points_at_the_users_line(call, rng):
    X = rng.normal(size=(30, 20))
    est = DPKBinsDiscretizer(encode="onehot-dense", eps=0.1)
    (warning,) = noise_warnings_of(lambda: call(est, X))
    assert warning.filename == __file__
    assert warning.lineno == inspect.getsourcelines(call)[1]


def test_every_fit_of_a_cross_validation_warns_at_the_users_line(rng):
    X = rng.normal(size=(30, 20))
    pipeline = make_pipeline(DPKBinsDiscretizer(eps=0.1), LogisticRegression())
    seen = noise_warnings_of(lambda: cross_val_score(pipeline, X, X[:, 0] > 0, cv=3))
    assert [warning.filename for warning in seen] == [__file__] * 3


@no_warnings
def test_enough_rows_never_warn(plenty):
    for _ in range(20):
        DPKBinsDiscretizer(5, eps=1.0).fit(plenty)
    DPQuantileTransformer(eps=1.0).fit(plenty)


def test_a_fit_whose_error_nobody_knows_does_not_warn(rng):
    X = rng.normal(size=(1000, 5))  # enough that no edges pile up on an end of the range
    est = DPKBinsDiscretizer(mechanism="agg_tree", eps=10.0)
    assert noise_warnings_of(lambda: est.fit(X)) == []
    assert set(pd.DataFrame(est.quality_report())["verdict"]) == {"unknown"}


@each_toy
def test_default_bins_warn_on_small_tables(load):
    X = load().data
    binner = DPKBinsDiscretizer(random_state=0)  # the noise of the count decides now and then
    assert len(noise_warnings_of(lambda: binner.fit(X))) == 1


@pytest.mark.slow
@each_toy
def test_auto_warns_or_works_on_small_tables(load):
    """If it does not warn, a model on its bins is nearly as good as on exact bins."""
    X, y = load(return_X_y=True)
    y = y > np.median(y) if y.dtype == float else y
    private, exact = [], []
    for seed in range(2):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
        # With a seed: the noise of the count may also make very few rows look like enough.
        binner = DPKBinsDiscretizer("auto", random_state=seed)
        warned = noise_warnings_of(lambda: binner.fit(X_train))  # noqa: B023
        plain = KBinsDiscretizer(4, strategy="quantile", subsample=None)
        if not warned:
            for scores, each in ((private, binner), (exact, plain)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    Z = each.fit_transform(X_train) if each is plain else each.transform(X_train)
                    model = LogisticRegression(C=0.3, max_iter=1000).fit(Z, y_train)
                    scores.append(model.score(each.transform(X_test), y_test))
    assert not private or np.mean(private) > np.mean(exact) - 0.05


def test_edges_that_pile_up_on_a_bound_are_warned_of(rng):
    X = rng.lognormal(3, 1, size=(5000, 3))
    for bounds in [(-5, 0.1), [(0, 0.1), None, (0, None)]]:
        (warning,) = noise_warnings_of(lambda: DPKBinsDiscretizer(bounds=bounds).fit(X))  # noqa: B023
        assert "All edges of a feature lie on one of its bounds, so most" in str(warning.message)


@pytest.mark.parametrize("factor", [1e40, -1e40, np.inf])
@pytest.mark.parametrize("bounds", [None, [(0, 0.1), None, None]])
def test_rows_beyond_the_scale_are_not_told_to_drop_bounds(rng, factor, bounds):
    X = np.c_[-np.ones(5000), rng.lognormal(3, 1, size=(5000, 2)) * factor]
    (warning,) = noise_warnings_of(lambda: DPKBinsDiscretizer(bounds=bounds).fit(X))
    words = str(warning.message)
    assert "at the end of a range without bounds, about 2^64, so most" in words
    assert "Use two public bounds, or replace infinite values by missing values." in words
    assert "wider" not in words  # the first column is on its bound at zero


def test_both_kinds_of_ends_are_named(rng):
    X = np.c_[np.full(5000, 3.0), np.full(5000, np.inf)]
    (warning,) = noise_warnings_of(lambda: DPKBinsDiscretizer(bounds=[(0, 1), None]).fit(X))
    assert "on one of its bounds" in str(warning.message)
    assert "without bounds, about 2^64" in str(warning.message)


@pytest.mark.parametrize("decimals", [None, 0])
def test_large_numbers_that_share_a_cell_are_warned_of(decimals):
    ids = 1e15 + np.arange(5000.0)
    X = np.c_[ids, np.arange(5000.0), np.full(5000, 1e6)]
    binner = DPKBinsDiscretizer(8, decimals=decimals)

    (warning,) = noise_warnings_of(lambda: binner.fit(X))
    assert "Most edges of a feature are equal to others" in str(warning.message)

    binner.set_params(bounds=[(1e15, 1e15 + 1e4), None, None])  # what the warning advises
    assert not noise_warnings_of(lambda: binner.fit(X))
    assert np.unique(binner.bin_edges_[0]).size == 9


@no_warnings
def test_zeros_and_single_edges_on_a_bound_are_no_pile(rng):
    X = np.where(rng.random((5000, 2)) < 0.9, 0.0, rng.random((5000, 2)))
    DPKBinsDiscretizer(bounds=(0, 1)).fit(X)
    DPKBinsDiscretizer(2, bounds=(0, 0.5)).fit(np.ones((5000, 2)))
    assert n_piled_up([np.array([3.0])], plan_of(2, bounds=(0, 3)).grid) == (0, 0)
    assert n_piled_up([np.array([3.0, 3.0])], plan_of(2, bounds=(0, 3)).grid) == (1, 0)


@pytest.mark.parametrize("mechanism", ["aq", "auto"])
@pytest.mark.parametrize("n_bins", [5, "auto"])
def test_no_advice_stops_a_fit(mechanism, n_bins, rng):
    amount = 1e-7
    X = rng.normal(size=(10, 2))
    budgets = {"eps": amount}, {"eps": amount, "delta": 1e-9}, {"eps": None, "rho": amount}
    for budget in budgets:
        est = DPKBinsDiscretizer(n_bins, mechanism=mechanism, **budget)
        # The noise of such a count is so large that it may seem to be enough.
        assert len(noise_warnings_of(lambda: est.fit(X))) <= 1  # noqa: B023


# The report


@pytest.mark.parametrize(
    ("estimator", "n_bins"),
    [(DPKBinsDiscretizer({"b": 3}), [5, 3]), (DPQuantileTransformer(7), [8, 8])],
    ids=["bins", "quantiles"],
)
@no_warnings
def test_the_report_is_a_table_of_all_features(estimator, n_bins, rng):
    X = pd.DataFrame(rng.normal(size=(5000, 2)), columns=["a", "b"])
    report = estimator.fit(X).quality_report()
    columns = ["feature", "bins", "edges", "error_in_bins", "verdict", "caveat", "advice"]
    assert report.columns.tolist() == columns
    (caveat,) = set(report["caveat"])
    assert re.fullmatch(r"about [45],\d+ rows, if few values are missing", caveat)
    assert set(report["advice"]) == {""}
    assert report["feature"].tolist() == ["a", "b"]
    assert report["bins"].tolist() == n_bins
    assert [len(edges) + 1 for edges in report["edges"]] == n_bins
    assert all(list(edges) == sorted(edges) for edges in report["edges"])
    assert report["error_in_bins"].to_numpy() == pytest.approx(estimator.error_in_bins_, abs=1e-3)
    assert set(report["verdict"]) == {"good"}
    assert "good" in report._repr_html_() and "mostly" not in repr(report)


def test_the_verdict_counts_the_bins_that_can_hold_rows(rng):
    X = rng.poisson(0.5, size=(20_000, 1))
    fitted = DPKBinsDiscretizer(8, eps=20.0, decimals=0).fit(X)
    (edges,) = fitted._private_values()
    n_distinct = len(set(edges.tolist())) + 1
    assert n_distinct < 8
    (verdict,) = fitted.quality_report()["verdict"]
    assert verdict.endswith(f"; {n_distinct} of 8 bins can hold rows")


@both
def test_without_pandas_the_report_is_a_dict_of_arrays(estimator, plenty, monkeypatch):
    fitted = clone(estimator).fit(plenty)
    expected = fitted.quality_report()
    monkeypatch.setitem(sys.modules, "pandas", None)
    report = fitted.quality_report()
    assert isinstance(report, dict) and list(report) == list(expected.columns)
    assert report["feature"].tolist() == [f"x{index}" for index in range(10)]
    assert all(
        isinstance(entries, np.ndarray) and entries.shape == (10,) for entries in report.values()
    )
    assert all(report[key].tolist() == expected[key].tolist() for key in report)
    lines = repr(report).splitlines()
    assert len(lines) == 11 and lines[0].split() == list(report)
    assert all(word in line for line, word in zip(lines[1:], report["verdict"], strict=True))
    assert report._repr_html_().count("<tr>") == 11
    some = report[["feature", "verdict"]]
    assert some.to_string(index=False).splitlines()[0].split() == ["feature", "verdict"]


# All that leaves a fit is a function of the release


def released_alike(monkeypatch, n_rows):
    """Make every release that of `n_rows` rows and the same quantiles, whatever the data."""

    def draw_count(self, records, randomness):
        assert records.n_rows > 0  # the data are read
        return n_rows

    def draw_quantiles(self, records, n_rows, randomness):
        values = [np.round(np.linspace(-1, 1, len(q)), 3) for q in self.request.probabilities]
        return Release(values, n_rows, self)

    give_releases_one_id_and_time(monkeypatch)
    monkeypatch.setattr(Plan, "draw_count", draw_count)
    monkeypatch.setattr(Plan, "draw_quantiles", draw_quantiles)


def side_outputs(estimator, X, capfd, caplog):
    """Return all outputs of a fit and of the fitted object."""
    fitted = clone(estimator)
    caplog.clear()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fitted.fit(X)
        html, report = estimator_html_repr(fitted), fitted.quality_report()
    printed = capfd.readouterr()
    return {
        "warnings": [(w.category, str(w.message), w.filename, w.lineno) for w in seen],
        "printed": (printed.out, printed.err, caplog.text),
        "repr": repr(fitted),
        "html": re.sub(r"sk-[\w-]+", "", html),
        "report": report.to_json(),
        "pickle": pickle.dumps(fitted),
        "names": fitted.get_feature_names_out().tolist(),
        "tags": repr(fitted.__sklearn_tags__()),
        "dir": dir(fitted),
        "plain": pickle.dumps(fitted.to_sklearn()),
        "transformed": fitted.transform(np.linspace(-9, 9, 20).reshape(10, 2)).tolist(),
    }


ODD_TABLES = {
    "few": np.zeros((3, 2)),
    "many": np.random.default_rng(1).lognormal(9, 3, size=(5000, 2)),
    "missing": np.full((50, 2), np.nan),
    "infinite": np.array([[np.inf, -np.inf], [1e300, 5e-324]]),
}


@pytest.mark.parametrize("n_rows", [1, 40, 1_000_000])
@pytest.mark.parametrize(
    "estimator",
    [
        DPKBinsDiscretizer(encode="onehot-dense"),
        DPKBinsDiscretizer("auto", encode="ordinal", delta=1e-6),
        DPKBinsDiscretizer(8, encode="ordinal", bounds=(-1, 1), eps=None, rho=0.01),
        DPQuantileTransformer(),
    ],
    ids=["bins", "auto", "bounds", "quantiles"],
)
def test_equal_releases_give_equal_outputs_of_all_kinds(
    estimator, n_rows, monkeypatch, capfd, caplog
):
    caplog.set_level(logging.DEBUG)
    released_alike(monkeypatch, n_rows)
    outputs = [side_outputs(estimator, X, capfd, caplog) for X in ODD_TABLES.values()]
    for other in outputs[1:]:
        for kind in outputs[0]:
            assert other[kind] == outputs[0][kind], kind
    assert (n_rows < 10**6) == bool(outputs[0]["warnings"])


def test_a_leak_into_an_attribute_or_a_warning_would_be_seen(monkeypatch, capfd, caplog):
    class Leaky(DPKBinsDiscretizer):
        def fit(self, X, y=None):
            super().fit(X)
            self.leak_ = X.shape[0]
            if np.isnan(X).any():
                warnings.warn("there are NaN", UserWarning, stacklevel=2)
            return self

    monkeypatch.setattr(sys.modules[__name__], "Leaky", Leaky, raising=False)
    Leaky.__qualname__ = "Leaky"
    released_alike(monkeypatch, 10**6)
    tables = ODD_TABLES["few"], ODD_TABLES["missing"]
    one, other = (side_outputs(Leaky(encode="ordinal"), X, capfd, caplog) for X in tables)
    # The HTML of scikit-learn before 1.9 shows no fitted attributes.
    found = {kind for kind in one if one[kind] != other[kind]}
    assert found - {"html"} == {"warnings", "pickle"}


def test_a_delta_above_one_over_the_rows_is_named(rng):
    X = rng.normal(size=(2000, 4))
    for fit in (DPKBinsDiscretizer(delta=0.5).fit, lambda X: dp_describe(X, delta=0.5)):
        with pytest.warns(UserWarning, match="delta is above one over the released number"):
            fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DPKBinsDiscretizer(delta=1e-6).fit(X)
        dp_describe(X, delta=1e-6)


def test_functions_take_rho_alone(rng):
    x = rng.normal(size=1000)
    for function in (dp_quantiles, dp_histogram):
        argument = [0.5] if function is dp_quantiles else [-1.0, 0.0, 1.0]
        *_, loss = function(x, argument, rho=0.5, return_privacy=True)
        assert loss.rho == 0.5
        *_, loss = function(x, argument, return_privacy=True)
        assert loss.eps == 1.0
    with pytest.raises(TypeError, match="positional"):
        dp_describe(x[:, None], 0.5)
