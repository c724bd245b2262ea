"""The CPU cost of a policy on the request path, in one process (`bench.in_process`).

`python -m bench.path` measures the source and the compiled build (`bench.path_report`).
"""

import json
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.in_process import BATCH, REQUESTS, Cost, SessionLoop
from bench.in_process import measure as measure_all
from policies.chain import Chain
from policies.registry import PolicyEntry, build
from policies.testing import BenchHost, BenchReporter
from proxy import builds
from proxy.core.engine import Engine
from proxy.core.observer import Observer
from proxy.core.topology import Topology

ROUNDS: Final = 15
WORKER: Final = "--one-build"
UNREACHED: Final = {"user": "<default>", "request_rate": 1e9}
"""A limit that no client reaches."""
REACHED: Final = {"user": "<default>", "request_rate": 1000.0}


@dataclass(frozen=True, slots=True)
class Case:
    """One set-up of the policy chain. The clock advances by a millisecond before each batch."""

    name: str
    quotas: tuple[dict[str, object], ...] = ()
    enforcement: str = "entity"
    batch: int = BATCH
    burst_seconds: float = 2.0
    """With 0, and a request each millisecond of a quota of 1,000/s, each request is throttled for a millisecond."""
    defers: bool = True
    """As the event loop does for a client without TLS: a mute begins with early bytes, and there are none."""

    @property
    def throttles(self) -> bool:
        """Whether each request is throttled."""
        return not self.burst_seconds


UNTHROTTLED: Final = "request_rate, no throttling"
TWO_LIMITS: Final = "request_rate and producer_byte_rate, no throttling"
THROTTLED: Final = "each request throttled, the next sent when it may be, one at a time"
MUTED: Final = "each request throttled, its channel muted and unmuted by a timer, one at a time"
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
        TWO_LIMITS,
        ({**UNREACHED, "producer_byte_rate": 1e12},),
    ),
    Case("request_rate, no throttling, enforcement: channel", (UNREACHED,), "channel"),
    ALONE,
    Case(THROTTLED, (REACHED,), batch=1, burst_seconds=0.0),
    Case(MUTED, (REACHED,), batch=1, burst_seconds=0.0, defers=False),
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


def measure(rounds: int = ROUNDS, requests: int = REQUESTS) -> list[Cost]:
    """Measure every case; return the costs in the order of CASES.

    Raises:
        RuntimeError: a policy failed or refused a request.
    """
    reporter = BenchReporter()
    costs = measure_all([_loop(case, requests, reporter) for case in CASES], rounds)
    if reporter.errors or reporter.observed or reporter.refused:
        raise RuntimeError("a policy failed or refused a request")
    return costs


def _loop(case: Case, requests: int, reporter: BenchReporter) -> SessionLoop:
    host = _Host()
    config = {
        "enforcement": case.enforcement,
        "quotas": list(case.quotas),
        "burst_seconds": case.burst_seconds,
    }
    use = [PolicyEntry(use="quota", config=config)] if case.quotas else []
    topology = Topology("127.0.0.1", 19092, {}, Observer())
    host.engine = Engine(topology, Chain(build(use, host), reporter), Observer())
    host.engine.try_expect_early = lambda _: case.defers
    yardstick = (NOTHING if case.batch == BATCH else ALONE).name if case.quotas else ""
    return SessionLoop(
        case.name,
        host.engine,
        yardstick,
        requests=requests,
        batch=case.batch,
        throttles=case.throttles,
    )


def report_json(costs: Sequence[Cost]) -> str:
    """Return the build and the medians in µs of these costs by case, as `bench.path_report` reads them."""
    medians = {
        cost.name: [cost.own.median, None if cost.added is None else cost.added.median]
        for cost in costs
    }
    return json.dumps({"build": builds.running(), "costs": medians})


if __name__ == "__main__":
    if sys.argv[1:2] == [WORKER]:
        print(report_json(measure(int(sys.argv[2]))))
    else:
        from bench.path_report import main

        sys.exit(main())
