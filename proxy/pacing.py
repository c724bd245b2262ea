"""Work in a thread, in short bursts, so that it never keeps the interpreter from the event loop for long.

Rules:
- Threads share one interpreter. While another thread works, the event loop must get the interpreter back after each
  system call: sixty sockets, read and written, are 120 such waits.
- So the thread works for BURST_S, then sleeps for REST_S. A step of the loop is delayed by its share of bursts at most.
- A call into C cannot be interrupted, so such calls must be short.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
BURST_S: Final = 0.0005
REST_S: Final = 0.001


async def run_in_bursts(work: Callable[[], T]) -> T:
    """Call `work` in a thread, in bursts. Returns what it returns and raises what it raises.

    A cancellation does not wait for `work`, which may wait for a disk: its result is discarded.
    """
    return await trio.to_thread.run_sync(in_bursts, work, abandon_on_cancel=True)


def in_bursts(work: Callable[[], T]) -> T:
    """Call `work` in this thread, which sleeps for REST_S after each BURST_S of Python calls."""
    clock, sleep = time.perf_counter, time.sleep
    until_s = clock() + BURST_S

    def pace(*_: object) -> None:
        nonlocal until_s
        if clock() >= until_s:
            sleep(REST_S)
            until_s = clock() + BURST_S

    before = sys.getprofile()
    sys.setprofile(pace)
    try:
        return work()
    finally:
        sys.setprofile(before)
