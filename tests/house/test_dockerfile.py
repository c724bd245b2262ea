"""The Dockerfile, by hadolint."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.house.house import ROOT

HADOLINT = shutil.which("hadolint", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed")


def findings(dockerfile: str) -> str:
    """Return what hadolint says of this text."""
    command = [str(HADOLINT), "--no-color", "-"]
    done = subprocess.run(command, input=dockerfile, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.stdout


def test_the_dockerfile_has_no_finding() -> None:
    """No rule of hadolint is broken."""
    assert not findings((ROOT / "Dockerfile").read_text("utf-8"))


def test_a_bad_dockerfile_has_findings() -> None:
    """Hadolint really reads what it is given: an untagged base and a root user are found."""
    told = findings("FROM debian\nRUN cd /opt\nUSER root\n")

    assert {"DL3006", "DL3003", "DL3002"} <= {
        word for line in told.splitlines() for word in line.split()
    }
