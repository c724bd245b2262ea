"""Reading tables: what a user sees when they are absent, empty or of another version."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from pipeline import tables
from pipeline.errors import PipelineError
from tests.support.telemetry.usage_rows import frame, numbered, usage_row


def test_a_table_is_read_with_the_columns_of_its_family(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Columns that a later version added are left out, and the partition columns stay."""
    rows = numbered([usage_row("entity", user="a", requests=3)])
    added = frame(spark, "entity", rows).withColumns(
        {"dt": lit("2025-11-21"), "hour": lit(0), "of_later": lit(1)}
    )
    added.write.partitionBy("dt", "hour").parquet(tables.table_uri(str(tmp_path), "entity"))
    found = tables.read(spark, str(tmp_path), "entity")

    assert found.columns == [*frame(spark, "entity", rows).columns, "dt", "hour"]
    assert [(row["user"], row["requests"]) for row in found.collect()] == [("a", 3)]


def test_an_absent_table_is_an_error_with_the_way_out(spark: SparkSession, tmp_path: Path) -> None:
    """The error names the path, the family and the command that writes it."""
    with pytest.raises(PipelineError, match=r"entity has no rows of the family 'entity'.*ingest"):
        tables.read(spark, str(tmp_path), "entity")
    assert tables.maybe_read(spark, str(tmp_path), "entity") is None


def test_a_column_of_another_type_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """The error names the column, its type and the type that is expected."""
    rows = frame(spark, "entity", numbered([usage_row("entity")]))
    strange = rows.withColumn("requests", lit("3"))
    strange.write.parquet(tables.table_uri(str(tmp_path), "entity"))

    with pytest.raises(PipelineError, match=r"'requests' of type bigint, the table has string"):
        tables.read(spark, str(tmp_path), "entity")
