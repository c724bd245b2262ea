"""Lowers the bytes that a Fetch asks for to what a byte quota allows (Kafka: `KafkaApis.handleFetchRequest`).

max_bytes is lowered to the bytes that the quota allows at once, and min_bytes to the same value. Otherwise one full
reply would always be throttled, and a wait for more bytes than allowed would never end. A broker sends at least one
batch, however large; it is charged at its real size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.api import FORWARD, Forward, Patch
from wire.fetch import FetchHead, head_offsets
from wire.primitives import INT32

if TYPE_CHECKING:
    from policies.api import Request

_INT32_MAX: Final = 0x7FFF_FFFF


def limit_fetch(request: Request, max_bytes: float) -> Forward:
    """Return a Forward that lowers max_bytes and min_bytes of a Fetch to `max_bytes`. Needs the request's head."""
    head = request.head
    if not isinstance(head, FetchHead):
        return FORWARD
    limit_bytes = max(1, int(min(max_bytes, _INT32_MAX)))
    offsets = head_offsets(request.api_version)
    patches: list[Patch] = []
    if head.max_bytes > limit_bytes and offsets.max_bytes is not None:
        patches.append(Patch(offsets.max_bytes, INT32.pack(limit_bytes)))
    if head.min_bytes > limit_bytes:
        patches.append(Patch(offsets.min_bytes, INT32.pack(limit_bytes)))
    return Forward(tuple(patches)) if patches else FORWARD
