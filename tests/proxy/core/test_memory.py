"""MemoryPool: what is taken is counted, what is given back is counted, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.memory import MemoryPool


def test_without_a_size_nothing_is_refused_and_all_is_counted():
    """Size 0 means without bound."""
    pool = MemoryPool()
    assert pool.try_allocate(1 << 40)
    assert pool.used_bytes == 1 << 40
    assert pool.available_memory() is None
    assert not pool.is_out_of_memory()


def test_one_request_may_overdraw_and_the_next_is_refused():
    """Non-strict, as the broker's own pool is (KIP-72)."""
    pool = MemoryPool(100)
    assert pool.try_allocate(99)
    assert pool.try_allocate(500)
    assert pool.available_memory() == -499
    assert not pool.try_allocate(1)
    pool.release(499)
    assert not pool.try_allocate(1)
    pool.release(1)
    assert pool.try_allocate(1)


def test_giving_back_more_than_was_taken_is_a_fault():
    """A double release would silently inflate the pool."""
    pool = MemoryPool(100)
    pool.force_allocate(10)
    with pytest.raises(ValueError, match="released 11 of 10"):
        pool.release(11)


def test_a_negative_size_is_refused():
    """It would refuse everything for ever."""
    with pytest.raises(ValueError, match="negative"):
        MemoryPool(-1)


@given(st.integers(0, 1000), st.lists(st.integers(1, 300)))
def test_used_bytes_are_the_sum_of_what_was_granted_and_end_at_zero(size, wanted):
    """Under any sequence; the overdraft is at most one allocation."""
    pool = MemoryPool(size)
    granted = [each for each in wanted if pool.try_allocate(each)]
    assert pool.used_bytes == sum(granted)
    if size:
        assert pool.used_bytes < size + 300
    for each in granted:
        pool.release(each)
    assert pool.used_bytes == 0
    assert pool.peak_bytes == sum(granted)
