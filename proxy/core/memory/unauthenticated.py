"""Counts the bytes buffered for clients that are not authenticated yet: parts of TLS hellos, of SASL tokens and
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

    def end_and_ask_for_turn(self, reason: CloseReason, detail: str, now_ms: int) -> None:
        """End, because others need the memory."""


class _ClientBytes:
    """The bytes of one client, those of them that are counted in the pool for it, and when the first of them came."""

    __slots__ = ("pool_bytes", "since_ms", "size_bytes")

    def __init__(self, since_ms: int) -> None:
        self.size_bytes = self.pool_bytes = 0
        self.since_ms = since_ms


class UnauthenticatedBytes:
    """The bytes of all clients that are not known yet. `used_bytes` is their sum."""

    __slots__ = ("_clients", "_now_ms", "_pool", "max_bytes", "used_bytes")

    def __init__(
        self, pool: MemoryPool, now_ms: Callable[[], int], max_bytes: int = MAX_BYTES
    ) -> None:
        self._pool = pool
        self._now_ms = now_ms
        self._clients: dict[Unknown, _ClientBytes] = {}
        self.max_bytes = max_bytes
        self.used_bytes = 0

    def __len__(self) -> int:
        """Return how many clients have bytes here."""
        return len(self._clients)

    def try_add(self, client: Unknown, size_bytes: int) -> bool:
        """Count bytes that were read; return False if this client must give way itself. They count in any case."""
        entry = self._find(client)
        entry.pool_bytes += size_bytes
        self._pool.force_allocate(size_bytes)
        return self._try_grow(client, entry, size_bytes)

    def try_set(self, client: Unknown, size_bytes: int) -> bool:
        """Count `size_bytes` as all the bytes of this client, instead of what was counted. Returns as `try_add`."""
        entry = self._find(client)
        more_bytes = size_bytes - entry.size_bytes
        entry.pool_bytes += more_bytes
        if more_bytes > 0:
            self._pool.force_allocate(more_bytes)
        else:
            self._pool.release(-more_bytes)
        return self._try_grow(client, entry, more_bytes)

    def try_carry(self, client: Unknown, carried_bytes: int) -> bool:
        """Count all bytes that the client's channel carries, and counts in the pool. Returns as `try_add`."""
        entry = self._find(client)
        return self._try_grow(client, entry, carried_bytes - entry.size_bytes)

    def give_back(self, client: Unknown) -> None:
        """Release the bytes of a client: they are processed, or it has ended. It may have none."""
        entry = self._clients.pop(client, None)
        if entry is not None:
            self.used_bytes -= entry.size_bytes
            self._pool.release(entry.pool_bytes)

    def _find(self, client: Unknown) -> _ClientBytes:
        entry = self._clients.get(client)
        if entry is None:
            entry = self._clients[client] = _ClientBytes(self._now_ms())
        return entry

    def _try_grow(self, client: Unknown, entry: _ClientBytes, size_bytes: int) -> bool:
        entry.size_bytes += size_bytes
        self.used_bytes += size_bytes
        return self.used_bytes <= self.max_bytes or self._make_room(client)

    def _make_room(self, newest: Unknown) -> bool:
        now_ms = self._now_ms()

        def burden(client: Unknown) -> int:
            entry = self._clients[client]
            return entry.size_bytes * (now_ms - entry.since_ms + START_MS)

        stays = True
        left_bytes = self.used_bytes
        for client in sorted(self._clients, key=burden, reverse=True):
            if left_bytes <= self.max_bytes * (1 - ROOM_PART):
                break
            entry = self._clients.get(client)
            if entry is None:  # it has ended with another
                continue
            left_bytes -= entry.size_bytes
            if client is newest:
                stays = False
            else:
                client.end_and_ask_for_turn(CloseReason.AUTHENTICATION_OVERLOADED, NO_ROOM, now_ms)
                self.give_back(client)
        return stays
