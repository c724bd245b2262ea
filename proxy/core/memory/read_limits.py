"""How much may be read at once, when memory is short. The event loop asks only while a pool is `pressed`.

Rules:
- What streams may have to be kept for once, if it is not taken at once: so no read takes more than a
  sixteenth of what is left. What is left shrinks, and never ends by reads alone.
- With nothing left, a crumb is read: of who is inside a frame, for it must end, and of everybody else, for
  that shows the size of its request, which Kafka reads before it asks its pool, too. So whoever has to
  wait waits in the one line, and what needs no memory passes.
- A frame that has its memory, or is thrown away, is read as ever, up to its end.
- With too many requests held, the first bytes are read, and not looked at before there is room.
- Replies never wait: they are what frees memory. A client that takes none costs one read, and that
  is less as soon as a few MiB are kept for such clients, and a crumb when their pool is used up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from proxy.core.memory.claim import ClientSide, MemoryClaim
    from proxy.core.memory.pool import MemoryPool
    from proxy.core.memory.reservations import Reservations

FULL_BYTES = 256 << 10
SLOW_BYTES = 64 << 10
CRUMB_BYTES = 8 << 10
START_BYTES = 1 << 10
"""Of a new request, with nothing left: an ordinary head, and the whole of a small request."""
REQUEST_SPARE_BYTES = 4 << 20
"""With more left, whole reads cannot use up the pool within one step of the event loop (a MiB and a read)."""
REPLY_CALM_BYTES = 2 << 20
"""So much may be kept for clients that are a little late before all reads of replies get smaller."""
_PART = 4  # 1/16, as a shift


class Reading(Protocol):
    """A session of whose client something is about to be read."""

    @property
    def request_left(self) -> int: ...
    @property
    def request_streams(self) -> bool: ...
    @property
    def client(self) -> ClientSide: ...
    @property
    def claim(self) -> MemoryClaim: ...


class Reads:
    """See the module. Sizes are in bytes, and never 0."""

    __slots__ = ("_replies", "_requests", "_room")

    def __init__(self, requests: MemoryPool, replies: MemoryPool, room: Reservations) -> None:
        self._requests = requests
        self._replies = replies
        self._room = room
        self.set_backpressure()

    def set_backpressure(self) -> None:
        """Set from when on the pools are `pressed` (again: one of them was resized)."""
        requests, replies = self._requests, self._replies
        requests.press_at(max(REQUEST_SPARE_BYTES, requests.size_bytes // 10))
        if self._room.max_requests >= 0:  # the line may be there whatever is left
            requests.press_at(0, 0)
        replies.press_at(REQUEST_SPARE_BYTES, REPLY_CALM_BYTES)

    def request_bytes(self, session: Reading) -> int:
        """From this client. Who must not begin a request is muted: what is read then is kept."""
        left = session.request_left
        if left and not session.request_streams:
            return min(left, FULL_BYTES)
        begins = not (left or session.client.carry)
        if begins and self._room.is_closed():
            self._room.wait(session.claim)
            return START_BYTES
        if not self._requests.is_out_of_memory():
            part = self._requests.available_memory() >> _PART
            return min(max(part, CRUMB_BYTES), FULL_BYTES)
        if left:
            return min(left, CRUMB_BYTES)
        return START_BYTES if begins else CRUMB_BYTES

    def reply_bytes(self) -> int:
        """From any broker."""
        replies = self._replies
        if replies.used_bytes < REPLY_CALM_BYTES and not replies.near_limit:
            return FULL_BYTES
        if replies.is_out_of_memory():
            replies.refuse()
            return CRUMB_BYTES
        return min(max(replies.available_memory() >> _PART, CRUMB_BYTES), SLOW_BYTES)
