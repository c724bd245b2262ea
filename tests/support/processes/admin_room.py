"""The engine, the event loop and an admin server on real sockets, as in the application, without listeners.

`link()` connects a client and a broker through the event loop; `http()` returns a client of one of the admin's
listeners.
"""

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import trio
from starlette.types import ASGIApp

from bench.harness.ports import free_ports
from policies import registry
from policies.chain import Chain
from policies.registry import PolicyEntry
from proxy.admin.dashboard import DashboardFiles
from proxy.admin.health import Probes
from proxy.admin.live_state import LiveState
from proxy.admin.routes import Routes
from proxy.admin.server import app_of, serve
from proxy.admin.service import AdminService
from proxy.admin.sse import EventStreams
from proxy.config import Config
from proxy.config.sections import ListenSettings
from proxy.config.telemetry import AdminSettings
from proxy.config.upstream import UpstreamSettings
from proxy.core.engine import Engine
from proxy.core.errors import CloseReason
from proxy.core.session.engine_options import EngineOptions
from proxy.core.session.session import Session
from proxy.core.topology import Topology
from proxy.policy_host.services import PolicyServices
from proxy.reload import Reloader
from proxy.shell.clock import Clock
from proxy.shell.driver import drive
from proxy.shell.event_loop import EventLoop
from proxy.shell.transport import PlainTransport
from proxy.telemetry import log
from proxy.telemetry.broadcast import Broadcast
from proxy.telemetry.log import LogObserver
from proxy.telemetry.monitoring import Monitoring
from tests.support.core.sessions import Watcher
from tests.support.shell.sockets import tcp_pair

TOKEN = "a-token-of-some-length"  # noqa: S105 - a test's own


def config_of(**sections: Any) -> Config:
    """Return a valid configuration with these sections."""
    usual = {
        "upstream": UpstreamSettings(bootstrap_servers=("kafka:9092",)),
        "listen": ListenSettings(nodes="0-3"),
    }
    return Config(**{**usual, **sections})


class AdminRoom:
    """An engine with an admin server.

    `settings` is the configuration that the next reload reads, as soon as `may_load` is set.
    """

    def __init__(self, config: Config) -> None:
        self.settings: Config | Exception = config
        self.may_load = threading.Event()
        self.may_load.set()
        self.clock = Clock()
        self.watcher = Watcher()
        services = PolicyServices()
        self.log = LogObserver(self.clock, services.call_at)
        monitoring = Monitoring(config, self.clock)
        self.metrics, self.principals = monitoring.metrics, monitoring.principals
        self.loop_lag = monitoring.loop_lag
        listeners = (self.watcher, self.log, *monitoring.observers())
        observer = Broadcast(listeners)
        nodes = config.listen.node_addresses()
        topology = Topology("127.0.0.1", config.listen.port, nodes, observer)
        chain = Chain(registry.build(config.policies, services), observer)
        self.engine = Engine(
            topology, chain, observer, EngineOptions(keeps_traces=True), now_ms=self.clock()
        )
        services.attach(self.engine)
        self.event_loop = EventLoop(self.engine, self.clock)
        self.reloader = Reloader(
            config,
            self._load,
            self.engine,
            services,
            observer,
            self._dynamic_settings(),
            self.clock,
        )
        signals = monitoring.signals
        signals.attach(self.engine)
        monitoring.history.attach(
            self.engine, self.loop_lag.p99_ms, lambda: signals.errors_in_second
        )
        self.drained = False
        self.full = False
        self.service = AdminService(
            self.engine,
            self.event_loop,
            self.clock,
            self.reloader,
            [(None, config.listen.port), *config.listen.node_ports().items()],
            log_observer=self.log,
            monitoring=monitoring,
            drain=self._drain,
            is_draining=lambda: self.drained,
            is_full=lambda: self.full,
        )
        self.metrics.attach(self.engine, self.service)
        self.admin = config.admin
        self._far: list[socket.socket] = []

    # -- the room --------------------------------------------------------------------------------

    def link(self, node_id: int | None = None) -> tuple[socket.socket, socket.socket, Session]:
        """Connect a client and a broker through the event loop."""
        client, near_client = tcp_pair()
        broker, near_broker = tcp_pair()
        session = self.engine.connect("127.0.0.1", client.getsockname()[1], node_id)
        assert session is not None
        self.event_loop.attach(session, PlainTransport(near_client), PlainTransport(near_broker))
        self._far += [client, broker]
        return client, broker, session

    def http(self, way: str = "socket", **headers: str) -> httpx.AsyncClient:
        """Return a client of one listener: socket, control (with the token) or listen."""
        if way == "socket":
            transport = httpx.AsyncHTTPTransport(uds=self.admin.socket)
            return httpx.AsyncClient(
                transport=transport, base_url="http://localhost", headers=headers, timeout=60
            )
        if way == "control":
            headers = {"authorization": f"Bearer {TOKEN}", **headers}
        where = getattr(self.admin, way)
        return httpx.AsyncClient(base_url=f"http://{where}", headers=headers, timeout=60)

    def close(self) -> None:
        self.event_loop.close_all(CloseReason.INTERNAL)
        self.event_loop.close()
        for each in self._far:
            each.close()

    def _load(self) -> Config:
        assert self.may_load.wait(60)
        if isinstance(self.settings, Exception):
            raise self.settings
        return self.settings

    def _drain(self) -> None:
        self.drained = True

    def _dynamic_settings(self) -> dict[str, Callable[[Config], None]]:
        return {"log.level": lambda config: log.set_level(config.log.level)}


@asynccontextmanager
async def opened(
    directory: Path, *, admin: dict[str, Any] | None = None, **sections: Any
) -> AsyncIterator[AdminRoom]:
    """Open a room whose admin server listens in all three ways."""
    token = directory / "token"
    token.write_text(TOKEN + "\n")
    ports = [free_ports() for _ in range(2)]
    settings = AdminSettings(
        **{
            "listen": f"127.0.0.1:{ports[0]}",
            "socket": str(directory / "admin.sock"),
            "control": f"127.0.0.1:{ports[1]}",
            "token_file": str(token),
            "trace_url": "http://traces/{trace_id}",
            **(admin or {}),
        }
    )
    room = AdminRoom(config_of(admin=settings, **sections))
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive, room.event_loop, room.engine, room.clock)
            await nursery.start(serve, settings, room.service, room.loop_lag)
            yield room
            nursery.cancel_scope.cancel()
    finally:
        room.close()


def everything(room: AdminRoom) -> ASGIApp:
    """Return the application below the middleware of socket and control, without a listener."""
    live = LiveState(room.service, room.loop_lag, "http://traces/{trace_id}")
    routes = Routes(room.service, live, EventStreams(live))
    return app_of([*Probes(room.service).routes(), *routes.routes(), *DashboardFiles().routes()])


@contextmanager
def roomy(**sections: Any) -> Iterator[AdminRoom]:
    """Open a room without a server and without a driver: the test steps the event loop."""
    room = AdminRoom(config_of(**sections))
    try:
        yield room
    finally:
        room.close()


def quota_entry(**config: Any) -> PolicyEntry:
    """Return a quota policy's entry: Alice's quota, or the given config."""
    quotas = {"quotas": [{"user": "alice", "request_rate": 100}], **config}
    return PolicyEntry(use="quota", config=quotas)
