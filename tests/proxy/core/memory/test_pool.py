"""MemoryPool: every byte granted is counted and released once; an outage is measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.memory.pool import NO_BOUND, UNBOUNDED_BYTES, MemoryPool
from tests.support.messages.golden import cases

MEMPOOL = cases("mempool")


def test_a_pool_and_its_largest_request_have_valid_sizes():
    """As in Kafka's constructor both are positive, and the request is no larger than the pool."""
    for size, most in ((MEMPOOL["pool-ctor-0"]["size"], 7), (-2, 1), (10, 0), (10, 11)):
        with pytest.raises(ValueError, match="pool size"):
            MemoryPool(size, most)
    assert MemoryPool(10, 10).max_single_bytes == 10


def test_a_pool_without_a_free_byte_is_out_of_memory():
    """It is so at 0 free bytes and below."""
    case = MEMPOOL["pool-oom-flag"]
    for left, out in zip(case["available"], case["results"], strict=True):
        pool = MemoryPool(10)
        pool.force_allocate(10 - left)
        assert (pool.available_memory(), pool.is_out_of_memory()) == (left, out)


def test_an_unbounded_pool_refuses_nothing_and_counts_everything():
    """It is like Kafka's MemoryPool.NONE, except that `used_bytes` is correct."""
    case = MEMPOOL["pool-none"]
    pool = MemoryPool(case["size"])
    assert case["size"] == NO_BOUND == pool.size_bytes
    pool.force_allocate(1 << 40)
    assert pool.used_bytes == 1 << 40
    assert pool.available_memory() == case["available"] == UNBOUNDED_BYTES
    assert pool.is_out_of_memory() is case["out_of_memory"]
    assert not pool.is_low()


def test_releasing_more_than_was_granted_is_a_fault():
    """A double release would inflate the pool unnoticed, a negative one would deflate it."""
    pool = MemoryPool(100)
    pool.force_allocate(MEMPOOL["pool-double-free"]["alloc"])
    pool.release(5)
    with pytest.raises(ValueError, match=r"released size 5 is outside 0\.\.0"):
        pool.release(5)
    pool.force_allocate(10)
    with pytest.raises(ValueError, match=r"released size -1 is outside 0\.\.10"):
        pool.release(-1)


def test_a_pool_is_low_while_less_than_a_tenth_is_free():
    """The comparison is strict, and a pool without a free byte is not low."""
    for left, low in ((101, False), (100, False), (99, True), (1, True), (0, False), (-5, False)):
        pool = MemoryPool(1000)
        pool.force_allocate(1000 - left)
        assert pool.is_low() is low


def test_a_depletion_lasts_from_the_first_refusal_until_memory_is_free():
    """Its time is counted while it lasts; overdrafts and further refusals do not change it."""
    now_ms = [1000]
    told: list[object] = []
    pool = MemoryPool(10, now_ms=lambda: now_ms[0])
    pool.on_depleted = lambda: told.append("dry")
    pool.on_recovered = told.append
    pool.force_allocate(10)
    assert pool.depleted_ms(1000) == 0
    pool.refuse()
    now_ms[0] = 1040
    pool.refuse()
    pool.force_allocate(2)
    assert pool.depleted_ms(1040) == 40
    pool.release(2)
    assert pool.is_depleted
    now_ms[0] = 1050
    pool.release(1)
    assert not pool.is_depleted
    assert pool.depleted_ms(5000) == 50
    assert told == ["dry", 50]
    pool.release(9)
    assert told == ["dry", 50]


def test_a_depletion_lasts_while_released_memory_is_taken_again():
    """A release serves the queue first; the depletion ends if memory is free after that."""
    now_ms = [0]
    pool = MemoryPool(10, now_ms=lambda: now_ms[0])
    waiting = [7, 7]

    def serve() -> None:
        while waiting and not pool.is_out_of_memory():
            pool.force_allocate(waiting.pop())

    pool.on_release = serve
    pool.force_allocate(10)
    pool.refuse()
    pool.release(4)
    assert pool.is_depleted
    now_ms[0] = 30
    pool.release(4)
    assert waiting == []
    assert pool.is_depleted
    now_ms[0] = 50
    pool.release(9)
    assert pool.depleted_ms(99) == 50


def test_the_size_of_a_pool_can_be_changed():
    """Memory in use stays in use. A larger size ends a depletion; a smaller one applies at once."""
    now_ms = [0]
    pool = MemoryPool(10, now_ms=lambda: now_ms[0])
    pool.force_allocate(10)
    pool.resize(5)
    assert (pool.available_memory(), pool.size_bytes, pool.max_single_bytes) == (-5, 5, 5)
    pool.refuse()
    now_ms[0] = 3
    pool.resize(20, 8)
    assert pool.available_memory() == 10
    assert pool.depleted_ms(9) == 3
    assert pool.max_single_bytes == 8


@pytest.mark.parametrize(
    ("size", "spare", "most", "used", "pressed"),
    [
        (1000, 100, 1 << 40, 900, False),
        (1000, 100, 1 << 40, 901, True),
        (1000, 2000, 1 << 40, 0, True),
        (1000, 100, 500, 500, True),
        (NO_BOUND, 100, 500, 499, False),
        (NO_BOUND, 100, 500, 500, True),
        (NO_BOUND, 100, 1 << 62, 1 << 40, False),
    ],
)
def test_a_pool_reports_when_it_is_near_its_limit(size, spare, most, used, pressed):
    """It is near the limit while less than the reserve is free or more than the maximum is used."""
    pool = MemoryPool(size)
    pool.set_near_limit(spare, most)
    pool.force_allocate(used)
    assert pool.near_limit is pressed
    pool.release(used)
    assert pool.near_limit is (spare > size > 0)


@given(st.integers(1, 1000), st.lists(st.integers(1, 300)))
def test_used_bytes_are_the_sum_of_all_grants_and_end_at_zero(size, taken):
    """For any sequence, also beyond the size of the pool."""
    pool = MemoryPool(size)
    for each in taken:
        pool.force_allocate(each)
    assert pool.used_bytes == pool.peak_bytes == sum(taken) == size - pool.available_memory()
    for each in taken:
        pool.release(each)
    assert pool.used_bytes == 0
    assert pool.peak_bytes == sum(taken)
