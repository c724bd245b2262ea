"""Experiment: conditions alternate, the quota holds in one of them only, and is gone at the end."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.demo.experiment import (
    BURST,
    LIMIT_PER_S,
    Comparison,
    Condition,
    CpuTicks,
    Experiment,
    Progress,
    Sample,
    Schedule,
    Statuses,
    maybe_cpu_ticks,
    maybe_others_share,
    maybe_percentile_ms,
    sample,
    schedule_of,
)
from proxy.demo.processes import ClientStatus, DemoError

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

    from proxy.demo.processes import ChildProcess, Command

SECOND_NS = 1_000_000_000
POLITE_MS = {Condition.ALONE: 7.0, Condition.NO_QUOTA: 30.0, Condition.QUOTA: 7.1}
NOISY_PER_S = {Condition.ALONE: 0.0, Condition.NO_QUOTA: 20_000.0, Condition.QUOTA: LIMIT_PER_S}


class World:
    """Two clients and a quota, as a clock and two switches."""

    def __init__(self, clock: MockClock) -> None:
        self.clock = clock
        self.runs = False
        self.limit: float | None = None
        self.outstanding = 0
        """Left over from the flood; every status finds one less."""
        self.answered = 0.0
        self.answered_at_s = 0.0

    @property
    def condition(self) -> Condition:
        if not self.runs:
            return Condition.ALONE
        return Condition.NO_QUOTA if self.limit is None else Condition.QUOTA

    async def set_quota(self, requests_per_s: float | None) -> None:
        self.count()
        self.limit = requests_per_s

    def count(self) -> None:
        """Count what the noisy producer could do since the previous call."""
        now_s = self.clock.current_time()
        self.answered += NOISY_PER_S[self.condition] * (now_s - self.answered_at_s)
        self.answered_at_s = now_s


class Actor:
    """A client of that world."""

    def __init__(self, world: World, *, silent: bool = False) -> None:
        self._world = world
        self._silent = silent

    async def command(self, command: Command) -> None:
        self._world.count()
        self._world.runs = command == "start"
        self._world.outstanding = 3 if command == "stop" else 0

    async def ask(
        self, command: Command, kind: type[ClientStatus], timeout_s: float
    ) -> ClientStatus:
        assert (command, kind) == ("report", ClientStatus)
        assert timeout_s > 0
        world = self._world
        world.count()
        latency_ms = 1000.0 if world.outstanding else POLITE_MS[world.condition]
        world.outstanding = max(0, world.outstanding - 1)
        at_ns = int(world.answered_at_s * 1e9)
        return ClientStatus(
            acked=int(world.answered_at_s * 200),
            latencies_us=[] if self._silent else [int(latency_ms * 1000)],
            at_ns=at_ns,
            answered=int(world.answered),
            answered_at_ns=at_ns,
            outstanding=world.outstanding,
        )


def experiment(world: World, *, silent: bool = False) -> Experiment:
    """Return an experiment in that world."""
    polite, noisy = Actor(world, silent=silent), Actor(world)
    return Experiment(cast("ChildProcess", polite), cast("ChildProcess", noisy), world.set_quota)


async def test_each_condition_is_measured_by_itself(autojump_clock: MockClock) -> None:
    """A condition's figures are the polite latency and the noisy rate during it; what a flood left over is awaited."""
    world = World(autojump_clock)
    told: list[Progress] = []

    comparison = await experiment(world).run(Schedule(job_s=0, rounds=3), told.append)

    for condition in Condition:
        medians = comparison.maybe_medians(condition)
        assert medians is not None
        assert medians.p50_ms == POLITE_MS[condition]
        assert medians.noisy_per_s == pytest.approx(NOISY_PER_S[condition], abs=1)
        assert medians.records_per_s == pytest.approx(200)
        assert len(comparison.samples[condition]) == 3
    assert [(each.turn, each.condition) for each in told] == [
        (turn, condition) for turn in (1, 2, 3) for condition in Condition
    ]
    assert comparison.limit_per_s == LIMIT_PER_S


