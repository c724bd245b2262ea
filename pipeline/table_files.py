"""The rows of a table for Python: Arrow batches, straight from its Parquet files.

Rules:
- Spark lists and reads the files, wherever they are, and hands each one whole to Python, where Arrow decodes the
  columns that are needed. Rows that go through Spark one by one cost six times the time.
- A table with a file of more than MAX_FILE_BYTES goes through Spark row by row: memory has a bound.
- Both ways give the same rows. A column that a file lacks is null; one of another type is an error that names the file.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above
from pyspark.sql.pandas.types import to_arrow_schema

from pipeline import tables
from pipeline.errors import PipelineError
from pipeline.schema import FAMILIES
from pipeline.tables import TimeRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    Batches: TypeAlias = Iterable[pa.RecordBatch]
    Job: TypeAlias = Callable[[Batches], Iterator[pa.RecordBatch]]
    from collections.abc import Iterable, Iterator


BATCH_ROWS: Final = 1 << 20

MAX_FILE_BYTES: Final = 64 << 20
ALL_TIME: Final = TimeRange()
_FOREVER_MS: Final = 1 << 62


def chunks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows of the batches as tables of at least BATCH_ROWS rows, the last one with what is left."""
    some: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        some.append(batch)
        count += batch.num_rows
        if count >= BATCH_ROWS:
            yield pa.Table.from_batches(some)
            some, count = [], 0
    if count:
        yield pa.Table.from_batches(some)


class RowSource(Protocol):
    """Rows of a family."""

    def mapped(
        self, columns: Sequence[str], job: Job, schema: str, span: TimeRange = ALL_TIME
    ) -> DataFrame:
        """Return what `job` makes of the rows of a time: it gets batches with these columns."""


class GivenRows(NamedTuple):
    """Rows that Spark has already."""

    rows: DataFrame

    def mapped(
        self, columns: Sequence[str], job: Job, schema: str, span: TimeRange = ALL_TIME
    ) -> DataFrame:
        """See RowSource."""
        return span.of(self.rows).select(*columns).mapInArrow(job, schema)


class TableFiles:
    """The table of a family at `uri`: `rows` are those of `pipeline.tables`."""

    def __init__(self, spark: SparkSession, uri: str, family: str, rows: DataFrame) -> None:
        self._family = family
        self._rows = rows
        self._files = spark.read.format("binaryFile").load(tables.table_uri(uri, family))
        large = self._files.where(f"length > {MAX_FILE_BYTES}").select("path")
        self._is_small = large.coalesce(1).isEmpty()  # one task looks at all of them

    @classmethod
    def maybe_open(cls, spark: SparkSession, uri: str, family: str) -> TableFiles | None:
        """Return the table; None if it does not exist. Raises PipelineError if its columns do not fit."""
        rows = tables.maybe_read(spark, uri, family)
        return None if rows is None else cls(spark, uri, family, rows)

    @classmethod
    def open(cls, spark: SparkSession, uri: str, family: str) -> TableFiles:
        """Return the table. Raises PipelineError if there are no rows, or if their columns do not fit."""
        return cls(spark, uri, family, tables.read(spark, uri, family))

    def mapped(
        self, columns: Sequence[str], job: Job, schema: str, span: TimeRange = ALL_TIME
    ) -> DataFrame:
        """See RowSource."""
        if not self._is_small:
            return GivenRows(self._rows).mapped(columns, job, schema, span)
        rows = partial(rows_of_files, family=self._family, columns=columns, span=span)
        files = span.days_of(self._files).select("path", "content")
        return files.mapInArrow(lambda batches: job(rows(batches)), schema)


def rows_of_files(
    files: Batches, family: str, columns: Sequence[str], span: TimeRange = ALL_TIME
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a time of Parquet files, given by `path` and `content`; texts as dictionaries.

    Raises PipelineError for a file that is no Parquet, or in which a column has another type.
    """
    expected = to_arrow_schema(FAMILIES[family])
    wanted = pa.schema([expected.field(name) for name in columns])
    for batch in files:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            try:
                yield from _rows_of_file(content.as_buffer(), wanted, span)
            except (pa.ArrowException, OSError) as error:
                raise PipelineError(f"{path} cannot be read: {error}") from error


def _rows_of_file(
    content: pa.Buffer, wanted: pa.Schema, span: TimeRange
) -> Iterator[pa.RecordBatch]:
    about = pq.read_metadata(pa.BufferReader(content))
    names = about.schema.to_arrow_schema().names
    there = [name for name in wanted.names if name in names]
    texts = [name for name in there if pa.types.is_string(wanted.field(name).type)]
    if span != ALL_TIME and "ts_ms" not in there:
        there.append("ts_ms")
    file = pq.ParquetFile(pa.BufferReader(content), metadata=about, read_dictionary=texts)
    groups = [n for n in range(file.num_row_groups) if span.overlaps(*_times(file, n))]
    for batch in file.iter_batches(BATCH_ROWS, groups, there, use_threads=False):
        rows = pa.RecordBatch.from_arrays([_column(batch, each) for each in wanted], wanted.names)
        if span != ALL_TIME:
            rows = rows.filter(_within(batch.column("ts_ms"), span))
        yield rows


def _within(ts_ms: pa.Array, span: TimeRange) -> pa.Array:
    first_ms = -_FOREVER_MS if span.first_ms is None else span.first_ms
    end_ms = _FOREVER_MS if span.end_ms is None else span.end_ms
    return pc.and_(pc.greater_equal(ts_ms, first_ms), pc.less(ts_ms, end_ms))


def _column(batch: pa.RecordBatch, expected: pa.Field) -> pa.Array:
    if expected.name not in batch.schema.names:
        return pa.nulls(batch.num_rows, expected.type)
    found = batch.column(expected.name)
    kind = found.type.value_type if pa.types.is_dictionary(found.type) else found.type
    if kind == expected.type:
        return found
    both = (kind, expected.type)
    if all(map(pa.types.is_list, both)) and kind.value_type == expected.type.value_type:
        return found.cast(expected.type)  # that of a file may say that no element is null
    raise pa.ArrowTypeError(
        f"expected a column {expected.name!r} of type {expected.type}, found {kind}"
    )


def _times(file: pq.ParquetFile, group: int) -> tuple[int, int]:
    """Return the first and the last `ts_ms` of a row group, or a wide range if the file does not tell them."""
    found = file.metadata.row_group(group)
    for column in map(found.column, range(found.num_columns)):
        told = column.statistics
        if column.path_in_schema == "ts_ms" and told is not None and told.has_min_max:
            return int(told.min), int(told.max)
    return -_FOREVER_MS, _FOREVER_MS
