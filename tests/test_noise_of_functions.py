"""Functions warn if their results are mostly noise, and name the entries and what would help."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpq_sklearn import (
    DPKBinsDiscretizer,
    DPRobustScaler,
    PrivacyNoiseWarning,
    dp_describe,
    dp_quantiles,
    privacy_statement,
    sanitize,
)

PERCENTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def text_of(function, *args, **options):
    """The text of the only warning of a call, or None."""
    options.setdefault("random_state", 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*args, **options)
    texts = {str(warning.message) for warning in caught}
    assert len(texts) <= 1
    assert all(issubclass(warning.category, PrivacyNoiseWarning) for warning in caught)
    return next(iter(texts), None)


@pytest.fixture
def column(rng):
    return rng.lognormal(size=1000)


@pytest.mark.parametrize(
    ("q", "eps", "named"),
    [
        (0.5, 1.0, None),
        (PERCENTILES, 1.0, None),
        ([0.001, 0.5, 0.999], 1.0, "the quantiles 0.001, 0.999."),
        ([0.2, 0.4, 0.6, 0.8], 0.01, "the quantiles 0.2, 0.4, 0.6, 0.8."),
        (np.arange(1, 40) / 40, 0.01, "the quantiles (most of them)."),
    ],
)
def test_quantiles_that_are_mostly_noise_are_named(q, eps, named, column):
    text = text_of(dp_quantiles, column, q, eps=eps)
    assert (text is None) == (named is None)
    assert named is None or (named in text and "a larger eps" in text)


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({}, "delta=1e-6, public bounds, known decimals, public rows as prior or a larger eps"),
        ({"bounds": (0, 9), "decimals": 2}, "delta=1e-6, public rows as prior or a larger eps"),
        ({"rho": 1e-7, "eps": None, "bounds": (0, 9), "decimals": 0, "prior": [1.0, 2.0]}, "rho"),
    ],
)
def test_the_advice_leaves_out_what_is_known(options, steps, column):
    text = text_of(dp_quantiles, column, 0.5, **{"eps": 0.005, **options})
    assert text.endswith(f"{steps}.")


def test_equal_calls_have_equal_texts(column):
    """The texts do not depend on the released count."""
    texts = {
        text_of(dp_quantiles, column, [0.001, 0.999], eps=1.0, random_state=seed)
        for seed in range(20)
    }
    assert len(texts) == 1


@pytest.mark.parametrize("mechanism", ["aq", "agg_tree", "auto"])
def test_points_that_are_mostly_noise_are_told(mechanism, column):
    assert text_of(sanitize, column, 100, eps=1.0, mechanism=mechanism) is None
    assert "most points" in text_of(sanitize, column, 100, eps=0.01, mechanism=mechanism)


def test_entries_of_a_description_are_named_by_column(rng):
    table = pd.DataFrame({"full": rng.normal(size=2000), "empty": np.full(2000, np.nan)})
    text = text_of(dp_describe, table, eps=2.0, random_state=0)
    assert "count, 5%, 25%, 50%, 75%, 95% of 'empty'" in text and "'full'" not in text
    assert text_of(dp_describe, table[["full"]], eps=2.0, random_state=0) is None
    assert "of all columns" in text_of(dp_describe, table, eps=0.01, random_state=0)


def is_far(values, table):
    """Whether released quantiles are more than a range outside of their columns."""
    low, high = table.min().to_numpy(), table.max().to_numpy()
    return (values < 2 * low - high) | (values > 2 * high - low)


def test_a_description_with_a_far_entry_always_warns(rng):
    """A small table with narrow columns, as measurements of animals and years are."""
    n = 344
    table = pd.DataFrame(
        {
            "bill": rng.normal(44, 5, n).round(1),
            "depth": rng.normal(17, 2, n).round(1),
            "flipper": rng.normal(200, 14, n).round(),
            "mass": rng.normal(4200, 800, n).round(-1),
            "year": rng.integers(2007, 2010, n),
        }
    )
    n_far = 0
    for seed in range(40):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            description = dp_describe(table, eps=1.0, random_state=seed)
        far = is_far(description.iloc[1:].to_numpy(), table).any()
        n_far += far
        assert caught or not far
    assert n_far > 10  # so the test can fail


@pytest.mark.parametrize("quantile_range", [(1, 99), (0.1, 99.9), (5, 99.5)])
@pytest.mark.parametrize("n", [100, 1000, 5000])
def test_a_scale_that_is_wrong_by_a_factor_of_five_is_never_good(quantile_range, n, rng):
    X = rng.lognormal(size=(n, 1))
    expected = np.diff(np.percentile(X, quantile_range)).item()
    for seed in range(10):
        scaler = DPRobustScaler(quantile_range=quantile_range, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyNoiseWarning)
            scaler.fit(X)
        (verdict,) = scaler.quality_report()["verdict"]
        is_wrong = not 0.2 < scaler.scale_[0] / expected < 5
        assert not (verdict == "good" and is_wrong)


def test_an_extreme_quantile_is_compared_with_the_rows_beyond_it(rng):
    """Ten rows lie beyond each of the two: an error of three rows is not good."""
    X = rng.lognormal(size=(1000, 1))
    scaler = DPRobustScaler(quantile_range=(1, 99), random_state=0).fit(X)
    assert scaler.quality_report()["verdict"][0] != "good"
    scaler = DPRobustScaler(random_state=0).fit(X)
    assert scaler.quality_report()["verdict"][0] == "good"


@pytest.mark.parametrize("fill", [np.inf, -np.inf])
def test_a_column_of_infinities_is_not_good(fill, rng):
    X = np.column_stack((rng.normal(size=5000), np.full(5000, fill)))
    with pytest.warns(PrivacyNoiseWarning, match="at the end of a range"):
        binner = DPKBinsDiscretizer(5, eps=2.0, random_state=0).fit(X)
    good, infinite = binner.quality_report()["verdict"]
    assert good == "good" and infinite == "most values are infinite, or beyond about 2^64"


def test_a_column_beyond_its_bounds_is_not_good(rng):
    with pytest.warns(PrivacyNoiseWarning, match="on one of its bounds"):
        binner = DPKBinsDiscretizer(5, eps=2.0, bounds=(-9, 9)).fit(rng.normal(50, 1, (5000, 1)))
    (verdict,) = binner.quality_report()["verdict"]
    assert verdict == "all edges lie on a bound: most values are there or beyond"


@pytest.mark.parametrize("library", ["pandas", "polars", "arrays"])
def test_released_counts_tell_that_a_column_is_missing(library, rng):
    X = pd.DataFrame(rng.normal(size=(5000, 3)), columns=["full", "empty", "half"])
    X["empty"] = np.nan
    X.loc[rng.random(5000) < 0.9, "half"] = np.nan
    table = {"pandas": X, "polars": pl.from_pandas(X), "arrays": X.to_numpy()}[library]
    binner = DPKBinsDiscretizer(5, eps=1.0, random_state=0).fit(table)
    assert set(binner.quality_report()["verdict"]) == {"good"}  # a fit does not know it

    description = dp_describe(table, eps=5.0, random_state=0)
    report = binner.quality_report(description)
    full, empty, half = report["verdict"]
    assert full == "good"
    assert re.fullmatch(r"mostly missing: about \d of [45],\d\d\d rows have a value", empty)
    assert re.fullmatch(r"mostly missing: about [45]\d\d of [45],\d\d\d rows have a value", half)
    assert not any("missing" in caveat for caveat in report["caveat"])
    errors = report["error_in_bins"]
    assert errors[0] < errors[2] < errors[1]


@pytest.mark.parametrize("wrong", ["other columns", "rows", 3])
def test_counts_must_be_those_of_the_features(wrong, rng):
    X = pd.DataFrame({"a": rng.normal(size=2000)})
    given = {"other columns": dp_describe(X.rename(columns={"a": "b"})), "rows": X}.get(wrong, 3)
    with pytest.raises(ValueError, match="description must"):
        DPKBinsDiscretizer(5).fit(X).quality_report(given)


def test_people_are_not_called_rows(rng):
    X = rng.normal(size=(6000, 1))
    binner = DPKBinsDiscretizer(4, eps=1.0, random_state=0).fit(X, groups=np.arange(6000) // 3)
    assert re.fullmatch(r"about [12],\d00 people, if .*", binner.quality_report()["caveat"][0])
    assert re.search(r"from about [12],\d+ people \(a noisy count\)", privacy_statement(binner))


def test_the_caveat_says_that_missing_and_narrow_values_are_not_known(rng):
    X = rng.normal(size=(400, 5))
    without = DPKBinsDiscretizer(5, eps=1.0, random_state=2).fit(X).quality_report()
    assert without["error_in_bins"][0] < 0.5
    assert "if few values are missing; narrow values far from zero" in without["caveat"][0]
    bounded = DPKBinsDiscretizer(5, eps=1.0, bounds=(-5, 5), random_state=2).fit(X)
    assert "narrow" not in bounded.quality_report()["caveat"][0]
    many = DPKBinsDiscretizer(5, eps=1.0, random_state=2).fit(rng.normal(size=(20_000, 5)))
    assert "narrow" not in many.quality_report()["caveat"][0]


def test_dp_quantiles_says_that_a_delta_is_large():
    x = np.random.default_rng(0).normal(size=2_000)
    q = np.arange(1, 200) / 200  # so many that a delta helps
    with pytest.warns(UserWarning, match="delta"):
        dp_quantiles(x, q, delta=0.5)
