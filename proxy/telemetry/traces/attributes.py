"""The attributes of spans.

Rules:
- OpenTelemetry's names where its conventions have one (`messaging.*`, `client.*`, `server.*`, `user.name`,
  `error.type`), with Kafka's terms as values; all others begin with `sluice.`. The conventions describe clients, not
  proxies, so some attributes that they require are missing.
- No payload. Names that a peer chooses are cut and made printable.
- Times are in milliseconds with fractions, rates per second, sizes without the four bytes of the frame length.
- docs/operate/traces.md lists them all for readers.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from proxy.telemetry.escaping import printable
from wire import produce_partitions
from wire.errors import ErrorCode
from wire.header import body_at
from wire.produce import ProduceWalker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.core.stats.request_trace import RequestTrace, Stage
    from wire.produce_partitions import Topics

Value: TypeAlias = str | bool | int | float | tuple[str, ...]
Attributes: TypeAlias = dict[str, Value]
Address: TypeAlias = tuple[str, int]

UPSTREAM_FAILED: Final = frozenset({"expired", "disconnected"})
"""Outcomes without a reply of the broker."""
_NAMELESS: Final = " object at 0x"
"""In the repr of a watch key without a name."""
_OPERATIONS: Final = {"Produce": "send", "Fetch": "receive"}


class KnownNames(NamedTuple):
    """Brokers' addresses by node id and topics' names by id, as learned from replies."""

    address_of: Callable[[int], Address | None] = lambda _: None
    topics: Mapping[bytes, str] = MappingProxyType({})


def of_request(trace: RequestTrace, topic: str) -> Attributes:
    """Return the attributes of the SERVER span; `topic` is that of `topic_of`."""
    api, peer = trace.api, trace.peer
    found: Attributes = {
        "messaging.system": "kafka",
        "messaging.operation.name": api.name,
        "client.address": peer.host,
        "client.port": peer.port,
        "user.name": printable(peer.user),
        "sluice.principal.source": peer.principal_source,
        "sluice.principal.proof": peer.proof,
        "sluice.session": peer.session_id,
        "sluice.node": _node(trace),
        "sluice.api.key": api.key,
        "sluice.api.version": api.version,
        "sluice.correlation_id": trace.correlation_id,
        "sluice.request.size": trace.size_bytes,
        "sluice.reply.size": trace.reply_bytes,
        "sluice.outcome": trace.outcome.value,
        "sluice.reasons": reasons(trace),
    }
    if api.name in _OPERATIONS:
        found["messaging.operation.type"] = _OPERATIONS[api.name]
    if peer.client_id:
        found["messaging.client.id"] = printable(peer.client_id)
    if topic:
        found["messaging.destination.name"] = topic
    waited_us = sum(stage.ended_us - stage.began_us for stage in _throttles(trace))
    if waited_us:
        found["sluice.throttle.ms"] = waited_us / 1000
    quiet_ms = trace.throttle_time_ms()
    if quiet_ms:
        found["sluice.throttle_time_ms"] = quiet_ms
    if trace.refused:
        found["sluice.refused.code"] = trace.refused
        if trace.refused_by:
            found["sluice.refused.policy"] = trace.refused_by
    error = error_type(trace)
    if error is not None:
        found["error.type"] = error
    return found | _quota(trace)


def of_wait(trace: RequestTrace, stage: Stage, times: int) -> Attributes:
    """Return the attributes of a wait that was begun `times` times; `stage` is the last of them."""
    found: Attributes = {}
    if stage.kind == "throttle":
        found |= _quota(trace)
    if stage.detail and _NAMELESS not in stage.detail:
        found["sluice.condition"] = printable(stage.detail)
    if stage.kind == "purgatory" and stage.outcome:
        found["sluice.purgatory.outcome"] = stage.outcome
    if times > 1:
        found["sluice.waits"] = times
    return found


def of_upstream(trace: RequestTrace, known: KnownNames) -> Attributes:
    """Return the attributes of the `upstream` span."""
    node_id = trace.peer.node_id
    address = None if node_id is None else known.address_of(node_id)
    found: Attributes = {
        "messaging.system": "kafka",
        "messaging.operation.name": trace.api.name,
        "sluice.node": _node(trace),
    }
    if address is not None:
        found["server.address"], found["server.port"] = printable(address[0]), address[1]
    if trace.outcome.value in UPSTREAM_FAILED:
        found["error.type"] = trace.outcome.value
    return found


def of_mute(trace: RequestTrace) -> Attributes:
    """Return the attributes of the `mute` span."""
    found: Attributes = {
        "user.name": printable(trace.peer.user),
        "sluice.session": trace.peer.session_id,
        "sluice.throttle_time_ms": trace.throttle_time_ms(),
    }
    if trace.peer.client_id:
        found["messaging.client.id"] = printable(trace.peer.client_id)
    return found | _quota(trace)


def reasons(trace: RequestTrace) -> tuple[str, ...]:
    """Return all reasons for which the request is traced."""
    kinds = {stage.kind for stage in trace.stages}
    applies = {
        "throttled": "throttle" in kinds or trace.throttle_until_ms > 0,
        "held": "purgatory" in kinds,
        "out_of_memory": "memory" in kinds,
        "expired": trace.outcome.value == "expired",
        "refused": trace.refused != 0,
        "disconnected": trace.outcome.value == "disconnected",
        "slow": trace.slow,
        "sampled": trace.sampled,
    }
    return tuple(reason for reason, is_one in applies.items() if is_one)


def error_type(trace: RequestTrace) -> str | None:
    """Return Kafka's name of the error of a refusal, or the outcome of a failed request; else None."""
    if trace.refused:
        try:
            return ErrorCode(trace.refused).name
        except ValueError:
            return str(trace.refused)
    return trace.outcome.value if trace.outcome.value in UPSTREAM_FAILED else None


def topic_of(trace: RequestTrace, known: KnownNames) -> str:
    """Return the topic of a Produce to one topic whose partitions were kept (acks=all); else an empty text."""
    kept, api = trace.kept, trace.api
    topics: Topics = ()
    try:
        if isinstance(kept, bytes):
            topics = produce_partitions.unpack(kept, api.version)
        elif isinstance(kept, bytearray):  # the request, or its head
            at = body_at(kept, 0, len(kept), api.request_header_version)
            walker = ProduceWalker(api.version)
            walker.feed(kept, len(kept) if at is None else at, len(kept))
            topics = walker.topics
    except ValueError:  # a WireError, or invalid UTF-8
        return ""
    if len(topics) != 1:
        return ""
    topic = topics[0][0]  # from v13 on it is an id
    return printable(topic if isinstance(topic, str) else known.topics.get(topic, ""))


def _throttles(trace: RequestTrace) -> list[Stage]:
    return [stage for stage in trace.stages if stage.kind == "throttle"]


def _quota(trace: RequestTrace) -> Attributes:
    excess = trace.excess
    if excess is None:
        return {}
    return {
        "sluice.quota.entity": printable(excess.entity),
        "sluice.quota.name": excess.quota,
        "sluice.quota.observed": float(excess.observed),
        "sluice.quota.bound": float(excess.bound),
    }


def _node(trace: RequestTrace) -> str:
    return "bootstrap" if trace.peer.node_id is None else str(trace.peer.node_id)
