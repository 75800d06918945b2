"""Strategies of bins: quantiles, equal width, and the mix of both for few rows."""

import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.preprocessing import KBinsDiscretizer

from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPQuantileDisplay,
    PrivacyLedger,
    PrivacyNoiseWarning,
    plan_search,
    privacy_of,
    privacy_statement,
)
from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.estimators.strategies import (
    MIXED_BINS,
    RANGE,
    UNIFORM_BINS,
    edges_of_column,
    mixed_column,
    most_useful_bins,
    uniform_column,
)
from dpq_sklearn.forecast.enough_data import TOO_FAR_OFF, cautious_count, errors_in_bins
from dpq_sklearn.mechanisms.nothing import NOTHING
from dpq_sklearn.releases.plans import Plan, PlanChoice
from dpq_sklearn.releases.request import Column, even_probabilities

UNKNOWN = ((-np.inf, np.inf), None, None)
BOUNDED = ((0.0, 10.0), None, None)
ORDINAL = {"encode": "ordinal", "random_state": 0}
STRATEGIES = [
    {"strategy": "uniform", "bounds": (0, 20)},
    {"strategy": "uniform"},
    {"strategy": "uniform", "bounds": [(0, 20), (0, None), (None, 20)]},
    {"strategy": "auto", "bounds": (0, 20), "eps": 0.05},
    {"strategy": "auto", "bounds": (0, 20), "eps": 50.0},
    {"strategy": "auto", "bounds": [(0, 20), None, None], "eps": 0.05, "n_bins": "auto"},
    {"strategy": "auto", "n_bins": "auto"},
]
strategies = pytest.mark.parametrize("options", STRATEGIES, ids=str)
noise_is_expected = pytest.mark.filterwarnings("ignore::dpq_sklearn.PrivacyNoiseWarning")


@pytest.fixture
def X(rng):
    return rng.lognormal(size=(300, 3))


def plan_of(estimator, n_features=3):
    return estimator._plan(n_features, TotalBudget(estimator.eps, estimator.delta, estimator.rho))


# ---- equal width between bounds: free ----


@pytest.mark.parametrize("n_bins", [2, 7, [3, 4, 5]])
def test_equal_widths_between_bounds_are_those_of_scikit_learn(n_bins, X):
    bounds = [(0, 20), (-5.0, 3), (0, 1e6)]
    ours = DPKBinsDiscretizer(n_bins, strategy="uniform", bounds=bounds, encode="ordinal").fit(X)
    theirs = KBinsDiscretizer(n_bins, strategy="uniform", encode="ordinal", subsample=None)
    theirs.fit(np.array(bounds).T)

    for one, other in zip(ours.bin_edges_, theirs.bin_edges_, strict=True):
        assert one.tolist() == other.tolist()
    assert np.array_equal(ours.transform(X), theirs.transform(X))
    assert ours.n_bins_.tolist() == theirs.n_bins_.tolist()
    plain = ours.to_sklearn()
    assert plain.strategy == "uniform" and np.array_equal(plain.transform(X), ours.transform(X))


def test_equal_widths_between_bounds_read_and_spend_nothing(X):
    ledger = PrivacyLedger(eps=1.0)
    ledger.spend(eps=1.0, what="all there was")

    def batches():
        yield X  # its columns are needed
        raise AssertionError("a second batch was read")

    binner = DPKBinsDiscretizer(strategy="uniform", bounds=(0, 20), ledger=ledger)
    assert plan_search(binner).total.eps == 0 and plan_search(binner).affordable
    binner.fit_batches(batches())

    loss = binner.privacy_
    assert (loss.eps, loss.delta, loss.rho, loss.pure_eps, loss.events) == (0, 0, 0, 0, ())
    assert binner.n_rows_ is None
    assert ledger.records()[-1].eps == 0  # a fit leaves a record, which costs nothing
    assert ledger.spent().eps == 1.0
    assert privacy_of(binner).total.eps == 0
    assert "no rows were read" in str(privacy_statement(binner))


def test_a_free_fit_never_asks_its_source(X, monkeypatch):
    plan = plan_of(DPKBinsDiscretizer(strategy="uniform", bounds=(0, 20)))
    assert plan.request.is_free
    assert plan.read(source=None) is None
    released = plan.draw(None, randomness=None)
    assert [values.size for values in released.values] == [0, 0, 0]


