"""Which topics exist: the question after them to a broker, and what a Metadata reply says of it.

- `existence_request` asks by names, and creates none. It is v4, the first that can say so, and which every broker has
  that has transactions; or v10, the first that tells ids.
- `read_existence` reads the reply to it: a whole frame.
- `unknown_topics` returns where a reply to a client has the code of a missing topic (v4+).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from wire.apis import BY_KEY_AND_VERSION, ApiKey
from wire.errors import ErrorCode, WireError
from wire.metadata import CLIENT_ID, after_partitions
from wire.primitives import (
    REPLY_ELEMENT_BUDGET,
    Buffer,
    array_count,
    compact_count,
    compact_length,
    encode_compact,
    encode_compact_count,
    encode_count,
    encode_string,
    int16_at,
    int32_at,
    skip,
    skip_compact,
    skip_string,
    skip_tags,
    spend,
    spend_tags,
    string_length,
)
from wire.topic_names import PARTITION_FIXED_BYTES, topic_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from wire.apis import Api

NAMES_VERSION: Final = 4
IDS_VERSION: Final = 10
CORRELATION_ID: Final = 0

_HEADER: Final = Struct(">hhi")
_RESPONSE_HEADER_BYTES: Final = 8  # size, correlation id
_TOPIC_ID_BYTES: Final = 16
_MIN_PARTITION_BYTES: Final = PARTITION_FIXED_BYTES + 4  # three empty arrays, no tags
_MIN_CLASSIC_PARTITION_BYTES: Final = 2 + 4 + 4 + 4 + 4
"""Error, index, leader and two empty arrays, as in v4."""
_MISSING: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION}
)
"""What a broker says of a topic that is not there; the second, of a name that none can have."""


class ExistingTopic(NamedTuple):
    """A topic that exists."""

    topic_id: bytes
    """16 bytes; zeros if the question was not after ids."""
    partitions: int
    """How many it has."""


def existence_request(names: Sequence[str], *, with_ids: bool) -> bytes:
    """Return a whole Metadata request frame that asks for these topics; `with_ids`: for their ids, too."""
    version = IDS_VERSION if with_ids else NAMES_VERSION
    header = _HEADER.pack(ApiKey.METADATA, version, CORRELATION_ID) + encode_string(CLIENT_ID)
    encoded = [name.encode() for name in names]
    if with_ids:
        topics = b"".join(bytes(_TOPIC_ID_BYTES) + encode_compact(each) + b"\0" for each in encoded)
        # no tags in the header; then: creates none, no rights on the cluster and on topics, no tags
        frame = header + b"\0" + encode_compact_count(len(names)) + topics + bytes(4)
    else:
        frame = header + encode_count(len(names)) + b"".join(map(encode_string, encoded)) + b"\0"
    return encode_count(len(frame)) + frame


def read_existence(frame: Buffer, *, with_ids: bool) -> dict[str, ExistingTopic | None]:
    """Return what the whole reply frame to `existence_request` says, by name; None: there is no such topic.

    Topics that the broker refuses to tell of are left out. Raises `WireError` if the frame is malformed, and
    `BudgetError` beyond the element budget of a reply.
    """
    end = len(frame)
    if end < _RESPONSE_HEADER_BYTES or int32_at(frame, 0)[0] != end - 4:
        raise WireError(f"a Metadata reply of {end} bytes is not a whole frame")
    version = IDS_VERSION if with_ids else NAMES_VERSION
    api = BY_KEY_AND_VERSION[ApiKey.METADATA << 16 | version]
    start = skip_tags(frame, _RESPONSE_HEADER_BYTES, end) if with_ids else _RESPONSE_HEADER_BYTES
    found: dict[str, ExistingTopic | None] = {}
    for code_at, name_end, partitions in _topics(api, frame, start):
        name, code = _name(api, frame, code_at, name_end), int16_at(frame, code_at)[0]
        if name is None or code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            continue
        topic_id = bytes(frame[name_end : name_end + _TOPIC_ID_BYTES]) if with_ids else bytes(16)
        found[name] = None if code in _MISSING else ExistingTopic(topic_id, partitions)
    return found


def unknown_topics(api: Api, body: Buffer, names: Collection[str]) -> list[int]:
    """Return where a Metadata reply (v4+) has UNKNOWN_TOPIC_OR_PARTITION for one of these topics: offsets of the codes.

    Raises `WireError` for malformed bytes, and `BudgetError` beyond the element budget of a reply.
    """
    return [
        code_at
        for code_at, name_end, _ in _topics(api, body, 0)
        if int16_at(body, code_at)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        and _name(api, body, code_at, name_end) in names
    ]


def _name(api: Api, body: Buffer, code_at: int, name_end: int) -> str | None:
    """Return the name after a code; None if it is null."""
    length, at = (compact_length if api.flexible else string_length)(body, code_at + 2, name_end)
    return topic_name(bytes(body[at:name_end])) if length >= 0 else None


def _topics(api: Api, body: Buffer, start: int) -> Iterator[tuple[int, int, int]]:
    """Yield of each topic of the Metadata reply (v4+) at `start`: where its code is, where its name ends, its number of
    partitions.
    """
    end, is_flexible, version = len(body), api.flexible, api.version
    counted = compact_count if is_flexible else array_count
    skip_text = skip_compact if is_flexible else skip_string
    count, pos = counted(body, skip(start, 4, end), end, 10)
    budget = spend(REPLY_ELEMENT_BUDGET, count)
    for _ in range(count):
        pos = skip_text(body, skip(skip_text(body, pos + 4, end), 4, end), end)  # host, port, rack
        if is_flexible:
            pos, budget = spend_tags(body, pos, end, budget)
    pos = skip(skip_text(body, pos, end), 4, end)  # cluster id, controller id
    count, pos = counted(body, pos, end, 9)
    budget = spend(budget, count)
    least = _MIN_PARTITION_BYTES if is_flexible else _MIN_CLASSIC_PARTITION_BYTES
    for _ in range(count):
        code_at, name_end = pos, skip_text(body, skip(pos, 2, end), end)
        pos = skip(name_end, (_TOPIC_ID_BYTES if version >= 10 else 0) + 1, end)
        partitions, pos = counted(body, pos, end, least)
        budget = spend(budget, partitions)
        yield code_at, name_end, max(partitions, 0)
        if is_flexible:
            pos, budget = after_partitions(body, pos, end, partitions, budget)
        else:
            for _ in range(max(partitions, 0)):
                pos = _after_classic_partition(body, pos, end, version)
        pos = skip(pos, 4 if version >= 8 else 0, end)  # authorized operations
        if is_flexible:
            pos, budget = spend_tags(body, pos, end, budget)


def _after_classic_partition(body: Buffer, pos: int, end: int, version: int) -> int:
    """Return the offset after a partition of a Metadata below v9."""
    pos = skip(pos, 2 + 4 + 4 + (4 if version >= 7 else 0), end)
    for _ in range(3 if version >= 5 else 2):
        count, pos = array_count(body, pos, end, 4)
        pos = skip(pos, 4 * max(count, 0), end)
    return pos
