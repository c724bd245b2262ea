"""Ends the connections that were idle for too long (Kafka: connections.max.idle.ms), and retires those that are old.

Rules:
- A connection has no timer for this: one sweep looks at all of them, at least 60 times in the shorter allowed time.
- A sweep looks at SLICE sessions per millisecond and ends MAX_ENDED of them, so that it delays no request.
- A session is idle if neither side has sent anything and nothing is due to either (`Session.is_idle`).
- A session's own age limit lies within JITTER of the setting, spread over the sessions: clients that came at the same
  time, after a restart, do not all come back at the same time. An old session retires (`proxy.core.retirements`).
- Without sessions there is no sweep, and the process sleeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from proxy.core.errors import CloseReason
from proxy.core.retirements import Retiring

if TYPE_CHECKING:
    from collections.abc import Collection

    from policies.api import Peer
    from proxy.core.connection_limits import ConnectionCounts
    from proxy.core.purgatory.timers import Timer, Timers
    from proxy.core.retirements import Retirements

SLICE: Final = 1000
"""The most sessions that one step looks at: about 0.1 ms."""
MAX_ENDED: Final = 32
"""The most sessions that one step ends."""
SWEEPS: Final = 60
"""Sweeps in the allowed time: a connection ends at most a sixtieth of it late."""
JITTER: Final = 0.1
"""How far the age limit of one session may be from the setting, as a part of it."""
_GOLDEN: Final = 0.6180339887
"""Its multiples, without their whole parts, are evenly spread however many there are."""

_NEVER_MS: Final = -1


class Swept(Retiring, Protocol):
    """A session. `opened_ms`: when its client came."""

    @property
    def opened_ms(self) -> int: ...
    @property
    def peer(self) -> Peer: ...
    @property
    def replied_ms(self) -> int: ...
    def is_idle(self, since_ms: int) -> bool: ...


class SessionSweep:
    """The sweep over `sessions`. The allowed times are in the `limits` of the counts; 0: none ends for this."""

    __slots__ = ("_counts", "_left", "_retirements", "_sessions", "_timer", "_timers")

    def __init__(
        self,
        sessions: Collection[Swept],
        timers: Timers,
        counts: ConnectionCounts,
        retirements: Retirements,
    ) -> None:
        self._retirements = retirements
        self._sessions = sessions
        self._timers = timers
        self._counts = counts
        self._timer: Timer | None = None
        self._left: list[Swept] = []  # of the sweep that is under way

    @property
    def runs(self) -> bool:
        """Return whether the next step is planned."""
        return self._timer is not None

    def restart(self, now_ms: int) -> None:
        """Plan the next sweep by the limit of this moment, if there are sessions to look at."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        limits = self._counts.limits
        allowed_ms = min(filter(None, (limits.max_idle_ms, limits.max_age_ms)), default=0)
        if allowed_ms and self._sessions:
            self._timer = self._timers.arm(now_ms + max(1, allowed_ms // SWEEPS), self._begin)

    def _begin(self, now_ms: int) -> None:
        self._left = list(self._sessions)
        self._step(now_ms)

    def _step(self, now_ms: int) -> None:
        limits = self._counts.limits
        max_idle_ms, max_age_ms = limits.max_idle_ms, limits.max_age_ms
        since_ms = now_ms - max_idle_ms if max_idle_ms else _NEVER_MS
        young_ms = now_ms - int(max_age_ms * (1 - JITTER)) if max_age_ms else _NEVER_MS
        left, ended = self._left, 0
        try:
            for _ in range(min(SLICE, len(left))):
                session = left.pop()
                if session.replied_ms <= since_ms and session.is_idle(since_ms):
                    ended += 1
                    detail = f"nothing sent or received for {max_idle_ms} ms"
                    session.end_and_ask_for_turn(CloseReason.IDLE, detail, now_ms)
                    if ended == MAX_ENDED:
                        break
                elif session.opened_ms <= young_ms:
                    self._retire_if_old(session, max_age_ms, now_ms)
        finally:  # a fault of one session ends no sweep
            if left:
                self._timer = self._timers.arm(now_ms + 1, self._step)
            else:
                self.restart(now_ms)

    def _retire_if_old(self, session: Swept, max_age_ms: int, now_ms: int) -> None:
        spread = 2 * (session.peer.session_id * _GOLDEN % 1) - 1
        age_ms = now_ms - session.opened_ms
        if age_ms >= max_age_ms * (1 + JITTER * spread):
            detail = f"{age_ms} ms old, and about {max_age_ms} are allowed"
            self._retirements.retire(session, CloseReason.MAX_AGE, detail, now_ms)
