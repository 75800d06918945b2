"""What a loss says of itself, what is inside an estimator, and the statement about it."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_selection import VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    StandardScaler,
)

from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPQuantileTransformer,
    DPRobustScaler,
    PrivacyLedger,
    PrivacyLoss,
    dp_count,
    dp_quantiles,
    plan_search,
    privacy_of,
    privacy_statement,
)

BUDGETS = {
    "eps": {"eps": 1.0},
    "many draws": {"eps": 1.0, "n_bins": 64},
    "delta": {"eps": 1.0, "delta": 1e-6},
    "rho": {"eps": None, "rho": 0.05},
    "auto": {"n_bins": "auto", "delta": 1e-6},
}
MECHANISMS = ("aq", "agg_tree", "auto")

# Of the Differential Privacy Deployments Registry: the fields of a deployment that are used here.
REGISTRY = {
    "dp_flavor": {
        "name",
        "input_metric",
        "bound_on_input_distance",
        "output_measure",
        "bound_on_output_distance",
        "data_domain",
        "unprotected_quantities",
    },
    "privacy_loss": {
        "privacy_unit",
        "privacy_unit_description",
        "privacy_parameters",
        "privacy_parameters_description",
    },
    "model": {"model_name", "access_type"},
    "accounting": {"composition", "post_processing"},
    "implementation": {"mechanisms"},
}


@pytest.fixture
def X(rng):
    return rng.normal(size=(400, 3))


@pytest.fixture
def y(X):
    return X[:, 0] > 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_dicts_have_the_fields_of_the_registry_and_are_json(X, mechanism, budget):
    estimator = DPKBinsDiscretizer(**{"n_bins": 3} | BUDGETS[budget], mechanism=mechanism)
    loss = estimator.fit(X[:, :1]).privacy_
    entry = json.loads(json.dumps(loss.to_dict(), allow_nan=False))
    own = entry.pop("dpq_sklearn")
    assert {name: set(fields) for name, fields in entry.items()} == REGISTRY
    assert own["mechanism"] == mechanism
    assert own["release_id"] == loss.release_id is not None
    assert own["n_draws"] >= 2
    assert own["time"] is not None


def test_variants_are_told_apart(X):
    losses = [dp_count(X, **budget, return_privacy=True)[1] for budget in ({"eps": 1.0},)]
    losses.append(PrivacyLoss(eps=1.0, delta=1e-6, rho=0.1))
    losses.append(PrivacyLoss(eps=np.inf, delta=0.0, rho=0.1))
    names = [loss.to_dict()["dp_flavor"]["name"] for loss in losses]
    assert names == ["Pure DP", "Approximate DP", "Zero-concentrated DP"]


def test_the_chance_of_a_right_guess():
    assert "73.1%" in str(PrivacyLoss(eps=1.0, delta=0.0, rho=0.125))
    assert "73.6%" in str(PrivacyLoss(eps=1.0, delta=0.02, rho=0.125))
    assert "100.0%" in str(PrivacyLoss(eps=2000.0, delta=0.0, rho=1.0))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_events_are_accepted_by_dp_accounting_and_never_cheaper(X, mechanism, budget):
    rdp = pytest.importorskip("dp_accounting.rdp", reason="dp-accounting is not installed")
    estimator = DPKBinsDiscretizer(**{"n_bins": 3} | BUDGETS[budget], mechanism=mechanism)
    loss = estimator.fit(X).privacy_
    accountant = rdp.RdpAccountant()
    accountant.compose(loss.to_dp_event())
    for delta in (1e-9, 1e-6, 1e-3, 0.1):
        assert accountant.get_epsilon(delta) >= loss.eps_at(delta) * (1 - 1e-9)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_events_are_what_the_cost_is_made_of(X, mechanism, budget):
    estimator = DPKBinsDiscretizer(**{"n_bins": 3} | BUDGETS[budget], mechanism=mechanism)
    loss = estimator.fit(X).privacy_
    rho = sum(event.times * event.rho for event in loss.events)
    assert 0.9 * loss.rho <= rho <= loss.rho * (1 + 1e-12) or budget == "auto"
    assert rho <= loss.rho * (1 + 1e-12)


def test_losses_add_up_for_the_same_neighbours_only(X):
    losses = [dp_quantiles(X[:, 0], 0.5, return_privacy=True)[1] for _ in range(3)]
    total = sum(losses)
    assert total.eps == 3.0
    assert sum(event.times for event in total.events) == 3 * 2  # a draw and a count
    people = PrivacyLoss(eps=1.0, delta=0.0, rho=0.5, neighbours="people")
    assert (people + people).neighbours == "people"
    with pytest.raises(ValueError, match="same neighbours"):
        losses[0] + people
    with pytest.raises(TypeError):
        losses[0] + 1.0


def test_a_loss_survives_a_pickle_with_its_events(X):
    loss = DPKBinsDiscretizer(delta=1e-6).fit(X).privacy_
    again = pickle.loads(pickle.dumps(loss))
    assert again.events == loss.events
    assert again.to_dict() == loss.to_dict()
    assert b"accounting.events" not in pickle.dumps(loss)


def test_a_loss_names_its_ledger_and_what_that_counts(X, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db", eps=5, delta=0)
    estimator = DPKBinsDiscretizer(delta=1e-6, eps=0.5, ledger=PrivacyLedger(eps=9, delta=1e-9))
    assert "counts eps=" in str(estimator.fit(X).privacy_)
    loss = DPKBinsDiscretizer(ledger=ledger).fit(X).privacy_
    assert "ledger.db" in str(loss)
    assert loss.to_dict()["dpq_sklearn"]["ledger"] is not None


DO_NOT_LEARN = {
    "function": FunctionTransformer(np.cbrt),
    "constant": SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True),
    "rows one by one": Normalizer(),
    "polynomials": PolynomialFeatures(2, include_bias=False),
    "selected columns": ColumnTransformer([("keep", "passthrough", [0, 2])]),
    "a private one": DPQuantileTransformer(7),
    "all of these": make_pipeline(FunctionTransformer(np.cbrt), DPQuantileTransformer(7)),
}
LEARN = {
    "minimum and maximum": MinMaxScaler(),
    "mean": StandardScaler(),
    "imputed mean": SimpleImputer(),
    "imputed constant with an indicator": SimpleImputer(strategy="constant", add_indicator=True),
    "neighbours": KNNImputer(),
    "components": PCA(2),
    "selected by variance": VarianceThreshold(),
    "one of several columns": make_column_transformer((MinMaxScaler(), [0]), remainder="drop"),
    "in a union": FeatureUnion([("a", FunctionTransformer()), ("b", PCA(1))]),
    "frozen": FrozenEstimator(StandardScaler().fit(np.eye(3))),
}


@pytest.mark.parametrize("name", DO_NOT_LEARN)
def test_steps_that_do_not_learn_leave_the_promise(X, name):
    privacy = privacy_of(make_pipeline(DO_NOT_LEARN[name], DPKBinsDiscretizer(3)).fit(X))
    assert privacy.holds
    assert "NOT hold" not in repr(privacy)


@pytest.mark.parametrize("name", LEARN)
def test_steps_that_learn_void_the_promise_of_what_follows(X, name):
    pipeline = make_pipeline(LEARN[name], DPKBinsDiscretizer(3)).fit(X)
    privacy = privacy_of(pipeline)
    assert list(privacy.voided) == ["dpkbinsdiscretizer"]
    assert not privacy.holds
    assert "NOT hold" in repr(privacy)
    for text in (privacy_statement(pipeline), privacy_statement(pipeline, format="html")):
        assert "NOT hold" in text
    plan = plan_search(make_pipeline(LEARN[name], DPKBinsDiscretizer(3)))
    assert "NOT hold" in repr(plan)
    search = GridSearchCV(make_pipeline(LEARN[name], DPKBinsDiscretizer(3)), {}, cv=2)
    assert plan_search(search).voids[0].startswith("The guarantee of 'best_estimator_ > dpk")
    plain = make_pipeline(DPKBinsDiscretizer(3, encode="onehot-dense"), LEARN[name]).fit(X)
    assert plan_search(plain).voids == ()
    assert privacy_of(plain).holds


def test_parts_of_composites_add_up(X, y):
    columns = ColumnTransformer(
        [
            ("bins", DPKBinsDiscretizer(3, eps=0.5), [0]),
            ("ranks", make_pipeline(PCA(1), DPQuantileTransformer(7, eps=0.25)), [1, 2]),
        ]
    )
    privacy = privacy_of(make_pipeline(columns, LogisticRegression()).fit(X, y))
    assert privacy.total.eps == 0.75
    assert {name: loss.eps for name, loss in privacy.parts.items()} == {
        "columntransformer > bins": 0.5,
        "columntransformer > ranks > dpquantiletransformer": 0.25,
    }
    assert list(privacy.voided) == ["columntransformer > ranks > dpquantiletransformer"]
    # The Pipelines and the ColumnTransformer learn in their steps only.
    assert privacy.not_private == ("columntransformer > ranks > pca", "logisticregression")
    json.dumps(privacy.to_dict(), allow_nan=False)


def test_a_search_counts_its_candidates(X, y):
    pipeline = make_pipeline(DPKBinsDiscretizer(3), LogisticRegression())
    search = GridSearchCV(pipeline, {"dpkbinsdiscretizer__eps": [0.1, 0.5]}, cv=3)
    privacy = privacy_of(search.fit(X, y))
    refitted = search.best_params_["dpkbinsdiscretizer__eps"]
    assert privacy.total.eps == pytest.approx(3 * 0.6 + refitted)
    assert privacy.total.eps <= plan_search(search).total.eps * (1 + 1e-12)


def test_unknown_composites_are_looked_into(X, y):
    pipeline = make_pipeline(DPKBinsDiscretizer(3, eps=0.5), LogisticRegression())
    bagging = BaggingClassifier(pipeline, n_estimators=4, random_state=0).fit(X, y)
    assert privacy_of(bagging).total.eps == 2.0


def test_a_table_vectorizer_fits_every_column_on_its_own(X):
    skrub = pytest.importorskip("skrub", reason="skrub is not installed")
    vectorizer = skrub.TableVectorizer(numeric=DPKBinsDiscretizer(3, encode="onehot-dense"))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert privacy_of(vectorizer.fit(frame)).total.eps == 3.0


def test_a_frozen_private_transformer_counts_once(X, y):
    fitted = DPKBinsDiscretizer(3).fit(X)
    pipeline = make_pipeline(FrozenEstimator(fitted), LogisticRegression()).fit(X, y)
    assert privacy_of(pipeline).total.eps == 1.0
    assert privacy_of(pipeline).holds


@pytest.mark.parametrize("thing", [3, None, DPKBinsDiscretizer, "a pipeline"])
def test_privacy_of_takes_estimators_only(thing):
    with pytest.raises(ValueError, match="must be a fitted estimator"):
        privacy_of(thing)


def test_nothing_private_inside_is_said(X):
    with pytest.raises(ValueError, match="no private transformer"):
        privacy_of(StandardScaler().fit(X))


@pytest.mark.parametrize(
    "estimator", [DPKBinsDiscretizer(3), DPQuantileTransformer(31), DPRobustScaler()]
)
def test_a_statement_has_the_numbers_and_the_limits(X, estimator):
    text = privacy_statement(make_pipeline(estimator).fit(X))
    for words in ("73.1%", "does not cover", "x0", "eps", "scikit-learn", "noisy count"):
        assert words in text


def test_names_of_columns_are_escaped(X):
    evil = "<script>alert(1)</script>|*x*"
    frame = pd.DataFrame({evil: X[:, 0]})
    fitted = DPKBinsDiscretizer(3).fit(frame)
    page = privacy_statement(fitted, format="html")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in privacy_statement(fitted)
    assert "<script>" not in fitted.privacy_._repr_html_()
    voided = make_pipeline(MinMaxScaler(), DPKBinsDiscretizer(3)).fit(frame)
    assert "<script>" not in privacy_of(voided)._repr_html_()


def test_a_statement_about_a_ledger(X):
    ledger = PrivacyLedger(eps=3)
    DPKBinsDiscretizer(3, ledger=ledger).fit(X)
    ledger.spend(eps=0.5, what="a <b>histogram</b>", columns=["income"])
    text = privacy_statement(ledger)
    for words in ("eps: 3", "eps=1.5 still fits", "DPKBinsDiscretizer.fit", "income"):
        assert words in text
    assert "<b>" not in privacy_statement(ledger, format="html")


def test_a_seed_is_told(X):
    assert "A seed was used" in privacy_statement(DPKBinsDiscretizer(3, random_state=0).fit(X))
    assert "A seed was used" not in privacy_statement(DPKBinsDiscretizer(3).fit(X))


def test_the_format_is_checked(X):
    with pytest.raises(ValueError, match=r"format must be one of .* got 'pdf'"):
        privacy_statement(DPKBinsDiscretizer(3).fit(X), format="pdf")


def test_control_characters_are_shown_and_not_sent_to_a_terminal(X):
    frame = pd.DataFrame({"\x1b[31mred\u202e": X[:, 0]})
    fitted = DPKBinsDiscretizer(3).fit(frame)
    for text in (privacy_statement(fitted), privacy_statement(fitted, format="html")):
        assert "\x1b" not in text and "\u202e" not in text
        assert "red" in text


@pytest.mark.parametrize(
    "estimator", [DPKBinsDiscretizer(10**7), DPQuantileTransformer(10**6)], ids=["bins", "ranks"]
)
def test_too_many_quantiles_are_refused_before_payment(X, estimator):
    ledger = PrivacyLedger()
    with pytest.raises(
        ValueError, match=r"n_bins must be at most 10,000|in the range \[2, 10000\]"
    ):
        estimator.set_params(ledger=ledger).fit(X)
    assert ledger.records() == []


@pytest.mark.parametrize("seed", [None, 0])
def test_seeds_in_an_ensemble_are_stated(seed, X, y):
    pipeline = make_pipeline(DPKBinsDiscretizer(3, random_state=seed), LogisticRegression())
    bagging = BaggingClassifier(pipeline, n_estimators=2, random_state=0).fit(X, y)
    assert privacy_of(bagging).total.os_randomness == (seed is None)
    assert plan_search(bagging).total.os_randomness == (seed is None)
    assert ("A seed was used" in privacy_statement(bagging)) == (seed is not None)
