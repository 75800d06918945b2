"""What both transformers promise: sklearn's ways, no leaks, a state that is only the release."""

import array
import collections
import copy
import pickle
import re
import threading
import warnings
from inspect import signature

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import has_fit_parameter

from dpq_sklearn import (
    BudgetExceededError,
    DPKBinsDiscretizer,
    DPQuantileTransformer,
    DPRobustScaler,
    PrivacyLedger,
    PrivacyLoss,
    expected_rank_error,
)
from dpq_sklearn.home import template_of_doc_links
from tests.planning import give_releases_one_id_and_time

BOTH = [
    DPKBinsDiscretizer(encode="ordinal"),
    DPQuantileTransformer(n_quantiles=7),
    DPRobustScaler(),
]
both = pytest.mark.parametrize("estimator", BOTH, ids=lambda e: type(e).__name__)
with_ends = pytest.mark.parametrize("estimator", BOTH[:2], ids=lambda est: type(est).__name__)
RELEASED = {"bin_edges_", "quantiles_", "center_", "scale_", "n_rows_", "error_in_bins_"}
# Made anew by every release, from the operating system's generator and its clock.
OF_THE_RELEASE = {"privacy_.release_id", "privacy_.time"}
NEW_YEAR = pd.Timestamp("2020-01-01")


@pytest.fixture
def X(rng):
    return rng.normal(size=(400, 3))


def released(estimator):
    """All released numbers of a fitted transformer, in one array."""
    if hasattr(estimator, "bin_edges_"):
        return np.concatenate(list(estimator.bin_edges_))
    return estimator.quantiles_.ravel()


@both
def test_a_fit_sets_the_release_and_nothing_else(estimator, X):
    fitted = clone(estimator).fit(pd.DataFrame(X, columns=list("abc")))
    names = {name for name in vars(fitted) if name not in fitted.get_params()}
    common = {"n_features_in_", "feature_names_in_", "privacy_", "rank_error_"}
    common |= {"n_rows_", "error_in_bins_"}
    own = {
        DPKBinsDiscretizer: {"bin_edges_", "n_bins_"},
        DPQuantileTransformer: {"n_quantiles_", "quantiles_", "references_"},
        DPRobustScaler: {"quantiles_", "references_", "center_", "scale_"},
    }
    assert names == common | own[type(estimator)]
    assert isinstance(fitted.privacy_, PrivacyLoss)


@both
def test_nothing_is_stale_after_another_fit(estimator, X):
    fitted = clone(estimator).fit(pd.DataFrame(X, columns=list("abc")))
    changes = {
        DPKBinsDiscretizer: {"n_bins": 3},
        DPQuantileTransformer: {"n_quantiles": 3},
        DPRobustScaler: {"with_centering": False},
    }
    fitted.set_params(eps=2.0, **changes[type(estimator)]).fit(X[:, :2])
    fresh = clone(fitted).fit(X[:, :2])
    assert vars(fitted).keys() == vars(fresh).keys()
    assert fitted.n_features_in_ == 2 and not hasattr(fitted, "feature_names_in_")
    assert fitted.privacy_ == fresh.privacy_
    assert released(fitted).shape == released(fresh).shape


def walk(thing, path=""):
    """Yield every leaf of an object's state with its path."""
    if isinstance(thing, np.ndarray):
        yield f"{path}.shape", thing.shape
        yield f"{path}.dtype", str(thing.dtype)
        for index, entry in enumerate(thing.ravel().tolist()):
            yield from walk(entry, f"{path}[{index}]")
    elif isinstance(thing, (list, tuple)):
        for index, entry in enumerate(thing):
            yield from walk(entry, f"{path}[{index}]")
    elif isinstance(thing, dict):
        for key, entry in thing.items():
            yield from walk(entry, f"{path}.{key}")
    elif hasattr(thing, "__dict__"):
        yield from walk(vars(thing), path)
    else:
        yield path, thing


def without_numbers(text):
    """Remove the released numbers from the HTML. Everything else must be the same."""
    return re.sub(r"[-+.,e\s\d]", "", text)


