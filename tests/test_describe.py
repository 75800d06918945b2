"""Descriptions of tables: pandas' numbers, columns by type alone, one price for all of them."""

import math
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dpq_sklearn import (
    BudgetExceededError,
    DPKBinsDiscretizer,
    PrivacyLedger,
    PrivacyNoiseWarning,
    dp_describe,
)
from dpq_sklearn.accounting.conversions import eps_of_zcdp
from dpq_sklearn.accounting.neighbours import Neighbours
from dpq_sklearn.reading.describe_format import labels_of_quantiles, read_description
from dpq_sklearn.releases import plans
from dpq_sklearn.releases.plans import plan_description
from dpq_sklearn.statistics import describe
from tests.enumeration import aq_draws, tiny_grid, worst_eps, worst_range_rho
from tests.planning import request_of
from tests.test_counts import NEIGHBOURS, ORDERS, log_chances, p_value

PERCENTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
LABELS = ["count", "5%", "25%", "50%", "75%", "95%"]
MUCH = 1e9  # an eps that leaves hardly any noise
PRICES = {"eps": {"eps": 1.0}, "rho": {"eps": None, "rho": 0.5}}
each_price = pytest.mark.parametrize("price", PRICES.values(), ids=PRICES)


@pytest.fixture
def frame(rng):
    """Two numeric columns, one of them with missing values, among columns of other types."""
    return pd.DataFrame(
        {
            "name": ["Ada", "Bob", None, "Cleo"] * 250,
            "age": rng.integers(18, 90, size=1000),
            "is_member": rng.random(1000) < 0.5,
            "income": np.where(rng.random(1000) < 0.3, np.nan, rng.lognormal(10, 1, size=1000)),
            "born": pd.Series(range(1000)).map("born on day {}".format).astype("category"),
        }
    )


# What is described


def test_without_noise_a_description_has_the_numbers_of_pandas(frame):
    description = dp_describe(frame, eps=MUCH)
    assert list(description.columns) == ["age", "income"]
    assert list(description.index) == LABELS
    assert (description.dtypes == np.float64).all()
    for name, described in description.items():
        values = frame[name].dropna()
        assert described["count"] == values.size
        below = [(values <= value).mean() for value in described[1:]]
        assert below == pytest.approx(PERCENTILES, abs=0.02)  # ages are tied


def test_any_percentiles_in_ascending_order(frame):
    description = dp_describe(frame, percentiles=[0.9, 1 / 3, 0.001], eps=MUCH)
    assert list(description.index) == ["count", "0.1%", "33.3%", "90%"]
    assert (np.diff(description[1:], axis=0) >= 0).all()
    assert list(dp_describe(frame, percentiles=0.5, eps=MUCH).index) == ["count", "50%"]


@pytest.mark.parametrize(
    "probabilities",
    [
        PERCENTILES,
        [0.5],
        [0.07, 0.14, 0.29, 0.5, 0.57, 0.58],
        [0.001, 0.5, 0.999],
        [1 / 3, 0.5, 2 / 3],
        [0.25, 0.2512, 0.5],
        [1e-6, 0.5],
    ],
)
def test_labels_are_those_of_pandas(probabilities):
    """With the median, which earlier versions of pandas add."""
    described = pd.Series([1.0, 2.0]).describe(percentiles=probabilities)
    expected = [label for label in described.index if label.endswith("%")]
    assert labels_of_quantiles(probabilities) == expected


def test_no_label_says_that_a_quantile_is_an_extreme():
    assert labels_of_quantiles([1e-5, 0.5, 0.99999]) == ["0.001%", "50%", "99.999%"]


@given(st.lists(st.floats(1e-9, 1 - 1e-9), min_size=1, max_size=20, unique=True))
def test_labels_are_distinct(probabilities):
    labels = labels_of_quantiles(sorted(probabilities))
    gaps = np.diff([0.0, *sorted(probabilities), 1.0])
    assert len(set(labels)) == len(labels) or gaps.min() < 1e-15


