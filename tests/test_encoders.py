"""DPOneHotEncoder and DPOrdinalEncoder: only the released categories depend on the rows."""

import itertools
import json
import math
import pickle
import tracemalloc
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import beta
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from dpq_sklearn import (
    BudgetExceededError,
    DPKBinsDiscretizer,
    DPOneHotEncoder,
    DPOrdinalEncoder,
    PrivacyLedger,
    PrivacyNoiseWarning,
    plan_search,
    privacy_of,
    privacy_statement,
    to_sklearn,
)
from dpq_sklearn.accounting.budgets import TotalBudget
from dpq_sklearn.reading.categories import count_columns
from dpq_sklearn.reading.sources.registry import source_of
from dpq_sklearn.releases.categories import plan_categories
from tests.planning import give_releases_one_id_and_time
from tests.test_partition_selection import CONFIDENCE, below_exp

ENCODERS = [DPOneHotEncoder(sparse_output=False), DPOrdinalEncoder()]
both = pytest.mark.parametrize("encoder", ENCODERS, ids=lambda encoder: type(encoder).__name__)


def assert_same_categories(one, other):
    """Compare categories. NumPy does not treat NaN as equal in arrays of objects."""
    assert len(one) == len(other)
    for some, others in zip(one, other, strict=True):
        assert list(map(str, some.tolist())) == list(map(str, others.tolist()))


@pytest.fixture
def table():
    towns = ["Bern"] * 500 + ["Basel"] * 300 + [None] * 100 + ["Ardez"]
    return pd.DataFrame({"town": towns, "stars": [1] * 400 + [5] * 500 + [3]})


@both
def test_frequent_categories_are_found_and_a_single_one_is_not(encoder, table):
    fitted = clone(encoder).fit(table)
    towns, stars = fitted.categories_
    assert towns.tolist()[:2] == ["Basel", "Bern"] and np.isnan(towns[2]) and towns.size == 3
    assert stars.tolist() == [1, 5]
    assert (fitted.privacy_.eps, fitted.privacy_.delta) == (1.0, 1e-6)
    assert fitted.privacy_.rho == fitted.privacy_.pure_eps == math.inf


def test_unknown_rows_are_zeros_or_the_unknown_value_in_the_training_rows_too(table):
    rows = DPOneHotEncoder(sparse_output=False).fit_transform(table)
    assert rows.shape == (901, 5)
    assert rows[-1].tolist() == [0.0] * 5 and rows[:-1].sum(axis=1).tolist() == [2.0] * 900
    numbers = DPOrdinalEncoder(encoded_missing_value=-2).fit_transform(table)
    assert numbers[[0, 500, 800, 900]].tolist() == [[1, 0], [0, 1], [-2, 1], [-1, -1]]


@both
def test_a_fit_sets_the_release_and_public_facts_alone(encoder, table):
    fitted = clone(encoder).fit(table)
    names = {name for name in vars(fitted) if name not in fitted.get_params()}
    names -= {"drop_idx_"}
    assert names == {
        *("n_features_in_", "feature_names_in_", "privacy_"),
        *("categories_", "n_records_needed_", "_stand_ins_"),
    }


@both
def test_a_new_rare_category_changes_nothing_at_all(encoder, table, monkeypatch):
    """The whole state stays the same, byte for byte, for any such category."""
    give_releases_one_id_and_time(monkeypatch)
    encoder = clone(encoder).set_params(random_state=3)
    expected = pickle.dumps(clone(encoder).fit(table.iloc[:-1].astype({"town": object})))
    for label in ("Zug", "\0", "x" * 1000, "Bern ", 7, 0.5, np.inf, 2**70, (1, 2), {}, b"Bern"):
        towns = pd.Series([*table["town"][:-1], label], dtype=object)
        more = pd.DataFrame({"town": towns, "stars": [*table["stars"][:-1], 5]})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted = clone(encoder).fit(more)
        assert pickle.dumps(fitted) == expected


