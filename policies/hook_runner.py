"""The wall around policies: every hook is called through here, and whatever it raises is dealt with here.

Rules:
- Hooks are synchronous, so no cancellation of Trio's passes through them: everything a hook raises is the policy's
  fault, `SystemExit`, `KeyboardInterrupt` and `GeneratorExit` too. A real Ctrl-C is a signal that the process
  receives by itself while it serves, so it never arrives as an exception inside a hook.
- `fault` is the one place where an exception becomes a report and a PolicyFault. `run` raises that fault,
  `notify` does not.
- What a hook takes is measured where that costs no ordinary request anything: always in `run` (hooks that are called
  rarely), and in what `timed` returns, which the chain uses for some requests. A hook of SLOW_US or more is reported.
  What a hook has others do (`host.wake`) is theirs. There is no clock here: the constructor is given one.
- What a hook returns is checked inside the same wall: a nonsense verdict is exactly as bad as an exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from policies.verdicts import VerdictError

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Request
    from policies.decision import PolicyDecision

T = TypeVar("T")
SLOW_US = 5_000
"""No hook may take so long: every client waits for it."""


class PolicyFault(Exception):  # noqa: N818 - the house's word: a fault, not an error of the peer
    """A hook of a policy raised, or returned something that is no verdict. It has been reported."""

    def __init__(self, name: str, hook: str, words: str = "it raised") -> None:
        super().__init__(f"policy {name}, {hook}: {words}")
        self.name = name
        self.hook = hook


class Reporter(Protocol):
    """Hears of policies that misbehave or would have refused."""

    def on_policy_error(self, name: str, hook: str, error: BaseException) -> None:
        """The policy raised `error`, or returned nonsense (`error` says what was expected)."""

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        """An entry in mode `observe` would have done this."""

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        """An entry has refused a client (at its connect), or one of its requests."""

    def on_policy_slow(self, name: str, hook: str, api_name: str, took_us: int) -> None:
        """A hook took SLOW_US or more; `api_name` is the request's, or '' where it was about none."""


class HookTime:
    """What one hook of one entry took, as far as it was measured. `slow` calls took SLOW_US or more."""

    __slots__ = ("calls", "slow", "took_us")

    def __init__(self) -> None:
        self.calls = self.took_us = self.slow = 0


class HookRunner:
    """See the module. One per process: a reload's chain gets the runner of the chain before.

    `now_us` is a clock in microseconds; without one nothing is measured.
    """

    def __init__(self, reporter: Reporter, now_us: Callable[[], int] | None = None) -> None:
        self.times: dict[tuple[str, str], HookTime] = {}
        """By entry and hook."""
        self.measures = now_us is not None
        self._now_us = now_us or _no_time
        self._reporter = reporter
        self._inner_us = 0  # what other hooks took inside the one that is measured

    def fault(self, name: str, hook: str, error: BaseException) -> PolicyFault:
        """Report what a hook raised, and return the fault that stands for it."""
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
        """Call `function(*args)`, have `check` look at what it returns, and return that.

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
        """Call `function(*args)`. What it raises is reported, and nothing comes of it."""
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

    def _times_of(self, name: str, hook: str) -> HookTime:
        times = self.times.get((name, hook))
        if times is None:
            times = self.times[name, hook] = HookTime()
        return times


def _no_time() -> int:
    return 0
