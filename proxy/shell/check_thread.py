"""Verifies passwords and tokens in a thread, one after the other: PBKDF2 takes milliseconds, a signature tenths of one,
which the event loop does not have.

One thread is a bound of its own: it takes at most one CPU, and neither holds the interpreter's lock meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from proxy.core.auth.check_queue import CheckQueue, WaitingCheck

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.auth.check_queue import Check


class CheckThread:
    """`submit` queues a check from the event loop; `run` is the task that has them done.

    `wake` is called after each result, so that the event loop looks at the session that waited for it.
    """

    def __init__(self, wake: Callable[[], None], report: Callable[[Exception], None]) -> None:
        self._queue = CheckQueue()
        self._dropped: list[WaitingCheck] = []
        self._submitted = trio.Event()
        self._wake = wake
        self._report = report

    def submit(self, check: Check, address: str, on_done: Callable[[Any], None]) -> bool:
        """Queue a check of a client at this address. Return False if the queue is full.

        `on_done` is called with the result, in a later step; with None if the check lost its place to another address.
        """
        waiting = WaitingCheck(check, address, on_done)
        dropped = self._queue.put(waiting)
        if dropped is waiting:
            return False
        if dropped is not None:
            self._dropped.append(dropped)
        self._submitted.set()
        return True

    async def run(self) -> None:
        """Have the checks done, until cancelled."""
        while True:
            while self._dropped:
                self._tell(self._dropped.pop(), None)
            waiting = self._queue.maybe_take()
            if waiting is None:
                self._submitted = trio.Event()
                await self._submitted.wait()
                continue
            result = await trio.to_thread.run_sync(waiting.check.run, abandon_on_cancel=True)
            self._tell(waiting, result)

    def _tell(self, waiting: WaitingCheck, result: object) -> None:
        try:
            waiting.on_done(result)
        except Exception as error:  # noqa: BLE001 - a fault costs one session only
            self._report(error)
        self._wake()
