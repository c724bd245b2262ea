"""The driver steps the event loop while there is work, sleeps while there is none, and wakes for timers.

Where Trio's events are not seen, it lets Trio's tasks run after each turn. Other tasks are in test_driver_turns.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from proxy.shell import trio_scheduler
from proxy.shell.busy_polling import BLIND_POLL_MS
from proxy.shell.driver import drive, nudge
from proxy.shell.event_loop import EventLoop
from proxy.shell.loop_limits import TURN_MS
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


async def test_an_idle_driver_sleeps_until_the_next_timer(
    autojump_clock, bench, nursery, start_driver
):
    """In virtual time: an hour passes at once, and the event loop is stepped a handful of times."""
    clock = FakeClock()
    event_loop = FakeEventLoop([], clock)
    fired = trio.Event()
    bench.engine.timers.arm(3_600_000, lambda _: None)

    async def watch() -> None:
        await trio.sleep(3600)
        fired.set()

    start_driver(event_loop, clock)
    nursery.start_soon(watch)
    await fired.wait()
    assert len(event_loop.waits) < 10


async def test_a_driver_that_is_nudged_takes_notice_of_a_new_timer(
    autojump_clock, bench, start_driver
):
    """The driver sleeps for ever or until a later timer, and a nudge wakes it; virtual time."""
    clock = TrioClock()
    event_loop = EventLoop(bench.engine, clock)
    fired: list[int] = []
    start_driver(event_loop, clock)
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


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide Trio's poll set, as a system without /proc."""
    monkeypatch.setattr(trio_scheduler, "FDINFO", tmp_path / "fdinfo")


async def test_where_trios_events_are_not_seen_its_tasks_run_after_each_turn(start_driver, blind):
    """A turn is bounded, although a thousand steps have events, and a wait is short."""
    clock = FakeClock()
    event_loop = FakeEventLoop([1] * 1000, clock)
    start_driver(event_loop, clock)
    turns = 0
    while event_loop.events:
        turns += 1
        await trio.lowlevel.checkpoint()
    assert turns >= 1000 // (TURN_MS + 3)
    assert max(event_loop.waits) <= BLIND_POLL_MS / 1000


async def test_where_trios_events_are_not_seen_it_does_not_wait_while_clients_connect(
    start_driver, blind
):
    """Trio connects them, in several passes."""
    clock = FakeClock()
    event_loop = FakeEventLoop([1] * 40, clock)
    event_loop.arriving = 1
    start_driver(event_loop, clock)
    while event_loop.events:  # noqa: ASYNC110 - nothing tells when the last event was taken
        await trio.sleep(0.001)
    assert set(event_loop.waits) == {0.0}
