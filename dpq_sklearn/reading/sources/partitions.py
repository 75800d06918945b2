"""Partitions of a table: each is summarized where it is, and summaries are added up in any order.

The summary of a partition is a pure function of its rows. A worker that dies therefore costs time
but no budget, and a partition that is computed twice has the same summary both times.
"""

from dataclasses import dataclass

import numpy as np

from dpq_sklearn.reading.categories import count_columns, merged_counts, table_of_categories
from dpq_sklearn.reading.containers import checked_table, read_matrix, readable_columns
from dpq_sklearn.reading.summaries import EMPTY_SUMMARY, Summary, merge, summarize

# The largest number of ranges of cells into which the summary of a column is divided.
MOST_RANGES = 2**10
_NOTHING_RELEASED = "Nothing was released, but a ledger stays charged."


@dataclass(frozen=True)
class PartitionSummary:
    """The number of records in a partition, and a summary of each of its columns."""

    n_records: int
    summaries: list


def summary_of_partition(partition, grid, first_column=0):
    """Return the `PartitionSummary` of a table; or an exception.

    A worker that raised would log its arguments, which are private. `first_column` is the number
    of the partition's first column in the grid.
    """
    try:
        with np.errstate(all="ignore"):
            matrix = read_matrix(checked_table(partition), first_column)
            columns = enumerate(readable_columns(matrix), first_column)
            summaries = [summarize(values, grid, column) for column, values in columns]
            return PartitionSummary(matrix.shape[0], summaries)
    except Exception as error:
        return error.with_traceback(None)


def merged_partitions(partitions):
    """Return the sum of several `PartitionSummary`; or the first exception among them."""
    for partition in partitions:
        if isinstance(partition, Exception):
            return partition

    columns = zip(*(partition.summaries for partition in partitions), strict=True)
    return PartitionSummary(
        n_records=sum(partition.n_records for partition in partitions),
        summaries=[merge(*of_column) for of_column in columns],
    )


def side_by_side(blocks):
    """Return the `PartitionSummary` of blocks of columns of the same rows; raise an exception."""
    blocks = [result_or_raise(block) for block in blocks]
    return PartitionSummary(
        n_records=blocks[0].n_records,
        summaries=[summary for block in blocks for summary in block.summaries],
    )


def counts_of_partition(partition):
    """Return the number of rows with each category, for each column of a table; or an exception."""
    try:
        return count_columns(table_of_categories(partition))
    except Exception as error:
        return error.with_traceback(None)


def merged_partition_counts(partitions):
    """Return the sums of the counts of several partitions; or the first exception among them."""
    errors = [partition for partition in partitions if isinstance(partition, Exception)]
    return errors[0] if errors else merged_counts(partitions)


def result_or_raise(result):
    """Return the result of all partitions; raise it if it is an exception."""
    if isinstance(result, Exception):
        result.add_note(_NOTHING_RELEASED)
        raise result
    return result


def ranges_of_summary(summary, grid, column):
    """Yield the number and the summary of each range of cells that is occupied.

    The ranges of a column are public. They have the same width, a power of two.
    """
    n_cells = int(grid.end[column] - grid.first[column])
    width_bits = max((n_cells - 1).bit_length() - (MOST_RANGES - 1).bit_length(), 0)
    numbers = (summary.cells - grid.first[column]) >> width_bits
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    ends = np.append(starts, numbers.size)[1:]
    for start, end in zip(starts, ends, strict=True):
        yield int(numbers[start]), Summary(summary.cells[start:end], summary.weights[start:end])


def summary_of_ranges(ranges):
    """Return the summary of a column from the summaries of its ranges, in ascending order."""
    ranges = [EMPTY_SUMMARY, *ranges]
    return Summary(
        cells=np.concatenate([summary.cells for summary in ranges]),
        weights=np.concatenate([summary.weights for summary in ranges]),
    )


def run_job(engine, job, reason_of=lambda error: type(error).__name__):
    """Return the result of a job, or raise an error without the text of the engine's own error.

    That text and the traceback may quote data. `reason_of` returns a word for an exception.
    """
    try:
        return job()
    except Exception as error:
        reason = reason_of(error)

    # Raised outside of the handler, so that the engine's error is not its context.
    raise RuntimeError(
        f"{engine} could not read the rows ({reason}). See the engine's logs: its messages may "
        f"quote data and are not repeated here. {_NOTHING_RELEASED}"
    )


def check_output(row_map, containers):
    """Raise if scikit-learn is configured to return another container."""
    if row_map.output != "default":
        raise ValueError(
            f"{containers} keep their container: transform_output must be 'default' for them, "
            f"got {row_map.output!r}."
        )
