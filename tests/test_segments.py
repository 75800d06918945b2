"""Segments: which rows they have, and what all of them cost together."""

import itertools
import math
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpq_sklearn import (
    PrivacyLedger,
    PrivacyNoiseWarning,
    dp_describe,
    dp_quantiles,
    privacy_statement,
)
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.engine.ranks import RECORD_WEIGHT
from dpq_sklearn.reading import summaries
from dpq_sklearn.reading.groups import weights_of_rows
from dpq_sklearn.reading.segments import (
    MOST_SEGMENTS,
    RowsBySegment,
    SegmentedTable,
    checked_keys,
    count_keys,
    records_of_segments,
    summaries_of_segments,
)
from dpq_sklearn.reading.sources.memory import MemorySource
from dpq_sklearn.reading.sources.registry import segments_of
from dpq_sklearn.releases.plans import plan_description
from tests.enumeration import aq_distribution, renyi_divergence, tiny_grid, worst_log_ratio
from tests.planning import request_of

pytestmark = pytest.mark.filterwarnings("ignore::dpq_sklearn.PrivacyNoiseWarning")
QUARTILES = (0.25, 0.5, 0.75)
MEDIAN = (0.5,)

# Which rows a segment has

CONTAINERS = {
    "list of objects": lambda labels: np.array(labels, dtype=object),
    "pandas object": lambda labels: pd.Series(labels, dtype=object),
    "pandas str": lambda labels: pd.Series(labels, dtype="str"),
    "pandas category": lambda labels: pd.Series(labels).astype("category"),
    "polars": pl.Series,
    "polars categorical": lambda labels: pl.Series(labels, dtype=pl.Categorical),
    "arrow": pa.array,
}


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_all_containers_agree_on_the_rows_of_a_segment(make):
    labels = ["north", "south", None, "east", "north", "North", "south"]
    segments = checked_keys(["south", "north", "nowhere", None], 1)
    assert segments.numbers_of([make(labels)]).tolist() == [1, 0, 3, -1, 1, -1, 0]


def test_equal_numbers_of_all_types_are_one_key():
    segments = checked_keys([1, 0, 2.5], 1)
    columns = [
        np.array([1, 0, 3]),
        np.array([1.0, 0.0, np.nan]),
        np.array([True, False, None], dtype=object),
        pd.Series([1, 0, None], dtype="Int64"),
    ]
    for column in columns:
        assert segments.numbers_of([column]).tolist() == [0, 1, -1]


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_keys_of_several_columns_are_tuples(n_columns, rng):
    labels = [rng.choice(list("abcd"), size=300) for _ in range(n_columns)]
    keys = list(itertools.product("dba", "ca", "bcd"[:n_columns]))
    keys = list(dict.fromkeys(key[:n_columns] for key in keys))
    rng.shuffle(keys)
    keys = [tuple(key) for key in keys]

    found = checked_keys([key if n_columns > 1 else key[0] for key in keys], n_columns)
    expected = [keys.index(row) if row in keys else -1 for row in zip(*labels, strict=True)]
    assert found.numbers_of(labels).tolist() == expected
    assert {-1, *range(len(keys))} == set(expected)  # so that the test can fail


@pytest.mark.parametrize("n_segments", [3, 70_000])
def test_rows_are_divided_in_their_order(n_segments, rng):
    numbers = rng.integers(-1, 3, size=200)
    divided = list(RowsBySegment.of(numbers, n_segments).divide(np.arange(200)))
    assert len(divided) == n_segments
    for number, rows in enumerate(divided):
        assert rows.tolist() == np.flatnonzero(numbers == number).tolist()


