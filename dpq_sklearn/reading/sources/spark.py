"""Spark: partitions are counted by the executors, and transformed when they are asked for.

Imported only when a Spark DataFrame is passed. A fit sends the public grid to the executors. They
summarize their partitions, exchange the summaries by ranges of cells, and add them up, so the
driver collects every cell of a column once, and the release happens there.

Like any other package, this package has to be installed on the executors, or sent to them by
``addArtifact`` / ``--py-files``.
"""

import pickle
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import partial
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions, types

from dpq_sklearn.reading.categories import count_columns, merged_counts, table_of_categories
from dpq_sklearn.reading.containers import checked_table, read_matrix, readable_columns
from dpq_sklearn.reading.quantities import named_types, no_quantities
from dpq_sklearn.reading.sources.partitions import (
    MOST_RANGES,
    PartitionSummary,
    check_output,
    ranges_of_summary,
    run_job,
    summary_of_ranges,
)
from dpq_sklearn.reading.sources.people import summary_of_people
from dpq_sklearn.reading.sources.protocol import Records
from dpq_sklearn.reading.summaries import SUMMARY_RESOLUTION, SummaryBuilder, merge

_ARROW_TYPES = {
    types.BooleanType: pa.bool_(),
    types.StringType: pa.string(),
    types.CharType: pa.string(),
    types.VarcharType: pa.string(),
    types.ByteType: pa.int8(),
    types.ShortType: pa.int16(),
    types.IntegerType: pa.int32(),
    types.LongType: pa.int64(),
    types.FloatType: pa.float32(),
    types.DoubleType: pa.float64(),
    types.DateType: pa.date32(),
    types.TimestampType: pa.timestamp("us", "UTC"),
    types.TimestampNTZType: pa.timestamp("us"),
    types.DayTimeIntervalType: pa.duration("us"),
}
_QUANTITY_TYPES = (
    types.NumericType,
    types.DateType,
    types.TimestampType,
    types.TimestampNTZType,
    types.DayTimeIntervalType,
)
_TYPES_OF_RESULTS = {
    np.float32: types.FloatType,
    np.int8: types.ByteType,
    np.int16: types.ShortType,
    np.int32: types.IntegerType,
    np.int64: types.LongType,
    np.bool_: types.BooleanType,
}
_LABEL_TYPES = (
    types.BooleanType,
    types.IntegralType,
    types.FractionalType,
    types.StringType,
    types.CharType,
    types.VarcharType,
    types.BinaryType,
    types.DateType,
    types.TimestampType,
    types.TimestampNTZType,
)

# With fewer rows at a time, the calls would take longer than the counting.
_ROWS_AT_ONCE = 2**18
_MERGED_AT_ONCE = 8
# The rows that executors exchange: the number of a range of cells, and its summary. A row with the
# number `_NUMBER_OF_RECORDS` has the number of records in a partition instead.
_SCHEMA_OF_SUMMARIES = "number long, summary binary"
_NUMBER_OF_RECORDS = -1


