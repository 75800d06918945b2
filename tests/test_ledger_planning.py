"""Plans are right: what a search is forecast to cost is what the ledger holds after it."""

import json
import math
import os
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from scipy.stats import expon, loguniform, poisson, randint, rv_discrete, uniform
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneOut,
    RandomizedSearchCV,
    RepeatedKFold,
    cross_validate,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

from dpq_sklearn.accounting.losses import PrivacyLoss
from dpq_sklearn.composites.rules import CACHED
from dpq_sklearn.forecast.search import DRAWN, REFITTED, plan_search
from dpq_sklearn.ledger.access import BudgetExceededError, covers
from dpq_sklearn.ledger.contents import LedgerError, Row
from dpq_sklearn.ledger.ledger import PrivacyLedger, charge, opened
from tests.marks import slow


class Binner(TransformerMixin, BaseEstimator):
    """A minimal private transformer for plans and ledgers."""

    def __init__(self, eps=0.25, ledger=None):
        self.eps = eps
        self.ledger = ledger

    def _planned_loss(self, n_features=None):
        return PrivacyLoss(self.eps, 0.0, self.eps**2 / (8 * (n_features or 1)))

    def fit(self, X, y=None):
        loss = self._planned_loss(n_features=np.shape(X)[1])
        charge(self.ledger, loss, what="Binner.fit", columns=np.shape(X)[1])
        self.n_features_in_ = np.shape(X)[1]
        return self

    def transform(self, X):
        return np.sign(X)


@pytest.fixture
def data(rng):
    X = rng.normal(size=(60, 3))
    return X, (X[:, 0] + rng.normal(size=60) > 0).astype(int)


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(tmp_path / "budget.sqlite", eps=1000.0)


def classifier(**parameters):
    return make_pipeline(Binner(**parameters), LogisticRegression())


# Counting


@pytest.mark.parametrize(
    ("estimator", "n_fits"),
    [
        (Binner(), 1),
        (classifier(), 1),
        (LogisticRegression(), 0),
        (make_pipeline(StandardScaler(), LogisticRegression()), 0),
        (make_pipeline("passthrough", None, Binner()), 1),
        (make_pipeline(Binner(), Binner(), LogisticRegression()), 2),
        (make_pipeline(FrozenEstimator(Binner()), LogisticRegression()), 0),
        (FrozenEstimator(classifier()), 0),
        (make_union(Binner(), Binner(), StandardScaler()), 2),
        (FeatureUnion([("a", Binner()), ("b", "drop"), ("c", "passthrough")]), 1),
        (ColumnTransformer([("a", Binner(), [0, 1]), ("b", "drop", [2])], remainder=Binner()), 2),
        (ColumnTransformer([("a", Binner(), []), ("b", Binner(), [False, True, False])]), 1),
        (TransformedTargetRegressor(LinearRegression(), transformer=Binner()), 1),
        (make_pipeline(make_union(make_pipeline(Binner()), Binner()), LogisticRegression()), 2),
        (BaggingClassifier(make_pipeline(FrozenEstimator(Binner()), LogisticRegression())), 0),
    ],
)
def test_one_fit_counts_every_private_part_once(estimator, n_fits):
    plan = plan_search(estimator)
    assert plan.n_fits == n_fits
    assert plan.total.eps == 0.25 * n_fits
    assert plan.reasons == ()


@pytest.mark.parametrize("cv", [5, KFold(5), RepeatedKFold(n_splits=5, n_repeats=1), [(0, 1)] * 5])
def test_cross_validation_fits_once_a_fold(cv):
    assert plan_search(classifier(), cv=cv).n_fits == 5


def test_26_fits_of_a_search_over_5_values_with_5_folds():
    plan = plan_search(GridSearchCV(classifier(), {"binner__eps": [1, 2, 3, 4, 5]}, cv=5))
    assert plan.n_fits == 26
    assert plan.total.eps == 5 * 15 + 5
    assert plan.reasons == (REFITTED,)
    assert "at most 26 private fits that cost at most eps=80" in str(plan)
    assert "most expensive" in str(plan)


