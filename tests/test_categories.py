"""Categories: which labels are equal, and how many records have each, in all containers."""

import itertools
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpq_sklearn.reading.categories import (
    array_of_categories,
    categories_of,
    count_categories,
    count_columns,
    merged_counts,
    order_of,
    public_form,
    table_of_categories,
)

TOWNS = ["Bern", "Basel", None, "Bern", "bern", None, "Ardez", "Bern"]
COUNTS_OF_TOWNS = Counter({"Bern": 3, None: 2, "Basel": 1, "bern": 1, "Ardez": 1})
NUMBERS = [3, 1, None, 3, 3, None, -7, 1]
COUNTS_OF_NUMBERS = Counter({3: 3, 1: 2, None: 2, -7: 1})


def columns_of_text():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    objects = np.array(TOWNS, dtype=object)
    with_nan = np.array([np.nan if town is None else town for town in TOWNS], dtype=object)
    declared = pandas.CategoricalDtype(["Zug", "bern", "Bern", "Basel", "Ardez"])
    enum = polars.Enum(["Zug", "bern", "Bern", "Basel", "Ardez"])
    arrow = pyarrow.array(TOWNS)
    return {
        "numpy objects": objects,
        "numpy objects with NaN": with_nan,
        "numpy masked": np.ma.MaskedArray(
            ["" if town is None else town for town in TOWNS], [town is None for town in TOWNS]
        ),
        "pandas objects": pandas.Series(TOWNS, dtype=object),
        "pandas NA": pandas.Series(TOWNS, dtype=object).where(objects != None, pandas.NA),  # noqa: E711
        "pandas inferred": pandas.Series(TOWNS),
        "pandas string": pandas.Series(TOWNS, dtype="string"),
        "pandas string of Arrow": pandas.Series(TOWNS, dtype="string[pyarrow]"),
        "pandas Arrow": pandas.Series(TOWNS, dtype=pandas.ArrowDtype(pyarrow.string())),
        "pandas category": pandas.Series(TOWNS, dtype="category"),
        "pandas declared": pandas.Series(TOWNS, dtype=declared),
        "polars String": polars.Series(TOWNS),
        "polars Categorical": polars.Series(TOWNS, dtype=polars.Categorical),
        "polars Enum": polars.Series(TOWNS, dtype=enum),
        "polars Object": polars.Series(TOWNS, dtype=polars.Object),
        "Arrow": arrow,
        "Arrow large": arrow.cast(pyarrow.large_string()),
        "Arrow dictionary": arrow.dictionary_encode(),
        "Arrow chunks": pyarrow.chunked_array([arrow[:3], arrow[3:]]),
    }


def columns_of_numbers():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    floats = np.array([np.nan if number is None else number for number in NUMBERS])
    return {
        "numpy floats": floats,
        "numpy float32": floats.astype(np.float32),
        "numpy objects": np.array(NUMBERS, dtype=object),
        "numpy mixed objects": np.array([3, 1.0, None, np.int8(3), Decimal(3), np.nan, -7, True]),
        "numpy masked": np.ma.MaskedArray(np.nan_to_num(floats).astype(int), np.isnan(floats)),
        "pandas Int64": pandas.Series(NUMBERS, dtype="Int64"),
        "pandas Float32": pandas.Series(NUMBERS, dtype="Float32"),
        "pandas sparse": pandas.Series(floats, dtype=pandas.SparseDtype(float, np.nan)),
        "pandas category": pandas.Series(NUMBERS, dtype="category"),
        "polars Int32": polars.Series(NUMBERS, dtype=polars.Int32),
        "polars Float64": polars.Series(NUMBERS, dtype=polars.Float64),
        "Arrow int8": pyarrow.array(NUMBERS, type=pyarrow.int8()),
        "Arrow double": pyarrow.array(NUMBERS, type=pyarrow.float64()),
    }


