"""People: labels of every kind, shares that depend on nobody else, one price for all rows."""

import collections
import datetime
import decimal
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import estimator_html_repr

from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPQuantileTransformer,
    DPRobustScaler,
    PrivacyLedger,
    dp_count,
    dp_describe,
    dp_histogram,
    dp_quantiles,
    plan_search,
    sanitize,
)
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.engine.grid import make_grid
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.engine.weighted_ranks import WeightedRanks
from dpq_sklearn.mechanisms.agg_tree import tree_counts
from dpq_sklearn.reading.groups import _FEW_ROWS, checked_groups, weights_of_rows
from dpq_sklearn.reading.sources.memory import MemorySource
from dpq_sklearn.reading.summaries import summarize
from tests.enumeration import around_cells, place_weights, tiny_grid, whole_node
from tests.planning import give_releases_one_id_and_time, request_of
from tests.test_aq import OTHERS, with_person
from tests.test_estimators import OF_THE_RELEASE, RELEASED, released, walk, without_numbers

BOTH = [DPKBinsDiscretizer(4, encode="ordinal"), DPQuantileTransformer(7), DPRobustScaler()]
both = pytest.mark.parametrize("estimator", BOTH, ids=lambda e: type(e).__name__)
MECHANISMS = ["aq", "agg_tree", "auto"]


def people_ledger(folder):
    return PrivacyLedger(folder / "ledger.db", neighbours="people", uncapped=True)


BIG = 2**60  # a float cannot tell it from the next integers


def shares(groups):
    """The number of people, and the share of a record that each row has."""
    weights, n_people = weights_of_rows(groups)
    return n_people, (weights / RECORD_WEIGHT).tolist()


# Shares


@given(st.lists(st.integers(0, 5), max_size=60))
def test_the_rows_of_a_person_share_a_record_exactly_and_evenly(labels):
    weights, n_people = weights_of_rows(labels)
    assert n_people == len(set(labels))
    for person in set(labels):
        own = weights[np.array(labels) == person]
        assert own.sum() == RECORD_WEIGHT
        assert np.ptp(own) < own.size


