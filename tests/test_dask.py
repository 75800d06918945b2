"""Dask collections, on all schedulers, also when workers die."""

import enum
import os
import signal
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from dpq_sklearn import (
    BudgetExceededError,
    DPKBinsDiscretizer,
    DPQuantileTransformer,
    PrivacyLedger,
    dp_histogram,
    dp_quantiles,
    dp_value_counts,
)

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

TRANSFORMERS = {
    "ordinal": DPKBinsDiscretizer(encode="ordinal", random_state=0),
    "dense": DPKBinsDiscretizer([3, 4, 5], encode="onehot-dense", random_state=0),
    "uniform": DPQuantileTransformer(7, random_state=0),
    "normal": DPQuantileTransformer(7, output_distribution="normal", random_state=0),
}
each_transformer = pytest.mark.parametrize("transformer", TRANSFORMERS.values(), ids=TRANSFORMERS)
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def threads():
    """Threads, unless a test or a cluster says otherwise."""
    with dask.config.set(scheduler="threads"):
        yield


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.lognormal(size=(2000, 2)), columns=["a", "b"])
    frame["year"] = rng.integers(1900, 2020, size=2000)
    frame.loc[::7, "b"] = np.nan
    frame.index += 17
    return frame


@pytest.fixture(scope="module")
def cluster():
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        memory_limit=0,
    )
    yield cluster
    cluster.close()


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client, dask.config.set(scheduler=None):
        yield client


def in_memory(transformer, frame):
    return clone(transformer).set_params(resolution=24).fit(frame)


def assert_same_fit(one, other):
    for name in ("quantiles_", "references_", "n_bins_", "feature_names_in_"):
        if hasattr(one, name):
            assert np.array_equal(getattr(one, name), getattr(other, name))
    for edges in zip(getattr(one, "bin_edges_", []), getattr(other, "bin_edges_", []), strict=True):
        assert np.array_equal(*edges)
    assert one.privacy_ == other.privacy_
    assert {n for n in vars(one) if n.endswith("_")} == {n for n in vars(other) if n.endswith("_")}


@each_transformer
@pytest.mark.parametrize("npartitions", [1, 3, 70])
def test_frame_gives_what_memory_gives_and_stays_a_frame(transformer, npartitions, frame):
    partitions = dd.from_pandas(frame, npartitions=npartitions)
    expected, fitted = in_memory(transformer, frame), clone(transformer).fit(partitions)
    assert_same_fit(expected, fitted)
    transformed = fitted.transform(partitions)
    assert isinstance(transformed, type(partitions))
    assert transformed.npartitions == partitions.npartitions
    computed = transformed.compute()
    assert list(transformed.columns) == list(computed.columns)
    assert list(computed.columns) == list(expected.get_feature_names_out())
    assert transformed.dtypes.equals(computed.dtypes)
    assert computed.index.equals(frame.index)
    np.testing.assert_array_equal(computed, expected.transform(frame))
    back = fitted.inverse_transform(transformed)
    assert list(back.columns) == ["a", "b", "year"]
    assert back.dtypes.equals(back.compute().dtypes)
    np.testing.assert_array_equal(
        back.compute(), expected.inverse_transform(expected.transform(frame))
    )


@each_transformer
@pytest.mark.parametrize("chunks", [(2000, 3), (300, 3), (300, 1), ((1, 1999), (2, 1))])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_array_gives_what_memory_gives_and_stays_an_array(transformer, chunks, dtype, frame):
    X = frame.to_numpy(dtype=dtype)
    blocks = da.from_array(X, chunks=chunks)
    expected, fitted = in_memory(transformer, X), clone(transformer).fit(blocks)
    assert_same_fit(expected, fitted)
    transformed = fitted.transform(blocks)
    assert isinstance(transformed, da.Array)
    assert transformed.chunks[0] == blocks.chunks[0]
    assert transformed.shape == transformed.compute().shape
    assert transformed.dtype == transformed.compute().dtype == expected.transform(X).dtype
    np.testing.assert_array_equal(transformed.compute(), expected.transform(X))
    back = fitted.inverse_transform(transformed).compute()
    np.testing.assert_array_equal(back, expected.inverse_transform(expected.transform(X)))


