"""What composites fit: random compositions of all meta-estimators against the ledger."""

import contextlib
import inspect
import json

import numpy as np
import pytest
from scipy.stats import uniform
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, RANSACRegressor
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
    RandomizedSearchCV,
    ShuffleSplit,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import (
    ClassifierChain,
    MultiOutputClassifier,
    MultiOutputRegressor,
    RegressorChain,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils import all_estimators

from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPQuantileTransformer,
    DPRobustScaler,
    PrivacyLedger,
    PrivacyLoss,
    plan_search,
    privacy_of,
    privacy_statement,
)
from dpq_sklearn.composites.rules import RULES
from dpq_sklearn.ledger.ledger import charge

N_FEATURES = 4
KINDS = ("eps", "delta", "rho", "pure_eps")
COEF = "named_steps.model.coef_"

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(60, N_FEATURES))


@pytest.fixture(scope="module")
def targets(X):
    """By kind: two classes, two classes with missing labels, two outputs, numbers."""
    rng = np.random.default_rng(1)
    classes = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
    return {
        "classes": classes,
        "some labels": np.where(np.arange(60) % 3 == 0, -1, classes),
        "outputs": np.column_stack([classes, X[:, 1] > 0, X[:, 2] > 0.3]).astype(int),
        "numbers": X[:, 0] + rng.normal(size=60),
    }


class Sign(TransformerMixin, BaseEstimator):
    """A minimal and fast private transformer for plans, statements and ledgers."""

    def __init__(self, eps=0.1, random_state=None, ledger=None):
        self.eps = eps
        self.random_state = random_state
        self.ledger = ledger

    def _planned_loss(self, n_features=None):
        return PrivacyLoss(self.eps, 0.0, self.eps**2 / (8 * (n_features or 1)))

    def fit(self, X, y=None):
        self.n_features_in_ = np.shape(X)[1]
        loss = self._planned_loss(self.n_features_in_)
        self.privacy_ = charge(self.ledger, loss, what="Sign.fit", columns=self.n_features_in_)
        return self

    def transform(self, X):
        return np.sign(X) + 0.1 * np.asarray(X)


def private(ledger=None, **options):
    return Sign(**{"eps": 0.1} | options, ledger=ledger)


def classifier(ledger=None, **options):
    return Pipeline([("dp", private(ledger, **options)), ("model", LinearDiscriminantAnalysis())])


def regressor(ledger=None, **options):
    return Pipeline([("dp", private(ledger, **options)), ("model", LinearRegression())])


