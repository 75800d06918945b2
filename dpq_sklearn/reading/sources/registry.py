"""The source of each kind of container."""

from dpq_sklearn.reading.containers import library_of
from dpq_sklearn.reading.segments import SegmentedBatches, SegmentedTable
from dpq_sklearn.reading.sources.batches import Batches
from dpq_sklearn.reading.sources.memory import MemorySource


def source_of(X, groups=None, n_jobs=None, name="X"):
    """Return the `Source` of a table, or raise; reads no cell, and imports an engine if needed.

    Messages call a table in memory `name`. Only reading from memory uses `n_jobs`.
    """
    library = library_of(X)
    if library in ("dask", "dask_expr"):
        from dpq_sklearn.reading.sources.dask import DaskSource

        return DaskSource(X, groups)

    if library == "pyspark":
        from dpq_sklearn.reading.sources.spark import SparkSource

        return SparkSource(X, groups)

    return MemorySource.of_table(X, groups, n_jobs, name)


def segments_of(table, by, groups=None, n_jobs=None):
    """Return the `SegmentedSource` of a table or of an iterator of tables, or raise.

    `by` are the names of the columns of labels.
    """
    if hasattr(table, "__next__"):
        if groups is not None:
            Batches.of_quantities(table, groups)  # it raises
        return SegmentedBatches.of(table, by)

    library = library_of(table)
    if library in ("dask", "dask_expr"):
        from dpq_sklearn.reading.sources.dask_segments import DaskSegments

        return DaskSegments(source_of(table, groups), by)

    if library == "pyspark":
        from dpq_sklearn.reading.sources.spark_segments import SparkSegments

        return SparkSegments(source_of(table, groups), by)

    return SegmentedTable.of(table, by, groups, n_jobs)
