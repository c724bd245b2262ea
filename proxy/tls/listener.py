"""The TLS side of the listening ports: it tells the user of a client and the broker that it asks for.

- The context is replaced when the files change; connections that are open, and handshakes that have begun, keep theirs.
- A session is resumed only within its context. OpenSSL does not look at dates then, so they are judged here.
- A client that asks for a name that is no broker's (`peer_names`), or for none, is refused in the handshake (as
  Kroxylicious does), so that a client that has the wrong name learns it there.
- In TLS 1.2 a resumed session keeps the name of its first handshake; no client may resume it for another (RFC 6066).
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from proxy.shell.transport import HandshakeError, SecureClient
from proxy.tls.certificate import CertificateError, subject_of
from proxy.tls.contexts import chain_end_ms

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from proxy.core.connection_limits import ConnectionLimits
    from proxy.tls.handshakes import Handshakes
    from proxy.tls.peer_names import CertificatePrincipals, ServerNames
    from proxy.tls.transport import TlsTransport


MAX_HOST_CHARS: Final = 253
"""The most of a server name that is shown."""


class _Accepted(ssl.SSLObject):
    """A client's connection. `server_name` is the name that it asked for; `refusal`: why it gets no broker."""

    server_name: str | None = None
    refusal = ""


class TlsListener:
    """Makes the handshakes of clients. `names`: None if the port selects the broker.

    `closes_expired`: whether a connection ends when its client's certificate does.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        handshakes: Handshakes,
        principals: CertificatePrincipals,
        now_ms: Callable[[], int],
        names: ServerNames | None = None,
        *,
        closes_expired: bool = True,
    ) -> None:
        self._handshakes = handshakes
        self._principals = principals
        self._now_ms = now_ms
        self._closes_expired = closes_expired
        self._names = names
        self.use(context)

    def use(self, context: ssl.SSLContext) -> None:
        """Make the handshakes that begin from now on with this context."""
        context.sslobject_class = _Accepted
        if self._names is not None:
            context.sni_callback = self._on_server_name
        self._context = context

    def limit(self, limits: ConnectionLimits) -> None:
        """See ClientTls."""
        self._handshakes.limit(limits.max_tls_handshakes, limits.tls_handshake_timeout_ms / 1000)

    async def secure(
        self, accepted: socket.socket, node_id: int | None, address: str
    ) -> SecureClient:
        """See ClientTls."""
        secured = await self._handshakes.accept(accepted, self._context, address)
        try:
            tls = secured.tls
            if self._names is not None and isinstance(tls, _Accepted):
                node_id = self._names.node_of(tls.server_name or "")
            user, ends_ms = self._identify(secured)
        except BaseException:
            secured.close()
            raise
        return SecureClient(secured, node_id, user, ends_ms)

    def _identify(self, secured: TlsTransport) -> tuple[str, int | None]:
        """Return the user of the client's certificate, and its end. Raises HandshakeError."""
        certificate = secured.tls.getpeercert(binary_form=True)
        if certificate is None:
            return "", None
        try:
            subject, ends_ms = subject_of(certificate), chain_end_ms(secured.tls)
            user = self._principals.user_of(certificate, subject)
        except CertificateError as error:
            raise HandshakeError(str(error)) from None
        secured.identify(subject)
        if ends_ms is not None and ends_ms <= self._now_ms():  # OpenSSL resumes it all the same
            raise HandshakeError(f"the certificate of {subject!r} has ended")
        return user, ends_ms if self._closes_expired else None

    def _on_server_name(
        self, secured: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext
    ) -> int | None:
        if not isinstance(secured, _Accepted):
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        if self._names is None or not self._names.knows(name):
            secured.refusal = (
                "the client asks for no server name (SNI)"
                if name is None
                else f"the client asks for {name[:MAX_HOST_CHARS]!r} (SNI), which is no broker"
            )
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        secured.server_name = name
        return None
