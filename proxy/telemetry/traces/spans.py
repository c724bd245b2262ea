"""Makes the spans of a RequestTrace: one SERVER span, and children that cover it without gaps.

Rules:
- Spans are made after the request has ended, off the request path, from times that the core records anyway.
- The children are the waits before the request is forwarded (`receive`, `memory`, `throttle`, `purgatory`; INTERNAL),
  then `upstream` (CLIENT) while the broker has the request. Gaps between them are `turn` (INTERNAL): the time until the
  session's next turn, or a reply made here that waits for earlier replies. So the durations add up to the SERVER's.
- A wait that begins again at once is one span.
- A throttle that lasts longer than the reply is a root span `mute`, linked to the SERVER span.
- The id of the SERVER span is the lower half of its trace id, so a link to it needs only the trace id.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from proxy.telemetry.traces import attributes
from proxy.telemetry.traces.attributes import KnownNames

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.stats.request_trace import RequestTrace, Stage
    from proxy.telemetry.traces.attributes import Attributes

SPAN_ID_MASK = (1 << 64) - 1
UPSTREAM, TURN, MUTE = "upstream", "turn", "mute"
NOTHING_KNOWN = KnownNames()
_NS_PER_US = 1000


class Kind(IntEnum):
    """The kinds of spans, with OTLP's numbers."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3


class SpanLink(NamedTuple):
    """A reference to another span."""

    trace_id: int
    span_id: int


class Span(NamedTuple):
    """One span. Ids are integers other than 0; a root has the `parent_id` 0; times are since the epoch."""

    trace_id: int
    span_id: int
    parent_id: int
    name: str
    kind: Kind
    start_ns: int
    end_ns: int
    attributes: Attributes
    failed: bool = False
    links: tuple[SpanLink, ...] = ()


class _Part(NamedTuple):
    """A child that has no id yet."""

    name: str
    kind: Kind
    began_us: int
    ended_us: int
    attributes: Attributes
    failed: bool = False


def span_count(trace: RequestTrace) -> int:
    """Return how many spans `spans_of` makes; fast, because the loop calls it."""
    count = 1
    at_us = trace.began_us
    before: Stage | None = None
    for stage in trace.stages:
        if stage.began_us > at_us:
            count += 2
        elif before is None or stage.began_us != at_us or not _is_same(before, stage):
            count += 1
        before, at_us = stage, stage.ended_us
    forwarded_us, ended_us = trace.forwarded_us, trace.ended_us
    if forwarded_us:
        return count + (forwarded_us > at_us) + (ended_us > forwarded_us)
    return count + (ended_us > at_us)


def spans_of(
    trace: RequestTrace, new_span_id: Callable[[], int], known: KnownNames = NOTHING_KNOWN
) -> list[Span]:
    """Return the SERVER span and its children. The request has ended and has a `trace_id`."""
    trace_id = int(trace.trace_id, 16)
    span_id = trace_id & SPAN_ID_MASK
    topic = attributes.topic_of(trace, known)
    server = Span(
        trace_id,
        span_id,
        0,
        f"{trace.api.name} {topic}" if topic else trace.api.name,
        Kind.SERVER,
        trace.began_us * _NS_PER_US,
        trace.ended_us * _NS_PER_US,
        attributes.of_request(trace, topic),
        failed=attributes.error_type(trace) is not None,
    )
    return [server, *(_child(part, server, new_span_id()) for part in _parts(trace, known))]


def is_muted_after(trace: RequestTrace, unmuted_us: int) -> bool:
    """Return whether the throttle lasted longer than the reply (`RequestTrace.ended_us` is 0 before it)."""
    return 0 < trace.ended_us < unmuted_us


def mute_span(trace: RequestTrace, unmuted_us: int, new_trace_id: Callable[[], int]) -> Span:
    """Return the root span of a throttle that lasted from the reply until `unmuted_us`."""
    trace_id, throttled = new_trace_id(), int(trace.trace_id, 16)
    return Span(
        trace_id,
        trace_id & SPAN_ID_MASK,
        0,
        MUTE,
        Kind.INTERNAL,
        trace.ended_us * _NS_PER_US,
        unmuted_us * _NS_PER_US,
        attributes.of_mute(trace),
        links=(SpanLink(throttled, throttled & SPAN_ID_MASK),),
    )


def _child(part: _Part, server: Span, span_id: int) -> Span:
    return Span(
        server.trace_id,
        span_id,
        server.span_id,
        part.name,
        part.kind,
        part.began_us * _NS_PER_US,
        part.ended_us * _NS_PER_US,
        part.attributes,
        part.failed,
    )


def _parts(trace: RequestTrace, known: KnownNames) -> list[_Part]:
    """Return the children in their order."""
    parts: list[_Part] = []
    at_us = trace.began_us
    run: list[Stage] = []
    for stage in trace.stages:
        if run and stage.began_us == at_us and _is_same(run[-1], stage):
            parts.pop()
        else:
            run = []
            _fill(parts, at_us, stage.began_us)
        run.append(stage)
        at_us = stage.ended_us
        described = attributes.of_wait(trace, stage, len(run))
        parts.append(_Part(stage.kind, Kind.INTERNAL, run[0].began_us, at_us, described))
    began_us, ended_us = trace.forwarded_us, trace.ended_us
    if not began_us:
        _fill(parts, at_us, ended_us)
        return parts
    _fill(parts, at_us, began_us)
    if ended_us > began_us:  # else there is no reply to wait for
        described = attributes.of_upstream(trace, known)
        failed = trace.outcome.value in attributes.UPSTREAM_FAILED
        parts.append(_Part(UPSTREAM, Kind.CLIENT, began_us, ended_us, described, failed))
    return parts


def _fill(parts: list[_Part], began_us: int, ended_us: int) -> None:
    if ended_us > began_us:
        parts.append(_Part(TURN, Kind.INTERNAL, began_us, ended_us, {}))


def _is_same(before: Stage, stage: Stage) -> bool:
    """Return whether this is the same wait, begun again."""
    return before.kind == stage.kind and before.detail == stage.detail