def exact_outcomes(plan, counts):
    """The probability of each release: a set of categories for each column."""
    found = {(): Fraction(1)}
    for selection, of_column in zip(plan.selections, counts, strict=True):
        for category in ("a", "b"):
            kept = Fraction([0, *selection.thresholds][of_column[category]], 2**64)
            found = {
                (*outcome, is_kept): chance * (kept if is_kept else 1 - kept)
                for outcome, chance in found.items()
                for is_kept in (True, False)
            }
    return found


def excess(one, other, eps):
    factor = below_exp(eps)
    return max(
        sum(max(p[outcome] - factor * q[outcome], 0) for outcome in p)
        for p, q in ((one, other), (other, one))
    )


@pytest.mark.parametrize("with_people", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_whole_release_of_two_columns_for_all_neighbours_of_small_tables(with_people):
    """Rows or people are added to all tables of two records; shares of 1 and 2 thirds."""
    eps, delta = 0.8, 0.02
    weights = [1.0, 2.0]
    plan = plan_categories(2, TotalBudget(eps, delta), weights=weights)
    not_shared = plan_categories(2, TotalBudget(2 * eps, 2 * delta), weights=weights)
    rows = list(itertools.product("ab", repeat=2))
    records = [[row] for row in rows]
    if with_people:
        records += [list(pair) for pair in itertools.combinations(rows, 2)]

    def counted(people):
        table = np.array([row for person in people for row in person], dtype=object)
        groups = np.repeat(np.arange(len(people)), [len(person) for person in people])
        return count_columns(table, groups if with_people else None)

    worst = 0
    for before in itertools.combinations_with_replacement(records, 2):
        for new in records:
            counts = counted(before), counted([*before, new])
            one, other = (exact_outcomes(plan, each) for each in counts)
            assert sum(one.values()) == 1
            assert excess(one, other, eps) <= Fraction(delta)
            worst = max(worst, excess(*(exact_outcomes(not_shared, each) for each in counts), eps))
    assert worst > Fraction(delta)


@both
def test_a_fit_stays_within_eps_and_1_3_eps_is_noticed(encoder):
    """Count how many of 20,000 categories with one record, or with two, are released."""
    eps, delta = 1.0, 0.1
    n = 20_000

    def measured(eps_spent):
        kept = []
        for n_records in (1, 2):
            labels = np.repeat(np.arange(n), n_records)[:, None]
            fitted = clone(encoder).set_params(eps=eps_spent, delta=delta, random_state=1)
            kept.append(fitted.fit(labels).categories_[0].size)
        at_most = beta.ppf(1 - CONFIDENCE, kept[0] + 1, n - kept[0])
        at_least = beta.ppf(CONFIDENCE, kept[1], n - kept[1] + 1)
        return math.log((at_least - delta) / at_most)

    assert measured(eps) <= eps
    assert measured(1.3 * eps) > eps


@both
def test_features_share_eps_and_delta_by_their_weights(encoder, table):
    fitted = clone(encoder).set_params(feature_weights={"town": 3.0, "stars": 1.0}).fit(table)
    town, stars = fitted.n_records_needed_
    assert town < stars
    alone = clone(encoder).set_params(eps=0.75, delta=0.75e-6).fit(table[["town"]])
    assert alone.n_records_needed_.tolist() == [town]


class Unreadable(np.ndarray):
    """Cells that must not be looked at."""

    def __getitem__(self, key):
        raise AssertionError("a cell was read")

    tolist = __iter__ = __getitem__


@both
def test_public_categories_cost_nothing_and_read_nothing(encoder):
    X = np.empty((3, 2), dtype=object).view(Unreadable)
    public = [["low", "high"], [1, 2, np.nan]]
    ledger = PrivacyLedger(eps=1e-9)
    encoder = clone(encoder).set_params(categories=public, delta=0.0, ledger=ledger)
    fitted = encoder.fit(X)
    assert [record.eps for record in ledger.records()] == [0.0]
    assert fitted.privacy_.eps == fitted.privacy_.delta == fitted.privacy_.rho == 0
    assert fitted.categories_[0].tolist() == ["low", "high"]
    np.testing.assert_array_equal(fitted.categories_[1], [1, 2, np.nan])
    assert fitted.n_records_needed_.tolist() == [0, 0]
    assert encoder._planned_loss().eps == 0


def test_public_categories_keep_the_order_of_text():
    encoder = DPOrdinalEncoder(categories=[["low", "high"]]).fit([["high"]])
    assert encoder.transform([["low"], ["high"], ["?"]]).ravel().tolist() == [0, 1, -1]


@pytest.mark.parametrize(
    ("categories", "message"),
    [
        ([["a"]], "one list for each of the 2 features, got 1"),
        ([["a"], []], "must hold distinct texts or numbers"),
        ([["a"], ["b", "b"]], "must hold distinct"),
        ([["a"], [1, 1.0]], "must hold distinct"),
        ([["a"], [None, "b"]], "missing value at the end"),
        ([["a"], "bc"], "must hold distinct texts"),
        ([["a"], [(1, 2)]], "must hold distinct texts"),
        ([["a"], [2, 1]], "Unsorted categories"),
    ],
)
def test_wrong_public_categories_are_refused(categories, message):
    with pytest.raises(ValueError, match=message):
        DPOneHotEncoder(categories=categories).fit([["a", "b"]])


@both
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"delta": 0.0}, "delta must be > 0 to find categories privately"),
        ({"eps": 1e-9}, "eps and delta must be larger"),
        ({"feature_weights": [1.0]}, "feature_weights must have one entry"),
        ({"privacy_unit": "person"}, "requires groups"),
        ({"categories": "auto"}, "'categories' parameter"),
    ],
)
def test_wrong_parameters_raise_before_a_cell_is_read(encoder, parameters, message):
    X = np.empty((3, 2), dtype=object).view(Unreadable)
    with pytest.raises(ValueError, match=message):
        clone(encoder).set_params(**parameters).fit(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"unknown_value": 3}, "unknown_value must be a negative integer or NaN"),
        ({"unknown_value": -0.5}, "unknown_value must be a negative integer or NaN"),
        ({"encoded_missing_value": 0}, "encoded_missing_value must be a negative integer"),
        ({"dtype": np.int32}, "encoded_missing_value must be a negative integer for dtype=int32"),
    ],
)
def test_codes_that_a_category_could_have_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        DPOrdinalEncoder(**parameters).fit([["a"]])


