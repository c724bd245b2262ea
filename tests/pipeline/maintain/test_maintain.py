"""The job `maintain`: fewer files and rows that say the same, days that go and stay away, and others that go on."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from pipeline import delta, tables
from pipeline.errors import PipelineError
from pipeline.ingest.job import Ingest
from pipeline.ingest.summary import Summary
from pipeline.maintain import Maintained, Plan, maintain
from pipeline.rollups import ROLLUPS
from pipeline.tables import TimeRange
from pipeline.usage import read_usage
from tests.support.telemetry.usage_rows import START_MS, Row, usage_row, write_usage_log

DAY_MS = 86_400_000
NOW_MS = START_MS + 3 * DAY_MS
FAMILIES = ("entity", "api", "topic")


def later_ms() -> int:
    """Return a time at which the batches of this test have ended long ago."""
    return time.time_ns() // 1_000_000 + 2 * 3_600_000


def part(number: int, rows: int = 4, day: int = 0) -> list[Row]:
    """Return the rows of some seconds; `seq` goes on where that of the part before ends."""
    found = []
    for family in FAMILIES:
        for place in range(rows):
            seq = number * rows + place + 1
            row = usage_row(
                family, ts_ms=START_MS + day * DAY_MS + seq * 1000, user=f"u{place % 2}"
            )
            found.append(row | {"seq": seq, **figures(family)})
    return found


def figures(family: str) -> Row:
    if family == "topic":
        return {"topic": "t", "produce_requests": 3, "produce_bytes": 30}
    return {"requests": 3, "request_bytes": 30, "client_id": "c"}


def ingest(spark: SparkSession, folder: Path, name: str, rows: list[Row]) -> Summary:
    """Add the rows to the usage log in files of this name, then read what is new."""
    write_usage_log(folder / "new", rows)
    for path in (folder / "new").rglob("*.jsonl"):
        target = folder / "log" / path.relative_to(folder / "new").with_stem(f"{path.stem}-{name}")
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    return Ingest(spark, str(folder / "log"), str(folder / "tables"), NOW_MS).run()


def run(spark: SparkSession, folder: Path, **plan: object) -> dict[str, Maintained]:
    given = Plan(**{"now_ms": later_ms(), **plan})  # type: ignore[arg-type]  # of the tests
    return {each.table: each for each in maintain(spark, str(folder / "tables"), given)}


def live_files(spark: SparkSession, folder: Path, name: str) -> Counter[str]:
    """Return the number of files of each partition of a table."""
    rows = delta.maybe_read(spark, str(folder / "tables" / name))
    assert rows is not None
    return Counter(path.rpartition("/")[0] for path in rows.inputFiles())


def content(spark: SparkSession, folder: Path) -> dict[str, object]:
    """Return what jobs see: the rows of each family, and the usage by user and minute."""
    uri = str(folder / "tables")
    found: dict[str, object] = {
        family: sorted(
            map(repr, tables.read(spark, uri, family).select("seq", "ts_ms", "user").collect())
        )
        for family in FAMILIES
    }
    usage = read_usage(spark, uri, ["user", "minute"], TimeRange()).collect()
    return found | {"usage": sorted(map(repr, usage))}


@pytest.mark.slow
def test_many_small_batches_become_few_files_that_say_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One file for each hour, a row for each step of a rollup, a range for each writer; then nothing is left to do."""
    for number in range(4):
        ingest(spark, tmp_path, str(number), part(number))
    before = content(spark, tmp_path)
    assert max(live_files(spark, tmp_path, "entity").values()) == 4

    dry = run(spark, tmp_path, is_dry=True)
    assert max(live_files(spark, tmp_path, "entity").values()) == 4
    done = run(spark, tmp_path)

    assert content(spark, tmp_path) == before
    for name in (*FAMILIES, *ROLLUPS, "sequences", "files", "batches"):
        assert set(live_files(spark, tmp_path, name).values()) == {1}, name
    ranges = delta.maybe_read(spark, str(tmp_path / "tables/sequences"))
    assert ranges is not None
    assert ranges.count() == len(FAMILIES)
    assert done["entity"].files_joined == 3
    assert dry["entity"].files_joined == 4
    assert done["usage_hour"].rows_merged == dry["usage_hour"].rows_merged > 0
    assert all("nothing to do" in each.text(is_dry=False) for each in run(spark, tmp_path).values())

    more = ingest(spark, tmp_path, "late", part(3) + part(4))
    assert (more.duplicates, more.lost_rows) == (12, {})


@pytest.mark.slow
def test_unused_files_are_deleted_after_the_horizon(spark: SparkSession, tmp_path: Path) -> None:
    """Within it they stay, for readers that have begun before."""
    for number in range(2):
        ingest(spark, tmp_path, str(number), part(number))
    folder = tmp_path / "tables/entity"
    assert run(spark, tmp_path)["entity"].files_deleted == 0
    assert len(list(folder.rglob("*.parquet"))) == 3

    assert run(spark, tmp_path, horizon_days=0)["entity"].files_deleted == 2
    assert len(list(folder.glob("dt=*/*/*.parquet"))) == 1
    assert len(content(spark, tmp_path)["entity"]) == 8  # type: ignore[arg-type]  # a list