async def test_the_burst_of_a_quota_is_used_up_before_the_sample(autojump_clock: MockClock) -> None:
    """The sample begins after so many replies, however long the noisy producer needs for them."""
    world = World(autojump_clock)
    counted: list[float] = []
    polite, noisy = Actor(world), Actor(world)

    async def set_quota(requests_per_s: float | None) -> None:
        await world.set_quota(requests_per_s)
        counted.append(world.answered)

    def cpu_ticks() -> None:
        counted.append(world.answered)

    made = Experiment(
        cast("ChildProcess", polite), cast("ChildProcess", noisy), set_quota, cpu_ticks
    )
    await made.run(Schedule(job_s=0, rounds=1, settle_s=0.1))

    with_quota = counted[-4:]  # set; before and after its sample; removed
    assert with_quota[1] - with_quota[0] >= BURST


async def test_the_quota_is_gone_at_the_end(autojump_clock: MockClock) -> None:
    """The noisy producer stops and has no quota, so that what was held back is answered."""
    world = World(autojump_clock)

    await experiment(world).run(Schedule(job_s=0, rounds=1))

    assert (world.runs, world.limit) == (False, None)


async def test_other_programs_are_measured_during_each_sample(autojump_clock: MockClock) -> None:
    """Their share is that of the measured times, not of the settling times in between."""
    world = World(autojump_clock)
    looks = iter(range(100))

    def cpu_ticks() -> CpuTicks:
        look = next(looks)  # even ones begin a sample, odd ones end it
        return CpuTicks(total=100 * look, busy=40 * look, own=10 * look)

    polite, noisy = Actor(world), Actor(world)
    made = Experiment(
        cast("ChildProcess", polite), cast("ChildProcess", noisy), world.set_quota, cpu_ticks
    )
    comparison = await made.run(Schedule(job_s=0, rounds=2))

    assert comparison.others() == pytest.approx(0.3)
    assert next(looks) == 2 * 2 * len(Condition)


async def test_a_silent_polite_producer_ends_the_experiment(autojump_clock: MockClock) -> None:
    """Without an acknowledgement there is no latency, and none is made up."""
    with pytest.raises(DemoError, match="polite"):
        await experiment(World(autojump_clock), silent=True).run(Schedule(job_s=0, rounds=1))


@pytest.mark.parametrize("seconds", [1, 10, 40, 120])
def test_a_schedule_takes_about_as_long_as_asked(seconds: float) -> None:
    """Both parts together take the time that was asked for, with at least one round."""
    schedule = schedule_of(seconds)

    assert schedule.rounds >= 1
    assert schedule.job_s <= 8
    one_round_s = schedule.experiment_s / schedule.rounds
    assert abs(schedule.job_s + schedule.experiment_s - seconds) < one_round_s


def status(at_s: float, count: int, *latencies_us: int) -> ClientStatus:
    """Return a status of a client that has `count` acks and answers at a time."""
    at_ns = int(at_s * SECOND_NS)
    return ClientStatus(
        acked=count,
        latencies_us=list(latencies_us),
        at_ns=at_ns,
        answered=count,
        answered_at_ns=at_ns - 50_000_000,
    )


def test_a_sample_is_what_happened_between_two_statuses() -> None:
    """Rates are differences over the clients' own times; latencies are those of the later status."""
    before = Statuses(polite=status(10, 1000, 99_000), noisy=status(10, 50_000))
    after = Statuses(polite=status(12, 1400, 7_000), noisy=status(11, 50_100))

    assert sample(before, after) == Sample(200, 7, 7, 100)


def test_a_count_that_was_not_renewed_gives_no_rate() -> None:
    """Two statuses with the same count of the library give 0, not a division by zero."""
    noisy = status(10, 5)
    before = Statuses(polite=status(10, 0), noisy=noisy)

    assert sample(before, Statuses(polite=status(11, 1, 5_000), noisy=noisy)).noisy_per_s == 0


@given(
    st.lists(st.integers(0, 60_000_000), min_size=1, max_size=200),
    st.sampled_from([50, 90, 99, 100]),
)
def test_a_percentile_is_a_measured_value(latencies_us: list[int], percent: int) -> None:
    """At least `percent` of all latencies are no larger, and no smaller measured value has that property."""
    found = maybe_percentile_ms(latencies_us, percent)

    assert found is not None
    needed = len(latencies_us) * percent / 100
    assert sum(each / 1000 <= found for each in latencies_us) >= needed
    assert sum(each / 1000 < found for each in latencies_us) < needed
    assert maybe_percentile_ms([], percent) is None


