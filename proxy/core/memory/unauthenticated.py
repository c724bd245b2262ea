"""Counts the bytes that are kept for clients before it is known who they are: parts of TLS hellos, of SASL tokens and
of long request heads.

Rules:
- They count in the pool of requests, and are never refused there: else a client could not log in while others, who
  have, use up the pool.
- Their sum is bounded (MAX_BYTES). If it is exceeded, clients lose their connections until ROOM_PART of it is free:
  first the one whose bytes, times the time since the first of them came, are most. So the slow and the large lose, and
  one that sends its login at once does not.
- No authenticated client has bytes here, so none is cut.
- The search for who loses looks at all of them, so it is made once for many bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from proxy.core.errors import CloseReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.memory.pool import MemoryPool

MAX_BYTES: Final = 4 << 20
ROOM_PART: Final = 1 / 8
NO_ROOM: Final = "its login came too slowly, and others needed the memory"
START_MS: Final = 100
"""Added to each age, so that sizes count among clients that came in the same millisecond."""


class Unknown(Protocol):
    """A client that is not known yet. The code that ends it gives its bytes back."""

    def end_and_attend(self, reason: CloseReason, detail: str, now_ms: int) -> None:
        """End, because others need the memory."""


class _Kept:
    """The bytes of one client, those of them that are counted in the pool for it, and when the first of them came."""

    __slots__ = ("pool_bytes", "since_ms", "size_bytes")

    def __init__(self, since_ms: int) -> None:
        self.size_bytes = self.pool_bytes = 0
        self.since_ms = since_ms


class UnauthenticatedBytes:
    """The bytes of all clients that are not known yet. `used_bytes` is their sum."""

    __slots__ = ("_kept", "_now_ms", "_pool", "max_bytes", "used_bytes")

    def __init__(
        self, pool: MemoryPool, now_ms: Callable[[], int], max_bytes: int = MAX_BYTES
    ) -> None:
        self._pool = pool
        self._now_ms = now_ms
        self._kept: dict[Unknown, _Kept] = {}
        self.max_bytes = max_bytes
        self.used_bytes = 0

    def __len__(self) -> int:
        """Return how many clients have bytes here."""
        return len(self._kept)

    def try_add(self, client: Unknown, size_bytes: int) -> bool:
        """Count bytes that were read; return False if this client must give way itself. They count in any case."""
        kept = self._find(client)
        kept.pool_bytes += size_bytes
        self._pool.force_allocate(size_bytes)
        return self._try_grow(client, kept, size_bytes)

    def try_keep(self, client: Unknown, kept_bytes: int) -> bool:
        """Count `kept_bytes` as all that is kept for this client, instead of what was counted. Returns as `try_add`."""
        kept = self._find(client)
        more_bytes = kept_bytes - kept.size_bytes
        kept.pool_bytes += more_bytes
        if more_bytes > 0:
            self._pool.force_allocate(more_bytes)
        else:
            self._pool.release(-more_bytes)
        return self._try_grow(client, kept, more_bytes)

    def try_carry(self, client: Unknown, carried_bytes: int) -> bool:
        """Count all bytes that the client's channel carries, and counts in the pool. Returns as `try_add`."""
        kept = self._find(client)
        return self._try_grow(client, kept, carried_bytes - kept.size_bytes)

    def give_back(self, client: Unknown) -> None:
        """Release the bytes of a client: they are processed, or it has ended. It may have none."""
        kept = self._kept.pop(client, None)
        if kept is not None:
            self.used_bytes -= kept.size_bytes
            self._pool.release(kept.pool_bytes)

    def _find(self, client: Unknown) -> _Kept:
        kept = self._kept.get(client)
        if kept is None:
            kept = self._kept[client] = _Kept(self._now_ms())
        return kept

    def _try_grow(self, client: Unknown, kept: _Kept, size_bytes: int) -> bool:
        kept.size_bytes += size_bytes
        self.used_bytes += size_bytes
        return self.used_bytes <= self.max_bytes or self._make_room(client)

    def _make_room(self, newest: Unknown) -> bool:
        now_ms = self._now_ms()

        def burden(client: Unknown) -> int:
            kept = self._kept[client]
            return kept.size_bytes * (now_ms - kept.since_ms + START_MS)

        stays = True
        left_bytes = self.used_bytes
        for client in sorted(self._kept, key=burden, reverse=True):
            if left_bytes <= self.max_bytes * (1 - ROOM_PART):
                break
            kept = self._kept.get(client)
            if kept is None:  # it has ended with another
                continue
            left_bytes -= kept.size_bytes
            if client is newest:
                stays = False
            else:
                client.end_and_attend(CloseReason.AUTHENTICATION_OVERLOADED, NO_ROOM, now_ms)
                self.give_back(client)
        return stays
