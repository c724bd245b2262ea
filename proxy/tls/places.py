"""The places of TLS handshakes with clients: who gets one, and who loses one.

Rules:
- At most `limit` clients have a place. More wait, by address: the next place goes to the address that has the fewest,
  then to the one that waits longest. So one address never keeps others out, however many connections it opens.
- A place is kept without limit while no other client waits. While others wait, only CLIENT_WAIT_S in all may be spent
  in waiting for its client, however often it sends something: first the address with the most places loses one, that
  of the client that was waited for longest.
- If more wait than have a place, the time is shorter, so that the line moves on as fast as handshakes can be made; no
  shorter than MIN_CLIENT_WAIT_S, in which an honest client answers.
- The time in which a client waits for us does not count.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

CLIENT_WAIT_S: Final = 1.0
MIN_CLIENT_WAIT_S: Final = 0.1


class Place:
    """The place of one client at `address`. `waited_s`: how long it was waited for, before the wait in `scope`."""

    __slots__ = ("address", "scope", "since_s", "waited_s")

    def __init__(self, address: str) -> None:
        self.address = address
        self.waited_s = 0.0
        self.since_s = 0.0
        self.scope: trio.CancelScope | None = None

    def over_at_s(self, wait_s: float) -> float:
        """Return when `wait_s` of waiting for its client are over."""
        return self.since_s + wait_s - self.waited_s


class _PlaceRequest:
    """A client without a place. `place` is set with `granted`."""

    def __init__(self) -> None:
        self.granted = trio.Event()
        self.place: Place | None = None


class Places:
    """The places of a process."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: dict[Place, None] = {}
        self._counts: dict[str, int] = {}  # places by address
        self._lines: dict[
            str, deque[_PlaceRequest]
        ] = {}  # the address that waits longest is the first
        self._waiting = 0
        self._next_lost: Place | None = None

    def limit(self, places: int) -> None:
        """Set how many there are. No client loses a place by that."""
        self._limit = places
        self._serve()

    async def take(self, address: str) -> Place:
        """Return a place, once one is free. It must be given back."""
        if len(self._taken) < self._limit and not self._waiting:
            return self._grant(address)
        waiting = _PlaceRequest()
        self._lines.setdefault(address, deque()).append(waiting)
        self._waiting += 1
        self._arm()
        try:
            await waiting.granted.wait()
        except BaseException:
            self._leave(address, waiting)
            raise
        assert waiting.place is not None  # noqa: S101 - it was granted
        return waiting.place

    def give_back(self, place: Place) -> None:
        """Free a place, for the next that waits."""
        del self._taken[place]
        self._counts[place.address] -= 1
        if not self._counts[place.address]:
            del self._counts[place.address]
        self._serve()

    async def wait(
        self,
        place: Place,
        wait: Callable[[socket.socket], Awaitable[None]],
        connected: socket.socket,
    ) -> None:
        """Wait for the client of this place. Raises ConnectionResetError if the place is lost to others meanwhile."""
        place.since_s = trio.current_time()
        with trio.CancelScope() as scope:
            place.scope = scope
            self._arm()
            try:
                await wait(connected)
            finally:
                place.scope = None
                place.waited_s += trio.current_time() - place.since_s
        if scope.cancelled_caught:
            raise ConnectionResetError("it does not answer, and others need its place")

    # -- inside ----------------------------------------------------------------------------------

    def _grant(self, address: str) -> Place:
        place = Place(address)
        self._taken[place] = None
        self._counts[address] = self._counts.get(address, 0) + 1
        return place

    def _leave(self, address: str, waiting: _PlaceRequest) -> None:
        if waiting.place is not None:
            self.give_back(waiting.place)
            return
        line = self._lines[address]
        line.remove(waiting)
        if not line:
            del self._lines[address]
        self._waiting -= 1
        self._arm()

    def _serve(self) -> None:
        while self._waiting and len(self._taken) < self._limit:
            address = self._next_address()
            line = self._lines.pop(address)
            waiting = line.popleft()
            if line:
                self._lines[address] = line  # behind the other addresses
            self._waiting -= 1
            waiting.place = self._grant(address)
            waiting.granted.set()
        self._arm()

    def _next_address(self) -> str:
        """Return the address that has the fewest places; no more are looked at than there are places."""
        for address in self._lines:
            if address not in self._counts:
                return address
        return min(self._lines, key=self._counts.__getitem__)

    def _arm(self) -> None:
        """Set the time at which the next place is lost, if none is given back before."""
        before, self._next_lost = self._next_lost, None
        if before is not None and before.scope is not None:
            before.scope.deadline = math.inf
        if not self._waiting:
            return
        idle = [each for each in self._taken if each.scope is not None]
        if not idle:
            return
        wait_s = max(MIN_CLIENT_WAIT_S, CLIENT_WAIT_S * min(1.0, self._limit / self._waiting))
        most = max(self._counts[each.address] for each in idle)
        loser = min(
            (each for each in idle if self._counts[each.address] == most),
            key=lambda each: each.over_at_s(wait_s),
        )
        assert loser.scope is not None  # noqa: S101 - see above
        loser.scope.deadline = loser.over_at_s(wait_s)
        self._next_lost = loser
