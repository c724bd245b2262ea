"""Readers of the tables that are not Spark: the example of DuckDB and `deltalake`, and the dashboard on its file."""

import csv
import io
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pipeline.cli.main import main
from pipeline.ingest.job import Ingest
from tests.support.telemetry.usage_rows import START_MS, Row, numbered, usage_row, write_usage_log

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "pipeline"
PANELS = json.loads((EXAMPLES / "grafana.json").read_text("utf-8"))["panels"]


@pytest.fixture(scope="module")
def uri(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return tables of two ingests of two hours, with gaps and with lines in quarantine."""
    folder = tmp_path_factory.mktemp("engines")
    rows: list[Row] = []
    for second in range(0, 5400, 600):
        for place, user in enumerate(("orders", "search", "x")):
            columns = {"ts_ms": START_MS + second * 1000, "user": user, "client_id": f"c{place}"}
            count = second // 600 + place
            entity = {"charged": count, "throttled": place, "throttle_ms": place * 300}
            sizes = {"requests": count, "request_bytes": 100 * count, "response_bytes": 7}
            rows.append(usage_row("entity", **columns, **entity, **sizes))
    rows = numbered(rows)
    good = [row for row in rows if row["seq"] not in (4, 5, 20)]
    for part in (good[:13], [*good[13:], rows[19] | {"requests": -1}]):
        write_usage_log(folder / "log", part)
        Ingest(spark, str(folder / "log"), str(folder / "tables"), START_MS + 86_400_000).run()
    return str(folder / "tables")


def example(uri: str, *arguments: str) -> str:
    """Return what the example prints, on a machine that has no Java."""
    environment = {**os.environ, "PATH": "", "JAVA_HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "without_java.py"), uri, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def by_usage(uri: str, by: str) -> list[Row]:
    told = CliRunner().invoke(main, ["usage", uri, "--by", by, "--json"])
    assert told.exit_code == 0, told.output
    found: list[Row] = json.loads(told.stdout)["usage"]
    return found


def test_the_figures_are_those_of_the_pipeline(uri: str) -> None:
    """Usage by user and hour, and the rows that are missing; a quarantined line is not."""
    answer = example(uri, "--sql", "FROM usage_by_user")
    found = {(row["time"], row["user"]): row for row in csv.DictReader(io.StringIO(answer))}
    expected = by_usage(uri, "user,hour")
    assert len(found) == len(expected) == 6
    for row in expected:
        time = START_MS // 1000 + 3600 * int(row["hour"][11:13])
        one = found[str(time), row["user"]]
        for name in ("requests", "request_bytes", "response_bytes", "throttled"):
            assert int(one[name]) == row[name], name
        for name in ("throttled_share", "delay_s"):
            assert float(one[name] or 0) == pytest.approx(row[name] or 0), name
    gaps = list(csv.DictReader(io.StringIO(example(uri, "--sql", "FROM gaps"))))
    assert [(row["first_seq"], row["last_seq"], row["lost"]) for row in gaps] == [("4", "5", "2")]
    assert "entity,bad_value,1" in example(uri)


def test_each_panel_of_the_dashboard_has_rows(uri: str, tmp_path: Path) -> None:
    """Its query runs on the file that the example writes, with Grafana's range of time; writing again is harmless."""
    file = tmp_path / "usage.sqlite"
    example(uri, "--sqlite", str(file))
    example(uri, "--sqlite", str(file))
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT count(*) FROM usage_by_user").fetchall() == [(6,)]
        for panel in PANELS:
            for target in panel["targets"]:
                assert target["queryText"] == target["rawQueryText"]
                query = target["queryText"].replace("$__from", str(START_MS))
                answer = database.execute(query.replace("$__to", str(START_MS + 3_600_000)))
                columns = [each[0] for each in answer.description]
                rows = answer.fetchall()
                assert rows, panel["title"]
                if target["queryType"] == "time series":
                    assert set(target["timeColumns"]) <= set(columns)
                    assert {row[0] for row in rows} == {START_MS // 1000}


def test_a_folder_without_tables_is_named(tmp_path: Path) -> None:
    """In a line, not by a traceback."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "without_java.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.strip() == (
        f"{tmp_path}: no table `batches` is there; expected the folder that `ingest` writes"
    )
