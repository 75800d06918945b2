"""Which engine holds a table."""

from dpq_sklearn.reading.containers import library_of
from dpq_sklearn.reading.engines.memory import MemoryCollection


def collection_of(X, groups=None):
    """Return a table, and whose rows they are, as a `Collection`; imports an engine if need be."""
    library = library_of(X)
    if library in ("dask", "dask_expr"):
        from dpq_sklearn.reading.engines.dask import DaskCollection

        return DaskCollection(X, groups)

    if library == "pyspark":
        from dpq_sklearn.reading.engines.spark import SparkCollection

        return SparkCollection(X, groups)

    return MemoryCollection.of(X, groups)


def segments_of_dask(X, by):
    """Return a dask DataFrame with its columns of labels as a `SegmentedSource`."""
    from dpq_sklearn.reading.engines.dask_segments import DaskSegments

    return DaskSegments(X, by)
