"""In which order the events of a step are handled."""

from __future__ import annotations

from proxy.core.memory.pool import MemoryPool
from proxy.shell.order import in_fair_order
from tests.support.golden import cases

EVENTS = [(fd, 1) for fd in range(50)]


def test_events_are_shuffled_while_little_is_left():
    """Less than a tenth, strictly, and something; each event is still there once."""
    case = cases("selector.oom")["selector-shuffle"]
    for available, shuffled in zip(case["available"], case["shuffled"], strict=True):
        pool = MemoryPool(case["pool"])
        pool.force_allocate(case["pool"] - available)
        orders = [list(in_fair_order(EVENTS, pool)) for _ in range(3)]
        assert all(sorted(order) == EVENTS for order in orders)
        assert (orders != [EVENTS] * 3) is shuffled


def test_nobody_is_always_last():
    """Over some steps each comes first, or nearly."""
    pool = MemoryPool(1000)
    pool.force_allocate(950)
    first = {in_fair_order(EVENTS[:4], pool)[0][0] for _ in range(200)}
    assert first == {0, 1, 2, 3}


def test_without_bound_the_order_stays():
    """There is no tenth of it."""
    assert in_fair_order(EVENTS, MemoryPool()) is EVENTS
