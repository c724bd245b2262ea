"""What a policy costs on the request path: one session in this process, no socket, no kernel.

Rules: a Produce v9 of 100 bytes and its reply through the same Session, in batches as the hub hands
them over; what compares two cases is taken inside each round, then the median over rounds. The
clock the session sees is turned by hand, so a throttle of a second takes no time.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from struct import pack
from typing import TYPE_CHECKING

from bench.figures import Spread, spread
from policies.chain import Chain
from policies.registry import PolicyEntry, build
from proxy.core.engine import Engine
from proxy.core.observer import Observer
from proxy.core.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from policies.api import Peer, QuotaViolation
    from policies.decision import PolicyDecision

BATCH = 16
REQUESTS = 16_000
ROUNDS = 15
NEVER = 1e9
"""A limit that nobody reaches."""


@dataclass(frozen=True, slots=True)
class Case:
    """One way to set the chain up. The clock goes on by a millisecond before each batch."""

    name: str
    quotas: tuple[dict[str, object], ...] = ()
    enforcement: str = "entity"
    batch: int = BATCH
    burst_seconds: float = 2.0
    """With 0, and a clock that goes on as the quota does, each request is throttled for a millisecond."""


UNTHROTTLED = "request_rate, nobody throttled"
THROTTLED = "each request throttled and its channel unmuted, one at a time"
NOTHING = Case("no policy")
ALONE = Case("no policy, one request at a time", batch=1)
CASES = (
    NOTHING,
    Case(
        "a quota that is no business of this API",
        ({"user": "<default>", "consumer_byte_rate": 1e9},),
    ),
    Case(UNTHROTTLED, ({"user": "<default>", "request_rate": NEVER},)),
    Case(
        "request_rate and producer_byte_rate, nobody throttled",
        ({"user": "<default>", "request_rate": NEVER, "producer_byte_rate": 1e12},),
    ),
    Case(
        "request_rate, nobody throttled, enforcement: channel",
        ({"user": "<default>", "request_rate": NEVER},),
        "channel",
    ),
    ALONE,
    Case(
        THROTTLED,
        ({"user": "<default>", "request_rate": 1000.0},),
        batch=1,
        burst_seconds=0.0,
    ),
)


class _Services:
    """What policies are given; nothing of it is used on this path but the clock."""

    engine: Engine

    def wake(self, key: Hashable) -> int:
        return self.engine.wake(key)

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        self.engine.timers.arm(at_ms, call)

    def reconsider(self) -> None:
        self.engine.reconsider()

    def review_throttles(self, until_ms: Callable[[Peer, QuotaViolation], float]) -> None:
        raise AssertionError("no quota is changed here")

    def load(self, path: str) -> bytes | None:
        raise AssertionError(f"no policy here has a file of its own: {path}")

    def save(self, path: str, data: bytes) -> None:
        raise AssertionError(f"no policy here has a file of its own: {path}")


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of CPU a request and its reply: all of it, and what the policy adds (None: it is the yardstick)."""

    name: str
    own: Spread
    added: Spread | None


def measure(rounds: int = ROUNDS, requests: int = REQUESTS) -> list[Cost]:
    """Every case, in the order of CASES."""
    runs = [_Run(case, requests) for case in CASES]
    taken: dict[str, list[float]] = {case.name: [] for case in CASES}
    for run in runs:
        run.go()  # plans are made, caches are warm
    for _ in range(rounds):
        for run in runs:
            taken[run.case.name].append(run.go())
    rows = []
    for case in CASES:
        base = NOTHING if case.batch == BATCH else ALONE
        added = [a - b for a, b in zip(taken[case.name], taken[base.name], strict=True)]
        own = spread(taken[case.name])
        assert own is not None
        rows.append(Cost(case.name, own, None if case is base else spread(added)))
    return rows


class _Run:
    def __init__(self, case: Case, requests: int) -> None:
        self.case = case
        self.batches = requests // case.batch
        services = _Services()
        config = {
            "enforcement": case.enforcement,
            "quotas": list(case.quotas),
            "burst_seconds": case.burst_seconds,
        }
        use = [PolicyEntry(use="quota", config=config)] if case.quotas else []
        topology = Topology("127.0.0.1", 19092, {}, Observer())
        chain = Chain(build(use, services), _Reporter())
        self.engine = services.engine = Engine(topology, chain, Observer())
        session = self.engine.connect("127.0.0.1", 40000, None)
        if session is None:
            raise RuntimeError("refused")
        self.session = session
        self.requests = bytearray(_produce() * case.batch)
        self.replies = bytearray(_reply() * case.batch)
        self.now_ms = 1000

    def go(self) -> float:
        """Microseconds a request and reply."""
        session, engine = self.session, self.engine
        requests, replies = self.requests, self.replies
        size, answer, now_ms = len(requests), len(replies), self.now_ms
        muted = 0
        gc.collect()
        gc.disable()
        begun = time.process_time_ns()
        for _ in range(self.batches):
            now_ms += 1
            engine.advance(now_ms)
            sent = session.from_client(requests, 0, size, now_ms)
            muted |= session.client.muted
            left = session.from_broker(replies, 0, answer, now_ms)
            if sent != size or left != answer:
                break  # something was kept, which nobody has asked for
            while engine.ready:
                engine.ready.popleft().ready = False
        taken_ns = time.process_time_ns() - begun
        gc.enable()
        self.now_ms = now_ms
        if session.ended or session.queue or (muted == 0) == (self.case.name == THROTTLED):
            raise RuntimeError(f"{self.case.name}: this is not what was to be measured")
        return taken_ns / 1000 / (self.batches * self.case.batch)


class _Reporter:
    def on_policy_error(self, name: str, hook: str, error: BaseException) -> None:
        raise error

    def on_policy_slow(self, name: str, hook: str, api_name: str, took_us: int) -> None:
        """Nobody is slow."""

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        raise AssertionError(
            f"{decision.policy} would have refused, and nothing is to be refused here"
        )

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        raise AssertionError(f"{decision.policy} has refused, and nothing is to be refused here")


def _produce() -> bytes:
    records = bytes(100)
    body = b"\x00" + pack(">hi", -1, 30_000)  # no transactional id, acks=all
    body += (
        b"\x02\x06topic\x02" + pack(">i", 0) + bytes([len(records) + 1]) + records + b"\x00\x00\x00"
    )
    head = pack(">hhi", 0, 9, 1) + pack(">h", 6) + b"client" + b"\x00"
    return pack(">i", len(head) + len(body)) + head + body


def _reply() -> bytes:
    body = b"\x02\x06topic\x02" + pack(">ihqqq", 0, 0, 17, -1, 0) + b"\x01\x00\x00\x00"
    body += pack(">i", 0) + b"\x00"
    return pack(">iix", 5 + len(body), 1) + body


if __name__ == "__main__":
    for cost in measure():
        added = "" if cost.added is None else f"+ {cost.added.text(2)}"
        print(f"{cost.name:65} {cost.own.text(2):25} {added}")
