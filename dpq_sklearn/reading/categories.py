"""Categories: the labels of a column, and how many records have each of them.

A label is text, a number, or missing. `reading.labels` decides which labels are equal, so all
containers agree: 1, 1.0 and True are one category, and all missing values are another. Objects of
other types, such as tuples and dates, belong to no category, and neither do finite numbers beyond
the largest float. A category has one public form for all containers: the number 1 and not 1.0, None
for a missing value.

A record counts once in a column. A person counts with the category that most of their rows have; in
a tie, with the first of these in the public order.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from dpq_sklearn.reading.containers import (
    MISSING_TYPES,
    Unread,
    column_with_dtypes,
    columns_of,
    table_with_dtypes,
    word_of_dtype,
)
from dpq_sklearn.reading.groups import people_of_rows
from dpq_sklearn.reading.labels import codes_of

# The public form of cells that belong to no category.
NO_CATEGORY = object()
# The beginnings of the names of dtypes that hold something else.
_OTHER_TYPES = (
    r"(?i)(date|time|duration|period|interval|decimal|complex|"
    r"(large_|fixed_size_)?(binary|list|struct|array|map))"
)
# Objects of these types are equal if and only if their public forms are.
_PLAIN_TYPES = {str, int, float, bool, type(None)}
# pandas compares objects of these types as Python does.
_TEXT_TYPES = {str, float, type(None)}


def table_of_categories(X, name="X"):
    """Return `X` as a table with a shape and dtypes; raise if a dtype has no categories.

    Reads no cell.
    """
    X = table_with_dtypes(X, name)
    _check_types(X)
    return X


def column_of_categories(x):
    """Return `x` as a column with a dtype; raise if the dtype has no categories. Reads no cell."""
    x = column_with_dtypes(x)
    _check_types(x)
    return x


def _check_types(X):
    labels, dtypes, _ = columns_of(X)
    for label, dtype in zip(labels, dtypes, strict=True):
        dtype = dtype.categories.dtype if str(dtype) == "category" else dtype
        kind = getattr(dtype, "kind", None)
        if kind in ("c", "m", "M", "S", "V") or re.match(_OTHER_TYPES, str(dtype)):
            prefix = "Complex data not supported: " if kind == "c" else ""
            raise ValueError(
                f"{prefix}{label} must hold text, numbers or booleans, got dtype "
                f"{word_of_dtype(dtype)}: convert it to text."
            )


def order_of(category: Hashable) -> tuple:
    """Return the public sort key of a category: numbers, then text, then a missing value."""
    if category is None:
        return (2,)
    return (1, category) if isinstance(category, str) else (0, category)


def columns_of_labels(X) -> list:
    """Return the columns of a table of categories, as arrays or series of some library."""
    X = X.as_array() if isinstance(X, Unread) else X
    return list(columns_of(X)[2])


def categories_of(column) -> tuple[np.ndarray, list]:
    """Return the number of the category of each row, -1 for none, and the categories in order.

    No cell raises: a cell that cannot be read belongs to no category.
    """
    codes, labels = _codes_and_labels(column)
    forms = [public_form(label) for label in labels]

    ordered = sorted({form for form in forms if form is not NO_CATEGORY}, key=order_of)
    numbers = {form: number for number, form in enumerate(ordered)}
    number_of_code = np.array([numbers.get(form, -1) for form in forms], dtype=np.int64)
    return number_of_code[codes], ordered


def _codes_and_labels(column):
    """Return a code for each row, and a label for each code."""
    dtype = getattr(column, "dtype", None)

    if str(dtype) == "category":  # pandas
        codes = np.asarray(getattr(column, "cat", column).codes, dtype=np.int64)
        labels = [*dtype.categories, None]
        return np.where(codes < 0, len(labels) - 1, codes), labels

    if "object" in str(dtype).lower():
        cells = _cells(column)
        if not set(map(type, cells)) <= _PLAIN_TYPES:
            return _codes_of_forms(cells)

    with suppress(Exception):  # the error of labels that cannot be compared
        return _codes_and_first_labels(column)
    return _codes_of_forms(_cells(column))


def _codes_and_first_labels(column):
    codes, is_missing = codes_of(column)
    codes = np.where(is_missing, codes.max(initial=0) + 1, codes)
    first_row = np.full(codes.max(initial=0) + 1, -1)
    first_row[codes[::-1]] = np.arange(codes.size)[::-1]

    used = first_row >= 0
    return (np.cumsum(used) - 1)[codes], _cells(column, first_row[used])


def _codes_of_forms(cells):
    """Return codes and labels of cells that can be compared only by their public forms."""
    numbers: dict = {}
    codes = [numbers.setdefault(public_form(cell), len(numbers)) for cell in cells]
    return np.array(codes, dtype=np.int64), list(numbers)


def _cells(column, rows=None):
    """Return the cells of a column as Python objects, of all rows by default."""
    if hasattr(column, "iloc"):
        return (column if rows is None else column.iloc[rows]).tolist()
    if hasattr(column, "to_pylist"):  # Arrow
        return (column if rows is None else column.take(rows)).to_pylist()
    if hasattr(column, "to_list"):  # polars
        return (column if rows is None else column[rows]).to_list()
    return (column if rows is None else column[rows]).tolist()


def public_form(label) -> Hashable:
    """Return the form of a category that does not depend on the type that it was read from.

    Text stays as it is. A number becomes an int, or the float that is equal to it.
    """
    if label is NO_CATEGORY or label is None:
        return label
    with suppress(Exception):  # an object that raises is not a label
        return _form_of_label(label)
    return NO_CATEGORY


def _form_of_label(label):
    if isinstance(label, str):
        return str.__str__(label)
    if type(label).__name__ in MISSING_TYPES or label != label:
        return None
    if not isinstance(label, (Real, Decimal, np.bool_)) or isinstance(label, np.timedelta64):
        return NO_CATEGORY

    number = float(label)  # raises an error for an int beyond the largest float
    forms = (number,) if math.isinf(number) else (int(label), number)
    return next((form for form in forms if form == label), NO_CATEGORY)


def forms_of_column(column) -> np.ndarray:
    """Return the category of each row as an object; an empty tuple stands for none.

    The objects can be sent to other processes, and `categories_of` reads them as it reads `column`.
    """
    numbers, categories = categories_of(column)
    forms = np.empty(len(categories) + 1, dtype=object)
    forms[:-1] = categories
    forms[-1] = ()
    return forms[numbers]


def array_of_categories(categories: Sequence[Hashable]) -> np.ndarray:
    """Return categories as scikit-learn's encoders keep them: numbers, or objects; NaN if missing.

    The dtype depends on the categories alone.
    """
    labels: list[Any] = [np.nan if category is None else category for category in categories]
    kinds = set(map(type, labels))

    if kinds == {int} and all(-(2**63) <= label < 2**63 for label in labels):
        return np.array(labels, dtype=np.int64)
    if kinds <= {int, float} and all(label != label or float(label) == label for label in labels):
        return np.array(labels, dtype=np.float64)
    return np.array(labels, dtype=object)


def count_categories(column, people: np.ndarray | None = None) -> Counter:
    """Return the number of records with each category of a column.

    A record is a row or, if `people` has the number of a person for each row, a person.
    """
    if people is None:
        counts_of_labels = _counts_of_objects(column)
        if counts_of_labels is not None:
            return _counted_forms(counts_of_labels)

    numbers, categories = categories_of(column)
    if people is not None:
        numbers = most_frequent(numbers, people, len(categories))

    counts = np.bincount(numbers[numbers >= 0], minlength=len(categories)).tolist()
    return Counter({each: n for each, n in zip(categories, counts, strict=True) if n})


def _counts_of_objects(column):
    """Return how often each object occurs, several times as fast as by numbering the rows.

    None if the column does not hold objects, or holds objects of unusual types.
    """
    if "object" not in str(getattr(column, "dtype", None)).lower():
        return None

    cells = _cells(column)
    kinds = set(map(type, cells))
    pandas = sys.modules.get("pandas")
    if pandas is not None and kinds <= _TEXT_TYPES:
        series = pandas.Series(column if type(column) is np.ndarray else cells, dtype=object)
        counts = series.value_counts(sort=False, dropna=False)
        return dict(zip(counts.index.tolist(), counts.tolist(), strict=True))
    return Counter(cells) if kinds <= _PLAIN_TYPES else None


def _counted_forms(counts_of_labels):
    counts: Counter = Counter()
    for label, n_records in counts_of_labels.items():
        counts[public_form(label)] += n_records
    del counts[NO_CATEGORY]  # a Counter does not raise if there is none
    return counts


def most_frequent(numbers, people, n_categories):
    """Return the most frequent number of each person; in a tie, the lowest of them."""
    has_category = numbers >= 0
    pairs = people[has_category] * n_categories + numbers[has_category]
    pairs, n_rows = np.unique(pairs, return_counts=True)
    person, number = np.divmod(pairs, max(n_categories, 1))

    order = np.lexsort((number, -n_rows, person))
    is_first = np.diff(person[order], prepend=-1) > 0
    return number[order][is_first]


def count_columns(X, groups=None) -> list[Counter]:
    """Return the number of records with each category, for each column of a table."""
    people = None if groups is None else people_of_rows(groups)
    return [count_categories(column, people) for column in columns_of_labels(X)]


def merged_counts(several_counts: Iterable[list[Counter]]) -> list[Counter]:
    """Return the sums of several counts, column by column, which may come in any order."""
    totals: list[Counter] = []
    for counts in several_counts:
        totals = totals or [Counter() for _ in counts]
        for total, more in zip(totals, counts, strict=True):
            total.update(more)
    return totals
