"""The changes since the last release, from the fragments in docs/changelog.d."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def unreleased_changes() -> str:
    """Return the entry that towncrier would write. Raises CalledProcessError if a fragment is malformed."""
    drafted = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "Unreleased"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return drafted.stdout