def test_integer_codes_have_an_integer_dtype(table):
    encoder = DPOrdinalEncoder(dtype=np.int16, encoded_missing_value=-2)
    assert encoder.fit_transform(table).dtype == np.int16


@both
def test_batches_give_the_release_of_the_whole_table(encoder, table):
    encoder = clone(encoder).set_params(random_state=5, eps=0.05)
    whole = clone(encoder).fit(table)
    batches = [table[600:], table[:7], table[:0], table[7:600]]
    in_parts = clone(encoder).fit_batches(iter(batches))
    assert_same_categories(whole.categories_, in_parts.categories_)


def batches_of_towns(n_batches, n_rows=2_000, n_towns=20):
    rng = np.random.default_rng(0)
    for _ in range(n_batches):
        labels = [f"town {number}" for number in rng.integers(n_towns, size=n_rows)]
        yield pd.DataFrame({"town": labels})


@pytest.mark.parametrize("with_groups", [False, True])
def test_memory_of_batches_is_bounded_by_the_number_of_categories(with_groups):
    peaks = []
    for n_batches in (3, 3, 30):  # the first fit fills caches
        options = {}
        if with_groups:
            people = (np.arange(2_000) + 2_000 * number for number in range(n_batches))
            options = {"groups": people, "groups_are_whole": True}
        tracemalloc.start()
        DPOneHotEncoder(random_state=0).fit_batches(batches_of_towns(n_batches), **options)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.3 * peaks[1]


@both
def test_a_person_with_many_rows_counts_once(encoder, table):
    one_person = clone(encoder).fit(table, groups=np.zeros(len(table)))
    assert [each.size for each in one_person.categories_] == [0, 0]
    assert one_person.privacy_.neighbours.value == "people"
    rows = clone(encoder).set_params(random_state=1).fit(table)
    people = clone(encoder).set_params(random_state=1).fit(table, groups=np.arange(len(table)))
    assert_same_categories(rows.categories_, people.categories_)
    batches = [table[:450], table[450:]]
    labels = [np.zeros(450), np.ones(451)]
    in_parts = clone(encoder).fit_batches(batches, groups=labels, groups_are_whole=True)
    assert [each.size for each in in_parts.categories_] == [0, 0]


