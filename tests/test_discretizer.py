"""DPKBinsDiscretizer beside sklearn's exact KBinsDiscretizer."""

import inspect
import pickle
import re
import textwrap

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.preprocessing import KBinsDiscretizer

from dpq_sklearn import DPKBinsDiscretizer
from dpq_sklearn.estimators.bin_labels import labels_of_bins

COLUMNS = {
    "normal": lambda rng: rng.normal(size=2000),
    "skewed": lambda rng: rng.lognormal(10, 2, size=2000),
    "integers": lambda rng: rng.integers(0, 1000, 2000),
    "float32": lambda rng: rng.normal(size=2000).astype(np.float32),
    "negative": lambda rng: -rng.lognormal(size=2000),
}


def exact(n_bins, encode="ordinal"):
    """sklearn's exact discretizer, whatever its version calls the default method."""
    estimator = KBinsDiscretizer(n_bins, encode=encode, strategy="quantile", subsample=None)
    if "quantile_method" in estimator.get_params():
        estimator.set_params(quantile_method="linear")
    return estimator


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("n_bins", [2, 5, 8])
@pytest.mark.parametrize("bounds", [None, (-1e7, 1e7)])
def test_without_noise_it_bins_as_sklearn_does(column, n_bins, bounds, rng):
    X = column(rng)[:, None]
    ours = DPKBinsDiscretizer(n_bins, eps=1e6, encode="ordinal", bounds=bounds).fit(X)
    theirs = exact(n_bins).fit(X.astype(np.float64))
    ordered = np.sort(X[:, 0].astype(np.float64))
    edges = ours.bin_edges_[0][1:-1]
    ranks = np.arange(1, n_bins) / n_bins * (len(X) - 1)
    # Edges have no more digits than they carry: a part of a bin is rounded.
    slack = 1e-3 * (ordered[-1] - ordered[0]) / n_bins
    assert np.all(edges >= ordered[np.floor(ranks).astype(int) - 1] - slack)
    assert np.all(edges <= ordered[np.ceil(ranks).astype(int) + 1] + slack)
    differ = ours.transform(X) != theirs.transform(X)
    assert differ.sum() <= 2 * n_bins  # rows right at an edge


@pytest.mark.slow
@pytest.mark.parametrize("encode", ["onehot", "onehot-dense", "ordinal"])
@pytest.mark.parametrize("n_bins", [4, 100, [2, 3, 70]])
@pytest.mark.parametrize("dtype", [None, np.float32, np.float64])
def test_exported_discretizer_transforms_alike(encode, n_bins, dtype, rng):
    X = rng.normal(size=(9000, 3))
    X[:, 2] = rng.integers(0, 5, 9000)
    ours = DPKBinsDiscretizer(n_bins, encode=encode, dtype=dtype, random_state=0)
    ours.fit(pd.DataFrame(X, columns=list("abc")))
    plain = ours.to_sklearn()
    assert type(plain) is KBinsDiscretizer
    frame = pd.DataFrame(X, columns=list("abc"))
    mine, theirs = ours.transform(frame), plain.transform(frame)
    assert type(mine) is type(theirs) and mine.dtype == theirs.dtype
    if encode == "onehot":
        assert (mine != theirs).nnz == 0 and mine.format == theirs.format
        assert mine.has_sorted_indices and mine.indices.dtype == theirs.indices.dtype
    else:
        assert np.array_equal(mine, theirs)
    assert ours.get_feature_names_out().tolist() == plain.get_feature_names_out().tolist()
    back, plain_back = ours.inverse_transform(mine), plain.inverse_transform(theirs)
    assert np.array_equal(
        back, plain_back.astype(back.dtype)
    )  # one-hot floats become float64 there


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_at_the_edges_go_where_sklearn_puts_them(dtype, rng):
    ours = DPKBinsDiscretizer(6, encode="ordinal", random_state=0).fit(rng.normal(size=(500, 1)))
    edges = ours.bin_edges_[0]
    X = np.concatenate((edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)))
    X = X.astype(dtype)[:, None]
    assert np.array_equal(ours.transform(X), ours.to_sklearn().transform(X))


def test_bins_never_disappear(rng):
    """Constant, two-valued and all-missing columns keep their number of bins, without a warning."""
    X = np.column_stack((np.full(500, 7.0), rng.integers(0, 2, 500), np.full(500, np.nan)))
    est = DPKBinsDiscretizer(5, eps=100, encode="onehot-dense").fit(X)
    assert est.n_bins_.tolist() == [5, 5, 5]
    assert [edges.size for edges in est.bin_edges_] == [6, 6, 6]
    assert est.transform(X).shape == (500, 15)
    assert np.all(est.bin_edges_[0][:-2] == 7.0)
    assert est.bin_edges_[0][-2] == np.nextafter(np.float32(7), np.float32(8))


