"""How much may be read at once, when memory is short. The hub asks only while a pool is `pressed`.

Rules:
- What streams may have to be kept for once, if it is not taken at once: so no read takes more than a
  sixteenth of what is left. What is left shrinks, and never ends by reads alone.
- Who holds nothing of a request waits when nothing is left. Inside a frame, a crumb is read: it must
  end. A frame that has its memory, or is thrown away, is read as ever, up to its end.
- Replies never wait: they are what frees memory. A client that takes none costs one read, and that
  is less as soon as a few MiB are kept for such clients, and a crumb when their pool is used up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.state import STREAM

if TYPE_CHECKING:
    from proxy.core.memory import MemoryPool
    from proxy.core.state import SessionState
    from proxy.core.waiting_room import WaitingRoom

FULL_BYTES = 256 << 10
SLOW_BYTES = 64 << 10
CRUMB_BYTES = 8 << 10
REQUEST_SPARE_BYTES = 4 << 20
"""With more left, whole reads cannot use up the pool within one step of the hub (a MiB and a read)."""
REPLY_CALM_BYTES = 2 << 20
"""So much may be kept for clients that are a little late before all reads of replies get smaller."""
_PART = 4  # 1/16, as a shift


class Reads:
    """See the module. Sizes are in bytes; 0 means: do not read, the session waits."""

    __slots__ = ("_replies", "_requests", "_room")

    def __init__(self, requests: MemoryPool, replies: MemoryPool, room: WaitingRoom) -> None:
        self._requests = requests
        self._replies = replies
        self._room = room
        self.press()

    def press(self) -> None:
        """Set from when on the pools are `pressed` (again: one of them was resized)."""
        requests, replies = self._requests, self._replies
        requests.press_at(max(REQUEST_SPARE_BYTES, requests.size_bytes // 10))
        if self._room.most_requests >= 0:  # the line may be there whatever is left
            requests.press_at(0, 0)
        replies.press_at(REQUEST_SPARE_BYTES, REPLY_CALM_BYTES)

    def request_bytes(self, s: SessionState) -> int:
        """From this client."""
        left = s.request_left
        if left and s.request_mode != STREAM:
            return min(left, FULL_BYTES)
        if not self._room.is_full():
            part = self._requests.available_memory() >> _PART
            return min(max(part, CRUMB_BYTES), FULL_BYTES)
        if left:
            return min(left, CRUMB_BYTES)
        return CRUMB_BYTES if s.client.carry else 0

    def reply_bytes(self) -> int:
        """From any broker."""
        replies = self._replies
        if replies.used_bytes < REPLY_CALM_BYTES and not replies.pressed:
            return FULL_BYTES
        if replies.is_out_of_memory():
            replies.refuse()
            return CRUMB_BYTES
        return min(max(replies.available_memory() >> _PART, CRUMB_BYTES), SLOW_BYTES)
