"""Where the lines come from: the closed files of a usage log, or the topic to which Sluice publishes its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql.functions import col, concat_ws

from pipeline.errors import PipelineError
from pipeline.hadoop import SPARK_ERRORS, FileSystem, in_one_line
from pipeline.inputs import check_is_no_table, literal, readable
from pipeline.schema import PIPELINE_CLIENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession


MAX_FILE_AGE: Final = "400d"
"""Spark ignores a file that is older than the newest by this much, without a word. A copy that comes a month late is
read, so that its rows are counted as late.
"""


def read_files(spark: SparkSession, usage_log: str, family: str, max_files: int) -> DataFrame:
    """Return the lines of a family's closed files as a stream, at most `max_files` in a batch.

    A file under a hidden name is still open; Spark leaves it out, and reads a closed one once. `usage_log` is a URI, in
    which `*` stands for any name. Raises PipelineError if there is no folder of the family, or a table in its place.
    """
    uri = f"{usage_log.rstrip('/')}/{family}"
    folder = readable(spark, uri, f"the folder of a usage log with the family {family!r}")
    check_is_no_table(spark, uri)
    lines = (
        spark.readStream.format("text")
        .option("lineSep", "\n")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.jsonl*")
        .option("maxFilesPerTrigger", max_files)
        .option("maxFileAge", MAX_FILE_AGE)
        .load(folder)
    )
    return lines.select("value", col("_metadata.file_path").alias("file"))


def is_broken(spark: SparkSession, file: str) -> bool:
    """Return whether a file, as `_metadata.file_path` has it, is gone or still cannot be read.

    So a good file is not left out because its storage failed for a moment. Raises JobFailedError if that still fails.
    """
    uri = unquote(file)
    with in_one_line(file):
        if not FileSystem(spark, uri).exists(uri):
            return True
    try:
        spark.read.text(literal(uri)).count()
    except SPARK_ERRORS:
        return True
    return False


def read_topic(
    spark: SparkSession, topic: str, properties: Mapping[str, str], max_rows: int
) -> DataFrame:
    """Return the lines of a topic from its beginning as a stream, at most `max_rows` in a batch.

    `properties` are those of a Kafka consumer. `file` is topic, partition and offset. Raises PipelineError if Spark has
    no Kafka connector.
    """
    reader = (
        spark.readStream.format("kafka")
        .options(**connector_options(properties))
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", max_rows)
    )
    try:
        records = reader.load()
    except AnalysisException as error:
        if "Failed to find data source: kafka" not in str(error):
            raise
        raise PipelineError(
            "Spark runs without its Kafka connector. Give spark-submit the option --jars that "
            "`sluice-pipeline package FOLDER --kafka` prints"
        ) from error
    return records.select(
        col("value").cast("string").alias("value"),
        concat_ws("-", "topic", "partition", "offset").alias("file"),
    )


def client_properties(spark: SparkSession, bootstrap: str | None, text: str) -> dict[str, str]:
    """Return the properties in a file's `text`, as Java reads it, and `bootstrap` as their bootstrap.servers."""
    read = spark._jvm.java.util.Properties()  # type: ignore[union-attr]  # noqa: SLF001 - the format is Java's
    read.load(spark._jvm.java.io.StringReader(text))  # type: ignore[union-attr]  # noqa: SLF001 - as above
    properties = {str(name): str(read.getProperty(name)) for name in read.stringPropertyNames()}
    return properties | ({} if bootstrap is None else {"bootstrap.servers": bootstrap})


def connector_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return Kafka's properties as options of Spark's connector, with PIPELINE_CLIENT if they have no client id."""
    named = {"client.id": PIPELINE_CLIENT} | dict(properties)
    return {f"kafka.{name}": value for name, value in named.items()}
