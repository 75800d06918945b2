"""Segments: parts of the rows, such as regions, each with its own statistics.

A row belongs to the segment of its key: its label, or its labels in several columns. Keys are
public, or released. Rows with any other key belong to no segment. `reading.categories` decides
which labels are equal, by the same rule for all containers.

The weights of a person's rows sum to one record over all segments, whatever segments they are in.
So all segments together cost as much as a single segment.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

import numpy as np

from dpq_sklearn.checks import shown
from dpq_sklearn.engine.grid import Grid
from dpq_sklearn.engine.weighted_ranks import WeightedRanks
from dpq_sklearn.reading.categories import (
    NO_CATEGORY,
    categories_of,
    column_of_categories,
    columns_of_labels,
    most_frequent,
    order_of,
    public_form,
    table_of_categories,
)
from dpq_sklearn.reading.containers import (
    checked_table,
    read_matrix,
    readable_columns,
    table_with_dtypes,
)
from dpq_sklearn.reading.groups import people_of_rows, weights_and_number
from dpq_sklearn.reading.quantities import names_of, selected_columns, table_of_quantities
from dpq_sklearn.reading.sources.batches import check_names_of_batch
from dpq_sklearn.reading.sources.memory import MemorySource
from dpq_sklearn.reading.sources.partitions import PartitionSummary
from dpq_sklearn.reading.sources.people import weights_in_order
from dpq_sklearn.reading.sources.protocol import Records
from dpq_sklearn.reading.summaries import (
    EMPTY_SUMMARY,
    SUMMARY_RESOLUTION,
    SummaryBuilder,
    summarize,
)
from dpq_sklearn.reading.threads import in_threads

# A label for each column of labels.
Key = tuple[Hashable, ...]

# Rounding is reserved for each segment, and the reserve must stay small.
MOST_SEGMENTS = 2**16


@dataclass(frozen=True)
class Segments:
    """The keys of segments: a tuple of labels for each, one label for each column of labels."""

    keys: tuple[Key, ...]

    def numbers_of(self, columns: Sequence) -> np.ndarray:
        """Return the number of the segment of each row, or -1.

        `columns` hold the labels. No cell raises.
        """
        if not self.keys:
            return np.full(len(columns[0]), -1)

        numbered = [
            _numbers_of_labels(column, labels)
            for column, labels in zip(columns, zip(*self.keys, strict=True), strict=True)
        ]
        of_rows, of_keys = numbered[0]
        for more_of_rows, more_of_keys in numbered[1:]:
            of_rows, of_keys = _joined(of_rows, of_keys, more_of_rows, more_of_keys)

        segments = np.append(np.argsort(of_keys), -1)  # keys are distinct, and -1 means no segment
        return segments[of_rows]

    def rows_of(self, columns: Sequence) -> "RowsBySegment":
        """Return the rows of each segment."""
        return RowsBySegment.of(self.numbers_of(columns), len(self.keys))


def _numbers_of_labels(column, labels):
    """Return the number of the label of each row, -1 if no key has it, and of each key."""
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
        """Return the rows in the order of the numbers of their segments; -1 means no segment."""
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
    positions = positions_of_labels(names, by)
    others = [position for position in range(len(names)) if position not in positions]
    labels = selected_columns(table, positions)
    return columns_of_labels(table_of_categories(labels, "by")), selected_columns(table, others)


def positions_of_labels(names: Sequence, by: Sequence) -> list[int]:
    """Return the positions of the columns of labels among the names of all columns, or raise."""
    if len(set(by)) < len(by) or any(names.count(name) != 1 for name in by):
        raise ValueError(
            "by must be the name of one column of the table, or a list of distinct names, got "
            f"{shown(by[0] if len(by) == 1 else by)}."
        )
    return [names.index(name) for name in by]


def columns_of_segments(by, n_rows: int) -> list:
    """Return the columns of labels, one or several, if they have a label for each row; or raise."""
    is_table = len(getattr(by, "shape", (0,))) == 2 or hasattr(by, "column_names")
    labels = table_of_categories(by, "by") if is_table else column_of_categories(by)
    columns = columns_of_labels(labels)
    if any(len(column) != n_rows for column in columns):
        raise ValueError("by must have one label for each row of the data.")
    return columns


class SegmentedSource(Protocol):
    """Rows with labels, from which segments can be read.

    The constructor reads no cell. It raises if the labels are not columns of the table.
    """

    default_resolution: int  # of the source of the rows

    def typed_rows(self) -> Any:
        """Return a table with the names and types of the columns that are described."""

    def key_counts(self, grid: Grid) -> dict[Key, int]:
        """Return the number of records with each key that occurs, in the public order.

        A person counts once, with the key that most of their rows have. Rows that can be read only
        once are summarized on the grid at the same time.
        """

    def read_segments(self, grid: Grid, segments: Segments) -> Records:
        """Return the records of all segments of the first column, then of the second, ..."""


@dataclass(frozen=True)
class SegmentedTable:
    """A checked table in memory, and the columns of labels that divide its rows into segments."""

    table: MemorySource
    labels: Sequence  # columns

    @classmethod
    def of(cls, table, by: Sequence, groups, n_jobs: int | None) -> "SegmentedTable":
        """Return the source of the quantities of a table, or raise."""
        labels, others = labels_and_others(table, by)
        source = MemorySource.of_table(others, groups, n_jobs, "table")
        return cls(source.quantities(), labels)

    @property
    def default_resolution(self) -> int:
        """The resolution of the table."""
        return self.table.default_resolution

    def typed_rows(self):
        """Return the quantities of the table."""
        return self.table.typed_rows()

    def key_counts(self, grid: Grid) -> dict[Key, int]:
        """Return the number of records with each key that occurs, in the public order."""
        groups = self.table.groups
        people = None if groups is None else people_of_rows(groups)
        return count_keys(self.labels, people)

    def read_segments(self, grid: Grid, segments: Segments) -> Records:
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
    default_resolution = SUMMARY_RESOLUTION
    # The summaries of all keys that occur, once these have been counted.
    _counted: "list[SegmentBuilder]" = field(default_factory=list)

    @classmethod
    def of(cls, batches: Iterator, by: Sequence) -> "SegmentedBatches":
        """Take the first table out of an iterator, or raise."""
        for first in batches:
            return cls(first, batches, by)
        raise ValueError("table must be a table or a non-empty iterator of tables, got none.")

    def typed_rows(self):
        """Return the quantities of the first table."""
        return table_of_quantities(labels_and_others(self.first, self.by)[1])

    def key_counts(self, grid: Grid) -> dict[Key, int]:
        """Return the number of rows with each key; summarizes the segment of every key."""
        builder = SegmentBuilder(grid)
        counts: Counter[Key] = Counter()
        for labels, X in self._read():
            found = count_keys(labels, None)
            counts.update(found)
            builder.add(X, labels, Segments(tuple(found)))

        self._counted.append(builder)
        return in_public_order(counts)

    def read_segments(self, grid: Grid, segments: Segments) -> Records:
        """Return the records of all batches, in memory that is bounded by the number of cells."""
        if self._counted:
            return self._counted[0].records(segments)

        builder = SegmentBuilder(grid)
        for labels, X in self._read():
            builder.add(X, labels, segments)
        return builder.records(segments)

    def _read(self) -> Iterator[tuple[list, np.ndarray]]:
        """Yield the columns of labels, and the matrix of quantities, of each batch."""
        names = names_of(self.typed_rows())
        for batch in chain([self.first], self.following):
            labels, others = labels_and_others(batch, self.by)
            table = checked_table(table_of_quantities(others))
            check_names_of_batch(names, table)
            yield labels, read_matrix(table)


class SegmentBuilder:
    """Summarizes segments batch by batch, in memory bounded by keys times the number of cells."""

    def __init__(self, grid: Grid):
        self._grid = grid
        self._n_rows = 0
        self._builders: dict[Key, list[SummaryBuilder]] = {}

    def add(self, X: np.ndarray, labels: Sequence, segments: Segments) -> None:
        """Add the rows of a matrix that are in some segment."""
        rows = segments.rows_of(labels)
        for column, values in enumerate(readable_columns(X)):
            divided = zip(segments.keys, rows.divide(values), strict=True)
            for key, of_segment in divided:
                if of_segment.size:
                    self._builders_of(key)[column].add(of_segment)
        self._n_rows += X.shape[0]

    def _builders_of(self, key: Key) -> list[SummaryBuilder]:
        """Return the builder of each column of a segment."""
        if key not in self._builders:
            columns = range(self._grid.low.size)
            self._builders[key] = [SummaryBuilder(self._grid, column) for column in columns]
        return self._builders[key]

    def summary(self, segments: Segments) -> PartitionSummary:
        """Return the summaries of all segments of the first column, then of the second, ..."""
        summaries = [
            self._builders[key][column].summary() if key in self._builders else EMPTY_SUMMARY
            for column in range(self._grid.low.size)
            for key in segments.keys
        ]
        return PartitionSummary(self._n_rows, summaries)

    def records(self, segments: Segments) -> Records:
        """Return the records of all segments."""
        found = self.summary(segments)
        return records_of_segments(found.summaries, self._grid, found.n_records)


def summary_of_people_by_segment(
    partition, n_quantities: int, people, positions: np.ndarray, grid: Grid, segments: Segments
) -> PartitionSummary:
    """Return the summary of the segments of a partition of whole people, or raise.

    The first columns of the table are quantities, and the others are labels of segments.
    """
    with np.errstate(all="ignore"):
        quantities, labels = divided_columns(partition, n_quantities)
        rows = segments.rows_of(labels)
        weights, n_people = weights_in_order(people, positions)
        columns = enumerate(readable_columns(read_matrix(checked_table(quantities))))
        summaries = [
            summaries_of_segments(values, grid, column, rows, weights) for column, values in columns
        ]
        return PartitionSummary(n_people, list(chain.from_iterable(summaries)))


def divided_columns(partition, n_quantities: int) -> tuple[Any, list]:
    """Return the first columns of a table, and the others as columns of labels."""
    n_columns = partition.shape[1]
    quantities = selected_columns(partition, list(range(n_quantities)))
    labels = selected_columns(partition, list(range(n_quantities, n_columns)))
    return quantities, columns_of_labels(labels)


def in_public_order(counts: Mapping[Key, int]) -> dict[Key, int]:
    """Return the counts of keys in the public order of keys."""
    return {key: counts[key] for key in sorted(counts, key=lambda key: [*map(order_of, key)])}


def count_keys(columns: Sequence, people: np.ndarray | None) -> dict[Key, int]:
    """Return the number of records with each key that occurs, in the public order of keys."""
    found = [categories_of(column) for column in columns]
    has_key = np.all([codes >= 0 for codes, _ in found], axis=0)

    of_rows = np.zeros(np.count_nonzero(has_key), dtype=np.int64)
    keys: list[Key] = [()]
    for codes, categories in found:
        # Only pairs that occur stay, so the numbers stay small.
        pairs = of_rows * len(categories) + codes[has_key]
        distinct, of_rows = np.unique(pairs, return_inverse=True)
        prefixes, ends = np.divmod(distinct, max(len(categories), 1))
        keys = [(*keys[a], categories[b]) for a, b in zip(prefixes, ends, strict=True)]

    numbers = np.full(has_key.size, -1)
    numbers[has_key] = of_rows
    if people is not None:
        numbers = most_frequent(numbers, people, len(keys))
    counts = np.bincount(numbers[numbers >= 0], minlength=len(keys)).tolist()
    return {key: n for key, n in zip(keys, counts, strict=True) if n}


def summaries_of_segments(values, grid, column, rows: RowsBySegment, weights=None) -> list:
    """Return the summary of each segment of a float64 column; rows are records by default."""
    n_segments = rows.ends.size - 1
    of_rows = [None] * n_segments if weights is None else rows.divide(weights)
    pairs = zip(rows.divide(values), of_rows, strict=True)
    return [summarize(values, grid, column, weights) for values, weights in pairs]


def records_of_segments(summaries: list, grid, n_records: int) -> Records:
    """Return the records of all segments of the first column, then of the second, and so on."""
    n_segments = len(summaries) // grid.low.size
    grid = grid[np.repeat(np.arange(grid.low.size), n_segments)]
    return Records(WeightedRanks.of_summaries(summaries, grid), n_records)
