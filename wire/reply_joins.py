"""Adds items to the array of topics or groups in a reply: those that Sluice has refused, before those of the broker.

- They come first, so that the rest of a reply can stream. Clients read the items in any order.
- A topic of which the broker got some partitions then occurs twice, which clients accept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire.api_keys import ApiKey
from wire.errors import WireError
from wire.primitives import (
    Buffer,
    array_count,
    compact_count,
    encode_compact_count,
    encode_count,
    skip,
    skip_compact,
    skip_string,
    skip_tags,
)

if TYPE_CHECKING:
    from wire.apis import Api

_THROTTLED_SINCE: Final = {
    ApiKey.METADATA: 3,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.OFFSET_COMMIT: 3,
    ApiKey.FETCH: 1,
    ApiKey.FIND_COORDINATOR: 1,
    ApiKey.OFFSET_FETCH: 3,
    ApiKey.DESCRIBE_GROUPS: 1,
    ApiKey.DELETE_GROUPS: 0,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 0,
    ApiKey.SHARE_GROUP_DESCRIBE: 0,
    ApiKey.STREAMS_GROUP_DESCRIBE: 0,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 0,
}
"""The first version with throttle_time_ms before the other fields."""


def insert_items(api: Api, buf: Buffer, start: int, end: int, items: bytes, count: int) -> bytes:
    """Return the body in `buf[start:end]` with `count` encoded `items` before those of its array of topics or groups.

    The part of the body up to the array's count is enough. Raises WireError if it is not there.
    """
    at = _topics_at(api, buf, start, end)
    there, after = (compact_count if api.flexible else array_count)(buf, at, end, 0)
    new = (encode_compact_count if api.flexible else encode_count)(max(there, 0) + count)
    return b"".join((buf[start:at], new, items, buf[after:end]))


def _topics_at(api: Api, buf: Buffer, pos: int, end: int) -> int:
    """Return the offset of the array of topics in a response body."""
    version = api.version
    if api.key == ApiKey.PRODUCE:
        return pos
    if api.key not in _THROTTLED_SINCE:
        raise WireError(f"{api.name} has no array of topics to add to")
    if version >= _THROTTLED_SINCE[ApiKey(api.key)]:
        pos = skip(pos, 4, end)
    if api.key == ApiKey.FETCH and version >= 7:
        return skip(pos, 6, end)  # error code, session id
    if api.key != ApiKey.METADATA:
        return pos
    text = skip_compact if api.flexible else skip_string
    brokers, pos = (compact_count if api.flexible else array_count)(buf, pos, end, 0)
    for _ in range(brokers):
        pos = skip(text(buf, skip(pos, 4, end), end), 4, end)  # node id, host, port
        pos = text(buf, pos, end) if version >= 1 else pos  # rack
        pos = skip_tags(buf, pos, end) if api.flexible else pos
    pos = text(buf, pos, end) if version >= 2 else pos  # cluster id
    return skip(pos, 4, end) if version >= 1 else pos  # controller id
