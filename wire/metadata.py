"""Metadata of our own asking, and what passing Metadata teaches.

- `question` asks for brokers and no topics: v1, which every broker from 0.10 to 4.x answers, and
  in which an empty topic list means none (in v0 it means all).
- `brokers` reads the reply to it: whole frame in, real addresses out, for the topology alone.
- `topic_names` reads the names and ids of the topics from somebody else's response (v10+). Its
  partitions are stepped over a topic at a time when they are alike, as they nearly always are.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from wire.apis import Api, ApiKey
from wire.errors import WireError
from wire.primitives import (
    ELEMENT_BUDGET,
    Buffer,
    array_count,
    compact_count,
    compact_length,
    encode_count,
    encode_string,
    int32_at,
    skip,
    skip_compact,
    skip_string,
    skip_tags,
    spend,
    string_length,
)

CLIENT_ID: Final = b"sluice"
QUESTION_VERSION: Final = 1

_HEADER: Final = Struct(">hhi")
_RESPONSE_HEADER_BYTES: Final = 8  # size, correlation id
_TOPIC_ID_BYTES: Final = 16
_PARTITION_FIXED_BYTES: Final = 2 + 4 + 4 + 4  # error, index, leader, leader epoch
_PARTITION_LEAST_BYTES: Final = _PARTITION_FIXED_BYTES + 4  # three empty arrays, no tags


def question(correlation_id: int = 0) -> bytes:
    """A whole Metadata v1 request frame that asks for the brokers and for no topic."""
    header = _HEADER.pack(ApiKey.METADATA, QUESTION_VERSION, correlation_id)
    frame = header + encode_string(CLIENT_ID) + encode_count(0)
    return encode_count(len(frame)) + frame


def brokers(frame: Buffer) -> dict[int, tuple[bytes, int]]:
    """Node id to (host, port) from the whole reply frame to `question`.

    Raises `WireError` for a malformed frame, for a host that is empty and for a port outside
    1 to 65535: neither can be dialled.
    """
    end = len(frame)
    if end < _RESPONSE_HEADER_BYTES or int32_at(frame, 0)[0] != end - 4:
        raise WireError(f"no whole Metadata reply in {end} bytes")
    found: dict[int, tuple[bytes, int]] = {}
    count, pos = array_count(frame, _RESPONSE_HEADER_BYTES, end, 12)
    spend(ELEMENT_BUDGET, count)
    for _ in range(count):
        at = skip(pos, 4, end)
        node_id: int = int32_at(frame, pos)[0]
        length, at = string_length(frame, at, end)
        pos = skip(at, max(length, 0) + 4, end)
        port: int = int32_at(frame, pos - 4)[0]
        if length <= 0 or not 0 < port < 0x10000:
            raise WireError(f"node {node_id} has no address that can be dialled")
        found[node_id] = bytes(frame[at : at + length]), port
        pos = skip_string(frame, pos, end)  # rack
    return found


def topic_names(buf: Buffer, body_start: int, body_end: int, api: Api) -> dict[bytes, str]:
    """Topic id (16 bytes) to name, from a Metadata v10+ response body; {} below v10.

    Topics without a name (v12+: an id nobody knows) or without an id are left out. Raises
    `WireError` for malformed bytes and beyond the element budget.
    """
    names: dict[bytes, str] = {}
    if api.key != ApiKey.METADATA or api.version < 10:
        return names
    end = body_end
    count, pos = compact_count(buf, skip(body_start, 4, end), end, 11)
    budget = spend(ELEMENT_BUDGET, count)
    for _ in range(count):
        pos = skip_compact(buf, skip(pos, 4, end), end)  # node id, host
        pos = skip_tags(buf, skip_compact(buf, skip(pos, 4, end), end), end)  # port, rack, tags
    pos = skip(skip_compact(buf, pos, end), 4, end)  # cluster id, controller id
    count, pos = compact_count(buf, pos, end, 26)
    budget = spend(budget, count)
    for _ in range(count):
        length, at = compact_length(buf, skip(pos, 2, end), end)  # error code
        id_at = at + max(length, 0)
        pos = skip(id_at, _TOPIC_ID_BYTES + 1, end)  # id, is internal
        topic_id = bytes(buf[id_at : id_at + _TOPIC_ID_BYTES])
        if length > 0 and any(topic_id):
            names[topic_id] = _name(buf, at, id_at)
        partitions, pos = compact_count(buf, pos, end, _PARTITION_LEAST_BYTES)
        budget = spend(budget, partitions)
        pos = _after_partitions(buf, pos, end, partitions)
        pos = skip_tags(buf, skip(pos, 4, end), end)  # authorized operations
    return names


def _name(buf: Buffer, start: int, end: int) -> str:
    try:
        return buf[start:end].decode()
    except UnicodeDecodeError as error:
        raise WireError("topic name is not UTF-8") from error


def _after_partitions(buf: Buffer, pos: int, end: int, count: int) -> int:
    """The offset after `count` partitions.

    If the first is short and without tags, and the size bytes of its three arrays and its tag
    byte stand in every later one at the same place, then each is as long as the first.
    """
    while count > 0:
        first = pos
        sizes = []
        at = skip(pos, _PARTITION_FIXED_BYTES, end)
        for _ in range(3):  # replicas, in-sync replicas, offline replicas
            sizes.append(at)
            replicas, at = compact_count(buf, at, end, 4)
            at += max(replicas, 0) * 4
        sizes.append(at)
        pos = skip_tags(buf, at, end)
        count -= 1
        stride = pos - first
        stop = first + (count + 1) * stride
        if count and stop <= end and all(_alike(buf, at, stop, stride, count + 1) for at in sizes):
            return stop
    return pos


def _alike(buf: Buffer, at: int, stop: int, stride: int, count: int) -> bool:
    """Whether the byte at `at` is a whole varint and stands in all `count` strides."""
    return buf[at] < 0x80 and buf[at:stop:stride].count(buf[at]) == count