def test_the_data_of_a_free_column_change_nothing(X):
    """They change neither its own edges, nor the edges of other columns, nor the count."""
    binner = DPKBinsDiscretizer(strategy="uniform", bounds=[(0, 20), None, (0, None)], **ORDINAL)
    other = X.copy()
    other[:, 0] = np.nan
    one, two = (np.concatenate(binner.fit(rows).bin_edges_) for rows in (X, other))
    assert np.array_equal(one, two)


def test_a_free_column_takes_no_share_of_the_budget():
    """Two of three columns are drawn, by the weights of these two."""
    binner = DPKBinsDiscretizer(
        strategy="uniform", bounds=[(0, 1), None, None], feature_weights=[50.0, 1.0, 3.0]
    )
    plan = plan_of(binner)
    assert plan.request.mechanisms[0] is NOTHING and plan.budgets[0] is None
    assert plan.request.shares == pytest.approx([0.25, 0.75])

    left = 1 - plan.count_budget.amount
    assert [budget.amount for budget in plan.budgets[1:]] == pytest.approx([left / 4, left * 3 / 4])


def test_auto_numbers_of_equal_widths_are_ten_or_the_points():
    assert most_useful_bins(10, BOUNDED) == 10
    assert most_useful_bins(10, ((0.0, 4.0), 0, None)) == 5
    assert most_useful_bins(10, ((0.0, 400.0), 0, None)) == 10
    assert most_useful_bins(10, ((0.0, 9.0), -3, None)) == 2  # 0 is the only point

    points = np.arange(5.0)[:, None]
    binner = DPKBinsDiscretizer(
        "auto", strategy="uniform", bounds=(0, 4), decimals=0, encode="ordinal"
    )
    assert binner.fit_transform(points).ravel().tolist() == [0, 1, 2, 3, 4]


# ---- equal width without bounds ----


def test_open_ends_are_private_quantiles(rng):
    X = np.column_stack([rng.uniform(0, 100, size=50_000)] * 3)
    binner = DPKBinsDiscretizer(
        4, strategy="uniform", bounds=[None, (0, None), (None, 100)], eps=10.0, **ORDINAL
    ).fit(X)

    low, high = 100 * np.array(RANGE)
    for edges, ends in zip(binner.bin_edges_, [(low, high), (0, high), (low, 100)], strict=True):
        assert edges == pytest.approx(np.linspace(*ends, 5), abs=1.0)
        assert np.diff(edges) == pytest.approx(np.diff(edges).mean())
    assert binner.privacy_.eps == 10.0 and abs(binner.n_rows_ - 50_000) < 100
    assert all(np.isnan(errors).all() for errors in binner.rank_error_)  # it depends on the data


@pytest.mark.parametrize(
    ("bounds", "values", "ends"),
    [
        ((-np.inf, np.inf), [3.0, 3.0], (3.0, 6.0)),
        ((-np.inf, np.inf), [0.0, 0.0], (0.0, 1.0)),
        ((0.0, np.inf), [0.0], (0.0, 1.0)),
        ((-np.inf, 5.0), [5.0], (0.0, 5.0)),
    ],
)
def test_a_range_without_a_width_gets_one(bounds, values, ends):
    column = uniform_column(4, (bounds, None, None))
    edges, _ = edges_of_column(np.array(values), np.ones(len(values)), column)
    assert edges.tolist() == np.linspace(*ends, 5).tolist()


# ---- auto ----


def test_mixed_edges_are_half_quantiles_and_half_equal_widths():
    column = mixed_column(8, BOUNDED)
    assert column.probabilities == even_probabilities(4) and column.n_widths == 5
    assert column.n_bins == 8

    edges, errors = edges_of_column(np.array([0.5, 2.0, 7.0]), np.array([3.0, 4.0, 5.0]), column)
    # A quantile on an edge of equal width makes a bin for this value alone.
    assert edges.tolist() == [0, 0.5, 2, 2 + 2.0**-22, 4, 6, 7, 8, 10]
    assert errors.tolist() == [3, 0, 4, 0, 0, 5, 0]


