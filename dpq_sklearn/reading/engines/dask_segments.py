"""Segments of a dask DataFrame: each partition is summarized by segment where it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask

from dpq_sklearn.reading.engines.dask import is_made_of_objects, merged_in_a_tree
from dpq_sklearn.reading.engines.partitions import run_job, side_by_side
from dpq_sklearn.reading.engines.protocol import Records
from dpq_sklearn.reading.quantities import table_of_quantities
from dpq_sklearn.reading.segments import (
    Segments,
    labels_and_others,
    records_of_segments,
    summary_of_segments_in_partition,
)
from dpq_sklearn.reading.summaries import SUMMARY_RESOLUTION


@dataclass(frozen=True)
class DaskSegments:
    """A dask DataFrame with columns of labels that divide its rows into segments."""

    X: Any  # a dask DataFrame
    by: Sequence
    default_resolution = SUMMARY_RESOLUTION

    def __post_init__(self):
        labels_and_others(self.X._meta, self.by)  # raises if by names no columns
        if any(is_made_of_objects(self.X[name]) for name in self.by):
            raise TypeError(
                "by must have a type of its own, got objects that Dask has turned into text, so "
                'that 1 and "1" are equal. Convert the labels before Dask gets them, with '
                'astype("string") or astype("int64"), or set the option '
                '"dataframe.convert-string" of Dask to False before.'
            )

    def typed_rows(self):
        """Return a few made-up rows with the columns and types of the quantities."""
        return table_of_quantities(labels_and_others(self.X._meta_nonempty, self.by)[1])

    def key_counts(self):
        """Refuse: keys are found in memory only."""
        raise NotImplementedError

    def read_segments(self, grid, segments: Segments) -> Records:
        """Return the records of all partitions; computes."""
        names = list(self.typed_rows().columns)
        sent = dask.delayed((grid, segments), traverse=False)
        summary = dask.delayed(_summary_of_partition)
        by = list(self.by)
        merged = merged_in_a_tree(
            [summary(partition, sent, by, names) for partition in self.X.to_delayed()]
        )

        found = side_by_side(run_job("Dask", lambda: dask.compute(merged)))
        return records_of_segments(found.summaries, grid, found.n_records)


def _summary_of_partition(partition, sent, by, names):
    grid, segments = sent
    return summary_of_segments_in_partition(partition, grid, segments, by, names)
