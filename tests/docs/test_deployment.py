"""The page on deployment: what it shows is in examples/deployment, and these files are valid."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from proxy.config.sources import load

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "deployment"
PAGE = (ROOT / "docs" / "operate" / "deployment.md").read_text("utf-8")
SERVICE = (EXAMPLES / "sluice.service").read_text("utf-8")


def with_folder(text: str, folder: Path) -> str:
    """Return a file of the example with its folders below `folder`."""
    return re.sub(r"/(var|run)/", f"{folder}/\\1/", text)


def test_the_page_shows_the_files() -> None:
    """Each block of a file's text is a part of that file."""
    files = [each.read_text("utf-8") for each in EXAMPLES.iterdir()]
    shown = re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)
    assert len(shown) == 2
    assert all(any(block in text for text in files) for block in shown)
    for each in EXAMPLES.iterdir():
        assert f"examples/deployment/{each.name}" in PAGE


def test_the_settings_are_valid(tmp_path: Path) -> None:
    """`sluice check` accepts them, in the folders that the unit gives the service."""
    for name in ("LogsDirectory", "StateDirectory", "RuntimeDirectory"):
        assert f"{name}=sluice\n" in SERVICE
    for folder in ("var/log/sluice", "var/lib/sluice/usage", "run/sluice"):
        (tmp_path / folder).mkdir(parents=True)
    file = tmp_path / "sluice.yaml"
    file.write_text(with_folder((EXAMPLES / "sluice.yaml").read_text("utf-8"), tmp_path))
    config = load(file, {}, {}).config
    stop_s = int(re.search(r"TimeoutStopSec=(\d+)", SERVICE)[1])
    assert config.drain.timeout_ms < stop_s * 1000


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_valid_and_hardened(tmp_path: Path) -> None:
    """Systemd reads it without a warning and rates its exposure as the page says."""
    unit = tmp_path / "sluice.service"
    unit.write_text(SERVICE.replace("/opt/sluice/bin/sluice", shutil.which("true") or ""))
    verified = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    exposure = re.search(r"exposure level for sluice.service: ([\d.]+) (\w+)", rated.stdout)
    assert f"rates it {exposure[1]} ({exposure[2]})" in PAGE
