"""The last things that happened to requests: who was throttled, held, refused, answered here, or slow.

Rules:
- On the loop a trail is put into a ring and nothing else; words are made for whoever looks.
- Kept are those that something was decided about, or that went wrong. A request that was only sampled is nobody's news.
- What a line says comes from names and figures, never from a body.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from policies.api import Outcome
from proxy.core.observer import Observer
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from policies.api import Excess
    from proxy.core.trail import Stage, Trail

KEPT = 500
_NAME_MOST_CHARS = 249


class Decision(msgspec.Struct, frozen=True):
    """One line. `ms` is what it cost the client: how long it was delayed, or waited for its answer."""

    ts_ms: int
    user: str
    client_id: str
    api: str
    what: str
    """expired, refused, throttled, held, failed, slow: the first that is true."""
    ms: int
    detail: str
    trace_id: str
    """Empty: there is no trace of it."""


class Decisions(Observer):
    """See the module. Listens behind the tracer, which gives the trails their ids."""

    def __init__(self, kept: int = KEPT) -> None:
        self._ring: deque[Trail] = deque(maxlen=kept)

    def on_trail(self, trail: Trail) -> None:
        """See Observer."""
        if (
            trail.quiet_until_ms
            or trail.refused
            or trail.slow
            or trail.stages
            or trail.outcome is Outcome.EXPIRED
            or trail.outcome is Outcome.DISCONNECTED
        ):
            self._ring.append(trail)

    def latest(self, most: int) -> list[Decision]:
        """The newest first."""
        return [decision_of(trail) for trail in islice(reversed(self._ring), most)]


def decision_of(trail: Trail) -> Decision:
    """What there is to say of one request."""
    what, ms, detail = _judged(trail)
    return Decision(
        trail.ended_us // 1000,
        trail.peer.user,
        trail.peer.client_id[:_NAME_MOST_CHARS],
        trail.api.name,
        what,
        ms,
        detail,
        trail.trace_id,
    )


def delayed_ms(trail: Trail) -> int:
    """How long a quota delays this request and those behind it: held so far, and its client muted still."""
    held_us = sum(each.ended_us - each.began_us for each in trail.stages if each.kind == "throttle")
    return held_us // 1000 + trail.throttle_time_ms()


def _judged(trail: Trail) -> tuple[str, int, str]:
    took_ms = (trail.ended_us - trail.began_us) // 1000
    waits = {each.kind: each for each in trail.stages}
    if trail.outcome is Outcome.EXPIRED:
        return "expired", took_ms, f"the broker had not answered after {took_ms} ms"
    if trail.refused:
        return "refused", took_ms, _code(trail.refused)
    if trail.quiet_until_ms or "throttle" in waits:
        return "throttled", delayed_ms(trail), _excess(trail.excess)
    for kind in ("purgatory", "memory"):
        if kind in waits:
            return "held", _ms(waits[kind]), _waited(waits[kind])
    if trail.outcome is Outcome.DISCONNECTED:
        return "failed", took_ms, "its connection ended before it was answered"
    if trail.forwarded_us and trail.slow:
        broker_ms = (trail.ended_us - trail.forwarded_us) // 1000
        return "slow", took_ms, f"the broker took {broker_ms} ms"
    return "slow", took_ms, f"its client took {took_ms} ms to send it"


def _ms(stage: Stage) -> int:
    return (stage.ended_us - stage.began_us) // 1000


def _waited(stage: Stage) -> str:
    if stage.kind == "memory":
        return "waited for memory"
    return f"waited for {_printable(stage.detail)}" if stage.detail else "waited"


def _excess(excess: Excess | None) -> str:
    if excess is None:
        return ""
    figures = f"{excess.observed:.2f} of {excess.bound:.2f}"
    return f"{excess.quota} {figures} ({_printable(excess.entity)})"


def _code(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error code {code}"


def _printable(text: str) -> str:
    """Names are a client's choice: no control characters, and no novels."""
    return "".join(c if c.isprintable() else "?" for c in text[:_NAME_MOST_CHARS])
