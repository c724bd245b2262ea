"""Handshakes are bounded: in number, in time, and in steps per pass of the event loop."""

import socket
import ssl
from contextlib import suppress
from itertools import pairwise

import pytest
import trio

from proxy.shell.dial import receive_some
from proxy.shell.transport import HandshakeError, PeerGoneError
from proxy.tls.contexts import client_context, server_context
from proxy.tls.handshakes import Handshakes
from proxy.tls.places import CLIENT_WAIT_S
from proxy.tls.transport import TlsTransport
from tests.support.shell.sockets import tcp_pair


@pytest.fixture(scope="module")
def server(authority) -> ssl.SSLContext:
    own = authority.issue("localhost")
    return server_context(str(own.cert_file), str(own.key_file))


@pytest.fixture(scope="module")
def client(authority) -> ssl.SSLContext:
    return client_context(str(authority.ca_file))


def pair() -> tuple[socket.socket, socket.socket]:
    far, near = tcp_pair()
    for each in (far, near):
        each.setblocking(False)
    return far, near


async def both(handshakes, server, client, name="localhost", address="honest"):
    """Make a handshake between two ends of a pair; return both."""
    far, near = pair()
    ends: list[TlsTransport] = []

    async def connect() -> None:
        ends.append(await handshakes.connect(far, client, name, None))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect)
        ends.append(await handshakes.accept(near, server, address))
    return ends


async def test_a_handshake_ends_in_a_connection(event_loop, server, client, mock_clock):
    """Both sides agree on version and cipher."""
    one, other = await both(Handshakes(event_loop), server, client)
    assert one.security == other.security
    assert event_loop.arriving == 0
    one.close()
    other.close()


async def test_between_two_steps_of_handshakes_the_event_loop_has_its_turn(
    event_loop, server, client, mock_clock
):
    """However many clients connect at once, one pass of the scheduler has one step at most."""
    handshakes = Handshakes(event_loop)
    steps: list[int] = []
    async with trio.open_nursery() as nursery:

        async def drive() -> None:
            while True:
                steps.append(handshakes.steps)
                await trio.lowlevel.checkpoint()

        async def one() -> None:
            for each in await both(handshakes, server, client):
                each.close()

        nursery.start_soon(drive)
        async with trio.open_nursery() as many:
            for _ in range(40):
                many.start_soon(one)
        nursery.cancel_scope.cancel()
    assert handshakes.steps >= 40 * 4
    assert max(after - before for before, after in pairwise(steps)) == 1


async def refused(handshakes: Handshakes, ours: socket.socket, server: ssl.SSLContext) -> None:
    with pytest.raises(HandshakeError):
        await handshakes.accept(ours, server, "slow")


def hello(client: ssl.SSLContext, **options: object) -> bytes:
    """Return the first bytes of a client."""
    outgoing = ssl.MemoryBIO()
    made = client.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        made.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(("limit", "expected_s"), [(2, 10), (1, CLIENT_WAIT_S)])
async def test_a_stalled_client_keeps_its_place_while_no_other_wants_it(
    event_loop, server, client, autojump_clock, limit, expected_s
):
    """With another waiting, it loses its place after CLIENT_WAIT_S in all, and the other's handshake is made."""
    handshakes = Handshakes(event_loop, None, limit, timeout_s=10)
    theirs, ours = pair()
    theirs.send(hello(client))
    started_s = trio.current_time()
    lost_s: list[float] = []

    async def stall() -> None:
        await refused(handshakes, ours, server)
        lost_s.append(trio.current_time() - started_s)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stall)
        await trio.testing.wait_all_tasks_blocked()
        ends = await both(handshakes, server, client)
    assert lost_s[0] == pytest.approx(expected_s, abs=0.1)
    for each in (*ends, theirs):
        each.close()


