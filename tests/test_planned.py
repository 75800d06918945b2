"""A plan is never below the charge: random transformers, budgets, dicts, groups and ledgers."""

import itertools
import math
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import uniform
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import RandomizedSearchCV
from sklearn.pipeline import make_pipeline

from dpq_sklearn import (
    BudgetExceededError,
    DPKBinsDiscretizer,
    DPQuantileTransformer,
    DPRobustScaler,
    PrivacyLedger,
    plan_search,
)
from dpq_sklearn.accounting.budgets import BudgetTooSmall
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.estimators import base

NAMES = list("abcdef")
MECHANISMS = ["aq", "auto", "agg_tree"]
KINDS = ("eps", "delta", "rho", "pure_eps")


class Stop(Exception):
    """Raised where a fit would read its data."""


def charge_of(estimator, n_features, with_groups):
    """Return the charge of a fit, which stops after it has paid."""
    X = pd.DataFrame(np.arange(4.0 * n_features).reshape(4, -1), columns=NAMES[:n_features])
    charged = []

    def stop(paid, source):
        charged.append(paid.loss)
        raise Stop

    with mock.patch.object(base, "release", stop), pytest.raises(Stop):
        estimator.fit(X, groups=[0, 0, 1, 2] if with_groups else None)
    return charged[0]


def covers(planned, charged):
    return all(getattr(planned, kind) >= getattr(charged, kind) for kind in KINDS)


budgets = st.one_of(
    st.fixed_dictionaries({"eps": st.sampled_from([0.01, 0.3, 1.0, 4.0, 30.0, 3000.0])}),
    st.fixed_dictionaries(
        {
            "eps": st.sampled_from([0.03, 0.3, 1.0, 2.0, 8.0]),
            "delta": st.sampled_from([1e-9, 1e-6, 1e-3, 0.1]),
        }
    ),
    st.fixed_dictionaries({"eps": st.none(), "rho": st.sampled_from([1e-3, 0.1, 2.0, 50.0])}),
)
bins = st.sampled_from([2, 3, 4, 5, 8, 16, 64, 300])
weights = st.sampled_from([0.1, 1.0, 3.0, 50.0])


def of_features(entry, n_features):
    """A parameter by position, or by name for some of the features."""
    by_position = st.lists(entry, min_size=n_features, max_size=n_features)
    by_name = st.dictionaries(st.sampled_from(NAMES[:n_features]), entry)
    return st.one_of(by_position, by_name)


@st.composite
def transformers(draw):
    """A transformer, the number of its features, and whether it will have groups."""
    n_features = draw(st.integers(1, 5))
    options = draw(budgets)
    options["mechanism"] = draw(st.sampled_from(MECHANISMS))
    options["feature_weights"] = draw(st.one_of(st.none(), of_features(weights, n_features)))
    options["bounds"] = draw(st.sampled_from([None, (0, 1), (0, None), {"a": (0, 1)}]))
    options["decimals"] = draw(st.sampled_from([None, 0, 1, {"a": 1}]))
    with_groups = draw(st.booleans())
    neighbours = "people" if with_groups else "rows"
    if draw(st.booleans()):
        options["ledger"] = PrivacyLedger(neighbours=neighbours)
    kind = draw(st.sampled_from([DPKBinsDiscretizer, DPQuantileTransformer, DPRobustScaler]))
    if kind is DPRobustScaler:
        return DPRobustScaler(**options), n_features, with_groups
    if kind is DPKBinsDiscretizer:
        n_bins = draw(st.one_of(bins, st.just("auto"), of_features(bins, n_features)))
        strategy = draw(st.sampled_from(["quantile", "uniform", "auto"]))
        binner = DPKBinsDiscretizer(n_bins, strategy=strategy, **options)
        return binner, n_features, with_groups
    n_quantiles = draw(st.sampled_from([2, 3, 7, 30, "auto"]))
    return DPQuantileTransformer(n_quantiles, **options), n_features, with_groups


