"""Requests that were held when the chain was replaced, on their way to the new chain.

Rules:
- A move costs tens of microseconds, and thousands may be held: the oldest MOVED_AT_ONCE move now, the next ones a
  millisecond later.
- A request whose wait ends before its move is moved first. So no request is judged by a policy that is gone.
- A request whose holder is gone ends its wait with the move.
- If the chain is replaced again before a request has moved, it moves once, to the newest chain. A holder is gone if any
  of these replacements left it out.
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
    """Moves held requests to a new chain, MOVED_AT_ONCE a millisecond."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._unmoved: dict[
            HeldRequest, frozenset[str]
        ] = {}  # with the policies gone since it was judged
        self._chain: Chain | None = None
        self._is_moving = False

    def begin(
        self, held: Iterable[HeldRequest], chain: Chain, gone: Collection[str], now_ms: int
    ) -> None:
        """Move `held`, all held requests, under `chain`, from the next `fire` on. `gone`: policies without heir."""
        before, none = self._unmoved, frozenset[str]()
        oldest_first = sorted(held, key=lambda each: each.since_us)
        self._unmoved = {each: before.get(each, none).union(gone) for each in oldest_first}
        self._chain = chain
        for each in oldest_first:
            each.move_first = self.move
        if oldest_first and not self._is_moving:
            self._is_moving = True
            self._timers.arm(now_ms, self._move_some)

    def move(self, held: HeldRequest) -> bool:
        """Move this request, unless it has moved. Return whether the policy that holds it is still asked."""
        held.move_first = None
        gone = self._unmoved.pop(held, None)
        if gone is None:
            return True
        assert self._chain is not None  # noqa: S101 - `begin` has set it
        return held.move(self._chain, gone)

    def _move_some(self, now_ms: int) -> None:
        self._is_moving = False
        for held in tuple(islice(self._unmoved, MOVED_AT_ONCE)):
            if not self.move(held):
                held.force_complete(now_ms)
        if self._unmoved:
            self._is_moving = True
            self._timers.arm(now_ms + 1, self._move_some)