def test_missing_and_infinite_values():
    est = DPKBinsDiscretizer(4, encode="ordinal", random_state=0).fit(np.arange(100.0)[:, None])
    X = np.array([[np.nan], [-np.inf], [np.inf]])
    assert np.array_equal(est.transform(X).ravel(), [np.nan, 0.0, 3.0], equal_nan=True)
    for encode in ("onehot", "onehot-dense"):
        est.set_params(encode=encode)
        hot = est.transform(X)
        hot = hot.toarray() if sparse.issparse(hot) else hot
        assert hot.tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]]
        back = est.inverse_transform(est.transform(X))
        assert np.isnan(back[0, 0]) and np.isfinite(back[1:]).all()


@pytest.mark.parametrize("n_bins", [4, 100])
def test_missing_values_in_some_features_leave_the_others_alone(n_bins, rng):
    X = rng.normal(size=(50, 2))
    X[::7, 0] = np.nan
    est = DPKBinsDiscretizer(n_bins, random_state=0).fit(X)
    hot = est.transform(X).toarray()
    assert np.array_equal(hot[:, :n_bins].sum(axis=1), ~np.isnan(X[:, 0]))
    assert np.all(hot[:, n_bins:].sum(axis=1) == 1)
    back = est.inverse_transform(est.transform(X))
    assert np.array_equal(np.isnan(back), np.isnan(X))


def test_one_row_is_enough():
    est = DPKBinsDiscretizer(5, encode="ordinal", eps=1e6).fit([[3.0, -2.0]])
    assert est.bin_edges_[0][2] == 3.0 and est.bin_edges_[1][2] == -2.0


def test_outer_edges_are_the_bounds_or_a_bins_width_away(rng):
    X = rng.uniform(size=(500, 2))
    est = DPKBinsDiscretizer(4, bounds=[(-1, 2), None], random_state=0).fit(X)
    assert est.bin_edges_[0][[0, -1]].tolist() == [-1.0, 2.0]
    free = est.bin_edges_[1]
    assert free[1] - free[0] == pytest.approx(free[2] - free[1])
    two = DPKBinsDiscretizer(2, random_state=0).fit(X).bin_edges_[0]
    assert two[0] < two[1] < two[2]


@pytest.mark.parametrize(
    ("dtype", "preserved"),
    [(None, ["float64", "float32"]), (np.float64, ["float64"]), (np.float32, ["float32"])],
)
def test_the_types_that_are_said_to_be_preserved_are(dtype, preserved, rng):
    X = rng.normal(size=(20, 1))
    est = DPKBinsDiscretizer(2, encode="ordinal", dtype=dtype).fit(X)
    assert est.__sklearn_tags__().transformer_tags.preserves_dtype == preserved
    for name in preserved:
        assert est.transform(X.astype(name)).dtype == name


@pytest.mark.parametrize("n_bins", [1, [2, 1], [2, 2.5], [3], [[2, 2]], "5", [True, 2]])
def test_impossible_numbers_of_bins_raise(n_bins, rng):
    with pytest.raises(ValueError, match="n_bins"):
        DPKBinsDiscretizer(n_bins).fit(rng.normal(size=(10, 2)))


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_dataframes_out(container, rng):
    frame = pd.DataFrame(rng.normal(size=(20, 2)), columns=["a", "b"])
    est = DPKBinsDiscretizer(3, encode="onehot-dense").set_output(transform=container)
    out = est.fit_transform(frame)
    assert isinstance(out, pd.DataFrame if container == "pandas" else pl.DataFrame)
    assert list(out.columns) == ["a_0.0", "a_1.0", "a_2.0", "b_0.0", "b_1.0", "b_2.0"]


def test_inverse_transform_refuses_what_is_no_bin(rng):
    est = DPKBinsDiscretizer(3, encode="ordinal").fit(rng.normal(size=(20, 1)))
    for X in ([[3.0]], [[-1.0]]):
        with pytest.raises(ValueError, match="bin numbers, 0 to 2"):
            est.inverse_transform(X)
    with pytest.raises(ValueError, match="X has 2 features, but 1 are expected"):
        est.inverse_transform([[1.0, 2.0]])


