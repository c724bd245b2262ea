"""The command `sluice-pipeline usage`: its formats, its limits and the line about missing rows."""

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from pipeline.cli.main import main
from pipeline.ingest.job import Ingest
from tests.support.telemetry.usage_rows import START_MS, numbered, usage_row, write_usage_log


def ask(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["usage", *map(str, arguments)])


@pytest.mark.slow
def test_the_formats_agree(spark: SparkSession, tmp_path: Path) -> None:
    """Table, JSON, CSV and Parquet have the same figures; rows that are missing are named in each."""
    rows = [
        *(usage_row("entity", user="alice", requests=n, charged=n) for n in (3, 4)),
        *(usage_row("entity", user=f"user-{n}", ts_ms=START_MS + 60_000) for n in range(22)),
    ]
    log, tables = tmp_path / "log", tmp_path / "tables"
    write_usage_log(log, [row for row in numbered(rows) if row["seq"] != 5])
    Ingest(spark, str(log), str(tables), START_MS).run()
    quality = "data quality: 1 rows lost in 1 gaps of seq"

    table = ask(tables, "--output", tmp_path / "out")
    assert table.exit_code == 0, table.output
    assert "alice" in table.stdout
    assert "There are more lines" in table.stdout
    assert quality in table.stdout
    found = json.loads(ask(tables, "--json").stdout)
    assert len(found["usage"]) == 22
    assert (found["usage"][0]["user"], found["usage"][0]["requests"]) == ("alice", 7)
    assert found["quality"] == {"lost": 1, "gaps": 1, "quarantined": {}}
    told = ask(tables, "--csv", "--top", 1)
    (line,) = csv.DictReader(io.StringIO(told.stdout))
    assert (line["user"], line["requests"], told.stderr.strip()) == ("alice", "7", quality)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 22

    first = json.loads(ask(tables, "--json", "--to", "2025-11-21T00:01").stdout)
    assert [row["user"] for row in first["usage"]] == ["alice"]
    unknown = ask(tables, "--by", "colour")
    assert (unknown.exit_code, "'colour' is not one of user" in unknown.stderr) == (2, True)
    absent = ask(tmp_path / "none")
    assert (absent.exit_code, "sluice-pipeline ingest" in absent.stderr) == (2, True)
