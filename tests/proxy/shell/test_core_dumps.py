"""No process of Sluice leaves a core dump, with credentials of its own or without."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.command_line import written
from tests.support.processes.sluice_process import SluiceProcess


def test_a_process_leaves_no_core_dump() -> None:
    """The limit cannot be raised again by a process without privileges, and calling it twice does no harm."""
    script = (
        "import resource\n"
        "from proxy.shell.core_dumps import forbid_core_dumps\n"
        "forbid_core_dumps(); forbid_core_dumps()\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() in {"(1, 1)", "(0, 0)"}  # 0: it was so before


@pytest.mark.parametrize("settings", [{"tls": {}}, {}], ids=["TLS", "pass-through"])
def test_a_proxy_leaves_no_core_dump(tmp_path: Path, settings: dict[str, object]) -> None:
    """Also where it only passes on the passwords of others."""
    with SluiceProcess("127.0.0.1:1", tmp_path, upstream_settings=settings) as sluice:
        limits = Path(f"/proc/{sluice.pid}/limits").read_text("ascii")
    (line,) = (each for each in limits.splitlines() if each.startswith("Max core file size"))
    found = tuple(line.split()[4:6])
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    assert found == (("1", "1") if hard else ("0", "0"))


def test_a_command_that_crashes_leaves_no_core_dump(tmp_path: Path) -> None:
    """It asks for passwords and reads tokens: a file in its folder would have them."""
    folder = tmp_path / "work"
    folder.mkdir()
    config = written(tmp_path, "upstream: {bootstrap_servers: [a:1]}")
    crash = (
        "import os, resource, runpy, signal, sys\n"
        "hard = resource.getrlimit(resource.RLIMIT_CORE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))\n"
        f"sys.argv = ['sluice', 'check', '--config', {str(config)!r}]\n"
        "from proxy.cli import check\n"
        "check.click.echo = lambda *_, **__: os.kill(os.getpid(), signal.SIGABRT)\n"
        "from proxy.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", crash], cwd=folder, check=False, timeout=60)
    assert done.returncode == -6
    assert list(folder.iterdir()) == []