@both
def test_a_feature_without_a_released_category_is_warned_about_in_the_same_words(encoder):
    messages = []
    for labels in (["a", "b"], [1.5, None], ["a", "a"]):
        with pytest.warns(PrivacyNoiseWarning, match="no category was released for 1 of 1") as told:
            fitted = clone(encoder).fit(np.array(labels, dtype=object)[:, None])
        messages.append(str(told[0].message))
        assert fitted.categories_[0].size == 0
        assert fitted.transform([["a"]]).shape == (1, len(fitted.get_feature_names_out()))
    assert len(set(messages)) == 1


def containers(table):
    return {
        "pandas": table,
        "pandas objects": table.astype(object),
        "pandas category": table.astype({"town": "category"}),
        "polars": pl.from_pandas(table),
        "Arrow": pl.from_pandas(table).to_arrow(),
        "NumPy": table.to_numpy(dtype=object),
        "list": table.to_numpy(dtype=object).tolist(),
    }


@both
def test_all_containers_give_the_same_release_and_the_same_rows(encoder, table):
    encoder = clone(encoder).set_params(random_state=2)
    expected = clone(encoder).fit_transform(table)
    for name, container in containers(table).items():
        fitted = clone(encoder).fit(container)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X (has|does not have valid) feature names")
            for other in containers(table).values():
                np.testing.assert_array_equal(fitted.transform(other), expected, err_msg=name)


@both
def test_declared_categories_are_not_released(encoder, table):
    declared = pd.CategoricalDtype(["Ardez", "Basel", "Bern", "Zug"])
    fitted = clone(encoder).fit(table.astype({"town": declared}))
    assert fitted.categories_[0].tolist()[:2] == ["Basel", "Bern"]
    assert fitted.categories_[0].size == 3


@pytest.mark.parametrize("drop", [None, "first", "if_binary", ["Bern", 7], [None, 5], [np.nan, 1]])
def test_dropped_categories_have_no_column(table, drop):
    encoder = DPOneHotEncoder(drop=drop, sparse_output=False).fit(table)
    names = ["town_Basel", "town_Bern", "town_nan", "stars_1", "stars_5"]
    dropped = {
        None: set(),
        "first": {"town_Basel", "stars_1"},
        "if_binary": {"stars_1"},
        ("Bern", 7): {"town_Bern"},
        (None, 5): {"stars_5"},
    }.get(tuple(drop) if isinstance(drop, list) else drop, {"town_nan", "stars_1"})
    assert list(encoder.get_feature_names_out()) == [n for n in names if n not in dropped]
    rows = encoder.transform(table)
    every = DPOneHotEncoder(sparse_output=False).fit(table).transform(table)
    kept = [position for position, name in enumerate(names) if name not in dropped]
    np.testing.assert_array_equal(rows, every[:, kept])


def test_wrong_drops_are_refused_before_a_cell_is_read():
    X = np.empty((3, 2), dtype=object).view(Unreadable)
    with pytest.raises(ValueError, match="`drop` should have length equal to the number of feat"):
        DPOneHotEncoder(drop=["a"]).fit(X)


def test_names_can_be_combined_otherwise_and_the_output_is_a_frame(table):
    encoder = DPOneHotEncoder(
        sparse_output=False, feature_name_combiner=lambda name, category: f"{name} is {category}"
    ).set_output(transform="pandas")
    rows = encoder.fit_transform(table)
    assert list(rows.columns)[:2] == ["town is Basel", "town is Bern"]
    with pytest.raises(TypeError, match="should return a Python string"):
        DPOneHotEncoder(feature_name_combiner=lambda *names: names).fit(table)
    with pytest.raises(ValueError, match="Pandas output does not support sparse data"):
        DPOneHotEncoder().set_output(transform="pandas").fit(table)


