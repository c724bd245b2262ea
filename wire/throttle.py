"""Find and raise throttle_time_ms in a whole response, in place.

- The field is an int32 of fixed width everywhere: raising it never changes a frame's length.
- In most responses it is the body's first field or at a fixed offset; the table of APIs says which.
- Where it is the last field, a classic body ends with it. A flexible body has a tag section after it (which may hold
  broker addresses), so those four APIs are walked from the front.
- Of the broker's figure and Sluice's the larger counts; a throttle is never shortened.
- The client reads the broker's figure as it is. Sluice itself follows at most `MAX_BROKER_MS` of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from wire.api_keys import ApiKey
from wire.apis import Api, ThrottleField
from wire.errors import ErrorCode, WireError
from wire.header import response_body_at
from wire.node_endpoints import after_produce_topics
from wire.primitives import (
    INT32,
    REPLY_ELEMENT_BUDGET,
    Buffer,
    compact_count,
    int16_at,
    int32_at,
    skip,
    skip_compact,
    spend,
    spend_tags,
)
from wire.produce_runs import TOPIC_IDS_SINCE
from wire.untagged_reply import UntaggedReply

if TYPE_CHECKING:
    from collections.abc import Callable

Stamp: TypeAlias = "Callable[[bytearray, int, int, int], int]"
"""(buf, frame start, frame end, throttle_time_ms) -> the reply's new value in ms."""
_STAMPERS: Final[dict[tuple[int, int], Stamp]] = {}
_INT32_MAX: Final = 0x7FFF_FFFF
MAX_BROKER_MS: Final = 600_000
"""As long as a Kafka broker keeps a connection that says nothing, throttled or not (connections.max.idle.ms). A muted
client is not read, so one that has left would be kept for 24 days on the word of a broker that lies.
"""
_BY_NAME: Final = UntaggedReply(9)  # v9 to v12 look alike
_BY_ID: Final = UntaggedReply(TOPIC_IDS_SINCE)


def throttle_at(buf: Buffer, frame_start: int, frame_end: int, api: Api) -> int | None:
    """Return the offset in `buf` of throttle_time_ms in the whole response frame at `frame_start`, size field included.

    None: this response has no such field. Raises `WireError` if the frame is malformed or incomplete.
    """
    if api.throttle is ThrottleField.ABSENT:
        return None
    body = response_body_at(buf, frame_start, frame_end, api.response_header_version)
    if body is None:
        size_bytes = frame_end - frame_start
        raise WireError(f"{api.name} response of {size_bytes} bytes ends inside its header")
    if api.throttle is not ThrottleField.LAST:
        pos = body + (api.throttle_offset or 0)
    elif api.key == ApiKey.API_VERSIONS and _is_unsupported(buf, body, frame_end):
        return None  # the v0 layout, which has no such field
    elif (
        api.key == ApiKey.PRODUCE
        and api.flexible
        and isinstance(buf, bytearray)
        and _untagged(api.version).matches(buf, frame_start, frame_end)
    ):
        return frame_end - 5  # only an empty tag section follows it: no need to walk
    elif api.flexible:
        pos, budget = _LAST_FLEXIBLE[api.key](buf, body, frame_end, api.version)
        after, _ = spend_tags(buf, skip(pos, 4, frame_end), frame_end, budget)
        if after != frame_end:
            rest = frame_end - after
            raise WireError(f"{rest} bytes follow the last field of a {api.name} response")
    else:
        pos = frame_end - 4
        skip(body, 4, frame_end)
    skip(pos, 4, frame_end)
    return pos


def stamp(buf: bytearray, frame_start: int, frame_end: int, api: Api, throttle_time_ms: int) -> int:
    """Raise the reply's throttle_time_ms to `throttle_time_ms` if that is larger.

    Returns the reply's new value in ms; 0 if it has no such field. Unless the field is the last one, `frame_end` may be
    any offset after the field.
    """
    pos = throttle_at(buf, frame_start, frame_end, api)
    if pos is None:
        return 0
    return _raise(buf, pos, throttle_time_ms)


def stamper(api: Api) -> Stamp:
    """Return a function that does as `stamp(buf, frame_start, frame_end, api, throttle_time_ms)`, without `api`.

    It has the field's place in the usual reply of this API and version; other replies are left to `stamp`.
    """
    kind = (api.key, api.version)
    found = _STAMPERS.get(kind)
    if found is None:
        found = _STAMPERS[kind] = _make_stamper(api)
    return found


