"""The services of a running proxy for its policies (`policies.api.Services`).

Policies are built before the engine, which is made of them: `attach` gives the engine, and sets alarms that policies
have asked for by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.purgatory.timers import Timer
from proxy.policy_host.blocking_calls import BlockingCalls
from proxy.shell import files

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from policies.api import Peer, QuotaViolation
    from proxy.core.engine import Engine


class PolicyServices:
    """The services of a proxy; before `attach` there are no requests and no clients.

    `has_credentials`: whether Sluice has credentials of its own for the brokers.
    """

    def __init__(self, *, has_credentials: bool = False) -> None:
        self._has_credentials = has_credentials
        self._engine: Engine | None = None
        self._early: list[Timer] = []
        self.blocking_calls = BlockingCalls(lambda call: self.call_at(self.now_ms(), call))

    def attach(self, engine: Engine) -> None:
        """Serve with this engine from now on."""
        self._engine = engine
        for timer in self._early:
            engine.timers.add(timer)
        self._early.clear()

    def wake(self, key: Hashable) -> int:
        """Ask the policies again for the requests held for this key; return their number."""
        return 0 if self._engine is None else self._engine.wake(key)

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Do as `arm`, for a call that is never given up."""
        self.arm(at_ms, call)

    def arm(self, at_ms: int, call: Callable[[int], None]) -> Timer:
        """Call `call(now_ms)` at `at_ms`, or as soon after as a step of the loop allows."""
        if self._engine is not None:
            return self._engine.timers.arm(at_ms, call)
        timer = Timer(at_ms, call)
        self._early.append(timer)
        return timer

    def speaks_as_itself(self) -> bool:
        """Return whether the brokers judge Sluice's own credentials."""
        return self._has_credentials

    def reconsider(self) -> None:
        """Compile the chain again, because the needs of a policy have changed."""
        if self._engine is not None:
            self._engine.reconsider()

    def review_throttles(self, until_ms: Callable[[Peer, QuotaViolation], float]) -> None:
        """Shorten throttles to `until_ms`, because the limits of a policy have changed."""
        if self._engine is not None:
            self._engine.review_throttles(until_ms)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name that a Metadata reply gave this topic id; None if none did."""
        return None if self._engine is None else self._engine.rewrites.topics.get(topic_id)

    def now_ms(self) -> int:
        """Return the time of the current step in ms since the epoch."""
        return 0 if self._engine is None else self._engine.now_ms

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
        return self.blocking_calls.call(name, work, then, timeout_ms)

    def load(self, path: str) -> bytes | None:
        """Return the state that a policy saved at `path`; None if there is none. Raises OSError."""
        return files.load(path)

    def read(self, path: str, max_bytes: int) -> bytes:
        """Return the content of a policy's file that others write. Raises OSError."""
        return files.read(path, max_bytes)

    def save(self, path: str, data: bytes) -> None:
        """Replace the state of a policy at `path`. Raises OSError."""
        files.save(path, data)
