"""Requests that policies see whole, judged where they lie in the read: no copy, and no memory to wait for.

Rules:
- Frames of at most MAX_FRAME_BYTES that are whole in the read, and MAX_STEP_BYTES of them in a step of the event loop,
  of all sessions: the loop reads its clock after a request of the general path, not after each of these. All others
  take the general path, with the same verdicts, and the same bytes for the broker.
- A request that cannot be read takes the general path, which reports it.
- A verdict that changes, holds or answers the request is applied by the general path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.api import Need
from proxy.core.errors import ClientProtocolError
from proxy.core.session.body_walk import read_whole_head
from proxy.core.session.buffered_request import hide, leaves_session, show
from proxy.core.session.naming_exchange import NamingExchange
from wire.apis import ApiKey
from wire.errors import WireError
from wire.fetch import INITIAL_EPOCH, FetchHead
from wire.fetch import read_head as read_fetch_head

if TYPE_CHECKING:
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.shared_state import SharedState

_FETCH: Final = int(ApiKey.FETCH)
MAX_FRAME_BYTES: Final = 4_096
MAX_STEP_BYTES: Final = 8_192
"""Names are read at about 0.3 µs a byte at worst, so a step takes some 2 ms more at most."""


def show_in_place(
    shared: SharedState, exchange: ObservedExchange, buf: bytearray, pos: int, stop: int
) -> bool:
    """Set what the policies need of the request in buf[pos:stop]; False if the general path has to judge it."""
    plan = exchange.plan
    body_at = pos + plan.body_at
    try:
        if plan.api.key == _FETCH:
            exchange.head = head = read_fetch_head(buf, body_at, stop, plan.api.version)
            if head is None or (plan.shows_names and head.session_epoch > INITIAL_EPOCH):
                return False  # it is malformed, or leaves out topics
        elif plan.hooks.wants_head:
            read_whole_head(shared, exchange, buf, body_at, stop)
        if isinstance(exchange, NamingExchange):
            exchange.show(buf, body_at, stop, shared.rewrites.topics)
        elif plan.hooks.need is Need.HEAD:
            exchange.body = None
        else:
            show(shared, exchange, buf, body_at, stop)
    except (WireError, ClientProtocolError):
        return False
    return True


def leave_read(exchange: ObservedExchange) -> None:
    """Forget the bytes of a request that is not forwarded as it is. Its verdict may be about the names: they stay."""
    if isinstance(exchange, NamingExchange):
        exchange.forget_frame()
    else:
        hide(exchange)


def pass_read(exchange: ObservedExchange, buf: bytearray, pos: int) -> None:
    """Forget the bytes of the request at `pos`, which is forwarded from the read."""
    hide(exchange)
    head, plan = exchange.head, exchange.plan
    if plan.shows_names and isinstance(head, FetchHead):
        leaves_session(plan.api, buf, pos + plan.body_at, head)
