"""Labels: all containers tell the same people apart, as a plain loop over Python objects does."""

import array
import collections
import datetime
import decimal
import fractions
import math
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpq_sklearn import DPKBinsDiscretizer, PrivacyLedger, dp_count, dp_quantiles
from dpq_sklearn.reading.groups import checked_groups, weights_of_rows
from dpq_sklearn.reading.labels import people_of

BIG = 2**60  # a float cannot tell it from the next integers

# The reference


def is_missing(label):
    return label is None or (isinstance(label, float) and math.isnan(label))


def is_one(a, b):
    """Whether two labels are one person, or two parts of compound labels are one part."""
    if is_missing(a) or is_missing(b):
        return is_missing(a) and is_missing(b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(is_one, a, b))
    a, b = (x.item() if isinstance(x, np.number) else x for x in (a, b))  # Decimal raises for some
    return a == b


def people(labels):
    """Return the first row of the same person, for each row."""
    firsts = []
    for row, label in enumerate(labels):
        earlier = [] if is_missing(label) else [r for r in range(row) if is_one(label, labels[r])]
        firsts.append(min(earlier, default=row))
    return firsts


def found(labels):
    """Return the same, computed by the package."""
    labels = checked_groups(labels, len(labels))
    codes = people_of(labels).tolist()
    assert weights_of_rows(labels)[1] == len(set(codes))
    return [codes.index(code) for code in codes]


# Containers


def chunks(labels, kind):
    """Three chunks, one of them empty."""
    cut = len(labels) // 3
    return pa.chunked_array([pa.array(part, kind) for part in (labels[:cut], [], labels[cut:])])


def dictionary(labels, kind):
    """A dictionary that has each label as often as it occurs, in another order, and None too."""
    places = pa.array(range(len(labels))[::-1], pa.int32())
    return pa.DictionaryArray.from_arrays(places, pa.array(labels[::-1], kind))


def masked_dictionary(labels, kind):
    """A dictionary that has each label once; what is missing is so in the places."""
    return pa.array(labels, kind).dictionary_encode()


def dictionaries(labels, kind):
    """Chunks with different dictionaries."""
    cut = len(labels) // 2
    parts = dictionary(labels[:cut], kind), masked_dictionary(labels[cut:], kind)
    return pa.chunked_array(parts)


def encoded(ends, values):
    """Run-end encoded; an old pyarrow takes no array of ends."""
    kind = pa.run_end_encoded(pa.int32(), values.type)
    return pa.RunEndEncodedArray.from_arrays(list(ends), values, kind)


def runs(labels, kind):
    """Run-end encoded, one run a label, cut out of something longer."""
    values = pa.array([None, *labels], kind)
    return encoded(range(2, 2 + len(values)), values)[2:]


def runs_of_a_dictionary(labels, kind):
    return encoded(range(1, 1 + len(labels)), dictionary(labels, kind))


class Alias(pa.ExtensionType):
    """An extension type of a user."""

    def __init__(self, storage):
        super().__init__(storage, "tests.alias")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls(storage)


def extension(labels, kind):
    return pa.ExtensionArray.from_storage(Alias(kind), pa.array(labels, kind))


def extension_chunks(labels, kind):
    return pa.chunked_array([extension(labels[:2], kind), extension(labels[2:], kind)])


IN_ARROW = [
    pa.array,
    chunks,
    dictionary,
    masked_dictionary,
    dictionaries,
    runs,
    runs_of_a_dictionary,
    extension,
    extension_chunks,
]


def arrow_containers(kind):
    """Every encoding of an Arrow type, by itself and in pandas."""
    for encode in IN_ARROW:
        name = f"{encode.__name__} of {kind}"
        yield name, lambda labels, encode=encode: encode(labels, kind)
        if "run" not in name:  # pandas does not take them
            yield f"pandas {name}", lambda labels, encode=encode: in_pandas(encode(labels, kind))
            yield f"Index {name}", lambda labels, e=encode: pd.Index(in_pandas(e(labels, kind)))


def in_pandas(labels):
    return pd.Series(pd.arrays.ArrowExtensionArray(labels))


def category(labels):
    """Categories in another order than the rows, some of which nobody has."""
    present = [label for label in labels if label is not None]
    return pd.Categorical(labels, categories=list(dict.fromkeys(present))[::-1])