def _make_stamper(api: Api) -> Stamp:
    if api.throttle in {ThrottleField.FIRST, ThrottleField.FIXED}:
        tagged = api.response_header_version > 0
        offset = 8 + tagged + (api.throttle_offset or 0)
        stop = offset + 4
        least_bytes = stop - 4  # by the size that the reply begins with

        def stamp_at_offset(
            buf: bytearray, frame_start: int, frame_end: int, throttle_time_ms: int
        ) -> int:
            if (
                frame_start + stop > frame_end
                or int32_at(buf, frame_start)[0] < least_bytes
                or (tagged and buf[frame_start + 8])
            ):
                return stamp(buf, frame_start, frame_end, api, throttle_time_ms)
            return _raise(buf, frame_start + offset, throttle_time_ms)

        return stamp_at_offset
    if api.key == ApiKey.PRODUCE and api.flexible:
        untagged = _untagged(api.version)

        def stamp_produce(
            buf: bytearray, frame_start: int, frame_end: int, throttle_time_ms: int
        ) -> int:
            if untagged.matches(buf, frame_start, frame_end):
                return _raise(buf, frame_end - 5, throttle_time_ms)  # before an empty tag section
            return stamp(buf, frame_start, frame_end, api, throttle_time_ms)

        return stamp_produce

    def stamp_any(buf: bytearray, frame_start: int, frame_end: int, throttle_time_ms: int) -> int:
        return stamp(buf, frame_start, frame_end, api, throttle_time_ms)

    return stamp_any


def _raise(buf: bytearray, pos: int, throttle_time_ms: int) -> int:
    """Raise the field at `pos`; return its new value."""
    reply_ms: int = int32_at(buf, pos)[0]
    if throttle_time_ms > reply_ms:
        reply_ms = min(throttle_time_ms, _INT32_MAX)
        INT32.pack_into(buf, pos, reply_ms)
    return reply_ms


def _untagged(version: int) -> UntaggedReply:
    return _BY_ID if version >= TOPIC_IDS_SINCE else _BY_NAME


def _is_unsupported(buf: Buffer, body: int, end: int) -> bool:
    skip(body, 2, end)
    return bool(int16_at(buf, body)[0] == ErrorCode.UNSUPPORTED_VERSION)


def _after_api_versions(buf: Buffer, pos: int, end: int, _version: int) -> tuple[int, int]:
    count, pos = compact_count(buf, skip(pos, 2, end), end, 7)
    budget = spend(REPLY_ELEMENT_BUDGET, count)
    for _ in range(count):
        pos, budget = spend_tags(buf, skip(pos, 6, end), end, budget)  # key, min, max
    return pos, budget


def _after_created_token(buf: Buffer, pos: int, end: int, version: int) -> tuple[int, int]:
    pos = skip(pos, 2, end)
    for _ in range(4 if version >= 3 else 2):  # owner's and, from v3, requester's principal
        pos = skip_compact(buf, pos, end)
    pos = skip(pos, 24, end)  # issue, expiry and max timestamp
    pos = skip_compact(buf, skip_compact(buf, pos, end), end)  # token_id, hmac
    return pos, REPLY_ELEMENT_BUDGET


def _after_described_tokens(buf: Buffer, pos: int, end: int, version: int) -> tuple[int, int]:
    tokens, pos = compact_count(buf, skip(pos, 2, end), end, 29)
    budget = spend(REPLY_ELEMENT_BUDGET, tokens)
    for _ in range(tokens):
        for _ in range(4 if version >= 3 else 2):
            pos = skip_compact(buf, pos, end)
        pos = skip(pos, 24, end)
        pos = skip_compact(buf, skip_compact(buf, pos, end), end)
        renewers, pos = compact_count(buf, pos, end, 3)
        budget = spend(budget, renewers)
        for _ in range(renewers):
            pos = skip_compact(buf, skip_compact(buf, pos, end), end)
            pos, budget = spend_tags(buf, pos, end, budget)
        pos, budget = spend_tags(buf, pos, end, budget)
    return pos, budget


_LAST_FLEXIBLE: Final[dict[int, Callable[[Buffer, int, int, int], tuple[int, int]]]] = {
    ApiKey.PRODUCE: after_produce_topics,
    ApiKey.API_VERSIONS: _after_api_versions,
    ApiKey.CREATE_DELEGATION_TOKEN: _after_created_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _after_described_tokens,
}