@dataclass(frozen=True)
class SparkSource:
    """A Spark DataFrame."""

    X: object
    groups: object = None
    default_resolution = SUMMARY_RESOLUTION

    def __post_init__(self):
        if not isinstance(self.X, DataFrame):
            kind = type(self.X)
            raise TypeError(
                "X from PySpark must be a pyspark.sql.DataFrame, got "
                f"{kind.__module__}.{kind.__name__}."
            )
        if self.groups is not None:
            self._check_groups()

    def _check_groups(self):
        if not isinstance(self.groups, str):
            raise TypeError(
                "groups must be the name of a column of the Spark DataFrame, got an object of type "
                f"{type(self.groups).__name__}."
            )
        kinds = [f.dataType for f in self.X.schema.fields if f.name == self.groups]
        if len(kinds) != 1:
            raise ValueError(
                "groups must be the name of one column of the Spark DataFrame, got "
                f"{self.groups!r}, which is the name of {len(kinds)} columns."
            )
        if not isinstance(kinds[0], _LABEL_TYPES):
            raise TypeError(
                "groups must hold hashable labels, such as numbers or strings, got the type "
                f"{kinds[0].simpleString()}."
            )

    def features(self):
        """Return the DataFrame without the column of labels."""
        return self.X if self.groups is None else self.X.drop(self.groups)

    def typed_rows(self):
        """Return one made-up row with the columns and types of the features."""
        fields = [field for field in self.X.schema.fields if field.name != self.groups]
        wrong = [field for field in fields if type(field.dataType) not in _ARROW_TYPES]
        if wrong:
            named = ", ".join(f"{f.name!r} ({f.dataType.simpleString()})" for f in wrong)
            raise ValueError(
                "columns of X must be of boolean, integer, float, double, date, timestamp or "
                f"string type, got {named}: cast or drop them."
            )

        names = [field.name for field in fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                "column names of X must be distinct, got "
                f"{', '.join(map(repr, twice))} several times."
            )

        arrow_types = [_ARROW_TYPES[type(field.dataType)] for field in fields]
        return pa.Table.from_arrays(
            [_one_of(arrow_type) for arrow_type in arrow_types],
            names=names,
        )

    def quantities(self):
        """Return the source without the columns that hold neither numbers nor dates."""
        fields = self.X.schema.fields
        features = [
            position
            for position, field in enumerate(fields)
            if isinstance(field.dataType, _QUANTITY_TYPES) and field.name != self.groups
        ]
        if not features:
            words = ((field.name, field.dataType.simpleString()) for field in fields)
            raise ValueError(no_quantities(named_types(words)))

        kept = [
            position
            for position, field in enumerate(fields)
            if position in features or field.name == self.groups
        ]
        columns = numbered_columns(self.X).select(*map(str, kept))
        return replace(self, X=columns.toDF(*(fields[position].name for position in kept)))

    def read(self, grid):
        """Return the records of all partitions; starts a job."""
        found = collected_summary(self._merged_summaries(grid), grid.low.size)
        return Records.of_summaries(found.summaries, grid, n_rows=found.n_records)

    def _merged_summaries(self, grid):
        """Return a DataFrame with one row for each occupied range of cells."""
        of_rows = partial(_summaries_of_rows, grid=grid)
        of_people = partial(_summaries_of_people, grid=grid)
        return self.merged(of_rows if self.groups is None else of_people, merge)

    def count_categories(self):
        """Return the number of records with each category, for each column; starts a job."""
        counts = partial(counts_of_tables, count=_count_of_columns, with_people=self.with_people)
        return collected_counts(self.merged(counts, sum_of_counts), len(self.features().columns))

    @property
    def with_people(self):
        """Whether the records are people."""
        return self.groups is not None

    def merged(self, summarize, merge):
        """Return a DataFrame with one row for each number that `summarize` yields.

        `summarize` is a function of the Arrow batches of a partition. Its rows are all features
        or, with groups, features, label and position, with whole people in each partition. It
        yields batches of numbers and summaries, and `merge` adds up summaries with equal numbers.
        """
        rows = self._rows_by_person() if self.with_people else numbered_columns(self.X)
        partitions = rows.mapInArrow(_clean(summarize), _SCHEMA_OF_SUMMARIES)
        add_up = partial(_merged, merge=merge)
        return partitions.repartition("number").mapInArrow(_clean(add_up), _SCHEMA_OF_SUMMARIES)

    def _rows_by_person(self):
        """Return features, label and position of each row, with each person in one partition.

        A missing label is a separate person, who may be in any partition. A hash of the row chooses
        the partition, so that the row is in the same partition if it is computed again.
        """
        names = [field.name for field in self.X.schema.fields]
        label = names.index(self.groups)
        features = [column for column in range(len(names)) if column != label]

        rows = numbered_columns(self.X)
        columns = [functions.col(str(column)) for column in (*features, label)]
        is_missing = columns[-1].isNull()
        if isinstance(self.X.schema.fields[label].dataType, (types.FloatType, types.DoubleType)):
            is_missing |= functions.isnan(columns[-1])
        hash_if_missing = functions.when(is_missing, functions.xxhash64(*columns[:-1]))
        position = functions.monotonically_increasing_id()
        rows = rows.select(*columns, position.alias("position"))
        return rows.repartition(columns[-1], hash_if_missing)

    def refuse_output(self, row_map):
        """Raise if another output container is configured, and for sparse rows."""
        check_output(row_map, "Spark DataFrames")
        if row_map.is_sparse:
            raise ValueError(
                'a Spark DataFrame cannot hold the sparse rows of encode="onehot": set '
                'encode="onehot-dense" or "ordinal" (for an encoder, sparse_output=False).'
            )

    def map_rows(self, row_map):
        """Return a lazy DataFrame with the result of the map."""
        self.refuse_output(row_map)

        typed_rows = self.typed_rows()
        rows = row_map.function_on_workers(typed_rows)
        kind = _TYPES_OF_RESULTS.get(rows.dtype.type, types.DoubleType)()
        names = [str(name) for name in row_map.names()]
        schema = types.StructType([types.StructField(name, kind) for name in names])
        mapped = partial(
            _map_batches,
            function=row_map.function_on_workers,
            names=typed_rows.column_names,
            arrow_type=_ARROW_TYPES[type(kind)],
        )
        return numbered_columns(self.X).mapInArrow(mapped, schema)


