"""Bytes that are kept for clients that are not known yet: their sum is bounded, and the slow and large give way."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import CloseReason
from proxy.core.memory.pool import MemoryPool
from proxy.core.memory.unauthenticated import UnauthenticatedBytes


class Clock:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


@dataclass(eq=False)
class Client:
    gave_way_ms: list[int] = field(default_factory=list)

    def end_and_ask_for_turn(self, reason: CloseReason, detail: str, now_ms: int) -> None:
        assert reason is CloseReason.AUTHENTICATION_OVERLOADED
        self.gave_way_ms.append(now_ms)


def make(max_bytes: int) -> tuple[UnauthenticatedBytes, MemoryPool, Clock]:
    pool, clock = MemoryPool(), Clock()
    return UnauthenticatedBytes(pool, clock, max_bytes), pool, clock


def test_one_that_sends_its_login_at_once_stays_while_slow_and_large_ones_are_there() -> None:
    """Also if it is larger than each of theirs: what counts is bytes times time."""
    memory, pool, clock = make(1_000)
    slow = [Client() for _ in range(10)]
    for each in slow:
        assert memory.try_add(each, 100)
    clock.now_ms += 5_000
    honest = Client()
    assert memory.try_add(honest, 400)
    assert not honest.gave_way_ms
    assert sum(bool(each.gave_way_ms) for each in slow) == 6
    assert memory.used_bytes == pool.used_bytes <= 875
    memory.give_back(honest)
    assert memory.used_bytes == pool.used_bytes == 400


def test_the_one_that_comes_last_gives_way_if_its_burden_is_the_greatest() -> None:
    """It is told by the result, because it is in the middle of a read; its bytes count until it has ended."""
    memory, pool, _ = make(1_000)
    small, large = Client(), Client()
    assert memory.try_add(small, 100)
    assert not memory.try_add(large, 2_000)
    assert not small.gave_way_ms
    assert not large.gave_way_ms
    memory.give_back(large)
    memory.give_back(large)
    assert pool.used_bytes == 100


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 400), st.integers(0, 3_000), st.booleans()),
        max_size=60,
    )
)
def test_the_sum_is_right_and_bounded_after_each_step(steps) -> None:
    """Clients come, grow and leave in any order; each gives way once at most."""
    memory, pool, clock = make(1_000)
    clients = [Client() for _ in range(10)]
    for number, size_bytes, wait_ms, leaves in steps:
        clock.now_ms += wait_ms
        client = clients[number]
        if leaves or not memory.try_add(client, size_bytes):
            memory.give_back(client)
        assert memory.used_bytes == pool.used_bytes <= 1_000
        for each in clients:
            if each.gave_way_ms:
                clients[clients.index(each)] = Client()
    for each in clients:
        memory.give_back(each)
    assert memory.used_bytes == pool.used_bytes == len(memory) == 0
