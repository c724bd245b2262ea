"""The timing wheel: Kafka's arithmetic to the millisecond, and the behaviour of a sorted list."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from proxy.core.purgatory.timing_wheel import NEVER_MS, TimerEntry, TimingWheel
from tests.support.messages.golden import cases


class Entry(TimerEntry):
    """Prints as its time."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{self.at_ms}"


def wheel_of(case):
    return TimingWheel(case["start_ms"], case["tick_ms"], case["wheel_size"])


def arrive(wheel, now_ms):
    """Return all entries that are due by `now_ms`."""
    come = []
    while due := wheel.advance(now_ms):
        come += due
    return come


def pops(wheel):
    """Advance to each bucket's time; return the times and the due entries' times."""
    found = []
    while (next_ms := wheel.next_ms()) is not None:
        found.append([next_ms, [entry.at_ms for entry in arrive(wheel, next_ms)]])
    return found


# -- Kafka's own cases ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["wheel-add", "wheel-expired", "wheel-current-tick-runs-now"])
def test_an_entry_waits_unless_it_falls_into_the_current_tick(name):
    """Such an entry is refused, and the queue is unchanged."""
    case = cases("wheel")[name]
    wheel = wheel_of(case)
    assert wheel.add(Entry(case["add_ms"])) is case["accepted"]
    assert wheel.size == int(case["accepted"])
    assert (wheel.next_ms() is not None) is case["accepted"]


@pytest.mark.parametrize(
    "name", ["wheel-advance-within-tick", "wheel-advance-next-tick", "wheel-start-rounded-down"]
)
def test_the_clock_stands_at_the_beginning_of_its_tick(name):
    """This holds at the start and after each advance."""
    case = cases("wheel")[name]
    wheel = wheel_of(case)
    wheel.advance(case["advance_ms"])
    assert wheel.now_ms == case["now_ms"]


def test_a_distant_entry_moves_down_level_by_level():
    """It becomes due with its coarse bucket, then with a finer one, at last with its own."""
    case = cases("wheel")["wheel-cascade-519"]
    wheel = wheel_of(case)
    wheel.add(Entry(case["add_ms"]))
    assert pops(wheel) == case["pops"]


def test_an_emptied_bucket_still_becomes_due():
    """The count drops at once; `prune` removes empty buckets to avoid the wake-up."""
    wheel = TimingWheel(100)
    for at_ms in (105, 109):
        entry = Entry(at_ms)
        wheel.add(entry)
        wheel.cancel(entry)
    assert wheel.size == 0
    assert wheel.next_ms() == 105
    assert arrive(wheel, 105) == []
    assert wheel.next_ms() == 109
    wheel.prune()
    assert wheel.next_ms() is None


# -- further properties ---------------------------------------------------------------------------


def test_a_wheel_of_no_width_is_refused():
    """A tick has at least 1 ms, a wheel at least two buckets."""
    for tick_ms, wheel_size in ((0, 20), (1, 1)):
        with pytest.raises(ValueError, match="tick_ms"):
            TimingWheel(0, tick_ms, wheel_size)


def test_an_hour_without_entries_needs_no_steps():
    """An entry that is added after it lies in the finest wheel at once."""
    wheel = TimingWheel(0)
    wheel.add(Entry(600_000))
    assert len(pops(wheel)) <= 4
    wheel.advance(4_200_000)
    wheel.add(Entry(4_200_015))
    assert wheel.next_ms() == 4_200_015


def test_entries_of_equal_time_are_due_in_order_across_buckets():
    """The oldest lies in the coarsest bucket, the newest in the finest."""
    wheel = TimingWheel(0)
    entries = []
    for now_ms in (0, 100, 385):
        wheel.advance(now_ms)
        entries += [Entry(400), Entry(400)]
        for entry in entries[-2:]:
            wheel.add(entry)
    assert wheel.advance(400) == entries


@pytest.mark.parametrize(("at_ms", "bucket_ms"), [(24, 24), (25, 20), (399, 380), (420, 400)])
def test_a_wheel_reaches_just_before_the_end_of_its_turn(at_ms, bucket_ms):
    """Its reach is counted from the start of its current tick; later times belong to the next wheel."""
    wheel = TimingWheel(5)
    wheel.add(Entry(at_ms))
    assert wheel.next_ms() == bucket_ms


def test_an_entry_can_be_cancelled_in_every_place():
    """It may lie in a coarse bucket, be on its way down, or be due; its siblings are not affected."""
    for now_ms in (0, 400, 500, 519):
        wheel = TimingWheel(0)
        entry, sibling = Entry(519), Entry(519)
        wheel.add(entry)
        wheel.add(sibling)
        due = wheel.advance(now_ms)
        entry.cancel()
        assert entry.cancelled
        assert [one for one in [*due, *arrive(wheel, 519)] if not one.cancelled] == [sibling]


