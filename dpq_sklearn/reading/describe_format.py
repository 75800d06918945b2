"""The format of descriptions: tables like those of `DataFrame.describe` in pandas and polars.

`make_description` writes a table of counts and quantiles. `read_description` reads such a table,
even if this package did not release it. The same for segments is done by
`make_segmented_description` and `read_segments`.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
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
from dpq_sklearn.reading.categories import array_of_categories, public_form
from dpq_sklearn.reading.containers import (
    columns_of,
    kinds_of_columns,
    library_of,
    read_matrix,
)
from dpq_sklearn.reading.quantities import are_quantities, names_of
from dpq_sklearn.small_table import SmallTable

COUNT = "count"
STATISTIC = "statistic"  # the name of the column of labels in polars
_PERCENTAGE = re.compile(r"(\d+(?:\.\d+)?(?:e-\d+)?)%")


@dataclass(frozen=True)
class Described:
    """The contents of a description, for each column of numbers or dates."""

    names: list
    counts: np.ndarray  # (n_columns,)
    probabilities: tuple  # ascending
    values: np.ndarray  # (n_quantiles, n_columns); dates are days since 1970-01-01
    are_dates: list  # whether the values of each column are dates


def labels_of_quantiles(probabilities):
    """Return labels such as "5%", with enough decimals to distinguish the probabilities.

    Percentages that are not whole have at least one decimal: a third is "33.3%".
    """
    for n_decimals in range(1, 16):
        percentages = [round(100 * probability, n_decimals) for probability in probabilities]
        if len({0.0, *percentages, 100.0}) == len(percentages) + 2:
            break
    return [f"{percentage:.15g}%" for percentage in percentages]


def check_container(table):
    """Raise if a description of the table could not be made. Call it before the release."""
    if library_of(table) == "polars" and STATISTIC in names_of(table):
        raise ValueError(
            f"columns of table must not be named {STATISTIC!r}, which is the name of the column "
            "of labels in a description, got such a column."
        )


def check_library_of(table):
    """Raise if pandas is needed and not installed."""
    if library_of(table) != "polars":
        optional_module("pandas", "a description by segment", "pandas")


def make_description(table, probabilities, counts, values):
    """Return a description of a table, in polars if the table is, else in pandas if installed.

    `values` has the quantiles of each column, and `counts` the number of its values. Columns of
    dates hold dates. As in the libraries' own `describe`, these are columns of objects in pandas
    and of text in polars.
    """
    labels = [COUNT, *labels_of_quantiles(probabilities)]
    if library_of(table) == "polars":
        return _description_in_polars(table, labels, counts, values)

    dtypes = columns_of(table)[1]
    try:
        import pandas
    except ImportError:
        columns = map(_column_without_pandas, dtypes, counts, values)
        return SmallTable(zip(names_of(table), columns, strict=True), labels)

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
        if type(timezone).__module__.startswith("pytz"):
            # pandas 2 ends the process when it reads an earlier date in such a time zone.
            dates = dates.clip(lower=pandas.Timestamp(1678, 1, 1))
        dates = dates.dt.tz_localize("UTC").dt.tz_convert(timezone)
    return np.array([float(count), *dates], dtype=object)


def _column_without_pandas(dtype, count, values):
    """Return a count and quantiles as an array: of objects for dates."""
    kind = kind_of(dtype)
    if kind is ColumnKind.NUMBER:
        return np.append(float(count), values)
    return np.array([float(count), *nearest_dates(values, kind).tolist()], dtype=object)


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
    """Return the contents of a description; None if the table has no row of counts."""
    if isinstance(table, SmallTable):
        labels = table.labels or []
    elif hasattr(table, "iloc"):
        labels = list(table.index)
    elif library_of(table) == "polars" and STATISTIC in table.columns:
        labels = table[STATISTIC].to_list()
    else:
        return None

    matches = [isinstance(label, str) and _PERCENTAGE.fullmatch(label) for label in labels]
    rows = [row for row, match in enumerate(matches) if match]
    if COUNT not in labels or not rows:
        return None

    if isinstance(table, SmallTable):
        names = table.columns
        found = [(column.dtype, column[:, None]) for column in table.values()]
    else:
        names = names_of(table)
        found = zip(*columns_of(table)[1:], strict=True)
    columns, kinds = zip(*(_read_column(*column) for column in found), strict=True)
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


def names_in_segments(table):
    """Return the columns of a description by segment; None if the table is something else."""
    if library_of(table) == "polars":
        names = list(table.columns)
        is_segmented = STATISTIC in names and names[0] != STATISTIC  # the keys come first
        return names[names.index(STATISTIC) + 1 :] if is_segmented else None

    if not hasattr(table, "iloc") or table.columns.nlevels != 2:
        return None
    labels = set(table.columns.get_level_values(1))
    if COUNT not in labels or not all(_is_label(label) for label in labels):
        return None
    return list(dict.fromkeys(table.columns.get_level_values(0)))


def _is_label(label):
    return isinstance(label, str) and bool(label == COUNT or _PERCENTAGE.fullmatch(label))


def read_segments(table, column):
    """Return the contents of a description by segment for one column, as a `Described`."""
    if library_of(table) == "polars":
        keys, described = _segments_read_from_polars(table, column)
    else:
        keys = [key if isinstance(key, tuple) else (key,) for key in table.index]
        described = table[column].T
        described.columns = range(len(keys))  # keys may be anything

    if not keys:
        raise ValueError("description must have at least one segment, got none.")
    return replace(
        read_description(described), names=[", ".join(map(str, labels)) for labels in keys]
    )


def _segments_read_from_polars(table, column):
    """Return the keys, and a description in which each segment of a column is a column."""
    import polars

    labels = table[STATISTIC].to_list()
    n_segments = labels.count(COUNT)
    n_labels = len(labels) // max(n_segments, 1)
    columns = {
        str(number): table[column].slice(number * n_labels, n_labels)
        for number in range(n_segments)
    }
    keys = table.select(table.columns[: table.columns.index(STATISTIC)]).rows()[::n_labels]
    return keys, polars.DataFrame({STATISTIC: labels[:n_labels], **columns})


def _read_column(dtype, column):
    """Return a column of a description as floats, None if it holds anything else, and its kind."""
    if are_quantities(dtype):
        return read_matrix(column)[:, 0].astype(np.float64), kind_of(dtype)

    cells = list(np.ravel(column) if isinstance(column, np.ndarray) else column)
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


def make_segmented_description(table, probabilities, by, keys, counts, values):
    """Return a description of each segment, in polars if the table is, else in pandas.

    In pandas the keys are the index, and the columns are pairs of a column and a statistic, as in
    ``DataFrame.groupby(...).describe()``. In polars the keys are columns. `by` are the names of the
    keys. `counts` and `values` list all segments of the first column, then of the second, ...
    """
    n_segments = len(keys)
    labels = [COUNT, *labels_of_quantiles(probabilities)]
    if library_of(table) == "polars":
        return _segments_in_polars(table, labels, by, keys, counts, values)

    import pandas

    names = list(table.columns) if library_of(table) == "pandas" else names_of(table)
    dtypes = columns_of(table)[1]
    columns = {}
    for number, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
        segments = slice(number * n_segments, (number + 1) * n_segments)
        rows = [
            _column_in_pandas(dtype, count, of_segment)
            for count, of_segment in zip(counts[segments], values[segments], strict=True)
        ]
        for position, label in enumerate(labels):
            columns[name, label] = [row[position] for row in rows]

    description = pandas.DataFrame(columns, index=_index_of(by, keys))
    description.columns = pandas.MultiIndex.from_tuples(list(columns))
    return description


def _index_of(by, keys):
    import pandas

    columns = zip(*keys, strict=True) if keys else [[] for _ in by]
    indexes = list(map(index_of_labels, map(list, columns)))
    if len(by) == 1:
        return indexes[0].rename(by[0])
    return pandas.MultiIndex.from_arrays(indexes, names=by)


def index_of_labels(labels):
    """Return a list or an array of labels as an Index of pandas; no label raises."""
    import pandas

    with suppress(UnicodeEncodeError):  # of text that is not valid Unicode
        return pandas.Index(labels)
    return pandas.Index(labels, dtype=object)


def _series_of_labels(labels):
    """Return labels as a Series of polars; no label raises. Labels of several types become text."""
    import polars

    with suppress(Exception):  # of several types, of text that is not valid Unicode
        series = polars.Series(labels)
        if series.null_count() <= sum(label is None for label in labels):
            return series  # otherwise an older polars has dropped labels of another type

    forms = list(map(public_form, labels))
    numbers = array_of_categories(forms)
    if numbers.dtype != object:
        return polars.Series(numbers, nan_to_null=True)
    return polars.Series([None if form is None else _valid_text(form) for form in forms])


def _valid_text(label):
    return str(label).encode(errors="backslashreplace").decode()


def _segments_in_polars(table, labels, by, keys, counts, values):
    import polars

    n_segments = len(keys)
    columns_of_keys = list(map(_series_of_labels, map(list, zip(*keys, strict=True))))
    tables = []
    for number in range(n_segments):
        of_segment = slice(number, None, n_segments)
        described = _description_in_polars(table, labels, counts[of_segment], values[of_segment])
        columns = [
            polars.lit(column[number], dtype=column.dtype).alias(name)
            for name, column in zip(by, columns_of_keys, strict=True)
        ]
        tables.append(described.select(*columns, polars.all()))
    return polars.concat(tables) if tables else polars.DataFrame()


def make_segmented_quantiles(x, probabilities, by, keys, description):
    """Return the count and the quantiles of each segment of one column: a row for each key."""
    labels = [COUNT, *labels_of_quantiles(probabilities)]
    (kind,) = kinds_of_columns(x)
    values = np.array(description.values).reshape(len(keys), len(probabilities))
    quantiles = list(values.T)
    if kind is not ColumnKind.NUMBER:
        quantiles = [nearest_dates(of_quantile, kind) for of_quantile in quantiles]
    columns = dict(zip(labels, (description.counts, *quantiles), strict=True))
    names = names_of_labels(by)

    if library_of(x) == "polars":
        import polars

        labels = zip(*keys, strict=True) if keys else [[] for _ in names]
        labels = map(_series_of_labels, map(list, labels))
        return polars.DataFrame({**dict(zip(names, labels, strict=True)), **columns})

    import pandas

    return pandas.DataFrame(columns, index=_index_of(names, keys))


def names_of_labels(by):
    """Return the names of the columns of labels, or "key" for a column without a name."""
    if len(getattr(by, "shape", (0,))) == 2 or hasattr(by, "column_names"):
        return [str(name) for name in names_of(by)]
    return [getattr(by, "name", None) or "key"]
