"""When a producer sends: at a steady rate, or as much as it can get in.

Rules:
- `due` is how many records are to be sent now; whoever asks sends them.
- `rest_s` is how long the producer may look after its answers before it asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from proxy.demo.messages import Cue

BUSY_S, IDLE_S = 0.001, 0.02


class Pace(Protocol):
    """What a producer asks before it sends."""

    rest_s: float

    def due(self, now_s: float, outstanding: int) -> int:
        """Return how many are to be sent now; `outstanding` were sent and are not answered."""

    def cue(self, cue: Cue) -> None:
        """Take the stage's word."""


class Steady:
    """A steady rate that catches up after a stall, within limits. It takes no cue."""

    rest_s = 0.005

    def __init__(self, per_second: float, now_s: float, most: int) -> None:
        self._per_second = per_second
        self._last_s = now_s
        self._most = most

    def due(self, now_s: float, outstanding: int = 0) -> int:
        """Return at most `most`; what exceeds it is forgotten."""
        del outstanding
        count = int((now_s - self._last_s) * self._per_second)
        if count > self._most:
            self._last_s = now_s
            return self._most
        self._last_s += count / self._per_second
        return count

    def cue(self, cue: Cue) -> None:
        """Go on as ever."""


class Flood:
    """As many as get in: `depth` are always unanswered, while it was told to go."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._goes = False
        self.rest_s = IDLE_S

    def due(self, now_s: float, outstanding: int) -> int:
        """Return what is missing to `depth`."""
        del now_s
        count = max(0, self._depth - outstanding) if self._goes else 0
        # Held back or resting, it has no reason to be awake: that would cost the others this CPU.
        self.rest_s = BUSY_S if count > 1 else IDLE_S
        return count

    def cue(self, cue: Cue) -> None:
        """Go, or rest."""
        if cue in {"go", "rest"}:
            self._goes = cue == "go"