def masked(labels, filler, dtype=None):
    """A masked array, with what others have below the mask."""
    present = [label for label in labels if label is not None]
    filler = present[0] if present else filler
    data = np.array([filler if label is None else label for label in labels], dtype=dtype)
    return np.ma.array(data, mask=[label is None for label in labels])


def objects(labels):
    cells = np.empty(len(labels), dtype=object)
    cells[:] = labels
    return cells


PLAIN = {
    "list": list,
    "tuple": tuple,
    "deque": collections.deque,
    "objects": objects,
    "pandas objects": lambda labels: pd.Series(objects(labels), dtype=object),
    "Index of objects": lambda labels: pd.Index(objects(labels), dtype=object, tupleize_cols=False),
    "polars Object": lambda labels: pl.Series(labels, dtype=pl.Object),
    "category of objects": lambda labels: pd.Series(category(labels)),
}
ARROW_TEXT = ("string", "large_string", "string_view")
TEXT = {
    **PLAIN,
    **{
        name: make
        for kind in (getattr(pa, text)() for text in ARROW_TEXT if hasattr(pa, text))
        for name, make in arrow_containers(kind)
    },
    "pandas text": lambda labels: pd.Series(labels, dtype="str"),
    "pandas string": lambda labels: pd.Series(labels, dtype="string[python]"),
    "pandas string of Arrow": lambda labels: pd.Series(labels, dtype="string[pyarrow]"),
    "category": lambda labels: pd.Series(labels, dtype="str").astype("category"),
    "CategoricalIndex": lambda labels: pd.CategoricalIndex(category(labels)),
    "Categorical": category,
    "category of Arrow text": lambda labels: in_pandas(pa.array(labels, pa.string())).astype(
        "category"
    ),
    "masked text": lambda labels: masked(labels, "", "U9"),
    "polars": lambda labels: pl.Series(labels, dtype=pl.String),
    "polars Categorical": lambda labels: pl.Series(labels, dtype=pl.Categorical),
    "polars Enum": lambda labels: pl.Series(
        labels, dtype=pl.Enum(sorted({label for label in labels if label is not None}))
    ),
    "polars from a dictionary": lambda labels: pl.Series(
        pl.from_arrow(dictionary(labels, pa.string()))
    ),
}
INTEGERS = {
    **PLAIN,
    **dict(arrow_containers(pa.int64())),
    "pandas Int64": lambda labels: pd.Series(labels, dtype="Int64"),
    "Index Int64": lambda labels: pd.Index(labels, dtype="Int64"),
    "pandas Int64 array": lambda labels: pd.array(labels, dtype="Int64"),
    "category of Int64": lambda labels: pd.Series(labels, dtype="Int64").astype("category"),
    "masked": lambda labels: masked(labels, 0),
    "masked objects": lambda labels: masked(labels, 0, object),
    "polars": lambda labels: pl.Series(labels, dtype=pl.Int64),
    "polars Decimal": lambda labels: pl.Series(labels, dtype=pl.Decimal(38, 0)),
    "polars Duration": lambda labels: pl.Series(labels, dtype=pl.Int64).cast(pl.Duration("ns")),
    "Arrow times": lambda labels: pa.array(labels, pa.int64()).cast(pa.timestamp("ns", "UTC")),
    "Arrow decimals": lambda labels: pa.array(labels, pa.decimal128(38, 2)),
    "NumPy times": lambda labels: np.array(
        ["NaT" if label is None else label for label in labels], dtype="M8[ns]"
    ),
    "NumPy durations": lambda labels: np.array(
        ["NaT" if label is None else label for label in labels], dtype=">m8[ns]"
    ),
    "pandas times of a zone": lambda labels: pd.Series(
        pd.to_datetime(pd.Series(labels, dtype="Int64"), utc=True)
    ).dt.tz_convert("Asia/Kolkata"),
}
if hasattr(pl, "Int128"):
    INTEGERS["polars Int128"] = lambda labels: pl.Series(labels, dtype=pl.Int128)
if hasattr(pd.PeriodIndex, "from_ordinals"):
    INTEGERS["pandas periods"] = lambda labels: pd.PeriodIndex.from_ordinals(
        [np.iinfo(np.int64).min if label is None else label for label in labels], freq="ns"
    )
