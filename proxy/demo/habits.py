"""Clients with habits and quotas, for a usage log that is worth reading: one is throttled, one is close to its quota.

Rules:
- A client keeps at most DEPTH records unanswered. Like most applications it waits for replies: delayed by a quota it
  sends later, not less.
- Each record is a request of its own, so that rates of records are rates of requests.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DEPTH: Final = 8


class Habit(NamedTuple):
    """A client works at one rate for some seconds, then at another, and begins again. Rates are per second."""

    busy_per_s: float
    busy_s: float = 1.0
    quiet_per_s: float = 0.0
    quiet_s: float = 0.0
    quota: float | None = None
    """Its request rate."""

    def rate(self, elapsed_s: float) -> float:
        """Return the rate so many seconds after the start."""
        is_busy = elapsed_s % (self.busy_s + self.quiet_s) < self.busy_s
        return self.busy_per_s if is_busy else self.quiet_per_s


HABITS: Final = {
    "alice": Habit(60, 4, 8, 6, quota=30),
    "checkout": Habit(25, quota=30),
    "etl": Habit(120, quota=500),
    "report": Habit(40, 2, 1, 10, quota=15),
}
"""By client id."""


class HabitPace:
    """When a client with a habit sends; the first call of `due` starts its clock."""

    poll_s = 0.005
    """How long to wait for acknowledgements before the next `due`."""

    def __init__(self, habit: Habit) -> None:
        self._habit = habit
        self._began_s: float | None = None
        self._last_s = 0.0
        self._wanted = 0.0
        self.is_started = False

    def due(self, now_s: float, outstanding: int) -> int:
        """Return how many records to send now."""
        if self._began_s is None:
            self._began_s = self._last_s = now_s
        self._wanted += (now_s - self._last_s) * self._habit.rate(self._last_s - self._began_s)
        self._last_s = now_s
        count = max(0, min(int(self._wanted), DEPTH - outstanding))
        self._wanted -= count
        return count


def quota_lines() -> str:
    """Return the quotas of all clients as YAML on one line."""
    lines = (
        f"{{client_id: {name}, request_rate: {habit.quota:g}}}"
        for name, habit in HABITS.items()
        if habit.quota
    )
    return f"[{', '.join(lines)}]"
