"""Broker addresses in responses: which bodies carry them, and how they are rewritten.

- No real broker address reaches a client (law 8): every API of the table with `carries_addresses` has a rewriter
  here.
- Only the segment with the addresses changes. The bytes before and after it (topics, partitions, tagged fields known
  or not) are copied unchanged.
- A rewriter takes a whole response body and returns a new one, or None when nothing had to change.
- A null or empty host names no broker (FindCoordinator with an error) and stays as it is. Hosts that are not brokers
  (ACL entries, Streams user endpoints) are not rewritten.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from wire import node_endpoints
from wire.apis import Api, ApiKey
from wire.broker_lists import (
    Advertise,
    Parts,
    classic_address,
    classic_brokers,
    compact_address,
    compact_brokers,
    is_unchanged,
    splice,
)
from wire.primitives import (
    REPLY_ELEMENT_BUDGET,
    compact_count,
    int32_at,
    skip,
    skip_compact,
    skip_string,
    spend,
    spend_tags,
)
from wire.untagged_reply import UntaggedFetch, UntaggedReply

__all__ = [
    "LISTENER_APIS",
    "Advertise",
    "LeadFinder",
    "Rewriter",
    "lead_finder",
    "quick_check",
    "rewriter",
]

Rewriter: TypeAlias = Callable[[bytearray, int, int, Advertise], bytes | None]
"""(buf, body_start, body_end, advertise) -> the new body, or None when nothing changed."""

LeadFinder: TypeAlias = Callable[[bytearray, int, int, Advertise], tuple[int, int, Parts | None]]
"""(buf, body_start, body_end, advertise) -> where the list of brokers begins and ends, and its new parts or None.

It reads no further, so it accepts the first part of a body, and raises `WireError` while the list is incomplete.
"""

LISTENER_APIS: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
    }
)
"""Keys whose responses name a broker's own listener, so that Sluice may dial it. DescribeQuorum names listeners of
controllers, and so does DescribeCluster if the request asks for controllers."""

_REPLICA_FIXED_BYTES: Final = 4 + 16 + 8 + 8 + 8  # id, directory, end offset, two timestamps


def rewriter(api: Api) -> Rewriter | None:
    """Return the rewriter of an API's responses; None if they name no broker.

    A rewriter raises `WireError` for a malformed body. Call this once per API, not once per frame.
    """
    if not api.carries_addresses:
        return None
    if (find_lead := lead_finder(api)) is not None:
        return partial(_rewrite_lead, find_lead)
    find = _REWRITERS.get(api.key)
    return find(api.version) if find else None


def lead_finder(api: Api) -> LeadFinder | None:
    """Return what finds the brokers in an API's responses if all addresses are in their first part; else None."""
    find = _LEADS.get(api.key) if api.carries_addresses else None
    return find(api.version) if find else None


def _rewrite_lead(
    find: LeadFinder, buf: bytearray, start: int, end: int, advertise: Advertise
) -> bytes | None:
    at, after, new = find(buf, start, end, advertise)
    return splice(buf, start, end, new, at, after)


def quick_check(api: Api) -> UntaggedReply | None:
    """Return the shape in which responses that may name brokers surely name none; None if the API has none."""
    if not api.carries_addresses:
        return None
    if api.key == ApiKey.FETCH:
        return UntaggedFetch(api.version)
    return UntaggedReply(api.version) if api.key == ApiKey.PRODUCE else None


def _metadata(version: int) -> LeadFinder:
    lead_bytes = 4 if version >= 3 else 0  # throttle_time_ms
    if version >= 9:
        return partial(_metadata_flexible, lead_bytes)
    return partial(_metadata_classic, lead_bytes, racks=version >= 1)


def _metadata_flexible(
    lead_bytes: int, buf: bytearray, start: int, end: int, advertise: Advertise
) -> tuple[int, int, Parts | None]:
    at = start + lead_bytes  # a body cut before it has no count to read
    new, after = compact_brokers(buf, at, end, 0, advertise)
    return at, after, new


def _metadata_classic(
    lead_bytes: int, buf: bytearray, start: int, end: int, advertise: Advertise, *, racks: bool
) -> tuple[int, int, Parts | None]:
    at = skip(start, lead_bytes, end)
    new, after = classic_brokers(buf, at, end, advertise, racks=racks)
    return at, after, new


def _describe_cluster(version: int) -> LeadFinder:
    endpoint_type_bytes = 1 if version >= 1 else 0
    fenced_bytes = 1 if version >= 2 else 0

    def find(
        buf: bytearray, start: int, end: int, advertise: Advertise
    ) -> tuple[int, int, Parts | None]:
        at = skip_compact(buf, skip(start, 6, end), end)  # throttle time, error code, message
        at = skip_compact(buf, skip(at, endpoint_type_bytes, end), end)  # cluster id
        at = skip(at, 4, end)  # controller id
        new, after = compact_brokers(buf, at, end, fenced_bytes, advertise)
        return at, after, new

    return find