FLOATS = {
    **{name: make for name, make in PLAIN.items() if "category" not in name},
    **dict(arrow_containers(pa.float64())),
    "array": lambda labels: np.array(labels, dtype=float),
    "longdouble": lambda labels: np.array(labels, dtype=np.longdouble),
    "complex": lambda labels: np.array(labels, dtype=float).astype(complex),
    "array.array": lambda labels: array.array(
        "d", [math.nan if label is None else label for label in labels]
    ),
    "pandas": lambda labels: pd.Series(labels, dtype=float),
    "pandas Float64": lambda labels: pd.Series(labels, dtype="Float64"),
    "pandas sparse": lambda labels: pd.Series(pd.arrays.SparseArray(np.array(labels, dtype=float))),
    "category": lambda labels: pd.Series(labels, dtype=float).astype("category"),
    "masked": lambda labels: masked(labels, 0.0, float),
    "polars": lambda labels: pl.Series(labels, dtype=pl.Float64),
    "polars Float32": lambda labels: pl.Series(labels, dtype=pl.Float32),
}
RECORD = np.dtype([("text", "U9"), ("number", "f8"), ("inner", [("day", "M8[D]")])])
COMPOUND = {
    **PLAIN,
    "MultiIndex": lambda labels: pd.MultiIndex.from_tuples(labels),
    "MultiIndex of categories": lambda labels: pd.MultiIndex.from_arrays(
        [pd.Categorical([label[part] for label in labels]) for part in range(3)]
    ),
    "MultiIndex of dictionaries": lambda labels: pd.MultiIndex.from_arrays(
        [
            pd.Series(dictionary([label[0] for label in labels], pa.string()).to_pylist()),
            [label[1] for label in labels],
            [label[2] for label in labels],
        ]
    ),
    "named tuples": lambda labels: list(map(collections.namedtuple("N", "a b c")._make, labels)),
    "sets": lambda labels: [
        frozenset((part, new_nan(value)) for part, value in enumerate(label)) for label in labels
    ],
    "new NaN": lambda labels: [tuple(map(new_nan, label)) for label in labels],
    "nested": lambda labels: [(label[0], tuple(map(new_nan, label[1:]))) for label in labels],
    "NaN of other kinds": lambda labels: [tuple(map(other_nan, label)) for label in labels],
    "NumPy records": lambda labels: records(labels),
    "scalars of NumPy records": lambda labels: list(records(labels)),
    "masked records": lambda labels: np.ma.array(
        records(labels),
        mask=[(label[0] is None, is_missing(label[1]), (label[2] is None,)) for label in labels],
    ),
}


def new_nan(part):
    """The same part, or another NaN that is equal to none."""
    return float("nan") if is_missing(part) else part


KINDS_OF_NAN = [
    None,
    math.nan,
    np.float32("nan"),
    pd.NaT,
    pd.NA,
    np.ma.masked,
    np.datetime64("NaT", "s"),
]
KINDS_OF_NAN += [decimal.Decimal("NaN"), complex(1, math.nan)]
turn = iter(KINDS_OF_NAN * 10**6)


def other_nan(part):
    return next(turn) if is_missing(part) else part


def records(labels):
    """NumPy has no missing text, so it becomes a text that nobody has."""
    cells = [("?" if text is None else text, np.nan if n is None else n, (day,))
             for text, n, day in labels]  # fmt: skip
    return np.array(cells, dtype=RECORD)


def with_duplicates(label):
    """Lists of a few labels, some of them several times, and missing ones."""
    some = st.lists(st.one_of(st.none(), label), min_size=1, max_size=6)
    return some.flatmap(lambda few: st.lists(st.sampled_from(few), max_size=20))


texts = with_duplicates(st.sampled_from(["ann", "Ann", "ANN", "", "a", "a ", "\u00e9", "e\u0301"]))
integers = with_duplicates(st.one_of(st.integers(-2, 2), st.integers(BIG, BIG + 3)))
floats = with_duplicates(st.sampled_from([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]))
compounds = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]),
        st.sampled_from([None, math.nan, 0.0, -0.0, 1.0]),
        st.sampled_from([None, datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]),
    ),
    min_size=1,
    max_size=20,
)


@pytest.mark.parametrize("name", TEXT)
@settings(max_examples=12)
@given(labels=texts)
def test_text(name, labels):
    assert found(TEXT[name](labels)) == people(labels)


@pytest.mark.parametrize("name", INTEGERS)
@settings(max_examples=12)
@given(labels=integers)
def test_integers(name, labels):
    assert found(INTEGERS[name](labels)) == people(labels)


@pytest.mark.parametrize("name", FLOATS)
@settings(max_examples=12)
@given(labels=floats)
def test_floats(name, labels):
    assert found(FLOATS[name](labels)) == people(labels)


