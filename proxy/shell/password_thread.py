"""Verifies passwords in a thread, one after the other: PBKDF2 takes milliseconds, which the event loop does not have.

One thread is a bound of its own: it takes at most one CPU, and PBKDF2 does not hold the interpreter's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.auth.passwords import PasswordCheck

MAX_WAITING: Final = 256
"""Checks that wait; at about 10 ms each the last one takes a few seconds."""


class PasswordThread:
    """`submit` queues a check from the event loop; `run` is the task that has them done.

    `wake` is called after each result, so that the event loop looks at the session that waited for it.
    """

    def __init__(self, wake: Callable[[], None], report: Callable[[Exception], None]) -> None:
        self._send, self._receive = trio.open_memory_channel[
            "tuple[PasswordCheck, Callable[[bool], None]]"
        ](MAX_WAITING)
        self._wake = wake
        self._report = report

    def submit(self, check: PasswordCheck, on_done: Callable[[bool], None]) -> bool:
        """Queue a check; `on_done` is called with the result, in a later step. Return False if the queue is full."""
        try:
            self._send.send_nowait((check, on_done))
        except trio.WouldBlock:
            return False
        return True

    async def run(self) -> None:
        """Have the checks done, until cancelled."""
        async for check, on_done in self._receive:
            is_right = await trio.to_thread.run_sync(check.run, abandon_on_cancel=True)
            try:
                on_done(is_right)
            except Exception as error:  # noqa: BLE001 - a fault costs one session only
                self._report(error)
            self._wake()
