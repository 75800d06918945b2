"""Batches, threads and what happens when reading them fails."""

import os
import re
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from dpq_sklearn import (
    BudgetExceededError,
    DPKBinsDiscretizer,
    DPQuantileTransformer,
    DPRobustScaler,
    PrivacyLedger,
)
from dpq_sklearn.mechanisms.registry import MECHANISMS
from dpq_sklearn.reading.sources import batches as batches_module
from dpq_sklearn.reading.threads import Progress, blocks_of_columns, blocks_of_rows, in_threads

TRANSFORMERS = [DPKBinsDiscretizer, DPQuantileTransformer, DPRobustScaler]
SIZE_PARAMETERS = {DPKBinsDiscretizer: "n_bins", DPQuantileTransformer: "n_quantiles"}
each_transformer = pytest.mark.parametrize("Transformer", TRANSFORMERS)


@pytest.fixture
def X(rng):
    X = rng.lognormal(size=(1200, 3)) * [1.0, -1e6, 1e-3]
    X[::7, 1] = np.nan
    X[5, 2], X[6, 2] = np.inf, -np.inf
    X[:, 0] = np.round(X[:, 0], 1)
    return X


def state(transformer):
    """All fitted attributes, to be compared bit for bit."""
    fitted = {name: value for name, value in vars(transformer).items() if name.endswith("_")}
    assert fitted
    return {name: plain(value) for name, value in fitted.items()}


def plain(value):
    """Return arrays, including nested arrays, as lists in which NaN equals itself."""
    if isinstance(value, (np.ndarray, list)):
        return [plain(entry) for entry in value]
    return "nan" if isinstance(value, float) and np.isnan(value) else value


def assert_unfitted(transformer):
    with pytest.raises(NotFittedError):
        check_is_fitted(transformer)


def sized(Transformer, n):
    """The parameter for n bins or quantiles, if the transformer has one."""
    return {SIZE_PARAMETERS[Transformer]: n} if Transformer in SIZE_PARAMETERS else {}


@pytest.mark.slow
@each_transformer
@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
@pytest.mark.parametrize("resolution", [40, 24, 10])
def test_batches_give_what_the_whole_gives(Transformer, mechanism, resolution, X):
    options = {"resolution": resolution, "mechanism": mechanism, "delta": 1e-6, "random_state": 0}
    transformer = Transformer(**options, **sized(Transformer, 4))
    whole = state(clone(transformer).fit(X))
    assert state(clone(transformer).fit_batches(np.array_split(X, 7))) == whole
    assert state(clone(transformer).fit_batches([X[::-1]])) == whole


@pytest.mark.slow
@each_transformer
@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, 300), max_size=8), seed=st.integers(0, 2**32 - 1))
def test_any_batching_and_any_order_give_what_the_whole_gives(Transformer, cuts, seed):
    rng = np.random.default_rng(seed)
    X = rng.choice([rng.normal(size=(300, 2)), rng.integers(-3, 3, size=(300, 2))])
    options = {"bounds": [None, (-2, 2)], "resolution": 40, "random_state": seed, "eps": 10.0}
    transformer = Transformer(**options, **sized(Transformer, 5))
    batches = np.split(rng.permutation(X), sorted(cuts))
    batches = [batches[index] for index in rng.permutation(len(batches))]
    assert state(clone(transformer).fit_batches(batches)) == state(transformer.fit(X))


@each_transformer
def test_default_resolution_is_full_in_memory_and_24_bits_in_batches(Transformer, X):
    default = Transformer(random_state=0)
    full, coarse = (Transformer(random_state=0, resolution=bits) for bits in (40, 24))
    assert state(clone(default).fit(X)) == state(clone(full).fit(X))
    assert state(clone(default).fit_batches([X])) == state(clone(coarse).fit(X))
    assert state(clone(full).fit(X)) != state(clone(coarse).fit(X))


