"""The tools of one entry's policy, as `HostTools` promises them.

Rules:
- Metrics are made in `__init__`; slow work begins once the policy serves.
- An exception of a function that the policy gave is reported, and has no other effect.
- Results of slow work are not delivered once the entry is removed.
- Files are read in a thread that slow work does not use. They are watched until a reload replaces the policy.
- Alarms are called until a reload has replaced the policy and the last request that it judged has ended, so that
  nothing of the policy stays in memory.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from policies.custom_metrics import CustomMetrics, MetricSpec
from policies.file_watch import MAX_FILE_BYTES, POLL_MS, FileWatch
from policies.host_tools import BLOCKING_TIMEOUT_MS
from policies.policy_log import PolicyLog
from policies.verdicts import short_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policies.custom_metrics import PolicyCounter, PolicyHistogram
    from policies.file_watch import Alarm
    from policies.hook_runner import HookRunner

T = TypeVar("T")
MAX_BLOCKING_TIMEOUT_MS: Final = 600_000
MIN_SWEEP: Final = 64
"""Alarms that have been called are forgotten when at least this many are kept."""


class ToolServices(Protocol):
    """The services of a proxy for the tools of its policies."""

    def now_ms(self) -> int:
        """Return the time of the current step in ms since the epoch."""

    def arm(self, at_ms: int, call: Callable[[int], None]) -> Alarm:
        """Call `call(now_ms)` once at `at_ms`."""

    def read(self, path: str, max_bytes: int) -> bytes:
        """Return the content of a regular file. Any thread may call it. Raises OSError."""

    def call_blocking(
        self,
        name: str,
        work: Callable[[], object],
        then: Callable[[object, int], None],
        timeout_ms: int,
    ) -> Callable[[], None]:
        """Call `work` in a thread of the entry `name`, and `then` with the result between two requests.

        Returns a function that gives the call up.
        """


class EntryTools:
    """The tools of one entry's policy. Before `connect_tools` there is no proxy."""

    def __init__(self, name: str, read: Callable[[str, int], bytes]) -> None:
        self.name = name
        self._read_now = read
        self._watches: list[FileWatch] = []
        self._early: list[tuple[int, Callable[[int], None]]] = []  # alarms from before it serves
        self._alarms: list[Alarm] = []
        self._sweep_at = MIN_SWEEP
        self._is_retired = False
        self.log = PolicyLog()
        self.metrics = CustomMetrics()
        self._tools: ToolServices | None = None
        self._runner: HookRunner | None = None
        self._is_closed = False
        self._is_over = False

    def connect_tools(self, services: ToolServices, hook_runner: HookRunner) -> None:
        """Use the services of a proxy from now on."""
        self._tools, self._runner = services, hook_runner
        self.log.connect(partial(hook_runner.log, self.name))
        early, self._early = self._early, []
        for at_ms, call in early:
            self.set_alarm(at_ms, call)
        for watch in self._watches:
            self._schedule_check(watch, services.now_ms())

    def retire_tools(self) -> None:
        """Watch no more files: a reload has replaced the policy."""
        self._is_retired = True
        for watch in self._watches:
            if watch.alarm is not None:
                watch.alarm.cancel()
        self._watches = []  # they refer to the policy

    def close_tools(self) -> None:
        """Watch no more files and deliver no more results: the entry is removed, or the process ends."""
        self._is_closed = True
        self.retire_tools()

    def give_up_alarms(self) -> None:
        """Call no alarm any more: no request needs the policy."""
        for alarm in self._alarms:
            alarm.cancel()
        self._alarms, self._early = [], []
        self._is_over = True

    def set_alarm(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Call `call(now_ms)` at `at_ms`, once the policy serves. An exception of the call is reported."""
        if self._is_over:
            return
        if self._tools is None or self._runner is None:
            self._early.append((at_ms, call))
            return
        if len(self._alarms) >= self._sweep_at:
            self._alarms = [each for each in self._alarms if not each.cancelled]
            self._sweep_at = max(MIN_SWEEP, 2 * len(self._alarms))
        ring = partial(self._runner.notify, self.name, "call_at", call)
        self._alarms.append(self._tools.arm(at_ms, ring))

    def now_ms(self) -> int:
        """Return the time, as HostTools says."""
        return 0 if self._tools is None else self._tools.now_ms()

    def counter(self, name: str, help_text: str, labels: Iterable[str] = ()) -> PolicyCounter:
        """Return a counter, as HostTools says."""
        self._check_init("counter")
        return self.metrics.counter(MetricSpec("counter", name, help_text, tuple(labels)))

    def histogram(
        self, name: str, help_text: str, buckets: Iterable[float], labels: Iterable[str] = ()
    ) -> PolicyHistogram:
        """Return a histogram, as HostTools says."""
        self._check_init("histogram")
        spec = MetricSpec("histogram", name, help_text, tuple(labels), tuple(buckets))
        return self.metrics.histogram(spec)

    def run_blocking(
        self,
        work: Callable[[], T],
        then: Callable[[T | Exception, int], None],
        timeout_ms: int = BLOCKING_TIMEOUT_MS,
    ) -> Callable[[], None]:
        """Call `work` in a thread, as HostTools says."""
        if self._tools is None:
            raise RuntimeError(
                "run_blocking in __init__: set an alarm there, for when the policy serves"
            )
        for name, call in (("work", work), ("then", then)):
            if not callable(call):
                raise TypeError(f"{name} is {short_repr(call)}, expected a function")
        if type(timeout_ms) is not int or not 1 <= timeout_ms <= MAX_BLOCKING_TIMEOUT_MS:
            expected = f"an integer in 1..{MAX_BLOCKING_TIMEOUT_MS}"
            raise TypeError(f"timeout_ms is {short_repr(timeout_ms)}, expected {expected}")
        deliver = partial(self._deliver, then)
        return self._tools.call_blocking(self.name, work, deliver, timeout_ms)

    def watch_file(
        self, path: str, on_change: Callable[[bytes], None], max_bytes: int = MAX_FILE_BYTES
    ) -> bytes:
        """Return a file's content and watch it, as HostTools says."""
        self._check_init("watch_file")
        content = self._read_now(path, max_bytes)
        self._watches.append(FileWatch(path, max_bytes, content, on_change))
        return content

    def _schedule_check(self, watch: FileWatch, now_ms: int) -> None:
        if self._tools is not None and not self._is_retired:
            watch.alarm = self._tools.arm(now_ms + POLL_MS, partial(self._check, watch))

    def _check(self, watch: FileWatch, _: int) -> None:
        if self._tools is not None and not self._is_retired:
            read = partial(self._tools.read, watch.path, watch.max_bytes)
            then = partial(self._on_checked, watch)
            self._tools.call_blocking(f"{self.name}, files", read, then, BLOCKING_TIMEOUT_MS)

    def _on_checked(self, watch: FileWatch, result: object, now_ms: int) -> None:
        if self._is_retired or self._runner is None:
            return
        if problem := watch.new_problem(result):
            self.log.warning("a watched file cannot be read", path=watch.path, error=problem)
        if watch.changed(result):
            self._runner.notify(self.name, "watch_file", watch.on_change, watch.content)
        self._schedule_check(watch, now_ms)

    def _deliver(self, then: Callable[..., None], result: object, now_ms: int) -> None:
        if not self._is_closed and self._runner is not None:
            self._runner.notify(self.name, "run_blocking", then, result, now_ms)

    def _check_init(self, what: str) -> None:
        if self._tools is not None:
            raise RuntimeError(f"{what} is called after __init__, expected in __init__ only")
