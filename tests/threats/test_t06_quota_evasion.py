"""T6: a client that evades its quota by many connections, reconnects, other client ids or other nodes' ports.

A quota counts per user, over all connections and ports, and outlives them. `tests/integration/test_quota_rates.py` has
the same ways before a real Kafka; here time is virtual, and each way runs for sixty seconds.
"""

import pytest
from msgspec import convert

from policies.quota.config import QuotaConfig
from policies.quota.policy import Quota
from proxy.core.engine import Engine
from tests.fuzz.engines import configured
from tests.support.core.memory import Link
from tests.support.messages import frames as f
from tests.support.processes.measured import tell

LIMIT = 100
SECONDS = 60
STEP_MS = 10
WAYS = {
    "one connection": {},
    "fifty connections": {"connections": 50},
    "a connection for each request": {"connections": 20, "reconnects": True},
    "a client id for each request": {"disguised": True},
    "three nodes": {"connections": 3, "nodes": 3},
}


def quota_engine() -> Engine:
    limit = {"user": "mallory", "request_rate": LIMIT}
    return configured((Quota, convert({"quotas": [limit]}, QuotaConfig)))


class Greedy:
    """A connection of mallory's that always has a next request."""

    def __init__(self, engine: Engine, number: int, *, disguised: bool, nodes: int) -> None:
        self.engine, self.number = engine, number
        self.disguised, self.nodes = disguised, nodes
        self.asked = self.passed = 0
        self.connect()

    def connect(self) -> None:
        self.link = Link(self.engine, user="mallory")
        node = self.number % self.nodes
        self.link.session.peer = self.link.session.peer.__class__(
            self.link.session.peer.session_id, "10.0.0.9", 4000, node, user="mallory"
        )
        self.seen = 0

    def step(self, *, reconnects: bool) -> None:
        link = self.link
        if not link.unread and not link.session.client.muted:
            self.asked += 1
            name = f"client{self.asked}" if self.disguised else "mallory"
            link.client(f.heartbeat(self.asked, name))
        for request in f.whole_frames(link.to_broker[self.seen :]):
            self.seen += len(request)
            self.passed += 1
            link.broker(f.heartbeat_reply(int.from_bytes(request[8:12], "big")))
            if reconnects:
                link.session.client_lost(self.engine.now_ms)
                link.release()
                self.connect()
                return


@pytest.mark.parametrize("way", WAYS)
def test_no_way_of_asking_gets_more_than_the_limit(way: str) -> None:
    """In sixty seconds the rate is within +5 and -10 percent of the limit."""
    options = {"connections": 1, "reconnects": False, "disguised": False, "nodes": 1, **WAYS[way]}
    reconnects = bool(options.pop("reconnects"))
    engine = quota_engine()
    crowd = [Greedy(engine, n, **options) for n in range(options.pop("connections"))]  # type: ignore[arg-type]
    for _ in range(SECONDS * 1000 // STEP_MS):
        for each in crowd:
            each.step(reconnects=reconnects)
        crowd[0].link.advance(STEP_MS)
    rate = sum(each.passed for each in crowd) / SECONDS
    tell("T6", f"{way}: {rate:.1f} requests per second at a limit of {LIMIT}")
    assert 0.9 * LIMIT <= rate <= 1.05 * LIMIT
