"""Descriptions: tables of counts and quantiles, as `DataFrame.describe` of pandas and polars has.

`make_description` writes one. `read_description` knows one again, also if it was not released here.
"""

import re
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from dpq_sklearn.dates import (
    ColumnKind,
    days_of_scalar,
    kind_of,
    kind_of_scalar,
    nearest_dates,
)
from dpq_sklearn.optional import optional_module
from dpq_sklearn.reading.containers import columns_of, library_of, read_matrix
from dpq_sklearn.reading.quantities import are_quantities, names_of

COUNT = "count"
STATISTIC = "statistic"  # what polars calls the column of labels
_PERCENTAGE = re.compile(r"(\d+(?:\.\d+)?(?:e-\d+)?)%")


@dataclass(frozen=True)
class Described:
    """What a description says of each column of numbers or dates."""

    names: list
    counts: np.ndarray  # (n_columns,)
    probabilities: tuple  # ascending
    values: np.ndarray  # (n_quantiles, n_columns); dates are days since 1970-01-01
    are_dates: list  # whether the values of each column are dates


def labels_of_quantiles(probabilities):
    """Return labels such as "5%", with as few decimals as tell distinct probabilities apart.

    Except for whole percentages that is at least one decimal: a third is "33.3%".
    """
    for n_decimals in range(1, 16):
        percentages = [round(100 * probability, n_decimals) for probability in probabilities]
        if len({0.0, *percentages, 100.0}) == len(percentages) + 2:
            break
    return [f"{percentage:.15g}%" for percentage in percentages]


def check_container(table):
    """Raise if a description of such a table could not be made: before anything is released."""
    if library_of(table) != "polars":
        optional_module("pandas", "dp_describe", "pandas")
    elif STATISTIC in names_of(table):
        raise ValueError(
            f"columns of table must have other names than {STATISTIC!r}, which that of the labels "
            "has, got one."
        )


def make_description(table, probabilities, counts, values):
    """Return a description of a table: for polars one of polars, else of pandas.

    `values` has the quantiles of each column, and `counts` the numbers of their values. Columns of
    dates hold dates. As in the libraries' own `describe` they are columns of objects in pandas,
    and of text in polars.
    """
    labels = [COUNT, *labels_of_quantiles(probabilities)]
    if library_of(table) == "polars":
        return _description_in_polars(table, labels, counts, values)

    import pandas

    dtypes = columns_of(table)[1]
    columns = {
        position: _column_in_pandas(*column)
        for position, column in enumerate(zip(dtypes, counts, values, strict=True))
    }
    description = pandas.DataFrame(columns)
    description.index = labels
    description.columns = table.columns if library_of(table) == "pandas" else names_of(table)
    return description


def _column_in_pandas(dtype, count, values):
    """Return a count and quantiles as a column: objects for dates, in the time zone of the rows."""
    import pandas

    kind = kind_of(dtype)
    if kind is ColumnKind.NUMBER:
        return np.append(float(count), values)

    dates = pandas.Series(nearest_dates(values, kind))
    timezone = getattr(getattr(dtype, "pyarrow_dtype", dtype), "tz", None)
    if timezone is not None:
        dates = dates.dt.tz_localize("UTC").dt.tz_convert(timezone)
    return np.array([float(count), *dates], dtype=object)


def _description_in_polars(table, labels, counts, values):
    import polars

    columns = {STATISTIC: labels}
    for column, count, of_column in zip(table.iter_columns(), counts, values, strict=True):
        kind = kind_of(column.dtype)
        if kind is ColumnKind.NUMBER:
            columns[column.name] = np.append(float(count), of_column)
        else:
            dates = polars.Series(nearest_dates(of_column, kind))
            if getattr(column.dtype, "time_zone", None) is not None:
                dates = dates.dt.replace_time_zone("UTC").dt.convert_time_zone(
                    column.dtype.time_zone
                )
            columns[column.name] = [f"{float(count):.15g}", *map(str, dates.to_list())]
    return polars.DataFrame(columns)


def read_description(table):
    """Return what a description says, or None if a table is none: without a row of counts."""
    if hasattr(table, "iloc"):
        labels = list(table.index)
    elif library_of(table) == "polars" and STATISTIC in table.columns:
        labels = table[STATISTIC].to_list()
    else:
        return None

    matches = [isinstance(label, str) and _PERCENTAGE.fullmatch(label) for label in labels]
    rows = [row for row, match in enumerate(matches) if match]
    if COUNT not in labels or not rows:
        return None

    names = names_of(table)
    columns, kinds = zip(*map(_read_column, *columns_of(table)[1:]), strict=True)
    found = [position for position, numbers in enumerate(columns) if numbers is not None]
    if not found:
        return None

    numbers = np.column_stack([columns[position] for position in found])
    return Described(
        names=[names[position] for position in found],
        counts=numbers[labels.index(COUNT)],
        probabilities=tuple(float(matches[row].group(1)) / 100 for row in rows),
        values=numbers[rows],
        are_dates=[kinds[position] is ColumnKind.INSTANT for position in found],
    )


def _read_column(dtype, column):
    """Return a column of a description as floats, None if it holds other things, and its kind."""
    if are_quantities(dtype):
        return read_matrix(column)[:, 0].astype(np.float64), kind_of(dtype)

    cells = list(column)
    try:
        numbers = np.array(list(map(_number_in_cell, cells)))
    except (TypeError, ValueError):
        return None, None
    has_durations = ColumnKind.DURATION in map(kind_of_scalar, cells)
    return numbers, ColumnKind.DURATION if has_durations else ColumnKind.INSTANT


def _number_in_cell(cell):
    """Return a count, a date, or the text of either as a float; raise for anything else."""
    if kind_of_scalar(cell) is not ColumnKind.NUMBER:
        return days_of_scalar(cell)
    try:
        return float(cell)
    except ValueError:
        return days_of_scalar(datetime.fromisoformat(cell))
