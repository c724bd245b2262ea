"""The throttle of one client, its own entry on the timing wheel. The rules are in `mutes`, which alone changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.purgatory.timing_wheel import TimerEntry

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import QuotaViolation
    from proxy.core.stats.request_trace import RequestTrace


class ChannelThrottle(TimerEntry):
    """Made with the first throttle. While `is_timed`, it is on the timing wheel.

    `by`: the quota; None if the broker throttles, or a policy gave none. `trace`: of the request that brought it.
    `is_deferred`: the client is not muted yet: it is when it sends too early.
    """

    __slots__ = ("by", "is_deferred", "is_timed", "on_due", "trace", "until_ms")

    def __init__(self, on_due: Callable[[int], None]) -> None:
        super().__init__(0)
        self.on_due = on_due
        self.until_ms = 0
        self.by: QuotaViolation | None = None
        self.trace: RequestTrace | None = None
        self.is_deferred = self.is_timed = False

    def lasts(self, now_ms: int) -> bool:
        """Return whether the client is throttled now, be it muted or not."""
        return self.is_timed or (self.is_deferred and self.until_ms > now_ms)

    def fire(self, now_ms: int) -> None:
        """End it, unless it was prolonged meanwhile."""
        self.on_due(now_ms)
