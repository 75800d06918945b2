"""Segments: parts of the rows, such as regions, of which each has statistics of its own.

A row belongs to the segment of its key: its label, or its labels in several columns. Keys are
public, or released. Rows with any other key belong to no segment. Which labels are equal is decided
by the rule of `reading.categories`, for all containers alike.

The weights of a person's rows sum to one record over all segments, whatever segments they are in.
That is why all segments together cost what one of them costs.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import numpy as np

from dpq_sklearn.checks import shown
from dpq_sklearn.engine.weighted_ranks import WeightedRanks
from dpq_sklearn.reading.categories import (
    NO_CATEGORY,
    categories_of,
    column_of_categories,
    columns_of_labels,
    most_frequent,
    public_form,
    table_of_categories,
)
from dpq_sklearn.reading.containers import (
    checked_table,
    read_matrix,
    readable_columns,
    table_with_dtypes,
)
from dpq_sklearn.reading.engines.batches import check_names_of_batch
from dpq_sklearn.reading.engines.memory import MemorySource
from dpq_sklearn.reading.engines.partitions import PartitionSummary
from dpq_sklearn.reading.engines.protocol import Records
from dpq_sklearn.reading.groups import people_of_rows, weights_and_number
from dpq_sklearn.reading.quantities import names_of, selected_columns, table_of_quantities
from dpq_sklearn.reading.summaries import SUMMARY_RESOLUTION, SummaryBuilder, summarize
from dpq_sklearn.reading.threads import in_threads

# Rounding is reserved for each segment, and the reserve must stay small.
MOST_SEGMENTS = 2**16


@dataclass(frozen=True)
class Segments:
    """The keys of segments: a tuple of labels for each, one label for each column of labels."""

    keys: tuple[tuple[Hashable, ...], ...]

    def numbers_of(self, columns: Sequence) -> np.ndarray:
        """Return the number of the segment of each row, -1 for none.

        `columns` are those of the labels. No cell raises.
        """
        numbered = [
            _numbers_of_labels(column, labels)
            for column, labels in zip(columns, zip(*self.keys, strict=True), strict=True)
        ]
        of_rows, of_keys = numbered[0]
        for more_of_rows, more_of_keys in numbered[1:]:
            of_rows, of_keys = _joined(of_rows, of_keys, more_of_rows, more_of_keys)

        segments = np.append(np.argsort(of_keys), -1)  # keys are distinct, and -1 is none of them
        return segments[of_rows]

    def rows_of(self, columns: Sequence) -> "RowsBySegment":
        """Return which rows each segment has."""
        return RowsBySegment.of(self.numbers_of(columns), len(self.keys))


def _numbers_of_labels(column, labels):
    """Return a number for the label of each row, -1 if no key has it, and for that of each key."""
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    codes, categories = categories_of(column)
    of_codes = np.array([*(numbers.get(each, -1) for each in categories), -1])
    return of_codes[codes], np.array([numbers[label] for label in labels])


def _joined(of_rows, of_keys, more_of_rows, more_of_keys):
    """Return the numbers of pairs of labels, from the numbers of both."""
    n_more = more_of_keys.max() + 1
    pairs, of_both = np.unique(of_keys * n_more + more_of_keys, return_inverse=True)
    wanted = of_rows * n_more + more_of_rows
    positions = np.minimum(np.searchsorted(pairs, wanted), pairs.size - 1)
    is_listed = (of_rows >= 0) & (more_of_rows >= 0) & (pairs[positions] == wanted)
    return np.where(is_listed, positions, -1), of_both


@dataclass(frozen=True)
class RowsBySegment:
    """The rows of each segment: ``rows[ends[number] : ends[number + 1]]``."""

    rows: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, numbers: np.ndarray, n_segments: int) -> "RowsBySegment":
        """Return the rows in the order of the numbers of their segments; -1 is none."""
        # Integers of 16 bits are sorted many times as fast as others.
        dtype = np.uint16 if n_segments < 2**16 - 1 else np.int64
        unsigned: np.ndarray = (numbers + 1).astype(dtype)
        n_rows_of = np.bincount(unsigned, minlength=n_segments + 1)
        return cls(np.argsort(unsigned, kind="stable"), np.cumsum(n_rows_of))

    def divide(self, values: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the values of each segment."""
        in_order = values[self.rows]
        for start, end in zip(self.ends[:-1], self.ends[1:], strict=True):
            yield in_order[start:end]


