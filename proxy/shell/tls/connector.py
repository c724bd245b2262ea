"""The TLS of connections to brokers: their names are verified, and sessions are resumed for each address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.openssl.certificate import subject_of

if TYPE_CHECKING:
    import socket
    import ssl

    from proxy.shell.tls.handshakes import Handshakes
    from proxy.shell.tls.tls_transport import TlsTransport

MAX_ADDRESSES = 1024
"""How many addresses have a session to resume; brokers choose them."""


class TlsConnector:
    """Makes handshakes with brokers. `server_name`: expected in certificates instead of the host that is dialled."""

    def __init__(
        self, context: ssl.SSLContext, handshakes: Handshakes, server_name: str | None = None
    ) -> None:
        self._handshakes = handshakes
        self._server_name = server_name
        self._latest: dict[tuple[str, int], TlsTransport] = {}
        self._context = context

    def use(self, context: ssl.SSLContext) -> None:
        """Make the handshakes that begin from now on with this context."""
        self._context = context
        self._latest.clear()  # a session belongs to its context

    async def secure(self, connected: socket.socket, host: str, port: int) -> TlsTransport:
        """Make the handshake with the broker at host:port. Raises HandshakeError; `connected` is closed then."""
        context, latest = self._context, self._latest.get((host, port))
        broker = await self._handshakes.connect(
            connected,
            context,
            self._server_name or host,
            None if latest is None else latest.tls.session,
        )
        broker.identify(subject_of(broker.tls.getpeercert(binary_form=True) or b"") or "")
        if context is self._context and (latest or len(self._latest) < MAX_ADDRESSES):
            self._latest[host, port] = broker
        return broker
