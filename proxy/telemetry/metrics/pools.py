"""The memory pools as KIP-72's sensors show them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from proxy.core.memory.pool import NO_BOUND
from proxy.telemetry.metrics import names
from proxy.telemetry.metrics.collect import labelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.core.engine import Engine
    from proxy.core.memory.pool import MemoryPool
    from proxy.telemetry.metrics.families import Family

WINDOW_S = 30


class Pools:
    """Remembers how long each pool was depleted, second by second, for the share of the last WINDOW_S."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, dict[str, int]]] = deque(maxlen=WINDOW_S + 1)

    def look(self, engine: Engine) -> None:
        """Once a second."""
        now_ms = engine.now_ms
        depleted = {name: pool.depleted_ms(now_ms) for name, pool in _pools(engine).items()}
        self._seen.append((now_ms, depleted))

    def families(self, engine: Engine) -> Iterator[Family]:
        """As they are now."""
        pools, now_ms = _pools(engine), engine.now_ms
        bounded = {name: pool for name, pool in pools.items() if pool.size_bytes != NO_BOUND}
        yield from labelled(
            names.POOL_SIZE, {name: pool.size_bytes for name, pool in bounded.items()}
        )
        yield from labelled(
            names.POOL_USED, {name: pool.used_bytes for name, pool in pools.items()}
        )
        yield from labelled(
            names.POOL_AVAILABLE, {name: pool.available_memory() for name, pool in bounded.items()}
        )
        depleted = {name: pool.depleted_ms(now_ms) for name, pool in pools.items()}
        yield from labelled(
            names.POOL_DEPLETED, {name: spent_ms / 1000 for name, spent_ms in depleted.items()}
        )
        since_ms, before = self._since(now_ms) or (now_ms, depleted)
        passed_ms = max(now_ms - since_ms, 1)
        yield from labelled(
            names.POOL_DEPLETED_RATIO,
            {name: (spent - before[name]) / passed_ms for name, spent in depleted.items()},
        )

    def _since(self, now_ms: int) -> tuple[int, dict[str, int]] | None:
        """The oldest look within the window, or else the last: nobody looks while nobody is connected."""
        seen = self._seen
        while len(seen) > 1 and seen[0][0] < now_ms - WINDOW_S * 1000:
            seen.popleft()
        return seen[0] if seen else None


def _pools(engine: Engine) -> dict[str, MemoryPool]:
    return {"request": engine.request_pool, "response": engine.reply_pool}
