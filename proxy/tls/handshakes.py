"""TLS handshakes in Trio tasks: bounded in number, in time, and in CPU time per pass of the event loop.

Rules:
- A step of a handshake takes a millisecond of CPU for a signature. The steps wait in one queue, and between two
  of them the event loop has its turn, however many clients connect at once.
- A client has a place (`proxy.tls.places`) only from the end of its ClientHello on. Before that it costs a
  descriptor, and the bytes of the hello that have arrived, which are counted and bounded until it has the place
  (`proxy.core.memory.unauthenticated`). However slowly they come, no other client waits for them.
- The kernel wakes its task only when the rest of a record is there, so bytes that drip cost no CPU time. At most
  HELLOS_AT_ONCE are read between two turns of the event loop.
- A client has `timeout_s` for its hello and its place, and again for its handshake.
- The first byte tells a client that speaks no TLS; the error says what it seems to speak.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

import trio

from proxy.core.protocol_sniffer import guess_at_tls_port
from proxy.shell.transport import HandshakeError, PeerGoneError
from proxy.tls.client_hello import HANDSHAKE, UNEXPECTED_MESSAGE, ClientHello, HelloError
from proxy.tls.contexts import WEB_PROTOCOLS, words_of, words_of_broker
from proxy.tls.places import Places
from proxy.tls.transport import ShakeState, TlsTransport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from proxy.core.errors import CloseReason
    from proxy.core.memory.unauthenticated import UnauthenticatedBytes
    from proxy.tls.places import Place

    _WaitReady = Callable[[socket.socket], Awaitable[None]]

LIMIT: Final = 64
TIMEOUT_S: Final = 10.0
HELLOS_AT_ONCE: Final = 16
_PEEK_BYTES: Final = 8
_WAIT_READY: Final[Mapping[ShakeState, _WaitReady]] = {
    ShakeState.READABLE: trio.lowlevel.wait_readable,
    ShakeState.WRITABLE: trio.lowlevel.wait_writable,
}


class Stepped(Protocol):
    """An event loop that shares the thread: it does not wait in its own poll set while `arriving` is not 0."""

    arriving: int


class Arrival:
    """A client that sends its hello, or waits with it for a place. It ends if others need the memory."""

    __slots__ = ("scope",)

    def __init__(self) -> None:
        self.scope = trio.CancelScope()

    def end_and_ask_for_turn(self, reason: CloseReason, detail: str, now_ms: int) -> None:
        """See Unknown."""
        self.scope.cancel()


class Handshakes:
    """All handshakes of a process. `steps` counts the calls of `TlsTransport.shake`.

    `memory` counts the bytes of hellos; None for a process that accepts no clients.
    """

    def __init__(
        self,
        event_loop: Stepped,
        memory: UnauthenticatedBytes | None = None,
        limit: int = LIMIT,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.steps = 0
        self._event_loop = event_loop
        self._memory = memory
        self._timeout_s = timeout_s
        self._places = Places(limit)
        self._cpu = trio.Lock()
        self._reads = trio.Semaphore(HELLOS_AT_ONCE)

    def limit(self, handshakes: int, timeout_s: float) -> None:
        """Set how many clients make their handshakes at once, and their time, for those that begin from now on."""
        self._places.limit(handshakes)
        self._timeout_s = timeout_s

    async def accept(
        self, accepted: socket.socket, context: ssl.SSLContext, address: str
    ) -> TlsTransport:
        """Return the connection of a client after its handshake. Raises HandshakeError; `accepted` is closed then.

        `address` is what it counts as when places are short.
        """
        try:
            with trio.fail_after(self._timeout_s):
                hello, place = await self._begin(accepted, address)
        except trio.TooSlowError:
            accepted.close()
            raise HandshakeError(f"no handshake began within {self._timeout_s:g} s") from None
        except BaseException:
            accepted.close()
            raise
        try:
            secured = await self._shake(accepted, context, place, hello)
        finally:
            self._places.give_back(place)
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
        return await self._shake(connected, context, server_name=server_name, session=session)

    async def _begin(self, accepted: socket.socket, address: str) -> tuple[bytes, Place]:
        """Return the ClientHello and the client's place; its bytes count until then. Raises HandshakeError."""
        arrival = Arrival()
        try:
            with arrival.scope:
                hello = await self._receive_hello(accepted, arrival)
                return hello, await self._places.take(address)
        finally:
            if self._memory is not None:
                self._memory.give_back(arrival)
        raise HandshakeError("it had no place yet, and the memory was needed")

    async def _receive_hello(self, accepted: socket.socket, arrival: Arrival) -> bytes:
        """Return the ClientHello, whole. Raises HandshakeError."""
        hello = ClientHello()
        try:
            while hello.missing_bytes:
                _wake_at(accepted, hello.missing_bytes)
                await trio.lowlevel.wait_readable(accepted)
                async with self._reads:
                    self._receive_here(accepted, arrival, hello)
        except HelloError as error:
            with suppress(OSError):
                accepted.send(UNEXPECTED_MESSAGE)
            raise HandshakeError(str(error)) from None
        _wake_at(accepted, 1)
        return bytes(hello.received)

    def _receive_here(self, accepted: socket.socket, arrival: Arrival, hello: ClientHello) -> None:
        received = hello.received
        try:
            if not received:
                _check_first(accepted.recv(_PEEK_BYTES, socket.MSG_PEEK))
            data = accepted.recv(hello.room_bytes)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            words = "the connection was closed" if received else "the client disconnected"
            raise (HandshakeError if received else PeerGoneError)(f"{words} before its handshake")
        if self._memory is not None and not self._memory.try_add(arrival, len(data)):
            arrival.scope.cancel()
            return
        hello.feed(data)

    async def _shake(
        self,
        connected: socket.socket,
        context: ssl.SSLContext,
        place: Place | None = None,
        hello: bytes = b"",
        *,
        server_name: str | None = None,
        session: ssl.SSLSession | None = None,
    ) -> TlsTransport:
        """Make the handshake, with a client if there is a place for it, else with a server."""
        secured: TlsTransport | None = None
        try:
            secured = TlsTransport(
                connected,
                context,
                is_server=place is not None,
                server_name=server_name,
                session=session,
                received=hello,
            )
            with trio.fail_after(self._timeout_s):
                while (progress := await self._step(secured)) is not ShakeState.DONE:
                    wait = _WAIT_READY[progress]
                    if place is None:
                        await wait(connected)
                    else:
                        await self._places.wait(place, wait, connected)
        except trio.TooSlowError:
            connected.close()
            raise HandshakeError(f"the handshake took more than {self._timeout_s:g} s") from None
        except (OSError, ValueError) as error:  # a name that is no host name is a ValueError
            connected.close()
            raise HandshakeError(_words(error, None if secured is None else secured.tls)) from error
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


def _check_first(head: bytes) -> None:
    """Raise HandshakeError if this is no TLS, PeerGoneError if it is the end of the stream."""
    if head and head[0] != HANDSHAKE:
        raise HandshakeError(f"the client speaks no TLS{guess_at_tls_port(head)}")


def _wake_at(connected: socket.socket, missing_bytes: int) -> None:
    """Let a wait end when so many bytes have arrived; a system that cannot wakes earlier."""
    with suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, missing_bytes)


def _words(error: OSError | ValueError, tls: ssl.SSLObject | None) -> str:
    if tls is None or not isinstance(error, ssl.SSLError):
        return (error.strerror if isinstance(error, OSError) else None) or str(error)
    if not tls.server_side:
        return words_of_broker(error, tls)
    if refusal := getattr(tls, "refusal", ""):
        return str(refusal)
    if error.reason == "CALLBACK_FAILED":  # before our own: Python decodes the name
        return "the client asks for a server name (SNI) that is not ASCII"
    return words_of(error)
