"""The topics and partitions of a whole Produce request, and a reply with one error code for each of them.

They serve replies that Sluice makes in a broker's place. Every request has to be remembered and hardly any is
answered by Sluice, so little is kept, and quickly.

- `pack_topics` walks any whole body, steps over the records, and makes the form that is kept, without a Python object
  for each topic: a list takes six times the memory. `pack_refs` makes it of topics that were read otherwise, and
  `wire.produce_runs` quickly of nearly all bodies.
- `error_reply` is Kafka's error reply (`ProduceRequest.getErrorResponse`): the code for each partition, no offsets.
"""

from __future__ import annotations

from struct import Struct, unpack_from
from struct import error as struct_error
from struct import pack as struct_pack
from typing import TYPE_CHECKING, Final, TypeAlias

from wire.errors import WireError
from wire.primitives import (
    ELEMENT_BUDGET,
    INT32,
    Buffer,
    array_count,
    compact_count,
    compact_length,
    encode_compact,
    encode_compact_count,
    encode_count,
    encode_string,
    int32_at,
    spend,
    spend_tags,
    string_length,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wire.apis import Api
    from wire.topic_refs import TopicRef

Topics: TypeAlias = "Sequence[tuple[str | bytes, Sequence[int]]]"
"""(name, or the 16 bytes of its id from v13; partition indexes)."""

_TOPIC_ID_BYTES: Final = 16
_INDEX_AND_SIZE: Final = Struct(">ii").unpack_from
_TOPIC: Final = Struct(">Hi")  # length of its name or id, number of partitions
_pack_topic: Final = _TOPIC.pack
_pack_index: Final = INT32.pack
_NO_OFFSETS: Final = Struct(">ihq")  # index, error code, base offset
_NO_TIME: Final = INT32.pack(-1) * 2
_NULL_NAME: Final = "topic name is null, expected 0 or more bytes"


def pack_topics(
    buf: Buffer, at: int, end: int, version: int, budget: int = ELEMENT_BUDGET
) -> tuple[bytes, int]:
    """Return every topic of a whole body with its partitions, packed, and what is left of `budget`.

    `at` is the offset just after the request's timeout. Raises `WireError` if the body is malformed, and `BudgetError`
    if the budget is too small.
    """
    try:
        if version >= 9:
            return _flexible(buf, at, end, version, budget)
        return _classic(buf, at, end, budget)
    except (IndexError, struct_error) as error:
        raise WireError(f"Produce request of {end - at} bytes ends inside its fields") from error


def _flexible(buf: Buffer, at: int, end: int, version: int, budget: int) -> tuple[bytes, int]:
    # The usual lengths and counts, of one byte, are read in place because this is on the request path. `end` is
    # checked after each partition, and at the end of the body.
    parts: list[bytes | bytearray] = []
    add = parts.append
    count, pos = compact_count(buf, at, end, 3)
    budget = _spend(budget, count)
    for _ in range(count):
        length = _TOPIC_ID_BYTES
        if version < 13:
            length, pos = buf[pos] - 1, pos + 1
            if not 0 <= length < 0x7F:
                length, pos = compact_length(buf, pos - 1, end)
                if length < 0:
                    raise WireError(_NULL_NAME)
        name_at = pos
        pos += length
        size, pos = buf[pos] - 1, pos + 1
        if not 0 <= size < 0x7F:
            size, pos = compact_count(buf, pos - 1, end, 6)
        budget -= size
        if budget < 0 or size < 0:
            budget = _spend(budget + size, size)
        add(_pack_topic(length, size))
        add(buf[name_at : name_at + length])
        for _ in range(size):
            index_at = pos
            add(buf[pos : pos + 4])
            length = buf[pos + 4]
            if length < 0x80:
                pos += 4 + (length or 1)
            else:
                length, pos = compact_length(buf, pos + 4, end)
                pos += length
            if buf[pos] == 0:
                pos += 1
            else:
                pos, budget = spend_tags(buf, pos, end, budget)
            if pos > end:
                index = int32_at(buf, index_at)[0]
                raise WireError(f"partition {index} ends {pos - end} bytes beyond its request")
        if buf[pos] == 0:
            pos += 1
        else:
            pos, budget = spend_tags(buf, pos, end, budget)
    pos, budget = spend_tags(buf, pos, end, budget)
    if pos != end:
        raise WireError(f"{end - pos} bytes follow the last field of a Produce request")
    return b"".join(parts), budget


def _classic(buf: Buffer, at: int, end: int, budget: int) -> tuple[bytes, int]:
    parts: list[bytes | bytearray] = []
    count, pos = array_count(buf, at, end, 6)
    budget = _spend(budget, count)
    for _ in range(count):
        length, pos = string_length(buf, pos, end)
        if length < 0:
            raise WireError(_NULL_NAME)
        name = buf[pos : pos + length]
        size, pos = array_count(buf, pos + length, end, 8)
        budget = _spend(budget, size)
        parts += (_pack_topic(length, size), name)
        for _ in range(size):
            index, length = _INDEX_AND_SIZE(buf, pos)
            parts.append(buf[pos : pos + 4])
            pos += 8 + max(length, 0)
            if pos > end:
                raise WireError(f"partition {index} ends {pos - end} bytes beyond its request")
    if pos != end:
        raise WireError(f"{end - pos} bytes follow the last field of a Produce request")
    return b"".join(parts), budget


def pack_refs(refs: Sequence[TopicRef]) -> bytes:
    """Return the topics that `wire.request_names` has read, packed as by `pack_topics`.

    Raises WireError if there are none, or a topic has no name or no partition: the array may be null, which that reader
    does not tell.
    """
    if not refs:
        raise WireError("a Produce request has no topics, expected 1 or more")
    parts: list[bytes] = []
    add = parts.append
    for name, topic_id, partitions in refs:
        if topic_id is not None:
            spelt = topic_id
        elif name is not None:
            spelt = name.encode()
        else:
            raise WireError(_NULL_NAME)
        size = len(partitions)
        if not size:
            raise WireError("a topic of a Produce request has no partitions, expected 1 or more")
        add(_pack_topic(len(spelt), size))
        add(spelt)
        add(_pack_index(partitions[0]) if size == 1 else struct_pack(f">{size}i", *partitions))
    return b"".join(parts)


def unpack(packed: bytes, version: int) -> list[tuple[str | bytes, Sequence[int]]]:
    """Return the topics that `pack_topics` made from a body of this version."""
    found: list[tuple[str | bytes, Sequence[int]]] = []
    pos = 0
    while pos < len(packed):
        length, count = _TOPIC.unpack_from(packed, pos)
        at = pos + _TOPIC.size + length
        name = packed[pos + _TOPIC.size : at]
        found.append(
            (
                name if version >= 13 else name.decode(errors="replace"),
                unpack_from(f">{count}i", packed, at),
            )
        )
        pos = at + 4 * count
    return found


def _spend(budget: int, count: int) -> int:
    if count < 0:
        raise WireError(f"array count {count} of a Produce request is outside 0..{0x7FFF_FFFF}")
    return spend(budget, count)


def error_reply(api: Api, asked: Topics, code: int) -> bytes:
    """Return a Produce response body that gives every partition this error code."""
    version, flexible = api.version, api.flexible
    counted = encode_compact_count if flexible else encode_count
    spelt = encode_compact if flexible else encode_string
    tags = b"\x00" if flexible else b""
    after = _NO_TIME if version >= 2 else b""  # log append time
    after += _NO_TIME if version >= 5 else b""  # log start offset
    if version >= 8:
        after += counted(0) + spelt(None) + tags  # record errors, error message
    parts = [counted(len(asked))]
    for name, partitions in asked:
        parts.append(name if isinstance(name, bytes) else spelt(name.encode()))
        parts.append(counted(len(partitions)))
        parts += [_NO_OFFSETS.pack(each, code, -1) + after for each in partitions]
        parts.append(tags)
    if version >= 1:
        parts.append(INT32.pack(0))  # throttle time
    parts.append(tags)
    return b"".join(parts)