@pytest.mark.parametrize(
    "k", [_FEW_ROWS - 1, _FEW_ROWS, _FEW_ROWS + 1, 5000, RECORD_WEIGHT // 2 + 1, RECORD_WEIGHT + 9]
)
def test_the_rows_of_a_person_with_many_share_a_record_just_as_evenly(k):
    weights, n_people = weights_of_rows(np.arange(k + 3) // k)
    assert weights[:k].sum() == RECORD_WEIGHT == weights[k:].sum() and n_people == 2
    assert np.ptp(weights[:k]) <= (1 if k > _FEW_ROWS else RECORD_WEIGHT // 512)


@given(
    st.lists(st.integers(0, 3), max_size=30),
    st.lists(st.integers(0, 30), max_size=8),
    st.booleans(),
)
def test_a_person_more_leaves_the_shares_of_the_others_alone(labels, places, is_text):
    """Rows of the same person in between: else one person would cost more than one record."""
    more = list(labels)
    for place in places:
        more.insert(min(place, len(more)), 9)
    some, all_of_them = ([f"p{x}" if is_text else x for x in given] for given in (labels, more))
    expected, _ = weights_of_rows(some)
    weights, _ = weights_of_rows(np.array(all_of_them, dtype=None if all_of_them else int))
    assert np.array_equal(weights[np.array(more) != 9], expected)


def test_a_person_with_many_rows_leaves_the_shares_of_the_others_alone(rng):
    labels = rng.integers(0, 10, 20_000)  # about 2,000 rows each, spread
    labels = np.concatenate((labels, np.arange(20, 70)))
    weights, _ = weights_of_rows(labels)
    for person in (0, 7, 25):
        others = labels != person
        assert np.array_equal(weights_of_rows(labels[others])[0], weights[others])


# Labels

MISSING_IN_TWO = [BIG, BIG + 1, BIG, None, None]
LETTERS = ["a", "b", "a", None, None]
FLOATS = [1.0, 2.0, 1.0, np.nan, np.nan]
DAYS = [datetime.date(2020, 1, day) if day else None for day in (1, 2, 1, 0, 0)]
CATEGORIES = pd.Categorical.from_codes([0, 1, 0, -1, -1], categories=[BIG, BIG + 1])
LABELS = {
    "list": MISSING_IN_TWO,
    "tuple": tuple(MISSING_IN_TWO),
    "deque": collections.deque(MISSING_IN_TWO),
    "objects": np.array(MISSING_IN_TWO, dtype=object),
    "masked": np.ma.array([BIG, BIG + 1, BIG, 0, 0], mask=[0, 0, 0, 1, 1]),
    "masked text": np.ma.array(["a", "b", "a", "a", "a"], mask=[0, 0, 0, 1, 1]),
    "floats": np.array(FLOATS, dtype=float),
    "times": np.array([1, 2, 1, "NaT", "NaT"], dtype="M8[ns]"),
    "days": np.array([1, 2, 1, "NaT", "NaT"], dtype="M8[D]"),
    "durations": np.array([1, 2, 1, "NaT", "NaT"], dtype="m8[s]"),
    "mixed": ["x", 1, "x", np.nan, np.nan],
    "missing of two kinds": ["x", 1, "x", pd.NA, pd.NaT],
    "tuples": [(1, 2), (2, 1), (1, 2), None, np.ma.masked],
    "numbers": [1.5, 2, 1.5, decimal.Decimal("NaN"), np.datetime64("NaT", "s")],
    "pandas Int64": pd.Series(MISSING_IN_TWO, dtype="Int64"),
    "pandas int64[pyarrow]": pd.Series(MISSING_IN_TWO, dtype="int64[pyarrow]"),
    "pandas object": pd.Series(MISSING_IN_TWO, dtype=object),
    "pandas category": pd.Series(CATEGORIES),
    "Categorical": CATEGORIES,
    "CategoricalIndex": pd.Index(CATEGORIES),
    "pandas text": pd.Series(LETTERS),
    "pandas string": pd.Series(LETTERS, dtype="string"),
    "pandas string[pyarrow]": pd.Series(LETTERS, dtype="string[pyarrow]"),
    "pandas text category": pd.Series(LETTERS, dtype="category"),
    "pandas Float64": pd.Series(FLOATS, dtype="Float64"),
    "pandas double[pyarrow]": pd.Series(pd.arrays.ArrowExtensionArray(pa.array(FLOATS))),
    "pandas times": pd.Series(pd.to_datetime(DAYS)),
    "pandas times of a zone": pd.Series(pd.to_datetime(DAYS)).dt.tz_localize("UTC"),
    "polars": pl.Series(MISSING_IN_TWO),
    "polars text": pl.Series(LETTERS),
    "polars Categorical": pl.Series(LETTERS, dtype=pl.Categorical),
    "polars floats": pl.Series(FLOATS),
    "polars days": pl.Series(DAYS),
    "Arrow": pa.array(MISSING_IN_TWO),
    "Arrow chunks": pa.chunked_array([MISSING_IN_TWO[:2], MISSING_IN_TWO[2:]]),
    "Arrow dictionary": pa.array(MISSING_IN_TWO).dictionary_encode(),
    "Arrow text": pa.array(LETTERS),
    "Arrow floats": pa.array(FLOATS),
    "Arrow days": pa.array(DAYS),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_of_every_container_and_missing_ones_are_people_of_their_own(labels):
    assert shares(checked_groups(labels, 5)) == (4, [0.5, 1.0, 0.5, 1.0, 1.0])


@pytest.mark.parametrize(
    "labels",
    [
        np.array([True, False, True]),
        np.array([-128, 127, -128], dtype=np.int8),
        np.array([2**64 - 1, 2**64 - 2, 2**64 - 1], dtype=np.uint64),
        np.array([2**63 + 5, 0, 2**63 + 5], dtype=np.uint64),
        np.array([-(2**63), 2**63 - 1, -(2**63)]),
        np.array(["b", "a", "b"]),
        np.array([b"b", b"a", b"b"]),
        np.array([(1, 2.0), (2, 1.0), (1, 2.0)], dtype="i8,f8"),
        pd.Series([BIG, BIG + 1, BIG], dtype="Int64"),
        pd.MultiIndex.from_tuples([(1, 2), (2, 1), (1, 2)]),
        pd.RangeIndex(2).repeat([1, 1]).append(pd.Index([0])),
        pl.Series([BIG, BIG + 1, BIG]),
        pa.array([BIG, BIG + 1, BIG]),
    ],
    ids=lambda labels: f"{type(labels).__name__} {getattr(labels, 'dtype', '')}",
)
def test_labels_without_missing_ones(labels):
    assert shares(checked_groups(labels, 3)) == (2, [0.5, 1.0, 0.5])


@pytest.mark.parametrize("span", [1, 30, 10**5, 2**40, 2**62])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_far_apart_are_told_apart(span, dtype, rng):
    people = np.unique(rng.integers(0, span, 60).astype(dtype) + dtype(3))
    labels = rng.choice(people, 500)
    weights, n_people = weights_of_rows(labels)
    expected, _ = weights_of_rows(labels.tolist())
    assert np.array_equal(weights, expected) and n_people == np.unique(labels).size


def test_no_rows_are_no_people():
    for labels in ([], np.array([], dtype=int), pl.Series([]), pd.Series([], dtype="Int64")):
        assert shares(labels) == (0, [])


class NoHash:
    """A label that appears in the text of its own errors."""

    def __hash__(self):
        raise KeyError("the secret label")


class NoEquality:
    def __eq__(self, other):
        raise KeyError("the secret label")

    def __hash__(self):
        return 1


UNHASHABLE = {
    "lists": [["the secret label"]] * 30,
    "dicts": [{"the secret label": 1}] * 30,
    "arrays": [np.array(["the secret label"])] * 30,
    "hash raises": [NoHash() for _ in range(30)],
    "equality raises": [NoEquality() for _ in range(30)],
    "signalling NaN": [decimal.Decimal("sNaN")] * 30,
    "pandas": pd.Series([["the secret label"]] * 30),
    "Arrow lists": pa.array([["the secret label"]] * 30),
}


def all_releases(groups, **options):
    """Return all releases that accept groups, for 30 rows, as functions without arguments."""
    X = np.arange(30.0)[:, None]
    options = {"eps": 1.0, **options}
    return {
        "fit": lambda: DPKBinsDiscretizer(**options).fit(X, groups=groups),
        "fit_transform": lambda: DPQuantileTransformer(3, **options).fit_transform(
            X, groups=groups
        ),
        "fit_batches": lambda: DPKBinsDiscretizer(**options).fit_batches(
            [X], groups=[groups], groups_are_whole=True
        ),
        "dp_quantiles": lambda: dp_quantiles(X[:, 0], 0.5, groups=groups, **options),
        "sanitize": lambda: sanitize(X[:, 0], 5, groups=groups, **options),
        "dp_count": lambda: dp_count(X, groups=groups, **options),
        "dp_histogram": lambda: dp_histogram(X[:, 0], [0, 10, 30], groups=groups, **options),
    }


COUNTS = ("dp_count", "dp_histogram")  # have no mechanism to choose
each_release = pytest.mark.parametrize("name", all_releases(None))


def what_an_error_tells(error):
    """Return the text that an error reporter could print: the chain, and the local variables."""
    told = []
    while error is not None:
        told.append(repr(error))
        traceback = error.__traceback__
        while traceback is not None:
            if "dpq_sklearn/reading" in traceback.tb_frame.f_code.co_filename:
                told.append(repr(traceback.tb_frame.f_locals))
            traceback = traceback.tb_next
        error = error.__cause__ or error.__context__
    return "\n".join(told)


@each_release
@pytest.mark.parametrize("labels", UNHASHABLE.values(), ids=UNHASHABLE)
def test_labels_that_cannot_be_compared_are_refused_without_being_shown(labels, name):
    with pytest.raises(TypeError, match=r"^groups must hold hashable labels") as caught:
        all_releases(labels)[name]()
    assert "secret" not in what_an_error_tells(caught.value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None


@each_release
@pytest.mark.parametrize("length", [0, 29, 31])
def test_labels_of_another_number_are_refused_before_paying(length, name, tmp_path):
    ledger = people_ledger(tmp_path)
    with pytest.raises(ValueError, match="one label for each row of the data") as caught:
        all_releases([f"secret-{i}" for i in range(length)], ledger=ledger)[name]()
    assert not re.search(r"\d|secret", str(caught.value))
    assert list(ledger.records()) == []


@each_release
@pytest.mark.parametrize(
    "groups",
    [
        "secret" * 5,
        7,
        {i: "secret" for i in range(30)},
        set(range(30)),
        (label for label in range(30)),
        np.zeros((30, 1)),
        pd.DataFrame({"secret": range(30)}),
        np.array(5),
    ],
    ids=lambda groups: type(groups).__name__,
)
def test_what_is_no_column_of_labels_is_refused_before_paying(groups, name, tmp_path):
    ledger = people_ledger(tmp_path)
    with pytest.raises(ValueError, match="groups must be one column of labels") as caught:
        all_releases(groups, ledger=ledger)[name]()
    assert not re.search(r"\d|secret", str(caught.value))
    assert list(ledger.records()) == []


@each_release
def test_labels_are_read_when_the_price_is_paid(name, tmp_path):
    ledger = people_ledger(tmp_path)
    with pytest.raises(TypeError, match="hashable"):
        all_releases(UNHASHABLE["lists"], ledger=ledger)[name]()
    assert len(ledger.records()) == 1


# Nothing but released numbers depends on labels


@both
@pytest.mark.parametrize("n_more", [1, 3])
def test_one_person_more_changes_the_released_numbers_only(estimator, n_more, rng, monkeypatch):
    """The whole state, the repr, the HTML and the pickle's length, with frozen randomness."""
    give_releases_one_id_and_time(monkeypatch)
    X, groups = rng.normal(size=(400, 3)), [f"secret-{i % 90}" for i in range(400)]
    more = np.vstack((X, rng.normal(size=(n_more, 3))))
    fits = [
        clone(estimator).set_params(random_state=0).fit(X, groups=groups),
        clone(estimator).set_params(random_state=0).fit(more, groups=groups + ["secret"] * n_more),
    ]
    states = [dict(walk(vars(fitted))) for fitted in fits]
    assert states[0].keys() == states[1].keys()
    different = {
        path.strip(".").split("[")[0] for path in states[0] if states[0][path] != states[1][path]
    }
    assert different <= RELEASED | OF_THE_RELEASE
    assert repr(fits[0]) == repr(fits[1])
    assert len({without_numbers(estimator_html_repr(fitted)) for fitted in fits}) == 1
    pickles = [pickle.dumps(fitted) for fitted in fits]
    assert len(pickles[0]) == len(pickles[1])
    assert not any(b"secret" in pickled for pickled in pickles)


def test_the_number_of_people_is_told_with_noise_only(rng):
    """It is released as `n_rows_`, and no other output depends on it."""
    X, groups = rng.normal(size=(3000, 1)), np.arange(3000) % 500
    fitted = DPKBinsDiscretizer(4, eps=20.0, random_state=0).fit(X, groups=groups)
    assert 470 < fitted.n_rows_ < 530
    counts = [fitted.fit(X, groups=groups).n_rows_ for fitted.random_state in range(8)]
    assert len(set(counts)) > 1


# What people cost


@each_release
@pytest.mark.parametrize("price", [{}, {"delta": 1e-6}, {"eps": None, "rho": 0.1}])
def test_the_loss_says_people(name, price, tmp_path):
    ledger = people_ledger(tmp_path)
    found = all_releases([*range(15)] * 2, ledger=ledger, **price)[name]()
    (record,) = ledger.records()  # it takes no other neighbours
    if hasattr(found, "privacy_"):
        assert found.privacy_.neighbours == Neighbours.PEOPLE and found.privacy_.eps == record.eps


@pytest.mark.parametrize("function", [dp_quantiles, sanitize, dp_count, dp_histogram])
def test_functions_return_a_loss_that_says_people(function):
    x, argument = np.ones(4), {dp_quantiles: [0.5], sanitize: [3], dp_histogram: [[0, 1]]}
    for groups, neighbours in ((None, Neighbours.ROWS), ([1, 1, 2, 3], Neighbours.PEOPLE)):
        *_, loss = function(x, *argument.get(function, []), groups=groups, return_privacy=True)
        assert loss.neighbours == neighbours


@both
def test_a_transformer_says_people_until_it_is_fitted_to_rows(estimator):
    fitted = clone(estimator).fit(np.ones((4, 1)), groups=[1, 1, 2, 3])
    assert fitted.privacy_.neighbours == Neighbours.PEOPLE
    assert fitted.fit(np.ones((4, 1))).privacy_.neighbours == Neighbours.ROWS


def test_people_cost_what_rows_cost():
    for price in ({"eps": 1.0}, {"eps": 1.0, "delta": 1e-6}, {"eps": None, "rho": 0.1}):
        fits = [
            DPKBinsDiscretizer(**price).fit(np.ones((4, 1)), groups=groups).privacy_
            for groups in (None, [1, 1, 1, 2])
        ]
        assert fits[0].eps == fits[1].eps and fits[0].rho == fits[1].rho
        assert fits[0].delta == fits[1].delta and fits[0].pure_eps == fits[1].pure_eps


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_independent_draws_see_one_record_wherever_the_rows_of_a_person_are(k):
    """With any base measure: the scores of all cells move by eps / 2 at most, up or down."""
    ranks, pairs = with_person(OTHERS, k, tiny_grid(3, 2))
    for q in (0.1, 0.5, 0.9):
        logs = []
        for column in range(ranks.total_weights.size):
            one = ranks.of_columns([column])
            weights = place_weights(one, whole_node(one, q, 1.0, is_leaf=True))[0]
            logs.append(np.log(weights[::2]))
        change = np.array(logs)[pairs[:, 1]] - np.array(logs)[pairs[:, 0]]
        assert 0.5 < np.ptp(change, axis=1).max() <= 1.0 + 1e-12


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_a_person_is_counted_once_on_each_level_of_a_tree(k):
    ranks, pairs = with_person(OTHERS, k, tiny_grid(3, 2))
    levels = [tree_counts(ranks, column, 2, 2) for column in range(ranks.total_weights.size)]
    for one, other in pairs:
        for before, behind in zip(levels[one], levels[other], strict=True):
            assert np.abs(behind - before).sum() <= RECORD_WEIGHT


def test_rows_that_are_missing_in_a_feature_take_their_share_with_them():
    X = np.array([[1.0, np.nan], [2.0, np.nan], [3.0, 5.0], [np.nan, 5.0], [4.0, np.nan]])
    records = MemorySource(X, ["a", "a", "a", "a", "b"]).read(make_grid([(-np.inf, np.inf)] * 2))
    assert records.n_rows == 2
    assert (records.ranks.total_weights / RECORD_WEIGHT).tolist() == [1.75, 0.5]


@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (-1.0, 2.0), (0.0, np.inf)])
@pytest.mark.parametrize("resolution", [40, 24, 6])
def test_the_ranks_of_a_table_are_those_of_its_summaries(bounds, resolution, rng):
    """Asked for every rank and around every cell that there is, also without any number."""
    X = np.column_stack(
        (rng.normal(size=300), rng.integers(-2, 3, 300), np.full(300, np.nan), rng.normal(size=300))
    )
    X[::5, 0], X[1, 0], X[2, 0] = np.nan, np.inf, -np.inf
    groups = rng.integers(0, 40, 300)
    weights, _ = weights_of_rows(groups)
    grid = make_grid([bounds] * 4, resolution)
    ranks = MemorySource(X.copy(), groups).read(grid).ranks
    summaries = [summarize(X[:, j].copy(), grid, j, weights) for j in range(4)]
    expected = WeightedRanks.of_summaries(summaries, grid)
    assert np.array_equal(ranks.total_weights, expected.total_weights)
    for j, summary in enumerate(summaries):
        assert np.all(summary.weights > 0)
        below = np.append(0, np.cumsum(summary.weights))
        asked = np.concatenate((below, below[1:] - 1, rng.integers(0, below[-1] + 1, 50)))
        columns = np.full(asked.size, j)
        for mine, theirs in zip(
            ranks.locate(columns, asked), expected.locate(columns, asked), strict=True
        ):
            assert np.array_equal(mine, theirs)
        cells = np.concatenate((summary.cells, grid.first[[j]], grid.end[[j]] - 1))
        for mine, theirs in zip(
            around_cells(ranks, j, cells), around_cells(expected, j, cells), strict=True
        ):
            assert np.array_equal(mine, theirs)
        assert np.array_equal(ranks.weights_below(j, cells), expected.weights_below(j, cells))


def test_weights_are_summarized_as_a_sum_over_rows_would_be(rng):
    values, weights = rng.integers(0, 9, 500).astype(float), rng.integers(0, 1000, 500)
    values[::7] = np.nan
    weights[values == 3] = 0  # rows of somebody with more rows than a record has parts
    grid = make_grid([(0.0, 10.0)])
    summary = summarize(values, grid, 0, weights)
    expected = {
        int(grid.cells_of(np.array([v]), 0)[0]): int(weights[values == v].sum()) for v in range(9)
    }
    expected = {cell: weight for cell, weight in expected.items() if weight}
    assert dict(zip(summary.cells.tolist(), summary.weights.tolist(), strict=True)) == expected


# The same people, the same numbers


@pytest.mark.slow
@both
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_people_with_one_row_each_give_the_numbers_of_rows(estimator, mechanism, delta, rng):
    X = np.column_stack((rng.lognormal(size=200), rng.integers(0, 5, 200)))
    X[::9, 0] = np.nan
    groups = rng.permutation(200)
    one = clone(estimator).set_params(mechanism=mechanism, random_state=0, delta=delta)
    two = clone(one).set_params(mechanism=mechanism)
    expected = released(one.fit(X))
    assert np.array_equal(released(two.fit(X, groups=groups)), expected)
    assert np.array_equal(released(two.fit(X, groups=[None] * 200)), expected)
    assert two.n_rows_ == one.n_rows_
    batches, labels = np.array_split(X, 7), np.array_split(groups, 7)
    one.set_params(resolution=20)
    two.set_params(resolution=20).fit_batches(batches, groups=labels, groups_are_whole=True)
    assert np.array_equal(released(two), released(one.fit(X)))
    assert np.array_equal(released(one.fit_batches(batches)), released(two))


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_values_and_stand_ins_of_people_with_one_row_each(mechanism, rng):
    x, q = rng.normal(size=300), [0.25, 0.5, 0.75]
    options = {"mechanism": mechanism, "random_state": 0}
    groups = [f"p{i}" for i in range(300)]
    assert np.array_equal(
        dp_quantiles(x, q, **options), dp_quantiles(x, q, groups=groups, **options)
    )
    assert np.array_equal(sanitize(x, 9, **options), sanitize(x, 9, groups=groups, **options))
    counts = [dp_count(x, random_state=0), dp_count(x, random_state=0, groups=groups)]
    assert counts[0] == counts[1]


@pytest.mark.slow
@both
@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
@pytest.mark.parametrize("k", [2, 3, 7, 600])
def test_equal_rows_of_each_person_give_the_numbers_of_one_row(estimator, mechanism, k, rng):
    people = np.column_stack((rng.lognormal(size=40), rng.integers(0, 5, 40)))
    order = rng.permutation(40 * k)
    X, groups = np.repeat(people, k, axis=0)[order], np.repeat(np.arange(40), k)[order]
    one = clone(estimator).set_params(mechanism=mechanism, random_state=0, eps=3.0)
    two = clone(one).fit(X, groups=groups)
    assert np.array_equal(released(one.fit(people)), released(two))
    assert one.n_rows_ == two.n_rows_
    assert np.array_equal(
        dp_quantiles(people[:, 0], 0.5, mechanism=mechanism, random_state=1),
        dp_quantiles(X[:, 0], 0.5, mechanism=mechanism, random_state=1, groups=groups),
    )


@both
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame, pl.DataFrame, pa.table])
def test_batches_of_whole_people_give_what_the_whole_gives(estimator, mechanism, container, rng):
    n_rows = 900
    X, groups = rng.lognormal(size=(n_rows, 2)), rng.integers(0, 120, n_rows)
    X[::4, 1] = np.nan
    fitted = clone(estimator).set_params(
        mechanism=mechanism, random_state=0, resolution=24, delta=1e-6
    )
    parts = [groups % 3 == part for part in range(3)]
    batches = [
        container({"a": X[part, 0], "b": X[part, 1]}) if container is pa.table
        else container(X[part])
        for part in parts
    ]  # fmt: skip
    expected = released(clone(fitted).fit(X, groups=groups)).copy()
    labels = (pl.Series(groups[part]) for part in parts)
    fitted.fit_batches(iter(batches), groups=labels, groups_are_whole=True)
    assert np.array_equal(released(fitted), expected)
    assert fitted.privacy_.neighbours == Neighbours.PEOPLE


def test_quantiles_are_those_of_a_random_row_of_a_random_person(rng):
    """A person with most of the rows still counts as one person."""
    x = np.concatenate((np.full(10_000, 50.0), rng.normal(0, 1, 2000)))
    groups = np.concatenate((np.zeros(10_000, dtype=int), np.arange(1, 2001)))
    with_groups = dp_quantiles(x, [0.25, 0.5, 0.75], eps=50.0, groups=groups, random_state=0)
    assert np.abs(with_groups - np.quantile(x[10_000:], [0.25, 0.5, 0.75])).max() < 0.1
    assert np.all(dp_quantiles(x, [0.25, 0.5, 0.75], eps=50.0, random_state=0) > 2)


# Refusals


def test_auto_chooses_alike_with_and_without_groups():
    request = {"bounds": (0.0, 1.0), "mechanism_name": "auto"}
    quantiles = [(1 / 3, 2 / 3)]
    with_rows = request_of(quantiles, **request).mechanisms
    with_people = request_of(quantiles, neighbours=Neighbours.PEOPLE, **request).mechanisms
    assert with_rows == with_people


@pytest.mark.parametrize("is_whole", [False, None, 1, "yes"])
def test_batches_of_people_need_the_word_of_the_caller(is_whole, rng):
    X = rng.normal(size=(10, 1))
    with pytest.raises(ValueError, match="groups require groups_are_whole=True"):
        DPKBinsDiscretizer().fit_batches([X], groups=[range(10)], groups_are_whole=is_whole)


@pytest.mark.parametrize("n_columns", [0, 1, 3])
@pytest.mark.parametrize("is_list", [True, False])
def test_batches_and_labels_come_in_pairs(n_columns, is_list, rng, tmp_path):
    ledger = people_ledger(tmp_path)
    batches, groups = [rng.normal(size=(10, 1))] * 2, [["secret"] * 10] * n_columns
    fitted = DPKBinsDiscretizer(ledger=ledger)
    with pytest.raises(ValueError, match="one column of labels for each batch") as caught:
        fitted.fit_batches(
            *([batches] if is_list else [iter(batches)]),
            groups=groups if is_list else iter(groups),
            groups_are_whole=True,
        )
    assert not re.search(r"\d|secret", str(caught.value))
    assert not hasattr(fitted, "bin_edges_")
    assert len(ledger.records()) == (0 if is_list or n_columns == 0 else 1)


@pytest.mark.parametrize("labels", [None, 5, "x" * 10, ["secret"] * 9])
@pytest.mark.parametrize("position", [0, 1])
def test_labels_of_a_batch_are_checked_like_those_of_a_table(labels, position, rng):
    groups = [[*range(10)], [*range(10, 20)]]
    groups[position] = labels
    with pytest.raises(ValueError, match=r"groups must (be one column|have one label)") as caught:
        DPKBinsDiscretizer().fit_batches(
            [rng.normal(size=(10, 1))] * 2, groups=groups, groups_are_whole=True
        )
    assert not re.search(r"\d|secret", str(caught.value))


# scikit-learn's ways


@both
def test_fit_transform_takes_groups(estimator, rng):
    X, groups = rng.normal(size=(200, 2)), np.arange(200) % 60
    estimator = clone(estimator).set_params(random_state=0)
    expected = clone(estimator).fit(X, groups=groups).transform(X)
    assert np.array_equal(estimator.fit_transform(X, groups=groups), expected)
    assert estimator.privacy_.neighbours == Neighbours.PEOPLE


@both
def test_a_pipeline_passes_groups_by_the_name_of_the_step(estimator, rng):
    X, groups = rng.normal(size=(200, 2)), np.arange(200) % 60
    y = (X[:, 0] > 0).astype(int)
    pipeline = Pipeline([("dpq", clone(estimator)), ("model", LogisticRegression())])
    pipeline.fit(X, y, dpq__groups=groups)
    assert pipeline["dpq"].privacy_.neighbours == Neighbours.PEOPLE
    pipeline.fit(X, y)
    assert pipeline["dpq"].privacy_.neighbours == Neighbours.ROWS


@both
def test_metadata_routing_passes_groups_to_the_transformer_and_to_the_splitter(estimator, rng):
    X, groups = rng.normal(size=(200, 2)), rng.permutation(np.arange(200) % 60)
    y = (X[:, 0] > 0).astype(int)
    seen = []

    class Watched(type(estimator)):
        def fit(self, X, y=None, groups=None, **unknown):
            seen.append((len(X), None if groups is None else set(groups)))
            return super().fit(X, y, groups, **unknown)

    with sklearn.config_context(enable_metadata_routing=True):
        watched = Watched(**estimator.get_params()).set_fit_request(groups=True)
        pipeline = make_pipeline(watched, LogisticRegression())
        search = GridSearchCV(pipeline, {"logisticregression__C": [1.0]}, cv=GroupKFold(3))
        search.fit(X, y, groups=groups)
    assert search.best_estimator_[0].privacy_.neighbours == Neighbours.PEOPLE
    *of_folds, of_all = seen
    assert len(of_folds) == 3 and of_all == (200, set(range(60)))
    for n_rows, people in of_folds:  # whole people are left out of each fold
        assert n_rows == np.isin(groups, list(people)).sum() < 200


@both
def test_fit_for_people_needs_groups_and_one_for_rows_takes_none(estimator, rng, tmp_path):
    X = rng.normal(size=(300, 2))
    people = np.arange(300) // 3
    ledger = people_ledger(tmp_path)
    private = clone(estimator).set_params(privacy_unit="person", ledger=ledger)
    batched = {"groups": [people], "groups_are_whole": True}

    with pytest.raises(ValueError, match=r'"person" requires groups.*got groups=None'):
        private.fit(X)
    with pytest.raises(ValueError, match='"person" requires groups'):
        private.fit_batches(unread())
    with pytest.raises(ValueError, match='"person" requires groups'):
        private.fit_transform(X)
    private.set_params(privacy_unit="row")
    with pytest.raises(ValueError, match=r'"row" rejects groups, got groups\.'):
        private.fit(X, groups=people)
    with pytest.raises(ValueError, match='"row" rejects groups'):
        private.fit_batches(unread(), **batched)
    assert ledger.records() == []

    private.set_params(privacy_unit="person").fit(X, groups=people)
    private.fit_batches([X], **batched)
    assert len(ledger.records()) == 2 and private.privacy_.neighbours is Neighbours.PEOPLE
    private.set_params(privacy_unit="row", ledger=None).fit_batches([X]).fit(X)
    assert private.privacy_.neighbours is Neighbours.ROWS
    with pytest.raises(ValueError, match="'privacy_unit' parameter"):
        private.set_params(privacy_unit="people").fit(X)


def unread():
    raise AssertionError("a batch was read")
    yield


@both
@pytest.mark.filterwarnings("ignore::dpq_sklearn.PrivacyNoiseWarning")
def test_plain_search_gives_groups_to_the_splitter_only(estimator, rng):
    """scikit-learn does this, and `privacy_unit` guards against it."""
    X = rng.normal(size=(300, 2))
    people = np.arange(300) // 3
    options = {"groups": people, "cv": GroupKFold(2), "error_score": "raise"}
    private = clone(estimator).set_params(ledger=PrivacyLedger(neighbours="rows"))
    pipeline = Pipeline([("private", private), ("model", LogisticRegression())])

    cross_val_score(pipeline, X, X[:, 0] > 0, **options)
    assert len(private.ledger.records()) == 2

    private.set_params(privacy_unit="person")
    with pytest.raises(ValueError, match=r"splitter only\. Pass them to the transformer as well"):
        cross_val_score(pipeline, X, X[:, 0] > 0, **options)
    assert len(private.ledger.records()) == 2

    private.set_params(ledger=PrivacyLedger(neighbours="people"))
    cross_val_score(pipeline, X, X[:, 0] > 0, params={"private__groups": people}, **options)
    with sklearn.config_context(enable_metadata_routing=True):
        private.set_fit_request(groups=True)
        options["params"] = {"groups": options.pop("groups")}
        cross_val_score(pipeline, X, X[:, 0] > 0, **options)
    assert len(private.ledger.records()) == 4


LOST = "groups go to the splitter only: DPKBinsDiscretizer will be fitted without groups"


def plans(unit):
    """Return searches and folds of a private pipeline, each with options for its plan."""
    step = DPKBinsDiscretizer(4, privacy_unit=unit)
    pipeline = make_pipeline(step, LogisticRegression())
    plain = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]})
    grouped = clone(plain).set_params(cv=GroupKFold(3))
    labels = [1, 1, 2]
    return step, [
        (plain, {"groups": labels}),
        (grouped, {}),
        (pipeline, {"cv": 5, "groups": labels}),
        (pipeline, {"cv": GroupKFold(3)}),
        (step, {"cv": 5, "groups": labels}),
    ]