@pytest.mark.parametrize(
    ("keys", "n_columns", "words"),
    [
        ([], 1, "keys must be a list of 1 to"),
        ("north", 1, "keys must be a list of 1 to"),
        (None, 1, "keys must be a list of 1 to"),
        (range(MOST_SEGMENTS + 1), 1, "keys must be a list of 1 to"),
        ([("a", "b")], 1, "each of keys must be a label"),
        (["ab"], 2, "each of keys must be a tuple of 2 labels"),
        ([("a", "b", "c")], 2, "each of keys must be a tuple of 2 labels"),
        ([1, True], 1, "keys must be distinct"),
        ([math.nan, None], 1, "keys must be distinct"),
    ],
)
def test_wrong_keys_are_refused(keys, n_columns, words):
    with pytest.raises(ValueError, match=words):
        checked_keys(keys, n_columns)


# What all segments cost together, exactly

GRID = tiny_grid(3, positions_per_cell=4)


def records_of(people, n_segments, weigh=None):
    """The records of people, each a list of (segment, cell) for their rows."""
    rows = [(person, *row) for person, of_person in enumerate(people) for row in of_person]
    owners, segments, cells = np.array(rows, dtype=int).reshape(-1, 3).T
    weights = weights_of_rows(owners)[0] if weigh is None else weigh(owners, segments)
    by_segment = RowsBySegment.of(segments, n_segments)
    values = GRID.lower_edges(cells, np.zeros_like(cells))
    summaries = summaries_of_segments(values, GRID, 0, by_segment, weights)
    return records_of_segments(summaries, GRID, len(people))


def weights_in_each_segment(owners, segments):
    """Wrong weights on purpose: a person has the weight of a record in every segment."""
    return weights_of_rows([f"{a} {b}" for a, b in zip(owners, segments, strict=True)])[0]


def distributions(plan, one, other):
    """Return the exact distributions of the quantiles of each segment in two datasets."""
    budget = plan.quantiles.budgets[0]
    return [
        [
            aq_distribution(records.ranks.of_columns([segment]), MEDIAN, budget)
            for records in (one, other)
        ]
        for segment in range(one.ranks.total_weights.size)
    ]


def exact_losses(plan, one, other):
    """Return the largest log-ratio of all that is released of two datasets.

    The segments are independent, so it adds up over them.
    """
    of_quantiles = sum(worst_log_ratio(*pair) for pair in distributions(plan, one, other))
    # The log-ratio of discrete Laplace noise is proportional to the change of the count.
    changes = np.abs(plan.totals(one.ranks) - plan.totals(other.ranks)).sum()
    return of_quantiles + changes / plan.units_per_record * plan.count_noises[0].cost().eps


def plan_of(n_segments, **price):
    fields = {"neighbours": Neighbours.PEOPLE, "n_segments": n_segments, **price}
    return plan_description(request_of([MEDIAN], **fields))


def neighbours_of_people(n_segments, rng, n_people, most_rows):
    """Yield people in random segments, and the same people without the first."""
    for _ in range(12):
        people = [
            [(int(rng.integers(n_segments)), int(rng.integers(3))) for _ in range(n_rows)]
            for n_rows in rng.integers(1, most_rows + 1, size=n_people)
        ]
        yield people, people[1:]


@pytest.mark.parametrize("n_segments", [2, 3])
@pytest.mark.parametrize("most_rows", [1, 4])
def test_all_segments_together_cost_the_price_of_one(n_segments, most_rows, rng):
    plan = plan_of(n_segments, eps=1.0)
    for one, other in neighbours_of_people(n_segments, rng, 3, most_rows):
        loss = exact_losses(plan, records_of(one, n_segments), records_of(other, n_segments))
        assert loss <= plan.loss.eps


@pytest.mark.parametrize("n_segments", [2, 3])
def test_a_person_who_weighed_a_record_in_each_segment_would_cost_too_much(n_segments):
    plan = plan_of(n_segments, eps=1.0)
    everywhere = [[(segment, 2) for segment in range(n_segments)]]
    others = [[(segment, cell)] for segment in range(n_segments) for cell in (0, 0, 0, 1, 1, 1)]

    def loss(weigh):
        datasets = (everywhere + others, others)
        return exact_losses(plan, *(records_of(each, n_segments, weigh) for each in datasets))

    assert 0.75 < loss(weigh=None) <= plan.loss.eps < 1.5 < loss(weights_in_each_segment)