def checked_keys(keys, n_columns: int) -> Segments:
    """Return the segments with these public keys, or raise."""
    is_list = hasattr(keys, "__iter__") and not isinstance(keys, (str, bytes, dict))
    keys = list(keys) if is_list else []
    if not 0 < len(keys) <= MOST_SEGMENTS:
        raise ValueError(
            f'keys must be a list of 1 to {MOST_SEGMENTS:,} keys, or "private", got {shown(keys)}.'
        )

    forms = []
    for key in keys:
        labels = (key,) if n_columns == 1 else key
        is_right = isinstance(labels, (tuple, list)) and len(labels) == n_columns
        form = tuple(map(public_form, labels)) if is_right else (NO_CATEGORY,)
        if NO_CATEGORY in form:
            words = "a label" if n_columns == 1 else f"a tuple of {n_columns} labels"
            raise ValueError(
                f"each of keys must be {words}, each text, a number, a boolean or None, got an "
                f"object of type {type(key).__name__}."
            )
        forms.append(form)

    if len(set(forms)) < len(forms):
        raise ValueError("keys must be distinct, got two that are equal.")
    return Segments(tuple(forms))


def labels_and_others(table, by: Sequence) -> tuple[list, object]:
    """Return the columns of labels of a table in memory, and the table without them; or raise."""
    table = table_with_dtypes(table, "table")
    names = names_of(table)
    if len(set(by)) < len(by) or any(names.count(name) != 1 for name in by):
        raise ValueError(
            "by must be the name of one column of the table, or a list of distinct names, got "
            f"{shown(by[0] if len(by) == 1 else by)}."
        )

    positions = [names.index(name) for name in by]
    others = [position for position in range(len(names)) if position not in positions]
    labels = selected_columns(table, positions)
    return columns_of_labels(table_of_categories(labels, "by")), selected_columns(table, others)


def columns_of_segments(by, n_rows: int) -> list:
    """Return the columns of labels, one or several, if they have a label for each row; or raise."""
    is_table = len(getattr(by, "shape", (0,))) == 2 or hasattr(by, "column_names")
    labels = table_of_categories(by, "by") if is_table else column_of_categories(by)
    columns = columns_of_labels(labels)
    if any(len(column) != n_rows for column in columns):
        raise ValueError("by must have one label for each row of the data.")
    return columns


class SegmentedSource(Protocol):
    """Rows with labels, from which segments can be read."""

    def key_counts(self) -> dict[tuple[Hashable, ...], int]:
        """Return the number of records with each key that occurs, in the public order.

        A person counts once, with the key that most of their rows have.
        """

    def read_segments(self, grid, segments: Segments) -> Any:
        """Return the records of all segments of the first column, then of the second, ..."""


@dataclass(frozen=True)
class SegmentedTable:
    """A checked table in memory, and the columns of labels that divide its rows into segments."""

    table: MemorySource
    labels: Sequence  # columns

    @property
    def default_resolution(self) -> int:
        """That of the table."""
        return self.table.default_resolution

    def key_counts(self) -> dict[tuple[Hashable, ...], int]:
        """Return the number of records with each key that occurs, in the public order."""
        groups = self.table.groups
        people = None if groups is None else people_of_rows(groups)
        return count_keys(self.labels, people)

    def read_segments(self, grid, segments: Segments) -> Records:
        """Return the records of all segments of the first column, then of the second, ..."""
        X = read_matrix(self.table.X)
        rows = segments.rows_of(self.labels)
        weights, n_records = weights_and_number(X.shape[0], self.table.groups)

        def summarize_column(column):
            (values,) = readable_columns(X[:, [column]])
            return summaries_of_segments(values, grid, column, rows, weights)

        found = in_threads(summarize_column, range(X.shape[1]), self.table.n_jobs)
        summaries = [summary for of_column in found for summary in of_column]
        return records_of_segments(summaries, grid, n_records)


