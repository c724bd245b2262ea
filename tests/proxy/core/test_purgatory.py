"""The purgatory: Kafka's order and counts, and each operation completes exactly once whatever happens."""

from __future__ import annotations

import pytest

from proxy.core.purgatory import DelayedOperation, Purgatory
from proxy.core.timers import Timers
from proxy.core.timing_wheel import TimerEntry
from tests.support.golden import cases

FAR_MS = 1_000_000


class Waiting(DelayedOperation):
    """Complete when it is allowed to be; remembers what happened to it, in order."""

    __slots__ = ("allowed", "happened", "name")

    def __init__(self, name: str = "", *, allowed: bool = False) -> None:
        super().__init__()
        self.name = name
        self.allowed = allowed
        self.happened: list[tuple[str, int]] = []

    def __repr__(self) -> str:
        return self.name

    def try_complete(self, now_ms):
        return self.allowed and self.force_complete(now_ms)

    def on_complete(self, now_ms):
        assert self.completed
        assert self.cancelled
        assert self.purgatory is None
        self.happened.append(("complete", now_ms))

    def on_expiration(self, now_ms):
        self.happened.append(("expiration", now_ms))


class Room:
    """A purgatory on real timers, and its operations by name."""

    def __init__(self, purge_interval: int = 1000) -> None:
        self.timers = Timers()
        self.purgatory = Purgatory("Test", self.timers, purge_interval)
        self.operations: dict[str, Waiting] = {}

    def call(self, text, now_ms=0, timeouts_ms=None):
        """Do what a golden case's line says; what came of it."""
        what, name, *keys = text.split()
        if what == "check":
            return self.purgatory.check_and_complete(name, now_ms)
        operation = self.operations.setdefault(name, Waiting(name))
        if what == "watch":
            at_ms = now_ms + (timeouts_ms or {}).get(name, FAR_MS)
            return self.purgatory.try_complete_else_watch(operation, keys, at_ms, now_ms)
        if what == "force":
            return operation.force_complete(now_ms)
        assert what == "allow"
        operation.allowed = True
        return ""

    def lists(self):
        return {key: [str(one) for one in ones] for key, ones in self.purgatory._watchers.items()}


# -- Kafka's own cases ----------------------------------------------------------------------------


def test_an_operation_completes_when_its_key_is_checked_and_its_condition_holds():
    """Not before, not without a check, and not twice; a key nobody waits for gives nothing."""
    case = cases("purgatory")["purg-satisfaction"]
    room = Room()
    assert [room.call(line) for line in case["calls"]] == case["results"]
    assert room.purgatory.watched == room.purgatory.num_delayed == room.timers.size == 0
    assert room.lists() == {}


def test_one_that_nobody_completes_completes_at_its_deadline():
    """Exactly then; the other goes on waiting."""
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


def test_a_completed_operation_leaves_the_timer_at_once_and_its_lists_when_they_are_checked():
    """So both counts are what Kafka's gauges show."""
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


def test_cancelling_a_key_gives_back_its_operations_uncompleted():
    """They leave the timer; completing them is the caller's business, and still happens once."""
    case = cases("purgatory")["purg-cancel-key"]
    room = Room()
    for line in case["calls"]:
        room.call(line)
    returned = room.purgatory.cancel_for_key(case["key"])
    assert len(returned) == case["returned"]
    assert not any(one.completed for one in returned)
    assert room.purgatory.num_delayed == room.timers.size == case["num_delayed"]
    assert room.purgatory.watched == case["watched"]
    assert [one.force_complete(5) for one in returned] == [True, True]
    assert room.purgatory.num_delayed == case["num_delayed"]
    assert room.purgatory.cancel_for_key(case["key"]) == []


def test_what_is_already_complete_is_never_watched():
    """Only what cannot complete takes the other way."""
    case = cases("purgatory")["purg-safe-or-else"]
    for allowed, result, watched in zip(
        case["allowed"], case["result"], case["watched"], strict=True
    ):
        room = Room()
        operation = Waiting(allowed=allowed)
        assert room.purgatory.try_complete_else_watch(operation, ["key"], FAR_MS, 0) is result
        assert bool(room.purgatory.watched) is watched
        assert room.purgatory.estimated_total == int(watched)


def test_an_operation_without_a_key_is_refused():
    """Nothing could ever wake it; it is not even tried."""
    case = cases("purgatory")["purg-empty-keys"]
    room = Room()
    operation = Waiting(allowed=True)
    with pytest.raises(ValueError, match="at least one key"):
        room.purgatory.try_complete_else_watch(operation, case["keys"], FAR_MS, 0)
    assert not operation.completed


def test_the_purge_comes_when_more_than_the_interval_may_be_done():
    """Strictly more; afterwards the estimate is the number still pending."""
    case = cases("purgatory")["purg-threshold"]
    for completed, purged in zip(case["completed"], case["purged"], strict=True):
        room = Room(case["purge_interval"])
        for nth in range(case["pending"]):
            room.call(f"watch pending{nth} key")
        for nth in range(completed):
            room.call(f"watch r{nth} key other")
            room.call(f"force r{nth}")
        assert room.purgatory.maybe_purge() == (2 * completed if purged else None)
        left = case["pending"] + (0 if purged else 2 * completed)
        assert room.purgatory.watched == left
        pending_or_done = case["pending"] + (0 if purged else completed)
        assert room.purgatory.estimated_total == pending_or_done
        assert ("other" in room.lists()) is not purged


