"""NodeEndpoints (KIP-951, KIP-932): the addresses of new leaders, after the topics of a response.

- Produce v10+ and Fetch v16+ have them as tag 0 of the body's last tag section, so the topics are walked to find it.
  The share APIs always have them untagged, as the last field before the tags.
- A Produce or Fetch response is on the request path and nearly always has no tags: `wire.untagged_reply` recognises
  that shape before any walk.
- A Fetch response streams. Its size stands first, and has left when its last tags come: they are rewritten to as many
  bytes as they had (`fitted`).
- CurrentLeader inside a partition names a node id only; it passes with the partition's tags.
- The walk ends where the body ends. Bytes after the last tag section are malformed, because they could hide an
  address.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from wire.broker_lists import Advertise, Parts, compact_brokers, splice
from wire.errors import WireError
from wire.primitives import (
    REPLY_ELEMENT_BUDGET,
    Buffer,
    compact_count,
    skip,
    skip_compact,
    skip_tags,
    spend,
    spend_tags,
)
from wire.varint import encode_uvarint, uvarint

_Rewriter: TypeAlias = Callable[[bytearray, int, int, Advertise], bytes | None]

_NODE_ENDPOINTS_TAG: Final = 0
_TOPIC_ID_BYTES: Final = 16
_FILLER_TAG: Final = 0x3FFF
"""Above all tags that Kafka has, which count from 0 up."""
_FILLER: Final = encode_uvarint(_FILLER_TAG)
_MIN_FILLER_BYTES: Final = len(_FILLER) + 1
_PRODUCE_FIXED_BYTES: Final = 4 + 2 + 8 + 8 + 8  # index, error, base offset, append time, start
_FETCH_FIXED_BYTES: Final = 4 + 2 + 8 + 8 + 8  # index, error, high watermark, stable, start
_ABORTED_FIXED_BYTES: Final = 8 + 8
_LEADER_FIXED_BYTES: Final = 4 + 4
_ACQUIRED_FIXED_BYTES: Final = 8 + 8 + 2


def produce(version: int) -> _Rewriter:
    """Return the rewriter of Produce responses: v10 to v12 name topics, v13+ give their ids."""
    return partial(_produce, version=version)


def _produce(
    buf: bytearray, start: int, end: int, advertise: Advertise, *, version: int
) -> bytes | None:
    pos, budget = after_produce_topics(buf, start, end, version)
    return _rewrite_tag(buf, start, skip(pos, 4, end), end, advertise, budget)  # throttle_time_ms


def after_produce_topics(buf: Buffer, pos: int, end: int, version: int) -> tuple[int, int]:
    """Return the offset after the topics of a Produce v9+ response body, and what is left of a reply's budget."""
    topics, pos = compact_count(buf, pos, end, 3)
    budget = spend(REPLY_ELEMENT_BUDGET, topics)
    for _ in range(topics):
        pos = skip(pos, _TOPIC_ID_BYTES, end) if version >= 13 else skip_compact(buf, pos, end)
        partitions, pos = compact_count(buf, pos, end, _PRODUCE_FIXED_BYTES + 3)
        budget = spend(budget, partitions)
        for _ in range(partitions):
            pos = skip(pos, _PRODUCE_FIXED_BYTES, end)
            if pos + 3 <= end and buf.startswith(b"\x01\x00\x00", pos):
                pos += 3
                continue
            record_errors, pos = compact_count(buf, pos, end, 6)
            budget = spend(budget, record_errors)
            for _ in range(record_errors):
                tags_at = skip_compact(buf, skip(pos, 4, end), end)
                pos, budget = spend_tags(buf, tags_at, end, budget)
            pos, budget = spend_tags(buf, skip_compact(buf, pos, end), end, budget)
        pos, budget = spend_tags(buf, pos, end, budget)
    return pos, budget


def fetch(_version: int) -> _Rewriter:
    """Return the rewriter of Fetch responses v16 to v18 that are whole."""
    return _fetch


