"""Bring the two sides of a session in line with it, after an event, a turn or a fault: functions over endpoints.

Rules:
- Unsent bytes are sent first. Then an ended session finishes both sides; of any other, a side that has unsent bytes
  mutes the one that they come from, and each side watches for what it waits for. Its mask changes only if that does.
- After a send that was not taken whole none follows: its side is watched for room, or its broker is dialled. The poll
  set is told that the other one is muted only when more of its bytes come.
- A muted client that may stay so is watched for a disconnect: it frees its place and sockets.
- An exception of a session ends that session only. Its sides are closed before the session is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from proxy.shell import masks, side_ending
from proxy.shell.endpoint import has_pending
from proxy.shell.loop_limits import READ_BYTES

if TYPE_CHECKING:
    from proxy.shell.endpoint import Endpoint, Endpoints

_BACKPRESSURE = Mute.BACKPRESSURE
_LASTING = Mute.THROTTLED | Mute.OUT_OF_MEMORY  # a disconnect is noticed meanwhile


def settle(endpoints: Endpoints, end: Endpoint) -> None:
    """Bring both sides in line with their session: send, end, set backpressure, watch."""
    session = end.session
    session.uses_outboxes = False
    for each in (end, end.other):
        if each.channel.outbox and each.fd >= 0 and not each.closed:
            _send_outbox(endpoints, each)
    client, broker = (end, end.other) if end.is_client else (end.other, end)
    if session.ended:
        side_ending.finish(endpoints, client)
        side_ending.finish(endpoints, broker)
    else:
        if broker.fd < 0 and broker.channel.outbox and endpoints.brokers is not None:
            endpoints.brokers.need(session)
        _set_backpressure(client, broker)
    _update_interest(endpoints, client)
    _update_interest(endpoints, broker)


def settle_rest(endpoints: Endpoints, end: Endpoint) -> None:
    """Settle what is left of a session that may have lost both sides."""
    if not (end.closed and end.other.closed):
        settle(endpoints, end)


def wait_for_room(endpoints: Endpoints, end: Endpoint) -> None:
    """Wait until this side takes the bytes that it has just refused, and mute the other one."""
    session, source = end.session, end.other
    if session.ended or session.uses_outboxes or source.closed or source.lingering:
        settle(endpoints, end)
        return
    if end.fd < 0 and endpoints.brokers is not None:
        endpoints.brokers.need(session)
    source.expect |= masks.SLOWED
    if end.is_client:
        _set_backpressure(end, source)
    else:
        _set_backpressure(source, end)
    _update_interest(endpoints, end)


def on_eof(endpoints: Endpoints, end: Endpoint, now_ms: int) -> None:
    """Tell the session that this side has sent its last byte."""
    end.finished = True
    if end.is_client:
        end.channel.mute(Mute.ENDING)  # it sends no more, but may still read
        end.session.client_gone(now_ms)
    else:
        end.session.broker_gone(CloseReason.BROKER_CLOSED, now_ms)
        side_ending.close(endpoints, end, now_ms)
    settle_rest(endpoints, end)


def on_broken(
    endpoints: Endpoints, end: Endpoint, now_ms: int, error: OSError | None = None
) -> None:
    """Close a side whose connection is lost, and settle the other."""
    side_ending.lose(endpoints, end, now_ms, error)
    settle_rest(endpoints, end)


def on_fault(endpoints: Endpoints, end: Endpoint | None, error: Exception, now_ms: int) -> None:
    """End the session of `end` after an exception that no narrower handler caught. Without one, raise it."""
    if end is None:
        raise error  # no session caused it
    try:
        end.session.crash(error)
        settle_rest(endpoints, end)
    except Exception as again:  # noqa: BLE001 - it cannot end gracefully
        endpoints.engine.report(again)
        for each in (end, end.other):
            side_ending.abandon(endpoints, each, now_ms)


def _send_outbox(endpoints: Endpoints, end: Endpoint) -> None:
    channel = end.channel
    try:
        while channel.outbox:
            front = channel.front(READ_BYTES)
            sent = end.send(front)
            channel.sent(sent)
            if sent < len(front):
                endpoints.refused_sends += 1
                return
    except BlockingIOError:
        endpoints.refused_sends += 1
    except OSError as error:
        side_ending.lose(endpoints, end, endpoints.engine.now_ms, error)


def _set_backpressure(client: Endpoint, broker: Endpoint) -> None:
    """Mute the side whose bytes the other one does not take, and unmute it when it has."""
    to_client, to_broker = client.channel, broker.channel
    if to_client.outbox:
        to_broker.mute(_BACKPRESSURE)
    else:
        to_broker.unmute(_BACKPRESSURE)
    if to_client.outbox or to_broker.outbox:
        to_client.mute(_BACKPRESSURE)
    else:
        to_client.unmute(_BACKPRESSURE)


def _update_interest(endpoints: Endpoints, end: Endpoint) -> None:
    """Register the events that this side now waits for."""
    if end.closed or end.fd < 0:
        return
    if end.lingering:
        if end.expect != masks.LINGERING:
            end.expect = masks.LINGERING
            endpoints.interest_changes += 1
            endpoints.poller.modify(end.fd, masks.IN)
        return
    channel = end.channel
    want = (masks.OUT if channel.outbox else 0) | (0 if channel.muted else masks.IN)
    held = end.session.held
    waits = channel.muted & _LASTING and not end.hung_up if held is None else not held.hung_up
    if waits and end.is_client:
        want |= masks.RDHUP
    before = end.expect
    is_slow = channel.muted or (end.pending is not None and end.read_bytes < READ_BYTES)
    end.expect = want | before & (masks.EARLY | masks.SLOWED if is_slow else masks.EARLY)
    if want != before & ~(masks.EARLY | masks.SLOWED):
        endpoints.interest_changes += 1
        endpoints.poller.modify(end.fd, want)
    elif not before & masks.SLOWED:
        return
    if want & masks.IN and has_pending(end):
        endpoints.engine.schedule(end.session)
