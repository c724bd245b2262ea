"""A request that was received whole: its parts, and the frame after a verdict has changed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.verdicts import VerdictError, check_bounds
from proxy.core.errors import ClientProtocolError
from wire import header
from wire.fetch import read_head as read_fetch_head

if TYPE_CHECKING:
    from policies.api import Forward
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.grace_times import GraceTimes
    from proxy.core.session.owner import Owner
    from proxy.core.session.plan import Plan


def body_at(exchange: ObservedExchange, frame: bytearray) -> int:
    """Return the offset of the body in `frame`. Raises ClientProtocolError if the head is longer than the frame."""
    version = exchange.plan.api.request_header_version
    found = header.body_at(frame, 0, len(frame), version)
    if found is None:
        raise ClientProtocolError("the request head is longer than its frame")
    return found


def body_of(exchange: ObservedExchange, frame: bytearray) -> bytes:
    """Return a copy of the body, for a policy that is asked about it once more.

    It is copied each time, so that a request that waits is not held in memory twice.
    """
    return bytes(memoryview(frame)[body_at(exchange, frame) :])


def changed(
    owner: Owner,
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
        chain, api_key = owner.shared.chain, exchange.plan.api.key
        if not chain.forwards_on_error(api_key, "on_request"):
            raise owner.calls.blame(exchange, error, now_ms) from error
        chain.attribute_fault(api_key, "on_request", error)
        return frame


def with_new_wait(plan: Plan, frame: bytes | bytearray, at: int, graces: GraceTimes) -> Plan:
    """Return the plan of a fetch that a policy may have changed: its deadline is that of what is sent on."""
    head = read_fetch_head(frame, at, len(frame), plan.api.version)
    if head is None:
        return plan
    waits = head.max_wait_ms > 0 and head.min_bytes > 0
    wait_ms = graces.fetch_wait_ms(head.max_wait_ms) if waits else 0
    return plan.waiting(wait_ms, cut=waits and head.max_wait_ms > graces.max_ms)


def _changed(frame: bytearray, at: int, verdict: Forward) -> bytearray:
    most = len(frame) - at if verdict.body is None else len(verdict.body)
    check_bounds(verdict.patches, most)
    if verdict.body is not None:
        head = bytes(memoryview(frame)[4:at])
        size = len(head) + len(verdict.body)
        frame = bytearray(size.to_bytes(4, "big") + head + verdict.body)
    for patch in verdict.patches:
        start = at + patch.offset
        frame[start : start + len(patch.data)] = patch.data
    return frame