@both
@pytest.mark.parametrize("extra", [[0.0], [1e300], [-np.inf], [np.nan]])
def test_one_row_more_changes_the_released_numbers_only(estimator, extra, X, monkeypatch):
    """The whole state, the repr, the HTML and the pickle's shape, with frozen randomness."""
    give_releases_one_id_and_time(monkeypatch)
    one = clone(estimator).set_params(random_state=0).fit(X)
    other = clone(estimator).set_params(random_state=0).fit(np.vstack((X, np.repeat(extra, 3))))
    states = [dict(walk(vars(fitted))) for fitted in (one, other)]
    assert states[0].keys() == states[1].keys()
    different = {path for path in states[0] if states[0][path] != states[1][path]}
    allowed = RELEASED | OF_THE_RELEASE
    assert all(path.removeprefix(".").split("[")[0] in allowed for path in different)
    assert repr(one) == repr(other)
    assert without_numbers(estimator_html_repr(one)) == without_numbers(estimator_html_repr(other))
    other.n_rows_ = one.n_rows_  # a released number, of any number of digits
    assert len(pickle.dumps(one)) == len(pickle.dumps(other))


@both
@pytest.mark.parametrize(
    "column",
    [
        np.zeros(50),
        np.full(50, np.nan),
        np.full(50, np.inf),
        np.r_[np.nan, np.inf, -np.inf, np.arange(47)],
        np.full(50, 1e308),
        np.full(50, 5e-324),
    ],
    ids=["constant", "all NaN", "infinite", "mixed", "huge", "subnormal"],
)
def test_nothing_in_fit_raises_or_warns_because_of_what_the_numbers_are(estimator, column):
    fitted = clone(estimator).fit(column[:, None])
    assert np.isfinite(released(fitted)).all()
    fitted.transform(column[:, None])


@both
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_signalling_nan_warns_in_no_thread(estimator, n_jobs):
    """Its conversion to float64 is an invalid operation, which NumPy would warn of."""
    X = np.ones((60, 4), dtype=np.float32)
    X.view(np.uint32)[3, 1] = 0x7FA00000
    quiet = clone(estimator).set_params(n_jobs=n_jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        quiet.fit(X)
        quiet.fit(X, groups=np.arange(60) // 2)
        quiet.fit_batches([X[:30], X[30:]])


@both
def test_a_cell_that_is_not_a_number_is_reported_by_column_and_type(estimator):
    frames = [
        pd.DataFrame({"age": [1.0, 2.0], "name": ["secret", "x"]}),
        pl.DataFrame({"age": [1.0, 2.0], "name": ["secret", "x"]}),
        pd.DataFrame({"age": [1.0, 2.0], "name": pd.Series(["secret", 1.0], dtype=object)}),
    ]
    for frame in frames:
        with pytest.raises((TypeError, ValueError), match="name") as error:
            clone(estimator).fit(frame)
        assert "secret" not in str(error.value)
    array = np.array([[1.0, "secret"], [2.0, 3.0]], dtype=object)
    with pytest.raises(TypeError, match=r"column 1 of X.*type str") as error:
        clone(estimator).fit(array)
    assert "secret" not in str(error.value)
    for text in (["secret"], [["secret"]]):
        with pytest.raises((TypeError, ValueError)) as error:
            clone(estimator).fit(text)
        assert "secret" not in str(error.value)


@both
@pytest.mark.parametrize(
    "column",
    [
        [31337.125],
        np.array([31337.125]),
        pd.Series([31337.125]),
        pl.Series([31337.125]),
        pa.array([31337.125]),
        array.array("d", [31337.125]),
        collections.deque([31337.125]),
        31337.125,
        "31337.125",
        np.array([[31337.125 + 1j]]),
    ],
    ids=lambda column: type(column).__name__,
)
def test_no_error_about_shape_or_type_quotes_the_data(estimator, column):
    for method in (clone(estimator).fit, lambda X: clone(estimator).fit_batches([X])):
        with pytest.raises((TypeError, ValueError)) as error:
            method(column)
        assert "31337" not in str(error.value)
        assert "31337" not in str(error.value.__context__)


@both
@pytest.mark.parametrize(
    "X",
    [
        [31337.125, 1.0, 2.0],
        np.array(31337.125),
        pd.Series([31337.125]),
        [["31337.125", "secret", "3"]],
        pd.DataFrame([["31337.125", "secret", "3"]]),
        np.array([[31337.125 + 1j, 0, 0]]),
        np.full((1, 2), 31337.125),
    ],
    ids=lambda X: type(X).__name__,
)
def test_inverse_transform_quotes_no_value_either(estimator, X, rng):
    fitted = clone(estimator).fit(rng.normal(size=(20, 3)))
    with pytest.raises((TypeError, ValueError)) as error:
        fitted.inverse_transform(X)
    for text in (str(error.value), str(error.value.__context__)):
        assert "31337" not in text and "secret" not in text


@both
@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_exported_objects_keep_names_and_output_container(estimator, container, X):
    frame = pd.DataFrame(X, columns=list("abc"))
    fitted = clone(estimator).set_output(transform=container).fit(frame)
    mine, theirs = fitted.transform(frame), fitted.to_sklearn().transform(frame)
    assert type(mine) is type(theirs) and mine.equals(theirs)
    assert type(clone(estimator).fit(frame).to_sklearn().transform(frame)) is np.ndarray


@both
def test_numbers_that_numpy_warns_about_go_unnoticed(estimator):
    signalling = np.array([[0x7FA00000], [0x3F800000]], dtype=np.uint32).view(np.float32)
    huge = np.array([["1e400"], ["1"]], dtype=np.longdouble)
    for X in (signalling, huge, np.array([[5e-324], [1.0]])):
        with np.errstate(all="raise"):
            clone(estimator).fit(X)
            clone(estimator).set_params(bounds=(0, 3)).fit_batches([X])


class Untouchable:
    """A matrix that must not be read."""

    def __array__(self, *args, **kwargs):
        raise AssertionError("the data were touched")

    __iter__ = __len__ = __getitem__ = __array__


@both
@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"eps": -1}, "eps"),
        ({"eps": np.inf}, "eps"),
        ({"eps": True}, "eps must be"),
        ({"rho": 0.5}, "rho excludes eps and delta: set eps=None"),
        ({"delta": 1.0}, "delta"),
        ({"mechanism": "none"}, "mechanism"),
        ({"random_state": -1}, "random_state"),
        ({"random_state": True}, "random_state must be"),
    ],
)
def test_bad_parameters_raise_before_the_data_are_touched(estimator, parameters, match):
    with pytest.raises(ValueError, match=match):
        clone(estimator).set_params(**parameters).fit(Untouchable())


