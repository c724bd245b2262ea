"""Fetch requests: the fixed-width head, its place for patches, and the rules of fetch sessions.

- v15 moved the replica id into a tag; before it, every field of the head is 4 bytes further on.
- (session id, epoch) says what a fetch means (KIP-227; Kafka: `FetchMetadata`): (0, -1) no
  session; (0, 0) full, a session wished; (S, 0) close S, full, a new one wished; (S, -1) close S;
  (S, n > 0) incremental, which lists only what changed.
- Who answers a fetch itself must not keep its session alive: the broker never saw that epoch and
  would refuse the next one (error 71), and the partitions it added or forgot would be lost. So the
  empty reply says session id 0 and throttle_time_ms > 0, to a full fetch as to an incremental one:
  clients take it as "throttled" and begin anew with a full fetch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import Final

from wire.apis import Api, ApiKey
from wire.errors import WireError
from wire.primitives import INT32, Buffer, encode_compact_count, encode_count

INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 0x7FFF_FFFF

_MAX_BYTES_DEFAULT: Final = 0x7FFF_FFFF  # FetchRequest.json: before v3, and isolation before v4
_HEAD_V0: Final = Struct(">ii")  # max wait, min bytes
_HEAD_V3: Final = Struct(">iii")  # ..., max bytes
_HEAD_V4: Final = Struct(">iiib")  # ..., isolation level
_HEAD_V7: Final = Struct(">iiibii")  # ..., session id, session epoch


class FetchKind(Enum):
    """What a (session id, epoch) pair asks for."""

    SESSIONLESS = "sessionless"
    FULL = "full"
    """A full fetch that wishes a new session, and closes the one it names."""
    INCREMENTAL = "incremental"
    CLOSE = "close"
    """A last, full fetch that only closes the session it names."""


@dataclass(slots=True)
class FetchHead:
    """The head of a Fetch request; times in ms, sizes in bytes, Kafka's defaults where absent."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int = _MAX_BYTES_DEFAULT
    isolation_level: int = 0
    session_id: int = INVALID_SESSION_ID
    session_epoch: int = FINAL_EPOCH

    @property
    def kind(self) -> FetchKind:
        """What the request means; any negative epoch is treated as the final one."""
        if self.session_epoch == INITIAL_EPOCH:
            return FetchKind.FULL
        if self.session_epoch > 0:
            return FetchKind.INCREMENTAL
        return FetchKind.CLOSE if self.session_id else FetchKind.SESSIONLESS


@dataclass(frozen=True, slots=True)
class HeadOffsets:
    """Offsets of the head's fields from the body's start; None: not in this version.

    All are int32 but the isolation level, an int8: a patch never changes the frame's length.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int | None
    isolation_level: int | None
    session_id: int | None
    session_epoch: int | None


def head_offsets(version: int) -> HeadOffsets:
    """Where the fields are in `version`."""
    at = 0 if version >= 15 else 4  # replica id
    return HeadOffsets(
        max_wait_ms=at,
        min_bytes=at + 4,
        max_bytes=at + 8 if version >= 3 else None,
        isolation_level=at + 12 if version >= 4 else None,
        session_id=at + 13 if version >= 7 else None,
        session_epoch=at + 17 if version >= 7 else None,
    )


def read_head(buf: Buffer, body_at: int, end: int, version: int) -> FetchHead | None:
    """The head of the Fetch body at `body_at`; None if not all there yet."""
    head = (
        _HEAD_V7
        if version >= 7
        else _HEAD_V4
        if version >= 4
        else _HEAD_V3
        if version >= 3
        else _HEAD_V0
    )
    at = body_at if version >= 15 else body_at + 4
    if at + head.size > end:
        return None
    return FetchHead(*head.unpack_from(buf, at))


def next_epoch(epoch: int) -> int:
    """The epoch after `epoch`: it wraps to 1, for 0 is the initial one; the final one stays."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == MAX_EPOCH else epoch + 1


def empty_reply(api: Api, throttle_time_ms: int) -> bytes:
    """A Fetch response body without partitions, for a client that is to come again later.

    Session id 0 always (see above). Raises `WireError` for a throttle of 0: to a client an empty
    full response without one is a broker's fault; and below v1, which cannot say it.
    """
    if api.key != ApiKey.FETCH or api.version < 1:
        raise WireError(f"{api.name} v{api.version} has no empty reply with a throttle")
    if throttle_time_ms <= 0:
        raise WireError("an empty fetch reply needs throttle_time_ms > 0")
    body = INT32.pack(throttle_time_ms)
    if api.version >= 7:
        body += b"\x00\x00" + INT32.pack(INVALID_SESSION_ID)  # error code, session id
    if api.flexible:
        return body + encode_compact_count(0) + b"\x00"
    return body + encode_count(0)