def test_default_folds_are_five_and_the_refit_may_be_off():
    grid = {"logisticregression__C": [0.1, 1.0]}
    assert plan_search(GridSearchCV(classifier(), grid)).n_fits == 11
    assert plan_search(GridSearchCV(classifier(), grid, refit=False)).n_fits == 10
    assert plan_search(GridSearchCV(classifier(), grid, refit="accuracy", cv=3)).n_fits == 7
    assert "11 private fits that cost eps=2.75" in str(
        plan_search(GridSearchCV(classifier(), grid))
    )


def test_search_within_a_cross_validation_and_within_a_pipeline():
    search = GridSearchCV(classifier(), {"logisticregression__C": [0.1, 1.0]}, cv=2)
    assert plan_search(search, cv=3).n_fits == 3 * 5
    assert plan_search(make_pipeline(Binner(), search)).n_fits == 1 + 5
    outer = GridSearchCV(make_pipeline(Binner(), search), {"binner__eps": [0.5, 1.0]}, cv=2)
    assert plan_search(outer).n_fits == 5 * 6


def test_searching_after_a_frozen_transformer_costs_nothing(data, ledger):
    X, y = data
    frozen = FrozenEstimator(Binner(ledger=ledger).fit(X))
    pipeline = make_pipeline(frozen, LogisticRegression())
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0, 10.0]})
    assert plan_search(search).n_fits == 0
    search.fit(X, y)
    assert len(ledger.records()) == 1


def test_candidates_may_replace_a_step():
    grid = {"binner": ["passthrough", Binner(0.5), FrozenEstimator(Binner(7.0)), Binner(1.0)]}
    plan = plan_search(GridSearchCV(classifier(), grid, cv=2))
    assert plan.n_fits == 2 * 2 + 1
    assert (plan.total.eps, plan.reasons) == (4.0, (REFITTED,))


def test_number_of_features_reaches_the_transformer():
    assert plan_search(classifier(), n_features=4).total.rho == 0.25**2 / 32
    columns = ColumnTransformer([("a", Binner(), [0, 2]), ("b", Binner(), "x")])
    assert plan_search(columns, n_features=4).total.rho == 0.25**2 / 16 + 0.25**2 / 8
    unknown = ColumnTransformer([("a", Binner(), slice(0, 2)), ("b", Binner(), lambda X: [0])])
    assert plan_search(unknown, n_features=4).total.rho == 0.25**2 / 4


def test_number_of_features_is_known_as_long_as_steps_keep_it():
    kept = make_pipeline(StandardScaler(), "passthrough", Binner())
    assert plan_search(kept, n_features=4).total.rho == 0.25**2 / 32
    lost = make_pipeline(PCA(2), Binner())
    assert plan_search(lost, n_features=4).total.rho == 0.25**2 / 8


def test_cached_pipeline_is_an_upper_bound(tmp_path):
    pipeline = Pipeline([("bin", Binner()), ("fit", LogisticRegression())], memory=str(tmp_path))
    plan = plan_search(GridSearchCV(pipeline, {"fit__C": [0.1, 1.0]}))
    assert (plan.n_fits, plan.total.eps, plan.reasons) == (11, 2.75, (CACHED,))
    assert repr(plan).startswith("at most 11 private fits that cost at most eps=2.75")


# Random searches


def test_random_search_with_a_seed_is_forecast_exactly(data, ledger):
    search = RandomizedSearchCV(
        classifier(ledger=ledger),
        {"binner__eps": uniform(0.1, 1.0), "logisticregression__C": loguniform(0.1, 10)},
        n_iter=4,
        cv=3,
        random_state=7,
        refit=False,
    )
    plan = plan_search(search)
    search.fit(*data)
    assert plan.n_fits == len(ledger.records()) == 12
    assert (ledger.spent().eps, plan.reasons) == (plan.total.eps, ())


def test_random_search_with_a_generator_leaves_it_as_it_was():
    generator = np.random.RandomState(3)
    distributions = {"binner__eps": uniform(0.1, 1.0)}
    search = RandomizedSearchCV(classifier(), distributions, n_iter=3, random_state=generator)
    assert plan_search(search) == plan_search(search)


def test_random_search_without_a_seed_is_planned_exactly_if_its_draws_do_not_change_the_cost():
    downstream = {"logisticregression__C": loguniform(0.1, 10)}
    plan = plan_search(RandomizedSearchCV(classifier(), downstream, n_iter=4))
    assert (plan.n_fits, plan.total.eps, plan.reasons) == (21, 21 * 0.25, ())
    few = {"logisticregression__C": [0.1, 1.0]}
    assert plan_search(RandomizedSearchCV(classifier(), few, n_iter=4)).n_fits == 11