@pytest.mark.parametrize(("limit", "waits_s"), [(1, CLIENT_WAIT_S), (2, 0)])
async def test_a_limit_that_is_raised_lets_a_waiting_client_in_at_once(
    event_loop, server, client, autojump_clock, limit, waits_s
):
    """It need not wait until another client loses its place."""
    handshakes = Handshakes(event_loop, None, 1, timeout_s=10)
    theirs, ours = pair()
    theirs.send(hello(client))
    started_s = trio.current_time()

    async def wait() -> None:
        for each in await both(handshakes, server, client):
            each.close()
        assert trio.current_time() - started_s == pytest.approx(waits_s, abs=0.1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(refused, handshakes, ours, server)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        handshakes.limit(limit, 10)
    theirs.close()


async def test_a_limit_that_is_lowered_cuts_no_handshake_that_has_begun(
    event_loop, server, client, mock_clock
):
    """Those that wait get their places when these have ended."""
    handshakes = Handshakes(event_loop, None, 8)
    made: list[TlsTransport] = []

    async def one() -> None:
        made.extend(await both(handshakes, server, client))

    async with trio.open_nursery() as nursery:
        for _ in range(16):
            nursery.start_soon(one)
        while not handshakes.steps:
            await trio.lowlevel.checkpoint()
        handshakes.limit(1, 10)
    assert len(made) == 32
    for each in made:
        each.close()


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"GET / HTTP/1.1\r\n", "looks like HTTP"),
        (b"\x00\x00\x00\x2a\x00\x12\x00\x03", "looks like Kafka without TLS"),
        (b"\xff\xff\xff\xff", "speaks no TLS"),
        (b"\x16\x03\x01\x00\x05hello", "unexpected message|wrong|bad|unsupported|length"),
    ],
)
async def test_a_client_that_speaks_no_tls_is_refused_with_a_hint(
    event_loop, server, mock_clock, sent, words
):
    """The log tells what it seems to speak."""
    theirs, ours = pair()
    theirs.send(sent)
    theirs.settimeout(60)
    with pytest.raises(HandshakeError, match=words):
        await Handshakes(event_loop).accept(ours, server, "")
    with suppress(ConnectionResetError):
        while theirs.recv(1000):
            pass
    theirs.close()


async def test_a_client_that_says_nothing_is_refused_in_time_and_one_that_leaves_at_once(
    event_loop, server, autojump_clock
):
    """Port checks connect and leave; they are told apart."""
    theirs, ours = pair()
    with pytest.raises(HandshakeError, match="no handshake began within 10 s"):
        await Handshakes(event_loop).accept(ours, server, "")
    theirs.close()
    theirs, ours = pair()
    theirs.close()
    with pytest.raises(PeerGoneError):
        await Handshakes(event_loop).accept(ours, server, "")


@pytest.mark.parametrize(
    ("offered", "accepted"),
    [
        (["h2", "http/1.1"], False),
        (["http/1.1"], False),
        (["http/1.1", "kafka"], True),
        (["x"], True),
    ],
)
async def test_a_client_that_offers_only_protocols_of_the_web_is_refused(
    event_loop, server, authority, mock_clock, offered, accepted
):
    """A browser that was led here can do no harm (ALPACA)."""
    context = client_context(str(authority.ca_file))
    context.set_alpn_protocols(offered)
    if accepted:
        for each in await both(Handshakes(event_loop), server, context):
            each.close()
    else:
        far, near = pair()
        near.settimeout(60)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refused, Handshakes(event_loop), near, server)
            made = await Handshakes(event_loop).connect(far, context, "localhost", None)
        assert await receive_some(made) == b""
        made.close()


async def test_a_certificate_for_another_name_is_refused_by_the_client(
    event_loop, server, client, mock_clock
):
    """The error has the name."""
    with pytest.RaisesGroup(
        pytest.RaisesExc(HandshakeError, match="certificate is not valid for 'other.test'")
    ):
        await both(Handshakes(event_loop), server, client, "other.test")
