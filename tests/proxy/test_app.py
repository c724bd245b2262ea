"""The whole proxy in one process between plain sockets, from bound ports to a clean exit."""

import signal
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import httpx
import pytest
import structlog
import trio
import trio.testing

from bench.harness.ports import free_ports
from policies.api import Peer, Policy, Reject
from policies.registry import PolicyEntry
from proxy import app
from proxy.admin import default_socket
from proxy.app import App
from proxy.config import Config
from proxy.config.sections import DrainSettings, ListenSettings, PurgatorySettings
from proxy.config.telemetry import AdminSettings
from proxy.config.upstream import UpstreamSettings
from proxy.core.session.grace_times import GraceTimes
from tests.support.messages import frames as f


class EchoBroker:
    """Answers every Heartbeat and Metadata; other requests wait until the test says so."""

    def __init__(self) -> None:
        self.port = 0
        self.answer = trio.Event()
        self.seen: list[bytes] = []

    async def serve(self, task_status=trio.TASK_STATUS_IGNORED) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        await trio.serve_listeners(self._one, listeners, task_status=task_status)

    async def _one(self, stream: trio.SocketStream) -> None:
        async with stream:
            data = b""
            async for chunk in stream:
                data += chunk
                while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
                    size = 4 + int.from_bytes(data[:4], "big")
                    asked, data = data[:size], data[size:]
                    self.seen.append(asked)
                    key = int.from_bytes(asked[4:6], "big")
                    ident = int.from_bytes(asked[8:12], "big")
                    if key == f.METADATA:
                        brokers = [(1, "127.0.0.1", self.port)]
                        await stream.send_all(f.metadata_reply(ident, brokers))
                    elif key == f.HEARTBEAT:
                        await stream.send_all(f.heartbeat_reply(ident))
                    else:
                        await self.answer.wait()
                        await stream.send_all(f.produce_reply(ident))


