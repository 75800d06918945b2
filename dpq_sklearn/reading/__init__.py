"""Reading data: containers to columns of floats, in memory, in batches, with Dask and Spark."""
