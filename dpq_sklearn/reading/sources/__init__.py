"""Sources of rows, in memory, in batches or on many machines, behind one protocol."""