@pytest.mark.parametrize("unit", ["auto", "person"])
@pytest.mark.parametrize("number", range(5))
def test_plan_warns_of_groups_that_no_private_step_gets(unit, number):
    estimator, options = plans(unit)[1][number]
    with pytest.warns(UserWarning, match=LOST):
        plan_search(estimator, **options)
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.warns(UserWarning, match=LOST),  # there is a way, but nobody asked for it
    ):
        plan_search(estimator, **options)


@pytest.mark.parametrize("number", range(5))
def test_plan_does_not_warn_if_groups_arrive_or_rows_are_meant(number, recwarn):
    estimator, options = plans("row")[1][number]
    plan_search(estimator, **options)

    with sklearn.config_context(enable_metadata_routing=True):
        step, of_people = plans("person")
        step.set_fit_request(groups=True)
        estimator, options = of_people[number]
        for each in (estimator, getattr(estimator, "estimator", None)):
            if hasattr(each, "steps"):
                each.steps[0] = ("dpkbinsdiscretizer", step)
        plan_search(estimator, **options)

    pipeline = make_pipeline(DPKBinsDiscretizer(4), LogisticRegression())
    plan_search(pipeline, cv=5)
    plan_search(pipeline, groups=[1, 2])  # one fit, which takes groups itself
    frozen = FrozenEstimator(DPKBinsDiscretizer(4).fit([[1.0], [2.0]] * 50))
    plan_search(make_pipeline(frozen, LogisticRegression()), cv=GroupKFold(3))
    assert [w for w in recwarn if "splitter" in str(w.message)] == []


