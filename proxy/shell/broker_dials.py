"""Dials the broker of a session when the first byte for it is there, and no earlier.

Rules:
- A client that is silent costs no broker a connection, and one that authenticates to Sluice none before it has: until
  then it may ask for ApiVersions only (`broker_versions`). One whose requests are all answered here never gets one.
- Meanwhile the client is not read, because bytes wait for its broker. Its time for the first request does not run.
- Where the broker's address is known the event loop makes the connection (`connecting`); only what takes more than that
  has a task: a name to be looked up, TLS, an authentication of Sluice's own, a question, a second attempt.
- If the client leaves, or loses its place, the dial is cancelled.
- A broker that cannot be reached ends the session.
- A drain cancels no dial: a request that was taken before it has a reply to come. Its deadline ends them.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import trio

from proxy.core.errors import CloseReason
from proxy.shell.broker_versions import BrokerVersions
from proxy.shell.connecting import Connecting
from proxy.shell.dial import DialError
from proxy.shell.direct_dials import FailedDial

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from proxy.core.engine import Engine
    from proxy.core.observer import Observer
    from proxy.core.session.session import Session
    from proxy.shell.broker_versions import Inquiry
    from proxy.shell.dialer import Dialer, Upstream
    from proxy.shell.direct_dials import DirectDial
    from proxy.shell.event_loop import EventLoop


class BrokerDials:
    """The dials that are under way. See `endpoint.Brokers`."""

    def __init__(
        self,
        engine: Engine,
        event_loop: EventLoop,
        dialer: Dialer,
        observer: Observer,
        now_ms: Callable[[], int],
    ) -> None:
        self._engine = engine
        self._event_loop = event_loop
        self._dialer = dialer
        self._observer = observer
        self._now_ms = now_ms
        self._versions = BrokerVersions(engine, dialer)
        self._under_way: dict[Session, Connecting | trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None
        event_loop.endpoints.brokers = self

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Dial until cancelled; then each session that needs a broker ends."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None
                for session, under_way in tuple(self._under_way.items()):
                    if isinstance(under_way, Connecting):
                        self.cancel(session)
                        self._end(session, CloseReason.DRAINED)

    def need(self, session: Session) -> None:
        """Begin to dial the session's broker, unless that has begun."""
        if session in self._under_way:
            return
        if self._nursery is None:
            session.end_and_ask_for_turn(CloseReason.DRAINED, "", self._now_ms())
            return
        if self._versions.must_wait(session):
            asked = self._versions.take(session)
            if asked is not None:
                self._event_loop.arriving += 1
                self._nursery.start_soon(self._learn, asked)
            return
        direct = None
        if not self._versions.must_check(session):
            direct = self._dialer.direct(session.peer.node_id)
        if direct is None:
            self._start(self._nursery, session)
        else:
            self._connect(self._nursery, session, direct)

    def _start(
        self, nursery: trio.Nursery, session: Session, tried: FailedDial | None = None
    ) -> None:
        """Dial the session's broker in a task of its own."""
        self._under_way[session] = trio.CancelScope()
        self._event_loop.arriving += 1
        nursery.start_soon(self._reach, session, tried)

    def _connect(self, nursery: trio.Nursery, session: Session, direct: DirectDial) -> None:
        """Let the event loop dial the session's broker."""
        at_ms = self._now_ms() + math.ceil(direct.timeout_s * 1000)
        done = partial(self._on_done, nursery, session, direct)
        try:
            self._under_way[session] = Connecting(
                self._event_loop.endpoints, direct.to, at_ms, done
            )
        except OSError as error:
            self._start(nursery, session, self._dialer.on_failed(direct, error))

    def _on_done(
        self,
        nursery: trio.Nursery,
        session: Session,
        direct: DirectDial,
        connected: socket.SocketType | None,
        error: OSError | None,
    ) -> None:
        """Give the session the broker to which it was connected; if that has failed, a task tries again."""
        del self._under_way[session]
        if connected is None:
            tried = None if error is None else self._dialer.on_failed(direct, error)
            self._start(nursery, session, tried)
            return
        if session.handle is None or session.ended:
            self._close(connected)
            return
        try:
            broker = self._dialer.on_connected(direct, connected)
            if self._dialer.has_moved(session.peer.node_id, direct.route):
                self._close(connected)
                self.need(session)
            else:
                self._join(session, broker)
        except DialError as refused:
            self._close(connected)
            self._start(nursery, session, FailedDial(direct.route, refused))
        except Exception as fault:  # noqa: BLE001 - a fault ends one client only
            self._observer.on_internal_error(fault)
            self._close(connected)
            self._end(session, CloseReason.INTERNAL)

    def _close(self, connected: socket.SocketType) -> None:
        """Close a connection that the event loop has made, and that no session gets."""
        self._event_loop.endpoints.unwatch(connected.fileno())
        connected.close()

    def cancel(self, session: Session) -> None:
        """Cancel the dial of a session that has ended."""
        self._versions.forget(session)
        under_way = self._under_way.get(session)
        if isinstance(under_way, Connecting):
            del self._under_way[session]
        if under_way is not None:
            under_way.cancel()

    async def _reach(self, session: Session, tried: FailedDial | None) -> None:
        broker: Upstream | None = None
        scope = self._under_way[session]
        assert isinstance(scope, trio.CancelScope)  # noqa: S101 - `_start` has put it there
        try:
            with scope:
                broker = await self._dialer.reach(session.peer.node_id, tried)
                await self._versions.check(session, broker)
            if broker is not None and session.handle is not None and not session.ended:
                self._join(session, broker)
                broker = None
        except DialError as error:
            self._end(session, error.reason, error.detail)
        except trio.Cancelled:
            self._end(session, CloseReason.DRAINED)
            raise
        except Exception as error:  # noqa: BLE001 - a fault ends one client only
            self._observer.on_internal_error(error)
            self._end(session, CloseReason.INTERNAL)
        finally:
            del self._under_way[session]
            self._event_loop.arriving -= 1
            if broker is not None:
                broker.close()
            if self._event_loop.asleep is not None:
                self._event_loop.asleep.cancel()

    async def _learn(self, asked: Inquiry) -> None:
        try:
            await self._versions.learn(asked)
        except Exception as error:  # noqa: BLE001 - the clients that wait for it have ended
            self._observer.on_internal_error(error)
        finally:
            self._event_loop.arriving -= 1
            if self._event_loop.asleep is not None:
                self._event_loop.asleep.cancel()

    def _join(self, session: Session, broker: Upstream) -> None:
        engine = self._engine
        engine.routes.lead(session, broker.route, confirmed=broker.confirmed)
        if session.peer.node_id is None or not broker.confirmed:
            # its health is known by its address
            reached = broker.reached or broker.transport.peer_address()
            session.node = engine.topology.nodes.health(reached)
        self._event_loop.join(session, broker.transport)
        self._versions.forget(session)
        session.excuse_broker(self._now_ms())
        if broker.lifetime_ms and broker.custody is not None:
            engine.renew(
                session, broker.lifetime_ms, broker.address, broker.custody, self._now_ms()
            )

    def _end(self, session: Session, reason: CloseReason, detail: str = "") -> None:
        if session.handle is not None:
            session.end_and_ask_for_turn(reason, detail, self._now_ms())
