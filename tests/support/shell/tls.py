"""TLS connections through the event loop, with certificates of a test's own authority."""

import select
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Self

from proxy.core.session.session import Session
from proxy.tls.contexts import client_context, server_context
from proxy.tls.transport import ShakeState, TlsTransport
from tests.support.messages import frames as f
from tests.support.shell.certificates import Authority
from tests.support.shell.sockets import Bench, tcp_pair


@dataclass(frozen=True)
class Contexts:
    """A server's context for `localhost` and a client's that trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext

    @classmethod
    def make(cls, directory: Path, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Self:
        """Return contexts that agree on `version`."""
        authority = Authority(directory)
        own = authority.issue("localhost")
        server = server_context(str(own.cert_file), str(own.key_file))
        client = client_context(str(authority.ca_file))
        client.maximum_version = version
        return cls(server, client)

    def pair(
        self,
        *,
        near_is_server: bool = True,
        pair: tuple[socket.socket, socket.socket] | None = None,
    ) -> tuple[ssl.SSLSocket, TlsTransport]:
        """Return a blocking far end, and a transport that is the server or the client of the same connection."""
        far, near = pair or tcp_pair()
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made: list[ssl.SSLSocket] = []

        def shake() -> None:
            made.append(self._wrap(far, is_server=not near_is_server))

        thread = threading.Thread(target=shake)
        thread.start()
        context = self.server if near_is_server else self.client
        name = None if near_is_server else "localhost"
        transport = TlsTransport(near, context, is_server=near_is_server, server_name=name)
        while (progress := transport.shake()) is not ShakeState.DONE:
            is_readable = progress is ShakeState.READABLE
            select.select([near] * is_readable, [near] * (not is_readable), [], 5)
        thread.join()
        return made[0], transport

    def _wrap(self, sock: socket.socket, *, is_server: bool) -> ssl.SSLSocket:
        if is_server:
            return self.server.wrap_socket(sock, server_side=True)
        return self.client.wrap_socket(sock, server_hostname="localhost")


def tls_link(bench: Bench, contexts: Contexts) -> tuple[ssl.SSLSocket, ssl.SSLSocket, Session]:
    """Connect a client and a broker through the event loop, by TLS on both sides; return their far ends."""
    client, near_client = contexts.pair()
    broker, near_broker = contexts.pair(near_is_server=False)
    session = bench.engine.connect("127.0.0.1", 1, None)
    assert session is not None
    bench.event_loop.attach(session, near_client, near_broker)
    bench.far += [client, broker]
    return client, broker, session


def random_bytes(size: int) -> bytes:
    """Return bytes in which a record that is lost or sent twice shows."""
    return Random(size).randbytes(size)


def conversation(requests: int, pad: int) -> bytes:
    return b"".join(f.request(f.LIST_OFFSETS, 1, n, random_bytes(pad)) for n in range(requests))


def hello_asking_for(name: bytes) -> bytes:
    """Return a ClientHello with these bytes as the server name, which no TLS library would send."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    stand_in = ("ab." * len(name))[: len(name) - 1] + "c"
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=stand_in).do_handshake()
    hello = sent.read()
    assert hello.count(stand_in.encode()) == 1
    return hello.replace(stand_in.encode(), name)