def test_segments_cost_no_more_than_their_rho(rng):
    plan = plan_of(3, eps=None, rho=0.5)
    budget = plan.quantiles.budgets[0]
    for one, other in itertools.islice(neighbours_of_people(3, rng, 3, 4), 8):
        found = distributions(plan, records_of(one, 3), records_of(other, 3))
        for order in (1.5, 4.0):
            divergence = math.fsum(renyi_divergence(*pair, order) for pair in found)
            assert divergence <= order * budget.amount


def test_budgets_of_segments_are_those_of_the_whole_but_for_rounding():
    alone = plan_description(request_of([QUARTILES] * 2, neighbours=Neighbours.PEOPLE))
    segmented = plan_description(
        request_of([QUARTILES] * 2, neighbours=Neighbours.PEOPLE, n_segments=1000)
    )
    assert segmented.loss.eps == alone.loss.eps == 1.0
    for one, other in zip(segmented.quantiles.budgets, alone.quantiles.budgets, strict=True):
        assert one.amount == other.amount
        assert one.before_rounding(3).amount < other.before_rounding(3).amount
    assert segmented.count_noises[0].deviation() == pytest.approx(
        alone.count_noises[0].deviation(), rel=1e-5
    )
    spent = math.fsum(
        mechanism.cost(column.probabilities, budget).eps
        for mechanism, column, budget in zip(
            segmented.quantiles.request.mechanisms,
            segmented.quantiles.request.columns,
            segmented.quantiles.budgets,
            strict=True,
        )
    )
    spent += math.fsum(noise.cost().eps for noise in segmented.count_noises)
    assert spent <= 1.0


def test_a_record_is_spread_over_all_segments_of_a_column(rng):
    table = rng.normal(size=(50, 2))
    table[rng.random((50, 2)) < 0.2] = np.nan
    labels = rng.choice(list("abcd"), size=50)
    people = rng.integers(0, 9, size=50)
    source = SegmentedTable(MemorySource(table, groups=people), [labels])
    columns = plan_description(request_of([QUARTILES] * 2, n_segments=3)).quantiles
    records = source.read_segments(columns.grid, checked_keys(list("abc"), 1))
    weights, n_people = weights_of_rows(people)

    assert records.n_rows == n_people
    totals = records.ranks.total_weights.reshape(2, 3)
    for column, segment in itertools.product(range(2), range(3)):
        inside = (labels == "abc"[segment]) & ~np.isnan(table[:, column])
        assert totals[column, segment] == weights[inside].sum()
    assert totals.sum(axis=1).max() <= n_people * RECORD_WEIGHT


# The functions


@pytest.fixture
def survey(rng):
    n_rows = 6_000
    return pd.DataFrame(
        {
            "region": rng.choice(["north", "south", "east"], n_rows, p=[0.6, 0.3, 0.1]),
            "sex": rng.integers(0, 2, n_rows),
            "age": rng.normal(40, 10, n_rows).round(),
            "income": np.where(rng.random(n_rows) < 0.2, np.nan, rng.lognormal(10, 1, n_rows)),
        }
    )


def test_without_noise_each_segment_has_the_numbers_of_pandas(survey):
    keys = ["south", "north"]
    found = dp_describe(survey, by="region", keys=keys, eps=1e9, percentiles=[0.25, 0.5])
    assert list(found.index) == keys and found.index.name == "region"
    assert list(found.columns[:3]) == [("sex", "count"), ("sex", "25%"), ("sex", "50%")]
    exact = survey.groupby("region")
    for name in ("age", "income"):
        assert (found[name, "count"] == exact[name].count()[keys]).all()
        assert np.allclose(found[name, "50%"], exact[name].median()[keys], rtol=0.01)