@both
def test_inverse_transform_returns_the_categories_and_none_for_unknown_ones(encoder, table):
    fitted = clone(encoder).fit(table)
    back = fitted.inverse_transform(fitted.transform(table))
    assert back[0].tolist() == ["Bern", 1] and back[-1].tolist() == [None, None]
    assert np.isnan(back[850, 0]) and back[850, 1] == 5
    known = DPOrdinalEncoder().fit(table[["stars"]])
    assert known.inverse_transform([[0], [1]]).dtype == np.int64
    with pytest.raises(ValueError, match="must hold codes of categories, 0 to 1"):
        known.inverse_transform([[2.0]])


def test_inverse_transform_of_dropped_categories(table):
    encoder = DPOneHotEncoder(drop=["Bern", 5]).fit(table)
    back = encoder.inverse_transform(encoder.transform(table))
    assert back[0].tolist() == ["Bern", 1] and back[500].tolist() == ["Basel", 5]


def with_nan(table):
    """Replace None by NaN, which is scikit-learn's missing text."""
    return table.astype(object).where(table.notna(), np.nan).astype({"stars": table["stars"].dtype})


@pytest.mark.parametrize(
    "encoder",
    [
        *ENCODERS,
        DPOneHotEncoder(),
        DPOneHotEncoder(drop="if_binary"),
        DPOneHotEncoder(drop=["Ardez", 5]),
        DPOrdinalEncoder(unknown_value=np.nan, encoded_missing_value=-2),
        DPOrdinalEncoder(categories=[["Bern", "Basel"], [1, 3]]),
        DPOneHotEncoder(eps=0.001),
        DPOrdinalEncoder(eps=0.001),
        DPOneHotEncoder(eps=0.5, feature_weights=[1, 100], drop="first"),
        DPOneHotEncoder(eps=0.5, feature_weights=[100, 1]),
    ],
    ids=repr,
)
def test_the_plain_encoder_does_the_same(encoder, table):
    table = with_nan(table)
    fitted = clone(encoder).fit(table)
    plain = fitted.to_sklearn()
    assert type(plain) in (OneHotEncoder, OrdinalEncoder)
    assert b"dpq" not in pickle.dumps(plain)
    expected = fitted.transform(table)
    rows = plain.transform(table)
    if hasattr(rows, "toarray"):
        rows, expected = rows.toarray(), expected.toarray()
    np.testing.assert_array_equal(rows, expected)
    assert list(plain.get_feature_names_out()) == list(fitted.get_feature_names_out())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float32", "bool", object])
@both
def test_the_plain_encoder_takes_columns_without_a_category(encoder, dtype):
    if dtype == "bool" and isinstance(encoder, DPOrdinalEncoder):
        pytest.skip("both booleans are categories of scikit-learn's encoder")
    X = np.array([[0], [1], [0]]).astype(dtype)
    fitted = clone(encoder).fit(X)
    assert fitted.categories_[0].size == 0
    np.testing.assert_array_equal(fitted.to_sklearn().transform(X), fitted.transform(X))


def test_pipelines_with_encoders_become_plain(table):
    y = np.arange(len(table)) % 2
    table = with_nan(table)
    columns = make_column_transformer(
        (DPOneHotEncoder(), ["town"]), (DPOrdinalEncoder(), ["stars"]), sparse_threshold=0
    )
    pipeline = make_pipeline(columns, LogisticRegression()).fit(table, y)
    plain = to_sklearn(pipeline)
    assert b"dpq" not in pickle.dumps(plain)
    np.testing.assert_array_equal(plain.predict_proba(table), pipeline.predict_proba(table))
    again = clone(plain).fit(table, y)  # the settings of what is not fitted are right, too
    assert again[0].transformers_[1][1].categories_[0].tolist() == [1, 3, 5]


