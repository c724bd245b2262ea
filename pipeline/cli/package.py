"""`sluice-pipeline package`: the files with which spark-submit runs the jobs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

import click

from pipeline.cli.printing import tell

_MAIN: Final = "from pipeline.cli.main import main\n\nmain()\n"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--kafka", is_flag=True, help="With the jars of Spark's Kafka connector, too.")
def package(folder: Path, *, kafka: bool) -> None:
    """Write to FOLDER the files for spark-submit: the code, the program, and the jars in FOLDER/jars."""
    from pipeline.code_zip import write_code_zip  # noqa: PLC0415 - --help need not wait
    from pipeline.jars import DELTA, KAFKA, locked_jars  # noqa: PLC0415 - as above

    folder.mkdir(parents=True, exist_ok=True)
    code, program = folder / "sluice.zip", folder / "main.py"
    write_code_zip(code)
    program.write_text(_MAIN, "utf-8")
    jars = locked_jars(DELTA, *([KAFKA] if kafka else []), folder=folder / "jars")
    words = ["spark-submit", "--py-files", str(code), "--jars", ",".join(map(str, jars))]
    tell(f"{shlex.join([*words, str(program)])} COMMAND ...")
