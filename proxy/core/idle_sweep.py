"""Ends the connections that were idle for too long (Kafka: connections.max.idle.ms).

Rules:
- A connection has no timer for this: one sweep looks at all of them, at least 60 times in the allowed time.
- A sweep looks at SLICE sessions per millisecond and ends MAX_ENDED of them, so that it delays no request.
- A session is idle if neither side has sent anything and nothing is due to either (`Session.is_idle`).
- Without sessions there is no sweep, and the process sleeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from proxy.core.errors import CloseReason

if TYPE_CHECKING:
    from collections.abc import Collection

    from proxy.core.connection_limits import ConnectionCounts
    from proxy.core.purgatory.timers import Timer, Timers

SLICE: Final = 1000
"""The most sessions that one step looks at: about 0.1 ms."""
MAX_ENDED: Final = 32
"""The most sessions that one step ends."""
SWEEPS: Final = 60
"""Sweeps in the allowed time: a connection ends at most a sixtieth of it late."""


class MaybeIdle(Protocol):
    """A session."""

    @property
    def replied_ms(self) -> int: ...
    def is_idle(self, since_ms: int) -> bool: ...
    def end_and_attend(self, reason: CloseReason, detail: str, now_ms: int) -> None: ...


class IdleSweep:
    """The sweep over `sessions`. The allowed time is `limits.max_idle_ms` of the counts; 0: none ends."""

    __slots__ = ("_counts", "_left", "_sessions", "_timer", "_timers")

    def __init__(
        self, sessions: Collection[MaybeIdle], timers: Timers, counts: ConnectionCounts
    ) -> None:
        self._sessions = sessions
        self._timers = timers
        self._counts = counts
        self._timer: Timer | None = None
        self._left: list[MaybeIdle] = []  # of the sweep that is under way

    @property
    def runs(self) -> bool:
        """Return whether the next step is planned."""
        return self._timer is not None

    def restart(self, now_ms: int) -> None:
        """Plan the next sweep by the limit of this moment, if there are sessions to look at."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        max_idle_ms = self._counts.limits.max_idle_ms
        if max_idle_ms and self._sessions:
            self._timer = self._timers.arm(now_ms + max(1, max_idle_ms // SWEEPS), self._begin)

    def _begin(self, now_ms: int) -> None:
        self._left = list(self._sessions)
        self._step(now_ms)

    def _step(self, now_ms: int) -> None:
        max_idle_ms = self._counts.limits.max_idle_ms
        since_ms = now_ms - max_idle_ms
        left, ended = self._left, 0
        try:
            for _ in range(min(SLICE, len(left))):
                session = left.pop()
                if session.replied_ms <= since_ms and session.is_idle(since_ms):
                    ended += 1
                    detail = f"nothing sent or received for {max_idle_ms} ms"
                    session.end_and_attend(CloseReason.IDLE, detail, now_ms)
                    if ended == MAX_ENDED:
                        break
        finally:  # a fault of one session ends no sweep
            if left:
                self._timer = self._timers.arm(now_ms + 1, self._step)
            else:
                self.restart(now_ms)