@pytest.mark.parametrize("n_bins", range(2, 20))
def test_every_strategy_makes_the_number_of_bins_that_is_asked_for(n_bins):
    for strategy in (uniform_column, mixed_column):
        for known in (BOUNDED, UNKNOWN, ((0.0, np.inf), None, None)):
            column = strategy(n_bins, known)
            values = np.linspace(1, 9, len(column.probabilities))
            edges, errors = edges_of_column(values, np.ones(values.size), column)
            assert column.n_bins == n_bins == edges.size - 1 == errors.size + 1
            assert np.all(np.diff(edges) >= 0)


def test_features_without_two_bounds_keep_quantiles():
    assert mixed_column(8, UNKNOWN) == Column(even_probabilities(8))
    options = {"n_bins": "auto", "eps": 0.3}
    for bounds in (None, (0, None)):
        auto = plan_of(DPKBinsDiscretizer(strategy="auto", bounds=bounds, **options))
        assert auto == plan_of(DPKBinsDiscretizer(bounds=bounds, **options))


@pytest.mark.parametrize("n_bins", [5, "auto"])
@pytest.mark.parametrize("mechanism", ["aq", "agg_tree"])
def test_the_count_alone_chooses(n_bins, mechanism):
    bounds = [*[(0, 1)] * 29, None]
    binner = DPKBinsDiscretizer(
        n_bins, strategy="auto", bounds=bounds, eps=0.5, mechanism=mechanism
    )
    plan = plan_of(binner, n_features=30)
    assert isinstance(plan, PlanChoice)
    assert all(other.loss.eps == 0.5 for other in plan.candidates)

    too_few, few, many = (
        plan.choose(plan.candidates, n).request.columns for n in (30, 1000, 1_000_000)
    )
    assert [bool(column.probabilities) for column in too_few] == [*[False] * 29, True]
    assert too_few[0].n_bins == (UNIFORM_BINS if n_bins == "auto" else 5)
    assert [column.n_widths > 1 for column in few] == [*[True] * 29, False]
    assert few[0].n_bins == few[-1].n_bins == (MIXED_BINS if n_bins == "auto" else 5)
    assert all(column.n_widths == 1 for column in many)
    assert many[0].n_bins == (64 if n_bins == "auto" else 5)


def test_quantiles_are_chosen_where_they_are_good():
    """At the least number of rows for which the error of an edge is at most half a bin."""
    plan = plan_of(DPKBinsDiscretizer(strategy="auto", bounds=(0, 1), eps=1.0))
    _, _, quantiles = plan.candidates
    numbers = np.arange(1, 2000)
    chosen = [plan.choose(plan.candidates, n) is quantiles for n in numbers]
    errors = [
        errors_in_bins(quantiles, cautious_count(n, quantiles.count_budget))[0] for n in numbers
    ]
    assert chosen == [error <= TOO_FAR_OFF for error in errors]
    assert 100 < chosen.index(True) < 1000


@noise_is_expected
@strategies
def test_no_strategy_charges_more_than_its_budget(options, X):
    for budget in ({}, {"delta": 1e-6}, {"eps": None, "rho": 0.02}):
        binner = DPKBinsDiscretizer(**{**options, **budget}).fit(X)
        loss = binner.privacy_
        if binner.rho is None:
            assert loss.eps <= binner.eps and loss.delta <= binner.delta
        else:
            assert loss.rho <= binner.rho

        ledger = PrivacyLedger()
        binner.set_params(ledger=ledger).fit(X)
        assert (ledger.spent().eps, ledger.spent().rho) == pytest.approx(
            (binner.privacy_.eps, binner.privacy_.rho)
        )


def test_the_cost_of_a_plan_covers_all_that_is_drawn():
    """The sum of the costs of the columns and of the count is at most the loss."""
    for options in STRATEGIES:
        plan = plan_of(DPKBinsDiscretizer(**options))
        for each in getattr(plan, "candidates", [plan]):
            columns = zip(
                each.request.mechanisms, each.request.probabilities, each.budgets, strict=True
            )
            spent = sum(mechanism.cost(*column).eps for mechanism, *column in columns)
            if each.count_budget is not None:
                spent += each.count_budget.amount
            assert spent <= each.loss.eps <= plan.loss.eps


