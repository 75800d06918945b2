"""dp_quantiles and sanitize as a user meets them."""

import decimal
import fractions
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpq_sklearn import PrivacyLedger, PrivacyLoss, dp_quantiles, sanitize
from dpq_sklearn.reading.sources import memory as memory_module
from dpq_sklearn.releases import plans as plans_module
from dpq_sklearn.statistics import quantiles as quantiles_module

DECILES = np.arange(1, 10) / 10
DATASETS = {
    "normal": lambda rng: rng.normal(3, 2, 5000),
    "heavy tails": lambda rng: rng.standard_cauchy(5000) * 100,
    "ties": lambda rng: rng.integers(0, 7, 5000),
    "zero-inflated": lambda rng: rng.lognormal(size=5000) * (rng.random(5000) < 0.4),
    "constant": lambda rng: np.full(5000, 12.5),
    "tiny": lambda rng: rng.normal(0, 1e-7, 5000),
    "huge": lambda rng: rng.uniform(1e17, 1e18, 5000),
}


@pytest.mark.parametrize("data", DATASETS.values(), ids=DATASETS)
@pytest.mark.parametrize("bounds", [None, "given"])
def test_vanishing_noise_gives_the_quantiles_of_the_data(data, bounds, rng):
    """Between the two order statistics that numpy interpolates, up to what is rounded away."""
    x = np.sort(data(rng))
    bounds = None if bounds is None else (x[0] - 1, x[-1] + 1)
    width = 1e-9 * np.abs(x).max() + 1e-12
    for n in (1, 2, 3, 100, 5000):
        values = dp_quantiles(x[:n], DECILES, eps=1e6, bounds=bounds)
        position = DECILES * (n - 1)
        # spreading a record over its cell moves a rank by at most one record
        low = x[np.maximum(np.floor(position).astype(int) - 1, 0)]
        high = x[np.minimum(np.ceil(position).astype(int) + 1, n - 1)]
        rounding = width + 1e-3 * np.diff(values).max()
        assert np.all(values >= low - rounding)
        assert np.all(values <= high + rounding)


def test_atoms_are_hit_exactly():
    """Where the decile is an atom of more than 1% of the rows, and not at the very edge of it."""
    rng = np.random.default_rng(1)
    ages = np.sort(np.clip(np.round(rng.normal(40, 13, 50_000)), 17, 90))
    ranks = (DECILES * ages.size).astype(int)
    well_inside = (ages[ranks - 60] == ages[ranks + 60]) & [
        np.mean(ages == a) > 0.01 for a in ages[ranks]
    ]
    assert well_inside.sum() >= 6
    for _ in range(5):
        values = dp_quantiles(ages, DECILES, eps=1.0)
        assert np.array_equal(values[well_inside], ages[ranks][well_inside])


def test_result_has_the_shape_of_q_and_is_monotone(rng):
    x = rng.normal(size=500)
    assert isinstance(dp_quantiles(x, 0.5), float)
    q = np.array([[0.9, 0.1, 0.5], [0.1, 0.2, 0.9]])
    values = dp_quantiles(x, q)
    assert values.shape == (2, 3)
    assert values[0, 0] == values[1, 2] and values[0, 1] == values[1, 0]
    order = np.argsort(q.ravel())
    assert np.all(np.diff(values.ravel()[order]) >= 0)


NUMBERS = [3, 1, 2, 2, 5, 4, 1, 0, 1, 3]


@pytest.mark.parametrize(
    "column",
    [
        NUMBERS,
        tuple(NUMBERS),
        np.array(NUMBERS, dtype=np.int8),
        np.array(NUMBERS, dtype=np.uint64),
        np.array(NUMBERS, dtype=np.float16),
        np.array(NUMBERS, dtype=np.float32),
        np.array(NUMBERS, dtype=np.longdouble),
        np.array(NUMBERS, dtype=object),
        np.repeat(NUMBERS, 2)[::2],
        pd.Series(NUMBERS),
        pd.Series(NUMBERS, dtype="Int64"),
        pd.Series(NUMBERS, dtype="Float32"),
        pd.Series(NUMBERS, dtype="int64[pyarrow]"),
        pd.Series(NUMBERS, dtype="category"),
        pl.Series(NUMBERS),
        pl.Series(NUMBERS, dtype=pl.Float32),
        [decimal.Decimal(n) for n in NUMBERS],
        [fractions.Fraction(n) for n in NUMBERS],
        [np.float32(n) for n in NUMBERS],
    ],
    ids=lambda column: f"{type(column).__module__}.{getattr(column, 'dtype', type(column[0]))}",
)
def test_every_kind_of_column_gives_the_same_numbers(column):
    expected = dp_quantiles(np.array(NUMBERS, dtype=float), DECILES, random_state=0)
    assert np.array_equal(dp_quantiles(column, DECILES, random_state=0), expected)


def test_booleans_are_numbers(rng):
    flags = rng.random(1000) < 0.3
    expected = dp_quantiles(flags.astype(float), [0.5], random_state=0)
    for column in (flags, pd.Series(flags), pd.Series(flags, dtype="boolean"), pl.Series(flags)):
        assert np.array_equal(dp_quantiles(column, [0.5], random_state=0), expected)


