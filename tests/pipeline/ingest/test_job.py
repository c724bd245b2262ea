"""The job `ingest`: what lands in the tables, run after run."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import tables
from pipeline.errors import PipelineError
from pipeline.ingest.job import Ingest
from pipeline.ingest.sequences import gaps
from pipeline.ingest.summary import Summary
from pipeline.schema import FAMILIES
from tests.support.telemetry.usage_rows import START_MS, Row, numbered, usage_row, write_usage_log

NOW_MS = START_MS + 86_400_000


def run(spark: SparkSession, folder: Path) -> Summary:
    return Ingest(spark, str(folder / "log"), str(folder / "tables"), NOW_MS).run()


def seconds(family: str, count: int, **columns: object) -> list[Row]:
    """Return rows of so many seconds, numbered from 1."""
    return numbered(usage_row(family, ts_ms=START_MS + n * 1000, **columns) for n in range(count))


def path_of(folder: Path, family: str, number: int = 1) -> Path:
    return folder / "log" / family / "dt=2025-11-21" / f"{family}-pod-1-b1-{number:06d}.jsonl"


def add(path: Path, *lines: str) -> None:
    """Add lines to a file, each as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("".join(lines))


def rows_of(spark: SparkSession, folder: Path, family: str) -> list[Row]:
    found = tables.read(spark, str(folder / "tables"), family).select(*FAMILIES[family].names)
    return [row.asDict() for row in found.orderBy("instance", "boot", "seq").collect()]


def table_of(spark: SparkSession, folder: Path, name: str) -> list[dict[str, object]]:
    found = tables.maybe_read(spark, str(folder / "tables"), name)
    return [] if found is None else [row.asDict() for row in found.collect()]


def reasons(spark: SparkSession, folder: Path) -> Counter[str]:
    return Counter(str(row["reason"]) for row in table_of(spark, folder, "quarantine"))


def test_every_family_arrives_as_it_was_written_and_only_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each row has its own values, in the partition of its day and hour; a second run adds nothing."""
    written = {family: seconds(family, 3) for family in FAMILIES}
    written["api"] = seconds(
        "api", 3, upstream_i=[3, 9], upstream_n=[1, 2], user="ä{}", api="Fetch"
    )
    written["entity"] += [
        row | {"ts_ms": START_MS + 7_200_000, "seq": row["seq"] + 3} for row in written["entity"]
    ]
    for rows in written.values():
        write_usage_log(tmp_path / "log", rows)
    first = run(spark, tmp_path)

    for family, rows in written.items():
        assert rows_of(spark, tmp_path, family) == rows
    assert (tmp_path / "tables/entity/dt=2025-11-21/hour=2").is_dir()
    assert first.rows_added == {family: len(rows) for family, rows in written.items()}
    files = len(FAMILIES)
    assert (first.files_read, first.quarantined, first.lost_rows) == (files, {}, {})
    assert (first.first_ms, first.last_ms) == (START_MS, START_MS + 7_200_000)

    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "tables").rglob("*.parquet")}
    again = run(spark, tmp_path)
    assert (again.files_read, again.files_known, again.rows_added) == (0, files, {})
    assert {
        path: path.stat().st_mtime_ns for path in (tmp_path / "tables").rglob("*.parquet")
    } == before


def test_lines_that_are_no_rows_are_in_quarantine_with_their_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each with family, file and text, and counted; the rows beside them arrive."""
    good = seconds("entity", 2, user="a} {")
    bad = {
        '{"family":"entity","v":1,"inst': "torn",
        json.dumps(good[0]) + json.dumps(good[1]): "torn",
        f"[{json.dumps(good[0])}]": "torn",
        "null": "torn",
        "\0\0\0\0": "torn",
    }
    changed: list[tuple[Row, str]] = [
        ({"v": 2, "requests": {"sum": 1}}, "unknown_version"),
        ({"v": 3}, "unknown_version"),
        ({"requests": "many"}, "wrong_type"),
        ({"requests": 1.5}, "wrong_type"),
        ({"family": "api"}, "wrong_family"),
        ({"seq": None}, "missing_key"),
        ({"user": None}, "missing_key"),
        ({"ts_ms": START_MS + 1}, "bad_time"),
        ({"ts_ms": NOW_MS + 90_000_000}, "future"),
        ({"ts_ms": 2**62}, "bad_time"),
        ({"ts_ms": START_MS - 90_000_000}, "late"),
        ({"requests": -1}, "bad_value"),
        ({"requests": 2**60}, "bad_value"),
        ({"quota_rate": -1.0}, "bad_value"),
        ({"window_ms": 10}, "bad_value"),
    ]
    bad |= {json.dumps(good[0] | columns): reason for columns, reason in changed}
    write_usage_log(tmp_path / "log", good)
    add(path_of(tmp_path, "entity"), *(f"{line}\n" for line in bad), "\n")
    api = usage_row("api", seq=1)
    for columns in (
        {"upstream_i": [1], "upstream_n": []},
        {"memory_i": [241], "memory_n": [1]},
        {"throttle_i": [1], "throttle_n": [-1]},
        {"throttle_i": [1], "throttle_n": [None]},
    ):
        add(path_of(tmp_path, "api"), json.dumps(api | columns) + "\n")
    found = run(spark, tmp_path)

    assert rows_of(spark, tmp_path, "entity") == good
    quarantine = table_of(spark, tmp_path, "quarantine")
    of_entity = {str(row["line"]): row["reason"] for row in quarantine if row["family"] == "entity"}
    assert of_entity == bad
    assert {row["file"] for row in quarantine} == {
        f"file:{path_of(tmp_path, family)}" for family in ("entity", "api")
    }
    counted = Counter(bad.values()) + Counter({"bad_value": 4})
    assert reasons(spark, tmp_path) == counted
    assert {reason: sum(each.values()) for reason, each in found.quarantined.items()} == counted