def _fetch(buf: bytearray, start: int, end: int, advertise: Advertise) -> bytes | None:
    pos = skip(start, 10, end)  # throttle time, error code, session id
    topics, pos = compact_count(buf, pos, end, _TOPIC_ID_BYTES + 2)
    budget = spend(REPLY_ELEMENT_BUDGET, topics)
    for _ in range(topics):
        pos = skip(pos, _TOPIC_ID_BYTES, end)
        partitions, pos = compact_count(buf, pos, end, _FETCH_FIXED_BYTES + 7)
        budget = spend(budget, partitions)
        for _ in range(partitions):
            aborted, pos = compact_count(
                buf, skip(pos, _FETCH_FIXED_BYTES, end), end, _ABORTED_FIXED_BYTES + 1
            )
            budget = spend(budget, aborted)
            for _ in range(aborted):
                tags_at = skip(pos, _ABORTED_FIXED_BYTES, end)
                pos, budget = spend_tags(buf, tags_at, end, budget)
            pos = skip_compact(buf, skip(pos, 4, end), end)  # preferred replica, records
            pos, budget = spend_tags(buf, pos, end, budget)
        pos, budget = spend_tags(buf, pos, end, budget)
    return _rewrite_tag(buf, start, pos, end, advertise, budget)


def _rewrite_tag(
    buf: bytearray, start: int, tags_at: int, end: int, advertise: Advertise, budget: int
) -> bytes | None:
    """Rewrite the endpoints in the body's own tag section."""
    found = _endpoints(buf, tags_at, end, advertise, budget)
    if found is None:
        return None
    new, size_at, stop = found
    new_size = encode_uvarint(sum(map(len, new)))
    return splice(buf, start, end, [new_size, *new], size_at, stop)


def fitted(tags: bytes, advertise: Advertise) -> bytes:
    """Return the last tags of a Fetch response, rewritten to as many bytes.

    If the addresses that clients may see are longer, the endpoints are left out: the client asks for metadata then. The
    bytes that are left over are a tagged field that no client knows. Raises `WireError` if the tags are malformed.
    """
    found = _endpoints(tags, 0, len(tags), advertise, REPLY_ELEMENT_BUDGET)
    if found is None:
        return tags
    new, size_at, stop = found
    count, pos = uvarint(tags, 0, len(tags))
    others = tags[stop:]
    content = b"".join(new)
    width = len(encode_uvarint(len(content)))
    spare = stop - size_at - width - len(content)
    if 0 <= spare < _MIN_FILLER_BYTES:
        size = _wide_uvarint(len(content), width + spare)
        return b"".join((tags[:size_at], size, content, others))
    if spare > 0:
        kept = tags[pos:size_at] + encode_uvarint(len(content)) + content + others
        return encode_uvarint(count + 1) + kept + _filler(spare)
    return encode_uvarint(count) + others + _filler(stop - pos)


def _endpoints(
    buf: Buffer, tags_at: int, end: int, advertise: Advertise, budget: int
) -> tuple[Parts, int, int] | None:
    """Return the rewritten brokers of tag 0 in the last tag section, where its size begins, and where its bytes end.

    It comes first, because tags ascend. None if it is not there, or changes nothing.
    """
    after, budget = spend_tags(buf, tags_at, end, budget)
    if after != end:
        raise WireError(f"{end - after} bytes follow the last field of the response")
    count, pos = uvarint(buf, tags_at, end)
    if count == 0:
        return None
    tag, size_at = uvarint(buf, pos, end)
    if tag != _NODE_ENDPOINTS_TAG:
        return None
    size_bytes, at = uvarint(buf, size_at, end)
    stop = at + size_bytes
    new, after = compact_brokers(buf, at, stop, 0, advertise, budget)
    if after != stop:
        raise WireError(f"NodeEndpoints ends {stop - after} bytes before its tagged field")
    return None if new is None else (new, size_at, stop)


