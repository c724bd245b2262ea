"""Checks of passwords and tokens that wait for the thread: bounded, and shared fairly between the addresses of clients.

Rules:
- The addresses have their turns one after the other, so a client waits for one check of each other address, however
  many these have queued.
- If the queue is full, the address with the most checks loses its newest one. So a flood from few addresses costs
  clients of other addresses a wait, and no connection.
- Clients of one address (a proxy before Sluice, or network address translation) share its place.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_WAITING: Final = 256
"""Checks that wait; at about 10 ms each the last one takes a few seconds."""


class Check(Protocol):
    """Work for the thread. It has no reference to a connection."""

    def run(self) -> object:
        """Return the result, which is never None. It may take milliseconds."""


class WaitingCheck(NamedTuple):
    """A check, the address that asked for it, and whom to tell: the result, None if it was dropped."""

    check: Check
    address: str
    on_done: Callable[[Any], None]


class CheckQueue:
    """The checks that wait, by address."""

    __slots__ = ("_by_address", "_size")

    def __init__(self) -> None:
        self._by_address: dict[str, deque[WaitingCheck]] = {}  # the next turn first
        self._size = 0

    def put(self, waiting: WaitingCheck) -> WaitingCheck | None:
        """Queue a check; return the one that is dropped for it, which may be itself, None if there is room."""
        dropped = None
        by_address = self._by_address
        if self._size >= MAX_WAITING:
            own = len(by_address.get(waiting.address, ()))
            longest = max(by_address.values(), key=len)
            if len(longest) <= own + 1:
                return waiting
            dropped = longest.pop()
            self._size -= 1
        by_address.setdefault(waiting.address, deque()).append(waiting)
        self._size += 1
        return dropped

    def maybe_take(self) -> WaitingCheck | None:
        """Return the check whose turn it is, None if there is none."""
        for address, queue in self._by_address.items():
            waiting = queue.popleft()
            self._size -= 1
            del self._by_address[address]
            if queue:
                self._by_address[address] = queue  # at the end
            return waiting
        return None
