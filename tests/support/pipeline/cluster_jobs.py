"""Runs commands of `sluice-pipeline` in one application of a standalone cluster, and says how each ended.

Run as a module: the master's address is its argument, the commands come as JSON on standard input. The workers' Python
has the libraries, but not this project: that must reach them as a zip.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from click.testing import CliRunner

from pipeline.cli.main import main
from pipeline.session import session
from tests.support.pipeline.spark_cluster import SETTINGS, cluster_environment
from tests.support.processes.bare_python import bare_python

TIMEOUT_SECONDS: Final = 900


class Ended(NamedTuple):
    """One command: its words, its exit code and what it said."""

    words: list[str]
    code: int
    said: str


class Told(NamedTuple):
    """All commands, and the file from which each worker process has imported the project."""

    commands: list[Ended]
    imported: list[list[str]]


def run_on_cluster(master: str, folder: Path, commands: list[list[str]]) -> Told:
    """Run the commands one after the other on the cluster at `master`."""
    python = bare_python(folder)
    done = subprocess.run(
        [sys.executable, "-m", __name__, master],
        input=json.dumps(commands),
        env=cluster_environment()
        | {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    commands_told, imported = json.loads(done.stdout.splitlines()[-1])
    return Told([Ended(*each) for each in commands_told], imported)


def _where(_: int) -> list[str]:
    """Return the executor's folder and the file of a module, as a worker sees them."""
    import pipeline.schema  # noqa: PLC0415 - in the worker

    return [os.getcwd(), str(pipeline.schema.__file__)]  # noqa: PTH109 - Spark's own folder


def _main() -> None:
    commands = json.load(sys.stdin)
    with session("all jobs", master=sys.argv[1], settings=SETTINGS) as spark:
        told = []
        for words in commands:
            result = CliRunner().invoke(main, words)
            error = "" if result.exception is None else repr(result.exception)
            told.append((words, result.exit_code, f"{result.output}\n{error}"))
        numbers = spark.sparkContext.parallelize(range(8), 8)
        imported = sorted({tuple(each) for each in numbers.map(_where).collect()})
        sys.stdout.write("\n" + json.dumps((told, imported)) + "\n")


if __name__ == "__main__":
    _main()
