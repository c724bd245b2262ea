"""A host and a reporter that record their calls; its alarms, and its threads.

Slow work runs at a time of the bench's clock, and in the thread of the test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappush
from itertools import count
from typing import TYPE_CHECKING

from policies.entry_tools import EntryTools
from policies.host_tools import TooManyCallsError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from policies.api import Peer, QuotaViolation, Verdict
    from policies.decision import PolicyDecision
    from policies.policy_log import MessageLevel


class BenchAlarm:
    """A call at a time of the bench's clock."""

    def __init__(self, call: Callable[[int], None]) -> None:
        self._call: Callable[[int], None] | None = call

    @property
    def cancelled(self) -> bool:
        """Whether it was given up, or has been made."""
        return self._call is None

    def cancel(self) -> None:
        """Give it up."""
        self._call = None

    def ring(self, now_ms: int) -> None:
        """Make the call, unless it was given up."""
        call, self._call = self._call, None
        if call is not None:
            call(now_ms)


@dataclass
class BenchHost(EntryTools):
    """Records what was woken, saved and requested. Only in a PolicyBench does `wake` release requests."""

    name: str = "bench"
    observes: bool = False
    """Whether the entry's mode is `observe`."""
    woken: list[Hashable] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    topics: dict[bytes, str] = field(default_factory=dict)
    """The names that `topic_name` returns, by id."""
    disk_full: bool = False
    """No space is left: `save` raises OSError."""
    has_custody: bool = False
    """What `speaks_as_itself` returns."""
    reconsidered: int = 0
    reviews: list[Callable[[Peer, QuotaViolation], float]] = field(default_factory=list)
    """The functions that `review_throttles` was given."""
    calls: int = 0
    """How many alarms were ever set."""
    alarms: list[tuple[int, int, Callable[[int], None]]] = field(default_factory=list)
    """A heap of (time in ms, order among alarms of equal time, function); the policies of a bench share it."""
    order: Iterator[int] = field(default_factory=count)
    on_wake: Callable[[Hashable], int] | None = None
    """Called by `wake`. A PolicyBench sets it, and the next one."""
    on_reconsider: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        super().__init__(self.name, self.read)

    def wake(self, key: Hashable) -> int:
        """Record the key, and judge the requests that are held for it again. Returns their number."""
        self.woken.append(key)
        return 0 if self.on_wake is None else self.on_wake(key)

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Set an alarm: it rings when the bench's clock reaches `at_ms`."""
        self.calls += 1
        heappush(self.alarms, (at_ms, next(self.order), call))

    def arm(self, at_ms: int, call: Callable[[int], None]) -> BenchAlarm:
        """Set an alarm that can be given up, for a host that this one serves."""
        alarm = BenchAlarm(call)
        self.call_at(at_ms, alarm.ring)
        return alarm

    def reconsider(self) -> None:
        """Count the call, and have the chain compile again."""
        self.reconsidered += 1
        if self.on_reconsider is not None:
            self.on_reconsider()

    def review_throttles(self, until_ms: Callable[[Peer, QuotaViolation], float]) -> None:
        """Record the function: a test calls it for the peers that it throttled."""
        self.reviews.append(until_ms)

    def speaks_as_itself(self) -> bool:
        """Return `has_custody`."""
        return self.has_custody

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name that the test has put into `topics`."""
        return self.topics.get(topic_id)

    def load(self, path: str) -> bytes | None:
        """Return what was saved there; None if nothing was."""
        return self.files.get(path)

    def read(self, path: str, max_bytes: int) -> bytes:
        """Return the content that the test has put into `files`. Raises FileNotFoundError if there is none."""
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]

    def save(self, path: str, data: bytes) -> None:
        """Store the data in memory. Raises OSError if `disk_full`."""
        if self.disk_full:
            raise OSError(28, "No space left on device", path)
        self.files[path] = data


@dataclass
class BenchReporter:
    """Records what was reported."""

    errors: list[tuple[str, str, BaseException]] = field(default_factory=list)
    observed: list[tuple[str, Verdict]] = field(default_factory=list)
    refused: list[tuple[str, Verdict]] = field(default_factory=list)
    slow: list[tuple[str, str, str, int]] = field(default_factory=list)
    messages: list[tuple[MessageLevel, str, Mapping[str, object]]] = field(default_factory=list)
    """The lines that the policy has logged: level, message and fields."""

    def on_policy_error(self, name: str, hook: str, error: BaseException) -> None:
        """Record it."""
        self.errors.append((name, hook, error))

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        """Record it."""
        self.observed.append((decision.policy, decision.verdict))

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        """Record it."""
        self.refused.append((decision.policy, decision.verdict))

    def on_policy_message(
        self, name: str, level: MessageLevel, message: str, fields: Mapping[str, object]
    ) -> None:
        """Record it."""
        self.messages.append((level, message, fields))

    def on_policy_slow(self, name: str, hook: str, api_name: str, took_us: int) -> None:
        """Record it."""
        self.slow.append((name, hook, api_name, took_us))


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
