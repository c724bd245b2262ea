"""Runs that die, that overlap and that are late: whatever happens, the tables are the lines of the log, each once."""

import json
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from pipeline import tables
from pipeline.ingest.job import Ingest
from tests.support.telemetry.usage_rows import START_MS, Row, numbered, usage_row

NOW_MS = START_MS + 86_400_000
TORN: Final = '{"family":"entity","v":1,"inst'
SECONDS = 6
COMMITS: Final = 9
"""At least as many as a batch of two families has."""


class Log:
    """A usage log that grows, and what must be in the tables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, list[Row]] = {"entity": [], "api": []}
        self.files = 0

    def grow(self) -> None:
        """Add a file of each family with new rows and a torn line, and the one before once more under another name."""
        for family, rows in self.rows.items():
            made = [
                usage_row(family, ts_ms=START_MS + (len(rows) + n) * 1_000_000, requests=n)
                for n in range(SECONDS)
            ]
            rows[:] = numbered([*rows, *made])
            place = self.folder / "log" / family / "dt=2025-11-21"
            place.mkdir(parents=True, exist_ok=True)
            for name, some in (("new", rows[-SECONDS:]), ("again", rows[:SECONDS])):
                lines = [json.dumps(row) for row in some] + [TORN] * (name == "new")
                (place / f"{name}-{self.files}.jsonl").write_text("\n".join(lines) + "\n")
        self.files += 1


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A log with the files of one turn."""
    made = Log(tmp_path)
    made.grow()
    return made


def a_run(spark: SparkSession, log: Log) -> Ingest:
    return Ingest(spark, str(log.folder / "log"), str(log.folder / "tables"), NOW_MS)


def ingest(spark: SparkSession, log: Log) -> None:
    a_run(spark, log).run()


def check(spark: SparkSession, log: Log) -> None:
    """Compare the tables with the log: rows, lines in quarantine, and ranges."""
    uri = str(log.folder / "tables")
    for family, rows in log.rows.items():
        found = tables.read(spark, uri, family).select("seq", "ts_ms", "requests").collect()
        assert Counter(map(tuple, found)) == Counter(
            (row["seq"], row["ts_ms"], row["requests"]) for row in rows
        )
    quarantine = tables.maybe_read(spark, uri, "quarantine")
    sequences = tables.maybe_read(spark, uri, "sequences")
    assert quarantine is not None
    assert sequences is not None
    assert Counter(row["family"] for row in quarantine.collect()) == {
        "entity": log.files,
        "api": log.files,
    }
    ranges = [row for row in sequences.collect() if row["family"] == "entity"]
    assert sum(row["rows"] for row in ranges) == len(log.rows["entity"])
    assert list((log.folder / "tables/_ingest").iterdir()) == []


def before_appends(run: Ingest, do: Callable[[str], None]) -> None:
    """Let a run do something before each append; `do` gets the name of the table."""
    append = run._batches.append

    def instead(name: str, *rest: Any) -> None:
        do(name)
        append(name, *rest)

    run._batches.append = instead  # type: ignore[method-assign]


def dies_after(run: Ingest, commits: int) -> Ingest:
    """Let a run die, as far as its tables are concerned, after so many commits."""
    left, turn = [commits], threading.Lock()

    def do(_: str) -> None:
        with turn:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt

    before_appends(run, do)
    return run


@pytest.mark.parametrize(
    "commits", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in range(COMMITS) if n != 2)]
)
def test_a_run_that_dies_is_completed_by_the_next(
    spark: SparkSession, log: Log, commits: int
) -> None:
    """After each number of commits, with rows in the tables before; and a file that came meanwhile is there, too."""
    ingest(spark, log)
    log.grow()
    try:
        dies_after(a_run(spark, log), commits).run()
    except KeyboardInterrupt:
        log.grow()
    assert tables.last_batch(spark, str(log.folder / "tables")) in (1, 2)
    ingest(spark, log)
    ingest(spark, log)

    check(spark, log)


@pytest.mark.slow
def test_a_run_that_is_late_adds_nothing(spark: SparkSession, log: Log) -> None:
    """It stops before its first row; others complete its batch and the next one; then it goes on."""
    goes_on, has_stopped = threading.Event(), threading.Event()
    late = a_run(spark, log)

    def stop(name: str) -> None:
        if name != "files":
            has_stopped.set()
            assert goes_on.wait(600)

    before_appends(late, stop)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(late.run)
        assert has_stopped.wait(600)
        log.grow()
        ingest(spark, log)
        goes_on.set()
        run.result()

    check(spark, log)


@pytest.mark.slow
def test_a_batch_whose_copy_is_gone_is_read_again(spark: SparkSession, log: Log) -> None:
    """Somebody has deleted the folder of a run that died: its rows are there once, and the next run reads its files."""
    with pytest.raises(KeyboardInterrupt):
        dies_after(a_run(spark, log), 2).run()
    shutil.rmtree(log.folder / "tables/_ingest")
    ingest(spark, log)

    check(spark, log)
    batches = tables.maybe_read(spark, str(log.folder / "tables"), "batches")
    assert batches is not None
    assert [row["abandoned"] for row in batches.orderBy("batch").collect()] == [True, False]


@pytest.mark.slow
def test_five_runs_at_once_while_the_log_grows(spark: SparkSession, log: Log) -> None:
    """Twice, the first time into tables that are absent; none fails, and no reader sees half a batch."""
    for _ in range(2):
        with ThreadPoolExecutor(5) as pool:
            runs = [pool.submit(ingest, spark, log) for _ in range(5)]
            log.grow()
            while not all(run.done() for run in runs):
                for family in log.rows:
                    found = tables.maybe_read(spark, str(log.folder / "tables"), family)
                    assert found is None or found.count() % SECONDS == 0
            for run in runs:
                run.result()
    ingest(spark, log)

    check(spark, log)