@pytest.mark.parametrize("resolution", [0, 41, 24.0, "24"])
def test_resolution_is_checked(resolution, X):
    with pytest.raises(ValueError, match="resolution"):
        DPKBinsDiscretizer(resolution=resolution).fit(X)


def test_released_values_lie_on_the_coarse_grid(rng):
    """A cell is 2^(7 - resolution) of its value wide, so few digits say which one it is."""
    X = rng.normal(50, 10, size=(100_000, 1))
    edges = DPKBinsDiscretizer(16, resolution=17, random_state=0).fit(X).bin_edges_[0][1:-1]
    assert all(len(f"{edge:.12g}".replace(".", "")) <= 4 for edge in edges)
    exact = np.quantile(X, np.arange(1, 16) / 16)
    assert np.all(np.abs(edges - exact) < 50 * 2.0 ** (7 - 17) + 0.2)


def typed(frame, real, whole):
    return frame.astype({name: whole if name == "count" else real for name in frame})


CONTAINERS = {
    "pandas": lambda frame: frame,
    "pandas with Arrow types": lambda frame: typed(frame, "double[pyarrow]", "int64[pyarrow]"),
    "pandas with masks": lambda frame: typed(frame, "Float64", "Int64"),
    "polars": pl.from_pandas,
    "Arrow table": pa.Table.from_pandas,
    "Arrow record batch": pa.RecordBatch.from_pandas,
}


@each_transformer
@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_every_container_gives_the_same_and_names_the_features(Transformer, container, X):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["count"] = np.arange(len(X)) % 13
    transformer = Transformer(random_state=0, bounds={"count": (0, 13)})
    expected = state(clone(transformer).set_params(resolution=24).fit(frame))
    batches = [container(frame[:500]), container(frame[500:500]), container(frame[500:])]
    fitted = clone(transformer).fit_batches(iter(batches))
    assert state(fitted) == expected
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c", "count"]
    assert state(clone(transformer).set_params(resolution=24).fit(container(frame))) == expected
    outputs = [fitted.transform(some) for some in (frame, container(frame))]
    outputs = [out.toarray() if hasattr(out, "toarray") else out for out in outputs]
    np.testing.assert_array_equal(*outputs)


def test_record_batch_reader_is_read_once(X):
    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=100))
    fitted = DPKBinsDiscretizer(random_state=0).fit_batches(reader)
    assert fitted.feature_names_in_.tolist() == ["a", "b"]


def broken(X, error):
    yield X[:100]
    yield X[100:200]
    raise error


class Interrupt(KeyboardInterrupt):
    """An interrupt that cannot be one of the person who runs the tests."""


@each_transformer
@pytest.mark.parametrize("error", [OSError("disk"), Interrupt(), MemoryError()])
def test_failure_in_between_leaves_nothing_and_does_not_tell_where(Transformer, error, X, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", eps=10.0)
    transformer = Transformer(ledger=ledger).fit(X)
    with pytest.raises(type(error)) as caught:
        transformer.fit_batches(broken(X, error))
    assert_unfitted(transformer)
    assert not [name for name in vars(transformer) if name.endswith("_")]
    told = "\n".join([*map(str, caught.value.args), *getattr(caught.value, "__notes__", [])])
    assert "Reading the batches stopped. Nothing was released, but a ledger stays charged." in told
    assert "2" not in told  # where a row is that cannot be read is private
    assert ledger.spent().eps == 2.0


SECRET = "123-45-6789"


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (np.ones((5, 2)), "X has 2 features, but .* is expecting 3 features"),
        (np.array([[1.0, SECRET, 2.0]], dtype=object), "column 1 of X.* of type str"),
        (np.array([["1", SECRET, "2"]]), "column 0 of X must hold real numbers"),
        ([[1.0, SECRET, 2.0]], "column 1 of X.* of type str"),
        (np.array([123.456, 1.0, 2.0]), "Expected 2D array, got 1D array"),
        ([123.456, 1.0, 2.0], "Expected 2D array, got 1D array"),
        (np.full((5, 3), 123.456j), "Complex data not supported"),
        (np.ones((2, 3, 4)), "dim 3"),
    ],
)
@pytest.mark.parametrize("position", [0, 1])
def test_broken_batches_are_reported_without_their_cells(batch, message, position, X):
    batches = [X, X]
    batches[position] = batch
    if position == 0 and "features" in message:
        batches, message = [batch, X], "X has 3 features, but .* is expecting 2 features"
    transformer = DPKBinsDiscretizer()
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        transformer.fit_batches(batches)
    assert SECRET not in str(caught.value) and "123.456" not in str(caught.value)
    assert_unfitted(transformer)