def test_skops_loads_the_exported_object_without_trusting_new_types(rng, tmp_path):
    skops_io = pytest.importorskip("skops.io")
    X = rng.normal(size=(100, 2))
    plain = DPKBinsDiscretizer(4).fit(X).to_sklearn()
    skops_io.dump(plain, tmp_path / "bins.skops")
    assert skops_io.get_untrusted_types(file=tmp_path / "bins.skops") == []
    loaded = skops_io.load(tmp_path / "bins.skops")
    assert (loaded.transform(X) != plain.transform(X)).nnz == 0


def test_onnx_converts_the_exported_object(rng):
    skl2onnx = pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    X = rng.normal(size=(100, 2)).astype(np.float32)
    plain = DPKBinsDiscretizer(4, encode="ordinal", random_state=0).fit(X).to_sklearn()
    model = skl2onnx.to_onnx(plain, X[:1])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (bins,) = session.run(None, {session.get_inputs()[0].name: X})
    assert np.mean(bins == plain.transform(X)) > 0.99  # ONNX compares in float32


def test_tied_edges_survive_onnx(rng):
    """Equal edges moved to the next float64, which is the same float32: 58% of the bins agreed."""
    skl2onnx = pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    education = rng.choice([8, 10, 12, 12, 12, 12, 13, 14, 16, 18], size=3000)
    zeros = rng.poisson(0.5, 3000)
    large = rng.choice([1e6, 3e6, 3e6, 3e6, 5e6, 7e6], size=3000)
    X = np.column_stack((education, zeros, large)).astype(np.float64)

    est = DPKBinsDiscretizer(4, eps=20.0, encode="ordinal", random_state=0).fit(X)
    are_tied = [np.any(np.diff(edges.astype(np.float32)[1:-1]) < 1e-6) for edges in est.bin_edges_]
    assert any(are_tied)
    model = skl2onnx.to_onnx(est.to_sklearn(), X[:1].astype(np.float32))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (bins,) = session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)})
    assert np.array_equal(bins, est.transform(X))
    assert np.array_equal(bins, est.transform(X.astype(np.float32)))


# Names of bins


def next_float(value):
    return np.nextafter(value, np.inf)


@pytest.mark.parametrize(
    ("edges", "labels"),
    [
        ([20000.0], ["(-inf, 20000)", "[20000, inf)"]),
        ([-0.0, 0.3, 1e15], ["(-inf, 0)", "[0, 0.3)", "[0.3, 1000000000000000)", None]),
        ([1e-7, 2.5e20], ["(-inf, 1e-07)", "[1e-07, 2.5e+20)", "[2.5e+20, inf)"]),
        ([0.0, 0.0, 3.0], ["(-inf, 0)", "[0, 0)", "[0, 3)", "[3, inf)"]),
        ([7.0, 7.0, 7.0], ["(-inf, 7)", "[7, 7)_1", "[7, 7)_2", "[7, inf)"]),
        ([7.0, 7.0, next_float(7.0)], ["(-inf, 7)", "[7, 7)", "[7, 7]", "(7, inf)"]),
        ([0.0, next_float(0.0), 2.0], ["(-inf, 0)", "[0, 0]", "(0, 2)", "[2, inf)"]),
    ],
)
def test_labels_say_the_values_in_few_digits_and_differ(edges, labels):
    found = labels_of_bins(np.array(edges))
    assert [label for label, wanted in zip(found, labels, strict=True) if wanted] == [
        wanted for wanted in labels if wanted
    ]
    assert len(set(found)) == len(edges) + 1


def holds(label, value):
    """Whether an interval holds a value, by its label alone."""
    label, _, _ = label.partition("_")  # without the number of an empty bin
    low, high = label[1:-1].split(", ")
    above = value >= float(low) if label[0] == "[" else value > float(low)
    return above and (value <= float(high) if label[-1] == "]" else value < float(high))


@pytest.mark.parametrize("decimals", [None, 0])
def test_labels_say_where_transform_puts_a_value(decimals, rng):
    X = np.c_[rng.poisson(0.5, 5000), rng.normal(0, 9, 5000).round(decimals or 1)]
    fitted = DPKBinsDiscretizer(8, encode="ordinal", decimals=decimals, random_state=0).fit(X)
    bins = fitted.transform(X).astype(int)
    for column, labels in enumerate(fitted.bin_labels()):
        assert len(labels) == 8 == len(set(labels))
        for value, number in zip(X[:200, column], bins[:200, column], strict=True):
            assert [holds(label, value) for label in labels].index(True) == number
            assert sum(holds(label, value) for label in labels) == 1
    assert "[0, 0)_1" in fitted.bin_labels()[0]


