"""Input and machines that fail: what is lost is named, and what is there counts once."""

import gzip
import json
import resource
import threading
from hashlib import sha256
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import tables
from pipeline.errors import JobFailedError, PipelineError
from pipeline.ingest.job import Ingest
from pipeline.ingest.summary import Summary
from tests.support.telemetry.usage_rows import START_MS, Row, numbered, usage_row, write_usage_log

NOW_MS = START_MS + 86_400_000
FOLDER = "log/entity/dt=2025-11-21"


def run(spark: SparkSession, folder: Path) -> Summary:
    return Ingest(spark, str(folder / "log"), str(folder / "tables"), NOW_MS).run()


def numbers(spark: SparkSession, folder: Path) -> list[int]:
    """Return `seq` of all rows in the table, in order."""
    found = tables.read(spark, str(folder / "tables"), "entity").orderBy("seq").collect()
    return [row["seq"] for row in found]


def seconds(count: int) -> list[Row]:
    return numbered(usage_row("entity", ts_ms=START_MS + n * 1000) for n in range(count))


@pytest.mark.slow
def test_a_file_that_grows_while_it_is_read_is_complete_in_the_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A copy in progress, half lines included: each run has whole rows only, the last has all, once."""
    path = tmp_path / FOLDER / "entity-pod-1-b1-000001.jsonl"
    path.parent.mkdir(parents=True)
    text = "".join(json.dumps(row) + "\n" for row in seconds(4000)).encode()
    has_begun, must_end = threading.Event(), threading.Event()

    def grow() -> None:
        with path.open("wb", buffering=0) as file:
            for at in range(0, len(text), 1009):  # hardly ever the end of a line
                file.write(text[at : at + 1009])
                has_begun.set()
                must_end.wait(0.002)

    writer = threading.Thread(target=grow)
    writer.start()
    has_begun.wait(10)
    for _ in range(2):
        run(spark, tmp_path)
        seen = numbers(spark, tmp_path)
        assert seen == list(range(1, len(seen) + 1))
    must_end.set()
    writer.join()
    run(spark, tmp_path)

    assert numbers(spark, tmp_path) == list(range(1, 4001))
    quarantine = tables.maybe_read(spark, str(tmp_path / "tables"), "quarantine")
    assert quarantine is None or quarantine.isEmpty()


@pytest.mark.slow
def test_an_empty_day_is_no_error(spark: SparkSession, tmp_path: Path) -> None:
    """A folder without files, an empty file, which is none, and one with empty lines only."""
    (tmp_path / "log/entity/dt=2025-11-20").mkdir(parents=True)
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "a.jsonl").touch()
    (tmp_path / FOLDER / "b.jsonl").write_text("\n\n")
    found = run(spark, tmp_path)
    assert (found.files_read, found.rows_added, found.lost_rows) == (1, {"entity": 0}, {})
    table = tables.maybe_read(spark, str(tmp_path / "tables"), "entity")
    assert table is not None
    assert table.isEmpty()

    write_usage_log(tmp_path / "log", seconds(2))
    found = run(spark, tmp_path)
    assert (found.files_read, found.rows_added, found.quarantined) == (1, {"entity": 2}, {})


@pytest.mark.slow
def test_a_full_disk_changes_nothing_and_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """The kernel refuses to let Spark's process write more than 64 KiB into a file; later it may."""
    write_usage_log(tmp_path / "log", seconds(2))
    run(spark, tmp_path)
    names = [
        usage_row("entity", client_id=sha256(b"%d" % n).hexdigest(), seq=n + 3) for n in range(5000)
    ]
    path = tmp_path / FOLDER / "entity-pod-1-b1-000002.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in names))
    assert spark._jvm is not None
    java = spark._jvm.java.lang.ProcessHandle.current().pid()
    most = resource.prlimit(java, resource.RLIMIT_FSIZE)
    resource.prlimit(java, resource.RLIMIT_FSIZE, (65536, most[1]))
    try:
        with pytest.raises(JobFailedError, match=r"failed: .*(too large|No space)"):
            run(spark, tmp_path)
    finally:
        resource.prlimit(java, resource.RLIMIT_FSIZE, most)
    assert numbers(spark, tmp_path) == [1, 2]

    assert run(spark, tmp_path).rows_added == {"entity": 5000}
    assert numbers(spark, tmp_path) == list(range(1, 5003))


def test_broken_archives_cost_themselves_only(spark: SparkSession, tmp_path: Path) -> None:
    """Cut at the end, damaged in the middle, or no archive at all: a line each, and all other files are read."""
    rows = seconds(60)
    packed = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode() * 20)
    broken = {
        "cut": packed[:-9],
        "damaged": packed[:900] + bytes(64) + packed[964:],
        "empty": b"",
        "no archive": b"{}\n",
    }
    write_usage_log(tmp_path / "log", rows)
    for name, content in broken.items():
        (tmp_path / FOLDER / f"{name}.jsonl.gz").write_bytes(content)
    found = run(spark, tmp_path)

    assert {Path(path).name for path in found.unreadable} == {
        f"{name}.jsonl.gz" for name in broken if name != "empty"
    }
    assert (found.files_read, found.rows_added, found.duplicates) == (1, {"entity": 60}, 0)


@pytest.mark.slow
def test_names_with_brackets_are_names(spark: SparkSession, tmp_path: Path) -> None:
    """Of the log and of its files; a folder that is no day is outside the layout."""
    log = tmp_path / "log [1] {a,b}*?"
    write_usage_log(log, seconds(2))
    for number, name in enumerate(("a[b].jsonl", "a{b}*.jsonl", "ab.jsonl"), 3):
        row = usage_row("entity", seq=number)
        (log / "entity/dt=2025-11-21" / name).write_text(json.dumps(row) + "\n")
    (log / "entity/dt=2025-13-41").mkdir()
    (log / "entity/dt=2025-13-41/no.jsonl").write_text("{}\n")
    found = Ingest(spark, str(log), str(tmp_path / "tables"), NOW_MS).run()

    assert (found.files_read, found.files_ignored, found.unreadable) == (4, 1, {})
    assert numbers(spark, tmp_path) == [1, 2, 3, 4, 5]


def test_a_scheme_that_spark_does_not_know_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    """Of the log and of the tables: the error has the URI and the scheme."""
    write_usage_log(tmp_path / "log", seconds(2))
    for words in (("nowhere://host/log", str(tmp_path)), (str(tmp_path / "log"), "nowhere://h/t")):
        with pytest.raises(PipelineError, match=r"^nowhere://h.*nowhere[^\n]*$"):
            Ingest(spark, *words, NOW_MS).run()