def test_cancelling_a_due_entry_does_not_affect_the_buckets_next_turn():
    """The entry still refers to its former bucket."""
    wheel = TimingWheel(0)
    old, new = Entry(5), Entry(25)
    wheel.add(old)
    arrive(wheel, 20)
    wheel.add(new)
    old.cancel()
    assert wheel.size == 1
    assert arrive(wheel, 25) == [new]


def test_a_subclass_must_define_what_an_entry_does_when_it_is_due():
    """There is no empty default."""
    with pytest.raises(NotImplementedError):
        TimerEntry(1).fire(1)


class SortedList(RuleBasedStateMachine):
    """The wheel beside a list of waiting entries, sorted by time and then by order of adding."""

    @initialize(
        start_ms=st.sampled_from([0, 1003, 1_763_000_000_123]),
        tick_ms=st.sampled_from([1, 1, 1, 10]),
        wheel_size=st.sampled_from([2, 3, 20]),
    )
    def begin(self, start_ms, tick_ms, wheel_size):
        self.wheel = TimingWheel(start_ms, tick_ms, wheel_size)
        self.now_ms = start_ms
        self.tick_ms = tick_ms
        self.order = 0
        self.waiting: dict[Entry, int] = {}

    def tick_of(self, at_ms):
        return at_ms - at_ms % self.tick_ms

    def put(self, entry):
        self.order += 1
        self.waiting.pop(entry, None)
        if self.wheel.add(entry):
            self.waiting[entry] = self.order
            assert self.tick_of(entry.at_ms) > self.wheel.now_ms
        else:
            assert self.tick_of(entry.at_ms) <= self.wheel.now_ms

    def one(self, data):
        return data.draw(st.sampled_from(list(self.waiting)))

    near = st.integers(0, 12)
    delays = st.one_of(near, st.integers(-5, 60), st.integers(0, 1000), st.integers(0, 300_000))

    @rule(delays_ms=st.lists(delays, min_size=1, max_size=5))
    def add(self, delays_ms):
        for delay_ms in delays_ms:
            self.put(Entry(self.now_ms + delay_ms))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def add_another_for_the_same_time(self, data):
        self.put(Entry(self.one(data).at_ms))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), delay_ms=delays)
    def move(self, data, delay_ms):
        entry = self.one(data)
        entry.at_ms = self.now_ms + delay_ms
        self.put(entry)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data):
        entry = self.one(data)
        self.wheel.cancel(entry)
        del self.waiting[entry]
        assert not self.wheel.add(entry)

    @rule(within_ms=st.one_of(near, delays.map(abs)))
    def next_by(self, within_ms):
        """As `prune` and `next_ms`, but nothing later than the end of a wait."""
        until_ms = self.now_ms + within_ms
        found = self.wheel.next_by(until_ms)
        if found < until_ms:
            assert found == self.wheel.next_ms()
        self.wheel.prune()
        next_ms = self.wheel.next_ms()
        assert found == (until_ms if next_ms is None else min(until_ms, next_ms))

    @rule()
    def prune(self):
        self.wheel.prune()
        assert (self.wheel.next_ms() is None) is not bool(self.waiting)

    @rule(data=st.data(), by_ms=st.one_of(near, near, delays.map(abs)), between=st.booleans())
    def advance(self, data, by_ms, between):
        """Advance tick by tick; entries may be added and cancelled in between."""
        until_ms = self.now_ms + by_ms
        while due := self.wheel.advance(until_ms):
            tick = min(self.tick_of(entry.at_ms) for entry in self.waiting)
            assert tick <= until_ms
            expected = [entry for entry in self.waiting if self.tick_of(entry.at_ms) == tick]
            expected.sort(key=lambda entry: (entry.at_ms, self.waiting[entry]))
            assert due == expected
            for entry in due:
                del self.waiting[entry]
            self.now_ms = tick
            if between:
                self.put(Entry(tick + data.draw(self.delays)))
                if self.waiting and data.draw(st.booleans()):
                    self.cancel(data)
        self.now_ms = until_ms
        assert all(self.tick_of(entry.at_ms) > until_ms for entry in self.waiting)
        assert self.wheel.now_ms == self.tick_of(until_ms)

    @rule()
    def advance_to_the_next_bucket(self):
        next_ms = self.wheel.next_ms()
        if next_ms is not None:
            due = arrive(self.wheel, next_ms)
            assert all(self.tick_of(entry.at_ms) == next_ms for entry in due)
            for entry in due:
                del self.waiting[entry]
            self.now_ms = next_ms

    @invariant()
    def the_count_is_exact_and_no_entry_is_late(self):
        assert self.wheel.size == len(self.waiting)
        next_ms = self.wheel.next_ms()
        if self.waiting:
            assert self.now_ms < next_ms <= min(entry.at_ms for entry in self.waiting)

    @invariant()
    def the_soonest_time_is_that_of_the_first_bucket(self):
        next_ms = self.wheel.next_ms()
        assert self.wheel.soonest_ms == (NEVER_MS if next_ms is None else next_ms)


def test_the_wheel_equals_a_sorted_list():
    """This holds for any interleaving of add, move, cancel and advance, and for all ticks and sizes."""
    run_state_machine_as_test(SortedList)