def _filler(size_bytes: int) -> bytes:
    """Return a tagged field of so many bytes that no client knows."""
    size_bytes -= len(_FILLER)
    width = next(n for n in range(1, 6) if size_bytes - n < 1 << 7 * n)
    return _FILLER + _wide_uvarint(size_bytes - width, width) + bytes(size_bytes - width)


def _wide_uvarint(value: int, width: int) -> bytes:
    """Return a varint of so many bytes; one that is longer than it must be is read by all (`wire.varint`)."""
    more = [0x80 | value >> 7 * place & 0x7F for place in range(width - 1)]
    return bytes([*more, value >> 7 * (width - 1)])


def share_fetch(version: int) -> _Rewriter:
    """Return the rewriter of ShareFetch responses; v0 (early access) lacks the acquisition lock timeout."""
    lead_bytes = 4 if version >= 1 else 0

    def rewrite(buf: bytearray, start: int, end: int, advertise: Advertise) -> bytes | None:
        return _share(buf, start, end, advertise, lead_bytes, _after_share_fetch_partition)

    return rewrite


def share_acknowledge(version: int) -> _Rewriter:
    """Return the rewriter of ShareAcknowledge responses; v2 added the acquisition lock timeout (KIP-1222)."""
    lead_bytes = 4 if version >= 2 else 0

    def rewrite(buf: bytearray, start: int, end: int, advertise: Advertise) -> bytes | None:
        return _share(buf, start, end, advertise, lead_bytes, _after_share_ack_partition)

    return rewrite


def _share(
    buf: bytearray,
    start: int,
    end: int,
    advertise: Advertise,
    lead_bytes: int,
    after_partition: Callable[[bytearray, int, int, int], tuple[int, int]],
) -> bytes | None:
    pos = skip_compact(buf, skip(start, 6, end), end)  # throttle time, error code, message
    topics, pos = compact_count(buf, skip(pos, lead_bytes, end), end, _TOPIC_ID_BYTES + 2)
    budget = spend(REPLY_ELEMENT_BUDGET, topics)
    for _ in range(topics):
        partitions, pos = compact_count(buf, skip(pos, _TOPIC_ID_BYTES, end), end, 17)
        budget = spend(budget, partitions)
        for _ in range(partitions):
            pos, budget = after_partition(buf, pos, end, budget)
        pos, budget = spend_tags(buf, pos, end, budget)
    new, after = compact_brokers(buf, pos, end, 0, advertise, budget)
    if (stop := skip_tags(buf, after, end)) != end:
        raise WireError(f"{end - stop} bytes follow the last field of the response")
    return splice(buf, start, end, new, pos, after)


def _after_share_ack_partition(buf: bytearray, pos: int, end: int, budget: int) -> tuple[int, int]:
    pos = skip_compact(buf, skip(pos, 6, end), end)  # index, error code, message
    tags_at = skip(pos, _LEADER_FIXED_BYTES, end)  # of the current leader
    pos, budget = spend_tags(buf, tags_at, end, budget)
    return spend_tags(buf, pos, end, budget)


def _after_share_fetch_partition(
    buf: bytearray, pos: int, end: int, budget: int
) -> tuple[int, int]:
    pos = skip_compact(buf, skip(pos, 6, end), end)  # index, error code, message
    pos = skip_compact(buf, skip(pos, 2, end), end)  # acknowledge error code, message
    tags_at = skip(pos, _LEADER_FIXED_BYTES, end)  # of the current leader
    pos, budget = spend_tags(buf, tags_at, end, budget)
    pos = skip_compact(buf, pos, end)  # records
    acquired, pos = compact_count(buf, pos, end, _ACQUIRED_FIXED_BYTES + 1)
    budget = spend(budget, acquired)
    for _ in range(acquired):
        pos, budget = spend_tags(buf, skip(pos, _ACQUIRED_FIXED_BYTES, end), end, budget)
    return spend_tags(buf, pos, end, budget)
