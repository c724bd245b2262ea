"""The command `sluice-pipeline whatif`: what it prints, and its exit codes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pipeline.cli.main import main
from pipeline.whatif.simulator import Simulation
from tests.support.pipeline.delta_tables import write_quality, write_rows
from tests.support.pipeline.simulated_clients import (
    capture_rows,
    clients,
    entity_rows,
    poisson,
    quota_config,
)
from tests.support.telemetry.usage_rows import START_MS, numbered

QUOTAS = "version: 1\nquotas: [{user: alice, request_rate: 20}]\n"


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Path:
    """Tables with rows and a capture of one client without a quota, and a gap of three rows."""
    sessions = clients(25, poisson(400, 1), 60)
    free = Simulation(sessions, quota_config("entity"), START_MS + 10_000)
    rows = {
        "entity": numbered(entity_rows(free, sessions, 10)),
        "capture": capture_rows(free, sessions),
    }
    for family, found in rows.items():
        write_rows(spark, tmp_path / "tables", family, found)
    write_quality(spark, tmp_path / "tables", lost={"entity": 3})
    (tmp_path / "quotas.yaml").write_text(QUOTAS)
    return tmp_path / "tables"


@pytest.mark.slow
def test_the_command_prints_clients_curve_and_losses(tables: Path) -> None:
    """As tables and as JSON, from rows and from a capture; a replay that differs is exit code 1."""
    run = CliRunner().invoke
    quotas = str(tables.parent / "quotas.yaml")
    given = ["whatif", str(tables), "--quotas", quotas]
    told = run(main, [*given, "--enforcement", "channel", "--sweep", "0.5..2:3"])
    assert told.exit_code == 0, told.output
    assert "data quality: 3 rows lost in 1 gaps" in told.stderr
    for words in ("request_rate     0.5", "user=alice", "unenforceable: alice c: 25 connections"):
        assert words in told.stdout

    output = tables.parent / "predictions"
    told = run(
        main,
        [*given, "--capture", "--recorded-under", quotas, "--json", "--output", str(output)],
    )
    assert told.exit_code == 1, told.output
    assert "delays as recorded" in told.stderr
    found = json.loads(told.stdout)
    assert [row["client_id"] for row in found["clients"]] == ["c"]
    assert found["clients"][0]["accepted_per_s"] < 30
    assert found["curve"][0]["throttled_share"] > 0.5
    assert list(output.glob("*.parquet"))


def test_wrong_input_is_one_line_and_exit_code_2(tables: Path) -> None:
    """A quota that fits no client, a family without rows, an option without its other."""
    quotas = tables.parent / "quotas.yaml"
    run = CliRunner().invoke
    told = run(main, ["whatif", str(tables), "--quotas", str(quotas), "--recorded-under", "x"])
    assert (told.exit_code, "needs --capture" in told.stderr) == (2, True)
    told = run(main, ["whatif", str(tables.parent / "none"), "--quotas", str(quotas)])
    assert (told.exit_code, "has no rows of the family 'entity'" in told.stderr) == (2, True)
    quotas.write_text(QUOTAS.replace("alice", "bob"))
    told = run(main, ["whatif", str(tables), "--quotas", str(quotas)])
    assert (told.exit_code, "applies to a client" in told.stderr) == (2, True)
