"""Narrow an ApiVersions response to the versions that Sluice offers.

- Each range becomes its intersection with `offered`. A key with an empty intersection is dropped. A key that is in
  `pass_unknown` and not in `offered` passes as the broker sent it.
- The minimum version of Produce stays the broker's own: brokers from 4.0 announce 0 although they refuse it, because
  librdkafka needs to see it (KAFKA-18659).
- Error 35 in the first two bytes means the layout of v0, also for a request of a later version (KIP-511). Some
  brokers (librdkafka's mock) use another layout for this refusal: it passes as it is. It names no range but that of
  ApiVersions itself, and clients recognise the error and ask again with v0.
- A key in `served` is answered by Sluice itself: its range is the offered one, whether the broker has the API or not.
- Tagged fields (features, ZooKeeper migration) pass unchanged.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from wire.api_keys import ApiKey
from wire.apis import known
from wire.errors import ErrorCode, WireError
from wire.primitives import (
    REPLY_ELEMENT_BUDGET,
    Buffer,
    array_count,
    compact_count,
    encode_compact_count,
    encode_count,
    int16_at,
    skip,
    skip_tags,
    spend,
    spend_tags,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_RANGE: Final = Struct(">hhh")  # api_key, min_version, max_version
_RANGE_BYTES: Final = _RANGE.size


def narrow(
    body: Buffer,
    start: int,
    end: int,
    version: int,
    offered: Mapping[int, tuple[int, int]],
    pass_unknown: frozenset[int] = frozenset(),
    served: frozenset[int] = frozenset(),
) -> bytes:
    """Return the narrowed body of the ApiVersions response that is whole in `body[start:end]`.

    `version` is the version of the request. The order of keys stays. Raises `WireError` if the body is malformed.
    """
    skip(start, 2, end)
    if int16_at(body, start)[0] != ErrorCode.UNSUPPORTED_VERSION:
        return _narrow(body, start, end, version, offered, pass_unknown, served)
    try:
        return _narrow(body, start, end, 0, offered, pass_unknown)
    except WireError:
        return bytes(body[start:end])


def _narrow(
    body: Buffer,
    start: int,
    end: int,
    version: int,
    offered: Mapping[int, tuple[int, int]],
    pass_unknown: frozenset[int],
    served: frozenset[int] = frozenset(),
) -> bytes:
    pos = start + 2
    api = known(ApiKey.API_VERSIONS, version)
    if api is None:
        raise WireError(f"ApiVersions v{version} is not in the table of APIs")
    if api.flexible:
        count, pos = compact_count(body, pos, end, _RANGE_BYTES + 1)
    else:
        count, pos = array_count(body, pos, end, _RANGE_BYTES)
    if count < 0:
        raise WireError("array api_keys is null, expected 0 or more elements")
    budget = spend(REPLY_ELEMENT_BUDGET, count)
    kept: list[bytes] = []
    for _ in range(count):
        tags_at = skip(pos, _RANGE_BYTES, end)
        key, lowest, highest = _RANGE.unpack_from(body, pos)
        pos = tags_at
        if api.flexible:
            pos, budget = spend_tags(body, tags_at, end, budget)
        offer = offered.get(key)
        if key in served:
            continue
        if offer is not None:
            lowest = lowest if key == ApiKey.PRODUCE else max(lowest, offer[0])
            highest = min(highest, offer[1])
        elif key not in pass_unknown:
            continue
        if lowest <= highest:
            kept.append(_RANGE.pack(key, lowest, highest) + body[tags_at:pos])
    tags = b"\x00" if api.flexible else b""
    kept += (_RANGE.pack(key, *offered[key]) + tags for key in sorted(served))
    keys_end = pos
    if version > 0:
        pos = skip(pos, 4, end)  # throttle_time_ms
    if api.flexible:
        pos = skip_tags(body, pos, end)
    if pos != end:
        raise WireError(f"{end - pos} bytes follow the last field of an ApiVersions response")
    size = encode_compact_count(len(kept)) if api.flexible else encode_count(len(kept))
    return b"".join((body[start : start + 2], size, *kept, body[keys_end:end]))


def read(body: Buffer, version: int) -> tuple[dict[int, tuple[int, int]], bytes]:
    """Return the ranges of a whole ApiVersions response by key, and the response without its throttle time.

    `version` is the version of the request. Raises `WireError` if the body is malformed.
    """
    end = len(body)
    skip(0, 2, end)
    if int16_at(body, 0)[0] == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    api = known(ApiKey.API_VERSIONS, version)
    if api is None:
        raise WireError(f"ApiVersions v{version} is not in the table of APIs")
    if api.flexible:
        count, pos = compact_count(body, 2, end, _RANGE_BYTES + 1)
    else:
        count, pos = array_count(body, 2, end, _RANGE_BYTES)
    budget = spend(REPLY_ELEMENT_BUDGET, count)
    ranges = {}
    for _ in range(count):
        tags_at = skip(pos, _RANGE_BYTES, end)
        key, lowest, highest = _RANGE.unpack_from(body, pos)
        ranges[key] = lowest, highest
        pos = tags_at
        if api.flexible:
            pos, budget = spend_tags(body, tags_at, end, budget)
    if version == 0:
        return ranges, bytes(body)
    throttle_end = skip(pos, 4, end)
    return ranges, b"".join((body[:pos], bytes(4), body[throttle_end:]))


def unsupported_version(offered: Mapping[int, tuple[int, int]]) -> bytes:
    """Return the answer to an ApiVersions request that is newer than offered (KIP-511).

    It has the v0 layout, error 35, and Sluice's range of ApiVersions itself, with which the client asks again.
    """
    lowest, highest = offered[ApiKey.API_VERSIONS]
    key = _RANGE.pack(ApiKey.API_VERSIONS, lowest, highest)
    return b"".join((ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"), encode_count(1), key))
