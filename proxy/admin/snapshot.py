"""A snapshot of all connections: totals, and the few connections that are listed.

Rules:
- The event loop must not wait: other tasks run after every SLICE sessions. So the totals span the time that the
  snapshot took (up to a quarter of a second), and a session that ends meanwhile is left out.
- Only the fields of a session that are shown are kept.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING, Literal

import trio

from proxy.admin.schemas import Age, ConnectionRow, Waiting
from proxy.core.session.channel import Mute
from proxy.core.session.exchange import Exchange
from proxy.core.session.mutes import mute_reasons
from proxy.host_port import host_port
from proxy.shell.endpoint import tls_of
from wire.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from proxy.core.engine import Engine
    from proxy.core.session.session import Session

SLICE = 100
LISTED = 200
OLDEST = 20
AGES_MS: tuple[int | None, ...] = (10, 100, 500, 1000, 5000, 30_000, None)
MAX_NAME_CHARS = 249
_MUTES = [(name, bit) for name, bit in vars(Mute).items() if isinstance(bit, int)]

Kind = Literal["hold", "produce", "fetch"]


class Snapshot:
    """Totals over all connections, and the connections to list: muted ones first, then those with most in flight."""

    def __init__(self, now_ms: int, opened_ms: Mapping[int, int], listed: int = LISTED) -> None:
        self.total = 0
        self.muted: Counter[str] = Counter()
        self.throttled: Counter[tuple[str, str]] = Counter()
        """Connections that are muted by a quota, by user and client id."""
        self.by_node: Counter[int | None] = Counter()
        self.waiting: Counter[Kind] = Counter()
        self._ages = [0] * len(AGES_MS)
        self._now_ms = now_ms
        self._opened_ms = opened_ms
        self._listed = listed
        self._top: list[tuple[tuple[int, int], int, Session]] = []
        self._oldest: list[tuple[int, int, Waiting]] = []
        self._serial = 0

    def add(self, session: Session) -> None:
        """Add one session."""
        self.total += 1
        peer = session.peer
        self.by_node[peer.node_id] += 1
        muted = mute_reasons(session)
        if not (muted or session.queue):  # most sessions are idle: listed if there is room
            if len(self._top) < self._listed:
                heappush(self._top, ((0, -peer.session_id), peer.session_id, session))
            return
        if muted:
            for name, bit in _MUTES:
                if muted & bit:
                    self.muted[name] += 1
            if muted & Mute.THROTTLED:
                self.throttled[peer.user, peer.client_id] += 1
        held = session.held
        if held is not None:
            quota = held.throttled is not None
            if quota and not muted & Mute.THROTTLED:
                self.throttled[peer.user, peer.client_id] += 1
            what = "its quota" if quota else _named(held.watched)
            self._wait(session, "hold", held.exchange.plan.api.name, held.since_us // 1000, what)
        for exchange in session.queue:
            if isinstance(exchange, Exchange) and exchange.plan.wait_ms:
                fetch = exchange.plan.api.key == ApiKey.FETCH
                self._wait(
                    session,
                    "fetch" if fetch else "produce",
                    exchange.plan.api.name,
                    exchange.arrived_ms,
                    "records, or its time" if fetch else "the broker",
                )
        # Busiest first; of equals the oldest, so that the list does not jump.
        rank = (len(session.queue) + (1000 if muted else 0), -peer.session_id)
        push = heappush if len(self._top) < self._listed else heappushpop
        push(self._top, (rank, peer.session_id, session))

    def connections(self) -> list[ConnectionRow]:
        """Return the rows of the listed connections, by id."""
        sessions = sorted((each[2] for each in self._top), key=lambda s: s.peer.session_id)
        return [connection_of(each, self._now_ms, self._opened_ms) for each in sessions]

    def ages(self) -> list[Age]:
        """Return the distribution of the waiting times."""
        return [Age(le_ms, count) for le_ms, count in zip(AGES_MS, self._ages, strict=True)]

    def oldest(self) -> list[Waiting]:
        """Return the requests that have waited longest, the longest first."""
        return [each[2] for each in sorted(self._oldest, reverse=True)]

    def _wait(self, session: Session, kind: Kind, api: str, since_ms: int, what: str) -> None:
        self.waiting[kind] += 1
        age_ms = max(0, self._now_ms - since_ms)
        for place, le_ms in enumerate(AGES_MS):
            if le_ms is None or age_ms <= le_ms:
                self._ages[place] += 1
                break
        if len(self._oldest) == OLDEST and age_ms <= self._oldest[0][0]:
            return
        peer = session.peer
        row = Waiting(
            peer.session_id, peer.user, peer.client_id[:MAX_NAME_CHARS], api, kind, age_ms,
            what[:MAX_NAME_CHARS],
        )  # fmt: skip
        self._serial += 1
        push = heappush if len(self._oldest) < OLDEST else heappushpop
        push(self._oldest, (age_ms, -self._serial, row))


def connection_of(session: Session, now_ms: int, opened_ms: Mapping[int, int]) -> ConnectionRow:
    """Return the row of a session."""
    peer, client, broker = session.peer, session.client, session.broker
    client_tls, broker_tls = tls_of(session)
    since_ms = opened_ms.get(peer.session_id)
    return ConnectionRow(
        peer.session_id,
        host_port(peer.host, peer.port),
        peer.user[:MAX_NAME_CHARS],
        peer.principal_source,
        peer.proof,
        peer.client_id[:MAX_NAME_CHARS],
        client_tls,
        broker_tls,
        peer.node_id,
        len(session.queue),
        client.unsent_bytes,
        broker.unsent_bytes,
        len(client.carry) + len(broker.carry),
        [name for name, bit in _MUTES if mute_reasons(session) & bit],
        None if since_ms is None else max(0, now_ms - since_ms) // 1000,
    )


def _named(key: Hashable) -> str:
    """Return a watch key as text; most keys are objects of a policy."""
    return key if isinstance(key, str) else type(key).__name__.strip("_").lower()


async def take_snapshot(
    engine: Engine, opened_ms: Mapping[int, int], listed: int = LISTED
) -> Snapshot:
    """Return a snapshot of all connections, taken in slices."""
    taken = Snapshot(engine.now_ms, opened_ms, listed)
    for place, session in enumerate(tuple(engine.sessions)):
        if place % SLICE == SLICE - 1:
            await trio.lowlevel.checkpoint()
        if not session.ended:
            taken.add(session)
    return taken
