"""Request and response headers, read where they lie.

- `pos` is always a frame's start: its int32 size field. The size was checked by whoever framed it.
- None means "not all there yet"; `WireError` means that no further byte can mend it.
- A header never reaches past its own frame, and never past `MAX_HEADER_BYTES`: what must be kept
  until it is whole stays small, whatever the frame's size says.
- `client_id` has a two-byte length in every header version (Kafka: RequestHeader.json); a flexible
  header (v2) adds a tag section behind it. Header v0, of ControlledShutdown v0 only, has no
  client id. Which version a request or response has is a fact of `wire.apis`.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from wire.errors import WireError
from wire.primitives import (
    MAX_TAGS_PER_STRUCT,
    Buffer,
    int16_at,
    int32_at,
)

REQUEST: Final = Struct(">iii")
"""size, `api_key << 16 | api_version` as one int32, correlation_id; from the frame's start."""

REQUEST_FIXED_BYTES: Final = 12
RESPONSE_FIXED_BYTES: Final = 8
MAX_HEADER_BYTES: Final = 64 * 1024
"""Largest header accepted, size field included: a full client id (32 KiB) and its tags."""


def body_at(buf: Buffer, pos: int, end: int, request_header_version: int) -> int | None:
    """Offset of a request body's first byte; `end` may lie inside the frame or behind it."""
    if end - pos < REQUEST_FIXED_BYTES:
        return None
    stop = pos + 4 + int32_at(buf, pos)[0]
    body = pos + REQUEST_FIXED_BYTES
    if request_header_version:
        if end < body + 2:
            if stop < body + 2:
                raise WireError("request header ends inside its client id")
            return None
        length: int = int16_at(buf, body)[0]
        body += 2
        if length > 0:
            body += length
        elif length < -1:
            raise WireError(f"client id of {length} bytes")
        if request_header_version == 2:
            if body < end and body < stop and buf[body] == 0:
                return body + 1
            return _after_tags(buf, pos, body, end, stop)
    if body > stop:
        raise WireError("request header longer than its frame")
    return body if body <= end else None


def client_id_of(buf: Buffer, pos: int, end: int) -> bytes:
    """The client id of a request with header v1 or v2; null is the empty one, as in Kafka."""
    if end - pos < REQUEST_FIXED_BYTES + 2:
        raise WireError("request header ends inside its client id")
    start = pos + REQUEST_FIXED_BYTES + 2
    length: int = int16_at(buf, pos + REQUEST_FIXED_BYTES)[0]
    if length <= 0:
        if length < -1:
            raise WireError(f"client id of {length} bytes")
        return b""
    if start + length > end:
        raise WireError("request header ends inside its client id")
    return bytes(buf[start : start + length])


def response_body_at(buf: Buffer, pos: int, end: int, response_header_version: int) -> int | None:
    """Offset of a response body's first byte; header v1 has a tag section before it."""
    if end - pos < RESPONSE_FIXED_BYTES:
        return None
    stop = pos + 4 + int32_at(buf, pos)[0]
    body = pos + RESPONSE_FIXED_BYTES
    if response_header_version:
        if body < end and body < stop and buf[body] == 0:
            return body + 1
        return _after_tags(buf, pos, body, end, stop)
    if body > stop:
        raise WireError("response header longer than its frame")
    return body


def _after_tags(buf: Buffer, start: int, pos: int, end: int, stop: int) -> int | None:
    """As `primitives.skip_tags`, but bytes between `end` and the frame's `stop` may yet come."""
    stop = min(stop, start + MAX_HEADER_BYTES)
    end = min(end, stop)
    left = -1  # varints still to read: the count first, then tag and size of each field
    last_tag = -1
    while True:
        value = shift = 0
        while True:
            if pos >= end:
                if pos >= stop:
                    raise WireError("header longer than its frame or than a header may be")
                return None
            byte = buf[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift == 35:
                raise WireError("varint longer than five bytes")
        if value > 0xFFFF_FFFF:
            raise WireError("varint exceeds 32 bits")
        if left < 0:
            if value > MAX_TAGS_PER_STRUCT:
                raise WireError(f"{value} tagged fields in one header")
            left = 2 * value
        elif left & 1:  # a size: its bytes are skipped, and may not all be there
            pos += value
            left -= 1
        else:
            if value <= last_tag:
                raise WireError(f"tag {value} after tag {last_tag}")
            last_tag = value
            left -= 1
        if left == 0:
            break
    if pos > stop:
        raise WireError("header longer than its frame or than a header may be")
    return pos if pos <= end else None
