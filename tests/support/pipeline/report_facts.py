"""Made-up figures of a report: a busy day, and an empty one."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pipeline.report.facts import (
    OTHER,
    ClientName,
    ClientUse,
    DataQuality,
    EntityNeed,
    PoolUse,
    ReportFacts,
    Scope,
    StageTime,
    SweepCell,
    ThrottledBin,
    TracedRequest,
    TrafficBin,
    Wait,
)

START_MS = 1_763_683_200_000  # 2025-11-21 00:00 UTC
HOUR_MS = 3_600_000
BIN_MS = 600_000
ALICE = ClientName("alice", "report")
HOSTILE = ClientName("<script>alert(1)</script>", "\u202egnp.exe" + "x" * 1024)
HEBREW = ClientName("דוד", "לקוח-1")
CLIENTS = (
    ALICE,
    ClientName("bob", "batch"),
    ClientName("carol", "checkout"),
    ClientName("dave", "etl"),
    HEBREW,
    HOSTILE,
    ClientName("erin", ""),
)
SHARES = (0.38, 0.12, 0.0, 0.021, 0.07, 0.55, 0.0)
REQUESTS = (1_900_000, 5_200_000, 3_100_000, 800_000, 40_000, 12_000, 900)
RATES = (80.0, 200.0, 400.0, 50.0, 10.0, 5.0, None)
FACTORS = tuple(each / 8 for each in range(4, 17))


def empty_facts() -> ReportFacts:
    """Return the figures of tables with one second and no client."""
    scope = Scope(
        "file:///data/tables", "2025-11-22 06:00 UTC", START_MS, START_MS + 1000, 1, 0, 0, 0, 0, 0
    )
    return ReportFacts(scope=scope, quality=DataQuality({"entity": 0}), clients=(), traffic=())


def busy_facts() -> ReportFacts:
    """Return the figures of a day: alice is throttled most, some names are hostile, some rows are missing."""
    scope = Scope(
        "file:///data/tables",
        "2025-11-22 06:00 UTC",
        START_MS,
        START_MS + 24 * HOUR_MS,
        4,
        1207,
        11_100_000,
        11_000_000,
        1_380_000,
        4012,
    )
    return ReportFacts(
        scope=scope,
        quality=DataQuality(
            {"entity": 1_204_331, "api": 3_410_022, "instance": 345_600},
            lost=118,
            quarantined={"torn line": 3, "unknown version": 12},
            duplicates=2600,
            spans_dropped=40,
        ),
        clients=tuple(map(_use, CLIENTS, REQUESTS, SHARES, RATES)),
        traffic=tuple(_traffic()),
        throttling=tuple(_throttling()),
        needs=tuple(_needs()),
        sweep=tuple(_sweep()),
        sweep_of="the present quotas",
        waits=tuple(_waits()),
        stages=tuple(_stages()),
        pools=tuple(_pools()),
        slowest=tuple(_slowest()),
    )


def replaced(facts: ReportFacts, **changes: Any) -> ReportFacts:
    """Return the figures with some of them replaced."""
    return replace(facts, **changes)


def _use(client: ClientName, requests: int, share: float, rate: float | None) -> ClientUse:
    throttled = round(requests * share)
    limit = "request_rate" if rate else None
    entity = f"user={client.user}" if rate else None
    return ClientUse(
        client, requests, requests, throttled, throttled * 212, 4012, entity, rate, None, limit
    )


def _traffic() -> Iterator[TrafficBin]:
    for place in range(144):
        day = 0.55 - 0.45 * math.cos(place / 144 * 2 * math.pi)
        burst = 3.1 if place % 18 == 4 else 0.7
        rates = (22 * day, 60 * burst * day, 36 * day, 9.3, 18 * day)
        for name, rate in zip(("alice", "bob", "carol", "dave", OTHER), rates, strict=True):
            yield TrafficBin(START_MS + place * BIN_MS, name, rate)


def _throttling() -> Iterator[ThrottledBin]:
    for place in range(144):
        day = 0.5 - 0.5 * math.cos(place / 144 * 2 * math.pi)
        for client, share in zip(CLIENTS, SHARES, strict=True):
            wave = share * 1.7 * day * (1 if place % 5 else 0)
            yield ThrottledBin(START_MS + place * BIN_MS, client, min(1.0, wave))


def _needs() -> Iterator[EntityNeed]:
    for client, rate, ratio in zip(
        CLIENTS, RATES, (1.38, 0.9, 0.2, 1.03, 1.1, 1.6, 1), strict=True
    ):
        quota = rate
        need, entity = (rate or 30.0) * ratio, (client.user, None)
        recommended = math.ceil(need * 1.1)
        yield EntityNeed(f"user={client.user}", entity, need / 6, need, quota, recommended)


def _sweep() -> Iterator[SweepCell]:
    for client, requests, share, rate in zip(CLIENTS, REQUESTS, SHARES, RATES, strict=True):
        for factor in FACTORS:
            part = share / (1 + math.exp((factor - 1) * 9)) * 2 if share else 0.0
            part = 0.0 if factor >= 1.5 else min(0.97, part)
            accepted = round(requests * (1 - part * 0.3))
            quota = rate * factor if rate else None
            yield SweepCell(client, factor, requests, accepted, round(accepted * part), quota)


def _waits() -> Iterator[Wait]:
    for place, client in enumerate(CLIENTS[:5]):
        yield Wait("throttle", "client", client.user, 10_000, 20 + place, 900 / (place + 1), 4000)
    for place, api in enumerate(("Produce", "Fetch", "Metadata")):
        yield Wait("throttle", "api", api, 10_000, 15 + place, 700 / (place + 1), 4000)
        yield Wait("purgatory", "api", api, 900, 2 + place, 90 / (place + 1), 500)
    yield Wait("purgatory", "client", "carol", 900, 2, 90, 500)


def _stages() -> Iterator[StageTime]:
    table = {
        "Produce": (500, 3, 260, 20, 4),
        "Fetch": (900, 1, 50, 10, 0),
        "Metadata": (12, 0, 9, 0, 0),
        "Heartbeat": (3, 0, 0, 0, 0),
    }
    for api, times in table.items():
        for stage, ms in zip(
            ("upstream", "receive", "throttle", "purgatory", "memory"), times, strict=True
        ):
            yield StageTime(api, stage, ms * 1e6)


def _pools() -> Iterator[PoolUse]:
    for place in range(144):
        day = 0.5 - 0.5 * math.cos(place / 144 * 2 * math.pi)
        at_ms = START_MS + place * BIN_MS
        yield PoolUse(at_ms, "requests", 0.1 + 0.5 * day, 340 if place in {70, 71} else 0)
        yield PoolUse(at_ms, "replies", 0.05 + 0.2 * day, 0)


def _slowest() -> Iterator[TracedRequest]:
    for place, client in enumerate(CLIENTS[:4]):
        total = 4300 / (place + 1)
        yield TracedRequest(
            f"{place + 1:032x}",
            client,
            "Produce",
            total,
            total * 0.8,
            0,
            12,
            total * 0.15,
            total * 0.1,
        )
