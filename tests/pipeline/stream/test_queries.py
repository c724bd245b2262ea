"""The queries of a stream on files: each row once, also of files delivered twice; nothing is lost without a word.

The folder has a name that Hadoop could take for a pattern.
"""

import gzip
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.stream.partitions import PARTITIONS
from pipeline.stream.queries import FAMILY, Stream
from pipeline.stream.sources import read_files
from tests.support.pipeline import streamed_log

MINUTES = 10
HALF = MINUTES // 2 * 60 * len(streamed_log.INSTANCES) * len(streamed_log.CLIENTS)


@dataclass
class Run:
    """Two runs of a stream: without end until all queries have told of a batch, then with all files to their end."""

    output: str
    refused: int
    told: list[list[str]]


class StoppedError(Exception):
    """The user has stopped the stream."""


def stream(
    spark: SparkSession, folder: Path, checkpoint: str = "checkpoint", interval: str | None = None
) -> Stream:
    """Return a stream; without an interval it reads all that is there."""
    lines = read_files(spark, str(folder / "log"), FAMILY, 50)
    output = str(folder / "out")
    return Stream(spark, lines, output, str(folder / checkpoint), interval=interval)


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the stream twice, on the checkpoint of a job that was killed while it wrote its first offsets."""
    folder = tmp_path_factory.mktemp("a") / "str[e]{a}m % x"
    rows = streamed_log.rows(MINUTES)
    refused = streamed_log.write(folder / "log", rows[:HALF])
    for name in ("brok[e]n %.jsonl.gz", "broken.jsonl.gz"):
        broken = folder / "log" / "entity" / "dt=2025-11-21" / name
        broken.write_bytes(gzip.compress(b"\n" * 100_000)[:-20])
    for query in (
        "alerts",
        "rollups",
        "quarantine",
    ):  # an earlier run was killed in its first batch
        offsets = folder / "checkpoint" / query / "offsets"
        offsets.mkdir(parents=True)
        (offsets / ".0.1c5d7e6a-1c8d-4f0e-9d3e-5a3f2b1c0d9e.tmp").write_text("v1\n")
    first: list[str] = []
    query = re.compile("(rollups|quarantine|alerts), batch")

    def stop_when_all_have_told(line: str) -> None:
        first.append(line)
        told = {found[1] for each in first if (found := query.match(each))}
        if told == {"rollups", "quarantine", "alerts"}:
            raise StoppedError

    with pytest.raises(StoppedError):
        stream(spark, folder, interval="1 second").run(stop_when_all_have_told)
    assert not spark.streams.active
    refused += streamed_log.write(folder / "log", rows[HALF:], first=10)
    second: list[str] = []
    spark.conf.set(PARTITIONS, 5)
    stream(spark, folder).run(second.append)
    return Run(str(folder / "out"), refused, [first, second])


def test_the_rollups_have_each_row_once(spark: SparkSession, run: Run) -> None:
    """Sums of each client, instance and minute, to the byte."""
    assert streamed_log.found_sums(spark, run.output) == streamed_log.expected_sums(
        streamed_log.rows(MINUTES)
    )


def test_the_alert_is_raised_once_and_cleared_once(spark: SparkSession, run: Run) -> None:
    """Its state is kept from the first run to the second, in which it is cleared."""
    assert list(streamed_log.found_alerts(spark, run.output)) == streamed_log.EXPECTED_ALERTS


def test_refused_lines_are_in_quarantine(spark: SparkSession, run: Run) -> None:
    """Each with its reason, once for each file that has it."""
    found = streamed_log.table(spark, run.output, "quarantine").groupBy("reason").count().collect()

    assert {row["reason"]: row["count"] for row in found} == {
        "torn": run.refused // 2,
        "unknown_version": run.refused // 2,
    }


def test_each_batch_is_told_of(run: Run) -> None:
    """Lines, duplicates and refused lines; an alert in the batch that finds it."""
    first = "\n".join(run.told[0])
    duplicates = 2 * 60 * len(streamed_log.CLIENTS)  # files 0 and 5

    assert f"{duplicates} duplicates dropped" in first
    assert "quarantined (torn)" in first
    assert "quarantined (unknown_version)" in first
    assert "1 raised" in first
    assert "1 cleared" in "\n".join(run.told[1])


def test_a_broken_file_costs_one_line(run: Run) -> None:
    """All queries read it, and none of its rows."""
    told = Counter(
        line.partition(" ")[0].rpartition("/")[2]
        for line in run.told[0]
        if "is left out, it cannot be read" in line
    )

    assert told == {"brok%5Be%5Dn%20%25.jsonl.gz": 1, "broken.jsonl.gz": 1}


def test_the_partitions_of_the_first_start_are_kept(spark: SparkSession, run: Run) -> None:
    """Spark has them in the checkpoint; the second run says so, also with another setting."""
    assert run.told[0][0] == "this stream has 2 partitions, and keeps them when it is started again"
    assert run.told[1][0] == "this stream keeps the 2 partitions of its first start"
    state = Path(run.output).parent / "checkpoint" / "rollups" / "state" / "0"
    assert {each.name for each in state.glob("[0-9]*")} == {"0", "1"}


def test_the_tables_can_be_read_without_java(run: Run) -> None:
    """By the Rust library of Delta, which knows nothing of Spark."""
    alerts = DeltaTable(f"{run.output}/alerts").to_pyarrow_table().to_pylist()

    assert sorted(each["event"] for each in alerts) == ["cleared", "raised"]


def test_a_checkpoint_of_another_output_is_refused(spark: SparkSession, run: Run) -> None:
    """Before a query is started."""
    folder = Path(run.output).parent
    with pytest.raises(PipelineError, match="has the batches of another checkpoint"):
        stream(spark, folder, "new-checkpoint").run(lambda _: None)
