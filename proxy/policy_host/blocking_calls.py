"""Slow work of policies, in threads: lookups in files, databases and other services.

Rules:
- Each entry has MAX_THREADS, so one whose work never returns takes no thread from another.
- At most MAX_CALLS of an entry wait or run; a further call fails at once. Results are delivered in a later step, never
  inside the hook that asked.
- At its deadline a call fails, wherever it is. A thread cannot be ended: it keeps its place until its work returns, but
  neither the end of the process nor a reload waits for it.
- A call that is given up takes no thread if its work has not begun, and delivers nothing.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from policies.host_tools import TooManyCallsError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_THREADS: Final = 4
MAX_CALLS: Final = 256
"""Of one entry, the running ones included."""


class _Call:
    """One call. `scope` ends it at its deadline, or when it is given up."""

    __slots__ = ("_is_given_up", "name", "scope", "then", "timeout_ms", "work")

    def __init__(
        self,
        name: str,
        work: Callable[[], object],
        then: Callable[[object, int], None],
        timeout_ms: int,
    ) -> None:
        self.name = name
        self.work = work
        self.then = then
        self.timeout_ms = timeout_ms
        self.scope = trio.CancelScope(deadline=trio.current_time() + timeout_ms / 1000)
        self._is_given_up = False

    def give_up(self) -> None:
        """End the call without a result."""
        self._is_given_up = True
        self.scope.cancel()

    def finish(self, result: object, now_ms: int) -> None:
        """Hand the result over, unless it is not wanted any more."""
        if not self._is_given_up:
            self.then(result, now_ms)


class _Pool:
    """The calls of one entry."""

    def __init__(self) -> None:
        self.limiter = trio.CapacityLimiter(MAX_THREADS)
        self.calls = 0


class BlockingCalls:
    """`call` queues work from the event loop; `run` is the task that has it done.

    `deliver` has a function called with the time, between two requests.
    """

    def __init__(self, deliver: Callable[[Callable[[int], None]], None]) -> None:
        self._deliver = deliver
        self._pools: defaultdict[str, _Pool] = defaultdict(_Pool)
        self._nursery: trio.Nursery | None = None
        self._wake: Callable[[], None]

    async def run(
        self,
        wake: Callable[[], None],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Have the calls done, until cancelled. `wake` is called after each delivery."""
        self._wake = wake
        try:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def call(
        self,
        name: str,
        work: Callable[[], object],
        then: Callable[[object, int], None],
        timeout_ms: int,
    ) -> Callable[[], None]:
        """Have `work` called in a thread of the entry `name`, and then `then(result, now_ms)`; the result may be an
        exception. Before `run` and after it no call is made, and no result is delivered.

        Returns a function that gives the call up: it may be called at any time.
        """
        call = _Call(name, work, then, timeout_ms)
        if self._nursery is None:
            return call.give_up
        pool = self._pools[name]
        if pool.calls >= MAX_CALLS:
            error = TooManyCallsError(f"{pool.calls} calls of {name} wait, {MAX_CALLS} at most")
            self._deliver(partial(call.finish, error))
            return call.give_up
        pool.calls += 1
        self._nursery.start_soon(self._serve, pool, call)
        return call.give_up

    async def _serve(self, pool: _Pool, call: _Call) -> None:
        result: object = TimeoutError(f"no result after {call.timeout_ms} ms")
        try:
            with call.scope:
                result = await trio.to_thread.run_sync(
                    _result_of,
                    call.work,
                    abandon_on_cancel=True,
                    limiter=pool.limiter,
                    thread_name=f"policy {call.name}",
                )
        finally:
            pool.calls -= 1
            self._forget_idle()
        self._deliver(partial(call.finish, result))
        self._wake()

    def _forget_idle(self) -> None:
        """Forget the pools without calls and threads: a reload may have removed their entries."""
        for name, pool in tuple(self._pools.items()):
            if not pool.calls and not pool.limiter.borrowed_tokens:
                del self._pools[name]


def _result_of(work: Callable[[], object]) -> object:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - it is the result
        return error
    except BaseException as error:  # noqa: BLE001 - `sys.exit` in a policy's code ends its work only
        return RuntimeError(f"the work raised {type(error).__name__}")