def test_the_estimate_counts_operations_not_keys():
    """Once each, whatever the number of keys."""
    case = cases("purgatory")["purg-estimate-counts-ops-not-keys"]
    room = Room()
    room.call(" ".join(["watch", "r1", *(f"key{nth}" for nth in range(case["keys"]))]))
    found = room.purgatory
    assert found.estimated_total == case["estimated_total"]
    assert (found.watched, found.num_delayed) == (case["watched"], case["num_delayed"])


class Disturbed(Waiting):
    """Somebody else does something to it while it is tried for the second time, in vain."""

    __slots__ = ("disturb", "tries")

    def __init__(self, disturb) -> None:
        super().__init__()
        self.disturb = disturb
        self.tries = 0

    def try_complete(self, now_ms):
        self.tries += 1
        if self.tries == 2:
            self.disturb(self)
        return False


def test_what_completes_after_the_second_try_is_not_put_on_the_timer():
    """It was not this call that completed it, so it says False."""
    case = cases("purgatory")["purg-completed-between"]
    room = Room()
    operation = Disturbed(lambda it: it.force_complete(0))
    found = room.purgatory.try_complete_else_watch(operation, ["key"], 20, 0)
    assert found is case["result"]
    assert room.purgatory.num_delayed == room.timers.size == case["num_delayed"]
    room.timers.advance(20)
    assert operation.happened == [("complete", 0)] * case["completions"]


def test_what_completes_while_it_is_watched_is_watched_no_further():
    """As in Kafka from 4.0 on."""
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
    assert list(room.lists()) == case["watched_on"]
    assert room.purgatory.num_delayed == 0


class Future(DelayedOperation):
    """Kafka's DelayedFuture: waits for several results; what is not there in time is an error."""

    __slots__ = ("results", "sum", "timed_out")

    def __init__(self, results: list[int]) -> None:
        super().__init__()
        self.results = results
        self.sum = 0
        self.timed_out: list[bool] = []

    def try_complete(self, now_ms):
        return min(self.results) >= 0 and self.force_complete(now_ms)

    def on_complete(self, now_ms):
        self.timed_out = [result < 0 for result in self.results]
        self.sum = sum(result for result in self.results if result >= 0)


def test_an_operation_of_results_that_are_there_completes_at_once():
    """It never waits."""
    case = cases("purgatory")["future-two-complete"]
    room = Room()
    future = Future(case["futures"])
    assert room.purgatory.try_complete_else_watch(future, ["key"], FAR_MS, 0)
    assert future.sum == case["sum"]
    assert room.timers.size == 0


def test_an_operation_of_results_takes_at_its_deadline_what_is_there():
    """The others are errors."""
    case = cases("purgatory")["future-timeout"]
    room = Room()
    future = Future(case["futures"])
    assert not room.purgatory.try_complete_else_watch(future, ["key"], case["timeout_ms"], 0)
    room.timers.advance(case["timeout_ms"] - 1)
    assert not future.completed
    room.timers.advance(case["timeout_ms"])
    assert (future.sum, future.timed_out) == (case["sum_of_successes"], case["timed_out"])


# -- what comes back into it ----------------------------------------------------------------------


def test_the_second_try_sees_what_happened_since_the_first():
    """The operation is on its lists by then, so an event in between is not missed; it waits for nothing."""
    room = Room()
    seen: list[object] = []

    class Late(Waiting):
        __slots__ = ()

        def try_complete(self, now_ms):
            seen.append((room.lists(), room.purgatory.estimated_total, self.cancelled))
            self.allowed = len(seen) == 2
            return super().try_complete(now_ms)

    late = Late("late")
    assert room.purgatory.try_complete_else_watch(late, ["a", "b"], 20, 0)
    assert seen == [({}, 0, False), ({"a": ["late"], "b": ["late"]}, 1, False)]
    assert room.purgatory.num_delayed == room.timers.size == 0
    assert room.purgatory.watched == 2  # until the keys are checked


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


class Chained(Waiting):
    """Does something when it completes."""

    __slots__ = ("then",)

    def __init__(self, name, then) -> None:
        super().__init__(name, allowed=True)
        self.then = then
        self.allowed = False

    def on_complete(self, now_ms):
        super().on_complete(now_ms)
        self.then()


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


def test_a_subclass_says_when_it_is_complete_and_what_happens_then():
    """There is no empty default to forget about, but that nothing more need happen at the deadline."""
    operation = DelayedOperation()
    with pytest.raises(NotImplementedError):
        operation.try_complete(0)
    with pytest.raises(NotImplementedError):
        operation.on_complete(0)
    operation.on_expiration(0)


def test_it_costs_no_more_than_two_words_over_a_timers_entry():
    """No dict of attributes hangs on an operation."""
    assert not hasattr(DelayedOperation(), "__dict__")
    assert set(DelayedOperation.__slots__) == {"completed", "purgatory"}
    assert issubclass(DelayedOperation, TimerEntry)