def test_several_columns_of_labels_make_a_multi_index(survey):
    keys = [("south", 1), ("north", 0)]
    found = dp_describe(survey, by=["region", "sex"], keys=keys, eps=1e9)
    assert list(found.index) == keys and list(found.index.names) == ["region", "sex"]
    assert found["age", "count"].tolist() == [
        ((survey.region == region) & (survey.sex == sex)).sum() for region, sex in keys
    ]


def test_rows_with_other_keys_change_nothing(survey):
    options = {"by": "region", "keys": ["south", "north"], "random_state": 0}
    listed = survey[survey.region != "east"]
    assert dp_describe(survey, **options).equals(dp_describe(listed, **options))


def test_polars_and_batches_release_the_same_numbers(survey):
    options = {"by": "region", "keys": ["south", "east"], "random_state": 0}
    batches = (survey[start : start + 1000] for start in range(0, 6000, 1000))
    by_batches = dp_describe(batches, **options)
    whole = dp_describe(iter([survey]), **options)
    assert by_batches.equals(whole)

    in_polars = dp_describe(pl.from_pandas(survey), **options)
    in_pandas = dp_describe(survey, **options)
    assert in_polars.columns == ["region", "statistic", "sex", "age", "income"]
    south = in_polars.filter(pl.col("region") == "south")
    assert south["income"].to_list() == in_pandas["income"].loc["south"].tolist()


def test_memory_of_batches_is_bounded_by_keys_times_resolution(survey, monkeypatch):
    """More batches with the same values take no more memory, and no more for keys without rows."""
    monkeypatch.setattr(summaries, "_LEAST_PENDING", 256)  # else few batches are not merged
    survey = survey[:500].assign(income=survey["income"].round(-4))
    options = {"by": "region", "keys": ["south", "north", *range(20)], "random_state": 0}
    peaks = []
    for n_batches in (5, 5, 30):  # the first release fills caches
        tracemalloc.start()
        dp_describe((survey.copy() for _ in range(n_batches)), **options)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.3 * peaks[1]


@pytest.mark.parametrize("by", ["region", ["region", "sex"]])
def test_dask_releases_the_same_numbers_as_batches(survey, by):
    dask = pytest.importorskip("dask")
    dd = pytest.importorskip("dask.dataframe")
    keys = ["south", "east"] if by == "region" else [("south", 1), ("east", 0)]
    options = {"by": by, "keys": keys, "random_state": 0}
    survey["region"] = survey["region"].astype("string")
    survey["note"] = "text"
    with dask.config.set(scheduler="synchronous"):
        found = dp_describe(dd.from_pandas(survey, npartitions=11), **options)
    assert found.equals(dp_describe(iter([survey]), **options))


@pytest.fixture
def coarse_memory(monkeypatch):
    """Let rows in memory have the resolution of summaries."""
    monkeypatch.setattr(MemorySource, "default_resolution", summaries.SUMMARY_RESOLUTION)


PRIVATE_KEYS = {"by": "region", "keys": "private", "delta": 1e-6, "eps": 2.0, "random_state": 0}
PUBLIC_KEYS = {"by": "region", "keys": ["south", "east"], "random_state": 0}


@pytest.mark.parametrize("by", ["region", ["sex", "region"]])
def test_batches_find_the_keys_that_memory_finds(survey, by, coarse_memory):
    survey.loc[[0, 1000, 5999], "region"] = ["an island", None, "an island"]
    options = {**PRIVATE_KEYS, "by": by}
    expected = dp_describe(survey, **options)
    batches = (survey[start : start + 700] for start in range(0, 6000, 700))
    assert dp_describe(batches, **options).equals(expected)
    assert len(expected) >= 3