# ---- what follows a fit ----


@noise_is_expected
@pytest.mark.parametrize("encode", ["ordinal", "onehot-dense"])
@strategies
def test_everything_works_after_a_fit(options, encode, X):
    frame = pd.DataFrame(X, columns=list("abc"))
    binner = DPKBinsDiscretizer(encode=encode, random_state=0, **options).fit(frame)

    transformed = binner.transform(frame)
    n_columns = binner.n_bins_.sum() if encode == "onehot-dense" else 3
    assert transformed.shape == (300, n_columns) == (300, len(binner.get_feature_names_out()))
    assert np.array_equal(transformed, binner.to_sklearn().transform(frame))
    assert binner.inverse_transform(transformed).shape == X.shape
    assert [len(labels) for labels in binner.bin_labels()] == binner.n_bins_.tolist()

    report = binner.quality_report()
    assert report["bins"].tolist() == binner.n_bins_.tolist()
    assert [len(edges) for edges in report["edges"]] == (binner.n_bins_ - 1).tolist()
    assert [len(errors) for errors in binner.rank_error_] == (binner.n_bins_ - 1).tolist()
    ax = Figure().add_subplot()
    for feature in range(3):
        DPQuantileDisplay.from_estimator(binner, feature=feature, ax=ax)
    assert "DPKBinsDiscretizer" in str(privacy_statement(binner))


@noise_is_expected
def test_the_report_tells_exact_edges_from_private_ones(X):
    free = DPKBinsDiscretizer(strategy="uniform", bounds=(0, 20)).fit(X).quality_report()
    assert set(free["verdict"]) == {"exact: equal widths between the bounds"}
    assert set(free["caveat"]) == {"no rows were read"}

    mixed = DPKBinsDiscretizer(8, strategy="auto", bounds=(0, 20), eps=0.1, **ORDINAL).fit(X)
    for verdict in mixed.quality_report()["verdict"]:
        assert verdict.startswith("mostly noise; 4 of 7 edges are exact")


def test_quantiles_of_a_mix_are_a_prior_and_equal_widths_are_none(X):
    mixed = DPKBinsDiscretizer(8, strategy="auto", bounds=(0, 20), eps=0.1, **ORDINAL).fit(X)
    shares = mixed._shares_below_edges()[0]
    assert shares[np.isfinite(shares)].tolist() == [0.25, 0.5, 0.75]
    DPKBinsDiscretizer(prior=mixed).fit(X)

    free = DPKBinsDiscretizer(strategy="uniform", bounds=(0, 20)).fit(X)
    for prior in (free, free.to_sklearn(), mixed.to_sklearn()):
        with pytest.raises(ValueError, match="prior must have edges at quantiles"):
            DPKBinsDiscretizer(prior=prior).fit(X)


# ---- messages ----


def test_other_strategies_are_refused_by_name(X):
    with pytest.raises(ValueError, match="kmeans") as error:
        DPKBinsDiscretizer(strategy="kmeans").fit(X)
    assert all(f"'{name}'" in str(error.value) for name in ("quantile", "uniform", "auto"))


def texts_of_warnings(binner, X):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", PrivacyNoiseWarning)
        binner.fit(X)
    return [str(warning.message) for warning in seen]


def test_a_noisy_fit_between_bounds_advises_auto(X):
    (text,) = texts_of_warnings(DPKBinsDiscretizer(bounds=(0, 20), eps=0.01), X)
    assert 'strategy="auto"' in text
    (text,) = texts_of_warnings(DPKBinsDiscretizer(bounds=(0, None), eps=0.01), X)
    assert "strategy" not in text
    assert texts_of_warnings(DPKBinsDiscretizer(strategy="auto", bounds=(0, 20), eps=0.01), X) == []


def test_a_mix_without_any_drawn_quantile_is_planned():
    """With two bins the mix is one edge of equal width: the count alone is drawn."""
    plan = plan_of(DPKBinsDiscretizer(2, strategy="auto", bounds=(0, 1), delta=1e-6))
    mixed = plan.candidates[1]
    assert isinstance(mixed, Plan) and not any(mixed.request.is_drawn)
    assert mixed.count_budget is not None and not mixed.request.is_free