@each_transformer
def test_unknown_chunk_sizes_and_empty_partitions_are_fine(transformer, frame):
    partitions = dd.from_pandas(frame, npartitions=70)
    some, few = partitions[partitions["a"] > 6], frame[frame["a"] > 6]
    assert some.map_partitions(len).compute().min() == 0
    expected = in_memory(transformer, few)
    assert_same_fit(expected, clone(transformer).fit(some))
    computed = expected.transform(few)
    np.testing.assert_array_equal(expected.transform(some).compute(), computed)
    blocks = some.to_dask_array()
    assert np.isnan(blocks.shape[0])
    fitted = clone(transformer).fit(blocks)
    assert np.isnan(fitted.transform(blocks).shape[0])
    np.testing.assert_array_equal(fitted.transform(blocks).compute(), computed)


@each_transformer
@pytest.mark.parametrize("backend", ["pyarrow", "numpy_nullable"])
def test_arrow_backed_and_nullable_types_are_fine(transformer, backend, frame):
    converted = frame.convert_dtypes(dtype_backend=backend)
    partitions = dd.from_pandas(converted, npartitions=3)
    fitted = clone(transformer).fit(partitions)
    assert_same_fit(in_memory(transformer, frame), fitted)
    transformed = fitted.transform(partitions)
    assert transformed.dtypes.equals(transformed.compute().dtypes)
    np.testing.assert_array_equal(
        transformed.compute(), in_memory(transformer, frame).transform(frame)
    )


def test_parquet_folder(tmp_path, frame):
    pytest.importorskip("pyarrow")
    dd.from_pandas(frame, npartitions=4).to_parquet(tmp_path / "rows")
    fitted = DPKBinsDiscretizer(random_state=0).fit(dd.read_parquet(tmp_path / "rows"))
    assert_same_fit(in_memory(DPKBinsDiscretizer(random_state=0), frame), fitted)


def test_sparse_output_is_an_array_of_sparse_blocks_or_an_error(frame):
    discretizer = DPKBinsDiscretizer(random_state=0)
    partitions = dd.from_pandas(frame, npartitions=3)
    with pytest.raises(ValueError, match='cannot hold the sparse rows of encode="onehot"'):
        discretizer.fit(partitions).transform(partitions)
    blocks = da.from_array(frame.to_numpy(), chunks=(700, 2))
    discretizer.fit(blocks)
    transformed, expected = discretizer.transform(blocks), discretizer.transform(frame.to_numpy())
    assert type(transformed._meta) is type(transformed.compute()) is type(expected)
    assert (transformed.compute() != expected).nnz == 0
    np.testing.assert_array_equal(
        discretizer.inverse_transform(transformed).compute(),
        discretizer.inverse_transform(expected),
    )


@each_transformer
def test_transform_is_lazy(transformer, frame):
    read = []

    def reading(part):
        read.append(len(part))
        return part

    partitions = dd.from_pandas(frame, npartitions=3).map_partitions(reading, meta=frame[:0])
    fitted = clone(transformer).fit(partitions)
    assert sum(read) == len(frame)
    fitted.inverse_transform(fitted.transform(partitions))
    assert sum(read) == len(frame)


def test_partitions_are_never_overwritten(frame):
    X = frame.to_numpy()
    blocks = da.from_array(X.copy(), chunks=(500, 3)).persist()  # the same blocks for everybody
    fitted = DPQuantileTransformer(copy=False).fit(blocks)
    fitted.inverse_transform(fitted.transform(blocks)).compute()
    np.testing.assert_array_equal(blocks.compute(), X)


