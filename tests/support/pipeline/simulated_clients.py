"""Simulated clients with the real quota policy: what they would do, and the rows that Sluice would write of them."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pipeline.whatif.capture import CapturedRequest
from pipeline.whatif.script import ClientSession, ClientStep
from pipeline.whatif.simulator import Simulation
from policies.api import Peer
from policies.quota.config import QuotaConfig
from tests.support.telemetry.usage_rows import START_MS, usage_row

METADATA, PRODUCE = 3, 0


def quota_config(
    enforcement: str, *quotas: Mapping[str, object], **settings: object
) -> QuotaConfig:
    """Return the settings of the quota policy."""
    lines = {"enforcement": enforcement, "quotas": quotas, **settings}
    return msgspec.convert(lines, QuotaConfig)


def clients(
    connections: int,
    think_ms: Callable[[], int],
    steps: int,
    *,
    broker_ms: int = 1,
    client_id: str = "c",
    size_bytes: int = 100,
    api_key: int = METADATA,
    first: int = 1,
) -> list[ClientSession]:
    """Return sessions of synchronous clients with these think times; they begin within the first second."""
    sessions = []
    for place in range(first, first + connections):
        peer = Peer(place, "h", 1, client_id=client_id, user="alice")
        start_ms = START_MS + 7 + (place * 331) % 997
        session = ClientSession(peer, start_ms, start_ms)
        for number in range(steps):
            acks = -1 if api_key == PRODUCE else None
            request = CapturedRequest(api_key, 9, number + 1, 1, size_bytes, acks)
            think = think_ms() if number else 0
            session.steps.append(
                ClientStep(request, think, number, broker_ms, 60, 0, silent=False, charged=True)
            )
        sessions.append(session)
    return sessions


def timed_clients(
    per_second: Sequence[float], seed: int, connections: int = 2, *, thinks: bool = False
) -> list[ClientSession]:
    """Return sessions of clients whose requests come at times of their own, so many in each second on average.

    They send at those times whatever happens to the requests before; if one `thinks`, it waits for each reply and then
    as long as there was between the two times.
    """
    dice = random.Random(seed)
    sessions = []
    for place in range(1, connections + 1):
        times = sorted(
            second * 1000 + dice.randrange(1000)
            for second, rate in enumerate(per_second)
            for _ in range(int(rate / connections + dice.random()))
        )
        start_ms = START_MS + times[0]
        peer = Peer(place, "h", 1, client_id="c", user="alice")
        session = ClientSession(peer, start_ms, START_MS + times[-1])
        for number, at_ms in enumerate(times):
            request = CapturedRequest(METADATA, 9, number + 1, 1, 100, None)
            gap_ms = at_ms - times[number - 1] if number else 0
            think_ms, after = (max(gap_ms - 1, 0), number) if thinks else (gap_ms, 0)
            session.steps.append(
                ClientStep(request, think_ms, after, 1, 60, 0, silent=False, charged=True)
            )
        sessions.append(session)
    return sessions


def poisson(mean_ms: float, seed: int) -> Callable[[], int]:
    """Return think times of independent clients."""
    dice = random.Random(seed)
    return lambda: round(dice.expovariate(1 / mean_ms))


def bursts(size: int, pause_ms: float, seed: int) -> Callable[[], int]:
    """Return think times of clients that send `size` requests back to back on average, then pause."""
    dice = random.Random(seed)

    def think() -> int:
        return round(dice.expovariate(1 / pause_ms)) if dice.random() < 1 / size else 0

    return think


def entity_rows(
    simulation: Simulation, sessions: Sequence[ClientSession], seconds: int, **quota: object
) -> list[dict[str, Any]]:
    """Return the one-second rows of the first `seconds`; `quota` gives the columns of the quota in force."""
    cells: dict[tuple[str, str, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    held: dict[tuple[str, str], int] = defaultdict(int)
    for session in sessions:
        held[session.peer.user, session.peer.client_id] += 1

    def cell(session: int, at_ms: int) -> dict[str, int]:
        peer = sessions[session].peer
        return cells[peer.user, peer.client_id, at_ms // 1000 * 1000]

    for each in simulation.passed:
        request = sessions[each.session].steps[each.step].request
        row = cell(each.session, each.forwarded_ms)
        row["requests"] += 1
        row["charged"] += each.charged
        row["charged_bytes"] += request.size_bytes * each.charged
        if each.delay_ms:
            row["throttled"] += 1
            row["throttle_ms"] += each.delay_ms
            row["throttle_ms_max"] = max(row["throttle_ms_max"], each.delay_ms)
        cell(each.session, each.replied_ms)["response_bytes"] += 60
    for session, since_ms, until_ms in simulation.blocked:
        for second in range(since_ms // 1000, (until_ms - 1) // 1000 + 1):
            spent = min(until_ms, second * 1000 + 1000) - max(since_ms, second * 1000)
            cell(session, second * 1000)["blocked_ms"] += spent
    ends_ms = START_MS + seconds * 1000
    return [
        usage_row(
            "entity",
            user=user,
            client_id=client_id,
            ts_ms=ts_ms,
            connections=held[user, client_id],
            **counts,
            **quota,
        )
        for (user, client_id, ts_ms), counts in sorted(cells.items())
        if ts_ms < ends_ms
    ]


def capture_rows(simulation: Simulation, sessions: Sequence[ClientSession]) -> list[dict[str, Any]]:
    """Return the rows of the family `capture`, without the numbers of the policies' calls after the first."""
    rows = []
    for number, each in enumerate(sorted(simulation.passed, key=lambda p: p.asked_ms), 1):
        peer, step = sessions[each.session].peer, sessions[each.session].steps[each.step]
        held = each.forwarded_ms > each.asked_ms
        rows.append(
            usage_row(
                "capture",
                seq=number,
                event=number,
                now_ms=each.asked_ms,
                session=peer.session_id,
                exchange=step.request.exchange_id,
                user=peer.user,
                client_id=peer.client_id,
                api_key=step.request.api_key,
                api_version=9,
                acks=step.request.acks,
                size_bytes=step.request.size_bytes,
                charged=each.charged,
                delay_ms=each.throttle_ms,
                released_event=[number] if held else [],
                released_ms=[each.forwarded_ms] if held else [],
                replied_event=number,
                replied_ms=each.replied_ms,
                reply_bytes=step.reply_bytes,
                ended_ms=each.replied_ms,
            )
        )
    return rows


def rate_of(simulation: Simulation, seconds: int) -> float:
    """Return how many requests passed per second in the first `seconds`."""
    ends_ms = START_MS + seconds * 1000
    return sum(each.forwarded_ms < ends_ms for each in simulation.passed) / seconds


def recorded_end_ms(rows: Iterable[Mapping[str, Any]]) -> int:
    """Return the end of the last second that has a row."""
    return max(row["ts_ms"] for row in rows) + 1000