QUANTITIES = {
    "float64": [1.0, None, 2.5],
    "float32": [1.0, None, 2.5],
    "int8": [1, 2, 3],
    "uint64": [1, 2, 3],
    "Int64": [1, None, 3],
    "Float32": [1.0, None, 3.0],
    "int32[pyarrow]": [1, None, 3],
    "double[pyarrow]": [1.0, None, 3.0],
    "Sparse[float64]": [0.0, 0.0, 1.0],
}
OTHER_TYPES = {
    "bool": [True, False, True],
    "boolean": [True, None, False],
    "object": [1.0, 2.0, 3.0],  # whatever the cells are
    "category": [1, 2, 3],
    "period[D]": ["2000-01-01"] * 3,
    "string": ["1", "2", "3"],
    "bool[pyarrow]": [True, False, True],
    "complex128": [1, 2, 3],
}


def test_types_decide_which_columns_of_pandas_are_described():
    columns = {
        dtype: pd.Series(cells, dtype=dtype) for dtype, cells in (QUANTITIES | OTHER_TYPES).items()
    }
    description = dp_describe(pd.DataFrame(columns), percentiles=0.5, eps=MUCH)
    assert list(description.columns) == list(QUANTITIES)
    n_missing = [sum(cell is None for cell in cells) for cells in QUANTITIES.values()]
    assert (description.loc["count"] + n_missing == 3).all()


def test_types_decide_which_columns_of_polars_and_arrow_are_described():
    table = pa.table(
        {
            "half": pa.array([1.0, None], pa.float32()),
            "whole": pa.array([1, 2], pa.int16()),
            "text": ["1", "2"],
            "truth": [True, None],
            "nothing": pa.nulls(2),
            "date": pa.array([1, 2], pa.date32()),
            "decimal": pa.array([1, None], pa.decimal128(5, 2)),
            "dictionary": pa.array([1, 2]).dictionary_encode(),
        }
    )
    for description in (
        dp_describe(table, percentiles=0.5, eps=MUCH),
        dp_describe(table.to_batches()[0], percentiles=0.5, eps=MUCH),
        dp_describe(table.to_pandas(types_mapper=pd.ArrowDtype), percentiles=0.5, eps=MUCH),
    ):
        assert list(description.columns) == ["half", "whole", "date", "decimal"]
        assert description.loc["count"].tolist() == [1, 2, 2, 1]

    without = table.drop_columns(["dictionary"])
    described = dp_describe(pl.from_arrow(without), percentiles=0.5, eps=MUCH)
    assert described.columns == ["statistic", "half", "whole", "date", "decimal"]


def test_polars_is_described_as_polars_does(frame):
    table = pl.from_pandas(frame)
    description = dp_describe(table, random_state=0)
    assert isinstance(description, pl.DataFrame)
    assert description["statistic"].to_list() == LABELS
    of_pandas = dp_describe(frame, random_state=0)
    assert np.array_equal(description.drop("statistic").to_numpy(), of_pandas.to_numpy())
    with pytest.raises(ValueError, match="must not be named 'statistic'"):
        dp_describe(table.rename({"age": "statistic"}))


def test_arrays_have_numbered_columns(frame):
    named = frame[["age", "income"]]
    description = dp_describe(named.to_numpy(), random_state=0)
    assert list(description.columns) == [0, 1]
    assert np.array_equal(description, dp_describe(named, random_state=0))


def test_names_stay_as_they_are():
    columns = pd.MultiIndex.from_tuples([("a", 1), ("a", 2)], names=["one", "two"])
    frame = pd.DataFrame(np.ones((5, 2)), columns=columns)
    assert dp_describe(frame).columns.equals(columns)
    twice = pd.DataFrame(np.ones((5, 3)), columns=["a", "b", "a"])
    assert list(dp_describe(twice.assign(c="x")).columns) == ["a", "b", "a"]
    of_arrow = pa.table([[1.0], ["x"], [2.0]], names=["a", "a", "a"])
    assert list(dp_describe(of_arrow).columns) == ["a", "a"]


def test_iterators_of_tables_are_described_as_one(frame):
    parts = [frame[:10], frame[10:10], frame[10:]]
    whole = dp_describe(iter([frame]), random_state=0)
    assert whole.equals(dp_describe(iter(parts), random_state=0))
    assert whole.loc["count"].equals(dp_describe(frame, random_state=0).loc["count"])
    with pytest.raises(ValueError, match="groups must be None for an iterator"):
        dp_describe(iter(parts), groups=[0] * 1000)
    with pytest.raises(ValueError, match="non-empty iterator of tables"):
        dp_describe(iter([]))
    with pytest.raises(ValueError, match=r"same columns of numbers .* \['age', 'income'\]"):
        dp_describe(iter([frame, frame[["age"]]]))


