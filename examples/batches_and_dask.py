"""
Fit rows that do not fit into memory, and rows on a cluster
===========================================================

This example fits private bins in three ways: from memory, from batches, and from a Dask DataFrame.
With the same seed and the same resolution the edges are equal to the last bit, and each way costs
one fit. The example needs ``dpq-sklearn[dask]``.
"""

import dask.dataframe as dd
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dpq_sklearn import DPKBinsDiscretizer

# %%
# Create a million rows, and a discretizer with a grid of 2^24 cells. This is the default for
# batches and Dask. From memory the default is 2^40 cells, so the comparison needs
# ``resolution=24``. It also needs a seed. Never set a seed for real data.

rng = np.random.default_rng(0)
rows = pd.DataFrame(
    {"income": rng.lognormal(10, 1, 1_000_000).round(2), "age": rng.integers(18, 90, 1_000_000)}
)
discretizer = DPKBinsDiscretizer(4, encode="ordinal", resolution=24, random_state=0)
from_memory = discretizer.fit(rows).bin_edges_

# %%
# Batches may be arrays, pandas or polars DataFrames or Arrow record batches, in any iterable. They
# are read once. Only counts stay in memory, and their size does not grow with the number of rows.

batches = (rows[start : start + 100_000] for start in range(0, len(rows), 100_000))
from_batches = discretizer.fit_batches(batches).bin_edges_

# %%
# ``fit`` accepts a Dask DataFrame or Array. The workers count their partitions, and ``transform``
# is lazy.

partitions = dd.from_pandas(rows, npartitions=8)
from_dask = discretizer.fit(partitions).bin_edges_
print(discretizer.transform(partitions))

# %%
# The edges of all three fits agree.

ways = {"memory": from_memory, "ten batches": from_batches, "eight Dask partitions": from_dask}
table = pd.DataFrame(
    {way: np.concatenate(edges) for way, edges in ways.items()},
    index=[f"{name}, edge {k}" for name in rows for k in range(5)],
)
print(table)

fig, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
for height, edges in enumerate(ways.values()):
    ax.vlines(edges[0], height - 0.3, height + 0.3, color=f"C{height}", lw=3)
ax.set_yticks(range(len(ways)), list(ways))
ax.set(
    title="One release, three ways to read the rows", xlabel="private edges of the income, euros"
)
ax.invert_yaxis()
ax.spines[["top", "right"]].set_visible(False)
plt.show()
