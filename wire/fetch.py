"""Fetch requests: the fixed-width head, the offsets for patches, and the rules of fetch sessions; waits of ShareFetch.

- v15 moved the replica id into a tag; before v15 every field of the head is 4 bytes further on.
- The pair (session id, epoch) says what a fetch means (KIP-227; Kafka: `FetchMetadata`): (0, -1) no session;
  (0, 0) full, asks for a session; (S, 0) close S, full, asks for a new session; (S, -1) close S; (S, n > 0)
  incremental, lists only what changed.
- When Sluice answers a fetch itself, the session must not stay alive. The broker never saw that epoch and would
  refuse the next one (error 71), and the partitions that the request added or removed would be lost. So the empty
  reply has session id 0 and throttle_time_ms > 0, for a full fetch and for an incremental one: clients treat it as a
  throttle and start again with a full fetch.
- In a ShareFetch (KIP-932) the names of the group and of the member come before the wait and the sizes, so their
  offsets differ from request to request.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from wire.apis import Api, ApiKey
from wire.errors import ErrorCode, WireError
from wire.primitives import (
    INT16,
    INT32,
    Buffer,
    compact_length,
    encode_compact_count,
    encode_count,
    skip,
    skip_compact,
)

if TYPE_CHECKING:
    from wire.primitives import Buffer


INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1

_MAX_BYTES_DEFAULT: Final = 0x7FFF_FFFF  # FetchRequest.json: before v3, and isolation before v4
_HEAD_V0: Final = Struct(">ii")  # max wait, min bytes
_HEAD_V3: Final = Struct(">iii")  # ..., max bytes
_HEAD_V4: Final = Struct(">iiib")  # ..., isolation level
_HEAD_V7: Final = Struct(">iiibii").unpack_from  # ..., session id, session epoch
_new_head: Final = tuple.__new__  # its own __new__ takes twice the time

_FIELDS: Final = Struct(">iii")
_EPOCH_AND_WAIT: Final = Struct(">ii")
_EPOCH_BYTES: Final = 4


class FetchKind(Enum):
    """The meaning of a (session id, epoch) pair."""

    SESSIONLESS = "sessionless"
    FULL = "full"
    """A full fetch that asks for a new session, and closes the session it names."""
    INCREMENTAL = "incremental"
    CLOSE = "close"
    """A last full fetch that only closes the session it names."""


class FetchHead(NamedTuple):
    """The head of a Fetch request; times in ms, sizes in bytes. Fields that the version lacks have Kafka's defaults."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int = _MAX_BYTES_DEFAULT
    isolation_level: int = 0
    session_id: int = INVALID_SESSION_ID
    session_epoch: int = FINAL_EPOCH

    @property
    def kind(self) -> FetchKind:
        """The meaning of the request; any negative epoch is treated as the final one."""
        if self.session_epoch == INITIAL_EPOCH:
            return FetchKind.FULL
        if self.session_epoch > 0:
            return FetchKind.INCREMENTAL
        return FetchKind.CLOSE if self.session_id else FetchKind.SESSIONLESS


@dataclass(frozen=True, slots=True)
class HeadOffsets:
    """Offsets in bytes of the head's fields from the body's start; None if the version lacks the field.

    All are int32 except the isolation level, an int8: a patch never changes the frame's length.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int | None
    isolation_level: int | None
    session_id: int | None
    session_epoch: int | None


@cache
def head_offsets(version: int) -> HeadOffsets:
    """Return where the fields of the head are in `version`."""
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
    """Return the head of the Fetch body at `body_at`; None if `end` comes before the head's end."""
    at = body_at if version >= 15 else body_at + 4
    if version >= 7:  # all fields
        return _new_head(FetchHead, _HEAD_V7(buf, at)) if at + 21 <= end else None
    head = _HEAD_V4 if version >= 4 else _HEAD_V3 if version >= 3 else _HEAD_V0
    return FetchHead(*head.unpack_from(buf, at)) if at + head.size <= end else None


def empty_reply(api: Api, throttle_time_ms: int) -> bytes:
    """Return a Fetch response body without partitions, for a client that should fetch again later.

    The session id is always 0 (see the module's rules). Raises `WireError` for v0, which has no throttle field, and
    for a throttle of 0: clients treat an empty full response without a throttle as a broker's fault.
    """
    if api.key != ApiKey.FETCH or api.version < 1:
        raise WireError(
            f"{api.name} v{api.version} has no throttle_time_ms, expected Fetch v1 or later"
        )
    if throttle_time_ms <= 0:
        raise WireError(
            f"throttle_time_ms {throttle_time_ms} of an empty Fetch reply is outside 1..{0x7FFF_FFFF}"
        )
    return _without_partitions(api, throttle_time_ms, ErrorCode.NONE)


def session_gone(api: Api) -> bytes:
    """Return a Fetch response body that makes the client begin again with a full fetch. `api`: v7 or later."""
    return _without_partitions(api, 0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def _without_partitions(api: Api, throttle_time_ms: int, code: int) -> bytes:
    body = INT32.pack(throttle_time_ms)
    if api.version >= 7:
        body += INT16.pack(code) + INT32.pack(INVALID_SESSION_ID)
    if api.flexible:
        return body + encode_compact_count(0) + b"\x00"
    return body + encode_count(0)


class ShareFetchHead(NamedTuple):
    """The head of a ShareFetch request; times in ms, sizes in bytes."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    min_bytes_at: int
    """Offset in bytes of `min_bytes` from the body's start."""
    max_bytes_at: int
    """The same of `max_bytes`."""


def read_share_head(buf: Buffer, body_at: int, end: int) -> ShareFetchHead | None:
    """Return the head of the ShareFetch body at `body_at`, of any version; None if `end` comes before the head's end.

    A name whose length is malformed looks like one that has not arrived.
    """
    try:
        at = skip_compact(buf, skip_compact(buf, body_at, end), end) + _EPOCH_BYTES
    except WireError:
        return None
    if at + _FIELDS.size > end:
        return None
    max_wait_ms, min_bytes, max_bytes = _FIELDS.unpack_from(buf, at)
    offset = at - body_at
    return ShareFetchHead(max_wait_ms, min_bytes, max_bytes, offset + 4, offset + 8)


class ShareSession(NamedTuple):
    """What a ShareFetch says of its session, and how long it may wait."""

    member: str
    epoch: int
    """0: a new session. Negative: it ends the session."""
    max_wait_ms: int
    max_wait_at: int
    """Offset in bytes from the body's start."""


def read_share_session(body: Buffer) -> ShareSession:
    """Return what the body of a ShareFetch of any version says of its session. Raises `WireError` if it is cut off."""
    end = len(body)
    length, at = compact_length(body, skip_compact(body, 0, end), end)
    epoch_at = at + max(length, 0)
    skip(epoch_at, _EPOCH_BYTES + INT32.size, end)
    epoch, max_wait_ms = _EPOCH_AND_WAIT.unpack_from(body, epoch_at)
    member = bytes(body[at:epoch_at]).decode(errors="replace")
    return ShareSession(member, epoch, max_wait_ms, epoch_at + _EPOCH_BYTES)
