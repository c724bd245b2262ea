"""Examples: the example policy is tested by its own test, found as a stranger's, and shown whole."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENT_IDS = ROOT / "examples" / "client_ids"


def test_the_example_policy_passes_its_own_test() -> None:
    """The test an author is shown runs as it stands, with nothing but Sluice installed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]

    ran = subprocess.run(
        [*command, "--rootdir", CLIENT_IDS, "-c", "/dev/null", "test_client_ids.py"],
        cwd=CLIENT_IDS,
        env={"PYTHONPATH": f"{CLIENT_IDS}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout


def test_the_documents_show_the_files_as_they_are() -> None:
    """Code and test in docs/policies.md are those of the example, to the letter."""
    shown = (ROOT / "docs" / "policies.md").read_text("utf-8")

    for name in ("client_ids.py", "test_client_ids.py"):
        source = (CLIENT_IDS / name).read_text("utf-8")
        assert f"```python\n{source}```\n" in shown, name


def test_the_entry_point_names_the_policy() -> None:
    """What the example registers is in the module it registers."""
    settings = tomllib.loads((CLIENT_IDS / "pyproject.toml").read_text("utf-8"))
    points = settings["project"]["entry-points"]["sluice.policies"]

    module, _, name = points["client_ids"].partition(":")

    assert settings["tool"]["setuptools"]["py-modules"] == [module]
    assert f"class {name}(Policy):" in (CLIENT_IDS / f"{module}.py").read_text("utf-8")
