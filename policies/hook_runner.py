"""Guards policies: every hook is called through this module, which handles every exception of a hook.

Rules:
- Hooks are synchronous, so no cancellation of Trio passes through them. Everything that a hook raises is the policy's
  fault, including `SystemExit`, `KeyboardInterrupt` and `GeneratorExit`. A real Ctrl-C is a signal that the process
  handles while it serves, so it never arrives as an exception inside a hook.
- `fault` is the one place where an exception becomes a report and a PolicyFault. `run` raises that fault, `notify`
  does not.
- A hook's time is measured where that costs ordinary requests nothing: always in `run` (rarely called hooks), and in
  the functions that `timed` returns, which the chain uses for some requests. A hook that takes SLOW_US or more is
  reported. The time of other hooks that it triggers (`host.wake`) does not count. The constructor gets the clock.
- Verdicts are checked inside the same guard: an invalid verdict is treated like an exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from policies.api import Reject, UnreadableRequestError
from policies.denial import MAX_MESSAGE_CHARS
from policies.verdicts import VerdictError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from policies.api import Peer, Request, Verdict
    from policies.decision import PolicyDecision
    from policies.policy_log import MessageLevel

T = TypeVar("T")
SLOW_US = 5_000
"""No hook may take this long, in microseconds: every client waits for it."""


class PolicyFault(Exception):  # noqa: N818 - a fault of the policy, not an error of the peer
    """A hook of a policy raised, or returned something else than a verdict. It has been reported."""

    def __init__(self, name: str, hook: str, words: str = "it raised") -> None:
        super().__init__(f"policy {name}, {hook}: {words}")
        self.name = name
        self.hook = hook


class Reporter(Protocol):
    """Receives reports about policies that fail, and about their refusals."""

    def on_policy_error(self, name: str, hook: str, error: BaseException) -> None:
        """Report that a hook raised `error`, or returned an invalid value (`error` says what was expected)."""

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        """Report what an entry in mode `observe` would have decided."""

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        """Report that an entry has refused a client at its connect, or one of its requests."""

    def on_policy_message(
        self, name: str, level: MessageLevel, message: str, fields: Mapping[str, object]
    ) -> None:
        """Log a line for the policy of the entry `name`; `message` and `fields` are what it said."""

    def on_policy_slow(self, name: str, hook: str, api_name: str, took_us: int) -> None:
        """Report that a hook took SLOW_US or more.

        `api_name` is the request's, or '' if the hook was not about a request.
        """


class HookTime:
    """The measured time of one hook of one entry, in microseconds. `slow` counts calls of SLOW_US or more."""

    __slots__ = ("calls", "slow", "took_us")

    def __init__(self) -> None:
        self.calls = self.took_us = self.slow = 0


class HookRunner:
    """Calls hooks, reports what they raise, and measures them. One per process: a reload's chain shares it.

    `now_us` is a clock in microseconds; without one nothing is measured.
    """

    def __init__(self, reporter: Reporter, now_us: Callable[[], int] | None = None) -> None:
        self.times: dict[tuple[str, str], HookTime] = {}
        """By entry and hook."""
        self.measures = now_us is not None
        self._now_us = now_us or _no_time
        self._reporter = reporter
        self._inner_us = 0  # time of other hooks inside the measured one

    def log(
        self, name: str, level: MessageLevel, message: str, fields: Mapping[str, object]
    ) -> None:
        """Log a line for a policy."""
        self._reporter.on_policy_message(name, level, message, fields)

    def fault(self, name: str, hook: str, error: BaseException) -> PolicyFault:
        """Report what a hook raised, and return the fault for it."""
        self._reporter.on_policy_error(name, hook, error)
        is_verdict = isinstance(error, VerdictError)
        words = str(error) if is_verdict else f"it raised {type(error).__name__}"
        fault = PolicyFault(name, hook, words)
        fault.__cause__ = error
        return fault

    def run(
        self,
        name: str,
        hook: str,
        function: Callable[..., T],
        *args: object,
        check: Callable[[object], None] | None = None,
    ) -> T:
        """Call `function(*args)`, pass the result to `check`, and return it.

        Raises:
            PolicyFault: either has raised. It is reported already.
        """
        outer_us, self._inner_us = self._inner_us, 0
        began_us = self._now_us()
        try:
            result = function(*args)
            if check is not None:
                check(result)
        except BaseException as error:
            raise self.fault(name, hook, error) from error
        finally:
            took_us = self._now_us() - began_us
            own_us = took_us - self._inner_us
            self._inner_us = outer_us + took_us
            times = self._times_of(name, hook)
            times.calls += 1
            times.took_us += own_us
            if own_us >= SLOW_US:
                times.slow += 1
                self._reporter.on_policy_slow(name, hook, "", own_us)
        return result

    def notify(self, name: str, hook: str, function: Callable[..., object], *args: object) -> None:
        """Call `function(*args)`. An exception is reported, and has no other effect."""
        try:
            self.run(name, hook, function, *args)
        except PolicyFault:
            return

    def timed(self, name: str, hook: str, function: Callable[..., T]) -> Callable[..., T]:
        """Return a function that does the same and is measured. Its first argument is a request."""
        if not self.measures:
            return function
        now_us, times = self._now_us, self._times_of(name, hook)

        def call(request: Request, *args: object) -> T:
            outer_us, self._inner_us = self._inner_us, 0
            began_us = now_us()
            try:
                return function(request, *args)
            finally:
                took_us = now_us() - began_us
                own_us = took_us - self._inner_us
                self._inner_us = outer_us + took_us
                times.calls += 1
                times.took_us += own_us
                if own_us >= SLOW_US:
                    times.slow += 1
                    self._reporter.on_policy_slow(name, hook, request.api.name, own_us)

        return call

    def forget_others(self, names: Iterable[str]) -> None:
        """Keep only the times of the entries with these names: a reload has removed the others."""
        kept = set(names)
        self.times = {key: times for key, times in self.times.items() if key[0] in kept}

    def _times_of(self, name: str, hook: str) -> HookTime:
        times = self.times.get((name, hook))
        if times is None:
            times = self.times[name, hook] = HookTime()
        return times


def refusing_unreadable(
    call: Callable[[Request, Peer, int], Verdict],
) -> Callable[[Request, Peer, int], Verdict]:
    """Return an `on_request` that refuses a request whose body cannot be read: the client's fault, not the policy's."""

    def on_request(request: Request, peer: Peer, now_ms: int) -> Verdict:
        try:
            return call(request, peer, now_ms)
        except UnreadableRequestError as error:
            return Reject(error.code, message=str(error)[:MAX_MESSAGE_CHARS])

    return on_request


def _no_time() -> int:
    return 0
