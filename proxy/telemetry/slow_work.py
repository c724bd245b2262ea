"""Slow steps of the event loop and slow hooks of policies, judged by their share of the time.

Rules:
- One slow step is nothing that a client notices: on a busy node there is one each second. Slow steps and slow hooks are
  summed up for EVERY_MS. They are logged if they took MIN_SHARE of that time, or if one of them took LONG_MS.
- A line names a cause: the policy and hook that took most of the time; else that the process had no CPU; else that
  neither was seen. A step never blocks, so what the thread's CPU time does not explain of it is a wait for a CPU. CPU
  time since the last second or slow step may be too much, so that the wait is rather found too short.
- The sum at the end of the process is judged, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EVERY_MS: Final = 60_000
MIN_SHARE: Final = 0.01
LONG_MS: Final = 100
_MOST: Final = 0.5
"""Of the time of slow steps: what takes more is their cause."""


@dataclass(slots=True)
class _Sum:
    times: int = 0
    took_ms: float = 0
    longest_ms: float = 0
    about: str = ""  # the API of the longest

    def add(self, took_ms: float, about: str = "") -> None:
        self.times += 1
        self.took_ms += took_ms
        if took_ms > self.longest_ms:
            self.longest_ms, self.about = took_ms, about

    def fields(self, over_ms: float) -> dict[str, object] | None:
        """Return the fields of a line; None if no client can have noticed."""
        if self.took_ms < MIN_SHARE * over_ms and self.longest_ms < LONG_MS:
            return None
        return {
            "times": self.times,
            "took_ms": round(self.took_ms, 1),
            "longest_ms": round(self.longest_ms, 1),
            "share_percent": round(100 * self.took_ms / max(over_ms, self.took_ms), 1),
        }


@dataclass(slots=True)
class _Period:
    began_ms: int
    waited_ms: float = 0  # for a CPU
    steps: _Sum = field(default_factory=_Sum)
    hooks: dict[tuple[str, str], _Sum] = field(default_factory=dict)  # by policy and hook
    judges: Sequence[str] = ()


class SlowWork:
    """Sums up slow steps and hooks, and logs them. `cpu_ms` returns the CPU time of this thread."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        call_at: Callable[[int, Callable[[int], None]], None],
        cpu_ms: Callable[[], float],
    ) -> None:
        self._log = structlog.get_logger()
        self._now_ms = now_ms
        self._call_at = call_at
        self._read_cpu_ms = cpu_ms
        self._cpu_ms = cpu_ms()  # a second ago at most, while clients are connected
        self._period: _Period | None = None

    def on_second(self) -> None:
        """Note the CPU time, so that a slow step knows what it was before."""
        self._cpu_ms = self._read_cpu_ms()

    def add_step(self, took_ms: float, judges: Sequence[str]) -> None:
        """Count a slow step; `judges` are the policies that it may have asked."""
        period = self._begun()
        period.steps.add(took_ms)
        period.judges = judges
        before_ms, self._cpu_ms = self._cpu_ms, self._read_cpu_ms()
        period.waited_ms += max(0, took_ms - (self._cpu_ms - before_ms))

    def add_hook(self, policy: str, hook: str, api_name: str, took_ms: float) -> None:
        """Count a slow hook."""
        hooks = self._begun().hooks
        if (policy, hook) not in hooks:
            hooks[policy, hook] = _Sum()
        hooks[policy, hook].add(took_ms, api_name)

    def close(self) -> None:
        """Judge what is summed up so far."""
        self._judge(self._now_ms())

    def _begun(self) -> _Period:
        if self._period is None:
            now_ms = self._now_ms()
            self._period = _Period(now_ms)
            self._call_at(now_ms + EVERY_MS, self._judge)
        return self._period

    def _judge(self, now_ms: int) -> None:
        period, self._period = self._period, None
        if period is None:
            return
        over_ms = max(EVERY_MS, now_ms - period.began_ms)
        for (policy, hook), hook_sum in period.hooks.items():
            if (fields := hook_sum.fields(over_ms)) is not None:
                api = {"api": hook_sum.about} if hook_sum.about else {}
                self._log.warning("policy_slow", policy=policy, hook=hook, **api, **fields)
        if (fields := period.steps.fields(over_ms)) is not None:
            self._log.warning("slow_step", **fields, cause=self._cause(period))

    def _cause(self, period: _Period) -> str:
        least_ms = _MOST * period.steps.took_ms
        slowest = max(period.hooks.items(), key=lambda each: each[1].took_ms, default=None)
        if slowest is not None and slowest[1].took_ms >= least_ms:
            (policy, hook), _ = slowest
            return f"policy {policy}, {hook}"
        if period.waited_ms >= least_ms:
            return f"no CPU for {period.waited_ms:.0f} ms: a busy machine, or the container's limit"
        judges = ", ".join(period.judges)
        return f"many requests at once, or hooks below the measure; policies: {judges}"