def numbered_columns(X):
    """Return the table with columns named 0, 1, ..., because Spark reads dots in names as paths."""
    return X.toDF(*map(str, range(len(X.columns))))


def _one_of(arrow_type):
    """Return an Arrow array with one made-up value of a type."""
    if pa.types.is_date32(arrow_type):  # Arrow casts only 32-bit integers to dates
        return pa.array([1], pa.int32()).cast(arrow_type)
    return pa.array([1]).cast(arrow_type)


# The functions below run in the executors.


def _clean(function):
    """Wrap a function of batches, so that its errors only name a type: messages may quote data."""
    return partial(_run_clean, function)


class TaskFailedError(RuntimeError):
    """A failure in an executor. The message names only the type of the error."""


def _run_clean(function, batches):
    reason = None
    try:
        yield from function(batches)
    except Exception as error:
        reason = type(error).__name__
    if reason is not None:
        raise TaskFailedError(f"a task of dpq_sklearn failed: {reason}")


def _summaries_of_rows(batches, grid):
    """Yield the summary of a partition. Only some of its rows are in memory at a time."""
    builders = [SummaryBuilder(grid, column) for column in range(grid.low.size)]
    n_rows = 0
    for table in tables_of(batches):
        with np.errstate(all="ignore"):
            columns = readable_columns(read_matrix(checked_table(table)))
            for builder, values in zip(builders, columns, strict=True):
                builder.add(values)
        n_rows += table.num_rows

    yield from packed(PartitionSummary(n_rows, [builder.summary() for builder in builders]), grid)


def _summaries_of_people(batches, grid):
    """Yield the summary of a partition of whole people. The whole partition is in memory."""
    for people in tables_of_people(batches):
        yield from packed(summary_of_people(*people, grid), grid)


def counts_of_tables(batches, count, with_people):
    """Yield the counts of a partition; `count` is a function of a table and its labels, or None."""
    tables = (
        tables_of_people(batches) if with_people else ((each, None) for each in tables_of(batches))
    )
    totals = merged_counts(count(table, labels) for table, labels, *_ in tables)
    for column, counts in enumerate(totals):
        buckets = defaultdict(Counter)
        for label, n_records in counts.items():
            buckets[_bucket_of(label)][label] = n_records
        yield _batch_of(
            {column * MOST_RANGES + number: bucket for number, bucket in buckets.items()}
        )


def _count_of_columns(table, labels):
    return count_columns(table_of_categories(table), labels)


def _bucket_of(label):
    """Return the bucket of a label among the counts of a column, the same in all processes."""
    return crc32(repr(label).encode("utf-8", "surrogatepass")) % MOST_RANGES