def test_all_containers_of_text_agree():
    for name, column in columns_of_text().items():
        assert count_categories(column) == COUNTS_OF_TOWNS, name
        numbers, categories = categories_of(column)
        assert [categories[number] for number in numbers] == TOWNS, name
        used = [category for category in categories if category != "Zug"]
        assert used == ["Ardez", "Basel", "Bern", "bern", None], name


def test_all_containers_of_numbers_agree():
    for name, column in columns_of_numbers().items():
        counts = count_categories(column)
        assert counts == COUNTS_OF_NUMBERS, name
        assert {type(category) for category in counts} == {int, type(None)}, name


def test_booleans_are_the_numbers_0_and_1_in_all_containers():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    values = [True, False, True]
    for column in (
        np.array(values),
        np.array(values, dtype=object),
        np.array([1, 0, 1]),
        pandas.Series(values),
        pandas.Series(values, dtype="boolean"),
        polars.Series(values),
    ):
        assert count_categories(column) == Counter({1: 2, 0: 1})


def test_counts_do_not_depend_on_whether_pandas_is_loaded(monkeypatch):
    cells = ["a", 0.0, -0.0, float("nan"), np.nan, None, 1.5, "a", "1.5", float("inf")]
    column = np.array(cells, dtype=object)
    with_pandas = count_categories(column)
    monkeypatch.delitem(sys.modules, "pandas")
    assert count_categories(column) == with_pandas
    assert with_pandas == {"a": 2, 0: 2, None: 3, 1.5: 1, "1.5": 1, np.inf: 1}


def test_columns_without_rows_have_no_categories():
    for column in (*columns_of_text().values(), *columns_of_numbers().values()):
        assert count_categories(column[:0]) == Counter()
        assert count_categories(column[:0], np.empty(0, dtype=np.int64)) == Counter()


class Raises:
    def __eq__(self, other):
        raise RuntimeError("a cell")

    __hash__ = None