@pytest.mark.parametrize("options", [PRIVATE_KEYS, PUBLIC_KEYS], ids=["private", "public"])
@pytest.mark.parametrize("with_groups", [False, True])
def test_dask_releases_the_same_numbers_as_memory(survey, options, with_groups, coarse_memory):
    dask = pytest.importorskip("dask")
    dd = pytest.importorskip("dask.dataframe")
    survey["who"] = np.random.default_rng(1).integers(0, 2_000, size=len(survey))
    survey["region"] = survey["region"].astype("category")
    survey["note"] = "text"
    if with_groups:
        options = {**options, "groups": "who"}
    expected, loss = dp_describe(survey, return_privacy=True, **options)
    with dask.config.set(scheduler="synchronous"):
        for n_partitions in (1, 5):
            partitions = dd.from_pandas(survey, npartitions=n_partitions)
            found, loss_of_dask = dp_describe(partitions, return_privacy=True, **options)
            assert found.equals(expected)
            assert loss_of_dask == loss
    assert len(expected) >= 2


def test_counts_of_keys_in_dask_are_those_of_memory(survey):
    dask = pytest.importorskip("dask")
    dd = pytest.importorskip("dask.dataframe")
    survey = survey[:300].assign(who=np.arange(300) % 70)
    survey["region"] = survey["region"].astype("string")
    survey.loc[::9, "region"] = None
    with dask.config.set(scheduler="synchronous"):
        partitions = dd.from_pandas(survey, npartitions=4)
        for groups in (None, "who"):
            by = ["sex", "region"]
            expected = segments_of(survey, by, groups).key_counts(None)
            found = segments_of(partitions, by, groups).key_counts(None)
            assert list(found.items()) == list(expected.items())
            assert sum(expected.values()) == (300 if groups is None else 70)


def test_dask_refuses_what_it_cannot_do_unpaid(survey):
    dd = pytest.importorskip("dask.dataframe")
    ledger = PrivacyLedger(eps=1.0)
    survey["region"] = survey["region"].astype("string")
    table = dd.from_pandas(survey, npartitions=2)
    options = {"by": "region", "keys": ["south"], "ledger": ledger}
    with pytest.raises(ValueError, match="by must be the name of one column"):
        dp_describe(table, groups="region", **options)
    with pytest.raises(ValueError, match="by must be the name of one column"):
        dp_describe(table, **{**options, "by": "nothing"})
    with pytest.raises(ValueError, match="groups must be the name of a column of the dask"):
        dp_describe(table, groups="nobody", **options)
    with pytest.raises(TypeError, match="by needs a table with named columns, got a dask Array"):
        dp_describe(table[["age"]].to_dask_array(), **options)

    mixed = survey.assign(region=pd.Series([1, "1"] * 3_000, dtype=object))
    with pytest.raises(TypeError, match="objects that Dask has converted to text"):
        dp_describe(dd.from_pandas(mixed, npartitions=2), **options)
    assert ledger.records() == []


def test_private_keys_leave_out_rare_ones_and_cost_all_of_delta(survey):
    survey.loc[0, "region"] = "an island"
    found, privacy = dp_describe(
        survey, by="region", keys="private", delta=1e-6, random_state=0, return_privacy=True
    )
    assert list(found.index) == ["east", "north", "south"]
    assert (privacy.eps, privacy.delta, privacy.rho) == (1.0, 1e-6, math.inf)


def labels_of(cells):
    labels = np.empty(len(cells), dtype=object)
    labels[:] = cells
    return labels


@pytest.mark.parametrize("by", [["tuple"], ["tuple", "town"], ["town", "tuple"]])
def test_rows_without_a_label_have_no_private_key_and_raise_nothing(by):
    # One row with a label must not decide whether an error is raised.
    table = pd.DataFrame({"x": np.arange(50.0), "town": "Bern", "tuple": labels_of([(1, 2)] * 50)})
    columns = [table[name] for name in by]
    assert count_keys(columns, None) == {}
    assert count_keys(columns, np.arange(50) // 2) == {}
    assert dp_describe(table, by=by, keys="private", delta=1e-6).shape[0] == 0

    table.loc[7, "tuple"] = "a label"
    key = tuple("a label" if name == "tuple" else "Bern" for name in by)
    assert count_keys([table[name] for name in by], None) == {key: 1}


def test_public_keys_may_come_from_an_iterator():
    by = np.array(["a", "b"] * 20)
    found = dp_quantiles(np.arange(40.0), 0.5, by=by, keys=(key for key in "ab"))
    assert list(found.index) == ["a", "b"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 2), (0, 0), (2, 1)])
