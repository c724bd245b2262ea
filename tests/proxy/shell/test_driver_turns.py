"""While traffic flows the driver waits in the event loop's poll set, and Trio's other tasks run when they have work."""

from __future__ import annotations

import math
import socket
import threading
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from proxy.shell import busy_polling
from proxy.shell.clock import Clock
from proxy.shell.driver import drive
from proxy.shell.event_loop import EventLoop
from proxy.shell.loop_limits import TURN_MS
from tests.support.core.fake_event_loop import FakeClock, FakeEventLoop, TrioClock
from tests.support.messages import frames as f
from tests.support.shell.sockets import receive

if TYPE_CHECKING:
    from proxy.core.engine import Engine

HOUR_MS = 3_600_000


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the driver wait in the event loop's poll set for hours: only an event ends its wait."""
    monkeypatch.setattr(busy_polling, "POLL_MS", 2 * HOUR_MS)
    monkeypatch.setattr(busy_polling, "PASS_MS", 2 * HOUR_MS)


class Trickle(FakeEventLoop):
    """An event comes each `every_ms`. In virtual time a step takes a microsecond, and `work_ms` for an event."""

    def __init__(
        self, clock: MockClock, engine: Engine, every_ms: float, work_ms: float = 0.0
    ) -> None:
        super().__init__([], FakeClock())
        self.mock = clock
        self.engine = engine
        self.trio_clock = TrioClock()
        self.every_ms, self.work_ms = every_ms, work_ms
        self.next_s = 0.0

    def step(self, timeout_s: float) -> int:
        self.waits.append(timeout_s)
        timeout_s = math.ceil(timeout_s * 1000) / 1000  # as epoll
        self.mock.jump(1e-6)
        self.next_s = max(self.next_s, trio.current_time())
        left_s = self.next_s - trio.current_time()
        if left_s > timeout_s:
            self.mock.jump(timeout_s)
            self.fire()
            return 0
        self.mock.jump(left_s)
        self.fire()
        self.mock.jump(self.work_ms / 1000)
        self.next_s += self.every_ms / 1000
        return 1

    def fire(self) -> None:
        self.engine.now_ms = self.trio_clock()
        self.engine.fire(self.engine.now_ms)


@pytest.mark.parametrize(("every_ms", "work_ms"), [(40, 0), (1, 0), (0, 1), (0, 2)])
async def test_no_pace_of_traffic_delays_a_task_that_is_due(
    mock_clock, bench, start_driver, every_ms, work_ms
):
    """One byte every 40 ms, or events without a pause: late by a turn and two steps at most, and 2 ms of rounding."""
    event_loop = Trickle(mock_clock, bench.engine, every_ms, work_ms)
    start_driver(event_loop, event_loop.trio_clock)
    late_ms = []
    for number in range(50):
        due = trio.current_time() + 0.007 * (number + 1)
        await trio.sleep_until(due)
        late_ms.append((trio.current_time() - due) * 1000)
    assert max(late_ms) <= TURN_MS + 2 * work_ms + 2


async def test_a_wait_in_the_poll_set_ends_at_the_next_timer(mock_clock, bench, start_driver):
    """To the millisecond, although events come at another pace."""
    event_loop = Trickle(mock_clock, bench.engine, 40)
    start_driver(event_loop, event_loop.trio_clock)
    fired: list[int] = []
    await trio.sleep(0.1)
    due_ms = event_loop.trio_clock() + 113
    bench.engine.timers.arm(due_ms, fired.append)
    await trio.sleep(0.5)
    assert fired == [due_ms]


