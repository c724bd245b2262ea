"""Lowers the bytes that a Fetch or ShareFetch asks for to what a byte quota allows (Kafka: `KafkaApis`).

max_bytes is lowered to the bytes that the quota allows at once, and min_bytes to the same value. Otherwise one full
reply would always be throttled, and a wait for more bytes than allowed would never end. A broker sends at least one
batch, however large; it is charged at its real size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.api import FORWARD, Forward, Patch
from wire.fetch import FetchHead, ShareFetchHead, head_offsets
from wire.primitives import INT32

if TYPE_CHECKING:
    from policies.api import Request

_INT32_MAX: Final = 0x7FFF_FFFF


def limit_fetch(request: Request, max_bytes: float) -> Forward:
    """Return a Forward that lowers max_bytes and min_bytes of a fetch to `max_bytes`. Needs the request's head."""
    head = request.head
    if isinstance(head, ShareFetchHead):
        max_bytes_at: int | None = head.max_bytes_at
        min_bytes_at = head.min_bytes_at
    elif isinstance(head, FetchHead):
        offsets = head_offsets(request.api_version)
        max_bytes_at, min_bytes_at = offsets.max_bytes, offsets.min_bytes
    else:
        return FORWARD
    limit_bytes = max(1, int(min(max_bytes, _INT32_MAX)))
    patches: list[Patch] = []
    if head.max_bytes > limit_bytes and max_bytes_at is not None:
        patches.append(Patch(max_bytes_at, INT32.pack(limit_bytes)))
    if head.min_bytes > limit_bytes:
        patches.append(Patch(min_bytes_at, INT32.pack(limit_bytes)))
    return Forward(tuple(patches)) if patches else FORWARD
