"""Reading data: containers to columns of floats, in memory, in batches and with Dask."""