@pytest.mark.parametrize(
    ("distributions", "dearest"),
    [
        ({"binner__eps": [0.5, 2.0, 1.0]}, 2.0),
        ({"binner__eps": uniform(0.0, 1.5)}, 1.5),
        ({"binner__eps": loguniform(0.5, 3.0), "logisticregression__C": uniform(1, 2)}, 3.0),
        ({"binner__eps": randint(1, 5)}, 4),
        ({"binner__eps": rv_discrete(values=([1, 3], [0.5, 0.5]))}, 3),
        ({"binner": ["passthrough", Binner(0.5), Binner(2.5)]}, 2.5),
        ({"binner": [Binner(0.5), Binner(0.75)], "binner__eps": uniform(0, 2)}, 2.0),
        ([{"logisticregression__C": [1.0, 2.0]}, {"logisticregression": [Binner(0.5)] * 2}], 0.75),
    ],
)
def test_random_search_without_a_seed_is_bounded_by_its_most_expensive_candidate(
    distributions, dearest
):
    search = RandomizedSearchCV(classifier(), distributions, n_iter=3, cv=2)
    plan = plan_search(search)
    assert plan.total.eps == pytest.approx((2 * 3 + 1) * dearest)
    assert plan.reasons == (DRAWN,) and "without an int as random_state" in str(plan)
    for seed in range(20):
        drawn = plan_search(clone(search).set_params(random_state=seed))
        assert drawn.n_fits <= plan.n_fits
        assert drawn.total.eps <= plan.total.eps and DRAWN not in drawn.reasons


def test_parameters_of_a_step_that_may_become_private_count():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    distributions = {"standardscaler": [Binner()], "standardscaler__eps": uniform(1.0, 2.0)}
    plan = plan_search(RandomizedSearchCV(pipeline, distributions, n_iter=1, refit=False))
    assert plan.total.eps == pytest.approx(5 * 3.0)


class Draws:
    """A distribution that says nothing about its values."""

    def rvs(self, random_state=None):
        return 1.0


@pytest.mark.parametrize(
    "distributions",
    [
        {"binner__eps": expon()},
        {"binner__eps": poisson(2)},
        {"binner__eps": Draws()},
        {"binner__ledger": uniform(0, 1)},
        {"binner__ledger": randint(0, 10**9)},
    ],
)
def test_random_search_without_a_seed_is_refused_if_no_bound_is_known(distributions):
    search = RandomizedSearchCV(classifier(), distributions, n_iter=1)
    with pytest.raises(ValueError, match=r"random_state of RandomizedSearchCV must .* 'binner__"):
        plan_search(search)


# What cannot be planned


def test_what_refits_an_unknown_number_of_times_is_refused():
    with pytest.raises(ValueError, match="how often OneVsRestClassifier fits"):
        plan_search(OneVsRestClassifier(classifier()))
    with pytest.raises(ValueError, match="how often OneVsRestClassifier fits"):
        plan_search(make_pipeline(StandardScaler(), OneVsRestClassifier(classifier())), cv=5)


@pytest.mark.parametrize("cv", [LeaveOneOut(), iter([(0, 1)]), "five", 1])
def test_folds_that_are_not_known_without_data_are_refused(cv):
    with pytest.raises(ValueError, match="cv must"):
        plan_search(classifier(), cv=cv)
    with pytest.raises(ValueError, match="cv must"):
        plan_search(GridSearchCV(classifier(), {"binner__eps": [1]}, cv=cv))


@pytest.mark.parametrize("thing", [None, 5, "pipeline", Binner, [Binner()]])
def test_what_is_no_estimator_is_refused(thing):
    with pytest.raises(ValueError, match="plan_search takes"):
        plan_search(thing)


def test_messages_show_no_arrays():
    with pytest.raises(ValueError, match="got ndarray of shape"):
        plan_search(np.array([123.456, 789.012]))


def test_planning_neither_fits_nor_spends_nor_changes_the_search(ledger):
    search = GridSearchCV(classifier(ledger=ledger), {"binner__eps": [0.5, 1.0]})
    before = repr(search)
    plan_search(search, cv=3)
    assert repr(search) == before
    assert ledger.records() == []


