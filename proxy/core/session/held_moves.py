"""Requests that were held when the chain was replaced, on their way to the new chain.

Rules:
- A move costs tens of microseconds, and thousands may be held: the oldest MOVED_AT_ONCE move now, the next ones a
  millisecond later.
- A request whose wait ends before its move is moved first. So no request is judged by a policy that is gone.
- A request whose holder is gone ends its wait with the move.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from policies.chain import Chain
    from proxy.core.purgatory.timers import Timers
    from proxy.core.session.held_request import HeldRequest

MOVED_AT_ONCE: Final = 64


class HeldMoves:
    """See the module. One move at a time: `finish` it before the next `begin`."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._unmoved: dict[HeldRequest, None] = {}
        self._chain: Chain | None = None
        self._gone: Collection[str] = ()

    def begin(
        self, held: Iterable[HeldRequest], chain: Chain, gone: Collection[str], now_ms: int
    ) -> None:
        """Move `held` under `chain`, the oldest first, from the next `fire` on. `gone`: policies without heir."""
        oldest_first = sorted(held, key=lambda each: each.since_us)
        self._unmoved = dict.fromkeys(oldest_first)
        self._chain, self._gone = chain, gone
        if oldest_first:
            self._timers.arm(now_ms, self._move_some)

    def finish(self, now_ms: int) -> None:
        """Move what is left, at once."""
        while self._unmoved:
            self._move_next(now_ms)

    def move(self, held: HeldRequest) -> bool:
        """Move this one, unless it has moved. Returns whether the policy that holds it is still asked."""
        if held not in self._unmoved:
            return True
        assert self._chain is not None  # noqa: S101 - `begin` has set it
        del self._unmoved[held]
        return held.move(self._chain, self._gone)

    def _move_some(self, now_ms: int) -> None:
        self._move_next(now_ms)
        if self._unmoved:
            self._timers.arm(now_ms + 1, self._move_some)

    def _move_next(self, now_ms: int) -> None:
        for held in tuple(islice(self._unmoved, MOVED_AT_ONCE)):
            if not self.move(held):
                held.force_complete(now_ms)
