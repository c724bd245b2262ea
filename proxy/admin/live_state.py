"""The state that the dashboard and `sluice top` show, computed once for all callers.

Rules:
- A snapshot of all connections is taken on request only, and at most once in KEPT_MS.
- Figures that the page can compute from others are not computed here.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import TYPE_CHECKING

import msgspec
import trio

from proxy.admin import schemas
from proxy.admin.latency import Latencies
from proxy.admin.principals import principals
from proxy.admin.snapshot import LISTED, take_snapshot
from proxy.config.container import memory_limit
from proxy.core.memory.pool import NO_BOUND
from proxy.host_port import host_port
from proxy.telemetry.escaping import printable
from proxy.telemetry.golden_signals import ByteRates

if TYPE_CHECKING:
    from proxy.admin.service import AdminService
    from proxy.admin.snapshot import Snapshot
    from proxy.core.memory.pool import MemoryPool
    from proxy.telemetry.loop_lag import LoopLag

KEPT_MS = 900
WINDOW_SNAPSHOTS = 30
"""Window of a pool's depleted share, in snapshots: half a minute while a viewer is connected."""
MAX_DECISIONS = 100
_NOTHING = schemas.Quantiles(None, None)


class LiveState:
    """The current state as JSON. `trace_url` is the setting `admin.trace_url`."""

    def __init__(self, service: AdminService, loop_lag: LoopLag, trace_url: str = "") -> None:
        self._service = service
        self._loop_lag = loop_lag
        self._trace_url = trace_url
        self._lock = trio.Lock()
        self._seen: schemas.Overview | None = None
        self._event = b""
        self._heard_ms: dict[int | None, int] = {}
        self._latencies = Latencies(service.engine.meters)
        self._depleted: dict[str, deque[tuple[int, int]]] = {}

    async def state(self) -> bytes:
        """Return the JSON of a `State`."""
        seen = await self._refreshed()
        points = self._service.history.points(self._service.now_ms())
        fields = {name: getattr(seen, name) for name in seen.__struct_fields__}
        return msgspec.json.encode(schemas.State(**fields, history=points))

    async def event(self) -> bytes:
        """Return the JSON of an `Event`, the same bytes for all calls within a second."""
        seen = await self._refreshed()
        if not self._event:
            point = self._service.history.latest(self._service.now_ms())
            fields = {name: getattr(seen, name) for name in seen.__struct_fields__}
            self._event = msgspec.json.encode(schemas.Event(**fields, point=point))
        return self._event

    async def connections(self, limit: int) -> schemas.ConnectionList:
        """Return at most `limit` connections, from a new snapshot."""
        found = await take_snapshot(
            self._service.engine, self._service.connection_times.opened_ms, limit
        )
        return schemas.ConnectionList(found.total, found.connections())

    def pools(self) -> list[schemas.Pool]:
        """Return both memory pools at this moment."""
        engine = self._service.engine
        now_ms = self._service.now_ms()
        found = []
        for name, pool in (("request", engine.request_pool), ("response", engine.reply_pool)):
            samples = self._depleted.setdefault(name, deque(maxlen=WINDOW_SNAPSHOTS))
            found.append(_pool(name, pool, now_ms, samples[0] if samples else None))
            if not samples or now_ms - samples[-1][0] >= KEPT_MS:
                samples.append((now_ms, pool.depleted_ms(now_ms)))
        return found

    async def _refreshed(self) -> schemas.Overview:
        async with self._lock:
            seen = self._seen
            now_ms = self._service.now_ms()
            if seen is None or now_ms - seen.now.ts_ms >= KEPT_MS:
                service = self._service
                found = await take_snapshot(
                    service.engine, service.connection_times.opened_ms, LISTED
                )
                rows, buckets = await principals(
                    service, found.throttled, now_ms, self._latencies.of
                )
                await self._latencies.read([(each.user, each.client_id) for each in rows], now_ms)
                seen = self._seen = schemas.Overview(
                    self._now(found, now_ms),
                    rows,
                    buckets,
                    self._purgatory(found),
                    found.connections(),
                    found.total,
                    self._nodes(found, now_ms),
                    service.decisions.latest(MAX_DECISIONS),
                )
                self._event = b""
            return seen

    def _now(self, found: Snapshot, now_ms: int) -> schemas.Now:
        service = self._service
        facts = service.facts()
        reloads = facts.reloads
        last = reloads.last_ok
        return schemas.Now(
            now_ms,
            facts.version,
            int(facts.process.started_s * 1000),
            facts.draining,
            service.config_hash,
            None if last is None else schemas.LastReload(last, service.reloaded_ms),
            self._lag(),
            facts.process.resident_bytes,
            memory_limit_bytes(),
            self._loop_lag.cpu_percent,
            found.total,
            service.history.latest(now_ms).requests_per_s,
            self.pools(),
            dict(found.muted),
            schemas.DroppedCounts(facts.spans_dropped, facts.usage_rows_dropped),
            self._trace_url,
        )

    def _lag(self) -> schemas.Quantiles:
        found = self._loop_lag.quantiles_ms()
        return schemas.Quantiles(*found) if found else _NOTHING

    def _purgatory(self, found: Snapshot) -> schemas.PurgatoryState:
        engine = self._service.engine
        return schemas.PurgatoryState(
            engine.holds.num_delayed,
            found.waiting["produce"],
            found.waiting["fetch"],
            engine.holds.watched,
            engine.timers.size,
            found.ages(),
            schemas.Outcomes(**engine.completions),
            found.oldest(),
        )

    def _nodes(self, found: Snapshot, now_ms: int) -> list[schemas.NodeRow]:
        """Return a row for bootstrap and for every node that is known or connected."""
        topology = self._service.engine.topology
        nodes = []
        for node, port in self._service.ports:
            address = None if node is None else topology.address_of(node)
            count = found.by_node[node]
            if node is None or address is not None or count:
                nodes.append(self._node(node, port, _address(address), count, now_ms))
        return nodes

    def _node(
        self, node: int | None, port: int, address: str, connections: int, now_ms: int
    ) -> schemas.NodeRow:
        signals, answers = self._service.signals, self._latencies.nodes.get(node)
        healths = self._service.engine.topology.nodes.at(node)
        flow = signals.flows.get(node, ByteRates())
        quantiles = answers.window.quantiles_ms if answers else None
        heard_ms = max((each.heard_ms for each in healths), default=0)
        # The core discards a broker's health with its last connection, so the time of its last byte is kept here.
        heard_ms = self._heard_ms[node] = max(heard_ms, self._heard_ms.get(node, 0))
        silent_ms = [now_ms - each.silent_since_ms(now_ms) for each in healths if each.is_silent]
        return schemas.NodeRow(
            node,
            port,
            address,
            connections,
            answers.answers_per_s if answers else None,
            schemas.Quantiles(*quantiles) if quantiles else _NOTHING,
            flow.in_per_s,
            flow.out_per_s,
            max(0, now_ms - heard_ms) if heard_ms else None,
            max(0, *silent_ms) if silent_ms else 0,
            signals.node_errors[node],
            signals.dial_failures[node],
            signals.lost[node],
        )


def _address(address: tuple[str, int] | None) -> str:
    if address is None:
        return ""
    host = printable(address[0])
    return host_port(host, address[1])


def _pool(name: str, pool: MemoryPool, now_ms: int, since: tuple[int, int] | None) -> schemas.Pool:
    spent_ms = pool.depleted_ms(now_ms)
    percent = 0.0
    if since is not None and now_ms > since[0]:
        percent = round(100 * (spent_ms - since[1]) / (now_ms - since[0]), 1)
    bounded = pool.size_bytes != NO_BOUND
    return schemas.Pool(
        name,
        pool.size_bytes if bounded else None,
        pool.used_bytes,
        pool.available_memory() if bounded else 0,
        percent,
        spent_ms,
    )


@cache
def memory_limit_bytes() -> int | None:
    """Return the container's memory limit, as the memory budget uses it; None without one."""
    found = memory_limit()
    return None if found is None else found.limit_bytes
