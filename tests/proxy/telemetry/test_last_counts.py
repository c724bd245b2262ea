"""Counts of lines that were left out are told, though no later line comes; without any, nothing wakes."""

import threading

import trio
from trio.testing import wait_all_tasks_blocked

from proxy.telemetry.last_counts import EVERY_S, LastCounts


async def test_it_tells_a_second_after_a_line_was_left_out_and_then_sleeps(nursery, autojump_clock):
    """Each second again while a count is kept."""
    kept = [True, True, False]
    told: list[float] = []

    def tell() -> bool:
        told.append(trio.current_time() - began)
        return kept.pop(0)

    counts = LastCounts(lambda: False)
    counts.add(tell)
    nursery.start_soon(counts.run)
    await trio.sleep(1000)
    began = trio.current_time()
    counts.note()
    await trio.sleep(1000)
    assert [round(at / EVERY_S) for at in told] == [1, 2, 3]


async def test_a_thread_may_leave_out_a_line(nursery, mock_clock):
    """Libraries log in threads of their own."""
    told: list[bool] = []
    counts = LastCounts(lambda: bool(told.append(True)))
    nursery.start_soon(counts.run)
    await wait_all_tasks_blocked()
    thread = threading.Thread(target=counts.note)
    thread.start()
    await trio.to_thread.run_sync(thread.join)
    await wait_all_tasks_blocked()
    mock_clock.jump(EVERY_S)
    await wait_all_tasks_blocked()
    assert told == [True]


async def test_a_line_left_out_before_the_start_is_told_too(nursery, autojump_clock):
    """The log is there before the event loop."""
    told: list[bool] = []
    counts = LastCounts(lambda: bool(told.append(True)))
    counts.note()
    nursery.start_soon(counts.run)
    await trio.sleep(10)
    assert told == [True]
