"""Slow work of policies: bounded by entry, and no thread that hangs stops another entry or the process."""

import threading
from collections.abc import Callable, Iterator

import pytest
import trio
import trio.testing

from policies.host_tools import TooManyCallsError
from proxy.policy_host.blocking_calls import MAX_CALLS, MAX_THREADS, BlockingCalls


class Room:
    """Calls whose results are delivered at once, with a clock that stands still."""

    def __init__(self) -> None:
        self.results: list[tuple[object, int]] = []
        self.wakes = 0
        self.came = trio.Event()
        self.blocking_calls = BlockingCalls(lambda call: call(7))

    def call(
        self, name: str, work: Callable[[], object], timeout_ms: int = 60_000
    ) -> Callable[[], None]:
        """Ask for `work`; return the function that gives it up."""
        return self.blocking_calls.call(name, work, self._note, timeout_ms)

    async def hang(self, name: str, gate: threading.Event, threads: int) -> None:
        """Have this many threads wait for the gate, longer than the millisecond that their calls have."""
        waiting = trio.Semaphore(0)

        def work() -> None:
            trio.from_thread.run_sync(waiting.release)
            gate.wait()

        for _ in range(threads):
            self.call(name, work, timeout_ms=1)
        for _ in range(threads):
            await waiting.acquire()

    def wake(self) -> None:
        """Count the wake-ups of the event loop."""
        self.wakes += 1

    async def wait(self, results: int) -> None:
        """Wait until there are this many results."""
        while len(self.results) < results:
            self.came = trio.Event()
            await self.came.wait()

    def _note(self, result: object, now_ms: int) -> None:
        self.results.append((result, now_ms))
        self.came.set()


@pytest.fixture
async def room(nursery: trio.Nursery) -> Room:
    """Return calls that are served."""
    room = Room()
    await nursery.start(room.blocking_calls.run, room.wake)
    return room


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Return what hanging work waits for; opened at the end."""
    event = threading.Event()
    yield event
    event.set()


async def test_results_and_errors_come_from_another_thread(room: Room) -> None:
    """Each wakes the event loop, and `sys.exit` in the work is an error like any other."""

    def fail() -> None:
        raise LookupError("unknown")

    def leave() -> None:
        raise SystemExit(3)

    room.call("a", threading.get_ident)
    await room.wait(1)
    room.call("a", fail)
    await room.wait(2)
    room.call("a", leave)
    await room.wait(3)
    (thread, now_ms), (failed, _), (left, _) = room.results
    assert thread != threading.get_ident()
    assert now_ms == 7
    assert isinstance(failed, LookupError)
    assert str(left) == "the work raised SystemExit"
    await trio.testing.wait_all_tasks_blocked()
    assert room.wakes == 3


async def test_work_that_hangs_ends_at_its_deadline_and_keeps_its_thread(
    room: Room, gate: threading.Event, mock_clock: trio.testing.MockClock
) -> None:
    """The entry's further calls fail at their deadlines too; another entry is served as before."""
    await room.hang("stuck", gate, MAX_THREADS)
    room.call("stuck", gate.wait, timeout_ms=1)
    mock_clock.jump(1)
    await room.wait(MAX_THREADS + 1)
    assert {type(result) for result, _ in room.results} == {TimeoutError}
    began: list[str] = []
    room.call("stuck", lambda: began.append("stuck"), timeout_ms=1)
    mock_clock.jump(1)
    await room.wait(MAX_THREADS + 2)
    room.call("other", lambda: began.append("other"))
    await room.wait(MAX_THREADS + 3)
    assert began == ["other"]
    gate.set()
    room.call("stuck", lambda: began.append("stuck"))
    await room.wait(MAX_THREADS + 4)
    assert began == ["other", "stuck"]


async def test_calls_beyond_the_limit_fail_at_once(room: Room, gate: threading.Event) -> None:
    """One more than MAX_CALLS, while others of the entry wait; another entry has its own limit."""
    for _ in range(MAX_CALLS + 1):
        room.call("busy", gate.wait)
    ((error, _),) = room.results
    assert isinstance(error, TooManyCallsError)
    assert str(error) == "256 calls of busy wait, 256 at most"
    room.call("calm", lambda: "fine")
    await room.wait(2)
    gate.set()
    await room.wait(MAX_CALLS + 2)
    room.call("busy", lambda: "fine")
    await room.wait(MAX_CALLS + 3)
    assert room.results[-1][0] == "fine"


async def test_neither_before_nor_after_its_task_is_anything_called(gate: threading.Event) -> None:
    """The end of the process does not wait for a thread, and delivers no result."""
    room = Room()
    room.call("a", lambda: 1)
    async with trio.open_nursery() as nursery:
        await nursery.start(room.blocking_calls.run, room.wake)
        room.call("a", gate.wait)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    room.call("a", lambda: 1)
    await trio.testing.wait_all_tasks_blocked()
    assert room.results == []


async def test_work_that_is_given_up_before_it_begins_is_not_done(
    room: Room, gate: threading.Event
) -> None:
    """Its place is free at once; work that runs has no result."""
    done: list[str] = []
    begun = threading.Semaphore(0)

    def hang() -> None:
        begun.release()
        gate.wait()

    hanging = [room.call("a", hang) for _ in range(MAX_THREADS)]
    for _ in range(MAX_THREADS):
        await trio.to_thread.run_sync(begun.acquire)
    waiting = [room.call("a", lambda: done.append("x")) for _ in range(MAX_CALLS - MAX_THREADS)]
    for give_up in (*waiting, *hanging):
        give_up()
        give_up()  # a second time changes nothing
    await trio.testing.wait_all_tasks_blocked()
    gate.set()
    assert room.call("a", lambda: "after") is not None
    await room.wait(1)
    assert (done, room.results) == ([], [("after", 7)])


async def test_a_result_that_waits_to_be_delivered_may_be_given_up(nursery: trio.Nursery) -> None:
    """Between the end of the work and the next step."""
    later: list[Callable[[int], None]] = []
    calls = BlockingCalls(later.append)
    came = trio.Event()
    await nursery.start(calls.run, came.set)
    results: list[object] = []
    give_up = calls.call("a", lambda: 1, lambda result, _: results.append(result), 60_000)
    await came.wait()
    give_up()
    later.pop()(7)
    assert results == []


async def test_an_entry_that_is_gone_leaves_no_threads_and_no_counts(
    room: Room, gate: threading.Event, mock_clock: trio.testing.MockClock
) -> None:
    """Names of entries come and go with reloads; a thread that hangs keeps its place until it ends."""
    for n in range(20):
        room.call(f"entry {n}", lambda: None)
    await room.hang("hangs", gate, 1)
    mock_clock.jump(1)
    await room.wait(21)
    assert list(room.blocking_calls._pools) == ["hangs"]
    gate.set()
    while room.blocking_calls._pools:
        results = len(room.results)
        room.call("next", lambda: None)
        await room.wait(results + 1)