@pytest.fixture(autouse=True)
def fresh_logging():
    """Configure the log for each test, so that no test writes to a captured stderr that is closed."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()


def forbids(api: str) -> PolicyEntry:
    return PolicyEntry(use="limits", config={"forbidden_apis": [api]})


class RefusesAtConnect(Policy):
    """Refuses every client before a byte is read."""

    Config = dict[str, object]

    def on_connect(self, _peer: Peer, _now_ms: int) -> Reject:
        return Reject(1)


class Proxies:
    """Proxies before one broker: `start` starts one, `port` is its first port, `codes` has its exit code."""

    def __init__(self, nursery: trio.Nursery, broker: EchoBroker) -> None:
        self.broker = broker
        self.port = free_ports(count=3)
        self.codes: list[int] = []
        self._nursery = nursery

    async def start(self, load: Callable[[], Config] | None = None, **sections: object) -> App:
        """Start one with these settings and wait until it serves."""
        app = App(self.config(**sections), load=load)
        self._nursery.start_soon(self._run, app)
        await trio.testing.wait_all_tasks_blocked()
        return app

    def config(self, **sections: object) -> Config:
        settings = {
            "upstream": UpstreamSettings(bootstrap_servers=(f"127.0.0.1:{self.broker.port}",)),
            "listen": ListenSettings(port=self.port, nodes="0-1"),
            "drain": DrainSettings(timeout_ms=1_000),
            "policies": (forbids("DeleteTopics"),),
        }
        return Config(**settings | sections)  # type: ignore[arg-type] # the test's own settings

    async def _run(self, app: App) -> None:
        self.codes.append(await app.run())

    async def end(self) -> None:
        """Wait until the proxy has ended with exit code 0."""
        with trio.fail_after(60):
            while not self.codes:
                await trio.lowlevel.checkpoint()
        assert self.codes == [0]


@pytest.fixture
async def proxies(nursery) -> AsyncIterator[Proxies]:
    broker = EchoBroker()
    await nursery.start(broker.serve)
    yield Proxies(nursery, broker)
    nursery.cancel_scope.cancel()


async def ask(stream: trio.SocketStream, request: bytes, size: int) -> bytes:
    await stream.send_all(request)
    data = b""
    while len(data) < size:
        chunk = await stream.receive_some()
        assert chunk, "closed instead of answering"
        data += chunk
    return data


async def test_requests_pass_and_sigterm_ends_the_proxy_with_exit_code_0(proxies):
    """Bootstrap and node ports work, metadata is rewritten, and the drain answers requests in flight."""
    await proxies.start()
    broker, port = proxies.broker, proxies.port
    first = await trio.open_tcp_stream("127.0.0.1", port)
    expected = f.metadata_reply(1, [(1, "127.0.0.1", port + 2)])
    assert await ask(first, f.metadata_request(1), len(expected)) == expected
    node = await trio.open_tcp_stream("127.0.0.1", port + 2)
    assert await ask(node, f.heartbeat(2), 10) == f.heartbeat_reply(2)
    await node.send_all(f.produce(3))
    while not any(each == f.produce(3) for each in broker.seen):
        await trio.lowlevel.checkpoint()
    signal.raise_signal(signal.SIGTERM)
    assert await first.receive_some() == b""
    with pytest.raises(OSError, match="all attempts to connect"):
        await trio.open_tcp_stream("127.0.0.1", port)
    broker.answer.set()
    assert await node.receive_some() == f.produce_reply(3)
    assert await node.receive_some() == b""
    await first.aclose()
    await node.aclose()
    await proxies.end()


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """Set a folder of this test for default admin sockets."""
    monkeypatch.setattr(default_socket, "ROOT_FOLDER", tmp_path / "none" / "sluice")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    return tmp_path / "sluice"


async def state_of(path: str) -> dict:
    """Return the state that `sluice top` reads."""
    transport = httpx.AsyncHTTPTransport(uds=path)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as monitoring:
        return (await monitoring.get("/v1/state", timeout=60)).json()


async def test_the_first_client_of_the_default_socket_starts_the_admin_server(proxies, runtime):
    """Nothing is recorded before; the first state has the connections, later ones have decisions."""
    await proxies.start()
    port = proxies.port
    client = await trio.open_tcp_stream("127.0.0.1", port)
    assert await ask(client, f.heartbeat(2), 10) == f.heartbeat_reply(2)
    path = str(runtime / f"{port}.sock")
    assert default_socket.find({"XDG_RUNTIME_DIR": str(runtime.parent)}, port) == [path]
    first = await state_of(path)
    assert first["now"]["connections"] == 1
    assert [row["age_s"] for row in first["connections"]] == [None]
    other = await trio.open_tcp_stream("127.0.0.1", port)
    body = b"\x00\x00\x00\x01" + f.string("t") + b"\x00\x00\x00\x64"
    await other.send_all(f.request(f.DELETE_TOPICS, 1, 4, body))  # the policy limits refuses it
    assert await other.receive_some()
    with trio.fail_after(60):
        while not (seen := await state_of(path))["decisions"]:  # a state is kept for a second
            await trio.lowlevel.checkpoint()
    assert seen["decisions"][0]["what"] == "refused"
    await client.aclose()
    await other.aclose()


async def test_without_a_client_of_the_default_socket_nothing_is_recorded(proxies, runtime):
    """The socket exists and the observers do not; the exit removes the socket."""
    proxy = await proxies.start()
    port = proxies.port
    assert (runtime / f"{port}.sock").is_socket()
    for _ in range(3):
        assert default_socket.find(
            {"XDG_RUNTIME_DIR": str(runtime.parent)}, port
        )  # it does not connect as a client
        await trio.testing.wait_all_tasks_blocked()
    assert proxy._telemetry.monitoring is None
    assert not proxy._engine.keeps_traces
    signal.raise_signal(signal.SIGTERM)
    await proxies.end()
    assert not (runtime / f"{port}.sock").exists()


@pytest.mark.parametrize("how", ["none", "no folder"])
async def test_a_proxy_without_a_default_socket_serves_its_clients(
    proxies, runtime, monkeypatch, how
):
    """It is switched off, or no folder for it exists."""
    admin = AdminSettings(socket="none") if how == "none" else AdminSettings()
    if how != "none":
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime / "none"))
    with structlog.testing.capture_logs() as lines:
        await proxies.start(admin=admin)
    client = await trio.open_tcp_stream("127.0.0.1", proxies.port)
    assert await ask(client, f.heartbeat(2), 10) == f.heartbeat_reply(2)
    assert not runtime.exists()
    told = [line for line in lines if line["event"] == "admin_socket_unavailable"]
    assert [line["hint"] for line in told] == ["set admin.socket to a path, or to none"] * (
        how != "none"
    )
    await client.aclose()


async def test_a_default_socket_is_served_beside_an_address(proxies, runtime):
    """It is served from the start, because the web server runs anyway."""
    await proxies.start(admin=AdminSettings(listen=f"127.0.0.1:{free_ports()}"))
    socket_path = runtime / f"{proxies.port}.sock"
    with trio.fail_after(60):
        while not socket_path.exists():
            await trio.lowlevel.checkpoint()
    assert (await state_of(str(socket_path)))["now"]["connections"] == 0


async def test_a_second_signal_ends_the_proxy_at_once(proxies):
    """It does not wait for requests in flight."""
    await proxies.start(drain=DrainSettings(timeout_ms=600_000))
    client = await trio.open_tcp_stream("127.0.0.1", proxies.port)
    await client.send_all(f.produce(3))
    while not proxies.broker.seen:
        await trio.lowlevel.checkpoint()
    signal.raise_signal(signal.SIGTERM)
    await trio.testing.wait_all_tasks_blocked()
    assert not proxies.codes
    signal.raise_signal(signal.SIGTERM)
    await proxies.end()
    await client.aclose()


async def test_a_policy_of_the_configuration_judges_requests(proxies):
    """`limits` refuses in the API's own format; the broker does not get the request."""
    await proxies.start()
    client = await trio.open_tcp_stream("127.0.0.1", proxies.port)
    body = b"\x00\x00\x00\x01" + f.string("t") + b"\x00\x00\x00\x64"
    refused = struct.pack(">ii", 0, 1) + f.string("t") + struct.pack(">h", 44)  # POLICY_VIOLATION
    expected = f.reply(4, refused)
    assert await ask(client, f.request(f.DELETE_TOPICS, 1, 4, body), len(expected)) == expected
    assert proxies.broker.seen == []
    await client.aclose()