@pytest.mark.parametrize("name", COMPOUND)
@settings(max_examples=12)
@given(labels=compounds)
def test_compound_labels(name, labels):
    assert found(COMPOUND[name](labels)) == people(labels)


MIXED = [0, 0.0, -0.0, False, 1, 1.0, True, "1", b"1", decimal.Decimal(1), fractions.Fraction(1)]
MIXED += [BIG, float(BIG), BIG + 1, decimal.Decimal("1.0"), complex(1), np.int8(1), np.float64(1)]
MIXED += [0.1, decimal.Decimal("0.1"), "0.1", (1,), (1.0,), (True, math.nan), (1, None), ((1,),)]
MIXED += [datetime.datetime(2020, 1, 1), datetime.date(2020, 1, 1), pd.Timestamp(2020, 1, 1)]
MIXED += [pd.Timestamp(2020, 1, 1, tz="UTC"), pd.Timestamp("2020-01-01 01:00", tz="Europe/Paris")]
MIXED += [
    uuid.UUID(int=1),
    math.nan,
    None,
    float("nan"),
    np.str_("1"),
    "ann",
    "Ann",
    (),
    frozenset(),
]


@pytest.mark.parametrize("name", [name for name in PLAIN if "category" not in name])
@settings(max_examples=12)
@given(labels=st.lists(st.sampled_from(MIXED), max_size=30))
def test_objects_of_all_types_are_compared_as_python_does(name, labels):
    assert found(PLAIN[name](labels)) == people(labels)


@pytest.mark.skipif(not hasattr(pa, "bool8"), reason="this pyarrow has no such type")
def test_the_labels_of_an_extension_are_compared_and_not_their_storage():
    """What is not 0 is True in Arrow's `bool8`."""
    storage = pa.array([1, 2, 0, None, 1], pa.int8())
    labels = pa.ExtensionArray.from_storage(pa.bool8(), storage)
    assert labels.to_pylist() == [True, True, False, None, True]
    assert found(labels) == [0, 0, 2, 3, 0]
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int8()), labels)
    assert found(coded) == [0, 0, 2, 3, 0]
    assert found(in_pandas(labels)) == [0, 0, 2, 3, 0]


def test_tuples_of_different_lengths_are_different_people():
    assert found([(1,), (1, 2), (1,), (), (1, 2), ()]) == [0, 1, 0, 3, 1, 3]
    assert found([(1, 2), (1,), (1, 2)]) == [0, 1, 0]


def test_what_is_below_a_mask_need_not_be_a_label():
    labels = np.ma.array(objects([1, [], 1, {}]), mask=[0, 1, 0, 1])
    assert found(labels) == [0, 1, 0, 3]


def test_big_integers_in_a_multiindex_with_missing_parts_do_not_become_floats():
    parts = [pd.array([BIG, BIG + 1, None, None, BIG], dtype="Int64"), list("aaaba")]
    assert found(pd.MultiIndex.from_arrays(parts)) == [0, 1, 2, 3, 0]
    levels = [pd.Index([BIG, BIG + 1]), pd.Index(["a", "a", "b"])]
    codes = [[0, 1, -1, -1, 0], [0, 1, 0, 2, 1]]
    index = pd.MultiIndex(levels, codes, verify_integrity=False)  # "a" is there twice
    assert found(index) == [0, 1, 2, 3, 0]


def test_a_missing_entry_of_a_multiindex_is_as_missing_as_none():
    levels = [pd.Index([1.0, np.nan]), pd.Index(["a"])]
    codes = [[0, 1, -1, 1, 0], [0, 0, 0, -1, -1]]
    index = pd.MultiIndex(levels, codes, verify_integrity=False)
    assert found(index) == [0, 1, 1, 3, 4]


def sparse(labels, dtype, **options):
    return pd.arrays.SparseArray(np.array(labels, dtype=dtype), **options)


@pytest.mark.parametrize("dtype", [np.uint64, np.int64, object, "M8[ns]"], ids=str)
@pytest.mark.parametrize("container", [pd.Series, pd.Index, lambda labels: labels])
def test_a_sparse_label_0_does_not_make_floats_of_the_others(container, dtype):
    labels = [0, BIG, BIG + 1, 0, BIG + 1]
    assert found(container(sparse(labels, dtype))) == [0, 1, 2, 0, 2]
    if dtype is object:
        labels = sparse([0, None, BIG, float(BIG), BIG + 1, None], object, fill_value=0)
        assert found(container(labels)) == [0, 1, 2, 2, 4, 5]


