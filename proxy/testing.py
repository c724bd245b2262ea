"""A real Sluice before an embedded cluster, for tests of policies with real clients:

    from sluice.testing import sluice_with  # in conftest.py

    def test_clients_are_refused(sluice_with):
        sluice = sluice_with([{"use": "my_module:MyPolicy", "config": {"refused_client_ids": ["a"]}}])
        producer = Producer({"bootstrap.servers": sluice.bootstrap})

It needs pytest, and the extra `demo` for the cluster (`librdkafka`'s mock brokers). Sluice runs as a process; it
imports modules from where the test does.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import pytest

from proxy.demo.cluster import HOST, NODES, free_ports, start_brokers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    Policies = Sequence[Mapping[str, object]]

START_TIMEOUT_S: Final = 60
STOP_TIMEOUT_S: Final = 60


@dataclass
class LiveSluice:
    """A Sluice that runs as a process, before `upstream`."""

    directory: Path
    upstream: Sequence[str]
    policies: Policies = ()
    settings: Mapping[str, object] | None = None
    """Further sections of the configuration."""
    options: Sequence[str] = ()
    """Further options of `sluice run`."""

    def __post_init__(self) -> None:
        self._port = free_ports(1 + NODES)
        self._file = self.directory / "sluice.yaml"
        self._log = self.directory / "sluice.log"

    def __enter__(self) -> Self:
        """Start it and wait until it accepts clients. Raises RuntimeError with its log if it does not."""
        self._write()
        environ = {key: text for key, text in os.environ.items() if not key.startswith("SLUICE_")}
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        command = [sys.executable, "-m", "proxy", "run", "--config", str(self._file)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [*command, *self.options], stdout=log, stderr=log, env=environ
            )
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                self._process.kill()
                raise RuntimeError(f"Sluice does not start: {self.log()}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        """Drain it and wait for its end."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    @property
    def bootstrap(self) -> str:
        """The value of `bootstrap.servers` for clients."""
        return f"{HOST}:{self._port}"

    def log(self) -> str:
        """Return everything that it has logged."""
        return self._log.read_text("utf-8", errors="replace")

    def reload(self, policies: Policies) -> None:
        """Give it other policies, and wait until the log says whether they are in use."""
        before = self._reloads()
        self.policies = policies
        self._write()
        self._process.send_signal(signal.SIGHUP)
        self.await_log(lambda _: self._reloads() > before)

    def await_log(self, holds: Callable[[str], bool], timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until this holds of the log. Raises TimeoutError with the log."""
        deadline_s = time.monotonic() + timeout_s
        while not holds(self.log()):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not in time: {self.log()}")
            time.sleep(0.05)

    def _reloads(self) -> int:
        log = self.log()
        return log.count("config_reloaded") + log.count("config_reload_failed")

    def _accepts(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self._port)) == 0

    def _write(self) -> None:
        listen = {"address": HOST, "port": self._port, "nodes": f"0-{NODES - 1}"}
        sections = {
            "upstream": {"bootstrap_servers": list(self.upstream)},
            "listen": listen,
            "policies": list(self.policies),
            **(self.settings or {}),
        }
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(sections), "utf-8")  # JSON is YAML
        fresh.replace(self._file)


@pytest.fixture
def sluice_with(tmp_path: Path) -> Iterator[Callable[..., LiveSluice]]:
    """Return a function that starts a Sluice with these policies before three embedded brokers."""
    owner, cluster = start_brokers()
    with ExitStack() as running:

        def start(
            policies: Policies, *, options: Sequence[str] = (), **settings: object
        ) -> LiveSluice:
            folder = tmp_path / f"sluice-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            live = LiveSluice(folder, list(cluster.brokers.values()), policies, settings, options)
            return running.enter_context(live)

        yield start
    del owner  # the brokers end with it