# Can the ledger pay?


def test_plan_says_whether_the_ledger_can_pay(ledger):
    search = GridSearchCV(classifier(ledger=ledger), {"binner__eps": [0.5, 1.0]}, cv=2)
    for afforded, left in ((0.0, 1000.0), (996.0, 4.0), (0.5, 3.5)):
        if afforded:
            ledger.spend(afforded, what="something else")
        for plan in (
            plan_search(search),
            plan_search(search.set_params(estimator__binner__ledger=ledger.path)),
        ):
            assert plan.affordable == ledger.check(plan) == ledger.check(search) == (left >= 4.0)
    assert f"ledger {ledger.path!r} cannot pay" in str(plan).splitlines()[-1]
    assert "eps=3.5 is left" in str(plan)
    assert len(ledger.records()) == 2


def test_plan_without_a_ledger_is_affordable():
    plan = plan_search(classifier())
    assert plan.affordable and plan.refusals == () and len(str(plan).splitlines()) == 1


def test_each_ledger_pays_for_its_own_part_of_a_plan():
    rich, poor = PrivacyLedger(eps=5.0), PrivacyLedger(eps=1.0)
    both = make_pipeline(Binner(0.5, rich), Binner(0.25, poor.with_note("a")), Binner(0.25, poor))
    assert plan_search(both).affordable
    plan = plan_search(both, cv=3)
    (refusal,) = plan.refusals
    assert "eps=1 is left" in refusal
    refit = GridSearchCV(both, {"binner-1__eps": [0.5, 3.0]}, cv=2)
    assert len(plan_search(refit).refusals) == 2


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symbolic links")
def test_a_ledger_and_a_link_to_it_are_planned_as_one_budget(tmp_path):
    PrivacyLedger(tmp_path / "budget.sqlite", eps=1.0)
    os.symlink(tmp_path / "budget.sqlite", tmp_path / "link.sqlite")
    ledgers = [str(tmp_path / name) for name in ("budget.sqlite", "link.sqlite")]
    plan = plan_search(make_union(*(Binner(0.75, ledger) for ledger in ledgers)))
    assert not plan.affordable
    assert len(plan.refusals) == 1
    assert PrivacyLedger(ledgers[0]) == PrivacyLedger(ledgers[1])


def test_check_takes_searches_and_plans_for_rows_and_for_people():
    people = PrivacyLedger(eps=2.0, neighbours="people")
    search = GridSearchCV(classifier(), {"binner__eps": [0.25]}, cv=5)
    assert people.check(search) and people.check(plan_search(search))
    assert not people.check(plan_search(search, cv=2))


def test_plan_for_a_ledger_that_cannot_be_used_raises(ledger):
    os.unlink(ledger.path)
    with pytest.raises(LedgerError, match="is missing"):
        plan_search(classifier(ledger=ledger))
    with pytest.raises(ValueError, match="absolute path"):
        plan_search(classifier(ledger="budget.sqlite"))


