"""Timers: due ones fire once and in order; cancelled ones never fire."""

import heapq
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.purgatory.timers import MAX_FIRED, Timer, Timers
from proxy.core.purgatory.timing_wheel import TimerEntry

START_MS = 1_763_000_000_123


class Heap:
    """The oracle: the same interface over a heap, sorted by time and then by the order of arming."""

    def __init__(self, _start_ms: int) -> None:
        self.heap: list[tuple[int, int, Timer]] = []
        self.order = count()

    def arm(self, at_ms, call):
        timer = Timer(at_ms, call)
        heapq.heappush(self.heap, (at_ms, next(self.order), timer))
        return timer

    def advance(self, now_ms):
        while self.heap and self.heap[0][0] <= now_ms:
            heapq.heappop(self.heap)[2].fire(now_ms)

    @property
    def size(self):
        return sum(not timer.cancelled for _, _, timer in self.heap)


delays = st.one_of(st.integers(-30, 60), st.integers(-5, 1000), st.integers(0, 100_000))
deeds = st.lists(
    st.one_of(
        st.tuples(st.just("arm"), delays),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
    ),
    max_size=3,
)
scripts = st.lists(
    st.one_of(
        st.tuples(st.just("arm"), delays, deeds),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("advance"), st.one_of(st.integers(0, 30), st.integers(0, 2000))),
    ),
    max_size=30,
)


def play(timers, script):
    """Run the script; return which timers fired when, and the number waiting after each advance.

    A timer that fires runs its actions: it arms others relative to its own time, or cancels some.
    """
    now_ms = START_MS
    made: list[Timer] = []
    log: list[object] = []

    def cancel(which):
        if made:
            made[which % len(made)].cancel()

    def arm(at_ms, then):
        number = len(made)

        def call(fired_ms):
            assert fired_ms >= at_ms
            log.append((number, fired_ms))
            for deed, value in then:
                if deed == "arm":
                    arm(at_ms + value, ())
                else:
                    cancel(value)

        made.append(timers.arm(at_ms, call))

    for what, *values in [*script, ("advance", 300_000)]:
        if what == "arm":
            arm(now_ms + values[0], values[1])
        elif what == "cancel":
            cancel(values[0])
        else:
            now_ms += values[0]
            timers.advance(now_ms)
            log.append(timers.size)
    return log


@given(scripts)
def test_timers_fire_exactly_as_from_a_sorted_list(script):
    """This holds for any script: armed and cancelled from outside or while firing, in the past or far ahead."""
    assert play(Timers(START_MS), script) == play(Heap(START_MS), script)


@given(st.lists(st.tuples(delays, st.booleans()), max_size=20))
def test_no_timer_is_late_when_time_advances_to_each_next_time(wanted):
    """Each fires in its own millisecond; without a waiting timer the next time is None."""
    timers = Timers(START_MS)
    fired: list[tuple[int, int]] = []
    expected = []
    for delay_ms, cancelled in wanted:
        at_ms = START_MS + delay_ms
        timer = timers.arm(at_ms, lambda now_ms, at_ms=at_ms: fired.append((at_ms, now_ms)))
        if cancelled:
            timer.cancel()
        else:
            expected.append((at_ms, max(at_ms, START_MS)))
    now_ms = START_MS
    while (next_ms := timers.next_ms()) is not None:
        now_ms = max(now_ms, next_ms)
        timers.advance(now_ms)
    assert fired == sorted(expected)
    assert timers.size == 0


def test_the_next_time_ignores_cancelled_timers():
    """The driver is not woken without a due timer."""
    timers = Timers()
    first = timers.arm(5, lambda _: None)
    timers.arm(9, lambda _: None)
    assert (timers.next_ms(), timers.next_by(4), timers.next_by(8)) == (5, 4, 5)
    first.cancel()
    assert first.cancelled
    assert (timers.next_by(8), timers.next_by(10), timers.next_ms()) == (8, 9, 9)
    late = timers.arm(0, lambda _: None)
    assert (timers.next_ms(), timers.next_by(10)) == (0, 0)
    late.cancel()
    assert (timers.next_by(8), timers.next_ms()) == (8, 9)


def test_a_cancelled_timer_keeps_no_reference():
    """It drops its call and its place in the wheel."""
    timers = Timers()
    timer = timers.arm(500, lambda _: None)
    timer.cancel()
    timer.cancel()
    assert timer.call is None
    assert timers.size == 0
    timer.fire(500)


def test_an_hour_without_timers_needs_at_most_twenty_wake_ups():
    """This holds too when the first timer is far from the start of the clock."""
    timers = Timers()
    fired: list[int] = []
    timers.arm(START_MS, fired.append)
    timers.arm(START_MS + 3_600_000, fired.append)
    wakes = 0
    while (next_ms := timers.next_ms()) is not None:
        timers.advance(next_ms)
        wakes += 1
    assert fired == [START_MS, START_MS + 3_600_000]
    assert wakes <= 20


