"""The metrics of the memory pools, with the sensors of KIP-72."""

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
    """Keeps the depleted time of each pool per second, for its share of the last WINDOW_S seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, dict[str, int]]] = deque(maxlen=WINDOW_S + 1)

    def sample(self, engine: Engine) -> None:
        """Read the pools; call it once per second."""
        now_ms = engine.now_ms
        depleted = {name: pool.depleted_ms(now_ms) for name, pool in _pools(engine).items()}
        self._samples.append((now_ms, depleted))

    def families(self, engine: Engine) -> Iterator[Family]:
        """Yield the figures of this moment."""
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
        """Return the oldest sample in the window, or the latest: without connections no sample is taken."""
        samples = self._samples
        while len(samples) > 1 and samples[0][0] < now_ms - WINDOW_S * 1000:
            samples.popleft()
        return samples[0] if samples else None


def _pools(engine: Engine) -> dict[str, MemoryPool]:
    return {"request": engine.request_pool, "response": engine.reply_pool}
