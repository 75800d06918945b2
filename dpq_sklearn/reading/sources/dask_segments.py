"""Segments of a dask DataFrame: each partition is summarized by segment where it is."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import dask
import numpy as np
import pandas

from dpq_sklearn.engine.grid import Grid
from dpq_sklearn.reading.containers import checked_table, read_matrix
from dpq_sklearn.reading.groups import people_of_rows
from dpq_sklearn.reading.quantities import table_of_quantities
from dpq_sklearn.reading.segments import (
    Key,
    SegmentBuilder,
    Segments,
    count_keys,
    divided_columns,
    in_public_order,
    labels_and_others,
    records_of_segments,
    summary_of_people_by_segment,
)
from dpq_sklearn.reading.sources.dask import (
    DaskSource,
    frame_of_forms,
    is_made_of_objects,
    merged_in_a_tree,
)
from dpq_sklearn.reading.sources.partitions import (
    merged_partition_counts,
    result_or_raise,
    run_job,
)
from dpq_sklearn.reading.sources.protocol import Records
from dpq_sklearn.reading.summaries import SUMMARY_RESOLUTION


@dataclass(frozen=True)
class DaskSegments:
    """A dask DataFrame with columns of labels that divide its rows into segments."""

    source: DaskSource
    by: Sequence
    default_resolution = SUMMARY_RESOLUTION

    def __post_init__(self):
        features = self.source.features()
        if not hasattr(features, "columns"):
            raise TypeError(
                "by needs a table with named columns, got a dask Array: make it a DataFrame, with "
                "dask.dataframe.from_dask_array."
            )
        labels_and_others(features._meta, self.by)  # raises if by names no columns
        if any(is_made_of_objects(features[name]) for name in self.by):
            raise TypeError(
                "by must not name objects that Dask has converted to text, because different "
                'labels such as 1 and "1" are equal as text, got such labels. Convert the labels '
                'with astype("string") or astype("int64") before you pass them to Dask, or set the '
                'option "dataframe.convert-string" of Dask to False before.'
            )

    def typed_rows(self):
        """Return a few made-up rows with the columns and types of the quantities."""
        return table_of_quantities(labels_and_others(self.source.typed_rows(), self.by)[1])

    def key_counts(self, grid: Grid) -> dict[Key, int]:
        """Return the number of records with each key that occurs; computes."""
        if self.source.groups is None:
            counts = self._on_partitions(_counts_of_rows)
        else:
            count = partial(_counts_of_people, n_quantities=len(self._names))
            counts = self.source.delayed_people(partial(_cells, **self._columns), count)

        (found,) = self._computed(merged_in_a_tree(counts, merged_partition_counts))
        return in_public_order(found)

    def read_segments(self, grid: Grid, segments: Segments) -> Records:
        """Return the records of all partitions; computes."""
        sent = dask.delayed((grid, segments), traverse=False)
        if self.source.groups is None:
            summaries = self._on_partitions(_summary_of_rows, sent)
        else:
            summarize = partial(_summary_of_people, n_quantities=len(self._names))
            read = partial(_cells, **self._columns)
            summaries = self.source.delayed_people(read, summarize, sent)

        found = self._computed(merged_in_a_tree(summaries))
        return records_of_segments(found.summaries, grid, found.n_records)

    @property
    def _names(self):
        return list(self.typed_rows().columns)

    @property
    def _columns(self):
        return {"names": self._names, "by": list(self.by)}

    def _on_partitions(self, function, *sent):
        """Return the delayed results of a function of the matrix and the labels of a partition."""
        delayed = dask.delayed(partial(_result_of_rows, function=function, **self._columns))
        return [delayed(partition, *sent) for partition in self.source.X.to_delayed()]

    @staticmethod
    def _computed(delayed):
        (found,) = run_job("Dask", lambda: dask.compute(delayed))
        return result_or_raise(found)


def _matrix_and_labels(partition, names, by):
    """Return the matrix of the quantities of a partition, and its columns of labels."""
    labels, _ = labels_and_others(partition[by], by)
    return read_matrix(checked_table(partition[names])), labels


def _cells(partition, names, by):
    """Return the quantities of a partition as numbers, then its labels as objects."""
    X, labels = _matrix_and_labels(partition, names, by)
    numbers = pandas.DataFrame(X.astype(np.float64))
    cells = pandas.concat([numbers, frame_of_forms(labels)], axis=1)
    return cells.set_axis(range(cells.shape[1]), axis=1)


def _result_of_rows(partition, *sent, function, names, by):
    """Return the result of a function; or an exception.

    A worker that raised would log its arguments, which are private.
    """
    try:
        with np.errstate(all="ignore"):
            return function(*_matrix_and_labels(partition, names, by), *sent)
    except Exception as error:
        return error.with_traceback(None)


def _counts_of_rows(X, labels):
    return [Counter(count_keys(labels, None))]


def _counts_of_people(cells, people, positions, n_quantities):
    _, labels = divided_columns(cells, n_quantities)
    return [Counter(count_keys(labels, people_of_rows(people)))]


def _summary_of_rows(X, labels, sent):
    grid, segments = sent
    builder = SegmentBuilder(grid)
    builder.add(X, labels, segments)
    return builder.summary(segments)


def _summary_of_people(cells, people, positions, sent, n_quantities):
    grid, segments = sent
    return summary_of_people_by_segment(cells, n_quantities, people, positions, grid, segments)