def plan_or_none(estimator, **options):
    """The plan; None if what is asked for cannot be guaranteed, or is not known enough."""
    try:
        return plan_search(estimator, **options)
    except BudgetTooSmall:
        return None


@settings(max_examples=150)
@given(transformers())
def test_a_plan_is_never_below_the_charge(case):
    estimator, n_features, with_groups = case
    plan = plan_or_none(estimator, n_features=n_features)
    if plan is None:
        return
    charged = charge_of(estimator, n_features, with_groups)
    assert covers(plan.losses[0], charged)
    assert covers(plan.total, charged)
    if estimator.ledger is not None:
        (record,) = estimator.ledger.records()
        assert (record.eps, record.delta, record.rho) == (charged.eps, charged.delta, charged.rho)


@settings(max_examples=150)
@given(transformers())
def test_a_plan_for_any_number_of_features_is_never_below_the_charge(case):
    estimator, n_features, with_groups = case
    by_position = isinstance(estimator.feature_weights, list) or isinstance(
        getattr(estimator, "n_bins", None), list
    )
    is_free = getattr(estimator, "strategy", None) == "uniform" and estimator.bounds == (0, 1)
    if estimator.delta > 0 and not by_position and not is_free:
        with pytest.raises(ValueError, match="n_features must be given to plan a"):
            plan_search(estimator)
        return
    plan = plan_or_none(estimator)
    if plan is None:
        return
    try:
        charged = charge_of(estimator, n_features, with_groups)
    except BudgetTooSmall:
        return
    assert covers(plan.losses[0], charged)


@settings(max_examples=60)
@given(transformers(), st.floats(0.2, 3.0), st.sampled_from([0.0, 1e-6, 1e-2]))
def test_what_a_plan_calls_affordable_is_paid(case, factor, delta):
    estimator, n_features, with_groups = case
    neighbours = "people" if with_groups else "rows"
    cap = factor * (estimator.eps or math.sqrt(8 * estimator.rho))
    estimator.set_params(ledger=PrivacyLedger(eps=cap, delta=delta, neighbours=neighbours))
    plan = plan_or_none(estimator, n_features=n_features)
    if plan is not None and plan.affordable:
        charge_of(estimator, n_features, with_groups)


@pytest.mark.parametrize("n_features", [2, 40])
def test_bins_by_name_are_planned_as_they_are(n_features):
    """A dict was planned as two bins: without the delta, and with less of the pure eps."""
    names = [f"x{i}" for i in range(n_features)]
    X = pd.DataFrame(np.arange(3.0 * n_features).reshape(3, -1), columns=names)
    estimator = DPKBinsDiscretizer(dict.fromkeys(names, 64), eps=1.0, delta=1e-6)
    with_ledger = estimator.set_params(ledger=PrivacyLedger())
    plan = plan_search(with_ledger, n_features=n_features)
    charged = with_ledger.fit(X).privacy_
    assert covers(plan.total, charged)
    assert charged.delta == 1e-6 and charged.pure_eps > 1.4
    assert plan.total.pure_eps == charged.pure_eps


@pytest.mark.parametrize("groups", [None, [0, 1, 1]])
def test_the_plan_of_auto_covers_fits_with_groups_and_without(groups):
    X = np.arange(6.0).reshape(3, 2)
    for n_bins, eps, delta in itertools.product((3, 5, 9, "auto"), (0.5, 8.0, 1e3), (0.0, 1e-6)):
        estimator = DPKBinsDiscretizer(n_bins, eps=eps, delta=delta, mechanism="auto")
        plan = plan_search(estimator, n_features=2)
        assert covers(plan.total, estimator.fit(X, groups=groups).privacy_)


