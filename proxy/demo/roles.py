"""What the clients of the demo do: a polite one, a noisy one, and four with quotas for a usage log worth reading.

Rules:
- A client sends at one rate for some seconds, then at another, and begins again.
- Except for the polite client each record is a request of its own, so that rates of records are rates of requests.
- A client with a quota keeps few records unanswered. Like most applications it waits for replies: delayed by a quota
  it sends later, not less.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple


class Role(NamedTuple):
    """How one client behaves. Rates are records per second."""

    record_bytes: int
    busy_per_s: float
    busy_s: float = math.inf
    quiet_per_s: float = 0.0
    quiet_s: float = 0.0
    depth: int = 2000
    """Most records unanswered at a time."""
    catches_up: float = math.inf
    """Most records that it sends late after a stall."""
    quota: float | None = None
    """Requests per second, from the start."""
    is_read_back: bool = False

    def rate(self, elapsed_s: float) -> float:
        """Return the rate so many seconds after the start."""
        is_busy = elapsed_s % (self.busy_s + self.quiet_s) < self.busy_s
        return self.busy_per_s if is_busy else self.quiet_per_s


POLITE, NOISY = "polite", "noisy"
ROLES: Final = {
    POLITE: Role(100, 200, catches_up=20, is_read_back=True),
    # All it can. Small requests, because Sluice and the brokers have more work with them than their sender.
    NOISY: Role(200, 1_000_000, depth=20_000, catches_up=20_000),
    "alice": Role(300, 60, 4, 8, 6, depth=8, quota=30),
    "checkout": Role(300, 25, depth=8, quota=30),
    "etl": Role(300, 120, depth=8, quota=500),
    "report": Role(300, 40, 2, 1, 10, depth=8, quota=15),
}
"""By client id."""
QUOTAS: Final = {name: role.quota for name, role in ROLES.items() if role.quota is not None}


class Pace:
    """When a client sends. The first call of `due` starts its clock."""

    def __init__(self, role: Role) -> None:
        self._role = role
        self._began_s: float | None = None
        self._last_s = 0.0
        self._wanted = 0.0

    def due(self, now_s: float, outstanding: int) -> int:
        """Return how many records to send now."""
        if self._began_s is None:
            self._began_s = self._last_s = now_s
        role = self._role
        wanted = self._wanted + (now_s - self._last_s) * role.rate(self._last_s - self._began_s)
        self._last_s = now_s
        self._wanted = min(wanted, role.catches_up)
        count = max(0, min(int(self._wanted), role.depth - outstanding))
        self._wanted -= count
        return count
