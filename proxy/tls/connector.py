"""The TLS of connections to brokers: their names are verified, and sessions are resumed for each address.

OpenSSL verifies nothing of a session that it resumes. So none is offered after the broker's certificates have ended:
the handshake is whole then, and fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from proxy.tls.certificate import CertificateError, subject_of
from proxy.tls.contexts import chain_end_ms

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable

    from proxy.tls.handshakes import Handshakes
    from proxy.tls.transport import TlsTransport

MAX_ADDRESSES = 1024
"""How many addresses have a session to resume; brokers choose them."""


class _Latest(NamedTuple):
    """The last connection to an address, whose session is resumed until `ends_ms`."""

    broker: TlsTransport
    ends_ms: int


class TlsConnector:
    """Makes handshakes with brokers. `server_name`: expected in certificates instead of the host that is dialled."""

    def __init__(
        self,
        context: ssl.SSLContext,
        handshakes: Handshakes,
        now_ms: Callable[[], int],
        server_name: str | None = None,
    ) -> None:
        self._handshakes = handshakes
        self._now_ms = now_ms
        self._server_name = server_name
        self._latest: dict[tuple[str, int], _Latest] = {}
        self._context = context

    def use(self, context: ssl.SSLContext) -> None:
        """Make the handshakes that begin from now on with this context."""
        self._context = context
        self._latest.clear()  # a session belongs to its context

    async def secure(self, connected: socket.socket, host: str, port: int) -> TlsTransport:
        """See BrokerTls."""
        context, latest = self._context, self._latest.get((host, port))
        if latest is not None and latest.ends_ms <= self._now_ms():
            del self._latest[host, port]
            latest = None
        broker = await self._handshakes.connect(
            connected,
            context,
            self._server_name or host,
            None if latest is None else latest.broker.tls.session,
        )
        ends_ms = _identify(broker)
        if latest is not None and broker.tls.session_reused:
            ends_ms = min(ends_ms, latest.ends_ms)  # its chain was seen at the first handshake
        if context is self._context and (latest or len(self._latest) < MAX_ADDRESSES):
            self._latest[host, port] = _Latest(broker, ends_ms)
        return broker


def _identify(broker: TlsTransport) -> int:
    """Note the broker's subject; return when its certificates end, in ms since the epoch.

    0 for one that cannot be read: OpenSSL has accepted it, but its session is not resumed.
    """
    try:
        broker.identify(subject_of(broker.tls.getpeercert(binary_form=True) or b""))
        return chain_end_ms(broker.tls) or 0
    except CertificateError:
        return 0
