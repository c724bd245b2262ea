"""Short connections to one broker, by the TLS and the credentials of `upstream`, for `sluice check --connect`.

They are made as those of a running Sluice are. Each notes the TLS and the login that it got, and has the connection
timeout for TCP, for TLS, and for the login and the answers.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import trio

from proxy.core.auth.upstream_authentication import UpstreamAuthentication
from proxy.core.errors import CloseReason
from proxy.host_port import host_port
from proxy.shell.clock import Clock
from proxy.shell.custody import converse
from proxy.shell.dial import DialError, dial, receive_some, send_all
from proxy.shell.transport import TlsError
from proxy.tls.certificate import CertificateError, expiry_ms, subject_of
from proxy.tls.connector import TlsConnector
from proxy.tls.contexts import client_context
from proxy.tls.handshakes import Handshakes
from proxy.tls.transport import TlsTransport
from proxy.upstream_credentials import credentials_of

if TYPE_CHECKING:
    from proxy.config.upstream import UpstreamSettings
    from proxy.shell.credentials import Credentials
    from proxy.shell.transport import Transport

MAX_ANSWER_BYTES = 4 << 20
MIN_TIMEOUT_S = 1.0
_SIZE = Struct(">i")


class CertificateReport(NamedTuple):
    """A broker's certificate. `names`: its DNS names and addresses, if the certificate is verified."""

    subject: str
    names: tuple[str, ...]
    ends_s: float
    """In seconds since the epoch."""


class BrokerTalk:
    """Connections to one server, and what they show of its TLS."""

    def __init__(self, host: str, port: int, upstream: UpstreamSettings) -> None:
        self.server = host_port(host, port)
        self._host = host
        self._port = port
        self._upstream = upstream
        self._timeout_s = max(upstream.socket_connection_setup_timeout_ms / 1000, MIN_TIMEOUT_S)
        self._tls: TlsConnector | None = None
        if (tls := upstream.tls) is not None:
            context = client_context(tls.ca_file, tls.cert_file, tls.key_file, verify=tls.verify)
            self._tls = self._connector(context, tls.server_name)
        self._credentials: Credentials | None = (
            None if upstream.sasl is None else credentials_of(upstream.sasl)
        )
        self.tls = ""  # the version and cipher of the last connection; empty without TLS
        self.certificate: CertificateReport | None = None
        self.user = (
            ""  # the user and the mechanism that the broker has let in; empty without credentials
        )

    def without_tls(self) -> BrokerTalk:
        """Return connections to the same server in plain text, without credentials."""
        plain = BrokerTalk(self._host, self._port, self._upstream)
        plain._tls = plain._credentials = None
        return plain

    async def ask(self, questions: list[bytes], frames: int = 1, *, logs_in: bool = False) -> bytes:
        """Send the questions and return the answer: so many frames, or fewer at the end of stream or the deadline.

        Raises DialError if the connection or the TLS handshake fails, SessionFault if the credentials do.
        """
        received = bytearray()
        broker = await dial(self._host, self._port, self._timeout_s, self._tls)
        try:
            if isinstance(broker, TlsTransport):
                self._note_tls(broker)
            with trio.move_on_after(self._timeout_s):
                if logs_in and self._credentials is not None:
                    await self._log_in(broker, self._credentials)
                await send_all(broker, b"".join(questions))
                while not is_whole(received, frames) and len(received) < MAX_ANSWER_BYTES:
                    data = await receive_some(broker)
                    if not data:
                        break
                    received += data
        except TlsError as error:  # an alert, as for a client without a certificate
            raise DialError(CloseReason.BROKER_TLS, str(error)) from error
        except OSError:
            pass  # it is as good as the end of the stream
        finally:
            broker.close()
        return bytes(received)

    async def speaks_tls(self) -> str:
        """Return the TLS version of the server; empty if it does not speak TLS."""
        any_server = self._connector(client_context(verify=False))
        try:
            broker = await dial(self._host, self._port, self._timeout_s, any_server)
        except DialError as failed:
            # An alert is an answer in TLS; any other bytes are not.
            cause = failed.__cause__ and failed.__cause__.__cause__
            is_alert = isinstance(cause, ssl.SSLError) and "ALERT" in (cause.reason or "")
            return "TLS" if is_alert else ""
        broker.close()
        return broker.security.protocol if broker.security else ""

    def _connector(self, context: ssl.SSLContext, server_name: str | None = None) -> TlsConnector:
        return TlsConnector(
            context, Handshakes(_Alone(), timeout_s=self._timeout_s), Clock(), server_name
        )

    def _note_tls(self, broker: TlsTransport) -> None:
        if broker.security is not None:
            self.tls = f"{broker.security.protocol}, {broker.security.cipher}"
        der = broker.tls.getpeercert(binary_form=True) or b""
        shown = broker.tls.getpeercert() or {}
        names = tuple(str(entry[1]) for entry in shown.get("subjectAltName", ()))
        with suppress(CertificateError):
            self.certificate = CertificateReport(subject_of(der), names, expiry_ms(der) / 1000)

    async def _log_in(self, broker: Transport, credentials: Credentials) -> None:
        client = await credentials.client()
        try:
            await converse(broker, UpstreamAuthentication(client))
        except TlsError:
            raise
        except OSError as error:
            why = error.strerror or str(error)
            raise DialError(CloseReason.UPSTREAM_REFUSED, why) from error
        user = self._upstream.sasl.username if self._upstream.sasl else ""
        self.user = f"{user or 'the user of the token'} by {client.mechanism}"


class _Alone:
    """There is no event loop."""

    arriving = 0


def is_whole(received: bytearray, frames: int) -> bool:
    """Return whether this many frames were received, or bytes that are no frame."""
    at = 0
    for _ in range(frames):
        if len(received) < at + 4:
            return False
        (size,) = _SIZE.unpack_from(received, at)
        if not 0 <= size <= MAX_ANSWER_BYTES:
            return True  # not a frame: reading on is of no use
        at += 4 + size
    return len(received) >= at
