"""The rows of the family `entity` packed by client: from the files of its table, or from rows that Spark has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.table_files import TableFiles
from pipeline.time_range import TimeRange
from pipeline.whatif.client_rows import SCHEMA, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


class RecordedClients:
    """The clients in the tables at `uri`. Raises PipelineError if there are no rows, or if their columns do not fit."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._table = TableFiles.open(spark, uri, "entity")

    def packed(self, columns: Sequence[str], first_ms: int | None = None) -> DataFrame:
        """Return the rows since `first_ms` packed by client, with these columns of the family `entity`."""
        return self._table.mapped(columns, pack, SCHEMA, TimeRange(first_ms))


def packed_clients(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return these rows of the family `entity` packed by client, with these columns; NAMES are among them."""
    return rows.select(*columns).mapInArrow(pack, SCHEMA)
