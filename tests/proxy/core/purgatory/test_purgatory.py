"""The purgatory with Kafka's own cases: its order and its counts."""

import pytest

from tests.support.core.purgatory import FAR_MS, Disturbed, Room, Waiting
from tests.support.messages.golden import cases


def test_an_operation_completes_when_its_key_is_checked_and_its_condition_holds():
    """It completes once, and not without a check; a check of an unwatched key completes nothing."""
    case = cases("purgatory")["purg-satisfaction"]
    room = Room()
    assert [room.call(line) for line in case["calls"]] == case["results"]
    assert room.purgatory.watched == room.purgatory.num_delayed == room.timers.size == 0


def test_an_operation_that_is_not_completed_expires_at_its_deadline():
    """It expires exactly then; the other one keeps waiting."""
    case = cases("purgatory")["purg-expiry"]
    room = Room()
    for name in case["timeout_ms"]:
        room.call(f"watch {name} key", timeouts_ms=case["timeout_ms"])
    room.timers.advance(case["after_ms"] - 1)
    assert not any(one.completed for one in room.operations.values())
    room.timers.advance(case["after_ms"])
    done = [name for name, one in room.operations.items() if one.completed]
    assert done == case["completed"]
    at_ms = case["after_ms"]
    assert room.operations["r1"].happened == [("complete", at_ms), ("expiration", at_ms)]


def test_a_completed_operation_leaves_the_timer_and_its_lists_at_once():
    """Both counts are exact, and no reference to the operation is kept."""
    case = cases("purgatory")["purg-purge-counts"]
    room = Room()
    num_delayed, watched = [], []
    for line in case["calls"]:
        room.call(line)
        num_delayed.append(room.purgatory.num_delayed)
        watched.append(room.purgatory.watched)
        assert room.timers.size == room.purgatory.num_delayed
    assert num_delayed == case["num_delayed"]
    assert watched == case["watched"]


def test_an_operation_that_is_complete_is_never_watched():
    """Only an operation that cannot complete is added to the lists."""
    case = cases("purgatory")["purg-safe-or-else"]
    for allowed, result, watched in zip(
        case["allowed"], case["result"], case["watched"], strict=True
    ):
        room = Room()
        operation = Waiting(allowed=allowed)
        assert room.purgatory.try_complete_else_watch(operation, ["key"], FAR_MS, 0) is result
        assert bool(room.purgatory.watched) is watched


def test_an_operation_without_a_key_is_refused():
    """No check could ever complete it; its condition is not even tried."""
    case = cases("purgatory")["purg-empty-keys"]
    room = Room()
    operation = Waiting(allowed=True)
    with pytest.raises(ValueError, match="at least one key"):
        room.purgatory.try_complete_else_watch(operation, case["keys"], FAR_MS, 0)
    assert not operation.completed


def test_an_operation_completed_after_the_second_try_is_not_put_on_the_timer():
    """Another call completed it, so this one returns False."""
    case = cases("purgatory")["purg-completed-between"]
    room = Room()
    operation = Disturbed(lambda it: it.force_complete(0))
    found = room.purgatory.try_complete_else_watch(operation, ["key"], 20, 0)
    assert found is case["result"]
    assert room.purgatory.num_delayed == room.timers.size == case["num_delayed"]
    room.timers.advance(20)
    assert operation.happened == [("complete", 0)] * case["completions"]


def test_an_operation_that_completes_while_its_keys_are_added_is_added_to_no_more():
    """Kafka does so from 4.0 on."""
    case = cases("purgatory")["purg-stop-after-complete"]
    room = Room()
    operation = Waiting()

    class Keys(list):
        def __iter__(self):
            for key in list.__iter__(self):
                yield key
                if key == case["completes_at"]:
                    operation.force_complete(0)

    assert not room.purgatory.try_complete_else_watch(operation, Keys(case["keys"]), 20, 0)
    assert room.purgatory.watched == len(case["watched_on"])
    assert room.purgatory.num_delayed == 0