def test_what_cannot_be_fitted_is_refused_before_it_is_paid(frame, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", eps=10.0)
    partitions = dd.from_pandas(frame.assign(name="secret"), npartitions=2)
    cases = [
        (partitions, ValueError, "column 'name' of X must hold real numbers, got dtype str"),
        (partitions["a"], ValueError, "Expected 2D array"),
        (da.ones(5), ValueError, "Expected 2D array"),
        (da.ones((5, 2)) * 1j, ValueError, "Complex data not supported"),
        (dask.delayed(frame), TypeError, "must be a DataFrame or an Array"),
    ]
    for X, error, message in cases:
        with pytest.raises(error, match=message):
            DPKBinsDiscretizer(ledger=ledger).fit(X)
    assert ledger.spent().eps == 0
    fitted = DPKBinsDiscretizer(encode="ordinal").fit(partitions[["a", "b"]])
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.transform(partitions[["b", "a"]])
    with pytest.raises(ValueError, match="X has 3 features"):
        DPKBinsDiscretizer().fit(da.ones((5, 2))).transform(da.ones((5, 3)))


def test_output_containers_of_scikit_learn_are_refused(frame):
    partitions = dd.from_pandas(frame, npartitions=2)
    fitted = DPQuantileTransformer().set_output(transform="pandas").fit(partitions)
    with pytest.raises(ValueError, match="keep their container"):
        fitted.transform(partitions)


def test_no_rows_raise_what_fit_raises(frame):
    partitions = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        DPKBinsDiscretizer().fit(partitions[partitions["a"] < 0])


def test_ledger_is_charged_once_before_the_workers_read(frame, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", eps=1.0)
    spent = []

    def reading(part):
        spent.append(ledger.spent().eps)
        return part

    partitions = dd.from_pandas(frame, npartitions=3).map_partitions(reading, meta=frame[:0])
    fitted = DPKBinsDiscretizer(encode="ordinal", ledger=ledger).fit(partitions)
    assert spent == [1.0] * 3
    with pytest.raises(BudgetExceededError, match="cannot pay"):
        fitted.fit(partitions)
    fitted.transform(partitions).compute()  # the former fit is still there, and free
    assert len(ledger.records()) == 1
    assert fitted._for_workers().ledger is None


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_every_scheduler(scheduler, frame):
    transformer = DPQuantileTransformer(7, random_state=0)
    partitions = dd.from_pandas(frame, npartitions=5)
    expected = in_memory(transformer, frame)
    with dask.config.set(scheduler=scheduler, num_workers=2):
        fitted = clone(transformer).fit(partitions)
        assert_same_fit(expected, fitted)
        np.testing.assert_array_equal(
            fitted.transform(partitions).compute(), expected.transform(frame)
        )


@each_transformer
def test_cluster(transformer, client, frame):
    partitions = dd.from_pandas(frame, npartitions=20)
    expected, fitted = in_memory(transformer, frame), clone(transformer).fit(partitions)
    assert_same_fit(expected, fitted)
    transformed = fitted.transform(partitions)
    np.testing.assert_array_equal(transformed.compute(), expected.transform(frame))
    np.testing.assert_array_equal(
        fitted.inverse_transform(transformed).compute(),
        expected.inverse_transform(expected.transform(frame)),
    )


def die_once(part, marker):
    """Kill this worker the first time that the partition is read."""
    time.sleep(0.05)
    if len(part) and part.index[0] > 1000:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return part
        os.kill(os.getpid(), signal.SIGKILL)
    return part


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system cannot kill a worker")
def test_a_worker_that_dies_costs_no_budget_and_changes_nothing(client, frame, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", eps=1.0)
    transformer = DPKBinsDiscretizer(encode="ordinal", random_state=0)
    partitions = dd.from_pandas(frame, npartitions=20)
    marker = tmp_path / "died"
    dangerous = partitions.map_partitions(die_once, str(marker), meta=frame[:0])
    fitted = clone(transformer).set_params(ledger=ledger).fit(dangerous)
    assert marker.exists()
    assert_same_fit(in_memory(transformer, frame), fitted)
    assert len(ledger.records()) == 1


def objects(part):
    """Replace one cell of one partition by an object that is not a number."""
    part = part.astype(object)
    if len(part) and part.index[0] > 1000:
        part.iloc[0, 1] = "a secret cell"
    return part


def test_a_partition_that_raises_leaves_nothing_and_tells_no_cell(client, frame, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", eps=2.0)
    partitions = dd.from_pandas(frame, npartitions=4)
    fitted = DPKBinsDiscretizer(ledger=ledger).fit(partitions)
    broken = partitions.map_partitions(objects, meta=frame[:0])  # it promises numbers
    with pytest.raises(ValueError, match=r"of X must hold real numbers, got dtype") as caught:
        fitted.fit(broken)
    assert "secret" not in str(caught.value)
    with pytest.raises(NotFittedError):
        check_is_fitted(fitted)
    assert len(ledger.records()) == 2


# People.

LABELS = {
    "integers": lambda who: who + 2**60,
    "text": lambda who: who.map("person {}".format).where(who > 5, None),
    "floats": lambda who: who.astype(float).mask(who < 3).mask((who > 3) & (who < 9), -0.0),
    "categories": lambda who: who.map("person {}".format).astype("category"),
    "dates": lambda who: pd.to_datetime("1950-01-01") + pd.to_timedelta(who, unit="D"),
    "nullable": lambda who: who.astype("Int64").mask(who < 3) + 2**60,
}


@pytest.fixture(scope="module")
def visits(frame):
    rng = np.random.default_rng(1)
    return frame.assign(who=rng.integers(0, 300, size=len(frame)))


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("npartitions", [1, 5, 70])
def test_people_are_the_same_in_memory_and_in_partitions(kind, npartitions, visits):
    visits = visits.assign(who=LABELS[kind](visits["who"]))
    if kind == "floats":  # some of the zeros, in other partitions, have the other sign
        visits.loc[visits.index[::2], "who"] += 0.0
    transformer, features = TRANSFORMERS["ordinal"], ["a", "b", "year"]
    expected = clone(transformer).set_params(resolution=24)
    expected.fit(visits[features], groups=visits["who"])
    partitions = dd.from_pandas(visits, npartitions=npartitions)
    by_name = clone(transformer).fit(partitions, groups="who")
    assert_same_fit(expected, by_name)
    assert by_name.n_rows_ == expected.n_rows_
    beside = clone(transformer).fit(partitions[features], groups=partitions["who"])
    assert_same_fit(expected, beside)


def mixed_labels(who):
    """Equal labels of different types, and different labels that look alike."""
    kinds = [int, float, str, lambda n: (n,), lambda n: None, np.int8, lambda n: -0.0 * n, complex]
    return pd.Series([kinds[i % 8](n % 50) for i, n in enumerate(who)], dtype=object)


def test_equal_labels_of_all_types_meet_in_one_partition(visits):
    visits = visits.reset_index(drop=True).assign(who=mixed_labels(visits["who"]))
    with dask.config.set({"dataframe.convert-string": False}):
        partitions = dd.from_pandas(visits, npartitions=13)
    transformer, features = TRANSFORMERS["ordinal"], ["a", "b", "year"]
    expected = clone(transformer).set_params(resolution=24)
    expected.fit(visits[features], groups=visits["who"])
    fitted = clone(transformer).fit(partitions, groups="who")
    assert_same_fit(expected, fitted)
    assert fitted.n_rows_ == expected.n_rows_


def in_parts(parts, meta=None):
    """A dask DataFrame of these partitions, whatever they promise."""
    delayed = [dask.delayed(part, traverse=False) for part in parts]
    return dd.from_delayed(delayed, meta=parts[0][:0] if meta is None else meta, verify_meta=False)


def made_text(labels):
    """Frames in which Dask turns a column of objects into text, each in another way."""
    frame = pd.DataFrame(
        {"a": np.arange(len(labels)) * 1.0, "who": pd.Series(labels, dtype=object)}
    )
    yield dd.from_pandas(frame, npartitions=2)
    yield in_parts([frame, frame])
    yield dd.from_map(lambda number: frame, range(2), meta=frame[:0])
    yield (
        dd.from_pandas(frame, npartitions=2)
        .rename(columns={"who": "b"})
        .assign(who=lambda part: part["b"])[["a", "who"]]
    )
    yield dd.from_pandas(frame.set_index("who"), npartitions=2, sort=False).reset_index()
    yield dd.from_pandas(frame, npartitions=2).astype({"who": "category"})


def test_objects_that_dask_made_text_of_are_no_labels(tmp_path):
    """Otherwise 7 and 7.0 would be two people, and 1 and "1" would be one person."""
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", eps=10.0, neighbours="people")
    for number, X in enumerate(made_text([7, 7.0, 1, "1"])):
        for groups in ("who", X["who"]):
            features = X if isinstance(groups, str) else X[["a"]]
            with pytest.raises(TypeError, match="objects that Dask has converted to text"):
                DPKBinsDiscretizer(ledger=ledger).fit(features, groups=groups)
                pytest.fail(f"{number} is taken")
    assert ledger.spent().eps == 0


def test_text_is_a_label_also_beside_objects(visits):
    visits = visits.assign(who=visits["who"].map("person {}".format).astype("string"))
    beside = visits.assign(other=pd.Series(["text", 1] * 1000, index=visits.index, dtype=object))
    partitions = dd.from_pandas(beside, npartitions=3)
    expected = DPKBinsDiscretizer(random_state=0, resolution=24)
    expected.fit(visits.drop(columns="who"), groups=visits["who"])
    fitted = DPKBinsDiscretizer(random_state=0).fit(partitions.drop(columns="other"), groups="who")
    assert_same_fit(expected, fitted)


class Equals:
    """Somebody's own number: equal to an integer, with its hash."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return self.number == getattr(other, "number", other)

    def __hash__(self):
        return hash(self.number)


class Person(enum.Enum):
    ANN = 1
    BOB = 2


def test_labels_of_types_that_may_equal_any_other_are_refused():
    with dask.config.set({"dataframe.convert-string": False}):
        for labels, n_people in [([5, Equals(5)], None), (list(Person), 2), ([5, 5.0], 1)]:
            frame = pd.DataFrame(
                {"a": np.arange(20.0), "who": pd.Series(labels * 10, dtype=object)}
            )
            X = dd.from_pandas(frame, npartitions=20, sort=False)
            transformer = DPKBinsDiscretizer(eps=5000.0, random_state=0)
            if n_people is None:
                with pytest.raises(TypeError, match="must hold labels of types of Python"):
                    transformer.fit(X, groups="who")
            else:
                assert transformer.fit(X, groups="who").n_rows_ == n_people


@pytest.mark.parametrize("categories", [range(3), "xyz", range(2**60, 2**60 + 3)])
def test_partitions_may_have_categories_of_their_own(categories):
    first, second, third = categories
    labels = [[first, second, None, first], [first, third, None, third]]
    parts = [pd.DataFrame({"a": np.arange(4.0), "who": pd.Categorical(each)}) for each in labels]
    fitted = DPKBinsDiscretizer(eps=5000.0, random_state=0).fit(in_parts(parts), groups="who")
    assert fitted.n_rows_ == 5


def test_features_of_partitions_may_have_categories_of_their_own(visits):
    visits = visits[["year", "who"]]
    parts = [part.astype({"year": "category"}) for part in (visits[:900], visits[900:])]
    assert len(parts[0]["year"].cat.categories) != len(parts[1]["year"].cat.categories)
    expected = DPKBinsDiscretizer(random_state=0, resolution=24)
    expected.fit(visits[["year"]], groups=visits["who"])
    fitted = DPKBinsDiscretizer(random_state=0).fit(in_parts(parts), groups="who")
    assert_same_fit(expected, fitted)


def test_partitions_may_have_labels_of_another_type_than_promised(visits):
    """A common type would round large integers, and merge two people."""
    visits = visits.assign(who=visits["who"] // 2 + 2**60)

    def as_floats_here_and_there(part):
        return part.astype({"who": float if part.index[0] % 2 else "Int64"})

    partitions = dd.from_pandas(visits, npartitions=6)
    partitions = partitions.map_partitions(as_floats_here_and_there, meta=visits[:0])
    kept = pd.concat([partitions.get_partition(i).compute().astype(object) for i in range(6)])
    transformer, features = TRANSFORMERS["ordinal"], ["a", "b", "year"]
    expected = clone(transformer).set_params(resolution=24)
    expected.fit(visits[features], groups=kept["who"].tolist())
    assert_same_fit(expected, clone(transformer).fit(partitions, groups="who"))


@pytest.mark.parametrize("is_masked", [False, True])
def test_people_beside_an_array(is_masked, visits):
    X, who = visits[["a", "b", "year"]].to_numpy(), visits["who"].to_numpy() + 2**60
    if is_masked:
        who = np.ma.masked_array(who, mask=visits["who"] < 9)
    blocks = da.from_array(X, chunks=((300, 1700), (2, 1)))
    labels = da.from_array(who, chunks=((300, 1700),), asarray=False)
    transformer = TRANSFORMERS["ordinal"]
    expected = clone(transformer).set_params(resolution=24).fit(X, groups=who)
    assert_same_fit(expected, clone(transformer).fit(blocks, groups=labels))
    unknown = dd.from_pandas(visits, npartitions=2).to_dask_array()[:, :3]
    with pytest.raises(ValueError, match="groups must have one label for each row") as caught:
        clone(transformer).fit(unknown, groups=labels)
    assert "a ledger stays charged" in caught.value.__notes__[0]


def test_groups_that_do_not_fit_are_refused_before_they_are_paid(visits, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", eps=10.0, neighbours="people")
    partitions = dd.from_pandas(visits, npartitions=3)
    blocks = da.ones((6, 2), chunks=(2, 2))
    nested = visits[["a"]].assign(who=pd.Series([[1]] * len(visits), index=visits.index))
    pa = pytest.importorskip("pyarrow")
    nested["who"] = nested["who"].astype(pd.ArrowDtype(pa.list_(pa.int64())))
    cases = [
        (partitions, "nobody", ValueError, "name of a column .* got 'nobody'"),
        (partitions, visits["who"], ValueError, "name of a column .* got Series"),
        (partitions, [1, 2], ValueError, "name of a column .* got list"),
        (partitions, partitions[["who"]], ValueError, "of one dimension"),
        (partitions, partitions["who"].repartition(npartitions=2), ValueError, "one label for"),
        (blocks, np.arange(6), ValueError, "a dask Series or Array of one dimension"),
        (blocks, "who", ValueError, "a dask Series or Array of one dimension"),
        (blocks, da.ones(6, chunks=3), ValueError, "groups must have one label for each row"),
        (blocks, da.ones(6, chunks=(1, 3, 2)), ValueError, "groups must have one label for each"),
        (dd.from_pandas(nested, npartitions=2), "who", TypeError, "groups must hold hashable"),
    ]
    for X, groups, error, message in cases:
        with pytest.raises(error, match=message):
            DPKBinsDiscretizer(ledger=ledger).fit(X, groups=groups)
    assert ledger.spent().eps == 0


def test_labels_that_cannot_be_compared_are_told_by_the_workers(visits):
    unhashable = visits.assign(who=pd.Series([["a secret"]] * len(visits), index=visits.index))
    with dask.config.set({"dataframe.convert-string": False}):
        partitions = dd.from_pandas(unhashable, npartitions=3)
    with pytest.raises(TypeError, match="groups must hold hashable labels") as caught:
        DPKBinsDiscretizer().fit(partitions, groups="who")
    assert "secret" not in str(caught.value)


def test_people_on_a_cluster_and_a_worker_that_dies(client, visits, tmp_path):
    """Strings have other hashes in every process, and rows are computed twice."""
    visits = visits.assign(who=visits["who"].map("person {}".format).where(visits["who"] > 5, None))
    transformer, features = TRANSFORMERS["ordinal"], ["a", "b", "year"]
    expected = clone(transformer).set_params(resolution=24)
    expected.fit(visits[features], groups=visits["who"])
    partitions = dd.from_pandas(visits, npartitions=10)
    meta = partitions._meta
    dangerous = partitions.map_partitions(die_once, str(tmp_path / "died"), meta=meta)
    assert_same_fit(expected, clone(transformer).fit(dangerous, groups="who"))
    assert (tmp_path / "died").exists()


def test_a_failure_of_others_leaves_nothing_and_tells_no_cell(frame, tmp_path):
    def broken(part):
        raise ValueError("a secret cell")

    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", eps=2.0)
    partitions = dd.from_pandas(frame, npartitions=4)
    fitted = DPKBinsDiscretizer(ledger=ledger).fit(partitions)
    with pytest.raises(
        RuntimeError, match=r"Dask could not read the rows \(ValueError\)"
    ) as caught:
        fitted.fit(partitions.map_partitions(broken, meta=frame[:0]))
    assert "secret" not in str(caught.value) and "a ledger stays charged" in str(caught.value)
    assert caught.value.__context__ is None
    with pytest.raises(NotFittedError):
        check_is_fitted(fitted)


@pytest.mark.parametrize("as_array", [False, True])
def test_functions_of_one_column_refuse_an_unknown_number_of_rows_before_they_spend(
    frame, as_array
):
    column = dd.from_pandas(frame, npartitions=3)["a"]
    column = column.values if as_array else column
    ledger = PrivacyLedger(eps=10.0, delta=1e-3)
    for function in (
        lambda: dp_quantiles(column, 0.5, ledger=ledger),
        lambda: dp_value_counts(column, ledger=ledger),
        lambda: dp_histogram(column, [0.0, 1.0], ledger=ledger),
    ):
        with pytest.raises(TypeError, match=r"call compute\(\) first"):
            function()
    assert ledger.spent().eps == 0

    known = da.from_array(frame["a"].to_numpy(), chunks=500)
    dp_quantiles(known, 0.5, ledger=ledger)
    assert ledger.spent().eps == 1.0
