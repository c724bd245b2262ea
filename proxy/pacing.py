"""Work beside the loop, in short bursts: a thread that never keeps the interpreter for long.

Rules:
- Threads share one interpreter. While one of them works, the loop has to ask for the interpreter back at each system
  call: sixty sockets read and written are a hundred and twenty such waits.
- So the thread works for BURST_S and sleeps for REST_S, by turns. The longest that a step of the loop is kept back
  is its share of bursts, whatever the work is.
- A call into C cannot be interrupted. Only what is short may be called so.
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
    """Returns what `work` returns, or raises what it raises. It runs in a thread; the loop is not kept waiting.

    A cancellation does not wait for `work`, which may wait for a disk: its result is dropped.
    """
    return await trio.to_thread.run_sync(in_bursts, work, abandon_on_cancel=True)


def in_bursts(work: Callable[[], T]) -> T:
    """Calls `work` in this thread, which sleeps for REST_S after each BURST_S of Python calls."""
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
