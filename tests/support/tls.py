"""TLS connections through the event loop, with certificates of a test's own authority."""

import socket
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from proxy.core.session.session import Session
from proxy.shell.tls.contexts import client_context, server_context
from proxy.shell.tls.tls_transport import TlsTransport
from tests.support.certificates import Authority
from tests.support.sockets import Bench, tcp_pair


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
        near.settimeout(5)
        for each in (far, near):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made: list[ssl.SSLSocket] = []

        def shake() -> None:
            made.append(self._wrap(far, is_server=not near_is_server))

        thread = threading.Thread(target=shake)
        thread.start()
        secured = self._wrap(near, is_server=near_is_server)
        thread.join()
        secured.setblocking(False)
        return made[0], TlsTransport(secured)

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
