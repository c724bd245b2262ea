"""Lines about memory pools that are depleted.

A pool may be depleted many times per second under load. One line per pool and ten seconds says whether it is depleted
now, how many outages have ended since the last line, and how long they lasted together.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

POOL_EVERY_MS: Final = 10_000
_EFFECTS: Final = {
    "requests": "requests wait until memory is given back",
    "replies": "clients that do not read get little at a time",
}


@dataclass(slots=True)
class _Outages:
    """The outages of one pool since its last line, which was written at `told_ms`."""

    told_ms: int = -POOL_EVERY_MS
    is_due: bool = False  # a timer for the next line is set
    is_dry: bool = False
    times: int = 0  # outages that have ended
    depleted_ms: int = 0  # how long those lasted together


class PoolOutages:
    """Counts the outages of each pool, and logs them."""

    def __init__(
        self, now_ms: Callable[[], int], call_at: Callable[[int, Callable[[int], None]], None]
    ) -> None:
        self._log = structlog.get_logger()
        self._now_ms = now_ms
        self._call_at = call_at
        self._outages: defaultdict[str, _Outages] = defaultdict(_Outages)  # by pool

    def on_depleted(self, pool: str) -> None:
        """Note that the pool is depleted. The first in ten seconds is logged at once."""
        self._outages[pool].is_dry = True
        self._note(pool)

    def on_recovered(self, pool: str, depleted_ms: int) -> None:
        """Note that it was depleted for `depleted_ms`, and is no more."""
        outages = self._outages[pool]
        outages.is_dry = False
        outages.times += 1
        outages.depleted_ms += depleted_ms
        self._note(pool)

    def close(self) -> None:
        """Log now what waits for its ten seconds."""
        for pool, outages in tuple(self._outages.items()):
            if outages.is_due:
                self._tell(pool, self._now_ms())

    def _note(self, pool: str) -> None:
        outages = self._outages[pool]
        due_ms = outages.told_ms + POOL_EVERY_MS
        if outages.is_due:
            return
        if self._now_ms() < due_ms:
            outages.is_due = True
            self._call_at(due_ms, lambda now_ms: self._on_due(pool, now_ms))
        else:
            self._tell(pool, self._now_ms())

    def _on_due(self, pool: str, now_ms: int) -> None:
        if self._outages[pool].is_due:  # else `close` has told it
            self._tell(pool, now_ms)

    def _tell(self, pool: str, now_ms: int) -> None:
        found = self._outages[pool]
        fields: dict[str, object] = {"pool": pool}
        if found.is_dry:
            fields["effect"] = _EFFECTS.get(pool, "")
        if found.times:
            fields |= {"times": found.times, "depleted_ms": found.depleted_ms}
        self._log.warning("pool_depleted" if found.is_dry else "pool_recovered", **fields)
        self._outages[pool] = _Outages(told_ms=now_ms, is_dry=found.is_dry)