def test_cells_that_are_no_labels_raise_nothing_and_count_nowhere():
    cells = ["a", Raises(), {}, [], (1, 2), b"a", 1j, np.datetime64("2020"), Fraction(1, 3), "a"]
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    numbers, categories = categories_of(column)
    assert categories == ["a"]
    assert numbers.tolist() == [0, *[-1] * 8, 0]
    assert count_categories(column, np.arange(len(cells)) // 2) == Counter({"a": 2})


@pytest.mark.parametrize(
    "number", [10**400, -(10**5000), Decimal("1e400"), Decimal("1e999999999")], ids=range(4)
)
def test_numbers_beyond_the_largest_float_count_nowhere(number):
    # No array of numbers can hold them, and those with more than 4,300 digits cannot be printed.
    column = np.array([number, 2**1000, float("inf")] * 2, dtype=object)
    assert count_categories(column) == Counter({2**1000: 2, float("inf"): 2})
    assert array_of_categories(categories_of(column)[1]).tolist() == [2.0**1000, float("inf")]


def test_public_forms_do_not_depend_on_the_type_of_a_number():
    for label in (1, 1.0, True, np.int8(1), np.float32(1), np.bool_(True), Decimal(1), Fraction(1)):
        assert public_form(label) == 1 and type(public_form(label)) is int
    assert type(public_form(0.5)) is float and type(public_form(np.float32(0.5))) is float
    assert public_form(-0.0) == 0 and type(public_form(-0.0)) is int
    assert public_form(2**70) == 2**70
    assert public_form(np.inf) == np.inf
    assert type(public_form(np.str_("a"))) is str
    assert public_form("1") == "1"


def test_the_order_is_numbers_then_text_then_missing():
    categories = [None, "b", 2, "10", 1.5, "a", -1]
    assert sorted(categories, key=order_of) == [-1, 1.5, 2, "10", "a", "b", None]


def test_arrays_of_categories_have_a_dtype_by_the_categories_alone():
    assert array_of_categories([1, 2]).dtype == np.int64
    assert array_of_categories([1, 2.5]).dtype == np.float64
    np.testing.assert_array_equal(array_of_categories([1, None]), [1.0, np.nan])
    assert array_of_categories([2**53 + 1, None]).tolist()[0] == 2**53 + 1
    assert array_of_categories([2**70]).tolist() == [2**70]
    assert array_of_categories(["a", None]).dtype == object
    assert array_of_categories([]).shape == (0,)


def counts_by_definition(labels, people):
    """Each person has the first, in the public order, of the most frequent labels."""
    chosen = Counter()
    for person in set(people):
        rows = Counter(
            label for label, other in zip(labels, people, strict=True) if other == person
        )
        chosen[min(rows, key=lambda label: (-rows[label], order_of(label)))] += 1
    return chosen


def test_people_count_once_with_their_most_frequent_category_in_all_small_tables():
    labels = ["b", "a", None]
    for n_rows in range(5):
        for cells in itertools.product(labels, repeat=n_rows):
            for people in itertools.product(range(2), repeat=n_rows):
                column = np.array([*cells, "?"], dtype=object)[:-1]
                counted = count_columns(column[:, None], np.array(people, dtype=int))[0]
                assert counted == counts_by_definition(cells, people)


def test_one_person_more_changes_one_count_by_one_in_all_small_tables():
    """Check all rows: the new person has up to three, and two other people have up to two each."""
    cells = ["a", "b", 1]
    rows_of_person = [rows for n in (1, 2) for rows in itertools.product(cells, repeat=n)]
    rows_of_new = [rows for n in (1, 2, 3) for rows in itertools.product(cells, repeat=n)]

    for one, two in itertools.combinations(rows_of_person, 2):
        before = [*one, *two]
        people = [0] * len(one) + [1] * len(two)
        without = count_columns(np.array(before, dtype=object)[:, None], np.array(people))[0]
        for new in rows_of_new:
            column = np.array([*before, *new], dtype=object)[:, None]
            more = count_columns(column, np.array(people + [2] * len(new)))[0]
            assert sum((more - without).values()) == 1 and not without - more


def test_the_order_of_rows_and_the_labels_of_people_change_no_count():
    rng = np.random.default_rng(0)
    column = rng.choice(["a", "b", "c", None], size=500).astype(object)
    people = rng.integers(0, 100, size=500)
    expected = count_columns(column[:, None], people)
    order = rng.permutation(500)
    assert count_columns(column[order][:, None], people[order]) == expected
    named = np.array([f"person {-person}" for person in people])
    assert count_columns(column[:, None], named) == expected


def test_missing_labels_of_people_are_people_of_their_own():
    column = np.array(["a", "a", "b"], dtype=object)
    assert count_columns(column[:, None], [None, None, 7.0]) == [Counter({"a": 2, "b": 1})]


def test_counts_of_parts_add_up_in_any_order():
    column = np.array(TOWNS, dtype=object)[:, None]
    parts = [count_columns(part) for part in np.array_split(column, 3)]
    for some in itertools.permutations(parts):
        assert merged_counts(some) == [COUNTS_OF_TOWNS]
    assert merged_counts([]) == []


@pytest.mark.parametrize(
    "column",
    [
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.array([1], dtype="timedelta64[D]"),
        np.array([1j]),
        np.array([b"a"]),
    ],
)
def test_types_without_categories_are_refused_by_name(column):
    with pytest.raises(ValueError, match="column 0 of X must hold text, numbers or booleans"):
        table_of_categories(column[:, None])


def test_types_of_other_libraries_without_categories_are_refused():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    dates = ["2020-01-01"]
    for table in (
        pandas.DataFrame({"when": pandas.to_datetime(dates)}),
        pandas.DataFrame({"when": pandas.to_datetime(dates)}).astype("category"),
        pandas.DataFrame({"when": pandas.PeriodIndex(dates, freq="D")}),
        polars.DataFrame({"when": [[1, 2]]}),
        polars.DataFrame({"when": dates}).with_columns(polars.col("when").str.to_date()),
        polars.DataFrame({"when": [Decimal(1)]}),
    ):
        with pytest.raises(ValueError, match="column 'when' of X must hold text, numbers"):
            table_of_categories(table)
