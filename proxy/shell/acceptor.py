"""Accept clients: each is counted at once, and handed to the event loop, which accepts them (`listeners`).

A load balancer's header comes first (`proxied_clients`), then the TLS handshake: each in a task of its own, and its
client is counted while it lasts.
Brokers are dialled elsewhere, and not before there is a byte for them (`broker_dials`). So none is for a probe of the
port, nor for a connection of our own to it that the dialer has closed (`Dialer.is_own`), which would lead to the next
one. A drain ends the acceptor, and not the dials: requests that were taken are still answered.
"""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING

import trio

from proxy.core.connection_limits import address_of
from proxy.core.errors import CloseReason
from proxy.shell.proxied_clients import ProxiedClients
from proxy.shell.transport import HandshakeError, PeerGoneError, PlainTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.core.engine import Engine
    from proxy.core.observer import Observer
    from proxy.core.session.session import Session
    from proxy.shell.event_loop import EventLoop
    from proxy.shell.listeners import Listeners
    from proxy.shell.proxied_clients import Address
    from proxy.shell.transport import ClientTls, Transport

STORM_CLIENTS = 16
"""With so many clients that have sent no request yet, or are in their handshakes, others are accepted more slowly."""
EVICTION_MS = 2_000
"""How long a client without a request keeps its place from one that waits for it."""


