"""The command `sluice-pipeline recommend`: the file that it writes, and what it prints about it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from pipeline.cli.main import main
from policies.quota.quota_file import parse_quota_file
from tests.support.pipeline.delta_tables import write_rows
from tests.support.telemetry.usage_rows import START_MS, usage_row


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["recommend", *map(str, arguments)])


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One user, whose name has a line end in it."""
    folder = tmp_path_factory.mktemp("tables")
    rows = [
        usage_row(
            "entity",
            user="al\nice",
            client_id="app",
            ts_ms=START_MS + second * 1000,
            requests=10,
            charged=10,
            charged_bytes=2_000_000,
            connections=1,
            **blocked,
        )
        for second in range(50)
        for blocked in [
            {"blocked_ms": 100, "enforcement": "channel", "quota_rate": 9.0} if second < 5 else {}
        ]
    ]
    write_rows(spark, folder, "entity", rows)
    return folder


def test_the_file_is_written_and_the_rules_are_explained(tables: Path, tmp_path: Path) -> None:
    """Rates with their unit, on one line for each rule; notes go to standard error."""
    output = tmp_path / "quotas.yaml"
    result = run(
        tables, "--output", output, "--level", "both", "--limit", "producer_byte_rate,request_rate"
    )
    assert result.exit_code == 0, result.output
    (line,) = parse_quota_file(output.read_text()).quotas
    assert (line.user, line.client_id) == ("<default>", "<default>")
    assert (line.request_rate, line.producer_byte_rate) == (12, pytest.approx(2_318_000, rel=0.02))
    heading, requests, produced, summary = result.stdout.splitlines()
    assert heading.split()[:4] == ["entity", "limit", "per", "second"]
    whose = ["user:", "<default>,", "client_id:", "<default>"]
    assert requests.split()[:6] == [*whose, "request_rate", "12"]
    assert "producer_byte_rate, KiB" in produced
    assert "2,170.1" in produced  # the largest second, with what a throttle took
    assert "covers 1 client; al\\nice and app needs most" in requests
    assert summary == "2 limits of 1 entities, per second and for each Sluice."
    assert "note: throttles took time in 10.0% of the seconds" in result.stderr


def test_the_file_goes_to_standard_output_alone(tables: Path) -> None:
    """So it can be piped into `sluice quotas apply -`; the rules are explained on standard error."""
    result = run(tables, "--no-backtest", "--json", "--limit", "request_rate", "--min-rate", 20)
    assert result.exit_code == 0, result.output
    (line,) = parse_quota_file(result.stdout).quotas
    assert (line.user, line.request_rate) == ("<default>", 20)
    rows = json.loads(result.stderr.partition("note: ")[0])
    assert [(row["per_second"], row["predicted_throttled_share"]) for row in rows] == [(20, None)]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--limit", "request_rate,bytes"], 2, "found 'bytes', expected some of request_rate"),
        (["--target", "100%"], 2, "found '100%', expected a percentage from 0"),
        (["--level", "auto", "-o", "/proc/none/x.yaml"], 2, "cannot be written: No such file"),
    ],
)
def test_a_failure_has_its_exit_code_and_message(
    tables: Path, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    """Exit code 2, before the work."""
    result = run(tables, "--no-backtest", *(each.format(tmp_path) for each in arguments))
    assert (result.exit_code, words in result.output) == (code, True), result.output


def test_tables_that_are_not_there_are_named(spark: SparkSession, tmp_path: Path) -> None:
    """With the command that writes them."""
    result = run(tmp_path / "none")
    assert result.exit_code == 2
    assert "has no rows of the family 'entity'" in result.stderr
