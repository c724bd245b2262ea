"""The Spark job: rows of the usage log in, predictions out.

Rules:
- All rows of a bucket go to one wide partition for each core, where numpy simulates its buckets together: a
  step of the simulation takes about as long for a thousand buckets as for a hundred.
- Nothing is collected: the result has a row for each client, kind of limit and factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline import tables
from pipeline.errors import PipelineError
from pipeline.hadoop import SPARK_ERRORS, FileSystem, cause_of
from pipeline.whatif.capture import ReplayCheck, compare
from pipeline.whatif.client_rows import packed_clients, unpack_rows
from pipeline.whatif.from_capture import config_of, predict_capture
from pipeline.whatif.predict import partition_columns, predict
from pipeline.whatif.results import RESULT
from policies.quota.quota_file import parse_quota_file
from policies.validation import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.whatif.predict import Candidate
    from policies.quota.quota_file import QuotaFile

CHECKED: Final = pa.schema(
    [
        ("instance", pa.string()),
        ("boot", pa.string()),
        *((name, pa.int64()) for name in ("requests", "delayed", "different", "lost_events")),
    ]
)
"""The columns of `check_capture`."""


def read_quota_file(spark: SparkSession, uri: str) -> QuotaFile:
    """Return the quota file at this URI. Raises PipelineError if it is missing or wrong."""
    try:
        text = FileSystem(spark, uri).read(uri)
    except (*SPARK_ERRORS, UnicodeDecodeError) as error:
        raise PipelineError(f"the quota file {uri} cannot be read: {cause_of(error)}") from error
    try:
        return parse_quota_file(text, uri)
    except SettingsError as error:
        problems = "; ".join(each.strip() for each in str(error).splitlines())
        raise PipelineError(f"the quota file {uri} is wrong: {problems}") from error


def whatif_tables(spark: SparkSession, uri: str, candidate: Candidate) -> DataFrame:
    """Return the predictions for the clients of the tables at `uri`; the columns of `RESULT`.

    Raises PipelineError if the tables have no rows.
    """
    return whatif(tables.read(spark, uri, "entity"), candidate)


def whatif(entity: DataFrame, candidate: Candidate) -> DataFrame:
    """Return the predictions for the clients of these rows (family `entity`); the columns of `RESULT`."""
    columns = candidate.columns()
    return whatif_packed(packed_clients(entity, columns), columns, candidate)


def whatif_packed(packed: DataFrame, columns: Sequence[str], candidate: Candidate) -> DataFrame:
    """Return the predictions for clients that are packed with these columns; the columns of `RESULT`."""

    def simulate(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        some = [batch for batch in batches if batch.num_rows]
        if some:
            rows = unpack_rows(pa.Table.from_batches(some), columns)
            for found in predict(rows, candidate):
                yield from found.to_batches()

    return _mapped(packed, partition_columns(candidate), simulate, RESULT)


def whatif_capture(capture: DataFrame, candidate: Candidate) -> DataFrame:
    """Return the predictions for the clients of these rows (family `capture`); the columns of `RESULT`."""

    def simulate(rows: list[dict[str, Any]]) -> Iterator[pa.Table]:
        return predict_capture(rows, candidate)

    return _each_process(capture, simulate, RESULT)


def check_capture(capture: DataFrame, candidate: Candidate) -> DataFrame:
    """Replay each process with the quotas that it was recorded under: how many delays differ (`CHECKED`)."""

    def check(rows: list[dict[str, Any]]) -> Iterator[pa.Table]:
        found: ReplayCheck = compare(rows, config_of(candidate))
        values = {
            "instance": rows[0]["instance"],
            "boot": rows[0]["boot"],
            "requests": found.requests,
            "delayed": found.delayed,
            "different": len(found.different),
            "lost_events": found.lost_events,
        }
        yield pa.Table.from_pylist([values], CHECKED)

    return _each_process(capture, check, CHECKED)


def _each_process(
    capture: DataFrame, job: Callable[[list[dict[str, Any]]], Iterator[pa.Table]], schema: pa.Schema
) -> DataFrame:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = _table(batches)
        processes: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in [] if rows is None else rows.to_pylist():
            processes.setdefault((row["instance"], row["boot"]), []).append(row)
        for each in processes.values():
            for found in job(each):
                yield from found.to_batches()

    return _mapped(capture, ["instance", "boot"], run, schema)


def _mapped(
    rows: DataFrame,
    columns: list[str],
    job: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    cores = rows.sparkSession.sparkContext.defaultParallelism
    grouped = rows.repartition(cores, *columns)
    return grouped.mapInArrow(job, from_arrow_schema(schema))


def _table(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    """Return the batches as one table, texts as numbers of a dictionary: they repeat in every row."""
    kept = []
    for batch in batches:
        columns = [
            column.dictionary_encode() if pa.types.is_string(column.type) else column
            for column in batch.columns
        ]
        kept.append(pa.RecordBatch.from_arrays(columns, names=batch.schema.names))
    return pa.Table.from_batches(kept).unify_dictionaries() if kept else None
