"""The output of `sluice-pipeline traces`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pipeline.cli.main import main
from policies.api import Peer
from tests.support.telemetry.request_traces import trace, waits
from tests.support.telemetry.trace_files import spans_with_mute, write_traces


@pytest.fixture
def file(spark: SparkSession, tmp_path: Path) -> Path:
    """Two requests, one of a client whose name is markup and a control sequence."""
    throttled = spans_with_mute(trace(waits(("throttle", 3_000_000)), quiet_ms=2))
    named = trace(peer=Peer(1, "h", 1, client_id="[red]x", user="eve\x1b[2J"))
    named.sampled = True
    spans = spans_with_mute(named)
    spans[0].attributes["user.name"] = "eve\x1b[2J"  # another writer than ours
    return write_traces(tmp_path / "traces.jsonl", throttled, spans)


def test_the_output_says_that_traces_are_a_sample(file: Path) -> None:
    """Reasons, shares, the slowest with its trace id, the lost pause, and names as text."""
    told = CliRunner().invoke(main, ["traces", str(file), "--by", "user,api"])

    assert told.exit_code == 0, told.output
    assert "2 traced requests: " in told.stdout
    assert "throttled 1" in told.stdout
    assert "not of all requests" in told.stdout
    assert "Of the 1 of them that were sampled at random" in told.stdout
    assert "throttle 3,000.000, upstream 5.000" in told.stdout
    assert "1 requests whose client had to pause lack the span of the pause" in told.stdout
    assert "[red]x" in told.stdout
    assert "\x1b" not in told.stdout


def test_json_has_the_same_findings(file: Path) -> None:
    """One object on standard output."""
    told = CliRunner().invoke(
        main, ["traces", str(file), "--by", "api", "--slowest", "1", "--json"]
    )
    found = json.loads(told.stdout)

    assert found["requests"] == 2
    assert found["groups"][0]["api"] == "Produce"
    assert found["sampled"]["requests"] == 1
    assert [row["throttle_ms"] for row in found["slowest"]] == [3000.0]
    assert "not of all requests" in found["sample"]


def test_an_unknown_grouping_is_an_error_of_the_input(file: Path) -> None:
    """Exit code 2 and one line."""
    told = CliRunner().invoke(main, ["traces", str(file), "--by", "planet"])

    assert told.exit_code == 2
    assert told.stderr.startswith("error: traces cannot be grouped by 'planet'")