# For each meta-estimator one that holds a given classifier or regressor, and the kind of its
# target. Of all these the number of fits must be right.
CLASSIFIERS = {
    "voting": lambda e: VotingClassifier([("a", e), ("b", clone(e)), ("c", "drop")]),
    "stacking": lambda e: StackingClassifier([("a", e), ("b", LogisticRegression())], cv=3),
    "stacking, final": lambda e: StackingClassifier(
        [("a", LogisticRegression())], final_estimator=e, cv=2
    ),
    "bagging": lambda e: BaggingClassifier(e, n_estimators=3, random_state=0),
    "bagging, some columns": lambda e: BaggingClassifier(
        e, n_estimators=2, max_features=0.75, bootstrap=False
    ),
    "calibrated": lambda e: CalibratedClassifierCV(e, cv=3),
    "calibrated once": lambda e: CalibratedClassifierCV(e, cv=3, ensemble=False),
    "threshold": FixedThresholdClassifier,
    "tuned threshold": lambda e: TunedThresholdClassifierCV(e, cv=3),
    "tuned threshold, one fold": lambda e: TunedThresholdClassifierCV(e, cv=0.3),
    "tuned threshold, no refit": lambda e: TunedThresholdClassifierCV(
        e, cv=ShuffleSplit(1), refit=False
    ),
    "one against the rest": OneVsRestClassifier,
    "one against one": OneVsOneClassifier,
    "codes": lambda e: OutputCodeClassifier(e, code_size=1.5, random_state=0),
    "grid": lambda e: GridSearchCV(e, {}, cv=3),
    "grid without refit": lambda e: GridSearchCV(e, {}, cv=KFold(2), refit=False),
    "random search": lambda e: RandomizedSearchCV(e, {}, n_iter=1, cv=2, random_state=0),
    "halving": lambda e: HalvingGridSearchCV(e, {}, cv=2, min_resources=30),
    "random halving": lambda e: HalvingRandomSearchCV(e, {}, cv=2, min_resources=30),
    "gradient boosting": lambda e: GradientBoostingClassifier(init=e, n_estimators=2),
    "pipeline": lambda e: make_pipeline(FunctionTransformer(), e),
}
REGRESSORS = {
    "voting": lambda e: VotingRegressor([("a", e), ("b", LinearRegression())]),
    "stacking": lambda e: StackingRegressor([("a", e), ("b", clone(e))], cv=2),
    "bagging": lambda e: BaggingRegressor(e, n_estimators=2),
    "boosting": lambda e: AdaBoostRegressor(e, n_estimators=3, random_state=0),
    "ransac": lambda e: RANSACRegressor(e, min_samples=20, max_trials=4, random_state=0),
    "target": lambda e: TransformedTargetRegressor(e, transformer=StandardScaler()),
    "grid": lambda e: GridSearchCV(e, {}, cv=2),
    "gradient boosting": lambda e: GradientBoostingRegressor(init=e, n_estimators=2),
    "outputs": MultiOutputRegressor,
    "chain": RegressorChain,
    "chain with folds": lambda e: RegressorChain(e, cv=2),
}
OUTPUTS = {
    "outputs": MultiOutputClassifier,
    "chain": ClassifierChain,
    "chain with folds": lambda e: ClassifierChain(e, cv=3, order=[2, 0, 1]),
}
SELECTORS = {
    "elimination": lambda e: RFE(e, importance_getter=COEF, n_features_to_select=2),
    "elimination, all": lambda e: RFE(e, importance_getter=COEF, n_features_to_select=4),
    "elimination, half": lambda e: RFE(e, importance_getter=COEF, step=0.5),
    "elimination, folds": lambda e: RFECV(e, importance_getter=COEF, cv=3),
    "elimination, folds, steps": lambda e: RFECV(
        e, importance_getter=COEF, cv=2, step=2, min_features_to_select=2
    ),
    "model": lambda e: SelectFromModel(e, importance_getter=COEF),
    "forward": lambda e: SequentialFeatureSelector(e, n_features_to_select=2, cv=2),
    "backward": lambda e: SequentialFeatureSelector(
        e, n_features_to_select=3, direction="backward", cv=2
    ),
    "forward, until it is good": lambda e: SequentialFeatureSelector(e, tol=0.01, cv=2),
    "backward, until it is bad": lambda e: SequentialFeatureSelector(
        e, tol=-0.01, direction="backward", cv=2
    ),
    "forward, half": lambda e: SequentialFeatureSelector(e, n_features_to_select=0.5, cv=3),
}
SELF_TRAINING = {
    "self-training": lambda e: SelfTrainingClassifier(e, max_iter=3),
    "self-training, few": lambda e: SelfTrainingClassifier(e, criterion="k_best", k_best=3),
}
CASES = (
    [(f"{name} of a classifier", make, classifier, "classes") for name, make in CLASSIFIERS.items()]
    + [(f"{name} of a regressor", make, regressor, "numbers") for name, make in REGRESSORS.items()]
    + [(name, make, classifier, "outputs") for name, make in OUTPUTS.items()]
    + [(name, make, classifier, "classes") for name, make in SELECTORS.items()]
    + [(name, make, classifier, "some labels") for name, make in SELF_TRAINING.items()]
)
BY_NAME = {name: case for name, *case in CASES}


def target_of(targets, kind, estimator):
    if kind == "numbers" and isinstance(estimator, (MultiOutputRegressor, RegressorChain)):
        return targets["outputs"]
    return targets[kind]


def assert_covers(stated, spent):
    for kind in KINDS:
        assert getattr(stated, kind) >= getattr(spent, kind) * (1 - 1e-12), kind