def test_without_a_request_routing_refuses_groups(rng):
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(DPKBinsDiscretizer(), LogisticRegression())
        with pytest.raises(UnsetMetadataPassedError, match="set_fit_request"):
            pipeline.fit(X, y, groups=np.arange(60))
        unasked = make_pipeline(
            DPKBinsDiscretizer().set_fit_request(groups=False), LogisticRegression()
        )
        with pytest.raises(TypeError, match="unexpected argument"):
            unasked.fit(X, y, groups=np.arange(60))


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_threads_change_nothing(n_jobs, rng):
    X, groups = rng.normal(size=(500, 11)), rng.integers(0, 70, 500)
    one = DPKBinsDiscretizer(random_state=0).fit(X, groups=groups)
    many = DPKBinsDiscretizer(random_state=0, n_jobs=n_jobs).fit(X, groups=groups)
    assert np.array_equal(released(one), released(many))


# Labels in a column of the table


def tables_with_labels(rng):
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    frame.insert(1, "who", [f"p{i % 70}" for i in range(300)])
    return {"pandas": frame, "polars": pl.from_pandas(frame), "Arrow": pa.table(frame)}


@both
@pytest.mark.parametrize("name", ["pandas", "polars", "Arrow"])
def test_a_name_stands_for_the_column_of_labels(estimator, name, rng):
    table = tables_with_labels(rng)[name]
    frame = table if name == "pandas" else table.to_pandas()
    features = frame[["a", "b"]]
    estimator = clone(estimator).set_params(random_state=0)
    expected = clone(estimator).fit(features, groups=frame["who"])
    fitted = clone(estimator).fit(table, groups="who")
    assert list(fitted.feature_names_in_) == ["a", "b"]
    np.testing.assert_array_equal(released(fitted), released(expected))
    transformed = clone(estimator).fit_transform(table, groups="who")
    np.testing.assert_array_equal(transformed, expected.transform(features))
    in_batches = clone(estimator).fit_batches([table], groups="who", groups_are_whole=True)
    assert in_batches.n_rows_ == expected.n_rows_
    with pytest.raises(ValueError, match="who"):
        fitted.transform(table)


