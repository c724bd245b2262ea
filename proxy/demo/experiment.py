"""The demo's second part: a polite producer alone, beside a noisy one, and beside a noisy one with a quota.

Rules:
- The three conditions alternate, a second or so each, so that other load on the machine affects them alike.
- Nothing restarts in between: the same two clients keep their connections; the noisy one starts and stops on command,
  and its quota is set and removed while it sends.
- After each change a settling time is not measured. The burst that a new quota allows is used up before that.
- A sample is what happened between two statuses that each client reported on command. A condition's figures are the
  medians of its samples, so one disturbed sample changes little.
- CPU time is the kernel's (Linux: proc_stat(5), proc_pid_stat(5)); None where it cannot be seen.
"""

from __future__ import annotations

import math
from enum import Enum
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

import trio

from proxy.demo.processes import ClientStatus, DemoError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from proxy.demo.processes import ChildProcess

LIMIT_PER_S = 50.0
BURST = 2 * LIMIT_PER_S
"""Requests that pass at once when the quota begins: `burst_seconds` has its default, 2."""
TIMEOUT_S = 10.0
PROC = Path("/proc")


class Schedule(NamedTuple):
    """How long everything takes."""

    job_s: float
    """The first part: producers and a group of readers."""
    rounds: int
    """Of the experiment; a round has a sample of each condition."""
    settle_s: float = 0.5
    measure_s: float = 1.0

    @property
    def experiment_s(self) -> float:
        """Return how long the experiment takes, in seconds."""
        return self.rounds * len(Condition) * (self.settle_s + self.measure_s)


def schedule_of(seconds: float) -> Schedule:
    """Return a schedule of about so many seconds: up to eight of them for the first part."""
    job_s = min(8.0, seconds / 4)
    one = Schedule(job_s, 1)
    return one._replace(rounds=max(1, round((seconds - job_s) / one.experiment_s)))


class Condition(Enum):
    """The load beside the polite producer."""

    ALONE = "nothing"
    NO_QUOTA = "noisy, no quota"
    QUOTA = "noisy, quota"


class Sample(NamedTuple):
    """One measured interval."""

    records_per_s: float
    """Of the polite producer, acknowledged."""
    p50_ms: float
    p99_ms: float
    """Of the polite producer, from passing a record to the library to its acknowledgement."""
    noisy_per_s: float
    """Requests of the noisy producer, answered."""


class Statuses(NamedTuple):
    """Those of both clients at one moment."""

    polite: ClientStatus
    noisy: ClientStatus


def maybe_percentile_ms(latencies_us: Sequence[int], percent: float) -> float | None:
    """Return the latency that `percent` of all do not exceed; None when there are none."""
    if not latencies_us:
        return None
    rank = math.ceil(len(latencies_us) * percent / 100)
    return sorted(latencies_us)[max(rank, 1) - 1] / 1000


def sample(before: Statuses, after: Statuses) -> Sample:
    """Return what happened in between. Raises DemoError when no record of the polite producer was acked."""
    p50_ms, p99_ms = (maybe_percentile_ms(after.polite.latencies_us, part) for part in (50, 99))
    if p50_ms is None or p99_ms is None:
        raise DemoError("no record of the polite producer was acknowledged")
    acked = after.polite.acked - before.polite.acked
    answered = after.noisy.answered - before.noisy.answered
    return Sample(
        records_per_s=_per_s(acked, after.polite.at_ns - before.polite.at_ns),
        p50_ms=p50_ms,
        p99_ms=p99_ms,
        noisy_per_s=_per_s(answered, after.noisy.answered_at_ns - before.noisy.answered_at_ns),
    )


def _per_s(count: int, interval_ns: int) -> float:
    return count * 1e9 / interval_ns if interval_ns > 0 else 0.0


class Comparison:
    """All samples of all conditions."""

    def __init__(self, limit_per_s: float) -> None:
        self.limit_per_s = limit_per_s
        """The noisy producer's quota."""
        self.samples: dict[Condition, list[Sample]] = {condition: [] for condition in Condition}
        self._others: list[float] = []

    def add(self, condition: Condition, taken: Sample, others: float | None = None) -> None:
        """Enter one sample; `others` is the share of the machine that other programs used, if known."""
        self.samples[condition].append(taken)
        # Without a quota the noisy producer's load takes all there is.
        if others is not None and condition is not Condition.NO_QUOTA:
            self._others.append(others)

    def maybe_medians(self, condition: Condition) -> Sample | None:
        """Return the medians of a condition; None before its first sample."""
        samples = self.samples[condition]
        return Sample(*map(median, zip(*samples, strict=True))) if samples else None

    def others(self) -> float:
        """Return the share of the machine that other programs used, 0 to 1; 0 where it is unknown."""
        return median(self._others) if self._others else 0.0

    def spread(self) -> float:
        """Return how much the polite producer's p50 varies while it is alone: the distance between its quartiles as
        a share of its median. 0 with fewer than four samples: unknown.
        """
        alone = [taken.p50_ms for taken in self.samples[Condition.ALONE]]
        if len(alone) < 4:
            return 0.0
        lower, middle, upper = quantiles(alone, n=4)
        return (upper - lower) / middle


