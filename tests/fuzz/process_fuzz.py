"""A real `sluice run` between hostile clients and a lying broker, with honest clients beside them.

Everything is on: a quota, metrics, traces into a file, a usage log, topic names, small pools. These rules must hold:

- The process lives, its log has no traceback, its metrics count no internal error and no policy's.
- Each honest client gets exactly its own replies, all the time.
- No host but ours stands in what the hostile ones receive.
- Afterwards only clients are left that the broker throttles. When it closes its connections, too, connections,
  descriptors, pools and parked requests are where they were, and the process is idle.

How long an honest request took is told (`Outcome`), and judged by `make fuzz` only: no test depends on the machine.
"""

import json
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from bench.harness.ports import free_ports
from bench.harness.processes import module_process
from tests.support.faults.honest import Crowd, Honest
from tests.support.kafka.load import await_that
from tests.support.processes.measured import metrics_of
from tests.support.processes.sluice_process import NODES, SluiceProcess

HONEST: Final = 3
PAUSE_SECONDS: Final = 0.005
POOL_BYTES: Final = 4 << 20
IDLE_SECONDS: Final = 1.0
IDLE_SHARE_MAX: Final = 0.5
"""Of a core; a loop that spins takes all that it is given. A busy machine gives less, so this fails nothing good."""
SPARE_DESCRIPTORS: Final = 4
ROOT: Final = Path(__file__).parents[2]
_POLICIES: Final = [
    {"use": "limits", "config": {"forbidden_apis": ["DeleteTopics"], "request_max_bytes": 1 << 20}},
    {
        "use": "quota",
        "config": {
            "quotas": [
                {"client_id": "noisy", "request_rate": 1000, "producer_byte_rate": 10_000_000}
            ],
            "admins": ["ANONYMOUS"],
        },
    },
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of a run; `waits_s` are the honest requests' times, sorted."""

    connections: int
    frames: int
    replies: int
    waits_s: list[float]
    cpu_s: float
    growth_bytes: int

    def p99_ms(self) -> float:
        """The 99th percentile of the honest requests' times, in milliseconds."""
        return self.waits_s[len(self.waits_s) * 99 // 100] * 1000

    def __str__(self) -> str:
        return (
            f"{self.connections} hostile connections, {self.frames} frames, {self.replies} replies; "
            f"{len(self.waits_s)} honest requests, p50 {self.waits_s[len(self.waits_s) // 2] * 1000:.1f} ms, "
            f"p99 {self.p99_ms():.1f} ms, longest {self.waits_s[-1] * 1000:.0f} ms; "
            f"{self.cpu_s:.1f} s of CPU, memory {self.growth_bytes / (1 << 20):+.1f} MiB"
        )


class Fuzzed:
    """A Sluice before `upstream`, and its figures."""

    def __init__(self, upstream: str, directory: Path) -> None:
        self._admin = f"127.0.0.1:{free_ports()}"
        self.sluice = SluiceProcess(
            upstream,
            directory,
            variables={
                "SLUICE_ADMIN_LISTEN": self._admin,
                "SLUICE_POLICIES": json.dumps(_POLICIES),  # JSON is YAML
                "SLUICE_MEMORY_QUEUED_MAX_REQUEST_BYTES": str(POOL_BYTES),
                "SLUICE_MEMORY_QUEUED_MAX_RESPONSE_BYTES": str(POOL_BYTES),
                "SLUICE_MEMORY_REQUEST_READ_TIMEOUT_MS": "3000",
                "SLUICE_UPSTREAM_REQUEST_TIMEOUT_MS": "15000",
                "SLUICE_UPSTREAM_SOCKET_CONNECTION_SETUP_TIMEOUT_MS": "20000",
                "SLUICE_PURGATORY_MAX_WAIT_MS": "3000",
                "SLUICE_PURGATORY_SILENCE_MS": "3000",
                "SLUICE_TRACES_FILE": str(directory / "traces.jsonl"),
                "SLUICE_TRACES_SAMPLE_EVERY_REQUESTS": "10",
                "SLUICE_TRACES_SLOW_MS": "1",
                "SLUICE_USAGE_LOG_DIRECTORY": str(directory / "usage"),
                "SLUICE_USAGE_LOG_FAMILIES": "entity,api,instance,topic",
            },
        )
        self.sluice.start()
        self._process = psutil.Process(self.sluice.pid)

    def metrics(self) -> dict[str, float]:
        """Return the sum of each family's samples, for gauges and counters."""
        return metrics_of(self._admin)

    def await_throttled(self) -> None:
        """Wait until the only connections are those that are throttled: on the word of the broker that may be long."""

        def are_throttled() -> bool:
            muted = metrics_of(self._admin, reason="throttled").get("sluice_connections_muted", 0)
            return self.metrics()["sluice_connections"] <= muted

        await_that(are_throttled, "the end of all but throttled connections")

    def descriptors(self) -> int:
        """Return how many descriptors are open."""
        return self._process.num_fds()

    def cpu_s(self) -> float:
        """Return the CPU seconds spent so far."""
        times = self._process.cpu_times()
        return times.user + times.system

    def rss_bytes(self) -> int:
        """Return the resident bytes."""
        return self._process.memory_info().rss

    def await_rest(self, descriptors: int) -> None:
        """Wait until connections, descriptors, pools and held requests are back at rest."""
        gauges = (
            "sluice_connections",
            "sluice_pool_used_bytes",
            "sluice_purgatory_delayed_operations",
        )

        def rests() -> bool:
            now = self.metrics()
            return (
                not any(now[name] for name in gauges)
                and self.descriptors() <= descriptors + SPARE_DESCRIPTORS
            )

        try:
            await_that(rests, "everything to be given back")
        except AssertionError:
            now = self.metrics()
            held = {name: now[name] for name in gauges}
            raise AssertionError(
                f"{held}, {self.descriptors()} descriptors of {descriptors}"
            ) from None

    def check(self) -> None:
        """Check that Sluice had no fault of its own and is idle."""
        now = self.metrics()
        for name in ("sluice_internal_errors_total", "sluice_policy_errors_total"):
            assert not now.get(name), f"{name} {now[name]}: {self.sluice.said()[-4000:]}"
        said = self.sluice.said()
        assert "Traceback" not in said, said
        assert "internal_error" not in said, said
        began, busy = time.monotonic(), self.cpu_s()
        threading.Event().wait(IDLE_SECONDS)
        share = (self.cpu_s() - busy) / (time.monotonic() - began)
        assert share < IDLE_SHARE_MAX, f"idle, it takes {share:.2f} of a core"


def attack(port: int, seed: int, wild: float, seconds: float) -> dict[str, int]:
    """Return the figures that the hostile clients report after so many seconds."""
    arguments = [str(each) for each in (port, NODES, seed, wild, seconds)]
    command = [sys.executable, "-m", "tests.fuzz.hostile_client", *arguments]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, int] = json.loads(ended.stdout)
    problems = told.pop("problems")
    assert not problems, problems
    return told


def fuzz(directory: Path, seed: int, seconds: float, *, wild: float, lies: float) -> Outcome:
    """Attack a new Sluice; `wild` is the share of mutated requests, `lies` that of wrong replies."""
    with ExitStack() as broker:
        upstream = broker.enter_context(
            module_process("tests.fuzz.lying_broker", str(seed), str(lies))
        )
        fuzzed = Fuzzed(upstream, directory)
        sluice = fuzzed.sluice
        try:
            with Honest(sluice.port) as first:
                first.ask()  # so that what is opened once is open now
            descriptors, rss, cpu = fuzzed.descriptors(), fuzzed.rss_bytes(), fuzzed.cpu_s()
            with Crowd(sluice.port, HONEST, pause_s=PAUSE_SECONDS) as honest:
                told = attack(sluice.port, seed, wild, seconds)
            outcome = Outcome(
                waits_s=sorted(honest.waits_s),
                cpu_s=fuzzed.cpu_s() - cpu,
                growth_bytes=fuzzed.rss_bytes() - rss,
                **told,
            )
            fuzzed.await_throttled()
            broker.close()  # as a broker that has heard nothing for long
            fuzzed.await_rest(descriptors)
            fuzzed.check()
            return outcome
        finally:
            sluice.stop()
