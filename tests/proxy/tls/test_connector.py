"""Connections to brokers: names are verified, sessions are resumed for each address."""

import socket
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
import trio

from proxy.core.errors import CloseReason
from proxy.shell.clock import Clock
from proxy.shell.dial import DialError, dial, receive_some, send_all
from proxy.tls.connector import TlsConnector
from proxy.tls.contexts import client_context
from proxy.tls.handshakes import Handshakes
from tests.support.shell.sockets import DIALLED, options_set_on

NO_CHECK_TIME = ssl.VerifyFlags(0x200000)


class Echo:
    """A TLS server that sends back what it receives. `resumed`: for each connection."""

    def __init__(self, own, ca_file=None, version=ssl.TLSVersion.TLSv1_3) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.maximum_version = version
        self._context.load_cert_chain(own.cert_file, own.key_file)
        if ca_file is not None:
            self._context.load_verify_locations(ca_file)
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.resumed: list[bool] = []
        self.subjects: list[object] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            accepted.settimeout(60)
            with suppress(OSError), self._context.wrap_socket(accepted, server_side=True) as made:
                self.resumed.append(made.session_reused)
                self.subjects.append(made.getpeercert())
                while data := made.recv(1000):
                    made.sendall(data)

    def close(self) -> None:
        """Stop listening and wait for the thread."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def serve():
    """Return a function that starts a server; the test's end stops it."""
    made: list[Echo] = []

    def start(*args, **options) -> Echo:
        made.append(Echo(*args, **options))
        return made[-1]

    yield start
    for each in made:
        each.close()


async def talk(tls: TlsConnector, port: int, host: str = "localhost") -> None:
    """Connect, send and receive, close. The socket is as one without TLS."""
    broker = await dial(host, port, 5, tls)
    assert options_set_on(broker._socket) == DIALLED
    await send_all(broker, b"hello")
    assert await receive_some(broker) == b"hello"
    broker.shutdown()
    broker.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_the_second_connection_to_an_address_resumes_the_session_of_the_first(
    authority, event_loop, serve, version
):
    """A new context, as after a change of files, starts with a whole handshake."""
    server = serve(authority.issue("localhost"), version=version)
    tls = TlsConnector(client_context(str(authority.ca_file)), Handshakes(event_loop), Clock())
    for _ in range(3):
        await talk(tls, server.port)
    tls.use(client_context(str(authority.ca_file)))
    await talk(tls, server.port)
    assert server.resumed == [False, True, True, False]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_no_session_is_offered_after_the_end_of_the_brokers_certificate(
    authority, event_loop, serve, version
):
    """Its certificates are verified again then: OpenSSL looks at no date of a session that it resumes."""
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    now_ms = [int(end.timestamp() * 1000) - 1]
    server = serve(authority.issue("localhost", not_after=end, file_name="ending"), version=version)
    context = client_context(str(authority.ca_file))
    tls = TlsConnector(context, Handshakes(event_loop), lambda: now_ms[0])
    await talk(tls, server.port)
    await talk(tls, server.port)
    now_ms[0] += 1
    await talk(tls, server.port)
    assert server.resumed == [False, True, False]


async def test_a_broker_is_refused_whose_certificate_has_ended_although_its_session_is_known(
    authority, event_loop, serve
):
    """The first connection looks at no date, as if it had been made before the end."""
    past = datetime.now(UTC) - timedelta(days=1)
    server = serve(authority.issue("localhost", not_after=past, file_name="ended"))
    context = client_context(str(authority.ca_file))
    context.verify_flags |= NO_CHECK_TIME
    tls = TlsConnector(context, Handshakes(event_loop), Clock())
    await talk(tls, server.port)
    context.verify_flags &= ~NO_CHECK_TIME
    with pytest.raises(DialError, match="certificate has expired"):
        await dial("localhost", server.port, 5, tls)
    assert server.resumed == [False]


async def test_a_broker_is_refused_whose_certificate_is_not_valid(authority, event_loop, serve):
    """Each cause has the reason BROKER_TLS, and a detail with the address and OpenSSL's words."""
    past = datetime.now(UTC) - timedelta(days=1)
    old = authority.issue("localhost", not_after=past, file_name="old")
    right, wrong = client_context(str(authority.ca_file)), client_context()
    for own, context, host, words in (
        (authority.issue("other.test"), right, "localhost", "Hostname mismatch"),
        (authority.issue("localhost"), right, "127.0.0.1", "IP address mismatch"),
        (authority.issue("localhost"), wrong, "localhost", "unable to get local issuer|self"),
        (old, right, "localhost", "certificate has expired"),
    ):
        server = serve(own)
        with pytest.raises(DialError, match=words) as caught:
            await dial(host, server.port, 5, TlsConnector(context, Handshakes(event_loop), Clock()))
        assert caught.value.reason is CloseReason.BROKER_TLS
        assert caught.value.detail.startswith(f"{host}:{server.port}: ")
        assert server.resumed == []


async def test_the_setting_server_name_is_expected_instead_of_the_host(
    authority, event_loop, serve
):
    """An address of a cluster behind one certificate."""
    server = serve(authority.issue("kafka.test"))
    tls = TlsConnector(
        client_context(str(authority.ca_file)), Handshakes(event_loop), Clock(), "kafka.test"
    )
    await talk(tls, server.port)


async def test_a_broker_that_wants_a_certificate_gets_sluices(authority, event_loop, serve):
    """MTLS to the broker."""
    server = serve(authority.issue("localhost"), authority.ca_file)
    own = authority.issue("sluice", common_name="sluice")
    context = client_context(str(authority.ca_file), str(own.cert_file), str(own.key_file))
    await talk(TlsConnector(context, Handshakes(event_loop), Clock()), server.port)
    assert "sluice" in str(server.subjects[0])


async def test_a_plain_broker_is_told_apart(authority, event_loop, nursery):
    """It closes, or answers what is no TLS."""

    async def plain(stream: trio.SocketStream) -> None:
        await stream.send_all(b"\0\0\0\4abcd")

    listeners = await nursery.start(trio.serve_tcp, plain, 0)
    port = listeners[0].socket.getsockname()[1]
    tls = TlsConnector(client_context(str(authority.ca_file)), Handshakes(event_loop), Clock())
    with pytest.raises(DialError, match="wrong version number"):
        await dial("localhost", port, 5, tls)
    nursery.cancel_scope.cancel()
