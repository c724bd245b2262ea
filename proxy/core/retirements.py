"""Sessions that are to end, and may choose the moment: their route, their age or their certificate is no longer right.

Rules:
- A retiring session works on until nothing is in flight on either side: no request has begun, no reply is due and no
  byte is unread. Then it ends, and its client loses nothing.
- A client that is never at rest is given `patience_ms`. After that its session takes no more requests, answers those
  in flight, and ends at that frame boundary; LAST_REPLIES_MS later it ends in any case.
- While sessions retire, one step a millisecond checks SLICE of them and ends MAX_ENDED. Without any no timer runs.
- The first reason is the one that is reported. A session that ends for another reason no longer retires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from proxy.core.memory.claim import Claimant

if TYPE_CHECKING:
    from proxy.core.errors import CloseReason
    from proxy.core.memory.claim import Grantor
    from proxy.core.purgatory.timers import Timer, Timers

PATIENCE_MS: Final = 2_000
"""How long a retiring session may wait for a moment with nothing in flight before it takes no more requests."""
LAST_REPLIES_MS: Final = 30_000
"""How long a session that takes no more requests may still wait for the replies that are due."""
SLICE: Final = 250
"""The most sessions that one step checks."""
MAX_ENDED: Final = 16
"""The most sessions that one step ends."""
SCAN_MS: Final = 10
"""The time from one scan of all retiring sessions to the next."""


class Retiring(Claimant, Protocol):
    """A session that may retire."""

    @property
    def ending(self) -> bool: ...
    @property
    def is_at_rest(self) -> bool: ...
    def end_after_replies(self, reason: CloseReason, detail: str = "") -> None: ...
    def ask_for_turn(self) -> None: ...


class _Retirement:
    """Why one session retires, when it takes no more requests, and when it ends in any case."""

    __slots__ = ("detail", "ends_ms", "reason", "stops_ms")

    def __init__(self, reason: CloseReason, detail: str, stops_ms: int) -> None:
        self.reason = reason
        self.detail = detail
        self.stops_ms = stops_ms
        self.ends_ms = stops_ms + LAST_REPLIES_MS


class Retirements:
    """The retiring sessions of a process. `room` knows how many bytes of a client wait in the kernel."""

    __slots__ = ("_left", "_retiring", "_room", "_timer", "_timers")

    def __init__(self, timers: Timers, room: Grantor) -> None:
        self._timers = timers
        self._room = room
        self._retiring: dict[Retiring, _Retirement] = {}
        self._left: list[Retiring] = []  # not yet checked by the scan that is under way
        self._timer: Timer | None = None

    def __len__(self) -> int:
        """Return how many sessions retire."""
        return len(self._retiring)

    def __contains__(self, session: Retiring) -> bool:
        """Return whether this session retires."""
        return session in self._retiring

    def retire(
        self,
        session: Retiring,
        reason: CloseReason,
        detail: str,
        now_ms: int,
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        """End this session at a frame boundary with nothing in flight; after `patience_ms` take no more requests."""
        if session in self._retiring or session.ending:
            return
        self._retiring[session] = _Retirement(reason, detail, now_ms + patience_ms)
        self._left.append(session)
        if self._timer is None:
            self._timer = self._timers.arm(now_ms, self._step)

    def discard(self, session: Retiring) -> None:
        """Forget a session that has ended."""
        self._retiring.pop(session, None)

    def _step(self, now_ms: int) -> None:
        self._timer = None
        left, ended = self._left, 0
        try:
            for _ in range(min(SLICE, len(left))):
                session = left.pop()
                retirement = self._retiring.get(session)
                if retirement is not None:
                    ended += self._try_end(session, retirement, now_ms)
                if ended >= MAX_ENDED:
                    break
        finally:  # a fault of one session keeps no other
            if left:
                self._timer = self._timers.arm(now_ms + 1, self._step)
            elif self._retiring:
                self._left = list(self._retiring)
                self._timer = self._timers.arm(now_ms + SCAN_MS, self._step)

    def _try_end(self, session: Retiring, retirement: _Retirement, now_ms: int) -> bool:
        """End a session if it is at rest or its time is over; return whether that was tried."""
        if session.ended:
            del self._retiring[session]
            return False
        reason, detail = retirement.reason, retirement.detail
        if now_ms >= retirement.ends_ms:
            del self._retiring[session]
            session.end_and_ask_for_turn(reason, detail, now_ms)
        elif session.ending:
            return False  # its replies are awaited
        elif now_ms >= retirement.stops_ms or self._is_idle(session):
            session.end_after_replies(reason, detail)
            session.ask_for_turn()
        else:
            return False
        return True

    def _is_idle(self, session: Retiring) -> bool:
        """Return whether nothing is in flight here or in the socket; what is still on its way cannot be known."""
        unread_bytes = self._room.unread_bytes
        return session.is_at_rest and (unread_bytes is None or not unread_bytes(session))
