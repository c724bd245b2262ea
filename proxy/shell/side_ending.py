"""How the sides of a session end: functions over the endpoints of an event loop.

Rules:
- A side ends gracefully: unsent bytes are sent, then FIN, then the peer's bytes are read and discarded until it closes
  or its time is up. A close with unread bytes would send a reset and lose the last replies.
- A side that has sent its last byte is closed at once then: a client whose end of stream was read, and a broker that
  owes no reply. No byte of it can be unread.
- A side whose connection is lost is closed at once, and its session is told why.
- A broker that is not dialled yet has no descriptor; its side ends at once, and bytes for it are discarded.
- A session is released when both of its sides are closed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from proxy.core.errors import CloseReason
from proxy.shell.endpoint import remove
from proxy.shell.transport import TlsError

if TYPE_CHECKING:
    from proxy.core.session.session import Session
    from proxy.shell.endpoint import Endpoint, Endpoints

LINGER_MS = 2_000  # how long an ended side may take to close
FLUSH_MS = 30_000  # how long an ended side may take to accept its unsent bytes
_INTERNAL: Final = CloseReason.INTERNAL  # a member of an enum is found more slowly


def lose(endpoints: Endpoints, end: Endpoint, now_ms: int, error: OSError | None) -> None:
    """Close a side whose connection is lost, and tell the session."""
    is_tls = isinstance(error, TlsError)
    detail = str(error) if is_tls else ""
    if end.is_client:
        reason = CloseReason.CLIENT_TLS if is_tls else CloseReason.CLIENT_RESET
        end.session.client_lost(now_ms, reason, detail)
    else:
        reason = CloseReason.BROKER_TLS if is_tls else CloseReason.BROKER_RESET
        end.session.broker_gone(reason, now_ms, detail)
    close(endpoints, end, now_ms)


def finish(endpoints: Endpoints, end: Endpoint) -> None:
    """End a side gracefully: wait until its unsent bytes are accepted, send FIN, then linger if it may send more."""
    if end.closed or end.lingering:
        return
    engine = endpoints.engine
    now_ms = engine.now_ms
    if end.fd < 0:
        close(endpoints, end, now_ms)
        return
    if end.channel.outbox:
        if end.timer is None:
            end.timer = engine.timers.arm(now_ms + FLUSH_MS, partial(close, endpoints, end))
        return
    if end.timer is not None:
        end.timer.cancel()
    sends_no_more = end.finished if end.is_client else end.session.nothing_due
    if sends_no_more and end.pending is None:  # TLS says goodbye by a message of its own
        close(endpoints, end, now_ms)
        return
    try:
        end.transport.shutdown()
    except OSError:
        close(endpoints, end, now_ms)
        return
    end.lingering = True
    end.timer = engine.timers.arm(now_ms + LINGER_MS, partial(close, endpoints, end))


def close(endpoints: Endpoints, end: Endpoint, now_ms: int) -> None:
    """Close a side now. Its session ends, or is released if this was the second side."""
    if end.closed:
        return
    end.closed = True
    if end.timer is not None:
        end.timer.cancel()
    end.direct = -1  # the number may soon be another connection's
    if end.fd >= 0:
        remove(endpoints, end)
        endpoints.poller.unregister(end.fd)
        end.transport.close()
    elif endpoints.brokers is not None:
        endpoints.brokers.cancel(end.session)
    end.channel.clear()
    if not end.is_client:
        end.session.upstream_closed()
    if end.other.closed:
        end.session.handle = None
        endpoints.closed.append(end)
        _release(endpoints, end.session, now_ms)
    else:
        end.session.end(_INTERNAL, "", now_ms)


def abandon(endpoints: Endpoints, end: Endpoint, now_ms: int) -> None:
    """Close this side; an exception of its session is only reported."""
    try:
        close(endpoints, end, now_ms)
    except Exception as error:  # noqa: BLE001 - the socket is closed before the session is told
        endpoints.engine.report(error)


def unlink_closed(endpoints: Endpoints) -> None:
    """Unlink the two sides of closed sessions, so that they need no garbage collection."""
    for end in endpoints.closed:
        del end.other.other, end.other
    endpoints.closed.clear()


def _release(endpoints: Endpoints, session: Session, now_ms: int) -> None:
    try:
        session.release(now_ms)
    except Exception as error:  # noqa: BLE001 - its sockets are closed: nothing is left to end
        endpoints.engine.report(error)
        session.client.clear()
        session.broker.clear()
        endpoints.engine.forget(session)