def test_1000_sparse_labels_are_1000_people():
    labels = pd.Series(sparse([0, *range(BIG, BIG + 999)], np.uint64))
    assert dp_count(np.zeros(1000), eps=50.0, groups=labels, random_state=0) == 1000


@pytest.mark.parametrize("dtype", [np.uint64, object, "M8[ns]", "U20"], ids=str)
def test_arrays_of_numpy_inside_pandas_are_arrays_of_numpy(dtype):
    array = np.array([0, BIG, BIG + 1, 0], dtype=np.uint64).astype(dtype)
    wrapped = getattr(pd.arrays, "NumpyExtensionArray", None) or pd.arrays.PandasArray
    assert found(wrapped(array)) == [0, 1, 2, 0]


STANDS_FOR = {
    "instants of any unit": [
        *(np.datetime64("2020-01-01", unit) for unit in ("Y", "M", "D", "h", "s", "us", "ns")),
        np.datetime64("2020-01-01T00", "6h"),
        datetime.datetime(2020, 1, 1),
        pd.Timestamp(2020, 1, 1),
    ],
    "instants that Python has not": [
        np.datetime64(1, "ns"),
        np.datetime64(1000, "ps"),
        pd.Timestamp(1),
    ],
    "instants far away": [
        np.datetime64("20000-01-01", "D"),
        np.datetime64("20000-01-01", "s"),
        np.datetime64("20000", "Y"),
    ],
    "durations": [
        np.timedelta64(1, "D"),
        np.timedelta64(24, "h"),
        np.timedelta64(86400 * 10**9, "ns"),
        datetime.timedelta(days=1),
        pd.Timedelta(days=1),
    ],
    "durations that Python has not": [np.timedelta64(1, "ns"), pd.Timedelta(1, "ns")],
    "years": [np.timedelta64(1, "Y"), np.timedelta64(12, "M")],
    "long doubles": [
        np.longdouble(BIG) + 1,
        BIG + 1,
        np.uint64(BIG + 1),
        fractions.Fraction(BIG + 1),
    ],
    "singles": [np.float32(0.1), float(np.float32(0.1)), np.longdouble(np.float32(0.1))],
    "a tenth": [0.1, np.float64(0.1), np.longdouble(0.1)],
    "a date": [datetime.date(2020, 1, 1), datetime.date(2020, 1, 1)],
    "another date": [datetime.date(2020, 1, 2)],
    "an integer": [BIG, np.int64(BIG), float(BIG)],
    "infinity": [np.longdouble("inf"), math.inf, np.float32("inf")],
}


@pytest.mark.parametrize("container", [list, objects])
def test_a_scalar_of_numpy_is_the_python_object_that_it_stands_for(container):
    """Of any unit or width, and nothing else: NumPy's own `==` would not be transitive."""
    if np.longdouble(BIG) + 1 == np.longdouble(BIG):
        pytest.skip("long doubles are doubles here")
    labels = [label for same in STANDS_FOR.values() for label in same]
    expected = [len(label) for label in STANDS_FOR.values()]
    firsts = np.repeat(np.cumsum([0, *expected[:-1]]), expected).tolist()
    assert found(container(labels)) == firsts
    assert found(container([(label, 1) for label in labels])) == firsts
    assert found([np.datetime64("NaT", "D"), np.timedelta64("NaT", "s")] * 2) == [0, 1, 2, 3]


# The holes of before


@pytest.mark.parametrize("n_missing", [0, 40])
def test_one_person_in_a_dictionary_with_duplicates_is_one(n_missing):
    entries = pa.array(["ann"] * 40 + [None] * n_missing)
    coded = pa.DictionaryArray.from_arrays(pa.array(np.arange(len(entries))), entries)
    counts = [
        dp_count(np.zeros(len(coded)), eps=50.0, groups=labels, random_state=0)
        for labels in (coded, in_pandas(coded), pd.Index(in_pandas(coded)))
    ]
    assert counts == [1 + n_missing] * 3


def test_one_household_with_a_missing_part_is_one():
    for labels in (
        [(1, float("nan")) for _ in range(40)],
        pd.MultiIndex.from_arrays([[1] * 40, [np.nan] * 40]),
        np.array([(1, np.nan)] * 40, dtype="i8,f8"),
    ):
        assert dp_count(np.zeros(40), eps=50.0, groups=labels, random_state=0) == 1