def test_a_condition_is_told_by_its_medians() -> None:
    """One disturbed sample of five moves no figure beyond its neighbours."""
    comparison = Comparison(limit_per_s=100)
    for value in (5.0, 6.0, 500.0, 7.0, 8.0):
        comparison.add(Condition.QUOTA, Sample(200 + value, value, 2 * value, 100 + value))

    assert comparison.maybe_medians(Condition.QUOTA) == Sample(207, 7, 14, 107)
    assert comparison.maybe_medians(Condition.ALONE) is None


def test_the_share_of_others_is_a_median_of_the_quiet_conditions() -> None:
    """Samples without a quota are left out; what is unknown counts as nothing."""
    comparison = Comparison(limit_per_s=100)
    for others in (0.02, 0.04, 0.9):
        comparison.add(Condition.ALONE, Sample(200, 7, 9, 0), others)
        comparison.add(Condition.NO_QUOTA, Sample(200, 7, 9, 0), 1.0)
        comparison.add(Condition.QUOTA, Sample(200, 7, 9, 0), None)

    assert comparison.others() == 0.04
    assert Comparison(limit_per_s=100).others() == 0


@pytest.mark.parametrize(
    ("p50s", "spread"),
    [([10] * 5, 0), ([8, 9, 10, 11, 12], 0.3), ([10] * 7 + [99], 0), ([1, 9], 0)],
    ids=["steady", "varying", "one disturbed", "too few to know"],
)
def test_the_spread_is_the_distance_of_the_quartiles(p50s: list[float], spread: float) -> None:
    """A steady machine has none, one disturbed sample changes nothing, and only samples alone count."""
    comparison = Comparison(limit_per_s=100)
    for value in p50s:
        comparison.add(Condition.ALONE, Sample(200, value, value, 0))
        comparison.add(Condition.NO_QUOTA, Sample(200, 100 * value * value, value, 0))

    assert comparison.spread() == pytest.approx(spread)


def write(proc: Path, line: str, used: dict[int, tuple[int, int]]) -> None:
    """Make a /proc with this first line of stat, and processes that used so much CPU time."""
    proc.mkdir(exist_ok=True)
    (proc / "stat").write_text(f"{line}\ncpu0 1 2 3\n")
    for pid, (user, system) in used.items():
        (proc / str(pid)).mkdir(exist_ok=True)
        fields = ["S", *["0"] * 10, str(user), str(system), *["0"] * 30]
        (proc / str(pid) / "stat").write_text(f"{pid} (a (b) c) {' '.join(fields)}")


def test_cpu_time_is_the_demos_an_interrupts_or_others(tmp_path: Path) -> None:
    """Steal counts as others', interrupts as nothing; names with parentheses are parsed."""
    write(tmp_path, "cpu 100 0 100 1000 0 10 10 0 0 0", {7: (50, 20), 8: (10, 0)})
    before = maybe_cpu_ticks([7, 8], tmp_path)
    write(tmp_path, "cpu 130 10 110 1100 0 40 20 10 0 0", {7: (60, 25), 8: (15, 0)})
    after = maybe_cpu_ticks([7, 8], tmp_path)

    assert before == CpuTicks(total=1220, busy=200, own=80)
    assert after == CpuTicks(total=1420, busy=260, own=100)
    assert maybe_others_share(before, after) == pytest.approx((60 - 20) / 200)


def test_cpu_time_that_cannot_be_seen_is_unknown(tmp_path: Path) -> None:
    """It is None without /proc, for a process that has ended, or between two reads in one tick."""
    write(tmp_path / "proc", "cpu 1 1 1 1 1 1 1 1", {7: (1, 1)})
    seen = maybe_cpu_ticks([7], tmp_path / "proc")

    assert maybe_cpu_ticks([7], tmp_path / "nowhere") is None
    assert maybe_cpu_ticks([9], tmp_path / "proc") is None
    assert maybe_others_share(None, seen) is None
    assert maybe_others_share(seen, seen) is None


def test_the_share_of_others_is_never_negative() -> None:
    """The kernel's two counts are not taken at the same moment."""
    assert maybe_others_share(CpuTicks(0, 0, 0), CpuTicks(100, 20, 30)) == 0.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this /proc")
def test_this_process_has_used_some() -> None:
    """The real /proc can be read."""
    used = maybe_cpu_ticks([os.getpid()])

    assert used is not None
    assert 0 < used.own <= used.busy <= used.total
