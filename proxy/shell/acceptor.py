"""Accept clients: each is counted at once, connected to its broker, then handed to the event loop.

With TLS the handshake comes first, and its client is counted while it lasts; then the session is opened.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from proxy.core.errors import CloseReason
from proxy.shell.dialer import DialError
from proxy.shell.tls.handshakes import HandshakeError, PeerGoneError
from proxy.shell.transport import PlainTransport

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from proxy.core.engine import Engine
    from proxy.core.observer import Observer
    from proxy.core.session.session import Session
    from proxy.shell.dialer import Dialer, Upstream
    from proxy.shell.event_loop import EventLoop
    from proxy.shell.listeners import Listeners
    from proxy.shell.tls.listener import TlsListener
    from proxy.shell.transport import Transport

RESERVED_DESCRIPTORS = 64
"""File descriptors left for files, pipes and libraries."""


class Acceptor:
    """Accepts at most `max_connections` clients at once; more wait in the kernel's backlog."""

    def __init__(
        self,
        engine: Engine,
        event_loop: EventLoop,
        dialer: Dialer,
        observer: Observer,
        now_ms: Callable[[], int],
        max_connections: int,
        tls: TlsListener | None = None,
    ) -> None:
        self.max_connections = max_connections
        self._engine = engine
        self._event_loop = event_loop
        self._dialer = dialer
        self._observer = observer
        self._now_ms = now_ms
        self._tls = tls
        self._handshaking = 0

    @property
    def is_full(self) -> bool:
        """Return whether the maximum number of clients is connected."""
        return len(self._engine.sessions) + self._handshaking >= self.max_connections

    async def serve(self, listeners: Listeners, until: trio.Event) -> None:
        """Accept clients until the event is set, then close those without a broker connection."""
        async with trio.open_nursery() as serving:
            serving.start_soon(
                listeners.serve,
                partial(self._admit, serving),
                self._may_accept,
                self._observer.on_descriptors_exhausted,
            )
            await until.wait()
            serving.cancel_scope.cancel()

    def _may_accept(self) -> bool:
        if self.is_full:
            self._observer.on_connections_full(self.max_connections)
            return False
        return True

    def _admit(self, serving: trio.Nursery, accepted: socket.socket, node_id: int | None) -> None:
        """Count the client at once, so that the limit holds, then serve it in a task of its own."""
        try:
            client = PlainTransport(accepted)
            host, port = accepted.getpeername()[:2]
        except OSError:
            accepted.close()  # it has disconnected already
            return
        if self._tls is None:
            session = self._open(client, host, port, node_id)
            if session is not None:
                serving.start_soon(self._serve, session, client, node_id)
        else:
            self._handshaking += 1
            serving.start_soon(self._secure, self._tls, accepted, host, port, node_id)

    async def _secure(
        self, tls: TlsListener, accepted: socket.socket, host: str, port: int, node_id: int | None
    ) -> None:
        """Make the handshake of a client, then serve it."""
        try:
            client = await tls.secure(accepted, node_id)
        except HandshakeError as error:
            if not isinstance(error, PeerGoneError):
                self._observer.on_handshake_failed(host, port, str(error))
            return
        except Exception as error:  # noqa: BLE001 - a fault ends one client only
            self._observer.on_internal_error(error)
            return
        finally:
            self._handshaking -= 1
        session = self._open(client.transport, host, port, client.node_id, client.user)
        if session is not None:
            await self._serve(session, client.transport, client.node_id)

    def _open(
        self, client: Transport, host: str, port: int, node_id: int | None, tls_user: str = ""
    ) -> Session | None:
        """Return a session for the client, None if there is none; then the client is closed.

        A failure ends this client, never the listener.
        """
        session = None
        try:
            session = self._engine.connect(host, port, node_id, tls_user)
        except Exception as error:  # noqa: BLE001 - see above
            self._observer.on_internal_error(error)
        if session is None:
            client.close()
        return session

    async def _serve(self, session: Session, client: Transport, node_id: int | None) -> None:
        """Dial the client's broker and attach both sockets to the event loop."""
        broker: Upstream | None = None
        attached = False
        self._event_loop.arriving += 1
        try:
            broker = await self._dialer.reach(node_id)
            if node_id is None:  # any broker: its health is known by its address
                address = broker.transport.peer_address()
                session.node = self._engine.topology.nodes.health(address)
            self._event_loop.attach(session, client, broker.transport)
            attached = True
            if broker.lifetime_ms and broker.custody is not None:
                self._engine.renew(
                    session, broker.lifetime_ms, broker.address, broker.custody, self._now_ms()
                )
        except DialError as error:
            session.end(error.reason, error.detail, self._now_ms())
        except trio.Cancelled:
            session.end(CloseReason.DRAINED, "", self._now_ms())
            raise
        except Exception as error:  # noqa: BLE001 - a fault ends one client only
            self._observer.on_internal_error(error)
        finally:
            self._event_loop.arriving -= 1
            if not attached:
                for transport in (client, broker):
                    if transport is not None:
                        transport.close()
                self._release(session)

    def _release(self, session: Session) -> None:
        try:
            session.release(self._now_ms())
        except Exception as error:  # noqa: BLE001 - its sockets are closed: nothing is left to end
            self._observer.on_internal_error(error)
            self._engine.sessions.discard(session)


def connection_limit(max_connections: int, others: int) -> int:
    """Return how many clients may connect: `max_connections` (0: no such limit), or fewer if descriptors are short.

    A client needs two descriptors; `others` is the number that listeners and admin connections use. The soft limit is
    raised to the hard limit first.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # some systems refuse an unlimited soft limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = max(1, (soft - RESERVED_DESCRIPTORS - others) // 2)
    return min(max_connections, possible) if max_connections else possible
