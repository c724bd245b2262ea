"""A real `sluice run` with an admin server on all three listeners."""

import http.client
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness.ports import free_ports
from tests.support.faults.stub_broker import StubBroker
from tests.support.processes.sluice_process import COMMAND, SluiceProcess

TOKEN = "a-token-of-some-length"  # noqa: S105 - a test's own
POLICIES = [{"use": "quota", "config": {"quotas": [{"user": "alice", "request_rate": 100}]}}]


class Sluice(SluiceProcess):
    """A Sluice with an admin server on all three listeners."""

    def __init__(self, upstream: str, directory: Path, **more: str) -> None:
        super().__init__(upstream, directory)
        token = directory / "token"
        token.write_text(TOKEN)
        self.listen, self.control = (f"127.0.0.1:{free_ports()}" for _ in range(2))
        self.socket = str(directory / "admin.sock")
        self.variables = {
            "SLUICE_ADMIN_LISTEN": self.listen,
            "SLUICE_ADMIN_CONTROL": self.control,
            "SLUICE_ADMIN_SOCKET": self.socket,
            "SLUICE_ADMIN_TOKEN_FILE": str(token),
            "SLUICE_POLICIES": json.dumps(POLICIES),  # JSON is YAML
            **more,
        }

    def ask(self, where: str, method: str, path: str, headers: dict[str, str]) -> int:
        """Send one request as it is; return the status."""
        connection = http.client.HTTPConnection(where, timeout=120)
        try:
            connection.request(method, path, headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def ctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `sluice ctl` over the socket."""
        return subprocess.run(
            [COMMAND, *arguments],
            env={**os.environ, "SLUICE_ADMIN_SOCKET": self.socket},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def sluice(tmp_path: Path) -> Iterator[Sluice]:
    with StubBroker() as broker:
        made = Sluice(broker.server, tmp_path)
        made.start()
        wait_for(made)
        yield made
        made.stop()


def wait_for(sluice: Sluice) -> None:
    """Wait for the admin port; the clients' ports are bound before it."""
    give_up = time.monotonic() + 120
    while True:
        try:
            assert sluice.ask(sluice.control, "GET", "/live", {}) == 200
        except OSError:
            assert time.monotonic() < give_up, sluice.said()
            time.sleep(0.02)
        else:
            return
