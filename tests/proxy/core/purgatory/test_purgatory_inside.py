"""Calls into the purgatory from inside its own callbacks, and the memory that an operation costs."""

import pytest

from proxy.core.purgatory.purgatory import DelayedOperation
from proxy.core.purgatory.timing_wheel import TimerEntry
from tests.support.core.purgatory import Chained, Disturbed, Room, Waiting


def test_the_second_try_sees_events_after_the_first():
    """The operation is on its lists by then, so no event in between is missed."""
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


def test_completing_an_operation_may_complete_others_and_watch_new_ones():
    """It may do so under the key that is checked, before and after its own place; new operations stay."""
    room = Room()

    def then():
        room.call("allow before")
        room.call("allow after")
        room.call("watch new key")
        counts.append(room.call("check key"))

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


def test_a_list_that_is_emptied_during_a_check_is_not_taken_for_its_successor():
    """The key belongs to the new list then."""
    room = Room()

    def then():
        assert room.lists() == {}
        room.call("watch new key")

    room.operations["old"] = Chained("old", then)
    room.call("watch old key")
    room.call("allow old")
    assert room.call("check key") == 1
    assert room.lists() == {"key": ["new"]}


def test_a_completed_operation_is_not_tried_again():
    """A check of its key skips it, and its deadline changes nothing."""
    room = Room()
    operation = Disturbed(lambda _: None)
    room.purgatory.try_complete_else_watch(operation, ["key"], 20, 0)
    assert operation.force_complete(5)
    assert room.call("check key") == 0
    operation.fire(20)
    assert operation.tries == 2
    assert operation.happened == [("complete", 5)]


def test_an_operation_that_raises_leaves_the_others_watched():
    """Operations that the check had not reached stay; the one that raised is completed."""
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


def test_an_operation_that_completes_another_removes_both_from_all_lists():
    """They are removed when the check returns, also from lists of other keys."""
    room = Room()
    room.operations["first"] = Chained("first", lambda: room.call("force second"))
    room.call("watch first a c")
    room.call("watch second b c")
    room.call("allow first")
    assert room.call("check a") == 1
    assert room.lists() == {}


def test_a_subclass_must_define_its_condition_and_its_completion():
    """There are no empty defaults for them; only `on_expiration` has one."""
    operation = DelayedOperation()
    with pytest.raises(NotImplementedError):
        operation.try_complete(0)
    with pytest.raises(NotImplementedError):
        operation.on_complete(0)
    operation.on_expiration(0)


def test_an_operation_costs_three_words_more_than_a_timer_entry():
    """It has no attribute dictionary."""
    assert not hasattr(DelayedOperation(), "__dict__")
    assert set(DelayedOperation.__slots__) == {"completed", "keys", "purgatory"}
    assert issubclass(DelayedOperation, TimerEntry)
