"""An ingest that is killed again and again: the tables are the usage log, exactly."""

import os
import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import tables
from tests.support.pipeline import streamed_log
from tests.support.processes.pipeline_process import run_pipeline, run_until

pytestmark = pytest.mark.slow

MINUTES = 4
KILLS = 2
MOST_FILES = 30
"""The latest kill: when so many files were written, of about forty in all, or when the run is committed."""


def written(folder: Path) -> int:
    """Return how many files the present run has written; MOST_FILES if it is committed and moves them."""
    names = [name for *_, files in os.walk(folder / "_ingest") for name in files]
    return MOST_FILES if "COMMITTED" in names else len(names)


def test_the_tables_of_an_ingest_that_is_killed_are_its_usage_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Killed (SIGKILL) at random moments, and run again over files that it may know: each row is there once."""
    seed = int(os.environ.get("SLUICE_SEED") or random.randrange(1 << 32))
    print(f"SLUICE_SEED={seed}")  # noqa: T201 - shown when the test fails
    chance = random.Random(seed)
    rows = streamed_log.rows(MINUTES)
    streamed_log.write(tmp_path / "log", rows)
    found = tmp_path / "tables"
    words = ("ingest", tmp_path / "log", found)
    targets = [chance.randrange(1, MOST_FILES), MOST_FILES]
    ended = 0
    for number, target in enumerate(targets):
        log = tmp_path / f"killed-{number}.log"
        ended += run_until(log, lambda: written(found) >= target, *words)  # noqa: B023 - called in this turn only
    assert ended < KILLS, "it always ended before it was killed"
    last = run_pipeline(*words)
    assert last.returncode == 0, last.stderr

    there = tables.read(spark, str(found), "entity").select("instance", "boot", "seq").collect()
    assert Counter(map(tuple, there)) == Counter(
        (row["instance"], row["boot"], row["seq"]) for row in rows
    )
