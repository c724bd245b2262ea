"""Replies that cannot pass as they come: whole, or as far as the addresses in them.

Rules:
- Where addresses stand in the first part (`Plan.lead`) only that part is kept and rewritten; the rest streams.
- Everything else that must be changed is kept whole, from memory that is reserved (see `reply_reservations`).
- What is kept is counted as it comes, or when it is reserved, and given back once.
- A part that is not whole yet is tried again when twice as much is here: a reply costs no more than two walks.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from proxy.core.errors import BrokerProtocolError
from proxy.core.memory.reply_reservations import SMALL_BYTES
from wire import header
from wire.errors import WireError

if TYPE_CHECKING:
    from proxy.core.session.ending import SessionEnd
    from proxy.core.session.exchange import Exchange
    from proxy.core.session.plan import Rewrite

_SIZE = Struct(">i").pack
_SET_SIZE = Struct(">i").pack_into
LEAD_MAX_BYTES = 8 << 20
"""The list of brokers of no cluster is longer."""


def begin(s: SessionEnd, size: int, *, leads: bool, copies: int) -> None:
    """A reply of `size` bytes is kept from here on: its first part, or all of it, `copies` times at most.

    Raises BrokerProtocolError for one that is larger than all memory there is for such replies.
    """
    s.reply_gathered = bytearray()
    s.reply_try_bytes = 1 if leads else 0
    if leads:
        return
    whole_bytes = 4 + size
    max_bytes = s.engine.reply_reservations.max_bytes // copies
    if size > max_bytes:
        s.reply_gathered = None
        raise BrokerProtocolError(
            f"a reply of {size} bytes that has to be kept whole ({max_bytes} may be)"
        )
    if whole_bytes * copies > SMALL_BYTES:
        s.engine.reply_reservations.try_reserve(s, whole_bytes * copies)


def add(s: SessionEnd, part: memoryview) -> None:
    """More of it is here."""
    frame = s.reply_gathered
    assert frame is not None  # noqa: S101 - the caller has looked
    frame += part
    uncounted_bytes = len(frame) - s.reply_counted
    if uncounted_bytes > 0:
        s.client.pool.force_allocate(uncounted_bytes)
        s.reply_counted += uncounted_bytes


def maybe_lead(s: SessionEnd, exchange: Exchange) -> bytearray | None:
    """The first part of a reply whose rest streams, rewritten; None while too little of it is here.

    Raises WireError or BrokerProtocolError for one that is malformed or too long.
    """
    frame = s.reply_gathered
    assert frame is not None  # noqa: S101 - the caller has looked
    here_bytes = len(frame)
    if here_bytes < s.reply_try_bytes and s.reply_left:
        return None
    try:
        changed = rewritten(exchange, exchange.plan.lead, frame, 0, here_bytes)
    except (WireError, BrokerProtocolError):
        if not s.reply_left or here_bytes > LEAD_MAX_BYTES:
            raise
        s.reply_try_bytes = 2 * here_bytes
        if here_bytes > SMALL_BYTES and s.reply_counted == here_bytes:
            s.engine.reply_reservations.try_reserve(
                s, 2 * min(here_bytes + s.reply_left, LEAD_MAX_BYTES)
            )
        return None
    if changed is None:
        return frame
    _SET_SIZE(changed, 0, s.reply_bytes + len(changed) - here_bytes)
    return changed


def take(s: SessionEnd) -> tuple[bytearray, int]:
    """What was kept, and how many bytes of the pool are counted for it: the caller's from now on."""
    frame, s.reply_gathered = s.reply_gathered, None
    counted, s.reply_counted = s.reply_counted, 0
    s.reply_try_bytes = 0
    s.engine.reply_reservations.leave(s)
    assert frame is not None  # noqa: S101 - the caller has looked
    return frame, counted


def forget(s: SessionEnd) -> None:
    """The session ends: give back what was kept of a reply."""
    if s.reply_gathered is not None:
        _, counted = take(s)
        s.client.pool.release(counted)


def rewritten(
    exchange: Exchange,
    rewrite: Rewrite | None,
    buf: bytearray,
    pos: int,
    stop: int,
    *,
    spend: bool = False,
) -> bytearray | None:
    """The whole frame anew, or None when it passes as it is. `spend`: `buf` is not needed afterwards."""
    plan = exchange.plan
    body_at = header.response_body_at(buf, pos, stop, plan.api.response_header_version)
    if body_at is None or rewrite is None:
        raise BrokerProtocolError(f"a {plan.api.name} reply shorter than its header")
    body = rewrite(buf, body_at, stop)
    if body is None:
        return None
    head = bytes(memoryview(buf)[pos + 4 : body_at])
    if spend:
        buf.clear()  # two of a large reply at a time, never three
    return bytearray().join((_SIZE(len(head) + len(body)), head, body))