@pytest.mark.slow
def test_skops_and_onnx_take_the_plain_encoders(table, tmp_path):
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

    text = table[["town"]].fillna("unknown town")
    for encoder in (DPOneHotEncoder(sparse_output=False), DPOrdinalEncoder(dtype=np.float32)):
        encoder.fit(text)
        plain = encoder.to_sklearn()

        skops.dump(plain, tmp_path / "plain.skops")
        loaded = skops.load(tmp_path / "plain.skops")
        np.testing.assert_array_equal(loaded.transform(text), encoder.transform(text))

        kind = skl2onnx.common.data_types.StringTensorType([None, 1])
        onnx = skl2onnx.convert_sklearn(plain, initial_types=[("X", kind)])
        session = runtime.InferenceSession(onnx.SerializeToString())
        # ONNX has no value for unknown categories of an OrdinalEncoder, so the last row is left out
        (rows,) = session.run(None, {"X": text.to_numpy(dtype=object)[:-1]})
        np.testing.assert_array_equal(rows, encoder.transform(text)[:-1])


def test_everything_is_released_with_next_to_no_noise_as_scikit_learn_does(table):
    table = with_nan(pd.concat([table] * 60))
    for encoder, plain in (
        (DPOneHotEncoder(), OneHotEncoder()),
        (DPOrdinalEncoder(), OrdinalEncoder()),
    ):
        fitted = encoder.set_params(eps=100.0).fit(table)
        plain.fit(table)
        assert_same_categories(fitted.categories_, plain.categories_)
        rows, expected = fitted.transform(table), plain.transform(table)
        if hasattr(rows, "toarray"):
            rows, expected = rows.toarray(), expected.toarray()
        np.testing.assert_array_equal(rows, expected)


def test_bins_and_categories_of_a_mixed_table_in_one_pipeline(table):
    table["income"] = np.random.default_rng(0).lognormal(size=len(table))
    y = np.arange(len(table)) % 2
    columns = make_column_transformer(
        (DPOneHotEncoder(), ["town", "stars"]), (DPKBinsDiscretizer(4), ["income"])
    )
    pipeline = make_pipeline(columns, LogisticRegression()).fit(table, y)
    assert pipeline[:-1].transform(table).shape == (901, 9)


def test_a_ledger_with_a_delta_pays_for_encoders_that_come_first(table):
    ledger = PrivacyLedger(eps=2.0, delta=1e-5)
    columns = make_column_transformer(
        (DPOneHotEncoder(ledger=ledger), ["town"]),
        (DPKBinsDiscretizer(4, eps=0.5, ledger=ledger), ["stars"]),
    )
    assert ledger.check(columns)
    columns.fit(table)
    first, second = ledger.records()
    assert (first.what, first.columns) == ("DPOneHotEncoder.fit", ("town",))
    assert (first.eps, first.delta, first.rho, first.eps_in_ledger) == (1.0, 1e-6, math.inf, 1.0)
    assert second.what == "DPKBinsDiscretizer.fit"
    assert (ledger.spent().eps, ledger.spent().delta) == (1.5, 1e-6)
    with pytest.raises(BudgetExceededError):
        DPOrdinalEncoder(ledger=ledger).fit(table)
    for other in (PrivacyLedger(eps=9.0), PrivacyLedger(rho=9.0)):
        with pytest.raises(BudgetExceededError):
            DPOrdinalEncoder(ledger=other).fit(np.empty((3, 2), dtype=object).view(Unreadable))


def test_plans_and_statements_know_encoders(table):
    columns = make_column_transformer(
        (DPOneHotEncoder(eps=0.5), ["town"]),
        (DPOrdinalEncoder(categories=[[1, 3, 5]]), ["stars"]),
    )
    pipeline = make_pipeline(columns, LogisticRegression())
    search = GridSearchCV(pipeline, {"logisticregression__C": [1.0, 2.0]}, cv=3)
    total = plan_search(search).total
    assert total.eps == pytest.approx(7 * 0.5) and total.delta == pytest.approx(7e-6)

    pipeline.fit(table, np.arange(len(table)) % 2)
    inside = privacy_of(pipeline)
    assert (inside.total.eps, inside.total.delta, inside.holds) == (0.5, 1e-6, True)
    statement = privacy_statement(pipeline)
    assert "| town | Basel, Bern, nan |" in statement and "| stars | 1, 3, 5 |" in statement
    assert "public facts alone: no rows were read" in statement

    found = json.loads(json.dumps(columns.transformers_[0][1].privacy_.to_dict()))
    assert found["dp_flavor"]["name"] == "Approximate DP"
    assert found["dpq_sklearn"]["rho"] is None
    assert "1 x partition selection" in found["implementation"]["mechanisms"]