@pytest.mark.slow
@pytest.mark.parametrize("with_groups", [False, True])
def test_dask_is_described_as_batches_are(frame, with_groups):
    dd = pytest.importorskip("dask.dataframe")
    collection = dd.from_pandas(frame, npartitions=3)
    if with_groups:
        description = dp_describe(collection, groups="name", eps=MUCH)
        assert list(description.columns) == ["age", "income"]
        n_people = frame["name"].nunique() + frame["name"].isna().sum()
        assert description.loc["count", "age"] == n_people
        return

    description = dp_describe(collection, random_state=0)
    assert description.equals(dp_describe(iter([frame]), random_state=0))
    array = collection[["age", "income"]].to_dask_array()
    assert np.array_equal(dp_describe(array, random_state=0), description)
    words = r"must have a column of numbers or dates, got 'name' \(\w+\), 'is_member'"
    with pytest.raises(ValueError, match=words):
        dp_describe(collection[["name", "is_member"]])


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=25),
    st.integers(0, 3),
)
def test_a_person_more_changes_each_count_by_one_at_most(rows, person):
    """Compare the exact counts before noise is added with the sensitivity of the noise."""
    groups = np.array([row[0] for row in rows])
    numbers = np.array([row[1:] for row in rows], dtype=float)
    numbers[numbers == 0] = np.nan
    others = groups != person
    counts = [
        dp_describe(numbers[rows], percentiles=0.5, eps=1e12, groups=groups[rows]).loc["count"]
        for rows in (np.ones(len(rows), dtype=bool), others)
    ]
    assert (counts[0] - counts[1]).between(0, 1).all()

    weights = 1 / np.bincount(groups)[groups]
    expected = (weights[:, None] * ~np.isnan(numbers)).sum(axis=0)
    assert np.abs(counts[0] - expected).max() <= 0.5 + 1e-3


# Nothing but names and types decides about the shape


def test_what_is_in_a_column_does_not_change_the_kind_of_output(frame):
    tables = [
        frame,
        frame.assign(income=np.nan),
        frame.assign(income=np.inf),
        frame.assign(income=0.0),
        frame[:1],
        frame[:0],
    ]
    for table in tables:
        description = dp_describe(table)
        assert list(description.columns) == ["age", "income"]
        assert list(description.index) == LABELS
        assert np.isfinite(description.to_numpy()).all()
        assert (description.loc["count"] >= 0).all()
        assert (description.loc["count"] % 1 == 0).all()


@pytest.mark.parametrize("row", [[np.nan, np.nan], [np.inf, -np.inf], [1e300, 0.0], [5.0, 5.0]])
def test_no_row_warns_or_raises_whatever_numpy_is_told(row):
    table = np.zeros((100, 2))
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyNoiseWarning)  # by the released counts alone
        dp_describe(table)
        dp_describe(np.vstack((table, row)))


def test_the_table_is_not_changed(frame):
    before = frame.copy()
    dp_describe(frame, decimals={"age": 0}, bounds={"income": (0, 1e5)})
    pd.testing.assert_frame_equal(frame, before)


def test_the_same_seed_gives_the_same_numbers_in_any_number_of_threads(frame):
    one = dp_describe(frame, random_state=7)
    assert one.equals(dp_describe(frame, random_state=7, n_jobs=2))
    assert not one.equals(dp_describe(frame, random_state=8))
    assert not dp_describe(frame).equals(dp_describe(frame))


# What is publicly known


def test_bounds_and_decimals_by_name_are_kept(frame):
    known = {"bounds": {"income": (1000, 50_000)}, "decimals": {"age": 0}}
    description = dp_describe(frame, eps=0.01, **known)
    assert description["income"][1:].between(1000, 50_000).all()
    assert (description["age"] % 1 == 0).all()
    of_schema = dp_describe(frame, eps=0.01, decimals="schema")
    assert (of_schema["age"] % 1 == 0).all()


