"""The options of every job: a setting of Spark is checked before Spark starts."""

import click
import pytest
from click.testing import CliRunner

from pipeline.cli.options import with_spark


@click.command()
@with_spark
def job(spark: object) -> None:
    """Would run a job."""
    raise AssertionError("not reached")


@pytest.mark.parametrize("text", ["spark.sql.shuffle.partitions", "memory=2g", "=1"])
def test_a_setting_that_is_none_is_refused(text: str) -> None:
    """The error names the text and the form that is expected."""
    told = CliRunner().invoke(job, ["--conf", text])

    assert told.exit_code == 2
    assert f"found '{text}', expected spark.NAME=VALUE" in told.stderr
