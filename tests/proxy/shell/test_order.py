"""The order in which a step handles its events."""

from __future__ import annotations

from proxy.core.memory.pool import MemoryPool
from proxy.shell.order import in_fair_order
from tests.support.golden import cases

EVENTS = [(fd, 1) for fd in range(50)]


def test_events_are_shuffled_while_less_than_a_tenth_of_the_pool_is_free():
    """Kafka's rule: more than nothing and strictly less than a tenth is free. Each event is kept once."""
    case = cases("selector.oom")["selector-shuffle"]
    for available, shuffled in zip(case["available"], case["shuffled"], strict=True):
        pool = MemoryPool(case["pool"])
        pool.force_allocate(case["pool"] - available)
        orders = [list(in_fair_order(EVENTS, pool)) for _ in range(3)]
        assert all(sorted(order) == EVENTS for order in orders)
        assert (orders != [EVENTS] * 3) is shuffled


def test_no_event_is_always_last():
    """Over 200 steps each of four events comes first at least once."""
    pool = MemoryPool(1000)
    pool.force_allocate(950)
    first = {in_fair_order(EVENTS[:4], pool)[0][0] for _ in range(200)}
    assert first == {0, 1, 2, 3}


def test_the_order_stays_when_the_pool_has_no_bound():
    """An unbounded pool is never short, so the events are returned as they are."""
    assert in_fair_order(EVENTS, MemoryPool()) is EVENTS
