"""The command `sluice-pipeline`: its subcommands and its errors."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pipeline.cli import main as command
from pipeline.errors import PipelineError


def test_help_imports_neither_spark_nor_numpy() -> None:
    """`--help` answers at once: Spark is imported by the job that needs it."""
    code = (
        "import sys\nfrom pipeline.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'pyspark', 'numpy', 'pyarrow'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.endswith("[]\n")


def test_every_subcommand_has_help() -> None:
    """Each subcommand is found, and takes `--help`."""
    for name in command.COMMANDS:
        told = CliRunner().invoke(command.main, [name, "--help"])
        assert told.exit_code == 0, told.output


def test_output_that_cannot_be_written_is_one_line() -> None:
    """On a full disk the command says so, and ends with exit code 1."""
    code = "from pipeline.cli.main import main; main(['--help'])"
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-c", code]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert ended.stderr == "error: standard output cannot be written: No space left on device\n"
    assert ended.returncode == 1


def test_an_error_of_the_input_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PipelineError has exit code 2 and no traceback."""

    @click.command()
    def failing() -> None:
        raise PipelineError("no rows in nowhere")

    monkeypatch.setattr(command.main, "get_command", lambda *_: failing)
    told = CliRunner().invoke(command.main, ["failing"])

    assert (told.exit_code, told.stderr) == (2, "error: no rows in nowhere\n")
