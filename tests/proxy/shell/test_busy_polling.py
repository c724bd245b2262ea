"""How long the driver waits in the event loop's poll set before each step of a turn."""

import pytest

from proxy.core.turns import ScheduledSession
from proxy.shell.busy_polling import BusyPolling
from proxy.shell.loop_limits import MANY_EVENTS, SLOW_STEP_MS
from tests.support.core.fake_event_loop import FakeClock, FakeEventLoop
from tests.support.core.sessions import make_engine


class Scheduler:
    """Trio has nothing to do, and nothing is due there."""

    calls = True

    def __init__(self) -> None:
        self.ready: set[object] = set()

    def deadline_ms(self) -> float:
        return 1e9


class Timed(FakeEventLoop):
    """Sets the engine's time when a step begins, as the event loop does. A step takes `step_ms`."""

    step_ms = 0

    def step(self, timeout_s: float) -> int:
        self.engine.now_ms = self.clock.now_ms
        self.waits.append(timeout_s)
        self.clock.now_ms += self.step_ms
        return self.events.pop(0) if self.events else 0


@pytest.fixture
def timed():
    """Return an event loop without sockets, with its engine."""
    found = Timed([], FakeClock())
    found.engine = make_engine()
    yield found
    found.close()


def waits_of(timed: Timed, events: list[int]) -> list[float]:
    """Return how long a turn with these events waited before each step, in seconds."""
    timed.events[:] = events
    polling = BusyPolling(timed, timed.engine, timed.clock, Scheduler())
    polling.begin()
    polling.turn()
    return timed.waits


def test_a_wait_ends_when_the_next_timer_is_due(timed):
    """After few events, and after the turn's first step."""
    timed.engine.timers.arm(timed.clock() + 3, lambda _: None)

    assert waits_of(timed, [1, MANY_EVENTS - 1]) == [0.003] * 3


def test_after_many_events_a_wait_is_a_millisecond(timed):
    """No timer can be due earlier: all that is due was fired."""
    timed.engine.timers.arm(timed.clock() + 3, lambda _: None)

    assert waits_of(timed, [MANY_EVENTS, 1]) == [0.003, 0.001, 0.003]


@pytest.mark.parametrize("late", ["a timer that came due during the step", "one not fired yet"])
def test_after_many_events_a_timer_that_is_due_is_not_late(timed, late):
    """The next step does not wait."""
    if late == "one not fired yet":
        timed.engine.timers.arm(timed.clock() + 1, lambda _: None)
        timed.clock.now_ms += 1
        timed.engine.timers.due.append(timed.engine.timers.arm(timed.clock(), lambda _: None))
    else:
        timed.engine.timers.arm(timed.clock() + 2, lambda _: None)
        timed.step_ms = 2

    assert waits_of(timed, [MANY_EVENTS])[1] == 0


@pytest.mark.parametrize(
    "why", ["Trio's task is ready", "a session waits", "the step was slow", "none"]
)
def test_turns_end_when_something_else_must_run(timed, why):
    """Trio's tasks, a session with no poll that waits, a report. Else they last until no event comes any more."""
    scheduler = Scheduler()
    scheduler.ready = {object()} if why == "Trio's task is ready" else set()
    polling = BusyPolling(timed, timed.engine, timed.clock, scheduler)
    polling.begin()
    timed.events[:] = [1, 0, 1, 0]
    if why == "a session waits":
        timed.engine.turns.add(ScheduledSession())
    timed.step_ms = SLOW_STEP_MS + 1 if why == "the step was slow" else 0
    polling.turns()
    assert len(timed.waits) == {"the step was slow": 1, "none": 4}.get(why, 2)