@pytest.mark.parametrize("name", ["pandas", "polars", "Arrow"])
def test_functions_take_the_name_of_the_column_of_labels(name, rng):
    table = tables_with_labels(rng)[name]
    assert dp_count(table, groups="who", eps=1e6) == 70
    description = dp_describe(table, groups="who", eps=1e6)
    columns = [column for column in description.columns if column != "statistic"]
    assert columns == ["a", "b"]
    assert description["a"][0] == 70 if name == "polars" else description["a"].iloc[0] == 70


def test_a_name_that_is_not_that_of_one_column_is_refused(rng, tmp_path):
    ledger = people_ledger(tmp_path)
    tables = tables_with_labels(rng)
    twice = pd.concat([tables["pandas"], tables["pandas"][["who"]]], axis=1)
    for X, n_columns in [
        (tables["pandas"].drop(columns="who"), "no column"),
        (tables["polars"].drop("who"), "no column"),
        (np.zeros((3, 2)), "no column"),
        (twice, "several columns"),
    ]:
        for method in ("fit", "fit_transform"):
            with pytest.raises(ValueError, match=f"a str that names {n_columns}"):
                getattr(DPKBinsDiscretizer(ledger=ledger), method)(X, groups="who")
    with pytest.raises(ValueError, match="groups must be one column of labels"):
        dp_quantiles([1.0, 2.0], 0.5, groups="who", ledger=ledger)
    assert ledger.records() == []
