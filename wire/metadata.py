"""Metadata requests that Sluice sends itself, and the topic names in other Metadata replies.

- `brokers_request` asks for brokers and no topics: v1, which every broker from 0.10 to 4.x answers, and in which an
  empty topic list means none (in v0 it means all).
- `read_brokers` reads the reply: it takes a whole frame and returns the real addresses, for the topology only.
- `names_request` asks for the names of topic ids, and `names_in_answer` reads the reply.
- `cluster_id_at` reads the cluster id from a reply to a client (v2+).
- `topic_names` reads the names and ids of topics from a reply to a client (v10+). The partitions of a topic are
  stepped over together when they have the same shape, as they nearly always have.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from wire.apis import BY_KEY_AND_VERSION, Api, ApiKey
from wire.errors import WireError
from wire.primitives import (
    REPLY_ELEMENT_BUDGET,
    Buffer,
    array_count,
    compact_count,
    compact_length,
    encode_compact_count,
    encode_count,
    encode_string,
    int32_at,
    skip,
    skip_compact,
    skip_string,
    skip_tags,
    spend,
    spend_tags,
    string_length,
)
from wire.topic_names import PARTITION_FIXED_BYTES, partition_shape, topic_name

if TYPE_CHECKING:
    from collections.abc import Sequence

CLIENT_ID: Final = b"sluice"
REQUEST_VERSION: Final = 1
NAMES_VERSION: Final = 12
"""The first that asks by ids. Every broker that has ids in Produce and Fetch has it."""
NAMES_CORRELATION_ID: Final = 0

MAX_NAME_BYTES: Final = 249
"""Kafka: `Topic.MAX_NAME_LENGTH`."""

_HEADER: Final = Struct(">hhi")
_RESPONSE_HEADER_BYTES: Final = 8  # size, correlation id
_TOPIC_ID_BYTES: Final = 16
_LOOKAHEAD: Final = 16
"""How many partitions are compared at first."""
_MIN_PARTITION_BYTES: Final = PARTITION_FIXED_BYTES + 4  # three empty arrays, no tags


def brokers_request(correlation_id: int = 0) -> bytes:
    """Return a whole Metadata v1 request frame that asks for the brokers and for no topic."""
    header = _HEADER.pack(ApiKey.METADATA, REQUEST_VERSION, correlation_id)
    frame = header + encode_string(CLIENT_ID) + encode_count(0)
    return encode_count(len(frame)) + frame


def names_request(ids: Sequence[bytes]) -> bytes:
    """Return a whole Metadata v12 request frame that asks for the topics with these ids (16 bytes each)."""
    header = _HEADER.pack(ApiKey.METADATA, NAMES_VERSION, NAMES_CORRELATION_ID)
    topics = b"".join(topic_id + b"\0\0" for topic_id in ids)  # no name, no tags
    body = encode_compact_count(len(ids)) + topics + b"\0\0\0"  # creates none, no rights, no tags
    frame = header + encode_string(CLIENT_ID) + b"\0" + body
    return encode_count(len(frame)) + frame


def names_in_answer(frame: Buffer) -> dict[bytes, str]:
    """Return topic id to name from the whole reply frame to `names_request`. Raises `WireError` if it is malformed."""
    end = len(frame)
    if end < _RESPONSE_HEADER_BYTES or int32_at(frame, 0)[0] != end - 4:
        raise WireError(f"a Metadata reply of {end} bytes is not a whole frame")
    body_at = skip_tags(frame, _RESPONSE_HEADER_BYTES, end)
    return topic_names(
        frame, body_at, end, BY_KEY_AND_VERSION[ApiKey.METADATA << 16 | NAMES_VERSION]
    )


def read_brokers(frame: Buffer) -> dict[int, tuple[bytes, int]]:
    """Return node id to (host, port) from the whole reply frame to `brokers_request`.

    Raises `WireError` for a malformed frame, for a host that is empty or holds a NUL byte, and for a port outside
    1..65535: a broker cannot be dialled at any of them.
    """
    end = len(frame)
    if end < _RESPONSE_HEADER_BYTES or int32_at(frame, 0)[0] != end - 4:
        raise WireError(f"a Metadata reply of {end} bytes is not a whole frame")
    found: dict[int, tuple[bytes, int]] = {}
    count, pos = array_count(frame, _RESPONSE_HEADER_BYTES, end, 12)
    if count < 0:
        raise WireError("array brokers is null, expected 0 or more elements")
    spend(REPLY_ELEMENT_BUDGET, count)
    for _ in range(count):
        at = skip(pos, 4, end)
        node_id: int = int32_at(frame, pos)[0]
        length, at = string_length(frame, at, end)
        pos = skip(at, max(length, 0) + 4, end)
        port: int = int32_at(frame, pos - 4)[0]
        host = bytes(frame[at : at + max(length, 0)])
        if not host or b"\0" in host or not 0 < port < 0x10000:
            raise WireError(
                f"node {node_id} has the address {host!r}, port {port}; "
                "expected a host without NUL and a port in 1..65535"
            )
        found[node_id] = host, port
        pos = skip_string(frame, pos, end)  # rack
    return found


def cluster_id_at(buf: Buffer, pos: int, end: int, api: Api) -> tuple[bytes | None, int] | None:
    """Return the cluster id at `pos`, after the brokers of a Metadata reply, and the offset after it.

    None: this API or version has none there. Raises `WireError` if it is cut off.
    """
    if api.key != ApiKey.METADATA or api.version < 2:
        return None
    length, pos = (compact_length if api.flexible else string_length)(buf, pos, end)
    return (bytes(buf[pos : pos + length]), pos + length) if length >= 0 else (None, pos)


def auto_creation_at(body: Buffer, version: int) -> int:
    """Return the offset of `allow_auto_topic_creation`, a byte, in the body of a Metadata request (v4+).

    Raises `WireError` if the body ends before it.
    """
    end, is_flexible = len(body), version >= 9
    count, pos = (compact_count if is_flexible else array_count)(body, 0, end)
    for _ in range(count):
        pos = pos + _TOPIC_ID_BYTES if version >= 10 else pos
        pos = (skip_compact if is_flexible else skip_string)(body, pos, end)
        pos = skip_tags(body, pos, end) if is_flexible else pos
    skip(pos, 1, end)
    return pos


def topic_names(buf: Buffer, body_start: int, body_end: int, api: Api) -> dict[bytes, str]:
    """Return topic id (16 bytes) to name, from a Metadata v10+ response body; {} below v10.

    Topics without a name (v12+: an unknown id), without an id, or with a name longer than Kafka allows (249 bytes) are
    left out. Raises `WireError` for malformed bytes, and `BudgetError` beyond the element budget of a reply.
    """
    names: dict[bytes, str] = {}
    if api.key != ApiKey.METADATA or api.version < 10:
        return names
    end = body_end
    count, pos = compact_count(buf, skip(body_start, 4, end), end, 11)
    budget = spend(REPLY_ELEMENT_BUDGET, count)
    for _ in range(count):
        pos = skip_compact(buf, skip(pos, 4, end), end)  # node id, host
        tags_at = skip_compact(buf, skip(pos, 4, end), end)  # port, rack
        pos, budget = spend_tags(buf, tags_at, end, budget)
    pos = skip(skip_compact(buf, pos, end), 4, end)  # cluster id, controller id
    count, pos = compact_count(buf, pos, end, 26)
    budget = spend(budget, count)
    for _ in range(count):
        length, at = compact_length(buf, skip(pos, 2, end), end)  # error code
        id_at = at + max(length, 0)
        pos = skip(id_at, _TOPIC_ID_BYTES + 1, end)  # id, is internal
        topic_id = bytes(buf[id_at : id_at + _TOPIC_ID_BYTES])
        if 0 < length <= MAX_NAME_BYTES and any(topic_id):
            names[topic_id] = topic_name(buf[at:id_at])
        partitions, pos = compact_count(buf, pos, end, _MIN_PARTITION_BYTES)
        budget = spend(budget, partitions)
        pos, budget = after_partitions(buf, pos, end, partitions, budget)
        pos, budget = spend_tags(buf, skip(pos, 4, end), end, budget)  # authorized operations
    return names


def after_partitions(buf: Buffer, pos: int, end: int, count: int, budget: int) -> tuple[int, int]:
    """Return the offset after `count` partitions of a Metadata v9+, and what is left of `budget`.

    After two partitions of one shape (short arrays of the same sizes, no tags), the next `lookahead` partitions are
    compared in one go: their size bytes are at the same places. The work stays linear, because `lookahead` grows with
    success only.
    """
    lookahead, last = _LOOKAHEAD, -1
    while count > 0:
        first = pos
        in_sync_at, offline_at, pos, shape = partition_shape(buf, pos, end)
        count -= 1
        if shape < 0:
            pos, budget = spend_tags(buf, pos, end, budget)
        elif shape == last:
            stride = pos - first
            run = min(count, lookahead)
            stop = pos + run * stride
            places = (first + PARTITION_FIXED_BYTES, in_sync_at, offline_at, pos - 1)
            if stop <= end and all(buf[at:stop:stride].count(buf[at]) == run + 1 for at in places):
                pos = stop
                count -= run
                lookahead *= 4
            else:
                lookahead = max(lookahead // 4, 1)
        last = shape
    return pos, budget
