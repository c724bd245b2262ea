"""`make demo` compiles Sluice where that is possible, and runs the source elsewhere."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.harness import compiled_build
from tests.support.house.house import ROOT


def test_without_a_c_compiler_a_line_says_that_the_source_runs(tmp_path: Path) -> None:
    """That is no failure, and what was compiled before is not left: it would be older than the source."""
    folder = tmp_path / "compiled"
    folder.mkdir()
    (folder / ".stamp").touch()
    done = subprocess.run(
        [sys.executable, "-m", "bench.harness.compiled_build", str(folder)],
        cwd=ROOT,
        env={**os.environ, "CC": str(tmp_path / "no-compiler")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "there is no C compiler" in done.stdout
    assert "The source runs" in done.stdout
    assert not folder.exists()


def test_on_a_full_disk_the_source_runs(tmp_path: Path, monkeypatch, capsys) -> None:
    """What was unpacked until then is not left."""
    folder = tmp_path / "compiled"

    def unpack(to: Path) -> None:
        to.mkdir()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(compiled_build, "missing", lambda: "")
    monkeypatch.setattr(compiled_build, "unpack_compiled", unpack)
    compiled_build.prepare(folder)

    assert "No space left on device. The source runs" in capsys.readouterr().out
    assert not folder.exists()


@pytest.mark.parametrize("is_compiled", [True, False])
def test_the_demo_runs_the_compiled_build_if_it_was_unpacked(
    tmp_path: Path, *, is_compiled: bool
) -> None:
    """Its processes take no module of the checkout then; without it they run the checkout."""
    if is_compiled:
        (tmp_path / ".stamp").touch()
    shown = subprocess.run(
        ["make", "--no-print-directory", "-n", "demo", f"COMPILED={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()[-1]
    variables = subprocess.run(
        ["sh", "-c", shown.replace(".venv/bin/sluice demo", "env")],
        env={},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert (f"PYTHONPATH={tmp_path}" in variables) is is_compiled
    assert ("PYTHONSAFEPATH=1" in variables) is is_compiled