def assert_right(estimator, ledger, plan):
    """Check that the plan and `privacy_of` agree with the contents of the ledger."""
    spent = ledger.spent()
    n_charged = len(ledger.records())
    privacy = privacy_of(estimator)
    if privacy.unknown:
        assert privacy.total.eps <= spent.eps * (1 + 1e-12)
        assert privacy.n_fits <= n_charged
        assert repr(privacy).startswith("at least")
    else:
        assert_covers(privacy.total, spent)
        assert privacy.n_fits >= n_charged
    if privacy.bound_in_words == "":
        assert privacy.n_fits == n_charged
        assert privacy.total.eps == pytest.approx(spent.eps, rel=1e-12)

    if plan is not None:
        assert_covers(plan.total, spent)
        assert plan.n_fits >= n_charged
        if not plan.reasons:
            assert plan.n_fits == n_charged
            assert plan.total.eps == pytest.approx(spent.eps, rel=1e-12)
    assert f"eps={spent.eps:g}" in repr(privacy)  # the ledger is quoted
    return privacy


def plan_or_none(estimator):
    try:
        return plan_search(estimator, n_features=N_FEATURES)
    except ValueError as error:
        assert "not known how often" in str(error) or "random_state" in str(error)
        return None


@pytest.mark.parametrize("name", BY_NAME)
def test_every_meta_estimator_is_counted(X, targets, name):
    make, inner, kind = BY_NAME[name]
    ledger = PrivacyLedger()
    estimator = make(inner(ledger))
    plan = plan_or_none(estimator)
    estimator.fit(X, target_of(targets, kind, estimator))
    privacy = assert_right(estimator, ledger, plan)
    assert not privacy.unknown
    assert privacy.parts


def test_there_is_a_rule_for_every_meta_estimator_of_scikit_learn():
    words = ("estimator", "estimators", "regressor", "transformers", "transformer_list", "steps")
    found = {
        name
        for name, cls in all_estimators()
        if set(inspect.signature(cls).parameters) & set(words)
    }
    assert found <= set(RULES)
    assert {"GradientBoostingClassifier", "GradientBoostingRegressor"} <= set(RULES)  # init=
    tested = {type(make(classifier())).__name__ for make, _, _ in BY_NAME.values()}
    others = {"AdaBoostClassifier", "ColumnTransformer", "FeatureUnion", "FrozenEstimator"}
    assert set(RULES) - tested <= others | {"IterativeImputer", "Pipeline"}


# Random compositions


def random_private(rng, ledger):
    eps = rng.choice([0.1, 0.25, 0.7])
    return private(ledger, eps=float(eps))


def random_transformer(rng, ledger, depth):
    """A transformer with private and other steps."""
    kinds = ["private", "plain"] if depth == 0 else ["union", "columns", "pipeline", "selector"]
    match rng.choice(kinds):
        case "private":
            return random_private(rng, ledger)
        case "plain":
            options = [StandardScaler(), "passthrough", FunctionTransformer(np.arctan)]
            return options[rng.integers(3)]
        case "union":
            steps = [random_transformer(rng, ledger, depth - 1) for _ in range(2)]
            return FeatureUnion([(f"part{i}", step) for i, step in enumerate(steps)])
        case "columns":
            first = random_transformer(rng, ledger, depth - 1)
            rest = ["drop", "passthrough", random_private(rng, ledger), StandardScaler()]
            selected = [[0], [0, 1], slice(0, 1), lambda X: [0], []][rng.integers(5)]
            return ColumnTransformer([("some", first, selected)], remainder=rest[rng.integers(4)])
        case "pipeline":
            return make_pipeline(*(random_transformer(rng, ledger, depth - 1) for _ in range(2)))
        case _:
            inner = random_classifier(rng, ledger, depth - 1)
            names = list(SELECTORS)
            selector = SELECTORS[names[rng.integers(len(names))]](inner)
            return selector.set_params(estimator=inner, **_importances(selector))


def _importances(selector):
    return {"importance_getter": alike} if hasattr(selector, "importance_getter") else {}


def alike(estimator):
    return np.arange(estimator.n_features_in_) + 1.0


def random_classifier(rng, ledger, depth):
    if depth == 0:
        return make_pipeline(random_private(rng, ledger), GaussianNB())
    if rng.random() < 0.3:
        return make_pipeline(random_transformer(rng, ledger, depth - 1), GaussianNB())

    inner = random_classifier(rng, ledger, depth - 1)
    if rng.random() < 0.3:
        return random_search(rng, inner)
    names = list(CLASSIFIERS)
    return CLASSIFIERS[names[rng.integers(len(names))]](inner)


