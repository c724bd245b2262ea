"""Reading tables: what a user sees when they are absent, empty or of another version."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from pipeline import tables
from pipeline.errors import PipelineError
from pipeline.schema import PIPELINE_CLIENT
from tests.support.pipeline.delta_tables import write_frame, write_rows
from tests.support.telemetry.usage_rows import frame, numbered, usage_row


def test_a_table_is_read_with_the_columns_of_its_family(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Columns that a later version added are left out, and the partition columns stay."""
    rows = numbered([usage_row("entity", user="a", requests=3)])
    write_frame(frame(spark, "entity", rows).withColumn("of_later", lit(1)), tmp_path, "entity")
    found = tables.read(spark, str(tmp_path), "entity")

    assert found.columns == [*frame(spark, "entity", rows).columns, "dt", "hour"]
    assert [(row["user"], row["requests"]) for row in found.collect()] == [("a", 3)]


def test_a_column_that_an_older_table_lacks_is_null(spark: SparkSession, tmp_path: Path) -> None:
    """Rows with the column may be added later: they have its value."""
    older, newer = numbered([usage_row("entity", requests=each) for each in (1, 2)])
    write_frame(frame(spark, "entity", [older]).drop("requests"), tmp_path, "entity")
    assert tables.read(spark, str(tmp_path), "entity").select("requests").collect() == [(None,)]

    write_rows(spark, tmp_path, "entity", [newer], batch=2)
    found = tables.read(spark, str(tmp_path), "entity").orderBy("seq")
    assert found.select("seq", "requests").collect() == [(1, None), (2, 2)]


def test_an_absent_table_is_an_error_with_the_way_out(spark: SparkSession, tmp_path: Path) -> None:
    """The error names the path, the family and the command that writes it."""
    with pytest.raises(PipelineError, match=r"entity has no rows of the family 'entity'.*ingest"):
        tables.read(spark, str(tmp_path), "entity")
    assert tables.maybe_read(spark, str(tmp_path), "entity") is None


def test_a_column_of_another_type_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """The error names the column, its type and the type that is expected."""
    rows = frame(spark, "entity", numbered([usage_row("entity")]))
    write_frame(rows.withColumn("requests", lit("3")), tmp_path, "entity")

    with pytest.raises(PipelineError, match=r"'requests' of type bigint, the table has string"):
        tables.read(spark, str(tmp_path), "entity")


def test_the_pipelines_own_reading_is_nobodys_usage(spark: SparkSession, tmp_path: Path) -> None:
    """Jobs do not see the client with which a stream reads a topic through Sluice; a capture is whole."""
    names = ["shop", PIPELINE_CLIENT, "sluice-pipeline-2"]
    for family in ("entity", "capture"):
        rows = numbered(usage_row(family, client_id=name) for name in names)
        write_rows(spark, str(tmp_path), family, rows)

    found = {
        family: {row["client_id"] for row in tables.read(spark, str(tmp_path), family).collect()}
        for family in ("entity", "capture")
    }
    assert found == {"entity": {"shop", "sluice-pipeline-2"}, "capture": set(names)}