def test_a_batch_without_a_label_or_a_row_raises_nothing(order):
    cells = ([(1, 2)] * 50, ["Bern"] * 50, [])
    batches = [
        pd.DataFrame({"x": np.arange(float(len(of_batch))), "key": labels_of(of_batch)})
        for of_batch in (cells[number] for number in order)
    ]
    found = dp_describe(iter(batches), by="key", keys="private", eps=50.0, delta=1e-3)
    assert list(found.index) == (["Bern"] if 1 in order else [])


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        ([1, 1.5], [1.0, 1.5]),
        ([1, "a"], ["1", "a"]),
        ([-1, 2**63], [-1, 2**63]),
        ([10**300, "a"], [str(10**300), "a"]),
        (["\ud800", None], ["\\ud800", None]),
        ([1, None], [1, None]),
    ],
)
@pytest.mark.parametrize("keys", ["private", "public"])
def test_labels_of_all_kinds_are_shown_after_they_are_released(labels, shown, keys):
    by = labels_of(labels * 300)
    keys = keys if keys == "private" else labels
    options = {"keys": keys, "eps": 10.0, "delta": 1e-3, "random_state": 0}
    x = np.arange(600.0)

    found = dp_quantiles(pl.Series(x), 0.5, by=by, **options)
    assert found["key"].to_list() == shown
    table = pl.DataFrame({"x": x, "key": pl.Series(list(by), dtype=pl.Object)})
    assert dp_describe(table, by="key", **options)["key"].unique(maintain_order=True).len() == 2

    in_pandas = dp_quantiles(x, 0.5, by=by, **options).index.tolist()
    assert [None if label != label else label for label in in_pandas] == labels


def test_no_key_is_found_among_few_rows(survey):
    few = survey[:3]
    found = dp_describe(few, by="region", keys="private", eps=0.1, delta=1e-9, random_state=0)
    assert found.shape[0] == 0


def test_quantiles_by_segment_of_one_column(survey):
    found = dp_quantiles(
        survey["income"], [0.9, 0.5], by=survey["region"], keys=["south", "north"], eps=1e9
    )
    assert list(found.columns) == ["count", "50%", "90%"] and found.index.name == "region"
    exact = survey.groupby("region")["income"].median()
    assert np.allclose(found["50%"], exact[["south", "north"]], rtol=0.01)


def test_people_in_several_segments_count_once_in_all(survey, rng):
    people = rng.integers(0, 500, len(survey))
    found = dp_describe(
        survey, by="region", keys=["north", "south", "east"], groups=people, eps=1e6
    )
    assert found["age", "count"].sum() == pytest.approx(np.unique(people).size, abs=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "region"}, "keys must be given with by"),
        ({"keys": ["south"]}, "by must be given with keys"),
        ({"by": "region", "keys": "south"}, "keys must be a list of public keys"),
        ({"by": "nothing", "keys": ["south"]}, "by must be the name of one column"),
        ({"by": ["region", "region"], "keys": [("a", "b")]}, "by must be the name of one column"),
        ({"by": "region", "keys": "private"}, "requires eps and delta > 0"),
        (
            {"by": "region", "keys": "private", "eps": None, "rho": 1.0},
            "requires eps and delta > 0",
        ),
        ({"by": "region", "keys": ["south", "south"]}, "keys must be distinct"),
    ],
)
def test_wrong_arguments_are_refused_unpaid(survey, options, words):
    ledger = PrivacyLedger(eps=1.0)
    with pytest.raises(ValueError, match=words):
        dp_describe(survey, ledger=ledger, **options)
    with pytest.raises(ValueError, match="groups must be None for an iterator of batches"):
        batches = iter([survey])
        dp_describe(batches, by="region", keys=["south"], groups="sex", ledger=ledger)
    assert ledger.records() == []


