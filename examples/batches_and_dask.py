"""
Fit rows that do not fit into memory, and rows on a cluster
===========================================================

The same private bins three ways: from memory, from batches, and from a dask DataFrame. With the
same seed and resolution they are the same to the last bit, and each costs one fit.
"""

import numpy as np
import pandas as pd

from dpq_sklearn import DPKBinsDiscretizer

# %%
# A million rows, and a discretizer whose grid has 2^24 cells. That is the default for batches and
# Dask; in memory it must be asked for, where 2^40 cells are the default. The seed is only there
# for the comparison.

rng = np.random.default_rng(0)
rows = pd.DataFrame(
    {"income": rng.lognormal(10, 1, 1_000_000).round(2), "age": rng.integers(18, 90, 1_000_000)}
)
discretizer = DPKBinsDiscretizer(4, encode="ordinal", resolution=24, random_state=0)
from_memory = discretizer.fit(rows).bin_edges_

# %%
# Batches may be arrays, pandas or polars DataFrames or Arrow record batches, in any iterable. They
# are read once, and what stays in memory are counts, whose size does not depend on the rows.

batches = (rows[start : start + 100_000] for start in range(0, len(rows), 100_000))
from_batches = discretizer.fit_batches(batches).bin_edges_

# %%
# A dask DataFrame or Array goes to `fit` as it is. Its partitions are counted in the workers;
# `transform` is lazy.

try:
    import dask.dataframe as dd
except ImportError:
    from_dask = None
    print("install dpq-sklearn[dask] for this part")
else:
    partitions = dd.from_pandas(rows, npartitions=8)
    from_dask = discretizer.fit(partitions).bin_edges_
    print(discretizer.transform(partitions))

# %%
# One table to see that they agree.

table = pd.DataFrame(
    {
        "memory": np.concatenate(from_memory),
        "batches": np.concatenate(from_batches),
        "dask": np.nan if from_dask is None else np.concatenate(from_dask),
    },
    index=[f"{name}, edge {k}" for name in rows for k in range(5)],
)
print(table)
