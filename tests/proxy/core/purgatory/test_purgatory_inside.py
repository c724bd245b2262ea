"""What comes back into the purgatory while it works, and what it costs to be in it."""

from __future__ import annotations

import pytest

from proxy.core.purgatory.purgatory import DelayedOperation
from proxy.core.purgatory.timing_wheel import TimerEntry
from tests.support.purgatory import Chained, Disturbed, Room, Waiting


def test_the_second_try_sees_what_happened_since_the_first():
    """The operation is on its lists by then, so an event in between is not missed; it waits for nothing."""
    room = Room()
    seen: list[object] = []

    class Late(Waiting):
        __slots__ = ()

        def try_complete(self, now_ms):
            seen.append((room.lists(), self.cancelled))
            self.allowed = len(seen) == 2
            return super().try_complete(now_ms)

    late = Late("late")
    assert room.purgatory.try_complete_else_watch(late, ["a", "b"], 20, 0)
    assert seen == [({}, False), ({"a": ["late"], "b": ["late"]}, False)]
    assert room.purgatory.num_delayed == room.timers.size == 0
    assert room.purgatory.watched == 0
    assert room.purgatory.estimated_total == 1


def test_one_cancelled_before_it_could_wait_never_does():
    """Whoever took the key away has it in hand and completes it."""
    room = Room()
    taken: list[DelayedOperation] = []
    operation = Disturbed(lambda _: taken.extend(room.purgatory.cancel_for_key("key")))
    assert not room.purgatory.try_complete_else_watch(operation, ["key"], 20, 0)
    assert taken == [operation]
    assert room.purgatory.num_delayed == room.timers.size == 0
    assert operation.force_complete(3)
    room.timers.advance(100)
    assert operation.happened == [("complete", 3)]


def test_completing_one_may_complete_its_neighbours_and_watch_new_ones():
    """Also those the walk has passed, by the very key being checked; what is new stays."""
    room = Room()

    def then():
        room.call("allow before")
        room.call("allow after")
        room.call("watch new key")
        counts.append(room.call("check key"))
        room.purgatory.purge()

    counts: list[int] = []
    room.operations["middle"] = Chained("middle", then)
    for name in ("before", "middle", "after"):
        room.call(f"watch {name} key")
    room.call("allow middle")
    assert room.call("check key") == 1
    assert counts == [2]
    assert room.lists() == {"key": ["new"]}
    assert room.purgatory.num_delayed == room.timers.size == 1
    done = [one for name, one in room.operations.items() if name != "new"]
    assert [one.happened for one in done] == [[("complete", 0)]] * 3


def test_a_list_that_was_emptied_meanwhile_is_not_taken_for_the_one_that_came_after():
    """The key belongs to the new list."""
    room = Room()

    def then():
        room.purgatory.purge()
        assert room.lists() == {}
        room.call("watch new key")

    room.operations["old"] = Chained("old", then)
    room.call("watch old key")
    room.call("allow old")
    assert room.call("check key") == 1
    assert room.lists() == {"key": ["new"]}


def test_a_purge_in_the_middle_of_a_check_hides_nobody_from_it():
    """The list grows shorter under the walk."""
    room = Room()
    room.operations["first"] = Chained("first", room.purgatory.purge)
    for name in ("first", "second", "third"):
        room.call(f"watch {name} key")
        room.call(f"allow {name}")
    assert room.call("check key") == 3
    assert room.lists() == {}


def test_what_is_complete_is_left_in_peace():
    """It is not tried again when its key is checked, and its deadline, come late, changes nothing."""
    room = Room()
    operation = Disturbed(lambda _: None)
    room.purgatory.try_complete_else_watch(operation, ["key"], 20, 0)
    assert operation.force_complete(5)
    assert room.call("check key") == 0
    operation.fire(20)
    assert operation.tries == 2
    assert operation.happened == [("complete", 5)]


def test_one_that_fails_takes_no_other_with_it():
    """What it had not come to yet is still watched; it itself is done."""
    room = Room()

    def then():
        raise RuntimeError

    room.operations["bad"] = Chained("bad", then)
    room.call("watch bad key")
    room.call("watch good key")
    room.call("allow bad")
    room.call("allow good")
    with pytest.raises(RuntimeError):
        room.call("check key")
    assert room.purgatory.num_delayed == room.timers.size == 1
    assert room.call("check key") == 1
    assert room.lists() == {}


def test_a_deadline_that_has_passed_completes_with_the_next_advance():
    """The operation is watched and counted until then."""
    room = Room()
    room.timers.advance(50)
    operation = Waiting()
    assert not room.purgatory.try_complete_else_watch(operation, ["key"], 40, 50)
    assert room.purgatory.num_delayed == 1
    assert room.timers.next_ms() == 40
    room.timers.advance(50)
    assert operation.happened == [("complete", 50), ("expiration", 50)]
    assert room.purgatory.num_delayed == 0


def test_the_purge_begins_with_a_new_estimate():
    """So what is watched after it counts anew; asked again there is nothing to do."""
    room = Room(purge_interval=2)
    for name in ("a", "b", "c"):
        room.call(f"watch {name} {name}")
        room.call(f"force {name}")
    assert room.purgatory.maybe_purge() == 3
    assert room.purgatory.estimated_total == 0
    assert room.purgatory.maybe_purge() is None
    assert room.purgatory.purge() == 0


def test_one_that_was_cancelled_is_in_no_list_any_more():
    """Whoever took its key away has it in hand; its other keys find nothing to try."""
    room = Room(purge_interval=0)
    room.call("watch r1 a b")
    (taken,) = room.purgatory.cancel_for_key("a")
    assert room.lists() == {}
    assert room.call("check b") == 0
    assert taken.force_complete(0)
    assert room.purgatory.maybe_purge() == 1
    assert room.purgatory.maybe_purge() is None


def test_one_that_completes_another_on_its_way_leaves_no_trace_of_either():
    """Both are out of all lists when the check returns, also of those that it did not look at."""
    room = Room()
    room.operations["first"] = Chained("first", lambda: room.call("force second"))
    room.call("watch first a c")
    room.call("watch second b c")
    room.call("allow first")
    assert room.call("check a") == 1
    assert room.lists() == {}
    assert room.purgatory.estimated_total == 2


def test_a_subclass_says_when_it_is_complete_and_what_happens_then():
    """There is no empty default to forget about, but that nothing more need happen at the deadline."""
    operation = DelayedOperation()
    with pytest.raises(NotImplementedError):
        operation.try_complete(0)
    with pytest.raises(NotImplementedError):
        operation.on_complete(0)
    operation.on_expiration(0)


def test_it_costs_no_more_than_three_words_over_a_timers_entry():
    """No dict of attributes hangs on an operation."""
    assert not hasattr(DelayedOperation(), "__dict__")
    assert set(DelayedOperation.__slots__) == {"completed", "keys", "purgatory"}
    assert issubclass(DelayedOperation, TimerEntry)