def _find_coordinator(version: int) -> Rewriter:
    return _coordinators if version >= 4 else partial(_coordinator, version)


def _coordinator(
    version: int, buf: bytearray, start: int, end: int, advertise: Advertise
) -> bytes | None:
    """Rewrite v0 to v3: throttle time (v1+), error code, message (v1+), node id, host, port."""
    at = skip(start, 6 if version >= 1 else 2, end)
    if version >= 1:
        at = skip_compact(buf, at, end) if version >= 3 else skip_string(buf, at, end)
    node_at, at = at, skip(at, 4, end)
    address = compact_address if version >= 3 else classic_address
    new, after = address(buf, int32_at(buf, node_at)[0], at, end, advertise)
    return (
        None if is_unchanged(buf, at, after, [new]) else splice(buf, start, end, [new], at, after)
    )


def _coordinators(buf: bytearray, start: int, end: int, advertise: Advertise) -> bytes | None:
    """Rewrite v4+: throttle time, [key, node id, host, port, error code, message, tags]."""
    at = skip(start, 4, end)
    count, pos = compact_count(buf, at, end, 14)
    budget = spend(REPLY_ELEMENT_BUDGET, count)
    copied = at
    parts: Parts = []
    for _ in range(count):
        node_at = skip_compact(buf, pos, end)
        pos = skip(node_at, 4, end)
        parts.append(buf[copied:pos])
        address, copied = compact_address(buf, int32_at(buf, node_at)[0], pos, end, advertise)
        parts.append(address)
        tags_at = skip_compact(buf, skip(copied, 2, end), end)
        pos, budget = spend_tags(buf, tags_at, end, budget)
    parts.append(buf[copied:pos])
    return None if is_unchanged(buf, at, pos, parts) else splice(buf, start, end, parts, at, pos)


def _quorum(buf: bytearray, start: int, end: int, advertise: Advertise) -> bytes | None:
    """Rewrite v2+: the listeners of the controllers, each advertised under its node's id."""
    at, budget = _after_quorum_topics(buf, start, end)
    count, pos = compact_count(buf, at, end, 6)
    budget = spend(budget, count)
    copied = at
    parts: Parts = []
    for _ in range(count):
        listeners_at = skip(pos, 4, end)
        node_id: int = int32_at(buf, pos)[0]
        listeners, pos = compact_count(buf, listeners_at, end, 5)
        budget = spend(budget, listeners)
        for _ in range(listeners):
            pos = skip_compact(buf, pos, end)  # the listener's name
            parts.append(buf[copied:pos])
            address, copied = compact_address(buf, node_id, pos, end, advertise, port_bytes=2)
            parts.append(address)
            pos, budget = spend_tags(buf, copied, end, budget)
        pos, budget = spend_tags(buf, pos, end, budget)
    parts.append(buf[copied:pos])
    return None if is_unchanged(buf, at, pos, parts) else splice(buf, start, end, parts, at, pos)


def _after_quorum_topics(buf: bytearray, start: int, end: int) -> tuple[int, int]:
    pos = skip_compact(buf, skip(start, 2, end), end)  # error code, message
    topics, pos = compact_count(buf, pos, end, 3)
    budget = spend(REPLY_ELEMENT_BUDGET, topics)
    for _ in range(topics):
        partitions, pos = compact_count(buf, skip_compact(buf, pos, end), end, 26)
        budget = spend(budget, partitions)
        for _ in range(partitions):
            pos = skip_compact(buf, skip(pos, 6, end), end)  # index, error code, message
            pos = skip(pos, 16, end)  # leader, its epoch, high watermark
            for _ in ("current_voters", "observers"):
                replicas, pos = compact_count(buf, pos, end, _REPLICA_FIXED_BYTES + 1)
                budget = spend(budget, replicas)
                for _ in range(replicas):
                    tags_at = skip(pos, _REPLICA_FIXED_BYTES, end)
                    pos, budget = spend_tags(buf, tags_at, end, budget)
            pos, budget = spend_tags(buf, pos, end, budget)
        pos, budget = spend_tags(buf, pos, end, budget)
    return pos, budget


_LEADS: Final[dict[int, Callable[[int], LeadFinder]]] = {
    ApiKey.METADATA: _metadata,
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
}
_REWRITERS: Final[dict[int, Callable[[int], Rewriter]]] = {
    ApiKey.PRODUCE: node_endpoints.produce,
    ApiKey.FETCH: node_endpoints.fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.DESCRIBE_QUORUM: lambda _: _quorum,
    ApiKey.SHARE_FETCH: node_endpoints.share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: node_endpoints.share_acknowledge,
}
