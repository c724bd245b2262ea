"""Replies that are kept to be rewritten: whole, or up to the end of the addresses in them.

Rules:
- Where addresses stand in the first part (`Plan.lead`) only that part is kept and rewritten; the rest streams.
- Everything else that must be changed is kept whole, from memory that is reserved (see `reply_reservations`).
- Kept bytes are counted on arrival, or when they are reserved, and released once.
- A first part that is not complete is read again when twice as much has arrived: the cost is at most two walks.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from proxy.core.errors import BrokerProtocolError
from proxy.core.memory.reply_reservations import SMALL_BYTES
from proxy.core.session.channel import Mute
from proxy.core.session.exchange import ObservedExchange, ProxyExchange
from wire import header
from wire.apis import ThrottleField
from wire.errors import WireError

if TYPE_CHECKING:
    from proxy.core.session.exchange import Exchange
    from proxy.core.session.link import Link
    from proxy.core.session.rewrites import Rewrite

_SIZE = Struct(">i").pack
_SET_SIZE = Struct(">i").pack_into
MAX_LEAD_BYTES = 8 << 20
"""The longest list of brokers that is accepted in a reply."""
INSPECTED_COPIES = 4
"""The copies of a reply while policies hear its body: frame, rewritten frame, body, and a body of a policy."""


class KeptReply:
    """One reply that is kept whole or in part. `counted_bytes` of the pool of replies are allocated for it."""

    __slots__ = ("_link", "_try_bytes", "counted_bytes", "frame")

    def __init__(self, link: Link, size: int, *, leads: bool, copies: int) -> None:
        """Keep a reply of `size` bytes: its first part (`leads`), or all of it, in memory at most `copies` times.

        Raises BrokerProtocolError for one that is larger than all memory for such replies.
        """
        self._link = link
        self.frame = bytearray()
        self.counted_bytes = 0
        self._try_bytes = 1 if leads else 0  # with so many bytes its first part may be complete
        if leads:
            return
        reservations = link.shared.reply_reservations
        max_bytes = reservations.max_bytes // copies
        if size > max_bytes:
            raise BrokerProtocolError(f"reply size {size} exceeds {max_bytes} bytes of buffer")
        whole_bytes = (4 + size) * copies
        if whole_bytes > SMALL_BYTES:
            reservations.try_reserve(self, whole_bytes)

    @property
    def leads(self) -> bool:
        """Whether its first part is kept, and not all of it."""
        return self._try_bytes > 0

    def add(self, part: memoryview) -> None:
        """Append the next bytes of the reply, and count them."""
        self.frame += part
        uncounted_bytes = len(self.frame) - self.counted_bytes
        if uncounted_bytes > 0:
            self._link.client.pool.force_allocate(uncounted_bytes)
            self.counted_bytes += uncounted_bytes

    def maybe_lead(self, exchange: Exchange, size: int, left: int) -> bytearray | None:
        """Return the first part of a reply of `size` bytes, rewritten; None while too little of it is here.

        `left`: how many of its bytes are still to come. Raises WireError or BrokerProtocolError for one that is
        malformed or too long.
        """
        frame = self.frame
        here_bytes = len(frame)
        if here_bytes < self._try_bytes and left:
            return None
        try:
            changed = rewritten(exchange, exchange.plan.lead, frame, 0, here_bytes)
        except (WireError, BrokerProtocolError):
            if not left or here_bytes > MAX_LEAD_BYTES:
                raise
            self._try_bytes = 2 * here_bytes
            if here_bytes > SMALL_BYTES and self.counted_bytes == here_bytes:
                self._link.shared.reply_reservations.try_reserve(
                    self, 2 * min(here_bytes + left, MAX_LEAD_BYTES)
                )
            return None
        if changed is None:
            return frame
        _SET_SIZE(changed, 0, size + len(changed) - here_bytes)
        return changed

    def take(self) -> int:
        """Return how many bytes of the pool are allocated for the reply; the caller must release them."""
        counted_bytes, self.counted_bytes = self.counted_bytes, 0
        self._link.shared.reply_reservations.leave(self)
        return counted_bytes

    def drop(self) -> None:
        """Release the memory of the reply, because the session ends."""
        self._link.client.pool.release(self.take())

    # -- what the reservations say ---------------------------------------------------------------

    def on_memory_refused(self) -> None:
        """Mute the broker until there is memory for the reply."""
        self._link.broker.mute(Mute.OUT_OF_MEMORY)
        self._link.uses_outboxes = True

    def on_memory_granted(self, more_bytes: int, *, waited: bool) -> None:
        """Note that `more_bytes` are allocated for the reply; unmute the broker if it waited for them."""
        self.counted_bytes += more_bytes
        if waited:
            self.on_wait_over()
            self._link.ask_for_turn()

    def on_wait_over(self) -> None:
        """Unmute the broker."""
        self._link.broker.unmute(Mute.OUT_OF_MEMORY)


def rewritten(
    exchange: Exchange,
    rewrite: Rewrite | None,
    buf: bytearray,
    pos: int,
    stop: int,
    *,
    spend: bool = False,
) -> bytearray | None:
    """Return the whole frame, changed, or None when it passes as it is. `spend`: `buf` is not needed afterwards."""
    plan = exchange.plan
    shape = plan.untagged_shape
    if shape is not None and shape.matches(buf, pos, stop):
        return None  # one call, where a walk of very many partitions takes long
    body_at = header.response_body_at(buf, pos, stop, plan.api.response_header_version)
    if body_at is None or rewrite is None:
        raise BrokerProtocolError(f"the {plan.api.name} reply is shorter than its header")
    body = rewrite(buf, body_at, stop)
    if body is None:
        return None
    head = bytes(memoryview(buf)[pos + 4 : body_at])
    if spend:
        buf.clear()  # two of a large reply at a time, never three
    return bytearray().join((_SIZE(len(head) + len(body)), head, body))


def is_kept(exchange: Exchange) -> bool:
    """Return whether an incomplete reply must be kept: to be rewritten, or because of its last field."""
    plan = exchange.plan
    if plan.walks_tail and plan.lead is None:
        return False
    return plan.rewrite is not None or (
        plan.api.throttle is ThrottleField.LAST and is_stamped(exchange)
    )


def how_kept(exchange: Exchange | ProxyExchange) -> tuple[bool, int]:
    """Return whether only its first part is kept, and how many copies of all of it memory may have at once."""
    if isinstance(exchange, ProxyExchange) or exchange.plan.rewrite is None:
        return False, 1
    if exchange.plan.streamed is not None:
        return False, INSPECTED_COPIES
    last = exchange.plan.api.throttle is ThrottleField.LAST and is_stamped(exchange)
    return exchange.plan.lead is not None and not last, 2


def is_stamped(exchange: Exchange) -> bool:
    """Return whether a throttle time is written into the reply, or may be after the policies have judged it."""
    if not isinstance(exchange, ObservedExchange):
        return False
    return exchange.plan.hooks.on_response is not None or exchange.throttle_until_ms > 0