async def test_a_client_is_closed_without_a_reply_when_its_broker_refuses(proxies):
    """Sluice answers nothing in the broker's place."""
    await proxies.start(upstream=UpstreamSettings(bootstrap_servers=(f"127.0.0.1:{free_ports()}",)))
    client = await trio.open_tcp_stream("127.0.0.1", proxies.port)
    await client.send_all(f.produce(3))  # no broker is dialled for a client that sent nothing
    with suppress(trio.BrokenResourceError):  # a reset is a closed connection too
        assert await client.receive_some() == b""
    await client.aclose()


def test_a_port_in_use_ends_the_start_with_exit_code_1(capfd, monkeypatch):
    """The error names the port; no client is accepted."""
    monkeypatch.setattr(app.uncaught, "install", lambda: None)  # of the process of the tests
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = Config(
            upstream=UpstreamSettings(bootstrap_servers=("127.0.0.1:1",)),
            listen=ListenSettings(port=port, nodes="0"),
        )
        assert app.run(config) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in capfd.readouterr().err


async def test_a_client_refused_at_connect_is_closed(proxies):
    """`on_connect` may refuse it before a byte is read."""
    await proxies.start(policies=(PolicyEntry(use=f"{__name__}:RefusesAtConnect", name="refuses"),))
    client = await trio.open_tcp_stream("127.0.0.1", proxies.port)
    assert await client.receive_some() == b""
    await client.aclose()


def test_the_grace_times_are_those_of_the_settings():
    """The engine gets each value of the section `purgatory`."""
    config = Config(
        upstream=UpstreamSettings(bootstrap_servers=("127.0.0.1:1",)),
        purgatory=PurgatorySettings(
            produce_grace_ms=-7,
            fetch_grace_ms=8,
            max_wait_ms=9,
            silence_ms=11,
        ),
    )
    engine = App(config)._engine
    assert engine.graces == GraceTimes(-7, 8, 9, 11)


async def test_a_sighup_during_a_reload_causes_another_reload(proxies):
    """The file may have changed after it was read. A reload does not delay a drain."""
    config, reads, second = proxies.config(), [], threading.Event()

    def load() -> Config:
        reads.append(len(reads))
        if len(reads) == 1:
            second.wait(60)
        return config

    await proxies.start(load)
    signal.raise_signal(signal.SIGHUP)
    while not reads:
        await trio.lowlevel.checkpoint()
    for _ in range(3):
        signal.raise_signal(signal.SIGHUP)
        await trio.testing.wait_all_tasks_blocked()
    second.set()
    with trio.fail_after(60):
        while len(reads) < 2:
            await trio.lowlevel.checkpoint()
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGHUP)
    await proxies.end()
    assert len(reads) <= 3  # signals that come together cause one reload
