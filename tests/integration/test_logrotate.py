"""logrotate, with the configuration of examples/deployment, moves the log of a running Sluice."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.house.house import ROOT
from tests.support.kafka.load import await_that
from tests.support.processes.sluice_process import SluiceProcess

CONFIGURATION = (ROOT / "examples" / "deployment" / "logrotate.conf").read_text("utf-8")
SIGNAL = "systemctl kill --kill-whom=main --signal=HUP sluice.service"
LOGROTATE = shutil.which("logrotate", path="/usr/sbin:/usr/bin")


@pytest.mark.skipif(LOGROTATE is None, reason="needs logrotate")
def test_sluice_writes_to_a_new_log_after_a_rotation(tmp_path: Path) -> None:
    """The old file keeps every line up to the move, the new one begins with the reload that the signal asks for."""
    assert SIGNAL in CONFIGURATION
    with SluiceProcess("127.0.0.1:1", tmp_path, settings={"log": {"format": "json"}}) as sluice:
        await_that(lambda: '"ready"' in sluice.said(), "the start")
        text = re.sub(r"/var/log/sluice/sluice.log", str(sluice.log), CONFIGURATION)
        text = text.replace("/var/log/sluice", str(tmp_path))
        file = tmp_path / "logrotate.conf"
        file.write_text(text.replace(SIGNAL, f"kill -HUP {sluice.pid}"))
        file.chmod(0o600)
        rotated = subprocess.run(
            [str(LOGROTATE), "--force", "--state", tmp_path / "state", file],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (rotated.returncode, rotated.stderr) == (0, "")
        await_that(lambda: sluice.log.exists() and "reload" in sluice.said(), "the reload")
        old = Path(f"{sluice.log}.1").read_text()
        assert '"ready"' in old
        assert '"ready"' not in sluice.said()
