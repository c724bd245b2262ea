"""Runs commands of `sluice-pipeline` by spark-submit in one application of a standalone cluster.

Neither the driver's Python nor the workers' can import this checkout: they have the libraries, and the files that
`sluice-pipeline package` wrote. `PROGRAM` stands in the place of its `main.py`, to run many commands in one session.
"""

import json
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from click.testing import CliRunner

from pipeline.cli.main import main
from tests.support.pipeline.spark_cluster import SETTINGS, SPARK_HOME, cluster_environment
from tests.support.processes.bare_python import bare_python

TIMEOUT_SECONDS: Final = 1_200
PROGRAM: Final = """
import json, os, sys
from pathlib import Path
from click.testing import CliRunner
from pipeline.cli.main import main
from pipeline.session import session

def where(_):
    import pipeline.schema
    return [os.getcwd(), pipeline.schema.__file__]

commands, told = map(Path, sys.argv[1:])
with session("all jobs") as spark:
    ended = []
    for words in json.loads(commands.read_text()):
        result = CliRunner().invoke(main, words)
        error = "" if result.exception is None else repr(result.exception)
        ended.append((words, result.exit_code, result.output + error))
    numbers = spark.sparkContext.parallelize(range(8), 8)
    imported = sorted({tuple(each) for each in numbers.map(where).collect()})
    told.write_text(json.dumps([ended, [*imported, where(0)]]))
"""


class Ended(NamedTuple):
    """One command: its words, its exit code and what it said."""

    words: list[str]
    code: int
    said: str


class Told(NamedTuple):
    """All commands, the file from which each worker and the driver have imported the project, and the log."""

    commands: list[Ended]
    imported: list[list[str]]
    log: str


def submit(master: str, folder: Path, *words: str, program: Path | None = None) -> str:
    """Run the printed command with these words in a folder, at most once; return the text of its standard error.

    `program` is run instead of the package's.
    """
    packaged = CliRunner().invoke(main, ["package", str(folder / "package")])
    assert packaged.exit_code == 0, packaged.output
    submitted, *rest = shlex.split(packaged.stdout.replace("COMMAND ...", ""))
    options = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    if program is not None:
        rest[-1] = str(program)
    python = str(bare_python(folder))
    environment = cluster_environment() | {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [str(SPARK_HOME / "bin" / submitted), "--master", master, *options, *rest, *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def run_on_cluster(master: str, folder: Path, commands: Sequence[Sequence[str]]) -> Told:
    """Run the commands one after the other on the cluster at `master`."""
    program, given, told = (folder / name for name in ("jobs.py", "commands.json", "told.json"))
    program.write_text(PROGRAM)
    given.write_text(json.dumps(commands))
    log = submit(master, folder, str(given), str(told), program=program)
    ended, imported = json.loads(told.read_text())
    return Told([Ended(*each) for each in ended], imported, log)
