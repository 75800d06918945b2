"""The engine of each kind of container."""

from dpq_sklearn.reading.containers import library_of
from dpq_sklearn.reading.engines.memory import MemorySource


def source_of(X, groups=None, n_jobs=None, name="X"):
    """Return the `Source` of a table, or raise; reads no cell, and imports an engine if needed.

    Messages call a table in memory `name`. Only reading from memory uses `n_jobs`.
    """
    library = library_of(X)
    if library in ("dask", "dask_expr"):
        from dpq_sklearn.reading.engines.dask import DaskSource

        return DaskSource(X, groups)

    if library == "pyspark":
        from dpq_sklearn.reading.engines.spark import SparkSource

        return SparkSource(X, groups)

    return MemorySource.of_table(X, groups, n_jobs, name)


def segments_of_dask(X, by):
    """Return a dask DataFrame with its columns of labels as a `SegmentedSource`."""
    from dpq_sklearn.reading.engines.dask_segments import DaskSegments

    return DaskSegments(X, by)
