"""The command `sluice-pipeline ingest`: what it prints, and its exit codes."""

import json
from pathlib import Path

from click.testing import CliRunner
from pyspark.sql import SparkSession

from pipeline.cli.main import main
from tests.support.telemetry.usage_rows import numbered, usage_row, write_usage_log


def test_the_summary_says_what_was_read_and_what_is_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As text, and as JSON on the second run; a file that cannot be read is exit code 1."""
    rows = numbered(usage_row("entity") for _ in range(3))
    write_usage_log(tmp_path / "log", [rows[0], rows[2], rows[2] | {"v": 2, "seq": 9}])
    arguments = ["ingest", str(tmp_path / "log"), str(tmp_path / "tables")]
    told = CliRunner().invoke(main, arguments)

    assert told.exit_code == 0, told.output
    for line in (
        "entity: 3 lines, 2 rows added",
        "time: 2025-11-21 00:00:00 to 2025-11-21 00:00:00 UTC",
        "quarantined, unknown_version: 1 lines (entity 1)",
        "lost: 1 rows in 1 gaps (entity 1)",
    ):
        assert line in told.stdout

    broken = tmp_path / "log/entity/dt=2025-11-21/entity-broken.jsonl.gz"
    broken.write_bytes(b"no archive")
    told = CliRunner().invoke(main, [*arguments, "--json"])
    found = json.loads(told.stdout)
    assert told.exit_code == 1
    assert list(found["unreadable"]) == [f"file:{broken}"]
    assert (found["files_known"], found["lost_rows"]) == (1, {"entity": 1})
