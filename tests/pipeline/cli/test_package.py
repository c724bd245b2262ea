"""The files for spark-submit: with them alone a Python that has the libraries runs every command."""

import json
import os
import shlex
import subprocess
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline.cli.main import COMMANDS, main
from pipeline.code_zip import PACKAGES
from tests.support.house.house import ROOT
from tests.support.processes.bare_python import bare_python

RUN = """
import json, runpy, sys
from click.testing import CliRunner
from pipeline.cli.main import COMMANDS, main
told = {name: CliRunner().invoke(main, [name, "--help"]).output for name in COMMANDS}
from pipeline.report.page import html_of
from pipeline.session import _log_file
from tests.support.pipeline.report_facts import busy_facts
page, log = html_of(busy_facts()), _log_file().read_text()
ours = [m for name, m in sys.modules.items() if name.partition(".")[0] in ("pipeline", "policies", "wire")]
sys.argv[1:] = ["stream", "--help"]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit:
    pass
print()
print(json.dumps([told, page, log, [m.__file__ for m in ours]]))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the words of the command that `package` prints."""
    folder = tmp_path_factory.mktemp("package") / "new folder"
    told = CliRunner().invoke(main, ["package", str(folder)])
    assert told.exit_code == 0, told.output
    return shlex.split(told.stdout)


def test_the_printed_command_is_for_a_shell(package: list[str]) -> None:
    """Paths with spaces are quoted; options of spark-submit come before the program, the command's words after it."""
    assert package[0] == "spark-submit"
    assert package[-2:] == ["COMMAND", "..."]
    assert Path(package[-3]).name == "main.py"
    assert Path(package[package.index("--py-files") + 1]).is_file()
    jars = package[package.index("--jars") + 1].split(",")
    assert [Path(each).name.split("_")[0] for each in jars] == ["io.delta", "io.delta"]
    assert all(Path(each).is_file() for each in jars)


def test_every_file_of_the_packages_travels(package: list[str]) -> None:
    """A resource that git has is in the zip with its text; what only a build needs is not."""
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    wanted = {each for each in listed if (ROOT / each).exists() and not each.endswith(".pxd")}

    with zipfile.ZipFile(package[package.index("--py-files") + 1]) as code:
        names = set(code.namelist())
        assert wanted <= names, wanted - names
        for name in wanted:
            assert code.read(name) == (ROOT / name).read_bytes()


def test_the_zip_alone_has_all_that_the_driver_needs(package: list[str], tmp_path: Path) -> None:
    """Every command, the styles of the page, the settings of Spark's log: nothing comes from this checkout."""
    code, program = package[package.index("--py-files") + 1], package[-3]
    run = f"import sys; sys.argv[0] = {program!r}\n{RUN}"
    done = subprocess.run(
        [str(bare_python(tmp_path)), "-c", run],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{code}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    *help_of_stream, last = done.stdout.splitlines()
    told, page, log, places = json.loads(last)
    assert list(told) == list(COMMANDS)
    assert all(f"Usage: main {name}" in text for name, text in told.items()), told
    assert any("--checkpoint" in line for line in help_of_stream)
    assert (ROOT / "pipeline" / "report" / "page.css").read_text() in page
    assert "rootLogger.level" in log
    assert {place.startswith(code) for place in places} == {True}, places
