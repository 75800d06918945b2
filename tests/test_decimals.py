"""`decimals`: what is publicly known of the numbers of a column, and never read from them."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from dpq_sklearn import DPKBinsDiscretizer, DPQuantileTransformer, dp_quantiles, sanitize
from dpq_sklearn.checks import UNBOUNDED
from dpq_sklearn.reading.containers import dtypes_of
from dpq_sklearn.reading.schema import within_schema
from dpq_sklearn.reading.sources import memory

pytestmark = pytest.mark.filterwarnings("ignore::dpq_sklearn.PrivacyNoiseWarning")


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    n = 600
    return pd.DataFrame(
        {
            "kids": rng.poisson(0.5, n),
            "age": rng.normal(40, 13, n).round(),
            "price": rng.lognormal(4, 1, n).round(2),
            "salary": rng.lognormal(10, 0.5, n).round(-3),
        }
    )


LATTICES = {"kids": 0, "age": 0, "price": 2, "salary": -3}


def is_on(values, decimals):
    return np.array_equal(values, [float(np.round(value, decimals)) for value in values])


@pytest.mark.parametrize("decimals", [list(LATTICES.values()), LATTICES], ids=["list", "dict"])
def test_released_values_are_on_the_lattice(table, decimals):
    bins = DPKBinsDiscretizer(5, decimals=decimals, random_state=0).fit(table)
    quantiles = DPQuantileTransformer(7, decimals=decimals, random_state=0).fit(table)
    for index, expected in enumerate(LATTICES.values()):
        assert is_on(bins.bin_edges_[index][1:-1], expected)
        assert is_on(quantiles._private_values()[index], expected)


@pytest.mark.parametrize("mechanism", ["aq", "agg_tree", "auto"])
@pytest.mark.parametrize("bounds", [None, (0, 120), (0.5, None)])
def test_every_mechanism_releases_points_of_the_lattice(table, mechanism, bounds):
    options = {"decimals": 0, "mechanism": mechanism, "bounds": bounds, "random_state": 3}
    values = dp_quantiles(table["age"], [0.1, 0.25, 0.5, 0.9], **options)
    assert is_on(values, 0)
    if bounds is not None:
        assert np.all(values >= bounds[0])


def test_sanitize_takes_decimals(table):
    assert is_on(sanitize(table["price"], 9, decimals=2, random_state=0), 2)


def test_values_beside_the_lattice_are_rounded_row_by_row(table):
    """So the release equals the release of rounded rows, whatever the other columns are."""
    rng = np.random.default_rng(1)
    moved = table.to_numpy(dtype=float) + rng.uniform(-0.0049, 0.0049, table.shape)
    for fit in (
        lambda estimator, X: estimator.fit(X),
        lambda estimator, X: estimator.fit_batches([X[:100], X[100:]]),
        lambda estimator, X: estimator.fit(X, groups=np.arange(len(X)) // 2),
    ):
        estimator = DPKBinsDiscretizer(4, decimals=list(LATTICES.values()), random_state=2)
        one, other = (fit(clone(estimator), X) for X in (table.to_numpy(dtype=float), moved))
        for edges, others in zip(one.bin_edges_, other.bin_edges_, strict=True):
            assert np.array_equal(edges, others)


@pytest.mark.parametrize("with_groups", [False, True])
def test_many_rows_are_rounded_before_they_are_counted_too(with_groups, monkeypatch):
    """This holds for sorted columns, and for columns that are sorted only where draws look."""
    X = np.random.default_rng(0).normal(20, 9, (5000, 2))
    groups = np.arange(len(X)) // 2 if with_groups else None
    edges = []
    for first_lazy in (1, 10**9):
        monkeypatch.setattr(memory, "LAZILY_SORTED_ROWS", first_lazy)
        for values in (X, np.column_stack((X[:, 0].round(), X[:, 1].round(1)))):
            fitted = DPKBinsDiscretizer(9, decimals=[0, 1], random_state=0).fit(
                values, groups=groups
            )
            edges.append(np.concatenate(fitted.bin_edges_))
    for others in edges[1:]:
        assert np.array_equal(edges[0], others)


def test_batches_release_what_a_fit_of_the_same_resolution_does(table):
    estimator = DPKBinsDiscretizer(8, decimals=LATTICES, resolution=24, random_state=4)
    whole = clone(estimator).fit(table)
    parts = clone(estimator).fit_batches([table[:50], table[50:300], table[300:]])
    for edges, others in zip(whole.bin_edges_, parts.bin_edges_, strict=True):
        assert np.array_equal(edges, others)


@pytest.mark.parametrize("estimator", [DPKBinsDiscretizer(4), DPQuantileTransformer(15)])
def test_nothing_depends_on_int_or_float(table, estimator):
    """One row more makes float64 of a guessed int64: then edges must not tell about it."""
    ints = table[["kids"]]
    floats = ints.astype(float)
    assert ints.dtypes.iloc[0] == np.int64
    one, other = (clone(estimator).set_params(random_state=0).fit(X) for X in (ints, floats))
    fitted, others = (
        {name: value for name, value in vars(each).items() if name != "privacy_"}  # it has an id
        for each in (one, other)
    )
    assert pickle.dumps(fitted) == pickle.dumps(others)
    values = [dp_quantiles(X["kids"], [0.2, 0.7], random_state=1) for X in (ints, floats)]
    assert np.array_equal(*values)


def test_a_row_that_changes_the_type_changes_no_more_than_a_row(table):
    """One of two neighbours is inferred to be int64, and the other to be float64."""
    ints = table["kids"]
    with_half = pd.concat([ints, pd.Series([3.5])])
    as_floats = pd.concat([ints.astype(float), pd.Series([3.0])])
    as_ints = pd.concat([ints, pd.Series([3])])
    assert with_half.dtype == float and as_ints.dtype == int
    released = [dp_quantiles(x, 0.5, random_state=5) for x in (with_half, as_floats, as_ints)]
    assert released[0] == released[1] == released[2]


INT_TABLES = {
    "numpy": lambda values, kind: np.asarray(values, dtype=kind)[:, None],
    "pandas": lambda values, kind: pd.DataFrame({"x": np.asarray(values, dtype=kind)}),
    "nullable": lambda values, kind: pd.DataFrame(
        {"x": pd.array(values, dtype="boolean" if kind == "bool" else kind.replace("i", "I", 1))}
    ),
    "polars": lambda values, kind: pl.DataFrame({"x": np.asarray(values, dtype=kind)}),
    "arrow": lambda values, kind: pa.table({"x": np.asarray(values, dtype=kind)}),
}


@pytest.mark.parametrize("container", INT_TABLES)
@pytest.mark.parametrize(
    ("kind", "bounds", "decimals"),
    [
        ("int64", UNBOUNDED, 0),
        ("int8", UNBOUNDED, 0),
        ("bool", (0.0, 1.0), 0),
        ("uint8", (0.0, 255.0), 0),
        ("uint16", (0.0, 65535.0), 0),
        ("uint32", UNBOUNDED, 0),
        ("float64", UNBOUNDED, None),
    ],
)
def test_a_schema_says_what_its_types_hold(container, kind, bounds, decimals):
    if container == "nullable":
        kind = {"uint8": "UInt8", "uint16": "UInt16", "uint32": "UInt32", "float64": "Float64"}.get(
            kind, kind
        )
    X = INT_TABLES[container]([0, 1, 1], kind)
    assert within_schema(dtypes_of(X), [UNBOUNDED]) == ([bounds], [decimals])


def test_given_bounds_come_before_those_of_a_type():
    dtypes = [np.dtype("uint8")] * 3
    given = [(3.0, np.inf), (-np.inf, 9.0), (300.0, np.inf)]
    assert within_schema(dtypes, given)[0] == [(3.0, 255.0), (0.0, 9.0), (300.0, np.inf)]


def test_objects_and_categories_say_what_is_in_their_type():
    frame = pd.DataFrame({"o": [1, 2], "c": pd.Categorical([1, 2])}, dtype=object)
    frame["c"] = frame["c"].astype(int).astype("category")
    assert within_schema(dtypes_of(frame), [UNBOUNDED] * 2)[1] == [None, 0]


def test_schema_of_all_kinds_of_fits(table):
    options = {"decimals": "schema", "random_state": 0, "encode": "ordinal"}
    typed = table.astype({"age": "int16"})
    fits = (
        DPKBinsDiscretizer(5, **options).fit(typed),
        DPKBinsDiscretizer(5, **options).fit_batches([typed[:200], typed[200:]]),
    )
    for fitted in fits:
        assert is_on(fitted.bin_edges_[0][1:-1], 0) and is_on(fitted.bin_edges_[1][1:-1], 0)
    assert is_on(np.atleast_1d(dp_quantiles(typed["age"], 0.3, decimals="schema")), 0)


@pytest.mark.parametrize("decimals", [99, True, [0], {"zz": 0}, [0, 0, 0, 1.5]])
def test_bad_decimals_are_refused_before_data_are_read(table, decimals):
    with pytest.raises(ValueError, match="decimals"):
        DPKBinsDiscretizer(decimals=decimals).fit(table)


@pytest.mark.parametrize("decimals", [99, 0.5, "cents", [0], True])
def test_bad_decimals_of_a_column_are_refused(decimals):
    with pytest.raises(ValueError, match="decimals must be"):
        dp_quantiles([1.0, 2.0], 0.5, decimals=decimals)


def test_bounds_without_a_point_between_them_are_refused():
    with pytest.raises(ValueError, match="bounds must have a number with the given decimals"):
        dp_quantiles([1.0, 2.0], 0.5, decimals=0, bounds=(0.2, 0.4))
    assert dp_quantiles([1.0, 2.0], 0.5, decimals=0, bounds=(0.2, 1.4)) == 1.0


def test_a_known_lattice_finds_the_values_that_people_wrote_down():
    """Few rows, little budget: the error of whole-number columns is a fraction of what it was."""
    rng = np.random.default_rng(0)
    ratings = rng.choice([1, 2, 3, 4, 5], 1000, p=[0.06, 0.1, 0.22, 0.34, 0.28])
    X = np.tile(ratings[:, None], (1, 200)).astype(float)
    budget = {"eps": 200 / 12, "encode": "ordinal", "random_state": 0}

    def mean_error(**options):
        edges = DPKBinsDiscretizer(5, **budget, **options).fit(X).bin_edges_
        edges = np.array([each[1:-1] for each in edges])
        below = (ratings[:, None, None] < edges).mean(axis=0)
        up_to = (ratings[:, None, None] <= edges).mean(axis=0)
        wanted = np.arange(1, 5) / 5
        return np.maximum(np.maximum(below - wanted, wanted - up_to), 0).mean()

    assert mean_error(decimals=0, bounds=(1, 5)) < 0.02
    assert mean_error(decimals=0) < 0.025
