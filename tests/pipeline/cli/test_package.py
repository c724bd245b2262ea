"""The files for spark-submit."""

import shlex
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from pipeline.cli.main import main


def test_the_program_runs_with_the_zip_alone(tmp_path: Path) -> None:
    """Python finds every subcommand in the zip; the printed command names both files."""
    told = CliRunner().invoke(main, ["package", str(tmp_path / "new")])
    assert told.exit_code == 0, told.output
    submit, option, code, and_jars, jars, program, *rest = shlex.split(told.stdout)

    assert (submit, option, rest) == ("spark-submit", "--py-files", ["COMMAND", "..."])
    assert and_jars == "--jars"
    assert all(Path(jar).is_file() for jar in jars.split(","))
    hidden = "import sys; sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f).lower()]"
    run = f"{hidden}; sys.path.insert(0, {code!r}); sys.argv[1:] = ['stream', '--help']; "
    run += f"import runpy; runpy.run_path({program!r})"
    done = subprocess.run(
        [sys.executable, "-P", "-c", run], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--checkpoint" in done.stdout
