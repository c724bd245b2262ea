"""Input and machines that fail: what is lost is named, and what is there counts once."""

import json
import resource
import threading
from hashlib import sha256
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from pipeline import tables
from pipeline.errors import JobFailedError
from pipeline.ingest.job import Ingest
from pipeline.ingest.staging import Staging
from pipeline.ingest.summary import Summary
from pipeline.schema import ENTITY
from pipeline.time_range import TimeRange
from pipeline.usage import read_usage
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


def test_an_empty_day_is_no_error(spark: SparkSession, tmp_path: Path) -> None:
    """A folder without files, an empty file, which is none, and one with empty lines only."""
    (tmp_path / "log/entity/dt=2025-11-20").mkdir(parents=True)
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "a.jsonl").touch()
    (tmp_path / FOLDER / "b.jsonl").write_text("\n\n")
    found = run(spark, tmp_path)
    assert (found.files_read, found.rows_added, found.lost_rows) == (1, {"entity": 0}, {})
    assert tables.maybe_read(spark, str(tmp_path / "tables"), "entity") is None

    write_usage_log(tmp_path / "log", seconds(2))
    found = run(spark, tmp_path)
    assert (found.files_read, found.rows_added, found.quarantined) == (1, {"entity": 2}, {})


def test_a_million_client_ids_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    """Each has its line in the report, and no request is missing."""
    rows = spark.range(1_000_000).select(
        *(
            {
                "family": sf.lit("entity"),
                "v": sf.lit(1),
                "instance": sf.lit("pod-1"),
                "boot": sf.lit("b1"),
                "seq": sf.col("id") + 1,
                "ts_ms": sf.lit(START_MS) + sf.col("id") % 60 * 1000,
                "window_ms": sf.lit(1000),
                "user": sf.lit("u"),
                "client_id": sf.concat(sf.lit("client-"), "id"),
                "requests": sf.col("id") % 7,
            }.get(field.name, sf.lit(None))
            .cast(field.dataType)
            .alias(field.name)
            for field in ENTITY
        )
    )
    rows.select(sf.to_json(sf.struct("*"))).write.text(str(tmp_path / FOLDER))
    for path in (tmp_path / FOLDER).glob("*.txt"):
        path.rename(path.with_suffix(".jsonl"))
    found = run(spark, tmp_path)
    assert (found.rows_added, found.lost_rows, found.quarantined) == ({"entity": 1_000_000}, {}, {})

    report = read_usage(spark, str(tmp_path / "tables"), ["client_id"], TimeRange())
    lines = report.agg(sf.count("*"), sf.sum("requests")).collect()
    assert [tuple(line) for line in lines] == [(1_000_000, sum(n % 7 for n in range(1_000_000)))]


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
    assert list((tmp_path / "tables/_ingest").iterdir()) == []

    assert run(spark, tmp_path).rows_added == {"entity": 5000}
    assert numbers(spark, tmp_path) == list(range(1, 5003))


@pytest.mark.parametrize("moves", [0, 3])
def test_a_run_that_dies_leaves_tables_that_can_be_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    """Killed while it moves its folders: hours are old or new, and the next run has all rows once."""
    rows = seconds(7200)
    write_usage_log(tmp_path / "log", rows[1000:2000])
    run(spark, tmp_path)
    path = tmp_path / FOLDER / "entity-pod-1-b1-000002.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    class Killed(BaseException):
        """As by SIGKILL: nothing is tidied up."""

    def die(self: Staging, *arguments: object) -> None:
        left = moves
        rename = self._fs.rename

        def count(uri: str, target: str) -> None:
            nonlocal left
            if not left:
                raise Killed
            left -= 1
            rename(uri, target)

        monkeypatch.setattr(self._fs, "rename", count)
        monkeypatch.setattr(self, "discard", lambda: None)
        commit(self, *arguments)

    commit = Staging.commit
    with monkeypatch.context() as patch:
        patch.setattr(Staging, "commit", die)
        with pytest.raises(Killed):
            run(spark, tmp_path)
    seen = numbers(spark, tmp_path) if (tmp_path / "tables/entity").exists() else []
    assert len(seen) == len(set(seen))
    found = run(spark, tmp_path)

    assert numbers(spark, tmp_path) == list(range(1, 7201))
    assert (found.lost_rows, found.files_read) == ({}, 0)
