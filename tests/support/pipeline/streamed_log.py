"""A usage log for the streaming job, and what the job must make of it."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from tests.support.telemetry.usage_rows import START_MS, Row, numbered, usage_row

CLIENTS = ("noisy", "quiet", 'odd "family":"api" name')
INSTANCES = ("pod-1", "pod-2")
THROTTLED_MINUTES = 6
TORN = '{"family":"entity","v":1,"insta'
FUTURE = '{"family":"entity","v":99}'


def rows(minutes: int) -> list[Row]:
    """Return rows of each second of some minutes; `noisy` is throttled on pod-1 at first.

    Some of its rows lack `connections`, as those of a strange writer might: they must not end the job. The last row of
    all comes ten minutes later: it ends the minutes and the alerts of the others.
    """
    made = [
        usage_row(
            "entity", instance=instance, user="alice", client_id=client, ts_ms=START_MS + second * 1000,
            requests=second % 7, charged=second % 5, request_bytes=second, response_bytes=3 * second,
            connections=2, quota_entity=f"client-id={client}", quota_rate=50.0,
            throttled=_throttled(instance, client, second), blocked_ms=2000 * _throttled(instance, client, second),
        )
        for second in range(minutes * 60)
        for instance in INSTANCES
        for client in CLIENTS
    ]  # fmt: skip
    made.append(usage_row("entity", ts_ms=START_MS + (minutes + 10) * 60_000))
    for row in made:
        if row["throttled"] and row["ts_ms"] % 3000 == 0:
            del row["connections"]
    return numbered(made)


def _throttled(instance: str, client: str, second: int) -> int:
    return int(instance == "pod-1" and client == "noisy" and second < THROTTLED_MINUTES * 60)


def write(folder: Path, made: list[Row], first: int = 0) -> int:
    """Write a file for each minute and instance, each fifth of them twice; return the refused lines.

    `first` is the number of the first file. Files get times in their order, by which Spark reads them.
    """
    files: dict[tuple[int, str], list[str]] = {}
    for row in made:
        files.setdefault((row["ts_ms"] // 60_000, row["instance"]), []).append(
            json.dumps(row, separators=(",", ":"))
        )
    refused = 0
    at_s = START_MS / 1000 + first
    for number, ((_, instance), lines) in enumerate(sorted(files.items()), first):
        if number % 4 == 1:
            lines = [*lines, FUTURE, TORN]  # noqa: PLW2901 - the file ends with them
        for copy in ("", "-again") if number % 5 == 0 else ("",):
            refused += 2 * (number % 4 == 1)
            at_s += 1
            _deliver(folder, f"entity-{instance}-b1-{number:06}{copy}.jsonl", lines, at_s)
    return refused


def _deliver(folder: Path, name: str, lines: list[str], at_s: float) -> None:
    """Write a file as Sluice does: under a hidden name first."""
    hidden = folder / "entity" / f".{name}.open"
    target = folder / "entity" / "dt=2025-11-21" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    hidden.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    os.utime(hidden, (at_s, at_s))
    hidden.rename(target)


def table(spark: SparkSession, output: str, name: str) -> DataFrame:
    """Return a table of the output: rollups, alerts or quarantine."""
    return spark.read.format("delta").load(f"{output}/{name}")


Sums = Counter[tuple[str, str, int, str]]


def expected_sums(made: list[Row]) -> Sums:
    """Return what the rollups must hold: (client id, instance, minute, column) to its sum, without the last row."""
    sums: Sums = Counter()
    for row in made[:-1]:
        minute = (row["ts_ms"] - START_MS) // 60_000
        for column in ("requests", "charged", "request_bytes", "response_bytes", "throttled"):
            sums[row["client_id"], row["instance"], minute, column] += row[column]
        sums[row["client_id"], row["instance"], minute, "seconds"] += 1
    return sums


def found_sums(spark: SparkSession, output: str) -> Sums:
    """Return the same of an output; a minute that is there twice is added up."""
    found: Sums = Counter()
    minutes = table(spark, output, "rollups").withColumn("minute", sf.unix_millis("minute"))
    for row in minutes.collect():
        key = (row["client_id"], row["instance"], (row["minute"] - START_MS) // 60_000)
        for column in ("requests", "charged", "request_bytes", "response_bytes", "throttled"):
            found[*key, column] += row[column]
        found[*key, "seconds"] += row["seconds"]
    return found


def found_alerts(spark: SparkSession, output: str) -> Iterator[tuple[str, str, str, int]]:
    """Yield the alerts in order: event, instance, client id, second since the beginning."""
    alerts = table(spark, output, "alerts").orderBy("at_ms")
    for row in alerts.collect():
        yield row["event"], row["instance"], row["client_id"], (row["at_ms"] - START_MS) // 1000


EXPECTED_ALERTS = [("raised", "pod-1", "noisy", 241), ("cleared", "pod-1", "noisy", 510)]
