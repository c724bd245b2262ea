"""No command prints what a client chose as it is: neither to a terminal nor to a spreadsheet."""

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from pipeline.cli.main import COMMANDS, main
from policies.quota.quota_file import parse_quota_file
from tests.support.telemetry.request_traces import trace, waits
from tests.support.telemetry.trace_files import spans_with_mute, write_traces
from tests.support.telemetry.usage_rows import START_MS, numbered, usage_row, write_usage_log

EVIL = "=1+1\x1b[2J\nfiles: 0 lost\r\t\u202e\u2066\u200b\u2028\x9b31m [red]:bomb:"
PLAIN = "\N{HEBREW LETTER ALEF}"
"""A name of the other direction is no attack, and is shown."""
QUOTA = {"enforcement": "entity", "quota_entity": f"user={EVIL}", "quota_rate": 5.0}


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A usage log of two clients, one throttled; its traces, a quota file, and the tables of its first rows."""
    assert spark is not None
    folder = tmp_path_factory.mktemp("names")
    rows = []
    for second in range(40):
        at = {"ts_ms": START_MS + second * 1000, "instance": "pod-1"}
        for name, requests, limit in ((EVIL, 90, QUOTA), (PLAIN, 9, {})):
            sent = {
                "requests": requests,
                "charged": requests,
                "connections": 2,
                "throttled": 4,
                "throttle_ms": 900,
            }
            names = {"user": name, "client_id": name}
            times = {"upstream_i": [80], "upstream_n": [9], "throttle_i": [90], "throttle_n": [4]}
            rows += [
                usage_row("entity", **at, **names, **sent, **limit),
                usage_row("api", **at, **names, api=name, requests=9, replied=9, **times),
                usage_row("topic", **at, user=name, topic=name, produce_bytes=7, produce_records=1),
            ]
    write_usage_log(folder / "log", numbered(rows))
    torn = folder / "log/entity/dt=2025-11-21/entity-\x1b2J-b-000009.jsonl.gz"
    torn.write_bytes(b"no archive")
    (folder / "quotas.yaml").write_text(
        json.dumps({"version": 1, "quotas": [{"user": EVIL, "request_rate": 3}]})
    )
    (folder / "wrong.yaml").write_text(json.dumps({"version": 1, "quotas": [{EVIL: 3}]}))
    spans = spans_with_mute(trace(waits(("throttle", 3_000_000)), quiet_ms=2), 9_000)
    for name in ("user.name", "messaging.client.id"):
        spans[0].attributes[name] = EVIL
    write_traces(folder / "traces.jsonl", spans)
    assert run(folder, "ingest", "@log", "@tables").exit_code == 1  # one file is torn
    return folder


def run(folder: Path, command: str, *arguments: str) -> Result:
    """Run a command; `@` in its arguments is the folder."""
    return CliRunner().invoke(
        main, [command, *(each.replace("@", f"{folder}/") for each in arguments)]
    )


RUNS: dict[str, list[list[str]]] = {
    "ingest": [["@log", "@again"]],
    "maintain": [["@tables", "--dry-run"], [f"@{EVIL}"]],
    "migrate": [["@tables", f"@{EVIL}"], [f"@{EVIL}", "@new"]],
    "usage": [
        ["@tables", "--by", "user,client_id"],
        ["@tables", "--by", "api"],
        ["@tables", "--by", "topic", "--csv"],
        ["@tables", "--by", "user", "--json"],
        ["@tables", "--by", EVIL],
        [f"@{EVIL}"],
    ],
    "traces": [["@traces.jsonl"], ["@traces.jsonl", "--json"], ["@traces.jsonl", "--by", EVIL]],
    "stream": [["@log", "@streamed", "--checkpoint", "@checkpoint", "--once"]],
    "report": [["@tables", "--output", "@page.html"]],
    "all": [["@log", "@all", "--traces", "@traces.jsonl"]],
    "package": [["@package\u202e"], ["@package", EVIL]],
    "recommend": [
        ["@tables", "--output", "@new.yaml", "--min-rate", "1"],
        ["@tables", "--no-backtest"],
        ["@tables", "--no-backtest", "--json", "--output", "@new.yaml"],
    ],
    "whatif": [
        ["@tables", "--quotas", "@quotas.yaml"],
        ["@tables", "--quotas", "@quotas.yaml", "--json"],
        ["@tables", "--quotas", "@wrong.yaml"],
    ],
}  # fmt: skip
"""Each command, and options with which it prints names; `@` is the folder."""
SLOW = {"all", "ingest", "maintain", "report", "stream"}
SHOWING = {"usage", "traces", "report", "whatif", "all"}


def test_every_command_is_here() -> None:
    """A new one needs a line that prints names."""
    assert RUNS.keys() == COMMANDS.keys()


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        pytest.param(command, each, marks=[pytest.mark.slow] if command in SLOW else [])
        for command, every in RUNS.items()
        for each in every
    ],
    ids=[f"{command}-{place}" for command, every in RUNS.items() for place in range(len(every))],
)
def test_no_name_reaches_the_output_as_it_is(
    folder: Path, command: str, arguments: list[str]
) -> None:
    """Every line of both outputs is printable. The exit code is one of the command's own: nothing else has failed."""
    told = run(folder, command, *arguments)

    assert told.exit_code in {0, 1, 2}
    assert told.exception is None or isinstance(told.exception, SystemExit), told.exception
    lines = (told.stdout + told.stderr).split("\n")
    for line in lines:
        assert line.isprintable(), ascii(line)
    assert "files: 0 lost" not in lines
    if command in SHOWING and not told.exit_code and "--json" not in arguments:
        assert r"=1+1\x1b[2J\nfiles" in "\n".join(lines)


def test_json_and_quota_files_have_exact_names(folder: Path) -> None:
    """Their own escapes keep them printable."""
    found = json.loads(run(folder, "usage", "@tables", "--by", "user", "--json").stdout)
    assert {row["user"] for row in found["usage"]} == {EVIL, PLAIN}
    told = run(folder, "recommend", "@tables", "--no-backtest", "--min-rate", "1")
    assert EVIL in {line.user for line in parse_quota_file(told.stdout).quotas}


def test_a_spreadsheet_computes_no_cell(folder: Path) -> None:
    """A name that is a formula begins with an apostrophe, figures stay numbers; with `--raw` names are exact."""
    for options, name in (
        ([], r"'=1+1\x1b[2J\nfiles: 0 lost\r\t\u202e\u2066\u200b\u2028\x9b31m [red]:bomb:"),
        (["--raw"], EVIL),
    ):
        told = run(folder, "usage", "@tables", "--by", "user", "--csv", *options).stdout
        rows = {row["user"]: row for row in csv.DictReader(io.StringIO(told, newline=""))}
        assert rows.keys() == {name, PLAIN}
        assert rows[name]["requests"] == "3600"
        assert rows[name]["delay_s"] == "36.0"