NESTED = {
    "polars Struct": pl.Series([{"secret": 1}] * 30),
    "polars Array": pl.Series([[1, 2]] * 30, dtype=pl.Array(pl.Int64, 2)),
    "polars Array that spans much": pl.Series([[1, 2**62]] * 30, dtype=pl.Array(pl.Int64, 2)),
    "polars List": pl.Series([[1, 2]] * 30),
    "polars List of none": pl.Series([None] * 30, dtype=pl.List(pl.Int64)),
    "Arrow struct": pa.array([{"secret": 1}] * 30),
    "Arrow list of none": pa.array([None] * 30, pa.list_(pa.int64())),
    "Arrow map": pa.array([None] * 30, pa.map_(pa.string(), pa.int64())),
    "Arrow dictionary of structs": pa.DictionaryArray.from_arrays(
        pa.array([0] * 30), pa.array([{"secret": 1}])
    ),
    "Arrow runs of lists": encoded([30], pa.array([[1]])),
    "Arrow extension of lists": extension([[1]] * 30, pa.list_(pa.int64())),
    "Arrow chunks of lists": pa.chunked_array([pa.array([[1]] * 30)]),
    "pandas struct": in_pandas(pa.array([{"secret": 1}] * 30)),
    "pandas list of none": in_pandas(pa.array([None] * 30, pa.list_(pa.int64()))),
    "records of arrays": np.zeros(30, dtype=[("secret", "i8", (2,))]),
    "records of records of arrays": np.zeros(30, dtype=[("a", [("secret", "i8", (2,))])]),
}


@pytest.mark.parametrize("name", NESTED)
def test_types_of_labels_that_hold_several_values_are_refused_before_paying(name, tmp_path):
    """By their type: labels that are all missing, or that span much, are refused alike."""
    ledger = PrivacyLedger(tmp_path / "ledger.db", neighbours="people", uncapped=True)
    X = np.arange(30.0)[:, None]
    releases = [
        lambda: DPKBinsDiscretizer(ledger=ledger).fit(X, groups=NESTED[name]),
        lambda: DPKBinsDiscretizer(ledger=ledger).fit_batches(
            [X], groups=[NESTED[name]], groups_are_whole=True
        ),
        lambda: dp_quantiles(X[:, 0], 0.5, groups=NESTED[name], ledger=ledger),
        lambda: dp_count(X, groups=NESTED[name], ledger=ledger),
    ]
    for released in releases:
        with pytest.raises(
            TypeError, match=r"groups must hold hashable labels.*, got the type \w+\.$"
        ) as caught:
            released()
        assert "secret" not in str(caught.value)
    assert list(ledger.records()) == []


@pytest.mark.skipif(not hasattr(pl, "BaseExtension"), reason="polars has no extensions yet")
@pytest.mark.parametrize("storage", [pl.Struct({"a": pl.Int64}), pl.List(pl.Int64)], ids=str)
def test_extensions_of_polars_are_checked_by_their_storage(storage):
    class Alias(pl.BaseExtension):
        def __init__(self):
            super().__init__("tests.alias", storage)

    labels = pl.Series([None] * 3, dtype=Alias())
    with pytest.raises(TypeError, match=r"^groups must hold hashable labels"):
        checked_groups(labels, 3)


class Odd:
    """A container with an array of another length than its own."""

    shape = (4,)

    def __init__(self, labels):
        self.labels = labels

    def __len__(self):
        return 4

    def __getitem__(self, row):
        return self.labels[row]

    def __array__(self, dtype=None, copy=None):
        return self.labels


@pytest.mark.parametrize("highest", [3, 2**62])
def test_containers_whose_array_has_another_shape_are_refused_in_one_way(highest):
    for labels in (np.array([[0, 1], [2, highest]] * 2), np.array([0, highest])):
        with pytest.raises(TypeError, match=r"^groups must hold hashable labels"):
            dp_count(np.zeros(4), groups=Odd(labels))
    assert found(Odd(np.array([0, highest, 0, 1]))) == [0, 1, 0, 3]


def test_series_of_narwhals_are_what_they_wrap():
    narwhals = pytest.importorskip("narwhals")
    coded = pl.Series([BIG, BIG + 1, None, None, BIG])
    assert found(narwhals.from_native(coded, series_only=True)) == [0, 1, 2, 3, 0]
