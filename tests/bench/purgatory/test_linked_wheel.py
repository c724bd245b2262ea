"""The wheel with linked lists equals the project's, entry for entry, in the same order."""

from hypothesis import given
from hypothesis import strategies as st

from bench.purgatory.linked_wheel import ALONE, LinkedRequest, LinkedWheel
from bench.purgatory.play import Book
from proxy.core.purgatory.timing_wheel import TimerEntry, TimingWheel


class Linked(LinkedRequest):
    """With a number."""

    __slots__ = ("number",)

    def __init__(self, at_ms, number):
        super().__init__(0, Book([]))
        self.at_ms = at_ms
        self.number = number


class Plain(TimerEntry):
    """With a number."""

    __slots__ = ("number",)

    def __init__(self, at_ms, number):
        super().__init__(at_ms)
        self.number = number


delays = st.one_of(st.integers(-5, 30), st.integers(0, 1000), st.integers(0, 100_000))
scripts = st.lists(
    st.one_of(
        st.tuples(st.just("add"), delays),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("advance"), delays.map(abs)),
    ),
    max_size=40,
)


def play(wheel, kind, script):
    """Return the entries that fired at each step."""
    now_ms = 1003
    entries, log = [], []
    for what, value in [*script, ("advance", 200_000)]:
        if what == "add":
            entries.append(kind(now_ms + value, len(entries)))
            log.append(wheel.add(entries[-1]))
        elif what == "cancel" and entries:
            entries[value % len(entries)].cancel()
        elif what == "advance":
            now_ms += value
            while due := wheel.advance(now_ms):
                log.append([one.number for one in due])
    return log


@given(scripts)
def test_it_equals_the_projects_own_wheel(script):
    """It refuses the same entries, and fires the same ones in the same step and order."""
    assert play(LinkedWheel(1003), Linked, script) == play(TimingWheel(1003), Plain, script)


def test_an_entry_that_left_a_list_holds_no_link():
    """Neither to its neighbours nor to itself, so it is freed at once."""
    wheel = LinkedWheel(0)
    first, second, third = (Linked(500, number) for number in range(3))
    for entry in (first, second, third):
        wheel.add(entry)
    second.cancel()
    assert second.before is second.after is ALONE
    assert first.after is third
    while wheel.advance(600):
        pass
    assert first.before is first.after is ALONE
    assert ALONE.before is ALONE.after is ALONE
