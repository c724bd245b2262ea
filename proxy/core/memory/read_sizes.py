"""Sets the sizes of reads when memory is short. The event loop asks only while a pool is `near_limit`.

Rules:
- Streamed bytes must be buffered when the receiver does not take them at once. So each read takes at most a
  sixteenth of the bytes left, and reads alone never exhaust a pool.
- When no byte is left, reads are minimal. A client inside a frame is read because its frame must end. A client
  between frames is read because its request's size decides whether it needs memory; Kafka reads the size before it
  asks its pool, too. So requests that need memory wait in one queue, and the others pass.
- A frame that is buffered whole is read up to the step that it has reserved; one that is discarded, up to its end.
- When too many requests are held, the first bytes are read, but not processed until there is room.
- Replies never wait, because forwarding them frees memory. A client that takes no replies costs one read. Such
  reads get smaller once a few MiB are buffered for slow clients, and minimal when the pool is exhausted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from proxy.core.memory.claim import ClientSide, MemoryClaim
    from proxy.core.memory.pool import MemoryPool
    from proxy.core.memory.reservations import Reservations

FULL_BYTES = 288 << 10
SLOW_BYTES = 64 << 10
MIN_READ_BYTES = 8 << 10
START_BYTES = 1 << 10
"""The read size for a new request when no byte is left: it fits an ordinary head, or a whole small request."""
REQUEST_SPARE_BYTES = 4 << 20
"""With more bytes left, full reads cannot exhaust the pool within one step of the event loop (1 MiB and a read)."""
REPLY_CALM_BYTES = 2 << 20
"""This many bytes may be buffered for slow clients before all reads of replies get smaller."""
_PART = 4  # 1/16, as a shift


class Reading(Protocol):
    """A session whose client is about to be read."""

    @property
    def request_left(self) -> int: ...
    @property
    def request_streams(self) -> bool: ...
    @property
    def gathered_bytes(self) -> int | None: ...
    @property
    def client(self) -> ClientSide: ...
    @property
    def claim(self) -> MemoryClaim: ...


class ReadSizes:
    """Computes the size of each read, in bytes and never 0, from the memory left in both pools."""

    __slots__ = ("_replies", "_requests", "_room")

    def __init__(self, requests: MemoryPool, replies: MemoryPool, room: Reservations) -> None:
        self._requests = requests
        self._replies = replies
        self._room = room
        self.set_near_limits()

    def set_near_limits(self) -> None:
        """Set at which usage the pools become `near_limit`; call it again when a pool was resized."""
        requests, replies = self._requests, self._replies
        requests.set_near_limit(max(REQUEST_SPARE_BYTES, requests.size_bytes // 10))
        if self._room.max_requests >= 0:  # clients may be queued although memory is left
            requests.set_near_limit(0, 0)
        replies.set_near_limit(REQUEST_SPARE_BYTES, REPLY_CALM_BYTES)

    def request_bytes(self, session: Reading) -> int:
        """Return the read size for this client. If it may not begin a request, it is muted and its bytes are kept."""
        left = session.request_left
        if left and not session.request_streams:
            gathered_bytes = session.gathered_bytes
            if gathered_bytes is not None and session.claim.is_counted:
                left = max(1, session.claim.reserved_bytes - gathered_bytes)
            return min(left, FULL_BYTES)
        begins = not (left or session.client.carry)
        if begins and self._room.is_closed():
            self._room.wait(session.claim)
            return START_BYTES
        if not self._requests.is_out_of_memory():
            part = self._requests.available_memory() >> _PART
            return min(max(part, MIN_READ_BYTES), FULL_BYTES)
        if left:
            return min(left, MIN_READ_BYTES)
        return START_BYTES if begins else MIN_READ_BYTES

    def reply_bytes(self) -> int:
        """Return the read size for any broker."""
        replies = self._replies
        if replies.used_bytes < REPLY_CALM_BYTES and not replies.near_limit:
            return FULL_BYTES
        if replies.is_out_of_memory():
            replies.refuse()
            return MIN_READ_BYTES
        return min(max(replies.available_memory() >> _PART, MIN_READ_BYTES), SLOW_BYTES)
