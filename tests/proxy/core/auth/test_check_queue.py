"""Checks of passwords wait in a bounded queue, in which every address has its share."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.auth.check_queue import MAX_WAITING, CheckQueue, WaitingCheck
from proxy.core.auth.passwords import PasswordCheck
from proxy.core.auth.scram import MIN_ITERATIONS, SCRAM_SHA_256


def waiting(address: str, number: int = 0) -> WaitingCheck:
    check = PasswordCheck(SCRAM_SHA_256, b"%d" % number, b"salt", MIN_ITERATIONS, b"key")
    return WaitingCheck(check, address, lambda _: None)


def filled(*addresses: str) -> CheckQueue:
    """Return a full queue in which these addresses have equal parts."""
    queue = CheckQueue()
    for number in range(MAX_WAITING):
        assert queue.put(waiting(addresses[number % len(addresses)], number)) is None
    return queue


def all_of(queue: CheckQueue) -> list[WaitingCheck]:
    return list(iter(queue.maybe_take, None))


def test_one_address_is_served_in_the_order_of_its_checks() -> None:
    """An empty queue has none."""
    queue = CheckQueue()
    mine = [waiting("a", number) for number in range(3)]
    assert [queue.put(each) for each in mine] == [None] * 3
    assert all_of(queue) == mine
    assert queue.maybe_take() is None


def test_the_addresses_have_their_turns_one_after_the_other() -> None:
    """A client that comes after a flood from one address waits for one of its checks."""
    queue = filled("flood")
    assert queue.put(waiting("honest")) is not None  # one of the flood was dropped
    assert [queue.maybe_take().address for _ in range(2)] == ["flood", "honest"]


def test_a_full_queue_drops_the_newest_check_of_the_busiest_address() -> None:
    """The flood itself is refused, and clients of other addresses are not."""
    queue = filled("flood")
    assert queue.put(flood := waiting("flood", 1000)) is flood
    dropped = queue.put(waiting("honest"))
    assert (dropped.address, dropped.check.password) == ("flood", b"%d" % (MAX_WAITING - 1))


def test_addresses_with_equal_shares_drop_nothing_of_each_other() -> None:
    """A newcomer that would only take the place of another is refused."""
    queue = filled("a", "b")
    assert queue.put(mine := waiting("a", 1000)) is mine
    queue = filled(*map(str, range(MAX_WAITING)))
    assert queue.put(mine := waiting("another")) is mine


@given(st.lists(st.sampled_from(["put a", "put b", "put c", "take"]), max_size=1200))
def test_each_check_is_taken_or_dropped_once_and_none_is_kept(steps: list[str]) -> None:
    """At any order of steps the bound holds."""
    queue, put, gone = CheckQueue(), 0, 0
    for number, step in enumerate(steps):
        if step == "take":
            gone += queue.maybe_take() is not None
        else:
            put += 1
            gone += queue.put(waiting(step[-1], number)) is not None
        assert put - gone <= MAX_WAITING
    assert len(all_of(queue)) == put - gone
    assert queue.maybe_take() is None
