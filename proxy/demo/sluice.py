"""Sluice as the demo starts it: `sluice run` with a short file, one port a broker.

Rules:
- It is started as a stranger would start it, by its command line, and known only from outside.
- It starts without a quota; quotas are set and removed while it runs, as `sluice quotas` does it.
- Its ports are a free block, looked for just before; a port taken in between ends the demo. The last one is the
  dashboard's.
"""

from __future__ import annotations

import errno
import random
import signal
import socket
from typing import TYPE_CHECKING, Protocol

import trio

from policies.quota.entity import REQUEST_RATE, QuotaEntity
from proxy.cli.errors import RefusedError, UnreachableError
from proxy.cli.kafka_client import Connection
from proxy.cli.kafka_quotas import KafkaQuotas
from proxy.demo.dashboard import Dashboard
from proxy.demo.process import Child, StageError

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.demo.dashboard import Seen
    from proxy.demo.messages import Brokers

HOST = "127.0.0.1"
NODES = 10
"""Node ids 0 to 9; the embedded cluster uses 1 to 3."""
PATIENCE_S = 15.0
SETTINGS = """\
identity: {{user: demo}}      # who all clients here are: the cluster has no SASL
policies:
  - use: quota
    config: {{admins: [demo]}}
admin: {{control: '{control}', token_file: '{token_file}'}}
"""


class Front(Protocol):
    """What the clients are pointed at."""

    bootstrap_port: int
    advertised: Brokers
    """Where clients should be told that each broker is."""
    pid: int | None
    dashboard: str
    """Where a browser sees it at work; empty: nowhere."""

    async def start(self, nursery: trio.Nursery, brokers: Brokers) -> None:
        """Return when it accepts connections."""

    async def limit(self, client_id: str, requests_per_s: float | None) -> None:
        """Give a client id a quota, or take it away. Raises StageError when that is refused."""

    async def maybe_seen(self) -> Seen | None:
        """Ask it what it saw; None when it does not tell."""

    async def stop(self) -> int | None:
        """Ask it to end; return its exit code."""

    async def kill(self) -> None:
        """End it, whatever it does."""

    def last_lines(self) -> str:
        """Return the end of its log."""


def free_block(size: int, attempts: int = 100) -> int:
    """Return the first of `size` neighbouring ports that are free now on 127.0.0.1.

    Raises StageError when none was found.
    """
    for _ in range(attempts):
        first = random.randrange(20_000, 32_000)  # noqa: S311 - below the kernel's own range, no secret
        if all(_is_free(port) for port in range(first, first + size)):
            return first
    raise StageError(f"no {size} neighbouring ports are free")


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
    """The process under demonstration."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: Child | None = None
        self._admin: Connection | None = None
        self._view: Dashboard | None = None
        self.bootstrap_port = 0
        self.advertised: Brokers = {}
        self.pid: int | None = None
        self.dashboard = ""

    async def start(self, nursery: trio.Nursery, brokers: Brokers) -> None:
        """Start it before the cluster and wait until it accepts."""
        port = free_block(1 + NODES + 1)
        upstream = ",".join(brokers.values())
        view = self._view = Dashboard(HOST, port + 1 + NODES, self._folder)
        file = self._folder / "sluice.yaml"
        settings = SETTINGS.format(control=view.listens_at, token_file=view.token_file)
        file.write_text(settings, "utf-8")
        options = [
            *("--config", str(file)),
            *("--upstream", upstream),
            *("--listen", f"{HOST}:{port}"),
            *("--nodes", f"0-{NODES - 1}"),
        ]
        self._child = Child("sluice", ["proxy", "run", *options], self._folder, speaks=False)
        await self._child.start(nursery)
        self.pid = self._child.process.pid
        self.bootstrap_port = port
        # Node n listens on the bootstrap port + 1 + n's place in the range, which starts at 0.
        self.advertised = {node: f"{HOST}:{port + 1 + node}" for node in brokers}
        await self._until_accepting(self._child)
        await self._until_looking(self._child, view)

    async def _until_accepting(self, child: Child) -> None:
        with trio.move_on_after(PATIENCE_S):
            while child.process.poll() is None:
                try:
                    stream = await trio.open_tcp_stream(HOST, self.bootstrap_port)
                except OSError:
                    await trio.sleep(0.02)
                else:
                    await stream.aclose()
                    return
        raise StageError("Sluice does not accept connections")

    async def _until_looking(self, child: Child, view: Dashboard) -> None:
        """It opens its dashboard a little after its ports."""
        with trio.move_on_after(PATIENCE_S):
            while child.process.poll() is None:
                if await self.maybe_seen() is not None:
                    self.dashboard = view.address
                    return
                await trio.sleep(0.05)
        raise StageError("Sluice does not open its dashboard")

    async def maybe_seen(self) -> Seen | None:
        """Ask its admin server."""
        return None if self._view is None else await trio.to_thread.run_sync(self._view.maybe_seen)

    async def limit(self, client_id: str, requests_per_s: float | None) -> None:
        """Ask it over the Kafka protocol, on a connection that is kept."""
        await trio.to_thread.run_sync(self._alter, client_id, requests_per_s)

    def _alter(self, client_id: str, requests_per_s: float | None) -> None:
        try:
            if self._admin is None:
                self._admin = Connection(f"{HOST}:{self.bootstrap_port}", login=None)
            entity = QuotaEntity(user=None, client_id=client_id)
            KafkaQuotas(self._admin).alter(entity, {REQUEST_RATE: requests_per_s})
        except (UnreachableError, RefusedError) as error:
            raise StageError(f"the quota could not be changed: {error}") from error

    async def stop(self) -> int | None:
        """Send SIGTERM and return the exit code; None when it does not end."""
        self._hang_up()
        if self._child is None:
            return None
        process = self._child.process
        process.send_signal(signal.SIGTERM)
        with trio.move_on_after(PATIENCE_S):
            return await process.wait()
        return None

    async def kill(self) -> None:
        """End it, whatever it does."""
        self._hang_up()
        if self._child is not None:
            await self._child.kill()

    def _hang_up(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def last_lines(self) -> str:
        """Return the end of its log."""
        return "" if self._child is None else self._child.last_lines()
