"""Spark DataFrames, in local mode: no UI, nothing listens beyond this machine."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPOneHotEncoder,
    DPOrdinalEncoder,
    DPQuantileTransformer,
    PrivacyLedger,
    dp_describe,
)
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.reading.sources.memory import MemorySource
from dpq_sklearn.reading.sources.registry import source_of
from dpq_sklearn.reading.summaries import SUMMARY_RESOLUTION
from tests.marks import WITHOUT_JAVA, has_java

pyspark = pytest.importorskip("pyspark", reason="PySpark is not installed")
pa = pytest.importorskip("pyarrow")
if not has_java:
    pytest.skip(WITHOUT_JAVA, allow_module_level=True)

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]

ROOT = Path(__file__).parents[1]
TRANSFORMERS = {
    "ordinal": DPKBinsDiscretizer(encode="ordinal", random_state=0),
    "dense": DPKBinsDiscretizer([3, 4, 5], encode="onehot-dense", random_state=0),
    "normal": DPQuantileTransformer(7, output_distribution="normal", random_state=0),
}
FEATURES = ["a", "b.c", "year"]


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
        # Else few rows would all be brought to one partition, where nobody can be split.
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        builder = SparkSession.builder.master("local[2,3]")  # a task may fail twice
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.lognormal(size=(1500, 2)), columns=["a", "b.c"])
    frame["year"] = rng.integers(1900, 2020, size=1500)
    frame["who"] = rng.integers(0, 200, size=1500)
    frame.loc[::7, "b.c"] = np.nan
    return frame


def in_spark(spark, frame, n_partitions=3, empty=False):
    """Return a Spark DataFrame with the rows in this order, in so many partitions."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    schema = spark.createDataFrame(table.slice(0, 1)).schema
    pieces = np.array_split(np.arange(len(frame)), n_partitions)
    if empty:
        pieces = [[], *pieces, [], []]

    rows = [
        [tuple(row.values()) for row in table.take(pa.array(piece, pa.int64())).to_pylist()]
        for piece in pieces
    ]
    rdd = spark.sparkContext.parallelize(rows, len(rows)).flatMap(lambda of_part: of_part)
    return spark.createDataFrame(rdd, schema)


def in_memory(transformer, frame, groups=None):
    return clone(transformer).set_params(resolution=24).fit(frame, groups=groups)


def assert_same_fit(one, other):
    for name in ("quantiles_", "references_", "n_bins_", "feature_names_in_"):
        if hasattr(one, name):
            assert np.array_equal(getattr(one, name), getattr(other, name))
    for edges in zip(getattr(one, "bin_edges_", []), getattr(other, "bin_edges_", []), strict=True):
        assert np.array_equal(*edges)
    assert one.privacy_ == other.privacy_
    assert one.n_rows_ == other.n_rows_


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_spark_gives_what_memory_gives_and_stays_in_spark(name, spark, frame):
    rows = in_spark(spark, frame[FEATURES], empty=True)
    transformer = TRANSFORMERS[name]
    expected, fitted = in_memory(transformer, frame[FEATURES]), clone(transformer).fit(rows)
    assert_same_fit(expected, fitted)
    transformed = fitted.transform(rows)
    assert isinstance(transformed, pyspark.sql.DataFrame)
    assert transformed.columns == list(expected.get_feature_names_out())
    in_order = expected.transform(frame[FEATURES])
    np.testing.assert_array_equal(transformed.toPandas(), in_order)
    back = fitted.inverse_transform(transformed)
    assert back.columns == FEATURES
    np.testing.assert_array_equal(back.toPandas(), expected.inverse_transform(in_order))


@pytest.mark.parametrize("n_partitions", [1, 7])
def test_partitions_do_not_matter(n_partitions, spark, frame):
    transformer = TRANSFORMERS["ordinal"]
    rows = in_spark(spark, frame[FEATURES], n_partitions)
    assert_same_fit(in_memory(transformer, frame[FEATURES]), clone(transformer).fit(rows))
    mixed = rows.repartition(5)
    assert_same_fit(in_memory(transformer, frame[FEATURES]), clone(transformer).fit(mixed))


def test_transform_is_lazy(spark, frame, tmp_path):
    reads = str(tmp_path / "reads")

    def reading(batches):
        for batch in batches:
            with open(reads, "a") as file:
                file.write("x")
            yield batch

    rows = in_spark(spark, frame[["a"]], 1)
    rows = rows.mapInArrow(reading, rows.schema)
    fitted = clone(TRANSFORMERS["ordinal"]).fit(rows)
    once = Path(reads).read_text()
    fitted.inverse_transform(fitted.transform(rows))
    assert Path(reads).read_text() == once


