"""One side of a session: whether it is read from, and what still has to be written to it.

Rules:
- A channel is read from while no reason to mute it holds. Reasons are a set (kept as bits), not a
  product of states: the part that adds a reason removes it.
- Bytes that the kernel did not take stay in `outbox`, in order. Each piece is counted in `pool` until all of it is
  sent, because it keeps its memory until then.
- `carry` is the beginning of a frame that is too short to be judged, or that waits. It is prepended to the next
  read, and counted in the pool of the bytes that this side sends (`read_pool`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from proxy.core.memory.pool import MemoryPool
    from proxy.core.memory.reservations import Reservations


ATTENTION = -1
"""A session returns this when a read was not forwarded as it came: the event loop must look at its channels."""


class Mute:
    """Why a channel is not read from: bits of `Channel.muted`. Plain integers, because flags of `enum`
    cost half a microsecond each time they are joined.
    """

    THROTTLED: Final = 1
    HELD: Final = 2
    OUT_OF_MEMORY: Final = 4
    BACKPRESSURE: Final = 8
    UPSTREAM_AUTH: Final = 16
    DRAINING: Final = 32
    ENDING: Final = 64
    IN_FLIGHT: Final = 128
    PACED: Final = 256
    UPSTREAM_REAUTH: Final = 512
    HEARING: Final = 1024
    """Of the broker's side: policies take its reply in turns."""


STOPS_PARSING = (
    Mute.THROTTLED
    | Mute.HELD
    | Mute.UPSTREAM_AUTH
    | Mute.OUT_OF_MEMORY
    | Mute.IN_FLIGHT
    | Mute.UPSTREAM_REAUTH
)
"""While one of these holds, requests already read are not begun."""


class Settled:
    """The bytes of a read that are settled and not forwarded yet: buf[start:stop]. They survive a fault."""

    __slots__ = ("start", "stop")

    def __init__(self, start: int, stop: int) -> None:
        self.start = start
        self.stop = stop


_NOTHING: list[bytes | bytearray] = []
"""The empty outbox that all channels share; it is never changed. A list for each would be 56 bytes."""


class Watcher(Protocol):
    """A session that wants to know when bytes begin to wait for this side."""

    def watch_unsent(self) -> None: ...


class Channel:
    """The client's or the broker's side. With a `room`, a channel with unsent bytes counts as a request held there."""

    __slots__ = (
        "carry",
        "head_at",
        "muted",
        "outbox",
        "pool",
        "read_pool",
        "room",
        "sent_bytes",
        "unsent_bytes",
        "watcher",
    )

    def __init__(
        self,
        pool: MemoryPool,
        read_pool: MemoryPool | None = None,
        room: Reservations | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self.pool = pool
        self.read_pool = read_pool or pool
        self.room = room
        self.muted = 0
        self.outbox = _NOTHING
        self.head_at = 0  # how much of outbox[0] is already sent: no copy of what remains
        self.unsent_bytes = 0
        self.sent_bytes = 0  # all that ever stood in the outbox and was taken
        self.carry = b""
        self.watcher = watcher

    def mute(self, reason: int) -> None:
        """Add a reason not to read this side (a bit of `Mute`)."""
        self.muted |= reason

    def unmute(self, reason: int) -> None:
        """Remove a reason not to read this side; others may remain."""
        self.muted &= ~reason

    def put(self, data: bytes | bytearray, counted_bytes: int = 0) -> None:
        """Append bytes to be written to this side. The caller must not change `data` afterwards.

        `counted_bytes` of the pool are allocated for it already.
        """
        size_bytes = len(data)
        if size_bytes > counted_bytes:
            self.pool.force_allocate(size_bytes - counted_bytes)
        elif size_bytes < counted_bytes:
            self.pool.release(counted_bytes - size_bytes)
        if size_bytes:
            self.unsent_bytes += size_bytes
            if self.outbox:
                self.outbox.append(data)
                return
            self.outbox = [data]
            if self.room is not None:
                self.room.one_more()
            if self.watcher is not None:
                self.watcher.watch_unsent()

    def put_slice(self, buf: bytearray, start: int, stop: int) -> None:
        """Append buf[start:stop], because it cannot be sent straight from `buf`."""
        if stop > start >= 0:
            self.put(bytes(memoryview(buf)[start:stop]))

    def front(self, max_bytes: int) -> bytes | bytearray | memoryview:
        """Return the bytes to offer to the kernel next: small pieces joined (up to `max_bytes`), a large one alone."""
        outbox = self.outbox
        if len(outbox) > 1 and self.unsent_bytes <= max_bytes:
            joined = b"".join(outbox)
            outbox[:] = [joined[self.head_at :] if self.head_at else joined]
            sent, self.head_at = self.head_at, 0
            self.pool.release(sent)
        first = outbox[0]
        return memoryview(first)[self.head_at :] if self.head_at else first

    def sent(self, size_bytes: int) -> None:
        """Remove `size_bytes`, which the kernel took, from the front of the outbox."""
        self.unsent_bytes -= size_bytes
        self.sent_bytes += size_bytes
        outbox = self.outbox
        begun = at = self.head_at + size_bytes
        if outbox and not self.unsent_bytes:
            self._empty(begun)
            return
        done = 0
        while done < len(outbox) and at >= len(outbox[done]):
            at -= len(outbox[done])
            done += 1
        self.head_at = at
        if done:
            del outbox[:done]
            self.pool.release(begun - at)

    def keep(self, data: bytes) -> None:
        """Carry the beginning of a frame over to the next read."""
        self.carry = data
        self.read_pool.carried_bytes += len(data)
        self.read_pool.force_allocate(len(data))

    def take(self) -> bytes:
        """Return the carried bytes, which are no longer counted here."""
        data, self.carry = self.carry, b""
        self.read_pool.carried_bytes -= len(data)
        self.read_pool.release(len(data))
        return data

    def clear(self) -> None:
        """Discard all bytes of this side, because its connection is gone, and release their memory."""
        if self.outbox:
            held_bytes, self.unsent_bytes = self.unsent_bytes + self.head_at, 0
            self._empty(held_bytes)
        if self.carry:
            self.take()

    def _empty(self, held_bytes: int) -> None:
        """Drop the outbox, which has held so many bytes of the pool."""
        self.outbox = _NOTHING
        self.head_at = 0
        self.pool.release(held_bytes)
        if self.room is not None:
            self.room.one_less()
