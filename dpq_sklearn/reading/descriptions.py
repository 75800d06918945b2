"""Descriptions: tables of counts and quantiles, as `DataFrame.describe` of pandas and polars has.

`make_description` writes one. `read_description` knows one again, also if it was not released here.
"""

import re
from dataclasses import dataclass

import numpy as np

from dpq_sklearn.optional import optional_module
from dpq_sklearn.reading.containers import library_of, read_matrix
from dpq_sklearn.reading.quantities import names_of, table_of_quantities

COUNT = "count"
STATISTIC = "statistic"  # what polars calls the column of labels
_PERCENTAGE = re.compile(r"(\d+(?:\.\d+)?(?:e-\d+)?)%")


@dataclass(frozen=True)
class Described:
    """What a description says of each column."""

    table: object  # the columns of numbers
    counts: np.ndarray  # (n_columns,)
    probabilities: tuple  # ascending
    values: np.ndarray  # (n_quantiles, n_columns)


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

    `values` has the quantiles of each column, and `counts` the numbers of their values.
    """
    labels = [COUNT, *labels_of_quantiles(probabilities)]
    numbers = np.vstack((counts, np.transpose(values)))
    library = library_of(table)

    if library == "polars":
        import polars

        columns = dict(zip(names_of(table), numbers.T, strict=True))
        return polars.DataFrame({STATISTIC: labels, **columns})

    import pandas

    names = table.columns if library == "pandas" else names_of(table)
    return pandas.DataFrame(numbers, index=labels, columns=names)


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

    table = table_of_quantities(table)
    numbers = read_matrix(table).astype(np.float64)
    return Described(
        table=table,
        counts=numbers[labels.index(COUNT)],
        probabilities=tuple(float(matches[row].group(1)) / 100 for row in rows),
        values=numbers[rows],
    )