def random_search(rng, inner):
    """A search over the eps of some private parts."""
    names = [name for name in inner.get_params() if name == "eps" or name.endswith("__eps")]
    names = names[: rng.integers(3)]
    refit = bool(rng.random() < 0.7)
    if rng.random() < 0.5:
        grid = {name: [0.2, 0.3] for name in names}
        return GridSearchCV(inner, grid, cv=2, refit=refit)
    state = [0, None, np.random.RandomState(rng.integers(99))][rng.integers(3)]
    space = {name: [uniform(0.1, 0.5), [0.1, 0.9]][rng.integers(2)] for name in names}
    return RandomizedSearchCV(inner, space, n_iter=2, cv=2, random_state=state, refit=refit)


def check_random_composition(seed, X, y):
    """Return whether the composition could be fitted."""
    rng = np.random.default_rng(seed)
    ledger = PrivacyLedger()
    estimator = random_classifier(rng, ledger, depth=int(rng.integers(1, 4)))
    plan = plan_or_none(estimator)
    again = plan_or_none(estimator)  # a plan changes nothing
    assert (plan is None) == (again is None)
    if plan is not None and plan.n_fits > 1000:  # too slow
        return False
    try:
        estimator.fit(X, y)
    except (ValueError, TypeError, AttributeError, NotFittedError):  # scikit-learn refuses it
        return False
    try:
        privacy = privacy_of(estimator)
    except ValueError as error:
        assert "no private transformer" in str(error)
        assert not ledger.records()
        return True
    assert privacy is not None
    assert_right(estimator, ledger, plan)
    return True


FAST = 8


def test_random_compositions_state_what_the_ledger_was_charged(X, targets):
    fitted = [check_random_composition(seed, X, targets["classes"]) for seed in range(FAST)]
    assert np.mean(fitted) > 0.4


@pytest.mark.slow
@pytest.mark.parametrize("start", range(FAST, FAST + 400, 20))
def test_many_random_compositions_state_what_the_ledger_was_charged(X, targets, start):
    seeds = range(start, start + 20)
    fitted = [check_random_composition(seed, X, targets["classes"]) for seed in seeds]
    assert np.mean(fitted) > 0.4


# Parts that are shared, cached, frozen, prefitted or unknown


def test_a_seed_of_a_random_search_counts_for_nothing_inside_an_ensemble(X, targets):
    """An ensemble replaces all seeds, so that the search draws other candidates."""
    ledger = PrivacyLedger()
    space = {"dp__eps": uniform(0.1, 5.0)}
    search = RandomizedSearchCV(classifier(ledger), space, n_iter=2, cv=2, random_state=3)
    bagging = BaggingClassifier(search, n_estimators=3, random_state=1)
    plan = plan_search(bagging, n_features=N_FEATURES)
    bagging.fit(X, targets["classes"])
    assert_right(bagging, ledger, plan)
    assert plan.total.eps > plan_search(search, n_features=N_FEATURES).total.eps * 3


def test_a_random_state_that_has_moved_changes_no_statement(X, targets):
    """Planned again after the fit, the search seemed to have drawn other candidates."""
    ledger = PrivacyLedger()
    state = np.random.RandomState(0)
    space = {"dp__eps": uniform(0.1, 5.0)}
    search = RandomizedSearchCV(classifier(ledger), space, n_iter=3, cv=2, random_state=state)
    plan = plan_search(search, n_features=N_FEATURES)
    search.fit(X, targets["classes"])
    assert_right(search, ledger, plan)
    assert privacy_of(search).total.eps == pytest.approx(ledger.spent().eps)


def test_frozen_and_prefitted_parts_count_once(X, targets):
    ledger = PrivacyLedger()
    fitted = private(ledger).fit(X)
    frozen = make_pipeline(FrozenEstimator(fitted), LogisticRegression())
    model = classifier(ledger).fit(X, targets["classes"])
    for estimator in (
        GridSearchCV(frozen, {"logisticregression__C": [0.1, 1.0]}, cv=2),
        StackingClassifier([("a", frozen), ("b", clone(frozen))], cv=2),
        SequentialFeatureSelector(frozen, n_features_to_select=2, cv=2),
    ):
        if not isinstance(estimator, SequentialFeatureSelector):
            estimator.fit(X, targets["classes"])
            assert privacy_of(estimator).total.eps == fitted.privacy_.eps
        assert plan_search(estimator).n_fits == 0

    stacking = StackingClassifier([("a", model)], cv="prefit").fit(X, targets["classes"])
    assert plan_search(stacking).n_fits == 0
    assert privacy_of(stacking).n_fits == 1
    tuned = TunedThresholdClassifierCV(model, cv="prefit", refit=False)
    assert privacy_of(tuned.fit(X, targets["classes"])).n_fits == 1
    selected = SelectFromModel(model, prefit=True, importance_getter=COEF)
    assert privacy_of(selected.fit(X, targets["classes"])).n_fits == 1
    assert len(ledger.records()) == 2


