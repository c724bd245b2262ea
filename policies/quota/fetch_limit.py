"""Ask the broker for no more than a byte quota allows (Kafka: `KafkaApis.handleFetchRequest`).

max_bytes comes down to what may be had at once, and min_bytes to that: or one full reply would always
be throttled, and a wait for more than may come would never end. A broker sends one batch at least,
however large; it is charged as it is.
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
    """Lay `max_bytes` over what a Fetch asks for, where that is more. Needs its head."""
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
