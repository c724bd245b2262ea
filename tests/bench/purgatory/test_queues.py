"""The timers that are compared: different costs, the same effect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.purgatory.linked_wheel import LinkedRequest, LinkedTimers
from bench.purgatory.play import Book, Request
from bench.purgatory.queues import HashedWheel, SimpleWheel, TimerHeap, TimerList
from proxy.core.purgatory.timers import Timers

MAKERS = {
    "list": TimerList,
    "heap": TimerHeap,
    "simple": lambda: SimpleWheel(256),
    "hashed": lambda: HashedWheel(16),
    "wheel": Timers,
    "linked": LinkedTimers,
}
scripts = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(-3, 250)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("advance"), st.one_of(st.integers(0, 5), st.integers(0, 300))),
    ),
    max_size=50,
)


def noting(base):
    """Return entries of this kind that record when they fire, and may then cancel another."""

    class Noting(base):
        __slots__ = ("fired_ms", "victim")

        def __init__(self, at_ms, victim=None):
            super().__init__(0, Book([]))
            self.at_ms = at_ms
            self.victim = victim
            self.fired_ms: list[int] = []

        def fire(self, now_ms):
            assert not self.cancelled
            self.fired_ms.append(now_ms)
            self.cancel()
            if self.victim is not None:
                self.victim.cancel()

    return Noting


@pytest.mark.parametrize("name", MAKERS)
@given(script=scripts)
def test_each_entry_fires_once_when_its_time_has_come_and_no_cancelled_one_does(name, script):
    """It fires at the first advance to its time or beyond, in any structure."""
    queue = MAKERS[name]()
    kind = noting(LinkedRequest if name == "linked" else Request)
    now_ms = 0
    waiting, entries = [], []
    for what, value in [*script, ("advance", 300)]:
        if what == "add":
            entries.append(kind(now_ms + value))
            waiting.append(entries[-1])
            queue.add(entries[-1])
        elif what == "cancel" and entries:
            entry = entries[value % len(entries)]
            entry.cancel()
            waiting = [one for one in waiting if one is not entry]
        elif what == "advance" and value:
            now_ms += value
            queue.advance(now_ms)
            due = [one for one in waiting if one.at_ms <= now_ms]
            waiting = [one for one in waiting if one.at_ms > now_ms]
            assert all(one.fired_ms == [now_ms] for one in due)
            assert not any(one.fired_ms for one in waiting)
    assert sum(len(one.fired_ms) for one in entries) <= len(entries)


@pytest.mark.parametrize("name", MAKERS)
def test_an_entry_may_cancel_another_that_is_due_with_it(name):
    """The cancelled one does not fire, and is not found again."""
    queue = MAKERS[name]()
    kind = noting(LinkedRequest if name == "linked" else Request)
    victim = kind(7)
    first = kind(7, victim)
    queue.add(first)
    queue.add(victim)
    queue.advance(300)
    queue.advance(600)
    assert (first.fired_ms, victim.fired_ms) == ([300], [])