@pytest.mark.parametrize(
    "column",
    [
        [1.0, math.nan, 2.0],
        [1, None, 2],
        pd.Series([1, pd.NA, 2], dtype="Int64"),
        pd.Series([1, None, 2], dtype="int64[pyarrow]"),
        pl.Series([1, None, 2]),
        pl.Series([1.0, float("nan"), 2.0]),
        np.array([1, None, 2], dtype=object),
    ],
    ids=lambda column: f"{type(column).__module__}.{getattr(column, 'dtype', 'list')}",
)
def test_missing_values_are_ignored(column):
    expected = dp_quantiles([1.0, 2.0], DECILES, random_state=0)
    assert np.array_equal(dp_quantiles(column, DECILES, random_state=0), expected)


def test_infinities_and_huge_integers_are_clipped():
    for column in ([math.inf] * 9, [10**400] * 9, np.full(9, np.inf, dtype=object)):
        assert dp_quantiles(column, 0.5, eps=100, bounds=(0, 5)) == 5.0
    assert dp_quantiles([-(10**400)] * 9, 0.5, eps=100, bounds=(0, 5)) == 0.0


@pytest.mark.parametrize("q", [0, [0, 1], 1.0, [25, 50, 75], [0.5, 31337]])
def test_who_asks_for_a_minimum_is_told_what_to_use(q):
    """The same words for all numbers: columns and quantiles may have been exchanged."""
    words = r"strictly between 0 and 1.* use 0\.01 and 0\.99, or public bounds\.$"
    with pytest.raises(ValueError, match=words) as caught:
        dp_quantiles([1.0, 2.0], q)
    assert "31337" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "error", "shown"),
    [
        (["secret", "7"], TypeError, "str"),
        (np.array([1.0, "secret"], dtype=object), TypeError, "str"),
        (np.array([1.0, {"secret": 1}], dtype=object), TypeError, "dict"),
        (pd.Series(["secret"]), (TypeError, ValueError), "dtype"),
        (pl.Series(["secret"]), (TypeError, ValueError), "str"),
        (
            pd.Series(pd.arrays.SparseArray(np.array(["secret"], dtype=object))),
            ValueError,
            "sparse",
        ),
        (np.array([1 + 2j]), ValueError, "complex128"),
        (np.array([1], dtype="timedelta64[M]"), ValueError, "timedelta64"),
        (np.zeros((3, 2)), ValueError, "one-dimensional"),
        ([[1.0], [2.0, 3.0]], TypeError, "list"),
    ],
    ids=[
        "strings",
        "string",
        "dict",
        "pandas",
        "polars",
        "sparse",
        "complex",
        "dates",
        "matrix",
        "ragged",
    ],
)
def test_what_is_not_a_number_is_reported_by_type_and_never_by_value(column, error, shown):
    with pytest.raises(error) as caught:
        dp_quantiles(column, 0.5)
    assert shown in str(caught.value).lower() or shown in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


@pytest.mark.parametrize(
    "x",
    [
        [-1e-20],
        [-1e-20, 1.0, 2.0],
        [*range(50), math.inf],
        [-math.inf, *range(50)],
        [-np.nextafter(7 * 75 * 2**13 * 2.0**-62, 1.0)] * 3,
        np.array(["1e400", "-1e400"], dtype=np.longdouble),
        np.array([0x7FA00000, 0x3F800000], dtype=np.uint32).view(np.float32),
        np.ma.masked_array([1.0, 2.0, 3.0], mask=[True, False, False]),
        pa.array([1.0, None, 2.0]),
        pa.chunked_array([[1.0], [None, 2.0]]),
    ],
    ids=lambda x: type(x).__name__,
)
@pytest.mark.parametrize("bounds", [None, (0.0, 3.0)])
def test_odd_numbers_neither_raise_nor_warn_whatever_numpy_is_told(x, bounds):
    with np.errstate(all="raise"):
        assert np.isfinite(dp_quantiles(x, DECILES, bounds=bounds)).all()


class Untouchable:
    """A column that must not be read."""

    def __array__(self, *args, **kwargs):
        raise AssertionError("the data were touched")

    __iter__ = __len__ = __getitem__ = __array__


@pytest.mark.parametrize(
    ("q", "parameters", "match"),
    [
        (0.0, {}, "q must be"),
        (1.0, {}, "q must be"),
        ([0.5, math.nan], {}, "q must be"),
        ([], {}, "q must be"),
        ("0.5", {}, "q must be"),
        (True, {}, "q must be"),
        (0.5, {"eps": -1}, "eps must be"),
        (0.5, {"eps": 1.0, "rho": 0.1}, "rho excludes eps"),
        (0.5, {"delta": 2}, "delta must be"),
        (0.5, {"bounds": (1, 0)}, "bounds must be"),
        (0.5, {"mechanism": "magic"}, "mechanism must be"),
        (0.5, {"random_state": "x"}, "random_state must be"),
        (np.arange(1, 10_000) / 10_000, {"eps": 1e-9}, "eps must be larger"),
    ],
)
def test_bad_parameters_raise_before_the_data_are_touched(q, parameters, match):
    with pytest.raises(ValueError, match=match):
        dp_quantiles(Untouchable(), q, **parameters)


