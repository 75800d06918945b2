"""Dates and durations as numbers: days since 1970-01-01, or lengths in days.

A release works with floats. Columns and bounds become numbers before a release, and released
numbers become dates again. The unit is the same as on matplotlib's date axes.

The dtype of a column decides whether it holds dates. Instants with a time zone are compared in UTC.
The number of a date does not depend on other rows, and the map from instants to numbers is
monotone, so the ranks do not change.
"""

import math
import re
from datetime import UTC, date, datetime, timedelta
from enum import Enum

import numpy as np

MICROSECONDS_IN_A_DAY = 86_400_000_000

# The number of NumPy's units in a day.
_UNITS_IN_A_DAY = {"h": 24, "m": 1440, "s": 86_400, "ms": 86_400_000, "us": MICROSECONDS_IN_A_DAY}
_UNITS_IN_A_DAY |= {"ns": 1000 * MICROSECONDS_IN_A_DAY, "ps": 10**6 * MICROSECONDS_IN_A_DAY}
_WHOLE_DAYS = ("Y", "M", "W", "D")

# All libraries can show the years 1 to 9999. These are their first and last day, in days since
# 1970-01-01. Durations have the same limits.
_FIRST_DAY = -719_162.0
_LAST_DAY = 2_932_896.0
# Dates with years or months as their unit are clipped so far from 1970, in years or months.
_MOST_YEARS = 10**9


class ColumnKind(Enum):
    """The kind of values that a column holds."""

    NUMBER = "numbers"
    DATE = "whole days"
    INSTANT = "dates"
    DURATION = "durations"

    @property
    def of_scalars(self):
        """The kind of a single value, for which dates with and without times are the same."""
        return ColumnKind.INSTANT if self is ColumnKind.DATE else self

    @property
    def in_words(self):
        """The name of the values in messages."""
        return self.of_scalars.value


def kind_of(dtype):
    """Return the kind of a dtype of NumPy, pandas, polars or Arrow. Unknown dtypes are numbers."""
    if isinstance(dtype, np.dtype):
        return _kind_in_numpy(dtype)

    name = str(dtype).lower()
    if re.match(r"datetime|timestamp", name):
        return ColumnKind.INSTANT
    if re.match(r"date(32|64)?\b", name):
        return ColumnKind.DATE
    return ColumnKind.DURATION if re.match(r"duration\b", name) else ColumnKind.NUMBER


def _kind_in_numpy(dtype):
    if dtype.kind not in "mM":
        return ColumnKind.NUMBER
    unit = np.datetime_data(dtype)[0]
    if unit in _UNITS_IN_A_DAY:
        return ColumnKind.INSTANT if dtype.kind == "M" else ColumnKind.DURATION
    if dtype.kind == "M" and unit in _WHOLE_DAYS:
        return ColumnKind.DATE
    is_length = dtype.kind == "m" and unit in ("W", "D")  # months have no fixed length
    return ColumnKind.DURATION if is_length else ColumnKind.NUMBER


def is_date_type(dtype):
    """Return whether a dtype holds dates, instants or durations."""
    return kind_of(dtype) is not ColumnKind.NUMBER


