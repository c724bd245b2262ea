"""ShareFetch requests (KIP-932): the fields that say how long the broker may wait, and for how many bytes.

The names of the group and of the member come before them, so their offsets differ from request to request.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from wire.errors import WireError
from wire.primitives import skip_compact

if TYPE_CHECKING:
    from wire.primitives import Buffer

_FIELDS: Final = Struct(">iii")
_EPOCH_BYTES: Final = 4


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
