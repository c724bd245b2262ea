"""The CPU cost of a policy on the request path, in one process (`bench.in_process`).

A figure that compares two cases is computed inside each round; then the median over the rounds is taken.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.harness.figures import Spread, spread
from bench.in_process import BATCH, SessionLoop
from policies.chain import Chain
from policies.registry import PolicyEntry, build
from policies.testing import BenchHost, BenchReporter
from proxy.core.engine import Engine
from proxy.core.observer import Observer
from proxy.core.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

REQUESTS: Final = 16_000
ROUNDS: Final = 15
UNREACHED: Final = {"user": "<default>", "request_rate": 1e9}
"""A limit that no client reaches."""


@dataclass(frozen=True, slots=True)
class Case:
    """One set-up of the policy chain. The clock advances by a millisecond before each batch."""

    name: str
    quotas: tuple[dict[str, object], ...] = ()
    enforcement: str = "entity"
    batch: int = BATCH
    burst_seconds: float = 2.0
    """With 0, and a request each millisecond of a quota of 1,000/s, each request is throttled for a millisecond."""


UNTHROTTLED: Final = "request_rate, no throttling"
THROTTLED: Final = "each request throttled and its channel unmuted, one at a time"
NOTHING: Final = Case("no policy")
ALONE: Final = Case("no policy, one request at a time", batch=1)
CASES: Final = (
    NOTHING,
    Case(
        "a quota that does not apply to this API",
        ({"user": "<default>", "consumer_byte_rate": 1e9},),
    ),
    Case(UNTHROTTLED, (UNREACHED,)),
    Case(
        "request_rate and producer_byte_rate, no throttling",
        ({**UNREACHED, "producer_byte_rate": 1e12},),
    ),
    Case("request_rate, no throttling, enforcement: channel", (UNREACHED,), "channel"),
    ALONE,
    Case(THROTTLED, ({"user": "<default>", "request_rate": 1000.0},), batch=1, burst_seconds=0.0),
)


class _Host(BenchHost):
    """Gives the policies the engine's clock and timers."""

    engine: Engine

    def wake(self, key: Hashable) -> int:
        return self.engine.wake(key)

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        self.engine.timers.arm(at_ms, call)

    def reconsider(self) -> None:
        self.engine.reconsider()


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of CPU per request and reply: the total, and what the policy adds (None for a yardstick)."""

    name: str
    own: Spread
    added: Spread | None


def measure(rounds: int = ROUNDS, requests: int = REQUESTS) -> list[Cost]:
    """Measure every case; return the costs in the order of CASES."""
    runs = [_Run(case, requests) for case in CASES]
    taken: dict[str, list[float]] = {case.name: [] for case in CASES}
    for run in runs:
        run.go()  # makes the plans and warms the caches
    for _ in range(rounds):
        for run in runs:
            taken[run.case.name].append(run.go())
    rows = []
    for case in CASES:
        base = NOTHING if case.batch == BATCH else ALONE
        added = [a - b for a, b in zip(taken[case.name], taken[base.name], strict=True)]
        rows.append(
            Cost(case.name, spread(taken[case.name]), None if case is base else spread(added))
        )
    return rows


class _Run:
    def __init__(self, case: Case, requests: int) -> None:
        self.case = case
        self._batches = requests // case.batch
        self._reporter = BenchReporter()
        host = _Host()
        config = {
            "enforcement": case.enforcement,
            "quotas": list(case.quotas),
            "burst_seconds": case.burst_seconds,
        }
        use = [PolicyEntry(use="quota", config=config)] if case.quotas else []
        topology = Topology("127.0.0.1", 19092, {}, Observer())
        chain = Chain(build(use, host), self._reporter)
        host.engine = Engine(topology, chain, Observer())
        self._loop = SessionLoop(
            case.name, host.engine, case.batch, throttles=case.name == THROTTLED
        )

    def go(self) -> float:
        """Return microseconds of CPU per request and reply."""
        gc.collect()
        gc.disable()
        taken_ns = self._loop.run(self._batches, time.process_time_ns)
        gc.enable()
        reporter = self._reporter
        if reporter.errors or reporter.observed or reporter.refused:
            raise RuntimeError(f"{self.case.name}: a policy failed or refused a request")
        return taken_ns / 1000 / (self._batches * self.case.batch)


if __name__ == "__main__":
    for cost in measure():
        added = "" if cost.added is None else f"+ {cost.added.text(2)}"
        print(f"{cost.name:65} {cost.own.text(2):25} {added}")
