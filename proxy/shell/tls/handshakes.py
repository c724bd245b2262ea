"""TLS handshakes in Trio tasks: bounded in number, in time, and in CPU time per pass of the event loop.

Rules:
- A step of a handshake takes a millisecond of CPU for a signature. The steps wait in one queue, and between two
  of them the event loop has its turn, however many clients connect at once.
- At most `limit` handshakes of clients are open. A client that sends nothing is not one of them: it costs a descriptor.
- A client has `timeout_s` for its first byte and its place, and again for its handshake. While others wait for a
  place, a client that sends nothing for STALL_S loses its own.
- The first byte tells a client that speaks no TLS; the error says what it seems to speak.
"""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Final, Protocol

import trio

from proxy.core.protocol_sniffer import guess_at_tls_port
from proxy.openssl.contexts import WEB_PROTOCOLS
from proxy.openssl.reasons import words_of
from proxy.shell.tls.tls_transport import ShakeState, TlsTransport
from proxy.shell.transport import HandshakeError, PeerGoneError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    _Wait = Callable[[socket.socket], Awaitable[None]]

LIMIT: Final = 64
TIMEOUT_S: Final = 10.0
STALL_S: Final = 1.0
_HANDSHAKE_BYTE: Final = 0x16
"""The first byte of a TLS record that begins a handshake."""
_PEEK_BYTES: Final = 8
_WAITS: Final[Mapping[ShakeState, _Wait]] = {
    ShakeState.READABLE: trio.lowlevel.wait_readable,
    ShakeState.WRITABLE: trio.lowlevel.wait_writable,
}


class Stepped(Protocol):
    """An event loop that shares the thread: it does not wait in its own poll set while `arriving` is not 0."""

    arriving: int


class Handshakes:
    """All handshakes of a process. `steps` counts the calls of `TlsTransport.shake`."""

    def __init__(
        self, event_loop: Stepped, limit: int = LIMIT, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.steps = 0
        self._event_loop = event_loop
        self._timeout_s = timeout_s
        self._places = trio.CapacityLimiter(limit)
        self._cpu = trio.Lock()

    def limit(self, handshakes: int, timeout_s: float) -> None:
        """Set how many clients make their handshakes at once, and their time, for those that begin from now on."""
        self._places.total_tokens = handshakes
        self._timeout_s = timeout_s

    async def accept(self, accepted: socket.socket, context: ssl.SSLContext) -> TlsTransport:
        """Return the connection of a client after its handshake. Raises HandshakeError; `accepted` is closed then."""
        try:
            await self._take_place(accepted)
        except BaseException:
            accepted.close()
            raise
        try:
            secured = await self._shake(accepted, context, is_server=True)
        finally:
            self._places.release()
        if secured.tls.selected_alpn_protocol() in WEB_PROTOCOLS:
            secured.close()
            raise HandshakeError("the client offers only protocols of the web (ALPN)")
        return secured

    async def connect(
        self,
        connected: socket.socket,
        context: ssl.SSLContext,
        server_name: str,
        session: ssl.SSLSession | None,
    ) -> TlsTransport:
        """Return the connection to a server after its handshake. Raises HandshakeError; `connected` is closed then."""
        return await self._shake(
            connected, context, is_server=False, server_name=server_name, session=session
        )

    async def _take_place(self, accepted: socket.socket) -> None:
        try:
            with trio.fail_after(self._timeout_s):
                await trio.lowlevel.wait_readable(accepted)
                await self._places.acquire()
        except trio.TooSlowError:
            raise HandshakeError(f"no handshake began within {self._timeout_s:g} s") from None
        try:
            head = accepted.recv(_PEEK_BYTES, socket.MSG_PEEK)
            if head and head[0] == _HANDSHAKE_BYTE:
                return
        except OSError:
            head = b""
        self._places.release()
        if not head:
            raise PeerGoneError("the client disconnected before its handshake")
        raise HandshakeError(f"the client speaks no TLS{guess_at_tls_port(head)}")

    async def _shake(
        self,
        connected: socket.socket,
        context: ssl.SSLContext,
        *,
        is_server: bool,
        server_name: str | None = None,
        session: ssl.SSLSession | None = None,
    ) -> TlsTransport:
        try:
            secured = TlsTransport(
                connected, context, is_server=is_server, server_name=server_name, session=session
            )
            with trio.fail_after(self._timeout_s):
                while (progress := await self._step(secured)) is not ShakeState.DONE:
                    wait = _WAITS[progress]
                    await (self._wait(wait, connected) if is_server else wait(connected))
        except trio.TooSlowError:
            connected.close()
            raise HandshakeError(f"the handshake took more than {self._timeout_s:g} s") from None
        except (OSError, ValueError) as error:  # a name that is no host name is a ValueError
            connected.close()
            raise HandshakeError(_words(error)) from error
        except BaseException:
            connected.close()
            raise
        return secured

    async def _step(self, secured: TlsTransport) -> ShakeState:
        self._event_loop.arriving += 1  # it must not wait in its own poll set now
        try:
            async with self._cpu:
                await trio.lowlevel.checkpoint()  # the event loop's turn
                self.steps += 1
                return secured.shake()
        finally:
            self._event_loop.arriving -= 1

    async def _wait(self, wait: _Wait, connected: socket.socket) -> None:
        while True:
            with trio.move_on_after(STALL_S) as stall:
                await wait(connected)
            if not stall.cancelled_caught:
                return
            if self._places.statistics().tasks_waiting:
                raise ConnectionResetError(f"nothing came for {STALL_S:g} s while others wait")


def _words(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return words_of(error)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
