"""Paths that a person gives: taken as they are, and said for what they are."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pipeline.cli.main import main
from pipeline.errors import PipelineError
from pipeline.inputs import literal, readable
from tests.support.telemetry.usage_rows import numbered, usage_row, write_usage_log

HOSTILE = "a [b] {c,d} 50%25 +x'y * q? back\\slash"
COMMANDS = ("usage", "recommend", "report", "whatif --quotas QUOTAS")
QUOTAS = "version: 1\nquotas:\n- {user: <default>, request_rate: 1}\n"


def run(*words: object) -> tuple[int, str]:
    """Return the exit code of a command, and the last line that it said about its failure."""
    told = CliRunner().invoke(main, [str(word) for word in words])
    assert "Traceback" not in told.stderr
    return told.exit_code, "".join(told.stderr.splitlines()[-1:])


def test_a_name_with_wildcards_in_it_is_read_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """Even where it would, as a pattern, match another one."""
    for name in ("a[b]", "{a,b}", "a*", "a", "b", "ab", "50%25 a", "back\\slash", "what?", HOSTILE):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "file").write_text(name)
        lines = spark.read.text(readable(spark, str(folder), "a folder"))
        assert [row.value for row in lines.collect()] == [name]


def test_a_pattern_is_one_if_nothing_has_its_name(spark: SparkSession, tmp_path: Path) -> None:
    """A pattern that matches nothing is an error, as a name is."""
    for name in ("host-1", "host-2"):
        (tmp_path / name).write_text(name)

    assert spark.read.text(readable(spark, f"{tmp_path}/host-*", "files")).count() == 2
    for absent in ("hosts-*", "host-3"):
        with pytest.raises(PipelineError) as raised:
            readable(spark, f"{tmp_path}/{absent}", "files")
        assert str(raised.value) == f"{tmp_path}/{absent} does not exist; expected files"


def test_a_literal_has_no_wildcards() -> None:
    """Each is escaped once."""
    assert literal("/a[1]/{b}/*?\\") == r"/a\[1\]/\{b\}/\*\?\\"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("spark")
def test_a_usage_log_in_the_place_of_tables_is_said(tmp_path: Path, command: str) -> None:
    """With the command that makes tables of it."""
    write_usage_log(tmp_path / "log", numbered([usage_row("entity", requests=1)]))
    (tmp_path / "quotas").write_text(QUOTAS)
    name, *options = command.replace("QUOTAS", f"{tmp_path}/quotas").split()

    code, said = run(name, tmp_path / "log", *options)

    assert code == 2
    assert f"error: {tmp_path}/log is a usage log, not tables. Write the tables first: " in said


@pytest.mark.usefixtures("spark")
def test_tables_that_do_not_exist_are_said(tmp_path: Path) -> None:
    """The folder, and a scheme that Spark does not know."""
    (tmp_path / "quotas").write_text(QUOTAS)
    for tables, words in {
        f"{tmp_path}/none": f": {tmp_path}/none does not exist. Write the tables first: ",
        "s3a://bucket/tables": "hadoop-aws",
        "s4://bucket/tables": 'No FileSystem for scheme "s4"',
    }.items():
        for command in COMMANDS:
            name, *options = command.replace("QUOTAS", f"{tmp_path}/quotas").split()
            code, said = run(name, tables, *options)
            assert (code > 0, words in said) == (True, True), said


@pytest.mark.usefixtures("spark")
def test_sources_that_do_not_exist_are_said(tmp_path: Path) -> None:
    """Each command names the path, what it expected there, and nothing of Java."""
    none, to = f"{tmp_path}/none", f"{tmp_path}/to"
    for words, expected in {
        ("ingest", none, to): f"error: {none} does not exist; expected a folder with files FAMILY/",
        ("all", none, to): f"error: {none} does not exist; expected a folder with files FAMILY/",
        ("traces", none): f"error: {none} does not exist; expected a file of traces",
        ("stream", none, to, "--checkpoint", f"{to}/c"): f"error: {none}/entity does not exist; ",
        ("ingest", "s3a://bucket/log", to): "hadoop-aws",
        ("traces", "s3a://bucket/traces.jsonl"): "hadoop-aws",
        ("stream", "s3a://bucket/log", to, "--checkpoint", f"{to}/c"): "hadoop-aws",
    }.items():
        code, said = run(*words)
        assert (code, expected in said) == (2, True), said


@pytest.mark.usefixtures("spark")
def test_tables_are_made_and_read_at_a_hostile_path(tmp_path: Path) -> None:
    """Brackets, braces, stars, blanks, percent and quotation marks are parts of names."""
    here = tmp_path / HOSTILE
    rows = [usage_row("entity", ts_ms=1_763_683_200_000 + 1000 * n, requests=5) for n in range(40)]
    write_usage_log(here / "log", numbered(rows))
    tables, out = here / "tables", here / "out"
    for words in (
        ("ingest", here / "log", tables),
        ("ingest", here / "log", tables),
        ("usage", tables, "--output", out / "usage"),
    ):
        code, said = run(*words)
        assert code == 0, said
    assert (out / "usage").is_dir()
