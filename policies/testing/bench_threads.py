"""Threads for a PolicyBench: slow work runs at a time of the bench's clock, and in the thread of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.host_tools import TooManyCallsError
from policies.testing.bench_alarm import BenchAlarm

if TYPE_CHECKING:
    from collections.abc import Callable


class BenchThreads:
    """Runs what a policy gives to `run_blocking` when the clock has advanced by `takes_ms`."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        call_at: Callable[[int, Callable[[int], None]], None],
        read: Callable[[str, int], bytes],
    ) -> None:
        self.takes_ms = 0
        """How long each call takes; if that is too long for its `timeout_ms`, it is not made."""
        self.is_full = False
        """Whether further calls are refused."""
        self.calls = 0
        self.now_ms = now_ms
        self._call_at = call_at
        self.read = read

    def arm(self, at_ms: int, call: Callable[[int], None]) -> BenchAlarm:
        """Set an alarm for the proxy itself."""
        alarm = BenchAlarm(call)
        self._call_at(at_ms, alarm.ring)
        return alarm

    def call_blocking(
        self,
        name: str,
        work: Callable[[], object],
        then: Callable[[object, int], None],
        timeout_ms: int,
    ) -> Callable[[], None]:
        """Set an alarm for the result; even without any delay it comes with the next `advance`.

        Returns a function that gives the call up: then nothing happens at the alarm.
        """
        self.calls += 1
        error: Exception | None = None
        delay_ms = self.takes_ms
        if self.is_full:
            error, delay_ms = TooManyCallsError(f"no thread is free for {name}"), 0
        elif delay_ms > timeout_ms:
            error, delay_ms = TimeoutError(f"no result after {timeout_ms} ms"), timeout_ms

        is_wanted = [True]

        def ring(now_ms: int) -> None:
            if is_wanted:
                then(error or result_of(work), now_ms)

        self._call_at(self.now_ms() + delay_ms, ring)
        return is_wanted.clear


def result_of(work: Callable[[], object]) -> object:
    """Return what `work` returns, or the exception that it raises."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - it is the result
        return error
