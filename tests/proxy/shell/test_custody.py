"""Fresh connections are authenticated by Sluice, and a wrong password is tried rarely."""

from __future__ import annotations

import socket

import pytest
import trio

from proxy.core.auth.secret_text import Secret
from proxy.core.auth.upstream_authentication import UpstreamAuthentication
from proxy.core.errors import BrokerProtocolError, UpstreamAuthenticationError
from proxy.shell.credentials import PasswordCredentials
from proxy.shell.custody import MAX_BACKOFF_S, Custody
from proxy.shell.transport import PlainTransport
from tests.support.faults.sasl_server import SaslServer


class Counted(PasswordCredentials):
    """Credentials that count how often they were read and refused."""

    def __init__(self, mechanism: str = "PLAIN", password: str = "s3cret") -> None:  # noqa: S107 - no secret
        super().__init__(mechanism, "sluice", lambda: Secret(password))
        self.refused = 0

    def on_refused(self) -> None:
        self.refused += 1


class Settled:
    """Counts what a custody tells the event loop, and keeps the faults it reports."""

    def __init__(self) -> None:
        self.count = 0
        self.faults: list[Exception] = []

    def __call__(self) -> None:
        self.count += 1


def custody_of(credentials: PasswordCredentials, settled: Settled | None = None) -> Custody:
    """Return the custody under test."""
    settled = settled or Settled()
    return Custody(credentials, settled, settled.faults.append)


async def authenticate(custody: Custody, server: SaslServer) -> int:
    """Authenticate one connection and close it; return its lifetime."""
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    broker = PlainTransport(socket.socket(fileno=stream.socket.detach()))
    try:
        return await custody.authenticate(broker, server.address)
    finally:
        broker.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_connection_is_authenticated(nursery: trio.Nursery, mechanism: str) -> None:
    """The lifetime is the broker's."""
    server = SaslServer(lifetime_ms=3_600_000)
    await nursery.start(server.serve)
    assert await authenticate(custody_of(Counted(mechanism)), server) == 3_600_000
    assert server.brokers[0].authenticated == 1


async def test_a_wrong_password_is_tried_once_however_many_connect(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    """The first connection tries; the others fail with its result, and so do later ones until the pause is over."""
    server = SaslServer(password="another")  # noqa: S106 - no secret
    await nursery.start(server.serve)
    credentials = Counted()
    custody = custody_of(credentials)
    errors: list[str] = []

    async def client() -> None:
        try:
            await authenticate(custody, server)
        except UpstreamAuthenticationError as error:
            errors.append(str(error))

    tries = []
    for second in range(200):
        async with trio.open_nursery() as clients:
            for _ in range(20 if not second else 2):
                clients.start_soon(client)
        if server.attempts > len(tries):
            assert server.attempts == len(tries) + 1
            tries.append(second)
        mock_clock.jump(1)
    assert tries == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    assert tries[-1] - tries[-2] == MAX_BACKOFF_S
    assert credentials.refused == len(tries)
    assert len(errors) == 20 + 2 * 199
    assert not any("s3cret" in error for error in errors)
    assert any("not tried again for 1.0 s: the broker refused the PLAIN" in e for e in errors)


async def test_a_right_password_is_tried_by_all_at_once_after_the_first(
    nursery: trio.Nursery,
) -> None:
    """A refusal that is over is forgotten with the first success."""
    server = SaslServer()
    await nursery.start(server.serve)
    custody = custody_of(Counted("SCRAM-SHA-256"))
    async with trio.open_nursery() as clients:
        for _ in range(30):
            clients.start_soon(authenticate, custody, server)
    assert sum(broker.authenticated for broker in server.brokers) == 30


async def test_one_broker_that_refuses_does_not_block_another(nursery: trio.Nursery) -> None:
    """The pause is that of one address."""
    bad, good = SaslServer(password="another"), SaslServer()  # noqa: S106 - no secret
    await nursery.start(bad.serve)
    await nursery.start(good.serve)
    custody = custody_of(Counted())
    with pytest.raises(UpstreamAuthenticationError):
        await authenticate(custody, bad)
    assert await authenticate(custody, good) == 0


@pytest.mark.parametrize("reply", range(2))
async def test_a_lie_or_a_lost_connection_is_no_refusal(nursery: trio.Nursery, reply: int) -> None:
    """The next connection tries at once: the credentials were not judged."""
    server = SaslServer(lies={reply: b"\0\0\0\x09HTTP/1.1 "})
    await nursery.start(server.serve)
    custody = custody_of(Counted())
    for _ in range(2):
        with pytest.raises(BrokerProtocolError):
            await authenticate(custody, server)
    server.lies = {}
    await authenticate(custody, server)


async def test_a_broker_that_closes_is_an_os_error(nursery: trio.Nursery) -> None:
    """It is reported as a lost connection."""

    async def close(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.aclose()

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, close, listeners)
    server = SaslServer(port=listeners[0].socket.getsockname()[1])
    with pytest.raises(ConnectionError, match="during the authentication"):
        await authenticate(custody_of(Counted()), server)


async def prepared(custody: Custody, address: str) -> UpstreamAuthentication | str:
    """Return what a session gets for its renewal."""
    found: list[UpstreamAuthentication | str] = []
    done = trio.Event()

    def ready(each: UpstreamAuthentication | str) -> None:
        found.append(each)
        done.set()

    custody.prepare(address, ready)
    await done.wait()
    return found[0]


async def test_a_renewal_gets_credentials_unless_they_were_refused(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    """After the refusal of one session the others wait, as new connections do. The event loop is told."""
    settled = Settled()
    custody = custody_of(Counted(), settled)
    await nursery.start(custody.serve)
    assert isinstance(await prepared(custody, "b:1"), UpstreamAuthentication)
    assert settled.count >= 1
    custody.on_refused("b:1", "refused")
    assert await prepared(custody, "b:1") == "not tried again for 1.0 s: refused"
    assert isinstance(await prepared(custody, "b:2"), UpstreamAuthentication)
    mock_clock.jump(1)
    assert isinstance(await prepared(custody, "b:1"), UpstreamAuthentication)


async def test_work_is_done_in_a_thread_and_a_fault_of_a_session_is_reported(
    nursery: trio.Nursery,
) -> None:
    """The session is told in the task of the event loop; the custody serves the next renewal."""
    custody = custody_of(Counted())
    await nursery.start(custody.serve)
    threads: list[bool] = []
    done = trio.Event()
    custody.work(lambda: threads.append(_in_trio()), done.set)
    await done.wait()
    assert threads == [False]

    settled = Settled()
    custody = custody_of(Counted(), settled)
    await nursery.start(custody.serve)

    def fail(_: object) -> None:
        raise ZeroDivisionError

    custody.prepare("b:1", fail)
    await prepared(custody, "b:1")
    with trio.fail_after(10):
        while not settled.faults:  # a thread prepares each, so the second may be ready first
            await prepared(custody, "b:1")
    assert [type(fault) for fault in settled.faults] == [ZeroDivisionError]


def _in_trio() -> bool:
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True
