"""Which engine holds a table."""

from dpq_sklearn.reading.containers import library_of
from dpq_sklearn.reading.engines.memory import MemoryCollection


def collection_of(X, groups=None):
    """Return a table, and whose rows they are, as a `Collection`; imports an engine if need be."""
    if library_of(X) in ("dask", "dask_expr"):
        from dpq_sklearn.reading.engines.dask import DaskCollection

        return DaskCollection(X, groups)

    return MemoryCollection(X, groups)