class Progress(NamedTuple):
    """How far the experiment is: the condition of the last sample, and its round, counted from 1."""

    comparison: Comparison
    condition: Condition
    turn: int
    turns: int


class CpuTicks(NamedTuple):
    """Clock ticks since the machine started."""

    total: int
    """Of all CPUs, idle ones too."""
    busy: int
    """Of all processes. Interrupts are left out: most of them are the demo's own loopback traffic."""
    own: int
    """Of the demo's processes."""


def maybe_cpu_ticks(pids: Iterable[int], proc: Path = PROC) -> CpuTicks | None:
    """Return the CPU time used so far; None where it cannot be seen. `pids` are the demo's processes."""
    try:
        line = (proc / "stat").read_text("ascii").splitlines()[0]
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, line.split()[1:9])
        own = sum(_ticks_of(proc / str(pid) / "stat") for pid in pids)
    except (OSError, ValueError):
        return None
    busy = user + nice + system + steal  # a hypervisor's steal counts as another program's
    return CpuTicks(busy + idle + iowait + irq + softirq, busy, own)


def _ticks_of(stat: Path) -> int:
    # The name may hold spaces and parentheses; utime and stime are the 14th and 15th field.
    fields = stat.read_text("utf-8", errors="replace").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def maybe_others_share(before: CpuTicks | None, after: CpuTicks | None) -> float | None:
    """Return the share of the machine that other programs used in between, 0 to 1; None if unknown."""
    if before is None or after is None or after.total == before.total:
        return None
    others = (after.busy - before.busy) - (after.own - before.own)
    return min(1.0, max(0.0, others / (after.total - before.total)))


class Experiment:
    """The two clients, and the noisy one's quota in requests per second (None: no quota)."""

    def __init__(
        self,
        polite: ChildProcess,
        noisy: ChildProcess,
        set_quota: Callable[[float | None], Awaitable[None]],
        cpu_ticks: Callable[[], CpuTicks | None] = lambda: None,
    ) -> None:
        self._polite = polite
        self._noisy = noisy
        self._set_quota = set_quota
        self._cpu_ticks = cpu_ticks

    async def run(
        self, schedule: Schedule, on_sample: Callable[[Progress], None] = lambda _: None
    ) -> Comparison:
        """Take all samples. Raises DemoError when a client fails or gets nothing done."""
        comparison = Comparison(LIMIT_PER_S)
        for turn in range(1, schedule.rounds + 1):
            for condition in Condition:
                await self._change_to(condition)
                await trio.sleep(schedule.settle_s)
                ticks, before = self._cpu_ticks(), await self._statuses()
                await trio.sleep(schedule.measure_s)
                taken = sample(before, await self._statuses())
                others = maybe_others_share(ticks, self._cpu_ticks())
                comparison.add(condition, taken, others)
                on_sample(Progress(comparison, condition, turn, schedule.rounds))
        await self._change_to(Condition.ALONE)
        return comparison

    async def _change_to(self, condition: Condition) -> None:
        if condition is Condition.ALONE:
            await self._noisy.command("stop")
            await self._set_quota(None)  # releases what the quota held back
            await self._until(lambda noisy: not noisy.outstanding)
        elif condition is Condition.NO_QUOTA:
            await self._noisy.command("start")
        else:
            before = (await self._statuses()).noisy.answered
            await self._set_quota(LIMIT_PER_S)
            await self._until(lambda noisy: noisy.answered >= before + BURST)

    async def _until(self, is_reached: Callable[[ClientStatus], bool]) -> None:
        with trio.move_on_after(TIMEOUT_S):
            while not is_reached((await self._statuses()).noisy):  # noqa: ASYNC110 - as below
                await trio.sleep(0.1)  # the client is another process: there is no event

    async def _statuses(self) -> Statuses:
        return Statuses(
            polite=await self._polite.ask("report", ClientStatus, TIMEOUT_S),
            noisy=await self._noisy.ask("report", ClientStatus, TIMEOUT_S),
        )