class Acceptor:
    """Accepts at most `max_connections` clients at once. When no place is left, the oldest without a request yields."""

    def __init__(
        self,
        engine: Engine,
        event_loop: EventLoop,
        observer: Observer,
        now_ms: Callable[[], int],
        max_connections: int,
        tls: ClientTls | None = None,
        proxies: Sequence[str] = (),
    ) -> None:
        self._engine = engine
        self._event_loop = event_loop
        self._observer = observer
        self._now_ms = now_ms
        self._tls = tls
        self._handshaking: dict[trio.CancelScope, int] = {}  # and since when, oldest first
        self._proxied = ProxiedClients(proxies, engine, self._handshaking, now_ms)
        self.limit(max_connections)

    def limit(self, max_connections: int) -> None:
        """Apply this limit and those of the engine's connections: at the start, and after a reload."""
        self.max_connections = max_connections
        if self._tls is not None:
            self._tls.limit(self._engine.connections.limits)

    @property
    def is_full(self) -> bool:
        """Return whether the maximum number of clients is connected, without those that may lose their places."""
        return len(self._engine.sessions) - len(self._engine.newcomers) >= self.max_connections

    async def serve(self, listeners: Listeners, until: trio.Event) -> None:
        """Accept clients until the event is set, then cancel what is under way for them."""
        async with trio.open_nursery() as serving:
            admit = partial(self._admit, serving)
            listeners.start(
                self._event_loop.endpoints,
                partial(self._proxied.accept, serving, admit) if self._proxied else admit,
                self._may_accept,
                self._observer.on_descriptors_exhausted,
                self._is_storm,
            )
            try:
                await until.wait()
            finally:
                listeners.stop()
            serving.cancel_scope.cancel()

    def _may_accept(self) -> bool:
        connections = self._engine.connections
        reached = self._reached()
        if reached is not None:
            self._evict()
            reached = self._reached()
        if reached is None and not connections.try_accept(self._now_ms()):
            reached = "max_connection_creation_rate", connections.limits.max_rate
        if reached is None:
            return True
        self._observer.on_accept_delayed(*reached)
        return False

    def _is_storm(self) -> bool:
        return len(self._engine.newcomers) + len(self._handshaking) >= STORM_CLIENTS

    def _reached(self) -> tuple[str, int] | None:
        """Return the setting that leaves no place for another client, and its limit; None if there is a place."""
        engine = self._engine
        handshaking = len(self._handshaking)
        if len(engine.sessions) + handshaking >= self.max_connections:
            return "max_connections", self.max_connections
        max_unauthenticated = engine.connections.limits.max_unauthenticated
        if 0 < max_unauthenticated <= len(engine.newcomers) + handshaking:
            return "max_unauthenticated_connections", max_unauthenticated
        return None

    def _evict(self) -> None:
        """Close the oldest client without a request that has had its time; those in TLS handshakes go first."""
        now_ms = self._now_ms()
        for handshake, since_ms in self._handshaking.items():
            if since_ms <= now_ms - EVICTION_MS:
                del self._handshaking[handshake]
                handshake.cancel()
                return
            break
        oldest = self._engine.newcomers.oldest(now_ms - EVICTION_MS)
        if oldest is None:
            return
        oldest.end(CloseReason.EVICTED, "no request yet, and its place was needed", now_ms)
        self._event_loop.drop(oldest.handle, now_ms)

    def _admit(
        self, serving: trio.Nursery, accepted: socket.SocketType, node_id: int | None, peer: Address
    ) -> None:
        """Count the client at once, so that the limit holds, then serve it."""
        host, port = peer
        try:
            client = PlainTransport(accepted, has_options=True)
        except OSError:
            accepted.close()  # it has disconnected already
            return
        if not self._engine.admits(host, port, node_id, self._now_ms()):
            client.close()
        elif self._tls is None:
            if (session := self._open(client, host, port, node_id)) is not None:
                self._attach(session, client)
        else:
            handshake = trio.CancelScope()
            self._handshaking[handshake] = self._now_ms()
            self._engine.connections.join_handshake(host)
            whole = socket.socket(accepted.family, accepted.type, 0, accepted.detach())
            whole.setblocking(False)
            serving.start_soon(self._secure, self._tls, handshake, whole, host, port, node_id)

    async def _secure(
        self,
        tls: ClientTls,
        handshake: trio.CancelScope,
        accepted: socket.socket,
        host: str,
        port: int,
        node_id: int | None,
    ) -> None:
        """Make the handshake of a client, then serve it."""
        client = None
        try:
            with handshake:
                client = await tls.secure(accepted, node_id, address_of(host))
        except HandshakeError as error:
            if not isinstance(error, PeerGoneError):
                self._observer.on_handshake_failed(host, port, str(error))
        except Exception as error:  # noqa: BLE001 - a fault ends one client only
            self._observer.on_internal_error(error)
        finally:
            if client is None:
                accepted.close()  # also one whose handshake did not begin
            self._handshaking.pop(handshake, None)
            self._engine.connections.leave_handshake(host)
        if handshake.cancelled_caught:
            self._observer.on_handshake_failed(host, port, "its place was needed")
        if client is not None:
            transport, node_id, user, ends_ms = client
            if (session := self._open(transport, host, port, node_id, user, ends_ms)) is not None:
                self._attach(session, transport)

    def _open(
        self,
        client: Transport,
        host: str,
        port: int,
        node_id: int | None,
        user: str = "",
        ends_ms: int | None = None,
    ) -> Session | None:
        """Return a session for the client, None if there is none: it is closed. A failure ends no listener."""
        session = None
        try:
            at_ms = self._now_ms()
            session = self._engine.connect(host, port, node_id, user, ends_ms, now_ms=at_ms)
        except Exception as error:  # noqa: BLE001 - see above
            self._observer.on_internal_error(error)
        if session is None:
            client.close()
        return session

    def _attach(self, session: Session, client: Transport) -> None:
        """Let the event loop serve the client; its broker is dialled when it is needed."""
        try:
            self._event_loop.attach(session, client)
        except Exception as error:  # noqa: BLE001 - a fault ends one client only
            self._observer.on_internal_error(error)
            client.close()
            self._release(session)
        else:
            if self._event_loop.asleep is not None:  # it must know the timers of this client
                self._event_loop.asleep.cancel()

    def _release(self, session: Session) -> None:
        try:
            session.release(self._now_ms())
        except Exception as error:  # noqa: BLE001 - its sockets are closed: nothing is left to end
            self._observer.on_internal_error(error)
            self._engine.forget(session)
