"""Files of a usage log as a stream: closed ones, once each."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.stream.sources import read_files, read_topic


def test_closed_files_of_the_family_are_read_and_open_ones_are_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In every folder of a day, and of several Sluices by a wildcard; a carriage return ends no line."""
    for name, text in {
        "pod-1/entity/dt=2025-11-21/entity-a-1.jsonl": "a\nb\rc\n",
        "pod-2/entity/dt=2025-11-22/entity-b-1.jsonl": "d\n",
        "pod-2/entity/.entity-b-2.jsonl.open": "open\n",
        "pod-2/entity/dt=2025-11-22/.entity-b-2.jsonl": "hidden\n",
        "pod-2/entity/dt=2025-11-22/notes.txt": "strange\n",
        "pod-2/api/dt=2025-11-22/api-b-1.jsonl": "api\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    lines = read_files(spark, f"{tmp_path}/*", "entity", 1)
    query = (
        lines.writeStream.format("memory")
        .queryName("lines")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    found = {
        (row["value"], row["file"].rpartition("/")[2]) for row in spark.table("lines").collect()
    }
    assert found == {
        ("a", "entity-a-1.jsonl"),
        ("b\rc", "entity-a-1.jsonl"),
        ("d", "entity-b-1.jsonl"),
    }
    batches = [each.batchId for each in query.recentProgress if each.numInputRows]
    assert len(batches) == 2  # one file in each


def test_a_usage_log_without_the_family_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """Instead of a stream that waits without a word."""
    with pytest.raises(PipelineError, match=r"/entity does not exist.*family 'entity'"):
        read_files(spark, str(tmp_path), "entity", 1)


def test_without_the_connector_the_error_says_how_to_get_it(spark: SparkSession) -> None:
    """spark-submit must be given the jars: it runs before the job can name them."""
    with pytest.raises(PipelineError, match=r"--jars that .*package FOLDER --kafka"):
        read_topic(spark, "rows", {"bootstrap.servers": "127.0.0.1:1"}, 1)
