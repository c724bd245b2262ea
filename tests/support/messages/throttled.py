"""Requests of every kind that a throttle may meet, with the broker's reply and the reply that the client must get.

`KINDS` by name: where throttle_time_ms stands (first, at a fixed place, last), flexible or not, streamed or
rewritten. `SILENT` is the one without a reply.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.messages import frames as f

RENEW_TOKEN = 39
REAL = [(1, "kafka-1.internal", 9092)]
OURS = [(1, "127.0.0.1", 19094)]


@dataclass(frozen=True)
class Kind:
    """One kind of request; `reply(correlation_id, throttle_time_ms)` as the broker sends it."""

    key: int
    ask: Callable[[int], bytes]
    reply: Callable[[int, int], bytes]
    seen: Callable[[int, int], bytes]
    """The same reply as the client must get it."""


def _same(key: int, ask: Callable[[int], bytes], reply: Callable[[int, int], bytes]) -> Kind:
    return Kind(key, ask, reply, reply)


def fetch(correlation_id: int, max_bytes: int = 1 << 20, min_bytes: int = 1) -> bytes:
    """Fetch v4 of one partition."""
    body = struct.pack(">iiiib", -1, 500, min_bytes, max_bytes, 0)
    body += struct.pack(">i", 1) + f.string("t") + struct.pack(">iiqi", 1, 0, 0, 1 << 20)
    return f.request(f.FETCH, 4, correlation_id, body)


def fetch_reply(correlation_id: int, throttle_time_ms: int = 0, size_bytes: int = 90) -> bytes:
    """Fetch v4: throttle_time_ms first, then bytes that Sluice does not parse."""
    return f.reply(correlation_id, struct.pack(">i", throttle_time_ms) + f.records(size_bytes))


def produce9(correlation_id: int, acks: int = -1) -> bytes:
    """Produce v9: flexible."""
    records = f.records(40)
    partition = struct.pack(">i", 0) + bytes([len(records) + 1]) + records + b"\x00"
    topic = f.compact("t") + b"\x02" + partition + b"\x00"
    body = b"\x00" + struct.pack(">hi", acks, 30_000) + b"\x02" + topic + b"\x00"
    return f.request(f.PRODUCE, 9, correlation_id, body, tagged=True)


def produce9_reply(correlation_id: int, throttle_time_ms: int = 0) -> bytes:
    """Produce v9: throttle_time_ms last, followed by tags."""
    partition = struct.pack(">ihqqq", 0, 0, 17, -1, 0) + b"\x01\x00\x00"
    topic = f.compact("t") + b"\x02" + partition + b"\x00"
    body = b"\x02" + topic + struct.pack(">i", throttle_time_ms) + b"\x00"
    return f.reply(correlation_id, body, tagged=True)


def renew(correlation_id: int, version: int) -> bytes:
    """RenewDelegationToken v0 or v2 (flexible)."""
    if version < 2:
        body = struct.pack(">i", 4) + b"hmac" + struct.pack(">q", 1)
        return f.request(RENEW_TOKEN, version, correlation_id, body)
    body = b"\x05hmac" + struct.pack(">q", 1) + b"\x00"
    return f.request(RENEW_TOKEN, version, correlation_id, body, tagged=True)


def renew_reply(correlation_id: int, throttle_time_ms: int, version: int) -> bytes:
    """Error, expiry, throttle_time_ms."""
    body = struct.pack(">hqi", 0, 99, throttle_time_ms) + b"\x00" * (version >= 2)
    return f.reply(correlation_id, body, tagged=version >= 2)


def versions_reply(
    correlation_id: int, throttle_time_ms: int, version: int, fetch_max: int
) -> bytes:
    """ApiVersions v1 or v3 (flexible) with Fetch and Heartbeat."""
    ranges = [struct.pack(">hhh", f.FETCH, 4, fetch_max), struct.pack(">hhh", f.HEARTBEAT, 0, 4)]
    if version < 3:
        body = struct.pack(">hi", 0, 2) + b"".join(ranges) + struct.pack(">i", throttle_time_ms)
        return f.reply(correlation_id, body)
    body = struct.pack(">h", 0) + b"\x03" + b"".join(each + b"\x00" for each in ranges)
    return f.reply(correlation_id, body + struct.pack(">i", throttle_time_ms) + b"\x00")


def versions(correlation_id: int, version: int) -> bytes:
    """ApiVersions v1 or v3."""
    if version < 3:
        return f.request(f.API_VERSIONS, version, correlation_id)
    body = f.compact("tests") + f.compact("1") + b"\x00"
    return f.request(f.API_VERSIONS, version, correlation_id, body, tagged=True)


KINDS = {
    "heartbeat-v1": _same(f.HEARTBEAT, f.beat, f.beat_reply),
    "heartbeat-v4": _same(
        f.HEARTBEAT, lambda n: f.beat(n, 4), lambda n, ms: f.beat_reply(n, ms, 4)
    ),
    "heartbeat-v0": _same(f.HEARTBEAT, f.heartbeat, lambda n, _: f.heartbeat_reply(n)),
    "fetch-v4": _same(f.FETCH, fetch, fetch_reply),
    "produce-v3": _same(
        f.PRODUCE, f.produce, lambda n, ms: f.produce_reply(n, throttle_time_ms=ms)
    ),
    "produce-v9": _same(f.PRODUCE, produce9, produce9_reply),
    "renew-v0": _same(RENEW_TOKEN, lambda n: renew(n, 0), lambda n, ms: renew_reply(n, ms, 0)),
    "renew-v2": _same(RENEW_TOKEN, lambda n: renew(n, 2), lambda n, ms: renew_reply(n, ms, 2)),
    "metadata-v3": Kind(
        f.METADATA,
        lambda n: f.request(f.METADATA, 3, n, b"\xff\xff\xff\xff"),
        lambda n, ms: f.metadata3_reply(n, REAL, ms),
        lambda n, ms: f.metadata3_reply(n, OURS, ms),
    ),
    "api-versions-v1": Kind(
        f.API_VERSIONS,
        lambda n: versions(n, 1),
        lambda n, ms: versions_reply(n, ms, 1, 20),
        lambda n, ms: versions_reply(n, ms, 1, 18),
    ),
    "api-versions-v3": Kind(
        f.API_VERSIONS,
        lambda n: versions(n, 3),
        lambda n, ms: versions_reply(n, ms, 3, 20),
        lambda n, ms: versions_reply(n, ms, 3, 18),
    ),
}
SILENT = Kind(f.PRODUCE, lambda n: f.produce(n, acks=0), lambda *_: b"", lambda *_: b"")