def test_a_known_plan_is_exact():
    """If everything is known, the plan equals the charge, and is not only a bound."""
    cases = [
        (DPKBinsDiscretizer([4, 9, 64], eps=1.0, delta=1e-6), 3),
        (DPKBinsDiscretizer({"a": 4, "c": 64}, feature_weights={"b": 3.0}, eps=1.0), 4),
        (DPKBinsDiscretizer({"a": 4}, eps=None, rho=0.3), 2),
        (DPQuantileTransformer(7, eps=1.0, feature_weights={"b": 3.0}, delta=1e-3), 5),
    ]
    for estimator, n_features in cases:
        planned = plan_search(estimator, n_features=n_features).total
        charged = charge_of(estimator, n_features, with_groups=False)
        for kind in KINDS:
            assert getattr(planned, kind) == getattr(charged, kind)


@pytest.mark.parametrize("n_bins", [2, 64, 1000])
@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_bins_by_name_of_any_number_of_features_are_covered(n_bins, n_features):
    """Few bins cost the most rho; so do those of features without a name, beside many bins."""
    estimator = DPKBinsDiscretizer({"a": n_bins}, eps=1.0)
    charged = charge_of(estimator, n_features, with_groups=False)
    assert covers(plan_search(estimator).total, charged)


def test_many_features_whose_order_is_not_known_are_refused():
    estimator = DPKBinsDiscretizer({"a": 9}, feature_weights=[1.0] * 6)
    with pytest.raises(ValueError, match="all be given by name, or all by position"):
        plan_search(estimator)
    estimator.set_params(feature_weights=[1.0, 2.0, 3.0])
    plan = plan_search(estimator)
    for names in ("abc", "bac", "bca"):
        X = pd.DataFrame(np.arange(9.0).reshape(3, 3), columns=list(names))
        assert covers(plan.total, estimator.fit(X).privacy_)


def test_targets_may_be_several():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=(30, 3))
    transformer = DPQuantileTransformer(2, eps=3000.0)
    model = TransformedTargetRegressor(LinearRegression(), transformer=transformer)
    plan = plan_search(model)
    fitted = model.fit(X, y)
    assert covers(plan.total, fitted.transformer_.privacy_)


@pytest.mark.parametrize(
    "options", [{"delta": 1e-6}, {"mechanism": "auto"}], ids=["delta", "mechanism"]
)
def test_a_range_of_eps_that_decides_more_than_the_noise_needs_a_seed(options):
    model = make_pipeline(DPKBinsDiscretizer(**options), LinearRegression())
    search = RandomizedSearchCV(model, {"dpkbinsdiscretizer__eps": uniform(0.1, 10)})
    with pytest.raises(ValueError, match="random_state of RandomizedSearchCV must be an int"):
        plan_search(search, n_features=2)
    search.set_params(random_state=0)
    assert plan_search(search, n_features=2).n_fits == 51


@pytest.mark.parametrize("neighbours", ["rows", "people"])
def test_a_refusal_says_for_whom_it_was_asked(neighbours):
    X, groups = np.arange(30.0)[:, None], [*range(15)] * 2
    estimator = DPKBinsDiscretizer(ledger=PrivacyLedger(eps=0.5, neighbours=neighbours))
    with pytest.raises(BudgetExceededError) as caught:
        estimator.fit(X, groups=groups if neighbours == "people" else None)
    assert caught.value.asked.neighbours is Neighbours(neighbours)


@pytest.mark.parametrize("mechanism", ["auto", "agg_tree"])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1])
@pytest.mark.parametrize("n_quantiles", [3, 50, "auto"])
def test_counts_over_short_lattices_are_covered(mechanism, delta, n_quantiles):
    """A finite pure eps was planned where the noise is Gaussian, and a rho 1e-5 too low."""
    for eps, decimals, bounds in itertools.product((0.03, 0.5, 2.0), (0, 1), ((0, 1), (0, 20))):
        estimator = DPQuantileTransformer(
            n_quantiles,
            eps=eps,
            delta=delta,
            mechanism=mechanism,
            decimals=decimals,
            bounds=bounds,
        )
        plan = plan_or_none(estimator, n_features=2)
        if plan is not None:
            assert covers(plan.total, charge_of(estimator, 2, with_groups=False))
