"""The brokers' answer times: percentiles of the last 30 to 60 seconds, by client and by broker.

Rules:
- Nothing is measured here: the core's meters are summed on request only.
- APIs whose requests wait at the broker on purpose (long polls, group rebalances) are left out of percentiles.
- A read covers at most MAX_KEYS clients, those that were read longest ago, and all brokers every NODES_EVERY_MS; other
  tasks run in between.
- The first read covers the time since the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from proxy.core.stats.histogram import BUCKETS, quantile_us
from wire.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from proxy.core.stats.meters import Meter, MeterBook

HALF_MS: Final = 30_000
NODES_EVERY_MS: Final = 5_000
MAX_KEYS: Final = 12
"""A tenth of a millisecond each."""
SLICE_KEYS: Final = 4
SLICE_METERS: Final = 50
WAITING: Final = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
_ZEROES: Final = (0,) * BUCKETS


class Window:
    """The recent part of a histogram: the difference between two of its readings."""

    __slots__ = ("_base", "_next", "_next_ms", "quantiles_ms", "read_ms")

    def __init__(self) -> None:
        self._base: Sequence[int] = _ZEROES
        self._next: Sequence[int] | None = None
        self._next_ms = 0
        self.read_ms = -1
        self.quantiles_ms: tuple[float, float] | None = None
        """The median and the 99th percentile in milliseconds; None without counts."""

    def read(self, counts: Sequence[int], now_ms: int) -> None:
        """Read the histogram of this moment."""
        self.read_ms = now_ms
        if self._next is None:
            self._next, self._next_ms = counts, now_ms
        elif now_ms - self._next_ms >= HALF_MS:
            self._base, self._next, self._next_ms = self._next, counts, now_ms
        lately = list(map(int.__sub__, counts, self._base))
        if min(lately) < 0:  # the client had disconnected, and its meters began at 0 again
            self._base = _ZEROES
            lately = list(counts)
        if any(lately):
            self.quantiles_ms = quantile_us(lately, 0.5) / 1000, quantile_us(lately, 0.99) / 1000
        else:
            self.quantiles_ms = None


class NodeAnswers:
    """The answers of one broker."""

    __slots__ = ("answers_per_s", "counted", "read_ms", "window")

    def __init__(self) -> None:
        self.window = Window()
        self.answers_per_s: float | None = None
        self.counted = 0
        self.read_ms = -1

    def read(self, counts: Sequence[int], waiting: int, now_ms: int) -> None:
        """Read `counts`, the histogram without requests that wait on purpose, and the number of answers to those."""
        total = sum(counts) + waiting
        if 0 <= self.read_ms < now_ms:
            self.answers_per_s = max(0, total - self.counted) * 1000 / (now_ms - self.read_ms)
        self.counted, self.read_ms = total, now_ms
        self.window.read(counts, now_ms)


class Latencies:
    """Computes the percentiles from the meters of `book`."""

    def __init__(self, book: MeterBook) -> None:
        self.nodes: dict[int | None, NodeAnswers] = {}
        self._book = book
        self._keys: dict[tuple[str, str], Window] = {}
        self._nodes_ms = -NODES_EVERY_MS

    def of(self, user: str, client_id: str) -> tuple[float, float] | None:
        """Return the median and the 99th percentile of this client's answers in milliseconds; None without any."""
        window = self._keys.get((user, client_id))
        return None if window is None else window.quantiles_ms

    async def read(self, keys: Collection[tuple[str, str]], now_ms: int) -> None:
        """Read those of `keys` that were read longest ago, and discard clients that are not in `keys`."""
        self._keys = {key: self._keys.get(key) or Window() for key in keys}
        oldest = sorted(self._keys.items(), key=lambda item: item[1].read_ms)[:MAX_KEYS]
        for place, ((user, client_id), window) in enumerate(oldest):
            if place % SLICE_KEYS == SLICE_KEYS - 1:
                await trio.lowlevel.checkpoint()
            parts = [m.upstream for m in self._book.of(user, client_id) if m.api_key not in WAITING]
            if parts:
                window.read(list(map(sum, zip(*parts, strict=True))), now_ms)
        if now_ms - self._nodes_ms >= NODES_EVERY_MS and self._book.max_parts:
            self._nodes_ms = now_ms
            await self._read_nodes(now_ms)

    async def _read_nodes(self, now_ms: int) -> None:
        parts: dict[int | None, list[Meter]] = {}
        for meter in self._book.each():
            if meter.user:  # the others are shared meters
                parts.setdefault(meter.node, []).append(meter)
        for node, meters in parts.items():
            counts, waiting = [0] * BUCKETS, 0
            for at in range(0, len(meters), SLICE_METERS):
                part = meters[at : at + SLICE_METERS]
                prompt = [each.upstream for each in part if each.api_key not in WAITING]
                counts = list(map(sum, zip(counts, *prompt, strict=True)))
                waiting += sum(each.replied for each in part if each.api_key in WAITING)
                await trio.lowlevel.checkpoint()
            self.nodes.setdefault(node, NodeAnswers()).read(counts, waiting, now_ms)
