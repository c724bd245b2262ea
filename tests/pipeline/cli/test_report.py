"""The command `sluice-pipeline report`."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pipeline.cli.main import main
from tests.support.pipeline.report_tables import write_report_tables


@pytest.mark.usefixtures("spark")
def test_the_page_is_written_and_its_path_is_last(spark: SparkSession, tmp_path: Path) -> None:
    """The findings are printed, too, and the steps go to standard error."""
    write_report_tables(spark, tmp_path / "tables")
    page = tmp_path / "new" / "page.html"

    ran = CliRunner().invoke(main, ["report", str(tmp_path / "tables"), "--output", str(page)])

    assert ran.exit_code == 0, ran.output
    assert ran.stdout.splitlines()[0].startswith(
        "62 % of the requests of alice / app were throttled"
    )
    assert ran.stdout.splitlines()[-1] == f"report: {page}"
    assert "predictions ..." in ran.stderr
    assert page.read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.usefixtures("spark")
def test_a_page_that_cannot_be_written_is_found_before_the_work(tmp_path: Path) -> None:
    """One line names the page; no step begins."""
    (tmp_path / "file").touch()
    page = tmp_path / "file" / "page.html"

    ran = CliRunner().invoke(main, ["report", str(tmp_path), "--output", str(page)])

    assert ran.exit_code == 2
    assert ran.stderr.startswith(f"error: {page} cannot be written: ")
    assert "..." not in ran.stderr