def test_null_and_nan_are_missing_and_every_type_of_number_is_fine(spark):
    cells = [1, None, 3, 4, 5, 7, 9] * 40
    rows = spark.createDataFrame(
        [(x, x, x, x, None if x is None else x > 4) for x in cells],
        "b tinyint, s smallint, i int, l bigint, t boolean",
    ).selectExpr("*", "float(l) f", "case when l is null then double('NaN') else double(l) end d")
    column = np.array(cells, dtype=float)
    truth = np.where(np.isnan(column), np.nan, column > 4)
    frame = pd.DataFrame({name: column for name in "bsil"} | {"t": truth, "f": column, "d": column})
    transformer = TRANSFORMERS["ordinal"]
    fitted = clone(transformer).fit(rows)
    assert_same_fit(in_memory(transformer, frame), fitted)
    np.testing.assert_array_equal(fitted.transform(rows).toPandas(), fitted.transform(frame))


def test_the_types_of_a_schema_are_taken_at_their_word(spark, frame):
    years = frame[["year"]].assign(is_late=frame["year"] > 2000)
    transformer = DPKBinsDiscretizer(encode="ordinal", decimals="schema", random_state=0)
    fitted = clone(transformer).fit(in_spark(spark, years))
    assert_same_fit(in_memory(transformer, years), fitted)
    assert all(edge == int(edge) for edge in fitted.bin_edges_[0][1:-1])


LABELS = {
    "integers": lambda who: who + 2**60,
    "text": lambda who: who.map("person {}".format).where(who > 5, None),
    "floats": lambda who: who.astype(float).mask(who < 3).mask((who > 3) & (who < 9), -0.0),
    "dates": lambda who: pd.to_datetime("1950-01-01") + pd.to_timedelta(who, unit="D"),
}


@pytest.mark.parametrize("kind", LABELS)
def test_people_are_the_same_in_memory_and_in_spark(kind, spark, frame):
    frame = frame.assign(who=LABELS[kind](frame["who"]))
    if kind == "floats":  # some of the zeros, in other partitions, have the other sign
        frame.loc[frame.index[::2], "who"] += 0.0
    transformer = TRANSFORMERS["ordinal"]
    expected = in_memory(transformer, frame[FEATURES], frame["who"])
    for n_partitions, empty in [(1, False), (5, True)]:
        rows = in_spark(spark, frame[["a", "b.c", "who", "year"]], n_partitions, empty)
        fitted = clone(transformer).fit(rows, groups="who")
        assert_same_fit(expected, fitted)
        assert list(fitted.feature_names_in_) == FEATURES


def test_spark_dask_batches_and_memory_agree_about_rows_and_people(spark, frame):
    dd = pytest.importorskip("dask.dataframe")
    frame = frame.sort_values("who", kind="stable", ignore_index=True)
    rows, parts = in_spark(spark, frame), dd.from_pandas(frame, npartitions=4)
    transformer = TRANSFORMERS["ordinal"]
    for groups in (None, "who"):
        names = FEATURES if groups else list(frame)
        expected = in_memory(transformer, frame[names], groups and frame[groups])
        assert_same_fit(expected, clone(transformer).fit(rows, groups=groups))
        assert_same_fit(expected, clone(transformer).fit(parts, groups=groups))
        halves = [frame[frame["who"] < 90], frame[frame["who"] >= 90]]
        labels = {}
        if groups:
            labels = {"groups": [half["who"] for half in halves], "groups_are_whole": True}
        batches = [half[names] for half in halves]
        assert_same_fit(expected, clone(transformer).fit_batches(batches, **labels))


def test_what_leaves_the_executors_is_one_summary_without_labels(spark, frame):
    rows = in_spark(spark, frame.assign(who=frame["who"].map("the secret of {}".format)), 5)
    grid = make_grid([(-np.inf, np.inf)] * 3, 24)
    sent = source_of(rows, "who")._merged_summaries(grid)
    assert sent.columns == ["number", "summary"]
    collected = sent.collect()
    numbers = [row["number"] for row in collected if row["number"] >= 0]
    assert len(numbers) == len(set(numbers)) > 20  # every range of cells is there once
    assert not [row for row in collected if b"secret" in bytes(row["summary"])]


def people_ledger(tmp_path):
    return PrivacyLedger(tmp_path / "people.sqlite", eps=10.0, neighbours="people")