def test_feature_names_must_agree(X):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with pytest.raises(ValueError, match="feature names should match"):
        DPKBinsDiscretizer().fit_batches([frame, frame[["b", "a", "c"]]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        DPKBinsDiscretizer().fit_batches([frame, X])


def test_no_rows_raise_what_fit_raises(X):
    with pytest.raises(ValueError) as of_fit:
        DPKBinsDiscretizer().fit(X[:0])
    with pytest.raises(ValueError) as of_batches:
        DPKBinsDiscretizer().fit_batches([X[:0], X[:0]])
    for error in (of_fit, of_batches):
        assert re.search(r"0 sample\(s\).* while a minimum of 1 is required", str(error.value))
    with pytest.raises(ValueError, match="at least one batch"):
        DPKBinsDiscretizer().fit_batches([])


@pytest.mark.parametrize("single", [np.ones((3, 2)), pd.DataFrame({"a": [1]}), {"a": [1]}, "abc"])
def test_a_single_table_is_not_taken_for_batches(single):
    with pytest.raises(TypeError, match="batches must be an iterable of tables"):
        DPKBinsDiscretizer().fit_batches(single)


def test_columns_without_a_number_are_fine():
    X = np.column_stack((np.full(100, np.nan), np.arange(100.0)))
    fitted = DPKBinsDiscretizer(random_state=0).fit_batches([X[:50], X[50:]])
    assert np.isfinite(np.concatenate(fitted.bin_edges_)).all()


@each_transformer
def test_ledger_is_charged_once_and_before_the_numbers_are_read(
    Transformer, X, tmp_path, monkeypatch
):
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", eps=1.5)
    spent_when_counting = []
    read_matrix = batches_module.read_matrix

    def watched(table):
        spent_when_counting.append(ledger.spent().eps)
        return read_matrix(table)

    monkeypatch.setattr(batches_module, "read_matrix", watched)
    fitted = Transformer(ledger=ledger).fit_batches(np.array_split(X, 5))
    assert spent_when_counting == [1.0] * 5
    (record,) = ledger.records()
    assert record.what == f"{Transformer.__name__}.fit_batches"
    assert record.columns == 3 and record.eps == fitted.privacy_.eps == 1.0


@each_transformer
def test_refused_batches_are_not_read_and_leave_the_former_fit(Transformer, X, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", eps=1.5)
    fitted = Transformer(ledger=ledger).fit(X)
    before = state(fitted)
    read = []

    def batches():
        for batch in np.array_split(X[:, :2], 5):
            read.append(batch)
            yield batch

    with pytest.raises(BudgetExceededError, match="cannot pay"):
        fitted.fit_batches(batches())
    assert len(read) == 1  # its columns had to be known
    assert state(fitted) == before


def test_callback_is_told_batches_rows_and_seconds(X):
    calls = []
    DPKBinsDiscretizer().fit_batches(
        np.array_split(X, 3), callback=lambda *call: calls.append(call)
    )
    assert [call[:2] for call in calls] == [(1, 400), (2, 800), (3, 1200)]
    assert all(seconds >= 0 for *_, seconds in calls)


def test_verbose_prints_a_line_with_rows_and_rate(X, capsys):
    DPKBinsDiscretizer().fit_batches(np.array_split(X, 3), verbose=True)
    DPKBinsDiscretizer().fit_batches(np.array_split(X, 3))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "3 batches, 1,200 rows, " in printed.err and printed.err.endswith(" rows/s\n")


def test_progress_is_printed_at_intervals(monkeypatch, capsys):
    now = iter(np.arange(0.0, 100.0, 0.3))
    monkeypatch.setattr("dpq_sklearn.reading.threads.time.monotonic", lambda: next(now))
    with Progress(verbose=True) as progress:
        for _ in range(3):
            progress.advance(10)
    assert 2 <= capsys.readouterr().err.count("\r") <= 4


@each_transformer
@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_threads_change_nothing(Transformer, n_jobs, X):
    X = np.tile(X, (1, 7))
    kwargs = {"encode": "ordinal"} if Transformer is DPKBinsDiscretizer else {}
    one = Transformer(random_state=0, resolution=24, **kwargs).fit(X)
    many = Transformer(random_state=0, resolution=24, n_jobs=n_jobs, **kwargs).fit(X)
    assert state(one) == state(many)
    assert state(clone(many).fit_batches(np.array_split(X, 3))) == state(one)
    np.testing.assert_array_equal(one.transform(X), many.transform(X))
    transformed = one.transform(X)
    np.testing.assert_array_equal(
        one.inverse_transform(transformed), many.inverse_transform(transformed)
    )


@pytest.mark.parametrize("encode", ["onehot", "onehot-dense", "ordinal"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_over_many_rows_change_nothing(encode, dtype, rng):
    X = rng.normal(size=(200_001, 2)).astype(dtype)
    X[::11, 1] = np.nan
    one = DPKBinsDiscretizer(encode=encode, random_state=0).fit(X)
    outputs = [clone(one).set_params(n_jobs=n).fit(X).transform(X) for n in (1, 2)]
    assert outputs[0].dtype == outputs[1].dtype == dtype
    if encode == "onehot":
        outputs = [output.toarray() for output in outputs]
    np.testing.assert_array_equal(*outputs)


def test_n_jobs_is_read_as_joblib_reads_it():
    assert len(blocks_of_columns(8, None)) == 1
    with joblib.parallel_backend("threading", n_jobs=4):
        assert len(blocks_of_columns(8, None)) == 4
    with joblib.parallel_backend("loky", n_jobs=2):  # threads all the same: nothing is pickled
        assert in_threads(lambda argument: os.getpid(), [1, 2], None) == [os.getpid()] * 2


@pytest.mark.slow
@pytest.mark.parametrize("blocks_of", [blocks_of_rows, blocks_of_columns])
@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 7, 100, 10**6])
def test_blocks_cover_everything_once(blocks_of, n, n_jobs):
    covered = np.zeros(n, dtype=int)
    for block in blocks_of(n, n_jobs):
        covered[block] += 1
    assert np.all(covered == 1)


def test_exceptions_of_threads_arrive():
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda argument: 1 // argument, [1, 0, 1], 2)


def test_many_features_in_one_fit(rng):
    X = rng.normal(size=(200, 1000))
    fitted = DPKBinsDiscretizer(2, delta=1e-6, random_state=0, n_jobs=2).fit_batches([X, X])
    assert fitted.bin_edges_.shape == (1000,)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows():
    """Three million continuous rows at 16 bits: far less memory than the rows would take."""
    code = """
import resource, numpy as np
from dpq_sklearn import DPKBinsDiscretizer
rng = np.random.default_rng(0)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
est = DPKBinsDiscretizer(resolution=16).fit_batches(rng.normal(size=(10_000, 4)) for _ in range(2))
before = peak()
est.fit_batches(rng.normal(size=(10_000, 4)) for _ in range(300))
print(peak() - before)
"""
    pytest.importorskip("resource")
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(result.stdout) * unit < 30e6  # the rows themselves are 96 MB