@both
@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"bounds": (3, 1)}, r"low < high.*got \(3, 1\)"),
        ({"bounds": [(0, 1), (0, 1)]}, "one entry for each of the 3 features"),
        ({"bounds": {"z": (0, 1)}}, r"must be names of features of X, got \['z'\], but X has no f"),
        ({"bounds": (NEW_YEAR, NEW_YEAR)}, r"must be numbers, got \(Timestamp, Timestamp\)"),
        ({"bounds": [(NEW_YEAR.date(), None)] * 3}, r"must be numbers, got \(date, NoneType\)"),
        ({"bounds": (NEW_YEAR.to_datetime64(),) * 2}, r"got \(datetime64, datetime64\)"),
        ({"bounds": ("a", "b")}, r"pair \(low, high\) of finite numbers.* got \('a', 'b'\)\."),
        ({"bounds": {}}, "one entry for each of the 3 features"),
        ({"bounds": [(0, 1), None, "ab"]}, "bounds must be"),
        ({"feature_weights": [1, 2]}, "one entry for each of the 3 features"),
        ({"feature_weights": [1, 2, -1]}, "feature_weights must be"),
        ({"feature_weights": [1, 2, np.nan]}, "feature_weights must be"),
    ],
)
def test_parameters_that_do_not_fit_the_columns_raise(estimator, parameters, match, X, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db", uncapped=True)
    with pytest.raises(ValueError, match=match):
        clone(estimator).set_params(ledger=ledger, **parameters).fit(X)
    assert ledger.spent().eps == 0.0


@both
@pytest.mark.parametrize(
    ("parameter", "value"), [("bounds", (0, 1)), ("decimals", 1), ("feature_weights", 2.0)]
)
def test_entries_for_columns_that_X_has_not_are_refused(estimator, parameter, value, X, tmp_path):
    frame = pd.DataFrame(X, columns=list("abc"))
    ledger = PrivacyLedger(tmp_path / "ledger.db", uncapped=True)
    private = clone(estimator).set_params(ledger=ledger, **{parameter: {"a": value, "age": value}})

    words = rf"the keys of {parameter} must be names .* got \['age'\], but X has the features"
    with pytest.raises(ValueError, match=words):
        private.fit(frame)
    assert ledger.spent().eps == 0.0
    private.set_params(**{parameter: {"a": value}}).fit(frame)


@both
def test_signature_of_fit_shows_what_it_takes(estimator):
    assert list(signature(estimator.fit).parameters) == ["X", "y", "groups"]
    assert not has_fit_parameter(estimator, "sample_weight")


@both
def test_the_price_is_paid_before_cells_are_read(estimator, tmp_path):
    """The value of a cell must not decide whether a fit is recorded."""
    ledger = PrivacyLedger(tmp_path / "ledger.db", eps=1.0)
    X = np.array([[1], ["x"]], dtype=object)
    with pytest.raises(TypeError, match="column 0 of X"):
        clone(estimator).set_params(ledger=ledger).fit(X)
    assert len(ledger.records()) == 1
    with pytest.raises(BudgetExceededError):
        clone(estimator).set_params(ledger=ledger).fit(X)


@both
def test_no_sample_weight_is_as_good_as_none(estimator, X):
    assert clone(estimator).fit(X, sample_weight=None).n_features_in_ == 3
    with pytest.raises(TypeError, match=r"'sample_weight'\. A weight would change"):
        clone(estimator).fit(X, sample_weight=np.ones(len(X)))


@both
def test_rank_errors_are_those_expected_before(estimator, X):
    fitted = clone(estimator).set_params(eps=0.5, delta=1e-6).fit(X)
    n_bins = {DPKBinsDiscretizer: 5, DPQuantileTransformer: 8, DPRobustScaler: 4}[type(estimator)]
    expected = expected_rank_error(n_bins, eps=0.5, delta=1e-6, n_features=3)
    errors = fitted.rank_error_[1] if n_bins == 5 else fitted.rank_error_[:, 1]
    assert np.array_equal(errors, expected)


@both
def test_zero_rows_raise_as_in_sklearn(estimator):
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        clone(estimator).fit(np.empty((0, 2)))


@with_ends
def test_forms_of_bounds_agree(estimator, X):
    frame = pd.DataFrame(X, columns=list("abc"))
    fits = [
        clone(estimator).set_params(random_state=0, bounds=bounds).fit(frame)
        for bounds in [
            {"a": (-2, 2), "b": (-2, 2), "c": (-2, 2)},
            (-2, 2),
            [(-2, 2)] * 3,
            np.array([[-2, 2]] * 3),
            np.array([-2.0, 2.0]),
        ]
    ]
    for fitted in fits[1:]:
        assert np.array_equal(released(fitted), released(fits[0]))
    mixed = clone(estimator).set_params(random_state=0, bounds={"b": (-2, 2)}).fit(frame)
    first = mixed.bin_edges_[1] if hasattr(mixed, "bin_edges_") else mixed.quantiles_[:, 1]
    assert (first[0], first[-1]) == (-2.0, 2.0)
    assert np.count_nonzero(np.abs(released(mixed)) == 2.0) == 2


@both
def test_bounds_of_two_features_that_may_be_lows_and_highs_are_refused(estimator, X):
    private = clone(estimator).set_params(random_state=0)
    for bounds in (((0, 1), (2, 3)), np.array([[0, 1], [2, 3]]), ((None, 1), (2, None))):
        with pytest.raises(ValueError, match="could also be all lows and all highs"):
            private.set_params(bounds=bounds).fit(X[:, :2])
    expected = released(private.set_params(bounds=[(-2, 2), (-3, 3)]).fit(X[:, :2]))
    for bounds in (((-2, 2), (-3, 3)), np.array([[-2, 2], [-3, 3]])):  # (-2, -3) is no pair
        assert np.array_equal(released(private.set_params(bounds=bounds).fit(X[:, :2])), expected)


@with_ends
def test_half_open_bounds_bound_one_end(estimator, rng):
    X = np.column_stack((rng.exponential(size=500), -rng.exponential(size=500)))
    fitted = clone(estimator).set_params(bounds=[(0, None), (None, 0)], eps=100.0).fit(X)
    edges = np.column_stack(fitted.bin_edges_) if hasattr(fitted, "n_bins") else fitted.quantiles_
    assert edges[0, 0] == 0.0 and edges[-1, 1] == 0.0
    assert 1.0 < edges[-1, 0] < 30.0 and -30.0 < edges[0, 1] < -1.0
    assert np.array_equal(fitted.transform(X), fitted.to_sklearn().transform(X))


@both
def test_weights_share_the_budget(estimator, rng):
    """With nearly all of the budget one feature is accurate and the other is noise."""
    X = rng.uniform(size=(300, 2))
    fitted = clone(estimator).set_params(
        feature_weights=[1000, 1], bounds=(0, 1), eps=5.0, random_state=0
    )
    errors = np.zeros(2)
    for seed in range(10):
        fitted.set_params(random_state=seed).fit(X)
        for index in range(2):
            if hasattr(fitted, "bin_edges_"):
                inner, q = fitted.bin_edges_[index][1:-1], np.arange(1, 5) / 5
            else:
                inner = fitted._private_values()[index]
                q = np.arange(1, inner.size + 1) / (inner.size + 1)
            errors[index] += np.abs(inner - np.quantile(X[:, index], q)).mean()
    assert errors[0] < 0.3 * errors[1]


@both
def test_seeds_repeat_but_features_have_their_own_noise(estimator, X):
    X = np.repeat(X[:, :1], 3, axis=1)
    one, two = (clone(estimator).set_params(random_state=7, eps=0.5).fit(X) for _ in range(2))
    assert np.array_equal(released(one), released(two))
    assert not one.privacy_.os_randomness
    columns = released(one).reshape(3, -1) if hasattr(one, "bin_edges_") else one.quantiles_.T
    assert not np.array_equal(columns[0], columns[1])


@pytest.mark.fresh_noise(false_alarm=1e-9)
@both
def test_random_state_objects_move_on_and_none_is_fresh(estimator, X):
    state = np.random.RandomState(0)
    for random_state in (state, None):
        fitted = clone(estimator)
        fitted.set_params(random_state=random_state, eps=0.1)
        first = released(fitted.fit(X)).copy()
        assert not np.array_equal(first, released(fitted.fit(X)))
    assert clone(estimator).fit(X).privacy_.os_randomness


@pytest.mark.fresh_noise(false_alarm=1e-9)
@both
def test_the_global_generator_has_no_influence(estimator, X):
    numbers = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        numbers.append(released(clone(estimator).set_params(eps=0.1).fit(X)))
    assert not np.array_equal(*numbers)


@both
def test_containers_give_the_same_numbers(estimator, X):
    X = X.astype(np.float32).astype(np.float64)
    expected = released(clone(estimator).set_params(random_state=0).fit(X))
    containers = [
        X.tolist(),
        X.astype(np.float32),
        np.asfortranarray(X),
        X.astype(object),
        pd.DataFrame(X),
        pd.DataFrame(X, columns=list("abc")).astype("Float64"),
        pd.DataFrame(X, columns=list("abc")).astype("float64[pyarrow]"),
        pl.DataFrame(X, schema=list("abc")),
    ]
    for container in containers:
        fitted = clone(estimator).set_params(random_state=0).fit(container)
        assert np.array_equal(released(fitted), expected)


@both
def test_missing_values_of_every_container_are_ignored(estimator, X):
    some = X.copy()
    some[::5, 0] = np.nan
    expected = released(clone(estimator).set_params(random_state=0).fit(some))
    frame = pd.DataFrame(some, columns=list("abc"))
    nullable = frame.astype("Float64")
    polars = pl.DataFrame(some, schema=list("abc")).fill_nan(None)
    with_none = some.astype(object)
    with_none[::5, 0] = None
    for container in (frame, nullable, polars, with_none):
        fitted = clone(estimator).set_params(random_state=0).fit(container)
        assert np.array_equal(released(fitted), expected)


@both
def test_float32_stays_float32(estimator, X):
    fitted = clone(estimator).fit(X)
    for dtype in (np.float32, np.float64):
        transformed = fitted.transform(X.astype(dtype))
        assert transformed.dtype == dtype
        assert fitted.inverse_transform(transformed).dtype == dtype


@both
def test_copies_of_a_fitted_transformer_transform_alike(estimator, X, tmp_path):
    fitted = clone(estimator).fit(X)
    joblib.dump(fitted, tmp_path / "fitted.joblib")
    copies = [
        pickle.loads(pickle.dumps(fitted)),
        copy.deepcopy(fitted),
        joblib.load(tmp_path / "fitted.joblib"),
    ]
    for other in copies:
        assert np.array_equal(other.transform(X), fitted.transform(X))
        assert other.privacy_ == fitted.privacy_


@both
def test_threads_can_fit_and_transform_at_once(estimator, X):
    fitted = clone(estimator).fit(X)
    expected = fitted.transform(X)
    wrong = []

    def work():
        clone(estimator).fit(X)
        if not np.array_equal(fitted.transform(X), expected):
            wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@both
def test_a_fit_leaves_the_input_as_it_was(estimator, X):
    before = X.copy()
    clone(estimator).fit_transform(X)
    assert np.array_equal(X, before)


@both
def test_links_to_its_documentation_where_there_is_an_address(estimator, monkeypatch):
    name = type(estimator).__name__
    for documentation, link in {
        "https://example.org": f"https://example.org/generated/dpq_sklearn.{name}.html",
        "": "",
    }.items():
        template = template_of_doc_links(documentation)
        monkeypatch.setattr(type(estimator), "_doc_link_template", template)
        assert estimator._get_doc_link() == link
        assert (f'href="{link}"' in estimator._repr_html_()) == bool(documentation)
        assert ("Documentation for" in estimator._repr_html_()) == bool(documentation)


@both
def test_price_is_that_of_the_whole_fit(estimator, X):
    assert clone(estimator).set_params(eps=0.3).fit(X).privacy_.eps == 0.3
    concentrated = clone(estimator).set_params(eps=None, rho=0.1).fit(X).privacy_
    assert concentrated.rho == 0.1
    approximate = clone(estimator).set_params(eps=1.0, delta=1e-6)
    assert approximate.fit(X).privacy_.delta in (0.0, 1e-6)
    many = approximate.fit(np.random.default_rng(0).normal(size=(50, 60))).privacy_
    assert (many.eps, many.delta, many.account) == (1.0, 1e-6, "optimal composition")
    assert 1.2 * 0.02436 > many.rho > 0.02436  # the rho of zCDP, and a little more


@pytest.fixture
def labelled(rng):
    X = rng.normal(size=(300, 4))
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


@pytest.mark.slow
def test_pipeline_and_grid_search_over_eps(labelled):
    X, y = labelled
    pipeline = Pipeline([("dpq", DPKBinsDiscretizer(eps=1)), ("clf", LogisticRegression())])
    assert cross_val_score(pipeline, X, y, cv=3).shape == (3,)
    pipeline.set_params(dpq__eps=50)
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.7
    grid = {"dpq__eps": [0.5, 50.0], "dpq__n_bins": [4, 8]}
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=2).fit(X, y)
    assert search.best_params_["dpq__eps"] in (0.5, 50.0)
    assert search.best_estimator_.named_steps["dpq"].privacy_.eps in (0.5, 50.0)


