"""In which order the events of a step are handled when memory is low: any (Kafka's determineHandlingOrder).

The poll set has an order of its own, and with little left whoever comes first takes it. So that nobody
is always last, the order is random then. With nothing left there is nothing to be first for.
"""

from __future__ import annotations

from random import shuffle
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.core.memory.pool import MemoryPool


def in_fair_order(events: Sequence[tuple[int, int]], pool: MemoryPool) -> Sequence[tuple[int, int]]:
    """`events` as they are; shuffled while less than a tenth of the pool is left, but something."""
    if not pool.is_low():
        return events
    mixed = list(events)
    shuffle(mixed)
    return mixed