def test_cached_fits_are_an_upper_bound(X, targets, tmp_path):
    ledger = PrivacyLedger()
    cached = classifier(ledger).set_params(memory=str(tmp_path))
    search = GridSearchCV(cached, {"model__tol": [1e-4, 1e-3]}, cv=2)
    plan = plan_search(search, n_features=N_FEATURES)
    search.fit(X, targets["classes"])
    privacy = assert_right(search, ledger, plan)
    assert privacy.bound_in_words == "at most"
    assert privacy.n_fits == 5 and len(ledger.records()) == 3


def test_folds_that_are_not_known_make_a_lower_bound(X, targets):
    ledger = PrivacyLedger()
    folds = iter(list(KFold(3).split(X)))
    stacking = StackingClassifier([("a", classifier(ledger))], cv=folds)
    stacking.fit(X, targets["classes"])
    privacy = assert_right(stacking, ledger, None)
    assert privacy.bound_in_words == "at least"
    assert "how often StackingClassifier fits" in repr(privacy)


def test_a_statement_says_that_a_total_is_a_bound(X, targets):
    ledger = PrivacyLedger(eps=9.0)
    model = make_pipeline(DPKBinsDiscretizer(3, encode="ordinal", ledger=ledger), GaussianNB())
    assert "1 private fit, which cost in all" in privacy_statement(make_pipeline(model[0]).fit(X))
    stacking = StackingClassifier([("a", model)], cv=iter(list(KFold(3).split(X))))
    text = privacy_statement(stacking.fit(X, targets["classes"]))
    assert "At least 1 private fit, which cost at least in all" in text
    assert "there is no total to state" in text
    assert "5 of 9 eps spent in 5 releases" in text


class Chain(ClassifierMixin, BaseEstimator):
    """A composite of another library: a scaler, a private transformer and a model."""

    def __init__(self, dp, n_fits=1, keeps=True):
        self.dp = dp
        self.n_fits = n_fits
        self.keeps = keeps

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        scaled = StandardScaler().fit_transform(X)
        fitted = [clone(self.dp).fit(scaled) for _ in range(self.n_fits)]
        if self.keeps:
            self.hidden_ = {"all": [Box(each) for each in fitted[-1:]]}
        self.model_ = LogisticRegression().fit(scaled, y)
        return self


class Box:
    """An object that is not an estimator."""

    def __init__(self, inside):
        self.inside = inside


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("n_fits", [1, 3])
def test_unknown_composites_state_a_lower_bound_and_quote_the_ledger(X, targets, keeps, n_fits):
    ledger = PrivacyLedger(eps=7.0)
    chain = Chain(private(ledger), n_fits, keeps)
    with pytest.raises(ValueError, match="how often Chain fits"):
        plan_search(chain, n_features=N_FEATURES)
    for estimator in (chain, make_pipeline(clone(chain)), VotingClassifier([("a", clone(chain))])):
        estimator.fit(X, targets["classes"])
        privacy = privacy_of(estimator)
        assert privacy.unknown
        assert privacy.n_fits == int(keeps)
        assert privacy.total.eps == (0.1 if keeps else 0.0)
        assert not privacy.holds
        assert f"{ledger.spent().eps:g} of 7 eps spent" in repr(privacy)
        assert repr(privacy).startswith("at least")
        json.dumps(privacy.to_dict(), allow_nan=False)


def test_a_subclass_follows_the_rule_of_its_parent_unless_it_overrides_a_method(X, targets):
    class Named(Pipeline):
        """A subclass that changes only the name."""

    class Twice(Pipeline):
        def fit(self, X, y=None, **params):
            super().fit(X, y, **params)
            return super().fit(X, y, **params)

    named = Named(classifier().steps).fit(X, targets["classes"])
    assert not privacy_of(named).unknown
    twice = Twice(classifier().steps)
    assert privacy_of(twice.fit(X, targets["classes"])).unknown