def test_what_cannot_be_fitted_is_refused_before_it_is_paid(spark, frame, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", eps=10.0)
    rows = spark.range(5).selectExpr(
        "double(id) x", "string(id) name", "cast(id as decimal(9, 2)) price",
        "date('2020-01-01') day", "array(id) list", "timestamp_seconds(id) at", "struct(id) s",
    )  # fmt: skip
    words = r"'price' \(decimal\(9,2\)\), 'list' \(array<bigint>\), 's' \(struct<id:bigint>\)"
    with pytest.raises(ValueError, match=words):
        DPKBinsDiscretizer(ledger=ledger).fit(rows)
    with pytest.raises(
        ValueError, match="column 'name' of X must hold real numbers, got dtype string"
    ):
        DPKBinsDiscretizer(ledger=ledger).fit(rows.select("x", "name"))
    with pytest.raises(ValueError, match="names of X must be distinct, got 'x' several times"):
        DPKBinsDiscretizer(ledger=ledger).fit(rows.selectExpr("x", "-x x", "x y"))
    with pytest.raises(TypeError, match=r"must be a pyspark.sql.DataFrame, got pyspark.sql"):
        DPKBinsDiscretizer(ledger=ledger).fit(rows["x"])
    with pytest.raises(TypeError, match="batches must be an iterable of tables"):
        DPKBinsDiscretizer(ledger=ledger).fit_batches(rows.select("x"))
    assert ledger.spent().eps == 0

    ledger = people_ledger(tmp_path)
    cases = [
        ("nobody", ValueError, "name of one column of the Spark DataFrame, got 'nobody'"),
        (np.arange(5), TypeError, "got an object of type ndarray"),
        (rows["x"], TypeError, "got an object of type Column"),
        ("list", TypeError, "hashable labels, such as numbers or strings, got the type array"),
        ("s", TypeError, "hashable labels, such as numbers or strings, got the type struct"),
    ]
    for groups, error, message in cases:
        with pytest.raises(error, match=message):
            DPKBinsDiscretizer(ledger=ledger).fit(rows.select("x", "list", "s"), groups=groups)
    assert ledger.spent().eps == 0

    fitted = DPKBinsDiscretizer(encode="ordinal").fit(rows.select("x"))
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.transform(rows.selectExpr("x y"))
    with pytest.raises(ValueError, match="keep their container"):
        fitted.set_output(transform="pandas").transform(rows.select("x"))
    with pytest.raises(ValueError, match='cannot hold the sparse rows of encode="onehot"'):
        DPKBinsDiscretizer().fit(rows.select("x")).transform(rows.select("x"))


def test_no_rows_raise_what_fit_raises(spark):
    for nothing in (spark.range(9).where("id < 0"), spark.createDataFrame([], "x double")):
        with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
            DPKBinsDiscretizer().fit(nothing)


def test_ledger_is_charged_before_a_task_starts(spark, frame, tmp_path):
    path = str(tmp_path / "ledger.sqlite")
    ledger = PrivacyLedger(path, eps=1.0)
    seen = str(tmp_path / "seen")

    def reading(batches):
        with open(seen, "a") as file:
            file.write(f"{PrivacyLedger(path).spent().eps} ")
        yield from batches

    rows = in_spark(spark, frame[["a"]], 2)
    rows = rows.mapInArrow(reading, rows.schema)
    DPKBinsDiscretizer(ledger=ledger).fit(rows)
    assert set(Path(seen).read_text().split()) == {"1.0"}


def fails(folder, times, message):
    """Return a map that fails so many times, each time when half of a partition is through."""

    def function(batches):
        for batch in batches:
            yield batch.slice(0, batch.num_rows // 2)
            for attempt in range(times):
                try:
                    os.close(os.open(f"{folder}/failed{attempt}", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                raise ValueError(message)
            yield batch.slice(batch.num_rows // 2)

    return function


@pytest.mark.parametrize("groups", [None, "who"])
def test_a_task_that_is_tried_again_changes_nothing(groups, spark, frame, tmp_path):
    """The first half of a partition is computed two or three times, and counts once."""
    frame = frame.rename(columns={"b.c": "b"})
    rows = in_spark(spark, frame, 3)
    weak = rows.mapInArrow(fails(str(tmp_path), 2, "weak"), rows.schema)
    transformer = TRANSFORMERS["ordinal"]
    fitted = clone(transformer).fit(weak, groups=groups)
    assert len(list(tmp_path.glob("failed*"))) == 2
    names = ["a", "b", "year"] if groups else list(frame)
    assert_same_fit(in_memory(transformer, frame[names], groups and frame[groups]), fitted)


def test_a_job_that_fails_leaves_nothing_and_tells_no_cell(spark, frame, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", eps=2.0)
    rows = in_spark(spark, frame[["a"]], 2)
    fitted = DPKBinsDiscretizer(ledger=ledger).fit(rows)
    broken = rows.mapInArrow(fails(str(tmp_path), 99, "a secret cell"), rows.schema)
    with pytest.raises(RuntimeError, match="Spark could not read the rows") as caught:
        fitted.fit(broken)
    assert "secret" not in str(caught.value) and "a ledger stays charged" in str(caught.value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    with pytest.raises(NotFittedError):
        check_is_fitted(fitted)
    assert len(ledger.records()) == 2


def test_errors_of_executors_have_no_words_of_others():
    """An error of our code in an executor is reported by its type only."""
    from dpq_sklearn.reading.sources import spark as module

    def function(batches):
        raise KeyError("a secret cell")

    with pytest.raises(module.TaskFailedError, match=r"failed: KeyError$") as caught:
        list(module._clean(function)([]))
    assert caught.value.__context__ is None
    assert module._reason_of(RuntimeError(f"Traceback: {caught.value}\n at java")) == "KeyError"
    assert module._reason_of(OSError("a secret cell")) == "OSError"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds executors by /proc")
def test_an_executor_that_dies_changes_nothing(tmp_path):
    """Its partitions are computed again, those that were finished too, and count once."""
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    script = [sys.executable, str(ROOT / "tests" / "spark_cluster.py"), str(tmp_path / "reads")]
    (tmp_path / "reads").mkdir()
    # Spark makes folders for the executors where it is started.
    result = subprocess.run(
        script, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=900
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert (tmp_path / "reads" / "died").exists()
    assert int(result.stdout.rpartition("most reads of a partition: ")[2]) >= 2


@pytest.mark.parametrize("groups", [None, "who"])
def test_columns_of_numbers_are_described_and_labels_are_not(groups, spark, frame):
    frame = frame.assign(text="x", truth=True)
    described = dp_describe(in_spark(spark, frame), groups=groups, random_state=0)
    if groups is None:
        expected = dp_describe(iter([frame]), random_state=0)
        assert list(expected.columns) == [*FEATURES, "who"]
        assert described.equals(expected)
    else:
        assert list(described.columns) == FEATURES
        assert abs(described.loc["count", "year"] - frame["who"].nunique()) < 200

    with pytest.raises(
        ValueError, match=r"column of numbers or dates, got 'text' \(string\), 'truth' \(boolean\)"
    ):
        dp_describe(in_spark(spark, frame[["text", "truth"]]))


def test_dates_are_the_same_in_memory_and_in_spark(spark, rng):
    seen = pd.Timestamp("2007-11-11") + pd.to_timedelta(rng.integers(0, 750, size=400), "D")
    frame = pd.DataFrame({"seen": seen.astype("M8[us]"), "day": seen.date, "mass": 1.0})
    rows = spark.createDataFrame(frame, "seen timestamp_ntz, day date, mass double")
    typed = frame.assign(day=frame["day"].astype("date32[pyarrow]"))
    transformer = DPKBinsDiscretizer(4, eps=20, encode="ordinal", random_state=0)
    expected = clone(transformer).set_params(resolution=24).fit(typed)
    fitted = clone(transformer).fit(rows)
    for edges, of_spark in zip(expected.bin_edges_, fitted.bin_edges_, strict=True):
        np.testing.assert_array_equal(of_spark, edges)
    transformed = np.array(fitted.transform(rows).collect())
    np.testing.assert_array_equal(
        np.sort(transformed, axis=0), np.sort(expected.transform(typed), axis=0)
    )
    assert list(dp_describe(rows).columns) == ["seen", "day", "mass"]


# Categories and segments


@pytest.fixture
def labelled(frame):
    """Rows with labels of several types; people have rows in several segments, and ties."""
    rng = np.random.default_rng(2)
    region = pd.Series(rng.choice(["north", "south", "east", None], size=1500), dtype=object)
    return frame.assign(
        region=region,
        level=rng.choice([1.0, 2.5, np.nan], size=1500),
        is_new=rng.random(1500) < 0.3,
    )


LABELS_OF_CATEGORIES = ["region", "level", "is_new", "year"]


@pytest.mark.parametrize("groups", [None, "who"])
def test_categories_are_the_same_in_memory_and_in_spark(groups, spark, labelled):
    names = LABELS_OF_CATEGORIES if groups is None else [*LABELS_OF_CATEGORIES, groups]
    rows = in_spark(spark, labelled[names], 5, empty=True)
    expected = source_of(labelled[names], groups).count_categories()
    assert source_of(rows, groups).count_categories() == expected
    assert expected[0].total() == (1500 if groups is None else labelled["who"].nunique())

    encoder = DPOrdinalEncoder(eps=2.0, dtype=np.int16, encoded_missing_value=-2, random_state=0)
    in_memory = clone(encoder).fit(labelled[names], groups=groups)
    fitted = clone(encoder).fit(rows, groups=groups)
    assert [len(each) for each in fitted.categories_][:2] == [4, 3]
    for one, other in zip(fitted.categories_, in_memory.categories_, strict=True):
        assert list(map(str, one)) == list(map(str, other))
    assert fitted.privacy_ == in_memory.privacy_

    features = rows.select(*LABELS_OF_CATEGORIES)
    transformed = fitted.transform(features).toPandas()
    np.testing.assert_array_equal(transformed, in_memory.transform(labelled[names[:4]]))
    with pytest.raises(TypeError, match="inverse_transform of categories needs rows in memory"):
        fitted.inverse_transform(fitted.transform(features))
    with pytest.raises(ValueError, match="for an encoder, sparse_output=False"):
        DPOneHotEncoder(categories=[["north"]]).fit_transform(rows.select("region"))


PRIVATE_KEYS = {"by": ["region", "is_new"], "keys": "private", "delta": 1e-3, "eps": 3.0}
PUBLIC_KEYS = {"by": "region", "keys": ["south", None, "west"]}


@pytest.mark.filterwarnings("ignore::UserWarning")  # of noise, and of a large delta
@pytest.mark.parametrize("groups", [None, "who"])
@pytest.mark.parametrize("options", [PRIVATE_KEYS, PUBLIC_KEYS], ids=["private", "public"])
def test_segments_are_the_same_in_memory_and_in_spark(
    groups, options, spark, labelled, monkeypatch
):
    monkeypatch.setattr(MemorySource, "default_resolution", SUMMARY_RESOLUTION)
    options = {**options, "groups": groups, "random_state": 0, "return_privacy": True}
    expected, loss = dp_describe(labelled, **options)
    found, loss_of_spark = dp_describe(in_spark(spark, labelled, 5, empty=True), **options)
    assert found.equals(expected)
    assert len(found) >= 3 and ("b.c", "50%") in found.columns
    assert loss_of_spark == loss


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_number_of_jobs_does_not_depend_on_cells(spark, labelled):
    """A category or a key more, or none at all, starts no other jobs."""
    tables = [labelled, labelled.assign(region=labelled["who"].map(str), level=0.0)]
    n_jobs = []
    for number, table in enumerate(tables):
        rows = in_spark(spark, table[["a", "region", "level", "who"]])
        spark.sparkContext.setJobGroup(f"cells {number}", "counted")
        DPOrdinalEncoder(random_state=0).fit(rows.select("region", "level"))
        dp_describe(rows, by="region", keys=["north", "south"], groups="who", random_state=0)
        n_jobs.append(len(spark.sparkContext.statusTracker().getJobIdsForGroup(f"cells {number}")))
    assert n_jobs[0] == n_jobs[1] > 0


def test_wrong_segments_are_refused_before_they_are_paid(spark, labelled):
    ledger = PrivacyLedger(eps=1.0)
    rows = in_spark(spark, labelled).selectExpr("*", "array(who) list", "date('2020-01-01') day")
    cases = [
        ({"by": "nothing"}, "by must be the name of one column"),
        ({"by": ["region", "region"], "keys": [("a", "b")]}, "by must be the name of one column"),
        ({"by": "list"}, "'list'"),
        ({"by": "day"}, "must hold text, numbers or booleans"),
        ({"by": "who", "groups": "who"}, "by must be the name of one column"),
        ({"by": "region", "keys": "private"}, "requires eps and delta > 0"),
    ]
    for options, words in cases:
        with pytest.raises(ValueError, match=words):
            dp_describe(rows, **{"keys": ["north"], "ledger": ledger, **options})
    with pytest.raises(ValueError, match="a column of numbers or dates"):
        dp_describe(rows.select("region", "is_new"), by="region", keys=["north"], ledger=ledger)
    assert ledger.records() == []
