"""The driver steps the event loop while there is work, sleeps while there is none, and wakes for timers.

The tests of Trio's other tasks while traffic flows are in test_driver_turns.py.
"""

from __future__ import annotations

import pytest
import trio

from proxy.shell.driver import drive, nudge
from proxy.shell.event_loop import EventLoop
from tests.support.core.fake_event_loop import FakeClock, FakeEventLoop, TrioClock
from tests.support.messages import frames as f
from tests.support.shell.sockets import receive


async def test_a_request_and_its_reply_are_moved_by_the_driver_alone(bench, nursery):
    """The test itself never steps the event loop."""
    client, broker, _ = bench.link()
    nursery.start_soon(drive, bench.event_loop, bench.engine, bench.clock)
    client.sendall(f.heartbeat(1))
    await trio.lowlevel.wait_readable(broker)
    assert receive(broker, len(f.heartbeat(1))) == f.heartbeat(1)
    broker.sendall(f.heartbeat_reply(1))
    await trio.lowlevel.wait_readable(client)
    assert receive(client, len(f.heartbeat_reply(1))) == f.heartbeat_reply(1)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("place", [0, 1, 7])
async def test_a_step_of_more_than_five_milliseconds_is_reported_to_the_engine(
    bench, nursery, place
):
    """It is reported at any place in a turn; a step of 5 ms is not."""
    clock = FakeClock()
    told: list[int] = []

    class Slow(FakeEventLoop):
        """As the event loop: the engine's clock is read when the step begins. One step takes 50 ms, one 5 ms."""

        def step(self, timeout_s: float) -> int:
            bench.engine.now_ms = clock.now_ms
            clock.now_ms += {place: 49, place + 9: 4}.get(len(self.waits), 0)
            return super().step(timeout_s)

    event_loop = Slow([1] * 40, clock)
    bench.engine.on_slow_step = told.append
    nursery.start_soon(drive, event_loop, bench.engine, clock)
    while event_loop.events:
        await trio.lowlevel.checkpoint()
    nursery.cancel_scope.cancel()
    assert told == [50]
    event_loop.close()


async def test_an_idle_driver_sleeps_until_the_next_timer(autojump_clock, bench, nursery):
    """In virtual time: an hour passes at once, and the event loop is stepped a handful of times."""
    clock = FakeClock()
    event_loop = FakeEventLoop([], clock)
    fired = trio.Event()
    bench.engine.timers.arm(3_600_000, lambda _: None)

    async def watch() -> None:
        await trio.sleep(3600)
        fired.set()

    nursery.start_soon(drive, event_loop, bench.engine, clock)
    nursery.start_soon(watch)
    await fired.wait()
    assert len(event_loop.waits) < 10
    nursery.cancel_scope.cancel()
    event_loop.close()


async def test_a_driver_that_is_nudged_takes_notice_of_a_new_timer(autojump_clock, bench, nursery):
    """The driver sleeps for ever or until a later timer, and a nudge wakes it; virtual time."""
    clock = TrioClock()
    event_loop = EventLoop(bench.engine, clock)
    fired: list[int] = []
    nursery.start_soon(drive, event_loop, bench.engine, clock)
    nudge(event_loop)  # before its first sleep there is nothing to wake
    await trio.sleep(1)
    for delay_ms in (9000, 3000):  # the second is due before the first
        bench.engine.timers.arm(clock() + delay_ms, fired.append)
        nudge(event_loop)
        await trio.sleep(0.5)
        assert fired == []
    begun_ms = clock()
    await trio.sleep(2.6)
    assert [at_ms - begun_ms for at_ms in fired] == [2500]
    await trio.sleep(6)
    assert len(fired) == 2
    nursery.cancel_scope.cancel()
    event_loop.close()