@pytest.mark.parametrize("cap", [0.75, 0.2])
def test_refused_candidates_of_one_price_share_one_short_traceback(data, cap):
    """scikit-learn prints a traceback for each different text, if some fits fail or all do."""
    ledger = PrivacyLedger(eps=cap)
    search = GridSearchCV(
        classifier(ledger=ledger), {"binner__eps": [0.25, 0.75, 1.5]}, cv=2, refit=False
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with (
            pytest.raises(ValueError, match="All the 6 fits failed")
            if cap < 0.25
            else nullcontext() as error
        ):
            search.fit(*data)
    text = str(error.value) if cap < 0.25 else str(caught[0].message)
    n_prices = 3 if cap < 0.25 else 2
    assert text.count("Traceback (most recent call last)") == n_prices
    assert text.count("cannot pay for Binner.fit, which would cost eps=1.5, delta=0") == 1
    assert "ledger/file.py" not in text and "ledger/store.py" not in text


# Reservations


def search_of(ledger, **options):
    return GridSearchCV(
        classifier(ledger=ledger), {"binner__eps": [0.25, 0.5]}, cv=2, **options
    )  # at most 0.25 + 0.25 + 0.5 + 0.5 + 0.5


def test_a_reservation_charges_a_whole_search_before_it_starts(data):
    ledger = PrivacyLedger(eps=2.0)
    search = search_of(ledger)
    with ledger.reserve(search) as reservation:
        assert ledger.spent().eps == reservation.privacy.eps == 2.0
        search.fit(*data)
    assert ledger.spent().eps == 2.0
    first, *fits = ledger.records()
    assert first.what == "a reservation for 5 private fits" and first.eps == 2.0
    assert [record.what for record in fits] == ["Binner.fit"] * 5
    assert [record.eps for record in fits] == [0.0] * 5
    assert fits[0].detail == "eps=0.25, delta=0, rho=0.00260417, paid by a reservation"
    with pytest.raises(BudgetExceededError):
        Binner(0.25, ledger).fit(data[0])


def test_a_reservation_that_is_too_expensive_spends_nothing(data):
    ledger = PrivacyLedger(eps=1.75)
    for plan in (search_of(ledger), plan_search(search_of(ledger), n_features=3)):
        with pytest.raises(BudgetExceededError, match=r"would cost eps=2.*eps=1\.75 is left"):
            ledger.reserve(plan)
    assert ledger.records() == []


def test_a_fit_beyond_a_reservation_is_charged_or_refused_as_usual(data):
    ledger = PrivacyLedger(eps=1.0)
    with ledger.reserve(Binner(0.5, ledger)):
        Binner(0.25, ledger).fit(data[0])
        Binner(0.5, ledger).fit(data[0])  # 0.25 is left of the reservation, which is not enough
        assert ledger.spent().eps == 1.0
        with pytest.raises(BudgetExceededError):
            Binner(0.375, ledger).fit(data[0])
        Binner(0.25, ledger).fit(data[0])
    assert [record.eps for record in ledger.records()] == [0.5, 0.0, 0.5, 0.0]


def test_a_reservation_ends_with_its_block_and_may_be_entered_again(data):
    ledger = PrivacyLedger(eps=2.0)
    reservation = ledger.reserve(make_union(Binner(0.5, ledger), Binner(0.5, ledger)))
    with pytest.raises(ZeroDivisionError), reservation:
        Binner(0.5, ledger).fit(data[0])
        1 / 0
    Binner(0.25, ledger).fit(data[0])
    with reservation:
        Binner(0.5, ledger).fit(data[0])
    assert [record.eps for record in ledger.records()] == [1.0, 0.0, 0.25, 0.0]


def test_a_reservation_is_for_one_ledger_and_clones_of_it_do_not_keep_it(data):
    ledger, other = PrivacyLedger(eps=2.0), PrivacyLedger(eps=2.0)
    with ledger.reserve(make_union(Binner(0.5, ledger), Binner(0.5, ledger))):
        Binner(0.5, other).fit(data[0])
        copied = clone(Binner(0.5, ledger)).fit(data[0])
    clone(copied).fit(data[0])
    assert (ledger.spent().eps, other.spent().eps) == (1.5, 0.5)


def test_a_reservation_inside_another_one_is_charged_to_the_ledger(data):
    ledger = PrivacyLedger(eps=2.0)
    with ledger.reserve(Binner(0.5, ledger)):
        with ledger.reserve(Binner(0.25, ledger)):
            Binner(0.25, ledger).fit(data[0])
        Binner(0.5, ledger).fit(data[0])
    assert [record.eps for record in ledger.records()] == [0.5, 0.25, 0.0, 0.0]


@pytest.mark.parametrize("plan", [0.5, "search", None, LogisticRegression()])
def test_a_reservation_without_a_private_fit_is_refused(plan):
    with pytest.raises(ValueError, match="plan must be a SearchPlan or an estimator with private"):
        PrivacyLedger(eps=1.0).reserve(plan)


@pytest.mark.slow
@pytest.mark.parametrize("as_path", [False, True], ids=["object", "path"])
def test_worker_processes_use_the_reservation_of_a_ledger_object(data, tmp_path, as_path):
    ledger = PrivacyLedger(tmp_path / "small.sqlite", eps=100.0)
    search = search_of(ledger.path if as_path else ledger, n_jobs=2, error_score="raise")
    with ledger.reserve(search):
        search.fit(*data)
    # Workers that know the path alone charge four fits once more; the refit is in this process.
    assert ledger.spent().eps == (2.0 + 1.5 if as_path else 2.0)
    assert len(ledger.records()) == 6


def test_reserved_costs_that_cannot_be_read_use_up_the_reservation(data):
    ledger = PrivacyLedger(eps=9.0)
    reservation = ledger.reserve(make_union(Binner(0.5, ledger), Binner(0.5, ledger)))
    for cost in (None, ["1"], ["a"] * 4, ["-1"] * 4, ["nan"] * 4):
        facts = {"release_id": "r", "reservation": reservation.privacy.release_id, "cost": cost}
        rows = [*opened(ledger).contents().rows, Row(2, 0.0, 0.0, 0.0, 0.0, 1, json.dumps(facts))]
        assert not covers(rows, reservation.privacy.release_id, PrivacyLoss(0.1, 0.0, 0.001))
    assert covers(rows[:-1], reservation.privacy.release_id, PrivacyLoss(0.1, 0.0, 0.001))
    assert not covers(rows[:-1], "another", PrivacyLoss(0.1, 0.0, 0.001))


# The ledger keeps count where copies are made


@pytest.mark.slow
@pytest.mark.parametrize("as_path", [True, False], ids=["path", "object"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_every_fit_of_a_search_is_recorded_with_its_own_eps(data, ledger, n_jobs, as_path):
    estimator = classifier(ledger=ledger.path if as_path else ledger)
    epsilons = [0.5, 1.0, 1.5, 2.0, 2.5]
    search = GridSearchCV(estimator, {"binner__eps": epsilons}, cv=5, n_jobs=n_jobs)
    plan = plan_search(search, n_features=3)
    search.fit(*data)
    best = search.best_params_["binner__eps"]
    recorded = sorted(record.eps for record in ledger.records())
    assert recorded == sorted(epsilons * 5 + [best])
    assert len(recorded) == plan.n_fits == 26
    assert plan.reasons == (REFITTED,)
    assert ledger.spent().eps == plan.total.eps - max(epsilons) + best


def test_search_downstream_costs_what_was_forecast(data, ledger):
    search = GridSearchCV(classifier(ledger=ledger), {"logisticregression__C": [0.1, 1.0]})
    plan = plan_search(search, n_features=3)
    assert ledger.check(plan.total)
    search.fit(*data)
    assert plan.reasons == ()
    assert (ledger.spent().eps, ledger.spent().rho) == (plan.total.eps, plan.total.rho)


def test_search_stops_spending_when_the_budget_is_empty(data, tmp_path):
    ledger = PrivacyLedger(tmp_path / "small.sqlite", eps=2.0)
    search = GridSearchCV(classifier(ledger=ledger), {"binner__eps": [0.5]}, error_score="raise")
    assert not ledger.check(plan_search(search).total)
    with pytest.raises(BudgetExceededError):
        search.fit(*data)
    assert ledger.spent().eps == 2.0


@pytest.mark.parametrize("n_jobs", [1, *slow(2)])
def test_refusal_reaches_the_caller_from_worker_processes(data, tmp_path, n_jobs):
    ledger = PrivacyLedger(tmp_path / "small.sqlite", eps=2.0)
    with pytest.raises(BudgetExceededError, match="is left"):
        cross_validate(
            classifier(eps=0.5, ledger=ledger), *data, error_score="raise", n_jobs=n_jobs
        )
    assert ledger.spent().eps == 2.0


def test_clones_charge_the_same_ledger(data, ledger):
    for as_parameter in (ledger, ledger.path):
        estimator = clone(classifier(ledger=as_parameter))
        assert estimator[0].ledger == as_parameter
        estimator.fit(*data)
    assert len(ledger.records()) == 2


def test_cached_pipeline_charges_only_what_it_fits(data, ledger, tmp_path):
    pipeline = Pipeline(
        [("bin", Binner(ledger=ledger)), ("fit", LogisticRegression())],
        memory=str(tmp_path / "cache"),
    )
    search = GridSearchCV(pipeline, {"fit__C": [0.1, 1.0, 10.0]}, cv=3)
    plan = plan_search(search)
    search.fit(*data)
    assert len(ledger.records()) == 4 < plan.n_fits == 10  # one a fold, and one for the refit


def test_infinite_costs_add_up_to_infinity():
    assert plan_search(Binner(eps=math.inf), cv=3).total.eps == math.inf