def days_of(dates):
    """Return an array of `datetime64` or `timedelta64` as floats, with NaN for missing dates.

    An instant has the same number in all units. Fractions of a microsecond are truncated.
    """
    dates = np.asarray(dates, dtype=dates.dtype.newbyteorder("="))
    unit, n_units = np.datetime_data(dates.dtype)
    counts = _clipped(dates.view(np.int64), np.iinfo(np.int64).max // n_units) * n_units
    if unit in ("W", "D"):
        days = counts * (7.0 if unit == "W" else 1.0)
    elif unit in _WHOLE_DAYS:
        months_or_years = _clipped(counts, _MOST_YEARS).view(f"M8[{unit}]")
        days = months_or_years.astype("M8[D]").view(np.int64).astype(np.float64)
    else:
        whole, rest = np.divmod(counts, _UNITS_IN_A_DAY[unit])
        microseconds = _in_microseconds(rest, unit)
        days = whole.astype(np.float64) + microseconds / MICROSECONDS_IN_A_DAY

    days[np.isnat(dates)] = np.nan
    return days


def _clipped(counts, most):
    """Return counts that are at most so far from 0: no date may overflow, which raises an error."""
    return np.clip(counts, -most, most)


def _in_microseconds(counts, unit):
    """Return counts of a unit, less than a day each, as whole microseconds."""
    per_day = _UNITS_IN_A_DAY[unit]
    if per_day > MICROSECONDS_IN_A_DAY:
        return counts // (per_day // MICROSECONDS_IN_A_DAY)
    return counts * (MICROSECONDS_IN_A_DAY // per_day)


def dates_of(days, kind):
    """Return ascending or single numbers of days as `datetime64` or `timedelta64`.

    Instants and durations are rounded to microseconds. Dates are rounded up, so a whole day lies
    below the number if and only if it lies below the date. Numbers that differ stay different.
    """
    days = np.asarray(days, dtype=np.float64)
    dates = _rounded(np.ceil(days) if kind is ColumnKind.DATE else days, kind)
    return _distinct(dates.view(np.int64), _in_calendar(days, kind)).view(dates.dtype)


def _in_calendar(days, kind):
    """Return numbers of days, clipped to the dates that all libraries can show."""
    # In some time zones the first day belongs to the year 0.
    first = _FIRST_DAY + 1 if kind is ColumnKind.INSTANT else _FIRST_DAY
    return np.clip(days, first, _LAST_DAY)


def _rounded(days, kind):
    """Return numbers of days as dates, rounded to microseconds. Dates must be whole numbers."""
    days = _in_calendar(days, kind)
    if kind is ColumnKind.DATE:
        return days.astype(np.int64).view("M8[D]")

    whole = np.floor(days)
    microseconds = np.rint((days - whole) * MICROSECONDS_IN_A_DAY).astype(np.int64)
    counts = whole.astype(np.int64) * MICROSECONDS_IN_A_DAY + microseconds
    return counts.view("M8[us]" if kind is ColumnKind.INSTANT else "m8[us]")


def _distinct(counts, days):
    """Return the counts, increased so that they ascend strictly where the numbers of days do."""
    if counts.ndim != 1:
        return counts
    for index in range(1, counts.size):
        if days[index] > days[index - 1]:
            counts[index] = max(counts[index], counts[index - 1] + 1)
    return counts


def values_with_dates(values, kind):
    """Return the ascending numbers of a column, converted by `dates_of` if it holds dates."""
    return values if kind is ColumnKind.NUMBER else dates_of(values, kind)


def nearest_dates(days, kind):
    """Return released numbers of days as dates, rounded to whole days if the kind is DATE.

    NaN becomes NaT.
    """
    days = np.asarray(days, dtype=np.float64)
    is_known = ~np.isnan(days)
    numbers = np.where(is_known, days, 0.0)
    if kind is ColumnKind.DATE:
        numbers = np.rint(numbers)

    dates = _rounded(numbers, kind)
    return np.where(is_known, dates, np.array("NaT", dtype=dates.dtype))


def table_with_dates(numbers, kinds):
    """Return a matrix of numbers with dates and durations in the columns of these kinds.

    If all columns have the same dtype, the result has this dtype. Otherwise it is an array of
    objects: floats, Python's dates and durations, and None for missing dates.
    """
    if all(kind is ColumnKind.NUMBER for kind in kinds):
        return numbers

    pairs = zip(numbers.T, kinds, strict=True)
    columns = [
        column if kind is ColumnKind.NUMBER else nearest_dates(column, kind)
        for column, kind in pairs
    ]
    if len({column.dtype for column in columns}) == 1:
        return np.stack(columns, axis=1)

    table = np.empty(numbers.shape, dtype=object)
    for index, column in enumerate(columns):
        table[:, index] = column.tolist()
    return table


def numbers_in_table(table, kinds):
    """Return the numbers of a matrix made by `table_with_dates`. Dates become days."""
    if table.dtype.kind == "f":
        return table

    numbers = np.empty(table.shape)
    for index, kind in enumerate(kinds):
        column = table[:, index]
        if kind is not ColumnKind.NUMBER:
            column = days_of(column.astype("m8[us]" if kind is ColumnKind.DURATION else "M8[us]"))
        numbers[:, index] = column
    return numbers


def exported_days(values):
    """Return released values as floats. Dates become days, as in exported transformers.

    Exported transformers divide microseconds by the length of a day. The function does the same,
    so equal dates become equal numbers.
    """
    if values.dtype.kind not in "mM":
        return values
    microseconds = values.astype(f"{values.dtype.kind}8[us]").view(np.int64)
    return microseconds.astype(np.float64) / MICROSECONDS_IN_A_DAY


def numbers_of(values):
    """Return an array of released values as floats. Dates become days."""
    return days_of(values) if values.dtype.kind in "mM" else values


def dates_in_list(given):
    """Return dates or durations in a list or an array as an array, or None for other objects."""
    if hasattr(given, "to_numpy"):  # a Series or an Index
        given = given.to_numpy()
    if isinstance(given, np.ndarray):
        return given if is_date_type(given.dtype) else None
    if not isinstance(given, (list, tuple)) or not given:
        return None
    kinds = set(map(kind_of_scalar, given))
    if len(kinds) > 1 or ColumnKind.NUMBER in kinds:
        return None
    return dates_of(np.array(list(map(days_of_scalar, given))), *kinds)


def kind_of_scalar(thing):
    """Return the kind of a bound: a date, a duration, or a number for any other object."""
    if isinstance(thing, (date, np.datetime64)):  # also datetimes and Timestamps of pandas
        return ColumnKind.INSTANT
    if isinstance(thing, (timedelta, np.timedelta64)):
        return ColumnKind.DURATION
    return ColumnKind.NUMBER


def days_of_scalar(thing):
    """Return a date or a duration as a float, or NaN if it is missing or has no fixed length.

    A date without a time zone is in UTC.
    """
    if isinstance(thing, datetime) and getattr(thing, "tzinfo", None) is not None:
        thing = thing.astimezone(UTC).replace(tzinfo=None)
    is_date = kind_of_scalar(thing) is ColumnKind.INSTANT
    try:
        scalar = np.datetime64(thing) if is_date else np.timedelta64(thing)
    except (TypeError, ValueError):
        return math.nan
    return float(days_of(scalar.reshape(1))[0]) if is_date_type(scalar.dtype) else math.nan
