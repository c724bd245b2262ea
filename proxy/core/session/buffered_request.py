"""A request that is here whole: its parts, and what a verdict makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.verdicts import VerdictError, check_bounds
from proxy.core.errors import ClientProtocolError
from proxy.core.session.channel import Mute
from proxy.core.session.identity import Identity
from wire import header
from wire.apis import ApiKey
from wire.fetch import read_head as read_fetch_head

if TYPE_CHECKING:
    from policies.api import Forward
    from proxy.core.session.ending import SessionEnd
    from proxy.core.session.exchange import Exchange


def body_at(exchange: Exchange, frame: bytearray) -> int:
    """Where its body begins."""
    version = exchange.plan.api.request_header_version
    found = header.body_at(frame, 0, len(frame), version)
    if found is None:
        raise ClientProtocolError("a request head longer than its frame")
    return found


def body_of(s: SessionEnd, exchange: Exchange) -> bytes | None:
    """A copy of the body for whoever is asked about it once more; None: it was not kept.

    It is made anew each time, for a request that waits is to be held once, not twice.
    """
    frame = s.request_gathered
    return None if frame is None else bytes(memoryview(frame)[body_at(exchange, frame) :])


def changed(
    s: SessionEnd, exchange: Exchange, frame: bytearray, at: int, verdict: Forward, now_ms: int
) -> bytearray:
    """The frame that goes on: as it is, patched in place, or with another body (from `at` on).

    A patch that leaves the body is a policy's fault. Raises PolicyFault, or changes nothing where faults yield.
    """
    try:
        return _changed(frame, at, verdict)
    except VerdictError as error:
        chain, api_key = s.engine.chain, exchange.plan.api.key
        if not chain.forwards_on_error(api_key, "on_request"):
            raise s.blame(exchange, error, now_ms) from error
        chain.attribute_fault(api_key, "on_request", error)
        return frame


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


def wait_anew(s: SessionEnd, exchange: Exchange, frame: bytes | bytearray, at: int) -> None:
    """A fetch that was changed has the deadline of what is sent on."""
    head = read_fetch_head(frame, at, len(frame), exchange.plan.api.version)
    if head is not None:
        waits = head.max_wait_ms > 0 and head.min_bytes > 0
        wait_ms = s.engine.graces.fetch_wait_ms(head.max_wait_ms) if waits else 0
        cut = waits and head.max_wait_ms > s.engine.graces.max_ms
        exchange.plan = exchange.plan.waiting(wait_ms, cut=cut)
        if wait_ms:
            s.shortest_wait_ms = min(s.shortest_wait_ms, wait_ms)


def observe_sasl(s: SessionEnd, exchange: Exchange, body: bytes) -> None:
    """SASL passes untouched and is listened to. Nothing behind a token is begun before its reply."""
    api = exchange.plan.api
    if s.identity is None:
        s.identity = Identity()
    s.identity.heard_request(api.key, api.version, body)
    if api.key == ApiKey.SASL_HANDSHAKE:
        s.authenticating = True
        s.plans.clear()  # smaller requests only, until the broker has said yes
    else:
        s.mute_after_request(Mute.UPSTREAM_AUTH)
