"""Segments of a Spark DataFrame: the executors summarize their partitions by segment."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpq_sklearn.engine.grid import Grid
from dpq_sklearn.reading.categories import table_of_categories
from dpq_sklearn.reading.containers import checked_table, read_matrix
from dpq_sklearn.reading.groups import people_of_rows
from dpq_sklearn.reading.segments import (
    Key,
    SegmentBuilder,
    Segments,
    count_keys,
    divided_columns,
    in_public_order,
    positions_of_labels,
    records_of_segments,
    summary_of_people_by_segment,
)
from dpq_sklearn.reading.sources.protocol import Records
from dpq_sklearn.reading.sources.spark import (
    SparkSource,
    collected_counts,
    collected_summary,
    counts_of_tables,
    numbered_columns,
    packed,
    sum_of_counts,
    tables_of,
    tables_of_people,
)
from dpq_sklearn.reading.summaries import SUMMARY_RESOLUTION, merge

_PEOPLE = "people"  # the column of labels of people; all other columns have numbers


@dataclass(frozen=True)
class SparkSegments:
    """A Spark DataFrame with columns of labels that divide its rows into segments."""

    source: SparkSource
    by: Sequence
    default_resolution = SUMMARY_RESOLUTION

    def __post_init__(self):
        names = self.source.features().columns
        positions_of_labels(names, self.by)  # raises if by names no columns
        labels = SparkSource(self._selected([self._names.index(name) for name in self.by]))
        table_of_categories(labels.typed_rows(), "by")

    def typed_rows(self):
        """Return one made-up row with the columns and types of the quantities."""
        return self._quantities().typed_rows()

    def key_counts(self, grid: Grid) -> dict[Key, int]:
        """Return the number of records with each key that occurs; starts a job."""
        source = self._quantities_and_labels()
        count = partial(_count_of_keys, n_quantities=self._n_quantities)
        counts = partial(counts_of_tables, count=count, with_people=source.with_people)
        (found,) = collected_counts(source.merged(counts, sum_of_counts), 1)
        return in_public_order(found)

    def read_segments(self, grid: Grid, segments: Segments) -> Records:
        """Return the records of all partitions; starts a job."""
        source = self._quantities_and_labels()
        facts = {"n_quantities": self._n_quantities, "grid": grid, "segments": segments}
        summarize = _summaries_of_people if source.with_people else _summaries_of_rows
        merged = source.merged(partial(summarize, **facts), merge)
        found = collected_summary(merged, grid.low.size * len(segments.keys))
        return records_of_segments(found.summaries, grid, found.n_records)

    @property
    def _names(self):
        return list(self.source.X.columns)

    @property
    def _n_quantities(self):
        return len(self._quantities().features().columns)

    def _quantities(self):
        """Return the source of the quantities that are described."""
        kept = [position for position, name in enumerate(self._names) if name not in self.by]
        return SparkSource(self._selected(kept), self.source.groups).quantities()

    def _quantities_and_labels(self):
        """Return the source of the quantities, and then of the labels of segments."""
        described = self._quantities().features().columns
        names = [*described, *self.by]
        positions = [self._names.index(name) for name in names]
        numbers = list(map(str, range(len(names))))
        if not self.source.with_people:
            return SparkSource(self._selected(positions).toDF(*numbers))

        positions.append(self._names.index(self.source.groups))
        return SparkSource(self._selected(positions).toDF(*numbers, _PEOPLE), _PEOPLE)

    def _selected(self, positions):
        """Return some columns of the DataFrame under their own names, which may have dots."""
        names = [self._names[position] for position in positions]
        return numbered_columns(self.source.X).select(*map(str, positions)).toDF(*names)


# The functions below run in the executors.


def _count_of_keys(table, people, n_quantities):
    _, labels = divided_columns(table, n_quantities)
    numbers = None if people is None else people_of_rows(people)
    return [Counter(count_keys(labels, numbers))]


def _summaries_of_rows(batches, n_quantities, grid, segments):
    """Yield the summary of a partition. Only some of its rows are in memory at a time."""
    builder = SegmentBuilder(grid)
    for table in tables_of(batches):
        with np.errstate(all="ignore"):
            quantities, labels = divided_columns(table, n_quantities)
            builder.add(read_matrix(checked_table(quantities)), labels, segments)
    yield from packed(builder.summary(segments), grid)


def _summaries_of_people(batches, n_quantities, grid, segments):
    """Yield the summary of a partition of whole people. The whole partition is in memory."""
    for table, people, positions in tables_of_people(batches):
        found = summary_of_people_by_segment(table, n_quantities, people, positions, grid, segments)
        yield from packed(found, grid)
