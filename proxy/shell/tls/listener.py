"""The TLS side of the listening ports: it tells the user of a client and the broker that it asks for.

The context is replaced when the files change; connections that are open, and handshakes that have begun, keep theirs.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple

from proxy.openssl.certificate import subject_of
from proxy.shell.transport import HandshakeError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from proxy.core.connection_limits import ConnectionLimits
    from proxy.shell.tls.handshakes import Handshakes
    from proxy.shell.tls.server_names import ServerNames
    from proxy.shell.tls.tls_transport import TlsTransport


class SecureClient(NamedTuple):
    """A client after its handshake. `node_id`: from the server name. `user`: from its certificate, "" without one."""

    transport: TlsTransport
    node_id: int | None
    user: str


class _Accepted(ssl.SSLObject):
    """A client's connection. `server_name` is the name that it asked for."""

    server_name: str | None = None


class TlsListener:
    """Makes the handshakes of clients. `names`: None if the port selects the broker.

    `user_of` returns the user of a subject, None if no rule matches.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        handshakes: Handshakes,
        user_of: Callable[[str], str | None],
        names: ServerNames | None = None,
    ) -> None:
        self._handshakes = handshakes
        self._user_of = user_of
        self._names = names
        self.use(context)

    def use(self, context: ssl.SSLContext) -> None:
        """Make the handshakes that begin from now on with this context."""
        context.sslobject_class = _Accepted
        if self._names is not None:
            context.sni_callback = self._on_server_name
        self._context = context

    def limit(self, limits: ConnectionLimits) -> None:
        """Set how many clients make their handshakes at once, and their time."""
        self._handshakes.limit(limits.max_tls_handshakes, limits.tls_handshake_timeout_ms / 1000)

    async def secure(
        self, accepted: socket.socket, node_id: int | None, address: str
    ) -> SecureClient:
        """Make the handshake of a client of the port of `node_id`. Raises HandshakeError; `accepted` is closed then.

        `address` is what the client counts as (`connection_limits.address_of`).
        """
        secured = await self._handshakes.accept(accepted, self._context, address)
        try:
            tls = secured.tls
            if self._names is not None and isinstance(tls, _Accepted):
                node_id = self._names.node_of(tls.server_name or "")
            subject, user = self._identify(tls.getpeercert(binary_form=True))
            secured.identify(subject)
        except BaseException:
            secured.close()
            raise
        return SecureClient(secured, node_id, user)

    def _identify(self, certificate: bytes | None) -> tuple[str, str]:
        """Return the subject and the user of a certificate; both "" without one. Raises HandshakeError."""
        if certificate is None:
            return "", ""
        subject = subject_of(certificate)
        user = None if subject is None else self._user_of(subject)
        if subject is None or user is None:
            raise HandshakeError(f"no principal mapping rule gives the subject {subject!r} a user")
        return subject, user

    def _on_server_name(
        self, secured: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext
    ) -> int | None:
        if self._names is None or not self._names.knows(name) or not isinstance(secured, _Accepted):
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        secured.server_name = name
        return None