@pytest.mark.parametrize("as_polars", [False, True])
def test_an_earlier_description_is_a_prior_and_not_public_rows(frame, as_polars):
    if as_polars:
        frame = pl.from_pandas(frame)
    earlier = dp_describe(frame, eps=MUCH)
    exact = read_description(earlier).values

    def quantiles(**options):
        return read_description(dp_describe(frame, eps=0.02, **options)).values

    def edges(**options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyNoiseWarning)
            fitted = DPKBinsDiscretizer(4, eps=0.02, **options).fit(frame[["age", "income"]])
        return np.transpose([edges[1:-1] for edges in fitted.bin_edges_])

    def distance(release, exact, prior):
        found = [release(prior=prior, random_state=seed) for seed in range(20)]
        return np.median(np.abs(np.log(np.maximum(found, 1e-9) / exact)))

    for release, expected in ((quantiles, exact), (edges, exact[1:4])):
        assert distance(release, expected, earlier) < 0.5 * distance(release, expected, None)


def test_public_rows_may_have_columns_of_other_types_as_the_table_has(frame):
    dp_describe(frame, prior=frame[:100].copy())
    with pytest.raises(ValueError, match="prior must be public"):
        dp_describe(frame, prior=frame)
    with pytest.raises(ValueError, match="prior must have the 2 columns of X, got 1"):
        dp_describe(frame, prior=pd.DataFrame({"age": [1.0, 2.0]}))


def test_descriptions_of_pandas_are_read_too(frame):
    described = read_description(frame.describe())
    assert described.probabilities == (0.25, 0.5, 0.75)
    assert described.counts.tolist() == frame[["age", "income"]].count().to_list()
    assert read_description(frame) is None
    assert read_description(frame.to_numpy(dtype=object)) is None
    assert read_description(pl.from_pandas(frame)) is None


# The price


@each_price
@pytest.mark.parametrize("n_columns", [1, 2, 7])
def test_counts_and_quantiles_of_all_columns_cost_no_more_than_was_asked_for(price, n_columns):
    plan = plan_description(request_of([PERCENTILES] * n_columns, **price))
    mechanism = plan.quantiles.request.mechanism
    costs = [mechanism.cost(PERCENTILES, budget) for budget in plan.quantiles.budgets]
    costs += [noise.cost() for noise in plan.count_noises]
    assert len(costs) == 2 * n_columns

    eps, rho = map(math.fsum, zip(*costs, strict=True))
    spent, asked = (rho, 0.5) if price["eps"] is None else (eps, 1.0)
    assert 0.99 * asked < spent <= asked
    assert rho <= plan.loss.rho * (1 + 1e-9)
    assert (plan.loss.eps, plan.loss.rho)[price["eps"] is None] == asked