def test_the_ledger_is_charged_once_for_all_segments(survey):
    ledger = PrivacyLedger(eps=1.0)
    dp_describe(survey, by="region", keys=["north", "south", "east"], ledger=ledger)
    (record,) = ledger.records()
    assert record.eps == 1.0 and record.detail.endswith("for each of 3 segments by region")
    assert "for each of 3 segments by region" in privacy_statement(ledger)


def test_losses_name_the_segments(survey):
    keys = [("north", 0), ("south", 1)]
    options = {"by": ["region", "sex"], "keys": keys, "return_privacy": True, "random_state": 0}
    _, public = dp_describe(survey, **options)
    assert public.segments == "2 segments by region and sex"
    assert "shared by        2 segments by region and sex" in str(public)
    assert public.to_dict()["dpq_sklearn"]["segments"] == public.segments

    ledger = PrivacyLedger(eps=1.0, delta=1e-5)
    options |= {"by": survey["region"], "keys": "private", "delta": 1e-6, "ledger": ledger}
    _, private = dp_quantiles(survey["age"], 0.5, **options)
    assert private.segments == "segments by region, found privately"
    assert ledger.records()[0].detail.endswith("for segments by region, found privately")
    assert dp_quantiles(survey["age"], 0.5, return_privacy=True)[1].segments is None


def test_segments_are_as_many_times_more_accurate_as_a_loop_over_them(rng):
    """A loop has to divide eps by the number of segments."""
    n_segments, n_rows, eps = 10, 5_000, 0.1
    keys = list(range(n_segments))
    labels = np.repeat(keys, n_rows)
    x = rng.exponential(0.7123, size=labels.size)  # no round number is a median

    def rank_errors(medians):
        below = [(x[labels == key] < value).sum() for key, value in zip(keys, medians, strict=True)]
        return np.abs(np.array(below) - n_rows / 2)

    at_once, in_a_loop = [], []
    for seed in range(12):
        found = dp_quantiles(x, 0.5, by=labels, keys=keys, eps=eps, random_state=seed)
        at_once.append(rank_errors(found["50%"]))
        loop = [
            dp_quantiles(x[labels == key], 0.5, eps=eps / n_segments, random_state=100 * seed + key)
            for key in keys
        ]
        in_a_loop.append(rank_errors(loop))
    # The count of each segment takes a fifth of the budget.
    assert np.mean(in_a_loop) > 0.7 * n_segments * np.mean(at_once)


def test_a_delta_above_one_over_all_segments_warns(survey):
    options = {"by": "region", "keys": ["north", "south"], "percentiles": [0.5], "random_state": 0}
    wide = survey.assign(**{f"column {number}": survey["age"] for number in range(8)})
    with pytest.warns(UserWarning, match="delta is above one over"):
        _, privacy = dp_describe(wide, delta=1e-3, return_privacy=True, **options)
    assert privacy.delta == 1e-3

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", PrivacyNoiseWarning)
        dp_describe(wide, delta=1e-4, **options)


def test_small_segments_are_named_in_the_warning(survey):
    survey = survey[survey.region != "east"]
    with pytest.warns(PrivacyNoiseWarning, match="of the segments 'east', 'west'"):
        dp_describe(survey[["region", "age"]], by="region", keys=["north", "east", "west"])
    with pytest.warns(PrivacyNoiseWarning, match=r"of the segments \('east', 1\)"):
        dp_quantiles(
            survey["age"],
            0.5,
            by=survey[["region", "sex"]],
            keys=[("east", 1), ("north", 1)],
            random_state=0,
        )


@pytest.mark.parametrize("by", [np.array(["private", "a"]), pd.Series(["private", "a"])])
def test_labels_in_place_of_a_name_are_refused_by_type_and_shape(by):
    frame = pd.DataFrame({"x": [1.0, 2.0]})
    with pytest.raises(ValueError, match="by must be the name of a column") as caught:
        dp_describe(frame, by=by, keys=["a"])
    assert "private" not in str(caught.value)