@pytest.mark.slow
def test_missing_numbers_are_reported_until_their_rows_arrive(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also those before the first; a late file with some of them makes the gaps smaller."""
    rows = seconds("entity", 10)
    write_usage_log(tmp_path / "log", [row for row in rows if row["seq"] in (3, 4, 8, 10)])
    first = run(spark, tmp_path)
    assert (first.lost_rows, first.gaps) == ({"entity": 6}, 3)
    sequences = tables.maybe_read(spark, str(tmp_path / "tables"), "sequences")
    assert sequences is not None
    spans = {(row["first_seq"], row["last_seq"]) for row in gaps(sequences).collect()}
    assert spans == {(1, 2), (5, 7), (9, 9)}

    late = path_of(tmp_path, "entity", 2)
    late.with_suffix(".jsonl.gz").write_bytes(
        gzip.compress("".join(json.dumps(row) + "\n" for row in rows[:8]).encode())
    )
    second = run(spark, tmp_path)
    assert (second.lost_rows, second.gaps) == ({"entity": 1}, 1)
    assert (second.rows_added["entity"], second.duplicates) == (5, 3)
    assert [row["seq"] for row in rows_of(spark, tmp_path, "entity")] == [*range(1, 9), 10]


def test_a_line_in_quarantine_is_not_lost_as_well(spark: SparkSession, tmp_path: Path) -> None:
    """If its number can be read. A number that is far too large makes no gap before it."""
    rows = seconds("entity", 9)
    lines = [json.dumps(row) + "\n" for row in rows]
    for place, columns in ((2, {"v": 9}), (3, {"requests": -1}), (5, {"requests": "many"})):
        lines[place] = json.dumps(rows[place] | columns) + "\n"
    lines[7] = lines[7][:60] + "\n"
    far = json.dumps(rows[8] | {"requests": -1, "seq": 10**9}) + "\n"
    add(path_of(tmp_path, "entity"), *lines, far)
    found = run(spark, tmp_path)

    assert found.rows_added == {"entity": 5}
    assert (found.lost_rows, found.gaps) == ({"entity": 1}, 1)


@pytest.mark.slow
def test_a_clock_that_goes_back_within_an_hour_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also if a second comes twice, with rows of both times."""
    rows = numbered(
        usage_row("entity", ts_ms=START_MS + at_s * 1000) for at_s in (10, 11, 12, 8, 9, 10, 10, 13)
    )
    write_usage_log(tmp_path / "log", rows)
    found = run(spark, tmp_path)

    assert (found.rows_added, found.lost_rows) == ({"entity": 8}, {})
    assert len(found.clock_jumps) == 1
    assert "by 4,000 ms at 2025-11-21 00:00:12" in found.clock_jumps[0]


def test_a_file_that_grew_is_read_again_and_its_torn_line_is_healed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The quarantine loses the half line when the whole one is there."""
    rows = seconds("entity", 4)
    lines = [json.dumps(row) + "\n" for row in rows]
    add(path_of(tmp_path, "entity"), *lines[:2], lines[2][:40])
    run(spark, tmp_path)
    assert reasons(spark, tmp_path) == {"torn": 1}

    add(path_of(tmp_path, "entity"), lines[2][40:], lines[3])
    again = run(spark, tmp_path)
    assert rows_of(spark, tmp_path, "entity") == rows
    assert (again.duplicates, again.rows_added) == (2, {"entity": 2})
    assert reasons(spark, tmp_path) == {}


def test_the_same_key_with_other_content_is_a_conflict(spark: SparkSession, tmp_path: Path) -> None:
    """The row of the table stays, in any hour; two boots of one name are no conflict."""
    rows = seconds("entity", 3, user="a")
    write_usage_log(tmp_path / "log", rows)
    write_usage_log(tmp_path / "log", seconds("entity", 3, user="b", boot="b2"))
    assert run(spark, tmp_path).quarantined == {}

    strange = rows[1] | {"user": "z", "ts_ms": START_MS + 3_600_000}
    add(path_of(tmp_path, "entity", 2), json.dumps(strange) + "\n", json.dumps(rows[0]) + "\n")
    found = run(spark, tmp_path)

    assert found.quarantined == {"conflict": {"entity": 1}}
    assert (found.duplicates, found.rows_added) == (1, {"entity": 0})
    assert [row for row in rows_of(spark, tmp_path, "entity") if row["boot"] == "b1"] == rows
    (refused,) = table_of(spark, tmp_path, "quarantine")
    assert json.loads(str(refused["line"]))["user"] == "z"
    assert str(refused["file"]).endswith("000002.jsonl")
    assert "two starts at once: pod-1, boots b1 and b2" in found.overlaps[0]


@pytest.mark.slow
def test_a_clock_that_goes_back_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Its rows count as they are."""
    rows = numbered(
        usage_row("entity", ts_ms=START_MS + at_s * 1000) for at_s in (3600, 3601, 3601, 1800, 1801)
    )
    write_usage_log(tmp_path / "log", rows)
    found = run(spark, tmp_path)

    assert found.rows_added == {"entity": 5}
    assert len(found.clock_jumps) == 1
    assert "pod-1 (boot b1, entity) by 1,801,000 ms" in found.clock_jumps[0]


@pytest.mark.slow
def test_a_file_that_cannot_be_read_is_named_and_read_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The others are read; when it is whole it is read by the next run."""
    rows = seconds("entity", 4)
    packed = gzip.compress(
        "".join(json.dumps(row) + "\n" for row in rows[:2]).encode() * 50, mtime=0
    )
    broken = path_of(tmp_path, "entity", 1).with_name("with space+%41.jsonl.gz")
    broken.parent.mkdir(parents=True)
    broken.write_bytes(packed[: len(packed) // 2])
    add(path_of(tmp_path, "entity", 2), *(json.dumps(row) + "\n" for row in rows[2:]))
    found = run(spark, tmp_path)
    assert list(found.unreadable) == [f"file:{broken}"]
    assert (found.rows_added, found.lost_rows) == ({"entity": 2}, {"entity": 2})

    broken.write_bytes(packed)
    healed = run(spark, tmp_path)
    assert (healed.unreadable, healed.lost_rows) == ({}, {})
    assert (healed.rows_added, healed.duplicates) == ({"entity": 2}, 98)


def test_a_usage_log_without_files_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """Also if only open ones are there; an absent path is named as such."""
    with pytest.raises(PipelineError, match="does not exist; expected a folder"):
        run(spark, tmp_path)
    (tmp_path / "log/entity").mkdir(parents=True)
    add(tmp_path / "log/entity/.entity-pod-1-b1-000001.jsonl.open", "{}\n")
    with pytest.raises(PipelineError, match="no files FAMILY"):
        run(spark, tmp_path)
