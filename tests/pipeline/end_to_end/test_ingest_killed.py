"""Three ingests at once, of which two are killed: the tables are the usage log, exactly."""

import os
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import tables
from tests.support.pipeline import streamed_log
from tests.support.processes.pipeline_process import run_pipeline, run_until

pytestmark = pytest.mark.slow

MINUTES = 4
MOST_COMMITS = 8
"""Commits of a batch: of its files, rows, ranges, refused lines, rollups, and its end."""


def committed(folder: Path) -> int:
    """Return how many commits there are, in all tables."""
    return sum(1 for _ in folder.glob("*/_delta_log/*.json"))


def test_the_tables_of_ingests_that_are_killed_are_their_usage_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Killed (SIGKILL) at random moments beside one that is not, and run again: each row is there once."""
    seed = int(os.environ.get("SLUICE_SEED") or random.randrange(1 << 32))
    print(f"SLUICE_SEED={seed}")  # noqa: T201 - shown when the test fails
    chance = random.Random(seed)
    rows = streamed_log.rows(MINUTES)
    refused = streamed_log.write(tmp_path / "log", rows)
    found = tmp_path / "tables"
    words = ("ingest", tmp_path / "log", found)

    def run(number: int, commits: float) -> bool:
        log = tmp_path / f"run-{number}.log"
        return run_until(log, lambda: committed(found) >= commits, *words)

    targets = [chance.randrange(1, MOST_COMMITS), chance.randrange(1, MOST_COMMITS), float("inf")]
    with ThreadPoolExecutor(len(targets)) as pool:
        ended = list(pool.map(run, range(len(targets)), targets))
    assert ended[-1]
    assert not all(ended), "none was killed"
    last = run_pipeline(*words)
    assert last.returncode == 0, last.stderr

    there = tables.read(spark, str(found), "entity").select("instance", "boot", "seq").collect()
    assert Counter(map(tuple, there)) == Counter(
        (row["instance"], row["boot"], row["seq"]) for row in rows
    )
    quarantine = tables.maybe_read(spark, str(found), "quarantine")
    assert quarantine is not None
    assert quarantine.count() == refused