def test_losses_of_encoders_survive_a_pickle(table):
    fitted = DPOneHotEncoder().fit(table)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.privacy_ == fitted.privacy_ and again.privacy_.events == fitted.privacy_.events


@both
def test_dask_gives_what_memory_gives(encoder, table):
    dask_frames = pytest.importorskip("dask.dataframe")
    encoder = clone(encoder).set_params(random_state=4)
    whole = clone(encoder).fit(table)
    for n_partitions in (1, 3, 20):
        parts = dask_frames.from_pandas(table, npartitions=n_partitions, sort=False)
        fitted = clone(encoder).fit(parts)
        assert_same_categories(fitted.categories_, whole.categories_)
        with pytest.raises(TypeError, match="inverse_transform of categories needs rows in memory"):
            fitted.inverse_transform(fitted.transform(parts))
        rows = fitted.transform(parts).compute()
        np.testing.assert_array_equal(rows, whole.transform(table))
        assert list(rows.columns) == list(whole.get_feature_names_out())


@both
@pytest.mark.parametrize("kind", ["a column", "a series", "an array"])
def test_people_in_dask_count_once_as_in_memory(encoder, kind, rng):
    """A person's rows are in several partitions, and often there is a tie."""
    dask = pytest.importorskip("dask")
    dask_frames = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(
        {
            "town": rng.choice(["Bern", "Basel", "Zug", "Chur"], size=600),
            "stars": rng.choice([1.0, 2.5, np.nan], size=600),
            "who": rng.integers(0, 150, size=600),
        }
    )
    frame["town"] = frame["town"].astype("category")
    encoder = clone(encoder).set_params(random_state=4, eps=0.7)
    expected = clone(encoder).fit(frame[["town", "stars"]], groups=frame["who"])
    by_rows = clone(encoder).fit(frame[["town", "stars"]])
    assert count_columns(frame[["stars"]], frame["who"]) != count_columns(frame[["stars"]])

    with dask.config.set(scheduler="synchronous"):
        for n_partitions in (1, 7):
            partitions = dask_frames.from_pandas(frame, npartitions=n_partitions)
            features = partitions[["town", "stars"]]
            if kind == "a column":
                fitted = clone(encoder).fit(partitions, groups="who")
            elif kind == "a series":
                fitted = clone(encoder).fit(features, groups=partitions["who"])
            else:
                stars = partitions[["stars"]].to_dask_array(lengths=True)
                who = partitions["who"].to_dask_array(lengths=True)
                fitted = clone(encoder).fit(stars, groups=who)
                expected = clone(encoder).fit(frame[["stars"]], groups=frame["who"])
            assert_same_categories(fitted.categories_, expected.categories_)
            assert fitted.privacy_ == expected.privacy_
    assert by_rows.privacy_ != expected.privacy_


def test_counts_of_people_in_dask_are_those_of_memory(rng):
    dask = pytest.importorskip("dask")
    dask_frames = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"x": rng.choice([1, 2.5, None, "1"], size=200)}, dtype=object)
    frame["who"] = rng.integers(0, 60, size=200)
    with dask.config.set({"scheduler": "synchronous", "dataframe.convert-string": False}):
        partitions = dask_frames.from_pandas(frame, npartitions=5)
        counts = source_of(partitions, "who").count_categories()
    assert counts == count_columns(frame[["x"]], frame["who"])
    assert counts[0].total() == frame["who"].nunique()


@both
def test_wrong_groups_in_dask_are_refused_before_they_are_paid(encoder, table):
    dask_frames = pytest.importorskip("dask.dataframe")
    ledger = PrivacyLedger(neighbours="people")
    partitions = dask_frames.from_pandas(table, npartitions=2)
    with pytest.raises(ValueError, match="groups must be the name of a column of the dask"):
        clone(encoder).set_params(ledger=ledger).fit(partitions, groups="nobody")
    assert ledger.records() == []
