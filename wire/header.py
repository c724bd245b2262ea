"""Request and response headers, read in place.

- `pos` is always the start of a frame, its int32 size field. The caller has checked the size.
- None means "incomplete so far"; `WireError` means that no further byte can mend it.
- A header never extends beyond its own frame or beyond `MAX_HEADER_BYTES`: the part that must be buffered until it
  is complete stays small even if the frame announces a large size.
- `client_id` has a two-byte length in every header version (Kafka: RequestHeader.json). A flexible header (v2) adds
  a tag section after it. Header v0, of ControlledShutdown v0 only, has no client id. `wire.apis` says which header
  version a request or response has.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from wire.errors import WireError
from wire.primitives import (
    Buffer,
    check_tag_count,
    int16_at,
    int32_at,
)

REQUEST: Final = Struct(">iii")
"""The size, `api_key << 16 | api_version` as one int32, and the correlation_id, from the frame's start."""

REQUEST_FIXED_BYTES: Final = 12
RESPONSE_FIXED_BYTES: Final = 8
MAX_HEADER_BYTES: Final = 64 * 1024
"""The largest accepted header in bytes, size field included: a maximal client id (32 KiB) and its tags."""


def body_at(buf: Buffer, pos: int, end: int, request_header_version: int) -> int | None:
    """Return the offset of a request body's first byte; None if `end` comes before it.

    `end` may be inside the frame or after it. Raises `WireError` if the header cannot be valid.
    """
    if end - pos < REQUEST_FIXED_BYTES:
        return None
    stop = pos + 4 + int32_at(buf, pos)[0]
    body = pos + REQUEST_FIXED_BYTES
    if request_header_version:
        if end < body + 2:
            if stop < body + 2:
                raise _cut_client_id(stop - pos)
            return None
        length: int = int16_at(buf, body)[0]
        body += 2
        if length > 0:
            body += length
        elif length < -1:
            raise WireError(f"client id length {length} is outside -1..{0x7FFF}")
        if request_header_version == 2:
            if body < end and body < stop and buf[body] == 0:
                return body + 1
            return _after_tags(buf, pos, body, end, stop)
    if body > stop:
        raise WireError(f"request header ends {body - stop} bytes beyond its frame")
    return body if body <= end else None


def client_id_of(buf: Buffer, pos: int, end: int) -> bytes:
    """Return the client id of a request with header v1 or v2; b"" for null, as in Kafka.

    Raises `WireError` if the client id extends beyond `end`.
    """
    if end - pos < REQUEST_FIXED_BYTES + 2:
        raise _cut_client_id(end - pos)
    start = pos + REQUEST_FIXED_BYTES + 2
    length: int = int16_at(buf, pos + REQUEST_FIXED_BYTES)[0]
    if length <= 0:
        if length < -1:
            raise WireError(f"client id length {length} is outside -1..{0x7FFF}")
        return b""
    if start + length > end:
        raise _cut_client_id(end - pos)
    return bytes(buf[start : start + length])


def response_body_at(buf: Buffer, pos: int, end: int, response_header_version: int) -> int | None:
    """Return the offset of a response body's first byte; None if `end` comes too early. Header v1 has a tag section.

    Raises `WireError` if the header cannot be valid.
    """
    if end - pos < RESPONSE_FIXED_BYTES:
        return None
    stop = pos + 4 + int32_at(buf, pos)[0]
    body = pos + RESPONSE_FIXED_BYTES
    if response_header_version:
        if body < end and body < stop and buf[body] == 0:
            return body + 1
        return _after_tags(buf, pos, body, end, stop)
    if body > stop:
        raise WireError(f"response header ends {body - stop} bytes beyond its frame")
    return body


def _after_tags(buf: Buffer, start: int, pos: int, end: int, stop: int) -> int | None:
    """Do as `primitives.skip_tags`, but the bytes between `end` and the frame's `stop` may still arrive."""
    stop = min(stop, start + MAX_HEADER_BYTES)
    end = min(end, stop)
    left = -1  # varints still to read: the count first, then tag and size of each field
    last_tag = -1
    while True:
        value = shift = 0
        while True:
            if pos >= end:
                if pos >= stop:
                    raise _too_long(pos - start, stop - start)
                return None
            byte = buf[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift == 35:
                raise WireError("varint has more than 5 bytes, expected 1..5")
        if value > 0xFFFF_FFFF:
            raise WireError(f"varint {value} is outside 0..{0xFFFF_FFFF}")
        if left < 0:
            left = 2 * check_tag_count(value)
        elif left & 1:  # a size: its bytes are skipped, and may not all be there
            pos += value
            left -= 1
        else:
            if value <= last_tag:
                raise WireError(f"tag {value} follows tag {last_tag}, expected a larger one")
            last_tag = value
            left -= 1
        if left == 0:
            break
    if pos > stop:
        raise _too_long(pos - start, stop - start)
    return pos if pos <= end else None


def _too_long(size_bytes: int, max_bytes: int) -> WireError:
    return WireError(f"header has {size_bytes} bytes or more, expected {max_bytes} at most")


def _cut_client_id(size_bytes: int) -> WireError:
    return WireError(f"request of {size_bytes} bytes ends inside its client id")