async def test_a_task_that_a_step_wakes_runs_within_a_turn(nursery, start_driver):
    """The event loop is not left to wait before it has run, and events without a pause delay it by a turn."""
    clock = FakeClock()
    woken, ran = trio.Event(), trio.Event()

    class Waking(FakeEventLoop):
        def step(self, timeout_s: float) -> int:
            if len(self.waits) == 20:
                woken.set()
            return super().step(timeout_s)

    async def task() -> None:
        await woken.wait()
        event_loop.ran_at = len(event_loop.waits)
        ran.set()

    event_loop = Waking([1] * 1000, clock)
    nursery.start_soon(task)
    start_driver(event_loop, clock)
    await ran.wait()
    assert 20 < event_loop.ran_at <= 20 + TURN_MS + 1
    assert set(event_loop.waits[21 : event_loop.ran_at]) <= {0.0}


@pytest.mark.parametrize("others", [0, 63])
async def test_an_event_of_a_task_is_handled_within_a_turn(bench, nursery, others):
    """Alone it ends the turn at once; beside other events, at the latest after TURN_MS."""
    clock = FakeClock()

    class Called(FakeEventLoop):
        def step(self, timeout_s: float) -> int:
            if len(self.waits) >= 20:
                self.called = 1
                ours.send(b"x")
                self.events[0] = 1 + others
            return super().step(timeout_s)

    ours, theirs = socket.socketpair()
    event_loop = Called([1] * 1000, clock)

    nursery.start_soon(drive, event_loop, bench.engine, clock)
    await trio.lowlevel.wait_readable(theirs)
    steps = len(event_loop.waits) - 20
    assert 0 < steps <= (TURN_MS + 1 if others else 2)
    nursery.cancel_scope.cancel()
    event_loop.close()
    ours.close()
    theirs.close()


async def test_while_traffic_flows_every_event_of_a_task_is_seen(bench, nursery, patient):
    """The driver would poll for hours: a task's new client, a thread's result and a deadline end its wait each."""
    bench.event_loop.close()
    bench.clock = Clock()
    bench.event_loop = EventLoop(bench.engine, bench.clock)
    client, broker, _ = bench.link()
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    accepted = trio.Event()

    async def accept() -> None:
        await (await listener.accept()).aclose()
        accepted.set()

    nursery.start_soon(accept)
    await wait_all_tasks_blocked()
    nursery.start_soon(drive, bench.event_loop, bench.engine, bench.clock)
    stepped = trio.Event()
    step = bench.event_loop.step

    def stepping(timeout_s: float) -> int:
        if timeout_s:
            stepped.set()
        return step(timeout_s)

    bench.event_loop.step = stepping
    client.sendall(f.heartbeat(1))
    await stepped.wait()  # the driver follows traffic now
    assert receive(broker, len(f.heartbeat(1))) == f.heartbeat(1)
    address = listener.socket.getsockname()
    later = threading.Timer(0.02, lambda: socket.create_connection(address).close())
    later.start()
    await accepted.wait()
    await trio.to_thread.run_sync(later.join)
    await trio.sleep(0.02)
    client.sendall(f.heartbeat(2))
    await trio.to_thread.run_sync(receive, broker, len(f.heartbeat(2)))
    nursery.cancel_scope.cancel()
    await listener.aclose()


async def test_with_traffic_and_nothing_to_do_for_tasks_trio_is_left_alone(
    mock_clock, bench, start_driver
):
    """A hundred events in 300 ms cost a few passes through its scheduler, not one each."""
    event_loop = Trickle(mock_clock, bench.engine, 3)
    start_driver(event_loop, event_loop.trio_clock)
    await trio.sleep(0.3)
    assert len(event_loop.waits) >= 100
    assert sum(bench.engine.meters.away_us) <= 8


async def test_an_event_loop_of_a_quiet_proxy_is_left_for_trio(mock_clock, bench, start_driver):
    """POLL_MS after the last event the driver waits in Trio, and steps no more."""
    event_loop = Trickle(mock_clock, bench.engine, 1)
    start_driver(event_loop, event_loop.trio_clock)
    await trio.sleep(0.1)
    event_loop.next_s = math.inf
    await wait_all_tasks_blocked()
    steps = len(event_loop.waits)
    await wait_all_tasks_blocked()
    assert len(event_loop.waits) == steps
