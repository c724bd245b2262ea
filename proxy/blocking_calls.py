"""Slow work of policies, in threads: lookups in files, databases and other services.

Rules:
- Each entry has MAX_THREADS, so one whose work never returns takes no thread from another.
- At most MAX_CALLS of an entry wait or run; a further call fails at once. Results are delivered in a later step, never
  inside the hook that asked.
- At its deadline a call fails, wherever it is. A thread cannot be ended: it keeps its place until its work returns, but
  neither the end of the process nor a reload waits for it.
- Work is done in bursts (`proxy.pacing`), so that it delays the event loop little.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from policies.host_tools import TooManyCallsError
from proxy.pacing import in_bursts

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_THREADS: Final = 4
MAX_CALLS: Final = 256
"""Of one entry, the running ones included."""


class _Call(NamedTuple):
    name: str
    work: Callable[[], object]
    then: Callable[[object, int], None]
    timeout_ms: int
    ends_s: float
    """The deadline, as Trio's time."""


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
    ) -> None:
        """Have `work` called in a thread of the entry `name`, and then `then(result, now_ms)`; the result may be an
        exception. Before `run` and after it no call is made, and no result is delivered.
        """
        if self._nursery is None:
            return
        pool = self._pools[name]
        if pool.calls >= MAX_CALLS:
            error = TooManyCallsError(f"{pool.calls} calls of {name} wait, {MAX_CALLS} at most")
            self._deliver(partial(then, error))
            return
        pool.calls += 1
        ends_s = trio.current_time() + timeout_ms / 1000
        self._nursery.start_soon(self._serve, pool, _Call(name, work, then, timeout_ms, ends_s))

    async def _serve(self, pool: _Pool, call: _Call) -> None:
        result: object = TimeoutError(f"no result after {call.timeout_ms} ms")
        try:
            with trio.CancelScope(deadline=call.ends_s):
                result = await trio.to_thread.run_sync(
                    _result_of,
                    call.work,
                    abandon_on_cancel=True,
                    limiter=pool.limiter,
                    thread_name=f"policy {call.name}",
                )
        finally:
            pool.calls -= 1
        self._deliver(partial(call.then, result))
        self._wake()


def _result_of(work: Callable[[], object]) -> object:
    try:
        return in_bursts(work)
    except Exception as error:  # noqa: BLE001 - it is the result
        return error
    except BaseException as error:  # noqa: BLE001 - `sys.exit` in a policy's code ends its work only
        return RuntimeError(f"the work raised {type(error).__name__}")
