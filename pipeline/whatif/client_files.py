"""The rows of the family `entity` packed by client, straight from the Parquet files of its table.

Rules:
- Spark lists and reads the files, wherever they are, and hands each one whole to Python, where Arrow decodes the
  columns that are needed. Rows that go through Spark one by one cost six times the time.
- A table with a file of more than MAX_FILE_BYTES goes through Spark row by row: memory has a bound.
- Both ways give the same rows. A column that a file lacks is null; one of another type is an error that names the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above
from pyspark.sql.pandas.types import to_arrow_schema

from pipeline import tables
from pipeline.errors import PipelineError
from pipeline.schema import ENTITY
from pipeline.whatif.client_rows import BATCH_ROWS, SCHEMA, pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

MAX_FILE_BYTES: Final = 64 << 20


class RecordedClients:
    """The clients in the tables at `uri`. Raises PipelineError if there are no rows, or if their columns do not fit."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._rows = tables.read(spark, uri, "entity")
        self._files = spark.read.format("binaryFile").load(tables.table_uri(uri, "entity"))
        large = self._files.where(f"length > {MAX_FILE_BYTES}").select("path")
        self._is_small = large.isEmpty()

    def packed(self, columns: Sequence[str], first_ms: int = 0) -> DataFrame:
        """Return the rows since `first_ms` packed by client, with these columns of the family `entity`."""
        if self._is_small:
            return _packed_files(self._files, columns, first_ms)
        return packed_clients(self._rows.where(f"ts_ms >= {first_ms}"), columns)


def packed_clients(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return these rows of the family `entity` packed by client, with these columns; NAMES are among them."""
    return rows.select(*columns).mapInArrow(pack, SCHEMA)


def _packed_files(files: DataFrame, columns: Sequence[str], first_ms: int) -> DataFrame:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return pack(rows_of_files(batches, columns, first_ms))

    return files.select("path", "content").mapInArrow(run, SCHEMA)


def rows_of_files(
    files: Iterable[pa.RecordBatch], columns: Sequence[str], first_ms: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the rows since `first_ms` of Parquet files, given by `path` and `content`; texts as dictionaries.

    Raises PipelineError for a file that is no Parquet, or in which a column has another type.
    """
    for batch in files:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            try:
                yield from _rows_of_file(content.as_buffer(), columns, first_ms)
            except (pa.ArrowException, OSError) as error:
                raise PipelineError(f"{path} cannot be read: {error}") from error


def _rows_of_file(
    content: pa.Buffer, columns: Sequence[str], first_ms: int
) -> Iterator[pa.RecordBatch]:
    expected = to_arrow_schema(ENTITY)
    about = pq.read_metadata(pa.BufferReader(content))
    names = about.schema.to_arrow_schema().names
    there = [name for name in columns if name in names]
    texts = [name for name in there if pa.types.is_string(expected.field(name).type)]
    file = pq.ParquetFile(pa.BufferReader(content), metadata=about, read_dictionary=texts)
    groups = [group for group in range(file.num_row_groups) if _last_ms(file, group) >= first_ms]
    for batch in file.iter_batches(BATCH_ROWS, groups, there, use_threads=False):
        made = [_column(batch, field) for field in map(expected.field, columns)]
        rows = pa.RecordBatch.from_arrays(made, list(columns))
        if first_ms:
            rows = rows.filter(pc.greater_equal(rows.column("ts_ms"), first_ms))
        yield rows


def _column(batch: pa.RecordBatch, expected: pa.Field) -> pa.Array:
    if expected.name not in batch.schema.names:
        return pa.nulls(batch.num_rows, expected.type)
    found = batch.column(expected.name)
    kind = found.type.value_type if pa.types.is_dictionary(found.type) else found.type
    if kind != expected.type:
        raise pa.ArrowTypeError(
            f"expected a column {expected.name!r} of type {expected.type}, found {kind}"
        )
    return found


def _last_ms(file: pq.ParquetFile, group: int) -> int:
    """Return the latest `ts_ms` of a row group, or a large number if the file does not tell it."""
    found = file.metadata.row_group(group)
    for column in map(found.column, range(found.num_columns)):
        told = column.statistics
        if column.path_in_schema == "ts_ms" and told is not None and told.has_min_max:
            return int(told.max)
    return 1 << 62