@pytest.mark.slow
def test_days_that_are_too_old_go_and_stay_away(spark: SparkSession, tmp_path: Path) -> None:
    """Their files are still in the usage log, and late ones come; none is read, and none of their rows is lost."""
    second = part(1, day=1)
    ingest(spark, tmp_path, "old", [*part(0), usage_row("access", seq=1)])
    ingest(spark, tmp_path, "new", second)
    done = run(spark, tmp_path, rows_from=date(2025, 11, 22), rollups_from=date(2025, 11, 21))

    assert done["entity"].rows_deleted == 4
    assert done["usage_hour"].rows_deleted == 0
    for family in FAMILIES:
        found = tables.read(spark, str(tmp_path / "tables"), family)
        assert [row[0] for row in found.select("seq").orderBy("seq").collect()] == [5, 6, 7, 8]

    late = usage_row("entity", seq=2, ts_ms=START_MS + 2000, user="u1") | figures("entity")
    again = ingest(spark, tmp_path, "late", [late, *part(2, day=1)])
    assert again.files_aged == 5
    assert (again.rows_added["entity"], again.lost_rows, again.duplicates) == (4, {}, 0)
    rollup = delta.maybe_read(spark, str(tmp_path / "tables/usage_hour"))
    assert rollup is not None
    of_entity = rollup.where(sf.col("family") == "entity").groupBy("dt").agg(sf.sum("requests"))
    assert sorted(row[1] for row in of_entity.collect()) == [12, 24]

    once_more = run(spark, tmp_path, rows_from=date(2025, 11, 22), rollups_from=date(2025, 11, 22))
    assert once_more["usage_hour"].rows_deleted > 0
    assert once_more["entity"].rows_deleted == 0


@pytest.mark.slow
def test_a_run_that_ends_anywhere_is_completed_by_the_next(
    spark: SparkSession, tmp_path: Path
) -> None:
    """After each table: what jobs see is right at once, and an ingest may come in between."""
    ingest(spark, tmp_path, "old", part(0))
    ingest(spark, tmp_path, "new", part(1, day=1))
    plan = Plan(later_ms(), date(2025, 11, 22), date(2025, 11, 22))
    for done in (1, 4, 7):
        assert len(list(islice(maintain(spark, str(tmp_path / "tables"), plan), done))) == done
        between = ingest(spark, tmp_path, f"at-{done}", part(1 + done, day=1))
        assert sum(between.rows_added.values()) == 12
    run(spark, tmp_path, rows_from=date(2025, 11, 22), rollups_from=date(2025, 11, 22))

    found = tables.read(spark, str(tmp_path / "tables"), "entity").select("seq").collect()
    assert sorted(row[0] for row in found) == [*range(5, 13), *range(21, 25), *range(33, 37)]


@pytest.mark.slow
def test_ingests_and_jobs_go_on_meanwhile(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing that an ingest adds is lost or there twice, whatever maintain merges at that moment."""
    ingest(spark, tmp_path, "0", part(0))

    def add() -> None:
        for number in range(1, 4):
            ingest(spark, tmp_path, str(number), part(number))

    with ThreadPoolExecutor(1) as pool:
        adding = pool.submit(add)
        while not adding.done():
            run(spark, tmp_path)
        adding.result()
    uri = str(tmp_path / "tables")
    for family in FAMILIES:
        found = tables.read(spark, uri, family).select("seq").collect()
        assert sorted(row[0] for row in found) == [*range(1, 17)]
    (whole,) = read_usage(spark, uri, [], TimeRange()).collect()
    assert whole["requests"] == 16 * 3
    ranges = tables.maybe_read(spark, uri, "sequences")
    assert ranges is not None
    assert ranges.agg(sf.sum("rows")).first()[0] == 16 * len(FAMILIES)  # type: ignore[index]  # it has a row


@pytest.mark.slow
def test_tables_of_a_stream_are_joined_too(spark: SparkSession, tmp_path: Path) -> None:
    """They have no batches; rows of old days go by their column `dt`. A folder without tables is an error."""
    (tmp_path / "tables").mkdir()
    with pytest.raises(PipelineError, match="no tables are there"):
        run(spark, tmp_path)
    uri = str(tmp_path / "tables/alerts")
    for version, day in enumerate(("2025-11-20", "2025-11-22", "2025-11-22")):
        rows = spark.createDataFrame([(version, day)], "n int, dt string")
        delta.append(rows, uri, app="a", version=version, partition_by=["dt"])
    done = run(spark, tmp_path, rows_from=date(2025, 11, 22))["alerts"]

    assert (done.rows_deleted, done.files_joined) == (1, 1)
    assert sorted(row[0] for row in spark.read.format("delta").load(uri).collect()) == [1, 2]
