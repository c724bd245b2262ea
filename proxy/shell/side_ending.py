"""The end of the sides of sessions: a base of the event loop.

Rules:
- A side ends gracefully: unsent bytes are sent, then FIN, then the peer's bytes are read and discarded until it closes
  or its time is up. A close with unread bytes would send a reset and lose the last replies.
- A side whose connection is lost is closed at once, and its session is told why.
- A broker that is not dialled yet has no descriptor; its side ends at once, and bytes for it are discarded.
- An exception of a session ends that session only. Its sides are closed before the session is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from proxy.shell.poller import make_poller
from proxy.shell.transport import TlsError

if TYPE_CHECKING:
    from proxy.core.engine import Engine
    from proxy.core.session.session import Session
    from proxy.shell.endpoint import Endpoint

LINGER_MS = 2_000  # how long an ended side may take to close
FLUSH_MS = 30_000  # how long an ended side may take to accept its unsent bytes


class Brokers(Protocol):
    """Dials the brokers of sessions."""

    def need(self, session: Session) -> None:
        """Dial the session's broker, because bytes for it are there. It may be told again and again."""

    def spare(self, session: Session) -> None:
        """Dial it no more, because the session has ended."""


class SideEnding:
    """All sides and their poll set, and how a side ends. `brokers`: None if sessions come with their brokers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.brokers: Brokers | None = None
        self.poller = make_poller()
        self._ends: dict[int, Endpoint] = {}
        self._closed: list[Endpoint] = []

    def _settle(self, end: Endpoint) -> None:
        """Bring both sides in line with their session; the event loop defines how."""
        raise NotImplementedError

    def _eof(self, end: Endpoint, now_ms: int) -> None:
        if end.is_client:
            end.channel.mute(Mute.ENDING)  # it sends no more, but may still read
            end.session.client_gone(now_ms)
        else:
            end.session.broker_gone(CloseReason.BROKER_CLOSED, now_ms)
            self._close(end, now_ms)
        self._settle_rest(end)

    def _broken(self, end: Endpoint, now_ms: int, error: OSError | None = None) -> None:
        self._lost(end, now_ms, error)
        self._settle_rest(end)

    def _lost(self, end: Endpoint, now_ms: int, error: OSError | None) -> None:
        """Close a side whose connection is lost, and tell the session."""
        is_tls = isinstance(error, TlsError)
        detail = str(error) if is_tls else ""
        if end.is_client:
            reason = CloseReason.CLIENT_TLS if is_tls else CloseReason.CLIENT_RESET
            end.session.client_lost(now_ms, reason, detail)
        else:
            reason = CloseReason.BROKER_TLS if is_tls else CloseReason.BROKER_RESET
            end.session.broker_gone(reason, now_ms, detail)
        self._close(end, now_ms)

    def _settle_rest(self, end: Endpoint) -> None:
        if not (end.closed and end.other.closed):
            self._settle(end)

    def _finish(self, end: Endpoint) -> None:
        """End a side gracefully: wait until its unsent bytes are accepted, send FIN, then linger."""
        if end.closed or end.lingering:
            return
        now_ms = self._engine.now_ms
        if end.fd < 0:
            self._close(end, now_ms)
            return
        if end.channel.outbox:
            if end.timer is None:
                end.timer = self._engine.timers.arm(
                    now_ms + FLUSH_MS, lambda at: self._close(end, at)
                )
            return
        if end.timer is not None:
            end.timer.cancel()
        try:
            end.transport.shutdown()
        except OSError:
            self._close(end, now_ms)
            return
        end.lingering = True
        end.timer = self._engine.timers.arm(now_ms + LINGER_MS, lambda at: self._close(end, at))

    def _close(self, end: Endpoint, now_ms: int) -> None:
        if end.closed:
            return
        end.closed = True
        if end.timer is not None:
            end.timer.cancel()
        end.direct = -1  # the number may soon be another connection's
        if end.fd >= 0:
            self._ends.pop(end.fd, None)
            self.poller.unregister(end.fd)
            end.transport.close()
        elif self.brokers is not None:
            self.brokers.spare(end.session)
        end.channel.clear()
        if not end.is_client:
            end.session.upstream_closed()
        if end.other.closed:
            end.session.handle = None
            self._closed.append(end)
            self._release(end.session, now_ms)
        else:
            end.session.end(CloseReason.INTERNAL, "", now_ms)

    def _release(self, session: Session, now_ms: int) -> None:
        try:
            session.release(now_ms)
        except Exception as error:  # noqa: BLE001 - its sockets are closed: nothing is left to end
            self._engine.report(error)
            session.client.clear()
            session.broker.clear()
            self._engine.forget(session)

    def _fail(self, end: Endpoint | None, error: Exception, now_ms: int) -> None:
        """End the session of `end` after an exception that no narrower handler caught."""
        if end is None:
            raise error  # no session caused it
        try:
            end.session.crash(error)
            self._settle_rest(end)
        except Exception as again:  # noqa: BLE001 - it cannot end gracefully
            self._engine.report(again)
            for each in (end, end.other):
                self._abandon(each, now_ms)

    def _abandon(self, end: Endpoint, now_ms: int) -> None:
        """Close this side; an exception of its session is only reported."""
        try:
            self._close(end, now_ms)
        except Exception as error:  # noqa: BLE001 - the socket is closed before the session is told
            self._engine.report(error)

    def _part(self) -> None:
        """Unlink the two sides of closed sessions, so that they need no garbage collection."""
        for end in self._closed:
            del end.other.other, end.other
        self._closed.clear()
