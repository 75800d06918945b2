"""Parts of a table: each is summarized where it is, and summaries are added up in any order.

The summary of a part is a pure function of its rows. So a worker that dies costs time and no
budget, and a part that is computed twice is the same both times.
"""

from dataclasses import dataclass

import numpy as np

from dpq_sklearn.reading.containers import checked_table, read_matrix, readable_columns
from dpq_sklearn.reading.summaries import merge, summarize


@dataclass(frozen=True)
class PartSummary:
    """The number of records in a part, and a summary of each of its columns."""

    n_records: int
    summaries: list


def summary_of_part(part, grid, first_column=0):
    """Return the `PartSummary` of a table; or an exception.

    A worker that raised would log what it was working on, which is private. `first_column` is the
    number of the part's first column in the grid.
    """
    try:
        with np.errstate(all="ignore"):
            matrix = read_matrix(checked_table(part), first_column)
            columns = enumerate(readable_columns(matrix), first_column)
            summaries = [summarize(values, grid, column) for column, values in columns]
            return PartSummary(matrix.shape[0], summaries)
    except Exception as error:
        return error.with_traceback(None)


def merged_parts(parts):
    """Return the sum of several `PartSummary`; or the first exception among them."""
    for part in parts:
        if isinstance(part, Exception):
            return part

    columns = zip(*(part.summaries for part in parts), strict=True)
    return PartSummary(
        n_records=sum(part.n_records for part in parts),
        summaries=[merge(*of_column) for of_column in columns],
    )


def side_by_side(blocks):
    """Return the `PartSummary` of blocks of columns of the same rows; raises what is one."""
    for block in blocks:
        if isinstance(block, Exception):
            raise block

    return PartSummary(
        n_records=blocks[0].n_records,
        summaries=[summary for block in blocks for summary in block.summaries],
    )