@each_price
@pytest.mark.parametrize("n_columns", [1, 2])
@pytest.mark.parametrize("neighbours", NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_every_description_of_neighbours_costs_at_most_the_price(price, n_columns, neighbours):
    """All counts and all cells, under the worst base measure, with which the price is spent."""
    quantiles = (0.25, 0.75)
    plan = plan_description(request_of([quantiles] * n_columns, bounds=(0.0, 3.0), **price))
    assert len(set(plan.quantiles.budgets)) == 1
    ranks, pairs, _ = neighbours(tiny_grid(3, 1))
    draws = aq_draws(ranks, quantiles, plan.quantiles.budgets[0])

    # The counts that get the noise, as the plan makes them.
    totals = plan.totals(ranks)
    support = np.arange(-3000, 3001)
    logs = {n: log_chances(plan.count_noises[0], support - n) for n in set(totals.tolist())}
    usable = np.min(list(logs.values()), axis=0) > -600
    changes = {(int(totals[one]), int(totals[other])) for one, other in pairs}
    eps_of_count = rho_of_count = 0.0
    for one, other in [*changes, *(change[::-1] for change in changes)]:
        p, q = logs[one][usable], logs[other][usable]
        eps_of_count = max(eps_of_count, np.abs(p - q).max())
        for order in ORDERS:
            moment = math.log(math.fsum(np.exp(order * p + (1 - order) * q)))
            rho_of_count = max(rho_of_count, moment / (order - 1) / order)

    # A record has a value of its own in each column, and all draws and noises are independent.
    if price["eps"]:
        eps = n_columns * (worst_eps(draws, pairs, any_measure=True) + eps_of_count)
        assert 0.99 * price["eps"] < eps <= price["eps"]
    rho = n_columns * (worst_range_rho(draws, pairs) + rho_of_count)
    assert (0.85 if price["eps"] else 0.99) * plan.loss.rho < rho <= plan.loss.rho


@each_price
def test_the_count_gets_the_share_with_which_all_six_errors_are_least(price, monkeypatch):
    def sum_of_errors(share):
        monkeypatch.setattr(plans, "VALUE_COUNT_SHARE", share)
        plan = plan_description.__wrapped__(request_of([PERCENTILES] * 3, **price))
        mechanism = plan.quantiles.request.mechanism
        of_quantiles = mechanism.rank_deviations(PERCENTILES, plan.quantiles.budgets[0])
        return of_quantiles.sum() + plan.count_noises[0].deviation()

    here = sum_of_errors(plans.VALUE_COUNT_SHARE)
    others = [sum_of_errors(share) for share in (0.05, 0.1, 0.15, 0.25, 0.3, 0.4)]
    assert here <= 1.001 * min(others)
    assert others[0] > 1.1 * here


def test_the_noise_of_counts_is_that_of_their_budget_and_of_no_other():
    """4,000 columns with an eps of 1 each are 4,000 noises with an eps of a fifth."""
    n_columns = 4000
    table = np.zeros((150, n_columns))
    description = dp_describe(table, percentiles=0.5, eps=float(n_columns), random_state=0)
    noises = description.loc["count"].to_numpy().astype(int) - 150
    price = {"eps": 0.2, "delta": 0.0, "rho": None}
    assert p_value(noises, price) > 1e-3
    for factor in (0.8, 1.25):
        assert p_value(noises, price | {"eps": factor * 0.2}) < 1e-4


def test_a_delta_buys_less_noise_for_many_columns():
    of_eps, of_delta = (
        plan_description(request_of([PERCENTILES] * 10, delta=delta)) for delta in (0.0, 1e-6)
    )
    assert (of_eps.loss.delta, of_delta.loss.delta) == (0.0, 1e-6)
    assert of_delta.loss.account == "zCDP" and of_delta.loss.eps == 1.0
    assert of_delta.count_noises[0].deviation() < 0.5 * of_eps.count_noises[0].deviation()
    budgets = of_delta.quantiles.budgets
    costs = [of_delta.quantiles.request.mechanism.cost(PERCENTILES, b).rho for b in budgets]
    costs += [noise.cost().rho for noise in of_delta.count_noises]
    assert math.fsum(costs) <= of_delta.loss.rho
    assert eps_of_zcdp(of_delta.loss.rho, 1e-6) <= 1.0


@pytest.mark.filterwarnings("ignore:delta is above one over")
@pytest.mark.parametrize("price", [*PRICES.values(), {"eps": 0.5, "delta": 1e-3}])
def test_a_description_is_one_entry_of_a_ledger(price, frame, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db", uncapped=True)
    _, loss = dp_describe(frame, ledger=ledger, return_privacy=True, **price)
    (record,) = ledger.records()
    assert (record.what, record.detail) == ("dp_describe", "5 quantiles and a count")
    assert list(record.columns) == ["age", "income"]
    assert (record.eps, record.delta, record.rho) == (loss.eps, loss.delta, loss.rho)
    assert loss.os_randomness and loss.neighbours is Neighbours.ROWS
    if price["eps"] is None:
        assert loss.rho == price["rho"] and loss.pure_eps == math.inf
    else:
        assert loss.eps == price["eps"]
    assert sum(event.times for event in loss.events) == 2 * (2 + 1)  # a fork of two, and a count


def test_groups_are_people_in_the_ledger(frame, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db", neighbours="people", uncapped=True)
    dp_describe(frame, groups=frame["name"], ledger=ledger)
    with pytest.raises(ValueError, match="rows"):
        dp_describe(frame, ledger=ledger)
    assert len(ledger.records()) == 1


# Refusals


def test_a_ledger_that_is_used_up_refuses_before_anything_is_read(frame, tmp_path, monkeypatch):
    ledger = PrivacyLedger(tmp_path / "ledger.db", eps=1.0)
    dp_describe(frame, eps=0.7, ledger=ledger)

    def read(*arguments):
        raise AssertionError("rows were read")

    monkeypatch.setattr(describe, "release", read)
    with pytest.raises(BudgetExceededError):
        dp_describe(frame, eps=0.7, ledger=ledger)
    assert len(ledger.records()) == 1


class Untouchable:
    """A table that must not be looked at."""

    def __getattribute__(self, name):
        raise AssertionError("the table was touched")


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"eps": 0}, "eps must be"),
        ({"eps": 1.0, "rho": 1.0}, "rho excludes eps"),
        ({"delta": 1.0}, "delta must be"),
        ({"random_state": "x"}, "random_state"),
        ({"percentiles": [0, 0.5]}, "percentiles must be numbers strictly between 0 and 1"),
        ({"percentiles": []}, "percentiles must be numbers strictly between 0 and 1"),
        ({"percentiles": [0.5, 0.5]}, "percentiles must be distinct, got list of length 2"),
        ({"percentiles": "5%"}, "percentiles must be numbers"),
        ({"mechanism": "laplace"}, "mechanism must be one of"),
        ({"mechanism": "joint_exp"}, "mechanism must be one of"),
    ],
)
def test_bad_parameters_raise_before_the_table_is_touched(arguments, match):
    with pytest.raises(ValueError, match=match):
        dp_describe(Untouchable(), **arguments)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"bounds": {"Age": (0, 1), "wage": (0, 1)}}, r"got \['Age', 'wage'\]"),
        ({"decimals": {"Age": 0, "name": 1}}, r"got \['Age', 'name'\]"),
        ({"bounds": (1, 0)}, "low < high"),
        ({"bounds": [(0, 1)] * 3}, "each of the 2 features"),
        ({"decimals": 99}, "decimals must be"),
        ({"decimals": "no"}, "decimals must be"),
        ({"groups": [0, 1]}, "one label for each row"),
        ({"prior": np.zeros((5, 3))}, "prior must have the 2 columns"),
        ({"eps": 1e-12}, "too small for a guarantee"),
    ],
)
def test_what_does_not_fit_the_columns_is_named_before_the_price_is_paid(arguments, match, frame):
    ledger = PrivacyLedger(eps=1.0)
    with pytest.raises(ValueError, match=match):
        dp_describe(frame, ledger=ledger, **arguments)
    assert not list(ledger.records())