def test_estimators_that_refer_to_each_other_are_walked_through_once(X, targets):
    chain = Chain(private()).fit(X, targets["classes"])
    chain.parent_ = Chain(private()).fit(X, targets["classes"])
    chain.parent_.child_ = chain
    assert privacy_of(chain).n_fits == 2


# Where the guarantee holds


def double(X):
    return 2 * X


def demean(X):
    return X - X.mean(axis=0)


class Demean(TransformerMixin, BaseEstimator):
    """A transformer of another library that claims to be stateless."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return demean(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


HARMLESS = {
    "identity": FunctionTransformer(),
    "ufunc": FunctionTransformer(np.log1p),
    "clipped": FunctionTransformer(np.clip, kw_args={"a_min": 0, "a_max": 1}),
    "constant": SimpleImputer(strategy="constant", keep_empty_features=True),
    "all indicators": MissingIndicator(features="all"),
    "rows": Normalizer(),
    "signs": Binarizer(),
    "powers": PolynomialFeatures(2),
    "columns": ColumnTransformer([("a", "passthrough", [0, 1])], remainder="drop"),
}
HARMFUL = {
    "unknown function": FunctionTransformer(demean),
    "sorted": FunctionTransformer(np.sort),
    "product": FunctionTransformer(np.matmul),
    "constant that drops columns": SimpleImputer(strategy="constant"),
    "indicators": SimpleImputer(strategy="constant", keep_empty_features=True, add_indicator=True),
    "missing indicators": MissingIndicator(),
    "remainder": ColumnTransformer([("a", "passthrough", [0])], remainder=StandardScaler()),
    "columns by their values": ColumnTransformer([("a", "passthrough", lambda X: [0])]),
    "nested": make_pipeline(FeatureUnion([("a", make_pipeline(MinMaxScaler()))])),
    "another library": Demean(),
    "a model's choice": SelectFromModel(LogisticRegression()),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_row_wise_steps_leave_the_guarantee(name):
    assert plan_search(make_pipeline(HARMLESS[name], private())).voids == ()


@pytest.mark.parametrize("name", HARMFUL)
def test_steps_that_mix_rows_invalidate_the_guarantee_before_and_after_a_fit(X, targets, name):
    pipeline = make_pipeline(clone(HARMFUL[name]), private())
    assert len(plan_search(pipeline).voids) == 1
    if name not in ("product", "missing indicators"):
        assert not privacy_of(pipeline.fit(X, targets["classes"])).holds
    assert plan_search(make_pipeline(private(), clone(HARMFUL[name]))).voids == ()


@pytest.mark.parametrize("row_wise", [[double], ["functiontransformer"], {double, "other"}])
def test_users_vouch_for_row_wise_functions_and_steps(X, row_wise):
    pipeline = make_pipeline(FunctionTransformer(double), private())
    assert plan_search(pipeline).voids
    assert not plan_search(pipeline, row_wise=row_wise).voids
    pipeline.fit(X)
    assert not privacy_of(pipeline).holds
    assert privacy_of(pipeline, row_wise=row_wise).holds


@pytest.mark.parametrize("row_wise", ["functiontransformer", 3, None, [3]])
def test_row_wise_is_checked(X, row_wise):
    for function in (plan_search, privacy_of):
        with pytest.raises(ValueError, match="row_wise must be a list"):
            function(private().fit(X), row_wise=row_wise)


# The composites that pass on other rows, and one that is known not to.
VOIDS = {
    "bagging of a classifier": "with replacement",
    "bagging of a regressor": "with replacement",
    "boosting of a regressor": "with replacement",
    "stacking, final of a classifier": "predictions",
    "chain": "predictions",
    "chain with folds": "predictions",
    "ransac of a regressor": "selects rows",
    "self-training": "selects rows",
    "elimination": "selects rows or columns",
    "elimination, folds": "selects rows or columns",
    "forward": "selects rows or columns",
    "stacking of a classifier": None,
    "voting of a classifier": None,
    "grid of a classifier": None,
    "tuned threshold of a classifier": None,
    "calibrated once of a classifier": None,
    "one against the rest of a classifier": None,
    "gradient boosting of a classifier": None,
    "bagging, some columns of a classifier": None,
}


@pytest.mark.parametrize("name", VOIDS)
def test_composites_that_pass_on_other_rows_invalidate_the_guarantee(X, targets, name):
    make, inner, kind = BY_NAME[name]
    estimator = make(inner())
    voids = []
    with contextlib.suppress(ValueError):  # an unknown number of fits
        voids = plan_search(estimator, n_features=N_FEATURES).voids
        assert bool(voids) == (VOIDS[name] is not None)
    privacy = privacy_of(estimator.fit(X, target_of(targets, kind, estimator)))
    assert privacy.holds == (VOIDS[name] is None)
    for sentence in (*voids, *privacy.void_sentences):
        assert VOIDS[name] in sentence
    if not privacy.holds:
        assert "NOT hold" in repr(privacy)


def test_subsamples_of_a_fixed_size_invalidate_the_guarantee():
    bagging = BaggingClassifier(classifier(), bootstrap=False, max_samples=0.5)
    assert "take the place of another" in plan_search(bagging).voids[0]
    assert plan_search(bagging.set_params(max_samples=1.0)).voids == ()
    assert plan_search(bagging.set_params(max_samples=1)).voids != ()


@pytest.mark.parametrize(
    ("grid", "holds"),
    [
        ({"model__tol": [1e-4, 1e-3]}, True),
        ({"model": [LinearDiscriminantAnalysis(), GaussianNB()]}, True),
        ({"dp__eps": [0.5]}, True),
        ({"dp__eps": [0.1, 0.5]}, False),
        ({"first__degree": [1, 2]}, False),
        ({"first": ["passthrough", PolynomialFeatures(2)]}, False),
        ({"first": ["passthrough", StandardScaler()]}, False),
        ({"model__tol": [1e-4, 1e-3], "dp": [Sign(0.1), Sign(0.2)]}, False),
    ],
)
@pytest.mark.parametrize("kind", [GridSearchCV, RandomizedSearchCV])
def test_a_choice_among_private_settings_by_scores_invalidates_the_guarantee(
    X, targets, grid, holds, kind
):
    steps = [("first", PolynomialFeatures(1)), *classifier().steps]
    options = {} if kind is GridSearchCV else {"n_iter": 2, "random_state": 0}
    search = kind(Pipeline(steps), grid, cv=2, **options)
    assert (plan_search(search).voids == ()) == holds
    search.fit(X, targets["classes"])
    assert privacy_of(search).holds == holds


def test_imputers_that_iterate_are_counted(X):
    gaps = X.copy()
    gaps[::7, 0] = np.nan
    gaps[::5, 2] = np.nan
    ledger = PrivacyLedger()
    imputer = IterativeImputer(regressor(ledger), max_iter=2, skip_complete=True)
    plan = plan_search(imputer, n_features=N_FEATURES)
    privacy = assert_right(imputer.fit(gaps), ledger, plan)
    assert privacy.n_fits == len(ledger.records())
    assert not privacy.holds


def test_boosting_of_a_classifier_is_planned():
    plan = plan_search(AdaBoostClassifier(classifier(), n_estimators=7), n_features=N_FEATURES)
    assert plan.n_fits == 7 and plan.reasons and plan.voids


# With real transformers


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize(
    "transformer",
    [
        DPKBinsDiscretizer(3, encode="ordinal", delta=1e-6, eps=0.5),
        DPRobustScaler(eps=None, rho=0.01),
        DPQuantileTransformer(7, mechanism="auto", decimals=1),
    ],
    ids=["delta", "rho", "auto"],
)
def test_every_meta_estimator_is_counted_with_real_transformers(X, targets, name, transformer):
    make, inner, kind = BY_NAME[name]
    ledger = PrivacyLedger()
    dp = clone(transformer).set_params(ledger=ledger, random_state=1)
    estimator = make(inner().set_params(dp=dp))
    try:
        plan = plan_search(estimator, n_features=N_FEATURES)
    except ValueError:
        plan = None
    estimator.fit(X, target_of(targets, kind, estimator))
    spent = ledger.spent()
    privacy = privacy_of(estimator)
    if privacy.unknown:
        assert privacy.total.eps <= spent.eps * (1 + 1e-12)
    else:
        assert_covers(privacy.total, spent)
    if plan is not None:
        assert_covers(plan.total, spent)