def test_privacy_loss_says_what_was_asked_for():
    x = np.arange(100.0)
    _, pure = dp_quantiles(x, DECILES, eps=0.7, return_privacy=True)
    assert (pure.eps, pure.delta, pure.os_randomness) == (0.7, 0.0, True)
    assert pure.rho < 0.7**2 / 8
    _, zcdp = dp_quantiles(x, DECILES, eps=None, rho=0.2, random_state=1, return_privacy=True)
    assert (zcdp.rho, zcdp.delta, zcdp.os_randomness) == (0.2, 0.0, False)
    assert isinstance(zcdp, PrivacyLoss)


def test_approximate_dp_takes_the_account_that_gives_more():
    few, many = [0.5], np.arange(1, 1000) / 1000
    _, loss = dp_quantiles([1.0], few, eps=1.0, delta=1e-6, return_privacy=True)
    assert loss.delta == 0.0  # pure was better: nothing of delta is spent
    _, loss = dp_quantiles([1.0], many, eps=1.0, delta=1e-6, return_privacy=True)
    assert (loss.eps, loss.delta, loss.account) == (1.0, 1e-6, "optimal composition")
    assert loss.pure_eps > 1.0


def test_the_column_is_not_changed(rng):
    x = rng.normal(size=100)
    before = x.copy()
    dp_quantiles(x, DECILES)
    assert np.array_equal(x, before)


@pytest.mark.fresh_noise(false_alarm=1e-9)
def test_no_global_generator_is_used(rng):
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = dp_quantiles(rng.normal(size=50), DECILES, eps=0.1)
    np.random.seed(0)  # noqa: NPY002
    second = dp_quantiles(rng.normal(size=50), DECILES, eps=0.1)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert not np.array_equal(first, second)


numbers = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=60, deadline=None)
@given(
    x=st.lists(numbers, max_size=40),
    q=st.lists(st.floats(1e-9, 1 - 1e-9), min_size=1, max_size=12),
    eps=st.floats(1e-6, 1e6),
    bounds=st.sampled_from([None, (-1.0, 1.0), (0.0, 1e9)]),
)
def test_always_a_finite_monotone_result(x, q, eps, bounds):
    values = dp_quantiles(x, q, eps=eps, bounds=bounds)
    assert np.isfinite(values).all()
    assert np.all(np.diff(values[np.argsort(q, kind="stable")]) >= 0)
    if bounds is not None:
        assert values.min() >= bounds[0] and values.max() <= bounds[1]


def test_one_record_more_changes_no_path_outside_the_mechanism(monkeypatch, rng):
    """Replay: everything but the mechanism does the same calls with the same shapes."""

    def trace_of(x):
        calls = []
        for module, name in (
            (quantiles_module, "checked_column"),
            (quantiles_module, "plan_quantiles"),
            (quantiles_module, "pay"),
            (memory_module, "read_numbers"),
            (memory_module, "Records"),
            (plans_module, "values_of_columns"),
        ):
            original = getattr(module, name)

            def spy(*args, _name=name, _original=original, **kwargs):
                result = _original(*args, **kwargs)
                calls.append((_name, len(args), sorted(kwargs)))
                return result

            monkeypatch.setattr(module, name, spy)
        values = dp_quantiles(x, DECILES, random_state=0)
        monkeypatch.undo()
        return calls, values.shape, values.dtype

    x = rng.normal(size=100)
    assert trace_of(x) == trace_of(np.append(x, 1e300)) == trace_of(np.empty(0))


def test_sanitized_points_fill_intervals_as_the_data_do(rng):
    x = np.concatenate((rng.normal(size=20_000), np.full(10_000, 3.0)))
    points = sanitize(x, 200, eps=5.0)
    assert points.shape == (200,) and np.all(np.diff(points) >= 0)
    for low, high in [(-9, 0), (0, 1), (2.9, 3.1), (-1, 1)]:
        share = np.mean((x > low) & (x < high))
        assert np.mean((points > low) & (points < high)) == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("n_samples", [0, -1, 1.5, "3", True, 100_001, 10**15])
def test_sanitize_needs_a_public_number(n_samples):
    with pytest.raises(ValueError, match="n_samples must be"):
        sanitize(Untouchable(), n_samples)


def test_too_many_quantiles_are_refused_before_anything_is_spent():
    ledger = PrivacyLedger(eps=1.0)
    wanted = np.linspace(0.1, 0.9, 100_001)
    with pytest.raises(ValueError, match=r"q must be at most 100,000 numbers, got ndarray"):
        dp_quantiles(Untouchable(), wanted, ledger=ledger)
    with pytest.raises(ValueError, match=r"n_samples must be at most 100,000, got 100001"):
        sanitize(Untouchable(), 100_001, ledger=ledger)
    assert ledger.records() == []