def test_a_call_that_raises_leaves_the_other_timers():
    """The remaining ones fire in the next advance, even if the clock has not moved."""
    timers = Timers()
    fired: list[int] = []

    def fail(_now_ms):
        raise RuntimeError

    for at_ms in (5, 5, 6):
        timers.arm(at_ms, fail if not timers.size else fired.append)
    with pytest.raises(RuntimeError):
        timers.advance(7)
    timers.advance(7)
    assert fired == [7, 7]


class Entry(TimerEntry):
    """Remembers when it fired; adds itself again if asked to."""

    __slots__ = ("again_ms", "fired", "timers")

    def __init__(self, timers: Timers, at_ms: int, again_ms: int = 0) -> None:
        super().__init__(at_ms)
        self.timers = timers
        self.again_ms = again_ms
        self.fired: list[int] = []

    def fire(self, now_ms: int) -> None:
        self.fired.append(now_ms)
        if self.again_ms:
            self.at_ms, self.again_ms = self.again_ms, 0
            self.timers.add(self)


def test_an_entry_of_a_subclass_fires_without_a_timer_of_its_own():
    """It fires at its time, can be moved while it waits, and can be added again when it fires."""
    timers = Timers()
    entry = Entry(timers, 50, again_ms=80)
    timers.add(entry)
    entry.at_ms = 40
    timers.add(entry)
    assert timers.size == 1
    for now_ms in (39, 40, 50, 79, 80, 100):
        timers.advance(now_ms)
    assert entry.fired == [40, 80]


def test_a_late_or_cancelled_entry_is_treated_like_a_timer():
    """The late one fires in the next advance, the cancelled one never."""
    timers = Timers()
    timers.advance(10)
    late, cancelled, dropped = (Entry(timers, at_ms) for at_ms in (9, 9, 20))
    timers.add(late)
    timers.add(cancelled)
    cancelled.cancel()
    dropped.cancel()
    timers.add(dropped)
    assert timers.size == 1
    timers.advance(30)
    assert (late.fired, cancelled.fired, dropped.fired) == ([30], [], [])


def test_a_thousand_due_timers_fire_over_several_advances():
    """They fire in order, a bounded number an advance; the rest is due at once, even if the clock stands still."""
    timers = Timers(START_MS)
    fired: list[int] = []
    for number in range(MAX_FIRED * 2 + 1):
        timers.arm(START_MS + 5, lambda _, number=number: fired.append(number))
    for turn in range(1, 3):
        timers.advance(START_MS + 5)
        assert fired == list(range(MAX_FIRED * turn))
        assert timers.next_ms() == START_MS + 5
    timers.advance(START_MS + 5)
    assert len(fired) == MAX_FIRED * 2 + 1
    assert timers.next_ms() is None


class Moving(TimerEntry):
    """Records when it fires, then runs the given action."""

    def __init__(self, at_ms, fired, then=lambda: None):
        super().__init__(at_ms)
        self.fired = fired
        self.then = then

    def fire(self, now_ms):
        self.fired.append((self, now_ms))
        self.then()


@pytest.mark.parametrize(("at_ms", "when_ms"), [(20, 20), (5, 10), (10, 10), (5000, 5000)])
@pytest.mark.parametrize("times", [1, 2])
def test_an_entry_that_another_one_moves_in_the_same_batch_fires_once(at_ms, when_ms, times):
    """It may be moved into the future or into the past."""
    timers, fired = Timers(), []
    second = Moving(10, fired)

    def move():
        for _ in range(times):
            second.at_ms = at_ms
            timers.add(second)

    first = Moving(10, fired, move)
    timers.add(first)
    timers.add(second)
    for now_ms in (10, 20, 21, 5000, 6000):
        timers.advance(now_ms)
    assert fired == [(first, 10), (second, when_ms)]
    assert timers.size == 0


@pytest.mark.parametrize("at_ms", [20, 75, 5000])
def test_a_due_entry_that_moves_leaves_the_order_of_the_others(at_ms):
    """One that is armed afterwards fires in its place; the one that moved does in its own."""
    timers, fired = Timers(), []
    timers.advance(100)
    entries = [Moving(due_ms, fired) for due_ms in (50, 60, 70, 80, 90)]
    for entry in entries:
        timers.add(entry)
    entries[2].at_ms = at_ms
    timers.add(entries[2])
    entries.append(Moving(85, fired))
    timers.add(entries[-1])
    assert timers.size == 6
    timers.advance(100)
    timers.advance(5000)
    assert [entry for entry, _ in fired] == sorted(entries, key=lambda entry: entry.at_ms)
    assert timers.size == 0


@pytest.mark.parametrize("at_ms", [50, 5000])
def test_an_entry_that_is_removed_fires_only_if_it_is_added_again(at_ms):
    """It may wait, be due, or be neither."""
    timers, fired = Timers(), []
    timers.advance(100)
    entry = Moving(at_ms, fired)
    timers.remove(entry)
    timers.add(entry)
    timers.remove(entry)
    assert timers.size == 0
    timers.advance(6000)
    assert not fired
    entry.at_ms = 7000
    timers.add(entry)
    timers.advance(7000)
    timers.remove(entry)
    timers.advance(9000)
    assert fired == [(entry, 7000)]