@dataclass(frozen=True)
class SegmentedBatches:
    """Tables that come one after another, each with its columns of labels."""

    first: object  # with the labels
    following: Iterator
    by: Sequence
    n_jobs: int | None = None
    default_resolution = SUMMARY_RESOLUTION

    @classmethod
    def of(cls, batches: Iterator, by: Sequence, n_jobs: int | None) -> "SegmentedBatches":
        """Take the first table out of an iterator, or raise."""
        for first in batches:
            return cls(first, batches, by, n_jobs)
        raise ValueError("table must be a table or a non-empty iterator of tables, got none.")

    def typed_rows(self):
        """Return the quantities of the first table."""
        return table_of_quantities(labels_and_others(self.first, self.by)[1])

    def key_counts(self):
        """Refuse: batches are read once, and the keys would have to be known before."""
        raise NotImplementedError

    def read_segments(self, grid, segments: Segments) -> Records:
        """Return the records of all batches, in memory that is bounded by the number of cells."""
        n_columns = grid.low.size
        builders = [
            [SummaryBuilder(grid, column) for _ in segments.keys] for column in range(n_columns)
        ]
        names = names_of(self.typed_rows())
        n_rows = 0
        for batch in chain([self.first], self.following):
            labels, others = labels_and_others(batch, self.by)
            table = checked_table(table_of_quantities(others))
            check_names_of_batch(names, table)

            X = read_matrix(table)
            rows = segments.rows_of(labels)
            for of_column, values in zip(builders, readable_columns(X), strict=True):
                for builder, of_segment in zip(of_column, rows.divide(values), strict=True):
                    builder.add(of_segment)
            n_rows += X.shape[0]

        summaries = [builder.summary() for of_column in builders for builder in of_column]
        return records_of_segments(summaries, grid, n_rows)


def summary_of_segments_in_partition(
    partition, grid, segments: Segments, by: Sequence, names: Sequence
):
    """Return the `PartitionSummary` of the segments of the named columns; or an exception.

    A worker that raised would log its arguments, which are private.
    """
    try:
        with np.errstate(all="ignore"):
            rows = segments.rows_of(columns_of_labels(table_of_categories(partition[by], "by")))
            X = read_matrix(checked_table(partition[names]))
            columns = enumerate(readable_columns(X))
            summaries = [
                summaries_of_segments(values, grid, column, rows) for column, values in columns
            ]
            return PartitionSummary(X.shape[0], list(chain.from_iterable(summaries)))
    except Exception as error:
        return error.with_traceback(None)


def count_keys(columns: Sequence, people: np.ndarray | None) -> dict[tuple[Hashable, ...], int]:
    """Return the number of records with each key that occurs, in the public order of keys."""
    found = [categories_of(column) for column in columns]
    numbers = np.zeros(found[0][0].size, dtype=np.int64)
    has_key = np.ones(numbers.size, dtype=bool)
    keys: list[tuple[Hashable, ...]] = [()]
    for codes, categories in found:
        has_key &= codes >= 0
        # Only pairs that occur stay, so the numbers stay small.
        pairs = np.where(has_key, numbers * len(categories) + codes, 0)
        distinct, numbers = np.unique(pairs, return_inverse=True)
        prefixes, ends = np.divmod(distinct, max(len(categories), 1))
        keys = [(*keys[a], categories[b]) for a, b in zip(prefixes, ends, strict=True)]

    numbers = np.where(has_key, numbers, -1)
    if people is not None:
        numbers = most_frequent(numbers, people, len(keys))
    counts = np.bincount(numbers[numbers >= 0], minlength=len(keys)).tolist()
    return {key: n for key, n in zip(keys, counts, strict=True) if n}


def summaries_of_segments(values, grid, column, rows: RowsBySegment, weights=None) -> list:
    """Return the summary of each segment of a float64 column; `weights` None is a record each."""
    n_segments = rows.ends.size - 1
    of_rows = [None] * n_segments if weights is None else rows.divide(weights)
    pairs = zip(rows.divide(values), of_rows, strict=True)
    return [summarize(values, grid, column, weights) for values, weights in pairs]


def records_of_segments(summaries: list, grid, n_records: int) -> Records:
    """Return the records of all segments of the first column, then of the second, and so on."""
    n_segments = len(summaries) // grid.low.size
    grid = grid[np.repeat(np.arange(grid.low.size), n_segments)]
    return Records(WeightedRanks.of_summaries(summaries, grid), n_records)
