"""A request that was received whole: its parts, and the frame after a verdict has changed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.verdicts import VerdictError, check_bounds
from proxy.core.errors import ClientProtocolError
from proxy.core.session.naming_exchange import NamingExchange
from wire import header
from wire.fetch import FINAL_EPOCH, INITIAL_EPOCH, head_offsets
from wire.fetch import read_head as read_fetch_head
from wire.primitives import INT32

if TYPE_CHECKING:
    from policies.api import Forward
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.grace_times import GraceTimes
    from proxy.core.session.link import Link
    from proxy.core.session.plan import Plan
    from proxy.core.session.shared_state import SharedState
    from wire.apis import Api
    from wire.fetch import FetchHead


def body_at(exchange: ObservedExchange, frame: bytearray) -> int:
    """Return the offset of the body in `frame`. Raises ClientProtocolError if the head is longer than the frame."""
    version = exchange.plan.api.request_header_version
    found = header.body_at(frame, 0, len(frame), version)
    if found is None:
        raise ClientProtocolError("the request head is longer than its frame")
    return found


def show_again(shared: SharedState, exchange: ObservedExchange, frame: bytearray) -> None:
    """Do as `show` for a whole request that was held: its names may be more than `show` reads in one step."""
    at, end = body_at(exchange, frame), len(frame)
    if isinstance(exchange, NamingExchange):
        exchange.show_again(frame, at, end, shared.rewrites.topics)
    else:
        show(shared, exchange, frame, at, end)


def show(
    shared: SharedState, exchange: ObservedExchange, frame: bytearray, at: int, end: int
) -> None:
    """Set what the policies need of a whole request until `hide`: a copy of its body, frame[at:end], or its names.

    A request that waits is shown again when it is judged again, so that it is not held in memory twice. Raises
    WireError if the names cannot be read, BudgetError if they are too many for one step.
    """
    if isinstance(exchange, NamingExchange):
        exchange.show(frame, at, end, shared.rewrites.topics)
        return
    exchange.decoded = None
    exchange.body = bytes(memoryview(frame)[at:end])


def hide(exchange: ObservedExchange) -> None:
    """Forget what `show` has set, and the message that was decoded from it."""
    exchange.decoded = None
    if isinstance(exchange, NamingExchange):
        exchange.hide()
    else:
        exchange.body = None


def changed(
    link: Link,
    exchange: ObservedExchange,
    frame: bytearray,
    at: int,
    verdict: Forward,
    now_ms: int,
) -> bytearray:
    """Return the frame to forward: unchanged, patched in place, or with another body (from `at` on).

    A patch outside the body is a policy's fault: raises PolicyFault, or returns `frame` unchanged if the entry
    forwards on error.
    """
    try:
        return _changed(frame, at, verdict)
    except VerdictError as error:
        chain, api_key = link.shared.chain, exchange.plan.api.key
        if not chain.forwards_on_error(api_key, "on_request"):
            raise link.calls.blame(exchange, error, now_ms) from error
        chain.attribute_fault(api_key, "on_request", error)
        return frame


def leaves_session(api: Api, frame: bytearray, at: int, head: FetchHead | None) -> bool:
    """Change the Fetch with this head, whose body begins `at`, so that the broker opens no session for it.

    Then each request names all its topics. Returns False for one that continues a session: it does not name them.
    """
    offset = head_offsets(api.version).session_epoch
    if offset is None or head is None:
        return True
    epoch = head.session_epoch
    if epoch == INITIAL_EPOCH:
        INT32.pack_into(frame, at + offset, FINAL_EPOCH)
    return epoch <= INITIAL_EPOCH


def with_body(frame: bytearray, at: int, body: bytes) -> bytearray:
    """Return the frame with another body, which begins `at`."""
    head = bytes(memoryview(frame)[4:at])
    return bytearray(b"".join(((len(head) + len(body)).to_bytes(4, "big"), head, body)))


def with_new_wait(plan: Plan, frame: bytes | bytearray, at: int, graces: GraceTimes) -> Plan:
    """Return the plan of a fetch that a policy may have changed: its deadline is that of what is sent on."""
    head = read_fetch_head(frame, at, len(frame), plan.api.version)
    if head is None:
        return plan
    waits = head.max_wait_ms > 0 and head.min_bytes > 0
    wait_ms = graces.fetch_wait_ms(head.max_wait_ms) if waits else 0
    return plan.waiting(wait_ms, ends_at_deadline=waits and head.max_wait_ms > graces.max_ms)


def _changed(frame: bytearray, at: int, verdict: Forward) -> bytearray:
    most = len(frame) - at if verdict.body is None else len(verdict.body)
    check_bounds(verdict.patches, most)
    if verdict.body is not None:
        frame = with_body(frame, at, verdict.body)
    for patch in verdict.patches:
        start = at + patch.offset
        frame[start : start + len(patch.data)] = patch.data
    return frame