@pytest.mark.parametrize("encode", ["onehot", "onehot-dense"])
def test_names_of_columns_are_combined_as_asked(encode, rng):
    X = pd.DataFrame({"income": rng.lognormal(10, 1, 5000), "n": rng.poisson(0.5, 5000)})
    binner = DPKBinsDiscretizer({"income": 4, "n": 8}, encode=encode, decimals={"income": -3})
    fitted = binner.fit(X)
    concat = [f"income_{k}.0" for k in range(4)] + [f"n_{k}.0" for k in range(8)]
    assert fitted.get_feature_names_out().tolist() == concat

    fitted.set_params(feature_name_combiner="interval")
    names = fitted.get_feature_names_out().tolist()
    of_income, of_n = fitted.bin_labels()
    assert names == [f"income_{x}" for x in of_income] + [f"n_{x}" for x in of_n]
    assert len(set(names)) == 12 and re.fullmatch(r"income_\[1\d000, 2\d000\)", names[1])

    fitted.set_params(feature_name_combiner=lambda name, number: f"{name} bin {number:02d}")
    assert fitted.get_feature_names_out().tolist()[:2] == ["income bin 00", "income bin 01"]
    fitted.set_params(feature_name_combiner=lambda name, number: number)
    with pytest.raises(TypeError, match="feature_name_combiner must return a str, got int"):
        fitted.get_feature_names_out()

    fitted.set_params(feature_name_combiner="interval", encode="ordinal")
    assert fitted.get_feature_names_out().tolist() == ["income", "n"]
    with pytest.raises(ValueError, match="'feature_name_combiner' parameter"):
        fitted.set_params(feature_name_combiner="label").fit(X)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_names_with_intervals_stand_in_frames(library, rng):
    X = pd.DataFrame({"n": rng.poisson(0.5, 5000)})
    binner = DPKBinsDiscretizer(8, encode="onehot-dense", feature_name_combiner="interval")
    table = binner.set_output(transform=library).fit_transform(X)
    assert list(table.columns) == [f"n_{label}" for label in binner.bin_labels()[0]]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_bin_numbers_become_ordered_categories_by_the_documented_lines(library, rng):
    if library == "polars" and not hasattr(pl.Series, "replace_strict"):
        pytest.skip("an older polars")
    X = pd.DataFrame({"n": np.r_[rng.normal(100, 9, 5000), np.nan]})
    binner = DPKBinsDiscretizer(4, encode="ordinal", random_state=0).fit(X)
    (labels,) = binner.bin_labels()
    numbers = binner.transform(X)[:, 0]

    code = dict(re.findall(r"in (\w+) by ::\n\n((?: {4}.*\n)+)", inspect.getdoc(binner.bin_labels)))
    column = binner.set_output(transform=library).transform(X)["n"]
    names = {"pd": pd, "pl": pl, "labels": labels, "column": column}
    first, second = textwrap.dedent(code[library]).splitlines()
    exec(first, names)
    found = eval(second, names)

    assert [x if x in labels else None for x in found.to_list()] == [
        None if np.isnan(k) else labels[int(k)] for k in numbers
    ]
    in_order = found.dropna().sort_values() if library == "pandas" else found.drop_nulls().sort()
    assert list(dict.fromkeys(in_order.to_list())) == labels != sorted(labels)


def _spelled(name, k):
    return f"{name} is {['low', 'middle', 'high'][k]}"


@pytest.mark.parametrize("combiner", ["concat", "interval", _spelled])
@pytest.mark.parametrize("encode", ["onehot", "onehot-dense"])
@pytest.mark.parametrize("missing", ["raise", "first_bin"])
def test_an_export_keeps_the_names_of_columns(combiner, encode, missing, rng):
    X = pd.DataFrame(rng.lognormal(size=(500, 2)), columns=["income", "rent"])
    binner = DPKBinsDiscretizer(3, encode=encode, feature_name_combiner=combiner).fit(X)
    plain = pickle.loads(pickle.dumps(binner.to_sklearn(missing=missing)))
    assert plain.get_feature_names_out().tolist() == binner.get_feature_names_out().tolist()
    expected, found = binner.transform(X), plain.transform(X)
    assert sparse.issparse(found) == sparse.issparse(expected)
    assert abs(found - expected).sum() == 0

    if encode == "onehot-dense":
        frame = binner.set_output(transform="pandas").to_sklearn(missing=missing).transform(X)
        pd.testing.assert_frame_equal(frame, binner.transform(X))


def test_an_export_cannot_keep_names_with_two_underscores(rng):
    X = pd.DataFrame({"a__b": rng.normal(size=500)})
    binner = DPKBinsDiscretizer(3, feature_name_combiner="interval").fit(X)
    names = ["a__b_0.0", "a__b_1.0", "a__b_2.0"]
    assert binner.to_sklearn().get_feature_names_out().tolist() == names
