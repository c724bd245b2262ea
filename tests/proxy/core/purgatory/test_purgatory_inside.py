"""Calls into the purgatory from inside its own callbacks."""

import pytest

from proxy.core.purgatory.purgatory import DelayedOperation
from tests.support.core.purgatory import Chained, Disturbed, Room, Waiting


def test_the_second_try_sees_events_after_the_first():
    """The operation is on its lists by then, so no event in between is missed."""
    room = Room()
    seen: list[object] = []

    class Late(Waiting):
        __slots__ = ()

        def try_complete(self, now_ms):
            seen.append((room.purgatory.watched, self.cancelled))
            self.allowed = len(seen) == 2
            return super().try_complete(now_ms)

    late = Late("late")
    assert room.purgatory.try_complete_else_watch(late, ["a", "b"], 20, 0)
    assert seen == [(0, False), (2, False)]
    assert room.purgatory.num_delayed == room.timers.size == 0
    assert room.purgatory.watched == 0


def test_a_list_that_is_emptied_during_a_check_is_not_taken_for_its_successor():
    """The key belongs to the new list then."""
    room = Room()

    def then():
        assert room.purgatory.watched == 0
        room.call("watch new key")

    room.operations["old"] = Chained("old", then)
    room.call("watch old key")
    room.call("allow old")
    assert room.call("check key") == 1
    room.call("allow new")
    assert room.call("check key") == 1


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
    assert room.purgatory.watched == 0


def test_a_subclass_must_define_its_condition_and_its_completion():
    """There are no empty defaults for them; only `on_expiration` has one."""
    operation = DelayedOperation()
    with pytest.raises(NotImplementedError):
        operation.try_complete(0)
    with pytest.raises(NotImplementedError):
        operation.on_complete(0)
    operation.on_expiration(0)