def test_column_transformer_with_others_and_dataframe_output(labelled):
    X, _ = labelled
    frame = pd.DataFrame(X, columns=list("abcd"))
    transformer = ColumnTransformer(
        [
            ("bins", DPKBinsDiscretizer(encode="onehot-dense", bounds={"a": (-4, 4)}), ["a", "b"]),
            ("cdf", DPQuantileTransformer(), ["c"]),
            ("scale", StandardScaler(), ["d"]),
        ]
    ).set_output(transform="pandas")
    out = transformer.fit_transform(frame)
    assert out.shape == (300, 5 + 5 + 1 + 1)
    assert out.columns[0] == "bins__a_0.0" and out.columns[-1] == "scale__d"


def test_frozen_edges_are_searched_downstream_for_nothing(labelled, tmp_path):
    X, y = labelled
    ledger = PrivacyLedger(tmp_path / "ledger.db", eps=1.0)
    fitted = DPKBinsDiscretizer(ledger=ledger).fit(X)
    pipeline = Pipeline([("dpq", FrozenEstimator(fitted)), ("clf", LogisticRegression())])
    GridSearchCV(pipeline, {"clf__C": [0.1, 1.0]}, cv=3).fit(X, y)
    assert ledger.spent().eps == pytest.approx(1.0)


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_an_ensemble_does_not_replace_the_randomness_of_the_operating_system(in_pipeline, X):
    private = DPKBinsDiscretizer(2)
    steps = make_pipeline(private, LogisticRegression())
    estimator = make_pipeline(steps) if in_pipeline else steps
    bagging = BaggingClassifier(estimator, n_estimators=2, random_state=0).fit(X, X[:, 0] > 0)
    for fitted in bagging.estimators_:
        binner = fitted[0][0] if in_pipeline else fitted[0]
        assert binner.random_state is None and binner.privacy_.os_randomness

    seeded = make_pipeline(DPKBinsDiscretizer(2, random_state=0), LogisticRegression())
    bagging = BaggingClassifier(seeded, n_estimators=2, random_state=0).fit(X, X[:, 0] > 0)
    assert len({fitted[0].random_state for fitted in bagging.estimators_}) == 2
    assert DPKBinsDiscretizer().set_params(random_state=3).random_state == 3
