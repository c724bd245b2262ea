"""Containers run by runc, the low-level runtime below containerd.

runc stays in the foreground, so its exit code is the container's. Everything of a container is gone after `remove`.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.kubernetes.oci_config import Image, Limits, Mount, oci_config

START_SECONDS: Final = 30.0
CGROUPS: Final = Path("/sys/fs/cgroup")
_TOOLS: Final = ("runc", "ip", "iptables-restore")


def run_bundle(directory: Path, name: str, log: Path) -> subprocess.Popen[bytes]:
    """Start the container of this bundle; return its `runc`. The bundle gets a file `pid`."""
    with log.open("wb") as output:
        return subprocess.Popen(
            ["runc", "run", "--bundle", directory, "--pid-file", "pid", name],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            start_new_session=True,  # a Ctrl-C is for the test, which then stops it
        )


class RuncUnavailableError(Exception):
    """Containers cannot be run here; says why."""


def require_runc() -> None:
    """Raise RuncUnavailableError with the reason if containers cannot be run here."""
    if os.geteuid() != 0:
        raise RuncUnavailableError("containers need root")
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        raise RuncUnavailableError(f"not in PATH: {', '.join(missing)} (tests/tools.sh)")
    if not os.access(CGROUPS, os.W_OK):
        raise RuncUnavailableError(f"{CGROUPS} is read-only")


@dataclass(slots=True)
class Container:
    """One start of a container, below `directory`; its name is the folder's."""

    directory: Path
    image: Image
    arguments: Sequence[str]
    environ: Mapping[str, str]
    limits: Limits
    network: Path
    mounts: Sequence[Mount] = ()
    hostname: str = "pod"
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0

    @property
    def name(self) -> str:
        """Return the container's id, unique on this machine."""
        return f"sluice-{os.getpid()}-{self.directory.parent.name}-{self.directory.name}"

    @property
    def log(self) -> Path:
        """Return the file with everything that it wrote."""
        return self.directory / "log"

    def said(self) -> str:
        """Return the text of its log."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def pid(self) -> int:
        """Return the id of its first process, as the host sees it."""
        return int((self.directory / "pid").read_text())

    def start(self) -> None:
        """Start it and wait until its first process exists."""
        self.directory.mkdir(parents=True)
        (self.directory / "config.json").write_text(json.dumps(self._config()))
        self.process = run_bundle(self.directory, self.name, self.log)
        self.started_s = time.monotonic()
        give_up = self.started_s + START_SECONDS
        while not (self.directory / "pid").exists():
            assert self.process.poll() is None, f"{self.name} does not start: {self.said()}"
            assert time.monotonic() < give_up, f"{self.name} does not start in time"
            time.sleep(0.005)

    def exit_code(self) -> int | None:
        """Return the exit code, 128 + the signal's number for a killed one; None while it runs."""
        assert self.process is not None, "not started"
        return self.process.poll()

    def wait(self, seconds: float) -> int | None:
        """Wait for its end; return the exit code, None if it still runs."""
        assert self.process is not None, "not started"
        try:
            return self.process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            return None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its first process; nothing if it has ended."""
        subprocess.run(
            ["runc", "kill", self.name, str(int(number))], capture_output=True, check=False
        )

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        if self.exit_code() is None:
            self.signal(signal.SIGKILL)
            assert self.wait(START_SECONDS) is not None, f"{self.name} survives SIGKILL"

    def run_inside(
        self, *arguments: str, seconds: float = 30
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a further process in the container (`kubectl exec`) and return its outcome."""
        return subprocess.run(
            ["runc", "exec", self.name, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )

    def remove(self) -> None:
        """End it and remove every trace of it from the machine, its cgroups included."""
        if self.process is not None:
            self.kill()
        subprocess.run(["runc", "delete", "--force", self.name], capture_output=True, check=False)
        for group in (*CGROUPS.glob(self.name), *CGROUPS.glob(f"*/{self.name}")):
            group.rmdir()  # runc leaves one that had another process in it

    @property
    def memory_group(self) -> Path:
        """Return the folder of its memory cgroup, version 1 or 2."""
        for line in Path(f"/proc/{self.pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "memory":
                return CGROUPS / "memory" / path.lstrip("/")
        return CGROUPS / path.lstrip("/")

    def resident_bytes(self) -> int:
        """Return the resident memory of its first process."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _config(self) -> dict[str, Any]:
        return oci_config(
            self.name,
            self.image,
            self.arguments,
            self.environ,
            self.limits,
            self.network,
            self.mounts,
            self.hostname,
        )
