"""Parts of a table: each is summarized where it is, and summaries are added up in any order.

The summary of a part is a pure function of its rows. So a worker that dies costs time and no
budget, and a part that is computed twice is the same both times: nothing is counted on the way.
"""

from dataclasses import dataclass

import numpy as np

from dpq_sklearn.reading.categories import count_columns, merged_counts, table_of_categories
from dpq_sklearn.reading.containers import checked_table, read_matrix, readable_columns
from dpq_sklearn.reading.summaries import EMPTY_SUMMARY, Summary, merge, summarize

# The summary of a column is divided into at most so many ranges of cells.
MOST_RANGES = 2**10
_NOTHING_RELEASED = "Nothing was released, but a ledger stays charged."


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
            block.add_note(_NOTHING_RELEASED)
            raise block

    return PartSummary(
        n_records=blocks[0].n_records,
        summaries=[summary for block in blocks for summary in block.summaries],
    )


def counts_of_part(part):
    """Return the number of rows with each category, for each column of a table; or an exception."""
    try:
        return count_columns(table_of_categories(part))
    except Exception as error:
        return error.with_traceback(None)


def merged_part_counts(parts):
    """Return the sums of the counts of several parts; or the first exception among them."""
    errors = [part for part in parts if isinstance(part, Exception)]
    return errors[0] if errors else merged_counts(parts)


def counts_or_raise(counts):
    """Return the counts of all parts; raises if they are an exception."""
    if isinstance(counts, Exception):
        counts.add_note(_NOTHING_RELEASED)
        raise counts
    return counts


def ranges_of_summary(summary, grid, column):
    """Yield the number of each range of cells that is occupied, and the summary of it.

    The ranges of a column are public: they have one width, a power of two.
    """
    n_cells = int(grid.end[column] - grid.first[column])
    width_bits = max((n_cells - 1).bit_length() - (MOST_RANGES - 1).bit_length(), 0)
    numbers = (summary.cells - grid.first[column]) >> width_bits
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    ends = np.append(starts, numbers.size)[1:]
    for start, end in zip(starts, ends, strict=True):
        yield int(numbers[start]), Summary(summary.cells[start:end], summary.weights[start:end])


def summary_of_ranges(ranges):
    """Return the summary of a column from those of its ranges, in ascending order."""
    ranges = [EMPTY_SUMMARY, *ranges]
    return Summary(
        cells=np.concatenate([summary.cells for summary in ranges]),
        weights=np.concatenate([summary.weights for summary in ranges]),
    )


def run_job(engine, job, reason_of=lambda error: type(error).__name__):
    """Return what a job returns, or raise an error that holds nothing of the engine's own.

    `reason_of` returns a word for an exception. Its text and its traceback may quote data.
    """
    try:
        return job()
    except Exception as error:
        reason = reason_of(error)

    # Outside of the handler, so that the error is not its context.
    raise RuntimeError(
        f"{engine} could not read the rows ({reason}). The engine's logs say more; its words may "
        f"quote data and are not repeated here. {_NOTHING_RELEASED}"
    )