def sum_of_counts(*counts):
    (total,) = merged_counts([each] for each in counts)
    return total


def tables_of_people(batches):
    """Yield the features, the labels and the positions of a partition of whole people, if any."""
    for table in tables_of(batches, np.inf):
        *features, labels, positions = table.columns
        yield (
            pa.Table.from_arrays(features, names=table.column_names[:-2]),
            labels,
            np.asarray(positions),
        )


def tables_of(batches, n_rows=_ROWS_AT_ONCE):
    """Yield tables of about `n_rows` rows. The last table may have fewer."""
    waiting = []
    n_waiting = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            n_waiting += batch.num_rows
        if n_waiting >= n_rows:
            yield pa.Table.from_batches(waiting)
            waiting = []
            n_waiting = 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def packed(partition, grid):
    """Yield the number of records, and the ranges of each summary, as Arrow batches.

    A column of the grid may have several summaries, one for each segment.
    """
    yield _batch_of({_NUMBER_OF_RECORDS: partition.n_records})
    n_segments = len(partition.summaries) // grid.low.size
    for column in range(grid.low.size):
        ranges = {
            index * MOST_RANGES + number: found
            for index in range(column * n_segments, (column + 1) * n_segments)
            for number, found in ranges_of_summary(partition.summaries[index], grid, column)
        }
        yield _batch_of(ranges)


def _merged(batches, merge):
    """Yield the sums of the rows with equal numbers."""
    n_records = 0
    found = defaultdict(list)
    for batch in batches:
        for number, summary in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if number == _NUMBER_OF_RECORDS:
                n_records += pickle.loads(summary)
                continue
            found[number].append(pickle.loads(summary))
            if len(found[number]) == _MERGED_AT_ONCE:
                found[number] = [merge(*found[number])]

    yield _batch_of({_NUMBER_OF_RECORDS: n_records})
    yield _batch_of({number: merge(*summaries) for number, summaries in found.items()})


def _batch_of(values_by_number):
    packed = [pickle.dumps(value) for value in values_by_number.values()]
    return pa.RecordBatch.from_arrays(
        [pa.array(values_by_number.keys(), pa.int64()), pa.array(packed, pa.binary())],
        names=["number", "summary"],
    )


def _map_batches(batches, function, names, arrow_type):
    """Yield the result of the function for each batch, with the original names of the columns."""
    for batch in batches:
        if batch.num_rows:
            rows = function(pa.Table.from_batches([batch]).rename_columns(names))
            columns = [pa.array(values, arrow_type) for values in np.ascontiguousarray(rows.T)]
            yield pa.RecordBatch.from_arrays(columns, names=list(map(str, range(len(columns)))))


# The functions below run in the driver.


def collected_summary(merged, n_summaries):
    """Return the `PartitionSummary` of all partitions; starts a job."""
    n_records = 0
    ranges = defaultdict(list)
    for number, found in _collected(merged):
        if number == _NUMBER_OF_RECORDS:
            n_records += found
        else:
            ranges[number // MOST_RANGES].append(found)
    return PartitionSummary(
        n_records, [summary_of_ranges(ranges[index]) for index in range(n_summaries)]
    )


def collected_counts(merged, n_columns):
    """Return the counts of each column in all partitions; starts a job."""
    totals = [Counter() for _ in range(n_columns)]
    for number, counts in _collected(merged):
        if number != _NUMBER_OF_RECORDS:
            totals[number // MOST_RANGES].update(counts)
    return totals


def _collected(merged):
    """Return the numbers and the summaries of a DataFrame, in the order of the numbers."""
    rows = run_job("Spark", merged.collect, _reason_of)
    return [(number, pickle.loads(summary)) for number, summary in sorted(rows)]


def _reason_of(error):
    """Return the type of the error in an executor if it is one of ours, else of Spark's error."""
    of_task = re.search(r"a task of dpq_sklearn failed: (\w+)", str(error))
    return of_task.group(1) if of_task else type(error).__name__
