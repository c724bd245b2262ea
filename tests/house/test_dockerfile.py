"""The Dockerfile, by hadolint. tests/threats/test_t20_supply_chain.py checks the digest of its base."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.house.house import ROOT

HADOLINT = shutil.which("hadolint", path=str(Path(sys.executable).parent))


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed")
def test_the_dockerfile_has_no_finding() -> None:
    """It breaks no rule of hadolint; one with a root user breaks one, so hadolint reads what it is given."""
    good = (ROOT / "Dockerfile").read_text("utf-8")
    told = [
        subprocess.run(
            [str(HADOLINT), "--no-color", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        for text in (good, f"{good}\nUSER root\n")
    ]

    assert not told[0].stdout + told[0].stderr
    assert "DL3002" in told[1].stdout
