"""MemoryPool: Kafka's rules for what is granted, and what is taken is counted and given back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.memory.pool import NO_BOUND, UNBOUNDED_BYTES, MemoryPool
from tests.support.golden import cases

MEMPOOL = cases("mempool")


def refused(pool: MemoryPool, size_bytes: int) -> str:
    with pytest.raises(ValueError, match=r"may be|for requests") as caught:
        pool.try_allocate(size_bytes)
    return str(caught.value)


def test_a_pool_has_a_size_and_its_largest_request_fits():
    """Kafka's constructor: both positive, the request no larger than the pool."""
    for size, most in ((MEMPOOL["pool-ctor-0"]["size"], 7), (-2, 1), (10, 0), (10, 11)):
        with pytest.raises(ValueError, match="a pool of"):
            MemoryPool(size, most, strict=True)
    assert MemoryPool(10, 10).max_single_bytes == 10


@pytest.mark.parametrize("case_id", ["pool-alloc-11", "pool-alloc-0", "pool-alloc--1"])
def test_a_size_that_no_request_has_is_an_error_and_no_lack_of_memory(case_id):
    """It is raised, the pool stays as it is, and no outage begins."""
    case = MEMPOOL[case_id]
    pool = MemoryPool(case["size"], case["max_single"])
    assert str(case["alloc"]) in refused(pool, case["alloc"])
    assert pool.used_bytes == 0
    assert not pool.is_depleted


@pytest.mark.parametrize("case_id", ["pool-non-strict-bound", "pool-strict"])
def test_what_is_granted_is_what_kafka_grants(case_id):
    """Non-strict: any byte that is left lets any request in; strict: it has to fit."""
    case = MEMPOOL[case_id]
    pool = MemoryPool(case["size"], case["max_single"], strict=case["strict"])
    results = []
    for name, size_bytes in case["when"]:
        if name == "release":
            pool.release(size_bytes)
        else:
            results.append(pool.try_allocate(size_bytes))
            if len(results) == 3 and "available_after_3" in case:
                assert pool.available_memory() == case["available_after_3"]
    assert results == case["results"]


def test_nothing_left_is_out_of_memory():
    """At zero, and below."""
    case = MEMPOOL["pool-oom-flag"]
    for left, out in zip(case["available"], case["results"], strict=True):
        pool = MemoryPool(10)
        pool.force_allocate(10 - left)
        assert (pool.available_memory(), pool.is_out_of_memory()) == (left, out)


def test_without_bound_nothing_is_refused_and_all_is_counted():
    """As Kafka's MemoryPool.NONE, but for `used`, which is the truth here."""
    case = MEMPOOL["pool-none"]
    pool = MemoryPool(case["size"])
    assert case["size"] == NO_BOUND == pool.size_bytes
    assert pool.try_allocate(1 << 40)
    assert pool.used_bytes == 1 << 40
    assert pool.available_memory() == case["available"] == UNBOUNDED_BYTES
    assert pool.is_out_of_memory() is case["out_of_memory"]
    assert not pool.is_low()


def test_giving_back_more_than_is_taken_is_a_fault():
    """A double release would silently inflate the pool; so would a negative one deflate it."""
    pool = MemoryPool(100)
    assert pool.try_allocate(MEMPOOL["pool-double-free"]["alloc"])
    pool.release(5)
    with pytest.raises(ValueError, match="released 5 of 0"):
        pool.release(5)
    pool.force_allocate(10)
    with pytest.raises(ValueError, match="released -1 of 10"):
        pool.release(-1)


def test_less_than_a_tenth_is_low_and_nothing_is_not():
    """Strictly less; with nothing left there is no order to be fair in."""
    for left, low in ((101, False), (100, False), (99, True), (1, True), (0, False), (-5, False)):
        pool = MemoryPool(1000)
        pool.force_allocate(1000 - left)
        assert pool.is_low() is low


def test_an_outage_counts_while_it_runs_and_ends_when_something_is_left():
    """From the first refusal to the release that leaves something; overdrafts and more refusals change nothing."""
    now_ms = [1000]
    told: list[object] = []
    pool = MemoryPool(10, now_ms=lambda: now_ms[0])
    pool.on_depleted = lambda: told.append("dry")
    pool.on_recovered = told.append
    assert pool.try_allocate(10)
    assert pool.depleted_ms(1000) == 0
    assert not pool.try_allocate(1)
    now_ms[0] = 1040
    assert not pool.try_allocate(1)
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


def test_an_outage_goes_on_while_what_comes_back_is_taken_again():
    """Whoever waits is served in the release; it is over when something is left after that."""
    now_ms = [0]
    pool = MemoryPool(10, now_ms=lambda: now_ms[0])
    waiting = [7, 7]

    def serve() -> None:
        while waiting and not pool.is_out_of_memory():
            pool.force_allocate(waiting.pop())

    pool.on_release = serve
    assert pool.try_allocate(10)
    assert not pool.try_allocate(7)
    pool.release(4)
    assert pool.is_depleted
    now_ms[0] = 30
    pool.release(4)
    assert waiting == []
    assert pool.is_depleted
    now_ms[0] = 50
    pool.release(9)
    assert pool.depleted_ms(99) == 50


def test_a_strict_refusal_ends_with_the_next_that_is_granted():
    """Kafka's rule: a successful allocation stops the clock, too."""
    now_ms = [0]
    pool = MemoryPool(10, strict=True, now_ms=lambda: now_ms[0])
    assert pool.try_allocate(4)
    assert not pool.try_allocate(7)
    now_ms[0] = 5
    assert pool.try_allocate(6)
    assert not pool.is_depleted
    assert pool.depleted_ms(9) == 5


def test_a_pool_may_get_another_size():
    """What is held stays. More of it ends an outage; less is felt at once."""
    now_ms = [0]
    pool = MemoryPool(10, now_ms=lambda: now_ms[0])
    assert pool.try_allocate(10)
    pool.resize(5)
    assert (pool.available_memory(), pool.size_bytes, pool.max_single_bytes) == (-5, 5, 5)
    assert not pool.try_allocate(1)
    now_ms[0] = 3
    pool.resize(20, 8)
    assert pool.available_memory() == 10
    assert pool.depleted_ms(9) == 3
    with pytest.raises(ValueError, match="1 to 8"):
        pool.try_allocate(9)


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
def test_a_pool_says_when_whoever_reads_has_to_look(size, spare, most, used, pressed):
    """Less than the spare is left, or so much is used; and no more when it is back."""
    pool = MemoryPool(size)
    pool.press_at(spare, most)
    pool.force_allocate(used)
    assert pool.near_limit is pressed
    pool.release(used)
    assert pool.near_limit is (spare > size > 0)


@given(st.integers(1, 1000), st.lists(st.integers(1, 300)))
def test_used_bytes_are_the_sum_of_what_was_granted_and_end_at_zero(size, wanted):
    """Under any sequence; the bound is the pool and the largest request, but for a byte."""
    most = min(size, 300)
    pool = MemoryPool(size, most)
    granted = [each for each in wanted if each <= most and pool.try_allocate(each)]
    assert pool.used_bytes == sum(granted) == size - pool.available_memory()
    assert pool.used_bytes <= size + most - 1
    for each in granted:
        pool.release(each)
    assert pool.used_bytes == 0
    assert pool.peak_bytes == sum(granted)
