"""The cluster that the demo's clients see: librdkafka's mock brokers (`-m proxy.demo.cluster`), with Sluice in front.

Rules:
- The brokers are one process, on ports of 127.0.0.1 that the kernel chooses; they end with that process.
- They answer after `ANSWER_MS`, as brokers do that wait for their followers. A mock broker alone answers
  in less than 0.1 ms; a client would then measure little but this machine's scheduler.
- Sluice is started by its command line, and observed and changed only from outside, over its admin server.
- It starts without a quota; quotas are set and removed while it runs, as `sluice quotas` does it. With a usage log it
  starts with the quotas of `proxy.demo.habits`, or with those of a quota file.
- Its ports are a free block: the bootstrap port, one for each node id, and the dashboard's. A port that another
  program takes in between ends the demo.
"""

from __future__ import annotations

import errno
import itertools
import json
import random
import secrets
import signal
import socket
from typing import TYPE_CHECKING

import msgspec
import trio

from proxy.admin.client import AdminAddress, AdminClient
from proxy.admin.errors import RefusedError, UnreachableError
from proxy.admin.schemas import State
from proxy.demo.habits import quota_lines
from proxy.demo.processes import (
    Brokers,
    ChildProcess,
    ClusterReady,
    Commands,
    DemoError,
    send,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from confluent_kafka import Producer

BROKERS = 3
ANSWER_MS = 5
HOST = "127.0.0.1"
NODES = 10
"""Node ids 0 to 9; the embedded cluster uses 1 to 3."""
TIMEOUT_S = 15.0
SETTINGS = """\
identity: {{user: demo}}      # the user of all clients: the embedded cluster has no SASL
policies: [{{use: quota, config: {{{quotas}}}}}]
admin: {{control: '{control}', token_file: '{token_file}'}}
"""
USAGE_LOG = """\
usage_log: {{directory: {directory}, instance: demo, families: [entity, api, instance, topic, capture]}}
traces: {{export: file, file: {file}, sample_every_requests: 100}}
"""
TRACES = "traces.jsonl"
"""In the folder of the usage log."""


def start_brokers() -> tuple[Producer, ClusterReady]:
    """Start the brokers. They live as long as the returned client, which owns the mock cluster."""
    from confluent_kafka import Producer  # noqa: PLC0415 - only the brokers' own process needs it

    settings = {
        "test.mock.num.brokers": BROKERS,
        "test.mock.broker.rtt": ANSWER_MS,
        "log_level": 3,
    }
    owner = Producer(settings)
    # The mock places leaders at random: topics are created until one has a leader on every broker.
    for attempt in itertools.count(1):
        topic = f"orders-{attempt}"
        metadata = owner.list_topics(topic, timeout=TIMEOUT_S)
        leaders = [partition.leader for partition in metadata.topics[topic].partitions.values()]
        if len(set(leaders)) == BROKERS:
            brokers = {b.id: f"{b.host}:{b.port}" for b in metadata.brokers.values()}
            return owner, ClusterReady(brokers, topic, len(leaders))
    raise AssertionError("unreachable: count() never ends")


def free_ports(count: int, attempts: int = 100) -> int:
    """Return the first of `count` consecutive ports that are free now on 127.0.0.1.

    Raises DemoError when none were found.
    """
    for _ in range(attempts):
        first = random.randrange(20_000, 32_000)  # noqa: S311 - below the kernel's own range, no secret
        if all(map(_is_free, range(first, first + count))):
            return first
    raise DemoError(f"found no {count} consecutive free ports in 20000..32000")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return False
            raise
    return True


class Sluice:
    """The Sluice process that the clients connect to."""

    def __init__(
        self, folder: Path, usage_log: Path | None = None, quotas_file: Path | None = None
    ) -> None:
        self._folder = folder
        self._usage_log = usage_log
        self._quotas_file = quotas_file
        self._process: ChildProcess | None = None
        self._admin: AdminClient | None = None
        self.bootstrap_port = 0
        self.advertised: Brokers = {}
        """Where clients should be told that each broker is."""
        self.pid: int | None = None
        self.dashboard = ""
        """The dashboard's address with its token; browsers do not send what follows the `#`."""

    async def start(self, nursery: trio.Nursery, brokers: Brokers) -> None:
        """Start Sluice in front of `brokers`; return when it accepts connections and shows its dashboard.

        Raises DemoError.
        """
        port = self.bootstrap_port = free_ports(1 + NODES + 1)
        control = f"{HOST}:{port + 1 + NODES}"
        token = secrets.token_urlsafe(24)
        token_file = self._folder / "token"
        token_file.touch(mode=0o600)
        token_file.write_text(token, "ascii")
        file = self._folder / "sluice.yaml"
        text = SETTINGS.format(
            control=control,
            token_file=token_file,
            quotas=self._quotas(),
        )
        if self._usage_log is not None:
            directory = self._usage_log.resolve()
            directory.mkdir(parents=True, exist_ok=True)
            names = {"directory": directory, "file": directory / TRACES}
            text += USAGE_LOG.format(**{key: json.dumps(str(path)) for key, path in names.items()})
        file.write_text(text, "utf-8")
        options = [
            *("--config", str(file)),
            *("--upstream", ",".join(brokers.values())),
            *("--listen", f"{HOST}:{port}"),
            *("--nodes", f"0-{NODES - 1}"),
        ]
        process = ChildProcess("sluice", ["proxy", "run", *options], self._folder, is_silent=True)
        self._process = process
        await process.start(nursery)
        self.pid = process.process.pid
        # Node n listens at the bootstrap port + 1 + n's place in the range, which starts at 0.
        self.advertised = {node: f"{HOST}:{port + 1 + node}" for node in brokers}
        self._admin = AdminClient(AdminAddress(address=control, token=token))
        # Its admin server opens after its Kafka ports.
        with trio.move_on_after(TIMEOUT_S):
            while process.process.poll() is None:
                if await self.maybe_state() is not None:
                    self.dashboard = f"http://{control}/#token={token}"
                    return
                await trio.sleep(0.05)
        raise DemoError(f"Sluice does not answer at {control} after {TIMEOUT_S:g} s")

    def _quotas(self) -> str:
        """Return the settings of the quota policy."""
        if self._quotas_file is not None:
            return f"quotas_file: {json.dumps(str(self._quotas_file.resolve()))}"
        return "" if self._usage_log is None else f"quotas: {quota_lines()}"

    async def maybe_state(self) -> State | None:
        """Return what its dashboard shows now; None when it does not answer."""
        try:
            return msgspec.convert(await self._ask("GET", "/v1/state"), State)
        except (DemoError, msgspec.ValidationError):
            return None

    async def set_quota(self, client_id: str, requests_per_s: float | None) -> None:
        """Set a client id's quota, or remove it (None). Raises DemoError when Sluice refuses."""
        path = f"/v1/quotas?client_id={client_id}"
        if requests_per_s is None:
            await self._ask("DELETE", path)
        else:
            await self._ask("PUT", path, {"request_rate": requests_per_s})

    async def _ask(self, method: str, path: str, body: object = None) -> dict[str, object]:
        if self._admin is None:
            raise DemoError("Sluice was not started")
        ask: Callable[[str, str, object], dict[str, object]] = self._admin.ask
        try:
            return await trio.to_thread.run_sync(ask, method, path, body)
        except (UnreachableError, RefusedError) as error:
            raise DemoError(f"{method} {path}: {error}") from error

    async def stop(self) -> int | None:
        """Send SIGTERM and return the exit code; None when the process does not end in time."""
        if self._process is None:
            return None
        self._process.process.send_signal(signal.SIGTERM)
        with trio.move_on_after(TIMEOUT_S):
            return await self._process.process.wait()
        return None

    async def kill(self) -> None:
        """Kill the process if it still runs."""
        if self._process is not None:
            await self._process.kill()

    def last_lines(self) -> str:
        """Return the end of its log."""
        return "" if self._process is None else self._process.last_lines()


def main() -> None:
    """Run the brokers until standard input ends."""
    commands = Commands()
    owner, ready = start_brokers()
    send(ready)
    commands.ended.wait()
    del owner


if __name__ == "__main__":
    main()
