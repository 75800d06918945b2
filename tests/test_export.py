"""to_sklearn of composite estimators: no trace of this package, and the same rows come out."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer, DPRobustScaler, to_sklearn

BINS = DPKBinsDiscretizer(4, encode="onehot-dense")
COLUMNS = ColumnTransformer(
    [("bins", BINS, ["a"]), ("ranks", DPQuantileTransformer(), ["b"])],
    remainder=DPRobustScaler(clip=3),
)
COMPOSITES = {
    "transformer": BINS,
    "pipeline": make_pipeline(COLUMNS, LogisticRegression()),
    "union": make_pipeline(FeatureUnion([("a", BINS), ("b", DPRobustScaler())])),
    "search": GridSearchCV(
        make_pipeline(BINS, LogisticRegression()), {"logisticregression__C": [0.1, 1.0]}, cv=2
    ),
    "bagging": BaggingClassifier(make_pipeline(BINS, LogisticRegression()), n_estimators=2),
    "target": TransformedTargetRegressor(LinearRegression(), transformer=DPQuantileTransformer(7)),
    "a function": make_pipeline(FunctionTransformer(lambda X: X * 2), BINS),
}


@pytest.fixture
def X(rng):
    return pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])


def _fitted(name, X):
    y = X["a"] if name == "target" else X["a"] > 0
    return COMPOSITES[name].fit(X, y)


def _output(estimator, X):
    for method in ("predict_proba", "predict", "transform"):
        if hasattr(estimator, method):
            return getattr(estimator, method)(X)


@pytest.mark.parametrize("name", COMPOSITES)
def test_the_copy_does_the_same(X, name):
    fitted = _fitted(name, X)
    plain = to_sklearn(fitted)
    np.testing.assert_allclose(_output(plain, X), _output(fitted, X), rtol=1e-9, atol=1e-12)


def test_copies_are_loaded_without_this_package(X, tmp_path):
    names = COMPOSITES.keys() - {"a function"}  # lambdas have no pickle
    pickled = pickle.dumps([to_sklearn(_fitted(name, X)) for name in names])
    assert b"dpq" not in pickled

    path = tmp_path / "plain.pkl"
    path.write_bytes(pickled)
    code = (
        "import sys, pickle; sys.modules['dpq_sklearn'] = None;"
        f"pickle.load(open({str(path)!r}, 'rb'))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


@pytest.mark.parametrize("name", COMPOSITES)
def test_the_original_stays_as_it_is(X, name):
    fitted = _fitted(name, X)
    before = _output(fitted, X)
    to_sklearn(fitted)
    np.testing.assert_array_equal(_output(fitted, X), before)


def test_a_frozen_transformer_is_exported_too(X):
    pipeline = make_pipeline(FrozenEstimator(BINS.fit(X)), LogisticRegression()).fit(X, X["a"] > 0)
    plain = to_sklearn(pipeline)
    assert b"dpq" not in pickle.dumps(plain)
    np.testing.assert_array_equal(plain.predict(X), pipeline.predict(X))


@pytest.mark.parametrize("container", ["default", "pandas", "polars"])
def test_a_model_behind_named_bins_and_dates_knows_the_exported_columns(X, container):
    X["day"] = np.datetime64("2024-01-01") + np.arange(len(X)).astype("m8[D]")
    bins = DPKBinsDiscretizer(3, encode="onehot-dense", feature_name_combiner="interval")
    columns = ColumnTransformer(
        [("bins", bins, ["a", "day"]), ("ranks", DPQuantileTransformer(), ["day", "b"])]
    ).set_output(transform=container)
    pipeline = make_pipeline(columns, LogisticRegression()).fit(X, X["a"] > 0)
    plain = to_sklearn(pipeline)
    assert b"dpq" not in pickle.dumps(plain)
    np.testing.assert_allclose(plain.predict_proba(X), pipeline.predict_proba(X), rtol=1e-9)
    names = pipeline[:-1].get_feature_names_out()
    np.testing.assert_array_equal(plain[:-1].get_feature_names_out(), names)


@pytest.mark.parametrize("thing", [None, 3, DPKBinsDiscretizer])
def test_it_takes_estimators_only(thing):
    with pytest.raises(ValueError, match="must be a fitted estimator"):
        to_sklearn(thing)


@pytest.mark.parametrize("encode", ["ordinal", "onehot", "onehot-dense"])
def test_missing_values_raise_or_go_to_the_first_bin(X, encode):
    X.iloc[:5, 0] = np.nan
    fitted = DPKBinsDiscretizer(4, encode=encode).fit(X)
    with pytest.raises(ValueError, match="NaN"):
        fitted.to_sklearn().transform(X)
    lowest = X.fillna(-1e30)
    plain = fitted.to_sklearn(missing="first_bin")
    difference = plain.transform(X) != fitted.transform(lowest)
    assert np.sum(difference) == 0
    assert list(plain.get_feature_names_out()) == list(fitted.get_feature_names_out())
    with pytest.raises(ValueError, match="missing must be"):
        fitted.to_sklearn(missing="keep")


def test_skops_and_onnx_take_a_whole_pipeline(X, tmp_path):
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

    bins = DPKBinsDiscretizer(4, encode="ordinal")
    fitted = make_pipeline(bins, LogisticRegression()).fit(X.to_numpy(), X["a"] > 0)
    plain = to_sklearn(fitted)

    skops.dump(plain, tmp_path / "plain.skops")
    loaded = skops.load(tmp_path / "plain.skops", trusted=[])
    np.testing.assert_array_equal(loaded.predict(X.to_numpy()), fitted.predict(X.to_numpy()))

    rows = X.to_numpy(dtype=np.float32)
    onnx = skl2onnx.to_onnx(plain, rows[:1], options={"zipmap": False})
    session = runtime.InferenceSession(onnx.SerializeToString())
    (labels, _) = session.run(None, {session.get_inputs()[0].name: rows})
    assert (labels == fitted.predict(rows)).mean() > 0.99