TABLES = {
    "no numbers": (pd.DataFrame({"a": ["31337"], "b": [True]}), r"'a' \(\w+\), 'b' \(bool\)"),
    "objects": (pd.DataFrame({"a": [31337.0]}, dtype=object), r"'a' \(object\).*pd.to_numeric"),
    "polars": (pl.DataFrame({"a": ["31337"], "b": [True]}), r"'a' \(String\), 'b' \(Boolean\)"),
    "no columns": (pd.DataFrame(), "got no columns"),
    "list": ([[31337.0, 2.0]], "an array or a list of object"),
    "text": (np.array([["31337"]]), "an array or a list of str"),
    "column": (np.array([31337.0]), "2D"),
    "cube": (np.full((2, 2, 2), 31337.0), "table must have two dimensions, got 3"),
    "sparse": (sparse.csr_array(np.full((2, 2), 31337.0)), "table must be dense"),
    "path": ("31337.csv", "table|2D"),
    "none": (None, "table|2D"),
}


@pytest.mark.parametrize(("table", "match"), TABLES.values(), ids=TABLES)
def test_what_is_no_table_of_numbers_is_refused_before_the_price_is_paid(table, match):
    ledger = PrivacyLedger(eps=1.0)
    with pytest.raises((ValueError, TypeError), match=match) as caught:
        dp_describe(table, ledger=ledger)
    assert not list(ledger.records())
    assert "31337" not in str(caught.value) and "31337" not in str(caught.value.__context__)


def test_without_pandas_a_description_is_a_small_table(frame, monkeypatch):
    X = frame[["age", "income"]].to_numpy(dtype=float)
    of_pandas = dp_describe(X, random_state=0)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pandas", None)
        description = dp_describe(X, random_state=0)
        again = read_description(description)

    assert description.labels == list(of_pandas.index)
    first, second = description.columns
    assert np.array_equal(np.column_stack([description[first], description[second]]), of_pandas)
    assert description[[second]].columns == [second]
    assert "count" in repr(description) and "50%" in str(description)
    assert np.array_equal(again.values, read_description(of_pandas).values)
    assert description.to_pandas().equals(of_pandas)
