"""spark-submit with the files that `sluice-pipeline package` writes, on a machine without the project."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pipeline import tables
from pipeline.cli.main import main
from pipeline.java import find_java, java_home
from tests.support.pipeline.spark import SETTINGS
from tests.support.pipeline.spark_cluster import SPARK_HOME
from tests.support.processes.bare_python import bare_python
from tests.support.telemetry.usage_rows import numbered, usage_row, write_usage_log

pytestmark = pytest.mark.slow


def test_the_printed_command_runs_a_job(spark: SparkSession, tmp_path: Path) -> None:
    """Driver and workers have the code from the zip; cluster and memory are those of spark-submit's options."""
    told = CliRunner().invoke(main, ["package", str(tmp_path / "package")])
    submit, *words = shlex.split(told.stdout.replace("COMMAND ...", ""))
    write_usage_log(tmp_path / "log", numbered(usage_row("entity", requests=n) for n in range(5)))
    options = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    python = str(bare_python(tmp_path))
    command = [
        str(SPARK_HOME / "bin" / submit), "--master", "local[2]", *options, *words,
        "ingest", str(tmp_path / "log"), str(tmp_path / "tables"),
    ]  # fmt: skip
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ
        | {
            "JAVA_HOME": str(java_home(find_java())),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
        },
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "entity: 5 lines, 5 rows added" in done.stdout
    assert tables.read(spark, str(tmp_path / "tables"), "entity").count() == 5
