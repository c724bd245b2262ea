"""The order in which sessions have their turns: the one that has used the least of the event loop's time comes first.

Start-time fair queueing (Goyal, Vin and Cheng, 1996) of time:
- A session waits once. Its account (`turn_us`) is the time that its turns have taken; the smallest is served first.
- `share_us` is the smallest account of the sessions that always wait. One that rests keeps CREDIT_US of an unused
  share at most, and so precedes those.
- `share_us` also grows, more slowly than an account, while sessions with a credit are served. So sessions that use
  theirs up, or new ones without end, do not starve the others.
- The first turn after a rest is short if others wait: many sessions may begin to wait at once.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, Protocol

CREDIT_US: Final = 10_000
"""More than a turn takes: the accounts of sessions that always wait are this close to each other."""
CREDIT_ENDS: Final = 4
"""How much more slowly `share_us` grows than the accounts of sessions with a credit, if all have one."""
TURN_LABOUR_BYTES: Final = 8192
"""Bytes of requests handled on the general path in one turn; the rest waits for the next turn, so that
such frames of one client do not delay the others (about a microsecond a byte; buffered ones count four times)."""
SHORT_LABOUR_BYTES: Final = 1
"""The same in a short turn, which is over after one request."""
LABOUR_FRAME_BYTES: Final = 4096
LABOUR_STREAMED_BYTES: Final = 256
LABOUR_BUFFERED_BYTES: Final = 512
"""A streamed frame costs 256 and its size up to 4096; a buffered one 512 and four times its size: about 1 ms a turn."""
LABOUR_STEP_BYTES: Final = 8
"""The labour that each step of a walker counts in a turn."""
MAX_WALK_STEPS: Final = 1024
"""The most steps of a walker in one call."""
FEW_WALK_STEPS: Final = 32
"""The same in a short turn, or while sessions wait for turns: enough for an ordinary Produce."""
LABOUR_BEGUN_BYTES: Final = LABOUR_STREAMED_BYTES + LABOUR_FRAME_BYTES
LABOUR_WALK_BYTES: Final = LABOUR_BEGUN_BYTES + FEW_WALK_STEPS * LABOUR_STEP_BYTES
"""The beginning of a request that streams, and its first steps: a read always does these."""


def labour_of(size_bytes: int, *, streams: bool) -> int:
    """Return the cost of a request of this size whose bytes stream, or are buffered or dropped."""
    if streams:
        return LABOUR_STREAMED_BYTES + min(size_bytes, LABOUR_FRAME_BYTES)
    return LABOUR_BUFFERED_BYTES + 4 * size_bytes


class Scheduled(Protocol):
    """A session that the event loop gives a turn. `ready`: it waits for one. `turn_us` is its account.

    `uses_outboxes`: its read is not forwarded as it came. `handle` is the event loop's own object for it.
    """

    ready: bool
    uses_outboxes: bool
    handle: object
    turn_us: float


class ScheduledSession:
    """The fields of `Scheduled`: the base of sessions."""

    __slots__ = ("handle", "ready", "turn_us", "uses_outboxes")

    def __init__(self) -> None:
        self.uses_outboxes = False
        self.handle: object = None
        self.ready = False
        self.turn_us = 0.0


class Turns:
    """The sessions that wait for a turn, in `queue` (a heap); the event loop takes one, and ends its turn.

    `labour_bytes` is the work on the general path that a read may do now; 0: requests of that path wait for a turn.
    `in_place_bytes` may be judged in the read during the step that began at `in_place_us` (`read_in_place`).
    """

    __slots__ = (
        "_added",
        "_current",
        "in_place_bytes",
        "in_place_us",
        "labour_bytes",
        "queue",
        "share_us",
    )

    def __init__(self) -> None:
        self.queue: list[tuple[float, int, Scheduled, bool]] = []
        self.share_us = float(CREDIT_US)
        self.labour_bytes = TURN_LABOUR_BYTES
        self.in_place_bytes, self.in_place_us = 0, -1
        self._added = 0
        self._current: Scheduled | None = None

    @property
    def walk_steps(self) -> int:
        """Return the most steps of a walker in one call."""
        return MAX_WALK_STEPS if self.labour_bytes == TURN_LABOUR_BYTES else FEW_WALK_STEPS

    def add(self, session: Scheduled) -> None:
        """Let a session wait for a turn, unless it does already. During its own turn it waits from the end of it."""
        if not session.ready:
            session.ready = True
            if session is not self._current:
                self._push(session)

    def take(self) -> Scheduled:
        """Begin the next turn; return its session. Raises IndexError if none waits."""
        account_us, _, session, rested = heappop(self.queue)
        session.ready = False
        self._current = session
        self.share_us = max(self.share_us, account_us)
        self.labour_bytes = SHORT_LABOUR_BYTES if rested and self.queue else TURN_LABOUR_BYTES
        return session

    def end(self, session: Scheduled, spent_us: int) -> None:
        """End the turn of this session, which took `spent_us`."""
        self._current = None
        self.labour_bytes = TURN_LABOUR_BYTES
        if session.turn_us < self.share_us:
            self.share_us += spent_us / (CREDIT_ENDS * (len(self.queue) + 1))
        session.turn_us += spent_us
        if session.ready:
            self._push(session)

    def _push(self, session: Scheduled) -> None:
        self._added += 1
        least_us = self.share_us - CREDIT_US
        rested = session.turn_us <= least_us
        if rested:
            session.turn_us = least_us
        heappush(self.queue, (session.turn_us, self._added, session, rested))
