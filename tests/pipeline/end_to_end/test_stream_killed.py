"""A streaming job that is killed again and again: its output is its input, exactly."""

import os
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.pipeline import streamed_log
from tests.support.processes.pipeline_process import run_pipeline, run_until

pytestmark = pytest.mark.slow

MINUTES = 10
KILLS = 3
MOST_STEPS = 15
"""The latest kill: after so many further files of progress, of about sixty in all."""


def progress(folder: Path) -> int:
    """Return how many files Spark has written that tell of its progress: offsets, outputs and commits."""
    patterns = (
        "checkpoint/*/offsets/[0-9]*",
        "checkpoint/*/commits/[0-9]*",
        "out/*/_delta_log/[0-9]*.json",
    )
    return sum(1 for pattern in patterns for _ in folder.glob(pattern))


def test_the_output_of_a_job_that_is_killed_is_its_input(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Killed (SIGKILL) at random moments of its batches, each fifth file delivered twice, broken lines in some:
    each row is counted once, the alert is raised and cleared once, and each broken line is kept once a file.
    """
    seed = int(os.environ.get("SLUICE_SEED") or random.randrange(1 << 32))
    print(f"SLUICE_SEED={seed}")  # noqa: T201 - shown when the test fails
    chance = random.Random(seed)
    rows = streamed_log.rows(MINUTES)
    refused = streamed_log.write(tmp_path / "log", rows)
    words = (
        "stream", tmp_path / "log", tmp_path / "out", "--checkpoint", tmp_path / "checkpoint",
        "--once", "--max-files", 4,
    )  # fmt: skip
    ended = False
    for number in range(KILLS):
        target = progress(tmp_path) + chance.randrange(MOST_STEPS)
        log = tmp_path / f"killed-{number}.log"
        ended |= run_until(log, lambda: progress(tmp_path) > target, *words)  # noqa: B023 - called in this turn only
    assert not ended, "it ended before the last kill"
    last = run_pipeline(*words)
    assert last.returncode == 0, last.stderr

    output = str(tmp_path / "out")
    assert streamed_log.found_sums(spark, output) == streamed_log.expected_sums(rows)
    assert list(streamed_log.found_alerts(spark, output)) == streamed_log.EXPECTED_ALERTS
    assert streamed_log.table(spark, output, "quarantine").count() == refused
