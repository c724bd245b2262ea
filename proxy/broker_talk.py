"""Short connections to one broker, by the TLS and the credentials of `upstream`, for `sluice check --connect`.

Each connection has one deadline, and notes the TLS and the login that it got.
"""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import trio

from proxy.core.auth.upstream_authentication import UpstreamAuthentication
from proxy.core.errors import CloseReason
from proxy.shell.dialer import DialError, connect
from proxy.shell.tls.certificate import expiry_ms, subject_of
from proxy.shell.tls.contexts import client_context
from proxy.shell.tls.record_sender import words_of
from proxy.upstream_credentials import credentials_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from proxy.config.sections import UpstreamSettings
    from proxy.shell.credentials import Credentials

    Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]

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
        self.server = f"{host}:{port}"
        self._host = host
        self._port = port
        self._upstream = upstream
        self._timeout_s = max(upstream.socket_connection_setup_timeout_ms / 1000, MIN_TIMEOUT_S)
        self._context = _context(upstream)
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
        plain._context = plain._credentials = None
        return plain

    async def ask(self, questions: list[bytes], frames: int = 1, *, logs_in: bool = False) -> bytes:
        """Send the questions and return the answer: so many frames, or fewer at the end of stream or the deadline.

        Raises DialError if the connection or the TLS handshake fails, SessionFault if the credentials do.
        """
        received = bytearray()
        with trio.move_on_after(self._timeout_s):
            async with self._connected() as stream:
                try:
                    if logs_in and self._credentials is not None:
                        await self._log_in(stream, self._credentials)
                    await stream.send_all(b"".join(questions))
                    while not is_whole(received, frames) and len(received) < MAX_ANSWER_BYTES:
                        data = await stream.receive_some()
                        if not data:
                            break
                        received += data
                except trio.BrokenResourceError as broken:
                    if isinstance(
                        broken.__cause__, ssl.SSLError
                    ):  # as without a certificate of ours
                        raise _refused(broken.__cause__) from broken
        return bytes(received)

    @asynccontextmanager
    async def _connected(
        self,
    ) -> AsyncIterator[Stream]:
        plain = await connect(self._host, self._port)
        async with plain:
            if self._context is None:
                yield plain
                return
            name = (self._upstream.tls and self._upstream.tls.server_name) or self._host
            stream = trio.SSLStream(
                plain, self._context, server_hostname=name, https_compatible=True
            )
            try:
                await stream.do_handshake()
            except (trio.BrokenResourceError, ssl.CertificateError) as broken:
                why = broken.__cause__ if isinstance(broken, trio.BrokenResourceError) else broken
                words = (
                    words_of(why) if isinstance(why, ssl.SSLError) else "the connection was lost"
                )
                raise DialError(CloseReason.BROKER_TLS, f"no TLS: {words}") from broken
            self._note_tls(stream)
            yield stream

    def _note_tls(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        self.tls = f"{stream.version()}, {stream.cipher()[0]}"
        der = stream.getpeercert(binary_form=True)
        shown = stream.getpeercert() or {}
        names = tuple(value for _, value in shown.get("subjectAltName", ()))
        self.certificate = CertificateReport(subject_of(der) or "", names, expiry_ms(der) / 1000)

    async def _log_in(
        self,
        stream: Stream,
        credentials: Credentials,
    ) -> None:
        client = await credentials.client()
        authentication = UpstreamAuthentication(client)
        while not authentication.done:
            if authentication.request is not None:
                await stream.send_all(authentication.take_request())
            elif authentication.work is not None:
                await trio.to_thread.run_sync(authentication.work, abandon_on_cancel=True)
                authentication.resume()
            else:
                data = await stream.receive_some()
                if not data:
                    raise DialError(
                        CloseReason.UPSTREAM_REFUSED, "it closed the connection during the login"
                    )
                authentication.feed(bytes(data))
        user = self._upstream.sasl.username if self._upstream.sasl else ""
        self.user = f"{user or 'the user of the token'} by {client.mechanism}"

    async def speaks_tls(self) -> str:
        """Return the TLS version of the server; empty if it does not speak TLS."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with trio.move_on_after(self._timeout_s):
            try:
                plain = await connect(self._host, self._port)
            except DialError:
                return ""
            stream = trio.SSLStream(plain, context)
            try:
                await stream.do_handshake()
                return str(stream.version())
            except trio.BrokenResourceError as broken:
                # An alert is an answer in TLS; any other bytes are not.
                cause = broken.__cause__
                is_alert = isinstance(cause, ssl.SSLError) and "ALERT" in (cause.reason or "")
                return "TLS" if is_alert else ""
            finally:
                await trio.aclose_forcefully(plain)
        return ""


def _refused(why: BaseException | None) -> DialError:
    words = words_of(why) if isinstance(why, ssl.SSLError) else "the connection was lost"
    return DialError(CloseReason.BROKER_TLS, f"TLS fails: {words}")


def _context(upstream: UpstreamSettings) -> ssl.SSLContext | None:
    tls = upstream.tls
    if tls is None:
        return None
    return client_context(tls.ca_file, tls.cert_file, tls.key_file, verify=tls.verify)


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
